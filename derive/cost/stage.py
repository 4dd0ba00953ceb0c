"""What a layer, the embedding and the head cost a chip of a training plan, read off their programs.

The layout is one line. Activations between the products of a group are split over the tensor group
(sequence parallelism, which can be left out), keys and values are passed round the context group,
and the optimizer's state, and with it the reduced gradients, is split over the data and context
groups (ZeRO-1). Gathered activations are gathered again in the backward pass, which does not wait
for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

import sympy as sp

from derive.cost.block import FUSED, Block, Fusion
from derive.cost.layout import rules_of, spread
from derive.cost.passes import Program, program
from derive.cost.program import Move, PassCost, elements
from derive.cost.transformer import ATTENTION, ATTENTION_CORE, EMBEDDING, HEAD, LAYER
from derive.notation import symbols as v

LAYOUT = "b_seq:dp T:cp U:cp(ring) K:tp F:tp V:tp T:tp D:dp(optimizer) D:cp(optimizer)"
WITHOUT_SEQUENCE = LAYOUT.replace(" T:tp", "")
# A micro-batch of b sequences is that of one replica, and T_r = T/c are the tokens of a rank.
_PER_REPLICA = {v.b_seq: v.b_seq * v.dp}
_PER_RANK = {v.T: v.T_r * v.cp}


factored = lru_cache(maxsize=256)(sp.factor_terms)


@lru_cache(maxsize=64)
def laid_out(block: Block, fusion: Fusion = FUSED, sequence: bool = True) -> Program:
    """The program of a block under the layout of a plan, with sequence parallelism or without."""
    line = LAYOUT if sequence else WITHOUT_SEQUENCE
    rules = [rule for rule in rules_of(line) if rule.dim in block.dims]
    return program(spread(block, rules), "none", fusion)


def on_chip(expr: sp.Expr) -> sp.Expr:
    """An expression of a program in the terms of one chip: its micro-batch and its tokens."""
    return factored(expr.xreplace(_PER_REPLICA).xreplace(_PER_RANK))


def by_matrices(read: Callable[[Block], sp.Expr]) -> sp.Expr:
    """What is read off a layer with two feed-forward matrices and with three, as one expression in
    their number n_F, in which it is linear."""
    two, three = (sp.expand(read(LAYER[count])) for count in (2, 3))
    return sp.expand(two + (v.n_F - 2) * (three - two))


def flops(block: Block) -> sp.Expr:
    """FLOP of both passes of a whole block for a token."""
    whole = program(block)
    total = whole.forward.flops + whole.backward.flops
    return sp.expand(total.xreplace({v.U: v.T}) / (v.T * v.b_seq))


def parameters(block: Block) -> sp.Expr:
    """The parameters of a whole block."""
    return sp.Add(*(size for _, size in program(block).parameters))


@lru_cache(maxsize=1)
def attention_flops() -> sp.Expr:
    """FLOP of the scores of a layer and of their product with the values, for a token."""
    return flops(ATTENTION_CORE)


@lru_cache(maxsize=1)
def matrix_flops() -> sp.Expr:
    """FLOP of the products of a layer with its matrices, for a token."""
    return sp.factor_terms(by_matrices(lambda block: flops(block) - attention_flops()))


@lru_cache(maxsize=1)
def flops_per_parameter() -> sp.Expr:
    """FLOP of a matrix for each of its parameters and a token, both passes."""
    return sp.cancel(matrix_flops() / by_matrices(parameters))


@lru_cache(maxsize=1)
def forward_share() -> sp.Rational:
    """The share of the forward pass in the FLOP of both."""
    whole = program(LAYER[3])
    forward, backward = whole.forward.flops, whole.backward.flops
    return sp.Rational(sp.cancel(forward / (forward + backward)))


TABLE = parameters(EMBEDDING)
"""Parameters of the embedding, and as many of the head."""


def head_flops() -> sp.Expr:
    """FLOP of the head for a token, both passes."""
    return flops(HEAD)


def tensor_moves(passes: Iterable[PassCost]) -> tuple[Move, ...]:
    """The moves of a tensor group that the passes wait for."""
    return _over(passes, ("tp",), lambda move: move.critical)


def ring_moves(passes: Iterable[PassCost]) -> tuple[Move, ...]:
    """The moves of the ring of a context group, which hide under the attention."""
    return _over(passes, ("cp",), lambda move: not move.critical)


def gradient_moves(cost: PassCost) -> tuple[Move, ...]:
    """The moves over the data and context groups together: gradients, or updated parameters."""
    return _over((cost,), ("dp", "cp"), lambda move: True)


def _over(
    passes: Iterable[PassCost], axes: tuple[str, ...], which: Callable[[Move], bool]
) -> tuple[Move, ...]:
    return tuple(m for cost in passes for m in cost.moves if m.axes == axes and which(m))


def layer(sequence: bool = True) -> Program:
    """The program of a layer on a chip of a plan. Its moves do not depend on the gate, but for the
    gradients, of which there is one for each parameter."""
    return laid_out(LAYER[3], sequence=sequence)


@lru_cache(maxsize=16)
def saved_bytes(fusion: Fusion = FUSED, sequence: bool = True) -> sp.Expr:
    """Bytes that a layer saves for a micro-batch on a chip."""

    def saved(block: Block) -> sp.Expr:
        return sp.Add(*(one.bytes for one in laid_out(block, fusion, sequence).saved))

    return on_chip(by_matrices(saved))


@lru_cache(maxsize=64)
def on_layer(
    read: Callable[[PassCost, Block], sp.Expr], which: str, fusion: Fusion, sequence: bool
) -> sp.Expr:
    """What is read off a pass of a layer, "forward" or "backward", in the terms of one chip."""

    def of_block(block: Block) -> sp.Expr:
        whole = laid_out(block, fusion, sequence)
        return read(getattr(whole, which), whole.block)

    # Keys and values are as many as queries where a pass is read without its own renaming.
    return on_chip(by_matrices(of_block).xreplace({v.U: v.T}))


def on_head(read: Callable[[PassCost, Block], sp.Expr]) -> sp.Expr:
    """What is read off both passes of the head, in the terms of one chip."""
    whole = laid_out(HEAD)
    both = (read(cost, whole.block) for cost in (whole.forward, whole.backward))
    return on_chip(sp.Add(*both))


@lru_cache(maxsize=2)
def input_bytes(sequence: bool = True) -> sp.Expr:
    """Bytes of a layer's input for a micro-batch on a chip."""
    return on_chip(v.e * elements(layer(sequence).block["In"]))


