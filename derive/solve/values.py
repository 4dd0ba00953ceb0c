"""The one way in for values: facts of a chip and a model, constants of the assumptions, and the
caller's own by name, with what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import Any, Protocol, TypeVar

import sympy as sp

from derive.cost.assumptions import CHOICES, TERMS, Assumptions
from derive.cost.load import Requirement
from derive.cost.network import TORUS_AXES
from derive.facts import Chip, Fact, Model
from derive.facts.fact import FOLLOWS
from derive.facts.stacks import fitted_to_chip, kind_of_chip, stacks
from derive.notation import digits, tex
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, UnitError, quoted, too_large, whole_number
from derive.notation.printed import shown
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
MOST_AXES = 10  # of a torus of which nothing is known
LONGEST_BLOCK = 256  # chips along the blocks into which a torus axis is cut
SOURCE_OF_NOTEBOOK = "NB"
COUNTED = ("mesh", "axis")  # the roles of what is a number of devices
WHOLE = (v.D, v.F, v.H, v.K, v.G, v.L, v.V, v.n_node, v.n_V, v.n_F, v.T_min)
COUNTS = (*WHOLE, v.b_seq, v.B_seq)  # of a step
REACHED = (v.eta, v.eta_A, v.eta_hbm, v.eta_node, v.eta_dcn)  # shares of what a chip has
SHARES = (*REACHED, v.mu, v.x_pp, v.x_dp, v.x_tp, v.x_ep, v.x_win, v.x_hid)
# What a caller may set beside the degrees: not what the options state, nor what follows.
SETTABLE = (
    *WHOLE, *SHARES, v.P, v.C, v.M_hbm, v.W_node, v.W_dcn, v.M_axes, v.A_kept, v.e, v.e_g, v.e_32,
    v.E, v.n_k, v.n_S, v.F_E, v.L_E, v.r_q, v.r_kv, v.H_N, v.H_R, v.H_V, v.x_cap, v.n_M,
    v.W_hbm, v.C_A, v.s_0, v.x_el, v.s_opt, v.s_V, v.s_L, v.e_k, v.t_hop, v.t_fix, v.L_g,
)  # fmt: skip
# What is 1 where nothing says otherwise, and shown as assumed.
ONES: Mapping[sp.Symbol, Quantity] = {
    s: number(1, v.unit_of_symbol(s), s.name, status="assumed")
    for s in (v.M_X, v.M_Y, v.M_Z, v.b_seq, v.x_cap)
}
STATED_BY = {v.e: "precision", v.s_P: "precision", v.e_g: "gradients"}
Kind = TypeVar("Kind", bound=Chip | Model)


class Giver(Protocol):
    """A chip or a model: something that gives values to symbols."""

    def bindings(self, precision: str = "bf16") -> Mapping[sp.Symbol, Quantity]: ...


def values_for(need: Requirement, givers: Iterable[Giver], values: Mapping[str, object]) -> Values:
    """Each symbol's value: the caller's own by name, before those of the chip and the model; for a
    step with the constants of its assumptions.

    Raises UnknownName for a name that is no symbol, UnitError for a unit or label that does not
    match and DeriveError for what is no positive finite number; for a degree that is no whole
    number, torus axes that the chip does not have and a share that is not between 0 and 1; for what
    an assumption states; and for values that contradict each other.
    """
    every = tuple(givers)
    known = given_facts(every, need.assumptions)
    typed = typed_values(values)
    if need.definitions:
        check_dense(model := one_of(Model, every))
        known |= facts_of(model, one_of(Chip, every), need.assumptions)
    else:
        _check_assumed(typed, need.assumptions)
    check_values(typed, COUNTS if need.definitions else ())
    _check_torus_axes(typed, {**known, **typed}.get(v.M_axes))
    _check_together(typed, need)
    return {**ONES, **known, **typed}


def given_facts(givers: Iterable[Giver], assumptions: Assumptions) -> Values:
    """What a chip and a model say of symbols; raises DeriveError for what is neither, and for two
    of a kind."""
    precision = "bf16" if assumptions.precision == "any" else assumptions.precision
    known: Values = {}
    every = tuple(givers)
    for giver in every:
        if not isinstance(giver, (Chip, Model)):
            raise DeriveError(f"expected a chip or a model, found {quoted(giver)}")
        one_of(type(giver), every)
        known.update(_of_layers(giver) if isinstance(giver, Model) else giver.bindings(precision))
    return known


def check_dense(model: Model | None) -> None:
    """Raise DeriveError for a model of which the step of a dense transformer is not true."""
    if model is not None and model.beyond_dense:
        told = "expected a dense transformer, whose step this is"
        raise DeriveError(f"{model.name} has {model.beyond_dense}; {told}")


def _of_layers(model: Model) -> Values:
    """What a model says of symbols; F only where it is the width of every layer."""
    return {s: q for s, q in model.bindings().items() if s != v.F or not model.experts}


def typed_values(values: Mapping[Any, object], *, bounded: bool = True) -> Values:
    """A caller's own values, by symbol or by its name, as quantities, which `value_of` bounds."""
    typed: Values = {}
    for key, value in values.items():
        if key in CHOICES:
            ways = f"threshold(..., {key}=...), optimum and feasible take it"
            raise DeriveError(f"{key} is an assumption and no value: {ways}")
        if not isinstance(key, (str, sp.Symbol)):
            raise DeriveError(f"values: expected symbols such as tp, found {quoted(key)}")
        symbol = v.find(key) if isinstance(key, str) else key
        if symbol in typed:
            raise DeriveError(f"{symbol} is given twice, by name and as a symbol")
        typed[symbol] = value_of(symbol, value, bounded=bounded)
    return typed


