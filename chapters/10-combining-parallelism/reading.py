"""What the searches say: ranks, shares, the bubble, the imbalance, recomputation, small models."""

from __future__ import annotations

import sympy as sp

from derive import Quantity, number
from derive.book import percent, si
from derive.notation import symbols as v
from derive.notation.units import Unit, byte, one, second

from .common import FOUND, STEP, chapter, q, rank_of, share
from .searches import FIRST, PLANS


def count(value: int, unit: Unit = one) -> Quantity:
    """A count or a degree that was derived."""
    return number(value, unit, "count", status="derived")


def rank(key: str, *degrees: int) -> Quantity:
    """The rank of a plan in a search."""
    return count(rank_of(FOUND[key], *degrees))


for figure, key, degrees in (
    ("comes-5th", "70b-64-8k", (8, 1, 1)),
    ("comes-6th", "70b-64-128k", (8, 1, 1)),
    ("comes-4th", "8b-8-8k", (1, 1, 1)),
    ("tp8-dp128-first", "70b-1024-8k-4m", (8, 1, 1)),
    ("first-once-more", "70b-1024-8k-16m", (4, 2, 2)),
):
    chapter.claim(figure, rank(key, *degrees), "rank")

# Context parallelism at 8K.
flat = PLANS["70b-64-8k", 5]
chapter.require("halves-activations", FIRST["activations"], "==", flat["activations"])
chapter.shown("activations-both", FIRST["activations"], si(3))
eighth = FIRST.value(v.K * v.H / v.D, one, "K H/D")
chapter.claim("kv-eighth", eighth, "exact")
quarter = PLANS["8b-8-8k", 1].value(v.K * v.H / v.D, one, "K H/D")
chapter.claim("kv-quarter-8b", quarter, "exact")
ring = FIRST.value(v.t_ring * v.W_cp / v.L_p, byte, "ring")
tensor = FIRST.value(v.t_tp * v.W_tp / v.L_p, byte, "all-reduces")
chapter.claim(
    "ring-less-than-allreduce",
    q(ring.value / tensor.value, one, "ring/tensor", a=ring, b=tensor),
    "exact",
)
per_layer = [FIRST.value(s / v.L_p, second, s.name) for s in (v.t_ring, v.t_attn)]
chapter.require("ring-hides", per_layer[0], "<", per_layer[1])
chapter.shown("ring-time", per_layer[0], si(3))
chapter.shown("attention-time", per_layer[1], si(3))
chapter.claim("cp-max-8k", FIRST.value(v.T / v.T_min, one, "T/T_min"), "exact")
chapter.claim("cp-min-tokens", FOUND["70b-64-8k"].task.values[v.T_min], "exact")

# The pipeline: bubble and imbalance.
chapter.claim("micro-128", FIRST["n_mb"], "exact")
filling = STEP.term("bubble").expr
bubble = sp.factor(filling / (filling + v.n_mb * v.t_mb))
chapter.formula("bubble-share", bubble)
chapter.claim("bubble-1pc", FIRST.value(bubble, one, "bubble"))
wide = FIRST.value(bubble.xreplace({v.pp: sp.Integer(4)}), one, "bubble at p = 4")
chapter.claim("bubble-pp4", wide)
chapter.claim("head-layers", FIRST.value(v.f_V / v.f_L, one, "f_V/f_L"))
for title, seq in (("32k", 2**15), ("128k", 2**17)):
    other = FIRST.value(v.f_V / (v.f_L - v.f_A + v.f_A * seq / v.T), one, "f_V/f_L")
    chapter.claim(f"head-layers-{title}", other)
chapter.claim("vocab-128k", FOUND["70b-64-8k"].task.values[v.V])
third = PLANS["70b-64-8k", 3]
chapter.claim("pp8-layers", third["L_p"], "exact")
chapter.claim("last-stage-slower", third.value(v.t_slow / v.t_avg - 1, one, "t_slow/t_avg - 1"))
chapter.shown(
    "last-stage-over-others", third.value(v.f_V / (v.L_p * v.f_L), one, "f_V/(L_p f_L)"), percent(1)
)
uneven = [share(PLANS["70b-64-8k", r], "imbalance") for r in (1, 2, 3)]
filled = [share(PLANS["70b-64-8k", r], "bubble") for r in (1, 2, 3)]
chapter.shown("imbalance-pp2", uneven[0], percent())
chapter.shown("imbalance-pp4", uneven[1], percent())
chapter.claim("imbalance-1-8", uneven[2])
over = all(a.value > b.value for a, b in zip(uneven, filled, strict=True))
chapter.require("imbalance-over-bubble", holds=bool(over), because="both shares at PP 2, 4 and 8")
