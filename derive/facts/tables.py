"""Turns the tables of a facts file into records, checking every key, unit, source and status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from derive.facts import checks
from derive.facts.checks import Place
from derive.facts.keys import CHIP_FACTS, MODEL_COUNTS, MODEL_FACTS, MODEL_FLAGS, FactKey
from derive.facts.readings import (
    READING_STATUSES,
    SOURCE_KINDS,
    ChipRecord,
    Fact,
    ModelRecord,
    Profile,
    Reading,
    Source,
    SourceKind,
)
from derive.notation.errors import nearest, quoted
from derive.notation.quantity import Status

TOP_TABLES = ("sources", "chips", "models", "profiles")
_NEEDED = ("value", "unit", "basis", "source", "where", "status")
_SHAPE = (*MODEL_COUNTS, *MODEL_FLAGS, "source", "where", "status")


def sources(tables: Mapping[str, Any], file: str) -> dict[str, Source]:
    """The sources of a file by key; raises FactError."""
    made = {}
    for key, value in tables.items():
        place = Place(file, "sources")
        checks.named(key, place, checks.SOURCE_KEY)
        fields = checks.table(value, place, key)
        place = place.inside(key)
        needed = ("title", "publisher", "kind", "dated")
        checks.only(fields, (*needed, "address", "read"), place)
        checks.need(fields, needed, place)
        address = fields.get("address")
        made[key] = Source(
            key,
            checks.text(fields["title"], place, "title"),
            checks.text(fields["publisher"], place, "publisher"),
            cast(SourceKind, checks.choice(fields["kind"], SOURCE_KINDS, place, "kind")),
            checks.text(fields["dated"], place, "dated"),
            "" if address is None else checks.text(address, place, "address"),
            checks.day(fields["read"], place, "read") if "read" in fields else None,
        )
    return made


def chips(
    tables: Mapping[str, Any], file: str, known: Mapping[str, Source]
) -> dict[str, ChipRecord]:
    """The chips of a file by name, their readings citing `known` sources; raises FactError."""
    made = {}
    for name, value in tables.items():
        place = Place(file, "chips")
        checks.named(name, place)
        fields = checks.table(value, place, name)
        place = place.inside(name)
        checks.only(fields, ("title", "aliases", "prefer", "facts"), place)
        checks.need(fields, ("title", "facts"), place)
        prefer = checks.texts(fields.get("prefer", []), place, "prefer")
        for i, key in enumerate(prefer, 1):
            _cited(key.partition("#")[0], known, place, f"prefer[{i}]")
        made[name] = ChipRecord(
            name,
            checks.text(fields["title"], place, "title"),
            _aliases(fields, place),
            _facts(fields["facts"], CHIP_FACTS, name, place, known),
            prefer,
            file,
        )
    return made


def models(
    tables: Mapping[str, Any], file: str, known: Mapping[str, Source]
) -> dict[str, ModelRecord]:
    """The models of a file by name, citing `known` sources; raises FactError."""
    made = {}
    for name, value in tables.items():
        place = Place(file, "models")
        checks.named(name, place)
        fields = checks.table(value, place, name)
        place = place.inside(name)
        checks.only(fields, ("title", "aliases", "shape", "facts"), place)
        checks.need(fields, ("title", "shape"), place)
        shape = checks.table(fields["shape"], place, "shape")
        inside = place.inside("shape")
        checks.only(shape, _SHAPE, inside)
        checks.need(shape, _SHAPE, inside)
        counts = {key: checks.count(shape[key], inside, key) for key in MODEL_COUNTS}
        if counts["heads"] % counts["kv_heads"]:
            groups = f"a multiple of kv_heads ({counts['kv_heads']})"
            raise inside.fault("heads", groups, str(counts["heads"]))
        facts = fields.get("facts")
        made[name] = ModelRecord(
            name,
            checks.text(fields["title"], place, "title"),
            _aliases(fields, place),
            tuple(counts.items()),
            tuple((key, checks.flag(shape[key], inside, key)) for key in MODEL_FLAGS),
            _cited(shape["source"], known, inside, "source"),
            checks.text(shape["where"], inside, "where"),
            _status(shape["status"], inside, "status"),
            () if facts is None else _facts(facts, MODEL_FACTS, name, place, known),
        )
    return made


def profiles(
    tables: Mapping[str, Any],
    file: str,
    known: Mapping[str, Source],
    catalogue: Mapping[str, ChipRecord],
    earlier: Mapping[str, Profile],
) -> dict[str, Profile]:
    """The profiles of a file by name; raises FactError for a source or a pick that is unknown.

    A profile that exists `earlier` is extended: the file's order comes first, and its picks win.
    A new profile may start from an earlier one in the same way, named by `like`.
    """
    made: dict[str, Profile] = {}
    for name, value in tables.items():
        place = Place(file, "profiles")
        checks.named(name, place)
        fields = checks.table(value, place, name)
        place = place.inside(name)
        checks.only(fields, ("like", "order", "picks"), place)
        base = earlier.get(name)
        if "like" in fields:
            # A file may build on its own profiles too, on those above.
            known_profiles = {**earlier, **made}
            base = known_profiles[checks.choice(fields["like"], known_profiles, place, "like")]
        order = checks.texts(fields.get("order", []), place, "order")
        for i, key in enumerate(order, 1):
            _cited(key.partition("#")[0], known, place, f"order[{i}]")
        picks = checks.table(fields.get("picks", {}), place, "picks")
        inside = place.inside("picks")
        chosen = {key: _pick(key, wanted, catalogue, inside) for key, wanted in picks.items()}
        if base is not None:
            order = tuple(dict.fromkeys((*order, *base.order)))
            chosen = {**dict(base.picks), **chosen}
        made[name] = Profile(name, order, tuple(chosen.items()), file)
    return made


def _pick(key: str, wanted: object, chips: Mapping[str, ChipRecord], place: Place) -> str:
    at = quoted(key)
    chip, _, fact_key = key.rpartition(".")
    if chip not in chips:
        raise place.fault(at, f"chip.fact{_hint(chip, chips)}", f"no chip {quoted(chip)}")
    fact = chips[chip].fact(fact_key)
    if fact is None:
        known = [f.key.name for f in chips[chip].facts]
        raise place.fault(at, f"a fact of {chip}{_hint(fact_key, known)}", quoted(fact_key))
    return checks.choice(wanted, [reading.key for reading in fact.readings], place, at)


def _hint(name: str, known: Iterable[str]) -> str:
    close = nearest(name, known)
    return f" (such as {' or '.join(close)})" if close else ""


def _aliases(fields: Mapping[str, Any], place: Place) -> tuple[str, ...]:
    aliases = checks.texts(fields.get("aliases", []), place, "aliases")
    return tuple(checks.named(alias, place) for alias in aliases)


def _facts(
    value: object,
    declared: Mapping[str, FactKey],
    of: str,
    place: Place,
    known: Mapping[str, Source],
) -> tuple[Fact, ...]:
    fields = checks.table(value, place, "facts")
    place = place.inside("facts")
    checks.only(fields, declared, place)
    if not fields:
        raise place.fault("facts", "at least one fact", "none")
    made = []
    # In the order of the declaration, so that listings do not depend on a file's order.
    for key in declared.values():
        if key.name not in fields:
            continue
        rows = fields[key.name]
        if isinstance(rows, dict):
            rows = [rows]
        if not isinstance(rows, list):
            expected = f"a table of {', '.join(_NEEDED)} (a number needs its source)"
            raise place.fault(key.name, expected, checks.shown(rows))
        if not rows:
            raise place.fault(key.name, "at least one reading", "none")
        readings = tuple(
            _reading(row, key, place, f"{key.name}[{i}]" if len(rows) > 1 else key.name, known)
            for i, row in enumerate(rows, 1)
        )
        keys = [reading.key for reading in readings]
        for i, each in enumerate(keys, 1):
            if each in keys[: i - 1]:
                expected = "one reading per source, or parts that tell them apart"
                raise place.fault(f"{key.name}[{i}].source", expected, f"{quoted(each)} again")
        made.append(Fact(key, of, readings))
    return tuple(made)


def _reading(
    row: object, key: FactKey, place: Place, at: str, known: Mapping[str, Source]
) -> Reading:
    if not isinstance(row, dict):
        expected = f"a table of {', '.join(_NEEDED)} (a number needs its source)"
        raise place.fault(at, expected, checks.shown(row))
    inside = Place(place.file, f"{place.table}.{at}")
    checks.only(row, (*_NEEDED, "read", "formula", "part"), inside)
    checks.need(row, _NEEDED, inside)
    if row["unit"] != str(key.unit):
        raise inside.fault("unit", f'"{key.unit}" ({key.gloss})', checks.shown(row["unit"]))
    value: Any
    if key.kind == "shape":
        value = checks.shape(row["value"], inside, "value")
    else:
        value = checks.number(row["value"], inside, "value")
        if key.kind == "count":
            checks.count(row["value"], inside, "value")
    basis = checks.text(row["basis"], inside, "basis")
    if key.basis not in basis:
        raise inside.fault("basis", f'text with "{key.basis}"', checks.shown(basis))
    source = _cited(row["source"], known, inside, "source")
    status = _status(row["status"], inside, "status")
    if status == "derived" and "formula" not in row:
        raise inside.fault("formula", "the formula of a derived value", "none")
    if status != "derived" and "formula" in row:
        raise inside.fault("status", '"derived", since there is a formula', checks.shown(status))
    read = known[source].read if "read" not in row else checks.day(row["read"], inside, "read")
    if read is None:
        raise inside.fault("read", "the day it was read, here or in its source", "none")
    part = checks.named(row["part"], inside) if isinstance(row.get("part"), str) else ""
    if "part" in row and not part:
        raise inside.fault("part", "text", checks.shown(row["part"]))
    return Reading(
        value,
        basis,
        source,
        checks.text(row["where"], inside, "where"),
        status,
        read,
        checks.text(row["formula"], inside, "formula") if "formula" in row else "",
        part,
    )


def _status(value: object, place: Place, key: str) -> Status:
    return cast(Status, checks.choice(value, READING_STATUSES, place, key))


def _cited(value: object, known: Mapping[str, Source], place: Place, key: str) -> str:
    found = checks.text(value, place, key)
    if found not in known:
        close = nearest(found, known)
        hint = f"such as {' or '.join(close)}" if close else "declared under [sources]"
        raise place.fault(key, f"a known source key, {hint}", quoted(found))
    return found
