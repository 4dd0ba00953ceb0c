"""The likeliest cause of a number that is wrong, found by trying what makes its words hold:
rounding to one side, an assumption or an input changed or left out, a factor, digits swapped."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from itertools import combinations
from types import MappingProxyType
from typing import Protocol

from derive.book.audit import Place
from derive.book.literals import literal
from derive.commands.parser import KEEPS, OVERLAPS, PASSES
from derive.commands.value import words_of
from derive.cost.assumptions import BYTES, SETS
from derive.facts import shipped
from derive.notation.digits import fraction
from derive.notation.errors import DeriveError
from derive.notation.quantity import Quantity
from derive.notation.symbols import known

# The options that change an assumption, simplest first; () for one that stands alone.
_OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "--overlap": OVERLAPS, "--gated": (), "--exact": (), "--large-n": (), "--pass": PASSES,
    "--set": (), "--precision": tuple(BYTES), "--no-wrap": (), "--keep": KEEPS,
    "--gradients": ("fp32", "bf16", "fp8"), "--profile": (), "--assume": tuple(SETS),
    "--chip": (),
})  # fmt: skip
_OF_VALUE = ("--set", "--precision", "--profile", "--chip")
_OF_PLAN = ("--assume", "--profile")
_COUNTS = ("M_X", "M_Y", "M_Z", "A", "n_F", "n_V")
_BOTH_WAYS = {"W": Fraction(1, 2), "W_node": Fraction(2), "W_dcn": Fraction(2)}
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
    for rule, label in _ROUNDED.items() if place.rule == "round" else ():
        with suppress(DeriveError):
            if true(place.printed, quantity, Fraction(1), rule):
                return f"{label}: holds by the rule {rule}"
    for label, words in _changed(place.question, quantity):
        with suppress(DeriveError):
            if true(place.printed, answer(shlex.join(words))):
                return f"holds {label}"
    for label, factor in _left_out(quantity):
        with suppress(DeriveError):
            if true(place.printed, quantity, factor):
                return label
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
            yield from _instead(typed, quantity)
            continue
        named = {"--profile": shipped().profiles, "--chip": shipped().chips}
        choices = tuple(named.get(option, _OPTIONS[option]))
        if option == "--chip" and option not in typed:
            continue
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
    yield from _instead(typed, quantity, ways=True)


def _option(word: str) -> list[str]:
    name, equals, given = word.partition("=")
    return [name, given] if equals and name.startswith("--") else [word]


def _others(leaf: Quantity, ways: bool) -> Iterator[tuple[Fraction, str]]:
    """Other values of an input, and how: one more or less of a count, all of the utilisation, 1,000
    for 1,024 or the reverse, another reading; or a rate of one way for that of both."""
    name, value = leaf.name, fraction(leaf.value)
    if name in _BOTH_WAYS and ways == (leaf.status != "given"):  # what is typed slips sooner
        told = ", one way for both" if name == "W" else ", both ways for one"
        yield value * _BOTH_WAYS[name], told
    if ways:
        return
    if name in _COUNTS:
        yield from ((value + step, "") for step in (1, -1) if value + step >= 1)
    if name == "u":
        yield Fraction(1), ""
    for one, other in ((1000, 1024), (1024, 1000)):
        if leaf.status == "given" and value % other == 0:
            yield value / other * one, f", {one:,} for {other:,}"
    for fact in shipped().chips[leaf.owner].facts if leaf.owner in shipped().chips else ():
        if str(fact.key.symbol) == name and leaf.value in [r.value for r in fact.readings]:
            yield from ((fraction(r.value), f", a reading of {r.source}") for r in fact.readings)


def _instead(
    typed: list[str], quantity: Quantity, ways: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """The words of the question with one input at each of its other values, and how."""
    for leaf in quantity.leaves():
        rest = list(typed)
        for place, word in enumerate(typed):
            if place and typed[place - 1] == "--set" and re.match(rf"\s*{leaf.name}\s*=", word):
                del rest[place - 1 : place + 1]
        for number, how in _others(leaf, ways):
            if number != fraction(leaf.value):
                told = f"{leaf.name}={number if number.denominator == 1 else float(number)}"
                yield f"with --set {told}{how}", [*rest, "--set", told]


def _left_out(quantity: Quantity) -> Iterator[tuple[str, Fraction]]:
    """Inputs that are a factor too few or too many, the degrees of a mesh also two at a time."""
    roles = {x: known(x.name) for x in quantity.leaves() if x.value not in (0, 1)}
    sizes = {x.name: fraction(x.value) for x, k in roles.items() if k and k.role != "hardware"}
    mesh = [leaf.name for leaf, k in roles.items() if k and k.role in ("mesh", "axis")]
    pairs = {f"{a}*{b}": sizes[a] * sizes[b] for a, b in combinations(mesh, 2)}
    for name, size in (sizes | pairs).items():
        yield f"{name} left out", size
        yield f"{name} left out", 1 / size


def _swapped(printed: str) -> Iterator[str]:
    """The words with each two digits that stand side by side swapped."""
    number = literal(printed).number
    for first, second in ((m.start(), m.end(1) - 1) for m in _PAIRS.finditer(number)):
        if number[first] != number[second]:
            middle = number[first + 1 : second]
            other = number[:first] + number[second] + middle + number[first] + number[second + 1 :]
            yield printed.replace(number, other, 1)


_PAIRS = re.compile(r"(?=([0-9][,.]?[0-9]))")
