"""The least route between layouts against an exhaustive search, and run on simulated devices."""

from __future__ import annotations

import random
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, permutations, product
from math import prod

import numpy as np
import pytest
import sympy as sp
from layouts import every_layout
from products import CASES, LENGTHS, least, recorded, steps, tensors, used
from simulator import Machine, Mesh

from derive.cost.block import Layout, Tensor
from derive.cost.passes import program
from derive.cost.program import Moved, Operation, Sliced
from derive.cost.reader import block
from derive.cost.route import route, space_of
from derive.cost.sizes import Sizes, sizes_of
from derive.notation.errors import ShardingError
from derive.notation.symbols import find, mesh_axis

DEGREES = {"X": 2, "Y": 4, "Z": 2}
DIMS = ("B", "D")

State = tuple[Layout, frozenset[str]]  # a layout, and the axes that are still to be reduced


@cache
def optimum(
    degrees: tuple[tuple[str, int], ...], lengths: tuple[int, ...]
) -> dict[tuple[State, State], int]:
    """The least that a device sends from each state of a tensor to each other one, in units of
    which the tensor has the square of the number of devices: Floyd and Warshall over a table of
    what one operation sends, told from the two states alone."""
    known = dict(degrees)
    states = [
        (layout, partial)
        for layout in every_layout(tuple(known), len(lengths))
        if not any(n % size(axes, known) for n, axes in zip(lengths, layout, strict=True))
        for count in range(len(known) + 1)
        for partial in map(frozenset, combinations(known, count))
        if partial.isdisjoint(chain.from_iterable(layout))
    ]
    one = {(a, b): direct(a, b, known) for a in states for b in states}
    table = {pair: sent for pair, sent in one.items() if sent is not None}
    for via in states:
        into = [(a, table[a, via]) for a in states if (a, via) in table]
        ahead = [(b, table[via, b]) for b in states if (via, b) in table]
        for (a, first), (b, second) in product(into, ahead):
            table[a, b] = min(first + second, table.get((a, b), first + second))
    return table


def size(axes: Iterable[str], degrees: dict[str, int]) -> int:
    return prod(degrees[axis] for axis in axes)


