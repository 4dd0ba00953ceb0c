"""Named terms: an expression with its unit, where it is from and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from derive.notation import symbols as v
from derive.notation.text import text
from derive.notation.units import Unit, expect_unit, one


@dataclass(frozen=True, repr=False)
class Term:
    """One named expression of the step model.

    `unit` is checked by the fold when the term is made. `source` is a citation key, or "derived"
    for a form that a correction puts in place of the source's. `rests_on` names the corrections
    that shape the expression. A definition's name is that of the symbol it defines.
    """

    name: str
    expr: sp.Expr
    unit: Unit
    gloss: str
    rests_on: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        return "derived" if self.rests_on else "NB"

    def __post_init__(self) -> None:
        expect_unit(self.expr, self.unit, v.unit_of_symbol, f"step model, {self.name}")

    def __repr__(self) -> str:
        on = f", with {', '.join(self.rests_on)}" if self.rests_on else ""
        unit = "" if self.unit == one else f"{self.unit}: "
        return f"{self.name} = {text(self.expr)}  ({unit}{self.gloss} [{self.source}]{on})"


def define(symbol: sp.Symbol, expr: sp.Expr, rests_on: tuple[str, ...] = ()) -> Term:
    """The definition of an intermediate symbol, with the vocabulary's unit and gloss."""
    known = v.meaning(symbol)
    return Term(symbol.name, expr, known.unit, known.gloss, rests_on)
