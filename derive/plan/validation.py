"""How near predictions come to measured runs: errors, order within sweeps, and what is
held back together.

Nothing here knows how a time is predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

import numpy as np

from derive.facts.runs import Run

NEAR = 0.12  # an error that is within
APART = 0.1  # measured times that are far enough apart for their order to count
SWEEP = 4  # runs that make a sweep
FOLDS = 5
Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


@dataclass(frozen=True)
class Outcome:
    """A run with a measured time, and the predicted seconds, of a step or of the layer that was
    measured alone, and bytes."""

    run: Run
    seconds: float
    memory_bytes: float | None = None

    @property
    def error(self) -> float:
        """The predicted time over the measured one, less 1."""
        return self.seconds / (self.run.seconds or self.run.layer_seconds or np.nan) - 1

    @property
    def memory_error(self) -> float | None:
        """The predicted bytes over the measured ones, less 1; None without either."""
        measured, predicted = self.run.memory_bytes, self.memory_bytes
        return predicted / measured - 1 if predicted and measured else None


class Spread(NamedTuple):
    """Errors without their signs: how many, mean, median, 90th percentile, the share within NEAR,
    and the largest."""

    rows: int
    mean: float
    median: float
    p90: float
    within: float
    worst: float


class Order(NamedTuple):
    """Pairs whose measured times are APART, how many of them are predicted in their order, and
    Kendall's tau-b, the mean over the sweeps that have one (None without any)."""

    pairs: int
    right: int
    tau: float | None


def spread(errors: Sequence[float]) -> Spread:
    """The spread of some errors, at least one."""
    sizes = np.abs(np.asarray(errors, dtype=float))
    p90 = float(np.percentile(sizes, 90))
    within = float(np.mean(sizes <= NEAR))
    return Spread(
        len(sizes), float(sizes.mean()), float(np.median(sizes)), p90, within, float(sizes.max())
    )


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by their key, in the order in which they come."""
    groups: dict[Key, list[Item]] = {}
    for one in items:
        groups.setdefault(key(one), []).append(one)
    return groups


def worst(outcomes: Iterable[Outcome], count: int = 10) -> list[Outcome]:
    """The outcomes that are furthest off, the worst first."""
    return sorted(outcomes, key=lambda one: (-abs(one.error), one.run.id))[:count]


# --- order


def order(outcomes: Iterable[Outcome]) -> Order:
    """How well the order within sweeps is predicted: of steps of one source, chip and model, by the
    seconds that a chip takes for a token, so that a larger batch is not slower by itself."""
    pairs, right, taus = 0, 0, []
    steps = [one for one in outcomes if one.run.seconds]
    sweeps = grouped(steps, lambda one: (one.run.source, one.run.chip, one.run.model))
    for sweep in sweeps.values():
        if len(sweep) < SWEEP:
            continue
        tokens = np.array([one.run.chip_tokens for one in sweep], dtype=float)
        measured = np.array([one.run.seconds for one in sweep]) / tokens
        predicted = np.array([one.seconds for one in sweep]) / tokens
        first, second = np.array(list(combinations(range(len(sweep)), 2))).T
        gap = np.log(measured[first] / measured[second])
        apart = np.abs(gap) > np.log1p(APART)
        agree = gap * (predicted[first] - predicted[second]) > 0
        pairs, right = pairs + int(apart.sum()), right + int((apart & agree).sum())
        if (tau := kendall(measured, predicted)) is not None:
            taus.append(tau)
    return Order(pairs, right, float(np.mean(taus)) if taus else None)


def kendall(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Kendall's tau-b of two rankings; None where one of them ties throughout.

    M. G. Kendall, The treatment of ties in ranking problems, Biometrika 33 (1945).
    """
    one, two = np.sign(np.subtract.outer(first, first)), np.sign(np.subtract.outer(second, second))
    untied = float(np.abs(one).sum()) * float(np.abs(two).sum())
    return float((one * two).sum() / np.sqrt(untied)) if untied else None


# --- what is held back together


def numbered(keys: Iterable[Hashable]) -> Any:
    """An array of a number for each key, the same for the same."""
    places: dict[Hashable, int] = {}
    return np.array([places.setdefault(key, len(places)) for key in keys])


def folds(runs: Sequence[Run], seed: int = 0, count: int = FOLDS) -> Any:
    """The fold of each run, an array of numbers below `count`: inside each chip, the runs of one
    source and model are of one.

    The draw is by the SHA-256 digest of seed, chip, source and model: the same on every machine. A
    chip of fewer such groups than folds is held back whole where it has one alone.
    """
    place: dict[tuple[str, str, str], int] = {}
    for chip, of_chip in sorted(grouped(runs, lambda run: run.chip).items()):
        keys = {(chip, run.source, run.model) for run in of_chip}
        drawn = sorted(keys, key=lambda key: sha256("\0".join((str(seed), *key)).encode()).digest())
        place |= {key: rank % count for rank, key in enumerate(drawn)}
    return np.array([place[run.chip, run.source, run.model] for run in runs])
