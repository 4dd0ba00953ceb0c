"""A pass as a program: what is moved, sliced, multiplied and combined, in order.

The costs of a pass are read off it, and it can be executed (the tests run it on simulated devices).
Each operation names tensors with their layout at that point.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import sympy as sp

from derive.cost.moves import Move, degree, product
from derive.cost.sharding import Tensor
from derive.notation.symbols import find, fma


@dataclass(frozen=True)
class Moved:
    """A move with the layouts before and after it, as needed to execute it."""

    move: Move
    before: Tensor
    after: Tensor


@dataclass(frozen=True)
class Sliced:
    """A device drops what it does not need of a tensor it holds; free."""

    before: Tensor
    after: Tensor


@dataclass(frozen=True)
class Multiplied:
    """Local products of pairs of operands, added up; `partial` axes still have to be reduced.

    `roles` gives the mesh axes that split each dimension of the product, summed ones included.
    """

    pairs: tuple[tuple[Tensor, Tensor], ...]
    result: Tensor
    partial: tuple[str, ...]
    roles: tuple[tuple[str, tuple[str, ...]], ...]

    @cached_property
    def flops(self) -> sp.Expr:
        """What one device computes: two FLOP (one multiply-add) per element of each product."""
        local = product([find(dim) / degree(axes) for dim, axes in self.roles])
        return fma * len(self.pairs) * local


@dataclass(frozen=True)
class Combined:
    """The element-wise product of local tensors of one layout (a gate); its FLOPs are ignored."""

    operands: tuple[Tensor, ...]
    result: Tensor


Operation = Moved | Sliced | Multiplied | Combined


@dataclass(frozen=True)
class PassCost:
    """One pass (forward or backward) of a layer: what a device computes and the moves it takes part
    in. `program` is empty for strategies that declare their moves directly. Unit of flops: FLOP.
    """

    name: str
    flops: sp.Expr
    moves: tuple[Move, ...]
    program: tuple[Operation, ...] = ()


def pass_of(name: str, program: tuple[Operation, ...]) -> PassCost:
    """The cost of a program."""
    flops = sp.Add(*(op.flops for op in program if isinstance(op, Multiplied)))
    return PassCost(name, flops, tuple(op.move for op in program if isinstance(op, Moved)), program)
