"""The proof of a limit's bound: put back into the load, on both sides of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import sympy as sp

from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import ProofError
from derive.solve.proof import random_points

MARGIN = sp.Rational(1, 8)
# A share is below 1, and a model has more parameters than its vocabulary.
SCALES: Mapping[sp.Symbol, sp.Expr] = MappingProxyType(
    {v.epsilon: sp.Rational(1, 20), v.P: sp.Integer(10**4)}
)


def proved_on_both_sides(load: sp.Expr, claim: sp.Rel, where: str) -> str:
    """Check at random positive points that the load is 1 at the claimed bound, at most 1 on the
    side that is claimed and more beyond; raises ProofError where it is not."""
    asked, bound = claim.lhs, claim.rhs
    above = isinstance(claim, sp.Ge)
    tried = 0
    for point in random_points((load.free_symbols | bound.free_symbols) - {asked}):
        point |= {s: point[s] * n for s, n in SCALES.items() if s in point}
        at = bound.xreplace(point)
        if not (at.is_Rational and at > 0):
            continue
        tried += 1
        there = load.xreplace(point)
        for factor, kept in ((1, True), (1 + MARGIN, above), (1 - MARGIN, not above)):
            here = there.xreplace({asked: at * factor})
            if bool(here <= 1) is not kept or (factor == 1 and here != 1):
                raise ProofError(f"{where}: {tex.text(claim)} does not hold")
    if not tried:
        raise ProofError(f"{where}: {tex.text(claim)} holds nowhere")
    return "on both sides"
