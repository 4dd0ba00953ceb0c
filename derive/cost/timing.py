"""The time of one training step: what a micro-batch costs on the slowest stage, then the step.

Per micro-batch the slowest stage, as a rule the last since it has the head, computes, runs
recomputed layers again, exchanges activations in its tensor group, passes keys and values round its
context group (under the attention), sends rows to experts and back, waits for what ZeRO moves
(`traffic`) and hands activations to the next stage. A step is m micro-batches, the bubble and the
hops of the pipeline (`schedule`), the gradients' traffic, and the optimizer's own step.

FLOP and bytes are those of the layer's program (`stage`). What is stated here is what no program
holds: what hides under what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import sympy as sp

from derive.cost import stage
from derive.cost.assumptions import Assumptions
from derive.cost.links import REACHED, by_link, seconds
from derive.cost.network import CARDS, NODE, Switch, TwoLevels
from derive.cost.passes import Program
from derive.cost.program import TRAVERSALS
from derive.cost.schedule import BY_ASSUMPTION
from derive.cost.sharding import held_parameters
from derive.cost.terms import Term, define
from derive.cost.traffic import data_traffic, traffic
from derive.cost.work import layer_times
from derive.notation import symbols as v
from derive.notation.units import second


def shape(assumptions: Assumptions) -> tuple[Term, ...]:
    """What the degrees make of the sequence, the batch and the layers, unless those are given."""
    uneven = assumptions.on("uneven_stages")
    even = stages(uneven) if uneven else [define(v.L_p, v.L / v.pp)]
    return (
        define(v.T_r, v.T / v.cp),
        define(v.n_mb, v.B_seq / (v.dp * v.b_seq)),
        *(even if assumptions.stages == "even" else ()),
    )


def stages(rests_on: tuple[str, ...]) -> list[Term]:
    """The layers of the fullest stage, and of the first and the last, which hold the embedding and
    the head and so are the first to have one layer fewer where the layers do not divide."""
    fewest = sp.floor(v.L / v.pp, evaluate=False)
    more = v.L - v.pp * fewest  # stages with one layer more
    first = fewest + sp.Min(more, sp.Max(0, more - v.pp + 2, evaluate=False), evaluate=False)
    counts = {v.L_p: -sp.floor(-v.L / v.pp, evaluate=False), v.L_f: first, v.L_l: fewest}
    return [define(symbol, count, rests_on) for symbol, count in counts.items()]


def micro_batch(assumptions: Assumptions, exact: bool) -> tuple[Term, ...]:
    """The time of a micro-batch on the slowest stage and what it is made of, in seconds."""
    on = assumptions.on
    again = v.L_r if "recompute_collectives" in assumptions else sp.S.Zero
    times = layer_times(assumptions)
    each = times[v.t_f] + times[v.t_b]

    def layers(each: sp.Expr, once_more: sp.Expr) -> sp.Expr:
        """All layers of a stage, and the recomputed ones once more."""
        return stage.factored(v.L_p * each + again * once_more)

    in_group = [_in_group(passes, assumptions, exact) for passes in (BOTH, BOTH[:1])]
    round_ring = [_round_ring(passes, assumptions, exact) for passes in (BOTH, BOTH[:1])]
    hops = _hop()
    piped = 1 - sp.floor(1 / v.pp, evaluate=False)
    uneven = on("uneven_stages")
    fewer = (v.L_p - v.L_l) * each
    beyond = v.t_over if uneven else times[v.t_V]
    attention = stage.factored(v.L_p * (times[v.t_A] + times[v.t_dA]) + again * times[v.t_A])
    return (
        define(v.t_avg, stage.factored((v.L * each + times[v.t_V]) / v.pp)),
        define(v.t_redo, v.L_r * times[v.t_f]),
        *(
            define(v.t_over, sp.Max(times[v.t_V], fewer, evaluate=False) - fewer, (name,))
            for name in uneven
        ),
        define(v.t_slow, stage.factored(v.L_p * each + beyond) + v.t_redo, uneven),
        define(v.t_tp, layers(*in_group), on("recompute_collectives", "contention")),
        define(v.t_ring, layers(*round_ring), on("ring_tensor", "recompute_collectives")),
        define(v.t_attn, attention, on("recompute_collectives")),
        define(v.t_cp, sp.Max(v.t_ring, v.t_attn, evaluate=False) - v.t_attn),
        define(v.t_pp, (v.virtual if uneven else 1) * hops * v.x_pp * piped, uneven),
        *(waits := traffic(assumptions)),
        *(away := experts_away(assumptions, exact)),
        define(v.t_mb, sp.Add(v.t_slow, v.t_tp, v.t_cp, v.t_pp, *_waited((*waits, *away)))),
        *_inner_stage(assumptions),
    )


def _waited(terms: Iterable[Term]) -> list[sp.Symbol]:
    """The times among some definitions."""
    return [v.find(term.name) for term in terms if term.unit == second]


BOTH = ("forward", "backward")


def _of_layer(read: Callable[[Program], sp.Expr], assumptions: Assumptions) -> sp.Expr:
    """What is read off the program of a layer, on the mean over those of the model."""
    sequence, blocks = assumptions.sequence_parallel, assumptions.architecture
    if blocks == "dense":  # whose moves do not depend on the gate
        return read(stage.layer(sequence))
    return stage.mean_layer(lambda b: read(stage.laid_out(b, sequence=sequence)), blocks)


def _in_group(passes: tuple[str, ...], assumptions: Assumptions, exact: bool) -> sp.Expr:
    """The time of the tensor groups' moves that is not hidden, a hop from chip to chip at a time:
    a collective goes as many as it has other chips, an all-reduce twice as many."""

    def time(whole: Program) -> sp.Expr:
        every = [getattr(whole, name) for name in passes]
        total = sp.S.Zero
        for axis, link in (("tp", v.W_tp), ("etp", v.W_ep)):
            moves = stage.group_moves(every, axis)
            total += seconds(moves, Switch(axis, link), exact)
            if "fixed_times" in assumptions:
                rounds = sum(TRAVERSALS[move.collective] for move in moves)
                total += rounds * (v.find(axis) - 1) * v.t_hop
        return total

    shared = v.x_tp if "contention" in assumptions else sp.S.One
    return shared * _of_layer(time, assumptions)


def _round_ring(passes: tuple[str, ...], assumptions: Assumptions, exact: bool) -> sp.Expr:
    def time(whole: Program) -> sp.Expr:
        moves = stage.ring_moves(getattr(whole, name) for name in passes)
        return seconds(moves, Switch("cp", v.W_cp), exact)

    return _heads(_of_layer(time, assumptions), assumptions)


def experts_away(assumptions: Assumptions, exact: bool) -> tuple[Term, ...]:
    """The time that rows take to the experts of other chips and back, as far as nothing hides it: a
    row leaves for other nodes n_M times, as often as it has experts, or once for each node where it
    is handed on inside; and the two levels work at once."""
    if not assumptions.has_experts:
        return ()
    in_node = sp.Max(1, sp.floor(v.n_node / v.etp, evaluate=False), evaluate=False)
    near = define(v.n_wide, sp.Min(v.ep, in_node, evaluate=False))
    reached = REACHED if "network_share" in assumptions else {}

    def time(passes: tuple[str, ...]) -> sp.Expr:
        def of_program(link: str) -> Callable[[Program], sp.Expr]:
            def read(whole: Program) -> sp.Expr:
                moves = stage.group_moves([getattr(whole, name) for name in passes], "ep")
                times = by_link(moves, TwoLevels(in_node=v.n_wide), exact)
                return times.get(link, sp.S.Zero).xreplace(reached)

            return read

        inside, out = (_of_layer(of_program(link), assumptions) for link in (NODE, CARDS))
        return stage.factored(sp.Max(inside, out * v.n_M / v.n_k, evaluate=False))

    both, again = time(BOTH), time(BOTH[:1])
    return (near, define(v.t_ep, v.x_ep * (v.L_p * both + v.L_r * again)))


def _inner_stage(assumptions: Assumptions) -> tuple[Term, ...]:
    """What the schedule is told of an inner stage: the time of its passes, the part of a piece that
    stages before the last lack, and, where it waits, the weights' gradients of the last stage."""
    rests_on = assumptions.on("uneven_stages")
    if not rests_on:
        return ()
    times = layer_times(assumptions)
    each = (v.t_F + v.t_B + v.t_W) / v.L_p
    lacking = (v.pp - 1) * v.L_p - (v.L - v.L_l)
    terms = [
        define(v.zeta, lacking * v.virtual / v.L_p, rests_on),
        define(v.t_F, v.L_p * times[v.t_f] + v.t_tp * stage.forward_moved(), rests_on),
        define(v.t_W, v.L_p * times[v.t_w], rests_on),
        define(v.t_B, v.t_mb - v.t_over - v.t_F - v.t_W, rests_on),
        define(v.t_z, (v.L_l - v.L_p + v.L_p / v.virtual) * each + times[v.t_V], rests_on),
    ]
    if assumptions.schedule == "zero-bubble":
        head = times[v.t_V] * stage.forward_share()  # a product as large as the forward one
        terms.append(define(v.t_Wz, v.L_l * times[v.t_w] + head, rests_on))
    return tuple(terms)


