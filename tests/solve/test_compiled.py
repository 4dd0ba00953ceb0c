"""One function for fractions, floats and arrays: what substitution gives, at each one's size."""

from __future__ import annotations

import inspect
import random
import re
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
import sympy as sp

from derive.cost.assumptions import CORRECTIONS, step_assumptions
from derive.cost.step import step_model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, UnknownName
from derive.solve.evaluate import EXACT, LONGEST, Compiled, as_float, compiled, exactly, floats

SYMBOLS = (v.B, v.D, v.F, v.X, v.Y)
AXES = ((v.X,), (v.Y,))
SETS = [step_assumptions(name) for name in ("notebook", "corrected")]
SETS += [step_assumptions(f"notebook+{name}") for name in CORRECTIONS]
DEGREES = (v.tp, v.cp, v.pp, v.dp)


def page(function: Compiled) -> str:
    """The source text of a compiled function."""
    return inspect.getsource(function.body)


def drawn(draw: random.Random, deep: int) -> sp.Expr:
    """A random expression of every kind that has an exact value, positive where it is finite."""
    if not deep:
        return draw.choice((*SYMBOLS, sp.Rational(draw.randint(1, 9), draw.randint(1, 9))))
    parts = [drawn(draw, deep - 1) for _ in range(draw.randint(2, 3))]
    kind = draw.choice(("add", "mul", "over", "pow", "max", "min", "floor", "ceil", "sub", "zero"))
    first, second = parts[:2]
    return {
        "add": lambda: sp.Add(*parts),
        "mul": lambda: sp.Mul(*parts),
        "over": lambda: first / (second + 1),
        "pow": lambda: first ** draw.choice((-2, 2, 3)),
        "max": lambda: sp.Max(*parts, evaluate=False),
        "min": lambda: sp.Min(*parts, evaluate=False),
        "floor": lambda: sp.floor(first / (second + 1), evaluate=False) + 1,
        "ceil": lambda: sp.ceiling(first / (second + 1), evaluate=False) + 1,
        "sub": lambda: first + 1 - first / (second + 1),
        "zero": lambda: sp.Max(0, sp.ceiling(first - second, evaluate=False)) + 1,
    }[kind]()


@pytest.mark.parametrize("seed", range(60))
def test_fractions_floats_and_arrays_are_what_substitution_gives(seed: int) -> None:
    draw = random.Random(seed)
    expr = drawn(draw, 3)
    # Denominators of two, so that float64 holds each value.
    rows = [{s: Fraction(draw.randint(1, 40), 4) for s in SYMBOLS} for _ in range(4)]
    rows = [{**row, **{s: rows[0][s] for s in SYMBOLS[:3]}} for row in rows]
    function = compiled((expr,), axes=AXES)
    columns = {v.X: rows[0][v.X], v.Y: np.array([float(row[v.Y]) for row in rows])}
    given = {s: columns.get(s, rows[0][s]) for s in function.arguments}
    given = {s: x if isinstance(x, np.ndarray) else np.float64(float(x)) for s, x in given.items()}
    (array,) = function(floats(), given)
    for place, row in enumerate(rows):
        here = {**row, v.X: rows[0][v.X]}
        plain = exactly(expr, here)
        swapped = expr.xreplace(
            {s: sp.Rational(x.numerator, x.denominator) for s, x in here.items()}
        )
        swapped = swapped.doit() if swapped.free_symbols == set() else swapped
        assert plain == Fraction(int(sp.Rational(swapped).p), int(sp.Rational(swapped).q))
        (again,) = function(EXACT, here)
        assert again == plain
        apart = np.broadcast_to(array, (len(rows),))[place] - float(plain)
        if not expr.has(sp.floor, sp.ceiling):
            assert abs(apart) <= 1e-12 * abs(float(plain))


