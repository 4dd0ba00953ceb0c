"""Claims count what their quantity counts: every unit noun after the number is one of its own."""

import pytest

from derive.book.claims import clash
from derive.book.literals import literal
from derive.notation.units import Unit, byte, chip, day, flop, one, parameter, second, token, way


@pytest.mark.parametrize(
    ("unit", "text", "noun"),
    [
        (token / chip, "about 113", ""),
        (token / chip, "113 tokens", ""),
        (token / chip, "113 tokens per chip", ""),
        (token / chip, "113 tokens/chip", ""),
        (token / chip, "113 tokens a chip", ""),
        (token / chip, "113 per chip", ""),
        (token / chip, "113 tokens on a chip of the pod", ""),
        (token / chip, "113 tokens per way", ""),
        (token, "240-token rule", ""),
        (token / chip, "113 tokens per slice", "slice"),
        (token / chip, "113 tokens in a slice", "slice"),
        (token / chip, "113 tokens each slice", "slice"),
        (token / chip, "113 tokens per second", "second"),
        (token / chip, "113 tokens/s", "s"),
        (token / chip, "113 tokens per chip per day", "day"),
        (token / chip, "113 tokens per minute", "minute"),
        (token / chip, "about 113 FLOP", "FLOP"),
        (token / chip, "about 113 flops", "flops"),
        (token / chip, "113 chips per token", "chips"),
        (token / chip, "113 micro-batches", "micro-batches"),
        (token / chip, "113 kilotokens", "kilotokens"),
        (token / chip, "113 ktokens", "ktokens"),
        (token / chip, "113 GB", "B"),
        (token / chip, "113 times", "times"),
        (token / chip, "113 bits", "bits"),
        (parameter, "about 9B bytes", "bytes"),
        (parameter, "at most about 9B parameters", ""),
        (parameter, "9 GB", "B"),
        (byte / second, "900 GB/s", ""),
        (byte / second, "900 GB per second", ""),
        (byte / second, "900 GFLOP/s", "FLOP"),
        (flop, "459 TFLOP/s", "s"),
        (second, "44 ms", ""),
        (day, "44 hours", "hours"),
        (day, "44 days", ""),
        (way, "1,024 chips", ""),
        (byte, "about 128 gigabytes", ""),
        (byte, "about 128 Gb", "Gb, bits: bytes are GB"),
        (byte / second, "10 kilobits per second", "kilobits, bits: bytes are kB"),
        (token, "128 Gbit", "Gbit"),
        (chip, "1,024-way", ""),
        (one, "8 tokens", "tokens"),
        (one, "76 lines", ""),
        (one, "1.5 times the bytes of data parallelism", ""),
        (one, "twice the tokens", ""),
        (one, "a third of the memory of a chip", ""),
        (one, "an eighth tokens", "tokens"),
        (one, "5th layer", ""),
    ],
)
def test_units_after_the_number(unit: Unit, text: str, noun: str) -> None:
    assert clash(literal(text), unit) == noun


@pytest.mark.parametrize(
    "words", ["113 tokens per slice", "exactly 113", "at most 113", "about 113 FLOP"]
)
def test_a_claim_with_wrong_words_is_refused(book, words):
    figures = 'chapter.claim("c", number("113.39", token / chip))'
    error = book.refused(f'<< claim("c", "{words}") >> << derived >>\n', figures)
    assert f"{words!r}" in error


def test_bounds_on_whole_things(book):
    figures = """
chapter.shown("most", number("36988.57", chip), floor())
chapter.shown("least", number("6945.42"), ceiling())
"""
    text = book.built('<< show("most") >>, << show("least") >> << derived >>\n', figures)
    assert "36,988\u00a0chips, 6,946 " in text
