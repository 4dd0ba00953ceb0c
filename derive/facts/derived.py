"""Whether each derived reading has the value that its formula gives, in a unit that fits.

A name in a formula stands for the readings of the formula's own source, or for all of them where
that source has none; some combination of them has to give the value exactly.

A number without a unit takes the one that is missing, so that `25e9 / chips_per_host` can be a
bandwidth; but where facts with a dimension are named, their units must fold to the value's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import prod

import sympy as sp

from derive.facts.checks import Place
from derive.facts.formulas import Formula, FormulaFault, Name, formula
from derive.facts.keys import CHIP_FACTS, MODEL_COUNTS, MODEL_FACTS, FactKey
from derive.facts.readings import ChipRecord, Fact, ModelRecord, Reading
from derive.notation.errors import nearest, quoted
from derive.notation.units import Unit, one

MOST = 100
Records = Mapping[str, ChipRecord] | Mapping[str, ModelRecord]
Node = tuple[str, str, str]  # a reading: of which chip or model, of which fact, its key


def check(new: Iterable[ChipRecord | ModelRecord], known: Records, place: Place) -> None:
    """Raise FactError unless every derived reading of `new` has the value that its formula gives.

    `known` holds the records that a formula may name, those of `new` included; `place` is their
    table. No fact may be derived from itself, and no readings from each other in a circle.
    """
    rests: dict[Node, list[Node]] = {}
    places: dict[Node, tuple[Place, str]] = {}
    for record in new:
        for fact in record.facts:
            for i, reading in enumerate(fact.readings, 1):
                if reading.status != "derived":
                    continue
                at = f"{fact.key.name}[{i}]" if len(fact.readings) > 1 else fact.key.name
                inside = place.inside(record.name).inside("facts").inside(at)
                key = f"formula {quoted(reading.formula, 100)}"
                try:
                    used = _used(reading, fact, known)
                except FormulaFault as fault:
                    raise inside.fault(key, fault.expected, fault.found) from None
                node = (record.name, fact.key.name, reading.key)
                places[node] = inside, key
                rests[node] = [(f.of, f.key.name, r.key) for f, r in used if r.status == "derived"]
    circle = _circle(rests)
    if circle:
        inside, key = places[circle[0]]
        shown = " from ".join(f"{of}.{fact}" for of, fact, _ in circle[:4])
        more = " and so on" if len(circle) > 4 else ""
        raise inside.fault(key, "a value that does not rest on itself", shown + more)


def candidates(fact: Fact, source: str) -> tuple[Reading, ...]:
    """The readings that a name may stand for: of that source, else of any; derived ones last."""
    own = [reading for reading in fact.readings if reading.source == source]
    ordered = sorted(own or fact.readings, key=lambda reading: reading.status == "derived")
    # One reading per value: readings that agree are one possibility.
    return tuple({reading.value: reading for reading in reversed(ordered)}.values())[::-1]


def _used(reading: Reading, fact: Fact, known: Records) -> list[tuple[Fact, Reading]]:
    """The readings from which the formula gives the value; raises FormulaFault where none do."""
    if isinstance(reading.value, tuple):
        raise FormulaFault("another status, since a shape follows from no formula", '"derived"')
    read = formula(reading.formula)
    facts = {name: _named(name, fact, known) for name in read.names}
    found = _dimension(read, facts)
    if found is not None and found != fact.key.unit.dimension:
        raise FormulaFault(f"a formula in {fact.key.unit.dimension}", f"one in {found}")
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


def _named(name: Name, by: Fact, known: Records) -> Fact:
    """The fact that a formula of `by` names; raises FormulaFault, offering the nearest."""
    of = name.of or by.of
    if of not in known:
        close = nearest(of, known)
        hint = f" (such as {' or '.join(close)})" if close else ""
        raise FormulaFault(f"the name of a chip or model{hint} before the dot", quoted(of))
    facts = _facts(known[of])
    if (of, name.fact) == (by.of, by.key.name):
        raise FormulaFault("facts other than its own", quoted(name))
    if name.fact not in facts:
        close = nearest(name.fact, facts)
        hint = f"such as {' or '.join(close)}" if close else f"one of {', '.join(facts)}"
        declared = name.fact in CHIP_FACTS or name.fact in MODEL_FACTS
        found = f"{quoted(name)}, of which it has no reading" if declared else quoted(name)
        raise FormulaFault(f"a fact of {of}, {hint}", found)
    if facts[name.fact].key.kind == "shape":
        raise FormulaFault("facts that are numbers", f"{quoted(name)}, a shape")
    return facts[name.fact]


def _facts(record: ChipRecord | ModelRecord) -> dict[str, Fact]:
    """The facts of a record by name; the shape of a model counts among them."""
    made = {fact.key.name: fact for fact in record.facts}
    if isinstance(record, ChipRecord):
        return made
    for name, count in record.counts:
        reading = Reading(sp.Integer(count), "shape", record.source, record.where, record.status)
        key = FactKey(name, one, None, MODEL_COUNTS[name], kind="count")
        made[name] = Fact(key, record.name, (reading,))
    return made


def _dimension(read: Formula, facts: Mapping[Name, Fact]) -> Unit | None:
    """The dimension that the named facts fold to; None where a bare number may carry it.

    Raises FormulaFault where facts of different dimension are added.
    """

    def leaf(step: Fraction | Name) -> Unit | None:
        return facts[step].key.unit.dimension if isinstance(step, Name) else None

    def join(sign: str, left: Unit | None, right: Unit | None) -> Unit | None:
        if sign in "+-":
            if left is not None and right is not None and left != right:
                raise FormulaFault(f"terms of one unit around {sign}", f"{left} and {right}")
            return right if left is None else left
        if (left is None or left == one) and (right is None or right == one):
            return None if left is None or right is None else one
        return (left or one) * (right or one) if sign == "*" else (left or one) / (right or one)

    return read.fold(leaf, join)


def _circle(rests: Mapping[Node, list[Node]]) -> list[Node]:
    """Readings each of which rests on the next, the first one again at the end; else nothing."""
    done: set[Node] = set()
    for start in rests:
        path: dict[Node, None] = {}
        ways = [iter((start,))]
        while ways:
            node = next(ways[-1], None)
            if node is None:
                ways.pop()
                if path:
                    done.add(path.popitem()[0])
            elif node in path:
                before = list(path)
                return [*before[before.index(node) :], node]
            elif node not in done:
                path[node] = None
                ways.append(iter(rests.get(node, ())))
    return []


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
