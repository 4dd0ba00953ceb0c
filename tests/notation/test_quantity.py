"""Quantities: exact, with a unit, and able to say where they come from."""

from fractions import Fraction

import pytest
import sympy as sp

from derive.notation.errors import DeriveError, UnitError
from derive.notation.quantity import Quantity, check_label, evaluated, number
from derive.notation.symbols import B, C, D, F, W, X, alpha, e
from derive.notation.units import byte, chip, flop, one, second, sequence, token

PEAK = number("4.59e14", flop / second, "C", owner="tpu-v5p", source="SB5", status="published")
LINK = number("1.8e11", byte / second, "W", owner="tpu-v5p", source="SB5", status="published")


def test_arithmetic_is_exact_and_carries_units() -> None:
    intensity = PEAK / LINK
    assert intensity.value == 2550
    assert intensity.unit == flop / byte
    assert intensity.formula == "C / W"
    assert (intensity * LINK).value == PEAK.value
    assert (intensity * LINK).unit == PEAK.unit
    assert (PEAK + PEAK - PEAK).value == PEAK.value
    assert (PEAK / 3 * 3).value == PEAK.value
    assert (number("0.1") + number("0.2")).value == sp.Rational(3, 10)


@pytest.mark.parametrize("sign", ["__add__", "__sub__"])
def test_sums_of_unlike_units_are_refused(sign: str) -> None:
    with pytest.raises(UnitError, match="expected FLOP/second, found byte/second"):
        getattr(PEAK, sign)(LINK)
    with pytest.raises(UnitError):
        getattr(PEAK, sign)(1)


def test_leaves_come_once_and_in_the_order_of_the_formula() -> None:
    tree = (PEAK / LINK) * LINK + PEAK
    assert list(tree.leaves()) == [PEAK, LINK]
    assert all(leaf.source == "SB5" for leaf in tree.leaves())
    assert list(PEAK.leaves()) == [PEAK]


def test_a_deep_tree_is_walked() -> None:
    total = PEAK
    for _ in range(200):
        total = total + PEAK
    assert list(total.leaves()) == [PEAK]
    assert total.value == 201 * PEAK.value


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.8e11", 180_000_000_000), ("2,550", 2550), ("1/3", Fraction(1, 3)), ("-0.5", "-1/2")],
)
def test_text_is_taken_exactly(text: str, value: object) -> None:
    assert number(text).value == sp.Rational(str(value))


@pytest.mark.parametrize("bad", ["", "nan", "inf", "x", "1e999999", "1/0", "__import__('os')"])
def test_what_is_no_number_is_refused(bad: str) -> None:
    with pytest.raises(DeriveError):
        number(bad)


def test_floats_are_refused() -> None:
    with pytest.raises(DeriveError, match="floats are inexact"):
        number(0.1)  # type: ignore[arg-type]


def test_evaluated_binds_every_symbol_and_keeps_its_inputs() -> None:
    got = evaluated(C / W, {C: PEAK, W: LINK}, name="alpha")
    assert (got.value, got.unit, got.name) == (2550, flop / byte, "alpha")
    assert dict(got.inputs) == {"C": PEAK, "W": LINK}
    assert evaluated(e * B / W, {e: number(2, byte), B: number(9, token), W: LINK}).unit == (
        second * token
    )
    assert evaluated(B + D, {B: number(1, token), D: number(2)}).unit == one


def test_a_missing_value_is_named_with_its_gloss() -> None:
    with pytest.raises(DeriveError, match=r"no value for W \(ICI bandwidth"):
        evaluated(C / W, {C: PEAK})


def test_sequences_are_not_tokens() -> None:
    with pytest.raises(UnitError, match=r"B .*: expected token, found sequence"):
        evaluated(B / X, {B: number(1024, sequence), X: number(4)})
    check_label(B, number(1024, token))
    check_label(B, number(1024))
    check_label(F, number(1024))
    with pytest.raises(UnitError, match="expected FLOP/byte, found 1"):
        check_label(alpha, number(2550))
    with pytest.raises(UnitError):
        check_label(X, number(4, chip))


def test_named_keeps_the_dimension() -> None:
    per_chip = number(113).named("threshold", token / chip)
    assert (per_chip.name, per_chip.unit) == ("threshold", token / chip)
    with pytest.raises(UnitError):
        per_chip.named("threshold", byte)


def test_quantities_are_values() -> None:
    assert (
        number(459 * 10**12, flop / second, "C", owner="tpu-v5p", source="SB5", status="published")
        == PEAK
    )
    assert hash(PEAK) == hash(Quantity(**vars(PEAK)))
    with pytest.raises(AttributeError):
        PEAK.value = sp.Integer(1)  # type: ignore[misc]
    assert float(PEAK) == 4.59e14


def test_a_number_may_stand_on_the_left() -> None:
    assert (3 * number("0.1")).value == Fraction(3, 10)
    assert (1 / number(4)).value == Fraction(1, 4)
    assert (2 + number(1)).value == 3 and (2 - number(5)).value == -3
    assert (1 / LINK).unit == second / byte


@pytest.mark.parametrize(
    "act", [lambda q: X * q, lambda q: q * X, lambda q: None + q, lambda q: q / 0]
)
def test_what_is_no_number_beside_a_quantity_is_told(act) -> None:
    with pytest.raises(DeriveError):
        act(number(2))
