"""Meshes: the notebook's 16 cards, any order and size, and the cards of a stage for experts."""

from __future__ import annotations

import json
from itertools import permutations, product

import numpy as np
import pytest
import sympy as sp

from derive.cli import main
from derive.notation.errors import DeriveError
from derive.plan.mesh import from_outside_in, lines, mesh, regrouped

SIXTEEN = mesh({"tp": 2, "cp": 2, "dp": 2, "pp": 2}, 8)


def test_the_notebook_s_sixteen_cards():
    first = {axis: [list(group) for group in SIXTEEN.groups(axis)[:4]] for axis in SIXTEEN.sizes}
    assert first == {
        "tp": [[0, 1], [2, 3], [4, 5], [6, 7]],
        "cp": [[0, 2], [1, 3], [4, 6], [5, 7]],
        "dp": [[0, 4], [1, 5], [2, 6], [3, 7]],
        "pp": [[0, 8], [1, 9], [2, 10], [3, 11]],
    }
    assert [len(SIXTEEN.groups(axis)) for axis in SIXTEEN.sizes] == [8, 8, 8, 8]
    assert [SIXTEEN.inside_node(a) for a in ("tp", "cp", "dp", "pp")] == [True, True, True, False]
    assert SIXTEEN.coordinates(13) == {"pp": 1, "dp": 1, "cp": 0, "tp": 1}
    assert SIXTEEN.rank({"pp": 1, "dp": 1, "cp": 0, "tp": 1}) == 13
    assert SIXTEEN.names == ("pp", "dp", "cp", "tp")


SHAPES = [(2, 3, 4, 1), (1, 1, 1, 1), (4, 2, 1, 3), (3, 5, 2, 2), (8, 1, 6, 4)]


