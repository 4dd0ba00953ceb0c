"""What a search gives back, and when two plans tie or a plan has to be decided exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import Any

from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.plan.exact import exact, solved_model
from derive.plan.plans import Plan, plan_of
from derive.plan.space import Space, whole
from derive.plan.task import Task

AXES = (v.tp, v.cp, v.pp, v.dp, v.b_seq)
TIE = 1e-12
SLACK = 1e-8
AT_A_STEP = 3 * SLACK  # an edge below this is within the slack of a step, with room for rounding
SMALL = 1 << 12  # a grid this small is written out rather than searched in blocks
NEAREST = 3


@dataclass(frozen=True)
class Found:
    """The outcome of a search: counts, and the fitting plans in rank order.

    `degrees` holds rows of tp, cp, pp, dp and micro-batch of the ranked plans that were kept,
    `seconds` their step times in float64: arrays, or tuples from `search_few`. `nearest` are the
    plans closest to fitting, where none fits. `counted` is what a search by blocks counted as it
    went; a small grid is counted when `rejected` is asked for.
    """

    task: Task
    space: Space
    candidates: int
    fit: int
    degrees: Any
    seconds: Any
    nearest: tuple[Plan, ...] = ()
    counted: Mapping[str, int] | None = None

    @cached_property
    def rejected(self) -> dict[str, int]:
        """How many combinations each of `REASONS` rejects, leaving out those that reject none."""
        if self.counted is not None:
            return dict(self.counted)
        lost = dict(whole(self.task, self.space).rejected)
        if beyond := self.candidates - self.fit - sum(lost.values()):
            lost["memory"] = beyond
        return lost

    def plans(self, top: int = 0) -> tuple[Plan, ...]:
        """The first `top` plans (0: all that were kept), each evaluated exactly."""
        rows = islice(zip(*self.degrees, strict=True), top or None)
        return tuple(plan_of(self.task, *(int(x) for x in row)) for row in rows)

    def plan(self, rank: int) -> Plan:
        """The plan of that rank, from 1, evaluated exactly; raises DeriveError for none."""
        kept = len(self.seconds)
        if not 1 <= rank <= kept:
            raise DeriveError(f"expected a rank from 1 to {kept}, found {rank}")
        return plan_of(self.task, *(int(row[rank - 1]) for row in self.degrees))

    def rank(self, tp: int, cp: int, pp: int, micro_batch: int | None = None) -> int:
        """The rank, from 1, of the best plan with these degrees; raises DeriveError for none."""
        for rank, row in enumerate(zip(*self.degrees, strict=True), 1):
            if row[:3] == (tp, cp, pp) and micro_batch in (None, row[4]):
                return rank
        shown = f"tp={tp} cp={cp} pp={pp}"
        if micro_batch is not None:
            shown += f" b_seq={micro_batch}"
        raise DeriveError(f"no plan that fits has {shown}")


def settled(task: Task, row: Sequence[Any]) -> tuple[float, float, bool]:
    """Recomputed layers and seconds of a plan and whether it fits, by exact numbers."""
    degrees = {s: Fraction(int(x)) for s, x in zip(AXES, row, strict=True)}
    numbers = solved_model(task.step, {**task.numbers, **degrees})
    redo = numbers[v.L_r]
    return float(redo), float(exact(task.step.seconds, numbers)), redo <= numbers[v.L_p]
