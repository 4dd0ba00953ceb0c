"""Exact values to digits: everything that is printed or checked is rounded here, and only here.

Rounding is half away from zero on the exact value, so that 2.675 prints 2.68 and 2.5 prints 3.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

import sympy as sp

from derive.notation.errors import DeriveError, quoted

Exact: TypeAlias = int | Fraction | sp.Expr

WORKING_DIGITS = 60
# An irrational value this close (relatively) to a fraction of small denominator is that fraction
# in disguise, such as sqrt(3 + 2*sqrt(2)) - sqrt(2); its digits must not depend on noise.
_SAME = Fraction(1, 10**50)
_NOTHING = Fraction(1, 10**100)


def fraction(value: Exact) -> Fraction:
    """`value` as a fraction: exact for rationals, to 50 digits or more for real algebraic numbers.

    Raises DeriveError for floats, which are inexact, and for what is no real finite number.
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, sp.Rational):
        return Fraction(int(value.p), int(value.q))
    if isinstance(value, float) or (isinstance(value, sp.Basic) and value.has(sp.Float)):
        raise DeriveError(f"expected an exact number, found the float {quoted(value)}")
    if not isinstance(value, sp.Expr) or value.free_symbols or value.is_extended_real is False:
        raise DeriveError(f"expected a real number, found {quoted(value)}")
    return _irrational(value)


def _irrational(value: sp.Expr) -> Fraction:
    close = sp.N(value, WORKING_DIGITS)
    if not close.is_Float:
        raise DeriveError(f"expected a real number, found {quoted(value)}")
    exact = sp.Rational(close)
    found = Fraction(int(exact.p), int(exact.q))
    if abs(found) < _NOTHING:
        return Fraction(0)
    simple = found.limit_denominator(10**12)
    return simple if abs(simple - found) <= abs(found) * _SAME else found


def rounded(value: Fraction, place: int = 0) -> int:
    """The integer n for which n * 10**place is nearest to `value`, halves going away from zero."""
    return multiple(value, Fraction(10) ** place)


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
