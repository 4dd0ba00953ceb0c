"""Quantities: exact, with a unit, and able to say where they come from."""

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

from derive import facts
from derive.cost.assumptions import assume
from derive.notation.errors import DeriveError, UnitError
from derive.notation.quantity import Quantity, check_label, evaluated, number
from derive.notation.symbols import B, C, D, F, N, W, X, alpha, e
from derive.notation.units import byte, chip, flop, one, second, sequence, token
from derive.solve.evaluate import evaluate

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


@pytest.mark.parametrize(
    "value",
    [
        0.1, "0.1", "1/10", Fraction(1, 10), Decimal("0.1"), np.float64(0.1), np.float32(0.1),
        sp.Float("0.1"), sp.Rational(1, 10),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_numbers_of_python_numpy_and_sympy_are_the_decimals_that_were_typed(value: object) -> None:
    assert number(value).value == sp.Rational(1, 10)


def test_whole_numbers_of_any_kind() -> None:
    for value in (3, np.int64(3), np.uint8(3), sp.Integer(3), 3.0, np.float64(3), Decimal(3)):
        assert number(value).value is sp.Integer(3)
    for value in (True, np.bool_(True), 1j, None, [3], np.array([3]), float("nan"), sp.oo, sp.pi):
        with pytest.raises(DeriveError, match="expected a number, found"):
            number(value)


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


def test_a_unit_may_be_text() -> None:
    assert number(5, "token", "B") == number(5, token, "B")
    assert number("2.5", "FLOP/byte").unit == flop / byte
    assert number(96, "GB") == number(96 * 10**9, byte)
    assert number(3, "").unit == one
    values = {C: number(6, flop / second), W: number(2, byte / second)}
    assert evaluated(C / W, values, "FLOP/byte") == evaluated(C / W, values, flop / byte)
    assert number(4, token).named("x", "sequences").unit == sequence
    for wrong, told in (("tokn", "did you mean token"), ("GFLOP/byte", "without prefix")):
        with pytest.raises(UnitError, match=told):
            evaluated(C / W, values, wrong)
    with pytest.raises(UnitError, match="unknown unit 'tokn' in 'tokn'; did you mean token"):
        number(1, "tokn")
    with pytest.raises(UnitError, match="expected byte, found token"):
        number(1, token).named("x", "byte")


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


def test_a_sum_among_the_factors_folds_to_its_unit() -> None:
    """To no labels, which only a product of powers of symbols has."""
    values = {C: PEAK, W: LINK, B: number(6, token), N: number(2, chip)}
    for expr, unit in (
        (C / (W + 2 * W), flop / byte), ((C + C) ** 2 / W**2, (flop / byte) ** 2), (C**2 / W**2,
        (flop / byte) ** 2), (2 ** sp.Integer(3) * C / W, flop / byte),
    ):  # fmt: skip
        found = evaluated(expr, values)
        assert found.unit.dimension == unit
        assert found.value == expr.xreplace({C: PEAK.value, W: LINK.value})
    assert evaluated(B / N, values).unit == token / chip
    root = evaluated(sp.sqrt(C * W), values).unit
    assert root * root == (flop / second) * (byte / second)


def test_what_comes_in_is_named_once_each_in_order() -> None:
    for made in (PEAK * LINK, PEAK / LINK):
        assert made.inputs == (("C", PEAK), ("W", LINK))
    same = number(2, token, "B", owner="mine") + number(3, token, "B")
    assert [name for name, _ in same.inputs] == ["B[mine]", "B[2]"]
    assert same.formula == "B[mine] + B[2]"


def test_quantities_compare_by_value_where_their_units_allow() -> None:
    root = Quantity(sp.sqrt(2), byte)
    assert number("1.41421356", byte) < root < number("1.41421357", byte)
    assert root <= Quantity(sp.sqrt(2), byte, "again") <= root and not root < root
    assert number(64, chip) > 63 and number(64, chip) >= number(64)
    assert max(number(3, chip), number(5, chip), number(4, chip)).value == 5
    for other in (LINK, 1):
        with pytest.raises(UnitError, match="expected FLOP/second"):
            _ = PEAK.__lt__(other)
    with pytest.raises(UnitError, match="expected chip, found token"):
        _ = number(1, chip) >= number(1, token)
    # Equality is of everything, origin and all, as hashes are.
    assert number(3, chip, "a") != number(3, chip, "b")
    same = number(3, chip, "a")
    assert same == number(3, chip, "a") and hash(same) == hash(number(3, chip, "a"))
    assert len({same, number(3, chip, "a"), replace(same, bound="<=")}) == 2


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (".2f", "2,550.50 tokens"), (",.1f", "2,550.5 tokens"), (".3g", "2,550 tokens"),
        ("d", "2,551 tokens"), (".1e", "2.6×10³ tokens"), (">20.1f", "      2,550.5 tokens"),
        ("", "B = 2,551 tokens"), ("<20", "B = 2,551 tokens    "),
    ],
)  # fmt: skip
def test_a_format_of_pythons_numbers(spec: str, text: str) -> None:
    assert format(number("2550.5", token, "B"), spec).replace("\u00a0", " ") == text


