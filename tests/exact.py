"""The value of an expression in exact fractions, worked out here by the meaning of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, floor, prod
from typing import Any

import sympy as sp

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
