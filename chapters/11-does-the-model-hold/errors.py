"""Predicted against measured: all studied runs, by source, the worst, the eight, the order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from derive import number
from derive.book import Plot, cell, integer, percent, si, significant
from derive.cost.assumptions import ASSUMED
from derive.facts.runs import Run
from derive.facts.stacks import fitted, step_error
from derive.notation import symbols as v
from derive.notation.units import byte, second
from derive.plan.validation import APART, NEAR, Outcome, grouped, order

from .common import BY_ID, SAID, SOURCES, STUDIED, chapter, chips, count, fits, n, pc, q, sec, share

CHIP = {one.run.id: one.owners[v.eta] for one in fits().runs}  # those that were fitted together
# The three ways: fitted, of a draw (the worst by its mean), without the source.
WAYS = {"fitted": "errors", "drawn": "cross_validated", "left": "left_out"}
TITLES = {
    "fitted": "fitted to all runs, and judged on them",
    "drawn": "model of the source left out, worst draw",
    "left": "source left out whole",
}
TABLES: dict[str, dict[tuple[str, str, str], dict[str, Any]]] = {
    way: {(row["kind"], row["source"], row["chip"]): row for row in SAID[key]}
    for way, key in WAYS.items()
}
WHOLE = {way: rows["studied", "all", ""] for way, rows in TABLES.items()}
SPREAD = ("mean", "median", "p90", "within", "worst")
NEARBY = ("Within ", pc(NEAR, places=0))
chapter.table(
    "headline",
    ("Prediction", "Mean", "Median", "Nine of ten within", NEARBY, "Worst"),
    [
        [TITLES[way], *(pc(WHOLE[way][key]) for key in SPREAD)]
        for way in WAYS
    ],
)  # fmt: skip
for way in WAYS:
    share(f"mean-{way}", WHOLE[way]["mean"])
draws = SAID["draws"]
means = [draw["mean"] for draw in draws]
chapter.shown("least-draw", q(min(means), "mean"), percent(1))
chapter.claim("draws", number(len(draws), name="draws", status="derived"), "exact")

# A plot of all of them, by the kind of chip.
KINDS = {"a100": "A100", "h100": "H100", "h100-500w": "H100 at 500 W", "b200": "B200"}
steps = [one for one in STUDIED if one.run.seconds]
by_kind = grouped(steps, lambda one: CHIP[one.run.id])


def measured_and_predicted(some: Sequence[Outcome]) -> tuple[list[float], list[float]]:
    """The seconds of some steps, as measured and as predicted."""
    return [one.run.seconds or 0 for one in some], [one.seconds for one in some]


times = sorted(one.run.seconds or 0 for one in steps)
ends = (times[0] / 1.3, times[-1] * 1.3)
chapter.plot(
    "scatter",
    Plot(
        "Seconds of a step, studied runs",
        "measured",
        "predicted",
        [("predicted as measured", ends, ends)],
        points=[(label, *measured_and_predicted(by_kind[kind])) for kind, label in KINDS.items()],
        log_x=True,
        log_y=True,
    ),
    alt="Predicted seconds of a step against measured ones, both on logarithmic axes",
)
chapter.plot(
    "errors",
    Plot(
        "Error of the predicted seconds, studied runs",
        "measured seconds of a step",
        "predicted over measured, less one, in percent",
        [("predicted as measured", ends, (0, 0))],
        points=[
            (label, [one.run.seconds for one in by_kind[kind]],
             [100 * one.error for one in by_kind[kind]])
            for kind, label in KINDS.items()
        ],
        horizontal=[(("± ", pc(NEAR, places=0)), 100 * NEAR), ("", -100 * NEAR)],
        log_x=True,
    ),
    alt="Errors of the predicted seconds of a step against the measured seconds",
)  # fmt: skip
chapter.require(
    "three-decades", holds=times[-1] > 1000 * times[0], because="slowest and fastest step"
)
chapter.shown("fastest", q(times[0], "seconds", second), significant(2))
chapter.shown("slowest", q(times[-1], "seconds", second), significant(2))

# By source.
sources_of: dict[str, set[str]] = {}
for one in fits().runs:
    sources_of.setdefault(CHIP[one.run.id], set()).add(one.run.source)
alone = {next(iter(known)) for known in sources_of.values() if len(known) == 1}
rows = []
for (kind, source, chip), row in TABLES["fitted"].items():
    if kind != "studied" or source == "all":
        continue
    drawn, left = (TABLES[way][kind, source, chip] for way in ("drawn", "left"))
    memory = chip.partition("-")[2].removesuffix("gb")
    label = chips([BY_ID[row["ids"][0]]])
    size = [", ", cell(number(int(memory), name="GB"), integer()), " GB"] if memory else []
    rows.append(
        [
            SOURCES[source] + (" (alone on its chip)" if source in alone else ""),
            (label, *size),
            n(row["rows"], "runs"),
            pc(row["mean"]),
            pc(drawn["mean"]),
            pc(drawn["p90"]),
            pc(left["mean"]),
        ]
    )
chapter.table(
    "by-source",
    "Source | Chip | Runs | Fitted, mean | Model left out, mean | and nine of ten within | "
    "Source left out, mean",
    rows,
    align="llrrrrr",
)
left = {key: row["mean"] for key, row in TABLES["left"].items()
        if key[0] == "studied" and key[1] != "all"}  # fmt: skip
known = [mean for (_, source, _), mean in left.items() if source not in alone]
share("left-least", min(known), 0)
share("left-most", max(known), 0)
share("left-alone", max(mean for (_, source, _), mean in left.items() if source in alone), 0)
share("left-bloom", left["studied", "bloom", "a100-80gb"], 0)
share("fitted-bloom", TABLES["fitted"]["studied", "bloom", "a100-80gb"]["mean"], 0)
chapter.require(
    "bloom-four-others",
    holds=len(sources_of["a100"]) == 5 and "bloom" in sources_of["a100"],
    because="sources of runs on A100",
)
for name in ("a100-80g", "h100-sxm", "b200-sxm", "mi300x"):
    share(f"bar-{name}", step_error(name), 0)

# The shares.
KINDS_OF_SHARES = {
    "eta": "peak, large products",
    "eta_A": "peak, attention",
    "eta_node": "links of a node",
    "eta_dcn": "network",
}
chapter.table(
    "shares",
    "Share of | Chip and kernel, or cluster | Value | Error | Runs",
    [
        [
            KINDS_OF_SHARES[symbol],
            f"`{owner}`",
            cell(q(row.value, symbol), significant(2)),
            pc(row.error, places=0),
            n(row.runs, "runs"),
        ]
        for symbol, owners in fitted().items()
        for owner, row in owners.items()
    ],
    align="llrrr",
)
count("shares", sum(map(len, fitted().values())))
for symbol, owner in (("eta_node", "jean-zay"), ("eta_dcn", "jean-zay"), ("eta_dcn", "selene")):
    share(f"{symbol[4:]}-{owner}", fitted()[symbol][owner].value, 0)
share("assumed-node", float(ASSUMED[v.eta_node]), 0)
share("assumed-dcn", float(ASSUMED[v.eta_dcn]), 0)
best = dict(zip(((s.name, owner) for s, owner in fits().shares), np.exp(fits().best), strict=True))
chapter.require(
    "shares-as-fitted",
    holds=all(
        abs(best[symbol, owner] / row.value - 1) < 0.01
        for symbol, owners in fitted().items()
        for owner, row in owners.items()
    ),
    because="the shares among the facts, and a fit made here",
)

# The worst ten.
chapter.table(
    "worst",
    "Run | Model | Layout | Measured | Predicted | Error | What the row may tell",
    [
        [
            f"`{row['id']}`",
            row["model"],
            f"`tp={row['tp']} pp={row['pp']} dp={row['dp']}`",
            sec(row["measured_seconds"], "measured", row["source"]),
            sec(row["predicted_seconds"], "predicted"),
            pc(row["error"]),
            row["why"].replace("_", " "),
        ]
        for row in SAID["worst"]
    ],
    align="lllrrrl",
)
worst = SAID["worst"]
noisy = [row for row in worst if "noisy" in row["rules"]]
foundry = [row for row in worst if row["source"] == "llm_foundry"]
count("worst-noisy", len(noisy))
count("worst-foundry", len(foundry))
names = {row["id"] for row in worst}
others = [one for one in STUDIED if one.run.model == "MPT-30b" and one.run.id not in names]
count("thirty-others", len(others))
share("thirty-mean", float(np.mean([abs(one.error) for one in others])))
chapter.require(
    "thirty-worst",
    holds=sum((row["model"], row["dp"], BY_ID[row["id"]].seq) == ("MPT-30b", 8, 8192)
              for row in worst[:3]) == 2,
    because="models, cards and sequences of the worst three",
)  # fmt: skip
pair = [one for one in STUDIED if one.run.id in ("llm_foundry-080", "llm_foundry-021")]
least = min(one.memory_bytes or 0 for one in pair)
full = [
    one for one in STUDIED
    if (one.run.source, one.run.chip) == ("llm_foundry", "a100-80gb")
    and (one.memory_bytes or 0) >= least and one not in pair
]  # fmt: skip
count("full-others", len(full))
share("full-mean", float(np.mean([abs(one.error) for one in full])))
chapter.shown("pair-memory", q(least, "memory", byte), si(2))


def alike(one: Run, *names: str) -> list[Run]:
    """The studied runs of one source, chip and model whose other columns are the same, too."""
    kept = ("source", "chip", "model", "seq", *names)
    return [
        other.run for other in STUDIED
        if other.run.id != one.id and all(getattr(other.run, k) == getattr(one, k) for k in kept)
    ]  # fmt: skip


slow = BY_ID["bloom-062"]
doubled = [run for run in alike(slow, "batch", "tp", "pp", "dp") if run.micro_batch == 2]
share("doubled", min(run.seconds or 0 for run in doubled) / (slow.seconds or 1), 0)
odd = BY_ID["llm_foundry-179"]
beside = [run for run in alike(odd) if run.cards in (16, 64)]
rate = {run.id: (run.chip_tokens or 0) / (run.seconds or 1) for run in (odd, *beside)}
share("odd-fewer", 1 - rate[odd.id] / min(rate[run.id] for run in beside), 0)
(wired,) = (row for row in worst if row["id"] == "llm_foundry-140")
share("wired-traffic", wired["parts"]["dp"], 0)
under = sum(row["error"] < 0 for row in worst)
count("worst-under", under)
count("worst-all", len(worst))

# The eight runs of arXiv 2205.05198, beside what calculon says of them.
CALCULON = (1.14, 1.40, 13.64, 18.03, 34.47, 49.89, 66.04, 90.08)
ways = {row["way"]: row for row in SAID["eight"]}
drawn = max((row for way, row in ways.items() if way.startswith("draw")), key=lambda r: r["mean"])
told = [ways["fitted"], drawn, ways["its source left out"]]
eight = [BY_ID[name] for name in sorted(ways["fitted"]["errors"])]
theirs = [time / (run.seconds or np.nan) - 1 for run, time in zip(eight, CALCULON, strict=True)]
chapter.table(
    "eight",
    "Run | Recomputed | Measured | Fitted | Model left out, worst draw | Source left out | "
    "calculon",
    [
        [
            run.model,
            "attention" if run.recompute == "selective" else "all",
            sec(run.seconds or 0, "measured", run.source),
            *(pc(row["errors"][run.id]) for row in told),
            pc(other, "error of calculon"),
        ]
        for run, other in zip(eight, theirs, strict=True)
    ]
    + [
        ["mean, without signs", "", "", *(pc(row["mean"], places=2) for row in told),
         pc(float(np.mean(np.abs(theirs))), places=2)],
        ["worst", "", "", *(pc(row["worst"], places=2) for row in told),
         pc(float(np.max(np.abs(theirs))), places=2)],
    ],
    align="llrrrrr",
)  # fmt: skip
chapter.claim(
    "calculon-mean", q(float(np.mean(np.abs(theirs))), "mean"), cite="R-calculon-validation"
)
chapter.claim(
    "calculon-worst", q(float(np.max(np.abs(theirs))), "worst"), cite="R-calculon-validation"
)
for name, row in zip(("fitted", "drawn", "left"), told, strict=True):
    share(f"eight-{name}", row["mean"], 2)
    share(f"eight-{name}-worst", row["worst"], 2)

chapter.require(
    "eight-worst-small",
    holds=all(
        max(row["errors"], key=lambda name: abs(row["errors"][name])) == eight[0].id for row in told
    ),
    because="the worst of the eight by each way",
)

# Order.
chapter.table(
    "order",
    ("Draw", "Mean", "Nine of ten within", ("Pairs over ", pc(APART, places=0), " apart"), "Right"),
    [
        [n(row["draw"] + 1, "draw"), pc(row["mean"], places=2), pc(row["p90"]),
         n(row["pairs"], "pairs"), pc(row["right"] / row["pairs"])]
        for row in draws
    ],
)  # fmt: skip
least_right = min(row["right"] / row["pairs"] for row in draws)
share("right-least", least_right)
by_task = grouped(
    steps, lambda one: (one.run.source, one.run.chip, one.run.model, one.run.seq, one.run.batch,
                        one.run.cards),
)  # fmt: skip
asked = [order(group) for group in by_task.values()]
pairs, right = sum(one.pairs for one in asked), sum(one.right for one in asked)
count("planner-pairs", pairs)
share("planner-right", right / pairs)
of_bloom = sum(one.pairs for key, one in zip(by_task, asked, strict=True) if key[0] == "bloom")
chapter.require("mostly-bloom", holds=of_bloom > 0.9 * pairs, because="pairs of BLOOM's tasks")
chapter.require(
    "trust", holds=least_right > 0.9 and right / pairs > 5 / 6, because="pairs that are right"
)
by_origin = grouped(STUDIED, lambda one: one.run.source)
ordered = {source: order(group) for source, group in by_origin.items()}
chapter.table(
    "order-by-source",
    "Source | Pairs | Right, fitted | Kendall's tau",
    [
        [SOURCES[source], n(one.pairs, "pairs"), pc(one.right / one.pairs),
         cell(q(one.tau or 0, "tau"), significant(2))]
        for source, one in sorted(ordered.items(), key=lambda item: -item[1].pairs)
        if one.pairs
    ],
    align="lrrr",
)  # fmt: skip
