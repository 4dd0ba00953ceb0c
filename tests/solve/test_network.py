"""The time of a collective on a torus against the busiest link of a simulated one."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
import sympy as sp
from derive.cost.moves import PASSES, Collective, Move
from rings import (
    ON_A_RING,
    all_gather,
    busiest,
    farthest,
    reduce_scatter,
    torus_all_gather,
    torus_all_to_all,
)  # fmt: skip

from derive.cost.network import Egress, Torus, network_of, ring_seconds, seconds
from derive.notation import symbols as v

V, W = sp.Integer(3_628_800), sp.Integer(1000)
ON_RINGS: tuple[Collective, ...] = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
SIZES = range(2, 10)


def simulated(link_bytes: Fraction) -> sp.Rational:
    """The time of the busiest link: each carries W/2 its way."""
    return sp.Rational(link_bytes.numerator, link_bytes.denominator) * V / (W / 2)


@pytest.mark.parametrize("wrap", [True, False], ids=["ring", "line"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("collective", ON_RINGS)
def test_one_axis(collective: Collective, n: int, wrap: bool) -> None:
    found = ring_seconds(collective, V, (sp.Integer(n),), W, wrap=wrap, exact=True)
    phases = [simulated(busiest(phase(n, wrap))) for phase in ON_A_RING[collective]]
    assert found == sum(phases)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("collective", ON_RINGS)
def test_all_links_of_a_ring_carry_the_same(collective: Collective, n: int) -> None:
    for phase in ON_A_RING[collective]:
        traffic = phase(n, True)
        assert len(traffic) == 2 * n
        assert len(set(traffic.values())) == 1


@pytest.mark.parametrize("n", SIZES)
def test_on_a_line_the_phases_of_an_all_reduce_load_different_links(n: int) -> None:
    """Run at once they would put the array once on each link; one after the other they take the
    time of both, which is what the cost of an all-reduce means here."""
    both = reduce_scatter(n, False) + all_gather(n, False)
    assert set(both.values()) == {Fraction(1)}
    assert ring_seconds("all_reduce", V, (sp.Integer(n),), W, wrap=False) >= simulated(Fraction(1))


@pytest.mark.parametrize("n", SIZES)
def test_a_line_takes_twice_as_long(n: int) -> None:
    for collective in ON_RINGS:
        ring, line = (
            ring_seconds(collective, V, (sp.Integer(n),), W, wrap=wrap) for wrap in (True, False)
        )
        assert line == 2 * ring


def test_one_hop_takes_one_link_one_way() -> None:
    assert ring_seconds("send", V, (sp.Integer(8),), W) == simulated(Fraction(1))
    assert ring_seconds("send", V, (sp.Integer(8),), W, hop_latency=sp.Integer(5)) == 2 * V / W + 5


@pytest.mark.parametrize("sizes", [(2, 2), (3, 3), (4, 4), (2, 2, 2), (3, 3, 3)], ids=str)
def test_several_axes_of_one_size(sizes: tuple[int, ...]) -> None:
    whole = tuple(sp.Integer(size) for size in sizes)
    assert ring_seconds("all_gather", V, whole, W) == simulated(torus_all_gather(sizes))
    assert ring_seconds("all_to_all", V, whole, W) == simulated(torus_all_to_all(sizes))
    gather, scatter = (ring_seconds(c, V, whole, W) for c in ("all_gather", "reduce_scatter"))
    assert scatter == gather
    assert ring_seconds("all_reduce", V, whole, W) == 2 * gather


@pytest.mark.parametrize("sizes", [(2, 4), (3, 2), (2, 2, 4)], ids=str)
def test_axes_of_unequal_size(sizes: tuple[int, ...]) -> None:
    """The all-to-all stays exact; the gather's time is a lower bound."""
    whole = tuple(sp.Integer(size) for size in sizes)
    assert ring_seconds("all_to_all", V, whole, W) == simulated(torus_all_to_all(sizes))
    assert ring_seconds("all_gather", V, whole, W) < simulated(torus_all_gather(sizes))