def value_of(symbol: sp.Symbol, value: object, *, bounded: bool = True) -> Quantity:
    """A caller's value for a symbol as a quantity, with its unit and labels checked; positive, and
    where it is `bounded` of a size and length that SymPy can work with."""
    if isinstance(value, Quantity):
        check_label(symbol, value)
        taken = value
    elif isinstance(value, str):
        taken = parsed_quantity(value, v.unit_of_symbol(symbol), symbol.name)
    else:
        try:
            bare = digits.exact(value[()] if type(value).__name__ == "ndarray" else value)  # type: ignore[index]
        except DeriveError as error:
            raise DeriveError(f"{symbol.name}: {error}") from None
        taken = number(bare, v.unit_of_symbol(symbol), symbol.name)
    exact = taken.value
    fits = exact.is_number and exact.is_real
    if fits and bounded:
        fits = not too_large(exact) and sp.Rational(1, ABSURD) <= abs(exact) < ABSURD
    if not (fits or exact.is_zero):
        raise DeriveError(f"{symbol.name}: expected a positive number from 1e-40 to 1e40")
    if not exact.is_positive:
        raise DeriveError(f"{symbol.name}: expected a positive number, found {exact}")
    return taken


def whole(value: object, symbol: sp.Symbol, called: str, most: int) -> int:
    """A caller's whole number from 1 to `most` for a symbol, of any kind of number; raises
    DeriveError for anything else, text too, under the name `called`, and UnitError."""
    try:
        exact = sp.nan if isinstance(value, str) else value_of(symbol, value).value
    except UnitError:
        raise
    except DeriveError:
        exact = sp.nan
    return whole_number(called, exact if exact.is_finite else value, 1, most)


# What the facts say of a step.
@lru_cache(maxsize=64)
def facts_of(
    model: Model | None, chip: Chip | None, assumptions: Assumptions
) -> Mapping[sp.Symbol, Quantity]:
    """What the step model needs of a chip and a model, and the constants of the assumptions."""
    known: Values = {}
    if chip is not None:
        bindings = chip.bindings(assumptions.precision)
        known |= {s: q for s, q in bindings.items() if s in SETTABLE}
        if fabric_of(chip) == "torus":  # a pod takes the place of a node, a torus axis of a link
            known[v.W_node] = chip.quantity("ici_axis").named("W_node")
            if chip.has("pod_chips"):
                known[v.n_node] = chip.quantity("pod_chips").named("n_node")
        if "bf16" in chip.precisions:
            known[v.C_A] = chip.bindings("bf16")[v.C].named("C_A")
        overridden = {change.key for change in chip.overrides}
        for fact, rounded in _of_notebook(chip.facts, assumptions):
            key = fact.key
            speaks = not key.precision or key.name == assumptions.precision
            if speaks and key.symbol in SETTABLE and key.name not in overridden:
                known[key.symbol] = rounded
    if model is not None:
        # None of something, such as shared experts, plays no part.
        known |= {s: q for s, q in _of_layers(model).items() if s in SETTABLE and q.value}
        for fact, rounded in _of_notebook(model.facts, assumptions):
            if fact.key.name == "published_parameters":
                known[v.P] = rounded.named("P")
        known[v.n_V] = number(model.tables, name="n_V", owner=model.name)
        known[v.n_F] = number(model.feed_forward_matrices, name="n_F", owner=model.name)
    for symbol, value in assumptions.constants.items():
        if not value.free_symbols:  # the bytes of an element can be left open
            known[symbol] = number(value, v.unit_of_symbol(symbol), symbol.name, status="assumed")
    if chip is not None and assumptions.corrections & TERMS.keys():
        known |= {v.find(name): share for name, share in _fitted(chip.name)}
    return known


