"""`derive plan` and `derive mesh` as they are typed: text, JSON, exit codes and one-line errors."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest
from cases import LINES, SEARCHES

from derive.commands import mesh as mesh_command
from derive.commands import plan as plan_command
from derive.commands.plan_parser import add_mesh_parser, add_plan_parser
from derive.notation.errors import DeriveError


def typed(text: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    commands = parser.add_subparsers()
    add_plan_parser(commands, argparse._StoreAction)
    add_mesh_parser(commands, argparse._StoreAction)
    return parser.parse_args(text.split())


def plan(text: str) -> tuple[dict[str, Any], str, int]:
    return plan_command.run(typed(f"plan {text}"))


BASE = "--model llama-3-70b --chip h100 --cards 64 --seq 8192 --batch 512"


def test_the_notebook_s_style():
    data, text, code = plan(
        f"{BASE} --assume notebook --style notebook --also tp=8 --also tp=8,pp=4"
    )
    assert text.split("\n") == LINES[:6] and code == 0
    assert data["fit"] == 24


def test_the_data_has_the_names_that_are_promised():
    data, _, code = plan(f"{BASE} --assume notebook --top 0")
    assert code == 0
    data = json.loads(json.dumps(data))
    assert data["candidates"] == 120 and data["fit"] == 24 == len(data["plans"])
    assert data["rejected"] == {"short_chunk": 80, "cards": 4, "memory": 12}
    assert data["assumptions"] == {"name": "notebook"}
    for row, expected in zip(data["plans"], SEARCHES["70b-64-8k"]["plans"], strict=True):
        assert set(row) == {
            "tp", "cp", "pp", "dp", "ep", "virtual", "micro_batch", "mfu", "step_seconds",
            "memory_bytes", "recomputed_layers", "layers_per_stage", "parts", "memory",
        }  # fmt: skip
        assert list(row["parts"]) == [
            "compute", "recompute", "imbalance", "tp", "cp", "pp", "bubble", "dp", "ep",
        ]  # fmt: skip
        assert row["mfu"] == pytest.approx(expected[6], rel=1e-12)
        assert sum(row["parts"].values()) == pytest.approx(row["step_seconds"])
        assert sum(row["memory"].values()) == pytest.approx(row["memory_bytes"])


def test_the_table_and_the_reasons():
    _, text, _ = plan(f"{BASE} --assume notebook --top 2")
    lines = text.split("\n")
    assert lines[0].endswith("assumptions: notebook")
    assert lines[2].split()[:7] == ["1", "4", "2", "2", "4", "1", "53.7%"]
    assert lines[4] == "24 plans fit of 120 combinations"
    assert lines[5] == "  80 rejected: too few tokens per context-parallel rank"
    assert "compute 89%, imbalance 1%, tensor 8%, bubble 1%" in lines[2]


def test_why_one_plan_beats_another():
    data, text, _ = plan(f"{BASE} --assume notebook --why 1 tp=8")
    why = data["why"]
    assert why["first"] == "tp=4 cp=2 pp=2 dp=4" and why["second"] == "tp=8 cp=1 pp=1 dp=8"
    assert sum(why["parts"].values()) == pytest.approx(why["saved_seconds"])
    assert next(iter(why["parts"])) == "tp" and why["parts"]["imbalance"] < 0
    assert "tp=4 cp=2 pp=2 dp=4 is 4.940" in text.replace("\u00a0", " ")
    back, text, _ = plan(f"{BASE} --assume notebook --why 5 1")
    assert back["why"]["saved_seconds"] == -why["saved_seconds"]
    assert "slower" in text


def test_default_is_the_corrected_set():
    data, text, _ = plan(BASE)
    assert data["assumptions"]["name"] == "default" and "two_level" in data["assumptions"]
    assert data["plans"][0]["micro_batch"] == 1
    one, _, _ = plan(f"{BASE} --assume notebook+gradient_bytes")
    assert one["fit"] == 23
    assert "assumptions: default" in text


def test_nothing_fits_exits_1_with_reasons_and_the_nearest():
    data, text, code = plan("--model llama-3-405b --chip h100 --cards 8 --seq 8192 --batch 8")
    assert code == 1
    assert data["fit"] == 0 and data["plans"] == [] and data["rejected"]["memory"] > 0
    assert data["nearest"][0]["lacks_bytes"] > 0
    assert "nothing fits" in text and "too much" in text and "rejected" in text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (BASE.replace("512", "0"), "--batch: .*positive"),
        (BASE.replace("512", "-1"), "--batch: .*positive"),
        (BASE.replace("512", "1.5"), "--batch: expected a whole number"),
        (BASE.replace("512", "x"), "--batch"),
        (BASE.replace("512", "4tokens"), "--batch: .*expected sequence, found token"),
        (BASE.replace("8192", "8192sequences"), "--seq: .*expected token, found sequence"),
        (BASE.replace("8192", "24579"), "--seq 24579: not divisible"),
        (BASE.replace("64", "0"), "--cards"),
        (BASE.replace("llama-3-70b", "llama-3-70"), "did you mean"),
        (BASE.replace("h100", "h101"), "did you mean h100"),
        (f"{BASE} --style notbook", "unknown style"),
        (f"{BASE} --assume notbook", "did you mean notebook"),
        (f"{BASE} --top -1", "--top"),
        (f"{BASE} --set tp=3", "heads do not split"),
        (f"{BASE} --set tp=128", "larger than a node"),
        (f"{BASE} --set pp=7", "layers do not split"),
        (f"{BASE} --set pp=81", "layers do not split"),
        (f"{BASE} --set dp=3", "do not divide"),
        (f"{BASE} --set tp=8 --set cp=1 --set pp=1 --set dp=4", "32 cards, which are not the 64"),
        (f"{BASE} --set tp=8 --set tp=8", "twice"),
        (f"{BASE} --set eta=2", "at most 1"),
        (f"{BASE} --set eta=0", "positive"),
        (f"{BASE} --set T=4", "unknown value to set"),
        (f"{BASE} --why 1 99", "rank from 1 to"),
        (f"{BASE} --why 1 tp=3", "no plan that fits"),
        (f"{BASE} --also xp=3", "unknown degree"),
        (f"{BASE} --profile nobody", "unknown profile"),
        (BASE.replace("h100", "v5p"), "use --set"),
    ],
)
def test_bad_input_is_one_line(text, told):
    with pytest.raises(DeriveError, match=told) as caught:
        plan(text)
    assert "\n" not in str(caught.value)


def mesh(text: str) -> tuple[dict[str, Any], str]:
    return mesh_command.run(typed(f"mesh {text}"))


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
    ],
)
def test_a_bad_mesh_is_one_line(text, told):
    with pytest.raises(DeriveError, match=told) as caught:
        mesh(text)
    assert "\n" not in str(caught.value)
