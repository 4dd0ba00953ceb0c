"""All 119 plans of the notebook's searches, and every output line it prints."""

from __future__ import annotations

import os
import re
import sys
import types
from fractions import Fraction
from pathlib import Path

import pytest
from cases import LINES, PARTS, SEARCHES, asked, of_notebook

from derive.cost.assumptions import CORRECTED, NOTEBOOK
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.notation.quantity import number
from derive.notation.units import flop, second
from derive.plan.report import notebook_line, notebook_lines
from derive.plan.search import search
from derive.plan.task import task

ALSO = [[(8, 1, 1), (8, 1, 4)], [(8, 1, 1)], [(1, 1, 1)], [], []]


@pytest.mark.parametrize("key", SEARCHES)
def test_every_plan_of_the_notebook_agrees(key):
    expected = SEARCHES[key]["plans"]
    ranking = search(of_notebook(key))
    assert ranking.fit == SEARCHES[key]["fit"] == len(expected)
    assert ranking.candidates == 120
    assert sum(ranking.rejected.values()) + ranking.fit == 120
    for plan, seconds, row in zip(ranking.plans(), ranking.seconds, expected, strict=True):
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
    lines = []
    for key, also in zip(SEARCHES, ALSO, strict=True):
        ranking = search(of_notebook(key))
        ranks = [ranking.rank(tp=tp, cp=cp, pp=pp) for tp, cp, pp in also]
        others = [(rank, ranking.plan(rank)) for rank in ranks]
        lines += notebook_lines(ranking.task, ranking.fit, ranking.plans(3), others)
    assert lines == LINES
    assert len(LINES) == 24


@pytest.fixture(scope="module")
def script() -> types.ModuleType:
    """The document's script, run out of its text."""
    beside = Path(__file__).parents[3] / "shared/seeds/002_37469eb86d3e1092.txt"
    path = Path(os.environ.get("DERIVE_NOTEBOOK", beside))
    if not path.is_file():
        pytest.skip("the text of the notebook is not here")
    code = re.search(r"\nparallel_plan\.py\n\n(.*?)\noutput\n", path.read_text("utf-8"), re.DOTALL)
    module = types.ModuleType("parallel_plan")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setitem(sys.modules, "parallel_plan", module)  # a dataclass looks itself up there
    exec(compile(code[1], "parallel_plan.py", "exec"), module.__dict__)
    monkeypatch.undo()
    return module


@pytest.mark.parametrize(
    ("name", "cards", "seq", "batch"),
    [
        ("llama-3-70b", 7, 8192, 512),
        ("llama-3-70b", 8, 8192, 512),
        ("llama-3-70b", 1, 131072, 1),
        ("llama-3-8b", 63, 8192, 64),
        ("llama-3-70b", 64, 1000 * 1024, 48),
        ("llama-3-8b", 8, 8192, 100),
        ("llama-3-70b", 512, 40960, 1000),
    ],
)
def test_what_the_script_prints_where_little_or_nothing_fits(
    script, capsys, name, cards, seq, batch
):
    ranking = search(asked(name, cards, seq, batch))
    lines = notebook_lines(ranking.task, ranking.fit, ranking.plans(3))
    title, _, _ = lines[0].removeprefix("== ").partition("：")
    of = script.llama70b if name == "llama-3-70b" else script.llama8b
    script.search(title, of, seq, batch, cards)
    assert lines == capsys.readouterr().out.splitlines()
    assert f"{cards} 卡" in title


@pytest.mark.parametrize("batch", [1, 3, 512, 1000, 4097, 10**15])
@pytest.mark.parametrize("seq", [2, 6, 8192, 9000, 10**15])
def test_the_title_states_the_very_numbers(seq, batch):
    heading = notebook_lines(asked(seq=seq, batch=batch), 0, ())[0]
    length, tokens = re.search(r"，([\d.]+K?) 序列，每步 ([\d.]+M?) token", heading).groups()
    for shown, unit, count in ((length, 2**10, seq), (tokens, 2**20, seq * batch)):
        scale = unit if shown[-1] in "KM" else 1
        assert Fraction(shown.rstrip("KM")) * scale == count


@pytest.mark.parametrize(
    ("seq", "shown"),
    [
        (8192, "8K"), (8192 + 512, "8.5K"), (8192 + 256, "8.25K"), (8192 + 128, "8.125K"),
        (8192 + 64, "8256"), (1_000_000, "1000000"),
    ],
)  # fmt: skip
def test_a_length_has_at_most_three_digits_after_the_point(seq, shown):
    heading = notebook_lines(asked(seq=seq, cp=1), 0, ())[0]
    assert f"，{shown} 序列，" in heading


def test_plans_that_differ_in_the_micro_batch_alone_read_differently():
    ranking = search(asked(assumptions=CORRECTED))
    shown = [notebook_line(plan).split("：")[0] for plan in ranking.plans()]
    assert len(set(shown)) == len(shown) > 20
    assert "TP=8 CP=1 PP=1 DP=8" in shown and "TP=8 CP=1 PP=1 DP=8 b=2" in shown


def test_exact_ties_stand_in_the_order_of_enumeration():
    ranking = search(of_notebook("8b-8-8k"))
    plans = ranking.plans()
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
