"""Values as people type them: "28672", "180 GB/s", "96 GiB", "1024 sequences", "40%"."""

from __future__ import annotations

import re
from fractions import Fraction

import sympy as sp

from derive.notation import typed_number
from derive.notation.errors import DeriveError, UnitError, quoted
from derive.notation.quantity import Quantity, number
from derive.notation.symbols import find, meaning, vocabulary
from derive.notation.typed_unit import unit as read_unit
from derive.notation.units import Unit, byte, one, sequence, token

MAX_LENGTH = 200
LARGEST = Fraction(10) ** 40


def quantity(text: str, expected: Unit | None = None, name: str = "") -> Quantity:
    """The positive quantity that `text` states, exactly, in base units: 180000000000 byte/second.

    A bare number is in the expected base unit. Raises UnitError for a unit
    other than the expected one (tokens and sequences are told apart), DeriveError for what is no
    number, is not positive, or is 1e40 and more or 1e-40 and less.
    """
    called = _called(name)
    try:
        value, found = _read(text, expected)
    except DeriveError as error:
        raise type(error)(f"{called}: {error}") from None
    return number(value, found, name)


def assignment(text: str) -> tuple[sp.Symbol, Quantity]:
    """The symbol and the value of "NAME=VALUE", such as "W=180 GB/s".

    Raises UnknownName for an undeclared symbol, and what `quantity` raises.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise DeriveError(f"expected NAME=VALUE, found {quoted(text)}")
    of = find(name.strip())
    return of, quantity(value, meaning(of).unit, of.name)


def _called(name: str) -> str:
    known = vocabulary().get(name)
    return f"{name} ({known.gloss})" if known else (name or "value")


def _read(text: str, expected: Unit | None) -> tuple[Fraction, Unit]:
    """The value in base units, and the unit that `text` itself gives it."""
    if len(text) > MAX_LENGTH:
        raise DeriveError(f"a value of {len(text)} characters, the limit is {MAX_LENGTH}")
    core = " ".join(text.split())
    if (share := re.fullmatch(r"([0-9]{1,18})/([1-9][0-9]{0,17})", core)) and int(share[1]):
        bare = Fraction(int(share[1]), int(share[2]))
        return bare, one if expected is None else expected
    written = typed_number.numeral(core)
    if written is None:
        raise DeriveError(f"expected a positive number, found {quoted(text)}")
    value, rest = written.value, core[len(written.text) :]
    if re.match(r"[0-9.,_(*^+\-−]", rest):
        raise DeriveError(f"expected a number and a unit, found {quoted(text)}")
    if rest.lstrip() in ("%", "percent"):
        if expected is not None and expected != one:
            raise UnitError(f"expected {expected}, found a percentage, {quoted(text)}")
        scale, found = Fraction(1, 100), one
    else:
        scale, found = _scaled(text, rest, expected)
    value *= scale
    if value <= 0:
        raise DeriveError(f"expected a positive number, found {quoted(text)}")
    if not 1 / LARGEST < value < LARGEST:
        raise DeriveError(f"expected between 1e-40 and 1e40, found {quoted(text)}")
    return value, found if expected is None else _expected(text, found, expected)


def _scaled(text: str, rest: str, expected: Unit | None) -> tuple[Fraction, Unit]:
    """What follows the number: a prefix that stands alone, and a unit."""
    scale, words = typed_number.suffix(rest) or (Fraction(1), rest)
    if words != rest and rest.startswith("B"):
        bare = expected is None and not words.strip()
        if bare or expected == byte:
            raise UnitError(f"B may mean bytes or billions in {quoted(text)}: write byte or e9")
    factor, unit = read_unit(words.strip())
    return scale * factor, unit


def _expected(text: str, found: Unit, expected: Unit) -> Unit:
    if found == one:
        return expected
    if found.dimension == expected.dimension:
        if found.labels in ((), expected.labels):
            return expected
        if not expected.labels:
            return found
    message = f"expected {expected}, found {found} in {quoted(text)}"
    if expected == token and found == sequence:
        message += "; multiply by the sequence length to get tokens"
    raise UnitError(message)
