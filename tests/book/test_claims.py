"""Claims: an author's words against exact values, each row with a value on the other side."""

import math
from fractions import Fraction

import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from derive.book.claims import CLAIM_RULES, holds, restated
from derive.book.literals import literal, ordinal, spelt, spelt_part, spelt_place
from derive.notation.errors import DeriveError, UnknownName

Q = Fraction


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("about 113", 113),
        ("44 days", 44),
        ("2,550", 2550),
        ("2,550 FLOP per byte", 2550),
        ("6.3e24", 63 * 10**23),
        ("6.3×10²⁴", 63 * 10**23),
        ("6.3 × 10^24", 63 * 10**23),
        (r"6.3 \times 10^{24}", 63 * 10**23),
        ("1.3 GB", 13 * 10**8),
        ("1.3GB", 13 * 10**8),
        ("96 GiB", 96 * 2**30),
        ("about 1.09 GiB", Q("1.09") * 2**30),
        ("459 TFLOP/s", 459 * 10**12),
        ("44 ms", Q(44, 1000)),
        ("0.44", Q(44, 100)),
        (".5", Q(1, 2)),
        ("40%", Q(2, 5)),
        ("40 percent", Q(2, 5)),
        ("4M", 4 * 10**6),
        ("15T tokens", 15 * 10**12),
        ("16Mi", 2**24),
        ("at most about 9B", 9 * 10**9),
        ("70.6B parameters", 706 * 10**8),
        ("2.5 million tokens", 2_500_000),
        ("11-way", 11),
        ("8-fold", 8),
        ("about 2x", 2),
        ("2×", 2),
        ("twice", 2),
        ("double the batch", 2),
        ("a dozen", 12),
        ("an eighth", Q(1, 8)),
        ("a third of the memory", Q(1, 3)),
        ("half", Q(1, 2)),
        ("one half", Q(1, 2)),
        ("two-thirds", Q(2, 3)),
        ("three quarters", Q(3, 4)),
        ("1/8", Q(1, 8)),
        ("roughly a tenth", Q(1, 10)),
        ("seven chips", 7),
        ("twenty-eight", 28),
        ("three hundred and five", 305),
        ("a hundred", 100),
        ("two million three hundred thousand and one", 2_300_001),
        ("nine billion", 9 * 10**9),
        ("zero", 0),
        ("−3", -3),
        ("-3", -3),
        ("~8,192", 8192),
        ("5th", 5),
        ("1st", 1),
        ("22nd place", 22),
        ("the 5th", 5),
        ("an 8-way split", 8),
        ("About 1.5", Q(3, 2)),
        ("113\u00a0tokens per chip", 113),
    ],
)
def test_literal_values(text: str, value: Fraction) -> None:
    assert literal(text).value == value


