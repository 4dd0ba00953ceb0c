"""The time of a move on each link of a network against the busiest link of a simulated one."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import pytest
import sympy as sp
from nodes import node_traffic
from rings import (
    ON_A_RING,
    all_gather,
    busiest,
    reduce_scatter,
    torus_all_gather,
    torus_all_to_all,
)  # fmt: skip

from derive import layer, threshold
from derive.cost.network import (
    CARDS,
    NODE,
    Network,
    Switch,
    Torus,
    TwoLevels,
    link_seconds,
    network_of,
    seconds,
)
from derive.cost.program import Collective, Move
from derive.notation import symbols as v
from derive.notation.errors import DeriveError

V, W = sp.Integer(3_628_800), sp.Integer(1000)
ON_RINGS: tuple[Collective, ...] = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
SIZES = range(2, 10)


def simulated(link_bytes: Fraction) -> sp.Rational:
    """The time of the busiest link of a torus: each carries W/2 its way."""
    return sp.Rational(link_bytes.numerator, link_bytes.denominator) * V / (W / 2)


def moved(collective: Collective, axes: tuple[str, ...] = ("X",)) -> Move:
    """A move of V bytes over mesh axes."""
    return Move(collective, "T", axes, V, critical=True)


def on_torus(
    collective: Collective, sizes: tuple[int, ...], *, wrap: bool = True, exact: bool = True
) -> sp.Expr:
    """The time over torus axes of those sizes."""
    (time,) = Torus(W, wrap).seconds(moved(collective), exact).values()
    return time.xreplace({v.X: sp.Integer(prod(sizes)), v.M_X: sp.Integer(len(sizes))})


@pytest.mark.parametrize("wrap", [True, False], ids=["ring", "line"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("collective", ON_RINGS)
def test_one_axis(collective: Collective, n: int, wrap: bool) -> None:
    phases = [simulated(busiest(phase(n, wrap))) for phase in ON_A_RING[collective]]
    assert on_torus(collective, (n,), wrap=wrap) == sum(phases)


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
    assert on_torus("all_reduce", (n,), wrap=False) >= simulated(Fraction(1))


@pytest.mark.parametrize("n", SIZES)
def test_a_line_takes_twice_as_long(n: int) -> None:
    for collective in ON_RINGS:
        ring, line = (on_torus(collective, (n,), wrap=wrap) for wrap in (True, False))
        assert line == 2 * ring


@pytest.mark.parametrize("n", SIZES)
def test_a_permute_goes_as_far_as_a_chunk_of_an_all_to_all(n: int) -> None:
    """All V bytes of a device take the mean way, of which an all-to-all sends it a share of n."""
    assert on_torus("permute", (n,)) == n * on_torus("all_to_all", (n,))


def test_one_hop_takes_one_link_one_way() -> None:
    for axes in ((8,), (3, 3, 3)):
        assert on_torus("send", axes) == simulated(Fraction(1)) == 2 * V / W


@pytest.mark.parametrize("sizes", [(2, 2), (3, 3), (4, 4), (2, 2, 2), (3, 3, 3)], ids=str)
def test_several_axes_of_one_size(sizes: tuple[int, ...]) -> None:
    assert on_torus("all_gather", sizes) == simulated(torus_all_gather(sizes))
    assert on_torus("all_to_all", sizes) == simulated(torus_all_to_all(sizes))
    gather, scatter = (on_torus(c, sizes) for c in ("all_gather", "reduce_scatter"))
    assert scatter == gather
    assert on_torus("all_reduce", sizes) == 2 * gather


@pytest.mark.parametrize("sizes", [(2, 4), (3, 2), (2, 2, 4)], ids=str)
def test_over_axes_of_unequal_size_the_time_is_a_lower_bound(sizes: tuple[int, ...]) -> None:
    assert on_torus("all_gather", sizes) < simulated(torus_all_gather(sizes))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("collective", ON_RINGS)
def test_a_chip_takes_what_it_sends_over_its_link_into_a_switch(
    collective: Collective, n: int
) -> None:
    sent = node_traffic(collective, nodes=1, chips=n)
    (time,) = Switch("any", W).seconds(moved(collective), True).values()
    assert time.xreplace({v.X: sp.Integer(n)}) == sp.Rational(sent[NODE]) * V / W
    assert CARDS not in sent


@pytest.mark.parametrize(("nodes", "chips"), [(2, 2), (3, 2), (2, 4), (5, 8), (3, 1)], ids=str)
@pytest.mark.parametrize("collective", ON_RINGS)
def test_whole_nodes_send_inside_and_over_every_card(
    collective: Collective, nodes: int, chips: int
) -> None:
    """Every piece is moved from chip to chip; a chip's link into its node, and its card."""
    sent = node_traffic(collective, nodes=nodes, chips=chips)
    rates = {v.W_node: sp.Integer(450), v.W_dcn: sp.Integer(50)}
    here = {v.X: sp.Integer(nodes * chips), v.n_node: sp.Integer(chips), **rates}
    times = TwoLevels(("X",)).seconds(moved(collective), True)
    for link, rate in ((NODE, v.W_node), (CARDS, v.W_dcn)):
        wanted = sp.Rational(sent.get(link, 0)) * V / rates[rate]
        assert times.get(link, sp.S.Zero).xreplace(here) == wanted, link


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce"])
def test_of_two_mesh_axes_the_last_stays_inside_and_the_first_fills_the_nodes(
    collective: Collective,
) -> None:
    """Y = 4 chips of a node of 8, and X = 6: two chips of a group in each of three nodes."""
    network = TwoLevels(("X", "Y"))
    here = {v.Y: sp.Integer(4), v.X: sp.Integer(6), v.n_node: sp.Integer(8)}
    rates = {v.W_node: sp.Integer(450), v.W_dcn: sp.Integer(50)}
    inner = network.seconds(moved(collective, ("Y",)), True)
    alone = node_traffic(collective, nodes=1, chips=4)
    assert set(inner) == {NODE}
    assert inner[NODE].xreplace({**here, **rates}) == sp.Rational(alone[NODE]) * V / 450
    outer = network.seconds(moved(collective, ("X",)), True)
    spread = node_traffic(collective, nodes=3, chips=2)
    assert outer[NODE].xreplace({**here, **rates}) == sp.Rational(spread[NODE]) * V / 450
    assert outer[CARDS].xreplace({**here, **rates}) == sp.Rational(spread[CARDS]) * V / 50


