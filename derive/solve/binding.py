"""From a closed form to a number: values from chips, models and users, and the answer they give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Protocol

import sympy as sp

from derive.cost.assumptions import Assumptions
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, quoted
from derive.notation.printed import printed, shown, significant
from derive.notation.quantity import Quantity, check_label, evaluated, number
from derive.notation.read import quantity as parsed_quantity
from derive.notation.units import Unit
from derive.solve.bounds import Answered, Bound, Side

Values = dict[sp.Symbol, Quantity]
ASSUMED_ONE = (v.M_X, v.M_Y, v.M_Z)
ABSURD = 10**40


class Giver(Protocol):
    """A chip or a model: something that gives values to symbols."""

    def bindings(self, precision: str = "bf16") -> Mapping[sp.Symbol, Quantity]: ...


def values_from(
    givers: Iterable[Giver], values: Mapping[str, object], assumptions: Assumptions
) -> Values:
    """Each symbol's value: the caller's own by name, before those of the chip and the model.

    Raises UnknownName for a name that is no symbol, UnitError for a unit or label that does not
    match and DeriveError for what is no positive finite number.
    """
    precision = "bf16" if assumptions.precision == "any" else assumptions.precision
    found: Values = {}
    for giver in givers:
        if not hasattr(giver, "bindings"):
            raise DeriveError(f"expected a chip or a model, found {quoted(giver)}")
        found.update(giver.bindings(precision))
    for name, value in values.items():
        symbol = v.find(name)
        found[symbol] = value_of(symbol, value)
    for symbol in assumptions.constants:
        if symbol in found and name_of(symbol) not in values:
            del found[symbol]
    return found


def name_of(symbol: sp.Symbol) -> str:
    return str(symbol.name)


def value_of(symbol: sp.Symbol, value: object) -> Quantity:
    """A caller's value for a symbol as a quantity, with its unit and labels checked."""
    if isinstance(value, Quantity):
        check_label(symbol, value)
        made = value
    elif isinstance(value, str):
        made = parsed_quantity(value, v.unit_of_symbol(symbol), symbol.name)
    else:
        made = number(_exact(symbol, value), v.unit_of_symbol(symbol), symbol.name)
    found = made.value
    if not found.is_zero and not (found.is_number and found.is_real and _sane(found)):
        raise DeriveError(f"{symbol.name}: expected a positive number from 1e-40 to 1e40")
    if not found.is_positive:
        raise DeriveError(f"{symbol.name}: expected a positive number, found {found}")
    return made


def _sane(value: sp.Expr) -> bool:
    return bool(sp.Rational(1, ABSURD) <= abs(value) < ABSURD)


def _exact(symbol: sp.Symbol, value: object) -> sp.Rational:
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction, sp.Rational)):
        raise DeriveError(f"{symbol.name}: expected a number, found {quoted(value)}")
    if isinstance(value, float):
        if not isfinite(value):
            raise DeriveError(f"{symbol.name}: expected a finite number, found {value}")
        value = Fraction(repr(value))  # the decimal number that was typed, not its binary neighbour
    if isinstance(value, sp.Rational):
        return value
    fraction = Fraction(value)
    if abs(fraction) >= ABSURD:
        raise DeriveError(f"{symbol.name}: expected a number below 1e40")
    return sp.Rational(fraction.numerator, fraction.denominator)


def with_torus_axes(values: Mapping[sp.Symbol, Quantity]) -> Values:
    """The values, with M_X, M_Y and M_Z as 1, status assumed, where they have none."""
    ones = {s: number(1, v.unit_of_symbol(s), s.name, status="assumed") for s in ASSUMED_ONE}
    return {**ones, **values}


