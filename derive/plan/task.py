"""What is to be planned: a model on so many chips with a sequence and a batch, every value checked.

Values come from the facts, from the assumption set, and last from the caller; all are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import inf
from typing import Any

import numpy as np
import sympy as sp

from derive.cost.assumptions import BYTES, DEFAULT, TERMS, Assumptions, assume
from derive.cost.schedule import BY_ASSUMPTION
from derive.cost.step import StepModel, step_model
from derive.facts import Chip, Model
from derive.facts.stacks import step_error
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, UnknownName, meant, quoted
from derive.notation.quantity import Quantity, evaluated, glossed, number, without_value
from derive.plan.axes import AXES, Counts, Space, grid
from derive.plan.layout import Layout
from derive.plan.layout import layout as read_layout
from derive.solve.evaluate import as_float
from derive.solve.values import (
    SETTABLE,
    check_values,
    fabric_of,
    facts_of,
    typed_values,
    whole,
)  # fmt: skip

DEGREES = tuple(axis.symbol for axis in AXES)
NOUNS = {"batch": "sequence", "cards": "card", "seq": "token"}
MOST = 10**24  # tokens of a run
MOST_OF_SHAPE = 10**6  # of which float64 tells how many layers are run again
LARGEST = 10**15  # below 2**52, so that float64 tells whole quotients
SHAPES = (v.D, v.F, v.H, v.K, v.G, v.L, v.V, v.n_V, v.n_F)  # what parameters are counted from
OWN = (v.T, v.B_seq, v.P, v.C_A, v.L_g, v.L_p, v.L_f, v.L_i, v.L_l)  # the task's, not the facts'
RULED = (v.n_node, v.L, v.K, v.G, v.T_min)  # what the rules on degrees need
ROUNDED = sp.Rational(1, 20)  # how far a stated count of parameters may be from that of the shapes


@dataclass(frozen=True, repr=False)
class Task:
    """A model, chips, a sequence in tokens and a batch in sequences, under assumptions.

    `values` holds every constant of the step model with its origin; `fixed` the degrees that the
    caller has chosen; `given` the symbols that the caller has set, degrees among them.
    """

    model: str
    chip: str
    cards: int
    seq: int
    batch: int
    assumptions: Assumptions
    values: Mapping[sp.Symbol, Quantity]
    fixed: Mapping[sp.Symbol, int]
    fabric: str = "switch"
    given: tuple[sp.Symbol, ...] = ()
    tokens: int | None = None  # of a run
    stages: tuple[int, ...] = ()  # the layers of each, where they are given
    facts: tuple[Model, Chip] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """What is planned, in one line."""
        return (
            f"{self.model} on {self.cards:,} x {self.chip}, {amounts('seq', (self.seq,))} a "
            f"sequence, {amounts('batch', (self.batch,))} a step, assumptions: {self.assumptions}"
        )

    @cached_property
    def constants(self) -> Mapping[sp.Symbol, Quantity]:
        """The values, with a node that has no more chips than there are cards."""
        node = self.values.get(v.n_node)
        if node is None or node.value <= self.cards:
            return self.values
        cards = number(self.cards, node.unit, "n_node", status="derived")
        return {**self.values, v.n_node: cards}

    @cached_property
    def numbers(self) -> dict[sp.Symbol, Fraction]:
        """Every constant as an exact fraction."""
        return {s: _fraction(quantity.value) for s, quantity in self.constants.items()}

    @cached_property
    def floats(self) -> dict[sp.Symbol, Any]:
        """Every constant in NumPy's float64."""
        return {s: np.float64(as_float(value)) for s, value in self.numbers.items()}

    @cached_property
    def step(self) -> StepModel:
        """The step model under the assumptions."""
        return step_model(self.assumptions, fabric=self.fabric)

    @cached_property
    def counts(self) -> Counts:
        """The whole numbers that the rules on degrees need."""
        node, layers, kv_heads, shared, least = (int(self.values[s].value) for s in RULED)
        return Counts(
            self.cards, self.seq, self.batch, node, layers, kv_heads, kv_heads * shared, least,
            pieces=2 if "zigzag" in self.assumptions else 1,
            experts=int(self.values[v.E].value) if self.assumptions.has_experts else 0,
            expert_width=int(self.values[v.F_E].value) if self.assumptions.has_experts else 0,
            wide="wide_grid" in self.assumptions,
            uneven="uneven_stages" in self.assumptions,
            interleaves=BY_ASSUMPTION[self.assumptions.schedule].interleaves and not self.stages,
            sharded="sharded_states" in self.assumptions,
            held=self.fixed.get(v.dp),
            given=len(self.stages),
        )  # fmt: skip

    @property
    def idle(self) -> tuple[sp.Symbol, ...]:
        """What the caller has set and plays no part in the model under these assumptions."""
        counted_from = {name for name, _ in self.values[v.P].inputs}
        used = {*_symbols(self.step), *RULED, *DEGREES}
        return tuple(s for s in self.given if s not in used and s.name not in counted_from)

    def under(self, assumptions: Assumptions) -> Task:
        """The same under other assumptions, whose constants take the place of these."""
        known = self.values
        if self.facts:
            known = {**facts_of(*self.facts, assumptions), **_of_step(self.facts[0], assumptions)}
        own = (s for s in (*OWN, *self.given) if s in self.values)
        known = {**known, **{s: self.values[s] for s in own}}
        return replace(self, assumptions=assumptions, values=known)

    @property
    def rests_on(self) -> dict[sp.Symbol, Quantity]:
        """The constants that play a part, those of the model's shape and of the task left out."""
        told = {*SHAPES, v.P, v.T, v.B_seq}
        used = {*_symbols(self.step), v.n_node} - told
        return {s: value for s, value in self.constants.items() if s in used}

    @property
    def space(self) -> Space:
        """The grid that is searched; raises DeriveError as `axes.grid` does."""
        return grid(self.counts, self.fixed)

    @property
    def measured(self) -> bool:
        """Whether the assumptions take measured shares."""
        return bool(self.assumptions.corrections & TERMS.keys())

    @property
    def unfitted(self) -> str:
        """What the runs that shares are fitted to have none of, in words; empty for a dense model
        in 16 bits on GPUs."""
        if self.assumptions.has_experts:
            return "with experts"
        if self.fabric == "torus":
            return "on a torus"
        return f"in {self.assumptions.precision}" if _narrow(self.assumptions) else ""

    @property
    def step_error(self) -> float | None:
        """How far off nine of ten predicted steps are at most, as runs on the chip say; None for
        what is not `measured`, or is `unfitted`."""
        return step_error(self.chip) if self.measured and not self.unfitted else None

    @property
    def budget(self) -> Fraction:
        """The bytes of a chip that a plan may fill."""
        return self.numbers[v.mu] * self.numbers[v.M_hbm]


