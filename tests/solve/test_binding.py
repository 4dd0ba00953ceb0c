"""From a closed form to a number: what is refused, what is assumed, and what an answer shows."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

from derive.cost.strategies import data_parallel, fsdp, fsdp_tensor, tensor_parallel
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.notation import units
from derive.notation.errors import DeriveError, UnitError, UnknownName
from derive.notation.quantity import Quantity, number
from derive.solve.feasible import feasible
from derive.solve.threshold import threshold
from derive.solve.values import filled, value_of, values_for

V5P, LLAMA = chip("tpu-v5p"), model("llama-3-70b")
MIXED = threshold(fsdp_tensor, v.B / v.N)
CASE = {"F": 28672, "M_X": 2, "M_Y": 1}
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "value",
    [
        0, -1, 0.0, -2.5, Fraction(0), float("nan"), float("inf"), -float("inf"), True, False, None,
        10**40, 10**400, 1e300, -(10**50), "0", "-3", "nan", "inf", "", "F", "1+", "9**9**9**9",
        "__import__('os')", "1e999", "x" * 10_000, [1], (2,), {}, b"1", object(), 1j, sp.nan, sp.oo,
        sp.zoo, sp.Symbol("F"), sp.Float("nan"), sp.pi, number("0"), number("-2"), 10**5000,
        sp.Integer(10) ** 400, -(sp.Integer(10) ** 5000), Fraction(1, 10**5000),
        Quantity(v.B), Quantity(sp.nan), Quantity(sp.oo), Fraction(10**4000 + 1, 10**4000),
        np.float64("nan"), np.bool_(True), np.longdouble("1e4000"), Decimal("1e999999999"),
        Decimal("NaN"), np.complex128(2), np.datetime64("2026"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_values_that_are_refused(value: object) -> None:
    with pytest.raises(DeriveError) as error:
        MIXED.on(V5P, **{**CASE, "F": value})
    assert len(str(error.value)) < 400
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (28672, 28672), ("28672", 28672), (Fraction(1, 3), sp.Rational(1, 3)),
        (0.1, sp.Rational(1, 10)), (4.59, sp.Rational(459, 100)), ("4.59e14", 459 * 10**12),
        (sp.Rational(7, 2), sp.Rational(7, 2)), (1e-12, sp.Rational(1, 10**12)),
        (number("2.5"), sp.Rational(5, 2)), (10**39, 10**39), (np.float32(0.1), sp.Rational(1, 10)),
        (Decimal("0.30"), sp.Rational(3, 10)), (np.int64(2550), 2550), (np.array(7), 7),
        (sp.Float("2.5"), sp.Rational(5, 2)), (np.float64(1e39), 10**39),
    ],
    ids=str,
)  # fmt: skip
def test_values_are_taken_exactly(value: object, exact: object) -> None:
    assert value_of(v.F, value).value == exact


def test_unknown_names() -> None:
    for name in ("Q", "f", "F ", "__class__", "M_x"):
        with pytest.raises(UnknownName, match="unknown symbol"):
            MIXED.on(V5P, **{**CASE, name: 3})
    with pytest.raises(UnknownName, match=r"did you mean .*F"):
        MIXED.on(V5P, f=3)
    with pytest.raises(DeriveError, match="expected a chip or a model"):
        MIXED.on("tpu-v5p", **CASE)  # type: ignore[arg-type]


def test_sequences_are_no_tokens() -> None:
    with pytest.raises(UnitError, match=r"B .*expected token, found sequence"):
        threshold(fsdp, v.N).on(V5P, B=number("1024", units.sequence, "B"))
    with pytest.raises(UnitError, match="expected token"):
        threshold(fsdp, v.N).on(V5P, B="1024 sequences")
    for tokens in (4_194_304, "4194304 tokens", number("4194304", units.token)):
        found = threshold(fsdp, v.N).on(V5P, B=tokens)
        assert found.value == sp.Rational(4_194_304, 2550)


def test_a_unit_that_does_not_match() -> None:
    with pytest.raises(UnitError, match="W"):
        MIXED.on(**CASE, C="459 TFLOP/s", W="180 GB")
    with pytest.raises(UnitError, match="C"):
        MIXED.on(**CASE, C=number("4", units.byte), W=number("2", units.byte / units.second))
    found = MIXED.on(**CASE, C="459 TFLOP/s", W="180 GB/s")
    assert found.value == sp.Rational(1625625, 14336)


def test_what_has_no_value_is_named() -> None:
    with pytest.raises(DeriveError, match=r"no value for F \(feed-forward width\)"):
        MIXED.on(V5P)
    with pytest.raises(DeriveError, match=r"no value for C .*W"):
        MIXED.on(**CASE)


def test_torus_axes_are_assumed_one_and_shown() -> None:
    answer = MIXED.on(V5P, F=28672)
    assert answer.value == sp.Rational(2550**2, 28672)
    text = " ".join(str(answer).split())
    assert "M_X = 1 axis (assumed)" in text and "M_Y = 1 axis (assumed)" in text
    given = " ".join(str(MIXED.on(V5P, **CASE)).split())
    assert "M_X = 2 axes (given)" in given and "assumed" not in given.split("assumptions:")[0]
    assert dict(answer.quantity.inputs)["M_X"].status == "assumed"
    assert "M_Z" not in dict(answer.quantity.inputs)


def test_alpha_goes_down_to_its_sources() -> None:
    alpha = dict(MIXED.on(V5P, **CASE).quantity.inputs)["alpha"]
    assert (alpha.value, alpha.formula, alpha.status) == (2550, "C/W", "derived")
    (rate, bandwidth) = alpha.leaves()
    assert (rate.name, rate.value, rate.owner) == ("C", 459 * 10**12, "tpu-v5p")
    assert (bandwidth.name, bandwidth.value) == ("W", 18 * 10**10)
    for leaf in (rate, bandwidth):
        assert leaf.source and leaf.status == "published"
    text = str(MIXED.on(V5P, **CASE))
    assert f"[{rate.source}]" in text
    assert {leaf.name for leaf in MIXED.on(V5P, **CASE).quantity.leaves()} == {
        "F", "M_X", "M_Y", "C", "W",
    }  # fmt: skip


def test_alpha_may_be_given_itself() -> None:
    answer = threshold(fsdp, v.B / v.X).on(alpha=2550)
    assert answer.value == 2550
    assert [leaf.name for leaf in answer.quantity.leaves()] == ["M_X", "alpha"]
    assert threshold(fsdp, v.B / v.X).on(V5P, alpha=100).value == 100


def test_the_callers_value_comes_before_those_of_chip_and_model() -> None:
    assert MIXED.on(V5P, LLAMA, M_X=2).value == MIXED.on(V5P, **CASE).value
    found = MIXED.on(V5P, LLAMA, M_X=2, F=8192)
    assert found.value == sp.Rational(2550**2, 2 * 8192)
    assert threshold(fsdp, v.B / v.X).on(V5P, C=360 * 10**12).value == 2000
    both = values_for(MIXED.requirement, [V5P, LLAMA], {"W": 10**9})
    assert both[v.W].status == "given" and both[v.C].owner == "tpu-v5p"


def test_a_bound_without_symbols_left() -> None:
    assert filled((), MIXED.requirement, None, {}).checked() == {}
    known = values_for(MIXED.requirement, [], {})
    assert known[v.M_X].value == 1 and known[v.M_X].status == "assumed"
    assert filled({v.M_X, v.alpha}, MIXED.requirement, None, known).missing == (v.C, v.W)


def test_bounds_that_face_both_ways() -> None:
    answer = threshold(fsdp_tensor, v.Y).on(V5P, LLAMA, B=4_194_304, N=8960, M_X=2)
    assert (answer.low.value, answer.high.value) == (
        sp.Rational(8960 * 2550, 2 * 4_194_304), sp.Rational(28672, 2550),
    )  # fmt: skip
    with pytest.raises(DeriveError, match="both sides"):
        _ = answer.value
    with pytest.raises(DeriveError, match="no bound <="):
        _ = MIXED.on(V5P, **CASE).high


def test_what_an_answer_is_provided_on() -> None:
    asked = threshold(fsdp_tensor, v.B / v.X)
    holds, fails = (" ".join(str(asked.on(V5P, LLAMA, Y=y)).split()) for y in (4, 16))
    assert "provided Y*alpha/(F*M_Y) <= 1, which holds: 0.356" in holds
    assert "provided Y*alpha/(F*M_Y) <= 1, which does NOT hold: 1.42" in fails
    assert "no B/X is enough: Y*alpha/(F*M_Y) alone is above 1" in fails
    assert not asked.on(V5P, LLAMA, Y=16).sides


def test_every_assumption_is_shown() -> None:
    for changes in ({}, {"overlap": "serial", "passes": "step", "gated": True}):
        found = threshold(fsdp_tensor, v.B / v.N, **changes)
        text = str(found.on(V5P, **CASE))
        for name, phrase in found.assumptions.stated().items():
            assert f"    {name}: {phrase}" in text
    assert "serial" in str(threshold(fsdp_tensor, v.B / v.N, overlap="serial").on(V5P, **CASE))


def test_assumptions_that_do_not_exist() -> None:
    for changes in ({"overlap": "both"}, {"pass": "step"}, {"gated": 1.5}, {"precision": "bf17"}):
        with pytest.raises(DeriveError):
            threshold(tensor_parallel, v.Y, **changes)
    with pytest.raises(DeriveError, match="did you mean serial"):
        threshold(tensor_parallel, v.Y, overlap="seral")


def test_precision_picks_the_rate_of_the_chip() -> None:
    int8 = threshold(tensor_parallel, v.Y, precision="int8").on(V5P, LLAMA)
    rate = next(q for q in int8.quantity.leaves() if q.name == "C")
    assert rate.value == 918 * 10**12


def test_an_answer_is_a_quantity_with_a_tree() -> None:
    quantity = threshold(data_parallel, v.P).on(V5P).quantity
    assert isinstance(quantity, Quantity)
    assert (quantity.value, quantity.formula) == (96 * 10**8, "M_hbm/10")
    assert [leaf.name for leaf in quantity.leaves()] == ["M_hbm"]


def test_what_is_close_to_one_is_told_on_its_side() -> None:
    asked = threshold(fsdp_tensor, v.B / v.X)
    for width, said in ((9996, "does NOT hold: 1.0004"), (10004, "holds: 0.9996")):
        assert said in str(asked.on(alpha=2500, Y=4, F=width))
    just_below = feasible(fsdp, 2, C=2550, W=1, B=2549)
    assert not just_below.compute_bound
    assert " 0.999  communication-bound" in str(just_below)
    assert "| 0.999 |" in just_below._repr_markdown_()
