"""Thresholds: the bound under which loads do not exceed one, in closed form, with direction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import sympy as sp

from derive.cost.assumptions import DEFAULT, Assumptions
from derive.cost.limits import Limit
from derive.cost.load import CAPACITY, Load, Requirement
from derive.cost.network import TORUS_AXES
from derive.cost.strategies import Strategy
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, NotClosedForm, ProofError, guarded, quoted, unknown
from derive.notation.printed import shown
from derive.notation.quantity import Quantity, evaluated, number
from derive.notation.units import one
from derive.solve.answer import Answer, Bound, Bounded, Side, holds, strictest
from derive.solve.links import link_notes, other_networks
from derive.solve.powers import Balance, Held, held, solved, turned
from derive.solve.proof import Separation, can_be_negative
from derive.solve.question import (
    Fixed,
    Question,
    Subject,
    at_value,
    axes_held,
    put_through,
    question,
    requirement,
)  # fmt: skip
from derive.solve.values import Filled, Giver, Values, filled

TRIAL = sp.Dummy("q", positive=True)  # the value of what is asked


@guarded
@dataclass(frozen=True, repr=False)
class Threshold(Bounded):
    """The condition on a question under which a requirement holds.

    `splits` are the values of the mesh axis that was free to choose, at which the bounds are
    reached, and `mesh` the degrees that the mesh has there: a closed form knows nothing of degrees
    below 1. `fixed` are the mesh axes held.
    """

    state: Held
    splits: tuple[Balance, ...] = ()
    fixed: tuple[sp.Symbol, ...] = ()
    mesh: tuple[tuple[sp.Symbol, sp.Expr], ...] = ()

    @property
    def direction(self) -> str:
        """`>=` or `<=`; raises DeriveError where there are bounds of both."""
        (direction, *more) = {bound.direction for bound in self.bounds}
        if more:
            raise DeriveError(f"{self} is bounded on both sides; ask for .bounds")
        return direction

    @property
    def load(self) -> sp.Expr:
        """What must not exceed one; raises DeriveError where that is more than one load."""
        if len(self.state.loads) != 1:
            raise DeriveError(f"{self} has {len(self.state.loads)} loads; ask for .requirement")
        return self.state.loads[0].total

    @property
    def exact(self) -> bool:
        return self.assumptions.exact

    @property
    def check(self) -> Separation:
        """What the bounds claim, with what is known of degrees, nodes and shares."""
        need, state = self.requirement, self.state
        symbols = {s for load in need.loads for s in load.total.free_symbols} | {self.symbol, v.N}
        degrees = [s for s in symbols if v.is_degree(s)] if self.exact or need.definitions else []
        ordered = sorted([*degrees, v.n_node, v.n_near], key=v.rank)
        known = [sp.Ge(s, 1, evaluate=False) for s in ordered] + [v.epsilon < 1]
        if isinstance(self.subject, Strategy):  # a mesh on two levels, its last axis in a node
            inside = [v.n_node >= v.find(axis) for axis in self.subject.nested[1:][-1:]]
            known += [need.chips >= v.n_node, *inside]
        more = (self.splits, self.provided, tuple(known), need.claim)
        return Separation(need.loads, self.question, state.given, state.free, *more)

    @property
    def described(self) -> dict[str, str]:
        """The assumptions by name; of a step also whether its form plays a part."""
        told = super().described
        if self.requirement.definitions and self._other_form == self.state.loads:
            told["form"] = "exact and large-n are the same here"
        return told

    def __str__(self) -> str:
        provided = " and ".join(map(tex.text, self.provided))
        return super().__str__() + (f" provided {provided}" if provided else "")

    def suited(self, *givers: Giver, **values: object) -> Threshold:
        """The same with the mesh axes held that are given, on the network that the chip has."""
        fixed = axes_held(self.subject, self.question, self.fixed, values)
        here = replace(self, fixed=fixed).under(self.assumptions) if fixed != self.fixed else self
        return super(Threshold, here).suited(*givers, **values)

    def _on(self, givers: tuple[Giver, ...], values: Mapping[str, object]) -> Answer:
        here = self.suited(*givers, **values)
        full = here.filled(givers, values)
        known = full.checked()
        if here._idle(known):
            return here._at_rest(full, givers, values)
        if (below := here._below_one(known)) is not None:
            axis, degree = below
            # Loads are convex in the logarithm of a split: the end nearest to the best is best.
            at_end = replace(self, fixed=(*here.fixed, axis)).under(self.assumptions)
            one_way = number(1, v.unit_of_symbol(axis), axis.name, status="assumed")
            answer = at_end._on(givers, {**values, axis.name: one_way})
            why = f"the best split has {axis} = {shown(degree)}, and no mesh has less than 1"
            return replace(answer, notes=(f"{why}: {axis} = 1", *answer.notes))
        notes = link_notes(self.assumptions, here.assumptions, givers, values)
        notes += here._with_whole_state(givers, values)
        answer = here._answer(full, [*notes, *here.idle(full, values, self.assumptions)])
        if self.assumptions.network == "chip" and here.assumptions.network == "node":
            more = [*here._beyond(answer, known), *here._elsewhere(givers, values)]
            return replace(answer, notes=(*answer.notes, *more))
        return answer

    def under(self, assumptions: Assumptions) -> Threshold:
        return threshold(self.subject, self.question.expr, assumptions, fixed=self.fixed)

    def _answer(self, full: Filled, notes: Iterable[str] = ()) -> Answer:
        values, unit, asked = full.values, self.question.unit, self.question.expr
        provided = tuple((r, evaluated(r.lhs, values, one)) for r in self.provided)
        failed = [r for r, q in provided if not holds(r, q)]
        if failed and self._holds_anyway(values):
            # No room is left, and none is needed: what is asked decides nothing.
            at_most = tuple((sp.Le(*r.args, evaluate=False), q) for r, q in provided)
            all_told = (*notes, f"with these values any {asked} will do")
            return Answer(asked, (), self.assumptions, self.described, at_most, all_told, self)
        every = []
        for bound in () if failed else self.bounds:
            number = replace(evaluated(bound.expr, values, unit, str(asked)), bound=bound.direction)
            every.append(Side(number, bound.passes, bound.where))
        finite = [side for side in every if side.quantity.value.is_finite]
        # Beside a bound that says something, one that says nothing is left out.
        telling = [side for side in finite if side.quantity.value > 0]
        said = (note for x in telling or every for note in self._notes(x.quantity, full))
        sides = telling or [side for side in finite if side.direction == ">="]
        told = [*notes, *dict.fromkeys(said)]
        if failed:
            over = "is not below" if isinstance(failed[0], sp.StrictLessThan) else "is above"
            told.append(f"no {asked} is enough: {tex.text(failed[0].lhs)} alone {over} 1")
        described = self.described
        if full.inside_node is not None:
            why = f"the link inside a node, since the group's depends on {self.symbol}"
            described[full.inside_node.name] = why
        return Answer(asked, tuple(sides), self.assumptions, described, provided, tuple(told), self)

    def _holds_anyway(self, values: Values) -> bool:
        """Whether no load is above 1 whatever is asked, as where a group of one sends nothing."""
        put = {s: quantity.value for s, quantity in values.items()}
        totals = at_value(self.state.loads, self.question, self.state.given, TRIAL)
        return all(x.is_Rational and x <= 1 for x in (total.xreplace(put) for total in totals))

    def _beyond(self, answer: Answer, known: Values) -> Iterator[str]:
        """That a degree is bounded by more than the chips of a node, where it is."""
        degree = self.symbol in self.requirement.mesh or self.symbol == v.N
        if self.question.expr == self.symbol and degree and v.n_node in known:
            node = known[v.n_node].value
            if any(s.direction == "<=" and s.quantity.value > node for s in answer.sides):
                yield f"a node has {node} chips: the bound holds up to {self.symbol} = {node}"

    def _elsewhere(self, givers: tuple[Giver, ...], values: Mapping[str, object]) -> Iterator[str]:
        """What holds on the other networks of a chip with nodes, one line each."""
        for other, words in other_networks(self.assumptions, givers, values):
            try:
                answer = self.under(other).on(*givers, **values)
            except DeriveError:  # no closed form there, or a value that only it needs
                continue
            told = " and ".join(f"{s.direction} {s.text}" for s in strictest(answer.sides).values())
            if told:
                yield f"{words}: {tex.text(self.question.expr)} {told} (network {other.network})"

    def _with_whole_state(
        self, givers: Iterable[Giver], values: Mapping[str, object]
    ) -> Iterator[str]:
        """What holds where a chip has more than the weights and the optimizer's moments."""
        if self.requirement.loads[0].links != (CAPACITY,) or self.symbol == v.s_P:
            return
        general = self.under(replace(self.assumptions, precision="any"))
        for gradients, size in self.assumptions.whole_state.items():
            (side,) = general.on(*givers, **{**values, "s_P": size}).sides
            told = f"with {gradients} gradients and an fp32 copy of the weights, {size} bytes per"
            asked = tex.text(self.question.expr)
            yield f"{told} parameter: {asked} {side.direction} {side.text}"

    def _below_one(self, values: Values) -> tuple[sp.Symbol, sp.Expr] | None:
        """The mesh axis of which the best split would have less than one way, and its degree."""
        for symbol, degree in self.mesh:
            at = filled(degree.free_symbols, self.requirement, None, values)
            if at.missing:  # a symbol that the bound itself does not need has no value
                continue
            value = evaluated(degree, at.values, v.unit_of_symbol(symbol)).value
            if value < 1:
                return symbol, value
        return None

    # What a limit of a step says besides.
    @cached_property
    def _other_form(self) -> tuple[Load, ...]:
        form = "large-n" if self.exact else "exact"
        other = requirement(self.subject, None, replace(self.assumptions, form=form))
        return put_through(other, self.question).loads

    def _idle(self, values: Values) -> bool:
        """Whether the loads of a limit are zero whatever is asked, as in a group of one."""
        if not isinstance(self.subject, Limit):
            return False
        for load in self.state.loads if self.exact else self._other_form:
            needed = load.total.free_symbols - {self.symbol}
            known = filled(needed, self.requirement, self.symbol, values).values
            if load.total.xreplace({s: known[s].value for s in needed & known.keys()}) != 0:
                return False
        return True

    def _at_rest(
        self, full: Filled, givers: Iterable[Giver], values: Mapping[str, object]
    ) -> Answer:
        """The answer where the load is zero, of which the large-n form knows nothing."""
        why = self.requirement.idle
        note = f"with these values {why}, so any {self.symbol} will do" if why else ""
        try:
            exact = self.under(replace(self.assumptions, form="exact"))
        except NotClosedForm:
            notes = (note or f"with these values there is no bound on {self.symbol}",)
            return replace(self._answer(full), sides=(), notes=notes)
        again = exact.filled(givers, values)
        answer, idle = exact._answer(again), again.idle(values, full.used)
        told = (note, *answer.notes[1:]) if note else answer.notes
        return replace(answer, notes=(*told, *idle))

    def _notes(self, number: Quantity, full: Filled) -> Iterator[str]:
        """What a bound that is no positive number, or beyond a node, says."""
        symbol, value, low = self.question.expr, number.value, number.bound == ">="
        if not value.is_finite:
            yield f"with these values there is no bound on {symbol}"
        elif low and 0 < value < 1 and symbol == v.n_mb:
            yield "with these values one micro-batch is enough"
        elif value <= 0:
            yield f"with these values any {symbol} will do"
        elif symbol in (v.N, *self.requirement.mesh) and (value <= 1 if low else value < 1):
            yield f"{'any' if low else 'no'} {symbol} will do: a mesh has at least 1"
        elif low and symbol in TORUS_AXES.values() and v.M_axes in full.values:
            there = full.values[v.M_axes]
            if value > there.value:
                yield f"no {symbol} will do: {there.owner or 'the chip'} has {there.value}"
        if full.inside_node is None:
            return
        node, inside, outside = (full.values[s].value for s in (v.n_node, v.W_node, v.W_dcn))
        if value > node and outside < inside:
            told = f"in groups beyond a node of {shown(node)} the link changes: the bound holds up"
            yield f"{told} to {symbol} = {shown(node)}; beyond, give {full.inside_node} a value"


