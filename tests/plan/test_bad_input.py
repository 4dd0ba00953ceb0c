"""Whatever is put in: one line that says why, or utilisation above 0 and at most 1."""

from __future__ import annotations

from fractions import Fraction

import pytest
from cases import asked
from hypothesis import given, settings
from hypothesis import strategies as draw

from derive.cli import main
from derive.cost.assumptions import SETS, STEP, Assumptions, step_assumptions
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.plan.search import search

BASE = {
    "--model": "llama-3-70b", "--chip": "h100", "--cards": "64", "--seq": "8192", "--batch": "512",
}  # fmt: skip


def typed(text: str) -> list[str]:
    words = text.split()
    options = {**BASE, **{w: words[i + 1] for i, w in enumerate(words) if w in BASE}}
    rest = [w for i, w in enumerate(words) if w not in BASE and (not i or words[i - 1] not in BASE)]
    return ["plan", *(x for pair in options.items() for x in pair), *rest]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "--set tp=9",
            "larger than a node (8 cards a node, 64 heads, 8 key and value heads); 8 does",
        ),
        ("--batch 0", "positive number"),
        ("--batch -4", "positive number"),
        ("--batch 1.5", "whole number"),
        ("--batch nan", "positive number"),
        ("--batch -1e3", "positive number"),
        ("--batch -4M", "positive number"),
        ("--cards -0.5", "positive number"),
        ("--seq 8K", "K is ambiguous"),
        ("--seq 8191", "not divisible"),
        ("--set tp=16", "larger than a node"),
        ("--set tp=3", "heads do not split"),
        ("--set pp=81", "layers do not split"),
        ("--set cp=3", "does not split evenly"),
        ("--set dp=1.5", "whole number"),
        ("--set tp=8 --set cp=2 --set pp=1 --set dp=3", "makes 48, not the 64 given"),
        ("--set L=7.5", "whole number"),
        ("--set L=1e30", "at most 1,000,000, found"),
        ("--set F=1e30", "at most 1,000,000, found"),
        ("--layout tp=1000000000000000", "below 1,000,000,000,000,000"),
        ("--layout micro_batch=1024", "a batch of 1024 does"),
        ("--set P=1e9", "more parameters than"),
        ("--set P=50e9", "contradicts the shapes"),
        ("--set P=70e9 --set L=8", "contradicts the shapes"),
        ("--set eta=1.5", "at most 1"),
        ("--set A_kept=1", "saves more than its input"),
        ("--set B=1", "unknown value to set"),
        ("--top -1", "--top"),
        ("--top 1.5", "--top"),
        ("--assume corrected --why 1 999", "rank from 1 to"),
        ("--why 1 0", "rank from 1 to"),
        ("--assume corrected --why 1 tp=8,cp=8,pp=9", "layers do not split"),
        ("--why 2 2", "found one twice"),
        ("--also " + "," * 100_000, "100000 characters, the limit is"),
        ("--also tp\x1b[31m=8", "expected AXIS=SIZE"),
        ("--why 1 -1", "expected a rank from 1, or degrees"),
        ("--why 1 tp=8,q=9", "unknown degree of --why 'q'"),
        ("--assume ntbook", "did you mean notebook?"),
        ("--assume notebook+ring_tensr", "did you mean ring_tensor"),
        ("--assume notebook+logits-logits", "named twice"),
        ("--style note", "did you mean notebook?"),
    ],
)
def test_one_line_and_exit_2(capsys: pytest.CaptureFixture[str], text: str, told: str) -> None:
    assert main(typed(text)) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and told in err


