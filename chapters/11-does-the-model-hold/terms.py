"""Which terms matter: each is taken out, and the runs are predicted and fitted once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp

from derive.book import decimals
from derive.book.tables import Cell
from derive.facts.runs import studied
from derive.notation import symbols as v
from derive.plan.calibration import FELT, Calibration
from derive.plan.replay import Configured
from derive.plan.validation import grouped

from .common import RUNS, SOURCES, chapter, count, fits, n, pc, q

NOTHING = 1e-9  # of what stands in a denominator
HIDES = "traffic of the data group hides at all"
CLUSTERS = "two shares for each cluster: two for all instead"
# What is taken out, and the values at which it comes to nothing.
OUT: Mapping[str, Mapping[sp.Symbol, float]] = {
    CLUSTERS: {},
    "recomputation": {v.L_g: 0},
    "collectives of tensor groups": {v.x_tp: NOTHING},
    "element-wise work, loss included (`elementwise`)": {v.x_el: 0, v.s_V: 0},
    "the bytes of logits and loss alone": {v.s_V: 0},
    "shape of products": {v.s_0: 0},
    "the vocabulary: embedding, head and loss": {v.V: 0},
    "what hides traffic is slowed, and some hide none (`contention`)": {
        v.x_hid: 0,
        v.x_tp: 1,
        v.x_win: 1,
    },
    HIDES: {v.x_win: 0},
    "traffic of gradients": {v.e_g: 0},
    "weights and gradients moved for each micro-batch (ZeRO-3)": {v.zero: 1},
    "time of a hop and of a step (`fixed_times`)": {v.t_hop: 0, v.t_fix: 0},
    "the optimizer's own step (`optimizer_step`)": {v.s_opt: 0},
    "virtual stages": {v.virtual: 1},
    "hops between stages": {v.x_pp: NOTHING},
}
FIRST = (
    "recomputation",
    "collectives of tensor groups",
    "element-wise work, loss included (`elementwise`)",
)
LITTLE = 0.001  # of a mean error, below which a term is not told from none
FULL = fits()
JUDGED = np.array([studied(one.run) for one in FULL.runs])


def errors(calibration: Calibration, logs: Any) -> Any:
    """The relative errors of the studied runs, without their signs."""
    off = calibration.predicted(logs) - FULL.measured
    return np.abs(np.expm1(off))[JUDGED]


BASE = errors(FULL, FULL.best)
sources = [one.run.source for one in FULL.runs if studied(one.run)]


def hit(after: Any) -> str:
    """The source whose mean error rises the most."""
    rise = {
        source: np.mean([after[k] - BASE[k] for k in places])
        for source, places in grouped(range(len(sources)), lambda k: sources[k]).items()
    }
    return max(rise, key=lambda source: float(rise[source]))


def without(one: Configured, words: str) -> Configured:
    """A run without something of OUT."""
    owners = {v.eta_node: "any", v.eta_dcn: "any"} if words == CLUSTERS else {}
    return replace(one, values={**one.values, **OUT[words]}, owners={**one.owners, **owners})


out: list[tuple[str, Cell, Cell, Any]] = []
for words in OUT:
    other = Calibration(tuple(without(one, words) for one in FULL.runs))
    refitted = errors(other, other.best)
    if words == CLUSTERS:
        out.append((words, "", "", refitted))
        continue
    moved = np.abs(other.predicted(FULL.best) - FULL.predicted(FULL.best))[JUDGED]
    kept = float(np.mean(errors(other, FULL.best)))
    if words == HIDES:
        network = np.array([symbol == v.eta_dcn for symbol, _ in FULL.shares])
        faster = float(np.exp(np.mean((other.best - FULL.best)[network])))
        chapter.claim("network-faster", q(faster, "network share, refitted over fitted"), "times")
        chapter.require("nearly-twice", holds=1.7 < kept / np.mean(BASE) < 2, because="mean errors")
    out.append((words, n(int((moved > FELT).sum()), "runs"), pc(kept, places=2), refitted))
out.sort(key=lambda row: -float(np.mean(row[3])))
chapter.table(
    "terms",
    "Taken out | Runs that it moves | Mean, same shares | Mean, refitted | Refitted, hits most",
    [["nothing", "", pc(float(np.mean(BASE)), places=2), pc(float(np.mean(BASE)), places=2), ""]]
    + [
        [words, moved, kept, pc(float(np.mean(refitted)), places=2), SOURCES[hit(refitted)]]
        for words, moved, kept, refitted in out
    ],
    align="lrrrl",
)  # fmt: skip
base = float(np.mean(BASE))
idle = [words for words, _, _, refitted in out if float(np.mean(refitted)) - base < LITTLE]
count("idle", len(idle))
chapter.shown("little", q(100 * LITTLE, "points"), decimals(1))
names = [words for words, *_ in out if words != CLUSTERS]
chapter.require(
    "first-terms",
    holds=set(names[:3]) == set(FIRST),
    because="the terms that cost most when they are left out",
)

# What the studied runs have at all.
runs = [run for run in RUNS if studied(run)]
HAVE = {
    "a tensor group": lambda run: run.tp > 1,
    "stages": lambda run: run.pp > 1,
    "virtual stages": lambda run: (run.virtual or 1) > 1,
    "several replicas": lambda run: run.dp > 1,
    "weights split over the data group": lambda run: run.fsdp or (run.zero or 0) > 2,
    "every layer recomputed": lambda run: run.recompute == "full",
    "the core of attention recomputed": lambda run: run.recompute == "selective",
    "a context group": lambda run: (run.cp or 1) > 1,
    "layers that the stages do not divide": lambda run: run.layers % run.pp,
}
chapter.table(
    "have",
    "What a studied run has | Runs",
    [[words, n(sum(bool(has(run)) for run in runs), "runs")] for words, has in HAVE.items()],
)
chapter.require(
    "have-no-others",
    holds=not any(run.experts for run in runs),
    because="columns of the studied runs",
)
