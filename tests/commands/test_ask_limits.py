"""`derive ask` of the step model's limits: forms, numbers, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from derive import limit, step_assumptions
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, UnknownName
from derive.plan.limit_steps import limit_steps
from derive.plan.limits import LIMITS

ON = ("--chip", "h100", "--model", "llama-3-70b")
RING = ("context_ring", "T_r", *ON, "--set", "tp=8", "--set", "cp=2")
# By hand: FLOP of a layer per token, and 1 + epsilon B f/(16 h P e).
LAYER = 6 * (70.6e9 - 2 * 128256 * 8192) / 80 + 6 * 8192 * 8192
DEGREE = 1 + 0.1 * 450e9 * LAYER / (16 * 8192 * 989e12 * 0.6)
KEYS = (
    "strategy", "question", "relation", "closed_form", "latex", "value", "unit", "assumptions",
    "steps",
)  # fmt: skip


@pytest.mark.parametrize(
    ("more", "value"),
    [
        (("--assume", "notebook", "--exact"), 11868),
        (("--assume", "notebook"), 23736),
        (("--assume", "notebook", "--large-n"), 23736),
        (("--assume", "notebook+ring_tensor", "--exact"), 1483.5),
        (("--assume", "notebook+ring_tensor"), 2967),
    ],
)
def test_the_ring_over_the_network(answer: Any, more: tuple[str, ...], value: float) -> None:
    found = answer("ask", *RING, *more)
    assert all(key in found for key in KEYS)
    assert (found["relation"], found["value"], found["unit"]) == (">=", value, "token")
    assert [step["kind"] for step in found["steps"]] == ["load", "threshold"]
    assert found["assumptions"]["form"].split(":")[0] in ("exact", "large-n")


def test_the_answer_says_which_form_it_is_and_what_the_other_gives(run: Any) -> None:
    code, out, err = run("ask", *RING, "--assume", "notebook", "--exact")
    assert (code, err) == (0, "")
    assert "T_r >= 11,868 tokens" in out and "with --large-n: >= 23,736 tokens" in out
    assert "form: exact: (n-1)/n of a group of n is kept" in out
    assert "W_cp = 50 GB/s (max(W_dcn, W_node*min(1, floor(n_node/(tp*cp)))))" in out


def test_a_ratio_of_the_sequence_is_the_tokens_of_a_rank(answer: Any) -> None:
    assert answer("ask", "context_ring", "T/cp", *RING[2:]) == answer("ask", *RING)


@pytest.mark.parametrize(
    ("asked", "relation", "value"),
    [
        (("pipeline_bubble", "n_mb", "--set", "pp=4", "--set", "epsilon=5%"), ">=", 57),
        (("pipeline_bubble", "epsilon", "--set", "pp=4", "--set", "n_mb=8"), ">=", 3 / 11),
        (("pipeline_bubble", "n_mb", "--set", "pp=1", "--set", "epsilon=0.1"), ">=", 0),
        (
            ("batch_feed", "N", "--set", "tp=4", "--set", "cp=2", "--set", "pp=2", "--set",
             "b_seq=1", "--set", "epsilon=0.1", "--set", "B_seq=576"), "<=", 1024,
        ),
        (
            ("tensor_share", "tp", *ON, "--assume", "notebook", "--set", "T=8192", "--set",
             "epsilon=0.1", "--set", "W_tp=450 GB/s"), "<=", DEGREE,
        ),
        (
            ("gradient_sync", "T_r", *ON, "--assume", "notebook", "--exact", "--set", "tp=8",
             "--set", "cp=2", "--set", "dp=4"), ">=", 5934 * 7 / 8,
        ),
        (
            ("context_ring", "W_cp", *ON, "--assume", "notebook", "--exact", "--set", "tp=8",
             "--set", "cp=2", "--set", "T_r=11868"), ">=", 50e9,
        ),
    ],
)  # fmt: skip
def test_numbers(answer: Any, asked: tuple[str, ...], relation: str, value: float) -> None:
    found = answer("ask", *asked)
    assert found["relation"] == relation
    assert found["value"] == pytest.approx(value, rel=1e-6)


def test_the_gradients_under_the_default_assumptions(answer: Any) -> None:
    # By hand: 8.8 GiB-parameters a chip in fp32, a group of 8 with one chip in each node.
    more = [x for name in ("tp=8", "cp=1", "dp=8", "pp=1") for x in ("--set", name)]
    found = answer("ask", "gradient_sync", "T_r", *ON, *more, "--exact")
    whole, layers = 70553706496, 70553706496 - 2 * 128256 * 8192
    seconds = 4 * whole / 8 * 7 / 8 / 50e9
    assert found["value"] == pytest.approx(seconds * 989.4e12 * 0.6 * 8 / (4 * layers), rel=1e-9)


@pytest.mark.parametrize("name", list(LIMITS))
@pytest.mark.parametrize("text", ["notebook", "default", "default-two_level"])
@pytest.mark.parametrize("large", [False, True])
def test_every_limit_is_proved_on_both_sides(name: str, text: str, large: bool) -> None:
    found = limit(name, None, step_assumptions(text), large=large)
    assert limit_steps(found)[-1].proved == "on both sides"


def test_a_number_that_lacks_a_value_names_it(run: Any) -> None:
    _, out, _ = run("ask", "tensor_share", "tp", *ON, "--set", "T=8192", "--set", "epsilon=0.1")
    assert "give a value to W_tp (one-way bandwidth of a tensor group)" in out
    _, out, _ = run("ask", "context_ring", "T_r", *ON)
    assert "give a value to tp (degree of tensor parallelism" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("contxt_ring", "T_r"), "did you mean context_ring?"),
        (("nosuch", "T_r"), "pipeline_bubble"),
        (("context_ring", "V"), "unknown symbol of context_ring 'V'"),
        (("context_ring", "B/X"), "one symbol"),
        (("context_ring", "T_r", "--best"), "--best plays no part"),
        (("context_ring", "T_r", "--feasible", "divisors"), "--feasible plays no part"),
        (("context_ring", "T_r", "--overlap", "serial"), "--overlap plays no part"),
        (("context_ring", "T_r", "--assume", "notbook"), "did you mean notebook?"),
        (("context_ring", "cp", "--exact", "--assume", "notebook"), "no single bound on cp"),
        (("pipeline_bubble", "n_mb", "--set", "epsilon=2"), "between 0 and 1"),
        (("pipeline_bubble", "n_mb", "--set", "pp=1.5"), "whole number"),
        (("fsdp", "B/X", "--assume", "notebook"), "--assume is for limits"),
    ],
)
def test_refused(refused: Any, arguments: tuple[str, ...], told: str) -> None:
    assert told in refused("ask", *arguments)


def test_in_python() -> None:
    assert str(limit("pipeline_bubble")) == "n_mb >= (1 - epsilon)*(pp - 1)/epsilon"
    assert limit("context_ring", v.W_cp).direction == ">="
    with pytest.raises(UnknownName, match="did you mean tensor_share"):
        limit("tensor_shar")
    with pytest.raises(UnknownName, match="symbol of context_ring"):
        limit("context_ring", v.V)
    with pytest.raises(DeriveError, match="no single bound"):
        from derive.commands.limits import _limit

        _limit("context_ring", v.cp, step_assumptions("notebook"), "exact")
