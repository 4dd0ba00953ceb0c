"""Simulated devices that run a program: real shards, real chunks sent, every byte counted.

Written from the meaning of a layout alone: a device of a mesh holds, of each dimension, the block
whose number its coordinates spell along the axes that split it, the first axis outermost. Nothing
here calls the code that decides what is moved.

The shards of a tensor on all devices are one array whose first dimensions are the mesh.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from math import prod

import functions
import numpy as np

from derive.cost.block import Layout, Tensor
from derive.cost.program import Applied, Moved, Multiplied, Operation, Sliced

Device = tuple[int, ...]
TOLERANCE = 1e-9  # relative, of blocks with roots and exponentials; all others are exact


class SimulationError(AssertionError):
    """A program asks for what a device does not hold, or leaves it with something wrong."""


@dataclass(frozen=True)
class Mesh:
    """A mesh of devices with axes of any name; an axis that is not given has one device, unless
    parts of it are: Y:(1)2 and Y:(2)3 are Y, the first one outermost. `made` are further axes, each
    of the devices of some that it has: two such may share devices."""

    sizes: dict[str, int]
    made: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def axes(self) -> tuple[str, ...]:
        return tuple(self.sizes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.sizes.values())

    def own(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """The axes as the mesh has them."""
        return tuple(
            own
            for axis in axes
            for part in self.made.get(axis, (axis,))
            for own in self.axes
            if own.split(":(")[0] == part or own == part
        )

    def size(self, axes: tuple[str, ...]) -> int:
        return prod(self.sizes[axis] for axis in self.own(axes))

    def places(self, axes: tuple[str, ...]) -> tuple[int, ...]:
        """Where the axes that the mesh has stand in it."""
        return tuple(map(self.axes.index, self.own(axes)))

    def rank(self, device: Device | np.ndarray, axes: tuple[str, ...]) -> int:
        """A device's number along `axes`, the first one outermost; of many, given as arrays of
        their coordinates, all their numbers."""
        number = 0
        for place in self.places(axes):
            number = number * self.shape[place] + device[place]
        return number

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

    def spread(self, whole: np.ndarray, layout: Layout) -> np.ndarray:
        """Every device's own block of a tensor: `block` for all of them at once."""
        apart: list[int] = []  # each dimension as its axes, outermost first, and what is local
        names: list[str] = []
        for axes, size in zip(layout, whole.shape, strict=True):
            if size % self.size(axes):
                raise SimulationError(f"{size} elements do not split over {axes} of {self.sizes}")
            own = self.own(axes)
            apart += [*(self.sizes[axis] for axis in own), size // self.size(axes)]
            names += [*own, ""]
        split = [names.index(axis) for axis in self.axes if axis in names]
        local = [place for place, name in enumerate(names) if not name]
        lead = [self.sizes[axis] if axis in names else 1 for axis in self.axes]
        shape = [apart[place] for place in local]
        shards = whole.reshape(apart).transpose(*split, *local).reshape(*lead, *shape)
        return np.broadcast_to(shards, (*self.shape, *shape))

    def by_rank(self, shards: np.ndarray, axes: tuple[str, ...]) -> np.ndarray:
        """The shards of the devices that differ along `axes` only, first of all by their rank in
        the group; the other axes, which number the groups, come after it."""
        group = self.places(axes)
        others = [place for place in range(len(self.shape)) if place not in group]
        local = range(len(self.shape), shards.ndim)
        turned = shards.transpose(*group, *others, *local)
        return turned.reshape(self.size(axes), *turned.shape[len(group) :])

    def by_device(self, shards: np.ndarray, axes: tuple[str, ...]) -> np.ndarray:
        """The same by the coordinates of each device again."""
        group = self.places(axes)
        others = [place for place in range(len(self.shape)) if place not in group]
        apart = shards.reshape(*(self.shape[place] for place in group), *shards.shape[1:])
        order = [*group, *others]
        local = range(len(self.shape), apart.ndim)
        return apart.transpose(*map(order.index, range(len(order))), *local)


@dataclass
class Sent:
    """What one move made every device send, in elements, and the largest array it was part of."""

    elements: int
    array: int


@dataclass
class Machine:
    """The devices in the middle of a pass. `values` are the unsharded tensors, to check against.

    `wanted` are the shards of them that were checked against, which several passes may share;
    `statistics` are what a kernel keeps besides, by its name: the log-sum-exp of each row of a
    softmax, from which it is made again, the image of a gate, or what a norm has in fp32.
    """

    mesh: Mesh
    values: dict[str, np.ndarray]
    exact: bool = True
    wanted: dict[Tensor, np.ndarray] = field(default_factory=dict)
    shards: dict[Tensor, np.ndarray] = field(default_factory=dict)
    partial: dict[Tensor, tuple[str, ...]] = field(default_factory=dict)
    statistics: dict[str, np.ndarray] = field(default_factory=dict)
    used: set[Tensor] = field(default_factory=set)
    sent: list[Sent] = field(default_factory=list)
    flops: Fraction = Fraction(0)

    def place(self, tensor: Tensor) -> None:
        """Give every device its own block of a tensor that the pass starts from."""
        self.put(tensor, self.mesh.spread(self.values[tensor.name], tensor.layout))

    def put(self, tensor: Tensor, shards: np.ndarray, partial: tuple[str, ...] = ()) -> None:
        """Have the devices hold shards of a tensor, and check them."""
        self.shards[tensor], self.partial[tensor] = shards, self.mesh.own(partial)
        self.check(tensor)

    def run(self, program: tuple[Operation, ...]) -> None:
        """Execute and check one operation after the other."""
        for op in program:
            if isinstance(op, Moved):
                self.put(op.after, *self.move(op))
            elif isinstance(op, Sliced):
                self.put(op.after, self.slice(op), self.partial.get(op.before, ()))
            elif isinstance(op, Multiplied):
                self.put(op.result, self.multiply(op), op.partial)
            else:
                self.put(op.result, self.apply(op))

    def held(self, tensor: Tensor, *, whole: bool = True) -> np.ndarray:
        """The shards of a tensor in one layout; an error where no device holds them."""
        if tensor not in self.shards:
            raise SimulationError(f"{tensor} is not held; held: {', '.join(map(str, self.shards))}")
        if whole and self.partial[tensor]:
            raise SimulationError(f"{tensor} is a partial sum over {self.partial[tensor]}")
        self.used.add(tensor)
        return self.shards[tensor]

    def check(self, tensor: Tensor) -> None:
        """Every device holds its block; partial sums add up to it over the axes still to reduce.

        What is one part of a sum of several is checked when they are added.
        """
        if tensor.name not in self.values:
            return
        shards = self.shards[tensor]
        if tensor not in self.wanted:
            whole = self.values[tensor.name]
            self.wanted[tensor] = self.mesh.spread(whole, tensor.layout)
        want = self.wanted[tensor]
        total = shards.sum(axis=self.mesh.places(self.partial[tensor]), keepdims=True)
        same = shards.shape == want.shape and bool(
            np.all(total == want)
            if self.exact
            else np.allclose(total, want, rtol=TOLERANCE, atol=TOLERANCE * np.abs(want).max())
        )
        if not same:
            raise SimulationError(f"devices do not hold their blocks of {tensor}")

    def multiply(self, op: Multiplied) -> np.ndarray:
        """Local products, counted from the shapes of the shards: two FLOP per multiply-add that is
        done, none where a fused kernel makes again what it made before."""
        total: np.ndarray | float = 0.0
        mesh = range(len(self.mesh.shape))
        for pair in op.pairs:
            a, b = self.held(pair.left), self.held(pair.right)
            lengths: dict[str, int] = {}
            for tensor, shards in ((pair.left, a), (pair.right, b)):
                for dim, length in zip(tensor.dims, shards.shape[len(mesh) :], strict=True):
                    if lengths.setdefault(dim, length) != length:
                        raise SimulationError(f"{pair.left} . {pair.right}: shards differ in {dim}")
            number = {dim: len(mesh) + place for place, dim in enumerate(lengths)}
            left, right, out = (
                [*mesh, *(number[dim] for dim in tensor.dims)]
                for tensor in (pair.left, pair.right, op.result)
            )
            total = total + np.einsum(a, left, b, right, out)
            if not op.again:
                share = Fraction(int(pair.share.p), int(pair.share.q))
                self.flops += 2 * share * prod(lengths.values())
        return np.asarray(total)

    def apply(self, op: Applied) -> np.ndarray:
        """A function of what each device holds; it needs dimensions whole where it mixes them."""
        held = [self.held(tensor) for tensor in op.operands]
        if op.function in functions.ALONG and any(t.layout[-1] for t in (*op.operands, op.result)):
            raise SimulationError(f"{op.function} along a dimension that is split: {op.result}")
        if op.function in ("route", "combine"):
            # The places of experts follow the rows that they are of: they are on the same devices.
            wide, narrow = functions.places_and_rows(op.operands[0], op.result)
            count = len(narrow.dims) - len(wide.dims[2:] or ("E",))
            apart = ((axis for axes in narrow.layout[:count] for axis in axes), wide.layout[1])
            rows, places = (
                {axis for axis in self.mesh.own(tuple(axes)) if self.mesh.sizes[axis] > 1}
                for axes in apart
            )
            rest = wide.layout[2:] or ((),)
            if wide.layout[0] or rows != places or rest != narrow.layout[count:]:
                raise SimulationError(f"{op.function}: {wide} does not stand as {narrow} does")
            made = functions.routed(op, held[0], len(self.mesh.shape), self._local(op.result))
        elif len({t.layout for t in (*op.operands, op.result)}) > 1:
            raise SimulationError(f"{op.function}: unlike layouts of {op.operands} and {op.result}")
        elif op.again and op.function == "softmax":
            name = f"log-sum-exp of {op.result.name}"
            if name not in self.statistics:
                raise SimulationError(f"no {name} is kept")
            made = np.exp(held[0] - self.statistics[name][..., None])
        else:
            run = functions.FORWARD[op.function]
            if op.wrt is not None:
                run = partial(functions.GRADIENTS[op.function], op.wrt)
            try:
                made = run(*held)
            except TypeError as error:
                raise SimulationError(f"{op.function} of {len(held)} tensors: {error}") from None
            names = [tensor.name for tensor in op.operands]
            for name, kept in functions.KEPT.get(op.function, {}).items() if op.wrt is None else ():
                self.statistics[name.format(*names, result=op.result.name)] = kept(*held)
        if made.shape[len(self.mesh.shape) :] != self._local(op.result):
            raise SimulationError(f"{op.function} gives no shards of {op.result}")
        return made

    def _local(self, tensor: Tensor) -> tuple[int, ...]:
        """The shape of a device's shard of a tensor."""
        name = tensor.name.partition("+")[0]
        shape = self.values[name].shape
        return tuple(n // self.mesh.size(a) for n, a in zip(shape, tensor.layout, strict=True))

    def slice(self, op: Sliced) -> np.ndarray:
        """What each device keeps; an error where it would need what it does not hold."""
        shards = self.held(op.before, whole=False)
        shape = self.values[op.before.name.partition("+")[0]].shape
        mesh, lead = self.mesh, len(self.mesh.shape)
        devices = np.indices(mesh.shape)
        layouts = zip(op.before.layout, op.after.layout, shape, strict=True)
        for place, (have, want, size) in enumerate(layouts):
            if have == want:
                continue
            held, kept = size // mesh.size(have), size // mesh.size(want)
            start = mesh.rank(devices, want) * kept - mesh.rank(devices, have) * held
            if np.min(start) < 0 or np.max(start) + kept > held:
                raise SimulationError(f"a device cannot slice {op.before} to {op.after}")
            where = np.broadcast_to(start, mesh.shape)[..., None] + np.arange(kept)
            ones = [1] * len(shape)
            ones[place] = kept
            shards = np.take_along_axis(
                shards, where.reshape(*mesh.shape, *ones), axis=lead + place
            )
        return shards

    def move(self, op: Moved) -> tuple[np.ndarray, tuple[str, ...]]:
        """Run one collective in every group of its axes; also the axes that are still to reduce."""
        kind, axes = op.move.collective, self.mesh.own(op.move.axes)
        reducing = kind in ("reduce_scatter", "all_reduce")
        if kind == "permute":
            return self.permute(op), self.partial[op.before]
        shards = self.held(op.before, whole=False)  # a partial sum stays one where it is moved
        layouts = (map(self.mesh.own, layout) for layout in (op.before.layout, op.after.layout))
        pairs = list(zip(*layouts, strict=True))
        lost = [i for i, (b, a) in enumerate(pairs) if len(a) < len(b)]
        gained = [i for i, (b, a) in enumerate(pairs) if len(a) > len(b)]
        if (len(lost), len(gained)) != SHAPES[kind]:
            raise SimulationError(f"a {kind} cannot bring {op.before} to {op.after}")
        left = self.partial[op.before]
        if reducing:
            if not set(axes) <= set(left):
                raise SimulationError(f"{op.before} has nothing to reduce over {axes}")
            left = tuple(axis for axis in left if axis not in axes)
        local = list(self.mesh.by_rank(shards, axes))
        n, groups = len(local), prod(self.mesh.shape) // len(local)
        first = len(self.mesh.shape) - len(self.mesh.places(axes))  # of the local dimensions
        if kind == "all_gather":
            parts, sent = ring_gather(local)
            after = [np.concatenate(part, axis=first + lost[0]) for part in parts]
        elif kind == "reduce_scatter":
            after, sent = ring_reduce([chunks(one, n, first + gained[0]) for one in local])
        elif kind == "all_reduce":
            flat = [chunks(one.reshape(groups, -1), n, 1) for one in local]
            reduced, there = ring_reduce(flat)
            parts, back = ring_gather(reduced)
            after = [np.concatenate(part, axis=1).reshape(local[0].shape) for part in parts]
            sent = [a + b for a, b in zip(there, back, strict=True)]
        else:
            parts, sent = exchange([chunks(one, n, first + gained[0]) for one in local])
            after = [np.concatenate(part, axis=first + lost[0]) for part in parts]
        if len(set(sent)) != 1:
            raise SimulationError(f"{op.move}: devices send unlike amounts {sent}")
        largest = {"all_gather": after[0].size, "all_to_all": local[0].size * n}
        array = largest.get(kind, local[0].size)
        self.sent.append(Sent(sent[0] // groups, array // groups))
        return self.mesh.by_device(np.stack(after), axes), left

    def permute(self, op: Moved) -> np.ndarray:
        """Each device of a group hands its shard to one that wants it; those that hold what they
        want keep it. What the busiest sends is counted."""
        shards, mesh = self.held(op.before, whole=False), self.mesh
        shape = self.values[op.before.name.partition("+")[0]].shape
        fixed = [
            place for place, axis in enumerate(mesh.axes) if axis not in mesh.own(op.move.axes)
        ]
        own, wanted = (
            {device: mesh.block(layout, shape, device) for device in np.ndindex(mesh.shape)}
            for layout in (op.before.layout, op.after.layout)
        )
        free = {device for device in own if own[device] != wanted[device]}
        after, waiting = shards.copy(), sorted(free)
        for device in waiting:
            senders = (
                peer
                for peer in sorted(free)
                if own[peer] == wanted[device] and all(peer[p] == device[p] for p in fixed)
            )
            sender = next(senders, None)
            if sender is None:
                raise SimulationError(f"a permute cannot bring {op.before} to {op.after}")
            free.remove(sender)
            after[device] = shards[sender]
        size = shards[(0,) * len(mesh.shape)].size
        self.sent.append(Sent(size if waiting else 0, size))
        return after


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
    return [[one[which] for which in range(n)] for one in have], sent


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
