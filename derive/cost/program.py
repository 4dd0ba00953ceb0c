"""A pass as a program: what is moved, sliced, multiplied and applied, in order.

The costs of a pass are read off it, and it can be executed (the tests run it on simulated devices).
Each operation names tensors with their layout at that point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Literal, get_args

import sympy as sp

from derive.cost.block import Tensor, joined
from derive.notation.symbols import find, fma, mesh_axis
from derive.notation.text import text

Collective = Literal[
    "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "permute", "send", "load"
]

IN_PARTS = ("all_gather", "all_to_all")  # of an array that the group holds in parts before
# How often the whole array passes over the wire for large n. What a ring or a switch makes of an
# all-to-all belongs to the network.
TRAVERSALS: dict[Collective, int] = {**dict.fromkeys(get_args(Collective), 1), "all_reduce": 2}


def degree(axes: tuple[str, ...]) -> sp.Expr:
    """The number of devices in a group that spans the mesh axes `axes`, or parts of them, Y:(2)4:
    four devices, two apart."""
    parts = (
        sp.Integer(int(axis.partition(")")[2])) if ":" in axis else mesh_axis(axis) for axis in axes
    )
    return sp.Mul(*parts)


def elements(tensor: Tensor, without: tuple[str, ...] = ()) -> sp.Expr:
    """The elements of `tensor` on a device, as if the axes of `without` did not split it."""
    whole = sp.Mul(*(find(dim) for dim in tensor.dims))
    return whole / degree(tuple(axis for axis in tensor.axes if axis not in without))


def sent_part(collective: Collective, n: Fraction | sp.Expr) -> Fraction | sp.Expr | int:
    """What one of `n` devices sends, as a part of the array that is counted (see `Move`)."""
    if collective in ("permute", "send", "load"):
        return 1
    share = (n - 1) / n
    return TRAVERSALS[collective] * (share / n if collective == "all_to_all" else share)


@dataclass(frozen=True)
class Move:
    """One collective. `array_bytes` is the full array at that point: what an all-gather makes, what
    a reduction starts from, for an all-to-all all that the group holds, and for a permute the shard
    that each device hands to another one. Unit: byte.

    `axes` is the group, outermost first: mesh axes, or S for slices. `critical` says whether the
    computation of the pass waits for it; what it does not wait for can hide under the products
    whose results `under` names.
    """

    collective: Collective
    tensor: str
    axes: tuple[str, ...]
    array_bytes: sp.Expr
    critical: bool
    under: tuple[str, ...] = ()

    @property
    def axis(self) -> str:
        """The group's mesh axes in one word, as they are written after a dimension."""
        return joined(self.axes)

    @property
    def devices(self) -> sp.Expr:
        """The number of devices in the group; for a `send` or `load` it plays no part."""
        return degree(self.axes)

    @cached_property
    def bytes(self) -> sp.Expr:
        """The large-n volume: the array times 2 for an all-reduce, times 1 for the others."""
        return TRAVERSALS[self.collective] * self.array_bytes

    @cached_property
    def sent_bytes(self) -> sp.Expr:
        """Exactly what one device sends, for a group of any finite size."""
        return self.array_bytes * sent_part(self.collective, self.devices)


@dataclass(frozen=True)
class Moved:
    """A move with the layouts before and after it, as needed to execute it."""

    move: Move
    before: Tensor
    after: Tensor


def moved(
    collective: Collective,
    before: Tensor,
    after: Tensor,
    axes: tuple[str, ...],
    element: sp.Expr,
    critical: bool,
) -> Moved:
    """A move between two layouts of elements of so many bytes; the array counted is the one that is
    whole over `axes`, but for a permute."""
    parts = degree(axes) if collective in IN_PARTS else sp.S.One
    size = element * elements(before) * parts
    return Moved(Move(collective, before.name, axes, size, critical), before, after)


@dataclass(frozen=True)
class Sliced:
    """A device drops what it does not need of a tensor it holds; free."""

    before: Tensor
    after: Tensor


@dataclass(frozen=True)
class Pair:
    """One local product. `roles` gives the mesh axes that split each dimension, summed ones
    included; `share` is the part of the multiply-adds that is done: half where a causal mask leaves
    out the other half, none for a look-up."""

    left: Tensor
    right: Tensor
    roles: tuple[tuple[str, tuple[str, ...]], ...]
    share: sp.Rational

    @property
    def flops(self) -> sp.Expr:
        """What one device computes: two FLOP (one multiply-add) per element of the product."""
        return fma * self.share * sp.Mul(*(find(d) / degree(axes) for d, axes in self.roles))


@dataclass(frozen=True)
class Multiplied:
    """Local products, added up; `partial` axes still have to be reduced. `again` marks what a fused
    kernel makes a second time: by convention it is not counted."""

    pairs: tuple[Pair, ...]
    result: Tensor
    partial: tuple[str, ...]
    again: bool = False

    @cached_property
    def flops(self) -> sp.Expr:
        """The FLOP of one device; zero where the product is made again."""
        return sp.S.Zero if self.again else sp.Add(*(pair.flops for pair in self.pairs))


@dataclass(frozen=True)
class Applied:
    """A function of local tensors, element by element or along whole dimensions; its FLOPs are
    ignored. With `wrt` it is the gradient in that operand: the operands are then the gradient of
    the result and what the function needs for it."""

    function: str
    operands: tuple[Tensor, ...]
    result: Tensor
    wrt: int | None = None
    again: bool = False


Operation = Moved | Sliced | Multiplied | Applied


@dataclass(frozen=True, repr=False)
class PassCost:
    """One pass (forward or backward) of a layer: what a device computes and the moves it takes part
    in. `program` is empty for strategies that declare their moves directly. Unit of flops: FLOP.
    """

    name: str
    flops: sp.Expr
    moves: tuple[Move, ...]
    program: tuple[Operation, ...] = ()

    def told(self, values: Mapping[sp.Symbol, sp.Expr] = MappingProxyType({})) -> str:
        """The pass on a line: its FLOPs, its bytes and what moves, with some symbols' values."""
        size = sp.Add(*(move.bytes for move in self.moves)).xreplace(values)
        moved = ", ".join(f"{m.collective} {m.tensor}" for m in self.moves) or "nothing moves"
        return (
            f"{self.name:<9}{text(self.flops.xreplace(values))} FLOP, {text(size)} bytes: {moved}"
        )

    def __repr__(self) -> str:
        return self.told()


@dataclass(frozen=True, repr=False)
class Saved:
    """What the forward pass leaves for the backward one, and its bytes on a device: a tensor in the
    layout that is kept, or what the kernel of a `function` keeps besides."""

    tensor: Tensor
    bytes: sp.Expr
    function: str = ""

    @property
    def name(self) -> str:
        """The tensor's name; of what is kept in fp32, In in fp32."""
        return self.tensor.name.replace("+", " in ")

    def __repr__(self) -> str:
        return f"{self.name} {text(self.bytes)}"
