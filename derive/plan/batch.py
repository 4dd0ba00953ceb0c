"""Several small searches at once: one run of the compiled model over all their plans.

On a grid of a hundred combinations the time goes into calling NumPy, not into arithmetic, so tasks
under the same assumptions share the calls: the numbers of each task become columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

from derive.notation import symbols as v
from derive.plan.search import AT_A_STEP, SMALL, TIE, Found, nearest, run_of, search, settle
from derive.plan.space import Space, passed, space_of
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


@dataclass(frozen=True, eq=False)
class _Flat:
    """A grid written out: rows tp, cp, pp, dp (to be filled) and micro-batch, in order."""

    rows: Any
    product: Any
    micro: Any


@lru_cache(maxsize=8)
def _flat(grid: Space) -> _Flat:
    import numpy as np

    axes = [np.array(axis, dtype=np.float64) for axis in (grid.tp, grid.cp, grid.pp)]
    micro = np.array(grid.micro_batch, dtype=np.float64)
    tp, cp, pp, b = (a.ravel() for a in np.meshgrid(*axes, micro, indexing="ij"))
    return _Flat(np.array([tp, cp, pp, np.ones_like(tp), b]), tp * cp * pp, b)


@lru_cache(maxsize=64)
def _allowed(grid: Space, kept: tuple[tuple[int, ...], ...]) -> Any:
    """Which of a grid's combinations have degrees out of those kept."""
    import numpy as np

    rows = _flat(grid).rows
    return np.isin(rows[0], kept[0]) & np.isin(rows[1], kept[1]) & np.isin(rows[2], kept[2])


def _together(tasks: Sequence[Task], grid: Space, top: int) -> tuple[Found, ...]:
    import numpy as np

    flat = _flat(grid)
    counts: list[dict[str, int]] = [{} for _ in tasks]
    kept = [passed(t, grid, c) for t, c in zip(tasks, counts, strict=True)]
    allowed = np.array([_allowed(grid, axes) for axes in kept])
    sizes = np.array([(t.cards, t.batch, t.counts.layers) for t in tasks], dtype=np.float64).T
    # Below 2**52 a quotient of whole numbers is whole in float64 only where it is in truth.
    data = sizes[0][:, None] / flat.product
    whole = allowed & (data == np.floor(data))
    for row, task in enumerate(tasks):
        if task.fixed and v.dp in task.fixed:
            whole[row] &= data[row] == task.fixed[v.dp]
    batches = sizes[1][:, None] / (data * flat.micro)
    good = whole & (batches == np.floor(batches))
    of, at = good.nonzero()
    columns = flat.rows.take(at, axis=1)
    columns[3] = data[of, at]
    run = run_of(tasks[0].assumptions)
    numbers = [run.numbers(t.floats) for t in tasks]
    constants = numbers[0] if len(tasks) == 1 else np.array(numbers).T.take(of, axis=1)
    redo, seconds, edge = run.block(*columns, *constants)
    fits = redo <= sizes[2][of] / columns[2]
    if len(of) and edge.min() < AT_A_STEP:
        for row, task in enumerate(tasks):
            mine = (of == row) & (edge < AT_A_STEP)
            settle(task, columns[:, mine], mine, redo, seconds, fits)
    order = fits.nonzero()[0]
    order = order[np.lexsort((seconds[order], of[order]))]
    order, times = _ranked(order, seconds, of)
    ends = list(accumulate(np.bincount(of[order], minlength=len(tasks)).tolist()))
    ranked = columns.take(order, axis=1)
    divided = whole.sum(1).tolist()
    tried = np.bincount(of, minlength=len(tasks)).tolist()
    found = []
    start = 0
    for task, lost, divide, feasible, end in zip(tasks, counts, divided, tried, ends, strict=True):
        fit = end - start
        if number := grid.size - sum(lost.values()) - divide:
            lost["cards"] = number
        if number := divide - feasible:
            lost["batch"] = number
        if number := feasible - fit:
            lost["memory"] = number
        stop = min(end, start + top) if top else end
        close = () if fit else nearest(task, grid)
        kept_times = times[start:stop]
        made = Found(task, grid, grid.size, fit, lost, ranked[:, start:stop], kept_times, close)
        found.append(made)
        start = end
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
