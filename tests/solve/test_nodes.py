"""Thresholds of chips in nodes: H100 by hand and by brute force, what is noted and refused."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp
from nodes import node_traffic

from derive import chip, fsdp, fsdp_tensor, layer, model, optimum, steps, tensor_parallel, threshold
from derive.cost.assumptions import CHOICES, assume
from derive.cost.load import compute_bound, timed_passes
from derive.cost.strategies import STRATEGIES, Strategy
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, NotClosedForm
from derive.solve.derivation import prove
from derive.solve.feasible import feasible
from derive.solve.numerical import numerical

H100, V5P, LLAMA = chip("h100"), chip("tpu-v5p"), model("llama-3-70b")
PEAK, NODE, CARD, NARROW = sp.Rational("989.4e12"), 450 * 10**9, 50 * 10**9, 2
NODES = ("node", "two-level", "egress")


# Numbers, from the definition.
def test_the_three_numbers_of_fsdp() -> None:
    answer = threshold(fsdp, v.B / v.X).on(H100)
    assert answer.value == PEAK / NODE and answer.sides[0].text == "2,199\u00a0tokens per chip"
    assert answer.assumptions.network == "node" and "switches" in answer.described["network"]
    for name, rate, text in (("two-level", 8 * CARD, "2,474"), ("egress", CARD, "19,788")):
        other = threshold(fsdp, v.B / v.X, network=name).on(H100)
        assert other.value == PEAK / rate and other.notes == ()
        (note,) = (note for note in answer.notes if f"network {name}" in note)
        assert f"B/X >= {text}" in note.replace("\u00a0", " ")


def test_without_a_chip_it_is_the_torus() -> None:
    assert str(threshold(fsdp, v.B / v.X)) == "B/X >= alpha/M_X"
    assert threshold(fsdp, v.B / v.X).on(V5P).notes == ()
    assert threshold(fsdp, v.B / v.X).on(V5P).assumptions.network == "chip"


@pytest.mark.parametrize("chips", [2, 4, 8])
def test_a_node_by_brute_force(chips: int) -> None:
    """The forward pass of FSDP on so many chips: simulated all-gathers against the matmuls."""
    width, hidden = 8192, 28672
    sent = node_traffic("all_gather", nodes=1, chips=chips)["node"]
    gathers = 2 * sp.Rational(sent) * NARROW * width * hidden / NODE
    least = threshold(fsdp, v.B, form="exact", network="node").on(H100, LLAMA, X=chips).value
    for batch, bound in ((least, True), (least * sp.Rational(999, 1000), False)):
        matmuls = 2 * 2 * batch * width * hidden / chips / PEAK
        assert bool(gathers <= matmuls) is bound
    assert least == PEAK * (chips - 1) / NODE


@pytest.mark.parametrize("nodes", [2, 3, 16])
def test_whole_nodes_by_brute_force(nodes: int) -> None:
    """Two levels: the slower of the two counts, or their sum where they run one by one."""
    width, hidden, chips = 8192, 28672, 8 * nodes
    sent = node_traffic("all_gather", nodes=nodes, chips=8)
    size = 2 * NARROW * width * hidden
    times = [
        sp.Rational(sent[link]) * size / rate for link, rate in (("node", NODE), ("dcn", CARD))
    ]
    for overlap, wanted in (("concurrent", max(times)), ("serial", sum(times))):
        answer = threshold(fsdp, v.B, form="exact", overlap=overlap).on(H100, LLAMA, X=chips)
        assert answer.assumptions.network == "two-level"
        assert 2 * 2 * answer.value * width * hidden / chips / PEAK == wanted


def by_hand(strategy: Strategy, x: float, y: float, batch: float, network: str) -> float:
    """T_comms/T_math of the forward pass for large n, both axes on one link of each chip."""
    rate = {"node": NODE, "egress": CARD}[network]
    weights, activations = 2 * NARROW * 8192 * 28672 / y, 2 * NARROW * batch * 8192 / x
    moved = {"fsdp": weights, "tensor_parallel": activations}.get(strategy.name)
    sent = weights + activations if moved is None else moved
    return float(sent / rate / (4 * batch * 8192 * 28672 / (x * y) / PEAK))


@pytest.mark.parametrize("network", ["node", "egress"])
def test_mesh_axes_share_the_link_of_a_chip(network: str) -> None:
    """The best split of N chips by trial, its traffic over both axes added."""
    at = threshold(fsdp_tensor, v.B / v.N, network=network).on(H100, LLAMA).value
    chips = 64.0
    for factor, bound in ((1.001, True), (0.999, False)):
        batch = float(at) * chips * factor
        best = min(
            by_hand(fsdp_tensor, chips * 2.0 ** (k / 50), 2.0 ** (-k / 50), batch, network)
            for k in range(-300, 1)  # no degree is below 1
        )
        assert (best <= 1) is bound
    best_x = float(optimum(fsdp_tensor, v.X, network=network).on(H100, LLAMA, B=10**6, N=64))
    here = by_hand(fsdp_tensor, best_x, 64 / best_x, 10**6, network)
    for other in (0.9 * best_x, 1.1 * best_x):
        assert here < by_hand(fsdp_tensor, other, 64 / other, 10**6, network)


@pytest.mark.parametrize("network", NODES)
@pytest.mark.parametrize("name", ["data_parallel", "fsdp", "tensor_parallel", "pipeline"])
@pytest.mark.parametrize("form", ["large-n", "exact"])
def test_every_step_is_proved(name: str, network: str, form: str) -> None:
    asked = {"tensor_parallel": v.Y, "pipeline": v.Z}.get(name, v.B / v.X)
    made = steps(STRATEGIES[name], asked, network=network, form=form)
    assert [prove(step) for step in made] and made[-1].kind == "threshold"
    assert not {s for b in made[-1].claims for s in b.free_symbols} & {v.W, v.alpha, v.M_X}


def test_the_steps_of_two_mesh_axes_in_a_node() -> None:
    made = steps(fsdp_tensor, v.B / v.N, network="node")
    (moves,) = (step for step in made if step.kind == "communication")
    assert "the switches of the node" in moves.words and "`In`" in moves.words
    assert made[-1].text == "B/N >= 4*C**2/(F*W_node**2)"


def test_moves_over_one_link_are_added_and_over_two_are_not() -> None:
    for network, links in (
        ("node", ["node"]),
        ("torus", ["X", "Y"]),
        ("two-level", ["dcn", "node"]),
    ):
        for cost in timed_passes(fsdp_tensor, assume(network=network)):
            assert [traffic.link for traffic in cost.traffic] == links
    (node,) = compute_bound(fsdp_tensor, assume(network="node")).loads
    assert node.links == ("node", "node") and node.passes == ("forward",)


# What the chip has.
@pytest.mark.parametrize(
    ("values", "network"),
    [
        ({}, "node"), ({"X": 2}, "node"), ({"X": 8}, "node"), ({"X": 64}, "two-level"),
        ({"X": 6}, "node"), ({"X": 12}, "egress"), ({"X": 64, "n_node": 72}, "node"),
        ({"X": 100, "n_node": 72}, "egress"),
    ],
    ids=str,
)  # fmt: skip
def test_a_group_of_more_chips_than_a_node_runs_across(values: Any, network: str) -> None:
    answer = threshold(fsdp, v.B).on(H100, **{"X": 8, **values})
    assert answer.assumptions.network == network
    assert any("chips given" in note for note in answer.notes) is (network != "node")


def test_a_degree_beyond_a_node_is_noted() -> None:
    answer = threshold(tensor_parallel, v.Y).on(H100, LLAMA)
    assert answer.value == 28672 * NODE / PEAK > 8
    assert any("holds up to Y = 8" in note for note in answer.notes)
    assert not any("holds up to" in n for n in threshold(tensor_parallel, v.Y).on(
        H100, LLAMA, n_node=72).notes)  # fmt: skip


def test_a_rate_of_both_ways_is_noticed() -> None:
    both = threshold(fsdp, v.B / v.X).on(H100, W_node="900 GB/s")
    assert both.value == PEAK / (2 * NODE) and "both ways?" in both.notes[0]
    assert not any("both ways" in n for n in threshold(fsdp, v.B / v.X).on(
        H100, W_node="600 GB/s").notes)  # fmt: skip


def test_feasible_and_numerical_answers_take_the_chips_network() -> None:
    splits = feasible(fsdp_tensor, 64, H100, LLAMA, B=64 * 4000)
    assert splits.requirement.assumptions.network == "two-level"
    eight = feasible(fsdp_tensor, 8, H100, LLAMA, B=8 * 2000, form="large-n")
    assert eight.requirement.assumptions.network == "node"
    for c in eight.candidates:
        x, y = c.degree(v.X), c.degree(v.Y)
        hand = by_hand(fsdp_tensor, x, y, 16000, "node")
        assert float(c.load) == pytest.approx(hand)
    many = numerical(fsdp_tensor, v.B / v.N, H100, LLAMA, values={"N": 1024})
    assert many.assumptions.network == "two-level"
    assert float(many) == pytest.approx(float(PEAK / (8 * CARD)))  # all of it leaves by the cards
    answer = numerical(fsdp, v.B / v.X, H100, values={"X": 8}, form="exact")
    assert float(answer) == pytest.approx(float(PEAK / NODE * sp.Rational(7, 8)))


# What is refused.
@pytest.mark.parametrize(
    ("on", "values", "assumed", "told"),
    [
        (H100, {"W": "900 GB/s"}, {}, "h100-sxm has no torus; set W_node, which is one-way"),
        (V5P, {"W_node": "450 GB/s"}, {}, "tpu-v5p is taken as a torus: set W"),
        (None, {"W_node": "450 GB/s", "C": 1}, {}, "choose the network node"),
        (H100, {}, {"network": "torus"}, "no link for the network torus .*node or two-level works"),
        (V5P, {}, {"network": "node"}, "no link for the network node .*torus or egress works"),
        (V5P, {"M_X": 4}, {}, "M_X = 4 torus axes, and tpu-v5p has 3"),
        (chip("tpu-v5e"), {"M_X": 3}, {}, "tpu-v5e has 2"),
    ],
    ids=lambda x: str(x)[:40],
)
def test_refused(on: Any, values: Any, assumed: Any, told: str) -> None:
    with pytest.raises(DeriveError, match=told) as caught:
        threshold(fsdp, v.B / v.X, **assumed).on(*([on] if on else []), **values)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_more_torus_axes_than_there_are() -> None:
    asked = threshold(fsdp_tensor, v.B / v.N)
    with pytest.raises(DeriveError, match=r"M_X \+ M_Y = 3 \+ 3 torus axes, and tpu-v5p has 3"):
        asked.on(V5P, LLAMA, M_X=3, M_Y=3)
    with pytest.raises(DeriveError, match="share links"):
        asked.on(V5P, LLAMA, M_X=3)
    assert asked.on(V5P, LLAMA, M_X=2).value == asked.on(V5P, LLAMA, M_X=1, M_Y=2).value
    assert threshold(fsdp_tensor, v.M_X).on(V5P, LLAMA, B=10**6, N=64, M_Y=3).value
    given = threshold(fsdp_tensor, v.B / v.N).on(C=1, W=1, F=1, M_X=9, M_Y=9)
    assert given.value == sp.Rational(1, 81)


def test_what_a_chosen_network_takes_is_given_by_hand() -> None:
    found = threshold(fsdp, v.B / v.X, network="node").on(V5P, W_node="450 GB/s")
    assert found.value == sp.Rational(459 * 10**12, NODE)
    torus = threshold(fsdp, v.B / v.X, network="torus").on(H100, W="900 GB/s")
    assert torus.value == PEAK / (900 * 10**9)


def test_alpha_stands_for_the_torus_that_a_chip_lacks_and_for_no_other_link() -> None:
    torus = threshold(fsdp, v.B / v.X, network="torus").on(H100, alpha=2550, M_X=2)
    assert torus.value == 1275
    with pytest.raises(DeriveError, match="no link for the network node"):
        threshold(fsdp, v.B / v.X, network="node").on(V5P, alpha=2550)


@pytest.mark.parametrize("chips", [6, 8, 64])
def test_chips_that_are_asked_for_choose_no_network(chips: int) -> None:
    asked = threshold(fsdp, v.N)
    free, given = asked.on(H100, B=10**6), asked.on(H100, B=10**6, N=chips)
    assert given.value == free.value == 10**6 * NODE / PEAK
    assert given.assumptions == free.assumptions


def test_three_mesh_axes_do_not_say_which_lie_inside_a_node() -> None:
    three = layer("In[B_XZ, D_Y] . W_in[D_XZ, F_Y] . W_out[F_Y, D_XZ] -> Out[B_XZ, D_Y]")
    with pytest.raises(DeriveError, match="one or two mesh axes"):
        threshold(three, v.B / v.X, network="two-level", fixed=(v.Y, v.Z))


# Gates and parameters.
ATTENTION = (
    "Q[K, T_X, G, H] . Keys[K, U_X, H] -> S[K, T_X, G, U] . Values[K, U_X, H] -> O[K, T_X, G, H]"
)


@pytest.mark.parametrize("text", [
    "In[B_X, D] . W_gate[D, F] * W_in[D, F] . W_out[F, D] -> Out[B_X, D]",
    "In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]", ATTENTION,
])  # fmt: skip
def test_a_gate_is_added_to_named_strategies_only(text: str) -> None:
    for asked in (v.B / v.X, v.P):
        with pytest.raises(DeriveError, match="W_gate") as caught:
            threshold(layer(text), asked, gated=True)
        assert "\n" not in str(caught.value)


def test_no_parameters_no_statement_on_them() -> None:
    weights = layer("In[B_X, D] . W_in[D_X, F] . W_out[F, D] -> Out[B_X, D]")
    with pytest.raises(DeriveError, match="says nothing of P: none of its tensors are parameters"):
        threshold(weights, v.P)


# The side on which all of the time is taken.
def test_where_a_term_alone_takes_all_the_time_no_batch_is_enough() -> None:
    asked = threshold(fsdp_tensor, v.B / v.X, overlap="serial")
    assert asked.provided == (sp.Lt(v.Y * v.alpha / (v.F * v.M_Y), 1),)
    for width in (2550, 2549):
        answer = asked.on(V5P, F=width, Y=1, M_Y=1, M_X=1)
        assert answer.sides == () and "no B/X is enough" in answer.notes[-1]
        with pytest.raises(DeriveError, match="no B/X is enough"):
            _ = answer.value
    assert asked.on(V5P, F=2551, Y=1, M_Y=1, M_X=1).value > 0


def test_every_network_is_a_choice_with_words() -> None:
    assert CHOICES["network"] == ("chip", "torus", *NODES, "hbm")
    for name in (*NODES, "hbm"):
        told = assume(network=name).stated()
        assert told["network"].startswith(name) and "wrap" not in told
    with pytest.raises(DeriveError, match="did you mean node"):
        assume(network="nodes")
    with pytest.raises(NotClosedForm):
        threshold(fsdp_tensor, v.B / v.N, network="two-level")
