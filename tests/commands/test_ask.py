"""`derive ask`: closed forms that can be read back, numbers worked out by hand, JSON names."""

from __future__ import annotations

import json
import re
from math import sqrt
from typing import Any

import pytest
import sympy as sp

from derive.notation import symbols as v
from derive.notation.read import expression
from derive.solve.smt import verdicts

# By hand: v5p has 459 TFLOP/s and 180 GB/s per axis; LLaMA-3-70B is 28,672 wide with 80 layers.
C, W, F, L = 459e12, 180e9, 28672, 80
ALPHA = C / W
ON = ("--chip", "tpu-v5p", "--model", "llama-3-70b")
POD = ("--set", "M_X=2", "--set", "B=4194304", "--set", "N=8960")
B, N = 4194304, 8960

NUMBERS = [
    (("fsdp", "B/X"), ">=", ALPHA),
    (("data_parallel", "B/N", "--set", "M_X=3"), ">=", ALPHA / 3),
    (("fsdp", "X", "--set", "B=4194304"), "<=", B / ALPHA),
    (("fsdp", "B/X", "--precision", "fp8"), ">=", ALPHA / 2),
    (("fsdp", "B/X", "--gradients", "fp32"), ">=", 1.5 * ALPHA),
    (("fsdp", "B/X", "--gated"), ">=", ALPHA),
    (("tensor_parallel", "Y"), "<=", F / ALPHA),
    (("tensor_parallel", "Y", "--exact"), "<=", F / ALPHA + 1),
    (("tensor_parallel", "Y", "--no-wrap"), "<=", F / ALPHA / 2),
    (("tensor_parallel", "Y", "--gated"), "<=", 1.5 * F / ALPHA),
    (("tensor_parallel", "F", "--set", "Y=8"), ">=", 8 * ALPHA),
    (("fsdp_tensor", "B/N", "--set", "M_X=2"), ">=", ALPHA**2 / (2 * F)),
    (("fsdp_tensor", "B/N", "--set", "M_X=2", "--gated"), ">=", ALPHA**2 / (3 * F)),
    (("fsdp_tensor", "B/N", "--overlap", "serial"), ">=", 4 * ALPHA**2 / F),
    (("fsdp_tensor", "B/N", "--pass", "backward"), ">=", ALPHA**2 / (2 * F)),
    (("fsdp_tensor", "B/N", "--set", "M_X=2", "--set", "Y=5"), ">=", ALPHA / 10),
    (("fsdp_tensor", "N", "--set", "M_X=2", "--set", "B=4194304"), "<=", B * F * 2 / ALPHA**2),
    (("fsdp_tensor", "W", *POD), ">=", C * sqrt(N / (B * F * 2))),
    (("fsdp_tensor", "C", *POD), "<=", W / sqrt(N / (B * F * 2))),
    (("fsdp_tensor", "alpha", *POD), "<=", sqrt(B * F * 2 / N)),
    (("fsdp_tensor", "M_X", *POD[2:]), ">=", N * ALPHA**2 / (B * F)),
    (("pipeline", "Z"), "<=", F * L / ALPHA),
    (("cross_pod", "B/S", "--set", "W_dcn=6.25 GB/s"), ">=", C / 6.25e9),
    (("cross_pod", "B/S", "--set", "W_dcn=6.25e9", "--exact", "--set", "S=4"), ">=", 55080),
    (("weight_reads", "B", "--set", "W_hbm=2.8 TB/s"), ">=", C / 2.8e12),
    (("fsdp", "P", "--set", "X=8960", "--set", "M_hbm=96 GB"), "<=", N * 96e9 / 10),
    (("fsdp", "M_hbm", "--set", "X=64", "--set", "P=70e9"), ">=", 10 * 70e9 / 64),
]


