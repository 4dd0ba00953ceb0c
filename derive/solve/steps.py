"""The derivation of a threshold as data: each step is words and a claim, and every claim is proved.

The claims are what a reader sees; the proofs start again from the strategy's declaration, so that a
claim with a changed coefficient fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import sympy as sp

from derive.cost.assumptions import DEFAULT, Assumptions, assume
from derive.cost.moves import Move
from derive.cost.strategies import Strategy
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import ProofError
from derive.solve.conditions import PassTerms, Split, Term, conditions, pass_terms
from derive.solve.proof import proved_equal, proved_threshold
from derive.solve.question import Question, chips_asked, mesh_in_terms_of_chips
from derive.solve.threshold import Threshold, in_alpha, threshold

TIMES = {"X": v.T_X, "Y": v.T_Y, "Z": v.T_Z, "S": v.T_S, "hbm": v.T_hbm}
NAMES = {
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "all_reduce": "all-reduce",
    "all_to_all": "all-to-all",
    "send": "send",
    "load": "load",
}


@dataclass(frozen=True)
class Step:
    """A step of a derivation: what it says in words, its claim, and what the claim is proved from.

    `kind` is computation, communication, load, implied, mesh, split, best, capacity or threshold;
    `passes` and `where` name the pass and the network it speaks of.
    """

    kind: str
    words: str
    claim: sp.Rel
    threshold: Threshold
    passes: str = ""
    where: str = ""
    also: tuple[sp.Rel, ...] = ()

    @property
    def claims(self) -> tuple[sp.Rel, ...]:
        """The claim, and the further bounds of a threshold that has several."""
        return (self.claim, *self.also)

    @property
    def latex(self) -> str:
        """The claim as TeX, without delimiters."""
        return r" \quad\text{and}\quad ".join(tex.tex(claim) for claim in self.claims)

    @property
    def text(self) -> str:
        """The claim as plain text."""
        return " and ".join(tex.text(claim) for claim in self.claims)

    def with_claim(self, claim: sp.Rel) -> Step:
        """The same step with the claim an author prefers; to be proved before it is printed."""
        return replace(self, claim=claim)

    def __str__(self) -> str:
        return f"{self.words}:\n    {self.text}"

    __repr__ = __str__

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex}$"


class Derivation(tuple[Step, ...]):
    """The steps in order; shown in full in a terminal and as mathematics in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(f"{place}. {step}" for place, step in enumerate(self, 1))

    def _repr_markdown_(self) -> str:
        parts = (f"{n}. {s.words}:\n\n   $$\n   {s.latex}\n   $$\n" for n, s in enumerate(self, 1))
        return "\n".join(parts)


def steps(
    strategy: Strategy,
    asked: sp.Expr,
    assumptions: Assumptions = DEFAULT,
    *,
    fixed: Iterable[sp.Symbol] = (),
    **changes: object,
) -> Derivation:
    """The derivation of `threshold(strategy, asked)` for the pass that binds, each step proved.

    Raises what `threshold` raises, and ProofError where a step does not hold (a bug, never input).
    """
    found = threshold(strategy, asked, assume(assumptions, **changes), fixed=fixed)
    made = Derivation(_derivation(found))
    for step in made:
        prove(step)
    return made


def _derivation(found: Threshold) -> list[Step]:
    if found.bounds[0].where == ("memory",):
        return [_capacity_step(found), _threshold_step(found)]
    made: list[Step] = []
    for cost in _binding_passes(found):
        made.append(_computation_step(found, cost))
        made += [_communication_step(found, cost, term) for term in cost.terms]
        made += [_load_step(found, cost, term) for term in cost.terms]
    made += _implied_steps(found)
    given, free = mesh_in_terms_of_chips(found.strategy, found.question, found.fixed)
    made += [
        Step("mesh", f"The mesh axes multiply to the chips, so {s} follows", sp.Eq(s, x), found)
        for s, x in given
    ]
    if free is not None:
        made += _split_steps(found, free)
    return [*made, _threshold_step(found)]


