"""Numbers, units, assignments and formulas as they are typed."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import sympy as sp
from hostile.guards import answered
from hostile.strategies import UNITS, assignments, formulas, numbers, ratios, values
from hypothesis import given
from hypothesis import strategies as st

from derive.book.literals import literal
from derive.commands.mesh import whole
from derive.notation.digits import exact, fraction
from derive.notation.read import assignment, expression, quantity, ratio
from derive.notation.symbols import find, meaning
from derive.notation.units import byte, one, token, typed_unit

RAISED = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "+-0123456789-")


def read_by_python(text: str) -> Fraction | None:
    """What Python's own Decimal reads, commas taken out where Python would have put them, and a
    power of ten written out as an exponent."""
    text = text.strip().replace("−", "-")
    power = re.fullmatch(r"(.*?)[ \u00a0]?(?:×|\\times)[ \u00a0]?10(?:\^\{?([^{}]*)\}?|(.*))", text)
    if power:
        text = f"{power[1]}e{(power[2] or power[3]).translate(RAISED)}"
    top, slash, bottom = text.partition("/")
    if slash:
        over, under = read_by_python(top), read_by_python(bottom)
        return over / under if over is not None and under else None
    integer = re.match(r"[+-]?([0-9,]*)", text)
    if integer and "," in integer[1]:
        if not _grouped(integer[1]):
            return None
        text = text.replace(",", "")
    if "_" in text or not text.isascii():
        return None
    try:
        value = Decimal(text)
        return Fraction(value) if value.is_finite() and abs(value.adjusted()) < 10_000 else None
    except InvalidOperation:
        return None


def _grouped(text: str) -> bool:
    """Whether commas stand where Python puts them."""
    first = text.partition(",")[0]
    return bool(first) and f"{int('1' + text.replace(',', '')):,}"[-len(text) :] == text


@given(numbers)
def test_no_number_is_read_as_another(text: str) -> None:
    meant = read_by_python(text)
    got = answered(exact, text)
    assert got is None or got == meant, text
    stated = answered(quantity, text, one)
    if stated is not None and re.fullmatch(r"[^%kKMGTPEB]*[0-9]", text.strip()):
        assert fraction(stated.value) == meant, text
    count = answered(whole, text, "--rank", 0)
    assert count is None or count == meant, text
    formula = answered(expression, text)
    if formula is not None and formula.is_Rational and re.fullmatch(r"[0-9.eE]*", text):
        assert fraction(formula) == meant, text
    words = answered(literal, text)
    if words is not None and re.fullmatch(r"[+\-−]?[0-9.,eE+\-−]*[0-9]", text):
        assert words.value == meant, text


@given(values, st.sampled_from([None, one, byte, token]))
def test_values(text: str, unit: object) -> None:
    got = answered(quantity, text, unit, "W")
    if got is not None:
        assert got.value.is_Rational and 0 < got.value < 10**40
        assert not any(c in text for c in "\x1b\0\x9b")


@given(st.one_of(st.sampled_from(UNITS), values))
def test_units(text: str) -> None:
    answered(typed_unit, text)


@given(assignments)
def test_assignments(text: str) -> None:
    got = answered(assignment, text)
    if got is not None:
        assert got[0] == find(text.partition("=")[0].strip())


@given(st.one_of(formulas, ratios))
def test_formulas(text: str) -> None:
    got = answered(expression, text)
    if got is not None:
        assert isinstance(got, sp.Expr) and not got.atoms(sp.Float)
        assert all(meaning(s).symbol == s and s.name in text for s in got.free_symbols)
        assert answered(ratio, text) in (None, got)
