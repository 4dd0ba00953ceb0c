"""The time of one training step: what a micro-batch costs on the slowest stage, then the step.

Per micro-batch the slowest stage, which is the last since it has the head, computes, runs
recomputed layers again, exchanges activations in its tensor group (not overlapped), passes keys and
values round its context group (under the attention) and hands activations to the next stage. A step
is m micro-batches, p - 1 more that fill and drain the pipeline, and the gradients' traffic.

FLOP and bytes are those of the layer's program (`stage`). What is stated here is what no program
holds: the schedule, what hides under what, and the links of the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

import sympy as sp

from derive.cost import kernels, stage
from derive.cost.assumptions import Assumptions
from derive.cost.network import CARDS, NODE, Network, Switch, TwoLevels
from derive.cost.passes import Program
from derive.cost.program import TRAVERSALS, Move, PassCost
from derive.cost.schedule import OF_STEP
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


def shape(assumptions: Assumptions, fabric: str) -> tuple[Term, ...]:
    """What the degrees make of the sequence, the batch and the layers, and of each group's link on
    a fabric of nodes with switches, or of a torus."""
    link = _torus_link if fabric == "torus" else _node_link
    shared = assumptions.on("network_share")
    reached = _reached if shared else {}
    uneven = assumptions.on("uneven_stages")
    return (
        define(v.T_r, v.T / v.cp),
        define(v.n_mb, v.B_seq / (v.dp * v.b_seq)),
        *(stages(uneven) if uneven else [define(v.L_p, v.L / v.pp)]),
        *(
            define(symbol, link(span).xreplace(reached), shared)
            for symbol, span in _spans(assumptions).items()
        ),
    )


_reached = {v.W_node: v.eta_node * v.W_node, v.W_dcn: v.eta_dcn * v.W_dcn}


def stages(rests_on: tuple[str, ...]) -> list[Term]:
    """The layers of the fullest stage, and of the first and the last, which hold the embedding and
    the head and so are the first to have one layer fewer where the layers do not divide."""
    fewest = sp.floor(v.L / v.pp, evaluate=False)
    more = v.L - v.pp * fewest  # stages with one layer more
    first = fewest + sp.Min(more, sp.Max(0, more - v.pp + 2, evaluate=False), evaluate=False)
    counts = {v.L_p: -sp.floor(-v.L / v.pp, evaluate=False), v.L_f: first, v.L_l: fewest}
    return [define(symbol, count, rests_on) for symbol, count in counts.items()]


def _spans(assumptions: Assumptions) -> dict[sp.Symbol, sp.Expr]:
    """The chips that the group of each link spans; those of an expert are neighbours."""
    return {**SPANS, v.W_ep: v.etp} if stage.KINDS[assumptions.blocks][1] else SPANS


def _node_link(span: sp.Expr) -> sp.Expr:
    """The network, or the node's switches where they are faster and no group straddles nodes, which
    is where the chips that it spans divide those of a node: floor(x) + floor(-x) + 1 is 1 for a
    whole x and 0 for any other."""
    nodes = v.n_node / span
    inside = sp.floor(nodes, evaluate=False) + sp.floor(-nodes, evaluate=False) + 1
    return sp.Max(v.W_dcn, v.W_node * inside, evaluate=False)


def _torus_link(span: sp.Expr) -> sp.Expr:
    """The network, or inside a pod of n_node chips a torus axis: each kind of group has one of its
    own, and where there are more kinds than axes they share them. A hop between stages goes one
    way, over half of an axis."""
    kinds = sp.Add(*(sp.Min(1, degree - 1, evaluate=False) for degree in (v.tp, v.cp, v.dp, v.pp)))
    share = sp.Min(1, v.M_axes / sp.Max(1, kinds, evaluate=False), evaluate=False)
    inside = sp.Min(1, sp.floor(v.n_node / span, evaluate=False), evaluate=False)
    one_way = sp.Rational(1, 2) if span == SPANS[v.W_pp] else sp.S.One
    return sp.Max(v.W_dcn, v.W_node * one_way * share * inside, evaluate=False)


def work(assumptions: Assumptions) -> tuple[Term, ...]:
    """FLOP per token of a layer and of the head, and the time of a micro-batch per such FLOP."""
    on = assumptions.on
    blocks = assumptions.blocks
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
        *_passes(assumptions),
    )


def _passes(assumptions: Assumptions) -> tuple[Term, ...]:
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
        under = fusion, assumptions.sequence_parallel, assumptions.blocks
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
    if _passes(assumptions):
        return {symbol: symbol for symbol in (v.t_A, v.t_dA, v.t_f, v.t_b, v.t_w, v.t_V)}
    share = stage.forward_share()
    return {
        v.t_A: v.f_A * share * v.t_1, v.t_dA: v.f_A * (1 - share) * v.t_1,
        v.t_f: v.f_L * share * v.t_1, v.t_b: v.f_L * (1 - share) * v.t_1, v.t_V: v.f_V * v.t_1,
        v.t_w: (v.f_L - v.f_A) * v.t_1 * share,
    }  # fmt: skip


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
Moves = Callable[[Iterable[PassCost]], tuple[Move, ...]]


def _of_layer(read: Callable[[Program], sp.Expr], assumptions: Assumptions) -> sp.Expr:
    """What is read off the program of a layer, on the mean over those of the model."""
    sequence, blocks = assumptions.sequence_parallel, assumptions.blocks
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
    if not stage.KINDS[assumptions.blocks][1]:
        return ()
    in_node = sp.Max(1, sp.floor(v.n_node / v.etp, evaluate=False), evaluate=False)
    near = define(v.n_wide, sp.Min(v.ep, in_node, evaluate=False))
    reached = _reached if "network_share" in assumptions else {}

    def time(passes: tuple[str, ...]) -> sp.Expr:
        def of_program(link: str) -> Callable[[Program], sp.Expr]:
            def read(whole: Program) -> sp.Expr:
                moves = stage.group_moves([getattr(whole, name) for name in passes], "ep")
                times = _by_link(moves, TwoLevels(in_node=v.n_wide), exact)
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
        define(v.t_F, v.L_p * times[v.t_f] + v.t_tp * sp.Rational(1, 2), rests_on),
        define(v.t_W, v.L_p * times[v.t_w], rests_on),
        define(v.t_B, v.t_mb - v.t_over - v.t_F - v.t_W, rests_on),
        define(v.t_z, (v.L_l - v.L_p + v.L_p / v.virtual) * each + times[v.t_V], rests_on),
    ]
    if assumptions.schedule == "zero-bubble":
        head = times[v.t_V] * sp.Rational(1, 3)  # one product of three, all of one size
        terms.append(define(v.t_Wz, v.L_l * times[v.t_w] + head, rests_on))
    return tuple(terms)


def _heads(ring: sp.Expr, assumptions: Assumptions) -> sp.Expr:
    """A ring's time with the heads of keys and values as the assumptions split them: over the
    tensor group as far as there are heads, or not at all."""
    if "ring_tensor" not in assumptions:
        return ring * v.tp
    return ring * v.tp / v.K * sp.Max(v.K / v.tp, 1, evaluate=False)


@lru_cache(maxsize=64)
def seconds(moves: tuple[Move, ...], network: Network, exact: bool) -> sp.Expr:
    """The time of some moves one after the other, in the terms of one chip."""
    return sp.Add(*_by_link(moves, network, exact).values())


def _by_link(moves: tuple[Move, ...], network: Network, exact: bool) -> dict[str, sp.Expr]:
    """As `seconds`, apart for each link of the network."""
    times: dict[str, sp.Expr] = {}
    for move in moves:
        for link, time in network.seconds(move, exact).items():
            times[link] = times.get(link, sp.S.Zero) + time
    return {link: stage.on_chip(time) for link, time in times.items()}


def gradients(assumptions: Assumptions, exact: bool) -> tuple[Term, ...]:
    """The time of the collectives of the data group, dp x cp chips: of all gradients and of all
    weights of a chip, which the layers' program moves for each parameter; and what of them a
    micro-batch waits for, where a layer's are moved for each."""
    layer = stage.layer()
    rests_on = assumptions.on("two_level", "network_share")
    network: Network = Switch("dp", v.W_dp)
    near: tuple[Term, ...] = ()
    if "two_level" in assumptions:
        chips = sp.Max(1, sp.floor(v.n_node / v.tp, evaluate=False), evaluate=False)
        near = (define(v.n_near, sp.Min(v.cp * v.dp, chips, evaluate=False), rests_on),)
        network = TwoLevels(in_node=v.n_near)
    at_once = "network_share" in assumptions
    scatter, gather = (
        _of_all_parameters(stage.gradient_moves(cost), network, exact, at_once)
        for cost in (layer.backward, layer.update)
    )
    if stage.KINDS[assumptions.blocks][1]:
        room = sp.Max(1, sp.floor(v.n_node / (v.ep * v.etp), evaluate=False), evaluate=False)
        group = v.tp * v.cp * v.dp / (v.etp * v.ep)
        near = (*near, define(v.n_deep, sp.Min(group, room, evaluate=False), rests_on))
        scatter, gather = _with_experts(scatter), _with_experts(gather)
    if "sharded_states" in assumptions:
        scatter, gather = _in_replicas(scatter), _in_replicas(gather)
        near = tuple(define(v.find(term.name), _in_replicas(term.expr), rests_on) for term in near)
        shared = v.e_g * (
            _in_replicas(stage.state_share()) * v.psi + _of_experts(v.L_p, assumptions)
        )
        between = Move("all_reduce", "gradients", ("replicas",), shared, critical=False)
        scatter += seconds((between,), Switch("dp", v.W_dp), exact)
    return (*near, define(v.t_scatter, scatter, rests_on), define(v.t_gather, gather, rests_on))


