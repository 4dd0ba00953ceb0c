"""One plan with its exact numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from derive.notation import symbols as v
from derive.plan.exact import exact, solved_model
from derive.plan.task import DEGREES, Task


@dataclass(frozen=True, repr=False)
class Plan:
    """Degrees, and what they cost: times in seconds, memory in bytes of the fullest chip.

    `parts` add up to `step_seconds`, `memory` to `memory_bytes`. Where the plan does not fit,
    every layer of a stage is recomputed and `lacks_bytes` is above zero.
    """

    tp: int
    cp: int
    pp: int
    dp: int
    micro_batch: int
    mfu: Fraction
    step_seconds: Fraction
    memory_bytes: Fraction
    recomputed_layers: int
    layers_per_stage: int
    parts: Mapping[str, Fraction]
    memory: Mapping[str, Fraction]
    lacks_bytes: Fraction = Fraction(0)

    def __repr__(self) -> str:
        """Degrees, utilisation, time of a step, memory and recomputed layers in one line."""
        from derive.plan.report import one_line  # reports are of plans, and shown when asked for

        return one_line(self)

    @property
    def degrees(self) -> str:
        """The degrees as they are typed: "tp=4 cp=2 pp=2 dp=4"."""
        return shown_degrees(self.tp, self.cp, self.pp, self.dp, self.micro_batch)

    def share(self, name: str) -> Fraction:
        """The share of a part in the step time."""
        return self.parts[name] / self.step_seconds


def plan_of(task: Task, tp: int, cp: int, pp: int, dp: int, micro_batch: int = 1) -> Plan:
    """The plan with these degrees, evaluated exactly; nothing is checked but memory."""
    degrees = dict(zip((*DEGREES, v.b_seq), (tp, cp, pp, dp, micro_batch), strict=True))
    values = {**task.numbers, **{s: Fraction(n) for s, n in degrees.items()}}
    step = task.step
    numbers = solved_model(step, values)
    if numbers[v.L_r] > numbers[v.L_p]:
        full = numbers[v.L_p]
        numbers = solved_model(step, values, {v.L_r: full})
    parts = {term.name: exact(term.expr, numbers) for term in step.parts}
    memory = {term.name: exact(term.expr, numbers) for term in step.memory}
    seconds = sum(parts.values(), start=Fraction(0))
    size = sum(memory.values(), start=Fraction(0))
    flops = exact(step.model_flops.expr, numbers)
    return Plan(
        tp, cp, pp, dp, micro_batch,
        flops / (seconds * tp * cp * pp * dp * numbers[v.C]),
        seconds,
        size,
        int(numbers[v.L_r]),
        int(numbers[v.L_p]),
        parts,
        memory,
        max(Fraction(0), size - task.budget),
    )  # fmt: skip


def shown_degrees(tp: int, cp: int, pp: int, dp: int | None = None, micro_batch: int = 1) -> str:
    """Degrees as they are typed, the data degree left out where it is None, and a micro-batch of
    one sequence left out."""
    shown = f"tp={tp} cp={cp} pp={pp}" + ("" if dp is None else f" dp={dp}")
    return shown if micro_batch == 1 else f"{shown} b_seq={micro_batch}"


def least_lacking_first(plans: Iterable[Plan]) -> tuple[Plan, ...]:
    """Plans in the order of what they lack to fit in memory, the least first."""
    return tuple(sorted(plans, key=lambda plan: plan.lacks_bytes))
