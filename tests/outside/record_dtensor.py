"""Record what PyTorch's DTensor sends for the shardings, on a process group that only pretends.

    PYTHONPATH=. python tests/outside/record_dtensor.py

It needs torch (the build for CPU will do) beside derive, no JAX, and writes `dtensor.json`. DTensor
runs eagerly: each operation brings its operands where it wants them, and the result is brought to
what is declared. The order of the axes on one dimension is that of the mesh; a sharding with
another order cannot be said, and is recorded as refused.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.tensor.placement_types as placements
from cases import MESH, SHARDINGS, SIZES, Sizes
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from derive.cost.block import Block, Tensor
from derive.cost.reader import block

ELEMENT = 4  # bytes of fp32
KINDS = {
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_reduce": "all_reduce",
    "all_to_all": "all_to_all",
}

SILENT = ("wait_tensor", "_wrap_tensor_autograd")

Moves = list[tuple[str, list[str], int]]


class Refused(Exception):
    """What DTensor cannot say."""


class Log(TorchDispatchMode):
    """Every collective under it, as its kind, its axes and the bytes that a device sends."""

    def __init__(self, groups: dict[str, str]) -> None:
        super().__init__()
        self.groups = groups
        self.moves: Moves = []

    def add(self, kind: str, axis: str, held: int) -> None:
        """A collective over an axis, of which each device holds `held` elements before it."""
        n = MESH[axis]
        times = {"all_gather": n * (n - 1), "all_reduce": 2 * (n - 1)}.get(kind, n - 1)
        amount, rest = divmod(times * held * ELEMENT, n)
        assert rest == 0, (kind, axis, held)
        self.moves.append((kind, [axis], amount))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(one, DTensor) for one in types):
            return NotImplemented
        space, name = func._schema.name.split("::")
        if space == "_c10d_functional" and name not in SILENT:
            group = next(a for a in reversed(args) if isinstance(a, str) and a in self.groups)
            self.add(KINDS[name], self.groups[group], args[0].numel())
        return func(*args, **(kwargs or {}))


class Devices:
    """One device of those that a block is spread over."""

    def __init__(self, read: Block, sizes: Sizes) -> None:
        self.block, self.sizes = read, sizes
        self.axes = read.mesh
        shape = tuple(MESH[axis] for axis in self.axes)
        dist.init_process_group("fake", rank=0, world_size=prod(shape), store=FakeStore())
        self.mesh = init_device_mesh("cpu", shape, mesh_dim_names=self.axes)

    def placed(self, tensor: Tensor) -> list[Placement]:
        """The layout of a tensor axis by axis."""
        for axes in tensor.layout:
            if list(axes) != sorted(axes, key=self.axes.index):
                raise Refused(f"{tensor}: the axes of a dimension come in the order of the mesh")
        return [
            Shard(tensor.dims.index(dim)) if (dim := tensor.dim_of(axis)) else Replicate()
            for axis in self.axes
        ]

    def held(self, tensor: Tensor) -> DTensor:
        """A tensor of which this device has its part."""
        parts = zip(tensor.dims, tensor.layout, strict=True)
        local = torch.empty(
            [self.sizes[dim] // prod(MESH[axis] for axis in axes) for dim, axes in parts]
        )
        return DTensor.from_local(local, self.mesh, self.placed(tensor), run_check=False)

    def product(self, left: str, right: str, result: str, x: DTensor, y: DTensor) -> DTensor:
        """A product as a user writes it: `@` where it is one, else einsum."""
        dims = [self.block[name].dims for name in (left, right, result)]
        plain = dims[0][-1] == dims[1][-2] and dims[2] == (*dims[0][:-1], dims[1][-1])
        if plain and len(dims[0]) == len(dims[1]):
            return x @ y
        number = {dim: chr(ord("a") + place) for place, dim in enumerate(self.block.dims)}
        a, b, out = ("".join(number[dim] for dim in one) for one in dims)
        return torch.einsum(f"{a},{b}->{out}", x, y)

    def passes(self) -> dict[str, Moves]:
        """The collectives of the forward pass and of the backward one."""
        names = (*self.block.inputs, *self.block.parameters)
        held = {name: self.held(self.block[name]).requires_grad_() for name in names}
        leaves = list(held.values())
        with self.log() as forward:
            for line in self.block.lines:
                result = self.placed(self.block[line.result])
                factors = [
                    self.product(line.left, right, line.result, held[line.left], held[right])
                    for right in line.rights
                ]
                factors = [factor.redistribute(self.mesh, result) for factor in factors]
                held[line.result] = prod(factors[1:], start=factors[0])
        (output,) = self.block.outputs
        given = self.held(self.block[output])
        with self.log() as backward:
            gradients = torch.autograd.grad(held[output], leaves, given)
            for name, gradient in zip(names, gradients, strict=True):
                gradient.redistribute(self.mesh, self.placed(self.block[name]))
        return {"forward": forward.moves, "backward": backward.moves}

    @contextmanager
    def log(self) -> Iterator[Log]:
        """A log of the collectives; an exchange, which this group cannot pretend, is told to it."""
        log = Log({self.mesh.get_group(axis).group_name: axis for axis in self.axes})

        def exchange(local: Any, gather: int, shard: int, mesh: Any, place: int) -> Any:
            n = mesh.size(place)
            log.add("all_to_all", mesh.mesh_dim_names[place], local.numel())
            shape = list(local.shape)
            shape[gather] *= n
            shape[shard] //= n
            return local.new_zeros(shape)

        usual = placements.shard_dim_alltoall
        placements.shard_dim_alltoall = exchange
        try:
            with log:
                yield log
        finally:
            placements.shard_dim_alltoall = usual


def recorded(text: str, sizes: Sizes) -> dict[str, Any]:
    """The passes of a sharding, or why they are refused."""
    devices = Devices(block(text), sizes)
    try:
        return dict(devices.passes())
    except Refused as error:
        return {"refused": str(error)}
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    rows = [
        {"sharding": text, "sizes": size, **recorded(text, SIZES[size])}
        for size in SIZES
        for text in SHARDINGS.values()
    ]
    lines = ",\n".join(map(json.dumps, rows))
    told = f'{{"torch": "{torch.__version__}", "rows": [\n{lines}\n]}}\n'
    Path(__file__).with_name("dtensor.json").write_text(told, encoding="utf-8")
