"""What a given number is held to: every digit where they end, and rounding where they do not."""

from fractions import Fraction

import pytest
import sympy as sp

from derive.book.figures import given_rule
from derive.notation.quantity import Quantity


def ends(number: Fraction) -> bool:
    """Whether long division by ten comes to no remainder, before one comes back."""
    seen: set[int] = set()
    rest = number.numerator % number.denominator
    while rest not in seen:
        seen.add(rest)
        rest = 10 * rest % number.denominator
    return rest == 0


@pytest.mark.parametrize("top", [1, 3, 7, 30])
def test_digits_that_end_are_all_given(top: int) -> None:
    for bottom in range(1, 130):
        number = Fraction(top, bottom)
        rule = given_rule(Quantity(sp.Rational(top, bottom)))
        assert rule == ("exact" if ends(number) else "round"), number


def test_what_no_fraction_is_has_no_end() -> None:
    assert given_rule(Quantity(sp.sqrt(2))) == "round"
    assert given_rule(Quantity(sp.Integer(0))) == "exact"
