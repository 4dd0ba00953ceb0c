"""The time of one training step: what a micro-batch costs on the slowest stage, then the step.

Per micro-batch the slowest stage, which is the last since it has the head, computes, runs
recomputed layers again, exchanges activations in its tensor group (not overlapped), passes keys and
values round its context group (under the attention) and hands activations to the next stage. A step
is m micro-batches, p - 1 more that fill and drain the pipeline, and the gradients' traffic.

FLOP and bytes are those of the layer's program (`stage`). What is stated here is what no program
holds: the schedule, what hides under what, and the links of the groups.
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from derive.cost import stage
from derive.cost.assumptions import Assumptions
from derive.cost.network import Network, Switch, TwoLevels
from derive.cost.program import Move
from derive.cost.terms import Term, define
from derive.notation import symbols as v
from derive.notation.units import flop, second

SPANS = {
    v.W_tp: v.tp,
    v.W_cp: v.tp * v.cp,
    v.W_dp: v.tp * v.cp * v.dp,
    v.W_pp: v.tp * v.cp * v.dp * v.pp,
}
"""The chips that a group of each link spans; axes are laid out tensor, context, data, pipeline from
the inside out."""


def shape(fabric: str) -> tuple[Term, ...]:
    """What the degrees make of the sequence, the batch and the layers, and of each group's link on
    a fabric of nodes with switches, or of a torus."""
    link = _torus_link if fabric == "torus" else _node_link
    return (
        define(v.T_r, v.T / v.cp),
        define(v.n_mb, v.B_seq / (v.dp * v.b_seq)),
        define(v.L_p, v.L / v.pp),
        *(define(symbol, link(symbol)) for symbol in SPANS),
    )


def _node_link(link: sp.Symbol) -> sp.Expr:
    """The network, or the node's switches where they are faster and no group straddles nodes, which
    is where the chips that it spans divide those of a node: floor(x) + floor(-x) + 1 is 1 for a
    whole x and 0 for any other."""
    nodes = v.n_node / SPANS[link]
    inside = sp.floor(nodes, evaluate=False) + sp.floor(-nodes, evaluate=False) + 1
    return sp.Max(v.W_dcn, v.W_node * inside, evaluate=False)


def _torus_link(link: sp.Symbol) -> sp.Expr:
    """The network, or inside a pod of n_node chips a torus axis: each kind of group has one of its
    own, and where there are more kinds than axes they share them. A hop between stages goes one
    way, over half of an axis."""
    kinds = sp.Add(*(sp.Min(1, degree - 1, evaluate=False) for degree in (v.tp, v.cp, v.dp, v.pp)))
    share = sp.Min(1, v.M_axes / sp.Max(1, kinds, evaluate=False), evaluate=False)
    inside = sp.Min(1, sp.floor(v.n_node / SPANS[link], evaluate=False), evaluate=False)
    one_way = sp.Rational(1, 2) if link == v.W_pp else sp.S.One
    return sp.Max(v.W_dcn, v.W_node * one_way * share * inside, evaluate=False)


def work(assumptions: Assumptions) -> tuple[Term, ...]:
    """FLOP per token of a layer and of the head, and the time of a micro-batch per such FLOP."""
    on = assumptions.on
    attention, matrices = stage.attention_flops(), stage.matrix_flops()
    if "attention_width" not in assumptions:  # the scores have the model's width, not the heads'
        attention = attention * v.D / (v.K * v.G * v.H)
    if "exact_parameters" not in assumptions:  # the layers have what the stated parameters leave
        matrices = stage.flops_per_parameter() * (v.P - v.n_V * stage.TABLE) / v.L
    return (
        define(v.f_A, attention, on("attention_width")),
        define(v.f_L, matrices + v.f_A, on("exact_parameters")),
        define(v.f_V, stage.head_flops()),
        define(v.t_1, v.T_r * v.b_seq / (v.tp * v.C * v.eta)),
    )


def micro_batch(assumptions: Assumptions, exact: bool) -> tuple[Term, ...]:
    """The time of a micro-batch on the slowest stage and what it is made of, in seconds."""
    on = assumptions.on
    layer = stage.layer()
    both, forward = (layer.forward, layer.backward), (layer.forward,)
    again = v.L_r if "recompute_collectives" in assumptions else sp.S.Zero

    def layers(each: sp.Expr, once_more: sp.Expr) -> sp.Expr:
        """All layers of a stage, and the recomputed ones once more."""
        return stage.factored(v.L_p * each + again * once_more)

    in_group = [
        seconds(stage.tensor_moves(p), Switch("tp", v.W_tp), exact) for p in (both, forward)
    ]
    round_ring = [
        _heads(seconds(stage.ring_moves(p), Switch("cp", v.W_cp), exact), assumptions)
        for p in (both, forward)
    ]
    hops = seconds(stage.hops(), Switch("pp", v.W_pp), exact)
    piped = 1 - sp.floor(1 / v.pp, evaluate=False)
    share = stage.forward_share()
    return (
        define(v.t_avg, (v.L * v.f_L + v.f_V) / v.pp * v.t_1),
        define(v.t_redo, v.L_r * v.f_L * share * v.t_1),
        define(v.t_slow, (v.L_p * v.f_L + v.f_V) * v.t_1 + v.t_redo),
        define(v.t_tp, layers(*in_group), on("recompute_collectives")),
        define(v.t_ring, layers(*round_ring), on("ring_tensor", "recompute_collectives")),
        define(v.t_attn, (v.L_p + again * share) * v.f_A * v.t_1, on("recompute_collectives")),
        define(v.t_cp, sp.Max(v.t_ring, v.t_attn, evaluate=False) - v.t_attn),
        define(v.t_pp, hops * v.x_pp * piped),
        define(v.t_mb, v.t_slow + v.t_tp + v.t_cp + v.t_pp),
    )


def _heads(ring: sp.Expr, assumptions: Assumptions) -> sp.Expr:
    """A ring's time with the heads of keys and values as the assumptions split them: over the
    tensor group as far as there are heads, or not at all."""
    if "ring_tensor" not in assumptions:
        return ring * v.tp
    return ring * v.tp / v.K * sp.Max(v.K / v.tp, 1, evaluate=False)


@lru_cache(maxsize=64)
def seconds(moves: tuple[Move, ...], network: Network, exact: bool) -> sp.Expr:
    """The time of some moves one after the other, in the terms of one chip."""
    return sp.Add(*_by_link(moves, network, exact))


def _by_link(moves: tuple[Move, ...], network: Network, exact: bool) -> list[sp.Expr]:
    """As `seconds`, apart for each link of the network."""
    times: dict[str, sp.Expr] = {}
    for move in moves:
        for link, time in network.seconds(move, exact).items():
            times[link] = times.get(link, sp.S.Zero) + time
    return [stage.on_chip(time) for time in times.values()]


def gradients(assumptions: Assumptions, exact: bool) -> tuple[Term, ...]:
    """The time of the two collectives of the data group, dp x cp chips, once per step: what the
    layers' program moves for a parameter, for all parameters of a chip."""
    layer = stage.layer()
    rests_on = assumptions.on("two_level")
    network: Network = Switch("dp", v.W_dp)
    near: tuple[Term, ...] = ()
    if rests_on:
        group = v.cp * v.dp
        chips = sp.Max(1, sp.floor(v.n_node / v.tp, evaluate=False), evaluate=False)
        near = (define(v.n_near, sp.Min(group, chips, evaluate=False), rests_on),)
        network = TwoLevels(in_node=v.n_near)
    scatter, gather = (
        _of_all_parameters(stage.gradient_moves(cost), network, exact)
        for cost in (layer.backward, layer.update)
    )
    return (*near, define(v.t_scatter, scatter, rests_on), define(v.t_gather, gather, rests_on))


