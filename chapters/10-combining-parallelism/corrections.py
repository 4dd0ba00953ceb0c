"""What the corrected set of assumptions changes: each correction alone, then all of them."""

from __future__ import annotations

from fractions import Fraction

from derive import number
from derive.book import math
from derive.book.tables import Cell, Part
from derive.cost.assumptions import CORRECTED, CORRECTIONS, DEFAULT, TERMS, step_assumptions
from derive.notation import symbols as v
from derive.notation.printed import NO_BREAK
from derive.notation.units import one
from derive.plan.plan import Plan, plan_of
from derive.plan.search import search
from derive.plan.task import Task, task

from .common import (
    CASES,
    FOUND,
    SHORT,
    asked,
    chapter,
    degrees_of,
    h100,
    llama70,
    n,
    pc,
    q,
    ranked,
    whole,
)

SEARCHES = ("70b-64-8k", "70b-64-128k")


def degrees(plan: Plan) -> str:
    """The degrees of a plan in short."""
    micro = f", micro-batches of {plan.micro_batch}" if plan.micro_batch > 1 else ""
    return f"TP{plan.tp} CP{plan.cp} PP{plan.pp} DP{plan.dp}{micro}"


def shown(plan: Plan) -> tuple[Part, ...]:
    """The degrees of a plan for a table, which does not break them."""
    names = (f"{NO_BREAK}{name}" for name in ("TP", "CP", "PP", "DP"))
    parts = [part for pair in zip(names, degrees_of(plan), strict=True) for part in pair]
    if plan.micro_batch > 1:
        parts += [", micro-batches of ", n(plan["b_seq"])]
    return ("TP", *parts[1:])


def first_plan(asked: Task) -> Plan:
    """The plan that the search ranks first."""
    return search(asked, top=1).plan(1)


BEFORE = {key: ranked(key, 1) for key in SEARCHES}
alone = {}
for name in CORRECTIONS:
    assumptions = step_assumptions(f"notebook+{name}")
    alone[name] = [first_plan(asked(*CASES[key], assumptions)) for key in SEARCHES]


least = FOUND["70b-64-8k"].task.values[v.A_kept]
widest = max(asked(*CASES["70b-64-8k"], step_assumptions("notebook+wide_grid")).space.micro_batch)
pieces = asked(*CASES["70b-64-8k"], step_assumptions("notebook+zigzag")).counts.pieces
NUMBERS: dict[str, tuple[str, Part]] = {
    "largest_stage": ("P/(t p)", math(v.P / (v.tp * v.pp))),
    "saved_tensors": (str(least.value), n(least)),
    "zigzag": ("2c", math(pieces * v.cp)),
    "wide_grid": (str(widest), whole(widest, "largest micro-batch")),
}


def described(name: str) -> Cell:
    """What a correction puts right, with the number or the formula in it printed as one."""
    if name not in NUMBERS:
        return CORRECTIONS[name]
    mark, part = NUMBERS[name]
    before, after_it = CORRECTIONS[name].split(mark)
    return (before, part, after_it)


def after(plan: Plan, before: Plan) -> list[Cell]:
    """The winner where it is another one, and its MFU."""
    if not moved(plan, before):
        return ["no change", pc(plan["mfu"], 2)]
    same = degrees(plan) == degrees(before)
    return ["same plan" if same else shown(plan), pc(plan["mfu"], 2)]


def moved(plan: Plan, before: Plan) -> bool:
    """Whether the first plan or its utilisation is another, however little."""
    return degrees(plan) != degrees(before) or plan.mfu != before.mfu


