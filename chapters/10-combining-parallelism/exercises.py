"""The exercises: 1,024 cards at two batches, and what a mixture of experts needs."""

from __future__ import annotations

from derive import Quantity, number
from derive.book import percent
from derive.cost.assumptions import NOTEBOOK
from derive.notation import symbols as v
from derive.notation import units
from derive.notation.units import byte, one

from .common import FOUND, chapter, share
from .kinds import EXCHANGES
from .searches import PLANS

FEW, MANY, LARGE = (FOUND[k] for k in ("70b-64-8k", "70b-1024-8k-4m", "70b-1024-8k-16m"))


def derived(value: object, unit: units.Unit = one, name: str = "") -> Quantity:
    """A count that was derived."""
    return number(value, unit, name, status="derived")


chapter.given("many-cards", derived(MANY.task.cards, name="N"))
chapter.claim("cards-16x", derived(MANY.task.cards // FEW.task.cards), "times")
chapter.claim("sequences-512", FEW.task.values[v.B_seq], "exact")
chapter.claim("sequences-2048", LARGE.task.values[v.B_seq], "exact")
same = [PLANS["70b-64-8k", 1], PLANS["70b-1024-8k-4m", 2], PLANS["70b-1024-8k-16m", 1]]
before, after, again = same
chapter.require(
    "same-degrees",
    holds=bool(len({(p.tp, p.cp, p.pp) for p in same}) == 1),
    because="TP4 CP2 PP2 in all three",
)
chapter.claim("micro-8", after["n_mb"], "exact")
chapter.claim("micro-32", again["n_mb"], "exact")
chapter.shown("bubble-64", share(before, "bubble"), percent())
chapter.claim("bubble-1-11", share(after, "bubble"))
chapter.claim("bubble-3", share(again, "bubble"))
chapter.require(
    "bubble-and-exposed-grow",
    holds=bool(all(share(after, p).value > share(before, p).value for p in ("bubble", "dp"))),
    because="bubble and gradient traffic at 64 and at 1,024 cards",
)
firsts = [ranking.plan(1) for ranking in (FEW, MANY, LARGE)]
best = [plan["mfu"] for plan in firsts]
chapter.require("scaling-efficiency-falls", best[1], "<", best[0])
chapter.require("more-cards-larger-batch", best[2], ">", best[1])
chapter.shown("best-64", best[0], percent(1))
chapter.shown("best-4m", best[1], percent(1))
chapter.shown("best-16m", best[2], percent(1))
chapter.require(
    "global-batch-limit",
    holds=bool(
        all(
            d * b <= ranking.task.batch
            for ranking in FOUND.values()
            for d, b in zip(ranking[v.dp].tolist(), ranking[v.b_seq].tolist(), strict=True)
        )
    ),
    because="d b is at most the batch in every fitting plan",
)
chapter.claim("paper-steps", derived(4), "exact")

# A mixture of experts: 256 experts, 8 of them for a token.
experts = chapter.given("moe-256-8", number(256, units.label("expert"), "E"))
chosen = chapter.given("moe-chosen", number(8, units.label("expert"), "k"))
chapter.claim("a2a-count", derived(len(EXCHANGES)), "exact")
element_bytes = number(NOTEBOOK.constants[v.e], byte / units.element, "e", status="assumed")
chapter.claim("a2a-bytes", element_bytes, "exact")
chapter.given("imbalance-factor", number("1.1", one, "low", status="assumed"))
chapter.given("imbalance-factor-high", number("1.3", one, "high", status="assumed"))
chapter.require(
    "ep-divides", holds=bool(experts.value % 64 == 0), because="256 experts over 64 ranks"
)
chapter.given("etp-1", number(1, units.way, "etp", status="assumed"))
