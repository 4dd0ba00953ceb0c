"""The rules on whole numbers: for one task and for several at once, against their definitions."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from cases import SEARCHES, made, of_notebook

from derive.cost.step_assumptions import step_assumptions
from derive.plan.divided import divided
from derive.plan.space import NOTEBOOK_SPACE, Space, whole

ZIGZAG = step_assumptions("notebook+zigzag")
HUGE = 3**5 * 5**3 * 2**34  # cards and sequences near the most a task may have


def by_definition(task, grid):
    """Rows of the plans that divide everything evenly, one condition after the other."""
    of = task.counts
    rows = []
    for t, c, p, b in product(grid.tp, grid.cp, grid.pp, grid.micro_batch):
        group = (of.heads // t) * t == of.heads and (
            of.kv_heads // t * t == of.kv_heads or t // of.kv_heads * of.kv_heads == t
        )
        chunk = of.seq // c
        ring = c == 1 or (chunk // of.pieces * of.pieces * c == of.seq and chunk >= of.least_chunk)
        stages = of.layers // p * p == of.layers
        data = of.cards // (t * c * p)
        runs = of.batch // (data * b) if data else 0
        even = data * t * c * p == of.cards and runs * data * b == of.batch
        if t <= of.node and group and ring and stages and even:
            rows.append((t, c, p, data, b))
    return rows


def some_space(draw):
    def values(most, most_values):
        return tuple(sorted(draw.sample(range(1, most), draw.randint(1, most_values))))

    return Space(values(17, 5), values(40, 6), values(81, 8), values(9, 4))


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_those_of_the_definition(seed):
    draw = random.Random(seed)
    grid = some_space(draw)
    factors = (1, 2, 3, 4, 5, 8, 12, 16, 64, 96, 720, HUGE)
    tasks = [
        made(
            "llama-3-70b", cards=draw.choice(factors), seq=draw.choice((4096, 8192, 61440, 92160)),
            batch=draw.choice(factors), assumptions=ZIGZAG, K=draw.choice((1, 3, 8)), G=6,
            T_min=draw.choice((1, 1024)), n_node=draw.choice((4, 8, 15)),
        )
        for _ in range(draw.randint(1, 6))
    ]  # fmt: skip
    which, columns = divided(tasks, grid)
    assert (np.diff(which) >= 0).all()
    for place, task in enumerate(tasks):
        wanted = by_definition(task, grid)
        assert list(whole(task, grid).rows) == wanted
        found = columns[:, which == place].astype(np.int64).T.tolist()
        assert found == [list(row) for row in wanted]


def test_a_data_degree_that_is_held():
    tasks = [made(cards=64, batch=512), made(cards=64, batch=512, dp=4)]
    which, columns = divided(tasks, NOTEBOOK_SPACE)
    assert set(columns[3, which == 1]) == {4}
    held = columns[:, (which == 0) & (columns[3] == 4)]
    assert (columns[:, which == 1] == held).all() and held.size


def test_nothing_divides():
    which, columns = divided([made(cards=7)], NOTEBOOK_SPACE)
    assert which.shape == (0,) and columns.shape == (5, 0)


def test_the_five_grids_are_what_was_counted():
    tasks = [of_notebook(key) for key in SEARCHES]
    which, _ = divided(tasks, NOTEBOOK_SPACE)
    for place, task in enumerate(tasks):
        rest = sum(n for _, n in whole(task, NOTEBOOK_SPACE).rejected)
        assert NOTEBOOK_SPACE.size - rest == (which == place).sum() > 0
