"""Thresholds of the step model: how long, how many, how wide, in closed form.

Each is the model's own terms set against each other: a load that must not exceed 1, solved for one
symbol. Shares (n-1)/n of a group stay exact; `large` takes them as 1. `limit` finds each by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import sympy as sp

from derive.cost.step import step_model
from derive.cost.step_assumptions import NOTEBOOK, StepAssumptions
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import NotClosedForm, unknown
from derive.notation.quantity import Quantity, evaluated
from derive.solve.powers import solved


@dataclass(frozen=True)
class Limit:
    """A bound on `asked`, under which `claim` holds: `>=` or `<=` the closed form `expr`.

    It is where `load`, what the claim compares, is 1.
    """

    claim: str
    asked: sp.Symbol
    direction: str
    expr: sp.Expr
    load: sp.Expr

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
    return sp.cancel(ratio)


def tensor_degree() -> Limit:
    """The largest tensor degree for which communication is at most epsilon of a layer's
    computation."""
    coefficient = tensor_coefficient()
    bound = 1 + v.epsilon / coefficient
    load = coefficient * (v.tp - 1) / v.epsilon
    return Limit("tensor communication is at most epsilon of computation", v.tp, "<=", bound, load)


def gradient_tokens(assumptions: StepAssumptions = NOTEBOOK, *, large: bool = False) -> Limit:
    """The least tokens T_r of a micro-batch of one sequence on a chip that hide the gradients'
    reduce-scatter under its backward pass; the work of attention and the vocabulary is left out.
    With an even share the parameters on a chip and their work cancel; with `largest_stage` psi is
    that of the fullest stage. `large` takes (n-1)/n of the data group as 1, with
    two levels that of its nodes."""
    model = step_model(assumptions)
    even = "largest_stage" not in assumptions
    work = 3 * v.fma * (v.P if even else v.P - v.n_V * v.V * v.D) / v.L
    backward = sp.Rational(2, 3) * v.L_p * work * model.term("t_1").expr
    instead = {v.L_p: model.term("L_p").expr, v.b_seq: sp.S.One}
    if even:
        instead[v.psi] = model.term("psi").expr
    scatter = model.term("t_scatter").expr
    if large:
        group = v.cp * v.dp
        far = group / v.n_near
        scatter = scatter.xreplace({n - 1: n for n in (group, far)})
    load = (scatter / backward).xreplace(instead)
    claim = "the gradients hide under the backward pass"
    return _solved(claim, sp.factor(load) if even else load, v.T_r)


def most_cards() -> Limit:
    """The most cards N a batch can feed so that the bubble takes at most epsilon of the step: the
    data degree is at most B_seq/(b n_mb) with the least n_mb of `micro_batches`."""
    fewest = micro_batches().expr
    bound = v.tp * v.cp * v.pp * v.B_seq / (v.b_seq * fewest)
    return Limit("the batch feeds every pipeline", v.N, "<=", bound, v.N / bound)


@dataclass(frozen=True)
class Kind:
    """A limit by name: what it is about, and how it is made of assumptions and `large`."""

    gloss: str
    made: Callable[[StepAssumptions, bool], Limit]


LIMITS: Mapping[str, Kind] = MappingProxyType(
    {
        "context_ring": Kind(
            "tokens of a context-parallel rank that hide the ring under attention",
            lambda assumptions, large: ring_tokens(assumptions, large=large),
        ),
        "pipeline_bubble": Kind(
            "micro-batches for a share of bubble in the step", lambda *_: micro_batches()
        ),
        "tensor_share": Kind(
            "tensor degree for a share of communication", lambda *_: tensor_degree()
        ),
        "gradient_sync": Kind(
            "tokens on a chip that hide the gradients' reduce-scatter under the backward pass",
            lambda assumptions, large: gradient_tokens(assumptions, large=large),
        ),
        "batch_feed": Kind("cards that a batch can feed", lambda *_: most_cards()),
    }
)


def limit(
    name: str,
    symbol: sp.Symbol | None = None,
    assumptions: StepAssumptions = NOTEBOOK,
    *,
    large: bool = False,
) -> Limit:
    """The limit of that name, on its own symbol or on any other of its load: the least bandwidth
    W_cp that hides the ring as well as the least tokens.

    Raises UnknownName for no such limit or a symbol that plays no part in it, and NotClosedForm.
    """
    if name not in LIMITS:
        raise unknown("limit", name, LIMITS)
    found = LIMITS[name].made(assumptions, large)
    if symbol is None or symbol == found.asked:
        return found
    if symbol not in found.load.free_symbols:
        known = sorted(found.load.free_symbols, key=v.rank)
        raise unknown(f"symbol of {name}", symbol.name, [s.name for s in known])
    other = _solved(found.claim, found.load, symbol)
    return replace(other, expr=min(other.expr, sp.factor(other.expr), key=sp.count_ops))


def filled(
    of: Limit, assumptions: StepAssumptions, values: Mapping[sp.Symbol, Quantity]
) -> tuple[dict[sp.Symbol, Quantity], list[sp.Symbol]]:
    """`values` with what a limit needs besides and the model defines, such as the link of a group
    from its size; and the symbols that are still without a value, in order.

    What is defined by the symbol that is asked for is needed itself, where that has no value.
    """
    model = step_model(assumptions)
    defined = {v.find(term.name): term.expr for term in model.definitions}
    found = dict(values)
    missing: set[sp.Symbol] = set()

    def fill(symbol: sp.Symbol) -> bool:
        if symbol in found:
            return True
        needs = defined[symbol].free_symbols if symbol in defined else {of.asked}
        if of.asked in needs and of.asked not in found:
            missing.add(symbol)
            return False
        if symbol not in defined:
            missing.add(symbol)
            return False
        if not all([fill(s) for s in sorted(needs, key=v.rank)]):
            return False
        unit = v.unit_of_symbol(symbol)
        found[symbol] = evaluated(defined[symbol], found, unit, symbol.name)
        return True

    for symbol in sorted(of.expr.free_symbols, key=v.rank):
        fill(symbol)
    return found, sorted(missing, key=v.rank)


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
        return Limit(claim, symbol, ">=", sp.factor_terms(low), load)
    if high is not None and low is None:
        return Limit(claim, symbol, "<=", sp.factor_terms(high), load)
    raise NotClosedForm(f"{claim}: no single bound on {symbol}")
