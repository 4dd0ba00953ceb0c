"""The five searches: the top plans of each as a table, and as stacked bars."""

from __future__ import annotations

from derive import Quantity, number
from derive.book import Bars, binary, cell, decimals, percent
from derive.book.tables import Cell, Part
from derive.notation import symbols as v
from derive.notation import units
from derive.plan.report import NAMES as PART_NAMES
from derive.plan.report import SMALLEST_SHARE

from .common import CASES, FOUND, Plan, chapter, degrees_of, n, pc, rank_of, ranked, share, whole

ALT = {
    "70b-64-8k": "70B at 8K on sixty-four cards",
    "70b-64-128k": "70B at 128K on sixty-four cards",
    "8b-8-8k": "8B at 8K on one node",
    "70b-1024-8k-4m": "70B at 8K and 4M tokens on one thousand and twenty-four cards",
    "70b-1024-8k-16m": "70B at 8K and 16M tokens on one thousand and twenty-four cards",
}
# Plans beside the first three that readers would have guessed, under the rank that earlier
# printings give them: a figure keeps its name where the rank changes.
ALSO: dict[str, dict[int, tuple[int, int, int]]] = {
    "70b-64-8k": {5: (8, 1, 1), 9: (8, 1, 4)},
    "70b-64-128k": {6: (8, 1, 1)},
    "8b-8-8k": {4: (1, 1, 1)},
    "70b-1024-8k-4m": {},
    "70b-1024-8k-16m": {},
}
RANKS = {
    key: {1: 1, 2: 2, 3: 3, **{name: rank_of(FOUND[key], *d) for name, d in ALSO[key].items()}}
    for key in CASES
}
PLANS: dict[tuple[str, int], Plan] = {
    (key, name): ranked(key, rank) for key, ranks in RANKS.items() for name, rank in ranks.items()
}
FIRST = PLANS["70b-64-8k", 1]


def where(plan: Plan) -> Cell:
    """The shares of the step from half a percent up, in words."""
    said: list[Cell] = []
    for name in plan.parts:
        if plan.share(name) >= SMALLEST_SHARE:
            said += [f"{', ' if said else ''}{PART_NAMES.get(name, name)} ", pc(share(plan, name))]
    return tuple(said)


def row(rank: int, plan: Plan) -> list[Cell]:
    """One plan for a table."""
    redone: Cell = "none"
    if plan.recomputed_layers:
        redone = (n(plan["L_r"]), " of ", n(plan["L_p"]))
    places = [whole(rank, "rank"), *degrees_of(plan)]
    memory = cell(plan["memory"], binary(2), unit=True)
    return [*places, pc(plan["mfu"], 1), memory, redone, where(plan)]


def degrees(plan: Plan) -> tuple[Part, ...]:
    """The degrees of a plan as a bar is labelled."""
    pairs = zip(("TP", " CP", " PP", " DP"), degrees_of(plan), strict=True)
    return tuple(part for pair in pairs for part in pair)


def title(key: str, tokens: Quantity) -> Cell:
    """What a search was asked: "70B, 64 cards, 8K sequences, 4M tokens a step"."""
    model, cards, *_ = CASES[key]
    seq = FOUND[key].task.values[v.T]
    long, many = (cell(x, decimals(1, trim=True)) for x in (seq / 2**10, tokens / 2**20))
    size = model.title.split()[-1]
    return (
        f"{size}, ",
        whole(cards, "cards"),
        " cards, ",
        long,
        "K sequences, ",
        many,
        "M tokens a step",
    )


HEADER = (
    "Rank | TP | CP | PP | DP | MFU | Memory | Recomputed layers of a stage | Share of the step"
)
PARTS = tuple(PLANS["70b-64-8k", 1].parts)
for key, ranks in RANKS.items():
    ranking = FOUND[key]
    chapter.shown(f"out-{key}-fit", number(ranking.fit, name="fitting plans", status="derived"))
    batch = number(ranking.task.batch, units.sequence, "sequences")
    length = number(ranking.task.seq, units.token / units.sequence, "length")
    tokens = chapter.shown(f"out-{key}-tokens", (batch * length).named("B"))
    for name in ranks:
        chapter.shown(f"out-{key}-rank{name}", PLANS[key, name]["mfu"], percent(1))
    shown = {rank: PLANS[key, name] for name, rank in sorted(ranks.items(), key=lambda x: x[1])}
    chapter.table(f"plans-{key}", HEADER, [row(*one) for one in shown.items()], "rrrrrrrll")
    bars = Bars(
        title(key, tokens),
        "seconds of a step",
        [(whole(rank, "rank"), ": ", *degrees(p)) for rank, p in shown.items()],
        [(PART_NAMES[part], [p.parts[part] for p in shown.values()]) for part in PARTS],
    )
    alt = f"Stacked bars of the seconds of a step by part, for the first plans of {ALT[key]}"
    chapter.plot(f"bars-{key}", bars, alt=alt)

# Equal times, and zeros.
tied = FOUND["8b-8-8k"].plans(3)
chapter.require(
    "ties-8b",
    holds=bool(
        tied[1].step_seconds == tied[2].step_seconds
        and (tied[1].tp, tied[1].cp, tied[2].tp, tied[2].cp) == (2, 1, 2, 2)
    ),
    because="steps of ranks 2 and 3, and the order of enumeration",
)
flat = [plan for plan in PLANS.values() if plan.pp == 1]
chapter.require(
    "zero-noise",
    holds=bool(len(flat) > 3 and all(plan.parts["imbalance"] == 0 for plan in flat)),
    because="plans without a pipeline, in exact arithmetic",
)