@pytest.mark.parametrize("text", ["--cards 7", "--set M_hbm=1000000", "--cards 8 --why 1 2"])
def test_nothing_fits_is_exit_1(capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert main(typed(text)) == 1
    out, err = capsys.readouterr()
    assert "nothing fits" in out and err == ""


def test_corrections_may_be_added_and_left_out_together() -> None:
    mixed = step_assumptions("notebook+logits+bubble-two_level")
    assert mixed.corrections == {"logits", "bubble"}
    assert step_assumptions("default-logits-bubble").corrections == set(STEP) - {
        "logits", "bubble",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["D", "F", "H", "K", "G", "L", "V"])
def test_parameters_follow_the_shapes(name: str) -> None:
    task = asked(**{name: asked().values[v.find(name)].value * 2})
    n = task.numbers
    layer = 2 * n[v.D] * n[v.K] * n[v.H] * (n[v.G] + 1) + 3 * n[v.D] * n[v.F]
    counted = n[v.L] * layer + 2 * n[v.V] * n[v.D] + n[v.D] * (2 * n[v.L] + 1)
    assert n[v.P] == counted
    assert asked(**{name: asked().values[v.find(name)].value}).numbers[v.P] == 70553706496


def test_the_edges_of_what_a_plan_can_have() -> None:
    """None where a kept layer saves its input alone, or where the model is its two tables."""
    tables = 2 * 128256 * 8192
    for name, edge, above, told in (
        ("A_kept", 2, Fraction(2001, 1000), "saves more than its input"),
        ("P", tables, tables + 1, "more parameters than"),
    ):
        with pytest.raises(DeriveError, match=told):
            asked(**{name: edge})
        assert asked(**{name: above}).numbers[v.find(name)] == above


POWER = draw.integers(-30, 30).map(lambda k: Fraction(10) ** k)
SHARE = draw.fractions(0, 1, max_denominator=1000).filter(bool)
WIDE = {
    **dict.fromkeys(("C", "M_hbm", "W_node", "W_dcn", "e", "e_g", "e_32"), POWER),
    **dict.fromkeys(("eta", "mu", "x_pp", "x_dp"), SHARE),
    **dict.fromkeys(("D", "F", "H", "L", "V", "n_node", "T_min"), draw.integers(1, 10**12)),
    **dict.fromkeys(("K", "G"), draw.integers(1, 256)),
    "A_kept": draw.integers(3, 10**6),
}


COUNTED = {"attention_width", "exact_parameters"}


@given(
    values=draw.fixed_dictionaries({}, optional=WIDE),
    cards=draw.integers(1, 4096) | draw.integers(0, 15).map(lambda k: 2**k),
    seq=draw.integers(1, 40).map(lambda k: 2**k) | draw.integers(1, 10**9),
    batch=draw.integers(1, 20).map(lambda k: 2**k) | draw.integers(1, 10**9),
    assumptions=draw.sampled_from(list(SETS.values()))
    | draw.frozensets(draw.sampled_from(list(STEP))).map(
        lambda names: Assumptions(corrections=names)
    ),
)
@settings(max_examples=150, deadline=None)
def test_utilisation_from_any_input(values, cards, seq, batch, assumptions) -> None:
    try:
        ranking = search(asked("llama-3-70b", cards, seq, batch, assumptions, **values))
    except DeriveError as error:
        assert "\n" not in str(error)
        return
    assert ranking.fit + sum(ranking.rejected.values()) == ranking.candidates
    for plan in ranking.plans(2) + ranking.too_large[:1]:
        most = values.get("eta", assumptions.constants[v.eta])
        # Products by their shapes are those of the layer; what a model requires may be stated.
        if "matmul_shape" in assumptions and not assumptions.corrections >= COUNTED:
            most = 1
        assert 0 < plan.mfu <= most <= 1
        assert all(part >= 0 for part in (*plan.parts.values(), *plan.memory.values()))
        if not plan.lacks_bytes:
            assert plan.memory_bytes <= ranking.task.budget


def test_experts_of_a_dense_model_play_no_part():
    plain, given_ = (asked(**values) for values in ({}, {"E": 8}))
    assert given_.counts == plain.counts and given_.idle == (v.E,)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [("n_k", 9, "E = 8"), ("L_E", 33, "L = 32"), ("x_cap", 5, "E/n_k = 4")],
)
def test_no_more_experts_layers_or_rows_than_there_are(name: str, value: int, told: str) -> None:
    with pytest.raises(DeriveError, match=f"^{name}: expected at most {told}, found '{value}'$"):
        asked("mixtral-8x7b", assumptions=SETS["default"], **{name: value})