@pytest.mark.parametrize(("asked", "relation", "value"), NUMBERS, ids=lambda x: str(x)[:60])
def test_a_number_is_that_of_the_hand_calculation(
    answer: Any, asked: tuple[str, ...], relation: str, value: float
) -> None:
    found = answer("ask", *asked, *ON)
    assert found["relation"] == relation
    assert found["value"] == pytest.approx(value, rel=1e-12)
    assert found["missing"] == []


@pytest.mark.parametrize(("asked", "relation", "value"), NUMBERS, ids=lambda x: str(x)[:60])
def test_a_closed_form_reads_back_to_its_value(
    answer: Any, asked: tuple[str, ...], relation: str, value: float
) -> None:
    found = answer("ask", *asked, *ON)
    closed = expression(found["closed_form"])
    values = {v.find(row["symbol"]): sp.nsimplify(row["value"]) for row in found["inputs"]}
    left = closed.xreplace(values)
    assert not left.free_symbols, left
    assert float(left) == pytest.approx(found["value"], rel=1e-12)
    assert found["exact"] is not None
    assert float(sp.N(expression(found["exact"]))) == pytest.approx(value, rel=1e-12)


NAMES = {
    "strategy", "question", "relation", "closed_form", "latex", "value", "unit", "assumptions",
    "steps",
}  # fmt: skip
FORMS = [
    ("fsdp", "B/X"),
    ("fsdp_tensor", "X"),
    ("fsdp_tensor", "X", "--best"),
    ("fsdp_tensor", "B/N", "--exact", "--set", "N=64", *ON),
    ("fsdp_tensor", "Y", "--feasible", "divisors", "--set", "N=64", "--set", "B=1e6", *ON),
]


@pytest.mark.parametrize("asked", FORMS, ids=lambda x: " ".join(x)[:40])
def test_json_has_its_names(answer: Any, asked: tuple[str, ...]) -> None:
    found = answer("ask", *asked)
    assert set(found) >= NAMES
    assert found["strategy"] == asked[0]
    assert found["question"] == asked[1]
    assert isinstance(found["steps"], list)
    assert set(found["assumptions"]) >= {
        "overlap", "passes", "form", "keep", "gated", "precision", "gradients", "wrap"
    }  # fmt: skip


def test_steps_are_proved_and_end_in_the_answer(answer: Any) -> None:
    found = answer("ask", "fsdp_tensor", "B/N")
    assert found["steps"][-1]["claim"] == "B/N >= alpha**2/(F*M_X*M_Y)"
    assert all(step["proved"] for step in found["steps"])
    best = answer("ask", "fsdp_tensor", "X", "--best")
    assert best["steps"][-1]["claim"] == f"X = {best['closed_form']}"


def test_steps_are_shown_when_asked_for(run: Any) -> None:
    _, short, _ = run("ask", "fsdp", "B/X")
    _, long, _ = run("ask", "fsdp", "B/X", "--steps")
    assert "proved" not in short
    assert long.count("[proved") >= 3


def test_the_best_degree(answer: Any) -> None:
    found = answer("ask", "fsdp_tensor", "X", "--best", *ON, *POD)
    assert found["value"] == pytest.approx(sqrt(B * N * 2 / F), rel=1e-12)
    gated = answer("ask", "fsdp_tensor", "X", "--best", "--gated", *ON, *POD)
    assert gated["value"] / found["value"] == pytest.approx(sqrt(2 / 3), rel=1e-12)


def test_a_bound_on_both_sides(answer: Any) -> None:
    found = answer("ask", "fsdp_tensor", "X", *ON, *POD)
    assert found["relation"] == "and"
    sides = {b["relation"]: b["value"] for b in found["bounds"]}
    assert sides["<="] == pytest.approx(2 * B / ALPHA)
    assert sides[">="] == pytest.approx(N * ALPHA / F)


