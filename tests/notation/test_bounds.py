"""Bounds on whole things are printed on their own side: `floor()` and `ceiling()`."""

import math
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.notation.digits import PREFIXES, Toward, exact
from derive.notation.printed import (
    Rounding,
    ceiling,
    decimals,
    floor,
    integer,
    percent,
    printed,
    printed_tex,
    scientific,
    significant,
)
from derive.notation.quantity import number
from derive.notation.units import Unit, chip, token, way


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


RULES = (
    integer(), significant(1), significant(4, trim=True), decimals(2), scientific(3), percent(1)
)  # fmt: skip


@given(st.fractions(min_value=-(10**12), max_value=10**12), st.sampled_from(RULES))
def test_any_rule_rounds_to_a_side_and_by_less_than_its_last_digit(
    value: Fraction, rule: Rounding
) -> None:
    def read(toward: Toward) -> Fraction:
        text = printed(value, replace(rule, toward=toward))
        return exact(text.removesuffix("%")) / (100 if text.endswith("%") else 1)

    down, near, up = read("down"), read("nearest"), read("up")
    assert down <= value <= up
    assert near in (down, up) and abs(near - value) == min(value - down, up - value)


@given(st.fractions(min_value=Fraction(1, 1000), max_value=10**14), st.sampled_from((chip, way)))
def test_a_bound_is_printed_where_it_holds(value: Fraction, unit: Unit) -> None:
    for bound, holds in (("<=", Fraction.__le__), (">=", Fraction.__ge__)):
        limit = replace(number(value, unit, "N"), bound=bound)
        forms = [limit.printed(), f"{limit:.2f}", f"{limit:d}", f"{limit:.3g}", repr(limit)[4:]]
        forms.append(limit.printed_tex().replace("{,}", ",").replace("~", "\u00a0"))
        forms.append(limit._repr_latex_().removeprefix("$\\displaystyle N = "))
        forms[-1] = forms[-1].replace("{,}", ",").replace("~", " ")
        for text in forms:
            read = re.match(r"([0-9.,]+(?:×10[⁻⁰-⁹¹²³]+)?)(?:\\text\{)?(.?)", text)
            assert read and holds(exact(read[1]) * PREFIXES.get(read[2], 1), value), text
        if unit == chip and 1 < value < 10**8:
            assert "." not in limit.printed()


def test_the_bound_on_whole_chips_and_its_neighbours() -> None:
    most = replace(number("1644.8", chip), bound="<=")
    least = replace(number("2967.3", token), bound=">=")
    assert (most.printed(), least.printed()) == ("1,644\u00a0chips", "2,968\u00a0tokens")
    assert number("1644.8", chip).printed() == "1,645\u00a0chips"
    assert replace(number("1644.8", chip), bound="<=").printed(ceiling()) == "1,645\u00a0chips"
