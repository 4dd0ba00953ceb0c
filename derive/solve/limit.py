"""Thresholds of the step model: the bound on a symbol under which the claim of a limit holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import sympy as sp

from derive.cost.limits import Limit
from derive.cost.step import step_model
from derive.cost.step_assumptions import DEFAULT, StepAssumptions, as_step_assumptions
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, NotClosedForm, ProofError, quoted, unknown
from derive.notation.printed import ceiling, floor, printed, shown
from derive.notation.quantity import Quantity, evaluated, glossed
from derive.notation.units import chip, layer, micro_batch, sequence, token
from derive.solve.binding import Giver, Values
from derive.solve.bounds import Answered, Bound, Bounded, Side, relation
from derive.solve.limit_proof import proved_on_both_sides
from derive.solve.limit_values import Filled, filled, given_values
from derive.solve.powers import solved, turned
from derive.solve.question import question

WHOLE_UNITS = (token, sequence, micro_batch, chip, layer)
LINKS = (v.W_tp, v.W_cp, v.W_dp, v.W_pp)
FORMS: Mapping[str, str] = MappingProxyType(
    {
        "exact": "exact: (n-1)/n of a group of n is kept",
        "large-n": "large-n: (n-1)/n of a group of n is taken as 1",
    }
)


@dataclass(frozen=True, repr=False)
class LimitThreshold(Bounded):
    """The bound on a symbol under which the claim of a limit holds, where `load` is at most 1.

    `exact` keeps the shares (n-1)/n of a group of n, which are else taken as 1.
    """

    limit: Limit
    load: sp.Expr
    assumptions: StepAssumptions
    exact: bool

    @property
    def symbol(self) -> sp.Symbol:
        """The symbol that is bounded."""
        return self.question.main

    @property
    def direction(self) -> str:
        """`>=` or `<=`."""
        return self.bounds[0].direction

    @property
    def described(self) -> dict[str, str]:
        """The assumptions by name: their set, the form, what is left out, and the corrections that
        are on and can play a part."""
        form = FORMS["exact" if self.exact else "large-n"]
        if load_of(self.limit, self.symbol, self.assumptions, not self.exact) == self.load:
            form = "exact and large-n are the same here"
        told = {"name": self.assumptions.name, "form": form, "left out": self.limit.left_out}
        return {**told, **self.limit.rests_on(self.assumptions)}

    def missing(self, *givers: Giver, **values: object) -> tuple[sp.Symbol, ...]:
        """The symbols that a number needs besides; raises as `on` does for what was given."""
        return self._filled(self._given(givers, values)).missing

    def on(self, *givers: Giver, **values: object) -> LimitAnswer:
        """The number: with a chip, a model, and values by symbol name.

        What the model defines follows from these, the link of a group from its degrees among it.
        Raises DeriveError naming the symbols without a value, and for values that none can be.
        """
        given = self._given(givers, values)
        found = self._filled(given)
        if found.missing:
            raise DeriveError(f"no value for {glossed(found.missing)}")
        if self._idle(given):
            return self._at_rest(found, given)
        return self._answer(found)

    def _given(self, givers: Iterable[Giver], values: Mapping[str, object]) -> Values:
        """What was given, without a value of the symbol that is asked for."""
        found = given_values(givers, values, self.assumptions)
        return {symbol: value for symbol, value in found.items() if symbol != self.symbol}

    def _filled(self, values: Values) -> Filled:
        needed = self.closed_form.free_symbols
        return filled(needed, self.limit, self.symbol, self.assumptions, values)

    def _answer(self, found: Filled, note: str = "") -> LimitAnswer:
        unit = v.unit_of_symbol(self.symbol)
        number = evaluated(self.closed_form, found.values, unit, self.symbol.name)
        sides = (Side(self.direction, number),) if number.value.is_finite else ()
        told = (note or self._note(number), self._beyond_node(number, found))
        notes = tuple(text for text in told if text)
        return LimitAnswer(self.symbol, sides, self, notes, found.inside_node)

    def _at_rest(self, found: Filled, values: Values) -> LimitAnswer:
        """The answer where the load is zero, of which the large-n form knows nothing."""
        why = self.limit.idle
        note = f"with these values {why}, so any {self.symbol} will do" if why else ""
        try:
            exact = limit_threshold(self.limit, self.symbol, self.assumptions, exact=True)
        except NotClosedForm:
            notes = (note or f"with these values there is no bound on {self.symbol}",)
            return LimitAnswer(self.symbol, (), self, notes, found.inside_node)
        return exact._answer(exact._filled(values), note)

    def _idle(self, values: Values) -> bool:
        """Whether the load is zero whatever the symbol that is asked for, as in a group of one."""
        load = load_of(self.limit, self.symbol, self.assumptions, True)
        needed = load.free_symbols - {self.symbol}
        known = filled(needed, self.limit, self.symbol, self.assumptions, values).values
        return bool(load.xreplace({s: known[s].value for s in needed & known.keys()}) == 0)

    def _note(self, number: Quantity) -> str:
        """What a bound that is no positive number says."""
        if not number.value.is_finite:
            return f"with these values there is no bound on {self.symbol}"
        if self.direction == ">=" and 0 < number.value < 1 and self.symbol == v.n_mb:
            return "with these values one micro-batch is enough"
        if number.value > 0:
            return ""
        which = "any" if self.direction == ">=" else "no"
        return f"with these values {which} {self.symbol} will do"

    def _beyond_node(self, number: Quantity, found: Filled) -> str:
        """That the bound is past what the link it rests on reaches, where it is."""
        if not found.inside_node:
            return ""
        node, inside, outside = (found.values[s].value for s in (v.n_node, v.W_node, v.W_dcn))
        if number.value <= node or outside >= inside:
            return ""
        return (
            f"in groups beyond a node of {shown(node)} the link changes: the bound holds up to "
            f"{self.symbol} = {shown(node)}; beyond, give {self.limit.inside_node} a value"
        )


@dataclass(frozen=True, repr=False)
class LimitAnswer(Answered):
    """The number of a limit with its tree. `notes` say what a reader has to know; there are no
    `sides` where the values leave no bound. `threshold` is the exact one where the load is zero."""

    threshold: LimitThreshold
    notes: tuple[str, ...]
    inside_node: bool

    @property
    def binding(self) -> Side:
        """The bound; raises DeriveError where there is none, saying why."""
        if not self.sides:
            raise DeriveError(f"{self.threshold.limit.name}: {'; '.join(self.notes)}")
        return self.sides[0]

    @property
    def assumptions(self) -> StepAssumptions:
        return self.threshold.assumptions

    @property
    def described(self) -> dict[str, str]:
        """The assumptions by name, and the link of a node where it is taken for a group's."""
        link = self.threshold.limit.inside_node
        if not self.inside_node or link is None:
            return self.threshold.described
        why = f"the link inside a node, since the group's depends on {self.asked}"
        return {**self.threshold.described, link.name: why}

    @property
    def number_lines(self) -> list[str]:
        """The number with its formula, then its inputs and those of what the model defines."""
        lines = []
        for side in self.sides:
            number = side.quantity
            lines.append(f"{self.asked} {side.direction} {bounded_text(side)} = {number.formula}")
            lines += _tree(number)
        return lines

    def __str__(self) -> str:
        lines = [*self.number_lines, *(f"  {note}" for note in self.notes), "  assumptions:"]
        return "\n".join([*lines, *(f"    {k}: {text}" for k, text in self.described.items())])


