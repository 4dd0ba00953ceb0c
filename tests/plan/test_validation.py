"""The statistics of predictions, by their definitions, and folds that hold back what they say."""

import random
from dataclasses import replace
from itertools import combinations
from math import isclose, sqrt
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.facts.runs import runs, studied
from derive.plan import validation
from derive.plan.validation import Outcome, folds, kendall, numbered, order, spread

STUDIED = [run for run in runs() if studied(run)]
TIMED = [run for run in STUDIED if run.seconds]
RANKS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12)


@given(RANKS)
def test_kendall_by_counting(pairs):
    one, two = zip(*pairs, strict=True)
    score = ties_one = ties_two = 0
    chosen = list(combinations(range(len(pairs)), 2))
    for i, j in chosen:
        step = (one[i] - one[j]) * (two[i] - two[j])
        score += (step > 0) - (step < 0)
        ties_one += one[i] == one[j]
        ties_two += two[i] == two[j]
    untied = (len(chosen) - ties_one) * (len(chosen) - ties_two)
    if not untied:
        assert kendall(one, two) is None
    else:
        assert isclose(kendall(one, two), score / sqrt(untied), abs_tol=1e-12)


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=30))
def test_a_spread_by_its_definitions(errors):
    sizes = sorted(map(abs, errors))
    told = spread(errors)
    assert told.rows == len(errors) and told.worst == sizes[-1]
    assert isclose(told.mean, mean(sizes), abs_tol=1e-12)
    assert told.within == sum(size <= validation.NEAR for size in sizes) / len(sizes)
    # Linear between ranks, as the inclusive method of the statistics module.
    rank = 0.9 * (len(sizes) - 1)
    low = int(rank)
    high = min(low + 1, len(sizes) - 1)
    assert isclose(told.p90, sizes[low] + (rank - low) * (sizes[high] - sizes[low]), abs_tol=1e-12)
    assert told.median <= told.p90 <= told.worst


def test_errors_are_of_what_was_measured():
    run = replace(TIMED[0], step_seconds=4.0, allocated_bytes=10e9)
    one = Outcome(run, 5.0, 8e9)
    assert one.error == 0.25 and isclose(one.memory_error, -0.2)
    assert replace(one, memory_bytes=None).memory_error is None
    layer = next(run for run in STUDIED if run.layer_seconds)
    assert isclose(Outcome(layer, 1.5 * layer.layer_seconds).error, 0.5)
    quick = replace(one, seconds=2.0)
    assert validation.worst([one, quick], 1) == [quick]


def test_a_perfect_prediction_and_one_upside_down():
    perfect = order(Outcome(run, run.seconds) for run in TIMED)
    assert perfect.right == perfect.pairs and isclose(perfect.tau, 1)
    layers = [Outcome(run, 1.0) for run in STUDIED if run.layer_seconds]
    assert len(layers) >= validation.SWEEP and order(layers) == (0, 0, None)
    turned = order(Outcome(run, run.chip_tokens**2 / run.seconds) for run in TIMED)
    assert turned.right == 0 and isclose(turned.tau, -1)
    assert turned.pairs == perfect.pairs
    assert order([Outcome(run, 1.0) for run in TIMED[: validation.SWEEP - 1]]) == (0, 0, None)


def test_order_by_counting_pairs():
    draw = random.Random(1)
    outcomes = [Outcome(run, run.seconds * draw.uniform(0.5, 2)) for run in TIMED]
    pairs = right = 0
    sweeps = validation.grouped(outcomes, lambda one: (one.run.source, one.run.chip, one.run.model))
    for sweep in sweeps.values():
        for one, two in combinations(sweep if len(sweep) >= validation.SWEEP else [], 2):
            a, b = (x.run.seconds / x.run.chip_tokens for x in (one, two))
            c, d = (x.seconds / x.run.chip_tokens for x in (one, two))
            if max(a, b) / min(a, b) > 1 + validation.APART:
                pairs += 1
                right += (a < b) == (c < d)
    told = order(outcomes)
    assert (told.pairs, told.right) == (pairs, right) and 0 < right < pairs
    assert -1 < told.tau < 1


@pytest.mark.parametrize("seed", range(4))
def test_a_fold_holds_back_whole_models_of_a_source(seed):
    drawn = folds(STUDIED, seed)
    assert {*drawn} == {*range(validation.FOLDS)} and len(drawn) == len(STUDIED) == 315
    keys = {}
    for run, number in zip(STUDIED, drawn, strict=True):
        keys.setdefault((run.chip, run.source, run.model), set()).add(number)
    assert all(len(numbers) == 1 for numbers in keys.values())
    for chip in {run.chip for run in STUDIED}:  # dealt out evenly inside each chip
        dealt = [min(numbers) for key, numbers in keys.items() if key[0] == chip]
        counts = [dealt.count(number) for number in range(validation.FOLDS)]
        assert max(counts) - min(counts) <= 1


def test_folds_are_drawn_by_the_seed_alone():
    def drawn(rows, seed):
        numbers = dict(zip((run.id for run in rows), folds(rows, seed).tolist(), strict=True))
        return tuple(numbers[run.id] for run in STUDIED)

    assert drawn(STUDIED, 1) == drawn(STUDIED[::-1], 1)
    assert len({drawn(STUDIED, seed) for seed in range(5)}) == 5


@given(st.lists(st.text(max_size=2), max_size=20))
def test_what_is_alike_has_one_number(keys):
    numbers = numbered(keys).tolist()
    assert len({*zip(keys, numbers, strict=True)}) == len({*keys}) == len({*numbers})
