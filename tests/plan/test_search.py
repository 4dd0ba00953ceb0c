"""The search: blocks, counts, what is fixed, what is nearest, and utilisation within its bounds."""

from __future__ import annotations

import random
import re
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from cases import asked, of_notebook, passing, space

from derive.cost.assumptions import CORRECTED, NOTEBOOK
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.plan import search as searching
from derive.plan.axes import AXES, REASONS, Space
from derive.plan.plan import plan_of
from derive.plan.search import search

WIDE = space(tuple(range(1, 9)), tuple(range(1, 33)), tuple(range(1, 81)), tuple(range(1, 9)))


@pytest.mark.parametrize("assumptions", [NOTEBOOK, CORRECTED])
@pytest.mark.parametrize("block", [1, 7, 64, 1 << 13])
def test_blocks_find_what_one_array_finds(monkeypatch, assumptions, block):
    task = asked(cards=256, seq=32768, batch=1024, assumptions=assumptions)
    grid = space((1, 2, 4, 8), (1, 2, 4), (1, 2, 4, 5), (1, 2, 3))
    whole = search(task, grid)
    monkeypatch.setattr(searching, "BLOCK", block)
    cut = search(task, grid)
    assert (cut.fit, cut.rejected) == (whole.fit, whole.rejected)
    assert (cut.degrees == whole.degrees).all()
    assert np.allclose(cut.seconds, whole.seconds, rtol=1e-14, atol=0)
    for top in (3, 8) if block > 1 else (3,):
        few = search(task, grid, top=top)
        assert (few.degrees == whole.degrees[:, :top]).all() and few.fit == whole.fit


def test_the_float_ranking_is_the_exact_one():
    for assumptions in (NOTEBOOK, CORRECTED):
        ranking = search(asked(cards=96, seq=16384, batch=480, assumptions=assumptions))
        plans = ranking.plans()
        assert len(plans) > 20
        seconds = [plan.step_seconds for plan in plans]
        assert seconds == sorted(seconds)
        for plan, time in zip(plans, ranking.seconds, strict=True):
            assert float(plan.step_seconds) == pytest.approx(time, rel=1e-12)
            assert sum(plan.parts.values()) == plan.step_seconds
            assert sum(map(plan.share, plan.parts)) == 1
            assert sum(plan.memory.values()) == plan.memory_bytes <= ranking.task.budget
            assert plan.lacks_bytes == 0
            assert all(part >= 0 for part in plan.parts.values())


def test_every_candidate_is_counted_once():
    task = asked(cards=4096 * 3, seq=96 * 1024, batch=4096)
    ranking = search(task, WIDE, top=10)
    assert ranking.candidates == WIDE.size == 8 * 32 * 80 * 8
    assert ranking.fit + sum(ranking.rejected.values()) == ranking.candidates
    assert len(ranking.plans()) == 10


def test_memory_does_not_grow_with_the_grid():
    task = asked(cards=2**20, seq=2**20, batch=2**20)
    powers = tuple(2**k for k in range(10))

    def peak(micro: int) -> int:
        grid = space((1, 2, 4, 8), powers, (1, 2, 4, 8, 16), range(1, micro))
        search(task, grid, top=5)
        tracemalloc.start()
        search(task, grid, top=5)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    assert peak(4000) < 1.5 * peak(500) < 40e6


@pytest.mark.parametrize("seed", range(30))
def test_utilisation_stays_above_0_and_at_most_1(seed):
    draw = random.Random(seed)
    values = {
        "eta": Fraction(draw.randrange(1, 101), 100),
        "x_pp": Fraction(draw.randrange(1, 101), 100),
        "x_dp": Fraction(draw.randrange(1, 101), 100),
        "C": 10 ** draw.randrange(10, 30),
        "W_dcn": 10 ** draw.randrange(3, 20),
        "W_node": 10 ** draw.randrange(3, 20),
        "M_hbm": 10 ** draw.randrange(10, 16),
        "n_node": draw.choice((1, 3, 8, 72)),
    }
    for assumptions in (NOTEBOOK, CORRECTED):
        task = asked(
            draw.choice(("llama-3-8b", "llama-3-70b")), draw.choice((1, 8, 64, 576)),
            draw.choice((64, 8192, 2**20)), draw.choice((1, 64, 1440)), assumptions, **values,
        )  # fmt: skip
        ranking = search(task)
        assert (ranking.seconds > 0).all()
        for plan in ranking.plans(5) + ranking.plans()[-5:]:
            assert 0 < plan.mfu <= values["eta"] <= 1


