"""Several searches of one small grid at once: one run of the compiled model over all their plans.

On a grid of a hundred combinations the time goes into calling NumPy, not into arithmetic, so tasks
under the same assumptions share the calls: the numbers of each task become columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from derive.plan.blocks import run_of, settle
from derive.plan.few import too_large
from derive.plan.found import Found
from derive.plan.rounding import AT_A_STEP, SLACK, tied, undecided
from derive.plan.space import Space
from derive.plan.task import Task


def together(tasks: Sequence[Task], grid: Space, top: int) -> tuple[Found, ...]:
    """What `search` finds for each of some tasks under the same assumptions, in their order, on a
    grid that is worth writing out."""
    import numpy as np

    from derive.plan.divided import divided  # imports NumPy at once

    of, columns = divided(tasks, grid)
    run = run_of(tasks[0].assumptions)
    constants: Any
    if len(tasks) == 1:
        constants, layers = run.numbers(tasks[0].floats), tasks[0].counts.layers
    else:
        numbers = [(*run.numbers(t.floats), t.counts.layers) for t in tasks]
        spread = np.array(numbers).T.take(of, axis=1)
        constants, layers = spread[:-1], spread[-1]
    redo, seconds, edge = run.block(columns, constants, run.room(len(of)))
    fits = redo <= layers / columns[2]
    # Not "<": what is not a number is to be decided as well.
    if len(of) and (
        max([t.blur for t in tasks]) > SLACK
        or not np.minimum.reduce(edge) >= AT_A_STEP
        or not np.maximum.reduce(seconds) < np.inf
    ):
        for row, task in enumerate(tasks):
            mine = (of == row) & undecided(redo, seconds, edge, task.counts.layers, task.blur)
            settle(task, columns[:, mine], mine, redo, seconds, fits)
    order, fitting = _ranked(fits.nonzero()[0], seconds, of, len(tasks))
    ranked, times = columns.take(order, axis=1), seconds.take(order)
    found = []
    start = 0
    for task, fit in zip(tasks, fitting, strict=True):
        stop = start + (min(fit, top) if top else fit)
        close = () if fit else too_large(task, grid)
        kept, kept_times = ranked[:, start:stop], times[start:stop]
        found.append(Found(task, grid, grid.size, fit, kept, kept_times, close))
        start += fit
    return tuple(found)


def _ranked(fitting: Any, seconds: Any, of: Any, tasks: int) -> tuple[Any, list[int]]:
    """The fitting plans task by task, each task's by time and where times are equal within rounding
    in the order of enumeration, which is that of the indices; and how many each task has."""
    import numpy as np

    row = of.take(fitting)
    order = fitting.take(np.lexsort((seconds.take(fitting), row)))
    times = seconds.take(order)
    # The sort is stable: only where times differ can two plans that tie be the wrong way round.
    level = tied(times[:-1], times[1:])
    if np.logical_or.reduce(level & (order[1:] < order[:-1])):
        # Where one task's plans end and the next one's begin, indices rise whether they tie or not.
        order = order[np.lexsort((order, np.concatenate(([0], (~level).cumsum()))))]
    return order, np.bincount(row, minlength=tasks).tolist()
