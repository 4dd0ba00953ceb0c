"""Claims: the author's own words, printed as written and checked by a rule that is part of them.

| rule | holds where |
| --- | --- |
| `round` | the value rounds to the literal at the author's digits |
| `floor`, `ceil` | the value rounds down, or up, to the literal at the author's digits |
| `unit_fraction` | the literal is 1/n, and no other unit fraction is nearer to the value |
| `times` | the literal is within half a unit of its last digit: the value rounds to it |
| `rank` | the literal is the ordinal of the value |
| `exact` | the literal is the value |

Trailing zeros of an integer may be placeholders or may be meant, so `round`, `floor` and `ceil`
accept the literal if it comes out at any place from its last digit to its last non-zero digit:
"about 1,800" holds of 1807.6, and never of more than half a unit at that last non-zero digit.
`times` and percentages take every digit as meant.

A hedge before or after the number is part of the claim:

| hedge | demands, beside the rule |
| --- | --- |
| about, roughly, some, around | nothing |
| exactly, precisely | the literal is the value |
| nearly, almost | the literal is not below the value |
| at most, up to; under, below, less than | the value is not above the literal; it is below |
| at least; over, above, more than | the value is not below the literal; it is above |

Under the last two `round` and `times` round the value to that side. `floor` says that the value is
an upper bound, rounded down: it takes "at most" as it stands and refuses "at least"; `ceil` is the
reverse. The number of a threshold is such a bound: without a hedge, and under the one that says so
("at least" of a lower bound), `round` is `ceil` or `floor`; "over" speaks of the number itself.
A percentage that compares speaks of a ratio:

| words | the number |
| --- | --- |
| 16% more, higher, longer, larger, faster | 1.16 |
| 16% less, fewer, lower, shorter, smaller | 0.84 |
| 16%, 16% of | 0.16 |

What the words count is checked, too: each unit after the number must be the quantity's.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import islice

from derive.book.literals import (
    MULTIPLES,
    Literal,
    literal,
    ordinal,
    spelt,
    spelt_part,
    spelt_place,
    unhedged,
)
from derive.notation.digits import Exact, fixed, fraction, grouped, magnitude, multiple, numeral
from derive.notation.errors import DeriveError, UnitError, quoted, unknown
from derive.notation.printed import RAISED, shown
from derive.notation.units import Unit, typed_unit


def holds(rule_name: str, literal_text: str, value: Exact) -> bool:
    """Whether the author's literal is true of the exact value under the named rule.

    Raises UnknownName for an unknown rule, and DeriveError where the literal is no number, or one
    that the rule does not take (a fraction in words has no digits to round at).
    """
    written = literal(literal_text)
    rule_name, number = _spoken_of(rule_name, written, fraction(value))
    if not _RULES[_sided(rule_name, written)](written, number):
        return False
    hedges = written.hedges.difference(BOUNDS.get(rule_name, ()))
    return all(_SIDES[hedge](number, written.value) for hedge in hedges)


def _spoken_of(rule_name: str, written: Literal, ratio: Fraction) -> tuple[str, Fraction]:
    """The number that the author's words state, and the rule for it: of a ratio, 16% more or less;
    raises DeriveError for what is more and below 1, or less and above."""
    compared = _COMPARED.search(written.text)
    if compared is None:
        return rule_name, ratio
    if (ratio < 1) if compared[1] else (ratio > 1):
        side = "above" if compared[1] else "below"
        told = f"speaks of a ratio {side} 1, found {shown(ratio)}"
        raise DeriveError(f"{quoted(written.text)} {told}")
    if compared[1]:
        return rule_name, ratio - 1
    return {"floor": "ceil", "ceil": "floor"}.get(rule_name, rule_name), 1 - ratio


_COMPARED = re.compile(
    r"(?:%|\bper ?cent) (?:(more|higher|longer|larger|faster)|less|fewer|lower|shorter|smaller)\b"
)
_SIDES: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "nearly": operator.le,
}  # fmt: skip
BOUNDS = {"floor": ("<", "<="), "ceil": (">", ">=")}


def _sided(rule_name: str, written: Literal) -> str:
    """The rule that rounds to the side that the hedges name; raises UnknownName for none, and
    DeriveError where the rule is a bound on the other side."""
    if rule_name not in CLAIM_RULES:
        raise unknown("claim rule", rule_name, CLAIM_RULES)
    for rule, sides in BOUNDS.items():
        if written.hedges.isdisjoint(sides):
            continue
        if rule_name in BOUNDS and rule_name != rule:
            down = rule_name == "floor"
            says = "rounds an upper bound down" if down else "rounds a lower bound up"
            raise DeriveError(f"rule {rule_name} {says}; {quoted(written.text)} is the other bound")
        # What is rounded down must not be above the value, so a lower bound on it is a floor.
        if rule_name in ("round", "times"):
            return f"{rule_name} {'up' if rule == 'floor' else 'down'}"
    return rule_name


def restated(rule_name: str, literal_text: str, value: Exact) -> str:
    """The author's words with the number that the rule would have for `value`: "about 2,551".

    They hold, and keep the hedge, the unit, the style and the number of significant digits, or as
    much of it as words that hold can: "exactly 5" of 4.7 is "exactly 4.7", and "96 GiB" of 96e9 is
    "96 GB" under `exact`. Where none hold, they say about what it is. Raises as `holds`.
    """
    text, number = " ".join(literal_text.split()), fraction(value)
    if holds(rule_name, text, value):
        return text
    # Few binary figures of a decimal number have an end.
    decimal = re.sub(r"(?<![A-Za-z])([MGTPE])i(?![a-z])", r"\1", text)
    for form in (text, *[decimal] * (rule_name == "exact"), f"about {unhedged(text)[0]}"):
        with suppress(DeriveError):
            for words in _renumbered(*_spoken_of(rule_name, literal(form), number), literal(form)):
                with suppress(DeriveError):
                    if holds(rule_name, words, value):
                        return words
    return f"about {shown(number)}"


def _renumbered(rule_name: str, number: Fraction, written: Literal) -> Iterator[str]:
    """The author's text with other numbers in it: in the author's style first, and of those the
    nearest to the author's digits."""
    before, _, after = written.text.partition(written.number)
    after = f" times{after}" if written.number.lower() in MULTIPLES else after
    in_words = not any(map(str.isdecimal, written.number))
    numbers: list[str] = []
    if rule_name == "rank":
        place = int(number)
        numbers = [spelt_place(place) if in_words else ordinal(place)] if place > 0 else []
        before += "the " * written.number.lower().startswith("the ")
    elif rule_name == "unit_fraction" or written.kind == "fraction":
        if rule_name == "unit_fraction" and number > 0:
            number = Fraction(1, _denominators(number)[0])
        numbers = [spelt_part(number) if in_words and number > 0 else str(number)]
    else:
        finer, told = [*range(-3, 16)], spelt if in_words else ordinal
        if rule_name != "exact" and "=" not in written.hedges:
            finer.sort(key=lambda places: (abs(places), -places))
        comes_out, one = _ROUNDINGS[_sided(rule_name, written)], _one(written)
        last = _place(written, number / one, comes_out)
        places = [last - places for places in finer]
        counts = [(comes_out(number / one, Fraction(10) ** place), place) for place in places]
        if in_words or written.kind == "ordinal":
            whole = [count * 10**place for count, place in counts if place >= 0]
            whole.append(comes_out(number, Fraction(1)))
            numbers = [told(count) for count in whole if 0 <= count < 10**15]
        numbers += [_decimal(written, *each) for each in counts]
        numbers += [str(number)] * (rule_name == "exact" and one == 1)
    yield from (before + other + after for other in numbers)


