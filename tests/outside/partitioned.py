"""A block as a JAX program with its shardings, and what XLA and Shardy's own passes make of it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from cases import Sizes
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from derive.cost.block import Block, FunctionLine, Tensor

FUNCTIONS: dict[str, Callable[..., jax.Array]] = {
    "+": lambda x, y: x + y,
    "*": lambda *factors: prod(factors[1:], start=factors[0]),
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "silu*": lambda x, y: jax.nn.silu(x) * y,
    "gelu*": lambda x, y: jax.nn.gelu(x) * y,
    "norm": lambda x: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6),
    "softmax": jax.nn.softmax,
    "view": lambda x: x,
}


class Spread:
    """A block on a mesh of devices: its tensors' shapes and shardings, and its passes."""

    def __init__(self, block: Block, mesh: Sizes, sizes: Sizes) -> None:
        axes = block.mesh
        shape = [mesh[axis] for axis in axes]
        devices = np.array(jax.devices()[: prod(shape)]).reshape(shape)
        self.block, self.sizes, self.mesh = block, sizes, Mesh(devices, axes)

    def sharding(self, tensor: Tensor) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec(*(axes or None for axes in tensor.layout)))

    def struct(self, tensor: Tensor) -> jax.ShapeDtypeStruct:
        shape = tuple(self.sizes[dim] for dim in tensor.dims)
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=self.sharding(tensor))

    def _held(self, tensor: Tensor, value: jax.Array) -> jax.Array:
        return jax.lax.with_sharding_constraint(value, self.sharding(tensor))

    def forward(self, *operands: jax.Array) -> tuple[jax.Array, ...]:
        """The outputs of the block from its inputs and parameters."""
        block = self.block
        held = dict(zip((*block.inputs, *block.parameters), operands, strict=True))
        for line in block.lines:
            if isinstance(line, FunctionLine):
                made = self._applied(line, [held[name] for name in line.operands])
            else:
                factors = [
                    self._held(
                        block[branch],
                        jnp.einsum(
                            *(held[line.left], _numbers(block, line.left)),
                            *(held[right], _numbers(block, right)),
                            _numbers(block, line.result),
                        ),
                    )
                    for right, branch in zip(line.rights, line.branches, strict=True)
                ]
                made = prod(factors[1:], start=factors[0])
            held[line.result] = self._held(block[line.result], made)
        return tuple(held[name] for name in block.outputs)

    def _applied(self, line: FunctionLine, operands: list[jax.Array]) -> jax.Array:
        if line.function not in ("route", "combine"):
            return FUNCTIONS[line.function](*operands)
        # Which rows an expert takes is not said: here each device hands its own rows round, so that
        # they stay where they are until the experts' tensor is laid out.
        (rows,) = operands
        wide, narrow = self.block[line.result], self.block[line.operands[0]]
        if line.function == "combine":
            wide, narrow = narrow, wide
        parts = prod(self.mesh.shape[axis] for axis in narrow.layout[0])
        experts, places, *rest = (self.sizes[dim] for dim in wide.dims)
        apart = (parts, places // parts, experts, *rest)
        if line.function == "route":
            placed = rows.reshape(apart).transpose(2, 0, 1, *range(3, len(apart)))
            return placed.reshape(experts, places, *rest)
        placed = rows.reshape(experts, parts, places // parts, *rest)
        return placed.transpose(1, 2, 0, *range(3, len(apart))).reshape(-1, *rest)

    def step(self, gradients: tuple[jax.Array, ...], *operands: jax.Array) -> tuple[Any, ...]:
        """The outputs, and the gradients in the inputs and parameters."""
        outputs, pull = jax.vjp(self.forward, *operands)
        return outputs, pull(gradients)

    def lowered(self, backward: bool) -> jax.stages.Lowered:
        """The forward pass alone, or both passes as one program."""
        block = self.block
        operands = [block[name] for name in (*block.inputs, *block.parameters)]
        outputs = [block[name] for name in block.outputs]
        structs = [self.struct(tensor) for tensor in operands]
        made = tuple(map(self.sharding, outputs))
        if not backward:
            return jax.jit(self.forward, out_shardings=made).lower(*structs)
        states = tuple(self.sharding(block.state_of(tensor.name)) for tensor in operands)
        given = tuple(map(self.struct, outputs))
        return jax.jit(self.step, out_shardings=(made, states)).lower(given, *structs)


def _numbers(block: Block, name: str) -> list[int]:
    """The dimensions of a tensor as the numbers by which `einsum` knows them."""
    return [block.dims.index(dim) for dim in block[name].dims]
