"""What survives rounding: splits of a slice into whole mesh axes, with their loads.

A closed form gives a real-valued optimum. A mesh has whole degrees, so a threshold that is cleared
at the optimum can fail at every split that exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product as combinations
from math import prod

import sympy as sp

from derive.cost.assumptions import Assumptions, assume
from derive.cost.network import TORUS_AXES
from derive.cost.strategies import Strategy, as_strategy
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, quoted
from derive.notation.quantity import number
from derive.solve.binding import Giver, Values, bind, values_from
from derive.solve.conditions import Condition, conditions

SPLITS = ("divisors", "powers_of_two", "torus")
LARGEST = 10**7
FEASIBLE_DEFAULT = Assumptions(form="exact")


@dataclass(frozen=True)
class Candidate:
    """A split: the degree of each mesh axis, the torus axes each has, and whether it wraps.

    `loads` are (passes, networks, load) with exact numbers; `load` is the largest of them.
    """

    degrees: tuple[tuple[str, int], ...]
    torus_axes: tuple[tuple[str, sp.Rational], ...]
    chips: int
    idle: int
    loads: tuple[tuple[str, str, sp.Rational], ...]

    @property
    def load(self) -> sp.Rational:
        return max((load for _, _, load in self.loads), default=sp.S.Zero)

    @property
    def compute_bound(self) -> bool:
        return bool(self.load <= 1)

    @property
    def ratio(self) -> sp.Rational:
        """Computation time over communication time; at least 1 where compute-bound."""
        return sp.oo if self.load == 0 else 1 / self.load

    def degree(self, axis: sp.Symbol) -> int:
        return dict(self.degrees)[axis.name]


@dataclass(frozen=True)
class Feasible:
    """All candidate splits of a slice in order of the last axis's degree."""

    strategy: Strategy
    chips: int
    splits: str
    candidates: tuple[Candidate, ...]
    assumptions: Assumptions

    @property
    def compute_bound(self) -> tuple[Candidate, ...]:
        return tuple(c for c in self.candidates if c.compute_bound)

    @property
    def best(self) -> Candidate | None:
        """The compute-bound split with the smallest load, fewest idle chips first on a tie."""
        return min(self.compute_bound, key=lambda c: (c.load, c.idle), default=None)

    def degrees(self, axis: sp.Symbol) -> tuple[int, ...]:
        """The degrees of an axis at which the slice stays compute-bound, ascending."""
        return tuple(sorted({c.degree(axis) for c in self.compute_bound}))

    def __str__(self) -> str:
        lines = [f"{self.strategy.title} on {self.chips:,} chips, {self.splits}:"]
        width = 40 if self.splits == "torus" else 24
        for c in self.candidates:
            mesh = " x ".join(f"{name}={n:,}" for name, n in c.degrees)
            mesh += "".join(f" {name}={n}" for name, n in c.torus_axes)
            verdict = "compute-bound" if c.compute_bound else "communication-bound"
            idle = f", {c.idle:,} chips idle" if c.idle else ""
            lines.append(f"  {mesh:<{width}} T_math/T_comms {float(c.ratio):8.3f}  {verdict}{idle}")
        lines.append(f"  {len(self.compute_bound)} of {len(self.candidates)} are compute-bound")
        lines.append("  assumptions:")
        lines += [f"    {k}: {text}" for k, text in self.assumptions.described().items()]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        names = [name for name, _ in self.candidates[0].degrees] if self.candidates else []
        titles = [*names, "T_math/T_comms", "compute-bound", "idle chips"]
        rows = [
            [
                *(f"{n:,}" for _, n in c.degrees),
                f"{float(c.ratio):.3f}",
                "yes" if c.compute_bound else "no",
                f"{c.idle:,}",
            ]
            for c in self.candidates
        ]
        lines = [f"| {' | '.join(row)} |" for row in (titles, ["--:"] * len(titles), *rows)]
        return "\n".join(lines)


def feasible(
    strategy: Strategy,
    chips: int,
    *givers: Giver,
    splits: str = "divisors",
    shape: tuple[int, ...] | None = None,
    assumptions: Assumptions = FEASIBLE_DEFAULT,
    values: Mapping[str, object] | None = None,
    **named: object,
) -> Feasible:
    """The splits of `chips` chips and whether each is compute-bound, with exact collectives unless
    form="large-n" is given.

    `splits`: divisors of the slice; powers_of_two, which may leave chips idle; or torus, where an
    axis of `shape` goes to a mesh axis whole, or is cut, and then does not wrap. Further names are
    assumptions (overlap="serial") or values of symbols (B=4194304).
    """
    strategy = as_strategy(strategy)
    changes = {k: x for k, x in named.items() if k in assumptions.described()}
    rest = {k: x for k, x in named.items() if k not in changes} | dict(values or {})
    assumptions = assume(assumptions, **changes)
    if splits not in SPLITS:
        raise DeriveError(f"splits: expected one of {', '.join(SPLITS)}, found {quoted(splits)}")
    if not isinstance(chips, int) or isinstance(chips, bool) or not 1 <= chips <= LARGEST:
        raise DeriveError(f"chips: expected a whole number from 1 to {LARGEST:,}, found {chips}")
    if not 1 <= len(strategy.mesh) <= 2 or v.N in strategy.chips.free_symbols:
        raise DeriveError(f"{strategy.name} has no mesh of one or two axes to split chips over")
    bound = values_from(givers, rest, assumptions)
    loads = [_Load(c, bound, strategy.mesh) for c in conditions(strategy, assumptions)]
    made = [
        _candidate(chips, degrees, axes, loads)
        for degrees, axes in _splits(strategy, chips, splits, shape)
    ]
    ordered = sorted(made, key=lambda c: (c.degrees[-1][1], c.degrees, c.torus_axes))
    return Feasible(strategy, chips, splits, tuple(ordered), assumptions)


