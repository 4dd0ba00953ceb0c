"""The rules on whole numbers: for one task and for several at once, against their definitions."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import numpy as np
from cases import SEARCHES, made, of_notebook

from derive.cost.step_assumptions import step_assumptions
from derive.notation import symbols as v
from derive.plan import search as searching
from derive.plan.divided import divided
from derive.plan.rules import context, pipeline, tensor
from derive.plan.search import search
from derive.plan.space import NOTEBOOK_SPACE, Space, whole

ZIGZAG = step_assumptions("notebook+zigzag")
HUGE = 3**5 * 5**3 * 2**34  # cards and sequences near the most a task may have


def by_definition(task, grid):
    """Rows of the plans that divide everything evenly, one condition after the other."""
    of, held = task.counts, task.fixed.get(v.dp)
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
        even = even and held in (None, data)
        if t <= of.node and group and ring and stages and even:
            rows.append((t, c, p, data, b))
    return rows


STAGES = (1, 2, 4, 5, 8, 10, 16, 20, 40, 80)


def some_tasks(draw):
    """A grid and tasks many of whose numbers divide: cards and batches are made of its degrees."""
    tp = draw.sample((1, 2, 3, 4, 6, 8, 9), draw.randint(2, 5))
    cp = draw.sample((1, 2, 3, 4, 5, 6, 8), draw.randint(1, 4))
    grid = Space(tp, cp, draw.sample(STAGES, draw.randint(2, 5)), draw.sample(range(1, 7), 3))
    tasks = []
    for _ in range(draw.randint(1, 6)):
        data = draw.choice((1, 2, 6, 7, 720, 2**20))
        cards = draw.choice(grid.tp) * draw.choice(grid.cp) * draw.choice(grid.pp) * data
        held = draw.choice(({}, {}, {}, {"dp": data}, {"dp": 2 * data}))
        tasks.append(
            made(
                "llama-3-70b", cards=draw.choice((cards, cards, cards * 720, HUGE)),
                seq=draw.choice((4096, 8192, 61440, 92160)),
                batch=data * draw.choice(grid.micro_batch) * draw.choice((1, 2, 30)),
                assumptions=ZIGZAG, K=draw.choice((1, 2, 3, 8)), G=draw.choice((6, 8, 18)),
                T_min=draw.choice((1, 1024)), n_node=draw.choice((4, 8, 15)), **held,
            )
        )  # fmt: skip
    return grid, tasks


def counted(task, grid):
    """How many combinations each rule rejects that comes after those on one degree."""
    of, lost = task.counts, {}
    for t, c, p, b in product(grid.tp, grid.cp, grid.pp, grid.micro_batch):
        alone = (tensor(of, (t,)) + context(of, (c,)) + pipeline(of, (p,))) == [None] * 3
        if not alone:
            continue
        if of.cards % (t * c * p):
            why = "cards"
        elif of.held and of.held * t * c * p != of.cards:
            why = "held"
        elif of.batch % (of.cards // (t * c * p) * b):
            why = "batch"
        else:
            continue
        lost[why] = lost.get(why, 0) + 1
    return lost


def test_rows_are_those_of_the_definition(monkeypatch):
    monkeypatch.setattr(searching, "SMALL", 0)
    rows, shared, reasons = 0, 0, Counter()
    for seed in range(150):
        grid, tasks = some_tasks(random.Random(seed))
        which, columns = divided(tasks, grid)
        assert (np.diff(which) >= 0).all()
        for place, task in enumerate(tasks):
            wanted = by_definition(task, grid)
            assert list(whole(task, grid).rows) == wanted
            found = columns[:, which == place].astype(np.int64).T.tolist()
            assert found == [list(row) for row in wanted]
            rows += len(wanted)
            shared += sum(task.counts.kv_heads % row[0] != 0 for row in wanted)
            lost = counted(task, grid)
            reasons.update(lost)
            for rejected in (dict(whole(task, grid).rejected), search(task, grid).rejected):
                assert {key: rejected.get(key, 0) for key in ("cards", "held", "batch")} == {
                    key: lost.get(key, 0) for key in ("cards", "held", "batch")
                }
    assert rows > 500 < min(reasons.values()) and len(reasons) == 3 and shared > 20


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