@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("node", [1, 3, 4, 8])
def test_groups_and_coordinates_are_those_of_an_array(sizes, node):
    for names in permutations(("tp", "cp", "dp", "pp")):
        cards = mesh(dict(zip(names, sizes, strict=True)), node)
        ranks = np.arange(cards.cards).reshape(sizes[::-1])
        for place, axis in enumerate(reversed(names)):
            rows = np.moveaxis(ranks, place, -1).reshape(-1, ranks.shape[place])
            assert cards.groups(axis) == tuple(map(tuple, rows.tolist()))
            local = all(len({r // node for r in row}) == 1 for row in rows)
            assert cards.inside_node(axis) == local
        for rank in range(cards.cards):
            at = cards.coordinates(rank)
            where = tuple(int(i[0]) for i in np.nonzero(ranks == rank))
            assert tuple(at[n] for n in reversed(names)) == where
            assert cards.rank(at) == rank


def test_orders_by_string_and_by_system():
    sizes = {"tp": 2, "cp": 2, "dp": 4, "pp": 2}
    megatron = mesh(sizes, 8, "tp-cp-ep-dp-pp")
    assert megatron == mesh(sizes, 8, "megatron") == mesh(sizes, 8, "tp,cp,dp,pp")
    llama = mesh(sizes, 8, "llama3")
    assert [name for name, _ in llama.axes] == ["tp", "cp", "pp", "dp"]
    assert llama.groups("dp")[0] == (0, 8, 16, 24)
    assert llama.groups("pp")[0] == (0, 4)
    titan = from_outside_in(("pp", "dp_shard", "cp", "tp"), (2, 4, 2, 2), 8)
    assert titan.groups("dp_shard") == megatron.groups("dp")
    assert titan.names == ("pp", "dp_shard", "cp", "tp")


def test_groups_of_an_axis_share_all_cards_once():
    cards = mesh({"tp": 4, "cp": 3, "pp": 2, "dp": 5}, 8)
    for axis in cards.sizes:
        assert sorted(r for group in cards.groups(axis) for r in group) == list(range(cards.cards))


@pytest.mark.parametrize("order", ["tp,cp,dp,pp", "tp,cp,pp,dp", "pp,tp,cp,dp"])
@pytest.mark.parametrize(("etp", "ep"), [(1, 8), (2, 4), (1, 1), (4, 2), (1, 16)])
def test_experts_reuse_the_cards_of_a_stage(order, etp, ep):
    cards = mesh({"tp": 2, "cp": 2, "dp": 4, "pp": 2}, 8, order)
    folded = regrouped(cards, etp=etp, ep=ep)
    assert folded.sizes == {"etp": etp, "ep": ep, "edp": 16 // (etp * ep), "pp": 2}
    stage = {rank: cards.coordinates(rank)["pp"] for rank in range(32)}
    for axis in ("etp", "ep", "edp"):
        groups = folded.groups(axis)
        assert sorted(r for g in groups for r in g) == list(range(32))
        assert all(len(g) == folded.sizes[axis] for g in groups)
        assert all(len({stage[r] for r in g}) == 1 for g in groups)
    assert folded.groups("pp") == cards.groups("pp")
    # Any two groups of different axes meet in one card at most.
    for one, other in product(folded.groups("ep"), folded.groups("edp")):
        assert len(set(one) & set(other)) <= 1


def test_context_and_expert_groups_do_not_multiply_the_world():
    cards = mesh({"tp": 1, "cp": 4, "dp": 8, "pp": 1}, 8)
    folded = regrouped(cards, etp=1, ep=8)
    assert folded.sizes["edp"] == 4
    assert folded.inside_node("ep") and not folded.inside_node("edp")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: SIXTEEN.coordinates(16), "rank 16 is outside the mesh of ranks 0 to 15"),
        (lambda: SIXTEEN.coordinates(-1), "outside"),
        (lambda: SIXTEEN.groups("xp"), "unknown mesh axis"),
        (lambda: mesh({"tp": 0}, 8), "whole number from 1"),
        (lambda: mesh({"tp": 2, "cp": 2}, 8, "tp,dp"), "lacks the axis cp"),
        (lambda: mesh({"tp": 2}, 8, "tp,tp"), "twice"),
        (lambda: mesh({"tp": 2}, 8, "tpcp"), "unknown mesh axis or order"),
        (lambda: mesh({"tp": 2}, 0), "cards per node"),
        (lambda: mesh({"tp": 2**21}, 8), "limit"),
        (lambda: regrouped(SIXTEEN, ep=3), "does not divide the 8 cards"),
        (lambda: SIXTEEN.rank({"tp": 2}), "expected 0 to 1"),
    ],
)
def test_what_is_no_mesh_is_refused_in_one_line(make, told):
    with pytest.raises(DeriveError, match=told) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_the_names_of_torchtitan_with_one_data_axis() -> None:
    sizes = {"dp": 2, "pp": 2, "tp": 2, "cp": 2}
    by_name = mesh(sizes, 8, "torchtitan")
    assert by_name == from_outside_in(("pp", "dp", "cp", "tp"), (2, 2, 2, 2), 8)


def test_experts_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["mesh", "--sizes", "tp=2,cp=2,dp=2,pp=2", "--cards-per-node", "8"]
    assert main([*sizes, "--experts", "etp=1,ep=4", "--json"]) == 0
    experts = json.loads(capsys.readouterr().out)["experts"]
    assert experts["groups"]["ep"] == [[4 * n + i for i in range(4)] for n in range(4)]
    assert experts["inside_node"] == {"etp": True, "ep": True, "edp": True, "pp": False}
    assert main([*sizes, "--experts", "ep=3"]) == 2
    assert "does not divide the 8 cards of a stage" in capsys.readouterr().err
    assert main([*sizes, "--experts", "tp=2"]) == 2
    assert "unknown axis of --experts 'tp'; did you mean etp" in capsys.readouterr().err


@pytest.mark.parametrize("sizes", [{"tp": 2, "cp": 2, "dp": 4}, {"tp": 3, "pp": 2, "dp": 4}])
@pytest.mark.parametrize("order", list(permutations(("tp", "cp", "dp", "pp"))))
def test_coordinates_among_the_experts_by_brute_force(sizes, order):
    cards = mesh(sizes, 8, ",".join(order))
    for etp, ep in ((1, 1), (2, 1), (1, 4), (2, 2), (3, 2)):
        if cards.cards // sizes.get("pp", 1) % (etp * ep):
            continue
        folded = regrouped(cards, etp=etp, ep=ep)
        places = {rank: folded.coordinates(rank) for rank in range(cards.cards)}
        # The cards of each stage in rank order, written out and counted through.
        stages = {}
        for rank in range(cards.cards):
            stages.setdefault(cards.coordinates(rank).get("pp", 0), []).append(rank)
        for stage, ranks in stages.items():
            for place, rank in enumerate(ranks):
                at = {"etp": place % etp, "ep": place // etp % ep, "edp": place // (etp * ep)}
                assert places[rank] == {**at, "pp": stage}
                assert folded.rank(places[rank]) == rank
        # A group is the ranks that differ along its axis alone.
        for axis in folded.sizes:
            alike = {}
            for rank, at in places.items():
                rest = tuple(index for name, index in at.items() if name != axis)
                alike.setdefault(rest, []).append(rank)
            assert folded.groups(axis) == tuple(sorted(map(tuple, alike.values())))
            local = all(len({rank // 8 for rank in group}) == 1 for group in alike.values())
            assert folded.inside_node(axis) == local


@pytest.mark.parametrize(("cards", "node", "nodes"), [(16, 8, 2), (17, 8, 3), (7, 8, 1), (8, 8, 1)])
def test_nodes_hold_consecutive_ranks(cards, node, nodes):
    laid = mesh({"dp": cards}, node)
    assert laid.nodes == nodes == laid.node(cards - 1) + 1
    assert [laid.node(rank) for rank in range(cards)] == [rank // node for rank in range(cards)]


@pytest.mark.parametrize(("inner", "outer"), [(2, 4), (4, 4), (8, 1), (4, 8), (5, 2)])
def test_up_to_four_groups_of_up_to_eight_cards_are_shown_whole(inner: int, outer: int) -> None:
    cards = mesh({"tp": inner, "dp": outer}, 8)
    for axis, line in zip(cards.sizes, lines(cards)[1:], strict=True):
        told = line.partition(": ")[2]
        groups = cards.groups(axis)
        assert ("..." in told) is (len(groups) > 4)
        ranks = json.loads(f"[{told.removesuffix(' ...').replace('] [', '], [')}]")
        assert tuple(map(tuple, ranks)) == groups[:4]


def test_a_mesh_of_the_most_cards_is_one():
    assert mesh({"tp": 2**20}, 8).nodes == 2**17
    with pytest.raises(DeriveError, match="the limit is 1,048,576"):
        mesh({"tp": 2**20 + 1}, 8)


@pytest.mark.parametrize("names", [("tp", "cp", "dp"), ("tp", "pp", "dp"), ("dp", "pp", "tp")])
@pytest.mark.parametrize("per_node", [1, 2, 3, 4, 6, 8, 12, 100])
def test_inside_a_node_is_told_as_the_groups_lie(names, per_node):
    """Told without making the groups, which are as many as the cards."""
    for sizes in product((1, 2, 3), repeat=3):
        cards = mesh(dict(zip(names, sizes, strict=True)), per_node)
        stage = cards.cards // cards.sizes.get("pp", 1)
        for shape in (cards, *(regrouped(cards, etp=1, ep=n) for n in (2, 3) if stage % n == 0)):
            for axis in shape.sizes:
                groups = shape.groups(axis)
                assert shape.inside_node(axis) == all(map(shape.one_node, groups))
                assert groups == tuple(sorted(groups))


def test_sizes_of_numpy_and_sympy_are_pythons_own() -> None:
    plain = mesh({"tp": 2, "dp": 4}, 8)
    for whole in (np.int64, sp.Integer):
        same = mesh({"tp": whole(2), "dp": whole(4)}, whole(8))
        assert same == plain and repr(same) == repr(plain)
        assert {type(size) for size in (*same.sizes.values(), same.cards_per_node)} == {int}
