"""Memory, what is judged apart, and the noise below which no model can be told from another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np

from derive.facts.runs import KINDS, Run, reasons, studied
from derive.facts.stacks import stacks
from derive.notation import symbols as v
from derive.plan.replay import Replay, known_values
from derive.plan.validation import grouped, spread

from .common import (
    BY_ID,
    EVERY,
    RUNS,
    SAID,
    SOURCES,
    STUDIED,
    chapter,
    chips,
    count,
    fits,
    n,
    pc,
    share,
)

# Memory.
READ = {
    "allocated_bytes": "allocated",
    "reserved_bytes": "reserved",
    "device_bytes": "the device's",
}
LABELS = {"studied": "16 bits", "8 bits": "8 bits", "TPU": "TPU", "16 bits": "16 bits, others",
          "experts": "experts"}  # fmt: skip


def reading(run: Run) -> str:
    """As what the memory of a run was read."""
    return next(words for name, words in READ.items() if getattr(run, name))


chapter.table(
    "memory",
    "Source | Chip | Products in | Read as | Runs | Mean | Nine of ten within | Worst",
    [
        [
            SOURCES[row["source"]],
            chips([BY_ID[row["ids"][0]]]),
            LABELS[row["kind"]],
            reading(BY_ID[row["ids"][0]]),
            n(row["rows"], "runs"),
            *(pc(row[key]) for key in ("mean", "p90", "worst")),
        ]
        for row in SAID["memory"]
        if row["source"] != "all"
    ],
    align="llllrrrr",
)
held = tuple(one for one in fits().runs if one.run.memory_bytes)
plain = tuple(
    replace(one, values={**one.values, v.e_k: one.values[v.e_g], v.s_L: 6.0}) for one in held
)
sizes = [one.memory_bytes for one in Replay(plain).replayed(known_values(plain))]
errors = [
    size / (one.run.memory_bytes or np.nan) - 1 for one, size in zip(held, sizes, strict=True)
]
share("memory-plain", float(np.mean(np.abs(errors))))
measured = [one.memory_error for one in STUDIED if one.memory_error is not None]
share("memory-mean", float(np.mean(np.abs(measured))))
reserve = stacks()["bloom"].reserve
bloom = [one for one in STUDIED if one.run.source == "bloom" and one.run.memory_bytes]
without = [((one.memory_bytes or 0) - reserve) / (one.run.memory_bytes or np.nan) - 1
           for one in bloom]  # fmt: skip
share("bloom-without", float(np.mean(np.abs(without))))
burst = [run for run in RUNS if run.oom and run.id in EVERY]
count("burst", len(burst))
full = [run for run in burst if EVERY[run.id].memory_bytes > 80e9]
count("burst-told", len(full))
room = {one.run.id: one.values[v.M_hbm] for one in fits().runs}
ran = [one for one in STUDIED if one.memory_error is None and one.run.seconds]
over = [one for one in ran if (one.memory_bytes or 0) > room[one.run.id]]
count("ran", len(ran))
count("ran-over", len(over))
share("ran-most", max((one.memory_bytes or 0) / room[one.run.id] for one in over) - 1, 0)
chapter.require(
    "over-foundry", holds={one.run.source for one in over} == {"llm_foundry", "maxtext_a3"},
    because="sources of runs that ran and are predicted not to fit",
)  # fmt: skip
nine = spread(measured).p90
share("memory-nine", nine, 0)
chapter.require("a-tenth", holds=0.08 < nine < 0.12, because="nine of ten errors of memory")
chapter.require(
    "one-reserve", holds=[name for name, stack in stacks().items() if stack.reserve] == ["bloom"],
    because="stacks whose device counts more than tensors hold",
)  # fmt: skip

# What is judged apart.
SAYS = {"8 bits": "products in 8 bits", "TPU": "TPU", "16 bits": "16 bits, less stated",
        "experts": "experts"}  # fmt: skip
chapter.table(
    "apart",
    "What | Source | Chip | Runs | Mean | Nine of ten within | Worst",
    [
        [
            SAYS[row["kind"]],
            SOURCES.get(row["source"], row["source"].replace("_", " ")),
            chips([BY_ID[row["ids"][0]]]),
            n(row["rows"], "runs"),
            *(pc(row[key]) for key in ("mean", "p90", "worst")),
        ]
        for row in SAID["errors"]
        if row["kind"] != "studied" and row["source"] != "all"
    ],
    align="lllrrrr",
)
experts = [run for run in RUNS if run.experts]
count("experts", len(experts))
count("experts-predicted", sum(row["rows"] for row in SAID["errors"]
                               if row["kind"] == "experts" and row["source"] == "all"))  # fmt: skip

open_ones = [run for run in experts if {"micro_batch", "recompute"} & {*reasons(run)}]
chapter.require(
    "experts-open", holds=len(open_ones) > 0.7 * len(experts), because="reasons of runs of experts"
)
foundry = {run.id for run in RUNS if run.source == "llm_foundry" and not studied(run)}
chapter.require(
    "unseen", holds=not foundry & {one.run.id for one in fits().runs}, because="the runs of the fit"
)

# The same configuration, measured twice.
OUTSIDE = ("id", "place", "tier", "core", "model", "vocab", "framework", "source", "missing")
MEASURED = ("step_seconds", "tokens_per_second", "tflops", "mfu", "peak_tflops", "layer_seconds",
            "counts_recompute", "causal_halved", "allocated_bytes", "reserved_bytes",
            "device_bytes", "oom", "doubts")  # fmt: skip
CONFIGURATION = tuple(name for name in KINDS if name not in (*OUTSIDE, *MEASURED))


def gaps(source: str) -> Iterator[float]:
    """How far apart two measurements of one configuration are in a source, over their mean; a row
    that is printed twice is one measurement."""
    same = grouped(
        (run for run in RUNS if run.source == source and run.seconds and not run.layer_seconds),
        lambda run: tuple(getattr(run, name) for name in CONFIGURATION),
    )
    for group in same.values():
        for one, other in combinations(sorted({run.seconds or 0.0 for run in group}), 2):
            yield (other - one) / ((other + one) / 2)


narrow = [run for run in RUNS if run.source == "torchtitan" and run.precision == "fp8"]
largest = max(
    grouped(narrow, lambda run: tuple(getattr(run, name) for name in CONFIGURATION)).values(),
    key=len,
)
ends = [cut(run.seconds or 0 for run in largest) for cut in (min, max)]
count("narrow-alike", len(largest))
share("narrow-apart", ends[1] / ends[0] - 1, 0)
repeated = list(gaps("bloom"))
count("repeated", len(repeated))
share("repeated-mean", float(np.mean(repeated)))
share("repeated-most", max(repeated))
software = list(gaps("megascale2024"))
count("software", len(software))
share("software-mean", float(np.mean(software)), 0)
years = [BY_ID[name].seconds or 0.0 for name in ("narayanan2021-009", "korthikanti2022-010")]
share("years", years[0] / years[1] - 1)
chapter.require(
    "floor",
    holds=0.025 < np.mean(repeated) < 0.035 and 0.05 < years[0] / years[1] - 1 < 0.08,
    because="how far apart repeated runs are, with one software and with two",
)
chapter.require(
    "same-but-one-replica",
    holds=all(
        getattr(BY_ID["narayanan2021-009"], name) == getattr(BY_ID["korthikanti2022-010"], name)
        for name in ("hidden", "layers", "seq", "tp", "pp", "virtual", "micro_batch", "recompute")
    ),
    because="two runs of 530B, a year apart",
)
