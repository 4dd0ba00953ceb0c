"""The world: chips, models and the sources their figures were read in.

A fact is a set of readings, each with a source; a profile picks one reading of each fact. No file
is read when this package is imported, only when something is first asked of it.
"""

from __future__ import annotations

from derive.facts.catalogue import (
    DEFAULT_PROFILE,
    Catalogue,
    chip,
    chips,
    load_file,
    model,
    models,
    profiles,
    shipped,
    source,
    sources,
    with_files,
)
from derive.facts.fact import Fact, Reading, Source
from derive.facts.owners import Chip, Model, Override

__all__ = [
    "DEFAULT_PROFILE", "Catalogue", "Chip", "Fact", "Model", "Override", "Reading", "Source",
    "chip", "chips", "load_file", "model", "models", "profiles", "shipped", "source", "sources",
    "with_files",
]  # fmt: skip