@pytest.mark.parametrize("assumptions", SETS, ids=lambda one: one.name)
def test_columns_and_blocks_make_the_steps_of_the_model(assumptions) -> None:  # type: ignore[no-untyped-def]
    """Every term on a product of columns and a row, against the same term in fractions."""
    model = step_model(assumptions)
    definitions = tuple((v.find(term.name), term.expr) for term in model.definitions)
    targets = (*(s for s, _ in definitions), model.seconds, model.memory_bytes, model.utilisation)
    blocks, plain = (
        compiled(targets, definitions, (DEGREES, (v.b_seq,))),
        compiled(targets, definitions),
    )
    draw = random.Random(assumptions.name)
    free = {*plain.arguments} - {*DEGREES, v.b_seq}
    constants = {s: Fraction(draw.randint(2, 100)) for s in sorted(free, key=v.rank)}
    sizes = {v.P: 7 * 10**10, v.D: 8192, v.V: 128256, v.n_V: 2, v.C: 10**15, v.M_hbm: 8 * 10**10}
    sizes |= {v.T: 2**20, v.B_seq: 2**12, v.n_node: 8, v.W_node: 10**11, v.W_dcn: 10**10}
    sizes |= {v.e: 2, v.A_kept: 34}  # a layer that is kept saves more than its input
    constants |= {s: Fraction(x) for s, x in sizes.items() if s in free}
    columns = [(2, 4, 1, 8), (1, 1, 5, 64), (8, 2, 16, 2)]
    micro = [1, 2, 4, 16]
    arrays = {s: np.float64(x) for s, x in constants.items()}
    arrays |= {
        s: np.array(x, dtype=float)[:, None]
        for s, x in zip(DEGREES, zip(*columns, strict=True), strict=True)
    }
    arrays[v.b_seq] = np.array(micro, dtype=float)[None]
    results = blocks(floats(), arrays)
    for i, degrees in enumerate(columns):
        for j, size in enumerate(micro):
            values = {**constants, **dict(zip(DEGREES, map(Fraction, degrees), strict=True))}
            wanted = plain(EXACT, {**values, v.b_seq: Fraction(size)})
            for target, result, value in zip(targets, results, wanted, strict=True):
                here = np.broadcast_to(result, (3, 4))[i, j]
                assert here == pytest.approx(float(value), rel=1e-9, abs=1e-9), target


class Counted(np.ndarray):
    """An array that counts the operations whose result is as large as a block."""

    whole = 0

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **more: object
    ) -> object:
        plain = [x.view(np.ndarray) if isinstance(x, Counted) else x for x in inputs]
        result = np.asarray(getattr(ufunc, method)(*plain, **more))
        Counted.whole += result.shape == (3, 4)
        return result.view(Counted)


def whole_operations(function: Compiled, columns: tuple[sp.Symbol, ...], row: sp.Symbol) -> int:
    """How many operations of a function have a result as large as a block."""
    values = {s: np.float64(2) for s in function.arguments}
    values |= {s: np.full((3, 1), 2.0).view(Counted) for s in columns}
    Counted.whole = 0
    with np.errstate(all="ignore"):
        function(floats(), {**values, row: np.full((1, 4), 2.0).view(Counted)})
    return Counted.whole


@pytest.mark.parametrize(("name", "most"), [("notebook", 33), ("corrected", 78)])
def test_few_operations_are_done_on_whole_blocks(name: str, most: int) -> None:
    """What depends on degrees alone stays a column, and what on the micro-batch alone a row."""
    model = step_model(name)
    definitions = tuple((v.find(term.name), term.expr) for term in model.definitions)
    seconds = sp.collect(model.seconds, v.n_mb)
    function = compiled((v.L_r, seconds), definitions, (DEGREES, (v.b_seq,)))
    assert 10 < whole_operations(function, DEGREES, v.b_seq) <= most


@pytest.mark.parametrize(
    ("expr", "number"),
    [
        (v.X * v.Y * v.B * v.D / v.F, 1), (v.X + v.Y + v.B - v.D, 1), (v.D / (v.X * v.Y * v.B), 1),
        (v.X * v.D * sp.ceiling(v.X / v.B) * v.Y * sp.floor(v.Y), 1), (v.X / v.Y, 1),
        (sp.Max(v.X, v.Y, v.B, v.D), 1), (sp.floor(v.X * v.B / (v.D * v.Y)), 2),
    ],
    ids=str,
)  # fmt: skip
def test_what_depends_on_no_block_is_computed_apart(expr: sp.Expr, number: int) -> None:
    assert whole_operations(compiled((expr,), axes=AXES), (v.X,), v.Y) == number


def test_a_page_stays_short() -> None:
    """What is there twice is not written out twice, or the text would double with each square."""
    deep = v.B + v.D
    for _ in range(6):
        deep = deep**2 + 1 / (deep + v.F)
    assert len(page(compiled((deep,)))) < 6 * 5 * LONGEST


