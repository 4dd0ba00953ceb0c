"""The closed forms on real chips and models, with the pass that binds."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest
import sympy as sp

from derive.cost.strategies import STRATEGIES
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.notation.errors import FactError
from derive.notation.symbols import W_hbm, alpha
from derive.solve.threshold import threshold

V5P, V5E, TPU8T = chip("tpu-v5p"), chip("tpu-v5e"), chip("tpu8t")
IRONWOOD = chip("tpu7x", override={"ici_axis": "D-gce"})  # the vendor's 200 GB/s an axis
LLAMA = model("llama-3-70b")
TOKENS = 4_194_304
SERIAL, EXACT = {"overlap": "serial"}, {"form": "exact"}

NUMBERS = (
    # strategy, question, chip, assumptions, values, exact number
    ("fsdp", "B/X", V5P, {}, {}, 2550),
    ("data_parallel", "B/X", V5P, {}, {"M_X": 3}, 850),
    ("fsdp", "B/X", IRONWOOD, {}, {}, 11535),
    ("fsdp", "B/X", IRONWOOD, {}, {"M_X": 3}, 3845),
    ("tensor_parallel", "Y", V5P, {}, {}, Fraction(28672, 2550)),
    ("tensor_parallel", "Y", V5P, EXACT, {}, Fraction(28672, 2550) + 1),
    ("tensor_parallel", "Y", IRONWOOD, {}, {}, Fraction(28672, 11535)),
    ("tensor_parallel", "Y", IRONWOOD, EXACT, {}, Fraction(28672, 11535) + 1),
    ("tensor_parallel", "Y", TPU8T, {}, {}, Fraction(28672 * 4000, 9961000)),
    ("tensor_parallel", "Y", V5P, {"precision": "int8"}, {}, Fraction(28672, 2550)),
    ("tensor_parallel", "Y", V5P, {"precision": "fp8"}, {}, Fraction(2 * 28672, 2550)),
    ("tensor_parallel", "Y", IRONWOOD, {"precision": "fp8"}, {}, Fraction(28672, 11535)),
    ("fsdp_tensor", "B/N", V5P, {}, {"M_X": 2}, Fraction(2550**2, 2 * 28672)),
    ("fsdp_tensor", "B/N", V5P, SERIAL, {"M_X": 2}, Fraction(4 * 2550**2, 2 * 28672)),
    ("fsdp_tensor", "B/N", V5P, {}, {"M_X": 2, "F": 32768}, Fraction(2550**2, 2 * 32768)),
    ("fsdp_tensor", "B/N", IRONWOOD, {}, {"M_X": 2}, Fraction(11535**2, 2 * 28672)),
    ("fsdp_tensor", "N", IRONWOOD, {}, {"M_X": 2, "B": TOKENS}, Fraction(TOKENS * 57344, 11535**2)),
    ("fsdp_tensor", "N", IRONWOOD, {}, {"M_X": 2, "B": 2**24}, Fraction(2**24 * 57344, 11535**2)),
    ("cross_pod", "B/S", V5P, {}, {}, 73440),
    ("cross_pod", "B/S", V5P, EXACT, {"S": 2}, 36720),
    ("cross_pod", "B/S", V5P, EXACT, {"S": 4}, 55080),
    ("cross_pod", "B/S", IRONWOOD, {}, {}, 184560),
    ("weight_reads", "B", V5E, {}, {}, Fraction(197_000, 820)),
    ("data_parallel", "P", V5P, {}, {}, 9_600_000_000),
)
READ = {
    "B/X": v.B / v.X, "B/N": v.B / v.N, "B/S": v.B / v.S, "Y": v.Y, "N": v.N, "B": v.B, "P": v.P,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "asked", "on", "assumed", "values", "expected"),
    NUMBERS,
    ids=[f"{row[0]}-{row[1]}-{row[2].name}-{row[5]}" for row in NUMBERS],
)
def test_number(
    name: str,
    asked: str,
    on: object,
    assumed: Mapping[str, object],
    values: Mapping[str, object],
    expected: int | Fraction,
) -> None:
    found = threshold(STRATEGIES[name], READ[asked], **assumed)
    answer = found.on(on, LLAMA, **values)  # type: ignore[arg-type]
    assert answer.value == sp.Rational(Fraction(expected).numerator, Fraction(expected).denominator)


@pytest.mark.parametrize(
    ("printed", "row"),
    [
        ("113.4", ("fsdp_tensor", "B/N", V5P, {})),
        ("453.6", ("fsdp_tensor", "B/N", V5P, SERIAL)),
        ("2,321", ("fsdp_tensor", "B/N", IRONWOOD, {})),
        ("11.24", ("tensor_parallel", "Y", V5P, {})),
        ("2.485", ("tensor_parallel", "Y", IRONWOOD, {})),
        ("3.485", ("tensor_parallel", "Y", IRONWOOD, EXACT)),
        ("241", ("weight_reads", "B", V5E, {})),
    ],
    ids=str,
)
def test_as_printed(printed: str, row: tuple[str, str, object, Mapping[str, object]]) -> None:
    name, asked, on, assumed = row
    answer = threshold(STRATEGIES[name], READ[asked], **assumed).on(on, LLAMA, M_X=2, M_Y=1)  # type: ignore[arg-type]
    assert printed in str(answer).splitlines()[0].split()


def test_the_two_alphas_rest_on_different_bases() -> None:
    """2,550 and 11,535 are not on one basis: on that of the document's v5p it would be 12,817."""
    one_basis = chip("tpu7x")
    found = threshold(STRATEGIES["fsdp"], v.B / v.X)
    assert found.on(V5P).value == 2550
    assert found.on(IRONWOOD).value == 11535
    assert round(float(found.on(one_basis).value)) == 12817
    assert found.closed_form == alpha / v.M_X


def test_the_precision_changes_the_tensor_limit_only_where_the_rate_does_not_follow() -> None:
    """The limit is 2 M_Y F W/(e C_e): over that of bf16 it is (2/e) C_bf16/C_e."""
    for on, precision, ratio in (
        (V5P, "int8", 1), (V5P, "fp8", 2), (IRONWOOD, "fp8", 1),
        (TPU8T, "int8", 2), (TPU8T, "fp8", Fraction(9961, 29884_5) * 10),
    ):  # fmt: skip
        limits = [
            threshold(STRATEGIES["tensor_parallel"], v.Y, precision=p).on(on, LLAMA).value
            for p in (precision, "bf16")
        ]
        assert limits[0] / limits[1] == sp.Rational(Fraction(ratio)), (on.name, precision)
    with pytest.raises(FactError, match="no figure for 'int8'"):
        threshold(STRATEGIES["tensor_parallel"], v.Y, precision="int8").on(IRONWOOD, LLAMA)


def test_the_binding_quantity_knows_its_unit() -> None:
    for name, asked, unit in (
        ("fsdp", v.B / v.X, "token/chip"),
        ("fsdp_tensor", v.B / v.N, "token/chip"),
        ("tensor_parallel", v.Y, "way"),
        ("cross_pod", v.B / v.S, "token/slice"),
    ):
        assert str(threshold(STRATEGIES[name], asked).on(V5P, LLAMA).quantity.unit) == unit
    answer = threshold(STRATEGIES["weight_reads"], W_hbm).on(V5P, B=240)
    assert answer.quantity.unit.dimension == v.unit_of_symbol(W_hbm).dimension