def _heads(ring: sp.Expr, assumptions: Assumptions) -> sp.Expr:
    """A ring's time with the heads of keys and values as the assumptions split them: over the
    tensor group as far as there are heads, or not at all."""
    if "ring_tensor" not in assumptions:
        return ring * v.tp
    return ring * v.tp / v.K * sp.Max(v.K / v.tp, 1, evaluate=False)


def parts(assumptions: Assumptions) -> tuple[Term, ...]:
    """The parts of the step time, in seconds; they add up to the step."""
    on = assumptions.on
    uneven, experts = v.t_slow - v.t_redo - v.t_avg, assumptions.has_experts
    parts: tuple[Term, ...] = (
        Term("compute", v.n_mb * v.t_avg, second, "computation of an average stage"),
        Term("recompute", v.n_mb * v.t_redo, second, "layers that are run again"),
        Term("imbalance", v.n_mb * uneven, second, "waiting for the slowest stage"),
        Term("tp", v.n_mb * v.t_tp, second, "tensor communication"),
        Term("cp", v.n_mb * v.t_cp, second, "the ring beyond what attention hides"),
        Term("pp", v.n_mb * v.t_pp, second, "hops between stages that are not hidden"),
        *([Term("ep", v.n_mb * v.t_ep, second, "rows to experts and back")] if experts else []),
        Term("bubble", _bubble(assumptions), second, "filling and draining", on("bubble")),
        data_traffic(assumptions),
    )
    if rests_on := on("optimizer_step"):
        touched = (
            v.s_opt * held_parameters(v.x_o, v.psi, v.L_p, assumptions) / (v.W_hbm * v.eta_hbm)
        )
        parts += (Term("optimizer", touched, second, "the optimizer's own step", rests_on),)
    if rests_on := on("fixed_times"):
        parts += (Term("overhead", v.t_fix, second, "beside the work of a step", rests_on),)
    return parts


def _bubble(assumptions: Assumptions) -> sp.Expr:
    """What a step takes beyond the micro-batches of the slowest stage: that all others fill and
    drain the pipeline, a virtual stage at a time."""
    if "bubble" not in assumptions:
        return (v.pp - 1) * v.t_mb
    times = layer_times(assumptions)
    if "uneven_stages" not in assumptions:
        return (v.pp - 1) * (v.t_mb - times[v.t_V])
    schedule = BY_ASSUMPTION[assumptions.schedule]
    # A hop that is hidden still takes its time; there and back are two.
    hidden = (1 - v.x_pp) * _hop() / 2
    return schedule.bubble + schedule.hops * hidden


def _hop() -> sp.Expr:
    """The time of a micro-batch's hop to the next stage and of the one back."""
    return seconds(stage.hops(), Switch("pp", v.W_pp), True)