def threshold(
    subject: Subject,
    asked: sp.Expr,
    assumptions: Assumptions | str = DEFAULT,
    *,
    fixed: Fixed = (),
    **changes: object,
) -> Threshold:
    """The condition on `asked` (a symbol or ratio, e.g. B/X) under which a strategy is
    compute-bound, or on P or M_hbm, under which the model's state fits in memory; of a limit of a
    training step, such as context_ring, the bound on a symbol under which its claim holds.

    `assumptions` are a value or the name of a set ("notebook"); `changes` are assumptions by name
    (overlap="serial"), and exact=True is form="exact". `fixed` names mesh axes that are held
    instead of chosen for the best.

    Raises NotClosedForm where there is no readable closed form and DeriveError where the condition
    does not involve what is asked.
    """
    what = question(asked)
    axes = axes_held(subject, what, fixed)
    need = requirement(subject, what, assumptions, axes, **changes)
    if isinstance(subject, Limit):  # a ratio that the step model has a symbol for is that symbol
        symbol = {expr: s for s, expr in need.definitions}.get(what.expr, what.expr)
        if not isinstance(symbol, sp.Symbol):
            told = f"such as T_r or T/cp, found {quoted(what.expr)}"
            raise DeriveError(f"{need.name}: a limit is asked for one symbol, {told}")
        what = question(symbol)
    need = put_through(need, what)
    # Most assumptions leave most loads as they are: what is solved knows no more than those.
    bare = replace(need, assumptions=DEFAULT, definitions=need.definitions[:1], described={})
    return replace(_bounded_by(subject, bare, what, axes), requirement=need)