def test_of_bounds_that_face_one_way_the_strictest_counts(answer: Any) -> None:
    for y in (4, 16):
        held = ("--set", "X=2240", "--set", f"Y={y}", "--set", "B=4194304")
        shares = (2240 / B, y / F)  # of the computation, over X and over Y, times alpha
        slow = answer("ask", "fsdp_tensor", "W", *ON, *held)
        fast = answer("ask", "fsdp_tensor", "C", *ON, *held)
        assert len(slow["bounds"]) == len(fast["bounds"]) == 2
        assert (slow["relation"], fast["relation"]) == (">=", "<=")
        assert slow["value"] == pytest.approx(C * max(shares))
        assert fast["value"] == pytest.approx(W / max(shares))


def test_inputs_go_down_to_the_readings(answer: Any) -> None:
    rows = {row["symbol"]: row for row in answer("ask", "fsdp_tensor", "B/N", *ON)["inputs"]}
    assert set(rows) == {"F", "M_X", "M_Y", "alpha", "C", "W"}
    assert {rows[name]["status"] for name in ("M_X", "M_Y")} == {"assumed"}
    assert (rows["C"]["value"], rows["C"]["of"]) == (C, "tpu-v5p")
    assert all(rows[name]["source"] for name in ("F", "C", "W"))


@pytest.mark.parametrize(
    ("form", "overlap", "expected"),
    [
        ("--exact", "concurrent", {4, 5, 7, 8, 10}),
        ("--large-n", "concurrent", {4, 5, 7, 8, 10}),
        ("--exact", "serial", {4, 5, 7, 8}),
        ("--large-n", "serial", {5}),
    ],
)
def test_what_survives_rounding(answer: Any, form: str, overlap: str, expected: set[int]) -> None:
    asked = ("fsdp_tensor", "Y", "--feasible", "divisors", form, "--overlap", overlap)
    found = answer("ask", *asked, *ON, *POD)
    bound = [s["degrees"] for s in found["splits"] if s["compute_bound"]]
    assert {d["Y"] for d in bound} == expected
    assert found["compute_bound"] == len(bound)
    assert all(d["X"] * d["Y"] == N for d in bound)
    best = max(found["splits"], key=lambda s: s["ratio"])
    assert found["best"] == best
    assert found["value"] == best["degrees"]["Y"]


def test_feasible_is_exact_unless_told(answer: Any) -> None:
    asked = ("ask", "fsdp_tensor", "Y", "--feasible", "divisors", *ON, *POD)
    assert answer(*asked) == answer(*asked, "--exact") != answer(*asked, "--large-n")


def test_a_pod_cut_along_its_torus(answer: Any) -> None:
    asked = ("--set", "B=4194304", "--set", "N=8960")
    found = answer("ask", "fsdp_tensor", "Y", "--feasible", "torus", *ON, *asked)
    assert found["splits"]
    for split in found["splits"]:
        assert split["degrees"]["X"] * split["degrees"]["Y"] == N
        assert set(split["torus_axes"]) == {"M_X", "M_Y"}


def test_powers_of_two_leave_chips_idle(answer: Any) -> None:
    found = answer("ask", "fsdp_tensor", "Y", "--feasible", "powers_of_two", *ON, *POD)
    assert all(s["chips"] == 8192 and s["idle"] == 768 for s in found["splits"])


def test_a_sharding_is_a_strategy(answer: Any) -> None:
    text = "In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]"
    written, named = answer("ask", text, "B/X", *ON), answer("ask", "fsdp", "B/X", *ON)
    assert written["closed_form"] == named["closed_form"]
    assert written["value"] == named["value"]


def test_what_is_missing_is_named(answer: Any, run: Any) -> None:
    found = answer("ask", "fsdp_tensor", "B/N", "--chip", "tpu-v5p")
    assert (found["missing"], found["value"]) == (["F"], None)
    _, text, _ = run("ask", "fsdp_tensor", "B/N", "--chip", "tpu-v5p")
    assert "give a value to F (feed-forward width)" in text
    held = ("--set", "X=4", "--set", "Y=5")
    assert answer("ask", "fsdp_tensor", "B", *held, "--chip", "tpu-v5p")["missing"] == ["F"]


