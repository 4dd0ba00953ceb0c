"""The least recomputation that makes a plan fit: its closed form, proved equal to a loop.

The loop adds recomputed layers one by one, from none, until the fullest chip is within the budget.
Its result is the least whole number r of layers for which every stage fits. The proof reads each
stage off the memory of the step model, for all values: a stage fits if and only if r is at least a
bound (its memory is linear in r and falls with it), which whole numbers do that reach the bound's
ceiling; and the declared closed form is the largest of the ceilings, or 0. It rests on one premise,
that a layer that is kept saves more than one that is recomputed (a_1 > a_0), which `task` checks.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from derive.cost.memory import memory, recomputed_layers
from derive.cost.step_assumptions import DEFAULT, StepAssumptions, as_step_assumptions
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import ProofError
from derive.solve.powers import turned
from derive.solve.proving import prove
from derive.solve.step import Claimed, Derivation

BUDGET = v.mu * v.M_hbm
FIRST, LAST = "first", "last"


@dataclass(frozen=True, repr=False)
class RecomputationStep(Claimed):
    """A step of kind fits, frees, bound or closed_form; `stage` is the stage that it speaks of."""

    assumptions: StepAssumptions
    stage: str = ""

    def proof(self) -> str:
        """How the claim was proved, always "symbolically". Starts again from the memory of the step
        model; raises ProofError naming the step."""
        where = f"recomputed layers under {self.assumptions.name}, {self.kind}"
        claim = self.claim
        if self.kind == "closed_form":
            _prove_closed_form(self.assumptions, claim, where)
            return "symbolically"
        size = stages(self.assumptions)[self.stage]
        freed = size - size.xreplace({v.L_r: v.L_r + 1})
        if self.kind == "fits":
            _same(claim.lhs - claim.rhs, size - BUDGET, where, isinstance(claim, sp.Le))
        elif self.kind == "frees":
            _same(claim.lhs - claim.rhs, freed, where, isinstance(claim, sp.Gt))
            _positive(freed, where)
        else:
            # Over budget by (bound - L_r) times what a layer frees, which is positive.
            _same(size - BUDGET, freed * (claim.rhs - claim.lhs), where, isinstance(claim, sp.Ge))
            _positive(freed, where)
        return "symbolically"


def recomputation(
    assumptions: StepAssumptions | str = DEFAULT,
) -> Derivation[RecomputationStep]:
    """Why the recomputed layers of a stage are the closed form that the step model states.

    Every step is proved as it is made. Raises ProofError where one does not hold (a bug, never
    input), and UnknownName for assumptions that there are not.
    """
    assumptions = as_step_assumptions(assumptions)
    made: list[RecomputationStep] = []
    every = stages(assumptions)
    once = ", with a layer or more recomputed," if "working_set" in assumptions else ""
    for stage, size in every.items():
        of = f"The {stage if len(every) > 1 else 'fullest'} stage{once}"
        frees, bound = _bound(size)
        fits = sp.Le(size, BUDGET, evaluate=False)
        falls = sp.Gt(frees, 0, evaluate=False)
        reached = sp.Ge(v.L_r, bound, evaluate=False)
        made += [
            RecomputationStep("fits", f"{of} fits where", fits, assumptions, stage),
            RecomputationStep(
                "frees",
                "Each further recomputed layer frees so many bytes, more than none",
                falls,
                assumptions,
                stage,
            ),
            RecomputationStep("bound", "So it fits if and only if", reached, assumptions, stage),
        ]
    claim = sp.Eq(v.L_r, recomputed_layers(assumptions), evaluate=False)
    words = "The least whole number, 0 or more, that reaches it is"
    if "working_set" in assumptions:
        words = "With the layer that is run again held once any is recomputed, the least is"
    made.append(RecomputationStep("closed_form", words, claim, assumptions))
    for step in made:
        prove(step)
    return Derivation(made)


def stages(assumptions: StepAssumptions) -> dict[str, sp.Expr]:
    """The bytes that each stage holds with L_r of its layers recomputed, one or more of them."""
    total = _held(assumptions, sp.S.One)
    larger = sorted(total.atoms(sp.Max), key=str)
    if not larger:
        return {FIRST: total}
    (of,) = larger
    # The fullest chip fits where both do: the memory rises one for one with the larger.
    if total.coeff(of) != 1 or len(of.args) != 2:
        raise ProofError(f"memory: expected the larger of two stages, found {tex.text(total)}")
    first, last = sorted(of.args, key=lambda size: not size.has(v.n_fly))
    return {FIRST: total.xreplace({of: first}), LAST: total.xreplace({of: last})}


def _prove_closed_form(assumptions: StepAssumptions, claim: sp.Rel, where: str) -> None:
    bounds = [_bound(size)[1] for size in stages(assumptions).values()]
    closed = claim.rhs
    if claim.lhs != v.L_r or not isinstance(claim, sp.Eq):
        raise ProofError(f"{where}: expected an equation for L_r, found {tex.text(claim)}")
    if "working_set" not in assumptions:
        _largest_ceiling(closed, bounds, where)
        return
    # Without any layer recomputed the working set is not held: where the bounds without it ask for
    # none, 0 fits and is the least. Else one layer or more is, and the bounds are those with it,
    # which are no less; so their largest ceiling is at least 1.
    extra = _held(assumptions, sp.S.One) - _held(assumptions, sp.S.Zero)
    _positive(extra, where)
    without = [_bound(size - extra)[1] for size in stages(assumptions).values()]
    inners = {arg for least in closed.atoms(sp.Min) for arg in least.args if arg.has(sp.Max)}
    if len(inners) != 1:
        raise ProofError(f"{where}: {tex.text(closed)} does not tell whether any is recomputed")
    (inner,) = inners
    _largest_ceiling(inner, without, where)
    some = sp.Dummy("j", integer=True, nonnegative=True) + 1
    _largest_ceiling(_with(closed, inner, sp.S.Zero), without, where)
    _largest_ceiling(_with(closed, inner, some), bounds, where)


def _with(closed: sp.Expr, inner: sp.Expr, value: sp.Expr) -> sp.Expr:
    """The closed form where the layers without a working set have that value."""
    for least in closed.atoms(sp.Min):
        if inner in least.args:
            args = [value if arg == inner else arg for arg in least.args]
            closed = closed.xreplace({least: sp.Min(*args)})
    return closed


def _largest_ceiling(closed: sp.Expr, bounds: list[sp.Expr], where: str) -> None:
    """Raise ProofError unless `closed` is the largest of 0 and the ceilings of the bounds."""
    ceilings = [arg.args[0] for arg in closed.args if isinstance(arg, sp.ceiling)]
    rest = [arg for arg in closed.args if not isinstance(arg, sp.ceiling)]
    same = isinstance(closed, sp.Max) and rest == [0] and len(ceilings) == len(bounds)
    for bound in bounds:
        same = same and any(sp.cancel(sp.together(one - bound)) == 0 for one in ceilings)
    if not same:
        raise ProofError(f"{where}: {tex.text(closed)} is not the least that fits")


def _bound(size: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """The bytes that a layer frees where it is recomputed, and the least layers that fit."""
    frees = turned(sp.factor(-size.diff(v.L_r)))
    over = sp.expand(size.xreplace({v.L_r: sp.S.Zero})) - BUDGET
    return frees, over / frees


def _held(assumptions: StepAssumptions, any_recomputed: sp.Expr) -> sp.Expr:
    """The memory of the fullest chip, with min(1, L_r) as given."""
    total = sp.Add(*(term.expr for term in memory(assumptions)))
    least = {one: any_recomputed for one in total.atoms(sp.Min) if one.has(v.L_r)}
    return total.xreplace(least)


def _same(found: sp.Expr, wanted: sp.Expr, where: str, kind: bool) -> None:
    if not kind or sp.cancel(sp.together(found - wanted)) != 0:
        raise ProofError(f"{where}: {tex.text(found)} is not {tex.text(wanted)}")


def _positive(expr: sp.Expr, where: str) -> None:
    """Raise ProofError unless `expr` is positive wherever a_1 > a_0."""
    more = sp.Dummy("d", positive=True)
    if not sp.factor(expr.xreplace({v.a_1: v.a_0 + more})).is_positive:
        raise ProofError(f"{where}: {tex.text(expr)} may not be positive")
