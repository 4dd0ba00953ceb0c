"""A chip: what the facts files say of it and, under a profile, the reading in use of each fact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import sympy as sp

from derive.facts.checks import other, typed
from derive.facts.fact import CHIP_FACTS, Fact, FactKey, Profile, Reading, choose
from derive.notation.errors import DeriveError, FactError, UnitError, guarded, quoted, unknown
from derive.notation.quantity import Quantity
from derive.notation.symbols import rank


@dataclass(frozen=True)
class Override:
    """A fact that a caller changed by name: what the profile picked (None: nothing) and what is
    used instead."""

    key: str
    before: Reading | None
    after: Reading

    def __str__(self) -> str:
        return f"{self.key}: {_told(self.after)} instead of {_told(self.before)}"


@guarded
@dataclass(frozen=True, repr=False)
class Chip:
    """A chip of the catalogue.

    `prefer` orders its sources where a profile has no opinion. The catalogue holds chips without a
    profile; `picked` under one holds the reading in use of each fact, overrides included.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    facts: tuple[Fact, ...]
    prefer: tuple[str, ...] = ()
    file: str = field(compare=False, default="")
    profile: str = ""
    picked: tuple[Reading, ...] = ()
    overrides: tuple[Override, ...] = ()

    def __repr__(self) -> str:
        changed = f", {len(self.overrides)} overridden" if self.overrides else ""
        return f"<{self.name}: {self.title}, profile {self.profile or 'none'}{changed}>"

    def under(self, profile: Profile, override: Mapping[str, str | Quantity] | None = None) -> Chip:
        """The chip with the readings that the profile picks; `override` maps a fact to the key of
        another reading, or to a quantity of the fact's unit.

        Raises UnknownName, UnitError or FactError for an override that does not fit.
        """
        facts = {fact.key.name: fact for fact in self.facts}
        picked = {key: choose(fact, profile, self.prefer) for key, fact in facts.items()}
        wanted = override or {}
        if not isinstance(wanted, Mapping):
            raise DeriveError(f"expected facts to override and readings, found {other(wanted)}")
        changes = []
        for key, instead in wanted.items():
            declared = _declared(key)
            after = self._instead(declared, facts.get(key), instead)
            facts.setdefault(key, Fact(declared, self.name, ()))
            changes.append(Override(key, picked.get(key), after))
            picked[key] = after
        order = [key for key in CHIP_FACTS if key in facts]
        return replace(
            self,
            profile=profile.name,
            facts=tuple(facts[key] for key in order),
            picked=tuple(picked[key] for key in order),
            overrides=tuple(changes),
        )

    def has(self, key: str) -> bool:
        """Whether there is a reading of the fact `key`; raises UnknownName for no fact at all."""
        return _declared(key) in (fact.key for fact in self.facts)

    def fact(self, key: str) -> Fact:
        """The fact with all its readings.

        Raises UnknownName for a key that is no fact, FactError where the chip has no reading.
        """
        return self.facts[self._index(key)]

    def reading(self, key: str) -> Reading:
        """The reading in use; raises as `fact` does, and FactError without a profile."""
        index = self._index(key)
        if not self.picked:
            raise FactError(f"no profile has picked the readings of {self.name}")
        return self.picked[index]

    def quantity(self, key: str) -> Quantity:
        """The reading in use as a leaf quantity, in the fact's unit, named after its symbol.

        Raises as `reading` does, and FactError for a shape.
        """
        return self.fact(key).quantity(self.reading(key))

    def shape(self, key: str = "pod_shape") -> tuple[int, ...]:
        """The whole numbers of a shape; raises as `reading` does, and FactError for a number."""
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
        declared, keys = _declared(key), [fact.key for fact in self.facts]
        if declared not in keys:
            known = ", ".join(each.name for each in keys)
            raise FactError(f"{self.name} has no reading of {key}; it has {known}")
        return keys.index(declared)

    def _instead(self, declared: FactKey, fact: Fact | None, wanted: str | Quantity) -> Reading:
        where = f"override of {declared.name} of {self.name}"
        if isinstance(wanted, str):
            if fact is None:
                told = "expected a quantity, since there is no reading to choose"
                raise FactError(f"{where}: {told}")
            return fact.reading(wanted)
        if not isinstance(wanted, Quantity):
            kind = type(wanted).__name__
            raise FactError(f"{where}: expected a source key or a quantity, found {kind}")
        if declared.kind == "shape":
            raise FactError(f"{where}: expected a source key, since a shape is no quantity")
        unit, value = wanted.unit, wanted.value
        labels = ((), declared.unit.labels)
        if unit.dimension != declared.unit.dimension or unit.labels not in labels:
            raise UnitError(f"{where}: expected {declared.unit}, found {unit}")
        if not isinstance(value, sp.Rational) or not 0 < value < 10**30:
            told = "expected an exact number above 0 and below 1e30"
            raise FactError(f"{where}: {told}, found {value}")
        if declared.kind == "count" and value.q != 1:
            raise FactError(f"{where}: expected a whole number, found {value}")
        origin = wanted.basis, wanted.source, wanted.where, wanted.status
        return Reading(value, *origin, formula=wanted.formula)


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
