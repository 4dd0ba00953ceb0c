"""What of a chip and of a cluster is fitted to measured runs: shares of what they could do.

Each run names whose share it rests on, one of each kind. The fit is by least squares of the
logarithm of the predicted over the measured time, with a prior for each share, so that a share that
few runs rest on stays where it is plausible. Several fits, each of some of the runs, are made at
once: a row of an array each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import sympy as sp

from derive.cost.assumptions import ASSUMED
from derive.facts import Catalogue
from derive.facts.runs import Run, calibrating
from derive.notation import symbols as v
from derive.plan.replay import FITTED, Configured, Replay, configured
from derive.plan.validation import Outcome, folds, grouped, numbered, spread

SPREAD = 0.05  # of a measured time, where nothing is wrong
STEP = 1e-4  # of the logarithm of a share
FELT = 0.01  # of the logarithm of a time, for one of a share on which it rests
ROUNDS = 12
DRAWS = 5


class Prior(NamedTuple):
    """How far off the logarithm of the share that is assumed may be, and the share's range."""

    spread: float
    least: float
    most: float


PRIORS: Mapping[sp.Symbol, Prior] = {
    v.eta: Prior(0.25, 0.3, 0.97),
    v.eta_A: Prior(0.5, 0.1, 0.8),
    v.eta_node: Prior(0.25, 0.2, 0.95),
    v.eta_dcn: Prior(0.5, 0.08, 0.98),
}


@dataclass(frozen=True)
class Calibration:
    """Runs with a measured time, to fit to."""

    runs: tuple[Configured, ...]

    @cached_property
    def shares(self) -> tuple[tuple[sp.Symbol, str], ...]:
        """Each share that some run rests on, and whose it is, in order."""
        every = {(s, one.owners[s]) for one in self.runs for s in FITTED}
        return tuple(sorted(every, key=lambda share: (FITTED.index(share[0]), share[1])))

    @cached_property
    def places(self) -> Any:
        """For each kind of share and run the place of the run's own: shape (kinds, runs)."""
        place = {share: k for k, share in enumerate(self.shares)}
        return np.array([[place[s, one.owners[s]] for one in self.runs] for s in FITTED])

    @cached_property
    def replay(self) -> Replay:
        return Replay(self.runs)

    @cached_property
    def measured(self) -> Any:
        """The logarithm of each measured time."""
        return np.log([one.run.layer_seconds or one.run.seconds or np.nan for one in self.runs])

    def predicted(self, logs: Any) -> Any:
        """The logarithm of each predicted time, for those of the shares, the last axis."""
        values = {
            s: np.exp(logs[..., places]) for s, places in zip(FITTED, self.places, strict=True)
        }
        return np.log(self.replay.seconds(values))

    def slopes(self, logs: Any) -> tuple[Any, Any]:
        """`predicted`, and by how much each time moves with each share, both as logarithms: the
        last axes are those of the runs and the shares."""
        kinds = np.array([[s == symbol for s, _ in self.shares] for symbol in FITTED])
        steps = STEP * np.concatenate([np.zeros((1, len(self.shares))), kinds])
        base, *moved = np.moveaxis(self.predicted(logs[..., None, :] + steps), -2, 0)
        slopes, runs = np.zeros((*base.shape, len(self.shares))), np.arange(len(self.runs))
        for places, one in zip(self.places, moved, strict=True):
            slopes[..., runs, places] = (one - base) / STEP
        return base, slopes

    @cached_property
    def center(self) -> Any:
        """The logarithm of each share as assumed without a run."""
        return np.log([float(ASSUMED[symbol]) for symbol, _ in self.shares])

    def curve(self, slopes: Any) -> Any:
        """The curvature of what is minimised, for slopes that are weighted."""
        tied = np.diag([PRIORS[symbol].spread ** -2.0 for symbol, _ in self.shares])
        return np.einsum("...rk,...rl->...kl", slopes, slopes) + tied

    def fit(self, taken: Any) -> Any:
        """The logarithms of the shares that fit the runs `taken`, an array of truth values whose
        last axis is that of the runs: one fit for each of its rows. By so many steps of Gauss and
        Newton from what is assumed, so that nothing of another run plays a part."""
        weight = np.asarray(taken, dtype=float) / SPREAD
        width, *ends = np.array([PRIORS[symbol] for symbol, _ in self.shares]).T
        least, most = np.log(ends)
        logs = np.broadcast_to(self.center, (*weight.shape[:-1], len(self.shares)))
        for _ in range(ROUNDS):
            base, slopes = self.slopes(logs)
            slopes *= weight[..., None]
            off = weight * (self.measured - base)
            pull = np.einsum("...rk,...r->...k", slopes, off) + (self.center - logs) / width**2
            stuck = ((logs <= least) & (pull < 0)) | ((logs >= most) & (pull > 0))
            pull, slopes = np.where(stuck, 0, pull), np.where(stuck[..., None, :], 0, slopes)
            change = np.linalg.solve(self.curve(slopes), pull[..., None])[..., 0]
            logs = np.clip(logs + change, least, most)
        return logs

    @cached_property
    def best(self) -> Any:
        """The logarithms of the shares that fit all the runs."""
        return self.fit(np.ones(len(self.runs), dtype=bool))


