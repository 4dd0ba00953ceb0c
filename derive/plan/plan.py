"""One plan: its degrees, its exact numbers, and the tree of each of them down to the facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import sympy as sp

from derive.cost.memory import stages_held
from derive.cost.schedule import BY_ASSUMPTION, layer_split
from derive.cost.step import StepModel
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, guarded, unknown
from derive.notation.printed import as_text, share, size, time
from derive.notation.quantity import Quantity, number
from derive.notation.text import text
from derive.notation.units import Unit, base_unit, byte, chip, one, second
from derive.plan.axes import AXES, NAMED, PLACE, Degrees, worded
from derive.plan.task import DEGREES, Task
from derive.solve.evaluate import EXACT, Compiled, as_float, compiled, exactly, floats

MFU = "model_flops/(step*N*C)"  # as the tree words it; its value is the step model's utilisation


class Stage(NamedTuple):
    """A stage of a pipeline: its layers, the micro-batches that it has saved at once, and of a chip
    of it the parameters and the bytes, in all and by kind."""

    layers: int
    in_flight: Fraction
    parameters: Fraction
    memory_bytes: Fraction
    memory: Mapping[str, Fraction]


@guarded
@dataclass(frozen=True, repr=False)
class Plan:
    """Degrees, and what they cost: times in seconds, memory in bytes.

    The degrees are attributes as well (`plan.tp`, `plan.micro_batch`). `numbers` are those of every
    symbol of the step model, `parts` add up to `step_seconds`, `stages` has the stages of which one
    is the fullest, what each holds by kind. Where the plan does not fit, every layer of a stage is
    recomputed, if that is not said, and `lacks_bytes` is above zero.
    """

    task: Task = field(compare=False)
    degrees: Degrees
    numbers: Mapping[sp.Symbol, Fraction] = field(compare=False)
    parts: Mapping[str, Fraction]
    stages: Mapping[str, Mapping[str, Fraction]]
    mfu: Fraction

    def __getattr__(self, name: str) -> int:
        if name not in PLACE:
            raise AttributeError(name)
        return self.degrees[PLACE[name]]

    def __repr__(self) -> str:
        """Degrees, utilisation, time of a step, memory and recomputed layers in one line."""
        lacks = f", {size(self.lacks_bytes)} too much" if self.lacks_bytes else ""
        line = (
            f"{self.degrees}: MFU {share(self.mfu, 1)}, {time(self.step_seconds)} a step, "
            f"{size(self.memory_bytes)}, {self.recomputed_layers} of {self.layers_per_stage} "
            f"layers recomputed{lacks}"
        )
        return as_text([line])

    @property
    def step_seconds(self) -> Fraction:
        """The time of a step."""
        return sum(self.parts.values(), start=Fraction(0))

    @property
    def fullest(self) -> str:
        """The stage whose chips hold most: the first of those that hold as much."""
        return max(self.stages, key=lambda name: sum(self.stages[name].values()))

    @property
    def memory(self) -> Mapping[str, Fraction]:
        """What a chip of the fullest stage holds, by kind."""
        return self.stages[self.fullest]

    @property
    def memory_bytes(self) -> Fraction:
        """The memory of the fullest chip."""
        return sum(self.memory.values(), start=Fraction(0))

    @property
    def lacks_bytes(self) -> Fraction:
        """What the memory is above the budget, 0 where it fits."""
        return max(Fraction(0), self.memory_bytes - self.task.budget)

    @property
    def recomputed_layers(self) -> int:
        """Layers of a stage that are run again in the backward pass."""
        return int(self.numbers[v.L_r])

    @property
    def layers_per_stage(self) -> int:
        """Layers of the stage with most."""
        return int(self.numbers[v.L_p])

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers of each stage in order; of the inner ones those with most stand first, as
        memory counts them."""
        return self.task.stages or layer_split(int(self.numbers[v.L]), self.pp)

    @property
    def each_stage(self) -> tuple[Stage, ...]:
        """Every stage in order, by the terms of those of which one is the fullest."""
        under, step = self.task.assumptions, self.task.step
        held, stages = stages_held(under), []
        inner, last = (name if name in held else "first" for name in ("second", "last"))
        names = ["first", *[inner] * (self.pp - 2), last][-self.pp :]
        for place, (name, layers) in enumerate(zip(names, self.layers, strict=True)):
            one, n = held[name], {**self.numbers, v.i_p: Fraction(place)}
            if name == inner:
                n[v.n_fly] = n[v.q_2] = exactly(BY_ASSUMPTION[under.schedule].saved, n)
            if name == "second":  # one of the inner ones, which may have fewer layers
                each = exactly(one.parameters / one.layers, n)
                n |= {v.psi_m: each * layers, one.layers: Fraction(layers)}
                n[v.L_r] = min(n[v.L_r], n[one.layers])
            kinds = {term.name: exactly(term.expr, n) for term in step.memory[name]}
            held_by = (exactly(one.in_flight, n), exactly(one.parameters, n))
            stages.append(Stage(layers, *held_by, sum(kinds.values(), start=Fraction(0)), kinds))
        return tuple(stages)

    @property
    def tokens_per_second(self) -> Fraction:
        """The tokens of a step over its time."""
        return self.task.seq * self.task.batch / self.step_seconds

    @property
    def chip_flops(self) -> Fraction:
        """The model's FLOP per second of a chip: its utilisation of the peak."""
        return self.mfu * self.numbers[v.C]

    @property
    def run_seconds(self) -> Fraction:
        """The time of a run of the task's tokens, 0 where it has none."""
        return (self.task.tokens or 0) / self.tokens_per_second

    @property
    def row(self) -> dict[str, Any]:
        """The plan as data: times in seconds, memory in bytes; a part of 0 for traffic that the
        step model leaves out."""
        under = self.task.assumptions
        rates = ["mfu", "step_seconds", "tokens_per_second", "chip_flops", "memory_bytes"]
        rates += ["run_seconds"] if self.task.tokens else []
        traffic = (axis.name for axis in AXES if axis.traffic)
        idle = {name: Fraction(0) for name in traffic if name not in self.parts}
        return {
            **{axis.name: degree for axis, degree in zip(AXES, self.degrees, strict=True)},
            **{n: json_number(getattr(self, n)) for n in rates},
            "layers_per_stage": [*self.layers],
            **{name: getattr(under, name) for name in ("schedule", "sequence_parallel")},
            "recompute": under.recompute if under.kernels != "recomputed" else "selective",
            "recomputed_layers": self.recomputed_layers,
            "parts": _numbers({**self.parts, **idle}),
            "memory": _numbers(self.memory),
            "fullest": self.fullest,
        }

    @property
    def row_by_stage(self) -> dict[str, Any]:
        """The same with `stages`, each as data."""
        stages = (one._asdict() for one in self.each_stage)
        numbers = [{**one, **_numbers(one), "memory": _numbers(one["memory"])} for one in stages]
        return {**self.row, "stages": numbers}

    def share(self, name: str) -> Fraction:
        """The share of a part in the step time."""
        if name not in self.parts:
            raise unknown("part of a step", name, self.parts)
        return self.parts[name] / self.step_seconds

    @cached_property
    def known(self) -> Mapping[sp.Symbol, Quantity]:
        """The quantity of every symbol of the step model, each with its tree."""
        known = dict(self.task.constants)
        for symbol, degree in zip(DEGREES, self.degrees, strict=True):
            known[symbol] = number(degree, v.unit_of_symbol(symbol), symbol.name, status="derived")
        terms = {term.name: term for term in self.task.step.definitions}
        for symbol, expr in _definitions(self.task.step, bool(self.lacks_bytes)):
            value, unit = self.numbers[symbol], terms[symbol.name].unit
            known[symbol] = _tree(expr, value, unit, symbol.name, known)
        return known

    def value(self, expr: sp.Expr, unit: Unit | str = one, name: str = "") -> Quantity:
        """An expression in the symbols of the step model, for this plan, with its tree."""
        return _tree(expr, exactly(expr, self.numbers), base_unit(unit), name, self.known)

    def quantity(self, name: str) -> Quantity:
        """A number of the plan with its tree: mfu, seconds, memory, a part of the step or of the
        memory, or any symbol of the step model. Raises UnknownName."""
        step, kinds = self.task.step, self.task.step.memory[self.fullest]
        if name == "mfu":
            cards = number(self.task.cards, chip, "cards")
            flops, seconds = self.quantity("model_flops"), self.quantity("seconds")
            peak = self.known[v.C]
            inputs = (("model_flops", flops), ("step", seconds), ("N", cards), ("C", peak))
            return Quantity(sp.Rational(self.mfu), one, name, formula=MFU, inputs=inputs)
        if name in ("seconds", "step_seconds"):
            return self.value(step.seconds, second, "step")
        if name in ("memory", "memory_bytes"):
            return self.value(step.stage_bytes[self.fullest], byte, "memory")
        # The optimizer takes time and memory: what a kind holds has its own name as well.
        terms = {term.name: term for term in (*kinds, *step.parts, step.model_flops)}
        terms |= {f"memory.{term.name}": term for term in kinds}
        if name in terms:
            return self.value(terms[name].expr, terms[name].unit, name)
        symbols = {symbol.name: symbol for symbol in self.known}
        symbols |= {axis.name: axis.symbol for axis in AXES}
        if name not in symbols:
            names = ["mfu", "seconds", "memory", *terms, *symbols]
            raise unknown("quantity of a plan", name, names)
        return self.known[symbols[name]]

    __getitem__ = quantity


