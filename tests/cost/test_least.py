"""The least route between layouts against an exhaustive search, and run on simulated devices."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import cache
from math import prod

import numpy as np
import pytest
import sympy as sp
from layouts import every_layout
from products import CASES, LENGTHS, least, recorded, steps, tensors, used
from simulator import Machine, Mesh

from derive.cost.block import Layout, Tensor
from derive.cost.program import Moved, Operation
from derive.cost.route import Sizes, route
from derive.notation.symbols import find, mesh_axis

DEGREES = {"X": 2, "Y": 4, "Z": 2}
DIMS = ("B", "D")


@cache
def optimum() -> dict[tuple[Layout, Layout], Fraction]:
    """The least part of the tensor that a device sends from each layout to each other one: Floyd
    and Warshall over a table of what one operation sends, told from the two layouts alone."""
    states = every_layout(tuple(DEGREES))
    least = {(a, b): direct(a, b) for a in states for b in states}
    for via in states:
        for a in states:
            if (first := least[a, via]) is not None:
                for b in states:
                    second, known = least[via, b], least[a, b]
                    if second is not None and (known is None or first + second < known):
                        least[a, b] = first + second
    return {pair: sent for pair, sent in least.items() if sent is not None}


def direct(a: Layout, b: Layout) -> Fraction | None:
    """What a device sends where one operation leads from `a` to `b`; None where none does."""
    parts = [[prod(DEGREES[axis] for axis in axes) for axes in layout] for layout in (a, b)]
    held, wanted = (Fraction(1, prod(split)) for split in parts)
    longer = [x[: len(y)] == y for x, y in zip(a, b, strict=True)]
    shorter = [y[: len(x)] == x for x, y in zip(a, b, strict=True)]
    if all(shorter):
        return Fraction(0)  # a slice, or nothing
    options = []
    if all(longer) and sum(x != y for x, y in zip(a, b, strict=True)) == 1:
        options.append(wanted - held)  # an all-gather: all that it makes but the own share
    for one, other in ((0, 1), (1, 0)):
        gone, come = a[one][len(b[one]) :], b[other][len(a[other]) :]
        if longer[one] and shorter[other] and gone == come:
            options.append(held - held / prod(DEGREES[axis] for axis in gone))
    if parts[0] == parts[1]:
        options.append(held)
    return min(options, default=None)


def bring(before: Layout, after: Layout, degrees: dict[str, int]) -> list[Operation]:
    sizes = Sizes(degrees, {}, frozenset(), {})
    start, wanted = Tensor("In", DIMS, before), Tensor("In", DIMS, after)
    return route([start], (), wanted, sizes, sp.S.One, critical=True)[1]


def sent(steps: list[Operation], numbers: dict[sp.Symbol, int]) -> list[Fraction]:
    """The bytes of each move at the sizes of a run."""
    values = [
        step.move.sent_bytes.xreplace({s: sp.Integer(n) for s, n in numbers.items()})
        for step in steps
        if isinstance(step, Moved)
    ]
    return [Fraction(int(value.p), int(value.q)) for value in values]


def run(before: Layout, steps: list[Operation], degrees: dict[str, int]) -> None:
    """Devices that execute the steps hold what they should, and send what the moves say."""
    mesh = Mesh(degrees)
    whole = prod(degrees.values())
    values = {"In": np.arange(whole**2 * 2, dtype=float).reshape(whole, 2 * whole)}
    machine = Machine(mesh, values)
    machine.place(Tensor("In", DIMS, before))
    machine.run(tuple(steps))
    numbers = {find("B"): whole, find("D"): 2 * whole}
    numbers |= {mesh_axis(axis): n for axis, n in degrees.items()}
    assert [one.elements for one in machine.sent] == sent(steps, numbers)


def test_all_reshards_of_a_mesh_are_the_optimum_and_run() -> None:
    layouts = every_layout(tuple(DEGREES))
    assert len(layouts) ** 2 == len(optimum()) == 2401
    numbers = {find("B"): 1, find("D"): 1} | {mesh_axis(axis): n for axis, n in DEGREES.items()}
    for (before, after), known in optimum().items():
        steps = bring(before, after, DEGREES)
        assert sum(sent(steps, numbers)) == known, (before, after)
        run(before, steps, DEGREES)


@pytest.mark.parametrize("degrees", [{"X": 2, "Y": 1, "Z": 2}, {"X": 3, "Y": 2, "Z": 6}], ids=str)
def test_reshards_of_other_meshes_run(degrees: dict[str, int]) -> None:
    """Axes of one device, and one as large as two others together."""
    layouts = every_layout(tuple(degrees))
    for before, after in random.Random(1).sample([(a, b) for a in layouts for b in layouts], 200):
        run(before, bring(before, after, degrees), degrees)


def test_no_product_sends_more_than_shardy_does() -> None:
    """All products of two matrices over two axes, at three sizes: a sample here, all of them where
    jax is installed (tests/outside)."""
    assert len(CASES) == 1331 and len(recorded()) == 3 * 1331
    for lengths in LENGTHS:
        for case in random.Random(2).sample(CASES, 200):
            ours, theirs = least(case, lengths), recorded()[lengths, case]
            assert ours.sent <= theirs.sent, tensors(case)
            assert theirs.division <= ours.division <= used(case), tensors(case)


def test_products_run() -> None:
    """A sample of the same products on simulated devices."""
    for case in random.Random(3).sample(CASES, 150):
        left, right, result = tensors(case)
        draw = np.random.default_rng(4)
        values = {
            "In": draw.integers(-3, 4, (16, 8)) * 1.0,
            "W": draw.integers(-3, 4, (8, 24)) * 1.0,
        }
        values["Out"] = values["In"] @ values["W"]
        machine = Machine(Mesh({"X": 2, "Y:(1)2": 2, "Y:(2)2": 2}), values)
        machine.place(left)
        machine.place(right)
        program = steps(case, (16, 8, 24))
        machine.run(tuple(program))
        machine.held(result)
        known = {find("B"): 16, find("D"): 8, find("F"): 24, find("e"): 1, mesh_axis("X"): 2}
        counted = [one.elements for one in machine.sent]
        assert counted == sent(program, {**known, mesh_axis("Y"): 4}), tensors(case)
