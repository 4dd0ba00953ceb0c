"""Moves: one collective on one tensor over one mesh axis or group of axes, and what it sends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import sympy as sp

from derive.notation.symbols import find

Collective = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "send", "load"]

# How often the whole array passes over the wire for large n. What a ring or a switch makes of an
# all-to-all belongs to the network.
PASSES: dict[Collective, int] = {
    "all_gather": 1,
    "reduce_scatter": 1,
    "all_reduce": 2,
    "all_to_all": 1,
    "send": 1,
    "load": 1,
}


def product(factors: list[sp.Expr]) -> sp.Expr:
    """The product of `factors`; 1 for none."""
    return sp.Mul(*factors)


def degree(axes: tuple[str, ...]) -> sp.Expr:
    """The number of devices in a group that spans the mesh axes `axes`."""
    return product([find(axis) for axis in axes])


@dataclass(frozen=True)
class Move:
    """One collective. `array_bytes` is the full array at that point: what an all-gather makes, what
    a reduction starts from, and for an all-to-all all that the group holds. Unit: byte.

    `axes` is the group, outermost first: mesh axes, or S for slices. `critical` says whether the
    computation of the pass waits for it.
    """

    collective: Collective
    tensor: str
    axes: tuple[str, ...]
    array_bytes: sp.Expr
    critical: bool

    @property
    def axis(self) -> str:
        """The group's mesh axes in one word, as they are written after a dimension."""
        return "".join(self.axes)

    @property
    def devices(self) -> sp.Expr:
        """The number of devices in the group; for a `send` or `load` it plays no part."""
        return degree(self.axes)

    @cached_property
    def bytes(self) -> sp.Expr:
        """The large-n volume: the array times 2 for an all-reduce, times 1 for the others."""
        return PASSES[self.collective] * self.array_bytes

    @cached_property
    def sent_bytes(self) -> sp.Expr:
        """Exactly what one device sends, for a group of any finite size."""
        if self.collective in ("send", "load"):
            return self.array_bytes
        n = self.devices
        share = (n - 1) / n**2 if self.collective == "all_to_all" else (n - 1) / n
        return PASSES[self.collective] * self.array_bytes * share
