"""Derived readings: their formulas are read, evaluated exactly and compared; nothing is executed.

    formula = 2 * 100e9 / 8 / chips_per_host      formula = 4 * tpu7x.dcn

Numbers, facts of the same chip (or model, with its shape) by name, `chip.fact` of another, + - * /
and parentheses; spaces stand around a minus, since names of chips have dashes. A name stands for
the readings of the formula's own source, or for all of them where that source has none; some
combination of them has to give the value exactly.

A number without a unit takes the one that is missing, so that `25e9 / chips_per_host` can be a
bandwidth; but where facts with a dimension are named, their units must fold to the value's.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import product
from math import prod
from typing import TypeVar

import sympy as sp

from derive.facts.checks import Place, alike, one_of, such_as
from derive.facts.fact import CHIP_FACTS, MODEL_FACTS, Fact, Reading
from derive.facts.owners import Chip, Model
from derive.notation.errors import FactError, quoted
from derive.notation.read import tokens
from derive.notation.units import Unit, one

LONGEST = 200
DEEPEST = 16
MOST = 100

_TOKEN = re.compile(
    r"\s*(?:(?P<other>[a-z0-9]+(?:[-.][a-z0-9]+)*\.[a-z_][a-z0-9_]*)"
    r"|(?P<number>[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][0-9]{1,2})?)(?![\w.])"
    r"|(?P<own>[a-zA-Z_]\w*)"
    r"|(?P<sign>[-+*/()]))\s*",
    re.ASCII,
)
_ACTIONS: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
_Folded = TypeVar("_Folded")
Owners = Mapping[str, Chip] | Mapping[str, Model]
Cited = tuple[str, str, str]  # a reading: the chip or model, the fact, the key of the reading


# --- a formula


@dataclass(frozen=True)
class FactName:
    """A fact that a formula names; `owner` is its chip or model, empty for the formula's own."""

    owner: str
    fact: str

    def __str__(self) -> str:
        return f"{self.owner}.{self.fact}" if self.owner else self.fact


Leaf = Fraction | FactName


@dataclass(frozen=True)
class Postfix:
    """A formula in postfix order: numbers and names, each operator after its two operands."""

    steps: tuple[Leaf | str, ...]

    @property
    def names(self) -> tuple[FactName, ...]:
        """The facts that it names, each once."""
        return tuple(dict.fromkeys(step for step in self.steps if isinstance(step, FactName)))

    def fold(
        self, leaf: Callable[[Leaf], _Folded], join: Callable[[str, _Folded, _Folded], _Folded]
    ) -> _Folded:
        """`leaf` of every number and name, joined by the operators."""
        stack: list[_Folded] = []
        for step in self.steps:
            if isinstance(step, str):
                right = stack.pop()
                stack.append(join(step, stack.pop(), right))
            else:
                stack.append(leaf(step))
        return stack.pop()

    def value(self, given: Mapping[FactName, Fraction]) -> Fraction | None:
        """The exact value with a number for each name; None where it divides by zero."""
        try:
            return self.fold(
                lambda leaf: given[leaf] if isinstance(leaf, FactName) else leaf,
                lambda sign, left, right: _ACTIONS[sign](left, right),
            )
        except ZeroDivisionError:
            return None


class FormulaFault(FactError):
    """A formula that does not hold: what was expected of it and what stands there instead."""

    def __init__(self, expected: str, instead: str) -> None:
        super().__init__(f"expected {expected}, found {instead}")
        self.expected, self.instead = expected, instead


@lru_cache(maxsize=512)
def formula(text: str) -> Postfix:
    """Read a formula; raises FormulaFault for what is not numbers, names, + - * / and ( )."""
    if len(text) > LONGEST:
        raise FormulaFault(f"at most {LONGEST} characters", str(len(text)))
    named = "numbers, facts, + - * / and parentheses"
    read = tokens(text, _TOKEN, lambda rest: FormulaFault(named, quoted(rest, 20)))
    waiting = [*read, ("end", "")][::-1]  # the next one last
    steps: list[Leaf | str] = []

    def chained(signs: tuple[str, ...], part: Callable[[int], None], depth: int) -> None:
        part(depth)
        while waiting[-1][1] in signs:
            _, sign = waiting.pop()
            part(depth)
            steps.append(sign)

    def total(depth: int) -> None:
        chained(("+", "-"), lambda d: chained(("*", "/"), operand, d), depth)

    def operand(depth: int) -> None:
        kind, token = waiting[-1]
        if kind == "number":
            steps.append(Fraction(token))
        elif kind in ("own", "other"):
            owner, _, fact = token.rpartition(".")
            steps.append(FactName(owner, fact))
        elif token == "(" and depth < DEEPEST:
            waiting.pop()
            total(depth + 1)
            expect(")", "')'")
        else:
            deep = f"at most {DEEPEST} parentheses inside each other"
            raise FormulaFault(deep if token == "(" else "a number or a fact", here())
        waiting.pop()

    def expect(token: str, said: str) -> None:
        if waiting[-1][1] != token:
            raise FormulaFault(said, here())

    def here() -> str:
        return quoted(waiting[-1][1]) if waiting[-1][1] else "the end"

    total(0)
    expect("", "+ - * / or the end")
    return Postfix(tuple(steps))


# --- the readings of a file


