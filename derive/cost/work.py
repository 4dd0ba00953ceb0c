"""The computation of a step: FLOP of a layer and of the head, and the time of their passes for a
micro-batch, by FLOP at one share of the peak or by the shapes of products and the bytes of what is
between them (`kernels`).
"""

from __future__ import annotations

import sympy as sp

from derive.cost import kernels, stage
from derive.cost.assumptions import Assumptions
from derive.cost.terms import Term, define
from derive.notation import symbols as v
from derive.notation.units import flop


def work(assumptions: Assumptions) -> tuple[Term, ...]:
    """FLOP per token of a layer and of the head, and the time of a micro-batch per such FLOP."""
    on = assumptions.on
    blocks = assumptions.architecture
    attention, matrices = stage.attention_flops(blocks), stage.matrix_flops(blocks)
    if "attention_width" not in assumptions:  # the scores have the model's width, not the heads'
        attention = attention * v.D / (v.K * v.G * v.H)
    if "exact_parameters" not in assumptions:  # the layers have what the stated parameters leave
        matrices = stage.flops_per_parameter() * (v.P - v.n_V * stage.TABLE) / v.L
    return (
        define(v.f_A, attention, on("attention_width")),
        define(v.f_L, matrices + v.f_A, on("exact_parameters")),
        define(v.f_V, stage.head_flops()),
        define(v.t_1, v.T_r * v.b_seq / (v.tp * v.C * v.eta)),
        *_layer_terms(assumptions),
    )


def _layer_terms(assumptions: Assumptions) -> tuple[Term, ...]:
    """The time of a layer's forward and backward pass and of the head's for a micro-batch, and of
    the attention in both, where they are more than FLOP at one share of the peak."""
    rests_on = assumptions.on("matmul_shape", "elementwise")
    if not rests_on:
        return ()
    fused = assumptions.kernels == "fused"
    share = stage.forward_share()

    def read(kernel: stage.Kernel, which: str) -> sp.Expr:
        fusion = assumptions.fusion
        if kernel is kernels.unfused_flops:  # of the passes themselves
            fusion = fusion._replace(kernels="unfused")
        under = fusion, assumptions.sequence_parallel, assumptions.architecture
        return stage.on_layer(kernel, which, *under)

    def time(which: str, part: sp.Expr) -> sp.Expr:
        seconds = part * v.f_L * v.t_1
        if "matmul_shape" in assumptions:
            seconds = read(kernels.padded_flops, which) / (v.C * v.eta) + attention(which, part)
        if "elementwise" in assumptions:
            touched = kernels.element_bytes if fused else kernels.unfused_bytes
            seconds += v.x_el * read(touched, which) / (v.W_hbm * v.eta_hbm)
        return seconds

    def attention(which: str, part: sp.Expr) -> sp.Expr:
        if "matmul_shape" not in assumptions:
            return part * v.f_A * v.t_1
        if fused:
            return read(kernels.fused_flops, which) / (v.C_A * v.eta_A)
        work = read(kernels.unfused_flops, which)
        if assumptions.kernels == "recomputed" and which == "backward":
            work += read(kernels.unfused_flops, "forward")  # the whole core is run again
        return work / (v.C_A * v.eta)

    head, weights = v.f_V * v.t_1, (v.f_L - v.f_A) * v.t_1 * share
    if "matmul_shape" in assumptions:
        weights = read(kernels.gradient_flops, "backward") / (v.C * v.eta)
        head = stage.on_head(kernels.padded_flops) / (v.C_A * v.eta)
    if "elementwise" in assumptions:
        head += v.s_V * stage.logits() / (v.W_hbm * v.eta_hbm)
    shaped = assumptions.on("matmul_shape")
    return (
        define(v.t_A, attention("forward", share), shaped),
        define(v.t_dA, attention("backward", 1 - share), shaped),
        define(v.t_f, time("forward", share), rests_on),
        define(v.t_b, time("backward", 1 - share), rests_on),
        define(v.t_w, weights, rests_on),
        define(v.t_V, head, rests_on),
    )


def layer_times(assumptions: Assumptions) -> dict[sp.Symbol, sp.Expr]:
    """The times of a layer's passes, of the attention in them, and of the head: each the symbol
    that `work` defines, or its FLOP at one share of the peak."""
    if _layer_terms(assumptions):
        return {symbol: symbol for symbol in (v.t_A, v.t_dA, v.t_f, v.t_b, v.t_w, v.t_V)}
    share = stage.forward_share()
    return {
        v.t_A: v.f_A * share * v.t_1, v.t_dA: v.f_A * (1 - share) * v.t_1,
        v.t_f: v.f_L * share * v.t_1, v.t_b: v.f_L * (1 - share) * v.t_1, v.t_V: v.f_V * v.t_1,
        v.t_w: (v.f_L - v.f_A) * v.t_1 * share,
    }  # fmt: skip


def passes(work: sp.Expr, per_flop: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """The time of the forward and of the backward pass of a stage's layers, for a layer's work in
    FLOP per token and the time of a micro-batch per such FLOP."""
    both, share = v.L_p * work * per_flop, stage.forward_share()
    return both * share, both * (1 - share)


def model_flops() -> Term:
    """FLOP of a step that the model itself requires; recomputation is left out."""
    per_token = v.L * v.f_L + v.f_V
    return Term("model_flops", per_token * v.B_seq * v.T, flop, "FLOP the model requires")
