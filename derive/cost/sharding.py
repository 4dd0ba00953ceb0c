"""How ZeRO splits the states of a chip: the optimizer's from its first stage on, gradients from its
second, weights from its third, over the data group or over one of several that hold the same.
"""

from __future__ import annotations

import sympy as sp

from derive.cost import stage
from derive.cost.assumptions import Assumptions
from derive.cost.terms import Term, define
from derive.notation import symbols as v

SCATTERED = sp.Min(1, sp.floor(v.zero / 2, evaluate=False), evaluate=False)
"""1 where gradients are reduced for each micro-batch (ZeRO-2 and 3), else 0."""


GATHERED = sp.floor(v.zero / 3, evaluate=False)
"""1 where weights are gathered for each pass (ZeRO-3), else 0."""


SPLIT = {v.x_o: sp.Min(1, v.zero, evaluate=False), v.x_g: SCATTERED, v.x_w: GATHERED}
"""1 where a state is split, else 0."""


def sharding(assumptions: Assumptions) -> tuple[Term, ...]:
    """What of the weights, the gradients and the optimizer state a chip holds under each stage of
    ZeRO, those of experts left out."""
    rests_on = assumptions.on("sharded_states")
    spared = 1 - in_replicas(stage.state_share())
    return tuple(define(s, 1 - spared * split, rests_on) for s, split in SPLIT.items() if rests_on)


def held_parameters(
    share: sp.Symbol, parameters: sp.Expr, layers: sp.Expr, assumptions: Assumptions
) -> sp.Expr:
    """Some state, one of SPLIT, of a chip that has so many parameters and layers, in parameters: as
    ZeRO splits it, or as the layers' program does."""
    if "sharded_states" not in assumptions:
        return parameters * (stage.state_share() if share == v.x_o else sp.S.One)
    return share * parameters + SPLIT[share] * of_experts(layers, assumptions)


def of_experts(layers: sp.Expr, assumptions: Assumptions) -> sp.Expr:
    """How much more a chip holds of a state that is split, in parameters, since that of experts is
    over their own group."""
    if not assumptions.has_experts:
        return sp.S.Zero
    return layers * v.p_L * v.rho_E * in_replicas(1 / stage.EXPERT_DATA - stage.state_share())


def in_replicas(expr: sp.Expr) -> sp.Expr:
    """What the whole data group does where it is one of several that hold the same."""
    return expr.xreplace({v.dp: v.dp / v.replicas})
