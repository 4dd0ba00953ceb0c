"""Every product of two matrices over two mesh axes, its least program, and what Shardy was recorded
to send and multiply for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod
from pathlib import Path

import sympy as sp
from layouts import every_layout

from derive.cost.block import Layout, Tensor
from derive.cost.program import Moved, Multiplied, Operation
from derive.cost.rules import Pass
from derive.cost.sizes import Sizes
from derive.notation.symbols import find, mesh_axis

DEGREES = {"X": 2, "Y": 4}
LENGTHS = ((256, 64, 128), (16384, 4096, 14336), (16, 4096, 14336))  # B, D, F
Case = tuple[Layout, Layout, Layout]
CASES: tuple[Case, ...] = tuple(product(every_layout(("X", "Y")), repeat=3))
RECORD = Path(__file__).parent / "data" / "shardy_products.json"


@dataclass(frozen=True)
class Outcome:
    """What a device sends, in elements, and over how many devices the product is divided."""

    sent: Fraction
    division: Fraction


def tensors(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    left, right, result = case
    return (
        Tensor("In", ("B", "D"), left),
        Tensor("W", ("D", "F"), right),
        Tensor("Out", ("B", "F"), result),
    )


def steps(case: Case, lengths: tuple[int, int, int]) -> list[Operation]:
    """The least program of a product."""
    left, right, result = tensors(case)
    known = dict(zip("BDF", lengths, strict=True))
    elements = {"e": 1, "e_g": 1}
    sizes = Sizes(DEGREES, known, frozenset({*known, *DEGREES}), elements, apart=True)
    one = Pass({"In": [left], "W": [right]}, (), sizes=sizes)
    one.multiply([(left, right, sp.S.One)], result)
    return one.program


def numbers(lengths: tuple[int, int, int]) -> dict[sp.Symbol, sp.Integer]:
    known = {find(dim): n for dim, n in zip("BDF", lengths, strict=True)}
    known |= {mesh_axis(axis): n for axis, n in DEGREES.items()} | {find("e"): 1, find("fma"): 2}
    return {symbol: sp.Integer(n) for symbol, n in known.items()}


def least(case: Case, lengths: tuple[int, int, int]) -> Outcome:
    """What the least program sends and multiplies."""
    known = numbers(lengths)
    program = steps(case, lengths)
    sent = [op.move.sent_bytes.xreplace(known) for op in program if isinstance(op, Moved)]
    (flops,) = (op.flops.xreplace(known) for op in program if isinstance(op, Multiplied))
    return Outcome(sum((Fraction(int(x.p), int(x.q)) for x in sent), Fraction(0)),
                   Fraction(2 * prod(lengths), int(flops)))  # fmt: skip


def used(case: Case) -> int:
    """The devices along the axes that a product names."""
    axes = {axis for layout in case for dim in layout for axis in dim}
    return prod(DEGREES[axis] for axis in axes)


@cache
def recorded() -> dict[tuple[tuple[int, int, int], Case], Outcome]:
    """Shardy's programs as they were recorded, by lengths and layouts."""
    data = json.loads(RECORD.read_text())
    return {
        (lengths, case): Outcome(Fraction(sent), Fraction(division))
        for lengths in LENGTHS
        for case, sent, division in zip(
            CASES,
            data["sent"]["x".join(map(str, lengths))],
            data["division"]["x".join(map(str, lengths))],
            strict=True,
        )
    }