def test_the_text_says_what_it_rests_on(run: Any) -> None:
    code, text, err = run("ask", "fsdp_tensor", "B/N", *ON, "--set", "M_X=2")
    assert (code, err) == (0, "")
    for part in (
        "B/N >= alpha**2/(F*M_X*M_Y)",
        "113.4 tokens per chip",
        "M_X = 2 axes (given)",
        "M_Y = 1 axis (assumed)",
        "[SB2]",
        "at the best split, X = sqrt(B*N*M_X/(F*M_Y))",
        "overlap: concurrent",
        "note: llama-3-70b has three matrices per layer; --gated counts them",
    ):
        assert part in text, part
    assert "\u00a0" not in text
    _, gated, _ = run("ask", "fsdp_tensor", "B/N", *ON, "--gated")
    assert "note:" not in gated


def test_a_value_without_a_part_is_told(run: Any) -> None:
    _, text, _ = run("ask", "fsdp", "B/X", "--chip", "tpu-v5p", "--set", "X=64")
    assert "note: X plays no part in this answer" in text
    _, text, _ = run("ask", "fsdp", "B/X", "--chip", "tpu-v5p", "--set", "M_X=2")
    assert "plays no part" not in text


def test_memory_names_the_state_of_a_parameter(answer: Any, run: Any) -> None:
    found = answer("ask", "fsdp", "P")
    assert found["assumptions"]["state"].startswith("10 bytes per parameter")
    assert "state: 10 bytes per parameter" in run("ask", "fsdp", "P")[1]
    assert "state" not in answer("ask", "fsdp", "B/X")["assumptions"]


def test_profiles_and_own_facts(answer: Any, tmp_path: Any) -> None:
    vendor = answer("ask", "fsdp", "B/X", "--chip", "tpu7x", "--profile", "vendor")
    book = answer("ask", "fsdp", "B/X", "--chip", "tpu7x")
    assert book["value"] / vendor["value"] == pytest.approx(200 / 180)
    assert answer("ask", "fsdp", "W", "--chip", "tpu7x")["missing"] == ["B", "X"]
    file = tmp_path / "own.toml"
    file.write_text(
        '[sources.mine]\ntitle = "Ours"\npublisher = "us"\nkind = "own"\ndated = "2026"\n'
        'read = 2026-01-01\n[chips.our-chip]\ntitle = "Our chip"\n[chips.our-chip.facts]\n'
        'bf16 = [{ value = 1e15, unit = "FLOP/second", source = "mine", status = "published", '
        'where = "matmul sweep", basis = "dense peak per chip" }]\n'
    )
    asked = ("ask", "fsdp", "B/X", "--facts", str(file), "--chip", "our-chip")
    assert answer(*asked)["missing"] == ["W"]
    assert answer(*asked, "--set", "W=100 GB/s")["value"] == 10_000


def test_json_is_one_document_in_a_fixed_order(run: Any) -> None:
    _, out, _ = run("ask", "fsdp", "B/X", "--json")
    assert list(json.loads(out))[:6] == [
        "strategy", "question", "relation", "closed_form", "latex", "value"
    ]  # fmt: skip


RING = ("--chip", "h100", "--model", "llama-3-70b")
ALIKE = [
    ("fsdp", "B/X", "--chip", "h100"),
    ("fsdp", "N", "--chip", "h100", "--set", "B=4194304", "--set", "tp=2"),
    ("tensor_parallel", "Y", "--chip", "h100", "--model", "llama-3-70b"),
    ("fsdp_tensor", "X", "--chip", "h100", "--set", "B=4194304", "--set", "N=64", "--set", "F=1e4"),
    ("fsdp_tensor", "X", "--best", *ON, "--set", "B=4194304", "--set", "N=64"),
    ("fsdp_tensor", "X", "--best", "--chip", "h100", "--set", "B=4194304", "--set", "N=64"),
    ("fsdp_tensor", "B/X", *ON, "--set", "Y=16"),
    ("fsdp_tensor", "X", "--feasible", "divisors", *ON, "--set", "B=4194304", "--set", "N=64"),
    ("context_ring", "T_r", *RING, "--set", "tp=4", "--set", "cp=4"),
    ("context_ring", "T_r", *RING, "--set", "tp=4", "--set", "cp=1", "--exact"),
    ("context_ring", "T_r", *RING),
    ("pipeline_bubble", "n_mb", "--set", "pp=2", "--set", "epsilon=0.9"),
]  # fmt: skip


