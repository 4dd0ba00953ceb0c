"""What is asked, and what is held: the question's symbol, the mesh axes and the split.

A question is a symbol or a ratio of symbols, such as B/X, B/N, Y, N, F or W. The chips N of a
strategy are the product of its mesh axes; which of them are kept as symbols and which is expressed
through N depends on what the question and the caller hold fixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sympy as sp

from derive.cost.assumptions import Assumptions
from derive.cost.strategies import Strategy
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, NotClosedForm, quoted
from derive.notation.units import Unit, chip, one, way
from derive.solve.conditions import Condition, Split, at_best_split, conditions


@dataclass(frozen=True)
class Question:
    """A product of powers, the symbol that is solved for, and the rest of the product."""

    expr: sp.Expr
    main: sp.Symbol
    rest: sp.Expr

    @property
    def symbols(self) -> set[sp.Symbol]:
        return set(self.expr.free_symbols)

    @property
    def unit(self) -> Unit:
        """The unit of the answer; "per way" reads "per chip", since each way is a chip's share."""
        total = one
        for symbol, power in self.expr.as_powers_dict().items():
            unit = v.unit_of_symbol(symbol)
            if power < 0 and unit == way:
                unit = chip
            total = total * unit ** int(power)
        return total


def question(expr: object) -> Question:
    """Read a question; raises DeriveError where it is no symbol or ratio of declared symbols."""
    if isinstance(expr, str):
        raise DeriveError(f"a question is an expression, found the text {quoted(expr)}; no quotes")
    if not isinstance(expr, sp.Expr) or not expr.free_symbols:
        raise DeriveError(
            f"a question is a symbol or a ratio of symbols such as B/X, found {quoted(expr)}"
        )
    powers = expr.as_powers_dict()
    for base, power in powers.items():
        if not isinstance(base, sp.Symbol) or power not in (1, -1):
            raise DeriveError(
                f"a question is a symbol or a ratio of symbols such as B/X, found {quoted(expr)}"
            )
        v.meaning(base)
    above = sorted((s for s, power in powers.items() if power == 1), key=v.rank)
    if len(above) != 1:
        raise DeriveError(f"a question has one symbol above the line, found {quoted(expr)}")
    return Question(expr, above[0], expr / above[0])


@dataclass(frozen=True)
class Held:
    """The conditions in terms of what is held, the best split where one is free to choose, and how
    the other mesh axes follow from the chips."""

    conditions: tuple[Condition, ...]
    splits: tuple[Split, ...]
    given: tuple[tuple[sp.Symbol, sp.Expr], ...]


def held(
    strategy: Strategy,
    assumptions: Assumptions,
    asked: Question,
    fixed: Iterable[sp.Symbol] = (),
) -> Held:
    """The conditions of a strategy for a question, its mesh expressed through N as far as needed.

    A split is free where the strategy has two mesh axes and neither is asked for or fixed; then it
    is chosen for the best. Raises NotClosedForm where more than one axis would be free.
    """
    found = conditions(strategy, assumptions)
    given, free = mesh_in_terms_of_chips(strategy, asked, fixed)
    if given:
        found = tuple(_with(c, dict(given)) for c in found)
    if free is None:
        return Held(found, (), given)
    done, splits = at_best_split(found, free)
    return Held(done, splits, given)


def mesh_in_terms_of_chips(
    strategy: Strategy, asked: Question, fixed: Iterable[sp.Symbol] = ()
) -> tuple[tuple[tuple[sp.Symbol, sp.Expr], ...], sp.Symbol | None]:
    """Which mesh axis is expressed through N and how, and which one is free to choose."""
    if v.N in strategy.chips.free_symbols or strategy.chips == 1:
        return (), None
    mesh = strategy.mesh
    kept = [axis for axis in mesh if axis in asked.symbols or axis in set(fixed)]
    others = [axis for axis in mesh if axis not in kept]
    through_chips = v.N in asked.symbols or bool(set(fixed) & set(mesh)) or asked.expr in mesh
    if not others:
        if v.N in asked.symbols and len(mesh) == 1:
            raise DeriveError(f"{strategy.name}: N is {mesh[0]}; ask for one of them")
        return (((v.N, strategy.chips),) if v.N in asked.symbols else ()), None
    if len(mesh) == 1:
        return (((mesh[0], v.N),) if v.N in asked.symbols else ()), None
    if kept and not through_chips:
        return (), None
    if len(others) > 2:
        raise NotClosedForm(
            f"{strategy.name} has {len(mesh)} mesh axes; fix all but two of "
            + ", ".join(str(axis) for axis in mesh)
        )
    last = others[-1]
    rest = strategy.chips / last
    free = others[0] if len(others) == 2 else None
    return ((last, v.N / rest),), free


def state_of_chip(strategy: Strategy, asked: Question, fixed: Iterable[sp.Symbol] = ()) -> sp.Expr:
    """The bytes of state that a chip holds: through the chips N where that takes the place of every
    mesh axis and none is asked for or fixed. Raises DeriveError where the strategy says nothing."""
    if strategy.state is None:
        raise DeriveError(f"{strategy.name} does not say what state a chip holds")
    mesh = set(strategy.mesh)
    through = strategy.state * strategy.chips / v.N
    if not mesh & through.free_symbols and not mesh & {*asked.symbols, *fixed}:
        return through
    return strategy.state


def _with(condition: Condition, given: dict[sp.Symbol, sp.Expr]) -> Condition:
    loads = tuple(load.xreplace(given) for load in condition.loads)
    return Condition(condition.passes, condition.where, loads)
