"""Reads facts files: TOML text to a checked, frozen catalogue.

Nothing is read when this module is imported. The shipped files are read once, on first use; a
user's file is read each time it is asked for, since it may have changed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from derive.facts import checks, derived, tables
from derive.facts.checks import Place
from derive.facts.readings import Catalogue, choose, names
from derive.notation.errors import DeriveError, FactError, quoted

DATA = Path(__file__).parent / "data"
SHIPPED = ("sources.toml", "chips.toml", "models.toml", "profiles.toml")
LARGEST = 2**20


@lru_cache(maxsize=1)
def shipped() -> Catalogue:
    """The catalogue of the shipped files."""
    made = Catalogue()
    for name in SHIPPED:
        made = _extended(made, _parsed(_read(DATA / name, name), name), name)
    return _consistent(made, "chips.toml")


def load_file(path: str | PathLike[str], onto: Catalogue | None = None) -> Catalogue:
    """A new catalogue: `onto` (the shipped one by default) with the facts of one file added.

    Raises FactError, naming the file, for a file that cannot be read, is not TOML, or has a
    missing or misspelt key, a wrong unit, a number without a source, a formula that does not give
    its value, and so on; the file may not redefine what the catalogue has, except that it may
    extend a profile. Raises DeriveError for a path that is none.
    """
    if not isinstance(path, (str, PathLike)):
        raise DeriveError(f"expected the path of a facts file, found {checks.other(path)}")
    shown = str(path) if str(path).isprintable() and len(str(path)) < 200 else quoted(path)
    data = _parsed(_read(Path(path), shown), shown)
    return _consistent(_extended(with_files(onto, ()), data, shown), shown)


def with_files(
    onto: Catalogue | None, files: Iterable[str | PathLike[str]] | str | PathLike[str]
) -> Catalogue:
    """`onto` (the shipped catalogue by default) with the facts of each file added, as `load_file`.

    One path stands for itself. Raises DeriveError for what is no catalogue or holds no paths.
    """
    if onto is not None and not isinstance(onto, Catalogue):
        raise DeriveError(f"expected a catalogue, found {checks.other(onto)}")
    if isinstance(files, (str, PathLike)):
        files = (files,)
    if not isinstance(files, Iterable):
        raise DeriveError(f"expected paths of facts files, found {checks.other(files)}")
    known = shipped() if onto is None else onto
    for path in files:
        known = load_file(path, onto=known)
    return known


def _read(path: Path, shown: str) -> str:
    try:
        if not path.is_file():
            raise FactError(f"{shown}: expected a TOML file, found {_instead(path)}")
        with path.open("rb") as opened:
            raw = opened.read(LARGEST + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise FactError(f"{shown}: expected a file that can be read, found: {reason}") from None
    if len(raw) > LARGEST:
        raise FactError(f"{shown}: expected at most {LARGEST} bytes, found more")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FactError(
            f"{shown}: expected TOML text in UTF-8, found another byte at {error.start}"
        ) from None


def _instead(path: Path) -> str:
    return "a directory" if path.is_dir() else "something else" if path.exists() else "no file"


def _parsed(content: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(content, parse_float=Decimal)
    # ValueError is also what Python raises for a whole number of too many digits, ArithmeticError
    # what Decimal raises for an exponent out of its range.
    except (ValueError, ArithmeticError, RecursionError) as error:
        if isinstance(error, tomllib.TOMLDecodeError):
            reason = str(error)[:200]
        else:
            deep = isinstance(error, RecursionError)
            reason = "values nested too deeply" if deep else "a number out of range"
        raise FactError(f"{file}: expected TOML, found: {reason}") from None


def _extended(onto: Catalogue, data: Mapping[str, Any], file: str) -> Catalogue:
    place = Place(file)
    checks.only(data, tables.TOP_TABLES, place)
    if not data:
        known = ", ".join(f"[{name}]" for name in tables.TOP_TABLES)
        raise FactError(f"{file}: expected at least one of {known}, found none")
    given = {name: checks.table(data.get(name, {}), place, name) for name in tables.TOP_TABLES}
    added = tables.sources(given["sources"], file)
    _new(added, onto.sources, Place(file, "sources"))
    sources = {**onto.sources, **added}
    new_chips = tables.chips(given["chips"], file, sources)
    _new(names(new_chips.values()), names(onto.chips.values()), Place(file, "chips"))
    new_models = tables.models(given["models"], file, sources)
    _new(names(new_models.values()), names(onto.models.values()), Place(file, "models"))
    chips, models = {**onto.chips, **new_chips}, {**onto.models, **new_models}
    derived.check(new_chips.values(), chips, Place(file, "chips"))
    derived.check(new_models.values(), models, Place(file, "models"))
    profiles = tables.profiles(given["profiles"], file, sources, chips, onto.profiles)
    return Catalogue(
        MappingProxyType(sources),
        MappingProxyType(chips),
        MappingProxyType(models),
        MappingProxyType({**onto.profiles, **profiles}),
    )


def _new(added: Iterable[str], existing: Iterable[str], place: Place) -> None:
    """Raise FactError for a name that exists already, or twice among those added."""
    seen = set(existing)
    for name in added:
        if name in seen:
            raise place.fault(quoted(name), "a new name", "one that is taken")
        seen.add(name)


def _consistent(catalogue: Catalogue, file: str) -> Catalogue:
    """The catalogue itself; raises FactError unless each profile picks one reading per fact.

    `file` was read last, so that either its chip or its profile is what is ambiguous.
    """
    for profile in catalogue.profiles.values():
        for chip in catalogue.chips.values():
            for fact in chip.facts:
                try:
                    choose(fact, profile, chip.prefer)
                except DeriveError as error:
                    if chip.file == file:
                        at = f"[chips.{chip.name}.facts] {fact.key.name}"
                    else:
                        at = f'[profiles.{profile.name}] "{chip.name}.{fact.key.name}"'
                    raise FactError(f"{file}: {at}: {error}") from None
    return catalogue
