"""Turns the tables of a facts file into records, checking every key, unit, source and status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from derive.facts import checks
from derive.facts.checks import Place, alike, such_as
from derive.facts.fact import (
    CHIP_FACTS,
    EXPERTS,
    LATENT,
    MODEL_COUNTS,
    MODEL_FACTS,
    MODEL_FLAGS,
    OF_HEADS,
    OPTIONAL,
    READING_STATUSES,
    SOURCE_KINDS,
    Fact,
    FactKey,
    Profile,
    Reading,
    Source,
    SourceKind,
)
from derive.facts.owners import Chip, Model
from derive.notation.errors import quoted
from derive.notation.quantity import Status

TOP_TABLES = ("sources", "chips", "models", "profiles")
_NEEDED = ("value", "unit", "basis", "source", "where", "status")
_ROW = f"a table of {', '.join(_NEEDED)} (a number needs its source)"


def sources(tables: Mapping[str, Any], file: str) -> dict[str, Source]:
    """The sources of a file by key; raises FactError."""
    needed, optional = ("title", "publisher", "kind", "dated"), ("address", "read")
    place = Place(file, "sources")
    entries = checks.entries(tables, place, needed, optional, checks.SOURCE_KEY)
    return {
        key: Source(
            key,
            checks.text(fields["title"], inside, "title"),
            checks.text(fields["publisher"], inside, "publisher"),
            cast(SourceKind, checks.choice(fields["kind"], SOURCE_KINDS, inside, "kind")),
            checks.text(fields["dated"], inside, "dated"),
            _optional(fields, inside, "address"),
            checks.day(fields["read"], inside, "read") if "read" in fields else None,
        )
        for key, fields, inside in entries
    }


def chips(tables: Mapping[str, Any], file: str, known: Mapping[str, Source]) -> dict[str, Chip]:
    """The chips of a file by name, their readings citing `known` sources; raises FactError."""
    needed, optional = ("title", "facts"), ("aliases", "prefer")
    return {
        name: Chip(
            name,
            checks.text(fields["title"], place, "title"),
            _aliases(fields, place),
            _facts(fields["facts"], CHIP_FACTS, name, place, known),
            _order(fields, known, place, "prefer"),
            file,
        )
        for name, fields, place in checks.entries(tables, Place(file, "chips"), needed, optional)
    }


def models(tables: Mapping[str, Any], file: str, known: Mapping[str, Source]) -> dict[str, Model]:
    """The models of a file by name, citing `known` sources; raises FactError."""
    needed, optional = ("title", "shape"), ("aliases", "facts")
    by_name = {}
    for name, fields, place in checks.entries(tables, Place(file, "models"), needed, optional):
        shape, inside = checks.table(fields["shape"], place, "shape"), place.inside("shape")
        required, more = _keys(shape)
        checks.keys(shape, inside, (*required, "source", "where", "status"), (*more, "assumed"))
        counts = {
            key: checks.count(shape[key], inside, key) for key in MODEL_COUNTS if key in shape
        }
        for key, bound in (("top_k", "experts"), ("expert_layers", "layers")):
            if counts.get(key, 0) > counts.get(bound, 0):
                told = f"at most {bound} ({counts[bound]})"
                raise inside.fault(key, told, str(counts[key]))
        if counts["heads"] % counts["kv_heads"]:
            groups = f"a multiple of kv_heads ({counts['kv_heads']})"
            raise inside.fault("heads", groups, str(counts["heads"]))
        facts = fields.get("facts")
        title, aliases = checks.text(fields["title"], place, "title"), _aliases(fields, place)
        flags = {key: checks.flag(shape[key], inside, key) for key in MODEL_FLAGS if key in shape}
        shapes: dict[str, Any] = {"ffn": 0, "head_dim": 0} | counts | flags
        assumed = checks.texts(shape.get("assumed", []), inside, "assumed")
        for key in assumed:
            checks.choice(key, shapes, inside, "assumed")
        by_name[name] = Model(
            name,
            title,
            aliases,
            **shapes,
            source=_cited(shape["source"], known, inside, "source"),
            where=checks.text(shape["where"], inside, "where"),
            status=_status(shape["status"], inside),
            assumed=assumed,
            facts=() if facts is None else _facts(facts, MODEL_FACTS, name, place, known),
        )
    return by_name


def _keys(shape: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The keys that a shape must have, and may have. The width of a head goes with keys and values
    that no latent makes, the feed-forward width with layers that have no experts."""
    expert = any(key in shape for key in (*EXPERTS, "shared_experts", "shared_expert_gate"))
    latent = any(key in shape for key in (*LATENT, "q_lora_rank"))
    absent = {*(() if expert else EXPERTS), *(("head_dim", *OF_HEADS) if latent else LATENT)}
    if expert and shape.get("expert_layers") == shape.get("layers"):
        absent.add("ffn")
    known = [key for key in (*MODEL_COUNTS, *MODEL_FLAGS) if key not in absent]
    return [k for k in known if k not in OPTIONAL], [k for k in known if k in OPTIONAL]


