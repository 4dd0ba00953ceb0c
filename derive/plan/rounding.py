"""What float64 cannot tell: times that tie, and recomputed layers within rounding of one more.

A tape takes the argument of a ceiling `SLACK` lower, and gives the edge: how far what it rounds
lies below the whole number it is rounded up to. An argument that is whole is rounded up to itself,
with an edge of a slack, however it was rounded itself, as long as that is less than a slack.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import inf
from typing import Any

from derive.notation import symbols as v
from derive.plan.exact import as_float, exact, solved_model
from derive.plan.task import Task

AXES = (v.tp, v.cp, v.pp, v.dp, v.b_seq)
NEARLY = 1 - 1e-12  # of a time, down to where an earlier one ties with it
SLACK = 1e-8
AT_A_STEP = 3 * SLACK  # an edge below this is within the slack of a step, with room for rounding


def tied(earlier: Any, later: Any) -> Any:
    """Whether a time and one that is not before it are equal within rounding: numbers or arrays."""
    return later * NEARLY <= earlier


def undecided(redo: Any, seconds: Any, edge: Any, layers: int, blur: float) -> Any:
    """Whether float64 leaves open how many layers are recomputed, or how long a step takes, from
    what it found, the layers of the model and `Task.blur`: numbers or arrays. A plan that needs
    more layers than there are is not open."""
    low, high = (AT_A_STEP, 1.0) if blur <= SLACK else (3 * blur, 1 - 3 * blur)
    at_a_step = ((edge < low) | (edge > high)) & (redo <= layers + 1 + blur)
    # Infinity, or not a number: what float64 does not hold. A number is equal to itself.
    return at_a_step | (edge != edge) | (seconds != seconds) | (seconds == inf)


def settled(task: Task, row: Sequence[Any]) -> tuple[float, float, bool]:
    """Recomputed layers and seconds of a plan and whether it fits, by exact numbers."""
    degrees = {s: Fraction(int(x)) for s, x in zip(AXES, row, strict=True)}
    numbers = solved_model(task.step, {**task.numbers, **degrees})
    redo, seconds = numbers[v.L_r], exact(task.step.seconds, numbers)
    return as_float(redo), as_float(seconds), redo <= numbers[v.L_p]
