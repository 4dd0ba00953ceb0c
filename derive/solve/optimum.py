"""The best value of a mesh axis: where communication is least, with its second-order check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import sympy as sp

from derive.cost.assumptions import DEFAULT, Assumptions
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, NotClosedForm, ProofError, guarded, written
from derive.notation.printed import shown
from derive.notation.quantity import evaluated
from derive.solve.answer import Answer, Bound, Bounded, Side
from derive.solve.links import link_notes
from derive.solve.powers import Balance, at_best_split
from derive.solve.proof import ALPHA, BestSplit
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
    def check(self) -> BestSplit:
        """What is claimed of it."""
        loads = tuple(load.xreplace(dict(ALPHA)) for load in self.split.loads)
        return BestSplit(self.split.symbol, loads, self.split.summed)

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
    _, splits = at_best_split(loads, free)
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
