"""`derive mesh` as it is typed: groups, coordinates, ranks and experts, as text and as JSON."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from derive.commands import mesh as mesh_command
from derive.commands.parser import parser
from derive.notation.errors import DeriveError


def mesh(text: str, **options: str) -> tuple[dict[str, Any], str]:
    """The command; options that hold spaces or nothing are given by name."""
    typed = parser().parse_args(["mesh", *text.split(), "--json"])
    return mesh_command.run(argparse.Namespace(**{**vars(typed), **options}))


CARDS = "--sizes tp=2,cp=2,dp=2,pp=2 --cards-per-node 8"


def test_mesh_as_data_and_as_text():
    data, text = mesh(f"{CARDS} --rank 13")
    assert data["groups"]["cp"][:2] == [[0, 2], [1, 3]]
    assert data["inside_node"] == {"tp": True, "cp": True, "dp": True, "pp": False}
    assert data["coordinates"] == {"tp": 1, "cp": 0, "dp": 1, "pp": 1}
    assert "pp  8 groups across nodes: [0, 8] [1, 9] [2, 10] [3, 11] ..." in text
    assert "rank 13 is at tp=1 cp=0 dp=1 pp=1" in text
    assert "coordinates" not in mesh(CARDS)[0]
    assert list(mesh(f"{CARDS} --order llama3")[0]["groups"]) == ["tp", "cp", "pp", "dp"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{CARDS} --rank 16", "rank 16 is outside the mesh of ranks 0 to 15"),
        (f"{CARDS} --rank -1", "--rank: expected a whole number from 0"),
        (f"{CARDS} --rank 1.5", "--rank"),
        (f"{CARDS} --order tp,cp", "lacks the axis"),
        ("--sizes tp=2,tp=2 --cards-per-node 8", "twice"),
        ("--sizes tp --cards-per-node 8", "AXIS=SIZE"),
        ("--sizes tp=0 --cards-per-node 8", "from 1"),
        ("--sizes tpp=2 --cards-per-node 8", "unknown mesh axis"),
        ("--sizes tp=2 --cards-per-node 0", "--cards-per-node"),
        ("--sizes tp=2 --cards-per-node 8,1,6", "expected a whole number from 1"),
        ("--sizes tp=2 --cards-per-node 1_6", "expected a whole number from 1"),
        ("--sizes tp=1e18 --cards-per-node 8", "below 10"),
        ("--sizes tp=2.5 --cards-per-node 8", "expected a whole number from 1"),
        ("--sizes tp\x1b[31m=2 --cards-per-node 8", "AXIS=SIZE"),
        ("--sizes " + "tp=2," * 200 + " --cards-per-node 8", "the limit is 500"),
    ],
)
def test_a_bad_mesh_is_one_line(text, told):
    with pytest.raises(DeriveError, match=told) as caught:
        mesh(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rank", range(16))
def test_coordinates_give_the_rank_back(rank):
    at = mesh(f"{CARDS} --rank {rank}")[0]["coordinates"]
    typed = ",".join(f"{axis}={index}" for axis, index in at.items())
    data, text = mesh(f"{CARDS} --at {typed}")
    assert data["rank"] == rank and text.endswith(f"{typed.replace(',', ' ')} is rank {rank}")


def test_coordinates_that_are_left_out_are_0_and_others_are_refused():
    data, text = mesh(f"{CARDS} --at dp=1")
    assert data["rank"] == 4 and "tp=0 cp=0 dp=1 pp=0 is rank 4" in text
    for at, told in (
        ("dp=2", "dp: expected 0 to 1, found 2"),
        ("ep=0", "unknown mesh axis 'ep'"),
        ("dp", "--at: expected AXIS=INDEX"),
        ("dp=-1", "--at dp: expected a whole number from 0"),
    ):
        with pytest.raises(DeriveError, match=told):
            mesh(f"{CARDS} --at {at}")


def test_a_rank_among_the_experts():
    data, text = mesh(f"{CARDS} --experts etp=2,ep=2 --rank 13")
    at = {"etp": 1, "ep": 0, "edp": 1, "pp": 1}
    assert data["experts"]["coordinates"] == at and data["coordinates"]["dp"] == 1
    assert text.endswith("rank 13 is at etp=1 ep=0 edp=1 pp=1 among them")
    assert "coordinates" not in mesh(f"{CARDS} --experts ep=2")[0]["experts"]


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ("", "order: expected axes such as tp,cp,dp,pp, or one of megatron, torchtitan, llama3"),
        ("tp,,cp", "order: expected axes"),
        ("tp,torchtitan", "mixes axes with torchtitan, which is an order by itself"),
        ("torchtitn", "unknown mesh axis or order 'torchtitn'; did you mean torchtitan"),
        ("tp,cpp", "unknown mesh axis 'cpp'; did you mean pp or cp"),
    ],
)
def test_an_order_that_is_none_says_why(order, told):
    with pytest.raises(DeriveError, match=told) as caught:
        mesh(CARDS, order=order)
    assert "\n" not in str(caught.value)


def test_an_order_may_have_spaces_round_it():
    assert mesh(CARDS, order=" llama3 ") == mesh(f"{CARDS} --order llama3")
    assert mesh(CARDS, order="tp, cp, pp, dp") == mesh(f"{CARDS} --order llama3")


def test_counts_of_one():
    _, text = mesh("--sizes tp=8 --cards-per-node 8")
    assert text.startswith("8 cards on 1 node, ") and "1 group inside a node" in text
    assert mesh("--sizes tp=1 --cards-per-node 8")[1].startswith("1 card on 1 node, ")


def test_a_long_line_is_cut_and_the_data_is_whole():
    data, text = mesh("--sizes tp=128,pp=32 --cards-per-node 8 --experts etp=1,ep=64")
    assert max(map(len, text.split("\n"))) < 400
    assert "[0, 1, 2, 3, 4, 5, 6, ..., 127] [128, 129" in text
    assert len(data["groups"]["tp"]) == 32 and len(data["groups"]["tp"][-1]) == 128
    assert "[0, 1, 2, 3, 4, 5, 6, 7]" in mesh("--sizes tp=8,pp=2 --cards-per-node 8")[1]
