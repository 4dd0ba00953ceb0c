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

from derive.cost.assumptions import DEFAULT, Assumptions, as_assumptions
from derive.cost.memory import STATES, definitions, memory, recomputed_layers, stages_held
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import ProofError
from derive.solve.derivation import ProvedSteps, Step, proved_steps
from derive.solve.powers import turned
from derive.solve.proof import Claims

BUDGET = v.mu * v.M_hbm
FIRST, LAST = "first", "last"


@dataclass(frozen=True)
class Recomputed:
    """A claim of a kind (fits, frees, bound or closed_form) compared with the memory of the step
    model; `stage` is the stage that it speaks of."""

    kind: str
    assumptions: Assumptions
    stage: str = ""

    def proved(self, claims: Claims, where: str) -> str:
        """How the claim was proved, always "symbolically"; raises ProofError naming the step."""
        (claim,) = claims
        if self.kind == "closed_form":
            _prove_closed_form(self.assumptions, claim, where)
            return "symbolically"
        size = stages(self.assumptions)[self.stage]
        freed = size - size.xreplace({v.L_r: v.L_r + 1})
        left = claim.lhs - claim.rhs
        if self.kind == "fits":
            _expect(left, size - BUDGET, where, isinstance(claim, sp.Le))
            return "symbolically"
        _check_positive(freed, where)
        if self.kind == "frees":
            _expect(left, freed, where, isinstance(claim, sp.Gt))
        else:  # over budget by (bound - L_r) times what a layer frees, which is positive
            _expect(size - BUDGET, -freed * left, where, isinstance(claim, sp.Ge))
        return "symbolically"


def recomputation(assumptions: Assumptions | str = DEFAULT) -> ProvedSteps:
    """Why the recomputed layers of a stage are the closed form that the step model states.

    Every step is proved as it is made. Raises ProofError where one does not hold (a bug, never
    input), and UnknownName for assumptions that there are not.
    """
    assumptions = as_assumptions(assumptions)
    every = stages(assumptions)
    once = ", with a layer or more recomputed," if "working_set" in assumptions else ""

    def step(kind: str, words: str, claim: sp.Rel, stage: str = "") -> Step:
        name = f"recomputed layers under {assumptions.name}"
        return Step(kind, words, claim, Recomputed(kind, assumptions, stage), name)

    listed: list[Step] = []
    for stage, size in every.items():
        whose = f"The {stage if len(every) > 1 else 'fullest'} stage{once}"
        frees, bound = _least_layers(size)
        more = "Each further recomputed layer frees so many bytes, more than none"
        listed += [
            step("fits", f"{whose} fits where", sp.Le(size, BUDGET, evaluate=False), stage),
            step("frees", more, sp.Gt(frees, 0, evaluate=False), stage),
            step("bound", "So it fits if and only if", sp.Ge(v.L_r, bound, evaluate=False), stage),
        ]
    claim = sp.Eq(v.L_r, recomputed_layers(assumptions), evaluate=False)
    words = "The least whole number, 0 or more, that reaches it is"
    if "working_set" in assumptions:
        words = "With the layer that is run again held once any is recomputed, the least is"
    return proved_steps([*listed, step("closed_form", words, claim)])


def stages(assumptions: Assumptions) -> dict[str, sp.Expr]:
    """The bytes that each stage holds with L_r of its layers recomputed, one or more of them."""
    return _memory_held(assumptions, sp.S.One)


def _prove_closed_form(assumptions: Assumptions, claim: sp.Rel, where: str) -> None:
    bounds = [_least_layers(size)[1] for size in stages(assumptions).values()]
    closed = claim.rhs
    if claim.lhs != v.L_r or not isinstance(claim, sp.Eq):
        raise ProofError(f"{where}: expected an equation for L_r, found {tex.text(claim)}")
    if "working_set" not in assumptions:
        _largest_ceiling(closed, bounds, where)
        return
    # Without any layer recomputed the working set is not held: where the bounds without it ask for
    # none, 0 fits and is the least. Else one layer or more is, and the bounds are those with it,
    # which are no less; so their largest ceiling is at least 1.
    none = _memory_held(assumptions, sp.S.Zero)
    for name, size in stages(assumptions).items():
        _check_positive(size - none[name], where)
    without = [_least_layers(size)[1] for size in none.values()]
    inners = {arg for least in closed.atoms(sp.Min) for arg in least.args if arg.has(sp.Max)}
    if len(inners) != 1:
        raise ProofError(f"{where}: {tex.text(closed)} does not tell whether any is recomputed")
    (inner,) = inners
    _largest_ceiling(inner, without, where)
    some = sp.Dummy("j", integer=True, nonnegative=True) + 1
    _largest_ceiling(closed.xreplace({inner: sp.S.Zero}), without, where)
    _largest_ceiling(closed.xreplace({inner: some}), bounds, where)


def _largest_ceiling(closed: sp.Expr, bounds: list[sp.Expr], where: str) -> None:
    """Raise ProofError unless `closed` is the largest of 0 and the ceilings of the bounds."""
    ceilings = [arg.args[0] for arg in closed.args if isinstance(arg, sp.ceiling)]
    rest = [arg for arg in closed.args if not isinstance(arg, sp.ceiling)]
    same = isinstance(closed, sp.Max) and rest == [0] and len(ceilings) == len(bounds)
    for bound in bounds:
        same = same and any(_alike(one, bound) for one in ceilings)
    if not same:
        raise ProofError(f"{where}: {tex.text(closed)} is not the least that fits")


def _least_layers(size: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """The bytes that a layer frees where it is recomputed, and the least layers that fit."""
    frees = turned(sp.factor(-size.diff(v.L_r)))
    over = sp.expand(size.xreplace({v.L_r: sp.S.Zero})) - BUDGET
    return frees, over / frees


def _memory_held(assumptions: Assumptions, any_recomputed: sp.Expr) -> dict[str, sp.Expr]:
    """The memory of a chip of each stage, with min(1, L_r) as given, of no more recomputed layers
    than any stage has. The states of stages that are alike go by their own symbol."""
    named = {term.name: term.expr for term in definitions(assumptions)}
    every = {}
    for name, terms in memory(assumptions).items():
        whole = stages_held(assumptions)[name].whole
        total = sp.Add(*(term.expr for term in terms))
        kinds = [t for t in terms if (t.name in STATES or whole != v.M_states)]
        known = sp.Add(*(t.expr for t in kinds if t.name not in ("activations", "working_set")))
        if sp.expand(known - named[whole.name]) == 0:
            total += whole - known
        least = {one for one in total.atoms(sp.Min) if v.L_r in one.args}
        every[name] = total.xreplace({m: any_recomputed if 1 in m.args else v.L_r for m in least})
    return every


def _expect(claimed: sp.Expr, wanted: sp.Expr, where: str, kind: bool) -> None:
    if not kind or not _alike(claimed, wanted):
        raise ProofError(f"{where}: {tex.text(claimed)} is not {tex.text(wanted)}")


def _alike(first: sp.Expr, other: sp.Expr) -> bool:
    return bool(sp.expand(sp.numer(sp.together(first - other))) == 0)


def _check_positive(expr: sp.Expr, where: str) -> None:
    """Raise ProofError unless `expr` is positive wherever a_1 > a_0."""
    more = sp.Dummy("d", positive=True)
    if not sp.factor(expr.xreplace({v.a_1: v.a_0 + more})).is_positive:
        raise ProofError(f"{where}: {tex.text(expr)} may not be positive")
