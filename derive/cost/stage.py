"""What a layer, the embedding and the head cost a chip of a training plan, read off their programs.

The layout is one line, or another where there are experts. Activations between the products of a
group are split over the tensor group (sequence parallelism, which can be left out), keys and values
are passed round the context group, and the optimizer's state, and with it the reduced gradients, is
split over the data and context groups (ZeRO-1). Gathered activations are gathered again in the
backward pass, which does not wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from types import MappingProxyType

import sympy as sp

from derive.cost.block import FUSED, Block, Fusion
from derive.cost.experts import places
from derive.cost.kernels import core_flops
from derive.cost.layout import fold_of, rules_of, spread
from derive.cost.passes import Program, program
from derive.cost.program import Move, PassCost, elements
from derive.cost.transformer import ATTENTION, ATTENTION_CORE, EMBEDDING, HEAD, LAYER, LAYER_OF
from derive.notation import symbols as v

LAYOUT = "b_seq:dp T:cp U:cp(ring) K:tp F:tp V:tp T:tp D:dp(optimizer) D:cp(optimizer)"
# Experts are over groups of their own: the same devices as etp x ep x edp, by which their weights,
# and the rest by tp, are split. Before F of the shared experts is split by tp, that of the others
# is by etp.
EXPERT_LAYOUT = (
    "b_seq:dp T:cp U:cp(ring) K:tp F:tp E:ep(experts) J:edp F_E:etp(experts) J:etp F_E:tp T:tp "
    "D:dp(optimizer) D:cp(optimizer) D:edp(optimizer) dp*cp*tp=etp*ep*edp"
)
ROWS = places(LAYER_OF["gqa", "experts"])
EXPERT_DATA = v.tp * v.cp * v.dp / (v.etp * v.ep)  # the data degree of an expert
_OF_EXPERTS = {v.J: ROWS, v.edp: EXPERT_DATA}
# By the assumption `architecture`, the attention and the experts of a model's layers.
KINDS: Mapping[str, tuple[str, str]] = MappingProxyType({
    "dense": ("gqa", ""), "experts": ("gqa", "experts"), "shared-experts": ("gqa", "shared"),
    "latent": ("mla", ""), "latent-experts": ("mla", "experts"),
    "latent-shared-experts": ("mla", "shared"),
})  # fmt: skip
# A micro-batch of b sequences is that of one replica, and T_r = T/c are the tokens of a rank.
_PER_REPLICA = {v.b_seq: v.b_seq * v.dp}
_PER_RANK = {v.T: v.T_r * v.cp}


factored = lru_cache(maxsize=256)(sp.factor_terms)


@lru_cache(maxsize=64)
def laid_out(block: Block, fusion: Fusion = FUSED, sequence: bool = True) -> Program:
    """The program of a block under the layout of a plan, with sequence parallelism or without."""
    line = EXPERT_LAYOUT if block.of_experts else LAYOUT
    every = rules_of(line if sequence else line.replace(" T:tp", ""))
    rules = [rule for rule in every if rule.dim in block.dims]
    return program(spread(block, rules, fold_of(line)), "none", fusion)


def on_chip(expr: sp.Expr) -> sp.Expr:
    """An expression of a program in the terms of one chip: its micro-batch and its tokens, the n_k
    experts of each, and edp by the other degrees."""
    return factored(expr.xreplace(_OF_EXPERTS).xreplace(_PER_REPLICA).xreplace(_PER_RANK))


def by_matrices(read: Callable[[Block], sp.Expr]) -> sp.Expr:
    """What is read off a layer with two feed-forward matrices and with three, as one expression in
    their number n_F, in which it is linear."""
    two, three = (sp.expand(read(LAYER[count])) for count in (2, 3))
    return sp.expand(two + (v.n_F - 2) * (three - two))


def mean_layer(read: Callable[[Block], sp.Expr], blocks: str) -> sp.Expr:
    """What is read off a layer, on the mean over those that a model of such `blocks` has: dense
    ones, and L_E of its L with experts."""
    attention, experts = KINDS[blocks]
    dense = by_matrices(read) if attention == "gqa" else sp.expand(read(LAYER_OF["mla", "gated"]))
    if not experts:
        return dense
    return sp.expand(dense + v.L_E / v.L * (read(LAYER_OF[attention, experts]) - dense))


def flops(block: Block) -> sp.Expr:
    """FLOP of both passes of a whole block for a token, which goes to n_k experts."""
    whole = program(block)
    total = (whole.forward.flops + whole.backward.flops).xreplace({v.J: ROWS})
    return sp.expand(total.xreplace({v.U: v.T, v.x_cap: sp.S.One}) / (v.T * v.b_seq))


def parameters(block: Block) -> sp.Expr:
    """The parameters of a whole block."""
    return sp.Add(*(size for _, size in program(block).parameters))


@lru_cache(maxsize=8)
def attention_flops(blocks: str = "dense") -> sp.Expr:
    """FLOP of the scores of a layer and of their product with the values, for a token."""
    if KINDS[blocks][0] == "gqa":
        return flops(ATTENTION_CORE)
    whole = program(LAYER_OF["mla", "gated"])
    both = (core_flops(cost, whole.block) for cost in (whole.forward, whole.backward))
    return sp.expand(sp.Add(*both).xreplace({v.U: v.T}) / (v.T * v.b_seq))


@lru_cache(maxsize=8)
def matrix_flops(blocks: str = "dense") -> sp.Expr:
    """FLOP of the products of a layer with its matrices, for a token."""
    cores = attention_flops(blocks)
    return sp.factor_terms(mean_layer(lambda block: flops(block) - cores, blocks))


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


@lru_cache(maxsize=1)
def forward_moved() -> sp.Rational:
    """The share of the forward pass in what the tensor group of a layer sends in both."""
    forward, both = (
        sp.Add(*(move.sent_bytes for move in group_moves(passes, "tp")))
        for passes in ((layer().forward,), (layer().forward, layer().backward))
    )
    return sp.Rational(sp.cancel(forward / both))


TABLE = parameters(EMBEDDING)
"""Parameters of the embedding, and as many of the head."""


def head_flops() -> sp.Expr:
    """FLOP of the head for a token, both passes."""
    return flops(HEAD)


def group_moves(passes: Iterable[PassCost], axis: str) -> tuple[Move, ...]:
    """The moves of a group, such as tp or ep, that the passes wait for."""
    return _over(passes, (axis,), lambda move: move.critical)


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


@lru_cache(maxsize=64)
def saved_bytes(fusion: Fusion = FUSED, sequence: bool = True, blocks: str = "dense") -> sp.Expr:
    """Bytes that a layer saves for a micro-batch on a chip."""

    def saved(block: Block) -> sp.Expr:
        return sp.Add(*(one.bytes for one in laid_out(block, fusion, sequence).saved))

    return on_chip(mean_layer(saved, blocks))


Kernel = Callable[[PassCost, Block], sp.Expr]


@lru_cache(maxsize=256)
def on_layer(read: Kernel, which: str, fusion: Fusion, sequence: bool, blocks: str) -> sp.Expr:
    """What is read off a pass of a layer, "forward" or "backward", in the terms of one chip."""

    def of_block(block: Block) -> sp.Expr:
        whole = laid_out(block, fusion, sequence)
        return read(getattr(whole, which), whole.block).xreplace(whole.block.same_length)

    return on_chip(mean_layer(of_block, blocks))


@lru_cache(maxsize=16)
def layer_parameters(blocks: str) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """The parameters of a layer on a chip and those of its experts among them, and of the whole
    layer, on the mean over a model's layers."""

    def on_one(block: Block, *, own: bool) -> sp.Expr:
        sizes = laid_out(block).parameters
        return sp.Add(*(size for one, size in sizes if one.name in block.of_experts or not own))

    every, own = (mean_layer(partial(on_one, own=own), blocks) for own in (False, True))
    return on_chip(every), on_chip(own), mean_layer(parameters, blocks)


def on_head(read: Kernel) -> sp.Expr:
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
