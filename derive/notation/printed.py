"""Numbers as they are printed, by named rules, as text and as TeX.

Both forms come from one rounding of the exact value, by any rule to the nearest or to one side.
Text has "2,550", a true minus sign and a non-breaking space before the unit; TeX has `2{,}550`.
Neither ever shows "2.55e+03".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import sympy as sp

from derive.notation.digits import (
    BINARY,
    SI,
    SMALL,
    Exact,
    Toward,
    fixed,
    fraction,
    grouped,
    magnitude,
    rounded,
)
from derive.notation.errors import DeriveError, UnitError, quoted, whole_number
from derive.notation.units import WHOLE_UNITS, Unit, byte, one, parameter, plural, second

MINUS = "\u2212"
NO_BREAK = "\u00a0"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_TURNED: dict[Toward, Toward] = {"nearest": "nearest", "down": "up", "up": "down"}
Kind = Literal[
    "integer", "significant", "decimals", "si", "binary", "percent", "exact", "scientific"
]
_SHORT = {"FLOP": "FLOP", "byte": "B", "second": "s"}


@dataclass(frozen=True)
class Rounding:
    """How a number is rounded and written; `trim` drops zeros that end a decimal fraction, and
    `toward` says to which side it is rounded at its last digit."""

    kind: Kind
    digits: int = 0
    trim: bool = False
    toward: Toward = "nearest"

    def __post_init__(self) -> None:
        least = 1 if self.kind in ("significant", "si", "binary", "scientific") else 0
        whole_number(f"{self.kind}, digits", self.digits, least, 40)


def integer() -> Rounding:
    """The nearest integer: "2,550"."""
    return Rounding("integer")


def floor() -> Rounding:
    """The value rounded down to an integer, as an upper bound on whole things is printed."""
    return Rounding("integer", toward="down")


def ceiling() -> Rounding:
    """The value rounded up to an integer, as a lower bound on whole things is printed."""
    return Rounding("integer", toward="up")


def significant(digits: int, *, trim: bool = False) -> Rounding:
    """So many significant digits: "13.7"; below 1e-5 and from 1e15 on, as a power of ten."""
    return Rounding("significant", digits, trim)


def decimals(digits: int, *, trim: bool = False) -> Rounding:
    """So many digits after the point: "0.44"."""
    return Rounding("decimals", digits, trim)


def si(digits: int, *, trim: bool = False) -> Rounding:
    """Significant digits under a prefix k, M, G, T, P or E: "459 TFLOP/s", "4M tokens".

    Times below a second take m, µ and n; other values below 1 are printed without a prefix.
    """
    return Rounding("si", digits, trim)


def binary(digits: int, *, trim: bool = False) -> Rounding:
    """The same under Ki, Mi, Gi, Ti, Pi or Ei: "96.0 GiB". The integer part is printed whole."""
    return Rounding("binary", digits, trim)


def percent(digits: int = 0, *, trim: bool = False) -> Rounding:
    """A share as a percentage with so many digits after the point: "40%"."""
    return Rounding("percent", digits, trim)


def exact() -> Rounding:
    """Without rounding: an integer, a decimal that ends within 15 digits, or a fraction "8/3"."""
    return Rounding("exact")


def scientific(digits: int) -> Rounding:
    """Significant digits times a power of ten: "6.3×10²⁴" as text, `6.3 \\times 10^{24}` as TeX."""
    return Rounding("scientific", digits)


@dataclass(frozen=True)
class _Shown:
    """A rounded number before it is spelt: plain digits, and what goes with them."""

    digits: str
    prefix: str = ""
    power: int | None = None
    over: int = 1


@lru_cache(maxsize=4096, typed=True)
def printed(value: Exact, rule: Rounding, unit: Unit | None = None) -> str:
    """`value` by `rule`, with its unit, as text.

    Raises DeriveError for a value that is not an exact real number or that `exact()` cannot write,
    and UnitError for a percentage with a unit.
    """
    negative, shown, ending = _parts(value, rule, unit)
    text = grouped(shown.digits)
    if shown.over != 1:
        text += f"/{grouped(str(shown.over))}"
    if shown.power is not None:
        text += f"×10{str(shown.power).translate(RAISED)}"
    text += shown.prefix + ("%" if rule.kind == "percent" else "")
    return (MINUS if negative else "") + text + (f"{NO_BREAK}{ending}" if ending else "")


WHOLE_BELOW = 10**8


def shown(value: Exact, unit: Unit | None = None, digits: int = 4) -> str:
    """A number for reading in a terminal: whole numbers whole, large ones under a prefix, anything
    else at so many significant digits."""
    return printed(value, reading_rule(value, unit, digits), unit)


def reading_rule(
    value: Exact, unit: Unit | None = None, digits: int = 4, toward: Toward = "nearest"
) -> Rounding:
    """The rule of `shown`; to a side, what counts whole things is a whole number as well."""
    number = abs(fraction(value))
    whole = number.denominator == 1 or (toward != "nearest" and number > 1 and unit in WHOLE_UNITS)
    if number >= WHOLE_BELOW:
        return Rounding("si", digits, True, toward)
    return Rounding("integer" if whole else "significant", digits, True, toward)


def share(value: Exact, digits: int = 0) -> str:
    """A share as a percentage."""
    return printed(value, percent(digits))


def size(value: Exact) -> str:
    """Bytes in binary units, three digits."""
    return printed(value, binary(3), byte)


def time(value: Exact) -> str:
    """Seconds, four digits."""
    return printed(value, significant(4), second)


def counted(count: int, noun: str) -> str:
    """A count with its noun: "1 node", "8 nodes"."""
    return f"{count} {noun if count == 1 else plural(noun)}"


def as_text(lines: Iterable[str]) -> str:
    """Lines as one text with plain spaces, as a prompt shows it."""
    return "\n".join(lines).replace(NO_BREAK, " ")


def printed_tex(value: Exact, rule: Rounding, unit: Unit | None = None) -> str:
    """The same number as TeX, to stand inside math; raises what `printed` raises."""
    negative, shown, ending = _parts(value, rule, unit)
    tex = grouped(shown.digits, "{,}")
    if shown.over != 1:
        tex = rf"\frac{{{tex}}}{{{grouped(str(shown.over), '{,}')}}}"
    if shown.power is not None:
        tex += rf" \times 10^{{{shown.power}}}"
    if shown.prefix:
        tex += rf"\text{{{shown.prefix}}}"
    tex += r"\%" if rule.kind == "percent" else ""
    return ("-" if negative else "") + tex + (rf"~\text{{{ending}}}" if ending else "")


def _parts(value: Exact, rule: Rounding, unit: Unit | None) -> tuple[bool, _Shown, str]:
    number, unit = fraction(value), unit or one
    if rule.kind == "percent" and unit != one:
        raise UnitError(f"percent: expected a share without unit, found {unit}")
    if rule.kind == "exact" and not isinstance(value, (int, Fraction, sp.Rational)):
        raise DeriveError(f"exact: {quoted(value)} is neither a decimal nor a fraction")
    if number < 0:  # digits are those of the size, which grows to the other side
        rule = replace(rule, toward=_TURNED[rule.toward])
    shown = _rounded(abs(number), rule, unit)
    if rule.trim and "." in shown.digits:
        shown = replace(shown, digits=shown.digits.rstrip("0").rstrip("."))
    negative = number < 0 and shown.digits.strip("0.") != ""
    head = _head(unit)
    if rule.kind in ("si", "binary") and head:
        return negative, replace(shown, prefix=""), shown.prefix + _short(unit, head)
    return negative, shown, unit.words(singular=shown == _Shown("1"))


def _rounded(number: Fraction, rule: Rounding, unit: Unit) -> _Shown:
    if rule.kind == "exact":
        return _exact(number)
    if rule.kind == "integer":
        return _Shown(fixed(rounded(number, 0, rule.toward), 0))
    if rule.kind in ("decimals", "percent"):
        number = number * 100 if rule.kind == "percent" else number
        return _Shown(fixed(rounded(number, -rule.digits, rule.toward), -rule.digits))
    if number == 0:
        return _Shown("0")
    ways = {"significant": _significant, "scientific": _scientific, "binary": _binary}
    if rule.kind in ways:
        return ways[rule.kind](number, rule)
    scaled = _si(number, rule, small=unit.dimension == second)
    # The trade counts parameters in billions: 70.6B, not 70.6G.
    return replace(scaled, prefix="B") if scaled.prefix == "G" and unit == parameter else scaled


def _exact(number: Fraction) -> _Shown:
    for place in range(16):
        scaled = number * 10**place
        if scaled.denominator == 1:
            return _Shown(fixed(scaled.numerator, -place))
    return _Shown(str(number.numerator), over=number.denominator)


def _digits(number: Fraction, rule: Rounding) -> tuple[int, int]:
    """Count and place of the value at so many significant digits: 9.996 at three is (100, -1)."""
    place = magnitude(number) - rule.digits + 1
    count = rounded(number, place, rule.toward)
    return (count // 10, place + 1) if count == 10**rule.digits else (count, place)


def _significant(number: Fraction, rule: Rounding) -> _Shown:
    count, place = _digits(number, rule)
    value = count * Fraction(10) ** place
    if not Fraction(1, 10**5) <= value < 10**15:
        return _scientific(number, rule)
    return _Shown(fixed(count, place))


def _scientific(number: Fraction, rule: Rounding) -> _Shown:
    count, place = _digits(number, rule)
    return _Shown(fixed(count, 1 - rule.digits), power=place + rule.digits - 1)


def _si(number: Fraction, rule: Rounding, small: bool) -> _Shown:
    below = dict(reversed(SMALL.items())) if small else {}
    table = below | {"": Fraction(1)} | SI
    count, place = _digits(number, rule)
    # Chosen by the rounded value, so that 999.95 at three digits is 1.00k and not 1000.
    value = count * Fraction(10) ** place
    prefix = max((p for p in table if table[p] <= value), key=table.__getitem__, default="")
    return replace(_significant(number / table[prefix], rule), prefix=prefix)


def _binary(number: Fraction, rule: Rounding) -> _Shown:
    for prefix, scale in ({"": Fraction(1)} | BINARY).items():
        scaled = number / scale
        place = min(0, magnitude(scaled) - rule.digits + 1)
        count = rounded(scaled, place, rule.toward)
        if count * Fraction(10) ** place < 1024 or prefix == "Ei":
            break
    if scaled < 1:
        return replace(_significant(scaled, rule), prefix=prefix)
    if count == 10**rule.digits and place < 0:
        count, place = count // 10, place + 1
    return _Shown(fixed(count, place), prefix)


def _head(unit: Unit) -> str:
    """The base unit that can carry the prefix: the first of the numerator, where it stands bare."""
    above = [(name, power) for name, power in unit.powers + unit.labels if power > 0]
    return above[0][0] if len(above) == 1 and above[0][0] in _SHORT and above[0][1] == 1 else ""


def _short(unit: Unit, head: str) -> str:
    text = _SHORT[head]
    for name, power in unit.powers + unit.labels:
        if power < 0:
            raised = "" if power == -1 else f"^{-power}"
            text += f"/{_SHORT[name]}{raised}" if name in _SHORT else f" per {name}{raised}"
    return text
