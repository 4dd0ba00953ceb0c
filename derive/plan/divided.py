"""The rules on whole numbers for several tasks at once: what they let pass of one grid.

What `space.whole` does for one task, as arrays: every rule is asked once for each value of what it
depends on, and the answers are spread over the combinations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from derive.plan.rules import RULES, division
from derive.plan.space import Space
from derive.plan.task import Task


@dataclass(frozen=True, eq=False)
class Written:
    """A grid written out, one column for each combination in the order of enumeration.

    `columns` are five rows: tp, cp, pp, 1 and micro-batch. `size` is the product of tp, cp and pp.
    `shares` are the different pairs of size and micro-batch. `places` says which value of tp, cp
    and pp a combination has, and which share, as places in one list of all of them.
    """

    columns: Any
    size: Any
    shares: tuple[tuple[int, int], ...]
    places: Any


@lru_cache(maxsize=16)
def written(grid: Space) -> Written:
    """The grid written out; it depends on no task."""
    axes = (grid.tp, grid.cp, grid.pp)
    rows = [(t, c, p, 1, b) for t, c, p, b in product(*axes, grid.micro_batch)]
    each = [(t * c * p, b) for t, c, p, _, b in rows]
    place_of = {share: place for place, share in enumerate(dict.fromkeys(each))}
    places = np.indices((*(len(values) for values in axes), len(grid.micro_batch))).reshape(4, -1)
    places[3] = [place_of[share] for share in each]
    places[1:] += np.cumsum([len(values) for values in axes])[:, None]
    columns = np.array(rows, dtype=np.float64).T.copy()
    return Written(columns, columns[:3].prod(axis=0), tuple(place_of), places)


def divided(tasks: Sequence[Task], grid: Space) -> tuple[Any, Any]:
    """The task of each combination that passes every rule but memory, and the combinations: five
    rows tp, cp, pp, dp and micro-batch, task after task in the order of enumeration."""
    out = written(grid)
    axes = tuple(zip(RULES.values(), (grid.tp, grid.cp, grid.pp), strict=True))
    passed: list[bool] = []
    for task in tasks:
        of = task.counts
        for rule, values in axes:
            passed += [why is None for why in rule(of, values)]
        passed += [why is None for why in division(of, out.shares)]
    # As bytes: NumPy takes them as they are, a list of truth values one by one.
    table = np.frombuffer(bytes(passed), dtype=bool).reshape(len(tasks), -1)
    spread = table.take(out.places, axis=1)
    at = np.logical_and.reduce(spread, axis=1).ravel().nonzero()[0]
    which = at // grid.size
    place = at - which * grid.size
    columns = out.columns.take(place, axis=1)
    columns[3] = np.array([task.cards for task in tasks]).take(which) / out.size.take(place)
    return which, columns
