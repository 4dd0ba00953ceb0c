"""The exact number of an expression: SymPy's tree walked with Python's fractions.

Fractions are an order of magnitude quicker than substitution, and a ranked table needs hundreds of
values. Only the operations of the step model are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, inf

import sympy as sp

from derive.cost.step import StepModel
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, quoted

Numbers = dict[sp.Symbol, Fraction]


def exact(expr: sp.Expr, values: Mapping[sp.Symbol, Fraction]) -> Fraction:
    """The value of `expr`; raises DeriveError for a symbol without a value, for a power that is no
    whole number and for a function other than max, min, floor and ceiling."""
    if isinstance(expr, sp.Symbol):
        if expr not in values:
            raise DeriveError(f"no value for {expr.name}")
        return values[expr]
    if isinstance(expr, sp.Rational):
        return Fraction(int(expr.p), int(expr.q))
    if isinstance(expr, sp.Pow) and isinstance(expr.exp, sp.Integer):
        return exact(expr.base, values) ** int(expr.exp)
    of = [exact(arg, values) for arg in expr.args]
    if isinstance(expr, sp.Add):
        return sum(of, start=Fraction(0))
    if isinstance(expr, sp.Mul):
        product = Fraction(1)
        for factor in of:
            product *= factor
        return product
    if isinstance(expr, sp.Max):
        return max(of)
    if isinstance(expr, sp.Min):
        return min(of)
    if isinstance(expr, sp.floor):
        return Fraction(floor(of[0]))
    if isinstance(expr, sp.ceiling):
        return Fraction(ceil(of[0]))
    raise DeriveError(f"no rule for the value of {quoted(expr)}")


def as_float(value: Fraction) -> float:
    """The nearest number of float64, infinity beyond its range."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def solved_model(
    model: StepModel,
    values: Mapping[sp.Symbol, Fraction],
    instead: Mapping[sp.Symbol, Fraction] | None = None,
) -> Numbers:
    """`values` with the value of every intermediate of the model added, in the order of use;
    those in `instead` are taken from there."""
    found = dict(values)
    held = instead or {}
    for symbol, expr in _definitions(model):
        found[symbol] = held[symbol] if symbol in held else exact(expr, found)
    return found


@lru_cache(maxsize=32)
def _definitions(model: StepModel) -> tuple[tuple[sp.Symbol, sp.Expr], ...]:
    return tuple((v.find(term.name), term.expr) for term in model.definitions)
