"""Loads as sums of powers of one symbol: where they do not exceed 1, and where they are least.

A condition "communication takes at most as long as computation" is a sum of terms c*q**k that must
not exceed 1. One power, a constant and a power, or q and 1/q have readable closed forms; anything
else is refused, since Cardano's radicals help no reader.

Where a mesh axis is free to choose, loads that run side by side are best where a rising and a
falling one are equal; loads that add up, where the derivative of their sum is zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import sympy as sp

from derive.cost.load import Given, Load, Requirement
from derive.notation import symbols as v
from derive.notation.errors import NotClosedForm
from derive.notation.text import text
from derive.solve.question import Question, mesh_in_terms_of_chips


def coefficients(expr: sp.Expr, symbol: sp.Symbol) -> dict[sp.Expr, sp.Expr]:
    """`expr` as {power: coefficient} in `symbol`, powers with symbols of a clear sign, as in 1/M_X,
    only where there is one; raises NotClosedForm where it is no such sum."""
    # Shares (n-1)/n of the exact collectives hold the symbol inside a factor: multiplied out.
    terms = _read(expr, symbol) or _read(sp.expand(expr), symbol)
    if terms is None or (len(terms) > 1 and not all(p.is_Rational for p in terms)):
        raise NotClosedForm(f"{text(expr)} is no sum of powers of {text(symbol)}")
    # Common factors are taken out of a sum, so that its roots are roots of each factor.
    return {p: sp.factor_terms(c) if c.is_Add else c for p, c in terms.items() if c != 0}


def _read(expr: sp.Expr, symbol: sp.Symbol) -> dict[sp.Expr, sp.Expr] | None:
    terms: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(expr):
        coefficient, rest = term.as_independent(symbol, as_Add=False)
        base, power = rest.as_base_exp() if rest != 1 else (symbol, sp.S.Zero)
        if base != symbol or power.has(symbol) or power.is_negative is None:
            return None
        terms[power] = terms.get(power, sp.S.Zero) + coefficient
    return terms


@dataclass(frozen=True)
class Range:
    """Where a symbol satisfies a condition: at least `low`, at most `high`, as far as they are set,
    provided that each relation of `provided` holds: that something is at most 1, or less than 1
    where room has to be left for a term that no value of the symbol takes away. A bound that is not
    positive says nothing. `unclear` is a coefficient that was taken to be positive."""

    low: sp.Expr | None = None
    high: sp.Expr | None = None
    provided: tuple[sp.Rel, ...] = ()
    unclear: sp.Expr | None = None


@lru_cache(maxsize=1024)
def solved(load: sp.Expr, symbol: sp.Symbol) -> Range:
    """The range of `symbol` in which `load` is at most 1; raises NotClosedForm."""
    factors = sp.Mul.make_args(sp.denom(sp.factor_terms(load)))
    sums = [one for one in factors if one.is_Add and one.has(symbol) and one.is_positive]
    if len(sums) == 1:  # a/b <= 1 is a - b + 1 <= 1, which only a larger b helps
        across = sp.factor_terms(load) * sums[0] - sums[0] + 1
        terms = coefficients(across, symbol)
        if len(terms.keys() - {0}) == 1 and all(c.is_negative for p, c in terms.items() if p):
            load = across
    terms = coefficients(load, symbol)
    constant = terms.pop(sp.S.Zero, sp.S.Zero)
    if not terms:
        return Range(provided=(sp.Le(constant, 1, evaluate=False),))
    room = 1 - constant
    provided: tuple[sp.Rel, ...] = ()
    if constant != 0 and not _nonnegative(-constant):
        provided = (sp.Lt(constant, 1, evaluate=False),)
    if len(terms) == 1:
        ((power, coefficient),) = terms.items()
        bound = _one_fraction(room / coefficient) if constant != 0 else 1 / coefficient
        bound = bound ** (1 / power)
        if coefficient.is_negative:  # the term takes from the load, and may take all above 1
            return Range(low=bound) if power > 0 else Range(high=bound)
        unclear = coefficient if provided and not _nonnegative(coefficient) else None
        if power > 0:
            return Range(high=bound, provided=provided, unclear=unclear)
        return Range(low=bound, provided=provided, unclear=unclear)
    if len(terms) == 2 and sum(terms) == 0:
        power = max(terms)
        a, b = terms[power], terms[-power]
        root = sp.sqrt(room**2 - 4 * a * b)
        low, high = (room - root) / (2 * a), (room + root) / (2 * a)
        apart = sp.Le(4 * a * b / room**2, 1, evaluate=False)
        return Range(low ** (1 / power), high ** (1 / power), (*provided, apart))
    powers = ", ".join(map(str, sorted(terms)))
    raise NotClosedForm(f"powers {powers} of {symbol} together have no readable closed form")


def _nonnegative(expr: sp.Expr) -> bool:
    """Whether that is clear, the degrees of a mesh being at least 1."""
    if expr.is_nonnegative is not None:
        return bool(expr.is_nonnegative)
    above_one = {s: s + 1 for s in expr.free_symbols if v.is_degree(s)}
    return bool(sp.factor(expr.xreplace(above_one)).is_nonnegative)


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


# --- the best split


@dataclass(frozen=True)
class Balance:
    """The best value of a mesh axis, free to choose, and the loads that it balances, each with its
    link; `passes` are one where one pass binds on both links. `summed` says that they add up."""

    symbol: sp.Symbol
    at: sp.Expr
    passes: tuple[str, ...]
    links: tuple[str, ...]
    loads: tuple[sp.Expr, ...]
    summed: bool


@dataclass(frozen=True)
class Held:
    """The loads in terms of what is held, the best splits where one is free to choose, how the
    other mesh axes follow from the chips, and the axis that was free."""

    loads: tuple[Load, ...]
    splits: tuple[Balance, ...]
    given: Given
    free: sp.Symbol | None


def held(need: Requirement, asked: Question, fixed: Iterable[sp.Symbol] = ()) -> Held:
    """The loads for a question, their mesh expressed through N as far as needed.

    A split is free where there are two mesh axes and neither is asked for or fixed; then it is
    chosen for the best. Raises NotClosedForm where more than one axis would be free.
    """
    given, free = mesh_in_terms_of_chips(need, asked, fixed)
    loads = tuple(load.put(dict(given)) for load in need.loads)
    if free is None:
        return Held(loads, (), given, None)
    try:
        return Held(*at_best_split(loads, free), given, free)
    except NotClosedForm as error:
        raise NotClosedForm(f"{error}; it can be held: fixed=[{free}]") from None


@lru_cache(maxsize=1024)
def at_best_split(
    loads: tuple[Load, ...], symbol: sp.Symbol
) -> tuple[tuple[Load, ...], tuple[Balance, ...]]:
    """The loads with `symbol` chosen for the best: some value of it satisfies the given ones if
    and only if the returned ones hold. Raises NotClosedForm."""
    alone = [load for load in loads if len(load.terms) == 1]
    summed = [load for load in loads if len(load.terms) > 1]
    if summed and (len(summed) > 1 or any(load.total.has(symbol) for load in alone)):
        raise NotClosedForm(f"several sums compete for the best {symbol}")
    left, splits = _best_of_pairs(alone, symbol)
    for load in summed:
        at, value = _best_of_sum(load, symbol)
        left.append(replace(load, terms=(value,)))
        splits.append(Balance(symbol, at, load.passes[:1], load.links, load.terms, True))
    return tuple(left), tuple(splits)


def _best_of_pairs(alone: list[Load], symbol: sp.Symbol) -> tuple[list[Load], list[Balance]]:
    powers: list[tuple[Load, sp.Expr, sp.Expr]] = []
    for load in alone:
        terms = coefficients(load.total, symbol)
        if len(terms) != 1 or not all(power.is_Rational for power in terms):
            told = f"the best {symbol} has no readable closed form"
            raise NotClosedForm(f"{told}: {text(load.total)} is not a single power of it")
        powers += [(load, power, coefficient) for power, coefficient in terms.items()]
    left = [load for load, power, _ in powers if power == 0]
    rising, falling = [x for x in powers if x[1] > 0], [x for x in powers if x[1] < 0]
    if bool(rising) != bool(falling):
        changes = "grows" if rising else "falls"
        raise NotClosedForm(f"no best {symbol}: every load {changes} with it")
    splits = []
    for up, p, a in rising:
        for down, r, b in falling:
            at = (b / a) ** (1 / (p - r))
            both = tuple(name for name in up.passes if name in down.passes)
            passes = both or tuple(dict.fromkeys((*up.passes, *down.passes)))
            links = (*up.links, *down.links)
            left.append(Load((a * at**p,), ("".join(sorted(links)),), passes))
            pair = both[:1] or tuple(dict.fromkeys((up.passes[0], down.passes[0])))
            splits.append(Balance(symbol, at, pair, links, (up.total, down.total), False))
    return left, splits


def _best_of_sum(load: Load, symbol: sp.Symbol) -> tuple[sp.Expr, sp.Expr]:
    """Where a*x**p + b*x**r + c is least, its derivative zero, and that least value."""
    terms = coefficients(load.total, symbol)
    constant = terms.pop(sp.S.Zero, sp.S.Zero)
    rising = [(p, a) for p, a in terms.items() if p > 0]
    falling = [(r, b) for r, b in terms.items() if r < 0]
    if not rising or not falling:
        changes = "grows" if rising else "falls"
        raise NotClosedForm(f"no best {symbol}: the sum only {changes} with it")
    if len(terms) != 2:
        told = "more than one power of the split on a side"
        raise NotClosedForm(f"{told} has no readable closed form")
    ((p, a),), ((r, b),) = rising, falling
    at = (-r * b / (p * a)) ** (1 / (p - r))
    # There b*x**r is -p/r times a*x**p.
    return at, a * at**p * (1 - p / r) + constant