def _fitted(chip: str) -> Iterator[tuple[str, Quantity]]:
    """The shares that published runs on the chip fit, by symbol, in place of those assumed."""
    sources = [source for source, stack in stacks().items() if kind_of_chip(chip) in stack.clusters]
    for name, (share, owners) in fitted_to_chip(chip).items():
        told = f"fitted to {share.runs} runs of {', '.join(sources)}, off by {share.error:.0%}"
        quantity = number(share.value, name=name, owner=", ".join(owners), status="derived")
        yield name, replace(quantity, where=told)


def fabric_of(chip: Chip) -> str:
    """What joins the chips of a step: a torus where the chip has its links, else switches."""
    return "torus" if chip.has("ici_axis") and not chip.has("scaleup") else "switch"


def check_values(
    values: Mapping[sp.Symbol, Quantity], counts: Iterable[sp.Symbol] = COUNTS
) -> None:
    """Raise DeriveError for a degree or one of the `counts` that is no whole number, and for a
    share that is above 1."""
    whole_ones = {*counts, v.N, v.n_node, v.n_mb}
    for symbol, quantity in values.items():
        value, one = quantity.value, (symbol,)
        # A slice that an answer allows need not be whole; what is given, and its degrees, are.
        if symbol == v.N and value < 1:
            raise DeriveError(f"{glossed(one)}: expected at least 1, found {shown(value)}")
        degree = v.meaning(symbol).role in COUNTED and symbol != v.N
        counted = symbol in whole_ones and quantity.status != "derived"
        if (degree or counted) and not value.is_Integer:
            raise DeriveError(f"{glossed(one)}: expected a whole number, found {value}")
        if symbol in SHARES and not 0 < value <= 1:
            raise DeriveError(f"{glossed(one)}: expected at most 1, found {value}")
        if symbol == v.epsilon and not value < 1:
            raise DeriveError(f"{glossed(one)}: expected a share between 0 and 1, found {value}")


def _check_torus_axes(values: Values, there: Quantity | None) -> None:
    """Raise DeriveError unless a mesh axis can have so many of the torus axes: whole ones, or the
    shares of those that are cut between two mesh axes."""
    axes = MOST_AXES if there is None else int(there.value)
    for symbol in filter(values.__contains__, TORUS_AXES.values()):
        share = digits.fraction(values[symbol].value)
        if share > axes or not (share.denominator == 1 or _is_cut(share, min(axes, 3))):
            told = f"expected 1 to {axes}, or a share of those that are cut, such as 1/2"
            raise DeriveError(f"{glossed((symbol,))}: {told}; found {values[symbol].value}")


def _is_cut(share: Fraction, axes: int) -> bool:
    """Whether `share` is a sum of at most so many 1/b, b being the chips along a block."""
    if not share or not axes:
        return not share
    blocks = range(max(2, ceil(1 / share)), min(floor(axes / share), LONGEST_BLOCK) + 1)
    return any(_is_cut(share - Fraction(1, b), axes - 1) for b in blocks)


def _check_assumed(values: Values, assumptions: Assumptions) -> None:
    """Raise DeriveError for a value of what the assumptions state, saying which would take it."""
    for symbol in filter(assumptions.elements.__contains__, values):
        told, name = f"is {assumptions.elements[symbol]} and cannot be set", STATED_BY.get(symbol)
        if name is not None:
            told = f'follows from {name}="{getattr(assumptions, name)}" (one of '
            told += f"{', '.join(map(str, CHOICES[name]))})"
            told += f'; {name}="any" takes a value' if "any" in CHOICES[name] else ""
        raise DeriveError(f"{symbol}: {v.meaning(symbol).gloss}, {told}; leave out {symbol}")


