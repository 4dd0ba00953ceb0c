"""What of a chip and of a cluster is fitted to measured runs: shares of what they could do.

Each run names whose share it rests on, one of each kind. The fit is by least squares of the
logarithm of the predicted over the measured time, with a prior for each share, so that a share that
few runs rest on stays where it is plausible. Several fits, each of some of the runs, are made at
once: a row of an array each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import sympy as sp

from derive.notation import symbols as v
from derive.plan.replay import FITTED, Configured, Replay

SPREAD = 0.05  # of a measured time, where nothing is wrong
STEP = 1e-4  # of the logarithm of a share
ROUNDS = 12


class Prior(NamedTuple):
    """The share that is plausible, how far off its logarithm may be, and its range."""

    share: float
    spread: float
    least: float
    most: float


PRIORS: Mapping[sp.Symbol, Prior] = {
    v.eta: Prior(0.75, 0.25, 0.3, 0.97),
    v.eta_A: Prior(0.4, 0.5, 0.1, 0.8),
    v.eta_node: Prior(0.65, 0.25, 0.2, 0.95),
    v.eta_dcn: Prior(0.5, 0.5, 0.08, 0.98),
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

    def fit(self, taken: Any, start: Any = None) -> Any:
        """The logarithms of the shares that fit the runs `taken`, an array of truth values whose
        last axis is that of the runs: one fit for each of its rows. By Gauss and Newton, from
        `start` or the priors."""
        weight = np.asarray(taken, dtype=float) / SPREAD
        center, width, least, most = (
            np.array([getattr(PRIORS[s], name) for s, _ in self.shares]) for name in Prior._fields
        )
        shape = (*weight.shape[:-1], len(self.shares))
        logs = np.broadcast_to(np.log(center) if start is None else start, shape).copy()
        tied = np.diag(width**-2.0)
        runs = np.arange(len(self.runs))
        for _ in range(ROUNDS):
            slopes = np.zeros((*weight.shape, len(self.shares)))
            base = self.predicted(logs)
            for symbol, places in zip(FITTED, self.places, strict=True):
                kind = np.array([s == symbol for s, _ in self.shares])
                slopes[..., runs, places] = (self.predicted(logs + STEP * kind) - base) / STEP
            slopes *= weight[..., None]
            off = weight * (self.measured - base)
            pull = np.einsum("...rk,...r->...k", slopes, off) + (np.log(center) - logs) / width**2
            curve = np.einsum("...rk,...rl->...kl", slopes, slopes) + tied
            change = np.linalg.solve(curve, pull[..., None])[..., 0]
            moved = np.clip(logs + change, np.log(least), np.log(most))
            logs, last = moved, logs
            if np.abs(logs - last).max() < STEP:
                break
        return logs


def held_out(calibration: Calibration, groups: Sequence[Any]) -> Any:
    """The seconds of each run by a fit that has seen nothing of its group: for each of `groups`, an
    array of a number for each run, a row."""
    masks = [(numbers != k, numbers == k) for numbers in groups for k in np.unique(numbers)]
    everything = calibration.fit(np.ones(len(calibration.runs), dtype=bool))
    logs = calibration.fit(np.stack([taken for taken, _ in masks]), everything)
    predicted = np.exp(calibration.predicted(logs))
    rows, place = np.empty((len(groups), len(calibration.runs))), 0
    for row, numbers in enumerate(groups):
        for _ in np.unique(numbers):
            held = masks[place][1]
            rows[row, held] = predicted[place, held]
            place += 1
    return rows
