"""Digits and prefixes as they are read, on both sides of each bound."""

from fractions import Fraction

import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from derive.notation.digits import (
    BINARY,
    SI,
    enclosure,
    exact,
    fixed,
    fraction,
    numeral,
    prefix,
    rounded,
)
from derive.notation.errors import DeriveError

Q = Fraction

Q = Fraction


@pytest.mark.parametrize("space", ["", " "])
@pytest.mark.parametrize("name", [*SI, *BINARY])
def test_a_prefix_stands_alone(space: str, name: str) -> None:
    power = 3 * (1 + "kMGTPE".index(name)) if name in SI else 0
    scale = Q(10) ** power if power else Q(2) ** (10 * (1 + "KMGTPE".index(name[0])))
    for rest in ("", " tokens", "·", " per s"):
        assert prefix(f"{space}{name}{rest}") == (scale, rest)
    for rest in ("x", "B", "/s"):
        assert prefix(f"{space}{name}{rest}") is None


def test_an_attached_b_is_a_billion_unless_it_reads_as_bytes() -> None:
    assert prefix("B") == (10**9, "")
    assert prefix("B parameters") == (10**9, " parameters")
    for bytes_ in (" B", " B parameters", "B per token", "B/s", " B per token", "Bi", "b"):
        assert prefix(bytes_) is None
    assert prefix("B perhaps") == (10**9, " perhaps")
    assert prefix("ki") is None and prefix(" ki tokens") is None
    with pytest.raises(DeriveError, match="write k for 1000, Ki for 1024"):
        prefix("K tokens")


def test_the_most_digits_and_the_largest_exponent() -> None:
    for digits in ("9" * 100, "9" * 60 + "." + "9" * 40, "0" * 99 + "1"):
        assert exact(digits) == Q(digits)
        with pytest.raises(DeriveError, match="more than 100 digits"):
            exact(digits + "1")
    for sign in ("", "+", "-"):
        for shown in ("99", "099"):
            assert exact(f"1e{sign}{shown}") == Q(10) ** int(f"{sign}99")
        for shown in ("100", "0100", "999999999999"):
            with pytest.raises(DeriveError, match="an exponent beyond 99"):
                exact(f"1e{sign}{shown}")


@pytest.mark.parametrize(
    "text",
    ["", "/", "1/", "/2", "1/x", "1/2x", "x/2", "1x/2", "1x", "1 /2", "1/ 2", "1/2/3", "nan"],
)
def test_what_is_no_number_is_refused_and_read_no_further(text: str) -> None:
    with pytest.raises(DeriveError, match="expected a number, found"):
        exact(text)


def test_a_fraction_is_one_number_over_another() -> None:
    assert exact(" 1/3 ") == Q(1, 3) and exact("-1.5/-3e1") == Q(1, 20)
    with pytest.raises(DeriveError, match="a division by zero"):
        exact("1/0")


@pytest.mark.parametrize(
    ("text", "step", "widest"),
    [
        ("120", 1, 10), ("1,200", 1, 100), ("120.0", Q(1, 10), Q(1, 10)), ("0", 1, 1),
        ("1.20e5", 1000, 1000), ("12e2", 100, 100), ("120e2", 100, 1000),
        (".50", Q(1, 100), Q(1, 100)), ("-7", 1, 1), ("000", 1, 1),
    ],
)  # fmt: skip
def test_a_unit_of_the_last_digit_and_of_the_last_that_must_be_meant(
    text: str, step: Fraction, widest: Fraction
) -> None:
    found = numeral(text)
    assert found is not None and (found.step, found.widest) == (step, widest)
    half = found.times(Q(1, 2))
    assert (2 * half.value, 2 * half.step, 2 * half.widest) == (found.value, step, widest)


def test_digits_written_out() -> None:
    for count in (0, 1, 9, 10, 12345):
        for place in range(-7, 8):
            text = fixed(count, place)
            assert Q(text) == count * Q(10) ** place
            assert len(text.partition(".")[2]) == max(0, -place)
            assert not text.startswith("0") or text[1:2] in ("", ".") or not count


ROOTS = st.builds(
    lambda p, q, a, n: sp.Rational(p, q) * sp.Integer(a) ** sp.Rational(1, n),
    st.integers(1, 10**6), st.integers(1, 10**6), st.integers(2, 10**6), st.integers(2, 4),
)  # fmt: skip


@given(st.lists(ROOTS, min_size=1, max_size=3))
def test_a_root_lies_between_the_ends_of_its_enclosure(roots: list[sp.Expr]) -> None:
    """By powers of whole numbers: the n-th power of each end lies on its side of the radicand."""
    for root in roots:
        low, high = enclosure(root, 60)
        radicand = Fraction(*map(int, (root**12).as_numer_denom()))
        assert low**12 <= radicand <= high**12
        assert high - low < Fraction(1, 10**40)
    low, high = enclosure(sp.Add(*roots), 60)
    assert low <= sum(enclosure(root, 90)[0] for root in roots)
    assert high >= sum(enclosure(root, 90)[1] for root in roots)


@given(ROOTS, st.integers(-6, 6))
def test_digits_are_on_the_proved_side(root: sp.Expr, place: int) -> None:
    """A boundary of rounding is compared by powers of whole numbers, without a decimal."""
    count = rounded(fraction(root), place, "down")
    step = Fraction(10) ** place
    radicand = Fraction(*map(int, (root**12).as_numer_denom()))
    assert (count * step) ** 12 <= radicand < ((count + 1) * step) ** 12


def test_what_is_a_fraction_in_disguise_is_that_fraction() -> None:
    disguised = sp.sqrt(3 + 2 * sp.sqrt(2)) - sp.sqrt(2)
    assert fraction(disguised / 3) == Fraction(1, 3)
    assert fraction(disguised / 10**11) == Fraction(1, 10**11)
    near = sp.sqrt(10**40 + 1) - 10**20 + 5  # about 5 + 5e-21, below which no digit is printed
    assert fraction(near) != 5
    # A best approximation of a root, nearer than 60 digits can tell.
    p, q = 1, 1
    while q < 10**35:
        p, q = p + 2 * q, p + q
    apart = q * sp.sqrt(2) - p
    assert fraction(apart) != 0
    assert (fraction(apart) > 0) == (2 * q * q > p * p)
