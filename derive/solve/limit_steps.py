"""The derivation of a limit as data: the load and its bound, proved from the declaration."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from derive.notation import tex
from derive.notation.errors import ProofError
from derive.solve.limit import LimitThreshold, load_of
from derive.solve.limit_proof import proved_on_both_sides
from derive.solve.proof import proved_equal
from derive.solve.proving import prove
from derive.solve.step import Claimed, Derivation


@dataclass(frozen=True, repr=False)
class LimitStep(Claimed):
    """A step of a limit's derivation, of kind load or threshold."""

    threshold: LimitThreshold

    def proof(self) -> str:
        """How the claim was proved: "by the step model" or "on both sides".

        Starts again from the declared load. Raises ProofError naming the limit and the step.
        """
        found, claim = self.threshold, self.claim
        where = f"{found.limit.name}, {self.kind}"
        load = load_of(found.limit, found.symbol, found.assumptions, found.exact)
        if self.kind == "load":
            if not isinstance(claim, sp.Le) or claim.rhs != 1:
                raise ProofError(f"{where}: expected a load of at most 1, found {tex.text(claim)}")
            proved_equal(claim.lhs, load, where)
            return "by the step model"
        if not isinstance(claim, (sp.Ge, sp.Le)) or claim.lhs != found.symbol:
            what = f"expected a bound on {found.symbol}, found {tex.text(claim)}"
            raise ProofError(f"{where}: {what}")
        return proved_on_both_sides(load, claim, where)


def limit_steps(found: LimitThreshold) -> Derivation[LimitStep]:
    """How the bound follows from the load. Raises ProofError where it does not hold."""
    claim = found.limit.claim
    reached = sp.simplify(found.load.xreplace({found.symbol: found.closed_form}))
    load = LimitStep(
        "load",
        f"{claim[0].upper()}{claim[1:]} where this load is at most 1",
        sp.Le(found.load, 1, evaluate=False),
        found,
    )
    solved = LimitStep(
        "threshold",
        f"Solved for {found.symbol}; there the load is {tex.text(reached)}",
        found.relations[0],
        found,
    )
    made = Derivation((load, solved))
    for step in made:
        prove(step)
    return made
