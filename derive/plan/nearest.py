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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import groupby
from types import MappingProxyType
from typing import Any

import numpy as np
import sympy as sp

from derive.cost.assumptions import assume
from derive.notation import symbols as v
from derive.notation.quantity import number
from derive.plan.axes import Counts, Degrees, Space, broken
from derive.plan.plan import Plan, least_memory, plan_of
from derive.plan.task import DEGREES, LARGEST, Task, amounts

CLOSEST = 3  # plans that are told where none fits
DOUBLED = 9  # times that the cards are, to tell how many would do
# The quantities of a task that may change, and the symbol of each in the step model, if any.
QUANTITIES: Mapping[str, sp.Symbol | None] = MappingProxyType(
    {"batch": v.B_seq, "cards": None, "seq": v.T}
)
# Which of them can mend a rule; what breaks another rule is never near.
MENDS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "sequence": ("seq",), "zigzag": ("seq",), "short_chunk": ("seq",), "cards": ("cards",),
    "held": ("cards",), "batch": ("batch", "cards"),
})  # fmt: skip


@dataclass(frozen=True)
class Change:
    """A quantity of a task, its value there, and the closest values, rising, that would mend."""

    quantity: str
    given: int
    values: tuple[int, ...]

    @property
    def value(self) -> int:
        """The value that changes the given one by the smallest factor."""
        return min(self.values, key=lambda x: Fraction(max(x, self.given), min(x, self.given)))

    @property
    def factor(self) -> Fraction:
        """By how much the quantity has to grow or to shrink, above 1."""
        return Fraction(max(self.value, self.given), min(self.value, self.given))


@dataclass(frozen=True)
class Near:
    """A combination that lacks one thing: the rule that rejects it, as a key of REASONS, the
    changes that mend it, the smallest first, and the plan that it is after the first of them."""

    row: Degrees
    rule: str
    changes: tuple[Change, ...]
    plan: Plan


def changes(n: Counts, row: Degrees) -> tuple[Change, ...]:
    """What mends a combination that a rule rejects, the smallest change first; nothing where no
    quantity alone does."""
    mending = []
    for quantity in MENDS.get(broken(n, row) or "", ()):
        values = tuple(x for x in _closest(n, row, quantity) if x <= LARGEST)
        # Another rule may reject it still, which the change does not touch.
        field: dict[str, Any] = {quantity: values[0]} if values else {}
        if values and broken(n._replace(**field), row) is None:
            mending.append(Change(quantity, getattr(n, quantity), values))
    return tuple(sorted(mending, key=lambda change: change.factor))


def changed(task: Task, quantity: str, value: int) -> Task:
    """The task with another number of cards, sequences of a step or tokens of a sequence."""
    values = dict(task.values)
    if symbol := QUANTITIES[quantity]:
        values[symbol] = number(value, v.unit_of_symbol(symbol), symbol.name)
    fields: dict[str, Any] = {quantity: value}
    return replace(task, values=values, **fields)


def let_go(task: Task) -> Iterator[tuple[str, Task]]:
    """The task without one thing that it holds or assumes, each with what that is, the nearest
    first: a held degree, recomputation, even stages, then the cards, doubled again and again."""
    for symbol, degree in reversed([*task.fixed.items()]):
        rest = {s: x for s, x in task.fixed.items() if s != symbol}
        yield f"without {symbol}={degree}", replace(task, fixed=rest)
    under = task.assumptions
    if under.recompute != "least":
        yield "recompute=least", task.under(assume(under, recompute="least"))
    if "uneven_stages" not in under:
        uneven = under.corrections | {"uneven_stages"}
        yield "uneven_stages", task.under(assume(under, corrections=uneven))
    for power in range(1, DOUBLED + 1 if v.dp not in task.fixed else 1):
        cards = task.cards * 2**power
        yield amounts("cards", (cards,)), changed(task, "cards", cards)


def least_first(task: Task, rows: Sequence[Degrees]) -> list[tuple[float, Degrees]]:
    """Plans and their memory in bytes with every layer recomputed, in float64, the least first;
    equal ones stay in their order."""
    columns = np.array(rows, dtype=np.float64).T
    sizes = least_memory(task, dict(zip(DEGREES, columns, strict=True)))
    pairs = zip(np.broadcast_to(sizes, (len(rows),)).tolist(), rows, strict=True)
    return sorted(pairs, key=lambda pair: pair[0])


def nearest(task: Task, grid: Space) -> tuple[Near, ...]:
    """The combinations of a grid that are nearest to passing the rules on whole numbers: first the
    nearest that fits in memory once it is changed, if any does, then the nearest in order. Nothing
    where a combination passes as it is, or where no quantity alone mends any."""
    n = task.counts
    rows = tuple(grid.rows())
    if any(broken(n, row) is None for row in rows):
        return ()
    near: list[Near] = []
    fits = False
    for (_, quantity, value), group in groupby(sorted(_mended(n, rows), key=_rank), key=_rank):
        under = changed(task, quantity, value)
        by_plan = {row.on(under.cards): (row, mending) for row, mending in group}
        for size, degrees in least_first(under, list(by_plan)):
            room = len(near) < CLOSEST
            if not room and (fits or size > under.budget):
                break
            plan = plan_of(under, degrees)
            if room or not plan.lacks_bytes:
                row, mending = by_plan[degrees]
                near.append(Near(row, broken(n, row) or "", mending, plan))
                fits = fits or not plan.lacks_bytes
        if fits and len(near) >= CLOSEST:
            break
    first = next((place for place, one in enumerate(near) if not one.plan.lacks_bytes), 0)
    return tuple(near[first : first + 1] + near[:first] + near[first + 1 :])


def _mended(n: Counts, rows: Sequence[Degrees]) -> Iterator[tuple[Degrees, tuple[Change, ...]]]:
    """Each combination that is near, and what mends it; one of those that differ in the last axis,
    the micro-batch."""
    for _, alike in groupby(rows, key=lambda row: row[:-1]):
        if near := [(row, mending) for row in alike if (mending := changes(n, row))]:
            yield min(near, key=_rank)


def _rank(mended: tuple[Degrees, tuple[Change, ...]]) -> tuple[Fraction, str, int]:
    first = mended[1][0]
    return first.factor, first.quantity, first.value


def _closest(n: Counts, row: Degrees, quantity: str) -> tuple[int, ...]:
    """The values of a quantity next below and next above the given one that a rule asks for."""
    if quantity == "seq":
        pieces = n.pieces * row.cp
        least = -(-max(n.least_chunk * row.cp, 1) // pieces) * pieces
        return _multiples(n.seq, pieces, least)
    if quantity == "batch":
        share = n.cards // row.size * row.micro_batch
        return _multiples(n.batch, share, share)
    count, rest = divmod(n.batch, row.micro_batch)
    if rest or (n.held and count % n.held):
        return ()
    ranks = (n.held,) if n.held else _divisors(count)
    place = bisect(ranks, n.cards // row.size)
    return tuple(row.size * data for data in ranks[max(place - 1, 0) : place + 1])


def _multiples(given: int, step: int, least: int) -> tuple[int, ...]:
    """The multiples next below and above a number, none below `least`, which is one of them."""
    below = given // step * step
    return (below, below + step) if below >= least else (least,)


@lru_cache(maxsize=64)
def _divisors(count: int) -> tuple[int, ...]:
    return tuple(int(x) for x in sp.divisors(count))
