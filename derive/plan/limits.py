"""Thresholds of the step model: how long, how many, how wide, in closed form.

Each is the model's own terms set against each other: a load that must not exceed 1, solved for one
symbol. Shares (n-1)/n of a group stay exact; `large` takes them as 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sympy as sp

from derive.cost.step import step_model
from derive.cost.step_assumptions import NOTEBOOK, StepAssumptions
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError
from derive.notation.quantity import Quantity, evaluated
from derive.solve.powers import solved


@dataclass(frozen=True)
class Limit:
    """A bound on `asked`, under which `claim` holds: `>=` or `<=` the closed form `expr`."""

    claim: str
    asked: sp.Expr
    direction: str
    expr: sp.Expr

    def __str__(self) -> str:
        return f"{tex.text(self.asked)} {self.direction} {tex.text(self.expr)}"

    @property
    def relation(self) -> sp.Rel:
        """The bound as a SymPy relation."""
        kind = sp.Ge if self.direction == ">=" else sp.Le
        return kind(self.asked, self.expr, evaluate=False)

    def on(self, values: Mapping[sp.Symbol, Quantity]) -> Quantity:
        """The number, with its unit and tree; raises DeriveError for symbols without a value."""
        return evaluated(self.expr, values, v.unit_of_symbol(self.asked), self.asked.name)


def ring_tokens(assumptions: StepAssumptions = NOTEBOOK, *, large: bool = False) -> Limit:
    """The least tokens T_r of a context-parallel rank that hide the ring under the attention of a
    stage, without recomputation. `large` takes (c-1)/c as 1."""
    load = _per_token(assumptions, v.t_ring) / _per_token(assumptions, v.t_attn)
    load = load.xreplace({v.L_r: sp.S.Zero}).xreplace({v.T: v.cp * v.T_r})
    if large:
        load = load.xreplace({v.cp - 1: v.cp})
    return _solved("the ring hides under the attention", load, v.T_r)


def micro_batches() -> Limit:
    """The least micro-batches n_mb of a pipeline for a share epsilon of bubble in the step, with
    even stages and gradient traffic left out."""
    bubble = step_model(NOTEBOOK).term("bubble").expr
    # bubble <= epsilon (bubble + m t), with the terms of the bubble on one side.
    load = bubble * (1 - v.epsilon) / (v.epsilon * v.n_mb * v.t_mb)
    return _solved("the bubble takes at most epsilon of the step", load, v.n_mb)


def tensor_coefficient() -> sp.Expr:
    """Tensor communication over computation of a layer, per (t-1): what the law (t-1)/h rests on.

    Without recomputation and without the head. With bf16 it is 16 h P e/(B f).
    """
    layer = v.L_p * v.f_L * v.t_1
    ratio = _ratio(NOTEBOOK, v.t_tp, layer) / (v.tp - 1)
    return sp.simplify(ratio)


def tensor_degree() -> Limit:
    """The largest tensor degree for which communication is at most epsilon of a layer's
    computation."""
    bound = 1 + v.epsilon / tensor_coefficient()
    return Limit("tensor communication is at most epsilon of computation", v.tp, "<=", bound)


def gradient_tokens(assumptions: StepAssumptions = NOTEBOOK, *, large: bool = False) -> Limit:
    """The least tokens T_r of a micro-batch of one sequence on a chip that hide the gradients'
    reduce-scatter under its backward pass; attention and the vocabulary are left out, so that the
    parameters on a chip and their work cancel. `large` takes (n-1)/n of the data group as 1."""
    model = step_model(assumptions)
    if "two_level" in assumptions or "largest_stage" in assumptions:
        raise DeriveError("gradient_tokens has a closed form for one level and an even share only")
    work = 3 * v.fma * v.P / v.L
    backward = sp.Rational(2, 3) * v.L_p * work * model.term("t_1").expr
    instead = {v.psi: model.term("psi").expr, v.L_p: model.term("L_p").expr, v.b_seq: sp.S.One}
    load = (model.term("t_scatter").expr / backward).xreplace(instead)
    load = sp.simplify(load)
    if large:
        load = load.xreplace({v.cp * v.dp - 1: v.cp * v.dp})
    return _solved("the gradients hide under the backward pass", load, v.T_r)


def most_cards() -> Limit:
    """The most cards N a batch can feed so that the bubble takes at most epsilon of the step: the
    data degree is at most B_seq/(b n_mb) with the least n_mb of `micro_batches`."""
    fewest = micro_batches().expr
    bound = v.tp * v.cp * v.pp * v.B_seq / (v.b_seq * fewest)
    return Limit("the batch feeds every pipeline", v.N, "<=", bound)


def _ratio(assumptions: StepAssumptions, above: sp.Symbol, below: sp.Expr) -> sp.Expr:
    model = step_model(assumptions)
    over = model.term(above.name).expr.xreplace({v.L_r: sp.S.Zero})
    return over / below.xreplace({v.t_1: model.term("t_1").expr})


def _per_token(assumptions: StepAssumptions, symbol: sp.Symbol) -> sp.Expr:
    model = step_model(assumptions)
    expr = model.term(symbol.name).expr
    return expr.xreplace({v.t_1: model.term("t_1").expr, v.f_A: model.term("f_A").expr})


def _solved(claim: str, load: sp.Expr, symbol: sp.Symbol) -> Limit:
    found = solved(load, symbol)
    low, high = found.low, found.high
    if low is not None and high is None:
        return Limit(claim, symbol, ">=", sp.factor_terms(low))
    if high is not None and low is None:
        return Limit(claim, symbol, "<=", sp.factor_terms(high))
    raise DeriveError(f"{claim}: no single bound on {symbol}")
