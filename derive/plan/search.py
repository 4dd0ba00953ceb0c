"""The search: every combination of degrees, rejected with a reason or ranked by the step time.

Rules on one degree are checked per value, divisibility as each axis joins, and the step model runs
in float64 on what is left, in blocks that stay in cache; so memory does not grow with the grid. A
plan whose recomputed layers lie within rounding of a step is decided exactly: a ceiling is taken
`SLACK` below its argument, and what it acts on leaves an edge, how far that lies below the whole
number it is rounded up to. Times that differ by less than 1e-12 relatively are ties, in the order
of enumeration: that of the axes, the micro-batch last. Plans that are shown are evaluated again
exactly (`plan_of`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np
import sympy as sp

from derive.notation import symbols as v
from derive.notation.errors import DeriveError, guarded, whole_number, written
from derive.notation.frames import frame
from derive.notation.printed import as_text
from derive.plan import report
from derive.plan.axes import AXES, NAMED, PLACE, REASONS, Counts, Degrees, Space, degrees
from derive.plan.nearest import CLOSEST, Near, let_go, nearest
from derive.plan.plan import Plan, in_blocks, least_memory, plan_of
from derive.plan.task import DEGREES, Task
from derive.solve.evaluate import BLOCK, as_float, floats

DENSE = 0.3  # above this share of a block, it is quicker to evaluate all of it
NEARLY = 1 - 1e-12  # of a time, down to where an earlier one ties with it
SLACK = 1e-8  # an argument of a ceiling that is whole is rounded up to itself, if less far off
AT_A_STEP = 3 * SLACK  # an edge below this is within the slack of a step, with room for rounding
ROUNDINGS = 64  # more than the model has in a row


@guarded
@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """The outcome of a search: the plans that fit, in rank order, and why the others do not.

    `degrees` holds a row for each of AXES, and a column for each plan that was kept; `seconds` are
    their step times in float64. `fit` is how many fit, `rejected` how many each of REASONS rejects,
    those that reject none left out. `too_large` are the plans that lack the least memory, where
    none fits.
    """

    task: Task
    space: Space
    fit: int
    rejected: Mapping[str, int]
    degrees: Any
    seconds: Any
    too_large: tuple[Plan, ...] = ()

    def __repr__(self) -> str:
        """What is planned, the first plans and the counts, as `derive plan` prints them."""
        return as_text(self.lines(self.plans(report.TOP)))

    @cached_property
    def near(self) -> tuple[Near, ...]:
        """The combinations that are nearest to passing the rules on whole numbers, if none does."""
        return () if self.fit or self.too_large else nearest(self.task, self.space)

    @cached_property
    def instead(self) -> tuple[str, Plan] | None:
        """What the task would have to let go, and the best plan that then fits; None where that is
        told already, or there is none."""
        if self.fit or (self.near and not self.near[0].plan.lacks_bytes):
            return None
        for told, under in let_go(self.task):
            with suppress(DeriveError):  # what is no task: another degree that it takes is missing
                if (ranking := search(under, top=1)).fit:
                    return told, ranking.plan(1)
        return None

    @property
    def cause(self) -> str:
        """Why nothing fits, a key of REASONS: memory where a plan lacks that alone, unless stages
        that are not even would fit; else the last rule that any combination came to."""
        if self.instead and self.instead[0] == "uneven_stages":
            return "layers"
        return [*self.rejected][-1]

    @property
    def candidates(self) -> int:
        """How many combinations there are, rejected ones included."""
        return self.space.size

    def lines(self, plans: Sequence[Plan]) -> list[str]:
        """What is planned, some first plans or what is nearest, and how many fit and do not."""
        if self.fit:
            lines = report.table(plans) if len(plans) != 1 else report.one_plan(plans[0])
        else:
            lines = report.nothing(self.task, self.cause, self.too_large, self.near)
            lines += [f"  fits: {self.instead[0]}: {self.instead[1]!r}"] if self.instead else []
        fit = "1 plan fits" if self.fit == 1 else f"{self.fit:,} plans fit"
        combinations = "combination" if self.candidates == 1 else "combinations"
        return [
            str(self.task),
            *report.conditions(self.task),
            *lines,
            f"{fit} of {self.candidates:,} {combinations}",
            *(f"  {n:,} rejected: {report.reason(self.task, r)}" for r, n in self.rejected.items()),
            *report.basis(self.task),
        ]

    def __getitem__(self, axis: sp.Symbol) -> Any:
        """The degrees of one axis of the plans that were kept, in rank order."""
        return self.degrees[DEGREES.index(axis)].astype(int)

    def plans(self, top: int = 0) -> tuple[Plan, ...]:
        """The first `top` plans (0: all that were kept), each evaluated exactly; raises DeriveError
        where `top` is no whole number."""
        whole_number("top", top, 0)
        return tuple(plan_of(self.task, row) for row in _rows(self.degrees[:, : top or None]))

    def frame(self, top: int = 0) -> Any:
        """A pandas DataFrame: a row for each of the first `top` plans (0: all that were kept), by
        rank, its columns named as those of `derive plan --json`, with the task in `attrs`. Raises
        DeriveError where pandas is missing."""
        told = {"task": str(self.task), "rests_on": report.conditions(self.task)}
        made = frame((plan.row for plan in self.plans(top)), told, start=1)
        made.index.name = "rank"
        return made

    def plan(self, rank: int) -> Plan:
        """The plan of that rank, from 1, evaluated exactly; raises DeriveError for none."""
        place = whole_number("rank", rank, 1, len(self.seconds)) - 1
        return plan_of(self.task, next(_rows(self.degrees[:, place:])))

    def rank(self, **wanted: int) -> int:
        """The rank, from 1, of the best plan with some degrees by name; raises DeriveError for
        none."""
        places = {PLACE[NAMED[name].name]: degree for name, degree in wanted.items()}
        for rank, row in enumerate(_rows(self.degrees), 1):
            if all(row[place] == degree for place, degree in places.items()):
                return rank
        shown = " ".join(f"{NAMED[name].symbol}={written(x)}" for name, x in wanted.items())
        raise DeriveError(f"no plan that fits has {shown}")


def _rows(columns: Any) -> Iterator[Degrees]:
    return (Degrees(map(int, column)) for column in columns.T)


@guarded
def search(task: Task, space: Space | None = None, *, top: int = 0) -> Ranking:
    """Every plan of the space (by default `task.space`) that fits, best first.

    `top` bounds how many are kept (0: all), and with it the memory. Raises DeriveError for a `top`
    that is no whole number, and where the task fixes degrees that no plan has.
    """
    whole_number("top", top, 0)
    grid = task.space if space is None else space
    step = task.step
    function = in_blocks(step, (v.L_r, step.lacking, step.seconds))
    blurred = blur(task)
    lost: Counter[str] = Counter()
    kept: list[tuple[Any, Any]] = []
    fit, held, place, worst = 0, 0, 0, inf
    with np.errstate(all="ignore"):
        for block in _blocks(task.counts, grid, lost):
            edges = Edges(blurred)
            values = {**task.floats, **block.columns}
            redo, lacking, seconds = function(edges.arithmetic, values)
            fits = block.good & (lacking <= 0)
            # Not "<": what is not a number is to be decided as well.
            if not np.min(edges.least) >= edges.near or not np.max(seconds) < inf:
                close = block.good & edges.undecided(redo, seconds, task.counts.layers)
                seconds = np.array(np.broadcast_to(seconds, fits.shape))
                decided = [plan_of(task, row) for row in _rows(block.written(close, 0)[:-1])]
                fits[close] = [not plan.lacks_bytes for plan in decided]
                seconds[close] = [as_float(plan.step_seconds) for plan in decided]
            seconds = np.broadcast_to(seconds, fits.shape)
            number = int(np.count_nonzero(fits))
            fit += number
            lost["memory"] += int(np.count_nonzero(block.good)) - number
            if top and number > top and worst == inf:
                worst = np.partition(seconds[fits], top - 1)[top - 1] / NEARLY
            if top and number:
                fits = fits & (seconds <= worst)
            if fits.any():
                kept.append((block.written(fits, place), seconds[fits]))
                held += len(kept[-1][1])
            place += fits.size
            if top and held > max(4 * top, BLOCK):
                kept = [_ranked(kept, top)]
                held = len(kept[0][1])
                worst = kept[0][1][-1]  # those that tie with it stand before what is to come
    degrees, seconds = _ranked(kept, top) if kept else (np.empty((len(AXES) + 1, 0)), np.empty(0))
    lacking = () if fit else _too_large(task, grid)
    rejected = {reason: lost[reason] for reason in REASONS if lost[reason]}
    return Ranking(task, grid, fit, rejected, degrees[:-1], seconds, lacking)


class _Block(NamedTuple):
    """Combinations that pass every rule but memory, in the order of enumeration: arrays by axis
    that broadcast to a block, and a mask of those that pass. All axes but the last are columns;
    where few pass, the last is one as well, with only those that pass."""

    columns: dict[sp.Symbol, Any]
    good: Any

    def written(self, chosen: Any, start: int) -> Any:
        """The chosen plans: a row for each axis, and one of their places from `start` on."""
        rows = [np.broadcast_to(x, chosen.shape)[chosen] for x in self.columns.values()]
        return np.stack([*rows, start + np.flatnonzero(chosen)])


def _blocks(n: Counts, grid: Space, lost: Counter[str]) -> Iterator[_Block]:
    """What every rule but memory lets pass; how many it does not is added to `lost`, by reason."""
    rest = grid.size
    values: list[tuple[int, ...]] = []
    for axis, row in zip(AXES, grid.values, strict=True):
        reasons = [axis.rule(n, x) for x in row]
        each = rest // max(1, len(row))
        for reason in filter(None, reasons):
            lost[reason] += each
        values.append(tuple(x for x, reason in zip(row, reasons, strict=True) if reason is None))
        rest = each * len(values[-1]) if row else rest
    if not rest:
        return
    blocks = iter([np.ones((len(AXES) - 1, 1))])
    for place in range(len(AXES) - 1):
        rest //= max(1, len(values[place]))
        blocks = _joined(n, blocks, place, values[place], rest, lost)
    last = np.array(values[-1], dtype=np.float64)[None, :]
    for block in blocks:
        step = max(1, BLOCK // last.shape[1])
        for start in range(0, block.shape[1], step):
            some = block[:, start : start + step, None]
            for first in range(0, last.shape[1], BLOCK):
                columns = dict(zip(DEGREES, [*some, last[:, first : first + BLOCK]], strict=True))
                good = _dividing(n, len(AXES) - 1, columns, 1, lost)
                share = np.count_nonzero(good) / good.size
                if share > DENSE:
                    yield _Block(columns, good)
                elif share:
                    every = columns.items()
                    few = {s: np.broadcast_to(x, good.shape)[good][:, None] for s, x in every}
                    yield _Block(few, np.ones_like(few[DEGREES[-1]], dtype=bool))


def _joined(
    n: Counts,
    blocks: Iterator[Any],
    place: int,
    values: Sequence[int],
    each: int,
    lost: Counter[str],
) -> Iterator[Any]:
    """Blocks of combinations with one axis more, of which each stands for `each` combinations."""
    axis = AXES[place]
    step = max(1, BLOCK // max(1, len(values)))
    for block in blocks:
        for start in range(0, block.shape[1], step):
            some = np.repeat(block[:, start : start + step], max(1, len(values)), axis=1)
            if axis.values:
                some[place] = np.tile(values, some.shape[1] // len(values))
            else:
                sizes = [some[k] for k, one in enumerate(AXES[:place]) if "cards" in one.divides]
                some[place] = n.cards / prod(sizes)
                if n.held is not None:
                    good = some[place] == n.held
                    lost["held"] += each * int(np.count_nonzero(~good))
                    some = some[:, good]
            good = _dividing(n, place, dict(zip(DEGREES, some, strict=False)), each, lost)
            if good.any():
                yield some[:, good]


def _dividing(
    n: Counts, place: int, columns: Mapping[sp.Symbol, Any], each: int, lost: Counter[str]
) -> Any:
    """Which combinations of the axes up to a place divide what its axis has to."""
    good = np.ones(np.broadcast_shapes(*(x.shape for x in columns.values())), dtype=bool)

    def lose(good: Any, holds: Any, reason: str) -> Any:
        left = good & holds
        lost[reason] += each * (int(np.count_nonzero(good)) - int(np.count_nonzero(left)))
        return left

    for quantity in AXES[place].divides:
        factors = [columns[a.symbol] for a in AXES[: place + 1] if quantity in a.divides]
        # Below 2**52 a quotient of whole numbers is whole in float64 only where it is in truth.
        quotient = getattr(n, quantity) / prod(factors)
        good = lose(good, quotient == np.floor(quotient), quantity)
    named = {axis.name: columns[axis.symbol] for axis in AXES[: place + 1]}
    for joint in AXES[place].joint:
        good = lose(good, joint.holds(n, named), joint.reason)
    return good


def _ranked(kept: list[tuple[Any, Any]], top: int) -> tuple[Any, Any]:
    """The plans of several blocks, ranked, and cut to `top` where it is not 0."""
    degrees = np.concatenate([rows for rows, _ in kept], axis=1)
    seconds = np.concatenate([times for _, times in kept])
    order = seconds.argsort(kind="stable")
    ranked = seconds[order]
    apart = ~tied(ranked[:-1], ranked[1:])
    if not apart.all():
        # The order of enumeration within each group of ties: by place, which is the last row.
        group = np.concatenate(([0], apart.cumsum()))
        order = order[np.lexsort((degrees[-1][order], group))]
    if top:
        order = order[:top]
    return degrees[:, order], seconds[order]


def _too_large(task: Task, grid: Space) -> tuple[Plan, ...]:
    """The plans that lack the least memory with every layer recomputed, the least first."""
    best: list[tuple[float, Degrees]] = []
    with np.errstate(all="ignore"):
        for block in _blocks(task.counts, grid, Counter()):
            sizes = np.broadcast_to(least_memory(task, block.columns), block.good.shape)[block.good]
            least = sizes.argsort(kind="stable")[:CLOSEST]
            rows = _rows(block.written(block.good, 0)[:-1, least])
            best += zip(sizes[least].tolist(), rows, strict=True)
            best = sorted(best, key=lambda pair: pair[0])[:CLOSEST]
    plans = (plan_of(task, row) for _, row in best)
    return tuple(sorted(plans, key=lambda plan: plan.lacks_bytes))


def blur(task: Task) -> float:
    """How far float64 may be off, in layers, where it says how many are recomputed.

    That number is a sum of bytes over those that a recomputed layer saves. Rounding takes part of
    the states and of what the layers keep, over the same; both are largest where the context group
    is, since it splits what is saved and not the parameters.
    """
    n, counts = plan_of(task, degrees(pp=task.counts.given or 1, dp=1)).numbers, task.counts
    saved = n[v.a_1] - n[v.a_0]
    kept = (counts.layers + 2) * n[v.a_1] + n.get(v.M_logits, Fraction(0))
    context = min(counts.cards, max(1, counts.seq // max(1, counts.least_chunk)))
    return ROUNDINGS * 2.0**-53 * as_float((context * n[v.M_states] + kept) / saved)


class Edges:
    """float64's arithmetic with its ceilings watched.

    `least` is the smallest edge of each plan, or its smallest distance from a step on either side
    where `blurred`, how far rounding may be off, is above a slack; `near` is below what of that a
    plan is to be decided exactly.
    """

    def __init__(self, blurred: float) -> None:
        self.blurred = blurred
        self.near = AT_A_STEP if blurred <= SLACK else 3 * blurred
        self.least: Any = 1.0
        self.arithmetic = {**floats(), "ceil": self._ceil}

    def _ceil(self, values: Any) -> Any:
        ceil, smaller = floats()["ceil"], floats()["min"]
        low = values - SLACK
        steps = ceil(low)
        edge = steps - low
        self.least = smaller(self.least, edge)
        if self.blurred > SLACK:
            self.least = smaller(self.least, 1 - edge)
        return steps

    def undecided(self, redo: Any, seconds: Any, layers: int) -> Any:
        """Whether float64 leaves open how many layers are recomputed, or how long a step takes. A
        plan that needs more layers than the model has is not open."""
        at_a_step = (self.least < self.near) & (redo <= layers + 1 + self.blurred)
        # Infinity, or not a number: what float64 does not hold. A number is equal to itself.
        strange = (self.least != self.least) | (seconds != seconds) | (seconds == inf)
        return at_a_step | strange


def tied(earlier: Any, later: Any) -> Any:
    """Whether a time and one that is not before it are equal within rounding: numbers or arrays."""
    return later * NEARLY <= earlier