def task(
    model: Model,
    chip: Chip,
    *,
    cards: object,
    seq: object,
    batch: object,
    assumptions: Assumptions | str = DEFAULT,
    values: Mapping[Any, object] | None = None,
    layout: str = "",
    tokens: object = None,
) -> Task:
    """The task, with `values` by symbol or name in place of facts and assumptions; degrees among
    them are fixed, as are those of a `layout`, "tp=8,pp=16,recompute=full", whose choices take the
    place of the assumptions'. Assumptions may be given by name. Parameters follow where shapes are
    given and they are not. Raises DeriveError, in one line, for what no plan can have."""
    for what, one, kind in (("model", model, Model), ("chip", chip, Chip)):
        if not isinstance(one, kind):
            name = one if isinstance(one, str) else "..."
            raise DeriveError(f'expected a {what}: write {what}("{name}"), found {quoted(one)}')
    if model.kv_lora_rank and not model.q_lora_rank:
        told = (
            "attention whose keys and values go through a latent and queries do not is not modelled"
        )
        raise DeriveError(f"{model.name}: {told}")
    laid_out = read_layout(layout) if layout else Layout({}, {}, {})
    assumptions = assume(assumptions, architecture=model.architecture, **laid_out.choices)
    cards = whole(cards, v.N, "cards", LARGEST)
    seq, batch = whole(seq, v.T, "seq", LARGEST), whole(batch, v.B_seq, "batch", LARGEST)
    given = typed_values(values or {}, bounded=False)  # by what float64 holds, below
    chosen = tuple(given)
    fixed = {s: whole(given.pop(s), s, s.name, LARGEST) for s in DEGREES if s in given}
    if twice := [s.name for s in laid_out.degrees if s in fixed]:
        raise DeriveError(f"{twice[0]} is given by the layout and as a value; leave one out")
    fixed |= laid_out.degrees
    if v.L_g in laid_out.values and v.L_g in given:
        raise DeriveError("recompute is given by the layout and L_g as a value; leave one out")
    for symbol in given:
        if symbol not in SETTABLE:
            names = [s.name for s in (*DEGREES, *SETTABLE)]
            near = meant(symbol.name, names, "derive symbols lists them")
            raise UnknownName(f"unknown value to set for a plan {quoted(symbol.name)}; {near}")
    listed = ((s, layers) for s, layers in laid_out.values.items() if layers)
    given |= {s: number(layers, v.unit_of_symbol(s), s.name) for s, layers in listed}
    bound = {**facts_of(model, chip, assumptions), **_of_step(model, assumptions), **given}
    if v.C in given and v.C_A not in given and assumptions.precision == "bf16":
        bound[v.C_A] = bound[v.C].named("C_A")  # that of the core of attention, in the same bytes
    if v.P not in given and any(symbol in given for symbol in SHAPES):
        bound[v.P] = counted(model, bound)
    bound[v.T] = number(seq, v.unit_of_symbol(v.T), "T")
    bound[v.B_seq] = number(batch, v.unit_of_symbol(v.B_seq), "B_seq")
    asked = Task(
        model.name, chip.name, cards, seq, batch, assumptions, bound, fixed,
        fabric_of(chip), chosen, None if tokens is None else whole(tokens, v.R, "tokens", MOST),
        laid_out.stages, (model, chip),
    )  # fmt: skip
    _check(asked)
    return asked


