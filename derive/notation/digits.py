"""Exact values and their digits: what is typed becomes a fraction here, and what is printed is
rounded here, and only here.

The prefixes that are printed and the prefixes that are read are one table. Rounding is half away
from zero on the exact value, so that 2.675 prints 2.68 and 2.5 prints 3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, Literal, TypeAlias

import sympy as sp
from mpmath import iv
from mpmath.libmp import ComplexResult, to_rational

from derive.notation.errors import TOO_LARGE, DeriveError, quoted, too_large

Exact: TypeAlias = int | Fraction | sp.Expr
Toward: TypeAlias = Literal["nearest", "down", "up"]

SI = {name: Fraction(10) ** (3 * (i + 1)) for i, name in enumerate("kMGTPE")}
BINARY = {f"{name}i": Fraction(1024) ** (i + 1) for i, name in enumerate("KMGTPE")}
SMALL = {name: Fraction(1, 1000 ** (i + 1)) for i, name in enumerate("mµn")}
PREFIXES = SI | BINARY

MAX_DIGITS = 100
MAX_EXPONENT = 99

_NUMERAL = re.compile(
    r"(?P<sign>[+\-−]?)"
    r"(?:(?P<whole>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.(?P<part>[0-9]+))?"
    r"|\.(?P<only>[0-9]+))"
    r"(?:[eE](?P<exponent>[+\-−]?[0-9]+)"
    r"|[ \u00a0]?(?:×|\\times)[ \u00a0]?10"
    r"(?:\^\{?(?P<caret>[+\-−]?[0-9]+)\}?|(?P<raised>[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)))?"
)
_LOWERED = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "+-0123456789-")

# Irrational values are enclosed in intervals of so many digits, until the nearest simple fraction
# lies outside, or is proved to be the value, such as sqrt(3 + 2*sqrt(2)) - sqrt(2).
_ENCLOSED = (60, 120, 240, 480)
_SIMPLE = 10**12  # the largest denominator of those, among them what a printed digit turns at
_UNKNOWN = sp.Dummy()
_INTERVALS: dict[type, Callable[..., Any]] = {
    sp.Add: lambda *terms: sum(terms),
    sp.Mul: lambda *factors: math.prod(factors),
    sp.Pow: lambda base, exponent: base**exponent,
}


# --- read


@dataclass(frozen=True)
class Numeral:
    """A number as written.

    `step` is one unit of its last digit. `widest` is one unit of the last digit that must be
    meant: trailing zeros of an integer may be mere placeholders, those of a decimal are not.
    """

    value: Fraction
    step: Fraction
    widest: Fraction
    text: str

    def times(self, scale: Fraction) -> Numeral:
        """The same digits under a prefix or a multiplier."""
        return Numeral(self.value * scale, self.step * scale, self.widest * scale, self.text)


def numeral(text: str) -> Numeral | None:
    """The number that `text` begins with, or None.

    Raises DeriveError where it has too many digits or too large an exponent to be meant.
    """
    match = _NUMERAL.match(text)
    if match is None:
        return None
    whole = (match["whole"] or "0").replace(",", "")
    part = match["part"] or match["only"] or ""
    power = (match["exponent"] or match["caret"] or match["raised"] or "0").translate(_LOWERED)
    if len(whole) + len(part) > MAX_DIGITS:
        raise DeriveError(f"a number of more than {MAX_DIGITS} digits: {quoted(match[0])}")
    if len(power.strip("+-").lstrip("0")) > 2:
        raise DeriveError(f"an exponent beyond {MAX_EXPONENT}: {quoted(match[0])}")
    digits = int(whole + part)
    step = Fraction(10) ** (int(power) - len(part))
    zeros = 0 if part or not digits else len(whole) - len(whole.rstrip("0"))
    sign = -1 if match["sign"] in ("-", "−") else 1
    return Numeral(sign * digits * step, step, step * 10**zeros, match[0])


def exact(value: object) -> Fraction:
    """The fraction that a text writes ("2,550", "1.8e11", "-0.5" or "1/3") or that a number of
    Python, NumPy or SymPy is; of a float the decimal number that was typed, not its binary
    neighbour.

    Raises DeriveError where it is no number, NaN and infinity included.
    """
    if too_large(value):
        raise DeriveError(f"expected a shorter number, found {TOO_LARGE}")
    if isinstance(value, Rational) and not isinstance(value, bool):
        return Fraction(int(value.numerator), int(value.denominator))
    if not isinstance(value, (str, Real, Decimal)) or isinstance(value, bool):
        raise DeriveError(f"expected a number, found {quoted(value)}")
    text = str(value)
    top, slash, bottom = text.strip().partition("/")
    above, below = numeral(top), numeral(bottom) if slash else None
    if above is None or above.text != top or (slash and (below is None or below.text != bottom)):
        raise DeriveError(f"expected a number, found {quoted(text)}")
    if below is None:
        return above.value
    if below.value == 0:
        raise DeriveError(f"a division by zero: {quoted(text)}")
    return above.value / below.value


def prefix(text: str) -> tuple[Fraction, str] | None:
    """The prefix letter that stands alone at the start of `text`, as in "4M", and what follows it.

    An attached B ("70.6B parameters") is a billion, unless it reads as bytes ("96B/s"). Raises
    DeriveError for K, which some mean as 1000 and some as 1024.
    """
    match = re.match(r"( ?)([kKMGTPE]i?|B)(?![A-Za-z/])", text)
    if match is None or match[2] == "ki":
        return None
    rest = text[match.end() :]
    if match[2] == "B":
        billion = not match[1] and not re.match(r" per\b", rest)
        return (Fraction(10**9), rest) if billion else None
    if match[2] == "K":
        told = f"K is ambiguous in {quoted(text.strip())}"
        raise DeriveError(f"{told}: write k for 1000, Ki for 1024")
    return PREFIXES[match[2]], rest


# --- rounded


def fraction(value: Exact) -> Fraction:
    """`value` as a fraction: exact for rationals; of roots one so near that no fraction with a
    denominator up to 10**12 lies between, which interval arithmetic proves.

    Raises DeriveError for floats, which are inexact, and for what is no real finite number.
    """
    if isinstance(value, Rational) and not isinstance(value, bool):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, float) or (isinstance(value, sp.Basic) and value.has(sp.Float)):
        raise DeriveError(f"expected an exact number, found the float {quoted(value)}")
    if not isinstance(value, sp.Expr) or value.free_symbols or value.is_extended_real is False:
        raise DeriveError(f"expected a real number, found {quoted(value)}")
    for digits in _ENCLOSED:
        low, high = enclosure(value, digits)
        middle = (low + high) / 2
        simple = middle.limit_denominator(_SIMPLE)
        if not low <= simple <= high:
            return middle
        # Zero is the one number whose minimal polynomial is x.
        if sp.minimal_polynomial(value - sp.Rational(simple), _UNKNOWN) == _UNKNOWN:
            return simple
    raise DeriveError(f"cannot tell {quoted(value)} from {simple}")


def enclosure(value: sp.Expr, digits: int) -> tuple[Fraction, Fraction]:
    """Two fractions between which a real number lies, computed to so many digits.

    Raises DeriveError for what is no real finite number, as far as these tell.
    """
    context = iv.__class__()
    context.dps = digits
    try:
        interval = _interval(value, context)
        low, high = (Fraction(*map(int, to_rational(end))) for end in interval._mpi_)
    except (AttributeError, KeyError, ComplexResult, OverflowError, ValueError):
        raise DeriveError(f"expected a real number, found {quoted(value)}") from None
    return low, high


def _interval(value: sp.Expr, context: Any) -> Any:
    """The interval of an expression, from those of its parts."""
    if isinstance(value, sp.Rational):
        return context.mpf(int(value.p)) / int(value.q)
    return _INTERVALS[type(value)](*(_interval(part, context) for part in value.args))


def rounded(value: Fraction, place: int = 0, toward: Toward = "nearest") -> int:
    """The integer n for which n * 10**place is nearest to `value`, halves going away from zero; or
    the nearest of those that are not above it (down), or not below (up)."""
    step = Fraction(10) ** place
    if toward == "nearest":
        return multiple(value, step)
    return math.floor(value / step) if toward == "down" else math.ceil(value / step)


def multiple(value: Fraction, step: Fraction) -> int:
    """How many `step`s make `value`, to the nearest integer, halves going away from zero."""
    ratio = abs(value) / step
    count = (2 * ratio.numerator + ratio.denominator) // (2 * ratio.denominator)
    return -count if value < 0 else count


def magnitude(value: Fraction) -> int:
    """The exponent of ten of the leading digit of a value that is not zero: 2 for 459."""
    top, bottom = abs(value.numerator), value.denominator
    guess = len(str(top)) - len(str(bottom))
    return guess if Fraction(top, bottom) >= Fraction(10) ** guess else guess - 1


def fixed(count: int, place: int) -> str:
    """`count` times 10**place, not negative, written out in full with neither sign nor comma."""
    if place >= 0:
        return str(count * 10**place)
    digits = str(count).zfill(1 - place)
    return f"{digits[:place]}.{digits[place:]}"


def grouped(digits: str, comma: str = ",") -> str:
    """Digits as `fixed` writes them, with a separator between the thousands."""
    whole, dot, rest = digits.partition(".")
    return f"{int(whole):,}".replace(",", comma) + dot + rest