def _binding_passes(found: Threshold) -> list[PassTerms]:
    """The passes that the bounds rest on, one of those that bind alike."""
    every = pass_terms(found.strategy, found.assumptions)
    named = {name for split in found.splits for name in split.passes}
    for condition in conditions(found.strategy, found.assumptions):
        if not named & set(condition.passes):
            named.add(condition.passes[0])
    return [cost for cost in every if cost.name in named]


def _computation_step(found: Threshold, cost: PassTerms) -> Step:
    words = f"A chip computes its share of the {cost.name} pass in"
    return Step("computation", words, sp.Eq(v.T_math, cost.seconds), found, cost.name)


def _communication_step(found: Threshold, cost: PassTerms, term: Term) -> Step:
    words = f"Over {_network(term.where)} it moves {_listed(term.moves)}, in"
    claim = sp.Eq(_time(term.where), term.seconds)
    return Step("communication", words, claim, found, cost.name, term.where)


def _load_step(found: Threshold, cost: PassTerms, term: Term) -> Step:
    words = f"With {_constants(found.assumptions)}, as a share of the computation"
    claim = sp.Eq(_time(term.where) / v.T_math, in_alpha(term.load, found.question))
    return Step("load", words, claim, found, cost.name, term.where)


def _implied_steps(found: Threshold) -> list[Step]:
    """That the passes left out ask no more than the binding ones, load by load."""
    binding = _binding_passes(found)
    loads = {term.where: term.load for cost in binding for term in cost.terms}
    made = []
    for cost in pass_terms(found.strategy, found.assumptions):
        if cost in binding:
            continue
        for term in cost.terms:
            words = (
                f"The {cost.name} pass asks no more over {_network(term.where)}; its share there is"
            )
            ratio = term.load / loads[term.where]
            claim = sp.Eq(_time(term.where) / v.T_math, ratio * in_alpha(loads[term.where]))
            made.append(Step("implied", words, claim, found, cost.name, term.where))
    return made


def _split_steps(found: Threshold, free: sp.Symbol) -> list[Step]:
    made = []
    serial = found.assumptions.overlap == "serial"
    for split in found.splits:
        why = (
            "The sum of the loads is least where its derivative is zero"
            if serial
            else "The larger of the two loads is least where they are equal"
        )
        passes, where = "+".join(split.passes), "+".join(split.where)
        made.append(Step("split", why, sp.Eq(free, split.at), found, passes, where))
        total = _load_at_split(found, free, split)
        kind = sp.Eq(v.T_comms / v.T_math, in_alpha(total, found.question))
        words = "There " + ("the sum is" if serial else "each of them is")
        made.append(Step("best", words, kind, found, passes, where))
    return made


def _load_at_split(found: Threshold, free: sp.Symbol, split: Split) -> sp.Expr:
    """The load at the best split, read off the declaration: the sum, or the first of equals."""
    at = {free: split.at.xreplace({v.C: v.alpha * v.W})}
    here = [load.xreplace({v.C: v.alpha * v.W}).xreplace(at) for load in _split_loads(found, split)]
    total = sp.Add(*here) if found.assumptions.overlap == "serial" else here[0]
    total = sp.powsimp(total)
    return total.xreplace({v.alpha: v.C / v.W}) if {v.C, v.W} & found.question.symbols else total


def _split_loads(found: Threshold, split: Split) -> list[sp.Expr]:
    """The loads that a split balances, each of its own pass, the mesh expressed through the chips.

    Read off the declaration, not from the threshold.
    """
    given, _ = mesh_in_terms_of_chips(found.strategy, found.question, found.fixed)
    every = pass_terms(found.strategy, found.assumptions)
    loads = {(cost.name, term.where): term.load for cost in every for term in cost.terms}
    return [loads[term].xreplace(dict(given)) for term in split.terms]


def _split_of(step: Step) -> Split:
    """The split that a step speaks of."""
    return next(
        s
        for s in step.threshold.splits
        if ("+".join(s.passes), "+".join(s.where)) == (step.passes, step.where)
    )