def _numbers(values: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: json_number(x) for name, x in values.items() if isinstance(x, Fraction)}


def json_number(value: Fraction) -> float | None:
    """A number of JSON, or None (null) beyond the range of float64."""
    near = as_float(value)
    return near if isfinite(near) else None


def _tree(
    expr: sp.Expr, value: Fraction, unit: Unit, name: str, known: Mapping[sp.Symbol, Quantity]
) -> Quantity:
    inputs = tuple((s.name, known[s]) for s in v.symbols_of(expr))
    return Quantity(sp.Rational(value), unit, name, formula=text(expr), inputs=inputs)


def plan_of(task: Task, degrees: Degrees) -> Plan:
    """The plan with these degrees, evaluated exactly; nothing is checked but memory, and that a
    stage has a whole number of layers: raises DeriveError."""
    step, degrees = task.step, degrees.on(task.cards)
    if rule := NAMED["pp"].rule(task.counts, degrees.pp):
        raise DeriveError(f"pp = {degrees.pp}: {worded(task.counts, degrees, rule)}")
    numbers = {**task.numbers, **dict(zip(DEGREES, map(Fraction, degrees), strict=True))}
    symbols = [symbol for symbol, _ in _definitions(step)]
    first, rest = _exact(step)
    numbers |= zip(symbols, map(Fraction, first(EXACT, numbers)), strict=False)
    numbers[v.L_r] = min(numbers[v.L_r], numbers[v.L_p])  # all, where not even that is enough
    results = map(Fraction, rest(EXACT, numbers))
    numbers |= {symbol: next(results) for symbol in symbols if symbol not in numbers}
    parts = {term.name: next(results) for term in step.parts}
    stages = {
        name: {term.name: next(results) for term in terms} for name, terms in step.memory.items()
    }
    return Plan(task, degrees, numbers, parts, stages, next(results))