def _one(written: Literal) -> Fraction:
    """What the digit 1 would be in place of the author's: 10**9 in "2.5 GB"."""
    read = numeral(written.number)
    return written.step / (read.step if read is not None else 1)


def _place(
    written: Literal, scaled: Fraction, comes_out: Callable[[Fraction, Fraction], int]
) -> int:
    """The place of the last of as many significant digits as the author's."""
    own = len(str(abs(written.value / written.widest)))
    own += own == 1 and written.widest > written.step  # "2,000" may stand for 1,500 or 2,499
    place = magnitude(scaled or written.step / _one(written)) - own + 1
    if len(str(abs(comes_out(scaled, Fraction(10) ** place)))) > own:  # 9.996 is 10.0
        place += 1
    _, _, *form, _ = _FORM.split(written.number)
    ones = written.step == written.widest and form == ["", ""]  # they are meant
    return min(place, 0) if ones else place


def _decimal(written: Literal, count: int, place: int) -> str:
    """So many tens in the form of the author's number: grouped or not, or with a power of ten."""
    _, whole, part, power, _ = _FORM.split(written.number)
    if power and count:
        own = Fraction(f"{whole.replace(',', '') or 0}.{part or 0}")
        raised = len(str(abs(count))) - 1 + place - (magnitude(own) if own else 0)
        place -= raised
        power = re.sub(r"[+\-−]?[0-9]+(?=}?$)", str(raised), power)
        power = re.sub("[⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+$", str(raised).translate(RAISED), power)
    digits = fixed(abs(count), place)
    if "," in whole or len(whole) < 4:
        digits = grouped(digits)
    return ("\u2212" if count < 0 else "") + digits + power


_FORM = re.compile(r"^[+\-−]?([0-9,]*)\.?([0-9]*)((?:[eE][+\-−0-9]| ?[×\\]).*|)")


def _steps(written: Literal) -> Iterator[Fraction]:
    """The units of each digit that may be the author's last."""
    if written.kind == "fraction":
        told = "has no digits to round at; use unit_fraction, or exact"
        raise DeriveError(f"{quoted(written.text)} {told}")
    step = written.step
    while step <= written.widest:
        yield step
        step *= 10


def _ceil(value: Fraction, step: Fraction) -> int:
    return math.ceil(value / step)


