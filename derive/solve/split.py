"""The best value of a mesh axis that is free to choose, and the loads that are left at it.

Loads that run side by side are best where a rising and a falling one are equal; loads that add up,
where the derivative of their sum is zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sympy as sp

from derive.cost.load import Given, Load, Requirement
from derive.notation import tex
from derive.notation.errors import NotClosedForm
from derive.solve import powers
from derive.solve.question import Question, mesh_in_terms_of_chips


@dataclass(frozen=True)
class Split:
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
    splits: tuple[Split, ...]
    given: Given
    free: sp.Symbol | None


def held(need: Requirement, asked: Question, fixed: Iterable[sp.Symbol] = ()) -> Held:
    """The loads for a question, their mesh expressed through N as far as needed.

    A split is free where there are two mesh axes and neither is asked for or fixed; then it is
    chosen for the best. Raises NotClosedForm where more than one axis would be free.
    """
    given, free = mesh_in_terms_of_chips(need, asked, fixed)
    loads = tuple(load.put(dict(given)) for load in need.loads) if given else need.loads
    if free is None:
        return Held(loads, (), given, None)
    left, splits = at_best_split(loads, free)
    return Held(left, splits, given, free)


def at_best_split(
    loads: Iterable[Load], symbol: sp.Symbol
) -> tuple[tuple[Load, ...], tuple[Split, ...]]:
    """The loads with `symbol` chosen for the best: some value of it satisfies the given ones if
    and only if the returned ones hold. Raises NotClosedForm."""
    alone = [load for load in loads if len(load.terms) == 1]
    summed = [load for load in loads if len(load.terms) > 1]
    if summed and (len(summed) > 1 or any(load.total.has(symbol) for load in alone)):
        raise NotClosedForm(f"several sums compete for the best {symbol}")
    left, splits = _best_of_pairs(alone, symbol)
    for load in summed:
        at, value = _best_of_sum(load, symbol)
        left.append(Load((value,), load.links, load.passes))
        splits.append(Split(symbol, at, load.passes[:1], load.links, load.terms, True))
    return tuple(left), tuple(splits)


def _best_of_pairs(alone: list[Load], symbol: sp.Symbol) -> tuple[list[Load], list[Split]]:
    left: list[Load] = []
    rising: list[tuple[Load, Mapping[sp.Rational, sp.Expr]]] = []
    falling: list[tuple[Load, Mapping[sp.Rational, sp.Expr]]] = []
    for load in alone:
        terms = powers.coefficients(load.total, symbol)
        if len(terms) != 1:
            raise NotClosedForm(
                f"the best {symbol} has no readable closed form: {tex.text(load.total)} "
                f"is not a single power of it"
            )
        ((power, _),) = terms.items()
        if power == 0:
            left.append(load)
        else:
            (rising if power > 0 else falling).append((load, terms))
    if bool(rising) != bool(falling):
        raise NotClosedForm(
            f"no best {symbol}: every load {'grows' if rising else 'falls'} with it"
        )
    splits = []
    for up, up_terms in rising:
        for down, down_terms in falling:
            at, value = powers.balanced(up_terms, down_terms)
            both = tuple(name for name in up.passes if name in down.passes)
            passes = both or tuple(dict.fromkeys((*up.passes, *down.passes)))
            links = (*up.links, *down.links)
            left.append(Load((value,), ("".join(sorted(links)),), passes))
            pair = both[:1] or (up.passes[0], down.passes[0])
            loads = (up.total, down.total)
            splits.append(Split(symbol, at, tuple(dict.fromkeys(pair)), links, loads, False))
    return left, splits


def _best_of_sum(load: Load, symbol: sp.Symbol) -> tuple[sp.Expr, sp.Expr]:
    terms = powers.coefficients(load.total, symbol)
    constant = terms.pop(sp.S.Zero, sp.S.Zero)
    rising = {p: c for p, c in terms.items() if p > 0}
    falling = {p: c for p, c in terms.items() if p < 0}
    if not rising or not falling:
        raise NotClosedForm(
            f"no best {symbol}: the sum only {'grows' if rising else 'falls'} with it"
        )
    at, value = powers.least_sum(rising, falling)
    return at, value + constant
