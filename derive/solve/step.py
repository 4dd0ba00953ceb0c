"""A step of a derivation, and what steps and their proofs read off the declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self, TypeVar

import sympy as sp

from derive.notation import symbols as v
from derive.notation import tex
from derive.solve.conditions import PassTerms, Split, conditions, pass_terms
from derive.solve.question import mesh_in_terms_of_chips, state_of_chip
from derive.solve.threshold import Threshold

TIMES: Mapping[str, sp.Symbol] = MappingProxyType(
    {"X": v.T_X, "Y": v.T_Y, "Z": v.T_Z, "S": v.T_S, "hbm": v.T_hbm}
)


@dataclass(frozen=True, repr=False)
class Claimed:
    """A step of a derivation: its kind, what it says in words, and its claim."""

    kind: str
    words: str
    claim: sp.Rel

    @property
    def claims(self) -> tuple[sp.Rel, ...]:
        """The claim, and what else is claimed with it."""
        return (self.claim,)

    @property
    def latex(self) -> str:
        """The claim as TeX, without delimiters."""
        return r" \quad\text{and}\quad ".join(tex.tex(claim) for claim in self.claims)

    @property
    def text(self) -> str:
        """The claim as plain text."""
        return " and ".join(tex.text(claim) for claim in self.claims)

    def with_claim(self, claim: sp.Rel) -> Self:
        """The same step with the claim an author prefers; to be proved before it is printed."""
        return replace(self, claim=claim)

    def proof(self) -> str:
        """How the claim was proved, from what it is claimed of; raises ProofError where it fails.
        Each kind of step has its own."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{self.words}:\n    {self.text}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex}$"


@dataclass(frozen=True, repr=False)
class Step(Claimed):
    """A step of the derivation of a strategy's threshold, with what the claim is proved from.

    `kind` is computation, communication, load, implied, mesh, split, best, capacity or threshold;
    `passes` and `where` name the pass and the network it speaks of.
    """

    threshold: Threshold
    passes: str = ""
    where: str = ""
    also: tuple[sp.Rel, ...] = ()

    def proof(self) -> str:
        """How the claim was proved; raises ProofError with a point where it fails."""
        from derive.solve.proving import proof_of  # which rests on what this module reads off

        return proof_of(self)

    @property
    def claims(self) -> tuple[sp.Rel, ...]:
        """The claim, and the further bounds of a threshold that has several."""
        return (self.claim, *self.also)


Kind = TypeVar("Kind", bound=Claimed, covariant=True)


class Derivation(tuple[Kind, ...]):
    """The steps in order; shown in full in a terminal and as mathematics in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(f"{place}. {step}" for place, step in enumerate(self, 1))

    def _repr_markdown_(self) -> str:
        parts = (f"{n}. {s.words}:\n\n   $$\n   {s.latex}\n   $$\n" for n, s in enumerate(self, 1))
        return "\n".join(parts)


def split_loads(found: Threshold, split: Split) -> list[sp.Expr]:
    """The loads that a split balances, each of its own pass, the mesh expressed through the chips.

    Read off the declaration, not from the threshold.
    """
    given, _ = mesh_in_terms_of_chips(found.strategy, found.question, found.fixed)
    every = pass_terms(found.strategy, found.assumptions)
    loads = {(cost.name, term.where): term.load for cost in every for term in cost.terms}
    return [loads[term].xreplace(dict(given)) for term in split.terms]


def split_of(step: Step) -> Split:
    """The split that a step speaks of."""
    return next(
        s
        for s in step.threshold.splits
        if ("+".join(s.passes), "+".join(s.where)) == (step.passes, step.where)
    )


def state_of(found: Threshold) -> sp.Expr:
    """The bytes of state that a chip holds, with the constants bound."""
    state = state_of_chip(found.strategy, found.question, found.fixed)
    return state.xreplace(found.assumptions.constants)


def time_of(where: str) -> sp.Symbol:
    return TIMES.get(where, v.T_comms)


def binding_passes(found: Threshold) -> list[PassTerms]:
    """The passes that the bounds rest on, one of those that bind alike."""
    every = pass_terms(found.strategy, found.assumptions)
    named = {name for split in found.splits for name in split.passes}
    for condition in conditions(found.strategy, found.assumptions):
        if not named & set(condition.passes):
            named.add(condition.passes[0])
    return [cost for cost in every if cost.name in named]
