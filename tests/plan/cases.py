"""The notebook's five searches as tasks, and what it found in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from derive.cost.assumptions import NOTEBOOK, Assumptions
from derive.facts import chip, model
from derive.notation.quantity import number
from derive.notation.symbols import find, unit_of_symbol
from derive.plan.axes import Degrees, Space, broken, degrees
from derive.plan.plan import Plan, plan_of
from derive.plan.task import Task, task

DATA = Path(__file__).parent / "data"
TABLE: dict[str, Any] = json.loads((DATA / "notebook_plans.json").read_text())
SEARCHES: dict[str, Any] = TABLE["searches"]
PARTS: list[str] = TABLE["parts"]
LINES = (DATA / "notebook_lines.txt").read_text().splitlines()


def asked(
    name: str = "llama-3-70b",
    cards: int = 64,
    seq: int = 8192,
    batch: int = 512,
    assumptions: Assumptions = NOTEBOOK,
    **values: object,
) -> Task:
    """A task on H100s with the notebook's readings; values by symbol name."""
    given = {
        find(key): number(value, unit_of_symbol(find(key)), key)  # type: ignore[arg-type]
        for key, value in values.items()
    }
    return task(
        model(name),
        chip("h100", profile="notebook"),
        cards=cards,
        seq=seq,
        batch=batch,
        assumptions=assumptions,
        values=given,
    )


def of_notebook(key: str) -> Task:
    """One of the notebook's searches."""
    case = SEARCHES[key]
    return asked(case["model"], case["cards"], case["seq"], case["batch"])


def space(
    tp: Sequence[int], cp: Sequence[int], pp: Sequence[int], micro_batch: Sequence[int] = (1,)
) -> Space:
    """A grid of tensor, context and pipeline degrees and micro-batches."""
    return Space(tp=tp, cp=cp, pp=pp, micro_batch=micro_batch)


def row(tp: int, cp: int, pp: int, dp: int = 0, micro_batch: int = 1) -> Degrees:
    """Degrees by place; without dp what the cards leave."""
    return degrees(tp=tp, cp=cp, pp=pp, dp=dp, micro_batch=micro_batch)


def at(task: Task, tp: int, cp: int, pp: int, dp: int = 0, micro_batch: int = 1) -> Plan:
    """The plan with these degrees."""
    return plan_of(task, row(tp, cp, pp, dp, micro_batch))


def passing(task: Task, grid: Space) -> list[Degrees]:
    """The combinations that every rule but memory lets pass, in order, one by one."""
    rows = [one for one in grid.rows() if broken(task.counts, one) is None]
    return [one.on(task.cards) for one in rows]


def five(one: Degrees) -> tuple[int, ...]:
    """The degrees that a test names: tp, cp, pp, dp and the micro-batch."""
    assert one == row(one.tp, one.cp, one.pp, one.dp, one.micro_batch)
    return (one.tp, one.cp, one.pp, one.dp, one.micro_batch)
