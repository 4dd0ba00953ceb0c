"""The link of each group: of a node only where the mesh says so, and shared on a torus."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from derive.facts import chip, model
from derive.notation import symbols as v
from derive.plan.axes import degrees
from derive.plan.mesh import mesh
from derive.plan.plan import plan_of
from derive.plan.task import Task, task

LINKS = {"tp": v.W_tp, "cp": v.W_cp, "dp": v.W_dp, "pp": v.W_pp}


def on(name: str, cards: int) -> Task:
    llama = model("llama-3-70b")
    return task(llama, chip(name), cards=cards, seq=2**13, batch=2**10, assumptions="corrected")


@pytest.mark.parametrize("sizes", list(product((1, 2, 3, 4, 6, 8), (1, 2, 3), (1, 2), (1, 2))))
def test_a_group_has_the_links_of_a_node_just_where_the_mesh_has_it_inside(sizes) -> None:
    named = dict(zip(LINKS, sizes, strict=True))
    cards = sizes[0] * sizes[1] * sizes[2] * sizes[3]
    asked = on("h100", cards)
    plan = plan_of(asked, degrees(**named))
    node = int(asked.values[v.n_node].value)
    inside, outside = (asked.numbers[s] for s in (v.W_node, v.W_dcn))
    placed = mesh(named, node)
    spans = {"tp": ("tp",), "cp": ("tp", "cp"), "dp": ("tp", "cp", "dp"), "pp": tuple(LINKS)}
    for axis, link in LINKS.items():
        # All that a group and the axes inside it span lies in one node, for every such span.
        span = 1
        for name in spans[axis]:
            span *= named[name]
        whole = mesh({"tp": span, "dp": cards // span}, node).inside_node("tp")
        assert plan.numbers[link] == (inside if whole else outside), (axis, named)
        if whole:
            assert placed.inside_node(axis)


@pytest.mark.parametrize("sizes", list(product((1, 8), (1, 4), (1, 2), (1, 16))))
def test_groups_on_a_torus_share_its_axes(sizes) -> None:
    named = dict(zip(LINKS, sizes, strict=True))
    cards = sizes[0] * sizes[1] * sizes[2] * sizes[3]
    asked = on("tpu-v5p", cards)
    plan = plan_of(asked, degrees(**named))
    kinds = sum(size > 1 for size in sizes)
    axis = Fraction(180 * 10**9) * min(Fraction(1), Fraction(3, max(kinds, 1)))
    for name, link in LINKS.items():
        one_way = Fraction(1, 2) if name == "pp" else 1
        assert plan.numbers[link] == axis * one_way, (name, named)


def test_a_group_beyond_a_pod_leaves_it_by_the_data_centre_network() -> None:
    asked = on("tpu-v5p", 2**14)
    plan = plan_of(asked, degrees(tp=8, cp=1, pp=1, dp=2**11))
    assert plan.numbers[v.W_tp] == 180 * 10**9
    assert plan.numbers[v.W_dp] == Fraction(625, 100) * 10**9


def test_a_torus_has_plans_and_says_what_its_links_rest_on() -> None:
    plan = plan_of(on("tpu-v5p", 64), degrees(tp=8, cp=1, pp=1, dp=8))
    sources = {leaf.source for leaf in plan["tp"].leaves() if leaf.source}
    assert {"SB2", "R-maxtext"} <= sources
    told = {name: leaf for name, leaf in plan["W_tp"].inputs}
    assert "bidirectional per axis" in told["W_node"].basis
    assert told["n_node"].value == 64  # a job smaller than a pod


@pytest.mark.parametrize("cards", [1, 2, 7, 8, 9, 64])
def test_a_node_is_no_larger_than_the_job_and_else_as_the_facts_have_it(cards: int) -> None:
    asked = on("h100", cards)
    node, fact = asked.constants[v.n_node], asked.values[v.n_node]
    assert node.value == min(cards, 8) and fact.value == 8
    assert (node is fact) is (cards >= 8)
    assert cards >= 8 or node.status == "derived"  # it follows from the job, no one assumed it
    others = asked.constants.keys() - {v.n_node}
    assert all(asked.constants[s] is asked.values[s] for s in others)