@pytest.mark.parametrize("asked", ALIKE)
def test_text_and_json_say_the_same(run: Any, asked: tuple[str, ...]) -> None:
    (code, text, _), (also, data, _) = run("ask", *asked), run("ask", *asked, "--json")
    assert code == also == 0
    told = json.loads(data.replace("\u00a0", " "))
    lines = [line.strip().removeprefix("note: ") for line in text.splitlines()]
    assert set(told["notes"]) <= set(lines)
    said = [line.strip() for line in text.splitlines() if re.match(" *(note: |with )", line)]
    assert {line.removeprefix("note: ") for line in said} <= set(told["notes"])
    shown = [line for line in text.splitlines() if line.startswith("  provided ")]
    assert len(shown) == len(told.get("conditions", []))
    for line, condition in zip(shown, told.get("conditions", []), strict=True):
        assert condition["relation"] in line and ("holds:" in line) == condition["holds"]
    for bound in told.get("printed", []):
        assert f" {bound}" in text


def test_a_bound_is_printed_on_its_side(run: Any, answer: Any) -> None:
    asked = ("ask", "fsdp", "N", "--chip", "tpu-v5p", "--set", "B=4194304")
    assert "N <= 1,644 chips" in run(*asked)[1]
    data = answer(*asked)
    assert data["printed"] == ["<= 1,644\u00a0chips"] and 1644 < data["value"] < 1645


def test_a_refusal_speaks_of_the_link_of_the_chip(refused: Any) -> None:
    on_v5p, on_h100 = (refused("ask", "fsdp", "D", "--chip", c) for c in ("tpu-v5p", "h100"))
    assert "alpha" in on_v5p
    assert "alpha" not in on_h100 and "W_node" in on_h100


def test_values_that_will_play_no_part_are_noted_before_there_is_a_number(
    run: Any, answer: Any
) -> None:
    told = "L plays no part in this answer"
    for asked in (["fsdp", "B"], ["fsdp_tensor", "X", "--best"]):
        line = ["ask", *asked, "--chip", "tpu-v5p", "--set", "L=80"]
        assert f"  note: {told}\n" in run(*line)[1]
        data = answer(*line)
        assert data["value"] is None and data["notes"] == [told]


def test_the_value_is_of_the_bound_that_says_something(answer: Any) -> None:
    mesh = ["--set", "F=28672", "--set", "Y=8", "--set", "X=4"]
    data = answer("ask", "fsdp_tensor", "B/X", "--chip", "h100", *mesh)
    assert data["value"] == pytest.approx(989.4e12 / 50e9, rel=1e-3)
    assert [bound["value"] is None for bound in data["bounds"]] == [False, True]


def test_the_statement_is_printed_for_a_solver(run: Any, answer: Any) -> None:
    for typed in (("fsdp_tensor", "B/N"), ("fsdp_tensor", "X", "--best"), ("context_ring", "T_r")):
        code, out, err = run("ask", *typed, "--smt")
        assert (code, err) == (0, "")
        assert {*verdicts(out + "\n")} == {"unsat"}
        assert answer("ask", *typed, "--smt")["smt"] == out
    for typed, told in (
        (("B", "--exact"), "no readable closed form"),
        (("X", "--feasible", "divisors"), "leave --feasible out"),
        (("B/N", "--steps"), "leave --steps out"),
    ):
        code, out, err = run("ask", "fsdp_tensor", *typed, "--smt")
        assert (code, out, err.count("\n")) == (2, "", 1) and told in err
