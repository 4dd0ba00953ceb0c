"""Reading what was typed: files, chips, models and `--set` values."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

import sympy as sp

from derive.facts import Catalogue, Chip, Model, chip, load_file, model, shipped
from derive.notation.errors import DeriveError, quoted, unknown
from derive.notation.quantity import Quantity
from derive.notation.read import assignment

LONGEST_PATH = 4096


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
            raise DeriveError(f"--set {symbol} is given twice, the second time {quoted(text)}")
        values[symbol] = quantity
    return values
