"""Until every branch imports from `derive.cost.assumptions`: the names that stood here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cost.assumptions import (
    CORRECTIONS as CORRECTIONS,
    DEFAULT as DEFAULT,
    NOTEBOOK as NOTEBOOK,
    SETS as SETS,
    Assumptions,
    as_assumptions as as_step_assumptions,
    step_assumptions as step_assumptions,
)  # fmt: skip

if TYPE_CHECKING:
    StepAssumptions = Assumptions
else:

    def StepAssumptions(corrections=frozenset()):
        return Assumptions(corrections=frozenset(corrections))


def on_of(assumptions: Assumptions, *names: str) -> tuple[str, ...]:
    return assumptions.on(*names)
