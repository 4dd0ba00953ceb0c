"""What float64 cannot tell: layers at a step and times that tie, in all three searches, exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from cases import made

from derive.cost.step_assumptions import DEFAULT, NOTEBOOK, step_assumptions
from derive.notation import symbols as v
from derive.plan import search as searching
from derive.plan.blocks import run_of
from derive.plan.compiled import compiled
from derive.plan.exact import exact, solved_model
from derive.plan.few import search_few
from derive.plan.plans import plan_of
from derive.plan.rounding import AXES, SLACK, tied, undecided
from derive.plan.search import search, search_all
from derive.plan.space import Space, whole

CLOSE = Fraction(20000001, 10**7)  # to e = 2, and allowed


def in_blocks(task, grid):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searching, "SMALL", 0)
        return search(task, grid)


def ranked(found):
    """The plans that are kept, with their times."""
    rows = [tuple(int(x) for x in row) for row in zip(*found.degrees, strict=True)]
    return dict(zip(rows, map(float, found.seconds), strict=True))


def exactly(task, grid):
    """What fits, plan by plan in fractions."""
    plans = {row: plan_of(task, *row) for row in whole(task, grid).rows}
    return {row: float(p.step_seconds) for row, p in plans.items() if not p.lacks_bytes}


def at_a_step(again, degrees, **values):
    """A task in which a plan with these degrees meets its budget to the byte with so many layers
    recomputed."""
    task = made(**values)
    free = plan_of(made(**values, M_hbm=10**30), *degrees)
    n, (tp, cp, _, _, b) = task.numbers, degrees
    unit = n[v.T] * n[v.D] * b / (tp * cp)
    flying = free.memory["activations"] / (free.layers_per_stage * n[v.A_kept] * unit)
    saved = flying * unit * (n[v.A_kept] - n[v.e]) * again
    return made(**values, M_hbm=(free.memory_bytes - saved) / n[v.mu])


STEPS = [
    (kept, again, degrees)
    for kept in (Fraction(21, 10), CLOSE, Fraction(34))
    for degrees in ((8, 1, 1, 8, 1), (4, 2, 2, 4, 1), (8, 1, 4, 2, 1))
    for again in (1, 2, 7, 13, 19, 20)
]


@pytest.mark.parametrize(("kept", "again", "degrees"), STEPS)
def test_what_needs_exactly_so_many_layers_recomputes_them(kept, again, degrees):
    task = at_a_step(again, degrees, A_kept=kept)
    plan = plan_of(task, *degrees)
    assert (plan.recomputed_layers, plan.memory_bytes) == (again, task.budget)
    grid = Space((1, 2, 4, 8), (1, 2), (1, 2, 4), (1, 2))
    wanted = exactly(task, grid)
    assert degrees in wanted
    other = at_a_step(again + 1, degrees, A_kept=kept)
    for found in (
        search(task, grid), search_few(task, grid), in_blocks(task, grid),
        search_all([task, other], grid)[0], search_all([other, task], grid)[1],
    ):  # fmt: skip
        assert ranked(found) == pytest.approx(wanted, rel=1e-12, abs=0)
        assert list(ranked(found)) == list(ranked(search(task, grid)))


def test_the_tasks_above_are_those_that_float64_leaves_open():
    wrong = 0
    for kept, again, degrees in STEPS:
        task = at_a_step(again, degrees, A_kept=kept)
        run = run_of(task.assumptions)
        redo, seconds, edge = run.single(degrees, run.numbers(task.floats))
        assert undecided(redo, seconds, edge, 80, task.blur)
        assert (task.blur > SLACK) == (kept == CLOSE)
        wrong += redo != again
    assert wrong  # and it is wrong about some


def test_a_plan_that_misses_by_less_than_a_byte_recomputes_one_layer_more():
    for kept in (Fraction(21, 10), CLOSE):
        enough = at_a_step(13, (8, 1, 1, 8, 1), A_kept=kept)
        task = made(A_kept=kept, M_hbm=enough.numbers[v.M_hbm] - Fraction(1, 1000))
        grid = Space((8,), (1,), (1,))
        for how in (search, search_few, in_blocks):
            (time,) = how(task, grid).seconds
            assert time == pytest.approx(float(plan_of(task, 8, 1, 1, 8).step_seconds), rel=1e-12)
        assert plan_of(task, 8, 1, 1, 8).recomputed_layers == 14


@pytest.mark.parametrize("assumptions", [NOTEBOOK, DEFAULT])
@pytest.mark.parametrize("kept", [34, CLOSE])
@pytest.mark.parametrize("seq", [2, 64, 8192, 2**20])
def test_blur_is_above_what_float64_is_off_by(assumptions, kept, seq):
    """What the ceilings round, in float64 against fractions, near where layers are recomputed."""
    task = made("llama-3-70b", 512, seq, 512, assumptions, T_min=1, A_kept=kept)
    definitions = {v.find(term.name): term.expr for term in task.step.definitions}
    ceilings = sorted(definitions[v.L_r].atoms(sp.ceiling), key=sp.default_sort_key)
    parts = [c.args[0] for c in ceilings if not c.args[0].has(sp.ceiling)]
    assert len(parts) == 1 + ("logits" in assumptions)
    run = compiled(parts, definitions, AXES)
    rows = whole(task, Space((1, 2, 4, 8), (1, 2, 4, 8, 16, 64), (1, 4, 16), (1, 3))).rows
    for row in rows[:: 1 + len(rows) // 12]:
        degrees = {s: Fraction(x) for s, x in zip(AXES, row, strict=True)}
        for place, part in enumerate(parts):
            # The memory at which 3.7 layers would be recomputed: the part is linear in it.
            given = [exact(part, solved_model(task.step, {**task.numbers, **degrees, v.M_hbm: m}))
                     for m in (Fraction(0), Fraction(1))]  # fmt: skip
            memory = (given[0] - Fraction(37, 10)) / (given[0] - given[1])
            if memory > 0:
                numbers = run.numbers({**task.floats, "M_hbm": float(memory)})
                there = solved_model(
                    task.step, {**task.numbers, **degrees, v.M_hbm: Fraction(float(memory))}
                )
                off = abs(Fraction(run.single(row, numbers)[place]) - exact(part, there))
                assert off < task.blur
    assert len(rows) > 10
    if seq >= 8192 and kept == 34:
        assert task.blur < SLACK


@pytest.mark.parametrize("blur", [0.0, 1e-5, 0.4])
def test_what_is_undecided_as_numbers_and_as_arrays(blur):
    nan, inf = float("nan"), float("inf")
    redo = [0.0, 3.0, 9.0, 3.0, nan, 3.0, 3.0, inf, 3.0]
    time = [1.0, 1.0, 1.0, 1.0, 1.0, inf, nan, inf, 1.0]
    edge = [0.5, 1e-8, 1e-8, 0.3, nan, 0.5, 0.5, nan, 1 - 1e-6]
    wanted = [blur > 0.1, True, False, blur > 0.1, True, True, True, True, blur > 0]
    arrays = undecided(*map(np.array, (redo, time, edge)), 7, blur)
    assert arrays.tolist() == wanted
    assert [undecided(*one, 7, blur) for one in zip(redo, time, edge, strict=True)] == wanted


def test_two_tasks_at_a_step_are_each_decided_by_their_own_numbers():
    degrees = (8, 1, 1, 8, 1)
    tasks = [at_a_step(k, degrees, A_kept=Fraction(21, 10)) for k in (2, 13)]
    grid = Space((8,), (1,), (1,))
    for pair in (tasks, tasks[::-1]):
        for found, task in zip(search_all(pair, grid), pair, strict=True):
            plan = plan_of(task, *degrees)
            assert found.seconds == pytest.approx([float(plan.step_seconds)], rel=1e-12)


def test_plans_that_are_equal_exactly_stand_in_the_order_of_enumeration():
    """Where attention hides the ring, the tokens of a rank times the ranks are all that counts."""
    cards, groups = 2520, (7, 1, 9, 2, 3, 10, 4, 5, 6, 8)
    task = made("llama-3-8b", cards, cards * 400, cards, T_min=1, M_hbm=10**15)
    rows = [(1, cp, 1, cards // cp, 1) for cp in sorted(groups)]
    assert len({plan_of(task, *row).step_seconds for row in rows}) == 1
    run = run_of(task.assumptions)
    columns = np.array(rows, dtype=float).T
    times = run.block(columns, run.numbers(task.floats), run.room(len(rows)))[1].tolist()
    assert times != sorted(times)  # in float64 they differ, and not in their order
    grid = Space((1,), sorted(groups), (1,))
    for found in (search(task, grid), search_few(task, grid), in_blocks(task, grid)):
        assert [int(cp) for cp in found.degrees[1]] == sorted(groups)
    for top in (1, 4):
        for how in (search, search_few):
            assert [int(cp) for cp in how(task, grid, top=top).degrees[1]] == sorted(groups)[:top]
    for found in search_all([task, made(), task], grid)[::2]:
        assert [int(cp) for cp in found.degrees[1]] == sorted(groups)


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
@pytest.mark.parametrize("name", ["notebook", "default"])
def test_numbers_beyond_float64_end_in_the_same_plans(values, name):
    grid = Space((1, 2, 8), (1, 2), (1, 2, 4))
    task = made("llama-3-70b", assumptions=step_assumptions(name), **values)
    wanted = exactly_or_infinity(task, grid)
    for found in (search(task, grid), search_few(task, grid), in_blocks(task, grid)):
        assert ranked(found) == pytest.approx(wanted, rel=1e-12, abs=0)
        assert found.fit + sum(found.rejected.values()) == found.candidates
        assert len(found.plans()) == found.fit


def exactly_or_infinity(task, grid):
    plans = {row: plan_of(task, *row) for row in whole(task, grid).rows}
    most = Fraction(2) ** 1024
    return {
        row: float(p.step_seconds) if p.step_seconds < most else float("inf")
        for row, p in plans.items()
        if not p.lacks_bytes
    }
