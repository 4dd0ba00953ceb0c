"""What the corrected set of assumptions changes: each correction alone, then all of them."""

from __future__ import annotations

from derive import number
from derive.book.tables import Cell
from derive.cost.step_assumptions import CORRECTIONS, DEFAULT, step_assumptions
from derive.notation.units import one
from derive.plan.few import search_few
from derive.plan.plans import Plan, plan_of
from derive.plan.task import Task

from .common import CASES, FOUND, asked, chapter, pc, q, whole

SEARCHES = ("70b-64-8k", "70b-64-128k")


def degrees(plan: Plan) -> str:
    """The degrees of a plan in short."""
    micro = f", micro-batches of {plan.micro_batch}" if plan.micro_batch > 1 else ""
    return f"TP{plan.tp} CP{plan.cp} PP{plan.pp} DP{plan.dp}{micro}"


def first_plan(task: Task) -> Plan:
    """The plan that the search ranks first."""
    return search_few(task, top=1).plan(1)


BEFORE = {key: FOUND[key].plan(1) for key in SEARCHES}
alone = {}
for name in CORRECTIONS:
    assumptions = step_assumptions(f"notebook+{name}")
    alone[name] = [first_plan(asked(*CASES[key], assumptions)) for key in SEARCHES]


def after(plan: Plan, before: Plan) -> list[Cell]:
    """The winner where it is another one, and its MFU."""
    same = degrees(plan) == degrees(before)
    return ["the same" if same else f"`{degrees(plan)}`", pc(q(plan.mfu), 2)]


def moved(plan: Plan, before: Plan) -> bool:
    """Whether the first plan or its utilisation is another."""
    return degrees(plan) != degrees(before) or plan.mfu != before.mfu


changing = [
    name
    for name, plans in alone.items()
    if any(moved(p, BEFORE[key]) for p, key in zip(plans, SEARCHES, strict=True))
]
silent = [name for name in CORRECTIONS if name not in changing]
rows: list[list[Cell]] = [
    [
        f"`{name}`",
        CORRECTIONS[name],
        *after(alone[name][0], BEFORE[SEARCHES[0]]),
        *after(alone[name][1], BEFORE[SEARCHES[1]]),
    ]
    for name in changing
]
none = [f"`{degrees(BEFORE[key])}`" for key in SEARCHES]
start: list[Cell] = [
    "none", "the set `notebook`",
    none[0], pc(q(BEFORE[SEARCHES[0]].mfu), 2), none[1], pc(q(BEFORE[SEARCHES[1]].mfu), 2),
]  # fmt: skip
chapter.table(
    "corrections",
    "Correction, alone | What it puts right | First, 8K | MFU, 8K | First, 128K | MFU, 128K",
    [start, *rows],
    align="lllrlr",
)
chapter.claim("corrections", number(len(CORRECTIONS), status="derived"), "exact")
chapter.claim("corrections-silent", number(len(silent), status="derived"), "exact")
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

# All of them.
pairs = {key: (FOUND[key].plan(1), first_plan(asked(*CASES[key], DEFAULT))) for key in CASES}
TITLES: dict[str, Cell] = {
    "70b-64-8k": ("70B at 8K on ", whole(64)),
    "70b-64-128k": ("70B at 128K on ", whole(64)),
    "8b-8-8k": ("8B at 8K on ", whole(8)),
    "70b-1024-8k-4m": ("70B at 8K and 4M tokens on ", whole(1024)),
    "70b-1024-8k-16m": ("70B at 8K and 16M tokens on ", whole(1024)),
}


def compared(key: str) -> list[Cell]:
    """The first plan of a search under both sets."""
    before, now = pairs[key]
    redone: list[Cell] = [
        (whole(p.recomputed_layers), " of ", whole(p.layers_per_stage)) for p in (before, now)
    ]
    return [
        TITLES[key],
        f"`{degrees(before)}`", pc(q(before.mfu), 1), redone[0],
        f"`{degrees(now)}`", pc(q(now.mfu), 1), redone[1],
    ]  # fmt: skip


chapter.table(
    "corrected",
    "Search, cards | First, `notebook` | MFU | Recomputed | First, `default` | MFU | Recomputed",
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
tight = plan_of(fp32, first.tp, first.cp, first.pp, first.dp)
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
