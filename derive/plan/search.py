"""The search: every combination of degrees, rejected with a reason or ranked by the step time.

Rules on one degree are checked per value, divisibility on pairs before triples, and the model runs
in float64 on what is left, in blocks that stay in cache; so memory does not grow with the grid. A
plan whose recomputed layers lie within rounding of a step is decided exactly. Times that differ by
less than 1e-12 relatively are ties, in the order of enumeration: tensor, context, pipeline degree,
micro-batch. Plans that are shown are evaluated again exactly (`plan_of`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Any

from derive.cost.step import step_model
from derive.cost.step_assumptions import StepAssumptions
from derive.notation import symbols as v
from derive.plan.compiled import compiled
from derive.plan.few import least_memory
from derive.plan.found import AT_A_STEP, AXES, NEAREST, SLACK, SMALL, TIE, settled
from derive.plan.found import Found as Found
from derive.plan.plans import Plan, nearest_first, plan_of
from derive.plan.reduced import reduced
from derive.plan.space import Space, passed, space_of
from derive.plan.tape import Room, Tape
from derive.plan.task import Task

BLOCK = 1 << 15  # plans: a dozen float64 registers of this size fit a 2 MB cache
DENSE = 0.3  # above this share of a block, it is quicker to evaluate all of it


def search(task: Task, space: Space | None = None, *, top: int = 0) -> Found:
    """Every plan of the space (by default `space_of(task)`) that fits, best first.

    `top` bounds how many are kept (0: all), and with it the memory. `rejected` counts by reason,
    leaving out those that never applied.
    """
    import numpy as np

    grid = space_of(task) if space is None else space
    if grid.size <= SMALL:
        from derive.plan.batch import search_all

        return search_all([task], grid, top=top)[0]
    run = run_of(task.assumptions)
    constants = run.numbers(task.floats)
    room = Room(run)
    counts: dict[str, int] = {}
    kept: list[tuple[Any, Any]] = []
    fit, held, worst = 0, 0, np.inf
    for triple, micro, good in _survivors(task, grid, counts):
        redo, seconds, edge = run.block((*triple, micro), constants, room.of(good.shape))
        fits = good & (redo <= task.counts.layers / triple[2])
        if edge.min() < AT_A_STEP:
            close = good & (edge < AT_A_STEP) & (redo <= task.counts.layers + 1)
            settle(task, _written(triple, micro, close), close, redo, seconds, fits)
        number = int(np.count_nonzero(fits))
        fit += number
        count(counts, "memory", int(np.count_nonzero(good)) - number)
        if top and number > top and worst == np.inf:
            worst = np.partition(seconds[fits], top)[top] * (1 + TIE)
        if top and number:
            fits &= seconds <= worst
        if not fits.any():
            continue
        kept.append((_written(triple, micro, fits), seconds[fits]))
        held += len(kept[-1][1])
        if top and held > max(4 * top, BLOCK):
            kept = [best_of(kept, top)]
            held = len(kept[0][1])
            worst = kept[0][1][-1] * (1 + TIE)
    degrees, seconds = best_of(kept, top) if kept else (np.empty((5, 0)), np.empty(0))
    lacking = () if fit else _nearest(task, grid)
    return Found(task, grid, grid.size, fit, degrees, seconds, lacking, counts)


def count(counts: dict[str, int], reason: str, more: int) -> None:
    """Add to the count of a reason."""
    if more:
        counts[reason] = counts.get(reason, 0) + int(more)


def _written(triple: Any, micro: Any, chosen: Any) -> Any:
    """The chosen plans of a block written out: rows tp, cp, pp, dp and micro-batch."""
    import numpy as np

    of_triple, of_micro = chosen.nonzero()
    columns = np.empty((5, len(of_triple)))
    columns[:4] = triple[:, of_triple, 0]
    columns[4] = np.broadcast_to(micro, chosen.shape)[of_triple, of_micro]
    return columns


def _survivors(task: Task, grid: Space, counts: dict[str, int]) -> Iterator[tuple[Any, Any, Any]]:
    """Blocks of combinations in the order of enumeration, and which of them pass every rule but
    memory: (rows tp, cp, pp, dp as columns, micro-batches as a row, mask). Where few pass, the row
    is a column as well, with only those that pass. Counts what is rejected."""
    import numpy as np

    tensor, context, stages = passed(task.counts, grid, counts)
    sizes = len(stages) * len(grid.micro_batch)
    pairs = [(t, c) for t, c in product(tensor, context) if task.cards % (t * c) == 0]
    count(counts, "cards", (len(tensor) * len(context) - len(pairs)) * sizes)
    if not pairs or not stages:
        return
    pair = np.array(pairs, dtype=np.float64)
    stage = np.array(stages, dtype=np.float64)
    micro = np.array(grid.micro_batch, dtype=np.float64)
    step = max(1, BLOCK // max(len(stages), 1))
    wanted = task.fixed.get(v.dp)
    for start in range(0, len(pairs), step):
        some = pair[start : start + step]
        # Below 2**52 a quotient of whole numbers is whole in float64 only where it is in truth.
        data = task.cards / ((some[:, 0] * some[:, 1])[:, None] * stage)
        whole = data == np.floor(data)
        if wanted is not None:
            whole &= data == wanted
        of_pair, of_stage = whole.nonzero()
        count(counts, "cards", (data.size - len(of_pair)) * len(micro))
        triple = np.empty((4, len(of_pair)))
        triple[0], triple[1] = some[of_pair, 0], some[of_pair, 1]
        triple[2], triple[3] = stage[of_stage], data[of_pair, of_stage]
        yield from _with_micro_batches(task, triple, micro, counts)


def _with_micro_batches(
    task: Task, triple: Any, micro: Any, counts: dict[str, int]
) -> Iterator[tuple[Any, Any, Any]]:
    import numpy as np

    step = max(1, BLOCK // len(micro))
    for start in range(0, triple.shape[1], step):
        some = triple[:, start : start + step, None]
        for first in range(0, len(micro), BLOCK):
            row = micro[None, first : first + BLOCK]
            batches = task.batch / (some[3] * row)
            good = batches == np.floor(batches)
            passed_by = int(np.count_nonzero(good))
            count(counts, "batch", good.size - passed_by)
            if passed_by > DENSE * good.size:
                yield some, row, good
            elif passed_by:
                of_triple, of_micro = good.nonzero()
                column = row[0, of_micro, None]
                yield some[:, of_triple], column, np.ones_like(column, dtype=bool)


def settle(task: Task, columns: Any, which: Any, redo: Any, seconds: Any, fits: Any) -> None:
    """Decide by exact numbers the plans that lie within rounding of one recomputed layer more:
    `columns` holds those that the mask `which` marks in the other arrays."""
    for place, column in zip(zip(*which.nonzero(), strict=True), columns.T, strict=True):
        redo[place], seconds[place], fits[place] = settled(task, column)


def best_of(kept: list[tuple[Any, Any]], top: int) -> tuple[Any, Any]:
    """The plans of several blocks, ranked, and cut to `top` where it is not 0."""
    import numpy as np

    degrees = np.concatenate([d for d, _ in kept], axis=1) if len(kept) > 1 else kept[0][0]
    seconds = np.concatenate([s for _, s in kept]) if len(kept) > 1 else kept[0][1]
    order = seconds.argsort(kind="stable")
    ranked = seconds[order]
    apart = ranked[1:] - ranked[:-1] > TIE * ranked[1:]
    if not apart.all():
        # Enumeration order within each group of ties: by place in the rows of degrees, which rise.
        group = np.concatenate(([0], apart.cumsum()))
        micro, stage, context, tensor = (degrees[i][order] for i in (4, 2, 1, 0))
        order = order[np.lexsort((micro, stage, context, tensor, group))]
    if top:
        order = order[:top]
    return degrees[:, order], seconds[order]


@lru_cache(maxsize=32)
def run_of(assumptions: StepAssumptions) -> Tape:
    """Recomputed layers and seconds of blocks of plans, compiled once per set of assumptions."""
    model = reduced(step_model(assumptions))
    return compiled([model.recomputed, model.seconds], model.definitions, AXES, SLACK)


def _nearest(task: Task, grid: Space) -> tuple[Plan, ...]:
    """The plans that lack the least memory with every layer recomputed, the least first."""
    import numpy as np

    run = least_memory(task.assumptions)
    constants = run.numbers(task.floats)
    room = Room(run)
    best: list[tuple[float, tuple[int, ...]]] = []
    for triple, micro, good in _survivors(task, grid, {}):
        size, _ = run.block((*triple, micro), constants, room.of(good.shape))
        size = np.broadcast_to(size, good.shape)
        sizes, columns = size[good], _written(triple, micro, good)
        for index in sizes.argsort(kind="stable")[:NEAREST]:
            best.append((float(sizes[index]), tuple(int(x) for x in columns[:, index])))
        best = sorted(best, key=lambda pair: pair[0])[:NEAREST]
    return nearest_first(plan_of(task, *row) for _, row in best)
