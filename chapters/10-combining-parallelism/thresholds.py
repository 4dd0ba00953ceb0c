"""Thresholds of the step model: what the search takes as given, derived."""

from __future__ import annotations

from fractions import Fraction

from derive import Quantity, number
from derive.book import ceiling, cell
from derive.book.tables import Cell
from derive.cost.step_assumptions import step_assumptions
from derive.notation import symbols as v
from derive.plan import limits

from .common import FOUND, chapter, n, pc, q, whole
from .searches import FIRST

BOUND = FOUND["70b-64-8k"].task.values
NET, NVLINK = BOUND[v.W_dcn], BOUND[v.W_node]
SPLIT = step_assumptions("notebook+ring_tensor")


def values(**more: object) -> dict[object, Quantity]:
    """The constants of the 70B search, with degrees and shares by symbol name."""
    made = dict(BOUND)
    for name, value in more.items():
        symbol = v.find(name)
        unit = v.unit_of_symbol(symbol)
        made[symbol] = value if isinstance(value, Quantity) else number(value, unit, name)
    return made


# The ring under the attention.
RING, RING_SPLIT = limits.ring_tokens(), limits.ring_tokens(SPLIT)
LARGE = limits.ring_tokens(SPLIT, large=True)
chapter.condition("ring-tokens", RING.relation)
far = RING.on(values(tp=8, cp=2, W_cp=NET))
chapter.shown("min-cp-chunk-reason", far, ceiling())
chapter.require("ring-over-chunk", far, ">", BOUND[v.T_min])
chapter.shown("ring-inside", RING.on(values(tp=4, cp=2, W_cp=NVLINK)), ceiling())
chapter.formula("ring-split", RING_SPLIT.relation)
split = chapter.shown("ring-split-most", LARGE.on(values(tp=8, W_cp=NET)), ceiling())
chapter.require("ring-split-under-chunk", split, "<", BOUND[v.T_min])
chapter.require(
    "ring-split-no-t",
    holds=bool(LARGE.on(values(tp=1, W_cp=NET)).value == split.value),
    because="t cancels while the heads divide",
)
chapter.table(
    "ring-tokens",
    "Tensor | Context | Ring over | K and V whole | K and V split over the tensor group",
    [
        [
            whole(tp), whole(cp), "the node" if link is NVLINK else "the network",
            cell(RING.on(values(tp=tp, cp=cp, W_cp=link)), ceiling()),
            cell(RING_SPLIT.on(values(tp=tp, cp=cp, W_cp=link)), ceiling()),
        ]
        for tp, cp, link in ((4, 2, NVLINK), (8, 2, NET), (8, 4, NET), (8, 8, NET), (1, 16, NET))
    ],
)  # fmt: skip

# The bubble.
MICRO = limits.micro_batches()
chapter.condition("micro-batches", MICRO.relation)
SHARES = (Fraction(1, 100), Fraction(1, 20), Fraction(1, 10))


def fewest(pp: int, share: Fraction) -> Quantity:
    """The least micro-batches for a share of bubble."""
    return MICRO.on(values(pp=pp, epsilon=share))


def upward(of: Quantity) -> Quantity:
    """The next whole number of micro-batches."""
    return q(of.value.ceiling(), of.unit, "ceil(m)", m=of)


chapter.table(
    "micro-batches",
    ["Stages", *((pc(q(s)), " of bubble") for s in SHARES)],
    [[whole(p), *(n(upward(fewest(p, s))) for s in SHARES)] for p in (2, 4, 8, 16)],
    align="rrrr",
)
chapter.require(
    "bubble-formula",
    holds=bool(fewest(4, Fraction(3, 131)).value == 128),
    because="(p-1)/(m+p-1) at p = 4 and m = 128",
)

# The tensor degree, the gradients, the cards.
DEGREE = limits.tensor_degree()
chapter.condition("tensor-degree", DEGREE.relation)
layer = FIRST["f_L"]
TOLERATED = (Fraction(1, 20), Fraction(1, 10), Fraction(1, 5))
chapter.table(
    "tensor-degrees",
    "Communication at most | Largest tensor degree, 70B at 8K",
    [
        [
            (pc(q(s)), " of the computation"),
            n(DEGREE.on(values(epsilon=s, W_tp=NVLINK, f_L=layer)), 1),
        ]
        for s in TOLERATED
    ],
    align="lr",
)
SYNC = limits.gradient_tokens()
chapter.condition("gradient-tokens", SYNC.relation)
WIDE = limits.gradient_tokens(large=True)
chapter.shown("gradient-tokens-bf16", WIDE.on(values(e_g=2, W_dp=NET)), ceiling())
chapter.shown("gradient-tokens-fp32", WIDE.on(values(e_g=4, W_dp=NET)), ceiling())
CARDS = limits.most_cards()
chapter.condition("most-cards", CARDS.relation)


def most(batch: int, share: Fraction) -> Quantity:
    """The most cards that a batch feeds with TP4 CP2 PP2, at a share of bubble."""
    return CARDS.on(values(tp=4, cp=2, pp=2, b_seq=1, B_seq=batch, epsilon=share))


def downward(of: Quantity) -> Quantity:
    """Whole cards."""
    return q(of.value.floor(), of.unit, "floor(N)", N=of)


rows: list[list[Cell]] = [
    [(pc(q(s)), " of bubble"), *(n(downward(most(b, s))) for b in (512, 2048))] for s in SHARES
]
chapter.table("most-cards", "At most | Cards at 4M tokens | Cards at 16M tokens", rows)
