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
from derive.plan.space import Space, space_of, whole
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

    feasible = [whole(task, grid) for task in tasks]
    tried = [len(one.rows) for one in feasible]
    run = run_of(tasks[0].assumptions)
    if len(tasks) == 1:
        columns = feasible[0].columns
        of = np.zeros(tried[0], dtype=np.intp)
        constants: Any = run.numbers(tasks[0].floats)
        layers: Any = tasks[0].counts.layers
    else:
        columns = np.concatenate([one.columns for one in feasible], axis=1)
        of = np.arange(len(tasks)).repeat(tried)
        numbers = [(*run.numbers(t.floats), t.counts.layers) for t in tasks]
        *constants, layers = np.array(numbers).T.take(of, axis=1)
    redo, seconds, edge = run.block(columns, constants, run.room(len(of)))
    fits = redo <= layers / columns[2]
    if len(of) and edge.min() < AT_A_STEP:
        for row, task in enumerate(tasks):
            mine = (of == row) & (edge < AT_A_STEP) & (redo <= task.counts.layers + 1)
            settle(task, columns[:, mine], mine, redo, seconds, fits)
    order = fits.nonzero()[0]
    order = order[np.lexsort((seconds[order], of[order]))]
    order, times = _ranked(order, seconds, of)
    fitting = np.bincount(of[order], minlength=len(tasks)).tolist()
    ranked = columns.take(order, axis=1)
    found = []
    start = 0
    for task, one, fit in zip(tasks, feasible, fitting, strict=True):
        lost = dict(one.rejected)
        if number := len(one.rows) - fit:
            lost["memory"] = number
        stop = start + (min(fit, top) if top else fit)
        close = () if fit else nearest_few(task, grid)
        kept, kept_times = ranked[:, start:stop], times[start:stop]
        found.append(Found(task, grid, grid.size, fit, lost, kept, kept_times, close))
        start += fit
    return tuple(found)


def _ranked(order: Any, seconds: Any, of: Any) -> tuple[Any, Any]:
    """`order` and its times, with plans of one task whose times are equal within rounding put in
    the order of enumeration, which is that of the indices."""
    import numpy as np

    times = seconds[order]
    tied = abs(times[1:] - times[:-1]) <= TIE * times[1:]
    if tied.any():
        row = of[order]
        tied &= row[1:] == row[:-1]
        order = order[np.lexsort((order, np.concatenate(([0], (~tied).cumsum()))))]
        times = seconds[order]
    return order, times
