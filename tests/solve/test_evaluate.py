"""Expressions on arrays: the same numbers as by substitution, in the shape of the product grid."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from sympy.codegen.ast import FunctionCall

from derive.cost.network import seconds
from derive.cost.strategies import fsdp_tensor
from derive.facts import chip
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.notation.quantity import number
from derive.solve import evaluate as module
from derive.solve.evaluate import BLOCK, compiled, evaluate
from derive.solve.threshold import threshold

MIXED = threshold(fsdp_tensor, v.B / v.N).closed_form
SERIAL = threshold(fsdp_tensor, v.N, overlap="serial", form="exact").closed_form
TIMES = sp.Max(*(seconds(move, exact=True) for move in fsdp_tensor.passes()[0].moves))
GIVEN = {v.C: 459 * 10**12, v.W: 18 * 10**10, v.M_X: 2, v.M_Y: 1, v.D: 8192, v.e: 2, v.alpha: 2550}


def by_substitution(
    expr: sp.Expr, grid: dict[sp.Symbol, list[float]], given: dict[sp.Symbol, int]
) -> np.ndarray:
    """The same grid, point by point, in SymPy."""
    rows = [
        float(expr.xreplace(given | {s: sp.Rational(x) for s, x in zip(grid, point, strict=True)}))
        for point in product(*grid.values())
    ]
    return np.array(rows).reshape([len(values) for values in grid.values()])


@pytest.mark.parametrize("expr", [MIXED, SERIAL, TIMES], ids=["mixed", "serial", "times"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_equal_to_substitution(expr: sp.Expr, axes: int) -> None:
    source = random.Random(axes)
    names = sorted(expr.free_symbols - set(GIVEN), key=v.rank)
    grid = {s: [float(source.randint(2, 9000)) for _ in range(4 + k)] for k, s in enumerate(names)}
    used = dict(list(grid.items())[:axes])
    given = {s: x for s, x in GIVEN.items() if s in expr.free_symbols}
    given |= {s: int(values[0]) for s, values in grid.items() if s not in used}
    result = evaluate(expr, used, given)
    assert result.dtype == np.float64
    assert result.shape == tuple(len(values) for values in used.values())
    exact = {s: sp.Integer(x) for s, x in given.items()}
    np.testing.assert_allclose(result, by_substitution(expr, used, exact), rtol=1e-12)


def test_the_axes_are_in_the_order_of_the_grid() -> None:
    x, y = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0])
    np.testing.assert_array_equal(evaluate(v.X / v.Y, {v.X: x, v.Y: y}), x[:, None] / y[None, :])
    np.testing.assert_array_equal(evaluate(v.X / v.Y, {v.Y: y, v.X: x}), x[None, :] / y[:, None])


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float32, list])
def test_whole_numbers_do_not_overflow(kind: type) -> None:
    values = [4_194_304, 8192, 28672]
    given = values if kind is list else np.array(values, dtype=kind)
    result = evaluate(v.B * v.D * v.F * v.L * v.N, {v.B: given}, {
        v.D: 8192, v.F: 28672, v.L: 80, v.N: 8960,
    })  # fmt: skip
    expected = [float(x * 8192 * 28672 * 80 * 8960) for x in values]
    np.testing.assert_allclose(result, expected, rtol=1e-15)
    np.testing.assert_allclose(evaluate(v.B**-2, {v.B: given}), [1 / x**2 for x in values])


def test_what_does_not_depend_on_the_grid_fills_it() -> None:
    grid = {v.X: [1.0, 2.0], v.Y: [1.0, 2.0, 3.0]}
    np.testing.assert_array_equal(evaluate(v.alpha, grid, {v.alpha: 2550}), np.full((2, 3), 2550.0))
    np.testing.assert_array_equal(evaluate(sp.Rational(1, 4), grid), np.full((2, 3), 0.25))
    np.testing.assert_array_equal(evaluate(v.Y, grid), [[1.0, 2.0, 3.0]] * 2)
    assert evaluate(sp.Integer(7), {}).shape == ()
    assert float(evaluate(v.alpha, {}, {v.alpha: 3})) == 3.0


@pytest.mark.parametrize(
    "sizes",
    [
        (BLOCK + 7,), (3, BLOCK + 5), (BLOCK + 5, 3), (2, 3, BLOCK), (1, BLOCK + 1), (300, 1, 401),
        (7, 130, 131), (BLOCK,), (1, 1, 1),
    ],
    ids=str,
)  # fmt: skip
def test_grids_beyond_a_block(sizes: tuple[int, ...]) -> None:
    symbols = (v.X, v.Y, v.Z)[: len(sizes)]
    axes = [np.arange(1, size + 1, dtype=np.float64) for size in sizes]
    expr = sum((k + 1) * s for k, s in enumerate(symbols)) ** 2
    result = evaluate(expr, dict(zip(symbols, axes, strict=True)))
    views = np.meshgrid(*axes, indexing="ij", sparse=True)
    expected = sum((k + 1) * view for k, view in enumerate(views)) ** 2
    np.testing.assert_array_equal(result, np.broadcast_to(expected, sizes))


def test_blocks_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call of the compiled function makes at most a block."""
    sizes: list[int] = []
    plain = module.compiled

    def watched(*args: object, **more: object) -> object:
        function = plain(*args, **more)

        class Watching:
            arguments = function.arguments

            def __call__(self, arithmetic: object, values: dict[sp.Symbol, np.ndarray]) -> object:
                sizes.append(int(np.prod(np.broadcast_shapes(*map(np.shape, values.values())))))
                return function(arithmetic, values)

        return Watching()

    monkeypatch.setattr(module, "compiled", watched)
    evaluate(v.X * v.Y * v.Z, {v.X: np.ones(20), v.Y: np.ones(90), v.Z: np.ones(700)})
    assert max(sizes) <= BLOCK < sum(sizes) == 20 * 90 * 700


