"""Reading what was typed: files, chips, models, `--set` values, strategies and assumptions."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType

import sympy as sp

from derive.cost.assumptions import Assumptions, assume
from derive.cost.block import Block
from derive.cost.limits import LIMITS, Limit
from derive.cost.strategies import STRATEGIES, Strategy, layer, strategy
from derive.cost.transformer import BLOCKS
from derive.facts import Catalogue, Chip, Model, chip, load_file, model, shipped
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, UnknownName, quoted, unknown
from derive.notation.printed import shown
from derive.notation.quantity import Quantity
from derive.notation.read import assignment

LONGEST_PATH = 4096
# What states an assumption, by the option's name in the parsed ones.
OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "overlap": "--overlap", "passes": "--pass", "keep": "--keep", "gated": "--gated",
        "precision": "--precision", "gradients": "--gradients", "wrap": "--no-wrap",
        "network": "--network",
    }
)  # fmt: skip
BINDS = {"e": "--precision", "s_P": "--precision", "e_g": "--gradients"}


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


def givers_of(options: Namespace) -> tuple[Chip | Model, ...]:
    """The chip and the model that were named, from the shipped files and the user's own."""
    known = catalogue_of(options)
    named: list[Chip | Model] = []
    if options.chip is not None:
        named.append(chip(options.chip, profile=options.profile, catalogue=known))
    if options.model is not None:
        named.append(model(options.model, catalogue=known))
    return tuple(named)


def set_values(assignments: Iterable[str] | None) -> dict[sp.Symbol, Quantity]:
    """What `--set NAME=VALUE` options give, by symbol; raises DeriveError naming the option."""
    values: dict[sp.Symbol, Quantity] = {}
    for text in assignments or ():
        if text.count("=") > 1:
            raise DeriveError(f"--set: expected one NAME=VALUE, found {quoted(text)}")
        try:
            symbol, quantity = assignment(text)
        except DeriveError as error:
            raise type(error)(f"--set: {error}") from None
        if symbol in values:
            raise DeriveError(f"--set {symbol} is given twice: {quoted(text)}; leave one out")
        values[symbol] = quantity
    return values


def strategy_of(text: str, options: Namespace) -> Strategy:
    """A strategy by its name, or a block by its name or written out, spread by `--layout` where it
    is given. Raises UnknownName for a name that is neither."""
    layout, parameters = options.layout, options.parameters
    if "[" in text or text in BLOCKS:
        names = parameters and [name.strip() for name in parameters.split(",")]
        return layer(text, layout or "", parameters=names)
    try:
        named = strategy(text)
    except UnknownName:
        raise unknown("strategy or block", text, [*STRATEGIES, *BLOCKS]) from None
    for option, given in (("--layout", layout), ("--parameters", parameters)):
        if given is not None:
            told = f"is for blocks such as {', '.join(BLOCKS)}, or one written out"
            raise DeriveError(f"{option} {told}; {named.name} has its own; leave it out")
    return named


def subject_of(text: str, options: Namespace) -> Strategy | Limit:
    """A strategy or block as `strategy_of` reads it, or a limit of a training step by its name."""
    try:
        return strategy_of(text, options)
    except UnknownName:
        if text in LIMITS:
            return LIMITS[text]
        raise unknown("strategy", text, [*STRATEGIES, *LIMITS, *BLOCKS]) from None


def assumptions_of(options: Namespace) -> Assumptions:
    """The assumptions that the options state; those left out keep their defaults."""
    names = (*OPTIONS, "form")
    return assume(**{n: x for n in names if (x := getattr(options, n, None)) is not None})


def values_of(assignments: Iterable[str] | None, assumptions: Assumptions) -> dict[str, Quantity]:
    """NAME=VALUE pairs as quantities by symbol name.

    Raises DeriveError for a name given twice, for one that an assumption binds, and for alpha that
    is not the C/W given beside it.
    """
    values: dict[str, Quantity] = {}
    for symbol, quantity in set_values(assignments).items():
        if symbol in assumptions.elements:
            raise _bound(symbol, assumptions)
        values[str(symbol.name)] = quantity
    if {"alpha", "C", "W"} <= set(values):
        intensity = values["C"].value / values["W"].value
        if values["alpha"].value != intensity:
            told = f"alpha is C/W = {shown(intensity, v.unit_of_symbol(v.alpha))}"
            raise DeriveError(f"--set alpha contradicts C and W: {told}; leave out --set alpha")
    return values


def _bound(symbol: sp.Symbol, assumptions: Assumptions) -> DeriveError:
    name = str(symbol.name)
    given = f"--set {name}: {v.meaning(symbol).gloss}"
    if name not in BINDS:
        return DeriveError(
            f"{given}, is {assumptions.elements[symbol]} and cannot be set; leave it out"
        )
    option = BINDS[name]
    way = "use --precision any to set it" if name != "e_g" else f"leave out --set {name}"
    return DeriveError(
        f"{given}, follows from {option} ({getattr(assumptions, option[2:])}); {way}"
    )


def check_mesh(whose: Strategy, values: Mapping[str, Quantity]) -> None:
    """Raise DeriveError for a degree that is not whole, and where the chips N that were given are
    not the product of the mesh axes."""
    known = {s: values[s.name].value for s in whose.mesh if s.name in values}
    for axis, degree in known.items():
        if not degree.is_Integer:
            raise DeriveError(f"--set {axis}: expected a whole number of devices, found {degree}")
    if v.N in whose.chips.free_symbols or "N" not in values or not known:
        return
    product, chips = sp.Mul(*known.values()), values["N"].value
    typed = " and ".join(f"{s} = {value}" for s, value in known.items())
    told = f"--set N = {chips} contradicts {typed}"
    if len(known) == len(whose.mesh) and product != chips:
        raise DeriveError(f"{told}: they make {product} chips; leave out --set N")
    if product > chips:
        raise DeriveError(f"{told}: more than the chips; leave out --set N")


def check_division(laid_out: Block, values: Mapping[str, Quantity]) -> None:
    """Raise DeriveError for degrees that do not divide a dimension that they split."""
    degrees = {axis: values[axis].value for axis in laid_out.mesh if axis in values}
    for tensor in laid_out.tensors:
        for dim, axes in tensor.split.items():
            split, size = prod(degrees.get(axis, 1) for axis in axes), values.get(dim)
            if size is not None and size.value.is_Integer and size.value % split:
                told = " times ".join(f"{a} = {degrees[a]}" for a in axes if a in degrees)
                nearest = max(d for d in sp.divisors(size.value) if d <= split)
                whole = f"{dim} = {shown(size.value)} of {tensor}"
                raise DeriveError(f"{told} does not divide {whole}; {nearest} does")
