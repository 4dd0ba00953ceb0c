"""Numbers as people type them, read exactly into fractions; nothing here reaches SymPy.

The prefixes that are printed and the prefixes that are read are this one table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from derive.notation.errors import DeriveError, quoted

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
    found = _NUMERAL.match(text)
    if found is None:
        return None
    whole = (found["whole"] or "0").replace(",", "")
    part = found["part"] or found["only"] or ""
    power = (found["exponent"] or found["caret"] or found["raised"] or "0").translate(_LOWERED)
    if len(whole) + len(part) > MAX_DIGITS:
        raise DeriveError(f"a number of more than {MAX_DIGITS} digits: {quoted(found[0])}")
    if len(power.strip("+-").lstrip("0")) > 2:
        raise DeriveError(f"an exponent beyond {MAX_EXPONENT}: {quoted(found[0])}")
    digits = int(whole + part)
    step = Fraction(10) ** (int(power) - len(part))
    zeros = 0 if part or not digits else len(whole) - len(whole.rstrip("0"))
    sign = -1 if found["sign"] in ("-", "−") else 1
    return Numeral(sign * digits * step, step, step * 10**zeros, found[0])


def exact(text: str) -> Fraction:
    """The fraction that `text` writes: "2,550", "1.8e11", "-0.5" or "1/3".

    Raises DeriveError where it is no number, NaN and infinity included.
    """
    top, slash, bottom = text.strip().partition("/")
    above, below = numeral(top), numeral(bottom) if slash else None
    if above is None or above.text != top or (slash and (below is None or below.text != bottom)):
        raise DeriveError(f"expected a number, found {quoted(text)}")
    if below is None:
        return above.value
    if below.value == 0:
        raise DeriveError(f"a division by zero: {quoted(text)}")
    return above.value / below.value


def suffix(text: str) -> tuple[Fraction, str] | None:
    """The prefix letter that stands alone at the start of `text`, as in "4M", and what follows it.

    An attached B ("70.6B parameters") is a billion, unless it reads as bytes ("96B/s"). Raises
    DeriveError for K, which some mean as 1000 and some as 1024.
    """
    found = re.match(r"( ?)([kKMGTPE]i?|B)(?![A-Za-z/])", text)
    if found is None or found[2] == "ki":
        return None
    rest = text[found.end() :]
    if found[2] == "B":
        billion = not found[1] and not re.match(r" per\b", rest)
        return (Fraction(10**9), rest) if billion else None
    if found[2] == "K":
        raise DeriveError(
            f"K is ambiguous in {quoted(text.strip())}: write k for 1000, Ki for 1024"
        )
    return PREFIXES[found[2]], rest