def profiles(
    tables: Mapping[str, Any],
    file: str,
    known: Mapping[str, Source],
    catalogue: Mapping[str, Chip],
    earlier: Mapping[str, Profile],
) -> dict[str, Profile]:
    """The profiles of a file by name; raises FactError for a source or a pick that is unknown.

    A profile that exists `earlier` is extended: the file's order comes first, and its picks win.
    A new profile may start from an earlier one in the same way, named by `like`.
    """
    by_name: dict[str, Profile] = {}
    keys = ("like", "order", "picks")
    for name, fields, place in checks.entries(tables, Place(file, "profiles"), (), keys):
        base = earlier.get(name)
        if "like" in fields:
            # A file may build on its own profiles too, on those above.
            above = {**earlier, **by_name}
            base = above[checks.choice(fields["like"], above, place, "like")]
        order = _order(fields, known, place, "order")
        picks = checks.table(fields.get("picks", {}), place, "picks")
        inside = place.inside("picks")
        chosen = {key: _pick(key, wanted, catalogue, inside) for key, wanted in picks.items()}
        if base is not None:
            order = tuple(dict.fromkeys((*order, *base.order)))
            chosen = {**dict(base.picks), **chosen}
        by_name[name] = Profile(name, order, tuple(chosen.items()))
    return by_name


def _pick(key: str, wanted: object, chips: Mapping[str, Chip], place: Place) -> str:
    at = quoted(key)
    chip, _, fact_key = key.rpartition(".")
    if chip not in chips:
        raise place.fault(at, f"chip.fact{such_as(chip, chips)}", f"no chip {quoted(chip)}")
    facts = {fact.key.name: fact for fact in chips[chip].facts}
    if fact_key not in facts:
        raise place.fault(at, f"a fact of {chip}{such_as(fact_key, facts)}", quoted(fact_key))
    keys = [reading.key for reading in facts[fact_key].readings]
    return checks.choice(wanted, keys, place, at)


def _aliases(fields: Mapping[str, Any], place: Place) -> tuple[str, ...]:
    aliases = checks.texts(fields.get("aliases", []), place, "aliases")
    return tuple(checks.named(alias, place) for alias in aliases)


def _order(
    fields: Mapping[str, Any], known: Mapping[str, Source], place: Place, key: str
) -> tuple[str, ...]:
    """An order of readings, each of a known source."""
    order = checks.texts(fields.get(key, []), place, key)
    for i, each in enumerate(order, 1):
        _cited(each.partition("#")[0], known, place, f"{key}[{i}]")
    return order


def _facts(
    value: object,
    declared: Mapping[str, FactKey],
    owner: str,
    place: Place,
    known: Mapping[str, Source],
) -> tuple[Fact, ...]:
    fields, place = checks.table(value, place, "facts"), place.inside("facts")
    checks.keys(fields, place, (), declared)
    if not fields:
        raise place.fault("facts", "at least one fact", "none")
    # In the order of the declaration, so that listings do not depend on a file's order.
    return tuple(
        Fact(key, owner, _readings(fields[key.name], key, place, known))
        for key in declared.values()
        if key.name in fields
    )


def _readings(
    rows: object, key: FactKey, place: Place, known: Mapping[str, Source]
) -> tuple[Reading, ...]:
    if isinstance(rows, dict):
        rows = [rows]
    if not isinstance(rows, list):
        raise place.fault(key.name, _ROW, checks.shown(rows))
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
    return readings


def _reading(
    row: object, key: FactKey, place: Place, at: str, known: Mapping[str, Source]
) -> Reading:
    if not isinstance(row, dict):
        raise place.fault(at, _ROW, checks.shown(row))
    inside = Place(place.file, f"{place.table}.{at}")
    checks.keys(row, inside, _NEEDED, ("read", "formula", "part"))
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
    status = _status(row["status"], inside)
    if status == "derived" and "formula" not in row:
        raise inside.fault("formula", "the formula of a derived value", "none")
    if status != "derived" and "formula" in row:
        raise inside.fault("status", '"derived", since there is a formula', checks.shown(status))
    read = known[source].read if "read" not in row else checks.day(row["read"], inside, "read")
    if read is None:
        raise inside.fault("read", "the day it was read, here or in its source", "none")
    part = checks.named(_optional(row, inside, "part"), inside) if "part" in row else ""
    where = checks.text(row["where"], inside, "where")
    formula = _optional(row, inside, "formula")
    return Reading(value, basis, source, where, status, read, formula, part)


def _optional(fields: Mapping[str, Any], place: Place, key: str) -> str:
    return checks.text(fields[key], place, key) if key in fields else ""


def _status(value: object, place: Place) -> Status:
    return cast(Status, checks.choice(value, READING_STATUSES, place, "status"))


def _cited(value: object, known: Mapping[str, Source], place: Place, key: str) -> str:
    name = checks.text(value, place, key)
    if name not in known:
        close = alike(name, known)
        hint = f"such as {close}" if close else "declared under [sources]"
        raise place.fault(key, f"a known source key, {hint}", quoted(name))
    return name
