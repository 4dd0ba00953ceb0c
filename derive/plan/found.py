"""What a search gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from derive.notation.errors import DeriveError, quoted
from derive.plan.plans import Plan, plan_of
from derive.plan.rules import REASONS
from derive.plan.space import Space, whole
from derive.plan.task import Task

SMALL = 1 << 12  # a grid this small is written out rather than searched in blocks
CLOSEST = 3  # plans that are told where none fits


def check_top(top: int) -> None:
    """Raise DeriveError where the number of plans to keep, 0 for all, is no whole number."""
    if type(top) is not int or top < 0:
        raise DeriveError(f"top: expected a whole number from 0, found {top}")


def checked(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Tasks as a tuple; raises DeriveError for what is none."""
    if isinstance(tasks, Task) or not isinstance(tasks, Iterable):
        raise DeriveError(f"expected tasks, several of them, found {quoted(tasks)}")
    found = tuple(tasks)
    for one in found:
        if not isinstance(one, Task):
            raise DeriveError(f"expected a task, as task(...) makes, found {quoted(one)}")
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Found:
    """The outcome of a search: counts, and the fitting plans in rank order.

    `degrees` holds rows of tp, cp, pp, dp and micro-batch of the ranked plans that were kept,
    `seconds` their step times in float64: arrays, or tuples from `search_few`. `too_large` are the
    plans that lack the least memory, where none fits. `counted` is what a search by blocks counted
    as it went; a small grid is counted when `rejected` is asked for.
    """

    task: Task
    space: Space
    candidates: int
    fit: int
    degrees: Any
    seconds: Any
    too_large: tuple[Plan, ...] = ()
    counted: Mapping[str, int] | None = None

    def __repr__(self) -> str:
        """What is planned, the first plans and the counts, as `derive plan` prints them."""
        from derive.plan import report  # reports are of searches, and shown when asked for

        return report.as_text(report.outcome(self))

    @cached_property
    def rejected(self) -> dict[str, int]:
        """How many combinations each of `REASONS` rejects, leaving out those that reject none."""
        if self.counted is not None:
            return {key: self.counted[key] for key in REASONS if key in self.counted}
        lost = dict(whole(self.task, self.space).rejected)
        if beyond := self.candidates - self.fit - sum(lost.values()):
            lost["memory"] = beyond
        return lost

    def plans(self, top: int = 0) -> tuple[Plan, ...]:
        """The first `top` plans (0: all that were kept), each evaluated exactly; raises DeriveError
        where `top` is no whole number."""
        check_top(top)
        rows = islice(zip(*self.degrees, strict=True), top or None)
        return tuple(plan_of(self.task, *(int(x) for x in row)) for row in rows)

    def plan(self, rank: int) -> Plan:
        """The plan of that rank, from 1, evaluated exactly; raises DeriveError for none."""
        kept = len(self.seconds)
        if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= kept:
            raise DeriveError(f"expected a rank from 1 to {kept}, found {quoted(rank)}")
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
