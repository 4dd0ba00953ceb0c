"""The value of an expression, worked out here by the meaning of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, floor, prod
from typing import Any

import sympy as sp
from mpmath import mpf

NODES: dict[type, Callable[..., Any]] = {
    sp.Add: lambda *parts: sum(parts),
    sp.Mul: lambda *factors: prod(factors),
    sp.Max: max,
    sp.Min: min,
    sp.floor: lambda x: Fraction(floor(x)),
    sp.ceiling: lambda x: Fraction(ceil(x)),
}


def exact(expr: sp.Expr, numbers: Mapping[sp.Symbol, Fraction]) -> Fraction:
    """The value at `numbers`; KeyError for a symbol without one, and for any other function."""
    if expr.is_Symbol:
        return numbers[expr]
    if expr.is_Rational:
        return Fraction(int(expr.p), int(expr.q))
    if expr.is_Pow and expr.exp.is_Integer:
        return exact(expr.base, numbers) ** int(expr.exp)
    return NODES[expr.func](*(exact(part, numbers) for part in expr.args))


def real(expr: sp.Expr, numbers: Mapping[sp.Symbol, mpf]) -> mpf:
    """The value at `numbers` in as many digits as mpmath works with, roots among them."""
    if expr.is_Symbol:
        return numbers[expr]
    if expr.is_Rational:
        return mpf(int(expr.p)) / int(expr.q)
    if expr.is_Pow:
        power = int(expr.exp) if expr.exp.is_Integer else real(expr.exp, numbers)
        return real(expr.base, numbers) ** power
    return NODES[expr.func](*(real(part, numbers) for part in expr.args))
