"""What is to be planned: a model on so many chips with a sequence and a batch, every value checked.

Values come from the facts, from the assumption set, and last from the caller; all are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import sympy as sp

from derive.cost.step import StepModel, step_model
from derive.cost.step_assumptions import DEFAULT, StepAssumptions
from derive.facts import Chip, Model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, unknown
from derive.notation.printed import shown
from derive.notation.quantity import Quantity, evaluated, number
from derive.plan.exact import Numbers
from derive.solve.step_values import SETTABLE, SHARES, WHOLE, facts_of

DEGREES = (v.tp, v.cp, v.pp, v.dp)
LARGEST = 10**15  # below 2**52, so that float64 tells whole quotients
SHAPES = (v.D, v.F, v.H, v.K, v.G, v.L, v.V, v.n_V, v.n_F)  # what parameters are counted from
ROUNDED = sp.Rational(1, 20)  # how far a stated count of parameters may be from that of the shapes


class Counts(NamedTuple):
    """The whole numbers of a task, which alone decide what divides what: cards, those of a node,
    tokens and sequences, layers, heads, the least tokens of a context rank, and into how many
    pieces a context rank's tokens are cut."""

    cards: int
    seq: int
    batch: int
    node: int
    layers: int
    kv_heads: int
    heads: int
    least_chunk: int
    pieces: int


@dataclass(frozen=True)
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

    @cached_property
    def numbers(self) -> Numbers:
        """Every constant as an exact fraction."""
        return {s: _fraction(quantity.value) for s, quantity in self.values.items()}

    @cached_property
    def floats(self) -> dict[str, float]:
        """Every constant in float64, by name."""
        return {s.name: float(value) for s, value in self.numbers.items()}

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
        )  # fmt: skip

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
    assumptions: StepAssumptions = DEFAULT,
    values: Mapping[sp.Symbol, Quantity] | None = None,
) -> Task:
    """The task, with `values` by symbol in place of facts and assumptions; degrees among them are
    fixed. Parameters follow where shapes are given and they are not. Raises DeriveError, in one
    line, for what no plan can have."""
    counts = {"--cards": cards, "--seq": seq, "--batch": batch}
    for option, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or not 0 < count <= LARGEST:
            raise DeriveError(
                f"{option}: expected a whole number from 1 to {LARGEST:,}, found {count}"
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
        names = ", ".join(f"{s.name} ({v.meaning(s).gloss})" for s in missing)
        raise DeriveError(f"{made.chip} and {made.model} give no value for {names}; use --set")
    for symbol in WHOLE:
        if symbol in made.values and made.numbers[symbol].denominator != 1:
            raise DeriveError(f"{_called(symbol)}: expected a whole number, {_found(made, symbol)}")
    for symbol in SHARES:
        if not 0 < made.numbers[symbol] <= 1:
            raise DeriveError(f"{_called(symbol)}: expected at most 1, {_found(made, symbol)}")
    n = made.numbers
    if n[v.P] <= n[v.n_V] * n[v.V] * n[v.D]:
        raise DeriveError("P: expected more parameters than the embedding and the head have")
    if n[v.A_kept] <= n[v.e]:
        raise DeriveError("A_kept: a layer that is kept saves more than its input, e bytes")


def _called(symbol: sp.Symbol) -> str:
    return f"{symbol.name} ({v.meaning(symbol).gloss})"


def _found(made: Task, symbol: sp.Symbol) -> str:
    return f"found {made.numbers[symbol]}"


def _whole(symbol: sp.Symbol, quantity: Quantity) -> int:
    value = _fraction(quantity.value)
    if value.denominator != 1 or not 0 < value <= LARGEST:
        raise DeriveError(f"{_called(symbol)}: expected a whole number from 1, found {value}")
    return int(value)


def _fraction(value: sp.Expr) -> Fraction:
    if not isinstance(value, sp.Rational):
        raise DeriveError(f"expected an exact number, found {value}")
    return Fraction(int(value.p), int(value.q))
