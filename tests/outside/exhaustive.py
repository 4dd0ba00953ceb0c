"""Every reshard of a matrix over three axes and every product over two, by the rules and by Shardy.

Counted, not listed: how often each sends less, and the bytes of all together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations, product

import shardy
import sympy as sp
from cases import MESH, Sizes
from counted import ELEMENT, derived, values, whole

from derive.cost.block import Block, Layout, ProductLine, Tensor
from derive.cost.program import Moved
from derive.cost.rules import reshard

SIDE = 256
# Rows, summed and columns: small, a layer of a large model, and that layer for a few rows.
PRODUCTS: Mapping[str, Sizes] = {
    "256 x 64 x 128": {"B": 256, "D": 64, "F": 128},
    "16384 x 4096 x 14336": {"B": 16384, "D": 4096, "F": 14336},
    "16 x 4096 x 14336": {"B": 16, "D": 4096, "F": 14336},
}


@dataclass
class Tally:
    """How many cases there are, in how many the rules send as much as Shardy, less and more, and
    the bytes that a device sends for all of them."""

    cases: int = 0
    same: int = 0
    less: int = 0
    more: int = 0
    derive_bytes: int = 0
    shardy_bytes: int = 0

    def add(self, ours: int, theirs: int) -> None:
        """Count a case."""
        self.cases += 1
        self.same += ours == theirs
        self.less += ours < theirs
        self.more += ours > theirs
        self.derive_bytes += ours
        self.shardy_bytes += theirs


def layouts(axes: tuple[str, ...]) -> list[Layout]:
    """Every way to put some of the axes, in any order, on the two dimensions of a matrix."""
    return [
        (chosen[:cut], chosen[cut:])
        for count in range(len(axes) + 1)
        for chosen in permutations(axes, count)
        for (cut,) in combinations_with_replacement(range(count + 1), 1)
    ]


def reshards() -> Tally:
    """All reshards of a square matrix on the mesh of the cases."""
    every = layouts(tuple(MESH))
    kind = f"tensor<{SIDE}x{SIDE}xf32>"
    pairs = {f"f{number}": pair for number, pair in enumerate(product(every, every))}
    text = shardy.module(
        [
            f"func.func public @{name}(%0: {kind} {shardy.split(before)}) -> {kind} {{ "
            f"%1 = sdy.reshard %0 {shardy.sharding(after)} : {kind} return %1 : {kind} }}"
            for name, (before, after) in pairs.items()
        ],
        MESH,
    )
    theirs = shardy.counted(text, "func.func(sdy-reshard-to-collectives)", MESH)
    by, tally = values(MESH, {"B": SIDE, "D": SIDE}), Tally()
    for name, (before, after) in pairs.items():
        route = reshard(Tensor("T", ("B", "D"), before), after, sp.Integer(ELEMENT), True)
        sent = sum(whole(step.move.sent_bytes, by) for step in route if isinstance(step, Moved))
        tally.add(sent, theirs[name].bytes)
    return tally


def products(sizes: Sizes) -> Tally:
    """All products of two matrices on the first two axes of the mesh."""
    every = layouts(("X", "Y"))
    b, d, f = sizes.values()
    left, right, result = (f"tensor<{m}x{n}xf32>" for m, n in ((b, d), (d, f), (b, f)))
    triples = {f"f{n}": triple for n, triple in enumerate(product(every, repeat=3))}
    text = shardy.module(
        [
            f"func.func public @{name}(%0: {left} {shardy.split(x)}, %1: {right} {shardy.split(w)})"
            f" -> ({result} {shardy.split(y)}) {{ "
            "%2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] "
            f"{{sdy.sharding = #sdy.sharding_per_value<[{shardy.sharding(y)}]>}} : "
            f"({left}, {right}) -> {result} return %2 : {result} }}"
            for name, (x, w, y) in triples.items()
        ],
        MESH,
    )
    theirs, tally = shardy.counted(text, shardy.PARTITION, MESH), Tally()
    for name, (x, w, y) in triples.items():
        tensors = (
            Tensor("In", ("B", "D"), x),
            Tensor("W", ("D", "F"), w),
            Tensor("Out", ("B", "F"), y),
        )
        one = Block((ProductLine("In", ("W",), "Out"),), tensors, ("W",))
        ours = derived(one, MESH, sizes, backward=False, keep="all")
        tally.add(ours.bytes, theirs[name].bytes)
    return tally