NETWORKS: dict[str, Network] = {
    "ring": Torus(W),
    "line": Torus(W, wrap=False),
    "switch": Switch("any", W),
    "two levels": TwoLevels(("X",)),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("collective", ON_RINGS)
def test_the_exact_form_approaches_that_for_large_groups(collective: Collective, name: str) -> None:
    held = {v.M_X: sp.S.One, v.n_node: sp.Integer(3), v.W_node: sp.Integer(9), v.W_dcn: W}
    exact, large = (NETWORKS[name].seconds(moved(collective), form) for form in (True, False))
    assert set(exact) == set(large)
    for link in exact:
        ratios = []
        for n in (9, 81, 6561, 3**20):
            at = {v.X: sp.Integer(n), **held}
            ratios.append(exact[link].xreplace(at) / large[link].xreplace(at))
        assert ratios == sorted(ratios)
        assert all(0 < ratio <= 1 for ratio in ratios)
        assert 1 - ratios[-1] < sp.Rational(1, 10**8)


def test_a_group_of_one_sends_nothing() -> None:
    for collective, name in product(ON_RINGS, ("ring", "line", "switch")):
        (time,) = NETWORKS[name].seconds(moved(collective), True).values()
        assert time.xreplace({v.X: sp.S.One, v.M_X: sp.S.One}) == 0


def test_between_slices_and_from_memory() -> None:
    """Of 4 peers each device sends 3/4 of the array twice over, whatever the network of a slice."""
    for network in NETWORKS.values():
        exact = link_seconds(moved("all_reduce", ("S",)), network, True)
        assert set(exact) == {"S"}
        assert exact["S"].xreplace({v.S: sp.Integer(4), v.W_dcn: W}) == sp.Rational(3, 2) * V / W
        assert link_seconds(moved("load", ()), network, True) == {"hbm": V / v.W_hbm}
    assert seconds(moved("all_reduce", ("S",))).xreplace({v.W_dcn: W}) == 2 * V / W


def test_a_group_over_several_mesh_axes_has_the_torus_axes_of_each() -> None:
    both = seconds(moved("all_gather", ("X", "Z")))
    assert both == V / ((v.M_X + v.M_Z) * v.W)


def test_a_hop_goes_over_a_card_just_where_it_leaves_the_node() -> None:
    for exact in (True, False):
        assert TwoLevels(("X",)).seconds(moved("send"), exact) == {CARDS: V / v.W_dcn}
        assert TwoLevels(in_node=v.X).seconds(moved("send"), exact) == {NODE: V / v.W_node}


def test_a_mesh_axis_of_another_name_is_one_torus_axis() -> None:
    assert seconds(moved("all_gather", ("dp",))) == V / v.W
    assert seconds(moved("all_gather", ("X", "dp"))) == V / ((v.M_X + 1) * v.W)


def test_slices_beside_axes_inside_them_are_refused() -> None:
    """Their all-reduce leaves a slice: it does not run at the rate of one torus axis more."""
    for network in NETWORKS.values():
        for axes in (("S", "X"), ("X", "S")):
            with pytest.raises(DeriveError, match="over S, the slices, and axes inside"):
                link_seconds(moved("all_reduce", axes), network, True)
    assert threshold(layer("mlp", "B:S"), v.B).closed_form == v.S * v.C / v.W_dcn
    with pytest.raises(DeriveError, match="of its own"):
        threshold(layer("mlp", "B:S B:X"), v.B)


def test_networks_by_name() -> None:
    assert network_of("chip") == network_of("torus") == Torus()
    assert network_of("torus", wrap=False) == Torus(wrap=False)
    assert network_of("node") == Switch(NODE, v.W_node)
    assert network_of("egress") == Switch(CARDS, v.W_dcn)
    assert network_of("two-level", ("X", "Y")) == TwoLevels(("X", "Y"))
    with pytest.raises(DeriveError, match="one or two mesh axes"):
        network_of("two-level", ("X", "Y", "Z"))
