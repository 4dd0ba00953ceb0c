"""Until every branch imports from `derive.cost.assumptions`: the names that stood here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cost.assumptions import CORRECTIONS as CORRECTIONS
from derive.cost.assumptions import DEFAULT as DEFAULT
from derive.cost.assumptions import NOTEBOOK as NOTEBOOK
from derive.cost.assumptions import SETS as SETS
from derive.cost.assumptions import Assumptions, as_assumptions
from derive.cost.assumptions import step_assumptions as step_assumptions

as_step_assumptions = as_assumptions
on_of = Assumptions.on

if TYPE_CHECKING:
    StepAssumptions = Assumptions
else:

    def StepAssumptions(corrections=frozenset()):
        return Assumptions(corrections=frozenset(corrections))
