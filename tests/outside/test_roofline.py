"""The programs that are derived, run under `shard_map` and counted by JAX's own roofline."""

from __future__ import annotations

from collections import Counter
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import MESH, SHARDINGS, SIZES
from counted import values, whole
from jax import lax
from jax.experimental import roofline
from jax.sharding import Mesh, PartitionSpec

from derive.cost.block import Block, Tensor
from derive.cost.passes import gradient, program
from derive.cost.program import Applied, Move, Moved, Operation, Sliced
from derive.cost.reader import block

LENGTHS = SIZES["many rows"]
BY = values(MESH, LENGTHS)


class Program:
    """Both passes of a block as a function of one device's shards."""

    def __init__(self, read: Block) -> None:
        whole_program = program(read, "all")
        self.block = read
        self.passes = (whole_program.forward, whole_program.backward)
        inputs = [read[name] for name in (*read.inputs, *read.parameters)]
        self.operands = [*inputs, *(gradient(read[name]) for name in read.outputs)]
        self.results = [*(read[name] for name in read.outputs), *map(gradient, inputs)]

    @property
    def moves(self) -> list[Move]:
        return [move for cost in self.passes for move in cost.moves]

    def __call__(self, *shards: jax.Array) -> tuple[jax.Array, ...]:
        held = dict(zip(self.operands, shards, strict=True))
        for op in (op for cost in self.passes for op in cost.program):
            held[op.after if isinstance(op, (Moved, Sliced)) else op.result] = self.run(op, held)
        return tuple(held[tensor] for tensor in self.results)

    def run(self, op: Operation, held: dict[Tensor, jax.Array]) -> jax.Array:
        """One operation, by the shards that are held so far."""
        if isinstance(op, Moved):
            return moved(op, held[op.before])
        if isinstance(op, Sliced):
            return sliced(op, held[op.before])
        if isinstance(op, Applied):  # factors, or the gradient of the result and the other factors
            assert op.function == "*"
            left_out = op.wrt if op.wrt is None else op.wrt + 1
            factors = [held[t] for place, t in enumerate(op.operands) if place != left_out]
            return prod(factors[1:], start=factors[0])
        products = [
            jnp.einsum(
                held[pair.left],
                self.numbers(pair.left),
                held[pair.right],
                self.numbers(pair.right),
                self.numbers(op.result),
            )
            for pair in op.pairs
        ]
        return sum(products[1:], start=products[0])

    def numbers(self, tensor: Tensor) -> list[int]:
        return [self.block.dims.index(dim) for dim in tensor.dims]

    def roofline(self) -> roofline.RooflineResult:
        """What the roofline counts for one device of the block's mesh."""
        shape = [MESH[axis] for axis in self.block.mesh]
        devices = np.array(jax.devices()[: prod(shape)]).reshape(shape)
        # Only what is counted is wanted: the shards come out one beside the other.
        counting = roofline.roofline(
            self,
            mesh=Mesh(devices, self.block.mesh),
            in_specs=tuple(map(spec, self.operands)),
            out_specs=PartitionSpec(self.block.mesh),
        )
        shapes = [tuple(LENGTHS[dim] for dim in tensor.dims) for tensor in self.operands]
        return counting(*(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes))[1]


def spec(tensor: Tensor) -> PartitionSpec:
    return PartitionSpec(*(axes or None for axes in tensor.layout))


def changed(op: Moved | Sliced) -> list[int]:
    """The dimensions of which a device holds more or less afterwards, those with more first."""
    pairs = list(zip(op.before.layout, op.after.layout, strict=True))
    return sorted((i for i, (b, a) in enumerate(pairs) if b != a), key=lambda i: len(pairs[i][1]))


def moved(op: Moved, shard: jax.Array) -> jax.Array:
    """The collective that a move is."""
    kind, axes, places = op.move.collective, op.move.axes, changed(op)
    if kind == "all_reduce":
        return lax.psum(shard, axes)
    if kind == "all_gather":
        return lax.all_gather(shard, axes, axis=places[0], tiled=True)
    if kind == "reduce_scatter":
        return lax.psum_scatter(shard, axes, scatter_dimension=places[0], tiled=True)
    return lax.all_to_all(shard, axes, split_axis=places[1], concat_axis=places[0], tiled=True)


def sliced(op: Sliced, shard: jax.Array) -> jax.Array:
    """A device's own part of what it holds, along each dimension that is split further."""
    for place in changed(op):
        new = op.after.layout[place][len(op.before.layout[place]) :]
        parts = prod(MESH[axis] for axis in new)
        size = shard.shape[place] // parts
        shard = lax.dynamic_slice_in_dim(shard, lax.axis_index(new) * size, size, place)
    return shard


def expected(move: Move) -> int:
    """The bytes over each axis of a move: what a device sends, in equal parts where its group spans
    several axes. Of an all-to-all the roofline tells what a link has to carry instead: half of the
    array crosses the middle of a ring, over two links, or over one between two devices."""
    if move.collective == "all_to_all":
        (axis,) = move.axes
        return whole(move.array_bytes, BY) // 2 // (2 if MESH[axis] > 2 else 1)
    return whole(move.sent_bytes, BY) // len(move.axes)


@pytest.mark.parametrize("name", SHARDINGS)
def test_bytes_and_flops(name: str) -> None:
    one = Program(block(SHARDINGS[name]))
    result = one.roofline()
    sent: Counter[str] = Counter()
    for move in one.moves:
        sent.update(dict.fromkeys(move.axes, expected(move)))
    assert +Counter(result.ici_bytes) == sent
    assert result.flops == sum(whole(cost.flops, BY) for cost in one.passes)
