"""Long sequences and small models: what context parallelism and recomputation trade."""

from __future__ import annotations

from derive import Quantity, number
from derive.book import percent
from derive.notation import symbols as v
from derive.notation.units import byte, layer, one

from .common import FOUND, LONGER, Costed, at, chapter, n, pc, q, whole
from .searches import PLANS

found = FOUND["70b-64-128k"]
every = found.plans()
chapter.require(
    "all-need-recompute",
    holds=bool(len(every) == found.fit and all(plan.recomputed_layers > 0 for plan in every)),
    because="recomputed layers of every fitting plan",
)
without = {plan.pp: plan for plan in every if plan.cp == 1 and plan.tp == 8}
everything = without[1].recomputed_layers == without[1].layers_per_stage == 80
some = [without[p].recomputed_layers < without[p].layers_per_stage for p in (2, 4)]
chapter.require(
    "no-cp-all-80",
    holds=bool(everything and all(some)),
    because="recomputed layers without context parallelism, by stages",
)
chapter.table(
    "no-context",
    "Stages | Rank | Layers of a stage | Recomputed | MFU",
    [
        [
            whole(pp), whole(found.rank(8, 1, pp)), whole(plan.layers_per_stage),
            whole(plan.recomputed_layers), pc(q(plan.mfu), 1),
        ]
        for pp, plan in sorted(without.items())
    ],
)  # fmt: skip
best, flat, alone = PLANS["70b-64-128k", 1], PLANS["70b-64-128k", 6], PLANS["70b-64-128k", 3]


def kept(of: Costed) -> Quantity:
    """The activations of all micro-batches in flight if nothing were recomputed."""
    return of.of(v.a_1 * v.L_p * v.n_fly, byte, "activations")


quarter = kept(best).value / kept(flat).value
chapter.claim(
    "acts-quarter", q(quarter, one, "with CP 4/without", a=kept(best), b=kept(flat)), "exact"
)
chapter.claim("rc-24-40", best.redo, "exact")
chapter.given("rc-of-40", number(best.plan.layers_per_stage, layer, status="derived"))
gain = q(100 * (best.mfu.value - flat.mfu.value), one, "100 (a - b)", a=best.mfu, b=flat.mfu)
chapter.claim("points-2.6", gain)
own = q(100 * (alone.mfu.value - flat.mfu.value), one, "100 (a - b)", a=alone.mfu, b=flat.mfu)
chapter.claim("points-cp-alone", own)
redone = chapter.shown("recompute-without", flat.share("recompute"), percent())
chapter.shown("recompute-with", best.share("recompute"), percent())
chapter.require(
    "cp-trades",
    holds=bool(
        best["cp"].value == flat["cp"].value == 0 and best.share("recompute").value < redone.value
    ),
    because="exposed ring and recomputation of both plans",
)
faster = q(
    1 - best.seconds.value / flat.seconds.value, one, "1 - a/b", a=best.seconds, b=flat.seconds
)
chapter.shown("step-falls", faster, percent(1))

# More cards, the same 32 sequences of 128K.
firsts = {cards: Costed(of.task, of.plan(1)) for cards, of in LONGER.items()}
degrees = [of.plan.cp for of in firsts.values()]
chapter.require(
    "more-cards-more-cp",
    holds=bool(degrees == [4, 8, 4, 4, 4]),
    because="the best context degree at 64 to 1,024 cards",
)
chapter.table(
    "more-cards",
    "Cards | TP | CP | PP | DP | Recomputed | Layers of a stage | MFU",
    [
        [
            *(whole(x) for x in (cards, of.plan.tp, of.plan.cp, of.plan.pp, of.plan.dp)),
            n(of.redo), whole(of.plan.layers_per_stage), pc(of.mfu, 1),
        ]
        for cards, of in firsts.items()
    ],
)  # fmt: skip

# A small model.
first, data = PLANS["8b-8-8k", 1], PLANS["8b-8-8k", 4]
ahead = q(100 * (first.mfu.value - data.mfu.value), one, "100 (a - b)", a=first.mfu, b=data.mfu)
chapter.claim("points-5", ahead)
chapter.claim("rc-9", data.redo, "exact")

# The logits that the search leaves out.
logits = FOUND["70b-64-8k"]
plan = at(logits, 8, 1, 1)
chapter.claim("logits-4gb", plan.of(v.T * v.V * v.e_32, byte, "logits"))
