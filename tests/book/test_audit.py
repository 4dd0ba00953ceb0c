"""Reading the figures of any text: words that the claim engine makes are read back from it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.book import audit
from derive.book.audit import BEHIND, LONGEST_SPAN, bare, places
from derive.book.claims import holds, restated
from derive.book.literals import literal

ASKS = "<!-- derive: value C/W --chip tpu-v5p -->"
HEDGES = ["", "about ", "at most ", "over ", "exactly ", "nearly ", "≈ ", "roughly "]
NUMBERS = [
    "2,550", "113", "13.9", "0.44", "4M", "2.5 GB", "96 GiB", "40%", "5x", "5 times", "an eighth",
    "two thirds", "5th", "6.3e24", "1.8×10^11", "twenty-eight", "two thousand", "−5", "12 ms",
]  # fmt: skip
UNITS = ["", " tokens", " tokens per chip", " bytes per second"]
WRAPPED = [
    "It is {}@ in all.", "**{}**@", "_{}_@", "(`{}`@)", "- one of 7 is {}@", "A 9. Then {},@ so.",
    "| 5 | {}@ | 6 |\n", "> of 3 chips,\n> {}@", "1. {}@", "<b>{}</b>@", "[{}](a.md#5)@",
    "x\n\n{} @",
    "8<!-- n. 9 -->. It is {}@", "> {}@", "Of LLaMA-3-70B {}@", "# 4 things\n{}@", "{}\r\n@",
]  # fmt: skip
MATH = [
    "${}$@", "$${}$$@", "$$\nx = 2^3 = {}\n$$\n@", "```math\ny = {}\n```\n@", "$`{}`$@",
    "$\\mathbf{{{}}}$@", "\\[\n x \\le 3 \\\\ y = {} \\\\ \n\\]\n\n@", "$X = {}.$@",
]  # fmt: skip


def read(text: str) -> list[str]:
    return [place.printed or place.error for place in places(text.replace("@", ASKS))]


@pytest.mark.parametrize("around", WRAPPED)
@given(st.sampled_from(HEDGES), st.sampled_from(NUMBERS), st.sampled_from(UNITS))
def test_words_are_read_back(around: str, hedge: str, number: str, unit: str) -> None:
    words = f"{hedge}{number}{unit}"
    (back,) = read(around.format(words))
    written, meant = literal(back), literal(words)
    assert (written.value, written.step, written.widest) == (meant.value, meant.step, meant.widest)
    assert (written.hedges, written.rest, written.kind) == (meant.hedges, meant.rest, meant.kind)


@pytest.mark.parametrize("around", MATH)
@given(st.integers(1, 10**7), st.sampled_from(["", "\\approx ", "= "]), st.sampled_from("{},"))
def test_formulas(around: str, number: int, relation: str, comma: str) -> None:
    digits = f"{number:,}".replace(",", "{,}" if comma == "{" else ",")
    assert literal(read(around.format(relation + digits))[0]).value == number


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        (r"$2.5 \times 10^{9}\,\text{bytes}$@", 2_500_000_000),
        (r"$6.3 \cdot 10^{24}$@", 63 * 10**23),
        (r"$10^{24}$@", 10**24),
        ("10<sup>9</sup>@", 10**9),
        (r"$\frac{1}{8}$@", Fraction(1, 8)),
        (r"$40\%$@", Fraction(2, 5)),
        (r"$10\,000$@", 10_000),
        ("10 000 tokens@", 10_000),
        ("10-20 ways@", 20),
        ("10–20@", 20),
        ("2.5&nbsp;GB@", 2_500_000_000),
        ("~40M tokens@", 40_000_000),
        ("`16e6 / (2550 / 3) = 18,823`@", 18_823),
        ("113 tokens a second@", 113),
        ("113 for each one@", 113),
        ("12 us@", Fraction(12, 10**6)),
        ("of 5,10@", 10),
        ("5 chips of v5p (or more)@", 5),
        ("$B/N > 400$@", 400),
    ],
)
def test_forms(typed: str, value: Fraction) -> None:
    assert literal(read(typed)[0]).value == value


@given(st.fractions(Fraction(1, 10**6), 10**9), st.sampled_from(HEDGES), st.sampled_from(NUMBERS))
def test_restated_words_are_read_back_and_hold(value: Fraction, hedge: str, number: str) -> None:
    words = hedge + number
    if literal(words).kind == "fraction":
        return
    true = restated("round", words, value)
    assert holds("round", read(f"It is {true}@.")[0], value)


def test_what_is_no_figure() -> None:
    for text in ("`5@`", "```\n5@\n```", "~~~~md\n5@\n~~~\n5@\n~~~~", "<!-- 5 @", "- ```\n  5@\n"):
        assert read(text) == []
    for text in (
        "@",
        "5. None@",
        "| 5 | @|",
        "# 5\nnone@",
        "5\n\n@",
        "LLaMA-3-70B@",
        "v5p@",
        "1. @",
    ):
        assert read(text) == ["no number before the comment, in its sentence, cell or formula"]
    assert read("5@@")[1].startswith("no number")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("5<!-- derive: value C", "no --> ends"),
        ("5<!-- derive: -->", "expected a question"),
        ("5<!-- derive rnd: value C -->", "did you mean round"),
        ("113K@", "K is ambiguous"),
        ("8x8@", "cannot read"),
        ("1e999@", "exponent"),
        ("1" * 200 + "@", "more than"),
    ],
)
def test_what_cannot_be_read(typed: str, told: str) -> None:
    first, second = read(f"{typed}\n\n7@" if "@" in typed else f"7@\n\n{typed}")
    assert told in first + second
    assert "7" in (first, second)


def test_places_and_rules() -> None:
    first, second = places(f"\n\nIt is 5{ASKS}\n x 7 <!--derive\texact :\n value  C/W\n-->")
    assert (first.line, first.column, first.rule) == (3, 8, "round")
    assert (second.line, second.column, second.rule) == (4, 6, "exact")
    assert second.question == "value C/W"


def test_bare_numbers() -> None:
    assert (
        bare(f"---\na: 5\n---\nOf 7 v5p 113{ASKS} `9`, 2,550 and $8$.\n```\n6\n```\n<!-- 4 -->")
        == 3
    )


# Each twice as long as the one of half the size.
LONG: dict[str, Callable[[int], str]] = {
    "lines": lambda n: f"It is about 113 tokens{ASKS}\n" * n,
    "one line": lambda n: f"about 113{ASKS} " * n,
    "unclosed": lambda n: "<!-- derive: x " * n,
    "ticks": lambda n: "` " * n + "``a" * n,
    "ticks of all lengths": lambda n: "".join("`" * k + " " for k in range(1, isqrt(200 * n))),
    "fences": lambda n: "```\n~~~~\n" * n,
    "open fences": lambda n: "```a\n" * n,
    "dollars": lambda n: f"{'$$' * 300}5{ASKS}" * (n // 50),
    "brackets": lambda n: f"{'[' * 600}5{ASKS}" * (n // 50),
    "numbers": lambda n: f"{'1 ' * 300}{ASKS}" * (n // 50),
    "digits": lambda n: "1" * 50 * n + ASKS,
    "words": lambda n: f"{'one ' * 150}{ASKS}" * (n // 50),
    "commands": lambda n: f"{chr(92)}text{{" * 10 * n + ASKS,
    "math": lambda n: f"```math\n{'5 ' * n}\n```\n{ASKS}\n" * 2,
}


class Counted:
    """A pattern that notes how many characters each search goes over."""

    def __init__(self, pattern: re.Pattern[str], lengths: list[int]) -> None:
        self.pattern, self.lengths = pattern, lengths

    def search(self, text: str, start: int, end: int = sys.maxsize) -> re.Match[str] | None:
        match = self.pattern.search(text, start, end)
        self.lengths.append((match.end() if match else min(end, len(text))) - start)
        return match


@pytest.mark.parametrize("kind", LONG)
def test_the_work_grows_with_the_length(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of twice the length is gone over by twice as many searches, of twice as many
    characters in all; of what stands before a comment, no more than `BEHIND` is read."""
    lengths, windows = list[int](), list[int]()
    counted = SimpleNamespace(
        compile=lambda *pattern: Counted(re.compile(*pattern), lengths),
        split=re.split,
        MULTILINE=re.MULTILINE,
    )

    def words(behind: str) -> str:
        windows.append(len(behind))
        return original(behind)

    original = audit._words
    monkeypatch.setattr(audit, "re", counted)
    monkeypatch.setattr(audit, "_OPENING", Counted(audit._OPENING, lengths))
    monkeypatch.setattr(audit, "_words", words)

    def work(size: int) -> list[int]:
        lengths.clear(), windows.clear()
        text = LONG[kind](size)
        found = sum(1 for _ in places(text))
        assert found == (text.count(ASKS) or kind == "unclosed")
        assert max(windows, default=0) <= BEHIND
        return [len(lengths), sum(lengths), len(windows), sum(windows)]

    once, twice = work(1000), work(2000)
    assert once[1] <= 1.1 * len(LONG[kind](1000)) + LONGEST_SPAN * LONG[kind](1000).count("`")
    assert all(more <= 2.1 * less + LONGEST_SPAN for less, more in zip(once, twice, strict=True))


@pytest.mark.parametrize("kind", LONG)
def test_long_texts_are_read_to_the_end(kind: str) -> None:
    assert bare(LONG[kind](1000)) >= 0


def test_comments_beyond_the_most_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MOST", 9)
    assert [place.error.startswith("more than 9") for place in places(f"5{ASKS}\n" * 9)] == [
        False
    ] * 9
    *read, last = places(f"5{ASKS}\n" * 20)
    assert [place.printed for place in read] == ["5"] * 9
    assert last.line == 10 and last.error == "more than 9 comments; the rest is left out"


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from([
            "<!--", "-->", "<!-- derive:", ASKS, "`", "```", "~~~", "\n", "\n\n", "$", "$$", "|",
            "5", "2,550", "about ", "{", "}", "\\frac{", "\\", "*", "_", "[", "](", "<b>", "\0",
            "\x1b[31m", "\u202e", "\ufeff", "'", '"', "\ud800", "10^{", "×", "one ", "a third ",
            ">", "- ", "1. ",
        ])
    )
)  # fmt: skip
def test_any_text_is_read(parts: list[str]) -> None:
    for place in places("".join(parts)):
        assert bool(place.printed) != bool(place.error)
        assert "\n" not in place.error
        if place.printed:
            literal(place.printed)