def _threshold_step(found: Threshold) -> Step:
    words = "Computation takes at least as long as communication if and only if"
    if found.bounds[0].where == ("memory",):
        words = "It fits if and only if"
    if found.provided:
        side = " and ".join(f"{tex.text(load)} <= 1" for load in found.provided)
        words = f"Provided {side}, {words[0].lower()}{words[1:]}"
    first, *rest = found.relations
    return Step("threshold", words, first, found, also=tuple(rest))


def _state(found: Threshold) -> sp.Expr:
    """The bytes of state that a chip holds, with the constants bound."""
    state = found.strategy.state
    if state is None:
        raise ProofError(f"{found.strategy.name} does not say what state a chip holds")
    return state.xreplace(found.assumptions.constants | chips_asked(found.strategy, found.question))


def _capacity_step(found: Threshold) -> Step:
    claim = sp.Le(_state(found), v.M_hbm)
    return Step("capacity", "Weights and optimizer state of a chip fit in its memory", claim, found)


def prove(step: Step) -> str:
    """How the claim of a step was proved: "symbolically", "at points" or "on both sides".

    Raises ProofError naming the strategy, the step and a point where the claim fails.
    """
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
    times |= {_time(term.where): term.seconds for term in cost.terms}
    if step.kind == "implied":
        _prove_implied(step, where)
    bind = found.assumptions.constants if step.kind in ("load", "implied") else {}
    sides = [side.xreplace(times).xreplace(bind) for side in (step.claim.lhs, step.claim.rhs)]
    return proved_equal(sides[0], sides[1], where)


def _prove_implied(step: Step, where: str) -> None:
    """The claimed share is no larger than the binding pass's on the same network."""
    claimed = step.claim.rhs.xreplace({v.alpha: v.C / v.W})
    for cost in _binding_passes(step.threshold):
        for term in cost.terms:
            ratio = claimed / term.load
            if term.where == step.where and not (isinstance(ratio, sp.Rational) and ratio <= 1):
                raise ProofError(f"{where}: {tex.text(step.claim)} asks more than {cost.name}")


def _prove_best(step: Step, where: str) -> str:
    """At the split the loads are equal and the claimed ratio is theirs, or it is their sum."""
    found = step.threshold
    split = _split_of(step)
    at = {split.symbol: split.at.xreplace({v.alpha: v.C / v.W})}
    here = [load.xreplace(at) for load in _split_loads(found, split)]
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
    loads = _split_loads(found, _split_of(step))
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
    return proved_equal(step.claim.lhs, _state(step.threshold), where)


def _prove_state(step: Step, where: str, bounds: list[tuple[str, sp.Expr]]) -> str:
    """At the bound the state fills the memory exactly, and it grows with what the bound limits."""
    found = step.threshold
    asked: Question = found.question
    state = _state(found) / v.M_hbm
    for direction, bound in bounds:
        proved_equal(state.xreplace({asked.main: bound / asked.rest}), sp.S.One, where)
        slope = sp.diff(state, asked.main)
        if not (slope.is_positive if direction == "<=" else slope.is_negative):
            raise ProofError(f"{where}: {step.claim} points the wrong way")
    return "on both sides"


def _time(where: str) -> sp.Symbol:
    return TIMES.get(where, v.T_comms)


def _network(where: str) -> str:
    if where == "hbm":
        return "the memory bus"
    if where == "S":
        return "the data-centre network"
    return f"mesh axis {where}" if len(where) == 1 else f"mesh axes {' and '.join(where)}"


def _listed(moves: tuple[Move, ...]) -> str:
    kinds: dict[str, list[str]] = {}
    for move in moves:
        kinds.setdefault(NAMES[move.collective], []).append(move.tensor)
    parts = [f"{' and '.join(tensors)} ({kind})" for kind, tensors in kinds.items()]
    return ", ".join(parts)


def _constants(assumptions: Assumptions) -> str:
    names = {v.fma: "FLOP per multiply-add", v.e: "bytes per element", v.e_g: "bytes per gradient"}
    bound = assumptions.constants
    shown = [f"{bound[s]} {names[s]}" for s in (v.fma, v.e) if s in bound]
    if v.e_g in bound and bound.get(v.e_g) != bound.get(v.e, v.e):
        shown.append(f"{bound[v.e_g]} {names[v.e_g]}")
    return " and ".join(shown)