def _check_together(values: Values, need: Requirement) -> None:
    """Raise DeriveError where a value is not what follows from others that are given, such as alpha
    beside C and W, or the chips N beside the mesh axes, of which they cannot be fewer."""
    for symbol, expr in (*FOLLOWS.items(), *need.definitions, (v.N, need.chips)):
        others = [s for s in v.symbols_of(expr) if s in values]
        if symbol not in values or symbol in need.held or not others or symbol in others:
            continue
        these = " and ".join(f"{s} = {shown(values[s].value, values[s].unit)}" for s in others)
        told = f"{symbol} = {shown(values[symbol].value, values[symbol].unit)} contradicts {these}"
        follows = expr.xreplace({s: values[s].value for s in others})
        if follows.is_number and follows != values[symbol].value:
            why = f"{symbol} = {tex.text(expr)} is {shown(follows, v.unit_of_symbol(symbol))}"
            raise DeriveError(f"{told}: {why}; leave out {symbol}")
        if symbol == v.N and follows.as_coeff_Mul()[0] > values[v.N].value:
            raise DeriveError(f"{told}: more than the chips; leave out {symbol}")


def _of_notebook(
    facts: Iterable[Fact], assumptions: Assumptions
) -> Iterator[tuple[Fact, Quantity]]:
    """The readings of the notebook, which its assumptions fix whatever the chip's profile."""
    for fact in facts if "exact_parameters" not in assumptions else ():
        for reading in fact.readings:
            if reading.source == SOURCE_OF_NOTEBOOK:
                yield fact, fact.quantity(reading)


def one_of(kind: type[Kind], givers: Iterable[Giver]) -> Kind | None:
    """The chip, or the model, of what is given, if any; raises DeriveError for two."""
    alike = [giver for giver in givers if isinstance(giver, kind)]
    if len(alike) > 1:
        told = " and ".join(giver.name for giver in alike)
        raise DeriveError(f"expected one {kind.__name__.lower()}, found {told}; give one")
    return alike[0] if alike else None


# What follows from values.
@dataclass(frozen=True)
class Filled:
    """Values with those that follow from them; the symbols left without one, in order; those that
    were looked up; and the link that was taken to be the one inside a node, if any."""

    values: Values
    missing: tuple[sp.Symbol, ...]
    used: frozenset[sp.Symbol]
    inside_node: sp.Symbol | None = None

    def checked(self) -> Values:
        """The values; raises DeriveError naming the symbols that have none."""
        if self.missing:
            raise without_value(self.missing)
        return self.values

    def idle(self, names: Iterable[str], besides: Iterable[sp.Symbol] = ()) -> tuple[str, ...]:
        """A note for each of the names that has played no part; `besides` are symbols that have."""
        used = {symbol.name for symbol in self.used.union(besides)}
        return tuple(f"{name} plays no part in this answer" for name in names if name not in used)


def filled(
    needed: Iterable[sp.Symbol], need: Requirement, asked: sp.Symbol | None, values: Values
) -> Filled:
    """`values` with what is needed besides and follows by definition, such as the link of a group
    from its size, alpha, which is C/W, or the one mesh axis without a value from the chips.

    What is defined by the symbol that is asked for is needed itself; but the link
    `need.inside_node` is then that of a group of one, where what it follows from has values.
    """
    defined = {**FOLLOWS, **dict(need.definitions)}
    left = [axis for axis in need.mesh if axis not in values]
    if v.N in values and len(left) == 1:
        defined[left[0]] = v.N / need.chips.xreplace({left[0]: sp.S.One})
    known = {symbol: value for symbol, value in values.items() if symbol != asked}
    missing: set[sp.Symbol] = set()
    used: set[sp.Symbol] = set()
    inside: set[sp.Symbol] = set()

    def fill(symbol: sp.Symbol) -> bool:
        used.add(symbol)
        if symbol in known:
            return True
        expr = defined.get(symbol)
        if expr is not None and asked in expr.free_symbols:
            expr = expr.xreplace({asked: sp.S.One}) if symbol == need.inside_node else None
            if expr is not None and not expr.free_symbols <= known.keys():
                expr = None
            inside.update([symbol] if expr is not None else ())
        if expr is None:
            missing.add(symbol)
            return False
        if not all([fill(s) for s in v.symbols_of(expr)]):
            return False
        known[symbol] = evaluated(expr, known, v.unit_of_symbol(symbol), symbol.name)
        if symbol in left:
            check_values({symbol: known[symbol]}, ())
        return True

    for symbol in sorted(needed, key=v.rank):
        fill(symbol)
    link = need.inside_node if inside else None
    return Filled(known, tuple(sorted(missing, key=v.rank)), frozenset(used), link)
