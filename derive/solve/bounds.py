"""Bounds on what is asked, in closed form and in numbers, whatever they follow from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from derive.notation import tex
from derive.notation.errors import DeriveError
from derive.notation.printed import printed_tex, significant
from derive.notation.quantity import Quantity
from derive.solve.question import Question


@dataclass(frozen=True)
class Bound:
    """One bound on the question: `>=` or `<=` an expression, and the passes and networks that set
    it (X, Y, S, hbm; "memory" where it is capacity)."""

    direction: str
    expr: sp.Expr
    passes: tuple[str, ...] = ()
    where: tuple[str, ...] = ()


def relation(of: sp.Expr, bound: Bound) -> sp.Rel:
    """The bound as a SymPy relation with the question on the left."""
    kind = sp.Ge if bound.direction == ">=" else sp.Le
    return kind(of, bound.expr, evaluate=False)


@dataclass(frozen=True, repr=False)
class Bounded:
    """What is asked, and its bounds in closed form, all of which must hold."""

    question: Question
    bounds: tuple[Bound, ...]

    @property
    def closed_form(self) -> sp.Expr:
        """The bound where there is one; raises DeriveError where there are more."""
        if len(self.bounds) != 1:
            raise DeriveError(f"{self} has {len(self.bounds)} bounds; ask for .bounds")
        return self.bounds[0].expr

    @property
    def relations(self) -> tuple[sp.Rel, ...]:
        """Each bound as a SymPy relation."""
        return tuple(relation(self.question.expr, bound) for bound in self.bounds)

    @property
    def latex(self) -> str:
        return r" \quad\text{and}\quad ".join(tex.tex(r) for r in self.relations)

    def __str__(self) -> str:
        return " and ".join(tex.text(r) for r in self.relations)

    def __repr__(self) -> str:
        return str(self)

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex}$"


@dataclass(frozen=True)
class Side:
    """One bound with its number, and the passes and networks that set it."""

    direction: str
    quantity: Quantity
    passes: tuple[str, ...] = ()
    where: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Answered:
    """What is asked, and its bounds as numbers."""

    asked: sp.Expr
    sides: tuple[Side, ...]

    @property
    def binding(self) -> Side:
        """The strictest bound; raises DeriveError where bounds face both ways."""
        directions = {side.direction for side in self.sides}
        if len(directions) > 1:
            raise DeriveError(f"{self.asked} is bounded on both sides; ask for .low and .high")
        return _strictest(self.sides)

    @property
    def quantity(self) -> Quantity:
        """The strictest bound as a quantity with its tree."""
        return self.binding.quantity

    @property
    def value(self) -> sp.Expr:
        """The exact number of the strictest bound."""
        return self.quantity.value

    @property
    def low(self) -> Quantity:
        """The largest lower bound."""
        return self._facing(">=")

    @property
    def high(self) -> Quantity:
        """The smallest upper bound."""
        return self._facing("<=")

    def _facing(self, direction: str) -> Quantity:
        found = [side for side in self.sides if side.direction == direction]
        if not found:
            raise DeriveError(f"{self.asked} has no bound {direction}")
        return _strictest(found).quantity

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        return str(self)

    def _repr_latex_(self) -> str | None:
        if not self.sides:
            return None
        parts = []
        for side in self.sides:
            value = printed_tex(side.quantity.value, significant(4), side.quantity.unit)
            sign = r"\ge" if side.direction == ">=" else r"\le"
            parts.append(rf"{tex.tex(self.asked)} {sign} {value}")
        return "$\\displaystyle " + r" \quad\text{and}\quad ".join(parts) + "$"


def _strictest(sides: Sequence[Side]) -> Side:
    """Of bounds that face one way, the one that the others follow from."""
    pick = max if sides[0].direction == ">=" else min
    return pick(sides, key=lambda side: side.quantity.value)