def test_an_empty_axis_gives_an_empty_grid() -> None:
    assert evaluate(v.X * v.Y, {v.X: [], v.Y: [1.0, 2.0]}).shape == (0, 2)
    assert evaluate(v.X * v.Y, {v.Y: [1.0, 2.0], v.X: np.array([])}).shape == (2, 0)


def test_values_may_be_quantities_of_a_chip() -> None:
    bound = chip("tpu-v5p").bindings()
    given = {s: bound[s] for s in (v.C, v.W)}
    assert evaluate(v.C / v.W * v.X, {v.X: [1.0, 2.0]}, given).tolist() == [2550.0, 5100.0]
    half = {v.alpha: number("2550.5", v.unit_of_symbol(v.alpha), "alpha")}
    assert evaluate(v.alpha * v.X, {v.X: [2.0]}, half).tolist() == [5101.0]


@pytest.mark.parametrize(
    "values",
    [
        [1.0, float("nan")],
        [float("inf")],
        [[1.0, 2.0]],
        3.0,
        ["a"],
        [None],
        [1 + 5j],
        [True],
        np.array(["2026"], "datetime64[Y]"),
        np.array([1], "timedelta64[s]"),
        np.ma.array([1, 2], mask=[0, 1]),
    ],
    ids=[
        "nan",
        "inf",
        "2d",
        "number",
        "text",
        "none",
        "complex",
        "bool",
        "date",
        "duration",
        "masked",
    ],
)
def test_axes_that_are_refused(values: object) -> None:
    with pytest.raises(DeriveError, match="X"):
        evaluate(v.X, {v.X: values})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    "factor", [sp.Integer(10) ** 400, sp.Float("1e400"), sp.Rational(1, 10**400)]
)
def test_numbers_beyond_float64_are_refused(factor: sp.Expr) -> None:
    with pytest.raises(DeriveError, match="range of float64"):
        evaluate(factor * v.X, {v.X: [1]})


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "1+", None, 10**50])
def test_values_that_are_refused(value: object) -> None:
    with pytest.raises(DeriveError):
        evaluate(v.X * v.alpha, {v.X: [1.0]}, {v.alpha: value})


def test_symbols_without_a_value_are_named() -> None:
    with pytest.raises(DeriveError, match="no value for F, alpha"):
        evaluate(v.X * v.F * v.alpha, {v.X: [1.0]})


def test_a_hostile_symbol_never_reaches_compilation(tmp_path: Path) -> None:
    """In lambdify the name of a symbol is source text."""
    target = tmp_path / "ran"
    hostile = sp.Symbol(f"__import__('pathlib').Path({str(target)!r}).touch()")
    for attempt in (
        lambda: evaluate(hostile * v.X, {v.X: [1.0]}),
        lambda: evaluate(v.X, {hostile: [1.0], v.X: [1.0]}),
        lambda: evaluate(hostile, {}, {}),
        lambda: evaluate(v.X * hostile, {v.X: [1.0]}, {hostile: 3}),
        lambda: compiled((hostile,)),
        lambda: compiled((v.X,), ((v.X, hostile),)),
        lambda: compiled((sp.Function(hostile.name)(v.X),)),
        lambda: evaluate(sp.Sum(v.X, (hostile, 1, 3)), {v.X: [1.0]}),
        lambda: evaluate(FunctionCall("print", (hostile,)), {v.X: [1.0]}),
        lambda: evaluate(sp.Integral(v.X, hostile), {v.X: [1.0]}),
        lambda: evaluate(sp.Function(hostile.name)(v.X), {v.X: [1.0]}),
    ):
        with pytest.raises(DeriveError):
            attempt()
    assert not target.exists()
    impostor = sp.Symbol("X")  # prints alike, and is not the vocabulary's
    with pytest.raises(DeriveError):
        evaluate(impostor, {impostor: [1.0]})


@pytest.mark.parametrize("bad", [[0.0, 1.0], [-1.0], [1.0, float("inf")]])
def test_values_of_an_axis_are_positive(bad: list[float]) -> None:
    with pytest.raises(DeriveError, match="M_X: expected a one-dimensional array of positive"):
        evaluate(v.alpha / v.M_X, {v.M_X: bad}, {v.alpha: 3})