_floor = operator.floordiv
_ROUNDINGS: dict[str, Callable[[Fraction, Fraction], int]] = {
    "round": multiple, "floor": _floor, "ceil": _ceil, "times": multiple, "exact": multiple,
    "round up": _ceil, "round down": _floor, "times up": _ceil, "times down": _floor,
}  # fmt: skip


def _comes_out(name: str) -> Callable[[Literal, Fraction], bool]:
    """The rule that the value rounds to the literal; under `times` every digit is meant."""
    comes_out, last = _ROUNDINGS[name], 1 if name.startswith("times") else None

    def rule(written: Literal, value: Fraction) -> bool:
        steps = islice(_steps(written), last)
        return any(comes_out(value, step) * step == written.value for step in steps)

    return rule


def _denominators(value: Fraction) -> list[int]:
    """The n for which 1/n is nearest by value to a positive `value`; two where they tie.

    By value and not by reciprocal: 0.1334 is nearer to 1/8 = 0.125 than to 1/7 = 0.1429, though its
    reciprocal 7.496 is nearer to 7.
    """
    below = max(1, math.floor(1 / value))
    near = sorted((below, below + 1), key=lambda n: abs(value - Fraction(1, n)))
    tie = abs(value - Fraction(1, near[0])) == abs(value - Fraction(1, near[1]))
    return near if tie else near[:1]


def _unit_fraction(written: Literal, value: Fraction) -> bool:
    """The literal is 1/n with n of 2 or more; the value lies in (0, 1]; among 1, 1/2, 1/3, ... none
    is nearer to the value than 1/n is. On a tie either neighbour holds."""
    if written.kind != "fraction" or written.value.numerator != 1 or written.value >= 1:
        raise DeriveError(f"expected a unit fraction such as an eighth: {quoted(written.text)}")
    return 0 < value <= 1 and written.value.denominator in _denominators(value)


def _rank(written: Literal, value: Fraction) -> bool:
    if written.place is None:
        raise DeriveError(f"expected an ordinal such as 5th, found {quoted(written.text)}")
    return value == written.place


_RULES: dict[str, Callable[[Literal, Fraction], bool]] = {
    **{name: _comes_out(name) for name in _ROUNDINGS},
    "unit_fraction": _unit_fraction,
    "rank": _rank,
    "exact": lambda written, value: value == written.value,
}
CLAIM_RULES = tuple(name for name in _RULES if " " not in name)


# --- what the words count

_FOREIGN = frozenset(
    form for word in ("minute", "hour", "week", "month", "year") for form in (word, f"{word}s")
)
_BITS = re.compile(r"([kmgtpe])b(?:ps)?|([kmgtpe]?|kilo|mega|giga|tera|peta|exa)bits?")
_PER = frozenset({"per", "a", "an", "each", "every"})
_PREFIX = re.compile(r"kilo|mega|giga|tera|peta|exa|milli|micro|nano|[kMGTPE](?=[a-z]{4})")
_OF = frozenset({"of", "the", "as", "that", "than"})
_WORD = re.compile(r"micro-batch(?:es)?|[A-Za-zµ]+|/")


def clash(written: Literal, unit: Unit) -> str:
    """The first word after the number that names a unit which the quantity does not have, or "".

    The unit may be left out, wholly or in part; "tokens per chip" takes "tokens", and not "tokens
    per slice" or "chips per token". What a multiple or a fraction is taken of is not its unit.
    """
    above, below = _names(unit, 1), _names(unit, -1)
    if written.kind == "ordinal":
        return ""  # "5th layer"
    if written.multiple and (above or below):
        return "times"
    share = written.multiple or written.kind != "number"
    for word, inverse in _nouns(written.rest, share):
        if word.lower() in _FOREIGN or _scaled(word):
            return word
        if word[-1] != "B" and (bits := _BITS.fullmatch(word.lower())):
            size = (bits[1] or bits[2])[:1]
            told = f", bits: bytes are {size if size == 'k' else size.upper()}B"
            return word + told * ("byte" in above | below)
        named = _named(word)
        if named is None:
            continue
        if not _names(named, 1) <= (below if inverse else above):
            return word
    return ""


def _nouns(rest: str, share: bool) -> Iterator[tuple[str, bool]]:
    """The words after a number, and whether each stands below the line."""
    inverse = False
    for word in _WORD.findall(re.sub(r"[’']s?\b", "", rest)):
        if share and word.lower() in _OF:
            return
        if word == "/" or word.lower() in _PER:
            inverse = True
        else:
            yield word, inverse


def _named(word: str) -> Unit | None:
    for form in (word, word.lower(), re.sub("^flops?$", "FLOP", word.lower())):
        try:
            return typed_unit(form)[1]
        except UnitError:
            continue
    return None


def _scaled(word: str) -> bool:
    """Whether a prefix that was not read with the number scales a unit: "kilotokens"."""
    prefix = _PREFIX.match(word)
    return prefix is not None and _named(word) is None and _named(word[prefix.end() :]) is not None


def _names(unit: Unit, side: int) -> set[str]:
    """What stands above the line of a unit (1), or below it (-1); a way is a chip."""
    powers = unit.powers + unit.labels
    return {"chip" if name == "way" else name for name, power in powers if power * side > 0}
