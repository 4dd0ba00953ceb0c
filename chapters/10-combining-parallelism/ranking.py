"""The first plan of a small grid, by walking the expressions on arrays.

The search compiles a step model once and runs it on millions of plans. Here a hundred plans are
ranked under each of many models, and walking is quicker than compiling. The plan that is found is
evaluated exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.plan.plans import Plan, plan_of
from derive.plan.space import space_of
from derive.plan.task import Task

TIE = 1e-12


def walked(expr: sp.Expr, values: dict[sp.Symbol, Any]) -> Any:
    """The value of an expression of the step model in float64."""
    if isinstance(expr, sp.Symbol):
        return values[expr]
    if isinstance(expr, sp.Rational):
        return float(expr)
    if isinstance(expr, sp.Pow):
        return walked(expr.base, values) ** int(expr.exp)
    first, *others = (walked(arg, values) for arg in expr.args)
    if isinstance(expr, (sp.floor, sp.ceiling)):
        return np.floor(first) if isinstance(expr, sp.floor) else np.ceil(first)
    joins = {sp.Add: np.add, sp.Mul: np.multiply, sp.Max: np.maximum, sp.Min: np.minimum}
    for other in others:
        first = joins[type(expr)](first, other)
    return first


def candidates(task: Task) -> Any:
    """The rows tp, cp, pp, micro-batch and dp of the grid that no rule but memory rejects."""
    grid = space_of(task)
    axes = np.meshgrid(grid.tp, grid.cp, grid.pp, grid.micro_batch, indexing="ij")
    tp, cp, pp, micro = (axis.ravel() for axis in axes)
    node, layers, kv, least = (int(task.numbers[s]) for s in (v.n_node, v.L, v.K, v.T_min))
    pieces = 2 if "zigzag" in task.assumptions else 1
    dp = task.cards // (tp * cp * pp)
    good = (tp <= node) & ((kv % tp == 0) | (tp % kv == 0)) & (layers % pp == 0)
    good &= (cp == 1) | ((task.seq % (pieces * cp) == 0) & (task.seq // cp >= least))
    good &= dp * tp * cp * pp == task.cards
    good &= task.batch % np.maximum(dp * micro, 1) == 0
    return np.array([tp, cp, pp, micro, dp])[:, good]


def first_plan(task: Task) -> Plan:
    """The plan of the task's grid that fits and takes the least time; on a tie, the first."""
    rows = candidates(task)
    values: dict[sp.Symbol, Any] = {s: float(x) for s, x in task.numbers.items()}
    values |= zip((v.tp, v.cp, v.pp, v.b_seq, v.dp), rows.astype(np.float64), strict=True)
    for term in task.step.definitions:
        values[v.find(term.name)] = walked(term.expr, values)
    seconds = walked(task.step.seconds, values)
    seconds = np.where(values[v.L_r] <= values[v.L_p], seconds, np.inf)
    place = int(np.argmax(seconds <= seconds.min() * (1 + TIE)))
    tp, cp, pp, micro, dp = (int(x) for x in rows[:, place])
    found = plan_of(task, tp, cp, pp, dp, micro)
    if found.lacks_bytes:
        raise DeriveError(f"{found.degrees} does not fit after all")
    return found
