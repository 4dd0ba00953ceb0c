"""The rules on whole numbers: one by one and as a search asks them, against their definitions."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path

from cases import asked, passing, space

from derive.cost.assumptions import step_assumptions
from derive.notation import symbols as v
from derive.plan.axes import AXES, MOST_RANKS, MOST_STAGES, NAMED, PLACE, broken, degrees, worded
from derive.plan.search import search

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
    grid = space(tp, cp, draw.sample(STAGES, draw.randint(2, 5)), draw.sample(range(1, 7), 3))
    tasks = []
    for _ in range(draw.randint(1, 6)):
        data = draw.choice((1, 2, 6, 7, 720, 2**20))
        cards = draw.choice(grid.tp) * draw.choice(grid.cp) * draw.choice(grid.pp) * data
        held = draw.choice(({}, {}, {}, {"dp": data}, {"dp": 2 * data}))
        tasks.append(
            asked(
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
    n, lost = task.counts, Counter()
    rules = {axis.name: axis.rule for axis in AXES}
    for t, c, p, b in product(grid.tp, grid.cp, grid.pp, grid.micro_batch):
        if any(rules[name](n, x) for name, x in (("tp", t), ("cp", c), ("pp", p))):
            continue
        if n.cards % (t * c * p):
            lost["cards"] += 1
        elif n.held and n.held * t * c * p != n.cards:
            lost["held"] += 1
        elif n.batch % (n.cards // (t * c * p) * b):
            lost["batch"] += 1
    return lost


def test_rows_are_those_of_the_definition():
    rows, shared, reasons = 0, 0, Counter()
    for seed in range(150):
        grid, tasks = some_tasks(random.Random(seed))
        for task in tasks:
            wanted = by_definition(task, grid)
            alone = [(x.tp, x.cp, x.pp, x.dp, x.micro_batch) for x in passing(task, grid)]
            assert alone == wanted
            rows += len(wanted)
            shared += sum(task.counts.kv_heads % row[0] != 0 for row in wanted)
            lost = counted(task, grid)
            reasons.update(lost)
            one_by_one = Counter(broken(task.counts, row) for row in grid.rows())
            ranking = search(task, grid)
            fitting = zip(*(ranking[axis.symbol].tolist() for axis in AXES), strict=True)
            places = [PLACE[name] for name in ("tp", "cp", "pp", "dp", "micro_batch")]
            assert {tuple(x[k] for k in places) for x in fitting} <= set(wanted)
            assert (
                ranking.fit + ranking.rejected.get("memory", 0) == len(wanted) == one_by_one[None]
            )
            for key in set(one_by_one) - {None}:
                assert ranking.rejected[key] == one_by_one[key]
            for key in ("cards", "held", "batch"):
                assert ranking.rejected.get(key, 0) == lost[key]
    assert rows > 500 < min(reasons.values()) and len(reasons) == 3 and shared > 20


def test_a_data_degree_that_is_held():
    free, held = asked(cards=64, batch=512), asked(cards=64, batch=512, dp=4)
    rows = passing(held, held.space)
    assert rows == [row for row in passing(free, free.space) if row.dp == 4] != []


def test_what_the_rules_count_is_of_the_model_and_of_a_whole_node():
    """Eight query heads over two pairs of heads: eight ranks of a node of eight, not of four cards
    that are there."""
    n = asked(cards=4, K=2, G=4, n_node=8).counts
    assert (n.cards, n.node, n.kv_heads, n.heads) == (4, 8, 2, 8)
    assert broken(n, degrees(tp=4)) is None
    assert broken(n, degrees(tp=8)) == "cards"
    assert broken(n, degrees(tp=16)) == "tensor_beyond_node"


def test_nothing_divides():
    task = asked(cards=7)
    assert passing(task, task.space) == [] and search(task).fit == 0


def test_a_context_degree_is_refused_with_the_pieces_that_zigzag_cuts():
    """Where the sequence itself divides, the 2c pieces do not; elsewhere they are not named."""
    n = asked("llama-3-8b", cards=8, seq=8194, batch=8, T_min=1, assumptions=ZIGZAG).counts
    told = worded(n, degrees(cp=2), "zigzag")
    assert "zigzag" in told and told.endswith("2c = 4 pieces; 8192 or 8196 tokens do)")
    assert worded(n, degrees(cp=3), "sequence").endswith("2c = 6 pieces; 8190 or 8196 tokens do)")
    assert worded(n, degrees(cp=2), "cards") == "the degrees do not divide the cards"
    assert "zigzag" not in worded(n._replace(pieces=1), degrees(cp=3), "sequence")


ONE_ROW = """
from dataclasses import replace
import derive.plan.axes as axes
rows = {axis.name: axis for axis in axes.AXES}
rows["pp"] = replace(rows["pp"], divides=("cards", "layers"))
free = {"values": lambda n: (1, 2, 5), "rule": lambda n, degree: None, "divides": ("layers",)}
free |= {"joint": ()}
rows["virtual"] = replace(rows["virtual"], **free)
axes.AXES = tuple(rows.values())
from derive.cli import main
from derive.facts import chip, model
from derive.plan.search import search
from derive.plan.task import task
h100 = chip("h100")
asked = task(
    model("llama-3-70b"), h100, cards=64, seq=8192, batch=512, assumptions="corrected"
)
ranking = search(asked)
reasons = [axes.broken(asked.counts, row) for row in ranking.space.rows()]
assert {"layers", "cards"} < set(reasons) and len(reasons) == 3 * 756
for reason in ("layers", "cards"):
    assert ranking.rejected[reason] == reasons.count(reason)
