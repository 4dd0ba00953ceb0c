"""The memory of a chip in one training step, stage by stage, and the least recomputation that makes
every stage fit.

The states are weights, gradients and the optimizer's; ZeRO splits them over the data group, with
its first stage the optimizer's alone. A stage holds saved activations of each micro-batch that is
in flight on it, the first stage of the most of them; the last holds the logits.

With r of its l layers recomputed, a stage with q micro-batches in flight holds
states + q (a_1 (l - r) + a_0 r) bytes. The notebook adds recomputed layers one by one until that is
at most the budget; the closed form here is the loop's result, which `derive.solve.recomputation`
proves. Where the working set of the layer being run again is counted, any r > 0 costs it once more:
min(1, r without it).

What a layer saves is read off its program (`stage`). Stated here are the optimizer's copies, the
micro-batches in flight, and that a recomputed layer saves its input alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import sympy as sp

from derive.cost import stage
from derive.cost.assumptions import ADAM_MOMENTS, Assumptions
from derive.cost.schedule import BY_ASSUMPTION
from derive.cost.sharding import GATHERED, held_parameters
from derive.cost.terms import Term, define
from derive.notation import symbols as v
from derive.notation.units import byte

ADAM_FP32_COPIES = 1 + ADAM_MOMENTS  # master weights and the moments
STATES = ("weights", "gradients", "optimizer")
GLOSSES: Mapping[str, str] = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "the optimizer's copies of the weights and their moments",
    "activations": "activations saved for the backward pass",
    "logits": "logits and their gradient",
    "working_set": "activations of the layer that is run again",
    "gathered": "weights and gradients that are whole while they are used",
}

# The terms that shape a kind, by its name.
ON: Mapping[str, tuple[str, ...]] = {
    "weights": ("sharded_states",),
    "gradients": ("gradient_bytes", "sharded_states", "kept_bytes"),
    "optimizer": ("sharded_states",),
    "activations": ("saved_tensors",),
    "logits": ("logits", "kept_bytes"),
    "working_set": ("working_set",),
    "gathered": ("sharded_states",),
}


class Held(NamedTuple):
    """What a stage is: its parameters on a chip, the symbol of the bytes of their states (or of all
    that it holds beside activations), its layers, its micro-batches in flight, and whether it has
    the head."""

    parameters: sp.Expr
    whole: sp.Symbol
    layers: sp.Expr
    in_flight: sp.Expr
    head: bool


def stages_held(assumptions: Assumptions) -> dict[str, Held]:
    """The stages of which one is the fullest: the first, which has most micro-batches in flight;
    the second, where it has more layers; and the last, where it has the logits."""
    if "uneven_stages" in assumptions:
        # Of given stages the fullest inner one counts as the second: a bound where it is a later.
        inner = v.L_i if assumptions.stages == "given" else v.L_p
        return {
            "first": Held(v.psi_f, v.M_f, v.L_f, v.n_fly, False),
            "second": Held(v.psi_m, v.M_m, inner, v.q_2, False),
            "last": Held(v.psi_l, v.M_l, v.L_l, v.q_l, True),
        }
    states = v.psi, v.M_states, v.L_p
    first = {"first": Held(*states, v.n_fly, False)}
    return first | ({"last": Held(*states, sp.S.One, True)} if "logits" in assumptions else {})


def definitions(assumptions: Assumptions) -> tuple[Term, ...]:
    """The states of a chip, what a layer saves, and the recomputed layers, in order."""
    on = assumptions.on
    sequence, blocks = assumptions.sequence_parallel, assumptions.architecture
    saved = stage.saved_bytes(assumptions.fusion, sequence, blocks)
    inputs = stage.input_bytes(sequence)
    if "saved_tensors" not in assumptions:  # a stated number for each element of the layer's input
        saved = v.A_kept * inputs / v.e
    uneven = on("uneven_stages")
    in_flight = {v.n_fly: sp.Min(v.pp, v.n_mb, evaluate=False)}
    if uneven:
        saved_by = BY_ASSUMPTION[assumptions.schedule].saved
        second = sp.Min(1, v.pp - 1, evaluate=False)  # the first, where there is no other
        places = {v.n_fly: sp.S.Zero, v.q_2: second, v.q_l: v.pp - 1}
        in_flight = {symbol: saved_by.xreplace({v.i_p: place}) for symbol, place in places.items()}
    weights, gradients, optimizer = _states(v.psi, v.L_p, assumptions).values()
    terms = [
        define(v.M_states, stage.factored(weights + gradients) + optimizer, on("gradient_bytes")),
        *(define(symbol, number, uneven) for symbol, number in in_flight.items()),
        define(v.a_1, saved, on("saved_tensors")),
        define(v.a_0, inputs),
    ]
    if "logits" in assumptions:
        each = v.s_L if "kept_bytes" in assumptions else v.e + v.e_32
        terms.append(define(v.M_logits, each * stage.logits(), on("logits", "kept_bytes")))
    if uneven:
        held = stages_held(assumptions).values()
        terms += [define(one.whole, whole_bytes(one, assumptions), uneven) for one in held]
    rests_on = on("working_set", "logits", "uneven_stages")
    least = recomputed_layers(assumptions)
    given = {"none": sp.S.Zero, "full": v.L_p, "given": sp.Min(v.L_g, v.L_p, evaluate=False)}
    again = given.get(assumptions.recompute, least)
    return (*terms, define(v.L_r, again, rests_on))


def parameters(assumptions: Assumptions) -> list[Term]:
    """The parameters on a chip of the stages of which one is the fullest, and on the fullest."""
    on = assumptions.on("largest_stage", "uneven_stages")
    if "uneven_stages" not in assumptions:
        return [define(v.psi, chip_parameters(assumptions), on)]
    each, experts = (v.P - v.n_V * stage.TABLE) / (v.L * v.tp), []
    if assumptions.has_experts:
        every, own, whole = stage.layer_parameters(assumptions.architecture)
        gains = (v.P - v.n_V * stage.TABLE) / v.L - whole  # of norms, and what else is no product
        experts = [define(v.p_L, every + gains / v.tp, on), define(v.rho_E, own / v.p_L, on)]
        each = v.p_L
    by_stage = {
        v.psi_f: v.L_f * each + stage.TABLE / v.tp,
        v.psi_m: stages_held(assumptions)["second"].layers * each,
        v.psi_l: v.L_l * each + _tables() / v.tp,
    }
    terms = [*experts, *(define(symbol, expr, on) for symbol, expr in by_stage.items())]
    return [*terms, define(v.psi, sp.Max(*by_stage, evaluate=False), on)]


def chip_parameters(assumptions: Assumptions) -> sp.Expr:
    """Parameters on a chip: an even share, or those of the fullest of stages that are even."""
    if "largest_stage" not in assumptions:
        return v.P / (v.tp * v.pp)
    layers = (v.P - v.n_V * stage.TABLE) / v.pp
    return (layers + _tables()) / v.tp


def _tables() -> sp.Expr:
    """The parameters of the last stage's tables: embedding and head are on the first and the last,
    tied or not, and share a stage without a pipeline, where floor(1/p) is 1."""
    return stage.TABLE * (1 + (v.n_V - 1) * sp.floor(1 / v.pp, evaluate=False))


def _states(parameters: sp.Expr, layers: sp.Expr, assumptions: Assumptions) -> dict[str, sp.Expr]:
    """The bytes of the states of so many parameters of a chip and its layers, by kind."""
    sizes = {
        "weights": (v.e, v.x_w),
        "gradients": (v.e_k if "kept_bytes" in assumptions else v.e_g, v.x_g),
        "optimizer": (ADAM_FP32_COPIES * v.e_32, v.x_o),
    }
    return {
        kind: each * held_parameters(share, parameters, layers, assumptions)
        for kind, (each, share) in sizes.items()
    }


def recomputed_layers(assumptions: Assumptions) -> sp.Expr:
    """The least whole number of recomputed layers of a stage that fits (see above)."""
    return sp.Max(0, *_least(assumptions).values(), evaluate=False)


def lacking_layers(assumptions: Assumptions) -> sp.Expr:
    """How many layers more some stage has to run again than it does, or than it has: at most 0
    where every stage fits."""
    held = stages_held(assumptions)
    if assumptions.recompute == "least":
        needed, again = _least(assumptions), {name: one.layers for name, one in held.items()}
    else:
        extra = v.a_1 * sp.Min(1, v.L_r, evaluate=False)
        needed = _needed(assumptions, extra if "working_set" in assumptions else sp.S.Zero)
        again = {n: sp.Min(v.L_r, one.layers, evaluate=False) for n, one in held.items()}
    return sp.Max(*(needed[name] - again[name] for name in held), evaluate=False)


def _least(assumptions: Assumptions) -> dict[str, sp.Expr]:
    """The layers that each stage has to run again, a working set held where any is."""
    plain = _needed(assumptions, sp.S.Zero)
    if "working_set" not in assumptions:
        return plain
    any_again = sp.Min(1, sp.Max(0, *plain.values(), evaluate=False), evaluate=False)
    return _needed(assumptions, v.a_1 * any_again)


def _needed(assumptions: Assumptions, extra: sp.Expr) -> dict[str, sp.Expr]:
    """The layers that each stage has to run again, with some bytes held besides."""
    needed = {}
    for name, held in stages_held(assumptions).items():
        over = held.whole + extra - v.mu * v.M_hbm
        if held.whole == v.M_states:
            over += sp.Add(*_besides(held, assumptions).values())
        over += v.a_1 * held.layers * held.in_flight
        needed[name] = sp.ceiling(over / ((v.a_1 - v.a_0) * held.in_flight), evaluate=False)
    return needed


def whole_bytes(held: Held, assumptions: Assumptions) -> sp.Expr:
    """The bytes that a stage holds whatever it runs again."""
    kinds = {**_states(held.parameters, held.layers, assumptions), **_besides(held, assumptions)}
    return stage.factored(sp.Add(*kinds.values()))


def _besides(held: Held, assumptions: Assumptions) -> dict[str, sp.Expr]:
    """What a stage holds beside its states and its activations, by kind."""
    kinds = {}
    if "sharded_states" in assumptions:
        whole = 2 * (v.e + v.e_g) / held.layers
        if assumptions.gathers == "kept":
            whole = v.e + 2 * v.e_g / held.layers
        kinds["gathered"] = whole * GATHERED * held.parameters
    if held.head and "logits" in assumptions:
        kinds["logits"] = v.M_logits
    return kinds


def activations(held: Held) -> sp.Expr:
    """The bytes of the activations that a stage has saved."""
    again = v.L_r if held.layers == v.L_p else sp.Min(v.L_r, held.layers, evaluate=False)
    return (v.a_1 * (held.layers - again) + v.a_0 * again) * held.in_flight


def memory(assumptions: Assumptions) -> dict[str, tuple[Term, ...]]:
    """What each stage holds by kind, in bytes."""
    every = {}
    for name, held in stages_held(assumptions).items():
        kinds = {
            **_states(held.parameters, held.layers, assumptions),
            "activations": activations(held),
        }
        kinds |= _besides(held, assumptions)
        if "working_set" in assumptions:
            kinds["working_set"] = v.a_1 * sp.Min(1, v.L_r, evaluate=False)
        terms = (Term(k, x, byte, GLOSSES[k], assumptions.on(*ON[k])) for k, x in kinds.items())
        every[name] = tuple(terms)
    return every
