"""An author's own numbers, as prose writes them: "about 2,550", "9B", "11-way", "an eighth", "5th".

A small grammar reads them into fractions, and keeps what was meant by the last digit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal as OneOf

from derive.notation.digits import BINARY, SI, SMALL, Numeral, exact, numeral, prefix
from derive.notation.errors import DeriveError, quoted

MAX_LENGTH = 120

Hedge = OneOf["=", "<", "<=", ">", ">=", "nearly"]
_HEDGES: dict[str, Hedge | None] = {
    "about": None, "roughly": None, "approximately": None, "around": None, "some": None,
    "close to": None, "just": None, "only": None, "~": None, "≈": None,
    "nearly": "nearly", "almost": "nearly", "exactly": "=", "precisely": "=",
    "under": "<", "below": "<", "less than": "<", "fewer than": "<",
    "at most": "<=", "no more than": "<=", "not more than": "<=", "up to": "<=",
    "over": ">", "above": ">", "more than": ">",
    "at least": ">=", "no fewer than": ">=", "no less than": ">=", "not less than": ">=",
}  # fmt: skip
_AFTER: dict[str, Hedge] = {
    "at most": "<=", "or less": "<=", "or fewer": "<=", "at least": ">=", "or more": ">=",
    "exactly": "=", "precisely": "=",
}  # fmt: skip
HEDGE = re.compile(
    rf"(?:({'|'.join(h for h in _HEDGES if h.isascii() and h != '~')})\b|([~≈])) *", re.IGNORECASE
)
_TRAILING = re.compile(rf",? ({'|'.join(_AFTER)})$", re.IGNORECASE)
_REST = re.compile(r"(?:[ -]?[A-Za-zµ/][A-Za-zµ /·'-]*)?")
_PREFIXED = re.compile(r" ?([kMGTPE]i?|Ki|[mµn])(B|FLOPs?|FLOP|bytes?|s)(?![A-Za-z])")
_SPELT = re.compile(r"[ -]?(kilo|mega|giga|tera|peta|exa)(bytes?|flops?)(?![a-z])", re.IGNORECASE)
_TIMES = re.compile(r" ?(?:x|×|times|-?fold)(?![A-Za-z])")
_ORDINAL = re.compile(r"(st|nd|rd|th)(?![A-Za-z])")
_PERCENT = re.compile(r" ?(?:%|percent\b|per cent\b)")

_ONES = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14,
    "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19,
}  # fmt: skip
_TENS = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
    "eighty": 80, "ninety": 90,
}  # fmt: skip
_GROUPS = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
MULTIPLES = {"twice": 2, "double": 2, "thrice": 3, "triple": 3, "quadruple": 4}
_COUNTS = MULTIPLES | {"dozen": 12}
_PARTS = {
    "half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7,
    "eighth": 8, "ninth": 9, "tenth": 10, "eleventh": 11, "twelfth": 12, "sixteenth": 16,
    "twentieth": 20, "hundredth": 100, "thousandth": 1000,
}  # fmt: skip
PLACES = {"first": 1, "second": 2} | {
    word: n for word, n in _PARTS.items() if word[-2:] in ("rd", "th")
}
WORDS = {*_ONES, *_TENS, *_GROUPS, "hundred", *_COUNTS, *_PARTS, *(f"{p}s" for p in _PARTS)}


@dataclass(frozen=True)
class Literal:
    """A number in an author's words.

    `step` is one unit of its last digit and `widest` one unit of the last digit that must be meant
    (see `Numeral`); `number` is the text of the number itself: "2,550", "5th", "an eighth". A
    fraction has no digits to round at. `place` is the rank that it can name, if any.
    `hedges` say what the number is to the value ("at most", "exactly"; "about" says nothing), and
    `rest` is what follows it, a unit first, without its prefix; `multiple` is "5x" or "5 times".
    """

    text: str
    value: Fraction
    step: Fraction
    widest: Fraction
    kind: OneOf["number", "fraction", "ordinal"] = "number"
    number: str = ""
    place: int | None = None
    rest: str = ""
    hedges: frozenset[Hedge] = frozenset()
    multiple: bool = False


@lru_cache(maxsize=1024)  # the same words are tried against many numbers
def literal(text: str) -> Literal:
    """The number in `text`, with a hedge before it and a unit or other words after it.

    Raises DeriveError where there is no number, or more than one.
    """
    if len(text) > MAX_LENGTH:
        raise DeriveError(f"a literal of more than {MAX_LENGTH} characters: {quoted(text)}")
    core, hedges = unhedged(text)
    core = re.sub(r"^(?:a|an|the) (?=[0-9])", "", core)
    number = _share(text, core) or _numeral(text, core) or _in_words(text, core)
    if number is None:
        raise DeriveError(f"no number in the literal {quoted(text)}")
    return replace(number, hedges=hedges)


def unhedged(text: str) -> tuple[str, frozenset[Hedge]]:
    """`text` without the hedges before and after its number, and what they say."""
    core, said = " ".join(text.split()), set[Hedge | None]()
    while (hedge := HEDGE.match(core)) is not None:
        said.add(_HEDGES[hedge[0].strip().lower()])
        core = core[hedge.end() :]
    while (hedge := _TRAILING.search(core)) is not None:
        said.add(_AFTER[hedge[1].lower()])
        core = core[: hedge.start()]
    return core, frozenset(h for h in said if h is not None)


def _rest(text: str, rest: str) -> str:
    """What follows a number; refused unless it is mere words: no second number hides in it."""
    words = re.split(r"[ -]", rest.lower())
    if not _REST.fullmatch(rest) or WORDS.intersection(words):
        raise DeriveError(f"cannot read {quoted(rest.strip())} in the literal {quoted(text)}")
    return rest.strip()


def _before(core: str, rest: str) -> str:
    """The text of a number in words, with its article: what stands before the rest."""
    return core[: len(core) - len(rest)].rstrip(" -")


def _share(text: str, core: str) -> Literal | None:
    match = re.match(r"([0-9]{1,6})/([0-9]{1,6})(?![0-9.,])", core)
    if match is None:
        return None
    rest = _rest(text, core[match.end() :])
    return Literal(text, exact(match[0]), Fraction(0), Fraction(0), "fraction", match[0], rest=rest)


def _numeral(text: str, core: str) -> Literal | None:
    number = numeral(core)
    if number is None:
        return None
    rest = core[len(number.text) :]
    if match := _ORDINAL.match(rest):
        return _numbered(text, number, match[1], rest[match.end() :])
    if match := _PERCENT.match(rest):
        rest = _rest(text, rest[match.end() :])
        share = number.times(Fraction(1, 100))
        # A percentage has few digits and each is meant: 40% is not any share from 35% to 45%.
        return Literal(text, share.value, share.step, share.step, number=number.text, rest=rest)
    if times := _TIMES.match(rest):
        rest = rest[times.end() :]
    elif match := _PREFIXED.match(rest):
        number = number.times((SI | BINARY | SMALL)[match[1]])
        rest = rest[match.end(1) :]
    elif match := _SPELT.match(rest):
        size = match[1][0].lower()
        number = number.times(SI[size if size == "k" else size.upper()])
        rest = f" {rest[match.end(1) :]}"
    elif suffix := prefix(rest):
        number, rest = number.times(suffix[0]), suffix[1]
    elif match := re.match(r" (hundred|thousand|million|billion|trillion)\b", rest):
        number = number.times(Fraction(({"hundred": 100} | _GROUPS)[match[1]]))
        rest = rest[match.end() :]
    return Literal(
        text, number.value, number.step, number.widest, number=number.text,
        rest=_rest(text, rest), multiple=times is not None,
    )  # fmt: skip


def _numbered(text: str, number: Numeral, ending: str, rest: str) -> Literal:
    place = int(number.value) if number.value.denominator == 1 else 0
    rest = _rest(text, rest)
    if place < 1 or ordinal(place) != f"{place}{ending}":
        raise DeriveError(f"no ordinal: {quoted(text)}")
    one = Fraction(1)
    return Literal(text, Fraction(place), one, one, "ordinal", number.text + ending, place, rest)


def ordinal(place: int) -> str:
    """The English ordinal of a positive integer in digits: "1st", "12th", "23rd"."""
    teen = place % 100 in (11, 12, 13)
    return f"{place}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(place % 10, 'th')}"


def _in_words(text: str, core: str) -> Literal | None:
    words = [w for w in re.split(r"[ -]", core.lower()) if w]
    article = bool(words) and words[0] in ("a", "an", "the")
    words = words[1:] if article else words
    if not words:
        return None
    count, used = _counted(words)
    part = words[used].removesuffix("s") if used < len(words) else ""
    part = "half" if part == "halve" else part
    if part in _PARTS and (used or article or part == words[0]):
        rest = _rest(text, " ".join(words[used + 1 :]))
        place = PLACES.get(part) if not used else None
        value, none = Fraction(count if used else 1, _PARTS[part]), Fraction(0)
        return Literal(text, value, none, none, "fraction", _before(core, rest), place, rest)
    if not used:
        if words[0] not in ("first", "second"):
            return None
        rest, place, one = _rest(text, " ".join(words[1:])), PLACES[words[0]], Fraction(1)
        return Literal(text, Fraction(place), one, one, "ordinal", _before(core, rest), place, rest)
    if article and words[0] not in ("hundred", "dozen", *_GROUPS):
        return None
    rest = _rest(text, " ".join(words[used:]))
    times = words[0] in MULTIPLES or (used < len(words) and words[used] in ("times", "fold"))
    digits = str(count)
    zeros = len(digits) - len(digits.rstrip("0")) if count else 0
    widest = Fraction(10**zeros)
    value, one, number = Fraction(count), Fraction(1), _before(core, rest)
    return Literal(text, value, one, widest, number=number, rest=rest, multiple=times)


def spelt(count: int) -> str:
    """A whole number from 0 to 10**15 in words: "twenty-eight", "two thousand one hundred"."""
    sizes = _ONES | _TENS | {"hundred": 100} | _GROUPS
    word, size = next(known for known in reversed(sizes.items()) if known[1] <= count)
    many, left = divmod(count, size or 1)
    head = f"{spelt(many)} {word}" if size >= 100 else word
    return f"{head}{' ' if size >= 100 else '-'}{spelt(left)}" if left else head


def spelt_part(share: Fraction) -> str:
    """A positive fraction in words, or in digits where a word is missing: "two thirds", "1/13"."""
    above, below = share.numerator, share.denominator
    part = {n: word for word, n in reversed(_PARTS.items())}.get(below)
    if part is None or above > 20:
        return str(share)
    if above == 1:
        return part if below == 2 else f"{'an' if part[0] == 'e' else 'a'} {part}"
    return f"{spelt(above)} {'halve' if below == 2 else part}s"


def spelt_place(place: int) -> str:
    """A rank in words, or in digits where a word is missing: "first", "13th"."""
    return {n: word for word, n in PLACES.items()}.get(place) or ordinal(place)


def _counted(words: list[str]) -> tuple[int, int]:
    """The whole number at the start of `words`, and how many words it takes (0: none)."""
    if words[0] in _COUNTS:
        return _COUNTS[words[0]], 1
    total = current = used = 0
    ceiling = 10**15
    for index, word in enumerate(words):
        free = current % 100 == 0 and (current > 0 or total > 0 or used == 0)
        tens = current % 10 == 0 and current % 100 >= 20
        if word in _ONES and (free or (_ONES[word] in range(1, 10) and tens)):
            current += _ONES[word]
        elif word in _TENS and free:
            current += _TENS[word]
        elif word == "hundred" and current < 100:
            current = (current or 1) * 100
        elif word in _GROUPS and _GROUPS[word] < ceiling and current < 1000:
            ceiling = _GROUPS[word]
            total, current = total + (current or 1) * ceiling, 0
        elif word == "and" and used and words[index - 1] in ("hundred", *_GROUPS):
            continue
        else:
            break
        used = index + 1
    return total + current, used