@lru_cache(maxsize=64)
def _definitions(step: StepModel, full: bool = False) -> tuple[tuple[sp.Symbol, sp.Expr], ...]:
    """The definitions of the model; those with every layer recomputed where it is `full`."""
    pairs = ((v.find(term.name), term.expr) for term in step.definitions)
    return tuple((s, v.L_p if full and s == v.L_r else expr) for s, expr in pairs)


@lru_cache(maxsize=64)
def _exact(step: StepModel) -> tuple[Compiled, Compiled]:
    """Every definition down to the recomputed layers; then from those every other, every part of
    the step and of the memory, and the utilisation."""
    definitions = _definitions(step)
    place = 1 + [symbol for symbol, _ in definitions].index(v.L_r)
    kinds = (term for terms in step.memory.values() for term in terms)
    terms = (term.expr for term in (*step.parts, *kinds))
    first, rest = definitions[:place], definitions[place:]
    after = (*(symbol for symbol, _ in rest), *terms, step.utilisation)
    return compiled(tuple(symbol for symbol, _ in first), first), compiled(after, rest)


@lru_cache(maxsize=64)
def in_blocks(step: StepModel, targets: tuple[sp.Expr, ...], full: bool = False) -> Compiled:
    """Targets over columns of degrees and a row of micro-batches, the last axis."""
    return compiled(targets, _definitions(step, full), (DEGREES[:-1], DEGREES[-1:]))


def least_memory(task: Task, columns: Mapping[sp.Symbol, Any]) -> Any:
    """The bytes of plans with every layer recomputed, in float64, from arrays of their degrees."""
    function = in_blocks(task.step, (task.step.memory_bytes,), full=True)
    with np.errstate(all="ignore"):
        return function(floats(), {**task.floats, **columns})[0]
