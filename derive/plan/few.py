"""A small search one plan after the other, in Python numbers: quicker than to import NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import inf

from derive.cost.step import step_model
from derive.cost.step_assumptions import StepAssumptions
from derive.notation import symbols as v
from derive.plan.compiled import compiled
from derive.plan.found import CLOSEST, Found, check_top, checked
from derive.plan.plans import Plan, least_lacking_first, plan_of
from derive.plan.rounding import AXES, SLACK, settled, tied, undecided
from derive.plan.space import Space, space_of, whole
from derive.plan.tape import Tape
from derive.plan.task import Task

Row = tuple[int, ...]


def search_few(task: Task, space: Space | None = None, *, top: int = 0) -> Found:
    """What `search` finds, for a grid that is worth writing out; raises DeriveError as it does."""
    checked((task,))
    check_top(top)
    grid = space_of(task) if space is None else space
    feasible = whole(task, grid)
    run = _run(task.assumptions)
    numbers = run.numbers(task.floats)
    layers, blur = task.counts.layers, task.blur
    fitting: list[tuple[float, int, Row]] = []
    for place, row in enumerate(feasible.rows):
        try:
            redo, seconds, edge = run.single(row, numbers)
        except ZeroDivisionError:
            redo = seconds = edge = inf
        # What float64 cannot hold is decided exactly, as is what lies at a step.
        if undecided(redo, seconds, edge, layers, blur):
            redo, seconds, fits = settled(task, row)
        else:
            fits = redo <= layers / row[2]
        if fits:
            fitting.append((seconds, place, row))
    ranked = _ranked(fitting)[: top or None]
    close = () if fitting else too_large(task, grid)
    degrees = tuple(zip(*(row for _, _, row in ranked), strict=True)) or ((),) * len(AXES)
    times = tuple(seconds for seconds, _, _ in ranked)
    return Found(task, grid, grid.size, len(fitting), degrees, times, close)


def too_large(task: Task, grid: Space) -> tuple[Plan, ...]:
    """The plans that lack the least memory with every layer recomputed, the least first."""
    closest = least_first(task, whole(task, grid).rows)[:CLOSEST]
    return least_lacking_first(plan_of(task, *row) for _, row in closest)


def least_first(task: Task, rows: Sequence[Row]) -> list[tuple[float, Row]]:
    """Plans (tp, cp, pp, dp, micro-batch) and their memory in bytes with every layer recomputed, in
    float64, the least first; equal ones stay in their order."""
    run = least_memory(task.assumptions)
    numbers = run.numbers(task.floats)
    sizes = [(run.single(row, numbers)[0], row) for row in rows]
    return sorted(sizes, key=lambda pair: pair[0])


def _ranked(fitting: list[tuple[float, int, Row]]) -> list[tuple[float, int, Row]]:
    """By seconds, those whose times are equal within rounding in the order of enumeration."""
    ranked: list[tuple[float, int, Row]] = []
    level: list[tuple[float, int, Row]] = []
    for plan in sorted(fitting):
        if level and not tied(level[-1][0], plan[0]):
            ranked += sorted(level, key=lambda one: one[1])
            level = []
        level.append(plan)
    return ranked + sorted(level, key=lambda one: one[1])


@lru_cache(maxsize=32)
def _run(assumptions: StepAssumptions) -> Tape:
    """As `run_of`, from the model as it stands: it is compiled sooner and runs longer."""
    model = step_model(assumptions)
    definitions = {v.find(term.name): term.expr for term in model.definitions}
    return compiled([v.L_r, model.seconds], definitions, AXES, SLACK)


@lru_cache(maxsize=32)
def least_memory(assumptions: StepAssumptions) -> Tape:
    """The memory of a plan with every layer recomputed."""
    model = step_model(assumptions)
    definitions = {v.find(term.name): term.expr for term in model.definitions}
    definitions[v.L_r] = v.L_p
    return compiled([model.memory_bytes], definitions, AXES)