@pytest.mark.parametrize(
    "text",
    [
        "", "about", "many", "a few", "1,23", "1,2345", "12,34,567", "1.2.3", "4 of 5",
        "one of two", "70-90%", "5st", "11st", "12nd", "twenty thirty", "nineteen one", "1e999999",
        "9" * 200, "nan", "inf", "infinity", "0x10", "8K", "1_000", "a two", "one and a half",
        "2 1/2", "1/0", "3; import os", "5 (five)", "--3", "1.5th",
    ],
)  # fmt: skip
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(DeriveError) as caught:
        literal(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("rule", "text", "true", "false"),
    [
        ("round", "about 113", Q("112.5"), Q("112.49")),
        ("round", "about 113", Q("113.49"), Q("113.5")),
        ("round", "44 days", Q("44.2"), Q("44.5")),
        ("round", "2,550", 2550, Q("2555.01")),
        ("round", "1,800", Q("1807.6"), Q("1850")),
        ("round", "about 7,200", Q("7230.57"), Q("7250")),
        ("round", "1,618", Q("1618.4"), Q("1619.09")),
        ("round", "2,320", Q("2320.3"), Q("2325")),
        ("round", "2,490", Q("2490.25"), Q("2484.9")),
        ("round", "185,000", 184560, 184499),
        ("round", "185,000", 184500, 185500),
        ("round", "6.3e24", Q(6349 * 10**21), Q(635 * 10**22)),
        ("round", "1.3 GB", 1_342_177_280, 1_350_000_000),
        ("round", "0.44", Q("0.435"), Q("0.445")),
        ("round", "1.50", Q("1.504"), Q("1.506")),
        ("round", "120.0", Q("120.04"), Q("120.06")),
        ("round", "40%", Q("0.404"), Q("0.41")),
        ("round", "4M", 2**22, 4_500_000),
        ("round", "15T", 15 * 10**12, Q(155 * 10**11)),
        ("round", "16Mi", 2**24, 2**24 + 2**19),
        ("round", "−3", Q("-3.4"), Q("-3.5")),
        ("round", "0", Q("0.4"), Q("0.5")),
        ("round", "five", Q("5.4"), Q("5.5")),
        ("round", "about a hundred", 97, 151),
        ("round", "40 gigabytes", 40_400_000_000, 45_000_000_000),
        ("round", "40 kilobytes", 40_400, 45_000),
        ("round", "16% more", Q("1.164"), Q("1.166")),
        ("round", "116 percent longer", Q("2.16"), Q("1.16")),
        ("round", "16% less", Q("0.84"), Q("0.16")),
        ("round", "at least 16% fewer", Q("0.84"), Q("0.85")),
        ("floor", "16% lower", Q("0.849"), Q("0.839")),  # the ratio is at least 0.84
        ("ceil", "16% lower", Q("0.831"), Q("0.841")),
        ("round", "16%", Q("0.16"), Q("1.16")),
        ("floor", "at most about 9B", Q(96 * 10**8), 10**10),
        ("floor", "at most about 9B", 9 * 10**9, 9 * 10**9 - 1),
        ("floor", "11-way", Q("11.24"), Q("10.99")),
        ("floor", "11-way", Q("11.99"), 12),
        ("floor", "1,600", 1699, 1700),
        ("floor", "1,618", Q("1618.99"), 1619),
        ("floor", "−3", Q("-2.5"), Q("-3.5")),
        ("ceil", "3-way", Q("2.49"), 2),
        ("ceil", "3-way", 3, Q("3.01")),
        ("ceil", "1,700", 1601, 1600),
        ("unit_fraction", "an eighth", Q("0.1334"), Q("0.134")),
        ("unit_fraction", "an eighth", Q("0.119"), Q("0.118")),
        ("unit_fraction", "a third", Q("0.3"), Q("0.29")),
        ("unit_fraction", "half", Q("0.7"), Q("0.76")),
        ("unit_fraction", "1/8", Q(1, 8), 1),
        ("unit_fraction", "half", Q(1, 2), 0),
        ("times", "about 2x", Q("2.258"), Q("2.5")),
        ("times", "5x", Q("5.026"), Q("4.49")),
        ("times", "2.3x", Q("2.258"), Q("2.249")),
        ("times", "10x", Q("10.4"), 11),
        ("times", "twice", Q("1.5"), Q("1.49")),
        ("rank", "5th", 5, 6),
        ("rank", "fifth", 5, Q(1, 5)),
        ("rank", "first", 1, 2),
        ("rank", "second", 2, 1),
        ("rank", "21st", 21, 20),
        ("exact", "2,550", 2550, Q("2550.0001")),
        ("exact", "an eighth", Q(1, 8), Q("0.1251")),
        ("round", "1.4142", sp.sqrt(2), sp.sqrt(3)),
        ("round", "113.4", sp.Rational(11340, 100), sp.sqrt(2)),
    ],
)
def test_rules(rule: str, text: str, true: object, false: object) -> None:
    assert holds(rule, text, true)  # type: ignore[arg-type]
    assert not holds(rule, text, false)  # type: ignore[arg-type]


numbers = st.fractions(0, 10**7, max_denominator=1000)
literals = st.one_of(
    st.integers(0, 10**7).map(lambda n: f"{n:,}"),
    st.integers(0, 10**4).map(lambda n: f"{n}000"),
    st.decimals(0, 1000, places=2).map(str),
)


