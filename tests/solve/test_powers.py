"""Sums of powers: each range against the load itself, on both sides of its ends, and its form."""

from __future__ import annotations

from itertools import product

import pytest
import sympy as sp

from derive.notation import symbols as v
from derive.notation.errors import NotClosedForm
from derive.solve.powers import coefficients, solved, turned

Q = sp.Rational
A, B, C, SYMBOL = v.D, v.F, v.B, v.X
HALVES = [Q(1, 2), Q(1), Q(4)]


def holds(load: sp.Expr, at: sp.Expr, given: dict[sp.Symbol, sp.Expr]) -> bool:
    return bool(load.xreplace(given).xreplace({SYMBOL: at}) <= 1)


@pytest.mark.parametrize("power", [1, 2, -1, -2, Q(1, 2), -Q(1, 2)])
@pytest.mark.parametrize("constant", [False, True])
def test_one_power_and_a_constant(power: sp.Rational, constant: bool) -> None:
    """At its end the load is one; off it, it is at most one on the one side alone."""
    load = A * SYMBOL**power + (C if constant else 0)
    found = solved(load, SYMBOL)
    assert (found.low is None) == (power > 0) == (found.high is not None)
    end = found.high if power > 0 else found.low
    for a, c in product(HALVES, (Q(0), Q(1, 3), Q(7, 8), Q(1), Q(5, 4)) if constant else (Q(0),)):
        given = {A: a, C: c}
        provided = all(relation.xreplace(given) for relation in found.provided)
        assert provided == (c < 1)
        near = end.xreplace(given) if provided else Q(1)
        for factor in (Q(1, 10**6), Q(999, 1000), Q(1), Q(1001, 1000), Q(10**6)):
            inside = factor <= 1 if power > 0 else factor >= 1
            assert holds(load, near * factor, given) == (provided and inside)
    assert bool(found.provided) == constant


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("constant", [False, True])
def test_a_power_and_its_inverse(power: int, constant: bool) -> None:
    """a q + b/q is least where both are equal, at 2 sqrt(a b): it has to leave room for that."""
    load = A * SYMBOL**power + B * SYMBOL**-power + (C if constant else 0)
    found = solved(load, SYMBOL)
    for low, high, c in product(HALVES, HALVES, (Q(0), Q(1, 3), Q(3)) if constant else (Q(0),)):
        # Of a (x - low) (x - high) = a x**2 - (1 - c) x + b, x the power; low = high is the edge.
        a = abs(1 - c) / (low + high)
        given = {A: a, B: a * low * high, C: c}
        provided = all(relation.xreplace(given) for relation in found.provided)
        assert provided == (c < 1)
        if not provided:
            assert not any(holds(load, at, given) for at in HALVES)
            continue
        ends = [found.low.xreplace(given) ** power, found.high.xreplace(given) ** power]
        assert ends == sorted((low, high))
        for at in HALVES:
            inside = ends[0] <= at**power <= ends[1]
            assert holds(load, at, given) == inside
        above = {**given, B: given[B] * ((low + high) ** 2 / (4 * low * high) + Q(1, 1000))}
        assert not all(relation.xreplace(above) for relation in found.provided)
        assert not any(holds(load, at, above) for at in HALVES)


def test_a_load_without_the_symbol_is_a_condition_that_equality_meets() -> None:
    for load in (C, A * C + B):
        found = solved(load, SYMBOL)
        assert found.low is None and found.high is None
        assert found.provided == (sp.Le(load, 1, evaluate=False),)


@pytest.mark.parametrize("load", [A * SYMBOL + B * SYMBOL**2, A * SYMBOL + B / SYMBOL**2])
def test_other_powers_have_no_readable_form(load: sp.Expr) -> None:
    with pytest.raises(NotClosedForm, match="together have no readable closed form"):
        solved(load, SYMBOL)


def test_coefficients_make_up_the_sum() -> None:
    for expr in (
        A * (SYMBOL - 1) / SYMBOL, (SYMBOL - 1) * (B - SYMBOL) / A, A + B * SYMBOL - A,
        sp.sqrt(SYMBOL) * A + C / SYMBOL**2, B * SYMBOL**A, B * SYMBOL ** (1 / A),
    ):  # fmt: skip
        terms = coefficients(expr, SYMBOL)
        assert sp.expand(sum(c * SYMBOL**p for p, c in terms.items()) - expr) == 0
        assert not any(c == 0 or c.has(SYMBOL) for c in terms.values())
    for expr in (1 / (SYMBOL + 1), sp.floor(SYMBOL), SYMBOL ** (A - 1), SYMBOL**A + 1 / SYMBOL):
        with pytest.raises(NotClosedForm, match="no sum of powers"):
            coefficients(expr, SYMBOL)


def test_a_bound_without_a_sum_below_the_line_is_a_sum_of_terms() -> None:
    for load in (A * SYMBOL + C, A * SYMBOL / B + C / v.N, A * SYMBOL + (B + C) / v.N):
        bound = solved(load, SYMBOL).high
        assert bound.is_Add and bound == sp.expand(bound)


def test_a_bound_with_a_sum_below_the_line_is_one_fraction() -> None:
    for below in (v.N - 1, v.N + A):
        bound = solved(A * SYMBOL / below + C / below, SYMBOL).high
        assert sp.cancel(bound - (1 - C / below) * below / A) == 0
        low = solved(A / SYMBOL + B / below, SYMBOL).low
        assert sp.cancel(low - A * below / (below - B)) == 0
        mixed = solved(A * below * SYMBOL + C, SYMBOL).high
        assert sp.cancel(mixed - (1 - C) / (A * below)) == 0
        for one in (bound, low, mixed):
            with_sums = [t for t in sp.Add.make_args(one) if sp.denom(t).has(sp.Add)]
            assert not with_sums or not one.is_Add


@pytest.mark.parametrize("power", [1, -1, 3, -3, 2])
def test_a_minus_sign_goes_into_a_sum_that_can_take_it(power: int) -> None:
    """Into that with the most terms that are subtracted, and of odd power."""
    sums = (A - B - C, A - B)
    for base in sums:
        expr = -2 * v.N * base**power
        found = turned(expr)
        assert sp.cancel(sp.together(found / expr)) == 1
        assert found.as_coeff_Mul()[0].is_negative == (power == 2)
        if power % 2:
            assert found == 2 * v.N * (-base) ** power
    both = turned(-v.N * sums[0] * sums[1] ** power)
    assert both == v.N * (B + C - A) * sums[1] ** power
    for kept in (2 * v.N * sums[1], -v.N * A, A - B):
        assert turned(kept) == kept


@pytest.mark.parametrize("power", [1, 2, -1, -2])
def test_a_term_that_takes_from_the_load_bounds_from_the_other_side(power: int) -> None:
    found = solved(2 - SYMBOL**power, SYMBOL)
    assert (found.low, found.high) == ((1, None) if power > 0 else (None, 1))
    for at in (Q(1, 2), Q(1), Q(2)):
        within = at >= found.low if found.low is not None else at <= found.high
        assert bool(within) is holds(2 - SYMBOL**power, at, {})
