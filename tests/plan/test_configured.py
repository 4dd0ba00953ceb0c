"""Published runs as the step model takes them: what of a run each symbol says."""

from __future__ import annotations

import pytest

from derive.cost.assumptions import DEFAULT
from derive.facts import chip, model
from derive.facts.runs import runs
from derive.notation import symbols as v
from derive.plan.axes import degrees
from derive.plan.layout import layout
from derive.plan.plan import plan_of
from derive.plan.replay import Configured, configured
from derive.plan.task import task

EVERY = [one for run in runs() if isinstance(one := configured(run), Configured)]


def test_a_node_has_no_more_chips_than_a_run() -> None:
    switched = [one for one in EVERY if one.fabric == "switch"]
    assert any(one.run.cards and one.run.cards < 8 for one in switched)
    for one in switched:
        assert one.values[v.n_node] <= (one.run.cards or 1)


def test_rows_go_to_each_expert_by_itself_in_layers_that_have_some() -> None:
    experts = [one for one in EVERY if one.run.experts]
    assert any(one.run.dense_layers for one in experts)
    for one in experts:
        assert one.values[v.n_M] == one.values[v.n_k] == one.run.topk
        assert one.values[v.L_E] == (one.run.layers or 0) - (one.run.dense_layers or 0)


def test_attention_is_in_16_bits() -> None:
    narrow = [one for one in EVERY if one.values[v.C] != one.values[v.C_A]]
    assert narrow and {one.run.precision for one in narrow} <= {"fp8", "int8"}
    for one in EVERY:
        assert one.values[v.C_A] == float(chip(one.run.chip).bindings("bf16")[v.C].value)


def test_layers_that_are_run_again() -> None:
    """All of them, or half the work of a stage's."""
    shares = {"full": 1.0, "partial:selective": 0.5}
    for one in EVERY:
        layers, share = one.values[v.L], shares.get(one.run.recompute or "", 0.0)
        stages = 1 if share == 1 else one.values[v.pp]
        assert one.values[v.L_g] == layers * share / stages


def test_switches_of_a_layout() -> None:
    for word, way in (("on", True), ("off", False)):
        assert layout(f"sequence_parallel={word}").choices == {"sequence_parallel": way}


@pytest.mark.parametrize("zero", [2, 3])
def test_states_are_split_over_a_context_group_alone(zero: int) -> None:
    asked = task(
        model("llama-3-8b"), chip("h100"), cards=8, seq=8192, batch=4, assumptions=DEFAULT,
        layout=f"tp=2,cp=4,pp=1,dp=1,zero={zero}",
    )  # fmt: skip
    plan = plan_of(asked, degrees(tp=2, cp=4, zero=zero))
    assert plan.memory["gradients"] == plan.numbers[v.psi]  # four bytes, over four chips
    assert asked.space.size