@given(literals, numbers)
def test_round_never_widens_beyond_half_a_unit_of_the_last_digit_that_counts(
    text: str, value: Fraction
) -> None:
    """The rule said another way, from the text alone: the interval around the literal."""
    digits = text.replace(",", "")
    whole, _, part = digits.partition(".")
    stated = Fraction(digits)
    zeros = len(whole) - len(whole.rstrip("0")) if not part and stated else 0
    half = Q(1, 2) * Q(10) ** (zeros - len(part))
    assert holds("round", text, value) == (stated - half <= value < stated + half)


@given(literals, st.fractions(Q(-3, 5), Q(3, 5)))
def test_round_at_the_edges(text: str, nudge: Fraction) -> None:
    written = literal(text)
    value = written.value + nudge * written.widest
    if value < 0:
        return
    assert holds("round", text, value) == (Q(-1, 2) <= nudge < Q(1, 2))


@given(numbers)
def test_floor_and_ceil_bound_the_value(value: Fraction) -> None:
    low, high = math.floor(value), math.ceil(value)
    assert holds("floor", str(low), value)
    assert holds("ceil", str(high), value)
    assert holds("floor", str(low + 1), value) is False
    assert low == high or not holds("ceil", f"{low}", value)


@given(st.integers(2, 400), st.fractions(Q(1, 500), 1, max_denominator=10**5))
def test_unit_fraction_is_the_nearest_by_brute_force(n: int, value: Fraction) -> None:
    best = min(abs(value - Q(1, k)) for k in range(1, 600))
    assert holds("unit_fraction", f"1/{n}", value) == (abs(value - Q(1, n)) == best)


def test_unit_fraction_goes_by_value_and_not_by_reciprocal() -> None:
    value = Q("0.1334")
    assert round(1 / value) == 7
    assert holds("unit_fraction", "an eighth", value)
    assert not holds("unit_fraction", "a seventh", value)
    tie = (Q(1, 2) + Q(1, 3)) / 2
    assert holds("unit_fraction", "half", tie)
    assert holds("unit_fraction", "a third", tie)


@given(st.integers(1, 10**4))
def test_ordinals(n: int) -> None:
    assert literal(ordinal(n)).place == n
    assert holds("rank", ordinal(n), n)
    assert not holds("rank", ordinal(n), n + 1)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("round", "an eighth"), ("floor", "half"), ("times", "1/8"), ("unit_fraction", "8"),
        ("unit_fraction", "two thirds"), ("unit_fraction", "0.125"), ("rank", "5"),
        ("rank", "two fifths"), ("rank", "half"),
    ],
)  # fmt: skip
def test_a_rule_refuses_a_literal_of_another_kind(rule: str, text: str) -> None:
    with pytest.raises(DeriveError):
        holds(rule, text, Q(1, 8))


