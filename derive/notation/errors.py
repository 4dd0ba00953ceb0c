"""Errors for the person who typed: what was named, what was expected, what was found."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from unicodedata import category


def plain(text: str) -> str:
    """`text` with what a terminal acts on, but for line ends and tabs, written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" or category(c) == "Zs" else repr(c)[1:-1] for c in text
    )


class DeriveError(Exception):
    """A mistake in the input, told in one message; the command line prints it and exits 2."""

    def __str__(self) -> str:
        return plain(super().__str__())


class UnknownName(DeriveError):
    """A name that is not in the vocabulary, the catalogue or the list of choices."""


class UnitError(DeriveError):
    """A unit or a label that does not match what was expected."""


class ShardingError(DeriveError):
    """A sharding that is malformed, contradictory or illegal."""


class FactError(DeriveError):
    """A facts file with a missing or misspelt key, a wrong unit or a number without a source."""


class NotClosedForm(DeriveError):
    """No readable closed form exists, and not every other symbol has a value."""


class ProofError(DeriveError):
    """A step of a derivation, or an author's preferred form, that does not hold."""


def nearest(name: str, names: Iterable[str], *, count: int = 3) -> list[str]:
    """The names closest to `name`, best first, compared without regard to case."""
    by_lower: dict[str, str] = {}
    for candidate in names:
        by_lower.setdefault(candidate.lower(), candidate)
    close = get_close_matches(name.lower()[:100], list(by_lower), n=count, cutoff=0.5)
    return [by_lower[match] for match in close]


def unknown(kind: str, name: str, names: Iterable[str]) -> UnknownName:
    """An `UnknownName` that offers the nearest names, or all of them where there are few."""
    known = sorted(set(names))
    close = nearest(name, known)
    if close:
        hint = f"did you mean {' or '.join(close)}?"
    elif len(", ".join(known)) <= 400:
        hint = f"known: {', '.join(known)}"
    else:
        hint = f"{len(known)} are known, none like it"
    return UnknownName(f"unknown {kind} {quoted(name)}; {hint}")


def quoted(text: object, limit: int = 60) -> str:
    """`text` in quotes on one line, cut to `limit` characters so that a message stays readable."""
    shown = repr(str(text))
    return shown if len(shown) <= limit else f"{shown[: limit - 4]}...{shown[0]}"
