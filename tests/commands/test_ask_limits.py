"""`derive ask` of the step model's limits: forms, numbers, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from derive import LIMITS, chip, model, threshold
from derive.commands.value import answer as typed
from derive.notation import symbols as v

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
    assert (
        "W_cp = 50 GB/s (max(W_dcn, W_node*(floor(-n_node/(tp*cp)) + floor(n_node/(tp*cp)) + 1)))"
        in out
    )


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
    whole = 70553706496
    layers = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672)  # matrices, no norms
    seconds = 4 * whole / 8 * 7 / 8 / 50e9
    assert found["value"] == pytest.approx(seconds * 989.4e12 * 0.6 * 8 / (4 * layers), rel=1e-9)


@pytest.mark.parametrize("text", ["notebook", "corrected", "corrected-two_level"])
@pytest.mark.parametrize("form", ["--exact", "--large-n"])
@pytest.mark.parametrize("name", LIMITS)
def test_the_command_tells_what_the_threshold_is(
    answer: Any, name: str, text: str, form: str
) -> None:
    of = LIMITS[name]
    found = threshold(of, of.asked, text, exact=form == "--exact")
    told = answer("ask", name, of.asked.name, "--assume", text, form)
    assert told["relation"] == found.direction
    assert told["latex"] == found.latex
    assert told["assumptions"] == found.described
    assert told["steps"][-1]["proved"] == "for all positive values"
    assert told["claim"] == of.claim


def test_the_command_gives_the_number_of_the_threshold(answer: Any) -> None:
    found = threshold(LIMITS["context_ring"], v.T_r)
    number = found.on(chip("h100"), model("llama-3-70b"), tp=8, cp=2).value
    assert answer("ask", *RING)["exact"] == str(number)


def test_a_number_that_lacks_a_value_names_it(run: Any) -> None:
    alone = ("--model", "llama-3-70b", "--set", "T=8192", "--set", "epsilon=0.1")
    _, out, _ = run("ask", "tensor_share", "tp", *alone)
    assert "W_tp (one-way bandwidth of a tensor group)" in out
    _, out, _ = run("ask", "context_ring", "T_r", *ON)
    assert "give a value to tp (degree of tensor parallelism" in out


@pytest.mark.parametrize(("share", "beyond"), [("0.1", False), ("0.5", True)])
def test_the_tensor_group_is_linked_as_in_a_node(run: Any, share: str, beyond: bool) -> None:
    more = (*ON, "--assume", "notebook", "--set", "T=8192", "--set", f"epsilon={share}")
    _, out, _ = run("ask", "tensor_share", "tp", *more)
    assert "W_tp: the link inside a node" in out
    assert ("holds up to tp = 8" in out) is beyond


@pytest.mark.parametrize("form", ["--exact", "--large-n"])
@pytest.mark.parametrize("name", ["context_ring", "gradient_sync"])
def test_where_nothing_moves_it_says_so(run: Any, answer: Any, name: str, form: str) -> None:
    degrees = [x for axis in ("tp=8", "cp=1", "dp=1", "pp=1") for x in ("--set", axis)]
    _, out, _ = run("ask", name, "T_r", *ON, *degrees, form)
    assert "with these values nothing moves, so any T_r will do" in out
    assert "with --" not in out
    assert answer("ask", name, "T_r", *ON, *degrees, form)["value"] == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("contxt_ring", "T_r"), "did you mean context_ring"),
        (("pipeline_buble", "T_r"), "pipeline_bubble"),
        (("context_ring", "V"), "unknown symbol of context_ring 'V'"),
        (("context_ring", "B/X"), "one symbol"),
        (("context_ring", "T_r", "--best"), "--best plays no part"),
        (("context_ring", "T_r", "--feasible", "divisors"), "--feasible plays no part"),
        (("context_ring", "T_r", "--overlap", "serial"), "--overlap plays no part"),
        (("context_ring", "T_r", "--assume", "notbook"), "did you mean notebook?"),
        (("batch_feed", "pp", "--exact", "--assume", "notebook"), "pp has no readable closed form"),
        (("pipeline_bubble", "n_mb", "--set", "epsilon=2"), "between 0 and 1"),
        (("pipeline_bubble", "n_mb", "--set", "pp=1.5"), "whole number"),
        (("fsdp", "B/X", "--assume", "notebook"), "--assume is for limits"),
    ],
)
def test_refused(refused: Any, arguments: tuple[str, ...], told: str) -> None:
    assert told in refused("ask", *arguments)


@pytest.mark.parametrize(("precision", "size"), [("int8", 1), ("bf16", 2), ("fp32", 4)])
def test_a_cache_is_as_wide_as_it_is_said_to_be(precision: str, size: int) -> None:
    """Though a step holds the tensors of products in 8 bits in 16."""
    cache = typed(f"value M_KV --model llama-3-8b --set T=1 --set b_seq=1 --precision {precision}")
    assert cache.value == 2 * 32 * 8 * 128 * size