@lru_cache(maxsize=16)
def _of_all_parameters(moves: tuple[Move, ...], network: Network, exact: bool) -> sp.Expr:
    """The time of moves of a layer's parameters, for all that a chip has."""
    moved = sorted(moves, key=lambda move: move.tensor)
    parameters = sorted(stage.layer().parameters, key=lambda parameter: parameter[0].name)
    pairs = zip(moved, parameters, strict=True)
    ((collective, axes, each),) = {(m.collective, m.axes, m.array_bytes / n) for m, (_, n) in pairs}
    together = Move(collective, "parameters", axes, v.psi * each, critical=False)
    return sp.factor_terms(seconds((together,), network, exact))


def parts(assumptions: Assumptions) -> tuple[Term, ...]:
    """The parts of the step time, in seconds; they add up to the step."""
    on = assumptions.on
    filling = v.t_mb
    if "bubble" in assumptions:
        filling = v.t_mb - v.f_V * v.t_1
    exposed = (v.t_scatter + v.t_gather) * v.x_dp
    if "gradient_window" in assumptions:
        forward, backward = passes(v.f_L, v.t_1)
        exposed = _beyond(v.t_scatter, backward + v.t_redo) + _beyond(v.t_gather, forward)
    uneven = v.t_slow - v.t_redo - v.t_avg
    return (
        Term("compute", v.n_mb * v.t_avg, second, "computation of an average stage"),
        Term("recompute", v.n_mb * v.t_redo, second, "layers that are run again"),
        Term("imbalance", v.n_mb * uneven, second, "waiting for the stage with the head"),
        Term("tp", v.n_mb * v.t_tp, second, "tensor communication"),
        Term("cp", v.n_mb * v.t_cp, second, "the ring beyond what attention hides"),
        Term("pp", v.n_mb * v.t_pp, second, "hops between stages that are not hidden"),
        Term("bubble", (v.pp - 1) * filling, second, "filling and draining", on("bubble")),
        Term("dp", exposed, second, "gradient traffic not hidden", on("gradient_window")),
    )


def passes(work: sp.Expr, per_flop: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """The time of the forward and of the backward pass of a stage's layers, for a layer's work in
    FLOP per token and the time of a micro-batch per such FLOP."""
    both, share = v.L_p * work * per_flop, stage.forward_share()
    return both * share, both * (1 - share)


def model_flops() -> Term:
    """FLOP of a step that the model itself requires; recomputation is left out."""
    per_token = v.L * v.f_L + v.f_V
    return Term("model_flops", per_token * v.B_seq * v.T, flop, "FLOP the model requires")


def _beyond(time: sp.Expr, window: sp.Expr) -> sp.Expr:
    return sp.Max(time, window, evaluate=False) - window
