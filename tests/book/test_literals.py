"""Numbers in words: each by its place in the row that one counts in."""

from fractions import Fraction as Q

import pytest

from derive.book.literals import MAX_LENGTH, literal
from derive.notation.errors import DeriveError

COUNTED = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
PARTS = [
    "half",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
]


def test_words_count() -> None:
    for number, word in enumerate(COUNTED):
        assert literal(word).value == number
    for tens, word in enumerate(TENS, 2):
        assert literal(word).value == 10 * tens
    for thousands, word in enumerate(("thousand", "million", "billion", "trillion"), 1):
        assert literal(f"2.5 {word}").value == Q("2.5") * 1000**thousands
    for times, words in {
        2: ("twice", "double"),
        3: ("thrice", "triple"),
        4: ("quadruple",),
    }.items():
        assert {literal(word).value for word in words} == {times}
    assert literal("a dozen").value == 12 and literal("a hundred").value == 100


def test_words_of_parts_and_places() -> None:
    for parts, word in enumerate(PARTS, 2):
        article = "an" if word[0] == "e" else "a"
        assert literal("half" if word == "half" else f"{article} {word}").value == Q(1, parts)
        if word != "half":
            assert literal(word).place == parts
            assert literal(f"two {word}s").value == Q(2, parts)
    for parts, word in ((4, "quarter"), (16, "sixteenth"), (20, "twentieth"), (100, "hundredth")):
        assert literal(f"a {word}").value == Q(1, parts)
    assert literal("a thousandth").value == Q(1, 1000)
    assert (literal("first").place, literal("second").place) == (1, 2)


def test_the_longest_literal() -> None:
    assert literal("7 " + "a" * (MAX_LENGTH - 2)).value == 7
    with pytest.raises(DeriveError, match="more than 120 characters"):
        literal("7 " + "a" * 119)
