"""What the data group moves, gradients and weights, and what of it a step waits for: once a step,
or for each micro-batch and layer where ZeRO splits gradients or weights.
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from derive.cost import stage
from derive.cost.assumptions import Assumptions
from derive.cost.links import REACHED, by_link, seconds
from derive.cost.network import Network, Switch, TwoLevels
from derive.cost.program import Move
from derive.cost.sharding import GATHERED, SCATTERED, in_replicas, of_experts
from derive.cost.terms import Term, define
from derive.cost.work import layer_times
from derive.notation import symbols as v
from derive.notation.units import second


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
    if assumptions.has_experts:
        room = sp.Max(1, sp.floor(v.n_node / (v.ep * v.etp), evaluate=False), evaluate=False)
        deep = sp.Min(stage.EXPERT_DATA, room, evaluate=False)
        near = (*near, define(v.n_deep, deep, rests_on))
        scatter, gather = _with_experts(scatter), _with_experts(gather)
    if "sharded_states" in assumptions:
        scatter, gather = in_replicas(scatter), in_replicas(gather)
        near = tuple(define(v.find(term.name), in_replicas(term.expr), rests_on) for term in near)
        shared = v.e_g * (in_replicas(stage.state_share()) * v.psi + of_experts(v.L_p, assumptions))
        between = Move("all_reduce", "gradients", ("replicas",), shared, critical=False)
        scatter += seconds((between,), Switch("dp", v.W_dp), exact)
    return (*near, define(v.t_scatter, scatter, rests_on), define(v.t_gather, gather, rests_on))


def _with_experts(time: sp.Expr) -> sp.Expr:
    """The time of a collective of a chip's parameters, those of experts over their own group."""
    own = time.xreplace({v.dp: v.tp * v.dp / (v.etp * v.ep), v.n_near: v.n_deep})
    return time + v.L_p * v.p_L * v.rho_E / v.psi * (own - time)


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
    links = by_link((together,), network, exact).values()
    times = (time.xreplace(REACHED) for time in links)
    return sp.Max(*map(sp.factor_terms, times), evaluate=False)


def traffic(assumptions: Assumptions) -> tuple[Term, ...]:
    """The time that a micro-batch waits for weights and gradients: those of a layer move while the
    layer before it is computed, with its tensor communication."""
    rests_on = assumptions.on("sharded_states", "contention")
    if "sharded_states" not in assumptions:
        return ()
    times = layer_times(assumptions)
    share = stage.forward_moved()
    ahead, back = (x * v.t_tp / v.L_p for x in (share, 1 - share))
    gather, scatter = (GATHERED * v.t_gather, SCATTERED * v.t_scatter)
    forward = exposed(gather / v.L_p, times[v.t_f] + ahead, assumptions)
    backward = times[v.t_b] + v.t_redo / v.L_p + back
    again = gather if assumptions.gathers == "again" else sp.S.Zero
    both = exposed((again + scatter) / v.L_p, backward, assumptions)
    return (define(v.t_wg, v.L_p * (forward + both), rests_on),)


def data_traffic(assumptions: Assumptions) -> Term:
    """What of the gradients' and the weights' traffic is not hidden."""
    waited = (v.t_scatter + v.t_gather) * v.x_dp
    if "gradient_window" in assumptions:
        times = layer_times(assumptions)
        scatter, gather = v.t_scatter, v.t_gather
        if "sharded_states" in assumptions:
            # Without ZeRO gradients are gathered, not updated weights.
            kind = sp.Min(1, v.zero, evaluate=False)
            scatter *= 1 - SCATTERED
            gather *= (1 - GATHERED) * (v.e_g / v.e * (1 - kind) + kind)
        waited = exposed(scatter, v.L_p * times[v.t_b] + v.t_redo, assumptions)
        waited += exposed(gather, v.L_p * times[v.t_f], assumptions)
    if "sharded_states" in assumptions:
        waited += v.n_mb * v.t_wg
    rests_on = assumptions.on("gradient_window", "sharded_states", "contention")
    return Term("dp", waited, second, "gradient traffic not hidden", rests_on)


def exposed(time: sp.Expr, window: sp.Expr, assumptions: Assumptions) -> sp.Expr:
    """What of a time goes beyond a window that hides it, and by how much the hidden rest slows the
    window's own work."""
    if "contention" not in assumptions:
        return sp.Max(time, window, evaluate=False) - window
    hidden = sp.Min(time, v.x_win * window, evaluate=False)
    return time - (1 - v.x_hid) * hidden
