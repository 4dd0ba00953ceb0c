"""Stages whose layers are listed: what such a plan has in common with one of even stages, and what
a layer more or less on a stage does."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from derive.cost.assumptions import CORRECTED, assume
from derive.cost.step import step_model
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.plan.axes import Space, degrees
from derive.plan.layout import layout
from derive.plan.plan import Plan, plan_of
from derive.plan.search import search
from derive.plan.task import Task, task


def asked(laid_out: str, name: str = "llama-3-70b", cards: int = 64, **options: Any) -> Task:
    given = {"seq": 2**13, "batch": 4 * cards, "layout": laid_out, **options}
    return task(model(name), chip("h100"), cards=cards, **given)


def listed(layers: str, choices: str = "recompute=none", **options: Any) -> Plan:
    laid_out = f"layers={layers},{choices}"
    return plan_of(asked(laid_out, **options), degrees(tp=8, pp=len(layout(laid_out).stages)))


@pytest.mark.parametrize(
    ("text", "stages"),
    [
        ("19-20-20-21", (19, 20, 20, 21)),
        ("7-14x8-7", (7, *[8] * 14, 7)),
        ("4x20", (20,) * 4),
        ("80", (80,)),
        ("1x3-2x10-1", (3, 10, 10, 1)),
    ],
)
def test_a_list_is_read_with_what_is_repeated(text: str, stages: tuple[int, ...]) -> None:
    read = layout(f"tp=8,layers={text},zero=1")
    assert read.stages == stages
    assert read.degrees == {v.tp: 8, v.zero: 1, v.pp: len(stages)}


@pytest.mark.parametrize("choices", ["recompute=least", "recompute=5", "schedule=zero-bubble"])
@pytest.mark.parametrize(
    ("name", "pp", "layers"),
    [
        ("llama-3-70b", 1, "80"),
        ("llama-3-70b", 2, "2x40"),
        ("llama-3-70b", 3, "2x27-26"),
        ("llama-3-70b", 4, "4x20"),
        ("llama-3-70b", 7, "11-3x12-3x11"),
        ("llama-3-405b", 16, "7-14x8-7"),
        ("mixtral-8x7b", 3, "2x11-10"),
    ],
)
def test_a_list_of_even_stages_is_the_plan_without_it(
    name: str, pp: int, layers: str, choices: str
) -> None:
    options: dict[str, Any] = {"name": name, "cards": 8 * 16 * pp}
    even = plan_of(asked(choices, **options), degrees(tp=8, pp=pp, zero=2))
    plan = plan_of(asked(f"layers={layers},{choices}", **options), degrees(tp=8, pp=pp, zero=2))
    assert plan.layers == even.layers and plan.each_stage == even.each_stage
    assert (plan.parts, plan.stages, plan.mfu) == (even.parts, even.stages, even.mfu)
    assert {s: x for s, x in plan.numbers.items() if s != v.L_i} == dict(even.numbers)


def test_a_search_finds_the_same_of_a_list_of_even_stages() -> None:
    options: dict[str, Any] = {"name": "llama-3-405b", "cards": 2**14, "batch": 2**11}
    even = search(asked("pp=16,virtual=1", **options))
    ranking = search(asked("layers=7-14x8-7", **options))
    assert ranking.fit == even.fit > 10 and (ranking.degrees == even.degrees).all()
    assert ranking.seconds == pytest.approx(even.seconds, rel=1e-12)
    assert ranking.plan(1).step_seconds == even.plan(1).step_seconds


def test_a_layer_that_moves_is_a_layer_s_time() -> None:
    """By hand: the slowest stage is the last, with the head, or the one with most layers."""
    even = listed("4x20").numbers
    head, each = even[v.t_V], (even[v.t_slow] - even[v.t_V]) / 20
    assert each < head < 2 * each
    cases = {"20-20-21-19": 21 * each, "19-20-20-21": 21 * each + head,
             "20-21-20-19": 21 * each, "21-20-20-19": 21 * each,
             "18-20-20-22": 22 * each + head, "21-21-20-18": 21 * each,
             "20-21-19-20": 20 * each + head}  # fmt: skip
    for layers, seconds in cases.items():
        assert listed(layers).numbers[v.t_slow] == seconds
    more, fewer = (listed(layers).parts["tp"] for layers in ("19-20-20-21", "20-21-20-19"))
    assert more == fewer == listed("4x20").parts["tp"] * Fraction(21, 20)


@pytest.mark.parametrize(
    "layers", ["19-20-20-21", "10-30-25-15", "22-2x20-18", "17-20-23-20", "50-30", "30-50"]
)
def test_memory_is_that_of_the_stages_or_above(layers: str) -> None:
    """Exact where the second stage is the fullest of the inner ones; each stage by its layers."""
    for choices in ("recompute=none", "recompute=full", "recompute=12", "zero=3"):
        plan = listed(layers, choices, cards=256)
        stages = plan.each_stage
        assert plan.layers == layout(f"layers={layers}").stages
        assert [one.layers for one in stages] == [*plan.layers]
        assert plan.tp * sum(one.parameters for one in stages) == plan.numbers[v.P]
        most = max(one.memory_bytes for one in stages)
        inner = plan.layers[1:-1]
        assert most <= plan.memory_bytes and (
            most == plan.memory_bytes or max(inner, default=0) > inner[0]
        )


def test_layers_that_run_again_are_at_most_those_of_a_stage() -> None:
    full = listed("10-30-25-15", "recompute=full", cards=256)
    none = listed("10-30-25-15", cards=256)
    each = (none.numbers[v.a_1] - none.numbers[v.a_0]) * 10
    saved = none.stages["first"]["activations"] - full.stages["first"]["activations"]
    assert full.recomputed_layers == 30 and saved == each * none.numbers[v.n_fly]


def test_what_is_listed_holds_the_stages() -> None:
    plan = search(asked("layers=19-20-20-21"), top=1).plan(1)
    assert (plan.pp, plan.virtual) == (4, 1)
    assert plan.row["layers_per_stage"] == [19, 20, 20, 21]
    assert [plan[name].value for name in ("L_f", "L_p", "L_i", "L_l")] == [19, 21, 20, 21]
    ranking = search(asked("layers=19-20-20-21"), Space(tp=(8,), pp=(2, 4, 8), virtual=(1, 5)))
    assert {*ranking.rejected} == {"layers", "uninterleaved"} and {*ranking[v.pp]} == {4}
    with pytest.raises(DeriveError, match=r"pp = 8: the layers .* given for 4 stages"):
        plan_of(asked("layers=19-20-20-21"), degrees(tp=8, pp=8))


def test_given_stages_are_of_a_model_of_uneven_ones() -> None:
    with pytest.raises(DeriveError, match="given stages takes uneven_stages"):
        step_model(assume(CORRECTED, stages="given"))


def test_where_nothing_fits_the_list_stays() -> None:
    large = asked("layers=20-100-6,recompute=3", name="llama-3-405b", cards=96)
    ranking = search(large)
    assert ranking.fit == 0 and ranking.instead is not None
    told, plan = ranking.instead
    assert plan.layers == (20, 100, 6) and told != "without pp=3"