silent = [
    name
    for name, plans in alone.items()
    if not any(moved(p, BEFORE[key]) for p, key in zip(plans, SEARCHES, strict=True))
]
rows: list[list[Cell]] = [
    [
        f"`{name}`",
        described(name),
        *after(alone[name][0], BEFORE[SEARCHES[0]]),
        *after(alone[name][1], BEFORE[SEARCHES[1]]),
    ]
    for name in CORRECTIONS
]
none = [shown(BEFORE[key]) for key in SEARCHES]
start: list[Cell] = [
    "none", "the set `notebook`",
    none[0], pc(BEFORE[SEARCHES[0]]["mfu"], 2), none[1], pc(BEFORE[SEARCHES[1]]["mfu"], 2),
]  # fmt: skip
chapter.table(
    "corrections",
    "Correction, alone | What it puts right | First plan, 8K | MFU, 8K | First plan, 128K | "
    "MFU, 128K",
    [start, *rows],
    align="lllrlr",
)
chapter.claim(
    "corrections", number(len(CORRECTIONS), name="corrections", status="derived"), "exact"
)
chapter.claim(
    "corrections-silent",
    number(len(silent), name="corrections that change nothing", status="derived"),
    "exact",
)
chapter.require(
    "silent-ones",
    holds=bool(
        set(silent)
        == {
            "attention_width",
            "largest_stage",
            "logits",
            "saved_tensors",
            "wide_grid",
            "working_set",
            "zigzag",
        }
    ),
    because="corrections that change neither first plan nor its MFU",
)
little = [
    name
    for name, plans in alone.items()
    if name not in silent
    and all(
        degrees(p) == degrees(BEFORE[key]) and abs(p.mfu - BEFORE[key].mfu) < Fraction(1, 20_000)
        for p, key in zip(plans, SEARCHES, strict=True)
    )
]
chapter.require(
    "moves-too-little",
    holds=little == ["exact_parameters"],
    because="corrections that move the MFU of the first plans by less than 0.005 points",
)
chapter.require(
    "default-of-the-search",
    holds=task(llama70, h100, cards=64, seq=SHORT, batch=512).assumptions == DEFAULT
    and CORRECTED.corrections < DEFAULT.corrections
    and DEFAULT.corrections - CORRECTED.corrections == set(TERMS),
    because="the set that a task has unless it is told another, which has the corrected one's",
)

# All of them.
pairs = {key: (ranked(key, 1), first_plan(asked(*CASES[key], CORRECTED))) for key in CASES}
TITLES: dict[str, Cell] = {
    "70b-64-8k": ("70B at 8K on ", whole(64, "cards")),
    "70b-64-128k": ("70B at 128K on ", whole(64, "cards")),
    "8b-8-8k": ("8B at 8K on ", whole(8, "cards")),
    "70b-1024-8k-4m": ("70B at 8K and 4M tokens on ", whole(1024, "cards")),
    "70b-1024-8k-16m": ("70B at 8K and 16M tokens on ", whole(1024, "cards")),
}


def compared(key: str) -> list[Cell]:
    """The first plan of a search under both sets."""
    before, now = pairs[key]
    redone: list[Cell] = [(n(p["L_r"]), " of ", n(p["L_p"])) for p in (before, now)]
    return [
        TITLES[key],
        shown(before), pc(before["mfu"], 2), redone[0],
        shown(now), pc(now["mfu"], 2), redone[1],
    ]  # fmt: skip


chapter.table(
    "corrected",
    "Search, cards | First plan, `notebook` | MFU | Recomputed layers | First plan, `corrected` | "
    "MFU | Recomputed layers",
    [compared(key) for key in CASES],
    align="llrllrl",
)
ring = alone["ring_tensor"][1]
chapter.require(
    "ring-split-winner",
    holds=bool((ring.tp, ring.cp, ring.pp, ring.dp) == (8, 8, 1, 1)),
    because="the first plan at 128K with the ring divided by t",
)
fp32 = asked(*CASES["70b-64-8k"], step_assumptions("notebook+gradient_bytes"))
first = BEFORE["70b-64-8k"]
tight = plan_of(fp32, first.degrees)
chapter.require(
    "gradient-bytes-winner",
    holds=bool(tight.recomputed_layers and not first.recomputed_layers)
    and degrees(alone["gradient_bytes"][0]) != degrees(first),
    because="the first plan at 8K with gradients in fp32",
)
kept = [key for key, (before, now) in pairs.items() if degrees(before) == degrees(now)]
chapter.require(
    "corrected-kept", holds=kept == ["70b-64-128k"], because="degrees of both first plans"
)
gaps = [abs(100 * (before.mfu - now.mfu)) for before, now in pairs.values()]
chapter.claim("corrected-moves", q(max(gaps), one, "100 (a - b)"))