assert ranking.fit + ranking.rejected["memory"] == reasons.count(None)
typed = "plan --model llama-3-70b --chip h100 --cards 64 --seq 8192 --batch 512".split()
typed += ["--assume", "corrected"]
main([*typed, "--also", "tp=8,virtual=2", "--why", "1", "tp=8,virtual=5"])
main([*typed, "--set", "virtual=2", "--json", "--top", "1"])
main([*typed, "--also", "pp=16,virtual=2"])
"""


def test_an_axis_is_one_row():
    """With other values in its row, an axis is searched, ranked, named, held and refused."""
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", ONE_ROW], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": root, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert "pp  dp  virtual  micro-batch" in done.stdout
    assert "rank 174: tp=8 cp=1 pp=1 dp=8 virtual=2" in done.stdout
    assert "faster than tp=8 cp=1 pp=1 dp=8 virtual=5" in done.stdout
    assert '"virtual": 2,' in done.stdout
    assert "pp=16 virtual=2 is rejected: the layers do not split evenly" in done.stderr


def test_the_wide_grid_has_every_divisor_and_power_up_to_its_most():
    n = asked(assumptions=step_assumptions("corrected")).counts
    for layers in range(1, 200):
        stages = NAMED["pp"].values(n._replace(layers=layers))
        assert stages == tuple(k for k in range(1, MOST_STAGES + 1) if layers % k == 0)
    for node in range(1, 70):
        powers = NAMED["tp"].values(n._replace(node=node))
        assert powers == tuple(k for k in range(1, node + 1) if k & (k - 1) == 0)
    assert NAMED["cp"].values(n) == tuple(k for k in range(1, MOST_RANKS + 1) if k & (k - 1) == 0)


def test_zigzag_is_named_where_the_ranks_divide_the_tokens_and_their_halves_do_not():
    n = asked("llama-3-8b", seq=8190, assumptions=ZIGZAG).counts
    for seq in range(1, 60):
        for ranks in range(2, 9):
            rule = NAMED["cp"].rule(n._replace(seq=seq, least_chunk=1), ranks)
            pieces = (
                None if seq % (2 * ranks) == 0 else "zigzag" if seq % ranks == 0 else "sequence"
            )
            assert rule == pieces
            told = NAMED["cp"].facts(n._replace(seq=seq), ranks)
            assert told.startswith(f"{seq} tokens") and ("pieces" in told) == (rule is not None)


def test_degrees_of_one_that_go_without_saying():
    assert repr(degrees(tp=4)) == "tp=4 cp=1 pp=1"
    assert repr(degrees(tp=4, dp=2, micro_batch=3)) == "tp=4 cp=1 pp=1 dp=2 b_seq=3"
    assert repr(degrees(ep=2, virtual=1)) == "tp=1 cp=1 pp=1 ep=2"