def _with_experts(time: sp.Expr) -> sp.Expr:
    """The time of a collective of a chip's parameters, those of experts over their own group."""
    own = time.xreplace({v.dp: v.tp * v.dp / (v.etp * v.ep), v.n_near: v.n_deep})
    return time + v.L_p * v.p_L * v.rho_E / v.psi * (own - time)


def _in_replicas(expr: sp.Expr) -> sp.Expr:
    """What the whole data group does where it is one of several that hold the same."""
    return expr.xreplace({v.dp: v.dp / v.replicas})


@lru_cache(maxsize=16)
def _of_all_parameters(
    moves: tuple[Move, ...], network: Network, exact: bool, at_once: bool
) -> sp.Expr:
    """The time of moves of a layer's parameters, for all that a chip has: on one link after the
    other, or on all at once at the share of their bandwidth that they give."""
    moved = sorted(moves, key=lambda move: move.tensor)
    parameters = sorted(stage.layer().parameters, key=lambda parameter: parameter[0].name)
    pairs = zip(moved, parameters, strict=True)
    ((collective, axes, each),) = {(m.collective, m.axes, m.array_bytes / n) for m, (_, n) in pairs}
    together = Move(collective, "parameters", axes, v.psi * each, critical=False)
    if not at_once:
        return sp.factor_terms(seconds((together,), network, exact))
    links = _by_link((together,), network, exact).values()
    times = (time.xreplace(_reached) for time in links)
    return sp.Max(*map(sp.factor_terms, times), evaluate=False)


