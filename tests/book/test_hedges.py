"""Hedges: "at most", "exactly" and their like are checked as part of the claim."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.book.claims import holds, restated
from derive.book.literals import literal, spelt
from derive.notation.errors import DeriveError
from derive.notation.printed import RAISED

Q = Fraction
numbers = st.fractions(0, 10**7, max_denominator=1000)
literals = st.one_of(
    st.integers(0, 10**7).map(lambda n: f"{n:,}"),
    st.integers(0, 10**4).map(lambda n: f"{n}000"),
    st.decimals(0, 1000, places=2).map(str),
)


@pytest.mark.parametrize(
    ("rule", "text", "value", "true"),
    [
        ("round", "at most 113", Q("113.39"), False),
        ("round", "113 at most", Q("113.39"), False),
        ("round", "113 tokens or fewer", Q("113.39"), False),
        ("round", "under 113", Q("113.39"), False),
        ("round", "below 113", 113, False),
        ("round", "no more than 113", 113, True),
        ("round", "at most 114", Q("113.39"), True),
        ("round", "just under 114", Q("113.39"), True),
        ("round", "less than 120", Q("113.39"), True),
        ("round", "less than 300", Q("113.39"), False),
        ("round", "exactly 113 tokens", Q("113.39"), False),
        ("round", "exactly 113 tokens", 113, True),
        ("round", "precisely 113.39", Q("113.39"), True),
        ("round", "over 113", Q("113.39"), True),
        ("round", "at least 114", Q("113.51"), False),
        ("round", "at least 113", Q("113.51"), True),
        ("round", "more than 113", 113, False),
        ("round", "nearly 113", Q("113.39"), False),
        ("round", "almost 114", Q("113.6"), True),
        ("round", "almost 115", Q("113.6"), False),
        ("round", "some 113", Q("113.39"), True),
        ("floor", "at most about 9B parameters", Q("9.6e9"), True),
        ("floor", "up to about 11-way", Q("11.24"), True),
        ("floor", "exactly 9B", Q("9.6e9"), False),
        ("ceil", "at least 7", Q("6.2"), True),
        ("unit_fraction", "exactly an eighth", Q("0.1334"), False),
        ("unit_fraction", "exactly an eighth", Q("0.125"), True),
        ("unit_fraction", "under an eighth", Q("0.1334"), False),
        ("unit_fraction", "over an eighth", Q("0.1334"), True),
        ("times", "at most 2x", Q("2.258"), False),
        ("times", "at least 2x", Q("2.258"), True),
        ("exact", "at most 1,024-way", 1024, True),
        ("exact", "under 1,024", 1024, False),
        ("rank", "exactly 5th", 5, True),
    ],
)
def test_hedges_are_part_of_the_claim(rule: str, text: str, value: Fraction, true: bool) -> None:
    assert holds(rule, text, value) == true
    if not true:
        assert holds(rule, restated(rule, text, value), value)


@pytest.mark.parametrize(("rule", "text"), [("floor", "at least 9B"), ("ceil", "under 9B")])
def test_a_bound_is_not_the_other_bound(rule: str, text: str) -> None:
    with pytest.raises(DeriveError, match=f"rule {rule} rounds"):
        holds(rule, text, Q("9.6e9"))


@pytest.mark.parametrize(
    ("rule", "text", "value", "text_again"),
    [
        ("round", "at most 113", Q("113.39"), "at most 114"),
        ("round", "over 115 tokens", Q("113.39"), "over 113 tokens"),
        ("round", "exactly 113 tokens", Q("113.39"), "exactly 113.39 tokens"),
        ("round", "exactly 113 tokens", Q(1, 3), "about 0.333 tokens"),
        ("round", "under 113", 113, "under 120"),
        ("unit_fraction", "exactly a seventh", Q("0.1334"), "about an eighth"),
        ("exact", "28,672", 28673, "28,673"),
        ("exact", "96 GB", 95 * 10**9, "95 GB"),
        ("exact", "70B", Q("70.5e9"), "70.5B"),
    ],
)
def test_restated_with_its_hedge(rule: str, text: str, value: Fraction, text_again: str) -> None:
    assert restated(rule, text, value) == text_again


SIDES = st.sampled_from(["at most", "under", "at least", "over", "nearly", "exactly", "up to"])


@given(st.sampled_from(["round", "floor", "ceil", "times"]), SIDES, literals, numbers)
def test_a_restated_claim_holds(rule: str, hedge: str, text: str, value: Fraction) -> None:
    try:
        made = restated(rule, f"{hedge} {text}", value)
    except DeriveError:
        return  # a bound on the other side
    assert holds(rule, made, value)


UNITS = st.sampled_from(
    [
        "",
        " tokens",
        "-way",
        " GiB",
        " GB/s",
        "M tokens",
        "%",
        " million chips",
        "x",
        " ms",
        " or so",
    ]
)
NUMERALS = st.one_of(
    literals,
    st.builds(
        lambda a, b, form: f"{a / 10}{form.format(b, str(b).translate(RAISED))}",
        st.integers(10, 99),
        st.integers(-9, 20),
        st.sampled_from(["e{0}", " × 10^{0}", "×10^{{{0}}}", "×10{1}", r" \times 10^{{{0}}}"]),
    ),
    st.integers(1, 10**6).map(spelt),
)


@given(st.sampled_from(["round", "times"]), st.just("about") | SIDES, NUMERALS, UNITS, numbers)
def test_what_is_restated_keeps_the_words(
    rule: str, hedge: str, number: str, unit: str, value: Fraction
) -> None:
    """The author's text but for the number. Equality and strict bounds may have no number that
    holds, "exactly" of a third for one, and then lose the hedge alone."""
    try:
        scale = literal(f"{'one' if number[0].isalpha() else '1'}{unit}").value
        holds(rule, f"{hedge} {number}{unit}", value)
    except DeriveError:
        return  # "twenty%"
    value *= scale
    made = restated(rule, f"{hedge} {number}{unit}", value)
    weak = hedge in ("about", "at most", "at least", "up to")
    assert made.startswith(f"{hedge} " if weak else (f"{hedge} ", "about "))
    in_words = number[0].isalpha()  # of "one million", million is part of the number
    assert made.endswith(unit.removeprefix(" million") if in_words else unit)
    assert holds(rule, made, value)
    if hedge == "about" and holds(rule, f"{hedge} {number}{unit}", value):
        assert made == f"{hedge} {number}{unit}"


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_words_are_restated_in_words(count: int, value: int) -> None:
    made = restated("round", f"about {spelt(count)} chips", Q(value))
    assert not any(map(str.isdigit, made))
    assert holds("round", made, Q(value))


@given(st.integers(100, 999), st.integers(-6, 6), st.fractions(1, 10**6, max_denominator=1000))
def test_decimals_keep_the_number_of_their_digits(
    digits: int, raised: int, value: Fraction
) -> None:
    made = restated("round", f"about {digits / 100:.2f}e{raised} s", value)
    if made != f"about {digits / 100:.2f}e{raised} s":
        assert re.fullmatch(r"about [1-9]\.[0-9]{2}e-?[0-9]+ s", made)


@given(st.sampled_from(["round", "times"]), SIDES, literals, numbers)
def test_a_hedge_is_never_untrue(rule: str, hedge: str, text: str, value: Fraction) -> None:
    if holds(rule, f"{hedge} {text}", value):
        stated = literal(text).value
        side = {"exactly": stated == value, "under": value < stated, "over": value > stated}
        upper = hedge in ("at most", "nearly", "up to")
        assert side.get(hedge, value <= stated if upper else value >= stated)


@pytest.mark.parametrize("rule", ["round", "times"])
def test_a_bound_is_the_next_number_on_its_side(rule: str) -> None:
    """At the author's digits, and not the nearest, which may be on the other side."""
    for digits, step in (("2", Q(1)), ("2.3", Q(1, 10)), ("2.0", Q(1, 10))):
        stated = Q(digits)
        for tenths in range(-12, 13):
            value = stated + tenths * step / 10
            above, below = stated - step < value <= stated, stated <= value < stated + step
            for unit in ("", "x") if rule == "times" else ("",):
                assert holds(rule, f"at most {digits}{unit}", value) == above
                assert holds(rule, f"at least {digits}{unit}", value) == below
                assert holds(rule, f"under {digits}{unit}", value) == (above and value != stated)
                assert holds(rule, f"over {digits}{unit}", value) == (below and value != stated)
