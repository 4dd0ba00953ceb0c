"""Several small searches at once: one run of the compiled model over all their plans.

On a grid of a hundred combinations the time goes into calling NumPy, not into arithmetic, so tasks
under the same assumptions share the calls: the numbers of each task become columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from derive.plan.few import nearest_few
from derive.plan.found import AT_A_STEP, SMALL, TIE, Found
from derive.plan.search import run_of, search, settle
from derive.plan.space import Space, space_of
from derive.plan.task import Task


def search_all(
    tasks: Sequence[Task], space: Space | None = None, *, top: int = 0
) -> tuple[Found, ...]:
    """What `search` finds for each task, in their order. Tasks on one small grid and under the
    same assumptions are evaluated together; others one by one."""
    if not tasks:
        return ()
    grids = [space_of(task) if space is None else space for task in tasks]
    first = tasks[0]
    alike = all([g is grids[0] or g == grids[0] for g in grids]) and all(
        [t.assumptions is first.assumptions or t.assumptions == first.assumptions for t in tasks]
    )
    if not alike or grids[0].size > SMALL:
        return tuple(search(t, g, top=top) for t, g in zip(tasks, grids, strict=True))
    return _together(tasks, grids[0], top)


def _together(tasks: Sequence[Task], grid: Space, top: int) -> tuple[Found, ...]:
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
    if len(of) and np.minimum.reduce(edge) < AT_A_STEP:
        for row, task in enumerate(tasks):
            mine = (of == row) & (edge < AT_A_STEP) & (redo <= task.counts.layers + 1)
            settle(task, columns[:, mine], mine, redo, seconds, fits)
    order, fitting = _ranked(fits.nonzero()[0], seconds, of, len(tasks))
    ranked, times = columns.take(order, axis=1), seconds.take(order)
    found = []
    start = 0
    for task, fit in zip(tasks, fitting, strict=True):
        stop = start + (min(fit, top) if top else fit)
        close = () if fit else nearest_few(task, grid)
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
    turned = (times[1:] * (1 - TIE) <= times[:-1]) & (order[1:] < order[:-1])
    if np.logical_or.reduce(turned):
        tied = (times[1:] * (1 - TIE) <= times[:-1]) & (row[1:] == row[:-1])
        order = order[np.lexsort((order, np.concatenate(([0], (~tied).cumsum()))))]
    return order, np.bincount(row, minlength=tasks).tolist()
