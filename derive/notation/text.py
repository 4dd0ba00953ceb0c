"""Formulas as plain text for terminals and messages, and the reading order they share with TeX.

SymPy splits sqrt(2*B*N/F) into sqrt(2)*sqrt(B)*sqrt(N)/sqrt(F) and sorts by the alphabet; readers
want the radical whole and the symbols in the order of the book. `read.expression` reads the text
back as the same expression, so a printed answer can be typed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

import sympy as sp
from sympy.core.relational import Relational

from derive.notation.errors import DeriveError, quoted
from derive.notation.symbols import rank

Factor = tuple[sp.Expr, sp.Rational]
Scaled = tuple[int, tuple[Factor, ...]]  # a number and what it multiplies
SymbolOrder = Callable[[sp.Symbol], tuple[object, ...]]

HALF = sp.Rational(1, 2)
_NAMES = {"Max": "max", "Min": "min", "ceiling": "ceil"}


# --- in reading order


class log2(sp.Function):  # type: ignore[misc]
    """Stands for log(x)/log(2) while a product is being printed."""


@dataclass(frozen=True)
class Quotient:
    """sign * (top / bottom) * sqrt(root_top / root_bottom), each a number and factors in order."""

    negative: bool
    top: Scaled
    bottom: Scaled
    root_top: Scaled
    root_bottom: Scaled

    @property
    def rooted(self) -> bool:
        return self.root_top != (1, ()) or self.root_bottom != (1, ())


def quotient(expr: sp.Expr, order: SymbolOrder = rank) -> Quotient:
    """`expr` as a quotient; anything that is no Mul, power or number is its one factor."""
    coefficient, factors = expr.as_coeff_Mul()
    if not coefficient.is_Rational:
        coefficient, factors = sp.S.One, expr
    radical, outside, inside = 1, [], []
    for base, power in _logs(factors):
        if power == HALF and base.is_Integer and base > 0:
            radical *= int(base)
        elif power.q == 2 and base.is_Symbol and base.is_positive:
            whole = sp.Integer(int(power))  # towards zero: B**(3/2) is B times sqrt(B)
            outside += [(base, whole)] if whole else []
            inside.append((base, sp.sign(power) * sp.S.One))
        else:
            outside.append((base, power))
    # SymPy writes sqrt(2/3) as sqrt(6)/3; what the two share goes back under the radical.
    shared = gcd(radical, int(coefficient.q))
    top, bottom = abs(int(coefficient.p)), int(coefficient.q) // shared
    above, below = _split(outside, order)
    root_above, root_below = _split(inside, order)
    return Quotient(
        coefficient < 0,
        (top, above), (bottom, below), (radical // shared, root_above), (shared, root_below),
    )  # fmt: skip


def _logs(factors: sp.Expr) -> list[Factor]:
    """Base and rational power of every factor, with each log(x)/log(2) made one factor log2(x)."""
    powers: list[Factor] = []
    for factor in sp.Mul.make_args(factors):
        if factor == 1:
            continue
        base, power = (factor.base, factor.exp) if factor.is_Pow else (factor, sp.S.One)
        powers.append((base, power) if power.is_Rational else (factor, sp.S.One))
    halving = next((p for b, p in powers if b == sp.log(2) and p.is_Integer and p < 0), None)
    if halving is None:
        return powers
    left, paired = -halving, []
    for base, power in powers:
        if base == sp.log(2):
            continue
        if isinstance(base, sp.log) and power.is_Integer and power > 0:
            taken = min(left, power)
            left -= taken
            paired += [(log2(base.args[0]), taken)] if taken else []
            paired += [(base, power - taken)] if power != taken else []
        else:
            paired.append((base, power))
    return paired + ([(sp.log(2), -left)] if left else [])


def _split(
    factors: list[Factor], order: SymbolOrder
) -> tuple[tuple[Factor, ...], tuple[Factor, ...]]:
    symbols = sorted((f for f in factors if f[0].is_Symbol), key=lambda factor: order(factor[0]))
    others = [factor for factor in factors if not factor[0].is_Symbol]
    if len(others) > 1:
        others.sort(key=lambda factor: str(factor[0]))
    numbers = [factor for factor in others if factor[0].is_Integer]
    ordered = [*numbers, *symbols, *(factor for factor in others if factor not in numbers)]
    above = tuple((b, p) for b, p in ordered if p > 0)
    return above, tuple((b, -p) for b, p in ordered if p < 0)


def terms(expr: sp.Expr, order: SymbolOrder = rank) -> list[sp.Expr]:
    """The terms of a sum: what is added first, then what is subtracted, constants last in each."""

    def key(term: sp.Expr) -> tuple[object, ...]:
        negative = term.as_coeff_Mul()[0].is_negative is True
        symbols = sorted(order(s) for s in term.free_symbols)
        return (negative, not symbols, symbols, text(term))

    return sorted(sp.Add.make_args(expr), key=key)


def summed(parts: Sequence[str]) -> str:
    """Printed terms joined by plus and minus signs: "a", "-b" and "c" are "a - b + c"."""
    first, *others = parts
    return first + "".join(f" - {p[1:].lstrip()}" if p[0] == "-" else f" + {p}" for p in others)


# --- as text


@lru_cache(maxsize=4096)
def text(expr: sp.Basic) -> str:
    """The formula as it would be typed: "alpha**2/(F*M_X*M_Y)", "sqrt(2*B*N/F)", "B/X >= alpha".

    Raises DeriveError for a float, which no exact formula contains.
    """
    if isinstance(expr, Relational):
        return f"{text(expr.lhs)} {expr.rel_op.replace('==', '=')} {text(expr.rhs)}"
    if expr.is_Float:
        raise DeriveError(f"a formula is exact; found the float {quoted(expr)}")
    if expr.is_Add:
        return summed([text(term) for term in terms(expr)])
    if expr.is_Mul or expr.is_Rational or (expr.is_Pow and expr.exp.is_Rational):
        return _product(quotient(expr))
    if expr.is_Pow:
        return f"{_atom(expr.base)}**{_atom(expr.exp)}"
    if isinstance(expr, (sp.Function, sp.Max, sp.Min)):
        name = type(expr).__name__
        arguments = sorted(expr.args, key=text) if name in ("Max", "Min") else expr.args
        return f"{_NAMES.get(name, name)}({', '.join(text(a) for a in arguments)})"
    return str(expr)


def _product(parts: Quotient) -> str:
    (number, above), (divisor, below) = parts.top, parts.bottom
    root_above, root_below = _factors(*parts.root_top), _factors(*parts.root_bottom)
    numeric = not parts.root_top[1] and not parts.root_bottom[1]
    root = [f"sqrt({_over(root_above, root_below)})"] if root_above else []
    top = [_power(*factor) for factor in above]
    top = [*_factors(number, ()), *(root + top if numeric else top + root)]
    bottom = _factors(divisor, below)
    if root_below and not root_above:
        bottom.append(f"sqrt({_over(root_below, [])})")
    if divisor != 1 and len(bottom) == 2 and below and below[0][0].is_Add and below[0][1] == 1:
        # SymPy would multiply the number into the sum on the way back.
        shown = f"{_over(top, bottom[:1])}/{bottom[1]}"
    else:
        shown = _over(top, bottom)
    return f"-{shown}" if parts.negative else shown


def _factors(number: int, factors: tuple[Factor, ...]) -> list[str]:
    return ([str(number)] if number != 1 else []) + [_power(*factor) for factor in factors]


def _over(above: list[str], below: list[str]) -> str:
    top = "*".join(above) or "1"
    if not below:
        return top
    return f"{top}/{below[0]}" if len(below) == 1 else f"{top}/({'*'.join(below)})"


def _power(base: sp.Expr, power: sp.Rational) -> str:
    if power == 1:
        return _atom(base)
    if power == HALF:
        return f"sqrt({text(base)})"
    return f"{_atom(base)}**{power}" if power.q == 1 else f"{_atom(base)}**({power})"


def _atom(expr: sp.Expr) -> str:
    single = expr.is_Symbol or isinstance(expr, (sp.Function, sp.Max, sp.Min))
    return text(expr) if single or (expr.is_Integer and expr >= 0) else f"({text(expr)})"


# --- rows


def aligned(rows: Sequence[Sequence[str]], align: str = "", gap: str = "  ") -> list[str]:
    """A line for each row, its cells padded to the widest of their column and set apart by `gap`.

    `align` has a letter l or r for each column, left by default; lines end without spaces.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    sides = align or "l" * len(columns)
    return [
        gap.join(
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(row, widths, sides, strict=True)
        ).rstrip()
        for row in rows
    ]
