"""What each term of the set `default` changes: alone beside the corrections, then all of them."""

from __future__ import annotations

from derive import Quantity, chip, number
from derive.book import binary, cell, significant
from derive.book.tables import Cell
from derive.cost.assumptions import CORRECTED, DEFAULT, TERMS, Assumptions, step_assumptions
from derive.notation import symbols as v
from derive.notation.printed import NO_BREAK
from derive.plan.plan import Plan
from derive.plan.task import Task, task

from .common import CASES, chapter, n, pc, q
from .corrections import SEARCHES, first_plan, shown

H100 = chip("h100")  # as `derive plan` reads it


def of_search(key: str, assumptions: Assumptions, values: dict[object, object]) -> Task:
    """One of the five searches under a set of assumptions."""
    model, cards, seq, batch = CASES[key]
    return task(
        model, H100, cards=cards, seq=seq, batch=batch, assumptions=assumptions, values=values
    )


# With any of the terms a step takes what was measured of the chip, and counts hops in full. Those
# change by themselves what the first plan is worth, so each term is held against them.
MEASURED = {s: of_search(SEARCHES[0], DEFAULT, {}).values[s] for s in (v.eta, v.x_pp)}
SETS: dict[str, tuple[Assumptions, dict[object, object], Cell]] = {
    "`corrected`": (CORRECTED, {}, "the model above, corrected"),
    "measured share": (
        CORRECTED,
        {**MEASURED},
        "products at the share that fits measured runs, hops in full",
    ),
    **{
        f"`{name}`": (step_assumptions(f"corrected+{name}"), {}, text)
        for name, text in TERMS.items()
    },
    "`default`": (DEFAULT, {}, "all of them"),
}
FIRSTS = {
    key: {name: first_plan(of_search(key, *of[:2])) for name, of in SETS.items()}
    for key in SEARCHES
}


def degrees_shown(plan: Plan) -> Cell:
    """The degrees of a plan, with virtual stages and ZeRO where they are not 1."""
    parts = [*shown(plan)]
    if plan.virtual > 1:
        parts += [", ", n(plan.known[v.virtual]), f"{NO_BREAK}virtual stages each"]
    if plan.zero > 1:
        parts += [f", ZeRO-{plan.zero}"]
    return tuple(parts)


def described(key: str, name: str) -> list[Cell]:
    """A first plan with its step, its utilisation and its memory."""
    plan = FIRSTS[key][name]
    same = name != "`corrected`" and plan.degrees == FIRSTS[key]["measured share"].degrees
    return [
        "no change" if same else degrees_shown(plan),
        cell(plan["seconds"], significant(4)),
        pc(plan["mfu"], 1),
        cell(plan["memory"], binary(3), unit=True),
    ]


for figure, key in zip(("terms", "terms-long"), SEARCHES, strict=True):
    short = figure == "terms"
    chapter.table(
        figure,
        ["Term, alone", *(["What it takes"] if short else []),
         "First plan", "Step, in seconds", "MFU", "Memory of a card"],
        [
            [name, *([of[2]] if short else []), *described(key, name)]
            for name, of in SETS.items()
        ],
        align="lllrrr" if short else "llrrr",
    )  # fmt: skip

chapter.claim("terms", number(len(TERMS), name="terms", status="derived"), "exact")
chapter.shown("measured-share", MEASURED[v.eta], significant(3))


def changed(key: str) -> list[str]:
    """The terms that alone make another plan the first."""
    kept = FIRSTS[key]["measured share"].degrees
    return [name for name in TERMS if FIRSTS[key][f"`{name}`"].degrees != kept]


def points(key: str, name: str) -> Quantity:
    """The percentage points of utilisation that a term takes off the first plan."""
    before, after = (FIRSTS[key][of]["mfu"] for of in ("measured share", f"`{name}`"))
    return q(100 * (before.value - after.value), formula="100 (a - b)", a=before, b=after)


LARGEST = {key: max(TERMS, key=lambda name: points(key, name).value) for key in SEARCHES}
chapter.holds(
    (
        "terms-that-move",
        changed("70b-64-8k") == ["sharded_states", "matmul_shape"]
        and changed("70b-64-128k") == ["uneven_stages", "sharded_states"],
        "the first plan with each term alone, at both lengths",
    ),
    (
        "terms-largest",
        set(LARGEST.values()) == {"matmul_shape"},
        "percentage points that each term takes off the first plan",
    ),
    (
        "terms-first-8k",
        FIRSTS["70b-64-8k"]["`default`"].degrees == FIRSTS["70b-64-8k"]["`corrected`"].degrees,
        "the first plan at 8K under corrected and under default",
    ),
    (
        "terms-first-128k",
        (long := FIRSTS["70b-64-128k"]["`default`"]).zero == 3 and long.pp == 1 and long.cp == 32,
        "the first plan at 128K under default",
    ),
    (
        "terms-small",
        all(
            abs(points(key, x).value) < 0.1
            for key in SEARCHES
            for x in ("kept_bytes", "optimizer_step")
        ),
        "percentage points that two terms take off the first plans",
    ),
    (
        "terms-uneven",
        FIRSTS["70b-64-8k"]["`uneven_stages`"].virtual == 1
        and FIRSTS["70b-64-128k"]["`uneven_stages`"].virtual == 8,
        "the virtual stages of the first plan at both lengths",
    ),
)
chapter.claim("terms-matmul-8k", points("70b-64-8k", "matmul_shape"))
chapter.claim("terms-matmul-128k", points("70b-64-128k", "matmul_shape"))
