"""What a device sends and computes, by whomever it is partitioned, and how two of them compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import sympy as sp
from cases import Sizes

from derive.cost.block import Block, Fusion
from derive.cost.passes import program
from derive.cost.program import PassCost
from derive.notation.symbols import e, e_32, e_g, find, fma, mesh_axis

ELEMENT = 4  # bytes: everything is partitioned in fp32

# What one device sends of what it holds before, by the devices of its group: a gather passes its
# shard on n - 1 times, an exchange keeps one n-th of it, a reduction in a ring sends n - 1 of n
# parts, and an all-reduce does so twice.
SHARES = {
    "all_gather": lambda n: sp.Integer(n - 1),
    "all_to_all": lambda n: sp.Rational(n - 1, n),
    "reduce_scatter": lambda n: sp.Rational(n - 1, n),
    "all_reduce": lambda n: 2 * sp.Rational(n - 1, n),
    "permute": lambda n: sp.Integer(1),
}


@dataclass(frozen=True, order=True)
class Sent:
    """One collective: its kind, its mesh axes in alphabetical order, and the bytes that the device
    sends that sends most."""

    kind: str
    axes: tuple[str, ...]
    bytes: int

    def __str__(self) -> str:
        return f"{self.kind} {'+'.join(self.axes)} {self.bytes}"


def sent(kind: str, axes: Iterable[str], devices: int, held: int) -> Sent:
    """A collective among `devices` of which each holds `held` elements before it."""
    amount = SHARES[kind](devices) * held * ELEMENT
    if amount.q != 1:
        raise ValueError(f"{kind} of {held} elements among {devices} sends no whole bytes")
    return Sent(kind, tuple(sorted(axes)), int(amount))


def values(mesh: Sizes, sizes: Sizes) -> dict[sp.Symbol, sp.Integer]:
    """The symbols of a block's costs by value."""
    told = {find(dim): length for dim, length in sizes.items()}
    told |= {mesh_axis(axis): length for axis, length in mesh.items()}
    told |= dict.fromkeys((e, e_g, e_32), ELEMENT)
    return {symbol: sp.Integer(value) for symbol, value in {**told, fma: 2}.items()}


def whole(expr: sp.Expr, by: dict[sp.Symbol, sp.Integer]) -> int:
    """The value of an expression that is a whole number."""
    value = expr.xreplace(by)
    if not value.is_Integer:
        raise ValueError(f"{expr} is no whole number: {value}")
    return int(value)


@dataclass(frozen=True)
class Counted:
    """The collectives of a program, and the FLOPs of a device where they are counted. `repeated`
    are the bytes of gathers that bring what an earlier one of the program brought already."""

    sent: tuple[Sent, ...]
    flops: int | None = None
    repeated: int = 0

    @property
    def bytes(self) -> int:
        """What a device sends in all."""
        return sum(one.bytes for one in self.sent)

    @property
    def listed(self) -> list[str]:
        """The collectives as text, in one order: "2 x all_gather X 131072"."""
        told = Counter(map(str, sorted(self.sent)))
        return [f"{n} x {one}" for one, n in told.items()]


def verdict(derived: Counted, theirs: Counted) -> str:
    """Whether the same collectives are chosen, over the same axes and of the same bytes."""
    return "agrees" if derived.listed == theirs.listed else "chooses otherwise"


def derived(
    block: Block, mesh: Sizes, sizes: Sizes, *, backward: bool, keep: str, least: bool = False
) -> Counted:
    """What the canonical rules, or the least program, send for a block whose mask is not used to
    leave work out."""
    by = values(mesh, sizes)
    known = {axis: mesh[axis] for axis in block.mesh} | {"e": ELEMENT, "e_g": ELEMENT, **sizes}
    search = tuple(known.items()) if least else None
    passes = program(block, keep, Fusion("unfused", "unfused", "unfused"), search)
    costs = (passes.forward, passes.backward) if backward else (passes.forward,)
    return Counted(
        tuple(one for cost in costs for one in _moves(cost, by)),
        sum(whole(cost.flops, by) for cost in costs),
    )


def _moves(cost: PassCost, by: dict[sp.Symbol, sp.Integer]) -> list[Sent]:
    return [
        Sent(move.collective, tuple(sorted(move.axes)), whole(move.sent_bytes, by))
        for move in cost.moves
    ]
