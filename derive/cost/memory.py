"""The memory of a chip in one training step, and the least recomputation that makes it fit.

ZeRO-1: weights and gradients are whole on the chips of a data group, the optimizer states split
over it. The first stage holds the most micro-batches at once, min(p, m) under 1F1B.

With r of the stage's l layers recomputed, the first stage holds states + q (a_1 (l - r) + a_0 r)
bytes. The notebook adds recomputed layers one by one until that is at most the budget; the closed
form here is the loop's result, which `derive.solve.recomputation` proves. Where the working set of
the layer being run again is counted, any r > 0 costs it once more: min(1, r without it).

What a layer saves is read off its program (`stage`). Stated here are the optimizer's copies, the
micro-batches in flight, and that a recomputed layer saves its input alone.
"""

from __future__ import annotations

import sympy as sp

from derive.cost import stage
from derive.cost.assumptions import ADAM_MOMENTS, Assumptions
from derive.cost.terms import Term, define
from derive.notation import symbols as v
from derive.notation.units import byte

ADAM_FP32_COPIES = 1 + ADAM_MOMENTS  # master weights and the moments


def definitions(assumptions: Assumptions) -> tuple[Term, ...]:
    """Parameters and states on a chip, what a layer saves, and the recomputed layers, in order."""
    on = assumptions.on
    saved = stage.saved_bytes(assumptions.fusion)
    if "saved_tensors" not in assumptions:  # a stated number for each element of the layer's input
        saved = v.A_kept * stage.input_bytes() / v.e
    optimizer = ADAM_FP32_COPIES * v.e_32 * stage.state_share() * v.psi
    terms = [
        define(v.psi, chip_parameters(assumptions), on("largest_stage")),
        define(v.M_states, (v.e + v.e_g) * v.psi + optimizer, on("gradient_bytes")),
        define(v.n_fly, sp.Min(v.pp, v.n_mb, evaluate=False)),
        define(v.a_1, saved, on("saved_tensors")),
        define(v.a_0, stage.input_bytes()),
    ]
    if "logits" in assumptions:
        terms.append(define(v.M_logits, (v.e + v.e_32) * stage.logits(), ("logits",)))
    rests_on = on("working_set", "logits")
    return (*terms, define(v.L_r, recomputed_layers(assumptions), rests_on))


def chip_parameters(assumptions: Assumptions) -> sp.Expr:
    """Parameters on a chip: an even share, or those of the fullest stage.

    floor(1/p) is 1 without a pipeline and 0 with one: there, embedding and head share a stage.
    """
    if "largest_stage" not in assumptions:
        return v.P / (v.tp * v.pp)
    layers = (v.P - v.n_V * stage.TABLE) / v.pp
    tables = 1 + (v.n_V - 1) * sp.floor(1 / v.pp, evaluate=False)
    return (layers + stage.TABLE * tables) / v.tp


def recomputed_layers(assumptions: Assumptions) -> sp.Expr:
    """The least whole number of recomputed layers of a stage that fits (see above)."""
    plain = _least(assumptions, sp.S.Zero)
    if "working_set" not in assumptions:
        return plain
    return _least(assumptions, v.a_1 * sp.Min(1, plain, evaluate=False))


def _least(assumptions: Assumptions, extra: sp.Expr) -> sp.Expr:
    over = v.M_states + extra - v.mu * v.M_hbm
    saves = v.a_1 - v.a_0
    needs = [sp.ceiling((over + v.a_1 * v.L_p * v.n_fly) / (saves * v.n_fly), evaluate=False)]
    if "logits" in assumptions:
        needs.append(sp.ceiling((over + v.M_logits + v.a_1 * v.L_p) / saves, evaluate=False))
    return sp.Max(0, *needs, evaluate=False)


def memory(assumptions: Assumptions) -> tuple[Term, ...]:
    """The parts of the memory of the fullest chip, in bytes."""
    held = v.a_1 * (v.L_p - v.L_r) + v.a_0 * v.L_r
    parts = [
        Term("states", v.M_states, byte, "weights, gradients and optimizer states"),
        Term("activations", held * v.n_fly, byte, "activations saved for the backward pass"),
    ]
    if "logits" in assumptions:
        # The last stage has one micro-batch in flight and the logits; the first has no logits.
        beyond = sp.Max(held * v.n_fly, held + v.M_logits, evaluate=False) - held * v.n_fly
        gloss = "what the logits add where the last stage is the fullest"
        parts.append(Term("logits", beyond, byte, gloss, ("logits",)))
    if "working_set" in assumptions:
        once = v.a_1 * sp.Min(1, v.L_r, evaluate=False)
        gloss = "activations of the layer that is run again"
        parts.append(Term("working_set", once, byte, gloss, ("working_set",)))
    return tuple(parts)
