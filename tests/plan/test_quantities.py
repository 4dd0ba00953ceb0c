"""The numbers of a plan as quantities, each with its tree, also as `derive why` prints it."""

from __future__ import annotations

import random

import pytest
import sympy as sp
from cases import SEARCHES, asked, at, of_notebook, passing, space

from derive.cli import main
from derive.cost.assumptions import CORRECTED, NOTEBOOK
from derive.notation import symbols as v
from derive.notation.errors import UnknownName
from derive.notation.quantity import Quantity
from derive.notation.read import expression
from derive.notation.units import byte, second
from derive.plan.plan import Plan, plan_of
from derive.plan.search import search

TYPED = "--model llama-3-70b --chip h100 --cards 64 --seq 8192 --batch 512 --assume notebook"
GRID = space((1, 2, 4, 8), (1, 2, 4), (1, 2, 4, 5), (1, 2))


def some_plans() -> list[Plan]:
    draw = random.Random(3)
    tasks = [asked(cards=160, seq=32768, batch=320, assumptions=a) for a in (NOTEBOOK, CORRECTED)]
    return [plan_of(task, row) for task in tasks for row in draw.sample(passing(task, GRID), 6)]


def nodes(quantity: Quantity, seen: dict[int, Quantity]) -> dict[int, Quantity]:
    if id(quantity) not in seen:
        seen[id(quantity)] = quantity
        for _, child in quantity.inputs:
            nodes(child, seen)
    return seen


@pytest.mark.parametrize("plan", some_plans(), ids=lambda plan: str(plan.degrees))
def test_every_node_of_a_tree_is_its_formula_of_its_inputs(plan: Plan) -> None:
    """Each formula, read back and given the values below it, makes the value beside it."""
    step = plan.task.step
    kinds = step.memory[plan.fullest]
    names = [term.name for term in (*step.definitions, *step.parts, *kinds, step.model_flops)]
    seen: dict[int, Quantity] = {}
    for name in (*names, "seconds", "memory", "mfu"):
        nodes(plan.quantity(name), seen)
    checked = 0
    for node in seen.values():
        symbols = {v.find(name): given for name, given in node.inputs if name in v.vocabulary()}
        if not node.formula or len(symbols) < len(node.inputs):
            continue  # a sum of named parts, or a formula of a fact
        values = {symbol: given.value for symbol, given in symbols.items()}
        long = node.name == "L_r" and not plan.lacks_bytes  # too long to be typed
        expr = step.term("L_r").expr if long else expression(node.formula)
        assert expr.xreplace(values) == node.value, node.formula
        checked += 1
    assert checked > len(names)
    leaves = {leaf.name for leaf in plan.quantity("mfu").leaves()}
    assert {"eta", "C", "tp", "b_seq"} <= leaves


@pytest.mark.parametrize("plan", some_plans(), ids=lambda plan: str(plan.degrees))
def test_quantities_are_the_numbers_of_the_plan(plan: Plan) -> None:
    def same(quantity: Quantity, value: object) -> bool:
        return bool(quantity.value == sp.Rational(value.numerator, value.denominator))  # type: ignore[attr-defined]

    assert same(plan["mfu"], plan.mfu) and same(plan["seconds"], plan.step_seconds)
    assert same(plan["memory"], plan.memory_bytes)
    assert plan["memory_bytes"].unit == byte and plan["step_seconds"].unit == second
    assert all(same(plan[name], part) for name, part in plan.parts.items())
    assert all(same(plan[name], part) for name, part in plan.memory.items())
    assert (
        plan["L_r"].value == plan.recomputed_layers and plan["L_p"].value == plan.layers_per_stage
    )
    assert plan.known[v.tp].value == plan.tp and plan["micro_batch"].value == plan.micro_batch
    product = plan["mfu"].value * plan["seconds"].value * plan.task.cards * plan["C"].value
    assert product == plan["model_flops"].value
    sums = plan.value(v.t_slow + v.t_tp + v.t_cp + v.t_pp, second)
    assert sums.value == plan["t_mb"].value


def test_a_plan_that_does_not_fit_recomputes_all_and_says_so() -> None:
    plan = at(asked(), 1, 1, 1, 64)
    assert plan.lacks_bytes and plan["L_r"].formula == "L_p" and plan["L_r"].value == 80
    assert plan["memory"].value == sp.Rational(
        plan.memory_bytes.numerator, plan.memory_bytes.denominator
    )


def test_a_name_that_a_plan_lacks_is_answered_with_the_nearest() -> None:
    plan = at(asked(), 8, 1, 1, 8)
    with pytest.raises(
        UnknownName, match="unknown quantity of a plan 't_rin'; did you mean t_ring"
    ):
        plan.quantity("t_rin")


@pytest.mark.parametrize(
    ("figure", "first"),
    [
        ("plan.1.mfu", "mfu = model_flops/(step*N*C) = 0.5365  (derived)"),
        (
            "plan.2.memory",
            "memory = e*psi + e_g*psi + 3*e_32*psi/(cp*dp)"
            " + n_fly*(a_1*(L_p - L_r) + L_r*a_0) = 53.7 GB",
        ),
        ("plan.1.tp", "tp = n_mb*t_tp = 4.581 seconds"),
        ("plan.24.W_dcn", "W_dcn = 50 GB/s  (h100-sxm, "),
        ("plan.1.seconds", "step = "),
    ],
)
def test_why_of_a_plan(capsys: pytest.CaptureFixture[str], figure: str, first: str) -> None:
    assert main(["why", figure, *TYPED.split()]) == 0
    lines = capsys.readouterr().out.split("\n")
    rank = int(figure.split(".")[1])
    plan = search(of_notebook(next(iter(SEARCHES)))).plan(rank)
    assert lines[0] == f"{figure}  {plan!r}"
    assert lines[1].replace("\u00a0", " ").startswith(first)
    assert any(line.startswith("[") for line in lines) and "├─" in "".join(lines) + "├─"


def test_why_takes_what_a_plan_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "plan.1.t_1", *TYPED.split(), "--set", "eta=0.5", "--set", "tp=8"]) == 0
    out = capsys.readouterr().out
    assert "├─ eta = 0.5  (given)" in out.replace("└", "├") and "tp = 8 ways" in out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"plan.1.t_rin {TYPED}", "did you mean t_ring"),
        (f"plan.0.mfu {TYPED}", "expected a rank from 1 to 24, found 0"),
        (f"plan.25.mfu {TYPED}", "expected a rank from 1 to 24, found 25"),
        (f"plan.x.mfu {TYPED}", "expected plan.RANK.NAME, such as plan.1.mfu, found 'plan.x.mfu'"),
        (f"plan.1 {TYPED}", "expected plan.RANK.NAME"),
        ("plan.1.mfu --model llama-3-70b", "expected --chip as well"),
        (f"plan.1.mfu {TYPED.replace('64', '7')}", "nothing fits"),
        (f"plan.1.mfu {TYPED} --set tp=3", "heads do not split"),
        (f"plan.1.mfu {TYPED} --chapters chapters", "--chapters: not of 'plan.1.mfu'"),
        (f"06.alpha-v5p {TYPED}", "--model: of a plan alone"),
        ("06.alpha-v5p --set eta=0.5", "--set: of a plan alone"),
        ("06.unheard-of", "unknown figure"),
        ("plans.1.mfu", "expected CHAPTER.FIGURE"),
    ],
)
def test_why_of_what_there_is_not(capsys: pytest.CaptureFixture[str], text: str, told: str) -> None:
    assert main(["why", *text.split()]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and told in err
