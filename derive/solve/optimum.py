"""Optima: the value of a mesh axis at which communication is least, with its second-order check."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from derive.cost.assumptions import DEFAULT, Assumptions, assume
from derive.cost.strategies import Strategy, as_strategy
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, NotClosedForm, ProofError
from derive.notation.printed import printed_tex, shown, significant
from derive.notation.quantity import Quantity
from derive.solve.binding import Giver, bind, input_lines, values_from
from derive.solve.conditions import Condition, at_best_split, conditions
from derive.solve.question import Question, mesh_in_terms_of_chips


@dataclass(frozen=True)
class Optimum:
    """The best value of a mesh axis at a fixed number of chips.

    `objective` is the communication time over the computation time in terms of the symbol: the sum
    of the loads, which are equal at the optimum of the largest, too. `passes` names the pass that
    sets it. `second` is the second derivative of the sum at the optimum, positive there.
    """

    strategy: Strategy
    symbol: sp.Symbol
    at: sp.Expr
    passes: tuple[str, ...]
    objective: sp.Expr
    second: sp.Expr
    assumptions: Assumptions

    @property
    def latex(self) -> str:
        return f"{tex.tex(self.symbol)}_{{\\text{{opt}}}} = {tex.tex(self.at)}"

    def __str__(self) -> str:
        return f"{self.symbol} = {tex.text(self.at)} ({' and '.join(self.passes)} pass)"

    __repr__ = __str__

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex}$"

    def on(self, *givers: Giver, **values: object) -> OptimumAnswer:
        """The number, with a chip, a model, and values by symbol name; real-valued, not rounded."""
        bound = values_from(givers, values, self.assumptions)
        return OptimumAnswer(
            self, bind(self.at, bound, v.unit_of_symbol(self.symbol), str(self.symbol))
        )


@dataclass(frozen=True)
class OptimumAnswer:
    """The number of an optimum with its tree."""

    optimum: Optimum
    quantity: Quantity

    @property
    def value(self) -> sp.Expr:
        return self.quantity.value

    def __float__(self) -> float:
        return float(self.quantity.value)

    def __str__(self) -> str:
        found = self.quantity
        lines = [f"{self.optimum.symbol} = {shown(found.value, found.unit)} = {found.formula}"]
        lines += [f"  {line}" for line in input_lines(self.quantity)]
        lines.append("  assumptions:")
        described = self.optimum.assumptions.described()
        return "\n".join([*lines, *(f"    {k}: {text}" for k, text in described.items())])

    __repr__ = __str__

    def _repr_latex_(self) -> str:
        value = printed_tex(self.value, significant(4), self.quantity.unit)
        return f"$\\displaystyle {self.optimum.latex} = {value}$"


def optimum(
    strategy: Strategy, symbol: sp.Symbol, assumptions: Assumptions = DEFAULT, **changes: object
) -> Optimum:
    """The value of a mesh axis for which the loads are smallest at fixed chips N.

    Both overlaps have it at the same place where the two loads have powers 1 and -1 of the symbol.
    The sum is proved to have a minimum there by its second derivative. Raises NotClosedForm where
    there is no single readable optimum.
    """
    strategy = as_strategy(strategy)
    assumptions = assume(assumptions, **changes)
    if symbol not in strategy.mesh:
        axes = ", ".join(str(axis) for axis in strategy.mesh) or "none"
        raise DeriveError(f"{strategy.name} can choose its mesh axes only: {axes}; found {symbol}")
    asked = Question(v.N, v.N, sp.S.One)
    given, free = mesh_in_terms_of_chips(strategy, asked)
    if free is None:
        raise NotClosedForm(f"{strategy.name} has one mesh axis: {symbol} is N, nothing to choose")
    found = conditions(strategy, assumptions)
    if symbol != free:
        given = (
            (free, strategy.chips.xreplace({free: sp.S.One, symbol: sp.S.One}) * v.N / symbol),
        )
        free = symbol
    replaced = tuple(
        Condition(c.passes, c.where, tuple(load.xreplace(dict(given)) for load in c.loads))
        for c in found
    )
    _, splits = at_best_split(replaced, free)
    places = {sp.powsimp(s.at): s for s in splits}
    if len(places) != 1:
        raise NotClosedForm(f"{len(places)} pairs of loads compete for the best {symbol}")
    ((at, split),) = places.items()
    objective = sp.Add(*(c.load for c in replaced if c.load.has(free)))
    second = sp.diff(objective, free, 2).xreplace({free: at})
    if not second.is_positive:
        raise ProofError(f"the second derivative at {symbol} = {at} is not positive: {second}")
    return Optimum(strategy, symbol, at, split.passes, objective, second, assumptions)
