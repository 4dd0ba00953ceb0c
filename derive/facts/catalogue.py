"""The catalogue: every source, chip, model and profile, read from TOML and frozen.

Nothing is read when this module is imported. The shipped files are read once, on first use; a
user's file is read each time it is asked for, since it may have changed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from derive.facts import checks, derived, tables
from derive.facts.checks import Place, other, typed
from derive.facts.fact import CHIP_FACTS, Profile, Source, choose
from derive.facts.owners import Chip, Model
from derive.notation.errors import DeriveError, FactError, lookup, quoted, unknown
from derive.notation.quantity import Quantity

DATA = Path(__file__).parent / "data"
SHIPPED = ("sources.toml", "chips.toml", "models.toml", "profiles.toml")
DEFAULT_PROFILE = "scaling-book"
LARGEST = 2**20
MOST_PARTS = 100
_LONG_KEY = re.compile(rf"""((?:"[^"]*"|'[^']*'|[\w-]+)[ \t]*\.[ \t]*){{{MOST_PARTS}}}""")
_Named = TypeVar("_Named", Chip, Model)
_BRANCH, _LAST, _PIPE, _GAP = "├─ ", "└─ ", "│  ", "   "  # of the tree of a quantity


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Everything read from the data files: sources, chips, models and profiles, by name."""

    sources: Mapping[str, Source] = field(default_factory=dict)
    chips: Mapping[str, Chip] = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=dict)
    profiles: Mapping[str, Profile] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """What chips, models and precisions are called: names, aliases and titles, with and without
        what stands in brackets after them."""
        titles = [one.title for one in self.chips.values()]
        titles += [one.title for one in self.models.values()]
        titles += [title.partition(" (")[0] for title in titles]
        called = [*_spellings(self.chips.values()), *_spellings(self.models.values())]
        return (*called, *titles, *(key.name for key in CHIP_FACTS.values() if key.precision))

    def chip(self, name: str) -> Chip:
        """The chip of that name or alias, under no profile; raises UnknownName, offering names and
        aliases."""
        return _by_alias("chip", typed(name, "a chip's name", "tpu-v5p"), self.chips)

    def model(self, name: str) -> Model:
        """The model of that name or alias; raises UnknownName, offering names and aliases."""
        return _by_alias("model", typed(name, "a model's name", "llama-3-70b"), self.models)


def _by_alias(kind: str, name: str, known: Mapping[str, _Named]) -> _Named:
    for each in known.values():
        if name == each.name or name in each.aliases:
            return each
    raise unknown(kind, name, _spellings(known.values()))


def _spellings(named: Iterable[Chip] | Iterable[Model]) -> Iterator[str]:
    """The names and aliases of chips or models, each one's own name first."""
    for each in named:
        yield each.name
        yield from each.aliases


# --- what is asked of it


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
    return lookup("source", typed(key, "a source's key", "SB5"), known)


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
    named = known.chip(name)
    name = typed(profile, "a profile's name", DEFAULT_PROFILE)
    return named.under(lookup("profile", name, known.profiles), override)


def model(
    name: str, *, catalogue: Catalogue | None = None, files: Iterable[str | PathLike[str]] = ()
) -> Model:
    """The model of that name or alias.

    `files` are facts files of the caller's own, added to `catalogue` (the shipped one by default).
    Raises UnknownName for a name that is not there, FactError for a file that does not hold.
    """
    return with_files(catalogue, files).model(name)


# --- where a number is from


def tree(quantity: Quantity) -> list[str]:
    """The lines of a quantity and, drawn below it, of its inputs; each sub-tree once."""
    return _lines(quantity, set(), "")


def cited(
    quantities: Iterable[Quantity], keys: Iterable[str] = (), catalogue: Catalogue | None = None
) -> list[str]:
    """A line for each source that some quantities, or some keys, cite, in the order of the files of
    the catalogue, by default the shipped one."""
    wanted = {*keys, *(node.source for quantity in quantities for node in quantity.nodes())}
    return [str(source) for source in sources(catalogue) if source.key in wanted]


