"""Thresholds of the step model: what the search takes as given, derived."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import sympy as sp

from derive import (
    Quantity,
    batch_feed,
    context_ring,
    dividing_below,
    gradient_sync,
    pipeline_bubble,
    tensor_share,
    threshold,
)
from derive.book import ceiling, cell
from derive.book.tables import Cell
from derive.notation import symbols as v
from derive.solve.threshold import Threshold

from .common import FOUND, chapter, h100, llama8, llama70, n, pc, q, whole
from .layout import NODE
from .reading import bubble

BOUND = FOUND["70b-64-8k"].task.values
NET, NVLINK = BOUND[v.W_dcn], BOUND[v.W_node]
SPLIT = "notebook+ring_tensor"


def on(of: Threshold, **values: object) -> Quantity:
    """The number of a threshold for 70B on H100s, with degrees and shares by symbol name."""
    return of.on(h100, llama70, **values).quantity


# The ring under the attention.
RING = threshold(context_ring, v.T_r, "notebook", exact=True)
RING_SPLIT = threshold(context_ring, v.T_r, SPLIT, exact=True)
LARGE = threshold(context_ring, v.T_r, SPLIT)
chapter.condition("ring-tokens", RING)
far = on(RING, tp=8, cp=2, W_cp=NET)
chapter.shown("min-cp-chunk-reason", far, ceiling())
chapter.require("ring-over-chunk", far, ">", BOUND[v.T_min])
chapter.shown("ring-inside", on(RING, tp=4, cp=2, W_cp=NVLINK), ceiling())
chapter.formula("ring-split", RING_SPLIT)
# The rings of the search that leave a node, by what they need when whole K and V go round.
GRID = FOUND["70b-64-8k"].space
beyond = [(t, c) for t in GRID.tp for c in GRID.cp if c > 1 and t * c > NODE]
needed = {d: on(RING, tp=d[0], cp=d[1], W_cp=NET).value for d in beyond}
chapter.require(
    "ring-over-chunk-grouped",
    holds=all((value > BOUND[v.T_min].value) == (t > 1) for (t, _), value in needed.items()),
    because="tokens that each ring of the grid needs over the network",
)
chapter.shown("ring-split-most-8b", LARGE.on(h100, llama8, tp=8, W_cp=NET).quantity, ceiling())
near, afar = on(RING_SPLIT, tp=4, cp=2, W_cp=NVLINK), on(RING_SPLIT, tp=8, cp=2, W_cp=NET)
chapter.require(
    "cp-split-hides-across",
    holds=bool(near.value < afar.value < BOUND[v.T].value / 2),
    because="tokens for TP8 CP2 over the network, heads split, against half of 8K",
)
chapter.shown("ring-split-across", afar, ceiling())
split = chapter.shown("ring-split-most", on(LARGE, tp=8, W_cp=NET), ceiling())
chapter.require("ring-split-under-chunk", split, "<", BOUND[v.T_min])
chapter.require(
    "ring-split-no-t",
    holds=bool(on(LARGE, tp=1, W_cp=NET).value == split.value),
    because="t cancels while the heads divide",
)
chapter.table(
    "ring-tokens",
    "Tensor | Context | Ring over | Tokens, K and V whole | "
    "Tokens, K and V split over the tensor group",
    [
        [
            whole(tp, "tp"), whole(cp, "cp"), "the node" if link is NVLINK else "the network",
            cell(on(RING, tp=tp, cp=cp, W_cp=link), ceiling()),
            cell(on(RING_SPLIT, tp=tp, cp=cp, W_cp=link), ceiling()),
        ]
        for tp, cp, link in ((4, 2, NVLINK), (8, 2, NET), (8, 4, NET), (8, 8, NET), (1, 16, NET))
    ],
)  # fmt: skip

# The bubble.
MICRO = threshold(pipeline_bubble, v.n_mb, "notebook")
chapter.condition("micro-batches", MICRO)
SHARES = (Fraction(1, 100), Fraction(1, 20), Fraction(1, 10))


def fewest(pp: int, share: Fraction) -> Quantity:
    """The least micro-batches for a share of bubble."""
    return on(MICRO, pp=pp, epsilon=share)


def upward(of: Quantity) -> Quantity:
    """The next whole number of micro-batches."""
    return q(of.value.ceiling(), of.unit, "ceil(m)", m=of)


chapter.table(
    "micro-batches",
    ["Stages", *(("Micro-batches for a ", pc(q(s)), " bubble") for s in SHARES)],
    [[whole(p, "pp"), *(n(upward(fewest(p, s))) for s in SHARES)] for p in (2, 4, 8, 16)],
    align="rrrr",
)
chapter.require(
    "bubble-formula",
    holds=sp.cancel(MICRO.closed_form.xreplace({v.epsilon: bubble}) - v.n_mb) == 0,
    because="the least micro-batches for the share that m of them have are m",
)

# The tensor degree, the gradients, the cards.
DEGREE = threshold(tensor_share, v.tp, "notebook")
chapter.condition("tensor-degree", DEGREE)
TOLERATED = (Fraction(1, 20), Fraction(1, 10), Fraction(1, 5))
chapter.table(
    "tensor-degrees",
    "Communication at most | Largest tensor degree, 70B at 8K",
    [
        [(pc(q(s)), " of the computation"), n(on(DEGREE, T=BOUND[v.T], epsilon=s), 1)]
        for s in TOLERATED
    ],
    align="lr",
)
SYNC = threshold(gradient_sync, v.T_r, "notebook", exact=True)
chapter.condition("gradient-tokens", SYNC)
WIDE = threshold(gradient_sync, v.T_r, "notebook")
chapter.shown("gradient-tokens-bf16", on(WIDE, e_g=2, W_dp=NET), ceiling())
chapter.shown("gradient-tokens-fp32", on(WIDE, e_g=4, W_dp=NET), ceiling())
CARDS = threshold(batch_feed, v.N, "notebook")
chapter.condition("most-cards", CARDS)


REPLICA = {"tp": 4, "cp": 2, "pp": 2}


def most(batch: int, share: Fraction) -> Quantity:
    """The most cards that a batch feeds with TP4 CP2 PP2, at a share of bubble."""
    return on(CARDS, **REPLICA, b_seq=1, B_seq=batch, epsilon=share)


def feeding(batch: int, share: Fraction) -> Quantity:
    """Cards of whole replicas that the batch divides over."""
    return dividing_below(most(batch, share), batch, prod(REPLICA.values()))


rows: list[list[Cell]] = [[pc(q(s)), *(n(feeding(b, s)) for b in (512, 2048))] for s in SHARES]
chapter.table("most-cards", "Bubble at most | Cards at 4M tokens | Cards at 16M tokens", rows)