def test_an_unknown_rule_offers_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean round"):
        holds("rounds", "3", 3)
    assert set(CLAIM_RULES) == {
        "round", "floor", "ceil", "unit_fraction", "times", "rank", "exact",
    }  # fmt: skip
    with pytest.raises(DeriveError, match="float"):
        holds("round", "3", 3.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "text", "value", "text_again"),
    [
        ("round", "about 1,618 tokens", Q("1619.09"), "about 1,619 tokens"),
        ("round", "13.9", Q("13.693"), "13.7"),
        ("round", "about 900", Q("1999.6"), "about 2,000"),
        ("round", "1800", Q("1999.6"), "2000"),
        ("round", "1,800", Q("12999.6"), "13,000"),
        ("round", "18000", Q("19999.6"), "20000"),
        ("round", "1.3 GB", 26 * 10**8, "2.6 GB"),
        ("round", "6.3e24", Q(64 * 10**23), "6.4e24"),
        ("round", "40%", Q("0.444"), "44%"),
        ("round", "9B", Q("9.6e9"), "10B"),
        ("floor", "at most about 8B", Q("9.6e9"), "at most about 9B"),
        ("ceil", "2-way", Q("2.49"), "3-way"),
        ("times", "about 3x", Q("2.258"), "about 2x"),
        ("rank", "5th", 2, "2nd"),
        ("unit_fraction", "a seventh", Q("0.1334"), "an eighth"),
        ("exact", "2,550", Q(5, 2), "2.5"),
        ("exact", "2,550 tokens", Q(5, 3), "5/3 tokens"),
        ("exact", "96 GiB", 96 * 10**9, "96 GB"),
        ("exact", "two", Q(5, 2), "2.5"),
        ("exact", "two thirds", Q(3, 4), "three quarters"),
        ("exact", "1/8 of it", Q(1, 13), "1/13 of it"),
        ("round", "96 GiB", 96 * 10**9, "89 GiB"),
        ("round", "about 4.5 × 10^{2} GB/s", 900 * 10**9, "about 9.0 × 10^{2} GB/s"),
        ("round", "about 4.5 × 10^{2} GB/s", 9000 * 10**9, "about 9.0 × 10^{3} GB/s"),
        ("round", "6.3×10²⁴ FLOP", 14 * 10**22, "1.4×10²³ FLOP"),
        ("round", r"4.5 \times 10^2 s", Q("0.003"), r"3.0 \times 10^-3 s"),
        ("round", "45e1 chips", 12 * 10**3, "12e3 chips"),
        ("round", "about 4,900 chips", Q("5208.6"), "about 5,200 chips"),
        ("round", "2-way", Q("11.24"), "11-way"),
        ("round", "13.9", Q("9.996"), "10.0"),
        ("round", "13.9", Q("136.93"), "137"),
        ("round", "2.5 million tokens", 2**22, "4.2 million tokens"),
        ("round", "a dozen chips", 16, "sixteen chips"),
        ("round", "a hundred chips", 37, "thirty-seven chips"),
        ("times", "four times fewer", 3, "three times fewer"),
        ("times", "twice as high", Q("3.4"), "three times as high"),
        ("exact", "twice as high", Q("3.4"), "3.4 times as high"),
        ("rank", "the fifth place", 3, "the third place"),
        ("rank", "first", 13, "13th"),
        ("round", "3", Q("-2.5"), "−3"),
        ("round", "11% more", Q("1.16"), "16% more"),
        ("round", "about 84% less", Q("0.84"), "about 16% less"),
        ("round", "about 128 gigabytes", Q(192 * 10**9), "about 192 gigabytes"),
    ],
)
def test_restated(rule: str, text: str, value: Fraction, text_again: str) -> None:
    assert not holds(rule, text, value)
    assert restated(rule, text, value) == text_again
    assert holds(rule, text_again, value)


@pytest.mark.parametrize(
    ("rule", "text", "value", "text_again"),
    [
        ("rank", "5th", Q(5, 2), "about 2.5"),
        ("unit_fraction", "a third", Q(9, 10), "about 0.9"),
        ("exact", "33%", Q(1, 3), "about 0.3333"),
        ("exact", "an eighth", sp.sqrt(2), "about 1.414"),
    ],
)
def test_where_no_words_hold_the_value_is_told(rule, text, value, text_again) -> None:  # type: ignore[no-untyped-def]
    assert restated(rule, text, value) == text_again


@given(st.integers(0, 10**9))
def test_a_number_is_spelt_as_it_is_read(n: int) -> None:
    assert literal(spelt(n)).value == n


@given(st.integers(1, 200), st.integers(2, 200))
def test_parts_and_places_are_spelt_as_they_are_read(n: int, parts: int) -> None:
    assert literal(spelt_place(n)).place == n
    assert literal(spelt_part(Q(n, parts))).value == Q(n, parts)


@given(st.sampled_from(["round", "floor", "ceil", "times"]), literals, numbers)
def test_a_restated_claim_holds(rule: str, text: str, value: Fraction) -> None:
    assert holds(rule, restated(rule, text, value), value)


@pytest.mark.parametrize(("words", "value"), [("84% more", "0.836"), ("16% less", "1.16")])
def test_more_is_of_a_ratio_above_one_and_less_of_one_below(words, value):
    with pytest.raises(DeriveError, match="speaks of a ratio"):
        holds("round", words, Q(value))
