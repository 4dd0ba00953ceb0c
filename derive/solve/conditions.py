"""The conditions under which a strategy is compute-bound.

A load is a communication time over the computation time of its pass. Compute-bound means that no
load exceeds 1; with serial overlap, that no pass's loads add up to more than 1. A load is what
everything else is read off: its unit is 1, and for large n it is a product of powers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from derive.cost.assumptions import Assumptions
from derive.cost.network import seconds
from derive.cost.program import Move, PassCost
from derive.cost.strategies import Strategy
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import NotClosedForm
from derive.solve import powers


@dataclass(frozen=True)
class Term:
    """The moves of one pass that share a network: their time and the load they make."""

    where: str
    moves: tuple[Move, ...]
    seconds: sp.Expr
    load: sp.Expr


@dataclass(frozen=True)
class PassTerms:
    """A pass with its computation time and its communication terms, constants not yet bound."""

    name: str
    seconds: sp.Expr
    terms: tuple[Term, ...]


@dataclass(frozen=True)
class Condition:
    """Loads that together must not exceed 1, and the passes for which they do so alike."""

    passes: tuple[str, ...]
    where: tuple[str, ...]
    loads: tuple[sp.Expr, ...]

    @property
    def load(self) -> sp.Expr:
        return sp.Add(*self.loads)


@lru_cache(maxsize=256)
def pass_terms(strategy: Strategy, assumptions: Assumptions) -> tuple[PassTerms, ...]:
    """The passes that the assumptions ask for; "step" is forward and backward as one pass."""
    passes = strategy.passes(assumptions)
    if assumptions.passes == "step":
        both = [p.name for p in passes]
        flops = sp.Add(*(p.flops for p in passes))
        moves = tuple(m for p in passes for m in p.moves)
        passes = (PassCost(" + ".join(both), flops, moves),)
    elif assumptions.passes != "each":
        passes = tuple(p for p in passes if p.name == assumptions.passes)
    return tuple(_terms(p, assumptions) for p in passes)


def _terms(cost: PassCost, assumptions: Assumptions) -> PassTerms:
    math = cost.flops / v.C
    terms = []
    for where, moves in _shared_networks(cost.moves):
        times = [seconds(m, exact=assumptions.exact, wrap=assumptions.wrap) for m in moves]
        total = sp.Add(*times)
        # Term by term: a product of powers over a product of powers stays one.
        load = sp.Add(*((time / math).xreplace(assumptions.constants) for time in times))
        terms.append(Term(where, moves, total, load))
    return PassTerms(cost.name, math, tuple(terms))


def _shared_networks(moves: Iterable[Move]) -> list[tuple[str, tuple[Move, ...]]]:
    """Moves by the network they share: those whose groups have a mesh axis in common."""
    groups: list[tuple[set[str], list[Move]]] = []
    for move in moves:
        axes = set(move.axes) or {"hbm"}
        together = [move]
        for group in [g for g in groups if g[0] & axes]:
            axes |= group[0]
            together = [*group[1], *together]
            groups.remove(group)
        groups.append((axes, together))
    named = [
        ("".join(sorted(axes)) if "hbm" not in axes else "hbm", tuple(m)) for axes, m in groups
    ]
    return sorted(named, key=lambda item: item[0])


@lru_cache(maxsize=256)
def conditions(strategy: Strategy, assumptions: Assumptions) -> tuple[Condition, ...]:
    """The conditions that bind: those that another one implies are left out."""
    found = []
    for cost in pass_terms(strategy, assumptions):
        if assumptions.overlap == "serial":
            if cost.terms:
                where = tuple(t.where for t in cost.terms)
                found.append(Condition((cost.name,), where, tuple(t.load for t in cost.terms)))
        else:
            found += [Condition((cost.name,), (t.where,), (t.load,)) for t in cost.terms]
    return _binding(found)


def _binding(found: list[Condition]) -> tuple[Condition, ...]:
    kept: list[Condition] = []
    for new in found:
        if any(_implied(new, old) and not _implied(old, new) for old in kept):
            continue
        twin = next((o for o in kept if _implied(new, o) and _implied(o, new)), None)
        if twin is not None:
            both = Condition((*twin.passes, *new.passes), twin.where, twin.loads)
            kept[kept.index(twin)] = both
            continue
        kept = [old for old in kept if not _implied(old, new)]
        kept.append(new)
    return tuple(kept)


def _implied(weak: Condition, strong: Condition) -> bool:
    """Whether each load of `weak` is at most the load of `strong` on the same network."""
    loads = dict(zip(strong.where, strong.loads, strict=True))
    for where, load in zip(weak.where, weak.loads, strict=True):
        ratio = load / loads[where] if where in loads else None
        if not isinstance(ratio, sp.Rational) or ratio > 1:
            return False
    return True


@dataclass(frozen=True)
class Split:
    """The best value of a mesh axis, free to choose, and the passes and networks it balances.

    `terms` names each load that it balances by its pass and network; they are of one pass where one
    binds on both networks.
    """

    symbol: sp.Symbol
    at: sp.Expr
    terms: tuple[tuple[str, str], ...]

    @property
    def passes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self.terms))

    @property
    def where(self) -> tuple[str, ...]:
        return tuple(where for _, where in self.terms)


def at_best_split(
    found: Iterable[Condition], symbol: sp.Symbol
) -> tuple[tuple[Condition, ...], tuple[Split, ...]]:
    """The conditions with `symbol` chosen for the best: some value of it satisfies the given ones
    if and only if the returned ones hold. Raises NotClosedForm.

    Loads that run side by side are best where a rising and a falling one are equal; loads that add
    up, where the derivative of their sum is zero.
    """
    alone = [c for c in found if len(c.loads) == 1]
    summed = [c for c in found if len(c.loads) > 1]
    if summed and (len(summed) > 1 or any(c.load.has(symbol) for c in alone)):
        raise NotClosedForm(f"several sums compete for the best {symbol}")
    done, splits = _best_of_pairs(alone, symbol)
    for condition in summed:
        best, at = _best_of_sum(condition, symbol)
        done.append(best)
        name = condition.passes[0]
        splits.append(Split(symbol, at, tuple((name, where) for where in condition.where)))
    return tuple(done), tuple(splits)


def _best_of_pairs(
    alone: list[Condition], symbol: sp.Symbol
) -> tuple[list[Condition], list[Split]]:
    done: list[Condition] = []
    rising: list[tuple[Condition, dict[sp.Rational, sp.Expr]]] = []
    falling: list[tuple[Condition, dict[sp.Rational, sp.Expr]]] = []
    for condition in alone:
        terms = powers.coefficients(condition.load, symbol)
        if len(terms) != 1:
            raise NotClosedForm(
                f"the best {symbol} has no readable closed form: {tex.text(condition.load)} "
                f"is not a single power of it"
            )
        ((power, _),) = terms.items()
        if power == 0:
            done.append(condition)
        else:
            (rising if power > 0 else falling).append((condition, terms))
    if bool(rising) != bool(falling):
        raise NotClosedForm(
            f"no best {symbol}: every load {'grows' if rising else 'falls'} with it"
        )
    splits = []
    for up, up_terms in rising:
        for down, down_terms in falling:
            at, value = powers.balanced(up_terms, down_terms)
            both = [name for name in up.passes if name in down.passes]
            passes = tuple(both or dict.fromkeys((*up.passes, *down.passes)))
            where = "".join(sorted((*up.where, *down.where)))
            done.append(Condition(passes, (where,), (value,)))
            pair = (both[0] if both else up.passes[0], both[0] if both else down.passes[0])
            balanced = tuple(zip(pair, (*up.where, *down.where), strict=True))
            splits.append(Split(symbol, at, balanced))
    return done, splits


def _best_of_sum(condition: Condition, symbol: sp.Symbol) -> tuple[Condition, sp.Expr]:
    terms = powers.coefficients(condition.load, symbol)
    constant = terms.pop(sp.S.Zero, sp.S.Zero)
    rising = {p: c for p, c in terms.items() if p > 0}
    falling = {p: c for p, c in terms.items() if p < 0}
    if not rising or not falling:
        raise NotClosedForm(
            f"no best {symbol}: the sum only {'grows' if rising else 'falls'} with it"
        )
    at, value = powers.least_sum(rising, falling)
    return Condition(condition.passes, condition.where, (value + constant,)), at
