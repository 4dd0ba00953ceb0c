"""The derivation of a limit as data: the load, what it becomes at the bound, and both its sides."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import ProofError
from derive.plan.limits import Limit
from derive.solve.proof import random_points

MARGIN = sp.Rational(1, 8)
SCALES = {v.epsilon: sp.Rational(1, 20), v.P: sp.Integer(10**4)}


@dataclass(frozen=True)
class LimitStep:
    """One step: its kind (load, edge or threshold), words, a claim, and how it was proved."""

    kind: str
    words: str
    claim: sp.Rel
    proved: str

    @property
    def text(self) -> str:
        """The claim as plain text."""
        return tex.text(self.claim)

    @property
    def latex(self) -> str:
        """The claim as TeX, without delimiters."""
        return str(tex.tex(self.claim))


def limit_steps(limit: Limit) -> tuple[LimitStep, ...]:
    """How the bound follows from the load. Raises ProofError where it does not hold."""
    on_sides = prove(limit)
    reached = sp.simplify(limit.load.xreplace({limit.asked: limit.expr}))
    return (
        LimitStep(
            "load",
            f"{limit.claim[0].upper()}{limit.claim[1:]} where this load is at most 1",
            sp.Le(limit.load, 1, evaluate=False),
            "by the step model",
        ),
        LimitStep(
            "threshold",
            f"Solved for {limit.asked}; there the load is {reached}",
            limit.relation,
            on_sides,
        ),
    )


def prove(limit: Limit) -> str:
    """Check at random positive points that the load is 1 at the bound, at most 1 on its side and
    more beyond; raises ProofError where it is not."""
    symbols = (limit.load.free_symbols | limit.expr.free_symbols) - {limit.asked}
    above = {">=": True, "<=": False}[limit.direction]
    tried = 0
    for point in random_points(symbols):
        # A share is below 1, and a model has more parameters than its vocabulary.
        point |= {s: point[s] * n for s, n in SCALES.items() if s in point}
        bound = limit.expr.xreplace(point)
        if not (bound.is_Rational and bound > 0):
            continue
        tried += 1
        for factor, kept in ((1, True), (1 + MARGIN, above), (1 - MARGIN, not above)):
            load = limit.load.xreplace({**point, limit.asked: bound * factor})
            if bool(load <= 1) is not kept or (factor == 1 and load != 1):
                raise ProofError(f"{limit.claim}: {tex.text(limit.relation)} does not hold")
    if not tried:
        raise ProofError(f"{limit.claim}: {tex.text(limit.relation)} holds nowhere")
    return "on both sides"