def direct(before: State, after: State, degrees: dict[str, int]) -> int | None:
    """What a device sends where one operation leads from a state to another; None where none
    does."""
    (a, partial), (b, rest) = before, after
    splits = [[size(axes, degrees) for axes in layout] for layout in (a, b)]
    held, wanted = (prod(degrees.values()) ** 2 // prod(split) for split in splits)
    unlike = [dim for dim, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    longer = [x[: len(y)] == y for x, y in zip(a, b, strict=True)]
    shorter = [y[: len(x)] == x for x, y in zip(a, b, strict=True)]
    if partial != rest:
        group = partial - rest
        whole = held - held // size(group, degrees)  # what a ring sends to add up what is held
        scattered = [dim for dim in unlike if shorter[dim] and {*b[dim]} == group.union(a[dim])]
        possible = rest < partial and unlike == scattered and len(unlike) < 2
        return (1 if unlike else 2) * whole if possible else None
    if all(shorter):
        return 0  # a slice, or nothing
    options = []
    if all(longer) and len(unlike) == 1:
        options.append(wanted - held)  # an all-gather: all that it makes but the own share
    for one, other in permutations(unlike) if len(unlike) == 2 else ():
        gone, come = a[one][len(b[one]) :], b[other][len(a[other]) :]
        if longer[one] and shorter[other] and gone == come:
            options.append(held - held // size(gone, degrees))
    if splits[0] == splits[1]:
        options.append(held)
    return min(options, default=None)


def bring(
    before: Layout,
    after: Layout,
    degrees: dict[str, int],
    partial: Iterable[str] = (),
    lengths: tuple[int, ...] = (),
) -> list[Operation]:
    dims = ("B", "D", "F")[: len(before)]
    known = dict(zip(dims, lengths, strict=False))
    sizes = Sizes(degrees, known, frozenset({*degrees, *known}), {})
    start, wanted = Tensor("In", dims, before), Tensor("In", dims, after)
    return route([start], sorted(partial), wanted, sizes, sp.S.One, critical=True)[1]


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
    whole = prod(DEGREES.values()) ** 2
    known = optimum(tuple(DEGREES.items()), (whole, whole))
    layouts = every_layout(tuple(DEGREES))
    numbers = {find("B"): 1, find("D"): 1} | {mesh_axis(axis): n for axis, n in DEGREES.items()}
    assert len(layouts) ** 2 == 2401
    each: dict[Operation, None] = {}
    for before, after in product(layouts, repeat=2):
        steps = bring(before, after, DEGREES)
        fewest = known[(before, frozenset()), (after, frozenset())]
        assert sum(sent(steps, numbers)) * whole == fewest, (before, after)
        ends = [before, *(layout for one in steps for layout in ends_of(one)), after]
        assert ends[::2] == ends[1::2]  # each begins where the one before it ended
        each |= dict.fromkeys(steps)
    for step in each:
        run(ends_of(step)[0], [step], DEGREES)


def ends_of(step: Operation) -> tuple[Layout, Layout]:
    assert isinstance(step, (Moved, Sliced))
    return step.before.layout, step.after.layout


@pytest.mark.parametrize("lengths", [(6, 6, 6), (6, 2, 3), (4, 9, 1)], ids=str)
@pytest.mark.parametrize("degrees", [{"X": 2, "Y": 3}, {"X": 2, "Y": 2}], ids=str)
def test_partial_sums_of_three_dimensions_are_reduced_with_least(
    degrees: dict[str, int], lengths: tuple[int, ...]
) -> None:
    """From all states to all layouts into which the lengths divide, by as few bytes."""
    whole = prod(degrees.values()) ** 2
    numbers = {find(dim): 1 for dim in "BDF"} | {mesh_axis(a): n for a, n in degrees.items()}
    known = optimum(tuple(degrees.items()), lengths)
    for ((before, partial), (after, rest)), fewest in known.items():
        if not rest:
            steps = bring(before, after, degrees, partial, lengths)
            assert sum(sent(steps, numbers)) * whole == fewest, (before, partial, after)


def test_what_is_whole_is_all_reduced_at_once() -> None:
    """A reduce-scatter and an all-gather would send as much, in two moves."""
    whole: Layout = ((), ())
    (step,) = bring(whole, whole, DEGREES, DEGREES)
    assert isinstance(step, Moved)
    assert (step.move.collective, {*step.move.axes}) == ("all_reduce", {*DEGREES})


def test_sizes_that_are_not_given_are_taken() -> None:
    """For axes primes unlike all others; numbers of devices that are no axis add none."""
    read = block("In[B_X, D] . W[D_Z, F_tp] -> Out[B_X, F]")
    sizes = sizes_of(read, {"X": 55, "Y": 3, "N": 64, "S": 2, "virtual": 2, "B": 6, "e": 8})
    taken = {axis: sizes.degrees[axis] for axis in ("Z", "tp")}
    assert sizes.degrees == {"X": 55, **taken, "Y": 3} and len({*taken.values()}) == 2
    assert all(sp.isprime(n) and n > 3 and 55 % n for n in taken.values())
    assert sizes.lengths["B"] == 6 and sizes.lengths.keys() == {*"BDF"}
    assert sizes.elements == {"e": 8, "e_g": 16, "e_32": 32}
    assert sizes.parts == {"X:(1)5": 5, "X:(5)11": 11, **taken, "Y": 3}
    assert "B = 6, D = 8,192 (taken)" in str(sizes) and "X = 55, Z" in str(sizes)
    assert sizes_of(block("A[B_X, D] -> Full[B, D]"), {}).apart


@pytest.mark.parametrize("degrees", [{"X": 2, "Y": 1, "Z": 2}, {"X": 3, "Y": 2, "Z": 6}], ids=str)
def test_reshards_of_other_meshes_run(degrees: dict[str, int]) -> None:
    """Axes of one device, and one as large as two others together."""
    layouts = every_layout(tuple(degrees))
    for before, after in random.Random(1).sample([(a, b) for a in layouts for b in layouts], 200):
        run(before, bring(before, after, degrees), degrees)


@pytest.mark.parametrize(
    ("dims", "axes", "searched"),
    [("BDF", 4, "XYZa"), ("BDF", 5, "XY"), ("BD", 4, "XYZa"), ("BDFH", 4, "XY")],
)
def test_axes_beyond_those_of_a_tensor_are_searched_while_they_are_few(
    dims: str, axes: int, searched: str
) -> None:
    """Four axes over three dimensions make 685 layouts, at most 700 of which are searched."""
    tensor = Tensor("In", tuple(dims), (("X", "Y"), *((),) * (len(dims) - 1)))
    sizes = Sizes(dict.fromkeys("XYZab"[:axes], 2), {}, frozenset(), {})
    space = space_of(tensor, tensor.axes, sizes)
    assert "".join(axis for axis, _ in space.degrees) == searched


def test_the_most_layouts_that_are_searched() -> None:
    """Four axes over five dimensions make 2,721 layouts, over six 4,645; 3,000 are searched."""
    sizes = Sizes(dict.fromkeys("XYZa", 2), {}, frozenset(), {})
    five, six = (Tensor("In", tuple("BDFHVK"[:n]), (tuple("XYZa"), *((),) * (n - 1)))
                 for n in (5, 6))  # fmt: skip
    assert len(space_of(five, five.axes, sizes).degrees) == 4
    with pytest.raises(ShardingError, match="more than 3,000 layouts"):
        space_of(six, six.axes, sizes)


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


def test_degrees_that_are_not_given_are_primes_that_divide_none_that_is() -> None:
    read = block("In[B_X, D] . W_in[D, F_Y] -> Out[B_X, F_Y]")
    assert sizes_of(read, {}).degrees == {"X": 5, "Y": 7}
    assert sizes_of(read, {"X": 5}).degrees == {"X": 5, "Y": 7}


def test_a_sum_is_reduced_once_where_that_sends_less() -> None:
    """The gradient of In has a term that is a partial sum, and one split by rows. Exchanged into a
    partial sum as well, which takes dC apart by its columns, the two are added up and reduced at
    once; each by itself, one would be all-reduced and the other gathered."""
    n, sizes = 4, {"B": 64, "D": 512, "F": 2048, "K": 64, "e": 16}
    read = block("In[B, D] . W_a[D, F_Y] -> A[B, F_Y]; In . W_b[D, K] -> C[B_Y, K]")
    known = tuple({"Y": n, **sizes}.items())
    moves = program(read, "all", least=known).backward.moves
    rows, width, columns = (sizes[dim] for dim in "BDK")
    share = Fraction(n - 1, n)
    exchanged, reduced = rows * columns * share / n, 2 * rows * width * share
    assert exchanged + reduced < reduced + rows * width * share
    values = {find(dim): length for dim, length in sizes.items() if dim != "e"}
    values |= {mesh_axis("Y"): n, find("e"): 1, find("e_g"): 1}
    sent = {m.tensor: m.sent_bytes.xreplace(values) for m in moves if not m.tensor.startswith("dW")}
    assert sent == {"dC": exchanged, "dIn": reduced}
