"""Mathematics in a notebook: bare expressions in the vocabulary's own TeX.

SymPy reads letters such as the "bm" of `M_hbm` as a typeface. Results of derive bring their own
TeX; this gives it to the expressions in them as well.
"""

from __future__ import annotations

import sys
from typing import Any

import sympy as sp

from derive.notation.errors import DeriveError
from derive.notation.tex import tex


def latex(expr: sp.Basic) -> str:
    """The expression for a notebook cell: in the vocabulary's TeX, or SymPy's where that has none.

    Raises nothing: a cell shows what it can.
    """
    try:
        return f"$\\displaystyle {tex(expr)}$"
    except DeriveError:  # symbols of the user's own
        return f"$\\displaystyle {sp.latex(expr)}$"


def install() -> bool:
    """Let a running notebook show SymPy's expressions that way; whether there is one."""
    module = sys.modules.get("IPython")
    shell: Any = module.get_ipython() if module is not None else None
    if shell is None:
        return False
    shell.display_formatter.formatters["text/latex"].for_type(sp.Basic, latex)
    return True
