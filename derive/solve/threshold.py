"""Thresholds: the bound under which training is compute-bound, in closed form, with direction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, overload

import sympy as sp

from derive.cost.assumptions import DEFAULT, Assumptions, assume
from derive.cost.strategies import Strategy
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, NotClosedForm, quoted
from derive.solve.binding import Answer, Giver, answers
from derive.solve.bounds import Bound, Bounded
from derive.solve.conditions import Condition, Split
from derive.solve.powers import Range, solved
from derive.solve.question import Held, Question, held, question, state_of_chip

if TYPE_CHECKING:
    from derive.cost.limits import Limit
    from derive.cost.step_assumptions import StepAssumptions
    from derive.solve.limit import LimitThreshold


@dataclass(frozen=True, repr=False)
class Threshold(Bounded):
    """The condition on a question under which a strategy is compute-bound.

    All `bounds` must hold, and each expression of `provided` be at most 1. `splits` are the values
    of the mesh axis that was free to choose, at which the bounds are reached, and `mesh` the
    degrees that the mesh has there: a closed form knows nothing of degrees below 1.
    """

    strategy: Strategy
    provided: tuple[sp.Expr, ...]
    splits: tuple[Split, ...]
    assumptions: Assumptions
    fixed: tuple[sp.Symbol, ...] = ()
    mesh: tuple[tuple[sp.Symbol, sp.Expr], ...] = ()

    def __str__(self) -> str:
        text = super().__str__()
        if self.provided:
            side = " and ".join(f"{tex.text(p)} <= 1" for p in self.provided)
            text += f" provided {side}"
        return text

    def on(self, *givers: Giver, **values: object) -> Answer:
        """The number: with a chip, a model, and values by symbol name.

        M_X, M_Y and M_Z are taken as 1 where no value is given, and shown as assumed. Raises
        DeriveError naming the symbols without a value, UnitError for sequences given as tokens.
        """
        return answers(
            self.question.expr,
            self.question.unit,
            self.bounds,
            self.provided,
            self.mesh,
            self.assumptions,
            givers,
            values,
        )


@overload
def threshold(
    strategy: Strategy,
    asked: sp.Expr,
    assumptions: Assumptions = ...,
    *,
    fixed: Iterable[sp.Symbol] = ...,
    **changes: object,
) -> Threshold: ...
@overload
def threshold(
    strategy: Limit,
    asked: sp.Expr,
    assumptions: StepAssumptions | str = ...,
    *,
    exact: bool = ...,
) -> LimitThreshold: ...
def threshold(
    strategy: Strategy | Limit,
    asked: sp.Expr,
    assumptions: Assumptions | StepAssumptions | str | None = None,
    *,
    fixed: Iterable[sp.Symbol] = (),
    **changes: object,
) -> Threshold | LimitThreshold:
    """The condition on `asked` (a symbol or ratio, e.g. B/X) under which `strategy` is
    compute-bound; on P or M_hbm, under which the model's state fits in memory.

    `fixed` names mesh axes that are held instead of chosen for the best; `changes` are assumptions
    by name (overlap="serial"). Of a limit of the step model, such as context_ring, the bound on a
    symbol under which its claim holds: `assumptions` are then those of a step or their name
    ("notebook"), and exact=True keeps the shares (n-1)/n that are else taken as 1.

    Raises NotClosedForm where there is no readable closed form and DeriveError where the condition
    does not involve what is asked.
    """
    if not isinstance(strategy, Strategy):
        return _of_limit(strategy, asked, assumptions, fixed, changes)
    base = DEFAULT if assumptions is None else assumptions
    if not isinstance(base, Assumptions):
        raise DeriveError(f"{strategy.name}: expected Assumptions, found {quoted(base)}")
    return _threshold(strategy, question(asked), assume(base, **changes), tuple(fixed))


def _of_limit(
    of: object,
    asked: sp.Expr,
    assumptions: object,
    fixed: Iterable[sp.Symbol],
    changes: dict[str, object],
) -> LimitThreshold:
    # Imported here: they bring the step model, which a strategy does not need.
    from derive.cost.limits import as_limit
    from derive.cost.step_assumptions import DEFAULT
    from derive.solve.limit import limit_threshold

    limit = as_limit(of)
    exact = changes.pop("exact", False)
    for name in [*changes, *(["fixed"] if tuple(fixed) else [])]:
        raise DeriveError(f"{name} plays no part in {limit.name}; exact=True does")
    given = DEFAULT if assumptions is None else assumptions
    return limit_threshold(limit, asked, given, exact=exact)


@lru_cache(maxsize=512)
def _threshold(
    strategy: Strategy, what: Question, assumptions: Assumptions, fixed: tuple[sp.Symbol, ...]
) -> Threshold:
    if what.symbols & {v.P, v.M_hbm, v.s_P}:
        return _capacity(strategy, what, assumptions, fixed)
    state = held(strategy, assumptions, what, fixed)
    bounds: list[Bound] = []
    provided: list[sp.Expr] = []
    unknown_symbol = sp.Dummy("q", positive=True)
    for condition in state.conditions:
        load = condition.load
        if v.alpha in what.symbols:
            load = load.xreplace({v.C: v.alpha * v.W})
        load = load.xreplace({what.main: unknown_symbol / what.rest})
        load = load.xreplace(dict(state.given))
        try:
            found = solved(load, unknown_symbol)
        except NotClosedForm:
            raise NotClosedForm(
                f"{tex.text(what.expr)} has no readable closed form: the condition is "
                f"{tex.text(in_alpha(condition.load))} <= 1"
            ) from None
        bounds += _bounds(found, condition, what)
        provided += [in_alpha(p, what) for p in found.provided]
    if not bounds:
        raise _not_involved(strategy, what, state.conditions)
    strictest = _strictest(bounds)
    return Threshold(
        what,
        strictest,
        strategy,
        tuple(dict.fromkeys(provided)),
        tuple(_split_in_alpha(s, what) for s in state.splits),
        assumptions,
        fixed,
        _mesh_at(strictest, state, what),
    )


def _mesh_at(
    bounds: tuple[Bound, ...], state: Held, what: Question
) -> tuple[tuple[sp.Symbol, sp.Expr], ...]:
    """The degrees of the mesh at the bound, where one split is chosen for the best."""
    if len(bounds) != 1 or len(state.splits) != 1:
        return ()
    (split,), at_bound = state.splits, {what.main: bounds[0].expr / what.rest}
    degrees = [(split.symbol, split.at)]
    degrees += [(s, x.xreplace({split.symbol: split.at})) for s, x in state.given]
    return tuple((s, in_alpha(x.xreplace(at_bound), what)) for s, x in degrees)


def _bounds(found: Range, condition: Condition, what: Question) -> list[Bound]:
    return [
        Bound(direction, in_alpha(expr, what), condition.passes, condition.where)
        for direction, expr in ((">=", found.low), ("<=", found.high))
        if expr is not None
    ]


def in_alpha(expr: sp.Expr, what: Question | None = None) -> sp.Expr:
    """`expr` in terms of alpha = C/W, where C and W occur in that ratio only and are not asked."""
    if not {v.C, v.W} <= expr.free_symbols or (what and what.symbols & {v.C, v.W}):
        return expr
    changed = expr.xreplace({v.C: v.alpha * v.W})
    if v.W in changed.free_symbols:
        changed = sp.expand(changed)
    return expr if v.W in changed.free_symbols else changed


def _split_in_alpha(split: Split, what: Question) -> Split:
    return replace(split, at=in_alpha(split.at, what))


def _strictest(bounds: list[Bound]) -> tuple[Bound, ...]:
    """The bounds without those that another one of the same direction implies."""
    kept: list[Bound] = []
    for new in bounds:
        if any(_implies(old, new) for old in kept):
            continue
        kept = [old for old in kept if not _implies(new, old)]
        kept.append(new)
    return tuple(kept)


def _implies(strong: Bound, weak: Bound) -> bool:
    if strong.direction != weak.direction:
        return False
    ratio = strong.expr / weak.expr
    if not isinstance(ratio, sp.Rational):
        return False
    return bool(ratio >= 1 if strong.direction == ">=" else ratio <= 1)


def _capacity(
    strategy: Strategy, what: Question, assumptions: Assumptions, fixed: tuple[sp.Symbol, ...]
) -> Threshold:
    state = state_of_chip(strategy, what, fixed)
    load = (state / v.M_hbm).xreplace(assumptions.constants)
    unknown_symbol = sp.Dummy("q", positive=True)
    found = solved(load.xreplace({what.main: unknown_symbol / what.rest}), unknown_symbol)
    condition = Condition(("every",), ("memory",), (load,))
    bounds = tuple(_bounds(found, condition, what))
    if not bounds:
        raise _not_involved(strategy, what, (condition,))
    return Threshold(what, bounds, strategy, (), (), assumptions, fixed)


def _not_involved(strategy: Strategy, what: Question, found: tuple[Condition, ...]) -> DeriveError:
    loads = [in_alpha(c.load) for c in found]
    names = sorted({s for load in loads for s in load.free_symbols}, key=v.rank)
    listed = ", ".join(s.name for s in names)
    if not found:
        return DeriveError(f"{strategy.name} communicates nothing under these assumptions")
    return DeriveError(
        f"the condition of {strategy.name} does not involve {what.expr}: it is "
        + " and ".join(f"{tex.text(load)} <= 1" for load in loads)
        + f"; ask for one of {listed}"
    )