def _lines(node: Quantity, seen: set[int], name: str) -> list[str]:
    name = name or node.name or "value"
    formula = f" = {node.formula}" if node.formula else ""
    head = f"{name}{formula} = {node.printed()}"
    place = f"[{node.source}] {node.where}".rstrip() if node.source else node.where
    origin = ", ".join(part for part in (node.owner, node.basis, place, node.status) if part)
    head += f"  ({origin})" if origin else ""
    if node.inputs and id(node) in seen:
        return [f"{head}, as above"]
    seen.add(id(node))
    lines = [head]
    for index, (child, given) in enumerate(node.inputs):
        last = index == len(node.inputs) - 1
        first, *rest = _lines(given, seen, child)
        lines.append((_LAST if last else _BRANCH) + first)
        lines += [(_GAP if last else _PIPE) + line for line in rest]
    return lines


# --- reading files


@lru_cache(maxsize=1)
def shipped() -> Catalogue:
    """The catalogue of the shipped files."""
    catalogue = Catalogue()
    for name in SHIPPED:
        catalogue = _extended(catalogue, _parsed(contents(DATA / name, name), name), name)
    return _consistent(catalogue, "chips.toml")


def load_file(path: str | PathLike[str], onto: Catalogue | None = None) -> Catalogue:
    """A new catalogue: `onto` (the shipped one by default) with the facts of one file added.

    Raises FactError, naming the file, for a file that cannot be read, is not TOML, or has a
    missing or misspelt key, a wrong unit, a number without a source, a formula that does not give
    its value, and so on; the file may not redefine what the catalogue has, except that it may
    extend a profile. Raises DeriveError for a path that is none.
    """
    if not isinstance(path, (str, PathLike)):
        raise DeriveError(f"expected the path of a facts file, found {other(path)}")
    shown = str(path) if str(path).isprintable() and len(str(path)) < 200 else quoted(path)
    data = _parsed(contents(Path(path), shown), shown)
    return _consistent(_extended(with_files(onto, ()), data, shown), shown)


def with_files(
    onto: Catalogue | None, files: Iterable[str | PathLike[str]] | str | PathLike[str]
) -> Catalogue:
    """`onto` (the shipped catalogue by default) with the facts of each file added, as `load_file`.

    One path stands for itself. Raises DeriveError for what is no catalogue or holds no paths.
    """
    if onto is not None and not isinstance(onto, Catalogue):
        raise DeriveError(f"expected a catalogue, found {other(onto)}")
    if isinstance(files, (str, PathLike)):
        files = (files,)
    if not isinstance(files, Iterable):
        raise DeriveError(f"expected paths of facts files, found {other(files)}")
    known = shipped() if onto is None else onto
    for path in files:
        known = load_file(path, onto=known)
    return known


def contents(path: Path, shown: str, kind: str = "TOML", most: int = LARGEST) -> str:
    """The text of a file of some kind, at most so many bytes; raises FactError, naming it as it is
    `shown`, for one that cannot be read."""
    try:
        if not path.is_file():
            raise FactError(f"{shown}: expected a {kind} file, found {_instead(path)}")
        with path.open("rb") as opened:
            raw = opened.read(most + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise FactError(f"{shown}: expected a file that can be read, found: {reason}") from None
    if len(raw) > most:
        raise FactError(f"{shown}: expected at most {most} bytes, found more")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        told = f"expected {kind} text in UTF-8, found another byte at {error.start}"
        raise FactError(f"{shown}: {told}") from None


def _instead(path: Path) -> str:
    return "a directory" if path.is_dir() else "something else" if path.exists() else "no file"


def _parsed(content: str, file: str) -> dict[str, Any]:
    # tomllib takes as long for a key of many dotted parts as for their number squared.
    for line, text in enumerate(content.split("\n"), 1):
        if _LONG_KEY.search(text):
            told = f"expected a key of at most {MOST_PARTS} parts, found a longer one"
            raise FactError(f"{file}: line {line}: {told}")
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
    checks.keys(data, place, (), tables.TOP_TABLES)
    if not data:
        known = ", ".join(f"[{name}]" for name in tables.TOP_TABLES)
        raise FactError(f"{file}: expected at least one of {known}, found none")
    given = {name: checks.table(data.get(name, {}), place, name) for name in tables.TOP_TABLES}
    added = tables.sources(given["sources"], file)
    _new(added, onto.sources, Place(file, "sources"))
    sources = {**onto.sources, **added}
    new_chips = tables.chips(given["chips"], file, sources)
    _new(_spellings(new_chips.values()), _spellings(onto.chips.values()), Place(file, "chips"))
    new_models = tables.models(given["models"], file, sources)
    _new(_spellings(new_models.values()), _spellings(onto.models.values()), Place(file, "models"))
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
