"""What survives rounding: splits of a slice into whole mesh axes, with their loads.

A closed form gives a real-valued optimum. A mesh has whole degrees, so a threshold that is cleared
at the optimum can fail at every split that exists.

On a torus a mesh axis takes torus axes whole, or two mesh axes cut one between them. Of a torus
axis that is cut, one group has blocks of neighbours, lines with no way round: half the bandwidth of
a ring. The other has every b-th chip, b the length of those blocks: rings that go all the way round
with b of them on each link, so that each has a b-th of the bandwidth. Which is which is free to
choose, axis by axis. A group that has whole torus axes sends nearly all over them, since its data
has grown by them: what it has of cut ones counts for nothing. Where neither group has a whole axis,
both send over the same links all the time, and their times add.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product as combinations
from math import prod
from typing import Any

import sympy as sp

from derive.cost.assumptions import CHOICES, Assumptions, assume
from derive.cost.load import Requirement
from derive.cost.network import TORUS_AXES
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, guarded, quoted, whole_number, written
from derive.notation.frames import frame
from derive.notation.printed import Rounding, printed
from derive.notation.quantity import Quantity, evaluated, number
from derive.notation.units import one
from derive.solve.answer import assumption_lines, folded, input_lines
from derive.solve.evaluate import computed
from derive.solve.links import deciding, suited
from derive.solve.question import Subject, question, requirement
from derive.solve.values import Giver, filled, typed_values, values_for, whole

SPLITS = ("divisors", "powers_of_two", "torus")
LARGEST = 10**7
EXACT = assume(form="exact")


@dataclass(frozen=True)
class Candidate:
    """A split: the degree of each mesh axis and the torus axes each has.

    `loads` are (passes, networks, load) with exact numbers, `formulas` what each was computed by;
    `load` is the largest of them.
    """

    degrees: tuple[tuple[str, int], ...]
    torus_axes: tuple[tuple[str, sp.Rational], ...]
    chips: int
    idle: int
    loads: tuple[tuple[str, str, sp.Rational], ...]
    formulas: tuple[sp.Expr, ...] = ()

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

    @property
    def ratio_text(self) -> str:
        """The ratio, rounded down: what is below 1 does not read 1.000."""
        down = Rounding("decimals", 3, toward="down")
        return printed(self.ratio, down) if self.ratio.is_finite else "inf"

    @property
    def row(self) -> dict[str, Any]:
        """The split as data; a ratio beyond every number is None."""
        return {
            "degrees": dict(self.degrees),
            "torus_axes": {name: float(n) for name, n in self.torus_axes},
            "chips": self.chips,
            "idle": self.idle,
            "ratio": float(self.ratio) if self.ratio.is_finite else None,
            "compute_bound": self.compute_bound,
        }

    def degree(self, axis: sp.Symbol) -> int:
        return dict(self.degrees)[axis.name]


@dataclass(frozen=True)
class Feasible:
    """All candidate splits of a slice in order of the last axis's degree; `inputs` are the values
    that their loads take."""

    subject: Subject
    title: str
    chips: int
    splits: str
    candidates: tuple[Candidate, ...]
    requirement: Requirement
    inputs: tuple[tuple[str, Quantity], ...]
    notes: tuple[str, ...] = ()

    @property
    def compute_bound(self) -> tuple[Candidate, ...]:
        return tuple(c for c in self.candidates if c.compute_bound)

    @property
    def best(self) -> Candidate | None:
        """The compute-bound split with the smallest load; of equal ones the first in order."""
        return min(self.compute_bound, key=lambda c: c.load, default=None)

    def degrees(self, axis: sp.Symbol) -> tuple[int, ...]:
        """The degrees of an axis at which the slice stays compute-bound, ascending."""
        return tuple(sorted({c.degree(axis) for c in self.compute_bound}))

    def quantity(self, split: Candidate, axis: sp.Symbol) -> Quantity:
        """The degree of a mesh axis, or its torus axes (M_X), in one of the splits."""
        count = dict((*split.degrees, *split.torus_axes))[axis.name]
        known, of = v.meaning(axis), f"of {self.chips:,} chips"
        return number(count, known.unit, axis.name, basis=f"{known.gloss} {of}", status="derived")

    def margin(self, split: Candidate, network: str = "") -> Quantity | None:
        """Computation over communication of one of the splits, on one network or on the slowest,
        with the formula and all that it takes; None where there is no communication."""
        each = zip(split.loads, split.formulas, strict=True)
        loads = [(x, total) for (_, at, x), total in each if network in ("", at) and x]
        if not loads:
            return None
        _, total = max(loads, key=lambda load: load[0])
        axes = (v.find(name) for name, _ in (*split.degrees, *split.torus_axes))
        here = {axis: self.quantity(split, axis) for axis in axes}
        known = {v.find(x): q for x, q in self.inputs}
        return evaluated(1 / total, known | here, one, f"T_math/T_{network or 'comms'}")

    def frame(self) -> Any:
        """A pandas DataFrame: a row for each candidate, its columns named as those of `derive ask
        --feasible --json`, with what it rests on in `attrs`. Raises DeriveError where pandas is
        missing."""
        return frame((c.row for c in self.candidates), {"rests_on": self.rests_on})

    def __str__(self) -> str:
        lines = [f"{self.title} on {self.chips:,} chips, {self.splits}:"]
        width = 40 if self.splits == "torus" else 24
        for c in self.candidates:
            mesh = " x ".join(f"{name}={n:,}" for name, n in c.degrees)
            mesh += "".join(f" {name}={n}" for name, n in c.torus_axes)
            verdict = "compute-bound" if c.compute_bound else "communication-bound"
            idle = f", {c.idle:,} chips idle" if c.idle else ""
            lines.append(f"  {mesh:<{width}} T_math/T_comms {c.ratio_text:>8}  {verdict}{idle}")
        lines.append(f"  {len(self.compute_bound)} of {len(self.candidates)} are compute-bound")
        return "\n".join([*lines, *self.rests_on])

    __repr__ = __str__

    @property
    def rests_on(self) -> list[str]:
        """Notes, inputs with their sources, and assumptions, a line each."""
        notes = [f"  note: {note}" for note in self.notes]
        return [*notes, *input_lines(self.inputs), *assumption_lines(self.requirement.described)]

    def _repr_markdown_(self) -> str:
        names = [name for name, _ in self.candidates[0].degrees] if self.candidates else []
        titles = [*names, "T_math/T_comms", "compute-bound", "idle chips"]
        rows = [titles, ["--:"] * len(titles)]
        for c in self.candidates:
            verdict = "yes" if c.compute_bound else "no"
            rows.append([*(f"{n:,}" for _, n in c.degrees), c.ratio_text, verdict, f"{c.idle:,}"])
        lines = [f"| {' | '.join(row)} |" for row in rows]
        given = (v.find(name) for name, _ in self.inputs)
        symbols = (*self.requirement.mesh, v.T_math, v.T_comms, *given)
        return folded("\n".join(lines), symbols, self.rests_on)


def feasible(
    subject: Subject,
    chips: object,
    *givers: Giver,
    splits: str = "divisors",
    shape: tuple[int, ...] | None = None,
    assumptions: Assumptions | str = EXACT,
    values: Mapping[str, object] | None = None,
    **named: object,
) -> Feasible:
    """The splits of `chips` chips and whether each is compute-bound, with exact collectives unless
    form="large-n" is given.

    `splits`: divisors of the slice; powers_of_two, which may leave chips idle; or torus, where an
    axis of `shape` goes to a mesh axis whole, or is cut between two. Further names are assumptions
    (overlap="serial") or values of symbols (B=4194304), of which those that play no part are noted.
    """
    changes = {k: x for k, x in named.items() if k in CHOICES}
    by_name = typed_values({k: x for k, x in named.items() if k not in changes})
    typed = typed_values(values or {})
    if twice := by_name.keys() & typed.keys():
        raise DeriveError(f"{min(map(str, twice))} is given twice, by name and in values")
    rest = {symbol.name: quantity for symbol, quantity in (by_name | typed).items()}
    need = requirement(subject, None, assumptions, (), **changes)
    if splits not in SPLITS:
        raise DeriveError(f"splits: expected one of {', '.join(SPLITS)}, found {quoted(splits)}")
    chips = whole(chips, v.N, "chips", LARGEST)
    if not 1 <= len(need.mesh) <= 2 or v.N in need.chips.free_symbols:
        raise DeriveError(f"{need.name} has no mesh of one or two axes to split chips over")
    # The degrees are chosen here, and the torus axes with them where the torus is cut.
    asked = question(v.M_X if splits == "torus" else need.mesh[0])
    under = suited(subject, asked, need.assumptions, givers, {**rest, "N": chips})
    if splits == "torus" and under.network not in ("chip", "torus"):
        told = f"torus cuts the axes of a torus, and the network is {under.network}"
        raise DeriveError(f"splits: {told}; divisors takes any")
    before = need.assumptions
    need = requirement(subject, None, under)
    chosen = [v.N, *need.mesh, *(TORUS_AXES.values() if splits == "torus" else ())]
    if given := [symbol.name for symbol in chosen if symbol.name in rest]:
        raise DeriveError(f"feasible {splits} chooses {given[0]}; leave out {given[0]}")
    bound = values_for(need, givers, rest)
    needed = {s for load in need.loads for s in load.total.free_symbols} - {*need.mesh}
    full = filled(needed, need, None, bound)
    known = full.checked()
    numbers = {symbol: quantity.value for symbol, quantity in known.items()}
    added = need.loads
    if splits == "torus":
        serial = requirement(subject, None, assume(need.assumptions, overlap="serial"))
        added = serial.loads
        most = int(bound[v.M_axes].value) if v.M_axes in bound else 3
        sizes = [whole_number("shape", size) for size in (shape or ())[: most + 1]]
        if not 0 < len(sizes) <= most or prod(sizes) != chips:
            told = f"of 1 to {most} sizes that multiply to {chips}"
            raise DeriveError(f"torus: expected a shape {told}, found {written(shape)}")
    candidates = []
    for cut in dict.fromkeys(_splits(need, chips, splits, shape or ())):
        chosen_here = (*cut.degrees, *cut.torus_axes)
        here = numbers | {v.find(name): sp.Rational(n) for name, n in chosen_here}
        of_cut = added if cut.shared else need.loads
        loads = tuple(
            (" and ".join(load.passes), "+".join(load.links), computed(load.total, here))
            for load in of_cut
        )
        formulas = tuple(load.total for load in of_cut)
        taken = prod(degree for _, degree in cut.degrees)
        split = (cut.degrees, cut.torus_axes, taken, chips - taken)
        candidates.append(Candidate(*split, loads, formulas))
    notes = full.idle(rest, deciding(subject, asked, before, under))
    inputs = tuple((s.name, known[s]) for s in sorted(needed - {*chosen}, key=v.rank))
    ordered = sorted(candidates, key=lambda c: (c.degrees[-1][1], c.degrees, c.torus_axes))
    title = getattr(subject, "title", need.name)
    return Feasible(subject, title, chips, splits, tuple(ordered), need, inputs, notes)


@dataclass(frozen=True)
class Cut:
    """The degree of each mesh axis, the bandwidth of each in torus axes, and whether they send over
    the same links."""

    degrees: tuple[tuple[str, int], ...]
    torus_axes: tuple[tuple[str, sp.Rational], ...] = ()
    shared: bool = False


def _splits(need: Requirement, chips: int, splits: str, shape: tuple[int, ...]) -> Iterator[Cut]:
    names = [axis.name for axis in need.mesh]
    if splits == "torus":
        yield from _torus(names, shape)
        return
    powers = [1 << k for k in range(chips.bit_length())]
    whole = sp.divisors(chips) if splits == "divisors" else powers
    for last in whole if len(names) == 2 else [1]:
        first = chips // last
        if splits == "powers_of_two":
            first = 1 << (first.bit_length() - 1)
        yield Cut(tuple(zip(names, (first, last), strict=False)))


def _torus(names: list[str], shape: tuple[int, ...]) -> Iterator[Cut]:
    """Each torus axis to the last mesh axis by a divisor of its length, the rest to the first."""
    if len(names) == 1:
        rings = sp.Integer(max(1, sum(1 for size in shape if size > 1)))
        yield Cut(((names[0], prod(shape)),), ((f"M_{names[0]}", rings),))
        return
    for lengths in combinations(*(sp.divisors(size) for size in shape)):
        parts = [(size // part, part) for size, part in zip(shape, lengths, strict=True)]
        degrees = tuple((name, prod(p[k] for p in parts)) for k, name in enumerate(names))
        whole = [_whole(k, parts) for k in (0, 1)]
        shared = any(min(p) > 1 for p in parts) and not any(whole)
        # A group with whole axes does not care; among two that do, blocks of two cost no one.
        either = [
            (0, 1) if shared and min(p) > 2 else (1 if p[1] == 2 or whole[0] else 0,) for p in parts
        ]
        for blocks in combinations(*either):
            axes = tuple((f"M_{name}", _axes_of(k, parts, blocks)) for k, name in enumerate(names))
            yield Cut(degrees, axes, shared)


def _whole(group: int, parts: list[tuple[int, int]]) -> int:
    """The torus axes that a group has whole."""
    return sum(1 for p in parts if p[group] > 1 == p[1 - group])


def _axes_of(group: int, parts: list[tuple[int, int]], blocks: tuple[int, ...]) -> sp.Rational:
    """The torus axes whose bandwidth a group has: the whole ones, or what it has of those that are
    cut, a half as blocks and a b-th as rings through the other's blocks of b. `blocks` says which
    group has the blocks of each."""
    if whole := _whole(group, parts):
        return sp.Integer(whole)
    shares = [
        sp.Rational(1, 2 if block == group else p[1 - group])
        for p, block in zip(parts, blocks, strict=True)
        if min(p) > 1
    ]
    return sum(shares, sp.S.Zero) or sp.Rational(1, 2)


# From a real-valued degree or size to one that exists: powers of two, and whole multiples.
@guarded
def power_of_two_below(size: Quantity) -> Quantity:
    """The largest power of two that is not above a quantity; raises DeriveError below 1."""
    return _named(size, sp.Integer(2) ** _exponent(size), "largest power of two not above n")


@guarded
def nearest_power_of_two(size: Quantity) -> Quantity:
    """The power of two that is nearest by ratio; of two equally near ones the larger."""
    low = _exponent(size)
    # By ratio, the middle between 2**k and 2**(k+1) is sqrt(2) * 2**k.
    up = bool(size.value**2 >= sp.Integer(2) ** (2 * low + 1))
    return _named(size, sp.Integer(2) ** (low + up), "power of two nearest n by ratio")


@guarded
def multiple_below(size: Quantity, step: int = 1) -> Quantity:
    """The largest whole multiple of `step` that is not above a quantity."""
    value = whole_number("step", step) * sp.floor(size.value / step)
    formula = "n rounded down" if step == 1 else f"largest multiple of {step} not above n"
    return _named(size, value, formula)


@guarded
def dividing_below(bound: Quantity, whole: int, step: int = 1) -> Quantity:
    """The largest multiple of `step` that is not above a quantity and by which, a `step` at a time,
    `whole` divides: the chips of replicas, for a batch of `whole` sequences. Raises DeriveError
    where there is none."""
    most = int(sp.floor(bound.value / whole_number("step", step)))
    replicas = [n for n in sp.divisors(whole_number("whole", whole, 1, LARGEST)) if n <= most]
    if not replicas:
        raise DeriveError(f"nothing of {step} and more divides {whole} and is at most {bound}")
    formula = f"largest multiple of {step} not above n, by which {whole} divides"
    return _named(bound, sp.Integer(step * replicas[-1]), formula)


def _exponent(size: Quantity) -> int:
    if not size.value >= 1:
        raise DeriveError(f"no power of two is at most {size}")
    return int(sp.floor(size.value)).bit_length() - 1


def _named(size: Quantity, value: sp.Expr, formula: str) -> Quantity:
    return Quantity(value, size.unit, size.name, formula=formula, inputs=(("n", size),))
