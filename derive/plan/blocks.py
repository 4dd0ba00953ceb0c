"""A search in blocks of plans, for a grid of any size, and the compiled model that it runs.

Rules on one degree are checked per value, divisibility on pairs before triples, and the model runs
in float64 on what is left, in blocks that stay in cache; so memory does not grow with the grid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from derive.cost.step import step_model
from derive.cost.step_assumptions import StepAssumptions
from derive.plan.compiled import compiled
from derive.plan.few import least_memory
from derive.plan.found import CLOSEST, Found
from derive.plan.plans import Plan, least_lacking_first, plan_of
from derive.plan.reduced import reduced
from derive.plan.rounding import AT_A_STEP, AXES, NEARLY, SLACK, settled, tied, undecided
from derive.plan.space import Space, passed
from derive.plan.tape import Room, Tape
from derive.plan.task import Counts, Task

BLOCK = 1 << 15  # plans: a dozen float64 registers of this size fit a 2 MB cache
DENSE = 0.3  # above this share of a block, it is quicker to evaluate all of it


class _Block(NamedTuple):
    """Rows tp, cp, pp, dp as columns, micro-batches as a row, and a mask of the combinations that
    pass. Where few pass, the row is a column as well, with only those that pass."""

    triple: Any
    micro: Any
    good: Any


def in_blocks(task: Task, grid: Space, top: int) -> Found:
    """What `search` finds, block after block in the order of enumeration."""
    import numpy as np

    run = run_of(task.assumptions)
    constants = run.numbers(task.floats)
    room = Room(run)
    axes, rejected = passed(task.counts, grid)
    counts = Counter(rejected)
    kept: list[tuple[Any, Any]] = []
    layers, blur = task.counts.layers, task.blur
    fit, held, worst = 0, 0, np.inf
    for lost, block in _survivors(task.counts, axes, grid.micro_batch):
        counts.update(lost)
        if block is None:
            continue
        triple, micro, good = block
        redo, seconds, edge = run.block((*triple, micro), constants, room.of(good.shape))
        fits = good & (redo <= layers / triple[2])
        # Not "<": what is not a number is to be decided as well.
        if blur > SLACK or not edge.min() >= AT_A_STEP or not seconds.max() < np.inf:
            close = good & undecided(redo, seconds, edge, layers, blur)
            settle(task, _written(triple, micro, close), close, redo, seconds, fits)
        number = int(np.count_nonzero(fits))
        fit += number
        counts["memory"] += int(np.count_nonzero(good)) - number
        if top and number > top and worst == np.inf:
            worst = np.partition(seconds[fits], top)[top] / NEARLY
        if top and number:
            fits &= seconds <= worst
        if not fits.any():
            continue
        kept.append((_written(triple, micro, fits), seconds[fits]))
        held += len(kept[-1][1])
        if top and held > max(4 * top, BLOCK):
            kept = [best_of(kept, top)]
            held = len(kept[0][1])
            worst = kept[0][1][-1] / NEARLY
    degrees, seconds = best_of(kept, top) if kept else (np.empty((5, 0)), np.empty(0))
    lacking = () if fit else _too_large(task, axes, grid)
    return Found(task, grid, grid.size, fit, degrees, seconds, lacking, +counts)


def _written(triple: Any, micro: Any, chosen: Any) -> Any:
    """The chosen plans of a block written out: rows tp, cp, pp, dp and micro-batch."""
    import numpy as np

    of_triple, of_micro = chosen.nonzero()
    columns = np.empty((5, len(of_triple)))
    columns[:4] = triple[:, of_triple, 0]
    columns[4] = np.broadcast_to(micro, chosen.shape)[of_triple, of_micro]
    return columns


def _survivors(
    of: Counts, axes: Sequence[Sequence[int]], micro_batch: Sequence[int]
) -> Iterator[tuple[Mapping[str, int], _Block | None]]:
    """Blocks of combinations in the order of enumeration that every rule but memory lets pass, of
    values of tp, cp, pp and micro-batch that pass by themselves; and with each block, or without
    one, how many are rejected on the way by reason."""
    import numpy as np

    tensor, context, stages = axes
    pairs = [(t, c) for t, c in product(tensor, context) if of.cards % (t * c) == 0]
    sizes = len(stages) * len(micro_batch)
    yield {"cards": (len(tensor) * len(context) - len(pairs)) * sizes}, None
    if not pairs or not stages:
        return
    pair = np.array(pairs, dtype=np.float64)
    stage = np.array(stages, dtype=np.float64)
    micro = np.array(micro_batch, dtype=np.float64)
    step = max(1, BLOCK // len(stages))
    for start in range(0, len(pairs), step):
        some = pair[start : start + step]
        # Below 2**52 a quotient of whole numbers is whole in float64 only where it is in truth.
        data = of.cards / ((some[:, 0] * some[:, 1])[:, None] * stage)
        whole = data == np.floor(data)
        even = int(np.count_nonzero(whole))
        if of.held:
            whole &= data == of.held
        of_pair, of_stage = whole.nonzero()
        lost = {"cards": data.size - even, "held": even - len(of_pair)}
        yield {reason: number * len(micro) for reason, number in lost.items()}, None
        triple = np.empty((4, len(of_pair)))
        triple[0], triple[1] = some[of_pair, 0], some[of_pair, 1]
        triple[2], triple[3] = stage[of_stage], data[of_pair, of_stage]
        yield from _with_micro_batches(of.batch, triple, micro)


def _with_micro_batches(
    batch: int, triple: Any, micro: Any
) -> Iterator[tuple[Mapping[str, int], _Block | None]]:
    import numpy as np

    step = max(1, BLOCK // len(micro))
    for start in range(0, triple.shape[1], step):
        some = triple[:, start : start + step, None]
        for first in range(0, len(micro), BLOCK):
            row = micro[None, first : first + BLOCK]
            batches = batch / (some[3] * row)
            good = batches == np.floor(batches)
            passed_by = int(np.count_nonzero(good))
            lost = {"batch": good.size - passed_by}
            if passed_by > DENSE * good.size:
                yield lost, _Block(some, row, good)
            elif passed_by:
                of_triple, of_micro = good.nonzero()
                column = row[0, of_micro, None]
                dense = _Block(some[:, of_triple], column, np.ones_like(column, dtype=bool))
                yield lost, dense
            else:
                yield lost, None


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
    apart = ~tied(ranked[:-1], ranked[1:])
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


def _too_large(task: Task, axes: Sequence[Sequence[int]], grid: Space) -> tuple[Plan, ...]:
    """The plans that lack the least memory with every layer recomputed, the least first."""
    import numpy as np

    run = least_memory(task.assumptions)
    constants = run.numbers(task.floats)
    room = Room(run)
    best: list[tuple[float, tuple[int, ...]]] = []
    for _, block in _survivors(task.counts, axes, grid.micro_batch):
        if block is None:
            continue
        triple, micro, good = block
        size, _ = run.block((*triple, micro), constants, room.of(good.shape))
        size = np.broadcast_to(size, good.shape)
        sizes, columns = size[good], _written(triple, micro, good)
        for index in sizes.argsort(kind="stable")[:CLOSEST]:
            best.append((float(sizes[index]), tuple(int(x) for x in columns[:, index])))
        best = sorted(best, key=lambda pair: pair[0])[:CLOSEST]
    return least_lacking_first(plan_of(task, *row) for _, row in best)
