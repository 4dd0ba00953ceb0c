"""Errors for the person who typed: what was named, what was expected, what was found."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from difflib import get_close_matches
from numbers import Rational
from unicodedata import category

LARGEST_BITS = 10_000  # Python refuses to print whole numbers of many thousand digits
TOO_LARGE = f"a number of more than {LARGEST_BITS:,} bits"


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


def nearest(name: object, names: Iterable[str], *, count: int = 3) -> list[str]:
    """The names closest to `name`, best first, compared without regard to case."""
    by_lower: dict[str, str] = {}
    for candidate in names:
        by_lower.setdefault(candidate.lower(), candidate)
    close = get_close_matches(str(name).lower()[:100], list(by_lower), n=count, cutoff=0.5)
    return [by_lower[match] for match in close]


def unknown(kind: str, name: object, names: Iterable[str]) -> UnknownName:
    """An `UnknownName` that offers the nearest names, or all of them where there are few."""
    known = sorted(set(names))
    listed = ", ".join(known)
    other = f"known: {listed}" if len(listed) <= 400 else f"{len(known)} are known, none like it"
    return UnknownName(f"unknown {kind} {quoted(name)}; {meant(name, known, other)}")


def meant(name: object, names: Iterable[str], otherwise: str = "") -> str:
    """The nearest names as a message offers them; `otherwise` where none is near."""
    close = nearest(name, names)
    return f"did you mean {' or '.join(close)}?" if close else otherwise


def quoted(text: object, limit: int = 60) -> str:
    """`text` in quotes on one line, cut to `limit` characters so that a message stays readable."""
    try:
        shown = repr(TOO_LARGE if too_large(text) else str(text))
    except ValueError:  # such a number is within
        shown = repr(TOO_LARGE)
    return shown if len(shown) <= limit else f"{shown[: limit - 4]}...{shown[0]}"


def written(value: object, limit: int = 60) -> str:
    """A value as Python writes it, on one line, cut to `limit` characters."""
    try:
        shown = TOO_LARGE if too_large(value) else " ".join(repr(value).split())
    except ValueError:  # such a number is within
        return TOO_LARGE
    return shown if len(shown) <= limit else f"{shown[: limit - 3]}..."


def too_large(value: object, bits: int = LARGEST_BITS) -> bool:
    """Whether a number of Python, NumPy or SymPy has more than so many bits above or below its
    line, told from its exponent where it has one: to write it out may take minutes."""
    if isinstance(value, Rational):
        parts = (int(value.numerator), int(value.denominator))
        return max(part.bit_length() for part in parts) > bits
    if isinstance(value, Decimal):
        return abs(value.adjusted()) > bits // 4
    _, _, exponent, length = getattr(value, "_mpf_", (0, 0, 0, 0))  # of SymPy's Float
    return bool(max(-exponent, exponent + length) > bits)
