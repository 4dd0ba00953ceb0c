"""The proof of each kind of step, which starts again from the strategy's declaration."""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, ProofError, quoted
from derive.solve.conditions import pass_terms
from derive.solve.proof import proved_equal, proved_threshold
from derive.solve.question import Question, mesh_in_terms_of_chips
from derive.solve.step import (
    Claimed,
    Step,
    binding_passes,
    split_loads,
    split_of,
    state_of,
    time_of,
)


@lru_cache(maxsize=512)
def prove(step: Claimed) -> str:
    """How the claim of a step was proved: "symbolically", "at points", "on both sides", or, for the
    load of a limit, "by the step model".

    Raises ProofError naming the strategy or the limit, the step and a point where the claim fails.
    """
    if not isinstance(step, Claimed):
        raise DeriveError(f"expected a step of a derivation, found {quoted(step)}")
    return step.proof()


def proof_of(step: Step) -> str:
    """As `prove`, of a step of a strategy's threshold; it starts from the declaration."""
    found = step.threshold
    where = f"{found.strategy.name}, {step.kind}"
    if step.kind == "threshold":
        return _prove_threshold(step, where)
    if step.kind == "capacity":
        return _prove_capacity(step, where)
    if not isinstance(step.claim, sp.Eq):
        raise ProofError(f"{where}: expected an equation, found {step.claim}")
    if step.kind == "mesh":
        left = found.strategy.chips.xreplace({step.claim.lhs: step.claim.rhs})
        return proved_equal(left, v.N, where)
    if step.kind == "split":
        return _prove_split(step, where)
    if step.kind == "best":
        return _prove_best(step, where)
    return _prove_times(step, where)


def _prove_times(step: Step, where: str) -> str:
    """Put the times of the declaration, and C/W for alpha, into the claim and compare the sides."""
    found = step.threshold
    cost = next(c for c in pass_terms(found.strategy, found.assumptions) if c.name == step.passes)
    times: dict[sp.Symbol, sp.Expr] = {v.T_math: cost.seconds, v.alpha: v.C / v.W}
    times |= {time_of(term.where): term.seconds for term in cost.terms}
    if step.kind == "implied":
        _prove_implied(step, where)
    bind = found.assumptions.constants if step.kind in ("load", "implied") else {}
    sides = [side.xreplace(times).xreplace(bind) for side in (step.claim.lhs, step.claim.rhs)]
    return proved_equal(sides[0], sides[1], where)


def _prove_implied(step: Step, where: str) -> None:
    """The claimed share is no larger than the binding pass's on the same network."""
    claimed = step.claim.rhs.xreplace({v.alpha: v.C / v.W})
    for cost in binding_passes(step.threshold):
        for term in cost.terms:
            ratio = claimed / term.load
            if term.where == step.where and not (isinstance(ratio, sp.Rational) and ratio <= 1):
                raise ProofError(f"{where}: {tex.text(step.claim)} asks more than {cost.name}")


def _prove_best(step: Step, where: str) -> str:
    """At the split the loads are equal and the claimed ratio is theirs, or it is their sum."""
    found = step.threshold
    split = split_of(step)
    at = {split.symbol: split.at.xreplace({v.alpha: v.C / v.W})}
    here = [load.xreplace(at) for load in split_loads(found, split)]
    if found.assumptions.overlap == "concurrent":
        proved_equal(here[0], here[-1], where)
        here = here[:1]
    times = {v.T_comms: sp.Add(*here) * v.T_math, v.alpha: v.C / v.W}
    sides = [side.xreplace(times) for side in (step.claim.lhs, step.claim.rhs)]
    return proved_equal(sides[0], sides[1], where)


def _prove_split(step: Step, where: str) -> str:
    """At the claimed split the loads are equal, or their derivative is zero and the second one
    positive."""
    found = step.threshold
    _, free = mesh_in_terms_of_chips(found.strategy, found.question, found.fixed)
    if step.claim.lhs != free:
        raise ProofError(f"{where}: expected a value of {free}, found {step.claim}")
    loads = split_loads(found, split_of(step))
    at = {free: step.claim.rhs.xreplace({v.alpha: v.C / v.W})}
    if found.assumptions.overlap == "concurrent":
        first, second = (load.xreplace(at) for load in loads)
        return proved_equal(first, second, where)
    rising, falling = _by_sign(sp.diff(sp.Add(*loads), free), free)
    second_derivative = sp.diff(sp.Add(*loads), free, 2).xreplace(at)
    if not second_derivative.is_positive:
        raise ProofError(f"{where}: the second derivative is not positive")
    return proved_equal(rising.xreplace(at), -falling.xreplace(at), where)


def _by_sign(expr: sp.Expr, symbol: sp.Symbol) -> tuple[sp.Expr, sp.Expr]:
    """The positive and the negative terms of a sum."""
    positive = [t for t in sp.Add.make_args(sp.expand(expr)) if not t.could_extract_minus_sign()]
    negative = [t for t in sp.Add.make_args(sp.expand(expr)) if t.could_extract_minus_sign()]
    return sp.Add(*positive), sp.Add(*negative)


def _prove_threshold(step: Step, where: str) -> str:
    found = step.threshold
    bounds = []
    for relation in step.claims:
        if not isinstance(relation, (sp.Ge, sp.Le)) or relation.lhs != found.question.expr:
            raise ProofError(
                f"{where}: expected a bound on {found.question.expr}, found {relation}"
            )
        bounds.append((">=" if isinstance(relation, sp.Ge) else "<=", relation.rhs))
    if found.bounds[0].where == ("memory",):
        return _prove_state(step, where, bounds)
    proved_threshold(found.strategy, found.assumptions, found.question, bounds, found.fixed)
    return "on both sides"


def _prove_capacity(step: Step, where: str) -> str:
    if not isinstance(step.claim, sp.Le) or step.claim.rhs != v.M_hbm:
        raise ProofError(f"{where}: expected a bound by {v.M_hbm}, found {step.claim}")
    return proved_equal(step.claim.lhs, state_of(step.threshold), where)


def _prove_state(step: Step, where: str, bounds: list[tuple[str, sp.Expr]]) -> str:
    """At the bound the state fills the memory exactly, and it grows with what the bound limits."""
    found = step.threshold
    asked: Question = found.question
    state = state_of(found) / v.M_hbm
    for direction, bound in bounds:
        proved_equal(state.xreplace({asked.main: bound / asked.rest}), sp.S.One, where)
        slope = sp.diff(state, asked.main)
        if not (slope.is_positive if direction == "<=" else slope.is_negative):
            raise ProofError(f"{where}: {step.claim} points the wrong way")
    return "on both sides"
