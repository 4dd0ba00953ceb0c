"""What survives rounding: LLaMA-3-70B on whole meshes, and the meshes themselves."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import prod

import pytest
import sympy as sp
from rings import busiest, shared_ring

from derive.cost.strategies import cross_pod, fsdp, fsdp_tensor, layer, pipeline, tensor_parallel
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.notation.quantity import Quantity
from derive.notation.read import expression
from derive.solve.feasible import (
    Feasible,
    dividing_below,
    feasible,
    multiple_below,
    nearest_power_of_two,
    power_of_two_below,
)
from derive.solve.optimum import optimum
from derive.solve.threshold import threshold

V5P, LLAMA = chip("tpu-v5p"), model("llama-3-70b")
IRONWOOD = chip("tpu7x", override={"ici_axis": "D-gce"})
AXES = {"M_X": 2, "M_Y": 1}
CASE = {"B": 4_194_304, **AXES}
POD = 8960


def loads_by_hand(
    x: int, y: int, tokens: int, alpha: int, exact: bool
) -> tuple[Fraction, Fraction]:
    """The forward loads of weights and activations, with F = 28,672 and two axes for X."""
    one = 1 if exact else 0
    return [Fraction(alpha * (x - one), 2 * tokens), Fraction(alpha * (y - one), 28672)]


def expected(tokens: int, alpha: int, exact: bool, serial: bool, chips: int = POD) -> list[int]:
    """The divisors Y at which the loads stay at most 1, by trial of every number."""
    found = []
    for y in range(1, chips + 1):
        if chips % y == 0:
            loads = loads_by_hand(chips // y, y, tokens, alpha, exact)
            if (sum(loads) if serial else max(loads)) <= 1:
                found.append(y)
    return found


@pytest.mark.parametrize(
    ("assumed", "degrees"),
    [
        ({"form": "large-n"}, (4, 5, 7, 8, 10)),
        ({"form": "exact"}, (4, 5, 7, 8, 10)),
        ({"form": "large-n", "overlap": "serial"}, (5,)),
        ({"form": "exact", "overlap": "serial"}, (4, 5, 7, 8)),
    ],
    ids=str,
)
def test_the_divisors_of_a_pod(assumed: Mapping[str, str], degrees: tuple[int, ...]) -> None:
    found = feasible(fsdp_tensor, POD, V5P, LLAMA, values=CASE, **assumed)
    exact, serial = assumed["form"] == "exact", "overlap" in assumed
    assert found.degrees(v.Y) == degrees
    assert list(degrees) == expected(4_194_304, 2550, exact, serial)
    for c in found.candidates:
        x, y = c.degree(v.X), c.degree(v.Y)
        loads = loads_by_hand(x, y, 4_194_304, 2550, exact)
        assert c.load == sp.Rational(sum(loads) if serial else max(loads))
        assert (c.chips, c.idle, x * y) == (POD, 0, POD)


def test_the_best_split_of_a_pod() -> None:
    for form, degree in (("large-n", 5), ("exact", 7)):
        best = feasible(fsdp_tensor, POD, V5P, LLAMA, values=CASE, form=form).best
        assert best is not None and best.degree(v.Y) == degree
    serial = feasible(fsdp_tensor, POD, V5P, LLAMA, values=CASE, form="large-n", overlap="serial")
    assert serial.best is not None
    assert round(float(serial.best.ratio), 3) == 1.011


@pytest.mark.parametrize(("splits", "chips"), [("divisors", 48), ("powers_of_two", 50)])
def test_of_two_best_splits_the_one_with_the_smaller_last_degree(splits: str, chips: int) -> None:
    """B = F with one torus axis each: both terms are alpha/F for each way of X or Y, so that the
    loads stay the same where the degrees change places."""
    values = {"B": 28672, "M_X": 1, "M_Y": 1}
    found = feasible(
        fsdp_tensor, chips, V5P, LLAMA, splits=splits, values=values, form="large-n", C=10**12
    )
    for c in found.candidates:
        most = max(degree for _, degree in c.degrees)
        assert c.load == sp.Rational(10**12 * most, 18 * 10**10 * 28672)
    best = min(found.candidates, key=lambda c: (max(c.degree(v.X), c.degree(v.Y)), c.degree(v.Y)))
    assert found.best == best and best.degree(v.Y) < best.degree(v.X)
    assert sum(c.load == best.load for c in found.candidates) == 2


def test_the_default_is_the_exact_form() -> None:
    found = feasible(fsdp_tensor, POD, V5P, LLAMA, values=CASE)
    assert found.requirement.assumptions.form == "exact"


@pytest.mark.parametrize("form", ["large-n", "exact"])
def test_four_pods_clear_the_threshold_and_no_divisor_does(form: str) -> None:
    """117 tokens per chip are more than 113, and the best Y = 11.07 is between divisors."""
    tokens = 1_048_576
    bound = threshold(fsdp_tensor, v.B / v.N).on(V5P, LLAMA, **AXES).value
    assert sp.Rational(tokens, POD) > bound
    best = optimum(fsdp_tensor, v.Y).on(V5P, LLAMA, B=tokens, N=POD, **AXES)
    assert 10 < float(best) < 14
    found = feasible(fsdp_tensor, POD, V5P, LLAMA, values={**AXES, "B": tokens}, form=form)
    assert found.compute_bound == () and found.best is None
    assert expected(tokens, 2550, form == "exact", False) == []
    assert {10, 14} <= {c.degree(v.Y) for c in found.candidates}
    assert not any(10 < c.degree(v.Y) < 14 for c in found.candidates)


def test_four_pods_at_the_one_whole_degree() -> None:
    """Y = 11 is the only whole number in the large-n window; exactly, 11 and 12 are."""
    for exact, degrees in ((False, [11]), (True, [11, 12])):
        fits = [
            y for y in range(1, 30) if max(loads_by_hand(POD // y, y, 1_048_576, 2550, exact)) <= 1
        ]
        assert fits == degrees


def ironwood(form: str, degree: int) -> sp.Rational:
    """The largest real number of chips at which Y = degree stays compute-bound."""
    answer = threshold(fsdp_tensor, v.N, fixed=(v.Y,), form=form).on(
        IRONWOOD, LLAMA, Y=degree, **CASE
    )
    assert answer.provided[0][1].value <= 1
    return answer.value


def test_about_1800_ironwood_chips_need_a_degree_that_does_not_exist() -> None:
    """Y = 2.49. For large n Y = 2 is left, which 1,454 chips allow. Exactly, Y = 3 is allowed and
    X - 1 <= B M_X/alpha = 727.2: X is 728, and 2,184 chips; 2,181 mixes the two forms."""
    room = Fraction(2 * 4_194_304, 11535)
    assert int(room) == 727
    at = threshold(fsdp_tensor, v.N).on(IRONWOOD, LLAMA, **CASE).quantity
    split = optimum(fsdp_tensor, v.Y).on(IRONWOOD, LLAMA, N=at, **CASE)
    assert (round(float(at), 2), round(float(split), 4)) == (1807.64, 2.4857)
    assert ironwood("large-n", 2) == 2 * sp.Rational(room)
    assert int(ironwood("large-n", 2)) == 1454
    assert ironwood("exact", 3) == 3 * (sp.Rational(room) + 1)
    assert int(ironwood("exact", 3)) == 2184
    assert int(3 * room) == 2181
    for degree, x, form, holds in (
        (2, 727, "large-n", True), (2, 728, "large-n", False), (3, 727, "large-n", False),
        (2, 728, "exact", True), (2, 729, "exact", False),
        (3, 727, "exact", True), (3, 728, "exact", True), (3, 729, "exact", False),
    ):  # fmt: skip
        found = feasible(fsdp_tensor, degree * x, IRONWOOD, LLAMA, values=CASE, form=form)
        assert (degree in found.degrees(v.Y)) is holds, (degree, x, form)


def test_with_16m_tokens_ironwood_takes_four_times_the_chips() -> None:
    bound = threshold(fsdp_tensor, v.N, fixed=(v.Y,))
    values = {**CASE, "B": 16_777_216}
    assert int(bound.on(IRONWOOD, LLAMA, Y=2, **values).value) == 5817


def test_powers_of_two_leave_chips_idle() -> None:
    found = feasible(fsdp_tensor, POD, V5P, LLAMA, values=CASE, splits="powers_of_two")
    split = next(c for c in found.candidates if c.degree(v.Y) == 4)
    assert (split.degree(v.X), split.chips, split.idle) == (2048, 8192, 768)
    assert split.compute_bound
    assert "X=2,048 x Y=4" in str(found) and "768 chips idle" in str(found)
    for c in found.candidates:
        assert c.chips == c.degree(v.X) * c.degree(v.Y) == POD - c.idle
        assert bin(c.degree(v.X)).count("1") == bin(c.degree(v.Y)).count("1") == 1
        assert 2 * c.chips > POD >= c.chips


def test_every_divisor_is_tried_once() -> None:
    for n in (*range(1, 400), POD, 9216, 7919, 2**20):
        splits = feasible(fsdp_tensor, n, V5P, LLAMA, values={"B": n}).candidates
        assert [c.degree(v.Y) for c in splits] == [d for d in range(1, n + 1) if n % d == 0]


def torus(shape: tuple[int, ...], tokens: int = 500_000) -> Feasible:
    """The torus splits of a small slice."""
    return feasible(
        fsdp_tensor, prod(shape), V5P, LLAMA, splits="torus", shape=shape, values={"B": tokens}
    )


@pytest.mark.parametrize(("size", "block"), [(4, 2), (6, 2), (6, 3), (16, 2), (16, 4), (28, 7)])
def test_what_two_mesh_axes_send_over_a_torus_axis_that_both_cut(size: int, block: int) -> None:
    """Blocks have half the bandwidth of a ring and every b-th chip a b-th; the links inside the
    blocks carry both."""
    n = size // block
    blocks, rings = shared_ring(size, block, False), shared_ring(size, block, True)
    unit = Fraction(1, 2)  # bytes per second and way of a link where an axis has 1
    for found, group, bandwidth in ((blocks, block, HALF), (rings, n, sp.Rational(1, block))):
        time = sp.Rational(group - 1, group) / bandwidth
        assert sp.Rational(busiest(found) / unit) == time
    both = busiest(blocks + rings)
    assert both == busiest(blocks) + busiest(rings)


@pytest.mark.parametrize("size", [8, 9, 12, 16, 27])
def test_a_cut_axis_has_each_way_to_share_it_that_no_other_is_better_than(size: int) -> None:
    """One group has blocks, at half of a ring, the other rings through them, at one over their
    length; which is free, unless one way is as good for both groups."""
    for y in range(2, size):
        x, left = divmod(size, y)
        if left:
            continue
        ways = {(HALF, sp.Rational(1, x)), (sp.Rational(1, y), HALF)}
        best = {a for a in ways if not any(b != a and b[0] >= a[0] and b[1] >= a[1] for b in ways)}
        found = [c for c in torus((size,)).candidates if c.degree(v.Y) == y]
        axes = [(dict(c.torus_axes)["M_X"], dict(c.torus_axes)["M_Y"]) for c in found]
        assert len(axes) == len(best) and set(axes) == best


def test_a_split_whose_two_times_are_equal_is_compute_bound() -> None:
    """The bound itself is B = alpha X for FSDP and large n."""
    for tokens, bound in ((2550 * 64 - 1, False), (2550 * 64, True)):
        (only,) = feasible(fsdp, 64, V5P, values={"B": tokens}, form="large-n").candidates
        assert only.compute_bound is bound
        assert only.load == sp.Rational(2550 * 64, tokens)


def test_a_torus_axis_of_one_chip_is_none() -> None:
    for shape in ((8,), (1, 8), (1, 8, 1)):
        values = {"B": 100_000}
        (only,) = feasible(fsdp, 8, V5P, splits="torus", shape=shape, values=values).candidates
        assert dict(only.torus_axes) == {"M_X": 1}
        assert only.load == sp.Rational(2550 * 7, 100_000)


def test_whole_numbers_at_the_edge_of_what_is_asked() -> None:
    for k in range(5):
        middle = Quantity(sp.sqrt(2) * 2**k, name="X")
        assert nearest_power_of_two(middle).value == 2 ** (k + 1)
        assert nearest_power_of_two(Quantity(middle.value - sp.Rational(1, 9))).value == 2**k
    for replicas in (1, 2, 4, 8):
        at = Quantity(sp.Integer(24 * replicas), name="N")
        assert dividing_below(at, 8, 24).value == at.value
        assert power_of_two_below(Quantity(sp.Integer(replicas))).value == replicas


def test_whole_multiples_and_divisors_by_trial_of_every_number() -> None:
    for twelfths in range(1, 200, 7):
        size = Quantity(sp.Rational(twelfths, 12), name="N")
        for step in (1, 2, 3):
            fitting = [n for n in range(0, 20, step) if n <= size.value]
            assert multiple_below(size, step).value == max(fitting)
            replicas = [n for n in fitting if n and 12 % (n // step) == 0]
            if replicas:
                assert dividing_below(size, 12, step).value == max(replicas)
            else:
                with pytest.raises(DeriveError, match=f"nothing of {step} and more divides 12"):
                    dividing_below(size, 12, step)
        if size.value >= 1:
            assert power_of_two_below(size).value <= size.value < 2 * power_of_two_below(size).value
            ratios = {n: max(n / size.value, size.value / n) for n in (1, 2, 4, 8, 16, 32)}
            nearest = min(ratios, key=lambda n: (ratios[n], -n))
            assert nearest_power_of_two(size).value == nearest
        else:
            for below in (power_of_two_below, nearest_power_of_two):
                with pytest.raises(DeriveError, match="no power of two is at most"):
                    below(size)


def test_a_rounded_size_says_how() -> None:
    assert multiple_below(Quantity(sp.Rational(15, 2)), 1).formula == "n rounded down"
    assert multiple_below(Quantity(sp.Rational(15, 2)), 2).formula == (
        "largest multiple of 2 not above n"
    )


def test_cut_axes_are_shared_and_their_times_add() -> None:
    """A pod of v5p at 1,120 x 8: X alone fills every link, so that the best is about 1.5."""
    pod = feasible(
        fsdp_tensor, POD, V5P, LLAMA, splits="torus", shape=(16, 20, 28), values={"B": 4_194_304}
    )
    assert pod.best is not None and 1.46 < float(pod.best.ratio) < 1.5
    thirds = dict.fromkeys(("M_X", "M_Y"), sp.Rational(3, 2))
    (cut,) = (
        c for c in pod.candidates if c.degree(v.Y) == 8 and dict(c.torus_axes) == thirds
    )  # fmt: skip
    weights = Fraction(2550 * 1119, 4_194_304) / Fraction(3, 2)
    activations = Fraction(2550 * 7, 28672) / Fraction(3, 2)
    assert cut.load == sp.Rational(weights + activations)
    assert {where for _, where, _ in cut.loads} == {"X+Y"}
    whole = [c for c in pod.candidates if dict(c.torus_axes)["M_X"] == 2]
    assert whole and all({where for _, where, _ in c.loads} == {"X", "Y"} for c in whole)
    serial = feasible(
        fsdp_tensor, POD, V5P, LLAMA, splits="torus", shape=(16, 20, 28),
        values={"B": 4_194_304}, overlap="serial",
    )  # fmt: skip
    assert cut.load in [c.load for c in serial.candidates if c.degree(v.Y) == 8]


HALF = sp.Rational(1, 2)
TORUS_BY_HAND = {
    # X and Y on a 4 x 4 x 8 torus: the torus axes that X has, and Y has
    (128, 1): {(3, HALF)},
    (64, 2): {(2, HALF)},  # a half of an axis of 4, or a quarter of the 8, does not wrap
    (32, 4): {
        (2, 1),  # an axis of 4, whole
        (2, HALF),  # a half of the 8
        (1, 1),  # halves of two axes; X keeps one axis whole
    },
    (16, 8): {
        (2, 1),  # the axis of 8, whole
        (1, 1),  # an axis of 4 and half of another; X keeps the 8
        (3 * HALF, 3 * HALF),  # halves of all three
    },
    (1, 128): {(HALF, 3)},
}


def test_torus_splits_by_hand() -> None:
    found: dict[tuple[int, int], set[tuple[sp.Rational, sp.Rational]]] = {}
    for c in torus((4, 4, 8)).candidates:
        axes = dict(c.torus_axes)
        found.setdefault((c.degree(v.X), c.degree(v.Y)), set()).add((axes["M_X"], axes["M_Y"]))
        assert c.chips == 128 and c.idle == 0
    for degrees, axes in TORUS_BY_HAND.items():
        assert axes <= found[degrees], degrees
    assert set(found) == {(128 // y, y) for y in (1, 2, 4, 8, 16, 32, 64, 128)}
    assert found[64, 2] == {(2, HALF)}


def test_a_group_without_wraparound_takes_twice_as_long() -> None:
    """Y = 4 as an axis of 4, and as half of one of 8."""
    whole, part = (
        next(
            c for c in torus((4, 4, 8)).candidates
            if c.degree(v.Y) == 4 and dict(c.torus_axes) == {"M_X": sp.Integer(2), "M_Y": axes}
        )
        for axes in (sp.S.One, HALF)
    )  # fmt: skip
    by_network = [{where: load for _, where, load in c.loads} for c in (whole, part)]
    assert by_network[1]["Y"] == 2 * by_network[0]["Y"] == sp.Rational(2 * 2550 * 3, 28672)
    assert by_network[1]["X"] == by_network[0]["X"]


def test_one_mesh_axis() -> None:
    found = feasible(fsdp, 64, V5P, B=64 * 2550, M_X=1)
    (only,) = found.candidates
    assert (only.degree(v.X), only.load) == (64, sp.Rational(63, 64))
    (whole,) = feasible(fsdp, 64, V5P, splits="torus", shape=(4, 4, 4), B=64 * 850).compute_bound
    assert dict(whole.torus_axes) == {"M_X": 3}
    assert feasible(tensor_parallel, 12, V5P, LLAMA).compute_bound
    assert not feasible(tensor_parallel, 13, V5P, LLAMA).compute_bound


@pytest.mark.parametrize(
    ("chips", "more", "message"),
    [
        (0, {}, "chips"), (-4, {}, "chips"), (True, {}, "chips"), (2.5, {}, "chips"),
        (10**8, {}, "chips"), ("64", {}, "chips"), (64, {"splits": "halves"}, "splits"),
        (64, {"splits": "torus"}, "shape"), (64, {"splits": "torus", "shape": (4, 4)}, "shape"),
        (64, {"form": "rough"}, "form"), (64, {"Q": 3}, "unknown symbol"),
        (16, {"splits": "torus", "shape": (-4, -4)}, "shape: expected a whole number from 1"),
        (4, {"splits": "torus", "shape": (True, 4)}, "shape: expected a whole number from 1"),
        (64, {"splits": "torus", "shape": (2,) * 6}, "of 1 to 3 sizes"),
        (1, {"splits": "torus", "shape": (1,) * 10**6}, "of 1 to 3 sizes"),
        (64, {"splits": "torus", "shape": (4, 4, 4), "network": "egress"}, "network is egress"),
        (64, {"values": {"B": 2}}, "B is given twice"), (64, {"values": {v.B: 2}}, "given twice"),
        (64, {"B": 0}, "B"), (64, {"B": float("nan")}, "B"),
    ],
    ids=lambda value: str(value)[:60],  # one of them is a million sizes
)  # fmt: skip
def test_what_is_refused(chips: object, more: Mapping[str, object], message: str) -> None:
    with pytest.raises(DeriveError, match=message):
        feasible(fsdp_tensor, chips, V5P, LLAMA, **{"B": 10**6, **more})  # type: ignore[arg-type]


def test_strategies_without_a_mesh_to_split() -> None:
    three = layer("In[B_X, D_Y] . W_in[D_X, F_YZ] . W_out[F_YZ, D_X] -> Out[B_X, D_Y]")
    for strategy in (cross_pod, three):
        with pytest.raises(DeriveError, match="no mesh"):
            feasible(strategy, 64, V5P)
    assert feasible(pipeline, 8, V5P, LLAMA, B=1).compute_bound
    with pytest.raises(DeriveError, match="no value for B"):
        feasible(fsdp_tensor, 64, V5P, LLAMA)


def test_all_that_has_no_value_is_named_at_once() -> None:
    with pytest.raises(DeriveError, match=r"set B=\.\.\., F=\.\.\., C=\.\.\., W="):
        feasible(fsdp_tensor, 64)


def test_a_table_says_what_it_rests_on() -> None:
    """The values that its loads take, with their sources, and what plays no part."""
    found = feasible(fsdp_tensor, 64, V5P, LLAMA, B=10**6, L=80)
    assert [name for name, _ in found.inputs] == ["B", "F", "M_X", "M_Y", "C", "W"]
    for text in (str(found), found._repr_markdown_()):
        assert "  C = 459\u00a0TFLOP/s (tpu-v5p, " in text
        assert "  note: L plays no part in this answer" in text
    cut = feasible(fsdp_tensor, 64, V5P, LLAMA, B=10**6, splits="torus", shape=(4, 4, 4))
    assert [name for name, _ in cut.inputs] == ["B", "F", "C", "W"]


def test_a_chip_without_a_torus_has_none_to_cut() -> None:
    with pytest.raises(DeriveError, match="network is two-level; divisors takes any"):
        feasible(fsdp_tensor, 64, chip("h100"), LLAMA, B=1, splits="torus", shape=(4, 4, 4))


@pytest.mark.parametrize("splits", ["divisors", "torus"])
@pytest.mark.parametrize("overlap", ["concurrent", "serial"])
def test_the_tree_of_a_margin_gives_its_value_from_its_inputs(splits, overlap):
    """Computation over communication by the leaves alone, each axis and its links among them."""
    more = {"shape": V5P.shape()} if splits == "torus" else {"values": {**AXES}}
    meshes = feasible(fsdp_tensor, POD, V5P, LLAMA, splits=splits, overlap=overlap, B=2**22, **more)
    for split in meshes.candidates[:12]:
        margin = meshes.margin(split)
        assert margin is not None and margin.value == split.ratio
        values = {v.find(name): quantity.value for name, quantity in margin.inputs}
        assert {v.X, v.Y} & values.keys() and {v.M_X, v.M_Y} & values.keys()
        assert expression(margin.formula).xreplace(values) == split.ratio
        assert all(leaf.name for leaf in margin.leaves())
