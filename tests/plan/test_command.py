"""`derive plan` as it is typed: text, JSON, exit codes and one-line errors."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from cases import LINES, SEARCHES, asked

from derive.commands import plan as plan_command
from derive.commands.parser import parser
from derive.cost.assumptions import STEP
from derive.notation.errors import DeriveError
from derive.plan.search import search


def typed(text: str) -> argparse.Namespace:
    return parser().parse_args(text.split())


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
            "tp", "cp", "pp", "dp", "ep", "virtual", "zero", "replicas", "micro_batch", "mfu",
            "step_seconds", "memory_bytes", "recomputed_layers", "layers_per_stage", "parts",
            "memory", "etp", "tokens_per_second", "chip_flops", "schedule", "sequence_parallel",
            "recompute", "fullest",
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


def test_a_plan_takes_all_terms_unless_it_is_told_otherwise():
    data, text, _ = plan(BASE)
    assert data["assumptions"]["name"] == "default"
    assert set(STEP) <= set(data["assumptions"])
    assert data["assumptions"]["norm"].startswith("fused: ")
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


def test_seven_cards_the_nearest_in_text_and_as_data():
    data, text, code = plan(BASE.replace("64", "7"))
    assert code == 1 and data["plans"] == []
    fits, first, *others = data["nearest"]
    assert fits["lacks_bytes"] == 0 and all(one["lacks_bytes"] > 0 for one in (first, *others))
    assert (first["tp"], first["cp"], first["pp"], first["dp"]) == (1, 1, 1, 7)
    assert first["rule"] == "batch" and first["with"] == {"batch": 511}
    assert first["lacks"] == [
        {"quantity": "batch", "given": 512, "nearest": [511, 518]},
        {"quantity": "cards", "given": 7, "nearest": [4, 8]},
    ]
    assert set(first) - set(plan(BASE)[0]["plans"][0]) == {"rule", "with", "lacks", "lacks_bytes"}
    assert "it takes 511 or 518 sequences, or 4 or 8 cards\n    with 511 sequences:" in text
    assert json.loads(json.dumps(data)) == data
    lines = text.split("\n")
    assert lines[1].endswith("smallest change of one number, what then fits in memory first")
    assert "fits in" in lines[3] and "too much" in lines[5]
    # What is said to fit fits, once it is typed.
    again = BASE.replace("--cards 64", f"--cards {fits['with']['cards']}")
    ranked = plan(f"{again} --top 0")[0]
    degrees = ("tp", "cp", "pp", "dp", "micro_batch")
    (same,) = [p for p in ranked["plans"] if all(p[d] == fits[d] for d in degrees)]
    del same["stages"]  # which plans have that are few
    assert {name: fits[name] for name in same} == same


@pytest.mark.parametrize("cards", ["7", "8"])
def test_nothing_fits_in_the_notebook_s_style(cards):
    seven = f"{BASE.replace('64', cards)} --assume notebook --style notebook"
    for more in ("", " --top 5", " --also tp=8", " --why 1 2"):
        data, text, code = plan(seven + more)
        heading, *told = text.split("\n")
        assert heading == f"== 70B，{cards} 卡，8K 序列，每步 4M token：0 种配置放得下"
        assert len(told) == {" --also tp=8": 1, " --why 1 2": 2}.get(more, 0)
        assert data.get("unranked", []) == told
        assert code == 1 and data["fit"] == 0


def test_plans_are_named_as_they_are_shown_or_with_commas():
    shown, _, _ = plan(f"{CORRECTED} --top 3 --also tp=8,cp=2,dp=4 --also tp=8,cp=2,b_seq=2")
    first, second = shown["also"]
    assert first["micro_batch"] == 1 and second["micro_batch"] == 2
    options = typed(f"plan {CORRECTED} --why A B")
    options.why = ["tp=8 cp=2 pp=1 dp=4", "tp=8, cp=2, b_seq=2"]
    why = plan_command.run(options)[0]["why"]
    assert why["first"] == "tp=8 cp=2 pp=1 dp=4"
    assert why["second"] == "tp=8 cp=2 pp=1 dp=4 b_seq=2"
    ranks = f"{first['rank']} {second['rank']}"
    assert plan(f"{CORRECTED} --why {ranks}")[0]["why"] == why


@pytest.mark.parametrize("rank", [1, 2, 24])
def test_a_rank_and_its_degrees_are_the_same_plan(rank):
    rows = plan(f"{BASE} --assume notebook --top 0")[0]["plans"]
    degrees = ",".join(f"{name}={rows[rank - 1][name]}" for name in ("tp", "cp", "pp"))
    for pair in (f"{rank} {rank}", f"{rank} {degrees}", f"{degrees} {degrees}"):
        with pytest.raises(DeriveError, match=rf"found one twice: rank {rank} is tp="):
            plan(f"{BASE} --assume notebook --why {pair}")


NOTEBOOK = f"{BASE} --assume notebook"
CORRECTED = f"{BASE} --assume corrected"


@pytest.mark.parametrize("option", ["--also", "--why 1"])
@pytest.mark.parametrize(
    ("start", "degrees", "told"),
    [
        (CORRECTED, "tp=3", "tp=3 cp=1 pp=1 is rejected: the heads do not split"),
        (CORRECTED, "tp=16", "is rejected: the tensor group is larger than a node"),
        (CORRECTED, "cp=3", "is rejected: the sequence does not split"),
        (NOTEBOOK, "cp=4", "is rejected: too few tokens"),
        (CORRECTED, "pp=81", "is rejected: the layers do not split"),
        (CORRECTED, "tp=8,pp=10", "is rejected: the degrees do not divide the cards"),
        (CORRECTED, "tp=8,b_seq=3", "b_seq=3 is rejected: the batch does not split"),
        (CORRECTED, "tp=1", "tp=1 cp=1 pp=1 dp=64 is rejected: it needs .* of .*, .* too much"),
        (CORRECTED, "tp=8,dp=3", "tp=8 cp=1 pp=1 dp=3 is 24 cards, not the 64 given"),
        (f"{CORRECTED} --set dp=4", "tp=8", "the data degree is not the one that is held"),
        (f"{CORRECTED} --set tp=4", "tp=8", "was not searched, only tp=4$"),
        (NOTEBOOK, "tp=8,b_seq=2", "was not searched, only b_seq=1; .* set b_seq=2"),
        (CORRECTED, "tp=8,q=9", "unknown degree of --[a-z]+ 'q'"),
        (CORRECTED, "tp=8,tp=4", "tp is given twice"),
        (CORRECTED, "tp=1.5", "tp: expected a whole number from 1"),
        (CORRECTED, "tp=0", "tp: expected a whole number from 1"),
    ],
)
def test_a_plan_that_is_not_ranked_says_why(option, start, degrees, told):
    with pytest.raises(DeriveError, match=told) as caught:
        plan(f"{start} {option} {degrees}")
    assert "\n" not in str(caught.value)


def test_what_was_not_searched_is_found_once_it_is_held():
    assert plan(f"{NOTEBOOK} --set b_seq=2 --also tp=8,b_seq=2")[2] == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (BASE.replace("512", "0"), "--batch: .*positive"),
        (BASE.replace("512", "-1"), "--batch: .*positive"),
        (BASE.replace("512", "1.5"), "--batch: expected a whole number"),
        (BASE.replace("512", "x"), "--batch"),
        (BASE.replace("512", "4tokens"), "--batch: .*expected sequence, found token"),
        (BASE.replace("8192", "8192sequences"), "--seq: .*expected token, found sequence"),
        (BASE.replace("8192", "24579"), "^seq 24579: not divisible"),
        (BASE.replace("64", "0"), "--cards"),
        (BASE.replace("llama-3-70b", "llama-3-70"), "did you mean"),
        (BASE.replace("h100", "h101"), "did you mean h100"),
        (f"{BASE} --style notbook", "unknown style"),
        (f"{BASE} --assume notbook", "did you mean notebook"),
        (f"{BASE} --top -1", "--top"),
        (f"{BASE} --set tp=3", "heads do not split"),
        (f"{BASE} --set tp=128", "larger than a node"),
        (f"{CORRECTED} --set pp=7", "layers do not split"),
        (f"{BASE} --set pp=81", "layers do not split"),
        (f"{BASE} --set dp=3", "does not divide 64 cards"),
        (f"{BASE} --set tp=8 --set cp=1 --set pp=1 --set dp=4", "makes 32, not the 64 given"),
        (f"{BASE} --set tp=8 --set tp=8", "twice"),
        (f"{BASE} --set eta=2", "at most 1"),
        (f"{BASE} --set eta=0", "positive"),
        (f"{BASE} --set tp=8,cp=2", "--set: expected one NAME=VALUE, found 'tp=8,cp=2'"),
        (f"{BASE} --set tp", "--set: expected NAME=VALUE"),
        (f"{BASE} --set M_hbm=96GB/s", "--set: M_hbm .*expected byte, found byte/second"),
        (f"{BASE} --set T=4", "unknown value to set; use --seq"),
        (f"{BASE} --set N=4", "unknown value to set; use --cards"),
        (f"{BASE} --set B_seq=4", "unknown value to set; use --batch"),
        (BASE.replace("512", "4tokens"), "divide by the tokens of a sequence"),
        (f"{CORRECTED} --why 1 99", "rank from 1 to 83, found 99$"),
        (f"{CORRECTED} --why 1 99999999999999", "found 99999999999999$"),
        (f"{CORRECTED} --why 1 0", "rank from 1 to 83, found 0$"),
        (f"{BASE} --why 1 1.5", "a rank from 1, or degrees such as"),
        (f"{BASE} --why x 1", "a rank from 1, or degrees such as"),
        (f"{BASE.replace('64', '7')} --why 1 x", "a rank from 1, or degrees such as"),
        (f"{BASE.replace('64', '7')} --also q=1", "unknown degree"),
        (f"{BASE} --assume=", "unknown assumption set ''"),
        (f"{BASE} --style=", "unknown style ''"),
        (f"{BASE} --profile=", "unknown profile ''"),
        (f"{BASE} --also xp=3", "unknown degree"),
        (f"{BASE} --profile nobody", "unknown profile"),
        (BASE.replace("h100", "tpu-v4"), "; set W_dcn="),
    ],
)
def test_bad_input_is_one_line(text, told):
    with pytest.raises(DeriveError, match=told) as caught:
        plan(text)
    assert "\n" not in str(caught.value)


def test_a_number_beyond_float64_is_null_in_the_data():
    plan = search(asked()).plan(1)
    first = replace(plan, parts={**plan.parts, "tp": Fraction(10) ** 400})
    data = first.row
    assert data["step_seconds"] is None is data["parts"]["tp"] and data["mfu"] == float(first.mfu)
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_what_was_set_is_said_and_what_plays_no_part():
    data, text, _ = plan(f"{BASE} --set eta=0.5 --set x_dp=0.9 --set A_kept=300 --set tp=8")
    lines = text.replace("\u00a0", " ").split("\n")
    assert lines[1] == "set: eta = 0.5, x_dp = 0.9, A_kept = 300 bytes, tp = 8"
    assert lines[2:4] == [f"note: {n} plays no part under default" for n in ("x_dp", "A_kept")]
    assert data["set"] == {"eta": 0.5, "x_dp": 0.9, "A_kept": 300.0, "tp": 8}
    assert data["notes"] == [line.removeprefix("note: ") for line in lines[2:4]]
    plain, text, _ = plan(BASE)
    assert plain["set"] == {} and plain["notes"] == [] and "set:" not in text


@pytest.mark.parametrize(
    "name", ["notebook", "corrected", "corrected-saved_tensors-gradient_window"]
)
def test_what_plays_no_part_changes_nothing_and_what_does_changes_something(name):
    """Each constant of the model is set to another value: a note, or other plans."""
    other = {
        "eta": "0.5", "mu": "0.8", "x_pp": "0.25", "x_dp": "0.9", "C": "9e14", "M_hbm": "7e10",
        "W_node": "3e11", "W_dcn": "2e10", "A_kept": "40", "e_32": "5", "e_g": "3", "e": "3",
        "T_min": "100000", "n_node": "16", "F": "30000", "K": "16", "n_F": "2", "n_V": "1",
    }  # fmt: skip
    start = f"{BASE} --assume {name}"
    before = plan(start)[0]
    for symbol, value in other.items():
        after = plan(f"{start} --set {symbol}={value}")[0]
        same = [after[key] for key in ("plans", "rejected")] == [
            before[key] for key in ("plans", "rejected")
        ]
        assert same == bool(after["notes"]), symbol


def test_the_inputs_are_what_the_plans_rest_on():
    inputs = {
        one["symbol"]: one
        for one in plan(f"{BASE} --assume corrected --set W_dcn=25e9")[0]["inputs"]
    }
    assert inputs["eta"]["value"] == 0.6 and inputs["eta"]["status"] == "assumed"
    assert inputs["W_dcn"] == {
        "symbol": "W_dcn", "value": 25e9, "unit": "byte/second", "of": "", "basis": "",
        "source": "", "status": "given",
    }  # fmt: skip
    assert inputs["M_hbm"]["of"] == "h100-sxm" and inputs["M_hbm"]["source"]
    assert {"L", "K", "P", "mu", "W_node", "n_node"} < set(inputs)
