"""What is to be planned: a model on so many chips with a sequence and a batch, every value checked.

Values come from the facts, from the assumption set, and last from the caller; all are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import inf
from typing import NamedTuple

import sympy as sp

from derive.cost.step import StepModel, step_model
from derive.cost.step_assumptions import DEFAULT, StepAssumptions, as_step_assumptions
from derive.facts import Chip, Model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, quoted, unknown
from derive.notation.printed import shown
from derive.notation.quantity import Quantity, evaluated, glossed, number
from derive.plan.exact import Numbers, as_float, solved_model
from derive.solve.step_values import SETTABLE, check_values, facts_of

DEGREES = (v.tp, v.cp, v.pp, v.dp)
LARGEST = 10**15  # below 2**52, so that float64 tells whole quotients
SHAPES = (v.D, v.F, v.H, v.K, v.G, v.L, v.V, v.n_V, v.n_F)  # what parameters are counted from
ROUNDINGS = 64  # more than the model has in a row
ROUNDED = sp.Rational(1, 20)  # how far a stated count of parameters may be from that of the shapes


class Counts(NamedTuple):
    """The whole numbers of a task, which alone decide what divides what: cards, those of a node,
    tokens and sequences, layers, heads, the least tokens of a context rank, into how many pieces a
    context rank's tokens are cut, and the data degree that is held, if any."""

    cards: int
    seq: int
    batch: int
    node: int
    layers: int
    kv_heads: int
    heads: int
    least_chunk: int
    pieces: int
    held: int | None


