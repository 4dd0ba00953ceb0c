"""Formulas of a chapter: inline formulas, numbered conditions and derivations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import sympy as sp

from derive.notation import tex
from derive.notation.errors import DeriveError, quoted

AND = r" \quad\text{and}\quad "


class StepLike(Protocol):
    """A step of a derivation: what is claimed, in words and as a formula."""

    @property
    def words(self) -> str: ...

    @property
    def latex(self) -> str: ...


@dataclass(frozen=True)
class Formula:
    """Inline math under a name."""

    name: str
    latex: str


@dataclass(frozen=True)
class Condition:
    """A numbered condition: "6.2", its formula and an optional label before the reading."""

    name: str
    number: str
    latex: str
    label: str = ""

    @property
    def anchor(self) -> str:
        return f"condition-{self.number.replace('.', '-')}"


@dataclass(frozen=True)
class Derivation:
    """The steps of a derivation, proved when they are printed."""

    name: str
    steps: tuple[StepLike, ...]


def latex_of(of: object) -> str:
    """The TeX of an expression, a relation, a threshold, an optimum, or several of them.

    Raises DeriveError for what has no TeX, or TeX that GitHub does not print.
    """
    if isinstance(of, sp.Basic):
        return tex.checked(tex.tex(of))
    if isinstance(of, (tuple, list)) and of:
        return tex.checked(AND.join(latex_of(part) for part in of))
    source = getattr(of, "latex", None)
    if isinstance(source, str):
        return tex.checked(source)
    raise DeriveError(
        f"expected an expression, a relation, a threshold or an optimum, found {quoted(of)}"
    )


def proved(derivation: Derivation) -> None:
    """Prove each step again; raises ProofError naming the derivation and the step."""
    from derive.solve import derivation as proving

    prove: Any = proving.prove

    for number, step in enumerate(derivation.steps, 1):
        try:
            prove(step)
        except DeriveError as error:
            raise type(error)(f"{derivation.name}, step {number}: {error}") from None


def steps_of(steps: Sequence[StepLike]) -> tuple[StepLike, ...]:
    """The steps as a tuple; raises DeriveError where there are none, or one has no words or TeX."""
    made = tuple(steps)
    if not made:
        raise DeriveError("a derivation without steps")
    for step in made:
        if not isinstance(getattr(step, "words", None), str) or not isinstance(
            getattr(step, "latex", None), str
        ):
            raise DeriveError(f"expected a step with words and latex, found {quoted(step)}")
    return made
