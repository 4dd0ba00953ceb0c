"""The fit to measured runs: it recovers what made them, sees nothing that is held back, and is the
one that is stored."""

from dataclasses import replace
from math import floor, isclose, log10

import numpy as np
import pytest
import renew

from derive.cost.assumptions import ASSUMED
from derive.facts.runs import calibrating, runs, studied
from derive.facts.stacks import fitted
from derive.notation import symbols as v
from derive.plan import calibration as fits
from derive.plan.calibration import Calibration, calibration, held_out, jackknife
from derive.plan.replay import FITTED
from derive.plan.validation import folds


@pytest.fixture(scope="module")
def shipped():
    return calibration(runs())


def timed(given, seconds):
    """The same runs with other measured times."""
    every = [
        replace(
            one, run=replace(one.run, step_seconds=x, layer_seconds=one.run.layer_seconds and x)
        )
        for one, x in zip(given.runs, seconds, strict=True)
    ]
    return Calibration(tuple(every))


def test_every_studied_run_is_fitted_to(shipped):
    assert len(shipped.runs) == sum(calibrating(run) for run in runs())
    assert sum(studied(one.run) for one in shipped.runs) == 315
    for one in shipped.runs:
        assert studied(one.run) or one.run.recompute is None


def test_the_shares_that_made_the_times_are_found(shipped, monkeypatch):
    """Without priors that pull, from times that the model made with known shares."""
    loose = {s: prior._replace(spread=1e6) for s, prior in fits.PRIORS.items()}
    monkeypatch.setattr(fits, "PRIORS", loose)
    only = {"llm_foundry", "bloom", "simumax_b200"}
    some = Calibration(tuple(one for one in shipped.runs if one.run.source in only))
    known = np.log([0.45 + 0.3 * (k % 7) / 7 for k in range(len(some.shares))])
    made = timed(some, np.exp(some.predicted(known)).tolist())
    _, slopes = made.slopes(known)
    felt = np.abs(slopes).max(axis=0) > fits.FELT
    off = np.abs(made.best - known)[felt]
    assert felt.sum() >= 12 and off.max() < 1e-6
    assert np.abs(made.predicted(made.best) - made.measured).max() < 1e-6


def test_what_is_held_back_is_not_seen(shipped):
    """Other measured times of a fold change nothing of what is predicted of it."""
    given = [one.run for one in shipped.runs]
    numbers = folds(given, 2)
    (first,) = held_out(shipped, [numbers])
    factor = np.where(numbers == 3, np.linspace(0.5, 2, len(numbers)), 1)
    changed = timed(shipped, (np.exp(shipped.measured) * factor).tolist())
    (second,) = held_out(changed, [numbers])
    held = numbers == 3
    assert np.abs(second / first - 1)[held].max() < 1e-12
    assert np.abs(second / first - 1)[~held].max() > 1e-2


def test_the_jackknife_is_a_loop_of_fits(shipped):
    some = Calibration(tuple(one for one in shipped.runs if one.run.chip == "h100"))
    keys = [(one.run.source, one.run.model) for one in some.runs]
    alone = []
    for key in dict.fromkeys(keys):
        left = Calibration(
            tuple(one for one, its in zip(some.runs, keys, strict=True) if its != key)
        )
        found = dict(zip(left.shares, left.best, strict=True))
        # A share that no other run rests on is what is assumed.
        alone.append([found.get(x, np.log(float(ASSUMED[x[0]]))) for x in some.shares])
    count, mean = len(alone), np.mean(alone, axis=0)
    squares = sum((np.array(row) - mean) ** 2 for row in alone)
    assert np.allclose(jackknife(some), np.sqrt((count - 1) / count * squares), atol=1e-6)


def test_the_fit_is_the_least(shipped):
    """No share moved a little makes the sum of squares smaller, but at the end of its range."""

    def squares(logs):
        off = (shipped.predicted(logs) - shipped.measured) / fits.SPREAD
        spreads = [fits.PRIORS[symbol].spread for symbol, _ in shipped.shares]
        return (off**2).sum(axis=-1) + (((logs - shipped.center) / spreads) ** 2).sum(axis=-1)

    moves = np.concatenate([np.eye(len(shipped.shares)), -np.eye(len(shipped.shares))]) * 0.01
    moved = shipped.best + moves
    ends = np.log([fits.PRIORS[symbol][1:] for symbol, _ in shipped.shares]).T
    inside = ((moved >= ends[0]) & (moved <= ends[1])).all(axis=1)
    assert inside.sum() > len(shipped.shares)
    assert (squares(moved)[inside] > squares(shipped.best)).all()


def test_what_is_stored_is_the_fit(shipped):
    """Three digits of each share, half a unit of the third either way."""
    fresh = {(share.symbol, share.owner): share for share in fits.fitted_shares(shipped)}
    stored = {(name, owner): x for name, rows in fitted().items() for owner, x in rows.items()}
    assert fresh.keys() == stored.keys(), "run: python tests/plan/renew.py"
    for key, one in stored.items():
        unit = 10.0 ** (floor(log10(one.value)) - 2)
        assert abs(one.value - fresh[key].value) <= 0.51 * unit, (
            f"{key}: python tests/plan/renew.py"
        )
        assert isclose(one.error, fresh[key].error, rel_tol=0.06) and one.runs == len(
            fresh[key].runs
        )
    assert {name for name, _ in stored} <= {symbol.name for symbol in FITTED}
    assert v.eta.name in fitted()
    assert renew.tables() in renew.STACKS.read_text()


@pytest.mark.parametrize(
    ("term", "values"),
    [
        ("elementwise", {v.x_el: 0, v.s_V: 0}),
        ("contention", {v.x_hid: 0, v.x_tp: 1, v.x_win: 1}),
        ("fixed_times", {v.t_hop: 0, v.t_fix: 0}),
        ("optimizer_step", {v.s_opt: 0}),
    ],
)
def test_a_term_that_is_off_is_one_whose_values_come_to_nothing(shipped, term, values):
    """So chapter 11 takes terms out without a step model for each."""
    off, idle = [], []
    for one in shipped.runs:
        rest = one.assumptions.corrections - {term}
        off.append(replace(one, assumptions=replace(one.assumptions, corrections=rest)))
        idle.append(replace(one, values={**one.values, **values}))
    center, whole = shipped.center, shipped.predicted(shipped.center)
    without = Calibration(tuple(off)).predicted(center)
    assert np.allclose(without, Calibration(tuple(idle)).predicted(center), rtol=0, atol=1e-9)
    assert np.abs(without - whole).max() > 1e-4
