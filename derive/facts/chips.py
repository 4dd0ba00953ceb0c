"""A chip under a profile: one reading per fact, what was overridden, and symbols bound to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike

import sympy as sp

from derive.facts.checks import other, typed
from derive.facts.keys import CHIP_FACTS, FactKey
from derive.facts.load import with_files
from derive.facts.readings import Catalogue, ChipRecord, Fact, Profile, Reading, choose
from derive.notation.errors import DeriveError, FactError, UnitError, quoted, unknown
from derive.notation.quantity import Quantity
from derive.notation.symbols import rank

DEFAULT_PROFILE = "scaling-book"


@dataclass(frozen=True)
class Override:
    """A fact that a caller changed by name: what the profile picked (None: nothing) and what is
    used instead."""

    key: str
    before: Reading | None
    after: Reading

    def __str__(self) -> str:
        return f"{self.key}: {_told(self.after)} instead of {_told(self.before)}"


@dataclass(frozen=True, repr=False)
class Chip:
    """A chip of the catalogue under one profile.

    `picked` holds the reading in use of each fact, overrides included.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    profile: str
    facts: tuple[Fact, ...]
    picked: tuple[Reading, ...]
    overrides: tuple[Override, ...] = ()

    def __repr__(self) -> str:
        changed = f", {len(self.overrides)} overridden" if self.overrides else ""
        return f"<{self.name}: {self.title}, profile {self.profile}{changed}>"

    def has(self, key: str) -> bool:
        """Whether there is a reading of the fact `key`; raises UnknownName for no fact at all."""
        _declared(key)
        return any(fact.key.name == key for fact in self.facts)

    def fact(self, key: str) -> Fact:
        """The fact with all its readings.

        Raises UnknownName for a key that is no fact, FactError where the chip has no reading.
        """
        return self.facts[self._index(key)]

    def reading(self, key: str) -> Reading:
        """The reading in use; raises as `fact` does."""
        return self.picked[self._index(key)]

    def quantity(self, key: str) -> Quantity:
        """The reading in use as a leaf quantity, in the fact's unit, named after its symbol.

        Raises as `fact` does, and FactError for a shape.
        """
        index = self._index(key)
        return self.facts[index].quantity(self.picked[index])

    def shape(self, key: str = "pod_shape") -> tuple[int, ...]:
        """The whole numbers of a shape; raises as `fact` does, and FactError for a number."""
        value = self.reading(key).value
        if not isinstance(value, tuple):
            raise FactError(f"{key} of {self.name} is a number, not a shape")
        return value

    @property
    def precisions(self) -> tuple[str, ...]:
        """The precisions with a known FLOP rate."""
        return tuple(fact.key.name for fact in self.facts if fact.key.precision)

    def bindings(self, precision: str = "bf16") -> dict[sp.Symbol, Quantity]:
        """C at `precision`, and W, W_dcn, W_hbm and M_hbm where known, in the vocabulary's order.

        Raises FactError for a precision without a figure, listing those that have one.
        """
        if precision not in self.precisions:
            known = ", ".join(self.precisions) or "none"
            raise FactError(f"{self.name} has no figure for {quoted(precision)}; known: {known}")
        bound = {
            fact.key.symbol: fact.quantity(reading)
            for fact, reading in zip(self.facts, self.picked, strict=True)
            if fact.key.symbol is not None
            and (not fact.key.precision or fact.key.name == precision)
        }
        return {symbol: bound[symbol] for symbol in sorted(bound, key=rank)}

    def _index(self, key: str) -> int:
        _declared(key)
        for index, fact in enumerate(self.facts):
            if fact.key.name == key:
                return index
        known = ", ".join(fact.key.name for fact in self.facts)
        raise FactError(f"{self.name} has no reading of {key}; it has {known}")


def chip(
    name: str,
    *,
    profile: str = DEFAULT_PROFILE,
    override: Mapping[str, str | Quantity] | None = None,
    catalogue: Catalogue | None = None,
    files: Iterable[str | PathLike[str]] = (),
) -> Chip:
    """The chip of that name or alias, with the readings that `profile` picks.

    `override` maps a fact to the key of another reading, or to a quantity of the fact's unit.
    `files` are facts files of the caller's own, added to `catalogue` (the shipped one by default).
    Raises UnknownName for a name, profile, fact or reading that is not there, UnitError or
    FactError for a quantity that does not fit, FactError for a file that does not hold.
    """
    known = with_files(catalogue, files)
    record = known.chip(name)
    if typed(profile, "a profile's name", DEFAULT_PROFILE) not in known.profiles:
        raise unknown("profile", profile, known.profiles)
    return _made(record, known.profiles[profile], override or {})


def _made(record: ChipRecord, profile: Profile, override: Mapping[str, str | Quantity]) -> Chip:
    facts = {fact.key.name: fact for fact in record.facts}
    picked = {key: choose(fact, profile, record.prefer) for key, fact in facts.items()}
    changes = []
    if not isinstance(override, Mapping):
        raise DeriveError(f"expected facts to override and readings, found {other(override)}")
    for key, wanted in override.items():
        declared = _declared(key)
        after = _instead(record, declared, facts.get(key), wanted)
        facts.setdefault(key, Fact(declared, record.name, ()))
        changes.append(Override(key, picked.get(key), after))
        picked[key] = after
    order = [key for key in CHIP_FACTS if key in facts]
    return Chip(
        record.name,
        record.title,
        record.aliases,
        profile.name,
        tuple(facts[key] for key in order),
        tuple(picked[key] for key in order),
        tuple(changes),
    )


def _instead(
    record: ChipRecord, declared: FactKey, fact: Fact | None, wanted: str | Quantity
) -> Reading:
    where = f"override of {declared.name} of {record.name}"
    if isinstance(wanted, str):
        if fact is None:
            raise FactError(f"{where}: expected a quantity, since there is no reading to choose")
        return fact.reading(wanted)
    if not isinstance(wanted, Quantity):
        found = type(wanted).__name__
        raise FactError(f"{where}: expected a source key or a quantity, found {found}")
    if declared.kind == "shape":
        raise FactError(f"{where}: expected a source key, since a shape is no quantity")
    labels = wanted.unit.labels
    if wanted.unit.dimension != declared.unit.dimension or labels not in ((), declared.unit.labels):
        raise UnitError(f"{where}: expected {declared.unit}, found {wanted.unit}")
    value = wanted.value
    if not isinstance(value, sp.Rational) or not 0 < value < 10**30:
        raise FactError(f"{where}: expected an exact number above 0 and below 1e30, found {value}")
    if declared.kind == "count" and value.q != 1:
        raise FactError(f"{where}: expected a whole number, found {value}")
    return Reading(
        value, wanted.basis, wanted.source, wanted.where, wanted.status, formula=wanted.formula
    )


def _declared(key: str) -> FactKey:
    if typed(key, "a fact", "ici_axis") not in CHIP_FACTS:
        raise unknown("fact", key, CHIP_FACTS)
    return CHIP_FACTS[key]


def _told(reading: Reading | None) -> str:
    if reading is None:
        return "no reading"
    value = reading.value
    shown = "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return f"{shown} [{reading.key or reading.status}]"
