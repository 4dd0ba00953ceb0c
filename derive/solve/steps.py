"""The derivation of a threshold as data: each step is words and a claim, and every claim is proved.

The claims are what a reader sees; the proofs start again from the strategy's declaration, so that a
claim with a changed coefficient fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import sympy as sp

from derive.cost.assumptions import Assumptions
from derive.cost.program import Move
from derive.cost.strategies import Strategy
from derive.notation import symbols as v
from derive.notation import tex
from derive.solve.conditions import PassTerms, Split, Term, pass_terms
from derive.solve.proving import prove as prove
from derive.solve.question import mesh_in_terms_of_chips
from derive.solve.step import Derivation as Derivation
from derive.solve.step import Step as Step
from derive.solve.step import binding_passes, split_loads, state_of, time_of
from derive.solve.threshold import Threshold, in_alpha, threshold

if TYPE_CHECKING:
    from derive.cost.limits import Limit
    from derive.cost.step_assumptions import StepAssumptions
    from derive.solve.limit_steps import LimitStep

VERBS: Mapping[str, str] = MappingProxyType(
    {
        "all_gather": "all-gathers",
        "reduce_scatter": "reduce-scatters",
        "all_reduce": "all-reduces",
        "all_to_all": "exchanges by all-to-all",
        "send": "sends",
        "load": "loads",
    }
)


@overload
def steps(
    strategy: Strategy,
    asked: sp.Expr,
    assumptions: Assumptions = ...,
    *,
    fixed: Iterable[sp.Symbol] = ...,
    **changes: object,
) -> Derivation[Step]: ...
@overload
def steps(
    strategy: Limit,
    asked: sp.Expr,
    assumptions: StepAssumptions | str = ...,
    *,
    exact: bool = ...,
) -> Derivation[LimitStep]: ...
def steps(strategy: Any, asked: sp.Expr, assumptions: Any = None, **options: Any) -> Any:
    """The derivation of `threshold(strategy, asked)` for the pass that binds, or of the threshold
    of a limit of the step model, each step proved; it takes what `threshold` takes.

    Raises what `threshold` raises, and ProofError where a step does not hold (a bug, never input).
    """
    found = threshold(strategy, asked, assumptions, **options)
    if not isinstance(found, Threshold):
        # Imported here: it brings the step model, which a strategy does not need.
        from derive.solve.limit_steps import limit_steps

        return limit_steps(found)
    made = Derivation(_derivation(found))
    for step in made:
        prove(step)
    return made


def _derivation(found: Threshold) -> list[Step]:
    if found.bounds[0].where == ("memory",):
        return [_capacity_step(found), _threshold_step(found)]
    made: list[Step] = []
    for cost in binding_passes(found):
        made.append(_computation_step(found, cost))
        made += [_communication_step(found, cost, term) for term in cost.terms]
        made += [_load_step(found, cost, term) for term in cost.terms]
    made += _implied_steps(found)
    given, free = mesh_in_terms_of_chips(found.strategy, found.question, found.fixed)
    made += [
        Step("mesh", f"The mesh axes multiply to the chips, so {s} follows", _equation(s, x), found)
        for s, x in given
    ]
    if free is not None:
        made += _split_steps(found, free)
    return [*made, _threshold_step(found)]


def _computation_step(found: Threshold, cost: PassTerms) -> Step:
    words = f"A chip computes its share of the {cost.name} pass in"
    return Step("computation", words, _equation(v.T_math, cost.seconds), found, cost.name)


def _communication_step(found: Threshold, cost: PassTerms, term: Term) -> Step:
    words = f"Over {_network(term.where)} it {_listed(term.moves)}, in"
    claim = _equation(time_of(term.where), term.seconds)
    return Step("communication", words, claim, found, cost.name, term.where)


def _load_step(found: Threshold, cost: PassTerms, term: Term) -> Step:
    constants = _constants(found.assumptions, term)
    words = (
        f"With {constants}, the time over {_network(term.where)} is this share of the computation"
    )
    claim = _equation(time_of(term.where) / v.T_math, in_alpha(term.load, found.question))
    return Step("load", words, claim, found, cost.name, term.where)


def _implied_steps(found: Threshold) -> list[Step]:
    """That the passes left out ask no more than the binding ones, load by load."""
    binding = binding_passes(found)
    loads = {term.where: term.load for cost in binding for term in cost.terms}
    made = []
    for cost in pass_terms(found.strategy, found.assumptions):
        if cost in binding:
            continue
        for term in cost.terms:
            ratio = term.load / loads[term.where]
            asks = "the same" if ratio == 1 else "less"
            words = (
                f"The {cost.name} pass asks {asks} over {_network(term.where)}; its share there is"
            )
            claim = _equation(time_of(term.where) / v.T_math, ratio * in_alpha(loads[term.where]))
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
        made.append(Step("split", why, _equation(free, split.at), found, passes, where))
        total = _load_at_split(found, free, split)
        kind = _equation(v.T_comms / v.T_math, in_alpha(total, found.question))
        words = "There " + ("the sum is" if serial else "each of them is")
        made.append(Step("best", words, kind, found, passes, where))
    return made


def _load_at_split(found: Threshold, free: sp.Symbol, split: Split) -> sp.Expr:
    """The load at the best split, read off the declaration: the sum, or the first of equals."""
    at = {free: split.at.xreplace({v.C: v.alpha * v.W})}
    here = [load.xreplace({v.C: v.alpha * v.W}).xreplace(at) for load in split_loads(found, split)]
    total = sp.Add(*here) if found.assumptions.overlap == "serial" else here[0]
    total = sp.powsimp(total)
    return total.xreplace({v.alpha: v.C / v.W}) if {v.C, v.W} & found.question.symbols else total


def _threshold_step(found: Threshold) -> Step:
    words = "Computation takes at least as long as communication if and only if"
    if found.bounds[0].where == ("memory",):
        words = "It fits if and only if"
    if found.provided:
        side = " and ".join(f"{tex.text(load)} <= 1" for load in found.provided)
        words = f"Provided {side}, {words[0].lower()}{words[1:]}"
    first, *rest = found.relations
    return Step("threshold", words, first, found, also=tuple(rest))


def _capacity_step(found: Threshold) -> Step:
    claim = sp.Le(state_of(found), v.M_hbm)
    return Step("capacity", "Weights and optimizer state of a chip fit in its memory", claim, found)


def _equation(left: sp.Expr, right: sp.Expr) -> sp.Rel:
    # Unevaluated: SymPy would try to decide the equation, which takes longer than to prove it.
    return sp.Eq(left, right, evaluate=False)


def _network(where: str) -> str:
    if where == "hbm":
        return "the memory bus"
    if where == "S":
        return "the data-centre network"
    return f"mesh axis {where}" if len(where) == 1 else f"mesh axes {' and '.join(where)}"


def _listed(moves: tuple[Move, ...]) -> str:
    """What is done to which tensors: "all-gathers `In` and reduce-scatters `Out`"."""
    kinds: dict[str, list[str]] = {}
    for move in moves:
        kinds.setdefault(VERBS[move.collective], []).append(f"`{move.tensor}`")
    return " and ".join(f"{verb} {_joined(tensors)}" for verb, tensors in kinds.items())


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _constants(assumptions: Assumptions, term: Term) -> str:
    """The constants that the term holds, with their values."""
    names = {v.fma: "FLOP per multiply-add", v.e: "bytes per element", v.e_g: "bytes per gradient"}
    used = {v.fma} | term.seconds.free_symbols
    shown = [
        f"{assumptions.constants[s]} {name}"
        for s, name in names.items()
        if s in used and s in assumptions.constants
    ]
    return _joined(shown)