def sharding(assumptions: Assumptions) -> tuple[Term, ...]:
    """What of the weights, the gradients and the optimizer state a chip holds under each stage of
    ZeRO, those of experts left out."""
    rests_on = assumptions.on("sharded_states")
    spared = 1 - _in_replicas(stage.state_share())
    return tuple(define(s, 1 - spared * split, rests_on) for s, split in SPLIT.items() if rests_on)


def held(
    share: sp.Symbol, parameters: sp.Expr, layers: sp.Expr, assumptions: Assumptions
) -> sp.Expr:
    """Some state, one of SPLIT, of a chip that has so many parameters and layers, in parameters: as
    ZeRO splits it, or as the layers' program does."""
    if "sharded_states" not in assumptions:
        return parameters * (stage.state_share() if share == v.x_o else sp.S.One)
    return share * parameters + SPLIT[share] * _of_experts(layers, assumptions)


def _of_experts(layers: sp.Expr, assumptions: Assumptions) -> sp.Expr:
    """How much more a chip holds of a state that is split, in parameters, since that of experts is
    over their own group."""
    if not stage.KINDS[assumptions.blocks][1]:
        return sp.S.Zero
    own = v.etp * v.ep / (v.tp * v.cp * v.dp)
    return layers * v.p_L * v.rho_E * _in_replicas(own - stage.state_share())


SCATTERED = sp.Min(1, sp.floor(v.zero / 2, evaluate=False), evaluate=False)
"""1 where gradients are reduced for each micro-batch (ZeRO-2 and 3), else 0."""
GATHERED = sp.floor(v.zero / 3, evaluate=False)
"""1 where weights are gathered for each pass (ZeRO-3), else 0."""
SPLIT = {v.x_o: sp.Min(1, v.zero, evaluate=False), v.x_g: SCATTERED, v.x_w: GATHERED}
"""1 where a state is split, else 0."""


