"""`derive ask --feasible`: what survives rounding to whole degrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import sympy as sp

from derive.cost.assumptions import Assumptions
from derive.cost.strategies import Strategy
from derive.facts import Chip
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError
from derive.solve.binding import Giver, values_from
from derive.solve.feasible import Candidate, Feasible, feasible


def run(
    strategy: Strategy,
    asked: sp.Expr,
    splits: str,
    assumptions: Assumptions,
    givers: Sequence[Giver],
    values: Mapping[str, object],
) -> tuple[dict[str, Any], str]:
    """The splits and whether each is compute-bound, as data and as text. Raises DeriveError.

    `value` is the degree of the axis asked for at the best split, null where none is compute-bound.
    """
    _check(strategy, asked, splits, values)
    bound = values_from(givers, values, assumptions)
    if v.N not in bound:
        raise DeriveError("--feasible needs the chips of the slice: --set N=8960")
    chips = bound[v.N].value
    if not chips.is_Integer:
        raise DeriveError(f"N: expected a whole number of chips, found {chips}")
    result = feasible(
        strategy,
        int(chips),
        *givers,
        splits=splits,
        shape=_shape(givers, int(chips)) if splits == "torus" else None,
        assumptions=assumptions,
        values={name: value for name, value in values.items() if name != "N"},
    )
    best = result.best
    degrees = dict(best.degrees) if best else {}
    data = {
        "strategy": strategy.name,
        "question": tex.text(asked),
        "relation": "=",
        "closed_form": None,
        "latex": None,
        "value": degrees.get(str(asked)),
        "unit": "way",
        "chips": result.chips,
        "splits": [_candidate(c) for c in result.candidates],
        "compute_bound": len(result.compute_bound),
        "best": _candidate(best) if best else None,
        "assumptions": result.assumptions.described(),
        "steps": [],
    }
    return data, _text(result)


def _check(strategy: Strategy, asked: sp.Expr, splits: str, values: Mapping[str, object]) -> None:
    axes = [str(axis) for axis in strategy.mesh]
    strange = [
        s.name
        for s in sorted(asked.free_symbols, key=v.rank)
        if v.meaning(s).role == "mesh" and s != v.N and s.name not in axes
    ]
    if strange:
        raise DeriveError(
            f"--feasible: {strategy.name} has no mesh axis {strange[0]}; "
            f"ask for {' or '.join(axes) or 'another strategy'}"
        )
    chosen = [*axes, *(f"M_{axis}" for axis in axes if splits == "torus")]
    given = [name for name in chosen if name in values]
    if given:
        raise DeriveError(f"--feasible {splits} chooses {given[0]}; leave out --set {given[0]}")


def _text(result: Feasible) -> str:
    best = result.best
    if best is None:
        return f"{result}\nno split is compute-bound"
    mesh = " x ".join(f"{name}={n:,}" for name, n in best.degrees)
    mesh += "".join(f" {name}={n}" for name, n in best.torus_axes)
    return f"{result}\nbest: {mesh}"


def _candidate(c: Candidate) -> dict[str, Any]:
    return {
        "degrees": dict(c.degrees),
        "torus_axes": {name: float(n) for name, n in c.torus_axes},
        "chips": c.chips,
        "idle": c.idle,
        "ratio": float(c.ratio) if c.ratio.is_finite else None,
        "compute_bound": c.compute_bound,
    }


def _shape(givers: Sequence[Giver], chips: int) -> tuple[int, ...]:
    for giver in givers:
        if isinstance(giver, Chip) and giver.has("pod_shape"):
            shape = tuple(int(size) for size in giver.shape("pod_shape"))
            if prod(shape) == chips:
                return shape
            raise DeriveError(
                f"--feasible torus: the pod of {giver.name} is {' x '.join(map(str, shape))} = "
                f"{prod(shape):,} chips, found N = {chips:,}; a shape is known for whole pods only"
            )
    raise DeriveError("--feasible torus needs a chip whose pod shape is known: --chip tpu-v5p")