def test_degrees_that_are_fixed_are_the_only_ones():
    task = asked(cards=64, tp=8, dp=4)
    ranking = search(task)
    assert ranking.fit > 0
    assert all((plan.tp, plan.dp) == (8, 4) for plan in ranking.plans())
    free = search(asked(cards=64))
    same = [p for p in free.plans() if (p.tp, p.dp) == (8, 4)]
    assert list(ranking.plans()) == same


def test_a_fixed_data_degree_is_respected_and_counted():
    task = asked(cards=64, dp=4)
    free, ranking = search(asked(cards=64)), search(task)
    others = sum(row.dp != 4 for row in passing(free.task, free.space))
    assert {plan.dp for plan in ranking.plans()} == {4} == set(ranking[v.dp])
    assert ranking.rejected["held"] == others > 0
    assert ranking.rejected["cards"] == free.rejected["cards"]
    assert ranking.fit + sum(ranking.rejected.values()) == ranking.candidates
    assert list(ranking.rejected) == [key for key in REASONS if key in ranking.rejected]


@pytest.mark.parametrize(
    ("grid", "rejected"),
    [
        (space((3, 5), (1, 2), (1, 2)), {"heads": 8}),
        (space((1, 3), (3, 5, 7), (1, 2)), {"heads": 6, "sequence": 6}),
        (space((1, 2), (1, 4), (3, 7, 9)), {"short_chunk": 6, "layers": 6}),
        (
            Space(tp=(4, 8), ep=(1, 2), virtual=(1, 2, 4)),
            {"experts": 6, "unmodelled": 4, "memory": 2},
        ),
    ],
)
def test_an_axis_that_is_rejected_whole_counts_what_is_left_of_the_others(grid, rejected):
    task = asked(M_hbm=10**10)
    assert search(task, grid).rejected == rejected


@pytest.mark.parametrize("seq", [8190, 24579, 3, 8191 * 6])
@pytest.mark.parametrize("assumptions", [NOTEBOOK, CORRECTED])
def test_the_padding_that_is_named_is_the_least_that_will_do(seq, assumptions):
    def padded(tokens):
        with pytest.raises(DeriveError, match=f"^seq {tokens}: not divisible by") as caught:
            _ = asked(seq=tokens, assumptions=assumptions).space
        return int(re.search(r"pad it, to (\d+) at least", str(caught.value))[1])

    if seq % 2 == 0 and assumptions is NOTEBOOK:
        assert asked(seq=seq, assumptions=assumptions).space
        return
    enough = padded(seq)
    assert all(padded(tokens) == enough for tokens in range(seq, enough))
    assert asked(seq=enough, assumptions=assumptions).space


def test_a_sequence_that_is_even_and_not_cut_by_zigzag_says_what_divides_it():
    told = "^seq 8190: not divisible by 2c, the pieces of zigzag, for any .* c from 2 to 64; pad"
    with pytest.raises(DeriveError, match=told):
        _ = asked(seq=8190, assumptions=CORRECTED).space


def test_nothing_fits_and_what_is_nearest():
    ranking = search(asked("llama-3-405b", cards=8, seq=8192, batch=8))
    assert ranking.fit == 0 and not ranking.plans()
    assert ranking.degrees.shape == (len(AXES), 0) and ranking.seconds.shape == (0,)
    assert ranking.rejected["memory"] > 0
    lacks = [plan.lacks_bytes for plan in ranking.too_large]
    assert lacks == sorted(lacks) and lacks[0] > 0 and len(lacks) == 3
    rows = passing(ranking.task, ranking.space)
    assert lacks == sorted(plan_of(ranking.task, row).lacks_bytes for row in rows)[:3]
    with pytest.MonkeyPatch.context() as patch:
        for block in (1, 7, 1 << 15):
            patch.setattr(searching, "BLOCK", block)
            cut = search(ranking.task, ranking.space)
            assert cut.too_large == ranking.too_large and cut.rejected == ranking.rejected
    first = ranking.too_large[0]
    assert first.recomputed_layers == first.layers_per_stage
    assert first.memory_bytes - first.lacks_bytes == ranking.task.budget
    # With just that much more memory it fits; with a byte less it does not.
    enough = first.memory_bytes / Fraction(9, 10)
    assert search(asked("llama-3-405b", 8, 8192, 8, M_hbm=enough)).fit >= 1
    assert search(asked("llama-3-405b", 8, 8192, 8, M_hbm=enough - 2)).fit == 0


