"""What a notebook shows: the vocabulary's TeX for expressions, quantities with their units."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import sympy as sp

from derive.notation import symbols as v
from derive.notation.quantity import number
from derive.notation.tex import cell, install_in_notebook
from derive.notation.units import chip, token


def test_expressions_use_the_vocabulary() -> None:
    assert cell(v.M_hbm / 10) == r"$\displaystyle \frac{M_{\text{hbm}}}{10}$"
    assert "boldsymbol" in sp.latex(v.M_hbm)  # what it is needed for


def test_other_symbols_are_shown_as_sympy_does() -> None:
    assert cell(sp.Symbol("zeta")) == r"$\displaystyle \zeta$"


def test_a_quantity_names_its_symbol_and_its_unit() -> None:
    assert number(2550, token / chip, "B")._repr_latex_() == (
        r"$\displaystyle B = 2{,}550~\text{tokens per chip}$"
    )
    assert number(3)._repr_latex_() == r"$\displaystyle 3$"


def test_install_asks_the_running_notebook_only(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: dict[type, object] = {}
    formatter = SimpleNamespace(for_type=chosen.__setitem__)
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/latex": formatter}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert install_in_notebook()
    assert chosen == {sp.Basic: cell}
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not install_in_notebook()
