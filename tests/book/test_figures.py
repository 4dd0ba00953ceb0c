"""Figures: what a given number is held to, comparisons, and a number with its unit."""

from fractions import Fraction

import pytest
import sympy as sp

from derive.book.figures import RELATIONS, compared, given_rule, number_text
from derive.notation.errors import UnitError
from derive.notation.printed import integer
from derive.notation.quantity import Quantity, number
from derive.notation.units import byte, one, token
from derive.notation.units import second as second_unit


def ends(value: Fraction) -> bool:
    """Whether long division by ten comes to no remainder, before one comes back."""
    seen: set[int] = set()
    rest = value.numerator % value.denominator
    while rest not in seen:
        seen.add(rest)
        rest = 10 * rest % value.denominator
    return rest == 0


@pytest.mark.parametrize("top", [1, 3, 7, 30])
def test_digits_that_end_are_all_given(top: int) -> None:
    for bottom in range(1, 130):
        value = Fraction(top, bottom)
        rule = given_rule(Quantity(sp.Rational(top, bottom)))
        assert rule == ("exact" if ends(value) else "round"), value


def test_what_no_fraction_is_has_no_end() -> None:
    assert given_rule(Quantity(sp.sqrt(2))) == "round"
    assert given_rule(Quantity(sp.Integer(0))) == "exact"


@pytest.mark.parametrize("sign", RELATIONS)
def test_a_comparison_holds_where_it_does_and_of_one_unit(sign: str) -> None:
    """A plain number takes the unit of the other side, and a quantity keeps its own."""
    wanted = {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1), "==": (0,), "!=": (-1, 1)}[sign]
    for left in (1, 2, 3):
        order = (left > 2) - (left < 2)
        for first, second in (
            (number(left, token), number(2, token)), (left, number(2, token)),
            (number(left, token), 2), (left, 2),
        ):  # fmt: skip
            relation = compared("name", first, sign, second)
            assert relation.holds == (order in wanted)
            unit = one if isinstance(first, int) and isinstance(second, int) else token
            assert relation.left.unit == relation.right.unit == unit
    for first, second in ((byte, second_unit), (one, byte), (byte, one)):
        with pytest.raises(UnitError, match="name: expected"):
            compared("name", number(1, first), "<", number(2, second))


def test_a_number_ends_in_its_unit_or_in_what_stands_for_it() -> None:
    tokens = number(1800, token)
    assert number_text(tokens, integer(), None) == ("1,800\u00a0tokens", "\u00a0tokens")
    assert number_text(tokens, integer(), "") == ("1,800", "")
    assert number_text(tokens, integer(), "rows") == ("1,800\u00a0rows", "\u00a0rows")
