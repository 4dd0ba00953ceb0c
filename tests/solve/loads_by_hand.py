"""Computation and communication time of a strategy, put together here from its passes alone.

Nothing of `derive.solve` is used: which times are compared, how passes and overlaps combine, what a
question does to the mesh and which split is best are all worked out again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import sympy as sp

from derive.cost.assumptions import Assumptions
from derive.cost.network import seconds
from derive.cost.strategies import STRATEGIES, Strategy
from derive.notation import symbols as v

BYTES = {"fp32": 4, "bf16": 2, "fp8": 1, "int8": 1, "fp4": sp.Rational(1, 2)}
SYMBOLS = (
    v.B, v.D, v.F, v.L, v.N, v.X, v.Y, v.Z, v.S, v.M_X, v.M_Y, v.M_Z,
    v.C, v.W, v.W_dcn, v.W_hbm, v.e, v.e_g, v.T, v.U, v.K, v.G, v.H, v.E, v.J, v.b_seq,
    v.fma, v.F_E, v.n_k, v.n_S, v.n_hit, v.x_cap,
)  # fmt: skip
Point = dict[sp.Symbol, Any]

# What a question does to the mesh: the degrees are given, the one axis is N, the split of N is
# free, or the other axis is N over the one asked for.
QUESTIONS: Mapping[str, Mapping[sp.Expr, str]] = {
    "data_parallel": {
        v.B / v.X: "given", v.W: "given", v.C: "given", v.B / v.N: "one",
    },
    "fsdp": {v.B / v.X: "given", v.alpha: "given", v.B / v.N: "one", v.N: "one"},
    "tensor_parallel": {
        v.Y: "given", v.F: "given", v.W: "given", v.C: "given", v.alpha: "given", v.N: "one",
    },
    "fsdp_tensor": {
        v.B / v.N: "split", v.N: "split", v.F: "split", v.W: "split",
        v.C: "split", v.alpha: "split", v.X: "other", v.Y: "other", v.B / v.X: "given",
    },
    "sequence_parallel": {
        v.B / v.N: "split", v.N: "split", v.W: "split", v.B / v.X: "given",
    },
    "hsdp": {v.B / v.X: "given"},
    "context_parallel": {v.T / v.X: "given", v.X: "given", v.G: "given", v.W: "given"},
    "context_gathered": {v.T / v.X: "given", v.X: "given", v.C: "given"},
    "ulysses": {v.W: "given", v.C: "given"},
    "expert_parallel": {v.F_E: "given", v.W: "given", v.C: "given"},
    "shared_dispatch": {v.F_E: "given", v.n_k: "given", v.W: "given"},
    "layer_dispatch": {v.W: "given", v.C: "given"},
    "node_limited": {v.F_E: "given", v.W: "given"},
    "pipeline": {v.Z: "given", v.F: "given", v.L / v.Z: "given", v.W: "given"},
    "cross_pod": {v.B / v.S: "given", v.S: "given", v.W_dcn: "given", v.C: "given"},
    "weight_reads": {v.B: "given", v.W_hbm: "given", v.C: "given"},
}  # fmt: skip


@cache
def ratios(strategy: Strategy, assumptions: Assumptions) -> tuple[Callable[..., Any], ...]:
    """T_comms/T_math of everything that must not exceed 1, as functions of `SYMBOLS`."""
    passes = {cost.name: cost for cost in strategy.passes(assumptions)}
    if assumptions.passes == "step":
        groups = [list(passes.values())]
    else:
        groups = [[p] for p in passes.values() if assumptions.passes in ("each", p.name)]
    found = []
    for group in groups:
        math = sum((cost.flops for cost in group), sp.S.Zero) / v.C
        times: dict[object, sp.Expr] = {}
        for cost in group:
            for move in cost.moves:
                took = seconds(move, exact=assumptions.form == "exact", wrap=assumptions.wrap)
                times[move.axes] = times.get(move.axes, sp.S.Zero) + took
        terms = list(times.values())
        if assumptions.overlap == "serial":
            terms = [sum(terms, sp.S.Zero)]
        found += [term / math for term in terms if term != 0]
    return tuple(map(_function, found))


@cache
def _function(ratio: sp.Expr) -> Callable[..., Any]:
    """A ratio as a function of `SYMBOLS`: most assumptions that differ have ratios in common."""
    return sp.lambdify(SYMBOLS, ratio, modules="numpy")  # type: ignore[no-any-return]


@cache
def constants_of(assumptions: Assumptions) -> dict[sp.Symbol, sp.Expr]:
    """Two FLOP a multiply-add, and the bytes of weights, activations and gradients."""
    values: dict[sp.Symbol, sp.Expr] = {v.fma: sp.Integer(2)}
    if assumptions.precision != "any":
        values[v.e] = sp.sympify(BYTES[assumptions.precision])
    if assumptions.gradients == "same":
        values[v.e_g] = v.e
    else:
        values[v.e_g] = sp.sympify(BYTES[assumptions.gradients])
    return values


def worst(strategy: Strategy, assumptions: Assumptions, point: Point, mesh: str) -> float:
    """The largest T_comms/T_math at a point, at the best split where that is free."""
    functions = ratios(strategy, assumptions)
    full = {s: float(x) for s, x in point.items()}
    for symbol, value in constants_of(assumptions).items():
        full[symbol] = full[value] if value.is_Symbol else float(value)
    if mesh == "one":
        full[strategy.mesh[0]] = full[v.N]
    if mesh != "split":
        values = [full[s] for s in SYMBOLS]
        return max(float(f(*values)) for f in functions)
    devices = full[v.N]
    low, high = 1.0, devices
    best = np.inf
    for _ in range(3):
        grid = np.geomspace(low, high, 301)
        along = full | {v.X: grid, v.Y: devices / grid}
        loads = np.max([f(*map(along.__getitem__, SYMBOLS)) for f in functions], axis=0)
        at = int(np.argmin(loads))
        best = float(loads[at])
        low, high = grid[max(at - 1, 0)], grid[min(at + 1, 300)]
    return best


def random_point(seed: str) -> Point:
    """Rational values near real ones, the same for the same seed."""
    source = random.Random(seed)

    def between(low: int, high: int) -> Fraction:
        return Fraction(source.randint(low * 1000, high * 1000), 1000)

    point = {
        v.B: between(10**6, 2 * 10**6), v.D: between(1000, 8000), v.F: between(20000, 60000),
        v.L: between(40, 100), v.N: between(50000, 10**5), v.X: between(100, 900),
        v.Y: between(2, 5), v.Z: between(2, 16), v.S: between(2, 8), v.W: between(50, 200),
        v.W_dcn: between(1, 5), v.W_hbm: between(500, 900), v.M_Z: Fraction(1),
        v.M_X: Fraction(source.choice((1, 2))), v.M_Y: Fraction(source.choice((1, 2))),
        v.T: between(10**5, 10**6), v.U: between(10**5, 10**6), v.K: between(4, 16),
        v.G: between(4, 16), v.H: between(64, 256), v.E: between(8, 64), v.J: between(100, 900),
        v.b_seq: Fraction(1), v.F_E: between(2000, 9000), v.n_k: between(2, 8),
        v.n_S: between(1, 2), v.n_hit: between(1, 2), v.x_cap: between(1, 2),
        v.e: Fraction(source.choice((1, 2, 4))), v.e_g: Fraction(source.choice((1, 2, 4))),
    }  # fmt: skip
    point[v.C] = point[v.W] * between(800, 1500)
    return point


@cache
def _sides(asked: sp.Expr) -> tuple[sp.Symbol, sp.Expr]:
    """The symbol that is asked, and the one that it is divided by, or 1."""
    above, below = asked.as_numer_denom()
    assert above.is_Symbol and (below.is_Symbol or below == 1)
    return above, below


def put(point: Point, asked: sp.Expr, value: Any, mesh: str) -> Point:
    """The point with the question at a value: its numerator's symbol is set, C for alpha."""
    made = dict(point)
    above, below = _sides(asked)
    if asked == v.alpha:
        made[v.C] = value * point[v.W]
    else:
        made[above] = value * point.get(below, 1)
    if mesh == "other":
        other = v.Y if asked == v.X else v.X
        made[other] = point[v.N] / value
    return made


def strategy_and_question() -> list[tuple[Strategy, sp.Expr, str]]:
    """Every strategy with each of its questions and what the question does to the mesh."""
    return [
        (STRATEGIES[name], asked, mesh)
        for name, questions in QUESTIONS.items()
        for asked, mesh in questions.items()
    ]
