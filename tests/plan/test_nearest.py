"""What is nearest where no combination passes the rules on whole numbers, by the rules alone.

Each suggested value is put into the task and the rules are asked again; that none is closer is
checked by asking them about every value in between.
"""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from cases import asked, passing, row, space

from derive.cost.assumptions import CORRECTED, NOTEBOOK
from derive.notation import symbols as v
from derive.plan.axes import AXES, Counts, Degrees, Space, broken
from derive.plan.nearest import CLOSEST, QUANTITIES, Change, Near, changed, changes, nearest
from derive.plan.search import search
from derive.plan.task import LARGEST, Task

SMALL = space((1, 2, 3, 8), (1, 2, 4, 6), (1, 2, 5, 7), (1, 2, 3))


def passes(of: Counts, row: Degrees, held: int | None = None) -> np.ndarray:
    """The rules as the document's script states them, on one combination: for a task, or for
    each of many that differ in a quantity, which is an array."""
    size = row.tp * row.cp * row.pp
    tensor = row.tp <= of.node and of.heads % row.tp == 0
    tensor = tensor and (of.kv_heads % row.tp == 0 or row.tp % of.kv_heads == 0)
    seq, cards, batch = (np.asarray(x) for x in (of.seq, of.cards, of.batch))
    whole = (seq % (of.pieces * row.cp) == 0) & (seq // row.cp >= of.least_chunk)
    data = cards // size
    split = (cards % size == 0) & (batch % (np.maximum(data, 1) * row.micro_batch) == 0)
    kept = True if held is None else data == held
    return (tensor and of.layers % row.pp == 0) & (whole | (row.cp == 1)) & split & kept


def drawn(seed: int) -> Task:
    draw = random.Random(seed)
    held = draw.choice(({}, {}, {}, {"dp": draw.choice((1, 2, 3, 4, 7))}))
    return asked(
        draw.choice(("llama-3-8b", "llama-3-70b")),
        draw.choice((1, 7, 8, 13, 48, 63, 100, 210, 256, 720, 720)),
        draw.choice((100, 840, 900, 960)),
        draw.choice((1, 2, 5, 11, 48, 100, 512, 5040, 5040)),
        draw.choice((CORRECTED, NOTEBOOK)),
        n_node=draw.choice((2, 8)),
        T_min=draw.choice((1, 200, 300)),
        **held,
    )


def next_to(task: Task, row: Degrees, quantity: str, most: int) -> tuple[int, ...]:
    """The values up to `most` closest below and above that mend, by trying each."""
    given = getattr(task, quantity)
    every = np.arange(1, most)
    mends = every[passes(task.counts._replace(**{quantity: every}), row, task.fixed.get(v.dp))]
    return (*map(int, mends[mends < given][-1:]), *map(int, mends[mends > given][:1]))


def test_the_closest_values_are_those_found_by_trying_each() -> None:
    compared: Counter[tuple[str, str]] = Counter()
    for seed in range(80):
        task = drawn(seed)
        held = task.fixed.get(v.dp)
        for one in random.Random(seed).sample(list(SMALL.rows()), 30):
            rule = broken(task.counts, one)
            assert (rule is None) == passes(task.counts, one, held)
            mending = {change.quantity: change.values for change in changes(task.counts, one)}
            if rule in (None, "heads", "tensor_beyond_node", "layers"):
                assert not mending
                continue
            for quantity in QUANTITIES:
                values = mending.get(quantity, ())
                most = max(3 * getattr(task, quantity) // 2, *values, 0) + 1
                assert next_to(task, one, quantity, most) == values
                compared[rule, quantity] += len(values)
    assert sum(compared.values()) > 700
    assert {key for key, values in compared.items() if values > 10} == {
        ("zigzag", "seq"), ("cards", "cards"), ("held", "cards"),
        ("batch", "batch"), ("batch", "cards"), ("short_chunk", "seq"),
    }  # fmt: skip


def searched_again(task: Task, one: Near) -> None:
    """Each value that is suggested lets the combination pass in a search of the changed task."""
    for change in one.changes:
        assert change.given == getattr(task, change.quantity)
        assert change.value in change.values
        for value in change.values:
            again = changed(task, change.quantity, value)
            assert one.row.on(again.cards) in passing(again, again.space)


@pytest.mark.parametrize("seed", range(48))
def test_the_nearest_pass_when_searched_again_and_none_is_nearer(seed: int) -> None:
    draw = random.Random(seed)
    assumptions = draw.choice((CORRECTED, NOTEBOOK))
    prime = draw.choice((7, 11, 13, 31, 127, 8191, 2**31 - 1))
    task = asked(
        draw.choice(("llama-3-8b", "llama-3-70b", "llama-3-405b")),
        prime * draw.choice((1, 2, 3, 8)), 8192 * draw.choice((1, 2, 5)),
        draw.choice((1, 2, 3, 48, 512, 10**6)), assumptions,
    )  # fmt: skip
    grid = task.space
    near = nearest(task, grid)
    if passing(task, grid):
        assert near == ()
        return
    assert near
    # What fits stands first; in the order of their changes it is one of the others, or the last.
    fits = [not one.plan.lacks_bytes for one in near]
    assert fits[0] or not any(fits)
    in_order = sorted(near, key=lambda one: one.changes[0].factor)
    assert fits[0] or near[0].changes[0].factor == in_order[0].changes[0].factor
    assert list(near[1:]) == [one for one in in_order if one is not near[0]]
    fitting = [one.changes[0].factor for one in near if not one.plan.lacks_bytes]
    assert fitting == sorted(fitting)
    factors = [one.changes[0].factor for one in in_order]
    assert factors[0] > 1
    every = [(x, mends[0]) for x in grid.rows() if (mends := changes(task.counts, x))]
    assert factors[0] == min(first.factor for _, first in every)
    for one in near:
        assert one.rule == broken(task.counts, one.row)
        searched_again(task, one)
        first = one.changes[0]
        under = changed(task, first.quantity, first.value)
        assert one.plan.lacks_bytes == max(0, one.plan.memory_bytes - under.budget)
    # With the nearest three stands the next that fits, if they do not and any does.
    assert len(near) <= CLOSEST or fits == [True] + [False] * CLOSEST
    if not any(fits):
        for one_row, first in every:
            if one_row.micro_batch == 1:
                under = changed(task, first.quantity, first.value)
                alone = {axis.name: (x,) for axis, x in zip(AXES, one_row, strict=True) if x}
                assert search(under, Space(**alone)).fit == 0


def test_the_value_of_a_change_is_the_nearer_by_ratio_and_of_equal_ones_the_smaller() -> None:
    for low in range(1, 13):
        for high in range(13, 160):
            change = Change("batch", 12, (low, high))
            nearer = low if low * high >= 12 * 12 else high
            assert change.value == nearer
            assert change.factor == max(Fraction(12, nearer), Fraction(nearer, 12))
    assert Change("batch", 12, (9, 16)).value == 9


def test_seven_cards_lack_a_batch_that_seven_ranks_divide() -> None:
    task = asked(cards=7, assumptions=CORRECTED)
    fits, first, *others = nearest(task, task.space)
    assert first.row == row(1, 1, 1) and first.rule == "batch" and first.plan.dp == 7
    assert first.changes[0] == Change("batch", 512, (511, 518))
    assert first.changes[1] == Change("cards", 7, (4, 8))
    assert first.plan.lacks_bytes > 0
    assert not fits.plan.lacks_bytes and all(one.plan.lacks_bytes for one in others)


def test_values_are_never_beyond_what_a_task_may_have() -> None:
    task = asked(cards=LARGEST - 1, batch=LARGEST - 2, assumptions=CORRECTED)
    for one in nearest(task, task.space):
        for change in one.changes:
            assert all(1 <= value <= LARGEST for value in change.values)
        searched_again(task, one)


def test_a_changed_task_is_the_one_that_would_have_been_typed() -> None:
    task = asked("llama-3-8b", 7, 8192, 512, CORRECTED)
    assert changed(task, "batch", 511) == asked("llama-3-8b", 7, 8192, 511, CORRECTED)
    assert changed(task, "seq", 4096) == asked("llama-3-8b", 7, 4096, 512, CORRECTED)
    assert changed(task, "cards", 8) == asked("llama-3-8b", 8, 8192, 512, CORRECTED)


@pytest.mark.parametrize("degrees", [(3, 1, 1), (16, 1, 1), (1, 1, 7)])
def test_what_no_quantity_mends_is_not_near(degrees: tuple[int, int, int]) -> None:
    task = asked(cards=21, assumptions=CORRECTED)
    assert broken(task.counts, row(*degrees)) in ("heads", "tensor_beyond_node", "layers")
    assert changes(task.counts, row(*degrees)) == ()
    assert nearest(task, space(*((x,) for x in degrees))) == ()


def test_degrees_that_are_held_stay_held() -> None:
    task = asked(cards=14 * 11, batch=98, dp=7)
    near = nearest(task, task.space)
    assert near and all(one.plan.dp == 7 for one in near)


def test_cards_that_leave_another_data_degree_than_the_one_held() -> None:
    n = asked(cards=64, dp=4).counts
    assert broken(n, row(8, 1, 1)) == "held"
    assert changes(n, row(8, 1, 1)) == (Change("cards", 64, (32,)),)
    assert changes(n, row(2, 1, 1)) == (Change("cards", 64, (8,)),)
    assert changes(n._replace(batch=6), row(8, 1, 1)) == ()  # 6 is not split over 4


def test_the_micro_batch_with_the_smallest_change_stands_for_the_others() -> None:
    task = asked(cards=7, batch=512)
    (one,) = nearest(task, space((1,), (1,), (1,), (4, 2)))
    assert one.row.micro_batch == 2 and one.changes[0] == Change("batch", 512, (504, 518))


def test_the_largest_value_that_a_task_may_have_is_named() -> None:
    (change,) = [
        change
        for change in changes(asked(cards=10, batch=LARGEST - 1).counts, row(1, 1, 1))
        if change.quantity == "batch"
    ]
    assert change.values == (LARGEST - 10, LARGEST)
    (change,) = [
        change
        for change in changes(asked(cards=7, batch=LARGEST).counts, row(1, 1, 1))
        if change.quantity == "batch"
    ]
    assert change.values == (LARGEST - LARGEST % 7,)