def _of_step(model: Model, assumptions: Assumptions) -> dict[sp.Symbol, Quantity]:
    """What a step of a model takes besides: the width of dense layers among those with experts, and
    copies of rows as many as experts where they go to each by itself; and where its products are in
    8 bits, the bytes of tensors, which are held in 16."""
    known: dict[sp.Symbol, Quantity] = {}
    if model.experts:
        shapes = model.bindings()
        known[v.F] = shapes.get(v.F, shapes[v.F_E].named("F"))
        known[v.n_M] = shapes[v.n_k].named("n_M")
    if _narrow(assumptions):
        known[v.e] = number(BYTES["bf16"], v.unit_of_symbol(v.e), "e", status="assumed")
    return known


def _narrow(assumptions: Assumptions) -> bool:
    """Whether products are in fewer than 16 bits."""
    return assumptions.precision != "any" and BYTES[assumptions.precision] < BYTES["bf16"]


def counted(model: Model, bound: Mapping[sp.Symbol, Quantity]) -> Quantity:
    """The parameters that the shapes among `bound` make; those left out are the model's own."""
    formula = sp.Add(*model.part_formulas.values())
    return evaluated(formula, bound, v.unit_of_symbol(v.P), "P")


def check_parameters(model: Model, asked: Task) -> None:
    """Raise DeriveError where the parameters are far from what the shapes make."""
    stated, shapes = asked.values[v.P], counted(model, asked.values)
    if abs(stated.value / shapes.value - 1) > ROUNDED:
        raise DeriveError(
            f"P = {stated.printed()} contradicts the shapes, which make "
            f"{shapes.printed()}; leave P out, or set D, F, H, K, G, L, V to match"
        )


