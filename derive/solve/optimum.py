"""Optima: the value of a mesh axis at which communication is least, with its second-order check."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from derive.cost.assumptions import DEFAULT, Assumptions
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, NotClosedForm, ProofError
from derive.notation.quantity import evaluated
from derive.solve.answer import Answer, Bound, Bounded, Side
from derive.solve.links import link_notes
from derive.solve.question import Question, Subject, mesh_in_terms_of_chips, question, requirement
from derive.solve.split import Split, at_best_split
from derive.solve.values import Giver, values_for


@dataclass(frozen=True, repr=False)
class Optimum(Bounded):
    """The best value of a mesh axis at a fixed number of chips.

    `objective` is the communication time over the computation time in terms of the symbol: the sum
    of the loads, which are equal at the optimum of the largest, too. `second` is its second
    derivative at the optimum, positive there. `split` is what is balanced.
    """

    split: Split
    objective: sp.Expr
    second: sp.Expr

    @property
    def symbol(self) -> sp.Symbol:
        return self.question.main

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

    @property
    def held(self) -> Question:
        return _AT_CHIPS

    def under(self, assumptions: Assumptions) -> Optimum:
        """The same under other assumptions."""
        return optimum(self.subject, self.symbol, assumptions)

    def on(self, *givers: Giver, **values: object) -> Answer:
        """The number, with a chip, a model, and values by symbol name; real-valued, not rounded."""
        here = self.suited(*givers, **values)
        full = here.filled(values_for(here.requirement, givers, values)).checked()
        number = evaluated(here.at, full, v.unit_of_symbol(self.symbol), self.symbol.name)
        notes = link_notes(self.assumptions, here.assumptions, givers, values)
        side = Side("=", number, here.passes, here.split.links)
        return Answer(
            self.symbol, (side,), here.assumptions, here.described, (), tuple(notes), here
        )


_AT_CHIPS = Question(v.N, v.N, sp.S.One)


def optimum(
    subject: Subject,
    symbol: sp.Symbol,
    assumptions: Assumptions | str = DEFAULT,
    **changes: object,
) -> Optimum:
    """The value of a mesh axis for which the loads are smallest at fixed chips N.

    Both overlaps have it at the same place where the two loads have powers 1 and -1 of the symbol.
    The sum is proved to have a minimum there by its second derivative. Raises NotClosedForm where
    there is no single readable optimum.
    """
    need = requirement(subject, None, assumptions, (), **changes)
    if symbol not in need.mesh:
        axes = ", ".join(str(axis) for axis in need.mesh) or "none"
        raise DeriveError(f"{need.name} can choose its mesh axes only: {axes}; found {symbol}")
    given, free = mesh_in_terms_of_chips(need, _AT_CHIPS)
    if free is None:
        raise NotClosedForm(f"{need.name} has one mesh axis: {symbol} is N, nothing to choose")
    if symbol != free:
        others = need.chips.xreplace({free: sp.S.One, symbol: sp.S.One})
        given, free = ((free, others * v.N / symbol),), symbol
    loads = tuple(load.put(dict(given)) for load in need.loads)
    _, splits = at_best_split(loads, free)
    places = {sp.powsimp(s.at): s for s in splits}
    if len(places) != 1:
        raise NotClosedForm(f"{len(places)} pairs of loads compete for the best {symbol}")
    ((at, split),) = places.items()
    objective = sp.Add(*(load.total for load in loads if load.total.has(free)))
    second = sp.diff(objective, free, 2).xreplace({free: at})
    if not second.is_positive:
        raise ProofError(f"the second derivative at {symbol} = {at} is not positive: {second}")
    bound = Bound("=", at, split.passes, split.links)
    return Optimum(question(symbol), (bound,), need, subject, split, objective, second)
