"""Reading what was typed: strategies, chips, models, values and assumptions."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

import sympy as sp

from derive.commands.typed import set_values
from derive.cost.assumptions import Assumptions, assume
from derive.cost.strategies import Strategy, layer, strategy
from derive.facts import Catalogue, chip, load_file, model, shipped
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, quoted, unknown
from derive.notation.printed import shown
from derive.notation.quantity import Quantity
from derive.solve.binding import Giver

LONGEST_PATH = 4096
BINDS = {"e": "--precision", "s_P": "--precision", "e_g": "--gradients"}


def strategy_of(text: str) -> Strategy:
    """A strategy by its name, or a sharding written out."""
    return layer(text) if "[" in text else strategy(text)


def assumptions_of(options: Namespace) -> Assumptions:
    """The assumptions that the options state; those left out keep their defaults."""
    names = ("overlap", "passes", "form", "keep", "gated", "precision", "gradients", "wrap")
    stated = {n: getattr(options, n) for n in names if getattr(options, n, None) is not None}
    return assume(**stated)


def path_of(text: str, what: str) -> Path:
    """The path that was typed; raises DeriveError for one that no file can have."""
    if not text or len(text) > LONGEST_PATH or "\0" in text:
        raise DeriveError(f"{what}: expected a path, found {quoted(text)}")
    return Path(text)


def catalogue_of(options: Namespace) -> Catalogue:
    """The shipped facts and the user's own; refuses an unknown profile, used or not."""
    known = shipped()
    for name in options.facts or ():
        known = load_file(path_of(name, "--facts"), onto=known)
    if options.profile not in known.profiles:
        raise unknown("profile", options.profile, known.profiles)
    return known


def givers_of(options: Namespace) -> tuple[Giver, ...]:
    """The chip and the model that were named, from the shipped files and the user's own."""
    known = catalogue_of(options)
    found: list[Giver] = []
    if options.chip is not None:
        found.append(chip(options.chip, profile=options.profile, catalogue=known))
    if options.model is not None:
        found.append(model(options.model, catalogue=known))
    return tuple(found)


def values_of(assignments: Iterable[str] | None, assumptions: Assumptions) -> dict[str, object]:
    """NAME=VALUE pairs as quantities by symbol name.

    Raises DeriveError for a name given twice, for one that an assumption binds, and for alpha that
    is not the C/W given beside it.
    """
    values: dict[str, Quantity] = {}
    for symbol, quantity in set_values(assignments).items():
        if symbol in assumptions.constants:
            raise _bound(symbol, assumptions)
        values[str(symbol.name)] = quantity
    if {"alpha", "C", "W"} <= set(values):
        ratio = values["C"].value / values["W"].value
        if values["alpha"].value != ratio:
            is_ratio = f"alpha is C/W = {shown(ratio, v.unit_of_symbol(v.alpha))}"
            raise DeriveError(f"--set alpha contradicts C and W: {is_ratio}")
    return dict(values)


def _bound(symbol: sp.Symbol, assumptions: Assumptions) -> DeriveError:
    name = str(symbol.name)
    given = f"--set {name}: {v.meaning(symbol).gloss}"
    if name not in BINDS:
        return DeriveError(f"{given}, is {assumptions.constants[symbol]} and cannot be set")
    option = BINDS[name]
    way = "use --precision any to set it" if option == "--precision" else f"use {option}"
    return DeriveError(
        f"{given}, follows from {option} ({getattr(assumptions, option[2:])}); {way}"
    )


def check_mesh(of: Strategy, values: dict[str, object]) -> None:
    """Raise DeriveError where the chips N that were given are not the product of the mesh axes."""
    if v.N in of.chips.free_symbols or "N" not in values:
        return
    sizes = {s: values[s.name] for s in of.mesh if s.name in values}
    known = {s: q.value for s, q in sizes.items() if isinstance(q, Quantity)}
    chips = values["N"]
    if not known or not isinstance(chips, Quantity):
        return
    product = sp.Mul(*known.values())
    typed = " and ".join(f"{s} = {value}" for s, value in known.items())
    if len(known) == len(of.mesh) and product != chips.value:
        raise DeriveError(f"--set N = {chips.value} contradicts {typed}: they make {product} chips")
    if product > chips.value:
        raise DeriveError(f"--set N = {chips.value} contradicts {typed}: more than the chips")