def calibration(runs: Iterable[Run], catalogue: Catalogue | None = None) -> Calibration:
    """Those of the runs to which step times are fitted, and that the step model takes."""
    taken = (configured(run, catalogue) for run in runs if calibrating(run))
    return Calibration(tuple(one for one in taken if isinstance(one, Configured)))


class Share(NamedTuple):
    """A share that was fitted, its relative error, and the ids of the runs that it rests on."""

    symbol: str
    owner: str
    value: float
    error: float
    runs: tuple[str, ...]


def fitted_shares(calibration: Calibration) -> list[Share]:
    """The shares that the runs fit, those that none rests on left out: none whose time moves with
    it. The error is the larger of two standard deviations: `jackknife`, and that of the curvature,
    a measured time being off by SPREAD, which sees a share at the end of its range."""
    _, slopes = calibration.slopes(calibration.best)
    curved = np.sqrt(np.diag(np.linalg.inv(calibration.curve(slopes / SPREAD))))
    errors = np.maximum(curved, jackknife(calibration))
    shares = []
    for place, (symbol, owner) in enumerate(calibration.shares):
        felt = np.flatnonzero(np.abs(slopes[:, place]) > FELT)
        ids = tuple(calibration.runs[k].run.id for k in felt)
        value = float(np.exp(calibration.best[place]))
        shares.append(Share(symbol.name, owner, value, float(errors[place]), ids))
    return [share for share in shares if share.runs]


def jackknife(calibration: Calibration) -> Any:
    """The standard deviation of the logarithm of each share, by leaving out the runs of one source
    and model at a time (B. Efron, The Jackknife, the Bootstrap and Other Resampling Plans, 1982,
    equation 3.3)."""
    number = numbered((one.run.source, one.run.model) for one in calibration.runs)
    left = calibration.fit(number != np.unique(number)[:, None])
    return np.sqrt((len(left) - 1) * left.var(axis=0))


def held_out(calibration: Calibration, groups: Sequence[Any]) -> Any:
    """The seconds of each run by a fit that has seen nothing of its group: for each of `groups`, an
    array of a number for each run, a row."""
    taken = np.concatenate([numbers != np.unique(numbers)[:, None] for numbers in groups])
    times = iter(np.exp(calibration.predicted(calibration.fit(taken))))
    rows = np.empty((len(groups), len(calibration.runs)))
    for row, numbers in zip(rows, groups, strict=True):
        for number, predicted in zip(np.unique(numbers), times, strict=False):
            row[numbers == number] = predicted[numbers == number]
    return rows


def held_back(calibration: Calibration) -> list[list[Outcome]]:
    """What the runs are predicted to take by fits that have not seen them: a list for each draw of
    `folds`, and last one by fits that have seen nothing of their source."""
    given = [one.run for one in calibration.runs]
    groups = [*(folds(given, seed) for seed in range(DRAWS)), numbered(run.source for run in given)]
    rows = held_out(calibration, groups).tolist()
    return [[Outcome(run, time) for run, time in zip(given, row, strict=True)] for row in rows]


def step_errors(calibration: Calibration) -> dict[str, float]:
    """How far off nine of ten runs are at most, by what was `held_back`: of every draw by the kind
    of chip, and as "other" without their source, as on a chip of which no run is known."""
    *draws, left = held_back(calibration)
    kinds = {one.run.id: one.owners[v.eta] for one in calibration.runs}
    by_kind = grouped((one for way in draws for one in way), lambda one: kinds[one.run.id])
    every = {**by_kind, "other": left}
    return {kind: spread([one.error for one in rows]).p90 for kind, rows in every.items()}