@dataclass(frozen=True, repr=False)
class Task:
    """A model, chips, a sequence in tokens and a batch in sequences, under assumptions.

    `values` holds every constant of the step model with its origin; `fixed` the degrees, and the
    micro-batch, that the caller has chosen.
    """

    model: str
    chip: str
    cards: int
    seq: int
    batch: int
    assumptions: StepAssumptions
    values: Mapping[sp.Symbol, Quantity]
    fixed: Mapping[sp.Symbol, int]

    def __repr__(self) -> str:
        """What is planned, in one line."""
        from derive.plan.report import heading  # reports are of tasks, and shown when asked for

        return heading(self)

    @cached_property
    def numbers(self) -> Numbers:
        """Every constant as an exact fraction."""
        return {s: _fraction(quantity.value) for s, quantity in self.values.items()}

    @cached_property
    def floats(self) -> dict[str, float]:
        """Every constant in float64, by name."""
        return {s.name: as_float(value) for s, value in self.numbers.items()}

    @property
    def step(self) -> StepModel:
        """The step model under the assumptions."""
        return step_model(self.assumptions)

    @cached_property
    def counts(self) -> Counts:
        """The whole numbers that the rules on degrees need."""
        n = self.numbers
        node, layers, heads = int(n[v.n_node]), int(n[v.L]), int(n[v.K])
        pieces = 2 if "zigzag" in self.assumptions.corrections else 1
        return Counts(
            self.cards, self.seq, self.batch,
            node, layers, heads, heads * int(n[v.G]), int(n[v.T_min]), pieces,
            self.fixed.get(v.dp),
        )  # fmt: skip

    @cached_property
    def blur(self) -> float:
        """How far float64 may be off, in layers, where it says how many are recomputed.

        That number is a sum of bytes over those that a recomputed layer saves. Rounding takes
        part of the states and of what the layers keep, over the same; both are largest where the
        context group is, since it splits what is saved and not the parameters.
        """
        whole = dict.fromkeys((*DEGREES, v.b_seq), Fraction(1))
        n = solved_model(self.step, {**self.numbers, **whole})
        saved, of = n[v.a_1] - n[v.a_0], self.counts
        kept = (of.layers + 2) * n[v.a_1] + n.get(v.M_logits, 0)
        context = min(of.cards, max(1, of.seq // max(1, of.least_chunk)))
        return ROUNDINGS * 2.0**-53 * as_float((context * n[v.M_states] + kept) / saved)

    @property
    def budget(self) -> Fraction:
        """The bytes of a chip that a plan may fill."""
        return self.numbers[v.mu] * self.numbers[v.M_hbm]


def task(
    model: Model,
    chip: Chip,
    *,
    cards: int,
    seq: int,
    batch: int,
    assumptions: StepAssumptions | str = DEFAULT,
    values: Mapping[sp.Symbol, Quantity] | None = None,
) -> Task:
    """The task, with `values` by symbol in place of facts and assumptions; degrees among them are
    fixed. Assumptions may be given by name. Parameters follow where shapes are given and they are
    not. Raises DeriveError, in one line, for what no plan can have."""
    _check_types(model, chip, values or {})
    assumptions = as_step_assumptions(assumptions)
    counts = {"--cards": cards, "--seq": seq, "--batch": batch}
    for option, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= LARGEST:
            raise DeriveError(
                f"{option}: expected a whole number from 1 to {LARGEST:,}, found {count!r}"
            )
    given = dict(values or {})
    fixed = {s: _whole(s, given.pop(s)) for s in (*DEGREES, v.b_seq) if s in given}
    for symbol in given:
        if symbol not in SETTABLE:
            raise unknown("value to set for a plan", symbol.name, _settable())
    bound = {**facts_of(model, chip, assumptions), **given}
    if v.P not in given and any(symbol in given for symbol in SHAPES):
        bound[v.P] = counted(model, bound)
    bound[v.T] = number(seq, v.unit_of_symbol(v.T), "T")
    bound[v.B_seq] = number(batch, v.unit_of_symbol(v.B_seq), "B_seq")
    made = Task(model.name, chip.name, cards, seq, batch, assumptions, bound, fixed)
    _check(made)
    return made


def _check_types(model: object, chip: object, values: Mapping[object, object]) -> None:
    for what, found, kind in (("model", model, Model), ("chip", chip, Chip)):
        if not isinstance(found, kind):
            name = found if isinstance(found, str) else "..."
            raise DeriveError(f'expected a {what}: write {what}("{name}"), found {quoted(found)}')
    for symbol, value in values.items():
        if not isinstance(symbol, sp.Symbol):
            raise DeriveError(f"values: expected symbols such as tp, found {quoted(symbol)}")
        if not isinstance(value, Quantity):
            told = f"write {symbol.name}: number({value})"
            raise DeriveError(f"values: expected a quantity: {told}, found {quoted(value)}")


def _settable() -> list[str]:
    return [s.name for s in (*DEGREES, v.b_seq, *SETTABLE)]


def counted(model: Model, bound: Mapping[sp.Symbol, Quantity]) -> Quantity:
    """The parameters that the shapes among `bound` make; those left out are the model's own."""
    formula = sp.Add(*model.part_formulas.values())
    return evaluated(formula, bound, v.unit_of_symbol(v.P), "P")


def check_parameters(model: Model, made: Task) -> None:
    """Raise DeriveError where the parameters are far from what the shapes make."""
    stated, shapes = made.values[v.P], counted(model, made.values)
    if abs(stated.value / shapes.value - 1) > ROUNDED:
        raise DeriveError(
            f"P = {shown(stated.value, stated.unit)} contradicts the shapes, which make "
            f"{shown(shapes.value, shapes.unit)}; leave P out, or set D, F, H, K, G, L, V to match"
        )


@lru_cache(maxsize=1024)  # models that differ in one term share all the others
def _symbols(expr: sp.Expr) -> frozenset[sp.Symbol]:
    return frozenset(expr.free_symbols)


def _check(made: Task) -> None:
    needed = set().union(*(_symbols(term.expr) for term in made.step.definitions))
    needed |= {v.C, v.T_min, v.K, v.G}
    known = {v.find(term.name) for term in made.step.definitions}
    missing = sorted(needed - known - set(made.values) - {*DEGREES, v.b_seq}, key=v.rank)
    if missing:
        names = glossed(missing)
        raise DeriveError(f"{made.chip} and {made.model} give no value for {names}; use --set")
    for symbol, value in made.numbers.items():
        if not 0 < as_float(value) < inf:
            told = "expected a positive number that float64 holds"
            raise DeriveError(f"{glossed((symbol,))}: {told}, found {quoted(value)}")
    check_values(made.values)
    n = made.numbers
    if n[v.P] <= (tables := n[v.n_V] * n[v.V] * n[v.D]):
        told = f"expected more parameters than the embedding and the head have, {int(tables):,}"
        raise DeriveError(f"P: {told}, found {n[v.P]}")
    if n[v.A_kept] <= n[v.e]:
        told = f"a layer that is kept saves more than its input, the {n[v.e]} bytes of e"
        raise DeriveError(f"A_kept: {told}, found {n[v.A_kept]}")


def _whole(symbol: sp.Symbol, quantity: Quantity) -> int:
    value = _fraction(quantity.value)
    if value.denominator != 1 or not 0 < value <= LARGEST:
        raise DeriveError(f"{glossed((symbol,))}: expected a whole number from 1, found {value}")
    return int(value)


def _fraction(value: sp.Expr) -> Fraction:
    if not isinstance(value, sp.Rational):
        raise DeriveError(f"expected an exact number, found {value}")
    return Fraction(int(value.p), int(value.q))