def check(new: Iterable[Chip] | Iterable[Model], known: Owners, place: Place) -> None:
    """Raise FactError unless every derived reading of `new` has the value that its formula gives.

    `known` holds the chips or models that a formula may name, those of `new` included; `place` is
    their table. No fact may be derived from itself, and no readings from each other in a circle.
    """
    rests: dict[Cited, list[Cited]] = {}
    places: dict[Cited, tuple[Place, str]] = {}
    for owner in new:
        for fact in owner.facts:
            for i, reading in enumerate(fact.readings, 1):
                if reading.status != "derived":
                    continue
                at = f"{fact.key.name}[{i}]" if len(fact.readings) > 1 else fact.key.name
                inside = place.inside(owner.name).inside("facts").inside(at)
                key = f"formula {quoted(reading.formula, 100)}"
                try:
                    used = _used(reading, fact, known)
                except FormulaFault as fault:
                    raise inside.fault(key, fault.expected, fault.instead) from None
                cited = (owner.name, fact.key.name, reading.key)
                places[cited] = inside, key
                rests[cited] = [
                    (f.owner, f.key.name, r.key) for f, r in used if r.status == "derived"
                ]
    try:
        TopologicalSorter(rests).prepare()
    except CycleError as error:
        circle = error.args[1][::-1]  # each rests on the next, and the last is the first
        inside, key = places[circle[0]]
        shown = " from ".join(f"{name}.{fact}" for name, fact, _ in circle[:4])
        more = " and so on" if len(circle) > 4 else ""
        raise inside.fault(key, "a value that does not rest on itself", shown + more) from None


def candidates(fact: Fact, source: str) -> tuple[Reading, ...]:
    """The readings that a name may stand for: of that source, else of any; derived ones last."""
    own = [reading for reading in fact.readings if reading.source == source]
    ordered = sorted(own or fact.readings, key=lambda reading: reading.status == "derived")
    # One reading per value: readings that agree are one possibility.
    return tuple({reading.value: reading for reading in reversed(ordered)}.values())[::-1]


def _used(reading: Reading, fact: Fact, known: Owners) -> list[tuple[Fact, Reading]]:
    """The readings from which the formula gives the value; raises FormulaFault where none do."""
    if isinstance(reading.value, tuple):
        raise FormulaFault("another status, since a shape follows from no formula", '"derived"')
    read = formula(reading.formula)
    facts = {name: _named(name, fact, known) for name in read.names}
    dimension = _dimension(read, facts)
    if dimension is not None and dimension != fact.key.unit.dimension:
        raise FormulaFault(f"a formula in {fact.key.unit.dimension}", f"one in {dimension}")
    choices = [candidates(named, reading.source) for named in facts.values()]
    if prod(map(len, choices)) > MOST:
        raise FormulaFault(f"at most {MOST} combinations of the named readings", "more")
    wanted = _exact(reading)
    values: dict[Fraction | None, None] = {}
    for used in product(*choices):
        value = read.value({n: _exact(r) for n, r in zip(facts, used, strict=True)})
        if value == wanted:
            return list(zip(facts.values(), used, strict=True))
        values[value] = None
    raise FormulaFault(
        f"the value {_told(wanted)}", " or ".join(_told(value) for value in list(values)[:3])
    )


def _named(name: FactName, by: Fact, known: Owners) -> Fact:
    """The fact that a formula of `by` names; raises FormulaFault, offering the nearest."""
    owner = name.owner or by.owner
    if owner not in known:
        expected = f"the name of a chip or model{such_as(owner, known)} before the dot"
        raise FormulaFault(expected, quoted(owner))
    facts = _facts(known[owner])
    if (owner, name.fact) == (by.owner, by.key.name):
        raise FormulaFault("facts other than its own", quoted(name))
    if name.fact not in facts:
        close = alike(name.fact, facts)
        hint = f"such as {close}" if close else one_of(facts)
        declared = name.fact in CHIP_FACTS or name.fact in MODEL_FACTS
        instead = f"{quoted(name)}, of which it has no reading" if declared else quoted(name)
        raise FormulaFault(f"a fact of {owner}, {hint}", instead)
    if facts[name.fact].key.kind == "shape":
        raise FormulaFault("facts that are numbers", f"{quoted(name)}, a shape")
    return facts[name.fact]


def _facts(owner: Chip | Model) -> dict[str, Fact]:
    """The facts of a chip or a model by name; the shape of a model counts among them."""
    facts = {fact.key.name: fact for fact in owner.facts}
    return facts | owner.counts if isinstance(owner, Model) else facts


def _dimension(read: Postfix, facts: Mapping[FactName, Fact]) -> Unit | None:
    """The dimension that the named facts fold to; None where a bare number may carry it.

    Raises FormulaFault where facts of different dimension are added.
    """

    def leaf(step: Leaf) -> Unit | None:
        return facts[step].key.unit.dimension if isinstance(step, FactName) else None

    def join(sign: str, left: Unit | None, right: Unit | None) -> Unit | None:
        if sign in "+-":
            if left is not None and right is not None and left != right:
                raise FormulaFault(f"terms of one unit around {sign}", f"{left} and {right}")
            return right if left is None else left
        if (left is None or left == one) and (right is None or right == one):
            return None if left is None or right is None else one
        return (left or one) * (right or one) if sign == "*" else (left or one) / (right or one)

    return read.fold(leaf, join)


def _exact(reading: Reading) -> Fraction:
    assert isinstance(reading.value, sp.Rational)
    return Fraction(int(reading.value.p), int(reading.value.q))


def _told(value: Fraction | None) -> str:
    """A value as a message shows it: exact where that is short."""
    if value is None:
        return "a division by zero"
    if abs(value.numerator) < 10**30 and value.denominator < 10**6:
        return str(value)
    return f"about {(Decimal(value.numerator) / Decimal(value.denominator)).normalize():.6g}"
