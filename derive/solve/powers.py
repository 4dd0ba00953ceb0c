"""Sums of powers of one symbol, the form in which nearly every threshold is solved.

A condition "communication takes at most as long as computation" is a sum of terms c*q**k that must
not exceed 1. One power, a constant and a power, or q and 1/q have readable closed forms; anything
else is refused, since Cardano's radicals help no reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from derive.notation.errors import NotClosedForm
from derive.notation.text import text


def coefficients(expr: sp.Expr, symbol: sp.Symbol) -> dict[sp.Rational, sp.Expr]:
    """`expr` as {power: coefficient} in `symbol`; raises NotClosedForm where it is no such sum."""
    # Shares (n-1)/n of the exact collectives hold the symbol inside a factor: multiplied out.
    terms = _read(expr, symbol) or _read(sp.expand(expr), symbol)
    if terms is None:
        raise NotClosedForm(f"{text(expr)} is no sum of powers of {text(symbol)}")
    # Common factors are taken out of a sum, so that its roots are roots of each factor.
    return {p: sp.factor_terms(c) if c.is_Add else c for p, c in terms.items() if c != 0}


def _read(expr: sp.Expr, symbol: sp.Symbol) -> dict[sp.Rational, sp.Expr] | None:
    terms: dict[sp.Rational, sp.Expr] = {}
    for term in sp.Add.make_args(expr):
        coefficient, rest = term.as_independent(symbol, as_Add=False)
        base, power = rest.as_base_exp() if rest != 1 else (symbol, sp.S.Zero)
        if base != symbol or not isinstance(power, sp.Rational):
            return None
        terms[power] = terms.get(power, sp.S.Zero) + coefficient
    return terms


@dataclass(frozen=True)
class Range:
    """Where a symbol satisfies a condition: at least `low`, at most `high`, as far as they are set,
    provided that each relation of `provided` holds: that something is at most 1, or less than 1
    where room has to be left for a term that no value of the symbol takes away."""

    low: sp.Expr | None = None
    high: sp.Expr | None = None
    provided: tuple[sp.Rel, ...] = ()


@lru_cache(maxsize=1024)
def solved(load: sp.Expr, symbol: sp.Symbol) -> Range:
    """The range of `symbol` in which `load` is at most 1; raises NotClosedForm."""
    terms = coefficients(load, symbol)
    constant = terms.pop(sp.S.Zero, sp.S.Zero)
    if not terms:
        return Range(provided=(sp.Le(constant, 1, evaluate=False),))
    room = 1 - constant
    provided: tuple[sp.Rel, ...] = ()
    if constant != 0 and not constant.could_extract_minus_sign():
        provided = (sp.Lt(constant, 1, evaluate=False),)
    if len(terms) == 1:
        ((power, coefficient),) = terms.items()
        bound = _one_fraction(room / coefficient) if constant != 0 else 1 / coefficient
        bound = bound ** (1 / power)
        if coefficient.is_negative:  # the term takes from the load, and may take all above 1
            return Range(low=bound) if power > 0 else Range(high=bound)
        if power > 0:
            return Range(high=bound, provided=provided)
        return Range(low=bound, provided=provided)
    if len(terms) == 2 and sum(terms) == 0:
        power = max(terms)
        a, b = terms[power], terms[-power]
        root = sp.sqrt(room**2 - 4 * a * b)
        low, high = (room - root) / (2 * a), (room + root) / (2 * a)
        apart = sp.Le(4 * a * b / room**2, 1, evaluate=False)
        return Range(low ** (1 / power), high ** (1 / power), (*provided, apart))
    powers = ", ".join(map(str, sorted(terms)))
    raise NotClosedForm(f"powers {powers} of {symbol} together have no readable closed form")


def _one_fraction(bound: sp.Expr) -> sp.Expr:
    """A sum of terms; where one has a sum below the line, all of it over one line."""
    if not _sum_below(bound):
        terms = sp.expand(bound)
        if not any(map(_sum_below, sp.Add.make_args(terms))):
            return terms
    return turned(sp.factor_terms(sp.together(bound)))


def _sum_below(term: sp.Expr) -> bool:
    return any(factor.is_Add for factor in sp.Mul.make_args(sp.denom(term)))


def turned(expr: sp.Expr) -> sp.Expr:
    """The same product without a minus sign before it, where a sum among its factors can take it:
    -x (b - a) is x (a - b), which is how one reads it."""
    number, rest = expr.as_coeff_Mul()
    if not number.is_negative:
        return expr
    factors = (factor.as_base_exp() for factor in sp.Mul.make_args(rest))
    sums = [(base, power) for base, power in factors if base.is_Add and power.is_odd]
    if not sums:
        return expr
    base, power = max(
        sums, key=lambda one: sum(bool(t.as_coeff_Mul()[0].is_negative) for t in one[0].args)
    )
    return -number * (rest / base**power) * (-base) ** power