def test_a_batch_that_feeds_no_pipeline_leaves_reasons_and_no_nearest():
    ranking = search(asked("llama-3-8b", cards=1024, seq=4096, batch=1))
    assert ranking.fit == 0 and not ranking.too_large
    # Of 4 x 6 x 5 combinations one context rank has 20, on a power of two of cards at most 128.
    assert ranking.rejected == {"short_chunk": 100, "batch": 20}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"cards": 0}, "^cards: expected a whole number"),
        ({"batch": 0}, "^batch: expected a whole number"),
        ({"seq": -1}, "^seq: expected a whole number"),
        ({"batch": True}, "^batch"),
        ({"batch": 1.5}, "^batch"),
        ({"tp": 16}, "larger than a node"),
        ({"tp": 3}, "heads do not split"),
        ({"n_node": 128, "tp": 128}, "heads do not split"),
        ({"pp": 81}, "layers do not split"),
        ({"pp": 160}, "layers do not split"),
        ({"cp": 3}, "sequence does not split"),
        ({"cp": 4}, "too few tokens"),
        ({"dp": 3}, "does not divide 64 cards"),
        ({"tp": 8, "cp": 1, "pp": 2, "dp": 2}, "makes 32, not the 64 given"),
        ({"dp": 64, "batch": 32}, "over dp=64 into micro-batches of 1; a batch of 64 does$"),
        (
            {"dp": 4, "b_seq": 3, "batch": 16},
            "does not split over dp=4 into micro-batches of 3; a batch of 12 or 24 does$",
        ),
        ({"b_seq": 5}, "micro-batches of 5"),
        ({"tp": Fraction(3, 2)}, "whole number"),
        ({"seq": 24579}, "not divisible by any context-parallel degree"),
        ({"eta": Fraction(6, 5)}, "at most 1"),
        ({"L": Fraction(7, 2)}, "whole number"),
        ({"P": 10**9}, "more parameters than"),
        ({"A_kept": 2}, "saves more than its input"),
        ({"X": 2}, "unknown value to set"),
        ({"L_r": 2}, "unknown value to set"),
    ],
)
def test_what_no_plan_can_have_is_refused_in_one_line(change, told):
    with pytest.raises(DeriveError, match=told) as caught:
        _ = asked(**change).space
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 400


def test_an_odd_sequence_is_planned_without_context_parallelism():
    assert {p.cp for p in search(asked("llama-3-8b", 8, 24579, 8, cp=1)).plans()} == {1}


def test_a_chip_without_a_link_says_what_is_missing():
    from derive.facts import chip, model
    from derive.plan.task import task

    with pytest.raises(DeriveError, match=r"W_dcn .*; set .*W_dcn=\.\.\."):
        task(model("llama-3-8b"), chip("tpu-v4"), cards=8, seq=8192, batch=8)


def test_the_grids():
    short = of_notebook("70b-64-8k").space
    assert short == space((1, 2, 4, 8), (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16))
    wide = asked(assumptions=CORRECTED).space
    assert wide.pp == (1, 2, 4, 5, 8, 10, 16, 20, 40) and wide.tp == (1, 2, 4, 8)
    assert wide.cp == (1, 2, 4, 8, 16, 32, 64) and wide.micro_batch == (1, 2, 4)
    with pytest.raises(DeriveError, match="whole numbers from 1"):
        space((0,), (1,), (1,))


def test_a_group_of_49_cards_spans_exactly_a_node_of_49():
    """49*(1/49) is below 1 in float64: a link must be chosen by one exact division."""
    task = asked(cards=49 * 2, seq=49 * 4096, batch=98, n_node=49, L=98, cp=49, M_hbm=10**15)
    ranking = search(task)
    assert ranking.fit
    for plan, time in zip(ranking.plans(), ranking.seconds, strict=True):
        assert float(plan.step_seconds) == pytest.approx(time, rel=1e-12)