def test_a_definition_is_a_line_for_all_that_need_it() -> None:
    meant = v.B + v.D
    source = page(compiled((v.X**2 + meant * v.F, v.X), ((v.X, meant), (v.Y, 1 / meant))))
    assert source.count("B + D") == 1 and "Y" not in source


def test_a_quotient_under_a_floor_is_divided_once() -> None:
    """49*(1/49) is below 1 in float64, as are 1/3 of 3 and others."""
    wrong = 0
    for below in range(1, 200):
        for expr in (v.B / v.D, v.X * v.B / (v.D * v.F), 2 * v.B / (3 * v.D), (v.B + v.F) / v.D):
            values = {v.B: 3 * below, v.D: below, v.F: below, v.X: below}
            exact = exactly(sp.floor(expr), {s: Fraction(x) for s, x in values.items()})
            function = compiled((sp.floor(expr),), axes=((v.B, v.D, v.F, v.X),))
            arrays = {s: np.array([float(x)]) for s, x in values.items()}
            assert function(floats(), arrays)[0][0] == exact
            wrong += np.floor(3 * below * (1 / below)) != 3
    assert wrong


def test_the_largest_of_zero_and_ceilings_is_one_ceiling() -> None:
    expr = sp.Max(0, sp.ceiling(v.B - v.D), sp.ceiling(v.F - v.D), evaluate=False)
    assert page(compiled((expr,))).count("_ceil(") == 1
    draw = random.Random(1)
    for _ in range(300):
        b, d, f = (Fraction(draw.randint(-40, 40), 4) for _ in range(3))
        assert exactly(expr, {v.B: b, v.D: d, v.F: f}) == max(0, ceil(b - d), ceil(f - d))


def test_deep_expressions_are_cut_into_lines() -> None:
    deep = v.B
    for _ in range(80):
        deep = 1 / (deep + 1)
    assert exactly(deep, {v.B: Fraction(1)}) < 1


def test_a_root_has_a_float_and_no_fraction() -> None:
    assert compiled((sp.sqrt(v.B),))(floats(), {v.B: np.float64(2)})[0] == 2**0.5
    with pytest.raises(DeriveError, match="no exact value of a power"):
        exactly(sp.sqrt(v.B), {v.B: Fraction(2)})
    for expr, value in ((sp.log(v.B), 0.0), (sp.exp(v.B), np.e), (sp.Mod(v.B, 2), 1.0)):
        assert compiled((expr,))(floats(), {v.B: np.float64(1)})[0] == value


@pytest.mark.parametrize("kind", [sp.sin, sp.Abs, sp.gamma, sp.Function("eval")])
def test_kinds_that_are_not_on_the_list_are_refused(kind: type) -> None:
    with pytest.raises(DeriveError, match=r"^no rule for the value of"):
        compiled((kind(v.B - v.D, evaluate=False),))
    with pytest.raises(UnknownName, match="unknown symbol"):
        compiled((sp.Symbol("q", positive=True),))
    with pytest.raises(UnknownName, match="not the vocabulary's"):
        compiled((sp.Symbol("B"),))


@pytest.mark.parametrize("name", ["notebook", "corrected"])
def test_a_page_names_symbols_of_the_vocabulary_and_nothing_else(name: str) -> None:
    """Beside them stand numbered operations and the functions of the arithmetic."""
    model = step_model(name)
    definitions = tuple((v.find(term.name), term.expr) for term in model.definitions)
    function = compiled((model.seconds, sp.sqrt(v.B), sp.log(v.D)), definitions)
    words = set(re.findall(r"[A-Za-z_]\w*", page(function)))
    own = {word for word in words if re.fullmatch(r"_\d+", word)}
    own |= {"def", "return", "_lambdifygenerated", "_given", *(f"_{name}" for name in EXACT)}
    assert words - own <= set(v.vocabulary())
    assert list(EXACT) == sorted(floats(), key=list(EXACT).index)


def test_a_symbol_without_a_value_is_named() -> None:
    with pytest.raises(DeriveError, match=r"^no value for D$"):
        exactly(v.B + v.D, {v.B: Fraction(1)})


def test_numbers_beyond_float64() -> None:
    assert as_float(Fraction(10) ** 400) == float("inf") == -as_float(-(Fraction(10) ** 400))
    assert as_float(Fraction(1, 3)) == 1 / 3
