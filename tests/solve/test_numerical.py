"""The numerical answer: equal to the closed forms where they exist, and right where none does."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import sympy as sp
from loads_by_hand import QUESTIONS, SYMBOLS, random_point, worst

from derive.cost.assumptions import Assumptions, assume
from derive.cost.strategies import STRATEGIES, Strategy, cross_pod, fsdp, fsdp_tensor, layer
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, NotClosedForm
from derive.solve.numerical import numerical
from derive.solve.threshold import threshold

V5P, LLAMA = chip("tpu-v5p"), model("llama-3-70b")
ONE_BOUND = [
    (STRATEGIES[name], asked)
    for name, questions in QUESTIONS.items()
    for asked, mesh in questions.items()
    if mesh != "other"
]


@pytest.mark.parametrize(
    ("strategy", "asked"), ONE_BOUND, ids=[f"{s.name}-{q}" for s, q in ONE_BOUND]
)
@pytest.mark.parametrize("overlap", ["concurrent", "serial"])
def test_equal_to_the_closed_form(strategy: Strategy, asked: sp.Expr, overlap: str) -> None:
    for form in ("large-n", "exact"):
        assumptions = Assumptions(overlap=overlap, form=form)
        try:
            found = threshold(strategy, asked, assumptions)
        except NotClosedForm:
            continue
        point = random_point(f"numerical {strategy.name} {asked}")
        loads = {s for load in found.requirement.loads for s in load.total.free_symbols}
        needed = {*found.missing(), *(loads - {*strategy.mesh}), *asked.free_symbols}
        values = {s.name: point[s] for s in needed - {found.symbol}}
        values |= {s.name: round(point[s]) for s in needed if v.is_degree(s) and s.name in values}
        closed = found.on(**values)
        bisected = numerical(strategy, asked, assumptions=assumptions, values=values)
        assert bisected.sides[0].direction == found.bounds[0].direction
        assert abs(float(bisected) / float(closed) - 1) < 1e-9


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (v.B / v.N, {"N": 8960}),
        (v.N, {"B": 4_194_304}),
        (v.F, {"B": 4_194_304, "N": 8960, "F": 28672}),
        (v.alpha, {"B": 4_194_304, "N": 8960}),
        (v.W, {"B": 4_194_304, "N": 8960}),
    ],
    ids=str,
)
@pytest.mark.parametrize("passes", ["each", "step"])
@pytest.mark.parametrize("overlap", ["concurrent", "serial"])
def test_exact_collectives_by_brute_force_over_the_split(
    overlap: str, passes: str, asked: sp.Expr, given: Mapping[str, object]
) -> None:
    """No X makes it compute-bound just short of the answer; some X does just beyond."""
    assumptions = Assumptions(form="exact", overlap=overlap, passes=passes)
    answer = numerical(
        fsdp_tensor, asked, V5P, LLAMA, assumptions=assumptions, values={**given, "M_X": 2}
    )
    point = dict.fromkeys(SYMBOLS, 1) | {
        v.D: 8192, v.F: 28672, v.L: 80, v.C: sp.Integer(459 * 10**12), v.W: sp.Integer(18 * 10**10),
        v.M_X: 2, v.e: 2, v.e_g: 2, v.B: given.get("B", 0), v.N: given.get("N", 0),
    }  # fmt: skip
    inside = 1 if answer.sides[0].direction == ">=" else -1
    for side in (1, -1):
        value = answer.value * (1 + side * inside * sp.Rational(1, 10**4))
        here = dict(point)
        if asked == v.alpha:
            here[v.C] = value * here[v.W]
        elif asked == v.B / v.N:
            here[v.B] = value * here[v.N]
        else:
            here[asked] = value
        assert (worst(fsdp_tensor, assumptions, here, "split") <= 1) is (side == 1)


def test_exact_collectives_ask_for_less() -> None:
    """On a v5p pod 97.8 tokens a chip, against 113.4 where the shares are taken as whole."""
    exact = numerical(
        fsdp_tensor, v.B / v.N, V5P, LLAMA, form="exact", values={"N": 8960, "M_X": 2}
    )
    large = numerical(
        fsdp_tensor, v.B / v.N, V5P, LLAMA, form="large-n", values={"N": 8960, "M_X": 2}
    )
    assert abs(float(large) - 113.39460100446429) < 1e-9
    assert float(exact) < float(large)
    # at the bound both loads are 1: X - 1 = B M_X/alpha and Y - 1 = F M_Y/alpha
    y = 1 + 28672 / 2550
    assert abs(float(exact) - (8960 / y - 1) * 2550 / 2 / 8960) < 1e-9


def test_a_split_of_three_mesh_axes_with_one_fixed() -> None:
    three = layer("In[B_X, D_Y] . W_in[D_X, F_YZ] . W_out[F_YZ, D_X] -> Out[B_X, D_Y]")
    with pytest.raises(DeriveError):
        numerical(three, v.B / v.N, V5P, LLAMA, values={"N": 64})


def test_it_says_that_it_is_numerical() -> None:
    answer = numerical(fsdp_tensor, v.B / v.N, V5P, LLAMA, form="exact", values={"N": 8960})
    text = str(answer)
    assert "numerically, to 12 digits, from the exact loads" in text
    assert "exact: a collective over n devices sends (n-1)/n of the array" in " ".join(text.split())
    assert answer.quantity.status == "derived"
    names = [name for name, _ in answer.quantity.inputs]
    assert {"N", "F", "C", "W"} <= set(names)


def test_what_it_refuses() -> None:
    with pytest.raises(DeriveError, match="no value for N"):
        numerical(fsdp_tensor, v.B / v.N, V5P, LLAMA, form="exact")
    with pytest.raises(DeriveError, match="no value for C"):
        numerical(fsdp, v.B / v.X)
    with pytest.raises(NotClosedForm, match="always"):
        numerical(fsdp, v.F, V5P, values={"B": 10**9, "X": 2})
    with pytest.raises(NotClosedForm, match="never"):
        numerical(fsdp, v.F, V5P, values={"B": 1, "X": 100})
    with pytest.raises(NotClosedForm, match="several"):
        numerical(fsdp_tensor, v.Y, V5P, LLAMA, values={"B": 4_194_304, "N": 8960})
    with pytest.raises(DeriveError):
        numerical(cross_pod, v.B / v.S, V5P, assumptions=assume(passes="forward"))
