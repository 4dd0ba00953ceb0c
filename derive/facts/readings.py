"""Sources, the readings of a fact in them, and how a profile picks one reading of each fact."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, get_args

import sympy as sp

from derive.facts.keys import FactKey
from derive.notation.errors import FactError, unknown
from derive.notation.quantity import Quantity, Status

SourceKind = Literal["vendor", "book", "code", "paper", "secondary", "operator", "own"]
SOURCE_KINDS: tuple[SourceKind, ...] = get_args(SourceKind)
READING_STATUSES: tuple[Status, ...] = tuple(s for s in get_args(Status) if s != "given")
ORIGIN = ("basis", "source", "where", "status", "formula")  # of a reading, and of its quantity


@dataclass(frozen=True)
class Source:
    """A document that can be cited: key, title, publisher, kind, address and dates.

    `dated` is the document's own date as its publisher states it ("undated" where it states none);
    `read` is the day on which it was read.
    """

    key: str
    title: str
    publisher: str
    kind: SourceKind
    dated: str
    address: str = ""
    read: date | None = None

    @property
    def issue(self) -> str:
        """Publisher and date, as lists of sources have them; without a date where it has none."""
        return self.publisher + (f", {self.dated}" if self.dated != "undated" else "")

    def __str__(self) -> str:
        place = f", {self.address}" if self.address else ""
        return f"[{self.key}] {self.title}, {self.issue}{place}"


@dataclass(frozen=True)
class Reading:
    """One value of a fact as one place of one source gives it.

    `value` is an exact number, or a tuple of whole numbers for a shape. `part` tells apart several
    readings of one fact in one source. `formula` is set where `status` is derived. `read` is None
    only for a value that a caller put in place of a reading.
    """

    value: sp.Rational | tuple[int, ...]
    basis: str
    source: str
    where: str
    status: Status
    read: date | None = None
    formula: str = ""
    part: str = ""

    @property
    def key(self) -> str:
        """What a profile or an override names: the source key, with `#part` where it has parts."""
        return f"{self.source}#{self.part}" if self.part else self.source


@dataclass(frozen=True)
class Fact:
    """A fact of one chip or model, its owner: the declaration and every reading, in file order."""

    key: FactKey
    owner: str
    readings: tuple[Reading, ...]

    def reading(self, key: str) -> Reading:
        """The reading named `key`; raises UnknownName, offering the nearest keys."""
        known = {reading.key: reading for reading in self.readings}
        if key not in known:
            raise unknown(f"reading of {self.key.name} of {self.owner}", key, known)
        return known[key]

    def quantity(self, reading: Reading) -> Quantity:
        """A reading of this fact as a leaf quantity named after the fact's symbol, or its key.

        Raises FactError for a shape, which is no number.
        """
        if isinstance(reading.value, tuple):
            shape = "x".join(map(str, reading.value))
            raise FactError(f"{self.key.name} of {self.owner} is the shape {shape}, not a number")
        name = self.key.name if self.key.symbol is None else self.key.symbol.name
        origin: dict[str, Any] = {field: getattr(reading, field) for field in ORIGIN}
        return Quantity(reading.value, self.key.unit, name, owner=self.owner, **origin)


@dataclass(frozen=True)
class Profile:
    """A way to choose one reading per fact: explicit picks first, then an order of sources.

    `picks` maps `chip.fact` to the key of a reading.
    """

    name: str
    order: tuple[str, ...]
    picks: tuple[tuple[str, str], ...]


def choose(fact: Fact, profile: Profile, prefer: tuple[str, ...] = ()) -> Reading:
    """The one reading of `fact` that `profile` picks.

    An explicit pick wins; else the first source of the profile's order, then of `prefer`, that has
    a reading; else the only reading. Raises FactError where several are left to choose from.
    """
    wanted = dict(profile.picks).get(f"{fact.owner}.{fact.key.name}")
    if wanted is not None:
        return fact.reading(wanted)
    by_key = {reading.key: reading for reading in fact.readings}
    for key in (*profile.order, *prefer):
        if key in by_key:
            return by_key[key]
    if len(fact.readings) == 1:
        return fact.readings[0]
    raise FactError(
        f"expected one reading, found {', '.join(by_key)}, "
        f"and profile {profile.name} prefers none; "
        f'name one under [profiles.{profile.name}.picks] "{fact.owner}.{fact.key.name}", '
        f"or in prefer of [chips.{fact.owner}]"
    )
