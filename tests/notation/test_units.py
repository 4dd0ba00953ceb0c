"""Units: an algebra of exponents, and a fold that catches a forgotten factor."""

from fractions import Fraction
from itertools import permutations

import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from derive.notation.errors import UnitError, UnknownName
from derive.notation.symbols import B, D, F, L, W, X, Y, e, fma, unit_of_symbol
from derive.notation.units import (
    BASES,
    LABELS,
    Unit,
    byte,
    chip,
    expect_unit,
    flop,
    label,
    one,
    second,
    sequence,
    token,
    unit_of,
)

# Every fraction from -3 to 3 with a denominator up to 4.
powers = st.sampled_from(
    sorted({Fraction(p, q) for q in (1, 2, 3, 4) for p in range(-3 * q, 3 * q + 1)})
)
units = st.builds(
    lambda a, b, c, d, g: flop**a * byte**b * second**c * token**d * chip**g, *[powers] * 5
)


@given(units, units, units)
def test_units_form_a_commutative_group(a: Unit, b: Unit, c: Unit) -> None:
    assert a * b == b * a
    assert (a * b) * c == a * (b * c)
    assert a * one == a
    assert a / a == one
    assert (a / b) * b == a


@given(units, powers, powers)
def test_powers_add_and_multiply(a: Unit, p: Fraction, q: Fraction) -> None:
    assert a**p * a**q == a ** (p + q)
    assert (a**p) ** q == a ** (p * q)


@pytest.mark.parametrize("order", list(permutations([flop, byte, second])))
def test_the_order_of_factors_does_not_show(order: tuple[Unit, ...]) -> None:
    first, second_, third = order
    assert str(first * second_ * third) == "FLOP byte second"


@pytest.mark.parametrize(
    ("unit", "text", "many", "single"),
    [
        (one, "1", "", ""),
        (byte / second, "byte/second", "bytes per second", "byte per second"),
        (flop / byte, "FLOP/byte", "FLOP per byte", "FLOP per byte"),
        (token / chip, "token/chip", "tokens per chip", "token per chip"),
        (one / second, "1/second", "per second", "per second"),
        (label("axis"), "axis", "axes", "axis"),
        (label("micro-batch"), "micro-batch", "micro-batches", "micro-batch"),
        (second**2, "second^2", "seconds^2", "second^2"),
    ],
)
def test_written_forms(unit: Unit, text: str, many: str, single: str) -> None:
    assert str(unit) == text
    assert unit.words() == many
    assert unit.words(singular=True) == single


def test_labels_are_told_apart_but_have_no_dimension() -> None:
    assert token != sequence
    assert token.dimension == sequence.dimension == one
    assert not set(LABELS) & set(BASES)
    with pytest.raises(UnknownName, match="did you mean token"):
        label("tokne")


def fold(expr: sp.Expr) -> Unit:
    return unit_of(expr, unit_of_symbol)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (e * B * D / W, second),
        (sp.sqrt(W), (byte / second) ** Fraction(1, 2)),
        (sp.Max(e * B * D / W, e * D * F / (W * X)), second),
        (4 * D * F / Y + 4 * B * D / X, one),
        (sp.ceiling(L / X), one),
        (sp.floor(B / D) * fma, flop),
        (sp.log(X, 2) * W, byte / second),
        (sp.Integer(7), one),
        (sp.sqrt(2) * e, byte),
        (sp.Min(e, 2 * e), byte),
    ],
)
def test_fold(expr: sp.Expr, expected: Unit) -> None:
    assert fold(expr) == expected


@pytest.mark.parametrize(
    "expr",
    [
        sp.Max(e * B / W, B / W),  # seconds against seconds per byte: a forgotten byte per element
        e + fma,
        e + 1,
        sp.ceiling(e),
        sp.log(W),
        2**e,
        sp.Min(e, W),
    ],
)
def test_fold_refuses_what_does_not_fit(expr: sp.Expr) -> None:
    with pytest.raises(UnitError):
        fold(expr)


def test_a_misfit_is_named() -> None:
    with pytest.raises(UnitError, match=r"fsdp, T_comms: Max of unlike terms: .*second.*"):
        unit_of(sp.Max(e * B / W, B / W), unit_of_symbol, "fsdp, T_comms")
    with pytest.raises(UnitError, match="fsdp, T_comms: expected second, found byte"):
        expect_unit(e * B, second, unit_of_symbol, "fsdp, T_comms")
    expect_unit(e * B / W, second, unit_of_symbol, "fsdp, T_comms")