@pytest.mark.parametrize("wrap", [True, False], ids=["ring", "line"])
@pytest.mark.parametrize("collective", ON_RINGS)
def test_the_exact_form_approaches_that_for_large_groups(
    collective: Collective, wrap: bool
) -> None:
    ratios = []
    for n in (3, 9, 81, 6561, 3**20):
        exact, large = (
            ring_seconds(collective, V, (sp.Integer(n),), W, wrap=wrap, exact=form)
            for form in (True, False)
        )
        ratios.append(exact / large)
    assert ratios == sorted(ratios)
    assert all(0 < ratio < 1 for ratio in ratios)
    assert 1 - ratios[-1] < sp.Rational(1, 10**8)


def test_a_group_of_one_sends_nothing() -> None:
    for collective in ON_RINGS:
        assert ring_seconds(collective, V, (sp.Integer(1),), W) == 0


@pytest.mark.parametrize("wrap", [True, False], ids=["ring", "line"])
@pytest.mark.parametrize("n", SIZES)
def test_no_collective_is_faster_than_its_hops(n: int, wrap: bool) -> None:
    latency = sp.Integer(10**9)
    for collective in ON_RINGS:
        slow = ring_seconds(collective, V, (sp.Integer(n),), W, wrap=wrap, hop_latency=latency)
        assert slow == PASSES[collective] * latency * farthest(n, wrap)
        both = ring_seconds(collective, V, (sp.Integer(n),) * 2, W, wrap=wrap, hop_latency=latency)
        assert both == 2 * slow
        small = ring_seconds(
            collective, V, (sp.Integer(n),), W, wrap=wrap, hop_latency=sp.Rational(1, 10**9)
        )
        assert small == ring_seconds(collective, V, (sp.Integer(n),), W, wrap=wrap)


def test_the_latency_floor_of_a_large_group() -> None:
    found = ring_seconds("all_reduce", v.B, (v.X,), exact=False, hop_latency=v.t_hop)
    assert found == sp.Max(2 * v.B / v.W, v.t_hop * v.X)


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "large"])
@pytest.mark.parametrize("wrap", [True, False], ids=["ring", "line"])
@pytest.mark.parametrize("collective", ON_RINGS)
def test_a_torus_prices_a_move_as_the_ring_does(
    collective: Collective, wrap: bool, exact: bool
) -> None:
    for n, axes in product((2, 3, 5, 8), (1, 2, 3)):
        move = Move(collective, "T", ("X",), V, critical=True)
        along = sp.Integer(n)
        priced = Torus(sp.Integer(axes), W, wrap).seconds(move, exact).xreplace({v.X: along**axes})
        assert priced == ring_seconds(collective, V, (along,) * axes, W, wrap=wrap, exact=exact)


def test_a_torus_prices_a_hop_as_the_ring_does() -> None:
    move = Move("send", "T", ("X",), V, critical=True)
    assert Torus(sp.Integer(3), W).seconds(move, True) == 2 * V / W


@pytest.mark.parametrize(
    ("collective", "axes", "network"),
    [
        ("all_gather", ("X",), Torus(v.M_X, v.W)),
        ("all_reduce", ("Y",), Torus(v.M_Y, v.W)),
        ("all_gather", ("X", "Z"), Torus(v.M_X + v.M_Z, v.W)),
        ("all_reduce", ("S",), Egress(v.W_dcn)),
        ("load", (), Egress(v.W_hbm)),
    ],
    ids=str,
)
def test_the_network_a_move_runs_over(
    collective: Collective, axes: tuple[str, ...], network: Torus | Egress
) -> None:
    assert network_of(Move(collective, "T", axes, v.e * v.B * v.D, critical=True)) == network


def test_between_slices_each_device_sends_by_its_own_link() -> None:
    """Of 4 peers each device sends 3/4 of the array twice over."""
    move = Move("all_reduce", "dW", ("S",), V, critical=False)
    exact = seconds(move, exact=True).xreplace({v.S: sp.Integer(4), v.W_dcn: W})
    assert exact == sp.Rational(3, 2) * V / W
    assert seconds(move).xreplace({v.W_dcn: W}) == 2 * V / W
