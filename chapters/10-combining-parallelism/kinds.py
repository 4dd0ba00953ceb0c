"""The kinds of parallelism: what each splits, what it sends, how often, and whether it waits."""

from __future__ import annotations

from fractions import Fraction

import sympy as sp

from derive import Quantity, expert_parallel, number
from derive.book import cell, math, percent, si
from derive.book.tables import Cell
from derive.notation import symbols as v
from derive.notation.units import byte, one
from derive.solve.evaluate import exactly

from .common import FOUND, STEP, Plan, at, chapter, q

KINDS = ("tensor", "context", "pipeline", "data", "expert")
chapter.claim("kinds-5", number(len(KINDS), name="kinds", status="derived"), "exact")
older = {"tensor", "pipeline", "data"}
chapter.require(
    "kinds-3d", holds=older < set(KINDS) and len(older) == 3, because="three of the kinds"
)

# The bytes of a card, read off the times: a time is bytes over the bandwidth of a link.


def sent(symbol: sp.Symbol, link: sp.Symbol) -> sp.Expr:
    """What a micro-batch makes a card send, from the time it takes."""
    return STEP.term(symbol.name).expr * link


piped = 1 - sp.floor(1 / v.pp, evaluate=False)
TENSOR, RING = sent(v.t_tp, v.W_tp), sent(v.t_ring, v.W_cp)
# The model has a stage send both ways; across one boundary a card sends one way.
BOTH_WAYS = sent(v.t_pp, v.W_pp) / piped / v.x_pp
ONE_WAY = BOTH_WAYS / 2
hidden = v.e * v.T_r * v.b_seq * v.D
chapter.require(
    "hop-both-ways",
    holds=BOTH_WAYS / (2 * hidden / v.tp) == 1 and hidden / v.tp == ONE_WAY,
    because="the hidden states of a card once forward, their gradients once back",
)
# The experts are not in the model: the rows of a layer of experts, k for each token of n cards.
CHOSEN, SPREAD = sp.symbols("k n", positive=True)
EXCHANGES = [move for cost in expert_parallel.passes() for move in cost.moves]
ROWS = {v.E: CHOSEN, v.J: SPREAD * v.T_r * v.b_seq / v.tp, v.X: SPREAD}
EXPERTS = sp.factor(sp.Add(*(move.sent_bytes for move in EXCHANGES)).xreplace(ROWS))
SYNC = sp.factor((STEP.term("t_scatter").expr + STEP.term("t_gather").expr) * v.W_dp)

chapter.table(
    "kinds",
    "Kind | What it splits | What it sends | Bytes of a card | Each | On the critical path",
    [
        [
            "tensor", "the matrices inside a layer", "all-reduces of the hidden states",
            math(TENSOR / v.L_p), "layer and micro-batch", "all of it: the next product waits",
        ],
        [
            "context", "the sequence", "keys, values and their gradients, round a ring",
            math(RING / v.L_p), "layer and micro-batch", "what takes longer than attention",
        ],
        [
            "pipeline", "the layers, into stages", "hidden states to the next stage, and back",
            math(ONE_WAY), "boundary and micro-batch", "part of a hop; and the bubble",
        ],
        [
            "data", "the batch", "gradients, and the updated parameters", math(SYNC), "step",
            "what the backward pass does not hide",
        ],
        [
            "expert", "the experts of a layer", "tokens to their experts, and back",
            math(EXPERTS), "layer and micro-batch", "all of it, unless it is overlapped",
        ],
    ],
)  # fmt: skip

# The same for the first plan of the 70B search at 8K.
FIRST = at(FOUND["70b-64-8k"], 4, 2, 2)
VOLUMES = {"tp": TENSOR, "cp": RING, "pp": ONE_WAY}  # two stages: each has one boundary


def per_step(plan: Plan) -> dict[str, Quantity]:
    """Bytes that a card sends in a step, by kind."""
    volumes = {name: plan.value(expr * v.n_mb, byte, name) for name, expr in VOLUMES.items()}
    return {**volumes, "dp": plan.value(SYNC, byte, "dp")}


volumes = per_step(FIRST)
TITLES = {"tp": "tensor", "cp": "context", "dp": "data", "pp": "pipeline"}
rows: list[list[Cell]] = [[TITLES[k], cell(volumes[k], si(3), unit=True)] for k in TITLES]
chapter.table("volumes", "Kind | Bytes of a card and step", rows)


chapter.require(
    "tp-innermost",
    holds=bool(all(volumes["tp"].value > x.value for k, x in volumes.items() if k != "tp")),
    because="bytes of the first plan, by kind",
    quantity=volumes["tp"],
)
# Over all fitting plans of the five searches: the ring against the tensor group, which does not
# depend on the tokens or on the layers.
OVER = RING / TENSOR
chapter.formula("ring-over-tensor", sp.factor(OVER))


def above(split: bool) -> list[tuple[int, int, int]]:
    """The fitting plans with t > 1 whose ring is the larger, K divided by t or not."""
    kept = []
    for ranking in FOUND.values():
        numbers = ranking.task.numbers
        for tp, cp, pp in zip(*(ranking[s].tolist() for s in (v.tp, v.cp, v.pp)), strict=True):
            if tp > 1:
                over = exactly(OVER, {**numbers, v.tp: Fraction(tp), v.cp: Fraction(cp)})
                if over / (tp if split else 1) > 1:
                    kept.append((tp, cp, pp))
    return kept


chapter.holds(
    ("tp-innermost-exception", above(split=False) == [(2, 8, 4)], "one plan of the five searches"),
    ("tp-innermost-split", above(split=True) == [], "none where the ring is divided by t"),
)
across = FIRST.value(BOTH_WAYS * v.n_mb, byte, "both ways")
ratio = across.value / volumes["tp"].value
small = q(ratio, one, "pipeline/tensor", pipeline=across, tensor=volumes["tp"])
chapter.shown("pp-small-volume", small, percent(1))