def bounded_text(side: Side) -> str:
    """The number of a bound; of what is whole the first that meets it, so that it holds as it is
    printed."""
    value, unit = side.quantity.value, side.quantity.unit
    if unit in WHOLE_UNITS and value > 1:
        return printed(value, ceiling() if side.direction == ">=" else floor(), unit)
    return shown(value, unit)


def _tree(answer: Quantity, depth: int = 1) -> list[str]:
    lines = []
    for name, given in answer.inputs:
        origin = given.formula or ", ".join(
            x for x in (given.owner, given.source, given.status) if x
        )
        lines.append(f"{'  ' * depth}{name} = {shown(given.value, given.unit)} ({origin})")
        if given.formula and given.inputs and not given.owner:  # facts have trees of their own
            lines += _tree(given, depth + 1)
    return lines


def limit_threshold(
    limit: Limit, asked: sp.Expr, assumptions: object = DEFAULT, *, exact: object = False
) -> LimitThreshold:
    """The bound on `asked`, a symbol of the limit's load or a ratio that the step model has a
    symbol for, such as T/cp.

    `assumptions` are a set or its name. Raises NotClosedForm where there is no single bound,
    UnknownName for a symbol that plays no part, and DeriveError for what is no symbol at all.
    """
    under = as_step_assumptions(assumptions)
    if not isinstance(exact, bool):
        raise DeriveError(f"{limit.name}: exact is True or False, found {quoted(exact)}")
    wanted = question(asked).expr
    defined = {term.expr: v.find(term.name) for term in step_model(under).definitions}
    symbol = defined.get(wanted, wanted)
    if not isinstance(symbol, sp.Symbol):
        found = f"such as {limit.asked}, found {quoted(wanted)}"
        raise DeriveError(f"{limit.name}: a limit is asked for one symbol, {found}")
    return _solved(limit, symbol, under, exact)


@lru_cache(maxsize=256)
def load_of(limit: Limit, symbol: sp.Symbol, assumptions: StepAssumptions, exact: bool) -> sp.Expr:
    """The declared load, with what the model defines through `symbol` put in, so that all of its
    dependence on the symbol shows. A link is none of it: it steps where a group leaves its node,
    so it is held, and needs a value of its own."""
    load = limit.load(assumptions, not exact)
    through = {symbol}
    instead = []
    for term in step_model(assumptions).definitions:
        defined = v.find(term.name)
        if defined not in (symbol, *LINKS) and term.expr.free_symbols & through:
            through.add(defined)
            instead.append((defined, term.expr))
    for defined, expr in reversed(instead):
        load = load.xreplace({defined: expr})
    return load


@lru_cache(maxsize=256)
def _solved(
    limit: Limit, symbol: sp.Symbol, assumptions: StepAssumptions, exact: bool
) -> LimitThreshold:
    load = load_of(limit, symbol, assumptions, exact)
    if symbol not in load.free_symbols:
        known = sorted(load.free_symbols, key=v.rank)
        raise unknown(f"symbol of {limit.name}", symbol.name, [s.name for s in known])
    try:
        range_ = solved(load, symbol)
    except NotClosedForm:
        raise NotClosedForm(
            f"{limit.name}: {symbol} has no readable closed form: the condition is "
            f"{tex.text(load)} <= 1"
        ) from None
    refusal = NotClosedForm(f"{limit.name}: no single bound on {symbol}")
    if (range_.low is None) is (range_.high is None):
        raise refusal
    direction, plain = (">=", range_.low) if range_.high is None else ("<=", range_.high)
    plain = sp.factor_terms(plain)
    shorter = min((turned(plain), turned(sp.factor(plain))), key=sp.count_ops)
    bound = Bound(direction, shorter)
    try:
        # The direction is that of a positive coefficient: with a negative one there is no bound.
        proved_on_both_sides(load, relation(symbol, bound), limit.name)
    except ProofError:
        raise refusal from None
    return LimitThreshold(question(symbol), (bound,), limit, load, assumptions, exact)
