"""What experts take: their rows, and the nodes over which the rows of a token go; and what a layer
of experts costs a chip of a training plan, read off its program.

The layout is that of a plan, and experts are over groups of their own: the same devices as etp x ep
x edp, by which their weights, and the rest by tp, are split.
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from derive.cost import stage
from derive.cost.block import FUSED, Block, Fusion
from derive.cost.layout import fold_of, rules_of, spread
from derive.cost.passes import Program, program
from derive.cost.program import Move, Multiplied, elements
from derive.notation import symbols as v

# Before F of the shared experts is split by tp, that of the others is by etp.
LAYOUT = (
    "b_seq:dp T:cp U:cp(ring) K:tp F:tp E:ep(experts) J:edp F_E:etp(experts) J:etp F_E:tp T:tp "
    "D:dp(optimizer) D:cp(optimizer) D:edp(optimizer) dp*cp*tp=etp*ep*edp"
)


def places(block: Block) -> sp.Expr:
    """The rows J that an expert of a block takes: each token goes to n_k of E, and the fullest
    takes x_cap times an even share."""
    return v.n_k * v.x_cap * sp.Mul(*map(v.find, block.rows)) / v.E


def nodes_of_a_token(n_k: int, in_node: int, nodes: int) -> sp.Rational:
    """The nodes that a token goes to on the mean, where its n_k experts are any of those of
    `nodes` nodes, `in_node` in each, alike: all nodes, or as many as routing is limited to.

    A node has none of them in C(in_node (nodes - 1), n_k) of C(in_node nodes, n_k) cases.
    """
    none = sp.binomial(in_node * (nodes - 1), n_k) / sp.binomial(in_node * nodes, n_k)
    return sp.Rational(nodes * (1 - none))


@lru_cache(maxsize=16)
def laid_out(block: Block, fusion: Fusion = FUSED) -> Program:
    """The program of a layer of experts under the layout of a plan."""
    rules = [rule for rule in rules_of(LAYOUT) if rule.dim in block.dims]
    return program(spread(block, rules, fold_of(LAYOUT)), "none", fusion)


def on_chip(expr: sp.Expr, block: Block) -> sp.Expr:
    """An expression of a program in the terms of one chip: its micro-batch, its tokens, the n_k
    experts of each, and edp by the other degrees."""
    data = v.tp * v.cp * v.dp / (v.etp * v.ep)
    return stage.on_chip(
        sp.expand(expr.xreplace({**block.same_length, v.J: places(block), v.edp: data}))
    )


def flops(block: Block) -> sp.Expr:
    """FLOP of both passes of a whole layer for a token that goes to n_k experts."""
    return sp.expand(stage.flops(block).xreplace({v.J: places(block)}))


def products(block: Block) -> dict[str, sp.Expr]:
    """FLOP of each product of the forward pass for a micro-batch on a chip, by its result."""
    steps = (step for step in laid_out(block).forward.program if isinstance(step, Multiplied))
    return {step.result.name: on_chip(step.flops, block) for step in steps if step.flops}


def saved_bytes(block: Block, fusion: Fusion = FUSED) -> sp.Expr:
    """Bytes that a layer saves for a micro-batch on a chip."""
    return on_chip(sp.Add(*(one.bytes for one in laid_out(block, fusion).saved)), block)


def moves(block: Block) -> dict[str, tuple[Move, ...]]:
    """What a layer's passes wait for, by the axis of the group: rows to experts and back over ep,
    the groups of one expert over etp, the tensor group of the rest over tp."""
    whole = laid_out(block)
    every = [move for cost in (whole.forward, whole.backward) for move in cost.moves]
    waited = [move for move in every if move.critical]
    return {axis: tuple(m for m in waited if m.axes == (axis,)) for axis in ("ep", "etp", "tp")}


def parameters(block: Block) -> tuple[sp.Expr, sp.Expr]:
    """The parameters of a chip: those of experts, and the others."""
    whole = laid_out(block)
    own = [elements(t) for t, _ in whole.parameters if t.name in block.of_experts]
    return sp.Add(*own), sp.Add(*(size for _, size in whole.parameters)) - sp.Add(*own)
