"""The step model in few operations: the same values by algebra, for grids of many plans.

Two facts carry it. The time of a micro-batch is proportional to its sequences b, so that the m + p
- 1 of them take (B/d + (p-1) b) times that of one sequence, and the m = B/(d b) drops out. And
min(p, m) micro-batches hold min(p b, B/d) sequences, so that the argument of a ceiling is a sum of
quotients by those and by b, whose numerators do not depend on the micro-batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from derive.cost.step import StepModel
from derive.notation import symbols as v

# Proportional to the sequences of a micro-batch where the recomputed layers are held.
BY_SEQUENCE = (
    v.t_1, v.t_avg, v.t_redo, v.t_slow, v.t_tp, v.t_ring, v.t_attn, v.t_cp, v.t_pp, v.t_mb,
)  # fmt: skip
HELD = sp.Dummy("held", positive=True)  # sequences in flight on the first stage
SHARE = sp.Dummy("share", positive=True)  # tokens of a rank for each of its tensor group
ALONE = 1 - sp.Min(1, v.pp - 1, evaluate=False)  # 1 for a single stage, 0 for more
AGAIN = sp.Dummy("again", nonnegative=True)  # 1 where a layer is recomputed, else 0


@dataclass(frozen=True)
class Reduced:
    """Recomputed layers and seconds of a step, with the definitions they rest on."""

    recomputed: sp.Expr
    seconds: sp.Expr
    definitions: dict[sp.Symbol, sp.Expr]


def reduced(model: StepModel) -> Reduced:
    """The model's recomputed layers and step time in few operations."""
    definitions = {v.find(term.name): _shorter(term.expr) for term in model.definitions}
    definitions[SHARE] = v.T_r / v.tp
    flying, count = definitions[v.n_fly], definitions[v.n_mb]
    sizes = [size.xreplace({v.n_mb: count}) * v.b_seq for size in sp.Min.make_args(flying)]
    definitions[HELD] = sp.Min(*sizes, evaluate=False)
    definitions[v.L_r] = _recomputed(definitions[v.L_r], definitions)
    return Reduced(v.L_r, _shorter(_seconds(model)), definitions)


def _shorter(expr: sp.Expr) -> sp.Expr:
    """`expr` in the tokens of a card, which nearly every term shares, and with a floor that tells
    one stage from more told by a comparison, which takes fewer operations."""
    return expr.xreplace({v.T_r: SHARE * v.tp, sp.floor(1 / v.pp, evaluate=False): ALONE})


def _seconds(model: StepModel) -> sp.Expr:
    seconds = sp.collect(sp.expand(model.seconds), v.n_mb)
    seconds = seconds.xreplace({model.term("t_mb").expr: v.t_mb})
    seconds = sp.expand(seconds)
    count = seconds.coeff(v.t_mb, 1).xreplace({v.n_mb: model.term("n_mb").expr})
    sequences = sp.collect(sp.expand(count * v.b_seq), v.b_seq)
    rest: sp.Expr = seconds.coeff(v.t_mb, 0)
    each: sp.Expr = v.t_mb
    for term in reversed(model.definitions):
        symbol = v.find(term.name)
        if symbol in BY_SEQUENCE:
            each = each.xreplace({symbol: term.expr.xreplace({v.b_seq: sp.S.One})})
    return sequences * each + rest


def _recomputed(expr: sp.Expr, definitions: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    """`expr` with the argument of each ceiling spread out, and min(1, layers) by its own name."""
    if not expr.has(sp.ceiling):
        return expr
    parts = [_recomputed(arg, definitions) for arg in expr.args]
    if isinstance(expr, sp.Min):
        definitions[AGAIN] = sp.Min(*parts, evaluate=False)
        return AGAIN
    if isinstance(expr, sp.ceiling):
        return sp.ceiling(_spread(parts[0], definitions), evaluate=False)
    return expr.func(*parts, evaluate=False)


def _spread(quotient: sp.Expr, definitions: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    instead = {s: definitions[s] for s in (v.a_1, v.a_0, v.M_logits) if s in definitions}
    instead[v.n_fly] = HELD / v.b_seq
    above, below = sp.fraction(sp.together(quotient, deep=False).xreplace(instead))
    below = sp.factor_terms(below)
    like: dict[sp.Expr, list[sp.Expr]] = {}
    for term in sp.Add.make_args(sp.expand(above)):
        column, high = (term / below).as_independent(HELD, AGAIN, v.b_seq, as_Add=False)
        like.setdefault(high, []).append(column)
    return sp.Add(*(high * sp.factor_terms(sp.Add(*columns)) for high, columns in like.items()))
