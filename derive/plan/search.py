"""The search: every combination of degrees, rejected with a reason or ranked by the step time.

The model runs in float64. A plan whose recomputed layers lie within rounding of a step is decided
exactly. Times that differ by less than 1e-12 relatively are ties, in the order of enumeration:
tensor, context, pipeline degree, micro-batch. Plans that are shown are evaluated again exactly
(`plan_of`).
"""

from __future__ import annotations

from collections.abc import Iterable

from derive.plan.blocks import in_blocks
from derive.plan.found import SMALL, Found, check_top, checked
from derive.plan.space import Space, space_of
from derive.plan.task import Task
from derive.plan.together import together


def search(task: Task, space: Space | None = None, *, top: int = 0) -> Found:
    """Every plan of the space (by default `space_of(task)`) that fits, best first.

    `top` bounds how many are kept (0: all), and with it the memory. `rejected` counts by reason,
    leaving out those that never applied. Raises DeriveError for a `top` that is no whole number,
    and where the task fixes degrees that no plan has.
    """
    return search_all((task,), space, top=top)[0]


def search_all(
    tasks: Iterable[Task], space: Space | None = None, *, top: int = 0
) -> tuple[Found, ...]:
    """What `search` finds for each task, in their order. Tasks on one small grid and under the
    same assumptions are evaluated together; others one by one. Raises DeriveError as it does."""
    tasks = checked(tasks)
    check_top(top)
    if not tasks:
        return ()
    grids = [space_of(task) if space is None else space for task in tasks]
    if _alike(tasks, grids) and grids[0].size <= SMALL:
        return together(tasks, grids[0], top)
    return tuple(_alone(t, g, top) for t, g in zip(tasks, grids, strict=True))


def _alone(task: Task, grid: Space, top: int) -> Found:
    return together((task,), grid, top)[0] if grid.size <= SMALL else in_blocks(task, grid, top)


def _alike(tasks: tuple[Task, ...], grids: list[Space]) -> bool:
    grid, assumptions = grids[0], tasks[0].assumptions
    return all([g is grid or g == grid for g in grids]) and all(
        [t.assumptions is assumptions or t.assumptions == assumptions for t in tasks]
    )
