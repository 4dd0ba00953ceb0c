"""Reading what was typed: strategies, chips, models, values and assumptions."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

from derive.cost.assumptions import Assumptions, assume
from derive.cost.strategies import Strategy, layer, strategy
from derive.facts import chip, model
from derive.notation.errors import DeriveError, quoted
from derive.notation.typed_quantity import assignment
from derive.solve.binding import Giver


def strategy_of(text: str) -> Strategy:
    """A strategy by its name, or a sharding written out."""
    return layer(text) if "[" in text else strategy(text)


def assumptions_of(options: Namespace) -> Assumptions:
    """The assumptions that the options state; those left out keep their defaults."""
    names = ("overlap", "passes", "form", "keep", "gated", "precision", "gradients", "wrap")
    stated = {n: getattr(options, n) for n in names if getattr(options, n, None) is not None}
    return assume(**stated)


def givers_of(options: Namespace) -> tuple[Giver, ...]:
    """The chip and the model that were named, from the shipped files and the user's own."""
    files = tuple(Path(name) for name in options.facts or ())
    found: list[Giver] = []
    if options.chip:
        found.append(chip(options.chip, profile=options.profile, files=files))
    if options.model:
        found.append(model(options.model, files=files))
    return tuple(found)


def values_of(assignments: Iterable[str] | None) -> dict[str, object]:
    """NAME=VALUE pairs as quantities by symbol name; raises DeriveError for a name given twice."""
    values: dict[str, object] = {}
    for text in assignments or ():
        symbol, quantity = assignment(text)
        if symbol.name in values:
            raise DeriveError(f"--set {symbol.name} is given twice, the second time {quoted(text)}")
        values[symbol.name] = quantity
    return values
