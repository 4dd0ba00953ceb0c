"""What float64 cannot tell: layers at a step and times that tie, decided exactly."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from cases import asked, at, five, passing, row, space

from derive.cost.assumptions import CORRECTED, NOTEBOOK, step_assumptions
from derive.cost.step import step_model
from derive.notation import symbols as v
from derive.notation.quantity import number
from derive.plan import search as searching
from derive.plan.plan import in_blocks, plan_of
from derive.plan.search import SLACK, Edges, blur, search, tied
from derive.plan.task import DEGREES
from derive.solve.evaluate import floats

CLOSE = Fraction(20000001, 10**7)  # to e = 2, and allowed


def in_pieces(task, grid):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "BLOCK", 2)
        return search(task, grid)


def in_floats(task, targets, rows, edges=None):
    """Targets of plans in float64, one after the other, as a search has them."""
    columns = {
        s: np.array(x, dtype=float) for s, x in zip(DEGREES, zip(*rows, strict=True), strict=True)
    }
    arithmetic = floats() if edges is None else edges.arithmetic
    results = in_blocks(task.step, targets)(arithmetic, {**task.floats, **columns})
    return [np.broadcast_to(x, (len(rows),)) for x in results]


def ranked(ranking):
    """The plans that are kept, with their times."""
    rows = [five(plan.degrees) for plan in ranking.plans()]
    return dict(zip(rows, map(float, ranking.seconds), strict=True))


def exactly(task, grid):
    """What fits, plan by plan in fractions."""
    plans = {five(row): plan_of(task, row) for row in passing(task, grid)}
    return {row: float(p.step_seconds) for row, p in plans.items() if not p.lacks_bytes}


def at_a_step(again, degrees, **values):
    """A task in which a plan with these degrees meets its budget to the byte with so many layers
    recomputed."""
    task = asked(**values)
    free = at(asked(**values, M_hbm=10**30), *degrees)
    n, (tp, cp, _, _, b) = task.numbers, degrees
    unit = n[v.T] * n[v.D] * b / (tp * cp)
    flying = free.memory["activations"] / (free.layers_per_stage * n[v.A_kept] * unit)
    saved = flying * unit * (n[v.A_kept] - n[v.e]) * again
    return asked(**values, M_hbm=(free.memory_bytes - saved) / n[v.mu])


STEPS = [
    (kept, again, degrees)
    for kept in (Fraction(21, 10), CLOSE, Fraction(34))
    for degrees in ((8, 1, 1, 8, 1), (4, 2, 2, 4, 1), (8, 1, 4, 2, 1))
    for again in (1, 2, 7, 13, 19, 20)
]


@pytest.mark.parametrize(("kept", "again", "degrees"), STEPS)
def test_what_needs_exactly_so_many_layers_recomputes_them(kept, again, degrees):
    task = at_a_step(again, degrees, A_kept=kept)
    plan = at(task, *degrees)
    assert (plan.recomputed_layers, plan.memory_bytes) == (again, task.budget)
    grid = space((1, 2, 4, 8), (1, 2), (1, 2, 4), (1, 2))
    wanted = exactly(task, grid)
    assert degrees in wanted
    at_once, pieces = ranked(search(task, grid)), ranked(in_pieces(task, grid))
    assert at_once == pytest.approx(wanted, rel=1e-12, abs=0)
    assert pieces == pytest.approx(wanted, rel=1e-12, abs=0)
    assert list(pieces) == list(at_once)


def test_the_tasks_above_are_those_that_float64_leaves_open():
    wrong = 0
    for kept, again, degrees in STEPS:
        task = at_a_step(again, degrees, A_kept=kept)
        edges = Edges(blur(task))
        redo, seconds = in_floats(task, (v.L_r, task.step.seconds), [row(*degrees)], edges)
        assert edges.undecided(redo, seconds, 80)
        assert (blur(task) > SLACK) == (kept == CLOSE)
        wrong += redo != again
    assert wrong  # and it is wrong about some


def test_a_plan_that_misses_by_less_than_a_byte_recomputes_one_layer_more():
    for kept in (Fraction(21, 10), CLOSE):
        enough = at_a_step(13, (8, 1, 1, 8, 1), A_kept=kept)
        task = asked(A_kept=kept, M_hbm=enough.numbers[v.M_hbm] - Fraction(1, 1000))
        (time,) = search(task, space((8,), (1,), (1,))).seconds
        assert time == pytest.approx(float(at(task, 8, 1, 1, 8).step_seconds), rel=1e-12)
        assert at(task, 8, 1, 1, 8).recomputed_layers == 14


@pytest.mark.parametrize("assumptions", [NOTEBOOK, CORRECTED])
@pytest.mark.parametrize("kept", [34, CLOSE])
@pytest.mark.parametrize("seq", [2, 64, 8192, 2**20])
def test_blur_is_above_what_float64_is_off_by(assumptions, kept, seq):
    """What the ceilings round, in float64 against fractions, near where layers are recomputed."""
    task = asked("llama-3-70b", 512, seq, 512, assumptions, T_min=1, A_kept=kept)
    definitions = {v.find(term.name): term.expr for term in task.step.definitions}
    ceilings = sorted(definitions[v.L_r].atoms(sp.ceiling), key=sp.default_sort_key)
    parts = [c.args[0] for c in ceilings if not c.args[0].has(sp.ceiling)]
    assert len(parts) == 1 + ("logits" in assumptions)
    rows = passing(task, space((1, 2, 4, 8), (1, 2, 4, 8, 16, 64), (1, 4, 16), (1, 3)))
    for one in rows[:: 1 + len(rows) // 12]:
        for part in parts:
            # The memory at which 3.7 layers would be recomputed: the part is linear in it.
            given = [plan_of(holding(task, m), one).value(part).value for m in (1, 2)]
            memory = 1 + (given[0] - sp.Rational(37, 10)) / (given[0] - given[1])
            if memory > 0:
                there = holding(task, Fraction(float(memory)))
                ((near,),) = in_floats(there, (part,), [one])
                exact = plan_of(there, one).value(part).value
                assert abs(Fraction(float(near)) - Fraction(int(exact.p), int(exact.q))) < blur(
                    task
                )
    assert len(rows) > 10
    if seq >= 8192 and kept == 34:
        assert blur(task) < SLACK


def roundings(expr: sp.Expr, defined: dict[sp.Symbol, sp.Expr]) -> int:
    """How often an expression is rounded on the way to it, at most: those of its factors add up,
    the largest of its terms counts, whole numbers are exact, and so is what a ceiling makes."""
    if expr in defined:
        return roundings(defined[expr], defined)
    if isinstance(expr, (sp.ceiling, sp.floor)) or not expr.args:
        return int(expr in (v.mu, v.A_kept) or (expr.is_Rational and not expr.is_Integer))
    parts = [roundings(part, defined) for part in expr.args]
    if isinstance(expr, sp.Mul):
        return sum(parts) + len(parts) - 1
    if isinstance(expr, sp.Pow):
        return abs(int(expr.exp)) * (parts[0] + 1)
    return max(parts) + (len(parts) - 1 if isinstance(expr, sp.Add) else 0)


def test_blur_counts_the_roundings_of_what_a_ceiling_is_of():
    most = 0
    for assumptions in (NOTEBOOK, CORRECTED):
        defined = {v.find(term.name): term.expr for term in step_model(assumptions).definitions}
        ceilings = defined[v.L_r].atoms(sp.ceiling)
        most = max(most, *(roundings(c.args[0], defined) for c in ceilings))
    assert most < searching.ROUNDINGS < 2 * most


def holding(task, memory):
    """The task with another memory, which no value is checked against."""
    size = number(memory, v.unit_of_symbol(v.M_hbm), "M_hbm")
    return replace(task, values={**task.values, v.M_hbm: size})


@pytest.mark.parametrize("off", [0.0, 1e-5, 0.4])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_undecided(off):
    """What a ceiling is given lies below, at or above a step, or is no number."""
    nan, inf = float("nan"), float("inf")
    given = [2.5, 3.0, 9.0, 2.7, nan, 2.5, 2.5, inf, 3.0 + 1e-6, 3.0 - 1e-6, 9.5, 8.0]
    times = [1.0, 1.0, 1.0, 1.0, 1.0, inf, nan, inf, 1.0, 1.0, 1.0, 1.0]
    wanted = [
        off > 0.1,
        True,
        off > 0.1,
        off > 0.1,
        True,
        True,
        True,
        True,
        off > 0,
        off > 0,
        False,
        True,  # one layer more than there are is decided, too
    ]
    edges = Edges(off)
    redo = edges.arithmetic["ceil"](np.array(given))
    wanted[2] = 7 + 1 + off >= 9
    assert edges.undecided(redo, np.array(times), 7).tolist() == wanted


def test_every_ceiling_is_watched():
    """The nearest of several ceilings counts, on either side where rounding is off by more."""
    for off, wanted in ((0.0, [False, True, False]), (1e-5, [False, True, True])):
        edges = Edges(off)
        for values in ([0.5, 0.5, 0.5], [1.5, 2.0, 1.0 + 1e-6], [0.5, 0.5, 0.5]):
            edges.arithmetic["ceil"](np.array(values))
        assert edges.undecided(np.ones(3), np.ones(3), 7).tolist() == wanted


def test_plans_that_are_equal_exactly_stand_in_the_order_of_enumeration():
    """Where attention hides the ring, the tokens of a rank times the ranks are all that counts."""
    cards, groups = 2520, (7, 1, 9, 2, 3, 10, 4, 5, 6, 8)
    task = asked("llama-3-8b", cards, cards * 400, cards, T_min=1, M_hbm=10**15)
    rows = [row(1, cp, 1, cards // cp) for cp in sorted(groups)]
    assert len({plan_of(task, one).step_seconds for one in rows}) == 1
    (times,) = in_floats(task, (task.step.seconds,), rows)
    assert times.tolist() != sorted(times)  # in float64 they differ, and not in their order
    for order in (sorted(groups), groups):  # as they are given, rising or not
        grid = space((1,), order, (1,))
        for ranking in (search(task, grid), in_pieces(task, grid)):
            assert ranking[v.cp].tolist() == list(order)
        for top in range(1, len(order) + 2):  # a tie goes on beyond the last that is kept
            assert search(task, grid, top=top)[v.cp].tolist() == list(order)[:top]


def test_a_tie_is_within_a_relative_difference():
    assert tied(1.0, 1.0) and tied(1e-9, 1e-9 * (1 + 5e-13)) and tied(1e9, 1e9 * (1 + 5e-13))
    assert not tied(1e-9, 1e-9 * (1 + 5e-12)) and not tied(1e9, 1e9 * (1 + 5e-12))
    assert tied(np.array([1.0, 1.0]), np.array([1.0, 2.0])).tolist() == [True, False]


ABSURD = [
    {"C": Fraction(10) ** -300},
    {"C": Fraction(10) ** -300, "W_dcn": Fraction(10) ** -300},
    {"e": Fraction(10) ** 40, "A_kept": Fraction(10) ** 41, "M_hbm": Fraction(10) ** 80},
    {"D": 10**15, "F": 10**39, "H": 10**39, "V": 10**39, "C": Fraction(10) ** -39, "L": 80},
    {"D": 10**39, "H": 10**39, "C": Fraction(10) ** -39, "M_hbm": Fraction(10) ** 200},
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("values", ABSURD)
@pytest.mark.parametrize("name", ["notebook", "corrected"])
def test_numbers_beyond_float64_end_in_the_same_plans(values, name):
    grid = space((1, 2, 8), (1, 2), (1, 2, 4))
    task = asked("llama-3-70b", assumptions=step_assumptions(name), **values)
    wanted = exactly_or_infinity(task, grid)
    for ranking in (search(task, grid), in_pieces(task, grid)):
        assert ranked(ranking) == pytest.approx(wanted, rel=1e-12, abs=0)
        assert ranking.fit + sum(ranking.rejected.values()) == ranking.candidates
        assert len(ranking.plans()) == ranking.fit


def exactly_or_infinity(task, grid):
    plans = {five(row): plan_of(task, row) for row in passing(task, grid)}
    most = Fraction(2) ** 1024
    return {
        row: float(p.step_seconds) if p.step_seconds < most else float("inf")
        for row, p in plans.items()
        if not p.lacks_bytes
    }
