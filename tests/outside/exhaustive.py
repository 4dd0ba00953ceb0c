"""Every reshard of a matrix over three axes and every product over two, by the rules, by the least
program and by Shardy.

Counted, not listed: how often each sends less, and the bytes of all together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, permutations, product

import shardy
import sympy as sp
from cases import MESH
from cases import Sizes as Lengths
from counted import ELEMENT, derived, values, whole

from derive.cost.block import Block, Layout, ProductLine, Tensor
from derive.cost.program import Moved
from derive.cost.route import route
from derive.cost.rules import reshard
from derive.cost.sizes import Sizes

SIDE = 256
# Rows, summed and columns: small, a layer of a large model, and that layer for a few rows.
PRODUCTS: Mapping[str, Lengths] = {
    "256 x 64 x 128": {"B": 256, "D": 64, "F": 128},
    "16384 x 4096 x 14336": {"B": 16384, "D": 4096, "F": 14336},
    "16 x 4096 x 14336": {"B": 16, "D": 4096, "F": 14336},
}


@dataclass
class Tally:
    """In how many cases the rules, or the least program, send as much as Shardy, less and more, and
    the bytes that a device sends for all of them."""

    same: int = 0
    less: int = 0
    more: int = 0
    bytes: int = 0

    def add(self, ours: int, theirs: int) -> None:
        """Count a case."""
        self.same += ours == theirs
        self.less += ours < theirs
        self.more += ours > theirs
        self.bytes += ours


@dataclass
class Every:
    """How many cases there are, how the rules and the least program compare with Shardy, and what
    Shardy sends for all of them."""

    cases: int = 0
    derive: Tally = field(default_factory=Tally)
    least: Tally = field(default_factory=Tally)
    shardy_bytes: int = 0

    def add(self, rules: int, least: int, theirs: int) -> None:
        """Count a case."""
        self.cases += 1
        self.derive.add(rules, theirs)
        self.least.add(least, theirs)
        self.shardy_bytes += theirs


def layouts(axes: tuple[str, ...]) -> list[Layout]:
    """Every way to put some of the axes, in any order, on the two dimensions of a matrix."""
    return [
        (chosen[:cut], chosen[cut:])
        for count in range(len(axes) + 1)
        for chosen in permutations(axes, count)
        for (cut,) in combinations_with_replacement(range(count + 1), 1)
    ]


def reshards() -> Every:
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
    by, tally = values(MESH, {"B": SIDE, "D": SIDE}), Every()
    known = Sizes(MESH, {}, frozenset(), {}, apart=True)
    for name, (before, after) in pairs.items():
        start, wanted = (Tensor("T", ("B", "D"), layout) for layout in (before, after))
        rules, (_, least) = (
            reshard(start, after, sp.Integer(ELEMENT), True),
            route([start], (), wanted, known, sp.Integer(ELEMENT), True),
        )
        sent = (
            sum(whole(step.move.sent_bytes, by) for step in steps if isinstance(step, Moved))
            for steps in (rules, least)
        )
        tally.add(*sent, theirs[name].bytes)
    return tally


def products(sizes: Lengths) -> Every:
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
    theirs, tally = shardy.counted(text, shardy.PARTITION, MESH), Every()
    for name, (x, w, y) in triples.items():
        tensors = (
            Tensor("In", ("B", "D"), x),
            Tensor("W", ("D", "F"), w),
            Tensor("Out", ("B", "F"), y),
        )
        one = Block((ProductLine("In", ("W",), "Out"),), tensors, ("W",))
        rules, least = (
            derived(one, MESH, sizes, backward=False, keep="all", least=least).bytes
            for least in (False, True)
        )
        tally.add(rules, least, theirs[name].bytes)
    return tally
