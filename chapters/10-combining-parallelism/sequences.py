"""Long sequences and small models: what context parallelism and recomputation trade."""

from __future__ import annotations

import sympy as sp

from derive import Quantity
from derive.book import percent
from derive.notation import symbols as v
from derive.notation.units import byte, layer, one

from .common import (
    FOUND,
    LONGER,
    MORE_CARDS,
    STEP,
    Plan,
    at,
    chapter,
    degrees_of,
    n,
    pc,
    q,
    rank_of,
    share,
    whole,
)
from .searches import PLANS

ranking = FOUND["70b-64-128k"]
every = ranking.plans()
chapter.require(
    "all-need-recompute",
    holds=bool(len(every) == ranking.fit and all(plan.recomputed_layers > 0 for plan in every)),
    because="recomputed layers of every fitting plan",
)
without = {plan.pp: plan for plan in every if plan.cp == 1 and plan.tp == 8}
everything = without[1].recomputed_layers == without[1].layers_per_stage == 80
kept_layers = {p: of.layers_per_stage - of.recomputed_layers for p, of in sorted(without.items())}
chapter.require(
    "no-cp-all-80",
    holds=bool(everything and kept_layers == {1: 0, 2: 2, 4: 1, 8: 0}),
    because="layers that are kept at TP8 CP1, by stages",
)
chapter.require(
    "no-cp-almost-all",
    holds=all(20 * of.recomputed_layers >= 19 * of.layers_per_stage for of in every if of.cp == 1),
    because="at least 95% of the layers in every plan without context parallelism",
)
chapter.table(
    "no-context",
    "Stages, at `TP8 CP1` | Rank | Layers of a stage | Recomputed layers of a stage | MFU",
    [
        [
            n(plan.known[v.pp]),
            whole(rank_of(ranking, 8, 1, pp), "rank"), n(plan["L_p"]), n(plan["L_r"]),
            pc(plan["mfu"], 1),
        ]
        for pp, plan in sorted(without.items())
    ],
)  # fmt: skip
best, flat, alone = PLANS["70b-64-128k", 1], PLANS["70b-64-128k", 6], PLANS["70b-64-128k", 3]


def points(a: Quantity, b: Quantity) -> Quantity:
    """The percentage points by which a share is above another."""
    return q(100 * (a.value - b.value), one, "100 (a - b)", a=a, b=b)


def kept(plan: Plan) -> Quantity:
    """The activations of all micro-batches in flight if nothing were recomputed."""
    return plan.value(v.a_1 * v.L_p * v.n_fly, byte, "activations")


quarter = kept(best).value / kept(flat).value
chapter.claim(
    "acts-quarter", q(quarter, one, "with CP 4/without", a=kept(best), b=kept(flat)), "exact"
)
both = chapter.claim("layers-in-flight", best.value(v.L_p * v.n_fly, name="layers"), "exact")
chapter.require("layers-in-flight-both", both, "==", flat.value(v.L_p * v.n_fly, name="layers"))
chapter.claim("rc-24-40", best["L_r"], "exact")
# A last stage has one micro-batch in flight, and would recompute less.
ends = best.value(STEP.term("L_r").expr.xreplace({v.n_fly: sp.S.One}), layer, "last stage")
chapter.shown("redo-last", ends, unit="")
chapter.given("rc-of-40", best["L_p"])
chapter.claim("points-2.6", points(best["mfu"], flat["mfu"]))
chapter.claim("points-cp-alone", points(alone["mfu"], flat["mfu"]))
redone = chapter.shown("recompute-without", share(flat, "recompute"), percent())
chapter.shown("recompute-with", share(best, "recompute"), percent())
chapter.require(
    "cp-trades",
    holds=bool(
        best["cp"].value == flat["cp"].value == 0 and share(best, "recompute").value < redone.value
    ),
    because="exposed ring and recomputation of both plans",
)
faster = q(
    1 - best["seconds"].value / flat["seconds"].value,
    one,
    "1 - a/b",
    a=best["seconds"],
    b=flat["seconds"],
)
chapter.claim("step-falls", faster)

# More cards, the same 32 sequences of 128K.
firsts = {cards: of.plan(1) for cards, of in LONGER.items()}
degrees = [of.cp for of in firsts.values()]
chapter.require(
    "more-cards-more-cp",
    holds=bool(degrees == [4, 8, 4, 4, 4]),
    because="the best context degree at 64 to 1,024 cards",
)
chapter.table(
    "more-cards",
    "Cards | TP | CP | PP | DP | Recomputed layers of a stage | Layers of a stage | MFU",
    [
        [
            whole(cards, "cards"), *degrees_of(of),
            n(of["L_r"]), n(of["L_p"]), pc(of["mfu"], 1),
        ]
        for cards, of in firsts.items()
    ],
)  # fmt: skip

chapter.claim("sequences-32", LONGER[64].task.values[v.B_seq], "exact")
deep = {cards: at(LONGER[cards], 8, 8, 2) for cards in MORE_CARDS}
chapter.claim("ring-exposed-128", share(deep[128], "cp"))
chapter.claim("bubble-128", share(deep[128], "bubble"))
chapter.claim("bubble-256", share(deep[256], "bubble"))
shallow = {cards: at(LONGER[cards], 8, 4, 1) for cards in MORE_CARDS}
chapter.holds(
    (
        "first-at-128",
        rank_of(LONGER[128], 8, 8, 2) == 1 and deep[128]["cp"].value > 0,
        "the first plan at 128 cards, and its exposed ring",
    ),
    (
        "first-from-256",
        all(rank_of(LONGER[n], 8, 4, 1) == 1 for n in (256, 512, 1024))
        and all(of["bubble"].value == 0 for of in shallow.values()),
        "the first plan from 256 cards on has no bubble",
    ),
)
utilised = [of["mfu"] for of in shallow.values()]
chapter.claim("no-pipeline-45", min(utilised, key=lambda of: of.value))
chapter.require(
    "no-pipeline-stays",
    holds=bool(
        max(u.value for u in utilised) - min(u.value for u in utilised) < sp.Rational(1, 200)
    ),
    because="MFU of TP8 CP4 PP1 at 128 to 1,024 cards within half a point",
)

# A small model.
first, data = PLANS["8b-8-8k", 1], PLANS["8b-8-8k", 4]
chapter.claim("points-5", points(first["mfu"], data["mfu"]))
chapter.claim("rc-9", data["L_r"], "exact")

# The logits that the search leaves out.
logits = FOUND["70b-64-8k"]
plan = at(logits, 8, 1, 1)
chapter.claim("logits-4gb", plan.value(v.T * v.V * v.e_32, byte, "logits"))