@lru_cache(maxsize=32)
def _symbols(model: StepModel) -> frozenset[sp.Symbol]:
    """The symbols that a model and its budget need values for, degrees among them."""
    kinds = (term for terms in model.memory.values() for term in terms)
    terms = (*model.definitions, *model.parts, *kinds)
    every = model.utilisation.free_symbols.union(*(term.expr.free_symbols for term in terms))
    return frozenset({v.mu, v.M_hbm, *every} - {v.find(term.name) for term in model.definitions})


def _check(asked: Task) -> None:
    needed = {*_symbols(asked.step), *RULED} - {*asked.values, *DEGREES}
    if missing := sorted(needed, key=v.rank):
        raise without_value(missing, f"{asked.chip} and {asked.model} give ")
    for symbol, value in asked.numbers.items():
        if not 0 < as_float(value) < inf:
            told = "expected a positive number that float64 holds"
            raise DeriveError(f"{glossed((symbol,))}: {told}, found {quoted(value)}")
    check_values(asked.values)
    n = asked.numbers
    if (stages := asked.stages) and sum(stages) != n[v.L]:
        raise DeriveError(f"layers: expected the {n[v.L]} of the model, found {sum(stages)}")
    if stages and (pp := asked.fixed[v.pp]) != len(stages):
        raise DeriveError(f"pp = {pp}: layers are given for {len(stages)}; pp={len(stages)} does")
    if stages and asked.fixed.get(v.virtual, 1) > 1:
        raise DeriveError("virtual: a list of layers is of whole stages; virtual=1 does")
    wide = asked.assumptions.corrections & TERMS.keys()  # whose grid has too many to tell exactly
    for symbol in (*SHAPES, v.F_E) if wide else (v.L,):
        if n.get(symbol, 0) > MOST_OF_SHAPE:
            told = f"expected at most {MOST_OF_SHAPE:,}, found {quoted(n[symbol])}"
            raise DeriveError(f"{glossed((symbol,))}: {told}")
    if asked.assumptions.has_experts:
        uneven = n[v.E] / n[v.n_k]  # rows of an expert that each token goes to, over an even share
        for limited, told, bound in (
            (v.n_k, "E", n[v.E]), (v.L_E, "L", n[v.L]), (v.x_cap, "E/n_k", uneven),
        ):  # fmt: skip
            if n[limited] > bound:
                wanted = f"expected at most {told} = {bound}"
                raise DeriveError(f"{limited}: {wanted}, found {quoted(n[limited])}")
    if asked.assumptions.recompute == "given":
        layers, pp = n[v.L], asked.fixed.get(v.pp, 1)
        if n[v.L_g] > (most := n.get(v.L_p, -(-layers // pp))):
            stage = f" of a stage ({layers} on {pp} stages)" if pp > 1 else ""
            told = f"expected at most the {most} layers{stage or ' that there are'}"
            raise DeriveError(f"recompute: {told}, found {n[v.L_g]}")
    if n[v.P] <= (tables := n[v.n_V] * n[v.V] * n[v.D]):
        told = f"expected more parameters than the embedding and the head have, {int(tables):,}"
        raise DeriveError(f"P: {told}, found {n[v.P]}")
    if n[v.A_kept] <= n[v.e]:
        told = f"a layer that is kept saves more than its input, the {n[v.e]} bytes of e"
        raise DeriveError(f"A_kept: {told}, found {n[v.A_kept]}")


def _fraction(value: sp.Expr) -> Fraction:
    if not isinstance(value, sp.Rational):
        raise DeriveError(f"expected an exact number, found {value}")
    return Fraction(int(value.p), int(value.q))


def amounts(quantity: str, values: Sequence[int]) -> str:
    """Values of a quantity of a task: "511 or 518 sequences"."""
    return f"{' or '.join(f'{x:,}' for x in values)} {NOUNS[quantity]}{'s'[: values[-1] != 1]}"