@lru_cache(maxsize=1)
def logits() -> sp.Expr:
    """Logits of a micro-batch on a chip of the last stage."""
    return on_chip(elements(laid_out(HEAD).block["Logits"]))


@lru_cache(maxsize=1)
def state_share() -> sp.Expr:
    """The share of a parameter's optimizer state that a chip with the parameter holds."""
    block = layer().block
    (share,) = {elements(block.state_of(n)) / elements(block[n]) for n in block.parameters}
    return share


def hops() -> tuple[Move, ...]:
    """What a chip of a stage sends for a micro-batch to the next one, and back to the last one."""
    size = v.e * elements(layer().block["Out"])
    return tuple(Move("send", name, ("pp",), size, critical=True) for name in ("Out", "dOut"))


# --- a training run: attention over the sequence and recomputation are left out [SB5]

training_flops = flops_per_parameter() * v.P * v.R
"""FLOP of a run of R tokens with P parameters."""

run_seconds = training_flops / (v.N * v.C * v.u)
"""Seconds of that run on N chips at a utilisation (MFU) of u."""

saved_activations = v.A * v.e * v.B * v.D * v.L / v.N
"""Bytes per chip of A tensors [B, D] saved for the backward pass in each layer, spread over N."""


@lru_cache(maxsize=1)
def run_terms() -> Mapping[sp.Symbol, sp.Expr]:
    """What a run and its model take, in the symbols of their shapes, by the symbol of each."""
    cached = sp.Add(*(v.e * elements(program(ATTENTION).block[name]) for name in ("Key", "Val")))
    attention = parameters(ATTENTION)
    return MappingProxyType({
        v.P_A: v.L * attention,
        v.P_F: v.L * sp.expand(by_matrices(parameters) - attention),
        v.P_V: v.n_V * TABLE,
        v.M_A: saved_activations,
        v.M_KV: v.L * cached,
        v.f_R: training_flops,
        v.T_R: run_seconds,
    })  # fmt: skip