def bind(expr: sp.Expr, values: Values, unit: Unit | None = None, name: str = "") -> Quantity:
    """The quantity of `expr`; alpha is C/W where it has no value of its own, and M_X, M_Y, M_Z are
    1 where they have none, with status assumed. Raises DeriveError naming what has no value."""
    bound = with_torus_axes(values)
    if v.alpha in expr.free_symbols and v.alpha not in bound:
        bound[v.alpha] = evaluated(v.C / v.W, bound, v.unit_of_symbol(v.alpha), "alpha")
    return evaluated(expr, bound, unit, name)


@dataclass(frozen=True, repr=False)
class Answer(Answered):
    """The numbers of a threshold. `sides` are its bounds; `provided` are loads that must not exceed
    1 for the answer to hold, as (formula, quantity). `notes` say what a reader has to know."""

    provided: tuple[tuple[str, Quantity], ...]
    assumptions: Assumptions
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = []
        for side in self.sides:
            value = shown(side.quantity.value, side.quantity.unit)
            by = "" if "memory" in side.where else f"  ({' and '.join(side.passes)} pass)"
            formula = side.quantity.formula
            lines.append(f"{tex.text(self.asked)} {side.direction} {value} = {formula}{by}")
        for formula, quantity in self.provided:
            held = "holds" if quantity.value <= 1 else "does NOT hold"
            share = printed(quantity.value, significant(3, trim=True))
            lines.append(f"  provided {formula} <= 1, which {held}: {share}")
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"  {line}" for line in input_lines(*(side.quantity for side in self.sides))]
        lines.append("  assumptions:")
        lines += [f"    {k}: {text}" for k, text in self.described.items()]
        return "\n".join(lines)

    @property
    def described(self) -> dict[str, str]:
        """The assumptions by name; where memory limits, the bytes of state of a parameter too."""
        memory = any("memory" in side.where for side in self.sides)
        return self.assumptions.described(memory=memory)


def input_lines(*quantities: Quantity) -> list[str]:
    """One line per input, each once, with what it belongs to and where it is from."""
    lines = []
    for name, given in dict.fromkeys(pair for q in quantities for pair in q.inputs):
        line = f"{name} = {shown(given.value, given.unit)}"
        if given.formula:
            parts = ", ".join(
                f"{n} = {shown(q.value, q.unit)} {origin(q)}".rstrip() for n, q in given.inputs
            )
            line += f" = {given.formula} with {parts}"
        else:
            line += f" {origin(given)}"
        lines.append(line.rstrip())
    return lines


def origin(quantity: Quantity) -> str:
    """Where a leaf comes from: chip or model, basis, source and status, in brackets."""
    basis = quantity.basis.split(":")[0].split(";")[0]
    parts = [quantity.owner, basis, f"[{quantity.source}]" if quantity.source else ""]
    parts.append(quantity.status)
    return f"({', '.join(p for p in parts if p)})"


def answers(
    asked: sp.Expr,
    unit: Unit,
    bounds: Iterable[Bound],
    provided: Iterable[sp.Expr],
    mesh: Iterable[tuple[sp.Symbol, sp.Expr]],
    assumptions: Assumptions,
    givers: Iterable[Giver],
    values: Mapping[str, object],
) -> Answer:
    """The answer that closed forms give for the values, with a note on a mesh that cannot be."""
    bound = values_from(givers, values, assumptions)
    sides = tuple(
        Side(one.direction, bind(one.expr, bound, unit, str(asked)), one.passes, one.where)
        for one in bounds
    )
    loads = tuple((tex.text(load), bind(load, bound)) for load in provided)
    return Answer(asked, sides, loads, assumptions, tuple(_impossible(mesh, bound)))


def _impossible(mesh: Iterable[tuple[sp.Symbol, sp.Expr]], bound: Values) -> Iterator[str]:
    for symbol, degree in mesh:
        try:
            value = bind(degree, bound).value
        except DeriveError:  # a symbol that the bound itself does not need has no value
            continue
        if value < 1:
            yield (
                f"the best split there has {symbol} = {shown(value)}, and no mesh has less than 1: "
                f"give {symbol} a value"
            )
