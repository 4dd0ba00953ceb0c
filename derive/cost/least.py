"""The least program of a product: how each mesh axis splits it, so that what has to be fetched of
its operands, and reduced and laid out of its result, makes a device send the fewest bytes.

Nothing is multiplied more often than by a partitioner [Shardy]: see `division`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from derive.cost.block import Split, Tensor, summed_dims
from derive.cost.route import State, layouts, reached, space_of
from derive.cost.sizes import Sizes
from derive.notation.errors import ShardingError

Operands = tuple[Sequence[Tensor], Sequence[Tensor]]  # in the layouts in which they are held
Cost = tuple[int, int, int]  # what is sent; the devices over which it is split, negative; moves


class Candidate(NamedTuple):
    """A way to split a product over mesh axes: the axes of each dimension, how the result stands
    before it is reduced and laid out, over how many devices the product is split, and how much of
    the left operand, the right one and the result a device sends, in parts that are the same for
    all products on a mesh, in so many moves."""

    split: Split
    local: State
    devices: int
    sent: tuple[int, ...]
    moves: int


def candidates(operands: Operands, result: Tensor, sizes: Sizes) -> Iterator[Candidate]:
    """Every way to split a product by the axes that split its three tensors as declared. Raises
    ShardingError for lengths that do not divide so."""
    tensors = (operands[0][0], operands[1][0], result)
    axes = tuple(dict.fromkeys(axis for tensor in tensors for axis in tensor.axes))
    dims = tuple(dict.fromkeys(dim for tensor in tensors for dim in tensor.dims))
    whole = Tensor(result.name, dims, ((),) * len(dims))
    known = replace(sizes, degrees={axis: sizes.degrees[axis] for axis in axes}, apart=False)
    product = space_of(whole, axes, known)
    spaces = [space_of(tensor, axes, sizes) for tensor in tensors]
    ways = [
        reached(space, tuple(map(space.state, held)), backwards)
        for space, held, backwards in zip(
            spaces, (*operands, [result]), (False, False, True), strict=True
        )
    ]
    units = [prod(sizes.degrees.values()) ** 2 // space.whole for space in spaces]
    summed = summed_dims(*tensors)
    for layout in filter(product.holds, layouts(len(dims), axes)):
        split = dict(zip(dims, layout, strict=True))
        partial = [axis for dim in summed for axis in split[dim]]
        states = [
            space.state(tensor.laid_out(split), partial if tensor is result else ())
            for space, tensor in zip(spaces, tensors, strict=True)
        ]
        if not all(state in way for way, state in zip(ways, states, strict=True)):
            raise ShardingError(f"{result}: the lengths given do not divide as the layouts do")
        through = [way[state] for way, state in zip(ways, states, strict=True)]
        sent = tuple(way.sent * unit for way, unit in zip(through, units, strict=True))
        devices, moves = prod(product.split(layout)), sum(way.moves for way in through)
        yield Candidate(split, states[2], devices, sent, moves)


def division(tensors: Iterable[Tensor], sizes: Sizes) -> int:
    """Over how many devices a product is split at least: by the axes of its tensors, the largest
    first, each as far as it agrees with those before it on a dimension and on where an axis is.
    Where they agree that is every axis; where not, some devices may multiply the same."""
    split: Split = {}
    for tensor in tensors:
        for dim, axes in tensor.split.items():
            have = split.get(dim, ())
            if axes[: len(have)] == have:
                used = {axis for taken in split.values() for axis in taken}.difference(have)
                end = next((n for n, axis in enumerate(axes) if axis in used), len(axes))
                split[dim] = axes[:end]
    return prod(sizes.degrees[axis] for axes in split.values() for axis in axes)


def priced(
    ways: Sequence[Candidate], tensors: Sequence[Tensor], lengths: Sequence[int], sizes: Sizes
) -> Iterator[tuple[Cost, Candidate]]:
    """The ways that split a product far enough, where its tensors have so many bytes, with what
    each costs."""
    largest = sorted(range(3), key=lengths.__getitem__, reverse=True)
    least = division((tensors[place] for place in largest), sizes)
    least = min(least, max(one.devices for one in ways))
    for one in ways:
        if one.devices >= least:
            sent = sum(map(int.__mul__, one.sent, lengths))
            yield (sent, -one.devices, one.moves), one


def least_splits(
    terms: Sequence[Operands], result: Tensor, sizes: Sizes, size: Callable[[Tensor], int]
) -> list[Split]:
    """How each of several products that add up to a result is split, in the least program: each
    its own way, or all so that the sum is reduced once."""
    tables: list[dict[State, tuple[Cost, Candidate]]] = []
    for operands in terms:
        tensors = (operands[0][0], operands[1][0], result)
        table: dict[State, tuple[Cost, Candidate]] = {}
        ways = list(candidates(operands, result, sizes))
        for cost, one in priced(ways, tensors, [size(tensor) for tensor in tensors], sizes):
            if one.local not in table or cost < table[one.local][0]:
                table[one.local] = cost, one
        tables.append(table)
    again = size(result) * (len(terms) - 1)

    def total(ways: Sequence[tuple[Cost, Candidate]], saved: int = 0) -> Cost:
        sent, devices, moves = map(sum, zip(*(cost for cost, _ in ways), strict=True))
        return sent - saved * ways[0][1].sent[2], devices, moves

    apart = [min(table.values(), key=lambda way: way[0]) for table in tables]
    alike = [[table[s] for table in tables] for s in tables[0] if all(s in t for t in tables)]
    once = min(alike, key=lambda ways: total(ways, again), default=apart)
    best = once if total(once, again) <= total(apart) else apart
    return [one.split for _, one in best]
