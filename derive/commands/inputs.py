"""Reading what was typed: files, chips, models, `--set` values, strategies and assumptions."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import prod
from os import fsencode
from pathlib import Path
from types import MappingProxyType

import sympy as sp

from derive.cost.assumptions import Assumptions, assume
from derive.cost.block import Block, Fusion
from derive.cost.limits import LIMITS, Limit
from derive.cost.program import degree
from derive.cost.strategies import STRATEGIES, Strategy, layer, strategy
from derive.cost.transformer import BLOCKS
from derive.facts import Catalogue, Chip, Model, chip, load_file, model, shipped
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, UnknownName, lookup, quoted, unknown
from derive.notation.printed import shown
from derive.notation.quantity import Quantity
from derive.notation.read import assignment

LONGEST_PATH = 4096
# What states an assumption, by the option's name in the parsed ones.
OPTIONS: Mapping[str, str] = MappingProxyType({
    "overlap": "--overlap", "passes": "--pass", "keep": "--keep", "gated": "--gated",
    "precision": "--precision", "gradients": "--gradients", "wrap": "--no-wrap",
    "network": "--network", "program": "--least",
    **{name: f"--{name}" for name in Fusion._fields},
})  # fmt: skip


def path_of(text: str, what: str) -> Path:
    """The path that was typed; raises DeriveError for one that no file can have."""
    with suppress(UnicodeEncodeError):
        if text and len(text) <= LONGEST_PATH and b"\0" not in fsencode(text):
            return Path(text)
    raise DeriveError(f"{what}: expected a path, found {quoted(text)}")


def catalogue_of(options: Namespace) -> Catalogue:
    """The shipped facts, or those of a chapter, and the user's own; refuses an unknown profile,
    used or not."""
    known: Catalogue = getattr(options, "catalogue", None) or shipped()
    for name in options.facts or ():
        known = load_file(path_of(name, "--facts"), onto=known)
    lookup("profile", options.profile, known.profiles)
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


def set_values(assignments: Iterable[str] | None) -> dict[str, Quantity]:
    """What `--set NAME=VALUE` options give, by the symbol's name; raises DeriveError naming the
    option, for a name given twice too."""
    values: dict[str, Quantity] = {}
    for text in assignments or ():
        if text.count("=") > 1:
            raise DeriveError(f"--set: expected one NAME=VALUE, found {quoted(text)}")
        try:
            symbol, quantity = assignment(text)
        except DeriveError as error:
            raise type(error)(f"--set: {error}") from None
        if symbol.name in values:
            raise DeriveError(f"--set {symbol} is given twice: {quoted(text)}; leave one out")
        values[symbol.name] = quantity
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


def follows_in_fold(laid_out: Block, values: Mapping[str, Quantity]) -> dict[sp.Symbol, sp.Expr]:
    """The last degree of a fold, from the others. Raises DeriveError where those that are given do
    not make the same devices on both sides."""
    own, again = map(degree, laid_out.fold or ((), ()))
    every = v.symbols_of(own * again)
    left = [s for s in every if s.name not in values] or [s for s in every if again.has(s)][:1]
    if len(left) != 1:
        return {}
    (last,) = left
    follows = own / again * last if again.has(last) else again / own * last
    value = follows.xreplace({s: values[s.name].value for s in follows.free_symbols})
    given = values[last.name].value if last.name in values else value
    if not value.is_Integer or given != value:
        told = ", ".join(f"{s} = {shown(values[s.name].value)}" for s in every if s.name in values)
        wanted = "expected a whole number" if given == value else "they are the same devices"
        raise DeriveError(f"{told}: {last} = {tex.text(follows)} is {shown(value)}; {wanted}")
    return {last: value}


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
