"""The one way in for values: facts of a chip and a model, constants of the assumptions, and the
caller's own by name, with what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Protocol, TypeVar

import sympy as sp

from derive.cost.assumptions import CHOICES, Assumptions
from derive.cost.load import Requirement
from derive.facts import Chip, Model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, quoted
from derive.notation.quantity import (
    Quantity,
    check_label,
    evaluated,
    glossed,
    number,
    without_value,
)  # fmt: skip
from derive.notation.read import quantity as parsed_quantity

Values = dict[sp.Symbol, Quantity]
ABSURD = 10**40
SOURCE_OF_NOTEBOOK = "NB"
DEGREES = (v.tp, v.cp, v.pp, v.dp, v.b_seq, v.B_seq)
WHOLE = (v.D, v.F, v.H, v.K, v.G, v.L, v.V, v.n_node, v.n_V, v.n_F, v.T_min)
SHARES = (v.eta, v.mu, v.x_pp, v.x_dp)
# What a caller may set beside the degrees: not what the options state, nor what follows.
SETTABLE = (
    *WHOLE, *SHARES, v.P, v.C, v.M_hbm, v.W_node, v.W_dcn, v.M_axes, v.A_kept, v.e, v.e_g, v.e_32,
)  # fmt: skip
# What is 1 where nothing says otherwise, and shown as assumed.
ONES: Mapping[sp.Symbol, Quantity] = {
    s: number(1, v.unit_of_symbol(s), s.name, status="assumed")
    for s in (v.M_X, v.M_Y, v.M_Z, v.b_seq)
}
Kind = TypeVar("Kind")
FOLLOWS: Mapping[sp.Symbol, sp.Expr] = {v.alpha: v.C / v.W}


class Giver(Protocol):
    """A chip or a model: something that gives values to symbols."""

    def bindings(self, precision: str = "bf16") -> Mapping[sp.Symbol, Quantity]: ...


def values_for(need: Requirement, givers: Iterable[Giver], values: Mapping[str, object]) -> Values:
    """Each symbol's value: the caller's own by name, before those of the chip and the model; for a
    step with the constants of its assumptions.

    Raises UnknownName for a name that is no symbol, UnitError for a unit or label that does not
    match and DeriveError for what is no positive finite number; for a step also for a degree that
    is no whole number and a share that is not between 0 and 1.
    """
    every = tuple(givers)
    known = given_facts(every, need.assumptions)
    typed = typed_values(values)
    if need.definitions:
        chips = [giver for giver in every if isinstance(giver, Chip)]
        models = [giver for giver in every if isinstance(giver, Model)]
        known |= facts_of(_last(models), _last(chips), need.assumptions)
        _check_degrees(typed)
        check_values(typed)
    return {**ONES, **known, **typed}


def given_facts(givers: Iterable[Giver], assumptions: Assumptions) -> Values:
    """What a chip and a model say of symbols; raises DeriveError for what is neither."""
    precision = "bf16" if assumptions.precision == "any" else assumptions.precision
    known: Values = {}
    for giver in givers:
        if not isinstance(giver, (Chip, Model)):
            raise DeriveError(f"expected a chip or a model, found {quoted(giver)}")
        known.update(giver.bindings(precision))
    return known


def typed_values(values: Mapping[str, object]) -> Values:
    """A caller's own values by symbol name, as quantities."""
    for name in values:
        if name in CHOICES:
            ways = f"threshold(..., {name}=...), optimum and feasible take it"
            raise DeriveError(f"{name} is an assumption and no value: {ways}")
    named = {v.find(name): value for name, value in values.items()}
    return {symbol: value_of(symbol, value) for symbol, value in named.items()}


def value_of(symbol: sp.Symbol, value: object) -> Quantity:
    """A caller's value for a symbol as a quantity, with its unit and labels checked."""
    if isinstance(value, Quantity):
        check_label(symbol, value)
        taken = value
    elif isinstance(value, str):
        taken = parsed_quantity(value, v.unit_of_symbol(symbol), symbol.name)
    else:
        taken = number(_exact(symbol, value), v.unit_of_symbol(symbol), symbol.name)
    exact = taken.value
    if not exact.is_zero and not (exact.is_number and exact.is_real and _sane(exact)):
        raise DeriveError(f"{symbol.name}: expected a positive number from 1e-40 to 1e40")
    if not exact.is_positive:
        raise DeriveError(f"{symbol.name}: expected a positive number, found {exact}")
    return taken


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
    return sp.Rational(fraction)


# What the facts say of a step.
def facts_of(
    model: Model | None, chip: Chip | None, assumptions: Assumptions
) -> dict[sp.Symbol, Quantity]:
    """What the step model needs of a chip and a model, and the constants of the assumptions."""
    known: dict[sp.Symbol, Quantity] = {}
    if chip is not None:
        bindings = chip.bindings(assumptions.precision)
        known |= {s: q for s, q in bindings.items() if s in SETTABLE}
        if fabric_of(chip) == "torus":
            known |= _pod(chip)
        if "exact_parameters" not in assumptions:
            known |= _rounded_chip(chip, assumptions.precision)
    if model is not None:
        known |= {s: q for s, q in model.bindings().items() if s in SETTABLE}
        if "exact_parameters" not in assumptions:
            known |= _rounded_parameters(model)
        known[v.n_V] = number(model.tables, name="n_V", owner=model.name)
        known[v.n_F] = number(model.feed_forward_matrices, name="n_F", owner=model.name)
    for symbol, value in assumptions.constants.items():
        unit = v.unit_of_symbol(symbol)
        known[symbol] = number(value, unit, symbol.name, status="assumed")
    return known


