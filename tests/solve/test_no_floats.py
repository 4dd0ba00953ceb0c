"""Exact numbers and declared symbols only, and no text that reaches SymPy's parser."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
import sympy as sp
from loads_by_hand import QUESTIONS

import derive.solve
from derive.cost.assumptions import BYTES, CHOICES, Assumptions
from derive.cost.load import compute_bound, timed_passes
from derive.cost.network import link_seconds, network_of, seconds
from derive.cost.strategies import STRATEGIES, Strategy
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.solve.derivation import steps
from derive.solve.optimum import optimum
from derive.solve.threshold import threshold

PACKAGE = Path(derive.solve.__path__[0]).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
ASSUMPTIONS = [
    Assumptions(overlap=overlap, form=form, precision=precision, passes=passes, gradients=gradients)
    for overlap, form, (precision, passes, gradients) in product(
        ("concurrent", "serial"),
        ("large-n", "exact"),
        (("bf16", "each", "same"), ("fp4", "step", "fp32"), ("any", "each", "same")),
    )
]


def check(expr: sp.Basic, where: object) -> None:
    """No float and no undeclared symbol in an expression."""
    assert not expr.atoms(sp.Float), (where, expr)
    for symbol in expr.free_symbols:
        assert v.meaning(symbol).symbol == symbol, (where, expr)


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_thresholds_and_conditions_are_exact(name: str) -> None:
    strategy = STRATEGIES[name]
    for assumptions in ASSUMPTIONS:
        for load in compute_bound(strategy, assumptions).loads:
            check(load.total, name)
        for cost in timed_passes(strategy, assumptions):
            check(cost.seconds, name)
            for traffic in cost.traffic:
                check(traffic.seconds, name)
                check(traffic.load, name)
        for asked in (*QUESTIONS[name], v.P, v.M_hbm):
            for expr in answered(strategy, asked, assumptions):
                check(expr, (name, asked))


def answered(strategy: Strategy, asked: sp.Expr, assumptions: Assumptions) -> Iterator[sp.Expr]:
    """Every expression of a threshold, or none where there is none."""
    try:
        found = threshold(strategy, asked, assumptions)
    except DeriveError:
        return
    yield from (bound.expr for bound in found.bounds)
    yield from found.relations
    yield from (relation.lhs for relation in found.provided)
    yield from (split.at for split in found.splits)


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_steps_are_exact(name: str) -> None:
    for asked in list(QUESTIONS[name])[:3]:
        for step in steps(STRATEGIES[name], asked):
            for claim in step.claims:
                check(claim, (name, asked, step.kind))


def test_optima_are_exact() -> None:
    for overlap in ("concurrent", "serial"):
        for passes in ("each", "forward", "backward", "step"):
            found = optimum(STRATEGIES["fsdp_tensor"], v.X, overlap=overlap, passes=passes)
            for expr in (found.at, found.objective, found.second):
                check(expr, (overlap, passes))


def test_costs_and_constants_are_exact() -> None:
    for strategy in STRATEGIES.values():
        mesh = tuple(axis.name for axis in strategy.mesh)
        for cost in strategy.passes():
            check(cost.flops, strategy.name)
            for move, exact, wrap in product(cost.moves, (True, False), (True, False)):
                check(seconds(move, exact=exact, wrap=wrap), strategy.name)
                for name in CHOICES["network"]:
                    for time in link_seconds(move, network_of(str(name), mesh), exact).values():
                        check(time, (name, move))
    for precision in (*BYTES, "any"):
        for value in Assumptions(precision=precision).elements.values():
            check(value, precision)
    for value in Assumptions().constants.values():
        check(value, "constants")


FORBIDDEN = {"sympify", "parse_expr", "subs", "eval", "exec", "S", "nsimplify", "lambdastr"}
TEXT_ALLOWED = {"Symbol", "Dummy", "Rational", "Float"}  # these take text as a name or a number


def calls(source: str) -> Iterator[tuple[ast.Call, str, bool]]:
    """Each call, the last part of what is called, and whether it is an attribute of `sp`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                of_sympy = isinstance(node.func.value, ast.Name) and node.func.value.id == "sp"
                yield node, node.func.attr, of_sympy
            elif isinstance(node.func, ast.Name):
                yield node, node.func.id, False


def violations(source: str) -> list[str]:
    """Calls through which text could reach a parser, or be executed."""
    found = []
    for node, name, of_sympy in calls(source):
        values = [*node.args, *(word.value for word in node.keywords if word.arg != "modules")]
        text = any(
            isinstance(x, ast.JoinedStr)
            or (isinstance(x, ast.Constant) and isinstance(x.value, str))
            for x in values
        )
        builtin = name in ("compile", "__import__") and isinstance(node.func, ast.Name)
        if name in FORBIDDEN or builtin or (of_sympy and text and name not in TEXT_ALLOWED):
            found.append(f"line {node.lineno}: {name}")
    imported = [
        alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sympy")
        for alias in node.names
    ]
    return found + [f"import of {name}" for name in imported if name in FORBIDDEN]


@pytest.mark.parametrize("path", SOURCES, ids=[str(p.relative_to(PACKAGE)) for p in SOURCES])
def test_no_text_reaches_sympy(path: Path) -> None:
    assert violations(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "sp.sympify(text)", "sympify(text)", "parse_expr(text)", "x.subs(x, text)", "eval(text)",
        "exec(text)", "sp.S('1/3')", "sp.Max(x, 'F')", "sp.simplify('x')", "compile(text, '')",
        "from sympy import sympify", "sp.Integer(f'{text}')", "sp.Add(x, 'y')", "S(text)",
    ],
)  # fmt: skip
def test_the_check_itself_finds(line: str) -> None:
    assert violations(line)


def test_the_check_lets_pass() -> None:
    for line in (
        "re.compile(text)", "sp.Symbol('q')", "sp.Rational('3.3')", "x.xreplace({a: b})",
        "sp.lambdify(order, expr, modules='numpy')",
    ):  # fmt: skip
        assert not violations(line)


def test_the_sources_are_found() -> None:
    names = {path.relative_to(PACKAGE).as_posix() for path in SOURCES}
    assert {"solve/threshold.py", "cost/network.py", "notation/read.py"} <= names