@lru_cache(maxsize=1024)
def _bounded_by(
    subject: Subject, need: Requirement, what: Question, fixed: tuple[sp.Symbol, ...]
) -> Threshold:
    state = held(need, what, fixed)
    bounds: list[Bound] = []
    provided: list[sp.Rel] = []
    totals = at_value(state.loads, what, state.given, TRIAL)
    for load, total in zip(state.loads, totals, strict=True):
        try:
            range_ = solved(total, TRIAL)
            if range_.unclear is not None and can_be_negative(range_.unclear, need.mesh):
                raise NotClosedForm("the direction of the bound is that of a sign")
        except NotClosedForm:
            asked = tex.text(what.expr)
            name = f"{need.name}: {asked}" if need.definitions else asked
            told = f"the condition is {tex.text(in_alpha(load.total))} <= 1"
            raise NotClosedForm(f"{name} has no readable closed form: {told}") from None
        for direction, expr in ((">=", range_.low), ("<=", range_.high)):
            if expr is not None:
                bounds.append(Bound(direction, in_alpha(expr, what), load.passes, load.links))
        provided += [r.func(in_alpha(r.lhs, what), 1, evaluate=False) for r in range_.provided]
    if not bounds:
        raise _not_involved(need, what, state.loads)
    if need.definitions:
        # As one reads it: common factors taken out, no minus sign before a difference.
        bounds = [replace(b, expr=turned(sp.factor_terms(b.expr))) for b in bounds]
        provided = []
    tightest = _without_implied(bounds)
    splits = tuple(replace(split, at=in_alpha(split.at, what)) for split in state.splits)
    mesh = _mesh_at(tightest, state, what)
    strict = {r.lhs: r for r in provided if isinstance(r, sp.StrictLessThan)}
    once = tuple(dict.fromkeys(r for r in provided if strict.get(r.lhs, r) == r))
    bounded = Threshold(what, tightest, need, subject, state, splits, fixed, mesh, provided=once)
    if need.definitions:
        # The direction is that of a positive coefficient: with a negative one there is no bound.
        try:
            if len(tightest) == 1:
                Separation(state.loads, what).proved(bounded.relations, need.name)
                return bounded
        except ProofError:
            pass
        raise NotClosedForm(f"{need.name}: no single bound on {what.main}")
    return bounded


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


