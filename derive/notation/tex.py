"""Formulas as TeX that GitHub prints, with `text` for those who show both.

Symbols stand in the order of the vocabulary; the counts of torus axes go first, as the literature
has it.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import sympy as sp
from sympy.printing.latex import LatexPrinter

from derive.notation.digits import grouped
from derive.notation.errors import DeriveError, quoted
from derive.notation.symbols import known, rank
from derive.notation.text import Factor, quotient, summed, terms, text

__all__ = ["block", "inline", "latex_of", "tex", "text"]

MAX_LENGTH = 1000
AND = r" \quad\text{and}\quad "

# GitHub's MathJax rejects these, or they cannot work where each formula is rendered by itself.
DENIED = (
    "operatorname", "newcommand", "renewcommand", "providecommand", "def", "gdef", "edef", "let",
    "DeclareMathOperator", "mbox", "phantom", "hphantom", "vphantom", "tag", "label", "ref",
    "eqref", "require", "href", "url", "class", "style", "cssId", "unicode", "include",
)  # fmt: skip
_DENIED = re.compile(rf"\\(?:{'|'.join(DENIED)})(?![A-Za-z])")
_RELATIONS = {"==": "=", ">=": r"\geq", "<=": r"\leq", ">": ">", "<": "<", "!=": r"\neq"}


def _order(letter: sp.Symbol) -> tuple[object, ...]:
    entry = known(letter.name)
    return (entry is None or entry.role != "network", rank(letter))


class _Printer(LatexPrinter):  # type: ignore[misc]
    """SymPy's printer with the book's symbols, order and radicals; refuses what GitHub breaks."""

    def _print_Symbol(self, expr: sp.Symbol, style: str = "plain") -> str:
        entry = known(expr.name)
        if entry is not None and entry.symbol == expr:
            return entry.tex
        return str(super()._print_Symbol(expr, style))

    def _print_Integer(self, expr: sp.Integer) -> str:
        return ("-" if expr < 0 else "") + grouped(str(abs(int(expr))), "{,}")

    _print_int = _print_Integer

    def _print_Float(self, expr: sp.Float) -> str:
        raise DeriveError(f"a formula is exact; found the float {quoted(expr)}")

    def _print_Piecewise(self, expr: sp.Piecewise) -> str:
        raise DeriveError(f"write the cases as separate formulas: {quoted(expr)}")

    def _print_Add(self, expr: sp.Add, order: object = None) -> str:
        return summed([str(self._print(term)) for term in terms(expr, _order)])

    def _print_log(self, expr: sp.log) -> str:
        return rf"\ln\left({self._print(expr.args[0])}\right)"

    def _print_log2(self, expr: sp.Expr) -> str:
        return rf"\log_2\left({self._print(expr.args[0])}\right)"

    def _print_Relational(self, expr: Any) -> str:
        return f"{self._print(expr.lhs)} {_RELATIONS[expr.rel_op]} {self._print(expr.rhs)}"

    def _product(self, expr: sp.Expr) -> str:
        if expr.is_Pow and not expr.exp.is_Rational:
            return rf"{self._based(expr.base)}^{{{self._print(expr.exp)}}}"
        parts = quotient(expr, _order)
        above, below = self._joined(*parts.top), self._joined(*parts.bottom)
        over, under = self._joined(*parts.root_top), self._joined(*parts.root_bottom)
        beside = ""
        if parts.rooted and not over:
            below = rf"{below} \sqrt{{{under}}}".strip()
        elif parts.rooted and below and under:
            beside = rf"\sqrt{{{_over(over, under)}}}"
        elif parts.rooted:
            root = rf"\sqrt{{{_over(over, under)}}}"
            number, symbols = self._joined(parts.top[0], ()), self._joined(1, parts.top[1])
            numeric = not parts.root_top[1] and not parts.root_bottom[1]
            order = (number, root, symbols) if numeric else (number, symbols, root)
            above = " ".join(filter(None, order))
        elif parts.top[0] == 1 and len(parts.top[1]) == 1:
            above = self._joined(*parts.top, alone=True)
        if not parts.rooted and parts.bottom[0] == 1 and len(parts.bottom[1]) == 1:
            below = self._joined(*parts.bottom, alone=True)
        # A lone sum needs its parentheses where a sign, and no bar of a fraction, stands by it.
        if not below and parts.negative:
            above = self._joined(*parts.top) if not parts.rooted else above
        shown = f"{_over(above, below)} {beside}".strip()
        return f"- {shown}" if parts.negative else shown

    _print_Rational = _print_Half = _print_Mul = _print_Pow = _product

    def _joined(self, number: int, factors: tuple[Factor, ...], alone: bool = False) -> str:
        shown = [] if number == 1 else [str(self._print_Integer(sp.Integer(number)))]
        for base, power in factors:
            if power == 1:
                shown.append(self._within(base) if not alone else str(self._print(base)))
            elif isinstance(base, sp.Function) and base.func.__name__ == "log2":
                shown.append(rf"\left({self._print(base)}\right)^{{{power}}}")
            elif power.q == 2 and power.p == 1:
                shown.append(rf"\sqrt{{{self._print(base)}}}")
            else:
                raised = str(power) if power.q == 1 else f"{power.p}/{power.q}"
                shown.append(f"{self._based(base)}^{{{raised}}}")
        joined = ""
        for part in shown:
            # Two numbers side by side would read as one.
            joined += r" \cdot " if joined and part[0].isdigit() else " " if joined else ""
            joined += part
        return joined

    def _within(self, base: sp.Expr) -> str:
        shown = str(self._print(base))
        return rf"\left({shown}\right)" if base.is_Add else shown

    def _based(self, base: sp.Expr) -> str:
        shown = str(self._print(base))
        plain = base.is_Symbol or (base.is_Integer and base >= 0)
        return shown if plain else rf"\left({shown}\right)"


def _over(above: str, below: str) -> str:
    return rf"\frac{{{above or '1'}}}{{{below}}}" if below else above or "1"


def tex(expr: sp.Basic) -> str:
    """The TeX of an expression or a relation, without delimiters.

    Raises DeriveError for floats, Piecewise and functions that GitHub's math cannot print.
    """
    return checked(str(_Printer({"fold_short_frac": False}).doprint(expr)))


def latex_of(thing: object) -> str:
    """The TeX of an expression, a relation, what has TeX (a threshold, an optimum), or several.

    Raises DeriveError for what has no TeX, or TeX that GitHub does not print.
    """
    if isinstance(thing, sp.Basic):
        return tex(thing)
    if isinstance(thing, (tuple, list)) and thing:
        return checked(AND.join(latex_of(part) for part in thing))
    source = getattr(thing, "latex", None)
    if isinstance(source, str):
        return checked(source)
    told = "expected an expression, a relation, a threshold or an optimum"
    raise DeriveError(f"{told}, found {quoted(thing)}")


def checked(source: str) -> str:
    """The same TeX, if GitHub prints it; raises DeriveError naming what it would reject."""
    if len(source) > MAX_LENGTH:
        raise DeriveError(f"TeX of {len(source)} characters, the limit is {MAX_LENGTH}")
    if match := _DENIED.search(source):
        raise DeriveError(f"GitHub does not allow {match[0]} in math: {quoted(source)}")
    if match := re.search(r"[`$|]", source):
        hint = r" (write \vert, \lvert or \rvert)" if match[0] == "|" else ""
        raise DeriveError(f"no {match[0]} inside math{hint}: {quoted(source)}")
    bare = re.sub(r"\\.", "", source, flags=re.DOTALL)
    if bare.count("{") != bare.count("}"):
        raise DeriveError(f"unbalanced braces in TeX: {quoted(source)}")
    return source


def inline(source: str) -> str:
    """TeX inside a sentence, between dollar and backtick, which Markdown leaves alone.

    Raises DeriveError for TeX that GitHub rejects or that has a line break.
    """
    source = checked(source.strip())
    if not source or "\n" in source:
        raise DeriveError(f"inline math is one line and not empty: {quoted(source)}")
    return f"$`{source}`$"


def block(source: str) -> str:
    """A fenced block of math, which keeps the backslashes that end rows, without a final newline;
    raises what `inline` raises but for lines."""
    source = checked(source.strip())
    if not source or re.search(r"\n\s*\n", source):
        raise DeriveError(f"a block of math has no empty lines: {quoted(source)}")
    return f"```math\n{source}\n```"


def cell(expr: sp.Basic) -> str:
    """The expression for a notebook cell: in the vocabulary's TeX, or SymPy's where that has none.

    Raises nothing: a cell shows what it can.
    """
    try:
        return f"$\\displaystyle {tex(expr)}$"
    except DeriveError:  # symbols of the user's own
        return f"$\\displaystyle {sp.latex(expr)}$"


def install_in_notebook() -> bool:
    """Let a running notebook show SymPy's expressions that way; whether there is one. SymPy itself
    reads letters such as the "bm" of `M_hbm` as a typeface."""
    module = sys.modules.get("IPython")
    shell: Any = module.get_ipython() if module is not None else None
    if shell is None:
        return False
    shell.display_formatter.formatters["text/latex"].for_type(sp.Basic, cell)
    return True
