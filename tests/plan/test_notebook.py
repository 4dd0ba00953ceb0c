"""All 119 plans of the notebook's searches, and every output line it prints."""

from __future__ import annotations

import pytest
from cases import LINES, PARTS, SEARCHES, of_notebook

from derive.cost.step_assumptions import NOTEBOOK
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.notation.quantity import number
from derive.notation.units import flop, second
from derive.plan import notebook
from derive.plan.batch import search_all
from derive.plan.search import search
from derive.plan.task import task

ALSO = [[(8, 1, 1), (8, 1, 4)], [(8, 1, 1)], [(1, 1, 1)], [], []]


@pytest.mark.parametrize("key", SEARCHES)
def test_every_plan_of_the_notebook_agrees(key):
    expected = SEARCHES[key]["plans"]
    found = search(of_notebook(key))
    assert found.fit == SEARCHES[key]["fit"] == len(expected)
    assert found.candidates == 120
    assert sum(found.rejected.values()) + found.fit == 120
    for plan, seconds, row in zip(found.plans(), found.seconds, expected, strict=True):
        tp, cp, pp, dp, redo, layers, mfu, memory_gib, step, parts = row
        assert (plan.tp, plan.cp, plan.pp, plan.dp, plan.micro_batch) == (tp, cp, pp, dp, 1)
        assert (plan.recomputed_layers, plan.layers_per_stage) == (redo, layers)
        assert float(plan.mfu) == pytest.approx(mfu, rel=1e-9, abs=0)
        assert float(plan.memory_bytes) / 2**30 == pytest.approx(memory_gib, rel=1e-9, abs=0)
        assert float(plan.step_seconds) == pytest.approx(step, rel=1e-9, abs=0)
        assert seconds == pytest.approx(step, rel=1e-12, abs=0)
        assert list(plan.parts) == PARTS
        for name, value in zip(PARTS, parts, strict=True):
            assert abs(float(plan.parts[name]) - value) < 1e-9 * step, name


def test_the_table_holds_all_plans():
    counts = [case["fit"] for case in SEARCHES.values()]
    assert counts == [24, 23, 16, 28, 28]
    assert sum(len(case["plans"]) for case in SEARCHES.values()) == 119


def test_the_outputs_are_the_notebook_s_line_by_line():
    made = []
    for key, also in zip(SEARCHES, ALSO, strict=True):
        found = search(of_notebook(key))
        made += notebook.lines(found, found.plans(3), also)
    assert made == LINES
    assert len(LINES) == 24


def test_searches_together_find_what_each_finds_alone():
    tasks = [of_notebook(key) for key in SEARCHES]
    for one, other in zip(search_all(tasks), map(search, tasks), strict=True):
        assert one.fit == other.fit and one.rejected == other.rejected
        assert (one.degrees == other.degrees).all()
        assert one.seconds == pytest.approx(other.seconds, rel=1e-14)


def test_exact_ties_stand_in_the_order_of_enumeration():
    found = search(of_notebook("8b-8-8k"))
    plans = found.plans()
    second, third = plans[1], plans[2]
    assert second.step_seconds == third.step_seconds
    assert (second.tp, second.cp) < (third.tp, third.cp)


@pytest.mark.parametrize("top", [1, 5])
def test_the_first_plans_are_those_of_the_whole_ranking(top):
    task = of_notebook("70b-64-128k")
    assert search(task, top=top).plans() == search(task).plans(top)


def test_the_notebook_fixes_the_peak_under_every_profile() -> None:
    for profile in ("scaling-book", "vendor", "notebook"):
        of = task(
            model("llama-3-70b"), chip("h100", profile=profile),
            cards=64, seq=8192, batch=512, assumptions=NOTEBOOK,
        )  # fmt: skip
        assert of.values[v.C].value == 989 * 10**12
    stated = chip("h100", override={"bf16": number(10**15, flop / second)})
    of = task(model("llama-3-70b"), stated, cards=64, seq=8192, batch=512, assumptions=NOTEBOOK)
    assert of.values[v.C].value == 10**15
