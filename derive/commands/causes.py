"""The likeliest cause of a number that is wrong, found by trying what makes its words hold:
rounding to one side, one assumption changed, a factor, two digits swapped."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from types import MappingProxyType
from typing import Protocol

from derive.book.audit import Place
from derive.book.literals import literal
from derive.commands.parser import KEEPS, OVERLAPS, PASSES
from derive.commands.value import words_of
from derive.cost.assumptions import BYTES, SETS
from derive.facts import shipped
from derive.notation.errors import DeriveError
from derive.notation.quantity import Quantity

# The options that change an assumption, simplest first; () for one that stands alone.
_OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "--gated": (), "--overlap": OVERLAPS, "--exact": (), "--large-n": (), "--pass": PASSES,
    "--set": (), "--precision": tuple(BYTES), "--no-wrap": (), "--keep": KEEPS,
    "--gradients": ("fp32", "bf16", "fp8"), "--profile": (), "--assume": tuple(SETS),
})  # fmt: skip
_OF_VALUE = ("--set", "--precision", "--profile")
_OF_PLAN = ("--assume", "--profile")
_AXES = ("M_X", "M_Y", "M_Z")
_ROUNDED = {"floor": "rounded down", "ceil": "rounded up"}
_BINARY = {f"1024^{k} taken as 10^{3 * k}": Fraction(1000, 1024) ** k for k in (1, 2, 3, 4)} | {
    f"10^{3 * k} taken as 1024^{k}": Fraction(1024, 1000) ** k for k in (1, 2, 3, 4)
}
_TIMES = (2, 3, 4, 8, 10, 100, 1000, 10**4, 10**6, 10**9)
_FACTORS = {f"{n:,} times as much": Fraction(n) for n in _TIMES} | {
    f"1/{n:,} of it": Fraction(1, n) for n in _TIMES
}


class Holds(Protocol):
    """Whether words are true of a number that many times, by another rule than the place's."""

    def __call__(
        self, words: str, number: Quantity, factor: Fraction = ..., rule: str = ...
    ) -> bool: ...


def likeliest(
    place: Place, quantity: Quantity, answer: Callable[[str], Quantity], true: Holds
) -> str:
    """What makes the words of a place hold, which `quantity` does not, simplest first; "" where
    nothing that was tried does."""
    for rule, label in _ROUNDED.items():
        with suppress(DeriveError):
            if true(place.printed, quantity, Fraction(1), rule):
                return f"{label}: holds by the rule {rule}"
    for label, words in _changed(place.question, quantity):
        with suppress(DeriveError):
            if true(place.printed, answer(shlex.join(words))):
                return f"holds {label}"
    # Of what is no bytes, a few per cent more are mere chance.
    in_bytes = dict(quantity.unit.powers).get("byte") == 1
    for label, factor in ((_BINARY if in_bytes else {}) | _FACTORS).items():
        with suppress(DeriveError):
            if true(place.printed, quantity, factor):
                return label
    for printed in _swapped(place.printed):
        with suppress(DeriveError):
            if true(printed, quantity):
                return "two digits swapped"
    return ""


def _changed(question: str, quantity: Quantity) -> Iterator[tuple[str, list[str]]]:
    """The words of the question with one assumption changed, and how."""
    typed = [part for word in words_of(question) for part in _option(word)]
    given = {"value": _OF_VALUE, "why": _OF_PLAN}.get(typed[0], tuple(_OPTIONS))
    if typed[0] == "why" and not typed[1].startswith("plan."):
        return
    for option in given:
        if option == "--set":
            yield from _axes(typed, quantity)
            continue
        choices = tuple(shipped().profiles) if option == "--profile" else _OPTIONS[option]
        if option not in typed:
            other = {"--exact": "--large-n", "--large-n": "--exact"}.get(option)
            rest = [word for word in typed if word != other]
            each = [[option, choice] for choice in choices] or [[option]]
            yield from ((f"with {' '.join(one)}", [*rest, *one]) for one in each)
        elif not choices:
            yield f"without {option}", [word for word in typed if word != option]
        else:
            at = typed.index(option) + 1
            for choice in choices:
                if typed[at : at + 1] != [choice]:
                    yield f"with {option} {choice}", [*typed[:at], choice, *typed[at + 1 :]]


def _option(word: str) -> list[str]:
    name, equals, given = word.partition("=")
    return [name, given] if equals and name.startswith("--") else [word]


def _axes(typed: list[str], quantity: Quantity) -> Iterator[tuple[str, list[str]]]:
    """One torus axis more and one less of each mesh axis that plays a part."""
    inputs = {str(name): one for name, one in quantity.inputs}
    for name in _AXES:
        if name not in inputs:
            continue
        rest, at = list(typed), len(typed)
        for place, word in enumerate(typed):
            if place and typed[place - 1] == "--set" and re.match(rf"\s*{name}\s*=", word):
                at = place - 1
                rest = [*typed[:at], *typed[place + 1 :]]
        count = inputs[name].value
        for other in (count + 1, count - 1):
            if other >= 1:
                told = f"{name}={other}"
                yield f"with --set {told}", [*rest[:at], "--set", told, *rest[at:]]


def _swapped(printed: str) -> Iterator[str]:
    """The words with each two digits that stand side by side swapped."""
    number = literal(printed).number
    for first, second in ((m.start(), m.end(1) - 1) for m in _PAIRS.finditer(number)):
        if number[first] != number[second]:
            middle = number[first + 1 : second]
            other = number[:first] + number[second] + middle + number[first] + number[second + 1 :]
            yield printed.replace(number, other, 1)


_PAIRS = re.compile(r"(?=([0-9][,.]?[0-9]))")
