"""Checks on values read from TOML. Each failure names file, table, key, expected and found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import sympy as sp

from derive.notation.errors import DeriveError, FactError, meant, nearest, quoted, written

TOP = 10**30
BOTTOM = Decimal("1e-30")
LONGEST = 400
NAME = re.compile(r"[a-z0-9]+(?:[-.][a-z0-9]+)*")
SOURCE_KEY = re.compile(r"[A-Za-z0-9]+(?:[-._][A-Za-z0-9]+)*")


@dataclass(frozen=True)
class Place:
    """Where a value stands: a file and a table in it, for messages."""

    file: str
    table: str = ""

    def fault(self, key: str, expected: str, instead: str) -> FactError:
        """The error for `key` of this table, with what stands there instead."""
        table = f" [{self.table}]" if self.table else ""
        return FactError(f"{self.file}:{table} {key}: expected {expected}, found {instead}")

    def inside(self, name: str) -> Place:
        """The place of a table inside this one."""
        return Place(self.file, f"{self.table}.{name}" if self.table else name)


def shown(value: object) -> str:
    """A value as a message shows it: its kind and a short form of it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"the text {quoted(value)}"
    if isinstance(value, int) and abs(value) >= TOP:
        # Python refuses to print whole numbers of many thousand digits.
        return f"a whole number of {value.bit_length()} bits"
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    return str(value)[:60]


def typed(value: object, kind: str, example: str) -> str:
    """`value` as the name that a caller wrote; raises DeriveError for anything but text."""
    if not isinstance(value, str):
        raise DeriveError(f"expected {kind} such as {example}, found {other(value)}")
    return value


def other(value: object) -> str:
    """A value of a caller's that has the wrong type, on one line."""
    if value is None or isinstance(value, (str, bool, int, float, Mapping, list)):
        return shown(value)
    return written(value)


def table(value: object, place: Place, key: str) -> Mapping[str, Any]:
    """`value` as a table; raises FactError for anything else."""
    if not isinstance(value, dict):
        raise place.fault(key, "a table", shown(value))
    return value


def entries(
    tables: Mapping[str, Any],
    place: Place,
    needed: tuple[str, ...],
    optional: tuple[str, ...],
    pattern: re.Pattern[str] = NAME,
) -> Iterator[tuple[str, Mapping[str, Any], Place]]:
    """The tables inside one, each with its name and place; raises FactError for a malformed name
    and for what `keys` refuses."""
    for name, value in tables.items():
        named(name, place, pattern)
        fields, inside = table(value, place, name), place.inside(name)
        for key, part in fields.items():
            if isinstance(part, Mapping) and not alike(key, (*needed, *optional)):
                whole = f"{name}.{key}"
                raise place.fault(whole, f'[{place.table}."{whole}"]', "a name without its quotes")
        keys(fields, inside, needed, optional)
        yield name, fields, inside


def keys(
    given: Iterable[str], place: Place, needed: Iterable[str], optional: Iterable[str] = ()
) -> None:
    """Raise FactError for a key that is neither needed nor optional, and for a missing one."""
    given, needed = list(given), list(needed)
    known = [*needed, *optional]
    for key in given:
        if key not in known:
            raise place.fault(quoted(key), alike(key, known) or one_of(known), "an unknown key")
    for key in needed:
        if key not in given:
            raise place.fault(key, "a source key" if key == "source" else "a value", "none")


def alike(name: str, known: Iterable[str]) -> str:
    """The nearest of the known names, as a message offers them; empty where none is near."""
    return " or ".join(nearest(name, known))


def such_as(name: str, known: Iterable[str]) -> str:
    """The nearest of the known names as examples in brackets; empty where none is near."""
    close = alike(name, known)
    return f" (such as {close})" if close else ""


def one_of(known: Iterable[str]) -> str:
    """All of the known names, as a message offers them where none is near."""
    return f"one of {', '.join(known)}"


def text(value: object, place: Place, key: str) -> str:
    """`value` as text of one line that is not empty; raises FactError otherwise."""
    if not isinstance(value, str):
        raise place.fault(key, "text", shown(value))
    if not value.strip():
        raise place.fault(key, "text", "empty text")
    if len(value) > LONGEST or not value.isprintable():
        raise place.fault(key, f"one line of at most {LONGEST} characters", shown(value))
    return value


def texts(value: object, place: Place, key: str) -> tuple[str, ...]:
    """`value` as a tuple of different texts; raises FactError otherwise."""
    if not isinstance(value, list):
        raise place.fault(key, "an array of texts", shown(value))
    items = tuple(text(item, place, f"{key}[{i}]") for i, item in enumerate(value, 1))
    if len(set(items)) < len(items):
        twice = next(item for item in items if items.count(item) > 1)
        raise place.fault(key, "each text once", f"{quoted(twice)} twice")
    return items


def named(value: str, place: Place, pattern: re.Pattern[str] = NAME) -> str:
    """`value` as a catalogue name or a source key; raises FactError otherwise."""
    if len(value) > 60 or not pattern.fullmatch(value):
        kind = "a lower-case name with dashes" if pattern is NAME else "letters, digits and dashes"
        raise place.fault(quoted(value), kind, "another form")
    return value


def choice(value: object, choices: Iterable[str], place: Place, key: str) -> str:
    """`value` as one of `choices`; raises FactError, offering the nearest."""
    known = list(choices)
    name = text(value, place, key)
    if name not in known:
        told = f"{shown(name)}; {meant(name, known)}".rstrip("; ")
        raise place.fault(key, one_of(known), told)
    return name


def flag(value: object, place: Place, key: str) -> bool:
    """`value` as true or false; raises FactError otherwise."""
    if not isinstance(value, bool):
        raise place.fault(key, "true or false", shown(value))
    return value


def day(value: object, place: Place, key: str) -> date:
    """`value` as a date; raises FactError otherwise."""
    # datetime is a subclass of date, and a time of day means nothing here.
    if not isinstance(value, date) or isinstance(value, datetime):
        raise place.fault(key, "a date such as 2026-01-31", shown(value))
    return value


def number(value: object, place: Place, key: str) -> sp.Rational:
    """`value` as an exact positive number below 1e30; raises FactError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise place.fault(key, "a number", shown(value))
    if isinstance(value, Decimal) and not value.is_finite():
        raise place.fault(key, "a finite number", shown(value))
    if value <= 0:
        raise place.fault(key, "a number above zero", shown(value))
    # Compared before it is made exact: 1e999999999 as a fraction would not fit in memory.
    if value >= TOP or value < BOTTOM:
        raise place.fault(key, "a number from 1e-30 to 1e30", shown(value))
    if isinstance(value, Decimal) and len(value.as_tuple().digits) > 60:
        raise place.fault(key, "a number of at most 60 digits", shown(value))
    return sp.Rational(*value.as_integer_ratio())


def count(value: object, place: Place, key: str) -> int:
    """`value` as a whole number above zero, below 1e30; raises FactError otherwise.

    A decimal such as 15e12 is taken where it is whole.
    """
    exact = number(value, place, key)
    if exact.q != 1:
        raise place.fault(key, "a whole number", shown(value))
    return int(exact.p)


def shape(value: object, place: Place, key: str) -> tuple[int, ...]:
    """`value` as one to six whole numbers above zero; raises FactError otherwise."""
    if not isinstance(value, list) or not 1 <= len(value) <= 6:
        raise place.fault(key, "an array of one to six whole numbers", shown(value))
    return tuple(count(item, place, f"{key}[{i}]") for i, item in enumerate(value, 1))
