"""What an author's words count: each unit noun after the number must be one of the quantity's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from derive.book.literals import Literal
from derive.notation.errors import UnitError
from derive.notation.units import Unit
from derive.notation.units import typed_unit as typed

_FOREIGN = frozenset(
    form
    for word in ("minute", "hour", "week", "month", "year", "bit")
    for form in (word, f"{word}s")
)
_PER = frozenset({"per", "a", "an", "each", "every"})
_PREFIX = re.compile(r"kilo|mega|giga|tera|peta|exa|milli|micro|nano|[kMGTPE](?=[a-z]{4})")
_OF = frozenset({"of", "the", "as", "that", "than"})
_WORD = re.compile(r"micro-batch(?:es)?|[A-Za-zµ]+|/")


def clash(written: Literal, unit: Unit) -> str:
    """The first word after the number that names a unit which the quantity does not have, or "".

    The unit may be left out, wholly or in part; "tokens per chip" takes "tokens", and not "tokens
    per slice" or "chips per token". What a multiple or a fraction is taken of is not its unit.
    """
    above = {_known(name) for name, power in unit.powers + unit.labels if power > 0}
    below = {_known(name) for name, power in unit.powers + unit.labels if power < 0}
    if written.kind == "ordinal":
        return ""  # "5th layer"
    if written.multiple and (above or below):
        return "times"
    share = written.multiple or written.kind != "number"
    for word, inverse in _nouns(written.rest, share):
        if word.lower() in _FOREIGN or _scaled(word):
            return word
        named = _named(word)
        if named is None:
            continue
        over = {_known(name) for name, power in named.powers + named.labels if power > 0}
        if not over <= (below if inverse else above):
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
            return typed(form)[1]
        except UnitError:
            continue
    return None


def _scaled(word: str) -> bool:
    """Whether a prefix that was not read with the number scales a unit: "kilotokens"."""
    found = _PREFIX.match(word)
    return found is not None and _named(word) is None and _named(word[found.end() :]) is not None


def _known(name: str) -> str:
    return {"way": "chip"}.get(name, name)
