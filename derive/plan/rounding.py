"""What float64 cannot tell: times that tie, and recomputed layers within rounding of one more.

A ceiling is taken `SLACK` below its argument, and what it acts on leaves an edge: how far that lies
below the whole number it is rounded up to. An argument that is whole is rounded up to itself, with
an edge of a slack, however it was rounded itself, as long as that is less than a slack.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Any

from derive.notation import symbols as v
from derive.plan.axes import AXES, Degrees
from derive.plan.plan import plan_of
from derive.plan.task import Task
from derive.solve.evaluate import as_float, floats

NEARLY = 1 - 1e-12  # of a time, down to where an earlier one ties with it
SLACK = 1e-8
AT_A_STEP = 3 * SLACK  # an edge below this is within the slack of a step, with room for rounding
ROUNDINGS = 64  # more than the model has in a row


def blur(task: Task) -> float:
    """How far float64 may be off, in layers, where it says how many are recomputed.

    That number is a sum of bytes over those that a recomputed layer saves. Rounding takes part of
    the states and of what the layers keep, over the same; both are largest where the context group
    is, since it splits what is saved and not the parameters.
    """
    n, counts = plan_of(task, Degrees(1 for _ in AXES)).numbers, task.counts
    saved = n[v.a_1] - n[v.a_0]
    kept = (counts.layers + 2) * n[v.a_1] + n.get(v.M_logits, Fraction(0))
    context = min(counts.cards, max(1, counts.seq // max(1, counts.least_chunk)))
    return ROUNDINGS * 2.0**-53 * as_float((context * n[v.M_states] + kept) / saved)


class Edges:
    """float64's arithmetic with its ceilings watched.

    `least` is the smallest edge of each plan, or its smallest distance from a step on either side
    where `blurred`, how far rounding may be off, is above a slack; `near` is below what of that a
    plan is to be decided exactly.
    """

    def __init__(self, blurred: float) -> None:
        self.blurred = blurred
        self.near = AT_A_STEP if blurred <= SLACK else 3 * blurred
        self.least: Any = 1.0
        self.arithmetic = {**floats(), "ceil": self._ceil}

    def _ceil(self, values: Any) -> Any:
        ceil, smaller = floats()["ceil"], floats()["min"]
        low = values - SLACK
        steps = ceil(low)
        edge = steps - low
        self.least = smaller(self.least, edge)
        if self.blurred > SLACK:
            self.least = smaller(self.least, 1 - edge)
        return steps

    def undecided(self, redo: Any, seconds: Any, layers: int) -> Any:
        """Whether float64 leaves open how many layers are recomputed, or how long a step takes. A
        plan that needs more layers than the model has is not open."""
        at_a_step = (self.least < self.near) & (redo <= layers + 1 + self.blurred)
        # Infinity, or not a number: what float64 does not hold. A number is equal to itself.
        strange = (self.least != self.least) | (seconds != seconds) | (seconds == inf)
        return at_a_step | strange


def tied(earlier: Any, later: Any) -> Any:
    """Whether a time and one that is not before it are equal within rounding: numbers or arrays."""
    return later * NEARLY <= earlier