def test_formats_that_are_none() -> None:
    assert f"{number('0.125'):.1%}" == "12.5%"
    for spec in ("zz", "x", ".f", "9999999d", ".0g"):
        with pytest.raises(DeriveError):
            format(number(3), spec)
    with pytest.raises(UnitError):
        format(number(3, byte), ".0%")


def test_a_rounded_quantity_keeps_its_unit_and_its_origin() -> None:
    size = number("1644.85", chip, "N")
    assert [q.value for q in (round(size), math.floor(size), math.ceil(size))] == [1645, 1644, 1645]
    assert round(size, 1).value == sp.Rational(16449, 10) and round(size, -2).value == 1600
    assert math.floor(size).unit == chip and dict(round(size).inputs) == {"n": size}
    most = replace(size, bound="<=")
    assert round(most).value == 1644 and round(most).bound == "<="
    assert math.ceil(most).value == 1645 and math.ceil(most).bound == ""


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


LONG = [
    sp.Float("1e1000000", 15), Decimal("1e-999999"), 10**100_000, Fraction(10**5000 + 1, 10**5000),
    sp.Integer(10) ** 5000,
]  # fmt: skip


@pytest.mark.parametrize("long", LONG, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "act",
    [
        number, lambda x: number(1) * x, lambda x: x / number(1), lambda x: number(1) < x,
        lambda x: number(1).named(x), lambda x: number(1, x), lambda x: round(number(1), x),
        lambda x: facts.chip(x), lambda x: evaluate(x * X, {X: [1]}), lambda x: assume(wrap=x),
    ],
)  # fmt: skip
def test_a_number_too_long_to_be_meant_is_refused_and_never_written_out(act, long) -> None:
    with pytest.raises(DeriveError) as caught:
        act(long)
    assert len(str(caught.value)) < 130 and "bits" in str(caught.value)


def test_a_product_too_long_to_be_printed_is_refused() -> None:
    most = number(10**3000)
    assert (most * 1).printed()
    with pytest.raises(DeriveError, match="bits"):
        _ = most * most


@pytest.mark.parametrize("places", [-(10**9), 101, 1.5, "2", Decimal(2), sp.nan, X, True])
def test_places_are_whole_and_few(places) -> None:
    with pytest.raises(DeriveError, match="places: expected a whole number from -100 to 100"):
        round(number(2), places)


@pytest.mark.parametrize("wrong", [{"name": 5}, {"bound": "<"}, {"bound": []}, {"status": "zzz"}])
def test_what_a_quantity_is_made_of_is_looked_at(wrong) -> None:
    with pytest.raises(DeriveError, match=f"^{next(iter(wrong))}: expected"):
        Quantity(sp.Integer(1), **wrong)


MOST, LEAST = (Quantity(sp.Integer(8), chip, "n", bound=sign) for sign in ("<=", ">="))


@pytest.mark.parametrize(
    ("combine", "side"),
    [
        (lambda n: n * 2, 1), (lambda n: n / 2, 1), (lambda n: n + 1, 1), (lambda n: n - 9, 1),
        (lambda n: n + n, 1), (lambda n: n * n, 1), (lambda n: sum([n, n]), 1), (abs, 1),
        (lambda n: 2 - n, -1), (lambda n: 2 / n, -1), (lambda n: -n, -1), (lambda n: abs(-n), 1),
        (lambda n: n - n, 0), (lambda n: n / n, 0), (lambda n: n * -1, 0),
    ],
)  # fmt: skip
def test_a_bound_keeps_turns_or_loses_its_side(combine, side: int) -> None:
    sides = {1: ["<=", ">="], -1: [">=", "<="], 0: ["", ""]}[side]
    assert [combine(n).bound for n in (MOST, LEAST)] == sides
    # The side that is kept holds: what is less than the most, or more than the least, obeys it.
    for n, nearer in ((MOST, 7), (LEAST, 9)):
        got, true = combine(n), combine(number(nearer, chip)).value
        assert {"<=": true <= got.value, ">=": true >= got.value, "": True}[got.bound]


def test_a_plain_number_takes_the_unit_of_the_other() -> None:
    assert {(0 + MOST).unit, (1 + MOST).unit, (MOST + 1).unit, (1 - MOST).unit} == {chip}


def test_whole_parts_signs_and_nothing() -> None:
    assert [int(q / 3) for q in (MOST, LEAST, number(8), number(-8))] == [2, 3, 2, -2]
    assert not number(0) and number("0.1")
    assert f"{number(1234, chip):,}" == "1,234\u00a0chips"


def test_a_sum_of_quantities_has_their_unit() -> None:
    total = sum([number(2, byte), number(3, byte)])
    assert (total.value, total.unit) == (5, byte)
    with pytest.raises(UnitError):
        sum([number(2, byte), number(3, second)])
    with pytest.raises(UnitError):
        _ = 1 + number(2, byte)
