"""`derive facts`: the catalogue, and the readings of one chip or model with their sources; `derive
sources`: what can be cited; and `derive symbols`: the vocabulary."""

from __future__ import annotations

from argparse import Namespace
from collections import ChainMap
from typing import Any

from derive.commands.inputs import catalogue_of
from derive.facts import Catalogue, Chip, Model, Reading, source
from derive.facts.fact import MODEL_FLAGS, OPTIONAL, ORIGIN
from derive.notation import symbols as v
from derive.notation.errors import unknown
from derive.notation.printed import shown
from derive.notation.text import aligned
from derive.notation.units import Unit


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The names of the catalogue, or the facts of the one that was named, as data and as text."""
    catalogue = _known(options)
    if options.name is None:
        return _names(catalogue)
    every: list[Chip | Model] = [*catalogue.chips.values(), *catalogue.models.values()]
    known = {spelt: one for one in every for spelt in (one.name, *one.aliases)}
    if (named := known.get(options.name.lower())) is None:
        raise unknown("chip or model", options.name, known)
    if isinstance(named, Chip):
        named = named.under(catalogue.profiles[options.profile])
    data, lines = described(named, catalogue)
    return data, "\n".join(lines)


def described(one: Chip | Model, catalogue: Catalogue) -> tuple[dict[str, Any], list[str]]:
    """The readings of a chip, or the shape of a model, as data and as lines, with the sources that
    the catalogue has of them."""
    data, lines, cited = _chip(one) if isinstance(one, Chip) else _model(one)
    data["sources"] = {}
    for key in dict.fromkeys(cited):
        if (known := catalogue.sources.get(key)) is not None:
            told = ("title", "publisher", "dated", "address")
            data["sources"][key] = {name: getattr(known, name) for name in told}
            lines.append(str(known))
    return data, lines


def sources(options: Namespace) -> tuple[dict[str, Any], str]:
    """The documents that can be cited, by key, or the one that was named, as data and as text."""
    catalogue = _known(options)
    known = catalogue.sources
    if options.key is not None:
        known = {options.key: source(options.key, catalogue)}
    told = ("title", "publisher", "kind", "dated", "address")
    data = {key: {name: getattr(one, name) for name in told} for key, one in known.items()}
    if options.key is not None:
        return data, str(known[options.key])
    return data, "\n".join(aligned([(key, one.title) for key, one in known.items()]))


def symbols(options: Namespace) -> tuple[list[dict[str, str]], str]:
    """Every symbol of the vocabulary with its unit and what it stands for, as data and as text."""
    data = [
        {"symbol": name, "unit": str(known.unit), "role": known.role, "gloss": known.gloss}
        for name, known in v.vocabulary().items()
    ]
    return data, "\n".join(f"{d['symbol']:<9} {d['unit']:<15} {d['gloss']}" for d in data)


def _known(options: Namespace) -> Catalogue:
    """The catalogue, with the facts that the chapters of a book that is named have of their own;
    of two under one name the later chapter's. Raises BookError for a chapter that does not run."""
    if options.chapters is not None:
        from derive.commands.shelf import shelf_of  # only where a book is named: it is slow

        shelf = shelf_of(options)
        each = [vars(shelf.chapter(folder).catalogue) for folder in shelf.folders]
        kinds = {kind: dict(ChainMap(*(one[kind] for one in each[::-1]))) for kind in each[0]}
        options.catalogue = Catalogue(**kinds)
    return catalogue_of(options)


def _names(catalogue: Catalogue) -> tuple[dict[str, Any], str]:
    data: dict[str, Any] = {
        "chips": {name: record.title for name, record in catalogue.chips.items()},
        "models": {name: record.title for name, record in catalogue.models.items()},
        "profiles": list(catalogue.profiles),
    }
    lines = []
    for kind in ("chips", "models"):
        lines.append(f"{kind}:")
        lines += [f"  {name:<18}{title}" for name, title in data[kind].items()]
    lines.append(f"profiles: {', '.join(data['profiles'])}")
    return data, "\n".join(lines)


def _chip(chosen: Chip) -> tuple[dict[str, Any], list[str], list[str]]:
    data: dict[str, Any] = {"name": chosen.name, "title": chosen.title, "profile": chosen.profile}
    told = f"(profile {chosen.profile}; > marks the reading in use)"
    lines = [f"{chosen.name}: {chosen.title} {told}"]
    data["facts"] = {}
    for fact, picked in zip(chosen.facts, chosen.picked, strict=True):
        rows = [_reading(r, fact.key.unit, r == picked) for r in fact.readings]
        data["facts"][fact.key.name] = rows
        lines.append(f"{fact.key.name}")
        for row in rows:
            mark = ">" if row["picked"] else " "
            lines.append(f" {mark} {row['printed']:<24} [{row['source']}] {row['status']}")
            lines.append(f"     {row['basis']}")
    cited = [row["source"] for rows in data["facts"].values() for row in rows]
    return data, lines, [key for key in cited if key]


def _reading(reading: Reading, unit: Unit, picked: bool) -> dict[str, Any]:
    value = reading.value
    if isinstance(value, tuple):
        plain: Any = list(value)
        text = " x ".join(map(str, value))
    else:
        plain = int(value) if value.is_Integer else float(value)
        text = shown(value, unit)
    return {
        "value": plain,
        "printed": text,
        "unit": str(unit),
        **{field: getattr(reading, field) for field in ORIGIN},
        "picked": picked,
    }


def _model(named: Model) -> tuple[dict[str, Any], list[str], list[str]]:
    parameters = named.parameters
    data: dict[str, Any] = {
        "name": named.name,
        "title": named.title,
        "shapes": {s.name: int(q.value) for s, q in named.bindings().items()},
        "gated": named.gated,
        "parameters": int(parameters.value),
        "active_parameters": int(named.active_parameters.value),
        "parts": {name: int(part.value) for name, part in named.parts},
        **{field: getattr(named, field) for field in ("source", "where", "status")},
    }
    lines = [f"{named.name}: {named.title} [{named.source}] {named.status}"]
    for s, q in named.bindings().items():
        if s not in (v.P, v.P_act):  # exactly, below
            lines.append(f"  {s.name:<5}{q.printed():<12}{v.meaning(s).gloss}")
    matrices = "three matrices per layer (gated)" if named.gated else "two matrices per layer"
    lines.append(f"  {matrices}")
    lines += [f"  {MODEL_FLAGS[flag]}" for flag in OPTIONAL if getattr(named, flag) is True]
    lines.append(f"  parameters {int(parameters.value):,}, computed from the shapes:")
    lines += [f"    {name:<14}{int(part.value):>18,}" for name, part in named.parts]
    if named.experts:
        lines.append(f"  of which {data['active_parameters']:,} take part in a token")
    return data, lines, [named.source] if named.source else []
