"""A product taken apart for reading: sign, fraction, what stands under one radical, and an order.

SymPy splits sqrt(2*B*N/F) into sqrt(2)*sqrt(B)*sqrt(N)/sqrt(F) and sorts by the alphabet; readers
want the radical whole and the symbols in the order of the book. TeX and text share this page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

import sympy as sp

from derive.notation.symbols import rank

Factor = tuple[sp.Expr, sp.Rational]
SymbolOrder = Callable[[sp.Symbol], tuple[object, ...]]

HALF = sp.Rational(1, 2)


class log2(sp.Function):  # type: ignore[misc]
    """Stands for log(x)/log(2) while a product is being printed."""


@dataclass(frozen=True)
class Product:
    """sign * (top / bottom) * sqrt(root_top / root_bottom), each a number and factors in order."""

    negative: bool
    top: tuple[int, tuple[Factor, ...]]
    bottom: tuple[int, tuple[Factor, ...]]
    root_top: tuple[int, tuple[Factor, ...]]
    root_bottom: tuple[int, tuple[Factor, ...]]

    @property
    def rooted(self) -> bool:
        return self.root_top != (1, ()) or self.root_bottom != (1, ())


def product(expr: sp.Expr, order: SymbolOrder = rank) -> Product:
    """`expr` as a product; anything that is no Mul, power or number is its one factor."""
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
    return Product(
        coefficient < 0,
        (top, above), (bottom, below), (radical // shared, root_above), (shared, root_below),
    )  # fmt: skip


def _logs(factors: sp.Expr) -> list[Factor]:
    """Base and rational power of every factor, with each log(x)/log(2) made one factor log2(x)."""
    found: list[Factor] = []
    for factor in sp.Mul.make_args(factors):
        if factor == 1:
            continue
        base, power = (factor.base, factor.exp) if factor.is_Pow else (factor, sp.S.One)
        found.append((base, power) if power.is_Rational else (factor, sp.S.One))
    halving = next((p for b, p in found if b == sp.log(2) and p.is_Integer and p < 0), None)
    if halving is None:
        return found
    left, paired = -halving, []
    for base, power in found:
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
    def key(factor: Factor) -> tuple[object, ...]:
        base = factor[0]
        kind = 1 if base.is_Symbol else 0 if base.is_Integer else 2
        return (kind, order(base) if kind == 1 else (), "" if kind == 1 else str(base))

    ordered = sorted(factors, key=key)
    above = tuple((b, p) for b, p in ordered if p > 0)
    return above, tuple((b, -p) for b, p in ordered if p < 0)


def terms(expr: sp.Expr, order: SymbolOrder = rank) -> list[sp.Expr]:
    """The terms of a sum: what is added first, then what is subtracted, constants last in each."""

    def key(term: sp.Expr) -> tuple[object, ...]:
        negative = term.as_coeff_Mul()[0].is_negative is True
        symbols = sorted(order(s) for s in term.free_symbols)
        return (negative, not symbols, symbols, str(term))

    return sorted(sp.Add.make_args(expr), key=key)
