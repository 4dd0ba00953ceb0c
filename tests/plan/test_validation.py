"""The statistics of predictions, by their definitions, and folds that hold back what they say."""

import random
from dataclasses import replace
from itertools import combinations
from math import isclose, sqrt
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.facts.runs import runs, studied
from derive.plan import validation
from derive.plan.validation import Outcome, folds, held_back, kendall, order, predictions, spread

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


def test_what_is_refused_is_counted_by_its_reason():
    answers = {run.id: (1.0, None) for run in TIMED[::2]}
    outcomes, refused = predictions(TIMED, lambda run: answers.get(run.id, "odd"))
    assert [one.run for one in outcomes] == TIMED[::2]
    assert refused == {"odd": [run.id for run in TIMED[1::2]]}


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
    parts = folds(STUDIED, seed)
    assert len(parts) == validation.FOLDS
    held = [run.id for fold in parts for run in fold.held]
    assert sorted(held) == sorted(run.id for run in STUDIED)
    groups = {}
    for fold in parts:
        assert {*fold.fit, *fold.held} == {*STUDIED} and len(fold.fit) + len(fold.held) == 315
        keys = {(run.chip, run.source, run.model) for run in fold.held}
        assert keys.isdisjoint((run.chip, run.source, run.model) for run in fold.fit)
        groups[fold.name] = keys
    for chip in {run.chip for run in STUDIED}:  # dealt out evenly inside each chip
        dealt = [sum(key[0] == chip for key in keys) for keys in groups.values()]
        assert max(dealt) - min(dealt) <= 1


def test_folds_are_drawn_by_the_seed_alone():
    def drawn(rows, seed):
        return {frozenset(run.id for run in fold.held) for fold in folds(rows, seed)}

    assert drawn(STUDIED, 1) == drawn(STUDIED[::-1], 1)
    assert len({frozenset(drawn(STUDIED, seed)) for seed in range(5)}) == 5


def test_a_source_is_held_back_whole():
    parts = validation.without_source(STUDIED)
    assert {fold.name for fold in parts} == {run.source for run in STUDIED}
    for fold in parts:
        assert {run.source for run in fold.held} == {fold.name}
        assert fold.name not in {run.source for run in fold.fit}
        assert len(fold.fit) + len(fold.held) == len(STUDIED)


def test_held_runs_are_predicted_by_what_was_fitted_without_them():
    """The factor that fits best, of a model that is a constant share of the peak."""

    def fit(seen):
        known = {run.id for run in seen}
        factor = float(np.median([run.seconds / run.chip_tokens for run in seen]))

        def predict(run):
            assert run.id not in known
            return "on TPU" if run.chip == "b200" else (factor * run.chip_tokens, None)

        return predict

    parts = folds(TIMED, seed=3)
    outcomes, refused = held_back(parts, fit)
    b200 = {run.id for run in TIMED if run.chip == "b200"}
    assert {*refused["on TPU"]} == b200 and len(outcomes) + len(b200) == len(TIMED)
    for fold in parts:
        factor = np.median([run.seconds / run.chip_tokens for run in fold.fit])
        ids = {run.id for run in fold.held}
        for one in outcomes:
            if one.run.id in ids:
                assert isclose(one.seconds, factor * one.run.chip_tokens)