def traffic(assumptions: Assumptions) -> tuple[Term, ...]:
    """The time that a micro-batch waits for weights and gradients: those of a layer move while the
    layer before it is computed, with its tensor communication."""
    rests_on = assumptions.on("sharded_states", "contention")
    if "sharded_states" not in assumptions:
        return ()
    times = layer_times(assumptions)
    half = v.t_tp / (2 * v.L_p)
    gather, scatter = (GATHERED * v.t_gather, SCATTERED * v.t_scatter)
    forward = _exposed(gather / v.L_p, times[v.t_f] + half, assumptions)
    backward = times[v.t_b] + v.t_redo / v.L_p + half
    again = gather if assumptions.gathers == "again" else sp.S.Zero
    both = _exposed((again + scatter) / v.L_p, backward, assumptions)
    return (define(v.t_wg, v.L_p * (forward + both), rests_on),)


def parts(assumptions: Assumptions) -> tuple[Term, ...]:
    """The parts of the step time, in seconds; they add up to the step."""
    on = assumptions.on
    uneven = v.t_slow - v.t_redo - v.t_avg
    parts: tuple[Term, ...] = (
        Term("compute", v.n_mb * v.t_avg, second, "computation of an average stage"),
        Term("recompute", v.n_mb * v.t_redo, second, "layers that are run again"),
        Term("imbalance", v.n_mb * uneven, second, "waiting for the slowest stage"),
        Term("tp", v.n_mb * v.t_tp, second, "tensor communication"),
        Term("cp", v.n_mb * v.t_cp, second, "the ring beyond what attention hides"),
        Term("pp", v.n_mb * v.t_pp, second, "hops between stages that are not hidden"),
        *(
            Term("ep", v.n_mb * v.t_ep, second, "rows to experts and back")
            for _ in (assumptions.blocks,)
            if stage.KINDS[assumptions.blocks][1]
        ),
        Term("bubble", _bubble(assumptions), second, "filling and draining", on("bubble")),
        _data_traffic(assumptions),
    )
    if rests_on := on("optimizer_step"):
        touched = v.s_opt * held(v.x_o, v.psi, v.L_p, assumptions) / (v.W_hbm * v.eta_hbm)
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
    schedule = OF_STEP[assumptions.schedule]
    # A hop that is hidden still takes its time; there and back are two.
    hidden = (1 - v.x_pp) * _hop() / 2
    return schedule.bubble + schedule.hops * hidden


def _hop() -> sp.Expr:
    """The time of a micro-batch's hop to the next stage and of the one back."""
    return seconds(stage.hops(), Switch("pp", v.W_pp), True)


def _data_traffic(assumptions: Assumptions) -> Term:
    """What of the gradients' and the weights' traffic is not hidden."""
    exposed = (v.t_scatter + v.t_gather) * v.x_dp
    if "gradient_window" in assumptions:
        times = layer_times(assumptions)
        scatter, gather = v.t_scatter, v.t_gather
        if "sharded_states" in assumptions:
            # Without ZeRO gradients are gathered, not updated weights.
            kind = sp.Min(1, v.zero, evaluate=False)
            scatter *= 1 - SCATTERED
            gather *= (1 - GATHERED) * (v.e_g / v.e * (1 - kind) + kind)
        exposed = _exposed(scatter, v.L_p * times[v.t_b] + v.t_redo, assumptions)
        exposed += _exposed(gather, v.L_p * times[v.t_f], assumptions)
    if "sharded_states" in assumptions:
        exposed += v.n_mb * v.t_wg
    rests_on = assumptions.on("gradient_window", "sharded_states", "contention")
    return Term("dp", exposed, second, "gradient traffic not hidden", rests_on)


def passes(work: sp.Expr, per_flop: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """The time of the forward and of the backward pass of a stage's layers, for a layer's work in
    FLOP per token and the time of a micro-batch per such FLOP."""
    both, share = v.L_p * work * per_flop, stage.forward_share()
    return both * share, both * (1 - share)


def model_flops() -> Term:
    """FLOP of a step that the model itself requires; recomputation is left out."""
    per_token = v.L * v.f_L + v.f_V
    return Term("model_flops", per_token * v.B_seq * v.T, flop, "FLOP the model requires")


def _exposed(time: sp.Expr, window: sp.Expr, assumptions: Assumptions) -> sp.Expr:
    """What of a time goes beyond a window that hides it, and by how much the hidden rest slows the
    window's own work."""
    if "contention" not in assumptions:
        return sp.Max(time, window, evaluate=False) - window
    hidden = sp.Min(time, v.x_win * window, evaluate=False)
    return time - (1 - v.x_hid) * hidden