def fabric_of(chip: Chip) -> str:
    """What joins the chips of a step: a torus where the chip has its links, else switches."""
    return "torus" if chip.has("ici_axis") and not chip.has("scaleup") else "switch"


def _pod(chip: Chip) -> Values:
    """A pod in the place of a node: its chips, and the rate at which a chip sends round a ring over
    one torus axis, both ways at once."""
    pod = chip.quantity("pod_chips").named("n_node") if chip.has("pod_chips") else None
    return {
        v.W_node: chip.quantity("ici_axis").named("W_node"),
        **({v.n_node: pod} if pod is not None else {}),
    }


def check_values(values: Mapping[sp.Symbol, Quantity]) -> None:
    """Raise DeriveError for a count that is no whole number and a share that is above 1."""
    for symbol, quantity in values.items():
        value, called = quantity.value, glossed((symbol,))
        if symbol in WHOLE and not value.is_Integer:
            raise DeriveError(f"{called}: expected a whole number, found {value}")
        if symbol in SHARES and not 0 < value <= 1:
            raise DeriveError(f"{called}: expected at most 1, found {value}")


def _check_degrees(values: Mapping[sp.Symbol, Quantity]) -> None:
    for symbol in DEGREES:
        if symbol in values and not values[symbol].value.is_Integer:
            raise DeriveError(f"{symbol}: expected a whole number, found {values[symbol].value}")
    if v.epsilon in values and not 0 < values[v.epsilon].value < 1:
        share = values[v.epsilon].value
        raise DeriveError(f"epsilon: expected a share between 0 and 1, found {share}")


def _rounded_chip(chip: Chip, precision: str) -> dict[sp.Symbol, Quantity]:
    """The readings of the notebook, which its assumptions fix whatever the chip's profile, unless
    the caller has overridden the fact by name."""
    overridden = {change.key for change in chip.overrides}
    return {
        fact.key.symbol: fact.quantity(reading)
        for fact in chip.facts
        for reading in fact.readings
        if reading.source == SOURCE_OF_NOTEBOOK
        and fact.key.symbol in SETTABLE
        and fact.key.name not in overridden
        and (not fact.key.precision or fact.key.name == precision)
    }


def _rounded_parameters(model: Model) -> dict[sp.Symbol, Quantity]:
    """The notebook's own count of parameters, where it has one."""
    for fact in model.facts:
        if fact.key.name == "published_parameters":
            for reading in fact.readings:
                if reading.source == SOURCE_OF_NOTEBOOK:
                    return {v.P: fact.quantity(reading).named("P")}
    return {}


def _last(givers: list[Kind]) -> Kind | None:
    return givers[-1] if givers else None


# What follows from values.
@dataclass(frozen=True)
class Filled:
    """Values with those that follow from them; the symbols left without one, in order; and the link
    that was taken to be the one inside a node, if any."""

    values: Values
    missing: tuple[sp.Symbol, ...]
    inside_node: sp.Symbol | None = None

    def checked(self) -> Values:
        """The values; raises DeriveError naming the symbols that have none."""
        if self.missing:
            raise without_value(self.missing)
        return self.values


def filled(
    needed: Iterable[sp.Symbol], need: Requirement, asked: sp.Symbol | None, values: Values
) -> Filled:
    """`values` with what is needed besides and follows by definition, such as the link of a group
    from its size, or alpha, which is C/W.

    What is defined by the symbol that is asked for is needed itself; but the link
    `need.inside_node` is then that of a group of one, where what it follows from has values.
    """
    defined = {**FOLLOWS, **dict(need.definitions)}
    known = {symbol: value for symbol, value in values.items() if symbol != asked}
    missing: set[sp.Symbol] = set()
    inside: set[sp.Symbol] = set()

    def fill(symbol: sp.Symbol) -> bool:
        if symbol in known:
            return True
        expr = defined.get(symbol)
        if expr is not None and asked in expr.free_symbols:
            expr = expr.xreplace({asked: sp.S.One}) if symbol == need.inside_node else None
            if expr is not None and not expr.free_symbols <= known.keys():
                expr = None
            inside.update({symbol} if expr is not None else ())
        if expr is None:
            missing.add(symbol)
            return False
        if not all([fill(s) for s in sorted(expr.free_symbols, key=v.rank)]):
            return False
        known[symbol] = evaluated(expr, known, v.unit_of_symbol(symbol), symbol.name)
        return True

    for symbol in sorted(needed, key=v.rank):
        fill(symbol)
    link = need.inside_node if inside else None
    return Filled(known, tuple(sorted(missing, key=v.rank)), link)
