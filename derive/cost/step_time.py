"""The time of one training step: what a micro-batch costs on the slowest stage, then the step.

Per micro-batch the slowest stage, which is the last since it has the head, computes, runs
recomputed layers again, exchanges activations in its tensor group (not overlapped), passes keys and
values round its context group (under the attention) and hands activations to the next stage. A step
is m micro-batches, p - 1 more that fill and drain the pipeline, and the gradients' traffic.
"""

from __future__ import annotations

from functools import partial

import sympy as sp

from derive.cost.step_assumptions import StepAssumptions, on_of
from derive.cost.step_terms import Term, define, part
from derive.notation import symbols as v
from derive.notation.units import flop, second

PASSES = 3  # a forward pass, and a backward pass of twice its work
FORWARD = sp.Rational(1, PASSES)
ALL_REDUCES = 4  # of a layer: two forward, two backward
RING_PASSES = 3  # keys and values forward; those and their gradients backward


def shape() -> tuple[Term, ...]:
    """What the degrees make of the sequence, the batch and the layers, and of each group's link.

    Axes are laid out from the inside out: tensor, context, data, pipeline.
    """
    spans = {
        v.W_tp: v.tp,
        v.W_cp: v.tp * v.cp,
        v.W_dp: v.tp * v.cp * v.dp,
        v.W_pp: v.tp * v.cp * v.dp * v.pp,
    }
    return (
        define(v.T_r, v.T / v.cp),
        define(v.n_mb, v.B_seq / (v.dp * v.b_seq)),
        define(v.L_p, v.L / v.pp),
        *(define(link, _link(span)) for link, span in spans.items()),
    )


def _link(span: sp.Expr) -> sp.Expr:
    """The network, or the node's switches where they are faster and the group spans at most a node:
    min(1, floor(n/span)) is 1 there and 0 beyond."""
    inside = sp.Min(1, sp.floor(v.n_node / span, evaluate=False), evaluate=False)
    return sp.Max(v.W_dcn, v.W_node * inside, evaluate=False)


def work(assumptions: StepAssumptions) -> tuple[Term, ...]:
    """FLOP per token of a layer and of the head, and the time of a micro-batch per such FLOP."""
    on = partial(on_of, assumptions)
    width = v.K * v.G * v.H if "attention_width" in assumptions else v.D
    layers = v.P - v.n_V * v.V * v.D
    return (
        # Causal: a query meets half of the keys on average, in the scores and in their product.
        define(v.f_A, PASSES * v.fma * v.T * width, on("attention_width")),
        define(v.f_L, PASSES * v.fma * layers / v.L + v.f_A),
        define(v.f_V, PASSES * v.fma * v.V * v.D),
        define(v.t_1, v.T_r * v.b_seq / (v.tp * v.C * v.eta)),
    )


def micro_batch(assumptions: StepAssumptions) -> tuple[Term, ...]:
    """The time of a micro-batch on the slowest stage and what it is made of, in seconds."""
    on = partial(on_of, assumptions)
    again = "recompute_collectives" in assumptions
    hidden = v.e * v.T_r * v.b_seq * v.D
    heads = sp.Max(v.K / v.tp, 1, evaluate=False) if "ring_tensor" in assumptions else v.K
    keys_and_values = 2 * v.e * v.T_r * v.b_seq * heads * v.H
    all_reduces = ALL_REDUCES * v.L_p + (2 * v.L_r if again else 0)
    ring_passes = RING_PASSES * v.L_p + (v.L_r if again else 0)
    attention = v.L_p + (FORWARD * v.L_r if again else 0)
    piped = 1 - sp.floor(1 / v.pp, evaluate=False)
    return (
        define(v.t_avg, (v.L * v.f_L + v.f_V) / v.pp * v.t_1),
        define(v.t_redo, v.L_r * v.f_L * FORWARD * v.t_1),
        define(v.t_slow, (v.L_p * v.f_L + v.f_V) * v.t_1 + v.t_redo),
        define(
            v.t_tp,
            all_reduces * 2 * (v.tp - 1) / v.tp * hidden / v.W_tp,
            on("recompute_collectives"),
        ),
        define(
            v.t_ring,
            ring_passes * (v.cp - 1) * keys_and_values / v.W_cp,
            on("ring_tensor", "recompute_collectives"),
        ),
        define(v.t_attn, attention * v.f_A * v.t_1, on("recompute_collectives")),
        define(v.t_cp, sp.Max(v.t_ring, v.t_attn) - v.t_attn),
        define(v.t_pp, 2 * hidden / v.tp / v.W_pp * v.x_pp * piped),
        define(v.t_mb, v.t_slow + v.t_tp + v.t_cp + v.t_pp),
    )


def gradients(assumptions: StepAssumptions) -> tuple[Term, ...]:
    """The time of the two collectives of the data group, dp x cp chips, once per step."""
    group = v.dp * v.cp
    if "two_level" not in assumptions:
        share = (group - 1) / group / v.W_dp
        return (
            define(v.t_scatter, v.e_g * v.psi * share),
            define(v.t_gather, v.e * v.psi * share),
        )
    far = group / v.n_near
    inside = (v.n_near - 1) / v.n_near / v.W_node
    share = inside + (far - 1) / far / (v.n_near * v.W_dcn)
    near = sp.Min(
        group, sp.Max(1, sp.floor(v.n_node / v.tp, evaluate=False), evaluate=False), evaluate=False
    )
    rests_on = ("two_level",)
    return (
        define(v.n_near, near, rests_on),
        define(v.t_scatter, v.e_g * v.psi * share, rests_on),
        define(v.t_gather, v.e * v.psi * share, rests_on),
    )


def parts(assumptions: StepAssumptions) -> tuple[Term, ...]:
    """The parts of the step time, in seconds; they add up to the step."""
    on = partial(on_of, assumptions)
    filling = v.t_mb
    if "bubble" in assumptions:
        filling = v.t_mb - v.f_V * v.t_1
    exposed = (v.t_scatter + v.t_gather) * v.x_dp
    if "gradient_window" in assumptions:
        forward, backward = passes(v.f_L, v.t_1)
        exposed = _beyond(v.t_scatter, backward + v.t_redo) + _beyond(v.t_gather, forward)
    uneven = v.t_slow - v.t_redo - v.t_avg
    return (
        part("compute", v.n_mb * v.t_avg, second, "computation of an average stage"),
        part("recompute", v.n_mb * v.t_redo, second, "layers that are run again"),
        part("imbalance", v.n_mb * uneven, second, "waiting for the stage with the head"),
        part("tp", v.n_mb * v.t_tp, second, "tensor communication"),
        part("cp", v.n_mb * v.t_cp, second, "the ring beyond what attention hides"),
        part("pp", v.n_mb * v.t_pp, second, "hops between stages that are not hidden"),
        part("bubble", (v.pp - 1) * filling, second, "filling and draining", on("bubble")),
        part("dp", exposed, second, "gradient traffic not hidden", on("gradient_window")),
    )


def passes(work: sp.Expr, per_flop: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """The time of the forward and of the backward pass of a stage's layers, for a layer's work in
    FLOP per token and the time of a micro-batch per such FLOP."""
    forward = v.L_p * work * FORWARD * per_flop
    return forward, (PASSES - 1) * forward


def model_flops() -> Term:
    """FLOP of a step that the model itself requires; recomputation is left out."""
    per_token = v.L * v.f_L + v.f_V
    return part("model_flops", per_token * v.B_seq * v.T, flop, "FLOP the model requires")


def _beyond(time: sp.Expr, window: sp.Expr) -> sp.Expr:
    return sp.Max(time, window, evaluate=False) - window
