"""How the numbers of a plan are worded: exact values, rounded half away from zero."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from derive.notation.printed import binary, decimals, percent, printed, significant
from derive.notation.units import byte, one, second

NOUNS = {"batch": "sequence", "cards": "card", "seq": "token"}


def share(value: Fraction, digits: int = 0) -> str:
    """A share as a percentage."""
    return printed(value, percent(digits))


def size(value: Fraction) -> str:
    """Bytes in binary units, three digits."""
    return printed(value, binary(3), byte)


def time(value: Fraction) -> str:
    """Seconds, four digits."""
    return printed(value, significant(4), second)


def plain(value: Fraction, digits: int = 0) -> str:
    """A number with so many digits after the point."""
    return printed(value, decimals(digits), one)


def counted(count: int, noun: str) -> str:
    """A count with its noun: "1 node", "8 nodes"."""
    return f"{count} {noun}{'s'[: count != 1]}"


def amounts(quantity: str, values: Sequence[int]) -> str:
    """Values of a quantity of a task: "511 or 518 sequences"."""
    return f"{' or '.join(f'{x:,}' for x in values)} {NOUNS[quantity]}{'s'[: values[-1] != 1]}"


def as_text(lines: Iterable[str]) -> str:
    """Lines as one text with plain spaces, as a prompt shows it."""
    return "\n".join(lines).replace("\u00a0", " ")
