"""Where no combination passes the rules on whole numbers: which are nearest, and what they lack.

A combination is near where one quantity of the task, changed alone, lets it pass every rule but
memory: the cards, the batch or the sequence. Of each such quantity the closest value below and the
closest above are given. The nearest combinations are those whose quantity changes by the smallest
factor, and among equals those that need the least memory with every layer recomputed; the nearest
that fits in memory once it is changed stands before the others. Of the combinations that differ in
the micro-batch alone, the one with the smallest change stands for all.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import groupby, product
from types import MappingProxyType
from typing import Any, NamedTuple

import sympy as sp

from derive.notation import symbols as v
from derive.notation.quantity import number
from derive.plan.few import least_first
from derive.plan.found import CLOSEST
from derive.plan.plans import Plan, plan_of
from derive.plan.space import Space, whole
from derive.plan.task import LARGEST, Task

# The quantities of a task that may change, and the symbol of each in the step model, if any.
QUANTITIES: Mapping[str, sp.Symbol | None] = MappingProxyType(
    {"batch": v.B_seq, "cards": None, "seq": v.T}
)
# Which of them can mend a rule; what breaks another rule is never near.
MENDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sequence": ("seq",), "short_chunk": ("seq",), "cards": ("cards",), "held": ("cards",),
        "batch": ("batch", "cards"),
    }
)  # fmt: skip


class Row(NamedTuple):
    """A combination of a grid, whose data degree is what the cards leave, if that is whole."""

    tp: int
    cp: int
    pp: int
    micro_batch: int = 1

    @property
    def size(self) -> int:
        """The cards of one data rank."""
        return self.tp * self.cp * self.pp

    def plan(self, cards: int) -> tuple[int, ...]:
        """The degrees of the plan on so many cards, which `size` divides."""
        return (self.tp, self.cp, self.pp, cards // self.size, self.micro_batch)


@dataclass(frozen=True)
class Change:
    """A quantity of a task, its value there, and the closest values, rising, that would mend."""

    quantity: str
    given: int
    values: tuple[int, ...]

    @property
    def value(self) -> int:
        """The value that changes the given one by the smallest factor."""
        return min(self.values, key=self._factor)

    @property
    def factor(self) -> Fraction:
        """By how much the quantity has to grow or to shrink, above 1."""
        return self._factor(self.value)

    def _factor(self, value: int) -> Fraction:
        return Fraction(max(value, self.given), min(value, self.given))


@dataclass(frozen=True)
class Near:
    """A combination that lacks one thing: the rule that rejects it, as a key of REASONS, the
    changes that mend it, the smallest first, and the plan that it is after the first of them."""

    row: Row
    rule: str
    changes: tuple[Change, ...]
    plan: Plan


def broken(task: Task, row: Row) -> str | None:
    """The rule on whole numbers that rejects a combination, as a key of REASONS, or None."""
    return next((rule for rule, _ in whole(task, _alone(row)).rejected), None)


def changes(task: Task, row: Row) -> tuple[Change, ...]:
    """What mends a combination that a rule rejects, the smallest change first; nothing where no
    quantity alone does."""
    found = []
    for quantity in MENDS.get(broken(task, row) or "", ()):
        values = tuple(x for x in _closest(task, row, quantity) if x <= LARGEST)
        # Another rule may reject it still, which the change does not touch.
        if values and broken(changed(task, quantity, values[0]), row) is None:
            found.append(Change(quantity, getattr(task, quantity), values))
    return tuple(sorted(found, key=lambda change: change.factor))


def changed(task: Task, quantity: str, value: int) -> Task:
    """The task with another number of cards, sequences of a step or tokens of a sequence."""
    values = dict(task.values)
    if symbol := QUANTITIES[quantity]:
        values[symbol] = number(value, v.unit_of_symbol(symbol), symbol.name)
    fields: dict[str, Any] = {quantity: value}
    return replace(task, values=values, **fields)


def nearest(task: Task, grid: Space) -> tuple[Near, ...]:
    """The combinations of a grid that are nearest to passing the rules on whole numbers: first the
    nearest that fits in memory once it is changed, if any does, then the nearest in order. Nothing
    where a combination passes as it is, or where no quantity alone mends any."""
    if whole(task, grid).rows:
        return ()
    found: list[Near] = []
    fits = False
    for (_, quantity, value), group in groupby(sorted(_mended(task, grid), key=_rank), key=_rank):
        under = changed(task, quantity, value)
        by_plan = {row.plan(under.cards): (row, made) for row, made in group}
        for size, degrees in least_first(under, list(by_plan)):
            room = len(found) < CLOSEST
            if not room and (fits or size > under.budget):
                break
            plan = plan_of(under, *degrees)
            if room or not plan.lacks_bytes:
                row, made = by_plan[degrees]
                found.append(Near(row, broken(task, row) or "", made, plan))
                fits = fits or not plan.lacks_bytes
        if fits and len(found) >= CLOSEST:
            break
    first = next((place for place, one in enumerate(found) if not one.plan.lacks_bytes), 0)
    return tuple(found[first : first + 1] + found[:first] + found[first + 1 :])


def _mended(task: Task, grid: Space) -> Iterator[tuple[Row, tuple[Change, ...]]]:
    """Each combination that is near, and what mends it."""
    for degrees in product(grid.tp, grid.cp, grid.pp):
        rows = (Row(*degrees, micro) for micro in grid.micro_batch)
        if near := [(row, made) for row in rows if (made := changes(task, row))]:
            yield min(near, key=_rank)


def _rank(mended: tuple[Row, tuple[Change, ...]]) -> tuple[Fraction, str, int]:
    first = mended[1][0]
    return first.factor, first.quantity, first.value


def _closest(task: Task, row: Row, quantity: str) -> tuple[int, ...]:
    """The values of a quantity next below and next above the given one that a rule asks for."""
    if quantity == "seq":
        pieces = task.counts.pieces * row.cp
        least = -(-max(task.counts.least_chunk * row.cp, 1) // pieces) * pieces
        return _multiples(task.seq, pieces, least)
    if quantity == "batch":
        share = task.cards // row.size * row.micro_batch
        return _multiples(task.batch, share, share)
    held = task.counts.held
    count, rest = divmod(task.batch, row.micro_batch)
    if rest or (held and count % held):
        return ()
    ranks = (held,) if held else _divisors(count)
    place = bisect(ranks, task.cards // row.size)
    return tuple(row.size * data for data in ranks[max(place - 1, 0) : place + 1])


def _multiples(given: int, of: int, least: int) -> tuple[int, ...]:
    """The multiples next below and above a number, none below `least`, which is one of them."""
    below = given // of * of
    return (below, below + of) if below >= least else (least,)


@lru_cache(maxsize=64)
def _divisors(count: int) -> tuple[int, ...]:
    return tuple(int(x) for x in sp.divisors(count))


def _alone(row: Row) -> Space:
    return Space((row.tp,), (row.cp,), (row.pp,), (row.micro_batch,))