def in_alpha(expr: sp.Expr, what: Question | None = None) -> sp.Expr:
    """`expr` in terms of alpha = C/W, where C and W occur in that ratio only and are not asked."""
    if not {v.C, v.W} <= expr.free_symbols or (what and what.symbols & {v.C, v.W}):
        return expr
    changed = expr.xreplace({v.C: v.alpha * v.W})
    for multiplied in (sp.expand, sp.factor_terms):
        changed = multiplied(changed) if v.W in changed.free_symbols else changed
    return expr if v.W in changed.free_symbols else changed


def _without_implied(bounds: list[Bound]) -> tuple[Bound, ...]:
    """The bounds without those that another one of the same direction implies."""
    kept: list[Bound] = []
    for new in bounds:
        if not any(_implies(old, new) for old in kept):
            kept = [*(old for old in kept if not _implies(new, old)), new]
    return tuple(kept)


def _implies(strong: Bound, weak: Bound) -> bool:
    ratio = strong.expr / weak.expr
    if strong.direction != weak.direction or not isinstance(ratio, sp.Rational):
        return False
    return bool(ratio >= 1 if strong.direction == ">=" else ratio <= 1)


def _not_involved(need: Requirement, what: Question, loads: tuple[Load, ...]) -> DeriveError:
    totals = [in_alpha(load.total) for load in loads]
    names = [s.name for s in sorted({s for x in totals for s in x.free_symbols}, key=v.rank)]
    if need.definitions:
        return unknown(f"symbol of {need.name}", what.main.name, names)
    if not loads:
        spread = "" if need.mesh else ": give it a layout such as T:X"
        return DeriveError(f"{need.name} communicates nothing under these assumptions{spread}")
    condition = " and ".join(f"{tex.text(total)} <= 1" for total in totals)
    told = f"the condition of {need.name} does not involve {what.expr}: it is {condition}"
    return DeriveError(f"{told}; ask for one of {', '.join(names)}")
