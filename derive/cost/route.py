"""The least route: of all that bring a tensor to a layout, that in which a device sends the fewest
bytes.

A tensor stands in a layout, as a whole or as a partial sum over mesh axes. From one such state to
another lead a slice, which is free, an all-gather or an all-to-all of the inner axes of a dimension
in their order, a permute between layouts whose shards have one shape, and what reduces a partial
sum. What a device sends is a share of the whole tensor that the degrees of the mesh axes alone
decide: the least route is the shortest path, and the same for a tensor of any size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from itertools import chain, combinations, combinations_with_replacement, count, pairwise
from itertools import permutations as orders
from math import comb, gcd, perm, prod
from typing import NamedTuple

import sympy as sp

from derive.cost.block import Layout, Tensor
from derive.cost.program import IN_PARTS, Collective, Operation, Sliced, moved, sent_part
from derive.cost.sizes import Sizes
from derive.notation.errors import ShardingError

MOST_LAYOUTS = 3000  # of one tensor that are searched
MOST_OF_ALL = 10_000  # of as many tensors as there are products
MANY = 700  # above which fewer axes are searched


# --- states and steps


class State(NamedTuple):
    """How a tensor stands: its layout, and the axes over which it is a partial sum."""

    layout: Layout
    partial: frozenset[str] = frozenset()


class Step(NamedTuple):
    """One operation from a state, a slice where there is no collective, and what a device sends."""

    collective: Collective | None
    axes: tuple[str, ...]
    after: State
    sent: int


class Reached(NamedTuple):
    """What was sent to reach a state, in how many moves and operations; the state and the step
    before it, nothing at a start."""

    sent: int = 0
    moves: int = 0
    operations: int = 0
    last: tuple[State, Step] | None = None


@dataclass(frozen=True)
class Space:
    """The states of a tensor over mesh axes or parts of them, each with its number of devices.

    `most` are for each dimension the most devices that it can be split over, a divisor of all that
    there are. What is sent is counted in units of which the tensor has `whole`.
    """

    degrees: tuple[tuple[str, int], ...]
    most: tuple[int, ...]

    @cached_property
    def whole(self) -> int:
        return self.devices(axis for axis, _ in self.degrees) ** 2

    def devices(self, axes: Iterable[str]) -> int:
        """The devices of a group over `axes`."""
        return prod(map(self._known.__getitem__, axes))

    @cached_property
    def _known(self) -> Mapping[str, int]:
        return dict(self.degrees)

    def split(self, layout: Layout) -> tuple[int, ...]:
        """Over how many devices each dimension is split."""
        return tuple(map(self.devices, layout))

    def holds(self, layout: Layout) -> bool:
        """Whether each dimension can be split so."""
        return not any(map(int.__mod__, self.most, self.split(layout)))

    def own(self, axes: Iterable[str]) -> tuple[str, ...]:
        """Axes as the space has them: whole, or all parts of one."""
        return tuple(
            a for axis in axes for a, _ in self.degrees if axis in (a, a.partition(":")[0])
        )

    def state(self, tensor: Tensor, partial: Iterable[str] = ()) -> State:
        """How a tensor stands, in the axes of the space."""
        return State(tuple(map(self.own, tensor.layout)), frozenset(self.own(partial)))

    def joined(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """Axes, with all parts of one that stand in their order as that axis again."""
        text = f" {' '.join(axes)} "
        for axis in {a.partition(":")[0]: None for a in axes}:
            text = text.replace(f" {' '.join(self.own((axis,)))} ", f" {axis} ")
        return tuple(text.split())


def space_of(tensor: Tensor, axes: Collection[str], sizes: Sizes) -> Space:
    """The states of a tensor over the mesh, since an axis that splits it neither before nor after
    can help: in parts, or whole where that is too much to search, or else over `axes` alone.
    Raises ShardingError where these are too many."""
    dims = len(tensor.dims)
    own = {axis: n for axis, n in sizes.degrees.items() if axis in axes}
    most = min(MOST_LAYOUTS, MOST_OF_ALL // max(1, sizes.products))
    for searched, limit in ((sizes.parts, MANY), (sizes.degrees, MANY), (own, most)):
        n = len(searched)
        if sum(perm(n, k) * comb(k + dims - 1, k) for k in range(n + 1)) <= limit:
            devices = prod(searched.values())
            # Lengths bar what they do not divide where all that would divide them is given.
            known = tensor.dims if sizes.given.issuperset(sizes.degrees) else ()
            lengths = [
                sizes.lengths[d] if d in known and d in sizes.given else 0 for d in tensor.dims
            ]
            return Space(tuple(searched.items()), tuple(gcd(n, devices) for n in lengths))
    told = f"{dims} dimensions over {n} mesh axes have more than {most:,} layouts"
    among = f"{told}, the most among which the least is searched"
    each = f" for each of {sizes.products} products" if sizes.products > 1 else ""
    raise ShardingError(f"{tensor.name}: {among}{each}; give fewer axes or lines")


def layouts(dims: int, axes: Sequence[str]) -> Iterator[Layout]:
    """Every way to split dimensions by some of the axes, in any order."""
    for used in range(len(axes) + 1):
        for order in orders(axes, used):
            for cuts in combinations_with_replacement(range(used + 1), dims - 1):
                yield tuple(order[a:b] for a, b in pairwise((0, *cuts, used)))


@lru_cache(maxsize=1024)
def _part(kind: Collective, n: int) -> Fraction:
    """What one of so many devices sends, as a part of the array."""
    return Fraction(sent_part(kind, Fraction(n)))


@lru_cache(maxsize=64)
def _of_one_shape(space: Space) -> dict[tuple[int, ...], list[Layout]]:
    """The layouts of a space, by how they split the dimensions."""
    alike: dict[tuple[int, ...], list[Layout]] = {}
    for layout in layouts(len(space.most), [axis for axis, _ in space.degrees]):
        alike.setdefault(space.split(layout), []).append(layout)
    return alike


@lru_cache(maxsize=50_000)
def _steps(space: Space, state: State) -> tuple[Step, ...]:
    """What can be done in a state, in a fixed order."""
    return tuple(step for step in _every_step(space, state) if space.holds(step.after.layout))


def _every_step(space: Space, state: State) -> Iterator[Step]:
    layout, partial = state
    share, used = space.whole // prod(space.split(layout)), partial.union(*layout)

    def after(changed: Mapping[int, tuple[str, ...]], reduced: Iterable[str] = ()) -> State:
        axes = tuple(changed.get(place, have) for place, have in enumerate(layout))
        return State(axes, partial.difference(reduced))

    def step(kind: Collective, group: tuple[str, ...], to: State) -> Step:
        n = space.devices(group)
        array = share * n if kind in IN_PARTS else share
        return Step(kind, group, to, int(array * _part(kind, n)))

    for place, have in enumerate(layout):
        for axis, _ in space.degrees:
            if axis not in used:
                yield Step(None, (axis,), after({place: (*have, axis)}), 0)
        for start in range(len(have)):
            kept, group = have[:start], have[start:]
            yield step("all_gather", group, after({place: kept}))
            for other, there in enumerate(layout):
                if other != place:
                    yield step("all_to_all", group, after({place: kept, other: there + group}))
    for like in _of_one_shape(space)[space.split(layout)]:
        if like != layout and partial.isdisjoint(chain.from_iterable(like)):
            bare = [[tuple(a for a in axes if space.devices((a,)) > 1) for axes in each]
                    for each in (layout, like)]  # fmt: skip
            moving = [axes for x, y in zip(*bare, strict=True) if x != y for axes in (x, y)]
            group = tuple(sorted({*chain.from_iterable(moving)}))
            to = State(like, partial)
            yield step("permute", group, to) if moving else Step(None, group, to, 0)
    for size in range(1, len(partial) + 1):
        for group in orders(sorted(partial), size):
            for place, have in enumerate(layout):
                yield step("reduce_scatter", group, after({place: have + group}, group))
            yield step("all_reduce", group, after({}, group))


@lru_cache(maxsize=64)
def _steps_into(space: Space) -> Mapping[State, list[tuple[State, Step]]]:
    """For each state the steps that lead into it, with the states from which they do."""
    into: dict[State, list[tuple[State, Step]]] = {}
    for layout in filter(space.holds, chain.from_iterable(_of_one_shape(space).values())):
        free = [axis for axis, _ in space.degrees if not any(axis in axes for axes in layout)]
        for partial in chain.from_iterable(combinations(free, n) for n in range(len(free) + 1)):
            state = State(layout, frozenset(partial))
            for step in _steps(space, state):
                into.setdefault(step.after, []).append((state, step))
    return into


# --- the shortest path


@lru_cache(maxsize=1024)
def reached(
    space: Space, starts: tuple[State, ...], backwards: bool = False
) -> Mapping[State, Reached]:
    """Every state that can be reached from any of some, or from which they can be, with least:
    fewest bytes, then moves, then operations."""
    best = {state: Reached() for state in starts}
    number = count()  # among what is alike the first that came
    heap = [(0, 0, 0, next(number), state) for state in best]
    while heap:
        sent, moves, operations, _, state = heappop(heap)
        if (sent, moves, operations) > best[state][:3]:
            continue  # a shorter way was there before
        before = best[state].last
        last = before and before[1].collective
        ahead = ((step.after, step) for step in _steps(space, state))
        for other, step in _steps_into(space).get(state, ()) if backwards else ahead:
            if step.collective == "permute" == last:
                continue  # one permute does what two do
            is_move = step.collective is not None
            cost = (sent + step.sent, moves + is_move, operations + 1)
            if (known := best.get(other)) is None or cost < known[:3]:
                best[other] = Reached(*cost, (state, step))
                heappush(heap, (*cost, next(number), other))
    return best


def route(
    starts: Sequence[Tensor],
    partial: Sequence[str],
    wanted: Tensor,
    sizes: Sizes,
    element: sp.Expr,
    critical: bool,
) -> tuple[Tensor, list[Operation]]:
    """The start, of several layouts in which a tensor is held, and the operations that bring it
    with least to the layout that is wanted; `partial` axes of it are still to be reduced.

    Raises ShardingError where the lengths that are given do not divide so.
    """
    axes = {*partial, *wanted.axes}.union(*(tensor.axes for tensor in starts))
    space = space_of(wanted, axes, sizes)
    begun = tuple(space.state(tensor, partial) for tensor in starts)
    ways, at = reached(space, begun), space.state(wanted)
    if at not in ways:
        raise ShardingError(f"{wanted}: its dimensions cannot be split so")
    steps: list[Step] = []
    while (last := ways[at].last) is not None:
        at, step = last
        steps.insert(0, step)
    current = start = starts[begun.index(at)]
    operations: list[Operation] = []
    for step in steps:
        after = Tensor(wanted.name, wanted.dims, tuple(map(space.joined, step.after.layout)))
        if step.collective is not None:
            group = space.joined(step.axes)
            operations.append(moved(step.collective, current, after, group, element, critical))
        elif operations and isinstance(operations[-1], Sliced):  # several at once
            operations[-1] = Sliced(operations[-1].before, after)
        else:
            operations.append(Sliced(current, after))
        current = after
    return start, operations
