"""Digits and prefixes as they are read, on both sides of each bound."""

from fractions import Fraction

import pytest

from derive.notation.digits import BINARY, SI, exact, fixed, numeral, prefix
from derive.notation.errors import DeriveError

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
