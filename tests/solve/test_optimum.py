"""The best split against the least of a grid, and its second-order check."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sympy as sp
from loads_by_hand import SYMBOLS, ratios

from derive.cost.assumptions import Assumptions
from derive.cost.load import Load
from derive.cost.strategies import cross_pod, fsdp, fsdp_tensor, layer, weight_reads
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, NotClosedForm
from derive.solve.optimum import optimum
from derive.solve.powers import Balance, at_best_split
from derive.solve.threshold import threshold

CASE = {"B": 4_194_304, "N": 8960, "M_X": 2, "M_Y": 1}
V5P, LLAMA = chip("tpu-v5p"), model("llama-3-70b")


def least(assumptions: Assumptions) -> int:
    """The whole X at which T_comms/T_math is least, of all from 1 to the chips."""
    degrees = np.arange(1, 8961, dtype=np.float64)
    point = {s: 1.0 for s in SYMBOLS} | {
        v.B: 4194304.0, v.D: 8192.0, v.F: 28672.0, v.N: 8960.0, v.M_X: 2.0, v.C: 4.59e14,
        v.W: 1.8e11, v.e: 2.0, v.e_g: 2.0, v.X: degrees, v.Y: 8960 / degrees,
    }  # fmt: skip
    loads = [f(*(point[s] for s in SYMBOLS)) for f in ratios(fsdp_tensor, assumptions)]
    return int(degrees[np.argmin(np.max(loads, axis=0))])


@pytest.mark.parametrize("overlap", ["concurrent", "serial"])
@pytest.mark.parametrize(
    ("passes", "keep", "gated"),
    list(
        product(
            ("each", "forward", "backward", "step"),
            ("activations", "none", "weights", "all"),
            (False, True),
        )
    ),
)
def test_no_degree_on_a_grid_is_better(overlap: str, passes: str, keep: str, gated: bool) -> None:
    assumptions = Assumptions(overlap=overlap, passes=passes, keep=keep, gated=gated)
    found = float(optimum(fsdp_tensor, v.X, assumptions).on(V5P, LLAMA, **CASE))
    assert abs(found - least(assumptions)) <= 1


@pytest.mark.parametrize("passes", ["forward", "step"])
def test_exact_collectives_that_add_up_have_the_same_optimum(passes: str) -> None:
    assumptions = Assumptions(overlap="serial", form="exact", passes=passes)
    exact = optimum(fsdp_tensor, v.X, assumptions)
    assert exact.at == optimum(fsdp_tensor, v.X, passes=passes).at
    assert abs(float(exact.on(V5P, LLAMA, **CASE)) - least(assumptions)) <= 1
    with pytest.raises(NotClosedForm):
        optimum(fsdp_tensor, v.X, form="exact", passes=passes)


@pytest.mark.parametrize("overlap", ["concurrent", "serial"])
@pytest.mark.parametrize(
    ("passes", "keep", "whole"),
    [
        ("forward", "activations", 1619),
        ("each", "activations", 1619),
        ("step", "activations", 1322),
        ("step", "none", 1478),
        ("backward", "activations", 1145),
    ],
)
def test_the_case_of_the_chapter(overlap: str, passes: str, keep: str, whole: int) -> None:
    found = optimum(fsdp_tensor, v.X, overlap=overlap, passes=passes, keep=keep)
    answer = found.on(V5P, LLAMA, **CASE)
    assert round(float(answer)) == whole
    assert answer.quantity.unit == v.unit_of_symbol(v.X)


@pytest.mark.parametrize("overlap", ["concurrent", "serial"])
@pytest.mark.parametrize("passes", ["each", "forward", "backward", "step"])
def test_the_two_degrees_multiply_to_the_chips(overlap: str, passes: str) -> None:
    x, y = (optimum(fsdp_tensor, s, overlap=overlap, passes=passes).at for s in (v.X, v.Y))
    assert sp.simplify(x * y) == v.N


@pytest.mark.parametrize("overlap", ["concurrent", "serial"])
def test_the_sum_curves_upwards_at_the_optimum(overlap: str) -> None:
    for symbol in (v.X, v.Y):
        found = optimum(fsdp_tensor, symbol, overlap=overlap)
        assert found.second.is_positive
        slope = sp.diff(found.objective, symbol).xreplace({symbol: found.at})
        assert sp.simplify(slope) == 0
        assert sp.simplify(sp.diff(found.objective, symbol, 2).xreplace({symbol: found.at})
                           - found.second) == 0  # fmt: skip


def test_it_grows_with_the_root_of_batch_and_chips() -> None:
    powers = optimum(fsdp_tensor, v.X).at.as_powers_dict()
    half = sp.Rational(1, 2)
    assert {s: powers[s] for s in (v.B, v.N, v.M_X)} == {v.B: half, v.N: half, v.M_X: half}
    assert {s: powers[s] for s in (v.F, v.M_Y)} == {v.F: -half, v.M_Y: -half}


def test_what_has_no_single_optimum() -> None:
    for strategy, symbol in (
        (fsdp, v.X),
        (fsdp_tensor, v.Z),
        (weight_reads, v.X),
        (cross_pod, v.B),
    ):
        with pytest.raises(DeriveError):
            optimum(strategy, symbol)
    weights_only = layer("In[B_X, D] . W_in[D_XY, F] . W_out[F, D_XY] -> Out[B_X, D]")
    with pytest.raises(DeriveError):
        optimum(weights_only, v.X)


def test_it_shows_what_it_rests_on() -> None:
    found = optimum(fsdp_tensor, v.X, passes="step").on(V5P, LLAMA, **CASE)
    text = " ".join(str(found).split())
    assert text.startswith("X = 1,322 ways")
    assert "forward and backward taken together" in text
    assert "B = 4,194,304 tokens (given)" in text


HALF = sp.Rational(1, 2)


def at_best(*loads: Load) -> tuple[list[sp.Expr], tuple[Balance, ...]]:
    left, splits = at_best_split(loads, v.X)
    return [load.total for load in left], splits


@pytest.mark.parametrize("powers", list(product((HALF, 1, 2), (-HALF, -1, -2))), ids=str)
@pytest.mark.parametrize("constant", [0, sp.Rational(1, 3)])
def test_a_sum_is_least_where_it_says_and_as_large(
    powers: tuple[sp.Rational, sp.Rational], constant: sp.Rational
) -> None:
    rising, falling = 5 * v.X ** powers[0], 3 * v.X ** powers[1]
    both = ("forward", "backward")
    load = Load((rising, falling, constant) if constant else (rising, falling), ("X", "Y"), both)
    (value,), (split,) = at_best(load)
    assert (split.passes, split.summed) == (("forward",), True)
    here = load.total.xreplace({v.X: split.at})
    assert abs(sp.N(here - value, 30)) < 1e-25
    for off in (sp.Rational(999, 1000), sp.Rational(1001, 1000), HALF, 2):
        assert load.total.xreplace({v.X: split.at * off}).evalf(30) > sp.N(value, 30)


@pytest.mark.parametrize("powers", list(product((HALF, 1, 2), (-HALF, -1, -2))), ids=str)
def test_a_pair_is_equal_where_it_says(powers: tuple[sp.Rational, sp.Rational]) -> None:
    """And what does not have the symbol is left as it is."""
    terms = (5 * v.X ** powers[0], 3 * v.X ** powers[1], v.B / v.F)
    up, down, rest = (Load((term,), ("X",), ("forward",)) for term in terms)
    (kept, value), (split,) = at_best(down, rest, up)
    assert kept == rest.total and not split.summed
    for load in (up, down):
        assert abs(sp.N(load.total.xreplace({v.X: split.at}) - value, 30)) < 1e-25


def test_sums_that_compete_have_no_readable_best() -> None:
    terms = (2 * v.X, v.B / v.X)
    both = Load(terms, ("X", "Y"), ("forward",))
    for other in (both, Load(terms[:1], ("X",), ("forward",))):
        with pytest.raises(NotClosedForm, match="several sums compete for the best X"):
            at_best(both, other)
    left, splits = at_best(both, Load((v.B / v.F,), ("Z",), ("forward",)))
    assert left[0] == v.B / v.F and len(splits) == 1


def test_a_pair_is_of_the_passes_that_both_have_or_else_of_either() -> None:
    first, second = ("forward",), ("backward",)
    for up, down, left, shown in (
        (first + second, first + second, first + second, first),
        (first + second, second, second, second),
        (second, first, second + first, second + first),
    ):
        loads, (split,) = at_best_split(
            (Load((v.X,), ("X",), up), Load((v.B / v.X,), ("Y",), down)), v.X
        )
        assert [load.passes for load in loads] == [left] and split.passes == shown


@pytest.mark.parametrize("power", [1, -1])
def test_what_only_grows_or_only_falls_has_no_best(power: int) -> None:
    word = "grows" if power > 0 else "falls"
    terms = (2 * v.X**power, v.B * v.X**power)
    with pytest.raises(NotClosedForm, match=f"no best X: every load {word} with it"):
        at_best(*(Load((term,), ("X",)) for term in terms))
    with pytest.raises(NotClosedForm, match=f"no best X: the sum only {word} with it"):
        at_best(Load((*terms, v.B / v.F), ("X", "Y", "Z")))


@pytest.mark.parametrize(
    ("tokens", "beyond"), [(4_194_304, 64), (28672 * 64, None), (448, None), (447, 1)]
)
def test_an_optimum_at_an_end_of_the_mesh_lies_in_it(tokens: int, beyond: int | None) -> None:
    """X = sqrt(B N / F) with one torus axis each, and it is from 1 to N, both of them in it."""
    answer = optimum(fsdp_tensor, v.X).on(V5P, LLAMA, B=tokens, N=64, M_X=1, M_Y=1)
    assert answer.value**2 == (beyond**2 if beyond else sp.Rational(64 * tokens, 28672))
    assert any("the end X" in note for note in answer.notes) is (beyond is not None)


@pytest.mark.parametrize("overlap", ["concurrent", "serial"])
@pytest.mark.parametrize(("batch", "chips"), [(4_194_304, 64), (40, 64), (4_194_304, 8960)])
def test_it_lies_in_the_mesh_or_at_the_end_where_communication_is_least(
    overlap: str, batch: int, chips: int
) -> None:
    best = optimum(fsdp_tensor, v.X, overlap=overlap)
    answer = best.on(V5P, LLAMA, B=batch, N=chips)
    point = {v.B: batch, v.F: 28672, v.N: chips, v.M_X: 1, v.M_Y: 1, v.C: 4.59e14, v.W: 1.8e11}
    point[v.alpha] = 2550

    def load(degree: float) -> float:
        return float(best.objective.subs(point | {v.X: degree}))

    at = float(answer)
    assert 1 <= at <= chips
    inside = [1 + (chips - 1) * i / 20 for i in range(21)]
    assert all(load(at) <= load(degree) * (1 + 1e-12) for degree in inside)
    ends = [note for note in answer.notes if "the end X" in note]
    assert len(ends) == (at in (1, chips))
    assert answer.threshold is not None
    assert (answer.threshold.closed_form == best.at) == (not ends)
    assert "96.76" in ends[0] if at == 64 else True


@pytest.mark.parametrize(("width", "holds"), [(5000, True), (1000, False), (28672, True)])
def test_a_bound_at_the_best_split_is_of_a_mesh_that_can_be(width: int, holds: bool) -> None:
    answer = threshold(fsdp_tensor, v.N, overlap="serial").on(V5P, B=4_194_304, F=width)
    most = float(answer.value) if answer.sides else 0.0

    def least_load(chips: float) -> float:
        """Of the splits of the chips into degrees of at least 1."""
        degrees = np.geomspace(1, chips, 4001)
        return float(np.min(degrees * 2550 / 4_194_304 + chips / degrees * 2550 / width))

    assert bool(answer.sides) is holds
    assert least_load(max(1.0, most * 0.999)) <= 1 or not holds
    assert least_load(max(1.0, most * 1.001)) > 1
    assert any("less than 1" in note for note in answer.notes) == (width < 2 * 2550)


HSDP = layer("In[B_XZ, D_Y] . W_in[D_XZ, F_Y] . W_out[F_Y, D_XZ] -> Out[B_XZ, D_Y]")


@pytest.mark.parametrize("symbol", [v.X, v.Y])
def test_a_mesh_axis_that_is_held_leaves_two_to_balance(symbol: sp.Symbol) -> None:
    best = optimum(HSDP, symbol, fixed=v.Z)
    assert best == optimum(HSDP, symbol, fixed="Z") == optimum(HSDP, symbol, fixed=[v.Z])
    assert best.fixed == (v.Z,) and best.under(best.assumptions) == best
    first, second = (load.xreplace({symbol: best.at}) for load in best.split.loads)
    assert sp.powsimp(sp.powdenest(first / second, force=True), force=True) == 1
    product = optimum(HSDP, v.X, fixed=v.Z).at * optimum(HSDP, v.Y, fixed=v.Z).at * v.Z
    assert sp.simplify(product / v.N) == 1


@pytest.mark.parametrize(
    ("fixed", "told"),
    [
        ((), r"two can be: fixed=\[Z\]"),
        (v.X, "found X"),
        (v.S, r"expected mesh axes of layer \(X, Y, Z\), found S"),
        ("W", "found W"),
        (v.Y, "no best X"),
    ],
)
def test_what_cannot_be_held_is_told(fixed: object, told: str) -> None:
    with pytest.raises(DeriveError, match=told):
        optimum(HSDP, v.X, fixed=fixed)  # type: ignore[arg-type]
