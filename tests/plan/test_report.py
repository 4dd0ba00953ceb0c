"""What a prompt shows of a search, a plan, a task and a mesh, and the order of differences."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import pytest
from cases import asked, at, of_notebook, space

from derive.commands import plan as plan_command
from derive.commands.parser import parser
from derive.cost.assumptions import CORRECTED
from derive.plan import report
from derive.plan.mesh import lines, mesh, regrouped
from derive.plan.search import search

MODEL = "--model llama-3-70b --chip h100"


def printed(text: str) -> str:
    shown = plan_command.run(parser().parse_args(["plan", *text.split()]))[1]
    return shown.replace("\u00a0", " ")


@pytest.mark.parametrize("cards", [64, 7, 8])
def test_a_search_shows_what_the_command_prints(cards):
    task = asked(cards=cards, assumptions=CORRECTED)
    shown = f"{MODEL} --profile notebook --cards {cards} --seq 8192 --batch 512 --assume corrected"
    assert repr(search(task)) == printed(shown)


def test_a_search_shows_ten_plans_at_most_and_no_more_than_were_kept():
    task = asked(assumptions=CORRECTED)
    for top, shown in ((3, 3), (0, 10), (20, 10)):
        assert len(re.findall(r"^ +\d+ .*, .*%$", repr(search(task, top=top)), re.M)) == shown
    few = repr(search(task, space((8,), (1,), (1,))))
    assert "\n1 plan fits of 1 combination\nrests on" in few


def test_a_search_in_which_nothing_fits_counts_0_plans():
    for ranking in (search(asked(cards=7)), search(asked("llama-3-405b", cards=8, batch=8))):
        assert f"\n0 plans fit of {ranking.candidates} combinations\n" in repr(ranking)
        assert repr(ranking).split("\n")[1].startswith("nothing fits: ")
        assert "; nearest: the " in repr(ranking).split("\n")[1]


def test_heads_of_the_table_are_words():
    head = repr(search(asked())).split("\n")[1].split()
    assert head[5] == "micro-batch" and head[9] == "recomputed"


def test_a_plan_is_one_line():
    assert repr(search(asked()).plan(1)) == (
        "tp=4 cp=2 pp=2 dp=4: MFU 53.7%, 55.52 seconds a step, 66.5 GiB, 0 of 40 layers recomputed"
    )
    lacking = repr(at(asked(), 1, 1, 1, 64))
    assert lacking.endswith(", 80 of 80 layers recomputed, 218 GiB too much")


def test_a_task_is_the_heading():
    assert repr(asked()) == (
        "llama-3-70b on 64 x h100-sxm, 8,192 tokens a sequence, 512 sequences a step, "
        "assumptions: notebook"
    )


def test_a_mesh_is_its_groups():
    cards = mesh({"tp": 2, "cp": 2, "dp": 2, "pp": 2}, 8)
    assert repr(cards).split("\n") == lines(cards)
    assert (
        repr(cards).split("\n")[0]
        == "16 cards on 2 nodes, innermost first: tp=2 x cp=2 x dp=2 x pp=2"
    )
    folded = regrouped(cards, etp=1, ep=4)
    assert repr(folded).split("\n")[0].endswith("layer: etp=1 x ep=4 x edp=2 x pp=2")
    assert "edp  8 groups inside a node: [0, 4] [1, 5] [2, 6] [3, 7] ..." in repr(folded)
    assert max(map(len, repr(mesh({"tp": 1024, "pp": 1024}, 8)).split("\n"))) < 250


def test_the_largest_difference_stands_first_whatever_its_sign():
    first, second = search(of_notebook("70b-64-8k")).plans(2)
    parts = dict.fromkeys(first.parts, Fraction(3))
    better = replace(first, parts={**parts, "cp": Fraction(13)})
    worse = replace(second, parts={**parts, "dp": Fraction(5), "tp": Fraction(4)})
    assert report.differences(better, worse) == (("cp", -10), ("dp", 2), ("tp", 1))
    rows = [line.split() for line in report.why(better, worse)[2:5]]
    assert [row[0] for row in rows] == ["context", "data", "tensor"] and rows[0][5:7] == [
        "−10.00",
        "seconds",
    ]


def test_a_difference_is_told_as_a_share_of_the_second_step_and_a_row_adds_up():
    better, worse = search(of_notebook("70b-64-8k")).plans(2)
    ((name, saved), *_), row = report.differences(better, worse), report.why(better, worse)[2]
    told = float(row.split()[-1].rstrip("%").replace("−", "-"))
    assert told == pytest.approx(100 * float(saved / worse.step_seconds), abs=0.05), name
    for plan in (better, worse):
        assert sum(plan.row["parts"].values()) == pytest.approx(plan.row["step_seconds"])
