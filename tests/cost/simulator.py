"""Simulated devices that run a program: real shards, real chunks sent, every byte counted.

Written from the meaning of a layout alone: a device of a mesh holds, of each dimension, the block
whose number its coordinates spell along the axes that split it, the first axis outermost. Nothing
here calls the code that decides what is moved.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product as every
from math import prod

import numpy as np
from derive.cost.sharding import AXES, Layout, Tensor

from derive.cost.program import Combined, Moved, Multiplied, Operation, Sliced

Device = tuple[int, ...]
Shards = dict[Device, np.ndarray]


class SimulationError(AssertionError):
    """A program asks for what a device does not hold, or leaves it with something wrong."""


@dataclass(frozen=True)
class Mesh:
    """A mesh of devices; an axis that is not given has one device."""

    sizes: dict[str, int]

    def size(self, axes: tuple[str, ...]) -> int:
        return prod(self.sizes.get(axis, 1) for axis in axes)

    def devices(self) -> list[Device]:
        return list(every(*(range(self.sizes.get(axis, 1)) for axis in AXES)))

    def rank(self, device: Device, axes: tuple[str, ...]) -> int:
        """A device's number along `axes`, the first one outermost."""
        number = 0
        for axis in axes:
            number = number * self.sizes.get(axis, 1) + device[AXES.index(axis)]
        return number

    def groups(self, axes: tuple[str, ...]) -> list[list[Device]]:
        """The devices that differ along `axes` only, in groups, each in the order of its ranks."""
        found: dict[Device, list[Device]] = {}
        for device in self.devices():
            key = tuple(c for c, axis in zip(device, AXES, strict=True) if axis not in axes)
            found.setdefault(key, []).append(device)
        return [sorted(group, key=lambda d: self.rank(d, axes)) for group in found.values()]

    def block(self, layout: Layout, shape: tuple[int, ...], device: Device) -> tuple[slice, ...]:
        """Where a device's shard lies in the whole tensor."""
        where = []
        for axes, size in zip(layout, shape, strict=True):
            if size % self.size(axes):
                raise SimulationError(f"{size} elements do not split over {axes} of {self.sizes}")
            length = size // self.size(axes)
            start = self.rank(device, axes) * length
            where.append(slice(start, start + length))
        return tuple(where)


@dataclass
class Sent:
    """What one move made every device send, in elements, and the largest array it was part of."""

    elements: int
    array: int


