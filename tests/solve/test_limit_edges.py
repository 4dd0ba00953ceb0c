"""Limits at their edges: large groups, proofs that must fail, values, and what the answer says."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as Q
from typing import Any

import pytest
import sympy as sp

from derive import chip, fsdp, fsdp_tensor, hsdp, model
from derive.cost.assumptions import (
    CORRECTED,
    CORRECTIONS,
    DEFAULT,
    NOTEBOOK,
    TERMS,
    Assumptions,
    assume,
)
from derive.cost.limits import (
    LIMITS,
    batch_feed,
    context_ring,
    gradient_sync,
    pipeline_bubble,
    tensor_share,
)
from derive.cost.load import Load
from derive.cost.step import step_model
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, ProofError
from derive.notation.quantity import number
from derive.solve.answer import Answer, Side, holds
from derive.solve.proof import Separation
from derive.solve.question import question
from derive.solve.threshold import threshold
from derive.solve.values import facts_of

H100, LLAMA = chip("h100", profile="notebook"), model("llama-3-70b")
MANY = 10**9
SETS = ["notebook", "corrected", "notebook+two_level", "notebook+largest_stage"]


@pytest.mark.parametrize("assumptions", SETS)
@pytest.mark.parametrize("of", [context_ring, gradient_sync], ids=lambda of: of.name)
def test_the_large_form_is_that_of_ever_larger_groups(of: Any, assumptions: str) -> None:
    exact, large = (threshold(of, v.T_r, assumptions, exact=form) for form in (True, False))
    held = {"tp": 8, "pp": 1, "W_cp": 50 * 10**9, "W_dp": 50 * 10**9}
    if of is context_ring:
        near = [exact.on(H100, LLAMA, **held, cp=n).value for n in (2, MANY)]
        limit = large.on(H100, LLAMA, **held, cp=MANY).value
    else:
        near = [exact.on(H100, LLAMA, **held, cp=1, dp=n).value for n in (16, MANY)]
        limit = large.on(H100, LLAMA, **held, cp=1, dp=MANY).value
    assert 0 < 1 - near[1] / limit < Q(2, MANY) < 1 - near[0] / limit


@pytest.mark.parametrize("of", LIMITS.values(), ids=lambda of: of.name)
@pytest.mark.parametrize("assumptions", [NOTEBOOK, CORRECTED])
def test_what_is_not_listed_changes_neither_load_nor_number(
    of: Any, assumptions: Assumptions
) -> None:
    degrees = {"tp": 8, "cp": 2, "pp": 4, "dp": 8, "B_seq": 512, "T": 8192, "epsilon": "0.1"}

    def answer(under: Assumptions) -> tuple[sp.Expr, sp.Expr]:
        found = threshold(of, of.asked, under, exact=True)
        return found.load, found.on(H100, LLAMA, **degrees).value

    listed = of.rests_on(assumptions)
    assert set(listed) <= assumptions.corrections
    for name in sorted(assumptions.corrections - set(listed)):
        assert answer(assumptions) == answer(assume(corrections=assumptions.corrections - {name}))


def test_what_is_listed_is_not_everything() -> None:
    for of in LIMITS.values():
        assert len(of.rests_on(CORRECTED)) < len(CORRECTIONS) // 2
        assert of.left_out and threshold(of, of.asked).described["left out"] == of.left_out


# Proofs that must fail.
@pytest.mark.parametrize("change", [Q(99, 100), Q(101, 100), Q(1, 2), 2])
@pytest.mark.parametrize("of", LIMITS.values(), ids=lambda of: of.name)
def test_a_bound_that_is_off_by_a_percent_is_refused(of: Any, change: Any) -> None:
    found = threshold(of, of.asked, "notebook")
    claim = found.relations[0]
    off = claim.func(claim.lhs, claim.rhs * sp.Rational(change), evaluate=False)
    with pytest.raises(ProofError, match="does not hold"):
        Separation(found.state.loads, found.question).proved((off,), of.name)


def test_a_bound_that_is_never_positive_holds_nowhere() -> None:
    load = v.tp / v.pp
    claim = sp.Le(v.tp, -v.pp, evaluate=False)
    with pytest.raises(ProofError, match="no point tried lies inside"):
        Separation((Load((load,)),), question(v.tp)).proved((claim,), "made up")


# Values.
@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"epsilon": 1}, "epsilon (.*): expected a share between 0 and 1, found 1"),
        ({"eta": 5}, "eta (.*): expected at most 1, found 5"),
        ({"K": Q(3, 2)}, "K (.*): expected a whole number, found 3/2"),
        ({"n_node": Q(15, 2)}, "n_node (.*): expected a whole number, found 15/2"),
        ({"tp": Q(3, 2)}, "tp (.*): expected a whole number, found 3/2"),
        ({"cp": Q(3, 2)}, "cp (.*): expected a whole number, found 3/2"),
    ],
)
def test_values_that_a_plan_refuses_are_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(DeriveError, match=told):
        threshold(tensor_share, v.tp).on(H100, LLAMA, **{"T": 8192, "epsilon": "0.1", **values})


def test_one_table_where_embedding_and_head_are_tied() -> None:
    tied = replace(LLAMA, tied_embeddings=True)
    assert facts_of(tied, None, CORRECTED)[v.n_V].value == 1
    assert facts_of(LLAMA, None, CORRECTED)[v.n_V].value == 2


# What is said.
def test_at_exactly_a_node_nothing_is_said_of_beyond() -> None:
    found = threshold(tensor_share, v.tp, "notebook")
    per_way = found.on(H100, LLAMA, T=8192, epsilon="0.1").value - 1
    share = sp.Rational(7, 10) / per_way
    at = found.on(H100, LLAMA, T=8192, epsilon=Q(int(share.p), int(share.q)))
    assert at.value == 8 and at.notes == ()
    beyond = found.on(H100, LLAMA, T=8192, epsilon=Q(int(share.p), int(share.q)) * Q(1001, 1000))
    assert beyond.value > 8 and beyond.notes


def test_the_form_is_named_where_it_plays_a_part() -> None:
    exact, large = (threshold(context_ring, v.T_r, exact=form) for form in (True, False))
    assert exact.described["form"].startswith("exact: ")
    assert large.described["form"].startswith("large-n: ")
    same = threshold(pipeline_bubble, v.n_mb).described["form"]
    assert same == "exact and large-n are the same here"


def test_no_stages_will_do_where_the_bound_is_not_positive() -> None:
    found = threshold(pipeline_bubble, v.pp)
    assert tex.text(found.closed_form) == "(n_mb*epsilon + 1 - epsilon)/(1 - epsilon)"
    asked = threshold(tensor_share, v.epsilon, "notebook")
    none = asked.on(H100, LLAMA, T=8192, tp=1)
    assert none.value == 0 and none.notes == (
        "with these values nothing moves, so any epsilon will do",
    )


def test_the_strictest_of_bounds_that_face_one_way() -> None:
    at = threshold(fsdp_tensor, v.B / v.N).on(chip("tpu-v5p"), F=28672, M_X=2, M_Y=1).quantity
    sides = [Side(replace(at * n, bound=">=")) for n in (1, 3, 2)]
    asked = v.B / v.N
    assert Answer(asked, tuple(sides), CORRECTED, {}).quantity.value == 3 * at.value
    below = [Side(replace(side.quantity, bound="<=")) for side in sides]
    assert Answer(asked, tuple(below), CORRECTED, {}).quantity.value == at.value
    both = Answer(asked, (*sides, *below), CORRECTED, {})
    assert (both.low.value, both.high.value) == (3 * at.value, at.value)
    with pytest.raises(DeriveError, match="bounded on both sides"):
        _ = both.quantity


@pytest.mark.parametrize("name", CORRECTIONS)
def test_the_profile_does_not_depend_on_how_many_corrections_are_on(name: str) -> None:
    for base in (NOTEBOOK, CORRECTED):
        made = assume(corrections=base.corrections ^ {name})
        wanted = None if "exact_parameters" in made.corrections else "notebook"
        assert made.profile == wanted


def test_the_step_model_takes_the_name_of_its_assumptions() -> None:
    assert step_model("corrected") is step_model(CORRECTED)
    with pytest.raises(DeriveError, match="rubbish"):
        step_model("rubbish")
    with pytest.raises(DeriveError, match=r"write notebook\+ring_tensor"):
        step_model("ring_tensor")


@pytest.mark.parametrize(("share", "stages"), [("0.1", 4), ("0.07", 8), ("0.9", 2), ("0.031", 16)])
def test_a_bound_on_what_is_whole_holds_as_it_is_printed(share: str, stages: int) -> None:
    least = threshold(pipeline_bubble, v.n_mb).on(pp=stages, epsilon=share)
    if least.value > 1:
        shown = int(least.sides[0].text.split()[0].replace(",", ""))
        assert shown == -(-least.value.p // least.value.q)
    else:
        assert least.notes == ("with these values one micro-batch is enough",)
    most = threshold(batch_feed, v.N).on(tp=4, cp=2, pp=stages, B_seq=512, epsilon=share)
    shown = int(most.sides[0].text.split()[0].replace(",", ""))
    assert shown == most.value.p // most.value.q


def test_what_takes_from_a_load_bounds_from_below() -> None:
    """Replicas shrink the group that gathers: exactly, alpha (N - Z)/B must not exceed 1."""
    asked = threshold(hsdp, v.Z, form="exact")
    few, many = (asked.on(chip("tpu-v5p"), B=b, N=64) for b in (127_500, 4_194_304))
    low = next(side for side in few.sides if side.direction == ">=")
    assert low.quantity.value == 64 - 50
    assert [side.direction for side in many.sides] == ["<="]  # not any Z at all
    assert not any("will do" in note for note in many.notes)


def test_a_bound_that_says_nothing_is_left_out_beside_one_that_does() -> None:
    """With Y = n_node the term of the other links vanishes; what is left is the egress of a node,
    Y*C/(W_dcn*n_node) tokens per chip."""
    one = chip("h100")
    values = one.bindings()
    answer = threshold(fsdp_tensor, v.B / v.X).on(one, F=28672, Y=8, X=4)
    assert answer.value == values[v.C].value / values[v.W_dcn].value
    assert [side.direction for side in answer.sides] == [">="]
    assert not any("will do" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("asked", "given", "told"),
    [
        (v.N, {"B": 100}, "no N will do: a mesh has at least 1"),
        (v.N, {"B": 2550}, None),
        (v.M_X, {"B": 100, "X": 64}, "no M_X will do: tpu-v5p has 3"),
        (v.M_X, {"B": 64 * 850, "X": 64}, None),
    ],
)
def test_a_degree_that_no_mesh_can_have_is_noted(asked: Any, given: Any, told: str | None) -> None:
    notes = threshold(fsdp, asked).on(chip("tpu-v5p"), **given).notes
    assert notes == (() if told is None else (told,))


@pytest.mark.parametrize(("batch", "any_will_do"), [(64 * 2550, True), (64 * 2550 - 1, False)])
def test_a_degree_that_every_mesh_has_is_noted(batch: int, any_will_do: bool) -> None:
    notes = threshold(fsdp_tensor, v.Y).on(chip("tpu-v5p"), B=batch, N=64, F=10**6).notes
    assert ("any Y will do: a mesh has at least 1" in notes) is any_will_do


def test_less_than_one_micro_batch_is_one() -> None:
    asked = threshold(pipeline_bubble, v.n_mb)
    few, many = (asked.on(pp=2, epsilon=share) for share in (Q(3, 5), Q(1, 2)))
    assert "with these values one micro-batch is enough" in few.notes
    assert many.value == 1 and many.notes == ()


def test_a_best_split_of_exactly_one_way_is_a_split() -> None:
    """At the bound X is N alpha/F."""
    asked = threshold(fsdp_tensor, v.B)
    one, less = (asked.on(chip("tpu-v5p"), N=4, F=F).notes for F in (4 * 2550, 4 * 2550 + 1))
    assert one == () and "no mesh has less than 1" in less[0]


def test_a_share_of_one_holds_where_equality_is_enough() -> None:
    for relation, met in ((sp.Le(v.X, 1), True), (sp.Lt(v.X, 1), False)):
        assert holds(relation, number(1)) is met


@pytest.mark.parametrize("of", LIMITS.values(), ids=LIMITS)
def test_a_limit_rests_on_the_closed_part_of_a_step_and_says_so(of):
    """Whatever terms are on, alone or all: the same loads, and the name of what is left."""
    alone = [Assumptions(corrections=CORRECTED.corrections | {term}) for term in TERMS]
    closed = of.requirement(CORRECTED)
    for assumptions in (DEFAULT, *alone):
        need = of.requirement(assumptions)
        assert (need.loads, need.definitions) == (closed.loads, closed.definitions)
        assert need.described == closed.described and need.described["name"] == "corrected"
        assert of.rests_on(assumptions) == of.rests_on(CORRECTED)
        assert not need.described.keys() & TERMS.keys()
    mixed = of.requirement(assume("notebook+ring_tensor+elementwise", form="exact"))
    assert mixed.described["name"] == "notebook+ring_tensor"
    assert mixed.described["form"].startswith("exact")
