"""The world: chips, models and the sources their figures were read in.

A fact is a set of readings, each with a source; a profile picks one reading of each fact. No file
is read when this package is imported, only when something is first asked of it.
"""

from __future__ import annotations

from derive.facts.checks import typed
from derive.facts.chips import DEFAULT_PROFILE, Chip, Override, chip
from derive.facts.load import load_file, shipped
from derive.facts.models import Model, model
from derive.facts.readings import Catalogue, Fact, Reading, Source
from derive.notation.errors import unknown

__all__ = [
    "DEFAULT_PROFILE",
    "Catalogue",
    "Chip",
    "Fact",
    "Model",
    "Override",
    "Reading",
    "Source",
    "chip",
    "chips",
    "load_file",
    "model",
    "models",
    "profiles",
    "shipped",
    "source",
    "sources",
]


def chips(catalogue: Catalogue | None = None) -> tuple[str, ...]:
    """The names of all chips, in the order of their files; aliases are left out."""
    return tuple((catalogue or shipped()).chips)


def models(catalogue: Catalogue | None = None) -> tuple[str, ...]:
    """The names of all models, in the order of their files; aliases are left out."""
    return tuple((catalogue or shipped()).models)


def profiles(catalogue: Catalogue | None = None) -> tuple[str, ...]:
    """The names of all profiles."""
    return tuple((catalogue or shipped()).profiles)


def sources(catalogue: Catalogue | None = None) -> tuple[Source, ...]:
    """All sources, in the order of their files."""
    return tuple((catalogue or shipped()).sources.values())


def source(key: str, catalogue: Catalogue | None = None) -> Source:
    """The source of that citation key; raises UnknownName, offering the nearest keys."""
    known = (catalogue or shipped()).sources
    if typed(key, "a source's key", "SB5") not in known:
        raise unknown("source", key, known)
    return known[key]