@dataclass
class Machine:
    """The devices in the middle of a pass. `values` are the unsharded tensors, to check against."""

    mesh: Mesh
    values: dict[str, np.ndarray]
    shards: dict[Tensor, Shards] = field(default_factory=dict)
    partial: dict[Tensor, tuple[str, ...]] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    flops: int = 0

    def place(self, tensor: Tensor) -> None:
        """Give every device its own block of a tensor that the pass starts from."""
        whole = self.values[tensor.name]
        self.shards[tensor] = {
            device: whole[self.mesh.block(tensor.layout, whole.shape, device)].copy()
            for device in self.mesh.devices()
        }
        self.partial[tensor] = ()

    def run(self, program: tuple[Operation, ...]) -> None:
        """Execute and check one operation after the other."""
        for op in program:
            if isinstance(op, Moved):
                made = self.move(op)
            elif isinstance(op, Sliced):
                made, self.partial[op.after] = self.slice(op), self.partial.get(op.before, ())
            elif isinstance(op, Multiplied):
                made, self.partial[op.result] = self.multiply(op), op.partial
            else:
                made, self.partial[op.result] = self.combine(op), ()
            result = op.after if isinstance(op, (Moved, Sliced)) else op.result
            self.shards[result] = made
            self.check(result)

    def held(self, tensor: Tensor, *, whole: bool = True) -> Shards:
        """The shards of a tensor in one layout; an error where no device holds them."""
        if tensor not in self.shards:
            raise SimulationError(f"{tensor} is not held; held: {', '.join(map(str, self.shards))}")
        if whole and self.partial[tensor]:
            raise SimulationError(f"{tensor} is a partial sum over {self.partial[tensor]}")
        return self.shards[tensor]

    def check(self, tensor: Tensor) -> None:
        """Every device holds its block; partial sums add up to it over the axes still to reduce."""
        whole, shards = self.values[tensor.name], self.shards[tensor]
        for group in self.mesh.groups(self.partial[tensor]):
            found = sum(shards[device] for device in group)
            for device in group:
                want = whole[self.mesh.block(tensor.layout, whole.shape, device)]
                if np.shape(found) != want.shape or not np.array_equal(found, want):
                    raise SimulationError(f"device {device} does not hold its block of {tensor}")

    def multiply(self, op: Multiplied) -> Shards:
        """Local products, counted from the shapes of the shards: two FLOP per multiply-add."""
        made: Shards = {}
        counts = set()
        out = "".join(op.result.dims)
        for device in self.mesh.devices():
            total: np.ndarray | float = 0.0
            count = 0
            for left, right in op.pairs:
                a, b = self.held(left)[device], self.held(right)[device]
                lengths = dict(zip(left.dims, a.shape, strict=True))
                for dim, length in zip(right.dims, b.shape, strict=True):
                    if lengths.setdefault(dim, length) != length:
                        raise SimulationError(f"{left} . {right}: shards differ along {dim}")
                letters = f"{''.join(left.dims)},{''.join(right.dims)}->{out}"
                total = total + np.einsum(letters, a, b)
                count += 2 * prod(lengths.values())
            made[device] = np.asarray(total)
            counts.add(count)
        (count,) = counts
        self.flops += count
        return made

    def combine(self, op: Combined) -> Shards:
        """The element-wise product of what each device holds."""
        factors = [self.held(tensor) for tensor in op.operands]
        if len({(t.dims, t.layout) for t in (*op.operands, op.result)}) > 1:
            raise SimulationError(f"{op.result}: factors of different layouts")
        return {d: np.prod([f[d] for f in factors], axis=0) for d in self.mesh.devices()}

    def slice(self, op: Sliced) -> Shards:
        """What each device keeps; an error where it would need what it does not hold."""
        shards = self.held(op.before, whole=False)
        shape = self.values[op.before.name].shape
        made: Shards = {}
        for device in self.mesh.devices():
            have = self.mesh.block(op.before.layout, shape, device)
            want = self.mesh.block(op.after.layout, shape, device)
            for h, w in zip(have, want, strict=True):
                if w.start < h.start or w.stop > h.stop:
                    raise SimulationError(f"device {device} cannot slice {op.before} to {op.after}")
            local = [
                slice(w.start - h.start, w.stop - h.start) for h, w in zip(have, want, strict=True)
            ]
            made[device] = shards[device][tuple(local)]
        return made

    def move(self, op: Moved) -> Shards:
        """Run one collective in every group of its axes; every device must send alike."""
        kind, axes = op.move.collective, op.move.axes
        made: Shards = {}
        counts: set[tuple[int, int]] = set()
        shards = self.held(op.before, whole=kind not in ("reduce_scatter", "all_reduce"))
        pairs = zip(op.before.layout, op.after.layout, strict=True)
        lost = [i for i, (b, a) in enumerate(pairs) if len(a) < len(b)]
        pairs = zip(op.before.layout, op.after.layout, strict=True)
        gained = [i for i, (b, a) in enumerate(pairs) if len(a) > len(b)]
        if (len(lost), len(gained)) != SHAPES[kind]:
            raise SimulationError(f"a {kind} cannot bring {op.before} to {op.after}")
        left = self.partial[op.before]
        if kind in ("reduce_scatter", "all_reduce"):
            if not set(axes) <= set(left):
                raise SimulationError(f"{op.before} has nothing to reduce over {axes}")
            left = tuple(axis for axis in left if axis not in axes)
        for group in self.mesh.groups(axes):
            local = [shards[device] for device in group]
            if kind == "all_gather":
                parts, sent = ring_gather(local)
                after = [np.concatenate(part, axis=lost[0]) for part in parts]
            elif kind == "reduce_scatter":
                after, sent = ring_reduce([chunks(one, len(group), gained[0]) for one in local])
            elif kind == "all_reduce":
                flat = [chunks(one.reshape(-1), len(group), 0) for one in local]
                reduced, first = ring_reduce(flat)
                parts, second = ring_gather(reduced)
                after = [np.concatenate(part).reshape(local[0].shape) for part in parts]
                sent = [a + b for a, b in zip(first, second, strict=True)]
            else:
                cut = [chunks(one, len(group), gained[0]) for one in local]
                parts, sent = exchange(cut)
                after = [np.concatenate(part, axis=lost[0]) for part in parts]
            made.update(zip(group, after, strict=True))
            held = {"all_gather": after[0].size, "all_to_all": local[0].size * len(group)}
            counts.update((number, held.get(kind, local[0].size)) for number in sent)
        if len(counts) != 1:
            raise SimulationError(f"{op.move}: devices send unlike amounts {counts}")
        self.sent.append(Sent(*counts.pop()))
        self.partial[op.after] = left
        return made


# How many dimensions each collective makes less split and more split.
SHAPES = {
    "all_gather": (1, 0),
    "reduce_scatter": (0, 1),
    "all_reduce": (0, 0),
    "all_to_all": (1, 1),
}


def chunks(array: np.ndarray, count: int, along: int) -> list[np.ndarray]:
    """`array` in equal chunks along one of its dimensions."""
    if array.shape[along] % count:
        raise SimulationError(f"{array.shape} has no {count} whole chunks along {along}")
    return np.split(array, count, axis=along)


def ring_gather(local: list[np.ndarray]) -> tuple[list[list[np.ndarray]], list[int]]:
    """All-gather: in n - 1 steps each device passes on to the next what it received last."""
    n = len(local)
    have = [{rank: local[rank]} for rank in range(n)]
    sent = [0] * n
    for step in range(n - 1):
        sending = [(rank, (rank - step) % n) for rank in range(n)]
        arriving = [((rank + 1) % n, which, have[rank][which]) for rank, which in sending]
        for rank, which in sending:
            sent[rank] += have[rank][which].size
        for rank, which, chunk in arriving:
            have[rank][which] = chunk
    return [[found[which] for which in range(n)] for found in have], sent


def ring_reduce(cut: list[list[np.ndarray]]) -> tuple[list[np.ndarray], list[int]]:
    """Reduce-scatter: in n - 1 steps each sum travels the ring, to end with its own device."""
    n = len(cut)
    have = [list(pieces) for pieces in cut]
    sent = [0] * n
    for step in range(n - 1):
        sending = [(rank, (rank - step - 1) % n) for rank in range(n)]
        arriving = [((rank + 1) % n, which, have[rank][which]) for rank, which in sending]
        for rank, which in sending:
            sent[rank] += have[rank][which].size
        for rank, which, chunk in arriving:
            have[rank][which] = have[rank][which] + chunk
    return [have[rank][rank] for rank in range(n)], sent


def exchange(cut: list[list[np.ndarray]]) -> tuple[list[list[np.ndarray]], list[int]]:
    """All-to-all: each device sends every other one the chunk that has its number."""
    n = len(cut)
    sent = [sum(cut[rank][peer].size for peer in range(n) if peer != rank) for rank in range(n)]
    return [[cut[peer][rank] for peer in range(n)] for rank in range(n)], sent
