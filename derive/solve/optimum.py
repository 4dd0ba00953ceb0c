"""The best value of a mesh axis: where communication is least, with its second-order check, and the
loads that are left where an axis is free to choose.

Loads that run side by side are best where a rising and a falling one are equal; loads that add up,
where the derivative of their sum is zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import sympy as sp

from derive.cost.assumptions import DEFAULT, Assumptions
from derive.cost.load import Given, Load, Requirement
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.arguments import guarded
from derive.notation.errors import DeriveError, NotClosedForm, ProofError, written
from derive.notation.printed import shown
from derive.notation.quantity import evaluated
from derive.solve.answer import Answer, Bound, Bounded, Side
from derive.solve.links import link_notes
from derive.solve.powers import coefficients
from derive.solve.question import (
    Fixed,
    Question,
    Subject,
    axes_held,
    mesh_in_terms_of_chips,
    question,
    requirement,
)  # fmt: skip
from derive.solve.values import Filled, Giver

_AT_CHIPS = Question(v.N, v.N, sp.S.One)


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
        return Held(*_at_best_split(loads, free), given, free)
    except NotClosedForm as error:
        raise NotClosedForm(f"{error}; it can be held: fixed=[{free}]") from None


@lru_cache(maxsize=1024)
def _at_best_split(
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
    powers: list[tuple[Load, sp.Rational, sp.Expr]] = []
    for load in alone:
        terms = coefficients(load.total, symbol)
        if len(terms) != 1:
            told = f"the best {symbol} has no readable closed form"
            raise NotClosedForm(f"{told}: {tex.text(load.total)} is not a single power of it")
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


@guarded
@dataclass(frozen=True, repr=False)
class Optimum(Bounded):
    """The best value of a mesh axis at a fixed number of chips.

    `objective` is the communication time over the computation time in terms of the symbol: the sum
    of the loads, which are equal at the optimum of the largest, too. `second` is its second
    derivative at the optimum, positive there. `split` is what is balanced, `most` the largest
    degree that there is, at which the other mesh axis has 1; `fixed` are the mesh axes held.
    """

    split: Balance
    objective: sp.Expr
    second: sp.Expr
    most: sp.Expr
    fixed: tuple[sp.Symbol, ...] = ()

    @property
    def at(self) -> sp.Expr:
        return self.closed_form

    @property
    def passes(self) -> tuple[str, ...]:
        """The passes that set it."""
        return self.split.passes

    @property
    def latex(self) -> str:
        return f"{tex.tex(self.symbol)}_{{\\text{{opt}}}} = {tex.tex(self.at)}"

    def __str__(self) -> str:
        return f"{self.symbol} = {tex.text(self.at)} ({' and '.join(self.passes)} pass)"

    def under(self, assumptions: Assumptions) -> Optimum:
        return optimum(self.subject, self.symbol, assumptions, fixed=self.fixed)

    def suited(self, *givers: Giver, **values: object) -> Optimum:
        """The same on the network that the chip has; raises DeriveError where degrees are given."""
        if given := axes_held(self.subject, _AT_CHIPS, self.fixed, values)[len(self.fixed) :]:
            told = f"the best {self.symbol} is chosen in a mesh of N chips"
            raise DeriveError(f"{told}; leave out {given[0]}")
        return super().suited(*givers, **values)

    def filled(self, givers: Iterable[Giver], values: Mapping[str, object]) -> Filled:
        full = super().filled(givers, values)
        return replace(full, used=full.used | self.most.free_symbols)

    def _on(self, givers: tuple[Giver, ...], values: Mapping[str, object]) -> Answer:
        here = self.suited(*givers, **values)
        full = here.filled(givers, values)
        known, unit = full.checked(), v.unit_of_symbol(self.symbol)
        notes = link_notes(self.assumptions, here.assumptions, givers, values)
        notes += here.idle(full, values, self.assumptions)
        best = number = evaluated(here.at, known, unit, self.symbol.name)
        low = sp.Max(1, here.at, evaluate=False)
        ends = ((sp.S.One, low), (here.most, sp.Min(here.most, here.at, evaluate=False)))
        for end, inside in ends:
            degree = evaluated(inside, known, unit, self.symbol.name)
            if degree.value != best.value:
                number = degree
                why = f"no split has {self.symbol} = {shown(best.value)}, where communication is"
                told = f"least: it is from 1 to {here.most}, and best at the end"
                notes.append(f"{why} {told} {self.symbol} = {end}")
                here = replace(here, bounds=(replace(here.bounds[0], expr=inside),))
        sides = (Side(number, here.passes, here.split.links),)
        return Answer(self.symbol, sides, here.assumptions, here.described, (), tuple(notes), here)


def optimum(
    subject: Subject,
    symbol: sp.Symbol,
    assumptions: Assumptions | str = DEFAULT,
    *,
    fixed: Fixed = (),
    **changes: object,
) -> Optimum:
    """The value of a mesh axis for which the loads are smallest at N chips, with the mesh axes
    `fixed` held.

    Both overlaps have it at the same place where the two loads have powers 1 and -1 of the symbol.
    The sum is proved to have a minimum there by its second derivative. Raises NotClosedForm where
    there is no single readable optimum.
    """
    what, axes = question(symbol), axes_held(subject, _AT_CHIPS, fixed)
    need = requirement(subject, None, assumptions, axes, **changes)
    if symbol not in need.mesh or symbol in axes:
        choice = ", ".join(str(axis) for axis in need.mesh if axis not in axes) or "none"
        told = f"{need.name} can choose its mesh axes only"
        raise DeriveError(f"{told}: {choice}; found {written(symbol)}")
    given, free = mesh_in_terms_of_chips(need, _AT_CHIPS, axes)
    if free is None:
        raise NotClosedForm(f"{need.name}: {symbol} follows from the chips N, nothing to choose")
    if symbol != free:
        given, free = ((free, v.N / need.chips.xreplace({free: sp.S.One})),), symbol
    most = given[0][1].xreplace({free: sp.S.One})
    loads = tuple(load.put(dict(given)) for load in need.loads)
    _, splits = _at_best_split(loads, free)
    places = {sp.powsimp(s.at): s for s in splits}
    if not places:
        raise NotClosedForm(f"no best {symbol}: no load falls with it as another grows")
    if len(places) != 1:
        raise NotClosedForm(f"{len(places)} pairs of loads compete for the best {symbol}")
    ((at, split),) = places.items()
    objective = sp.Add(*(load.total for load in loads if load.total.has(free)))
    second = sp.diff(objective, free, 2).xreplace({free: at})
    if not second.is_positive:
        raise ProofError(f"the second derivative at {symbol} = {at} is not positive: {second}")
    bound = Bound("=", at, split.passes, split.links)
    return Optimum(what, (bound,), need, subject, split, objective, second, most, axes)