Pairs = tuple[tuple[str, int], ...]
TorusAxes = tuple[tuple[str, sp.Rational], ...]


def _splits(
    strategy: Strategy, chips: int, splits: str, shape: tuple[int, ...] | None
) -> Iterator[tuple[Pairs, TorusAxes]]:
    names = [axis.name for axis in strategy.mesh]
    if splits == "torus":
        if shape is None or prod(shape) != chips:
            raise DeriveError(
                f"torus: expected a shape whose sizes multiply to {chips}, found {shape}"
            )
        yield from _torus(names, shape)
        return
    whole = divisors(chips) if splits == "divisors" else _powers_of_two(chips)
    for last in whole if len(names) == 2 else [1]:
        first = chips // last
        if splits == "powers_of_two":
            first = 1 << (first.bit_length() - 1)
        pairs = ((names[0], first), (names[1], last)) if len(names) == 2 else ((names[0], first),)
        yield pairs, ()


def divisors(n: int) -> list[int]:
    """The divisors of n in ascending order."""
    low = [d for d in range(1, int(n**0.5) + 1) if n % d == 0]
    return low + [n // d for d in reversed(low) if d * d != n]


def _powers_of_two(n: int) -> list[int]:
    return [1 << k for k in range(n.bit_length())]


def _torus(names: list[str], shape: tuple[int, ...]) -> Iterator[tuple[Pairs, TorusAxes]]:
    """Each torus axis to the last mesh axis by a divisor of its length, the rest to the first.

    A group that has a whole torus axis counts it as one axis. A part of a torus axis has no
    wraparound, and so half the bandwidth: it counts as half an axis where the group has no whole
    one, and adds nothing beside whole ones.
    """
    if len(names) == 1:
        whole = sum(1 for size in shape if size > 1)
        yield ((names[0], prod(shape)),), ((f"M_{names[0]}", sp.Integer(max(whole, 1))),)
        return
    seen = set()
    for cut in combinations(*(divisors(size) for size in shape)):
        parts = {names[1]: cut, names[0]: tuple(s // c for s, c in zip(shape, cut, strict=True))}
        degrees = tuple((n, prod(parts[n])) for n in names)
        axes = tuple((f"M_{n}", _torus_axes(parts[n], shape)) for n in names)
        if (degrees, axes) not in seen:
            seen.add((degrees, axes))
            yield degrees, axes


def _torus_axes(part: tuple[int, ...], shape: tuple[int, ...]) -> sp.Rational:
    whole = sum(1 for p, size in zip(part, shape, strict=True) if p == size > 1)
    parts = sum(1 for p, size in zip(part, shape, strict=True) if 1 < p < size)
    return sp.Integer(whole) if whole else sp.Rational(max(parts, 1), 2)


class _Load:
    """A condition with everything bound but the mesh and its torus axes; those are put in for each
    split, in exact numbers."""

    def __init__(self, of: Condition, bound: Values, mesh: tuple[sp.Symbol, ...]) -> None:
        self.passes, self.where = " and ".join(of.passes), "+".join(of.where)
        axes = {symbol: bind(symbol, bound).value for symbol in TORUS_AXES.values()}
        known = {s: q.value for s, q in bound.items() if s not in mesh and s not in axes}
        # The degrees are bound last; one stands in for them here, so that a missing value is named.
        ones = {s: number(1, v.unit_of_symbol(s), s.name) for s in mesh}
        bind(of.load, {**bound, **ones})
        self.load, self.axes = of.load.xreplace(known), axes

    def at(self, degrees: Pairs, torus_axes: TorusAxes) -> sp.Rational:
        named = {v.find(name): sp.Rational(value) for name, value in (*degrees, *torus_axes)}
        return self.load.xreplace({**self.axes, **named})


def _candidate(chips: int, degrees: Pairs, torus_axes: TorusAxes, loads: list[_Load]) -> Candidate:
    here = tuple((x.passes, x.where, x.at(degrees, torus_axes)) for x in loads)
    used = prod(degree for _, degree in degrees)
    return Candidate(degrees, torus_axes, used, chips - used, here)
