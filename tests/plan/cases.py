"""The notebook's five searches as tasks, and what it found in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from derive.cost.step_assumptions import NOTEBOOK, StepAssumptions
from derive.facts import chip, model
from derive.notation.quantity import number
from derive.notation.symbols import find, unit_of_symbol
from derive.plan.task import Task, task

DATA = Path(__file__).parent / "data"
TABLE: dict[str, Any] = json.loads((DATA / "notebook_plans.json").read_text())
SEARCHES: dict[str, Any] = TABLE["searches"]
PARTS: list[str] = TABLE["parts"]
LINES = (DATA / "notebook_lines.txt").read_text().splitlines()


def made(
    name: str = "llama-3-70b",
    cards: int = 64,
    seq: int = 8192,
    batch: int = 512,
    assumptions: StepAssumptions = NOTEBOOK,
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
    return made(case["model"], case["cards"], case["seq"], case["batch"])
