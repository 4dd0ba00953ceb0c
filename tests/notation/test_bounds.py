"""Bounds on whole things are printed on their own side: `floor()` and `ceiling()`."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.notation.printed import ceiling, floor, printed, printed_tex
from derive.notation.units import chip


@pytest.mark.parametrize(
    ("value", "down", "up"),
    [
        ("899.51", "899", "900"), ("36988.57", "36,988", "36,989"), ("6945.42", "6,945", "6,946"),
        ("20400", "20,400", "20,400"), ("0.4", "0", "1"), ("-0.4", "−1", "0"),
        ("-2.5", "−3", "−2"),
    ],
)  # fmt: skip
def test_floor_and_ceiling(value: str, down: str, up: str) -> None:
    assert printed(Fraction(value), floor()) == down
    assert printed(Fraction(value), ceiling()) == up


@given(st.fractions())
def test_they_bound_the_value(value: Fraction) -> None:
    def number(text: str) -> int:
        return int(text.replace(",", "").replace("−", "-"))

    assert number(printed(value, floor())) == math.floor(value)
    assert number(printed(value, ceiling())) == math.ceil(value)


def test_units_and_tex() -> None:
    assert printed(Fraction(3, 2), floor(), chip) == "1\u00a0chip"
    assert printed_tex(Fraction("36988.57"), floor()) == "36{,}988"
