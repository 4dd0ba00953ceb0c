"""Thresholds of the step model's limits: by hand, and put back into the whole step model."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction as Q
from typing import Any

import pytest
import sympy as sp

from derive import chip, model
from derive.cost.assumptions import NOTEBOOK, assume, step_assumptions
from derive.cost.limits import (
    LIMITS,
    Limit,
    batch_feed,
    context_ring,
    gradient_sync,
    pipeline_bubble,
    tensor_share,
)
from derive.cost.strategies import fsdp
from derive.notation import symbols as v
from derive.notation import units
from derive.notation.errors import DeriveError, NotClosedForm, ProofError, UnknownName
from derive.notation.tex import tex
from derive.notation.units import expect_unit
from derive.solve.derivation import prove, steps
from derive.solve.threshold import Threshold, threshold

H100, LLAMA = chip("h100", profile="notebook"), model("llama-3-70b")
SETS = (
    "notebook",
    "corrected",
    "notebook+ring_tensor",
    "notebook+gradient_bytes",
    "corrected-two_level",
)
ALL_BUT_ONE = sp.Rational(999, 1000)


@pytest.mark.parametrize("text", ["notebook", "corrected", "corrected-two_level"])
def test_the_tokens_that_hide_the_gradients_are_those_of_one_sequence(text: str) -> None:
    """On a chip, whatever its micro-batches are: not as many fewer as there are sequences."""
    found = threshold(gradient_sync, v.T_r, text, exact=True)
    degrees = {"tp": 8, "cp": 2, "pp": 4, "dp": 4}
    one, four = (found.on(H100, LLAMA, b_seq=count, **degrees).value for count in (1, 4))
    assert one == four > 0


# The numbers, by hand.
@pytest.mark.parametrize(
    ("assumptions", "exact", "degrees", "expected"),
    [
        ("notebook", True, {"tp": 8, "cp": 2}, Q(11868)),
        ("notebook", False, {"tp": 8, "cp": 2}, Q(23736)),
        ("notebook", True, {"tp": 8, "cp": 4}, Q(17802)),
        ("notebook", True, {"tp": 4, "cp": 2}, Q(1978, 3)),  # inside a node
        ("notebook+ring_tensor", True, {"tp": 8, "cp": 2}, Q(2967, 2)),
        ("notebook+ring_tensor", False, {"tp": 8, "cp": 2}, Q(2967)),
        ("notebook+ring_tensor", False, {"tp": 1, "cp": 16}, Q(2967)),
    ],
)
def test_the_least_tokens_that_hide_the_ring(
    assumptions: str, exact: bool, degrees: Mapping[str, int], expected: Q
) -> None:
    found = threshold(context_ring, v.T_r, assumptions, exact=exact)
    answer = found.on(H100, LLAMA, **degrees)
    assert (found.direction, found.symbol, found.question.unit) == (">=", v.T_r, units.token)
    assert answer.value == sp.Rational(expected.numerator, expected.denominator)
    assert answer.quantity == answer.low and answer.quantity.unit == units.token


def test_whatever_the_profile_of_the_chip() -> None:
    found = threshold(context_ring, v.T / v.cp, step_assumptions("notebook"), exact=True)
    assert found.on(chip("h100"), LLAMA, tp=8, cp=2).value == 11868
    assert found == threshold(context_ring, v.T_r, "notebook", exact=True)


@pytest.mark.parametrize("pp", [2, 4, 16])
@pytest.mark.parametrize("share", [Q(1, 20), Q(1, 100), Q(1, 3)])
def test_the_least_micro_batches_for_a_share_of_bubble(pp: int, share: Q) -> None:
    least = threshold(pipeline_bubble, v.n_mb).on(pp=pp, epsilon=share).value
    assert least == (pp - 1) * (1 - share) / share
    for count, within in ((sp.ceiling(least), True), (sp.ceiling(least) - 1, False)):
        if count > 0:
            assert (sp.Integer(pp - 1) / (count + pp - 1) <= share) == within


@pytest.mark.parametrize(("gradient", "tokens"), [(2, 5934), (4, 11868)])
def test_the_least_tokens_that_hide_the_gradients(gradient: int, tokens: int) -> None:
    degrees = {"tp": 8, "cp": 2, "dp": 4, "e_g": gradient}
    large, exact = (threshold(gradient_sync, v.T_r, "notebook", exact=x) for x in (False, True))
    assert large.on(H100, LLAMA, **degrees).value == tokens
    assert exact.on(H100, LLAMA, **degrees).value == sp.Rational(tokens * 7, 8)


def test_the_cards_that_a_batch_can_feed() -> None:
    found = threshold(batch_feed, v.N)
    # 512 sequences, 8 micro-batches a pipeline for a ninth of bubble: 64 pipelines of 16 cards.
    answer = found.on(tp=4, cp=2, pp=2, b_seq=1, B_seq=512, epsilon=Q(1, 9))
    assert (found.direction, answer.value) == ("<=", 1024)
    # It is the bubble's own bound, with the batch shared out over the pipelines; and each pipeline
    # needs a micro-batch, however large a bubble may be.
    fewest = threshold(pipeline_bubble, v.n_mb)
    batch = threshold(batch_feed, v.B_seq)
    degrees = {"tp": 4, "cp": 2, "b_seq": 3}
    for pp, share in ((8, "0.05"), (2, "0.3"), (2, "0.9"), (1, "0.1")):
        needed = sp.Max(1, fewest.on(pp=pp, epsilon=share).value)
        asked = batch.on(**degrees, pp=pp, epsilon=share, N=pp * 8 * 7).value
        assert asked == 7 * 3 * needed
        cards = found.on(**degrees, pp=pp, epsilon=share, B_seq=21).value
        assert cards == 7 * 8 * pp / needed


def test_the_ratio_that_the_tensor_degree_rests_on() -> None:
    load = tensor_share.load(assume(NOTEBOOK, form="exact"))
    law = 8 * (v.tp - 1) * v.D * v.e * v.C * v.eta / (v.W_tp * v.f_L)
    assert sp.cancel(load * v.epsilon / law) == 1
    bound = threshold(tensor_share, v.tp, "notebook").closed_form
    assert sp.cancel(bound - 1 - v.epsilon * (v.tp - 1) / law) == 0


# Every limit, every form.
@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("text", SETS)
@pytest.mark.parametrize("exact", [False, True])
def test_the_derivation_is_proved(name: str, text: str, exact: bool) -> None:
    of = LIMITS[name]
    load = of.load(assume(text, form="exact" if exact else "large-n"))
    expect_unit(load, units.one, v.unit_of_symbol, name)
    found = threshold(of, of.asked, text, exact=exact)
    assert found.load == load and not found.closed_form.atoms(sp.Float)
    made = steps(of, of.asked, text, exact=exact)
    assert [step.kind for step in made] == ["load", "threshold"]
    assert [prove(step) for step in made] == ["by the step model", "for all positive values"]
    assert made[-1].claims == found.relations
    assert sp.simplify(load.xreplace({of.asked: found.closed_form})) == 1


def test_a_claim_that_is_wrong_is_refused() -> None:
    load, bound_ = steps(context_ring, v.T_r, "notebook")
    for wrong in (2 * bound_.claim.rhs, bound_.claim.rhs / 2):
        with pytest.raises(ProofError, match="context_ring, threshold"):
            prove(bound_.with_claim(sp.Ge(v.T_r, wrong)))
    with pytest.raises(ProofError, match="expected a bound on T_r"):
        prove(bound_.with_claim(sp.Ge(v.T, bound_.claim.rhs)))
    with pytest.raises(ProofError, match="does not hold"):
        prove(bound_.with_claim(sp.Le(v.T_r, bound_.claim.rhs)))
    with pytest.raises(ProofError, match="context_ring, load"):
        prove(load.with_claim(sp.Le(2 * load.claim.lhs, 1)))
    with pytest.raises(ProofError, match="at most 1"):
        prove(load.with_claim(sp.Le(load.claim.lhs, 2)))
    with pytest.raises(DeriveError, match="expected a step"):
        prove(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "direction"), [(v.W_cp, ">="), (v.C, "<="), (v.K, "<="), (v.eta, "<="), (v.tp, "<=")]
)
def test_on_any_symbol_of_the_load(asked: sp.Symbol, direction: str) -> None:
    found = threshold(context_ring, asked, "notebook", exact=True)
    assert found.direction == direction
    at = {v.W_cp: 50 * 10**9, v.C: 989 * 10**12, v.K: 8, v.eta: sp.Rational(3, 5), v.tp: 8}
    degrees = {"tp": 8, "cp": 2, "T_r": 11868, "W_cp": 50 * 10**9}
    known = {name: x for name, x in degrees.items() if name != asked.name}
    assert found.on(H100, LLAMA, **known).value == at[asked]


def test_it_shows_as_text_and_as_mathematics() -> None:
    for of in LIMITS.values():
        found = threshold(of, of.asked)
        assert str(found) == repr(found) and "\n" not in str(found)
        assert found.latex == tex(found.relations[0])
        assert found.latex in found._repr_latex_()
        assert of.name in repr(of) and of.gloss in repr(of)
    answer = threshold(pipeline_bubble, v.n_mb).on(pp=4, epsilon="0.05")
    assert str(answer).startswith("n_mb >= 57") and "name: corrected" in str(answer)
    assert answer._repr_latex_() is not None


def test_an_answer_has_its_inputs_and_assumptions() -> None:
    answer = threshold(context_ring, v.T_r, "notebook").on(H100, LLAMA, tp=8, cp=2)
    inputs = dict(answer.quantity.inputs)
    assert inputs["C"].owner == "h100-sxm" and inputs["K"].owner == "llama-3-70b"
    assert dict(inputs["W_cp"].inputs)["W_dcn"].value == inputs["W_cp"].value
    assert answer.described["name"] == "notebook"
    assert answer.described["form"].startswith("large-n")
    assert answer.assumptions == NOTEBOOK and answer.notes == ()


# Where nothing is to be limited.
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("text", SETS)
@pytest.mark.parametrize("of", [context_ring, gradient_sync])
def test_where_nothing_moves_any_value_will_do(of: Limit, text: str, exact: bool) -> None:
    found = threshold(of, v.T_r, text, exact=exact)
    answer = found.on(H100, LLAMA, tp=8, cp=1, dp=1, pp=1)
    assert answer.value == 0 and answer.threshold.exact
    why, *idle = answer.notes
    assert why == "with these values nothing moves, so any T_r will do" and why in str(answer)
    assert all(note.split(" ", 1)[1] == "plays no part in this answer" for note in idle)
    assert "pp plays no part in this answer" in idle or of != context_ring


def test_without_a_bound_there_is_no_number() -> None:
    ring = threshold(context_ring, v.C, "notebook").on(LLAMA, tp=8, cp=1, T_r=8192, W_cp=10**9)
    why = "nothing moves, so any C"
    assert ring.sides == () and why in str(ring) and ring._repr_latex_() is None
    with pytest.raises(DeriveError, match=why):
        _ = ring.quantity


def test_a_pipeline_of_one_stage_takes_any_micro_batches() -> None:
    answer = threshold(pipeline_bubble, v.n_mb).on(pp=1, epsilon="0.1")
    assert answer.value == 0 and answer.notes == ("with these values any n_mb will do",)


# The link of a tensor group.
def shared(**values: Any) -> Any:
    return threshold(tensor_share, v.tp, "notebook").on(H100, LLAMA, T=8192, **values)


def test_the_tensor_group_takes_the_link_of_a_node_and_says_so() -> None:
    taken, given = shared(epsilon="0.1"), shared(epsilon="0.1", W_tp=450 * 10**9)
    assert taken.value == given.value and taken.notes == ()
    assert "inside a node" in taken.described["W_tp"] and "W_tp" not in given.described
    link = dict(taken.quantity.inputs)["W_tp"]
    assert link.value == 450 * 10**9 and {"W_node", "W_dcn"} <= {name for name, _ in link.inputs}
    assert "tensor communication is at most epsilon of the layer's" in tensor_share.claim


def test_beyond_a_node_the_link_changes() -> None:
    assert "holds up to tp = 8" in shared(epsilon="0.5").notes[0]
    assert shared(epsilon="0.5").value > 8
    assert shared(epsilon="0.5", W_tp=450 * 10**9).notes == ()
    assert shared(epsilon="0.5", n_node=72).notes == ()
    # A network faster than the switches is the link of every group, as in the step model.
    faster = shared(epsilon="0.5", W_dcn=900 * 10**9)
    assert faster.notes == () and faster.value - 1 == 2 * (shared(epsilon="0.5").value - 1)


def test_a_value_of_what_is_asked_for_changes_nothing() -> None:
    assert shared(epsilon="0.5", tp=4).value == shared(epsilon="0.5").value
    idle = "tp plays no part in this answer"
    assert shared(epsilon="0.5", tp=4).notes == (idle, *shared(epsilon="0.5").notes)
    asked = threshold(context_ring, v.tp, "notebook")
    assert asked.missing(H100, LLAMA, T_r=4096, cp=2, tp=8) == (v.W_cp,)


def test_without_a_chip_the_link_has_no_value() -> None:
    found = threshold(tensor_share, v.tp)
    assert v.W_tp in found.missing(LLAMA, T=8192, epsilon="0.1")
    with pytest.raises(DeriveError, match=r"no value for C .*W_tp"):
        found.on(LLAMA, T=8192, epsilon="0.1")


# What is refused.
def refused(*asked: Any, **more: Any) -> str:
    with pytest.raises(DeriveError) as caught:
        threshold(*asked, **more)
    told = str(caught.value)
    assert "\n" not in told and len(told) < 400
    return told


@pytest.mark.parametrize("of", LIMITS)
def test_a_limit_is_no_text(of: str) -> None:
    assert refused(of, v.T_r).endswith(f"write {of}")
    with pytest.raises(DeriveError, match=f"write {of}"):
        steps(of, v.T_r)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("asked", "more", "told"),
    [
        (("contxt_ring", v.T_r), {}, "did you mean context_ring"),
        (("fdsp", v.T_r), {}, "did you mean fsdp"),
        ((5, v.T_r), {}, "expected a strategy such as fsdp"),
        ((context_ring, "T_r"), {}, "no quotes"),
        ((context_ring, v.B / v.X), {}, "context_ring: a limit is asked for one symbol"),
        ((context_ring, v.V), {}, "unknown symbol of context_ring 'V'"),
        (
            (batch_feed, v.pp, "notebook"),
            {"exact": True},
            "batch_feed: pp has no readable closed form",
        ),
        ((tensor_share, v.D), {}, "tensor_share: D has no readable closed form: the condition is"),
        ((context_ring, v.T_r, "notbook"), {}, "did you mean notebook?"),
        (
            (context_ring, v.T_r, assume(overlap="serial")),
            {},
            "overlap plays no part in context_ring",
        ),
        ((context_ring, v.T_r, 3), {}, "expected layer or step assumptions such as"),
        ((context_ring, v.T_r), {"exact": "yes"}, "True or False"),
        ((context_ring, v.T_r), {"overlap": "serial"}, "overlap plays no part in context_ring"),
        ((context_ring, v.T_r), {"fixed": [v.X]}, "fixed plays no part in context_ring"),
        ((fsdp, v.B / v.X, NOTEBOOK), {}, "the set notebook plays no part in fsdp"),
    ],
)
def test_refused(asked: tuple[Any, ...], more: dict[str, Any], told: str) -> None:
    assert told in refused(*asked, **more)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"pp": Q(3, 2), "epsilon": "0.1"}, r"pp \(.*\): expected a whole number"),
        ({"pp": 4, "epsilon": 2}, r"epsilon \(.*\): expected a share between 0 and 1"),
        ({"pp": 4}, "no value for epsilon"),
        ({"pp": 4, "epsilon": "0.1", "ppp": 1}, "unknown"),
    ],
)
def test_values_that_none_can_be(values: dict[str, Any], told: str) -> None:
    with pytest.raises(DeriveError, match=told):
        threshold(pipeline_bubble, v.n_mb).on(**values)


def test_what_gives_values_is_a_chip_or_a_model() -> None:
    with pytest.raises(DeriveError, match="expected a chip or a model, found 'h100'"):
        threshold(context_ring, v.T_r).on("h100")  # type: ignore[arg-type]


def test_the_kinds_of_error() -> None:
    with pytest.raises(UnknownName):
        threshold(context_ring, v.V)
    with pytest.raises(NotClosedForm):
        threshold(batch_feed, v.pp, "notebook", exact=True)
    assert isinstance(threshold(context_ring, v.T_r), Threshold)
