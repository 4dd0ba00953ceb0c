"""The tape: on arrays and on single numbers, in few registers; and the model in few operations."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from cases import SEARCHES, made, of_notebook

from derive.cost.step import step_model
from derive.cost.step_assumptions import CORRECTIONS, DEFAULT, NOTEBOOK, step_assumptions
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.plan.blocks import run_of
from derive.plan.compiled import compiled
from derive.plan.exact import exact, solved_model
from derive.plan.few import search_few
from derive.plan.reduced import reduced
from derive.plan.rounding import AXES
from derive.plan.search import search
from derive.plan.space import Space, whole
from derive.plan.tape import OPERATIONS, Room

ALONE = [step_assumptions(f"notebook+{name}") for name in CORRECTIONS]


def plans(task, count=60):
    rows = whole(task, Space((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 5, 16), (1, 2, 4))).rows
    return random.Random(1).sample(rows, min(count, len(rows)))


@pytest.mark.parametrize("assumptions", [NOTEBOOK, DEFAULT, *ALONE])
def test_single_numbers_and_arrays_and_exact_numbers_agree(assumptions):
    task = made(cards=160, seq=65536, batch=320, assumptions=assumptions)
    run = run_of(assumptions)
    numbers = run.numbers(task.floats)
    rows = plans(task)
    assert len(rows) > 10
    columns = np.array(rows, dtype=float).T
    arrays = [x.tolist() for x in run.block(columns, numbers, run.room(len(rows)))]
    for place, row in enumerate(rows):
        assert run.single(row, numbers) == pytest.approx([x[place] for x in arrays], rel=1e-14)
        degrees = {s: Fraction(x) for s, x in zip(AXES, row, strict=True)}
        model = solved_model(task.step, {**task.numbers, **degrees})
        assert arrays[0][place] == model[v.L_r]
        assert arrays[1][place] == pytest.approx(float(exact(task.step.seconds, model)), rel=1e-12)


@pytest.mark.parametrize("assumptions", [NOTEBOOK, DEFAULT])
def test_memory_that_is_used_again_changes_no_number(assumptions):
    task = made(cards=160, seq=65536, batch=320, assumptions=assumptions)
    run = run_of(assumptions)
    numbers = run.numbers(task.floats)
    columns = np.array(plans(task), dtype=float).T
    wanted = run.block(columns, numbers, run.room(columns.shape[1]))
    room = Room(run)
    for _ in range(2):
        for width in (1, 7, columns.shape[1]):
            some = columns[:, :width, None]
            block = run.block((*some[:4], some[4]), numbers, room.of((width, 1)))
            for found, expected in zip(block, wanted, strict=True):
                assert (np.ravel(found) == expected[:width]).all()


def test_the_notebook_s_model_takes_few_operations_on_blocks():
    tape = run_of(NOTEBOOK)
    first = min(step.out for step in tape.steps)
    kinds = [tape.registers[step.out - first] for step in tape.steps]
    assert kinds.count(2) <= 15 and tape.registers.count(2) <= 5
    assert {step.name for step in tape.steps} <= set(OPERATIONS)


@pytest.mark.parametrize("assumptions", [NOTEBOOK, DEFAULT])
def test_the_reduced_model_is_the_model(assumptions):
    model = step_model(assumptions)
    few = reduced(model)
    plain = {v.find(term.name): term.expr for term in model.definitions}
    task = made(cards=160, seq=65536, batch=320, assumptions=assumptions)
    ours = compiled([few.recomputed, few.seconds], few.definitions, AXES)
    theirs = compiled([v.L_r, model.seconds], plain, AXES)
    for row in plans(task):
        one, other = (tape.single(row, tape.numbers(task.floats)) for tape in (ours, theirs))
        assert one[:2] == pytest.approx(other[:2], rel=1e-12)


@pytest.mark.parametrize("case", SEARCHES)
def test_the_search_without_numpy_finds_the_same(case):
    task = of_notebook(case)
    few, many = search_few(task), search(task)
    assert (few.fit, few.rejected, few.candidates) == (many.fit, many.rejected, many.candidates)
    assert few.plans() == many.plans()
    assert few.seconds == pytest.approx(many.seconds, rel=1e-12)
    assert search_few(task, top=3).plans() == many.plans(3)
    best = many.plan(2)
    assert few.plan(2) == best
    assert few.rank(best.tp, best.cp, best.pp) == many.rank(best.tp, best.cp, best.pp)


def test_the_search_without_numpy_where_nothing_fits():
    task = made("llama-3-405b", cards=8, seq=8192, batch=8)
    few, many = search_few(task), search(task)
    assert few.too_large == many.too_large != ()
    assert few.fit == 0 and few.plans() == ()
    with pytest.raises(DeriveError, match="expected a rank"):
        few.plan(1)


def test_single_numbers_that_leave_float64():
    ceil = OPERATIONS["ceil"]
    assert ceil(float("inf")) == float("inf") and ceil(1e300) == 1e300 and ceil(0.5) == 1.0
    assert ceil(2.0**30 + 0.5) == 2.0**30 + 1 and ceil(2.0**52 + 0.5) == 2.0**52
    assert np.ceil(2.0**30 + 0.5) == ceil(2.0**30 + 0.5) and OPERATIONS["floor"](-0.5) == -1.0
