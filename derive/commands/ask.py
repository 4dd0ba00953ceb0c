"""`derive ask`: a closed form, its derivation and its value; an optimum; what survives rounding."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import sympy as sp

from derive.commands.inputs import assumptions_of, givers_of, strategy_of, values_of
from derive.cost.assumptions import Assumptions
from derive.cost.strategies import Strategy
from derive.facts import Chip
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, NotClosedForm
from derive.notation.parse import ratio
from derive.notation.quantity import Quantity
from derive.solve.binding import Giver, values_from
from derive.solve.feasible import Feasible, feasible
from derive.solve.numerical import numerical
from derive.solve.optimum import optimum
from derive.solve.question import question
from derive.solve.steps import Step, prove, steps
from derive.solve.threshold import Threshold, threshold


@dataclass(frozen=True)
class Asked:
    """What was typed, read: the strategy, the question, assumptions and values."""

    strategy: Strategy
    expr: sp.Expr
    assumptions: Assumptions
    givers: tuple[Giver, ...]
    values: dict[str, object]

    @property
    def fixed(self) -> tuple[sp.Symbol, ...]:
        """Mesh axes that were given a value, and so are held rather than chosen."""
        symbols = self.expr.free_symbols
        return tuple(s for s in self.strategy.mesh if s.name in self.values and s not in symbols)


def read(options: Namespace) -> Asked:
    """Read the options; raises DeriveError for anything that cannot be understood."""
    return Asked(
        strategy_of(options.strategy),
        ratio(options.question),
        assumptions_of(options),
        givers_of(options),
        values_of(options.set),
    )


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The answer as JSON-ready data and as text. Raises DeriveError."""
    asked = read(options)
    if options.feasible:
        return _feasible(asked, options)
    if options.best:
        return _best(asked)
    try:
        found = threshold(asked.strategy, asked.expr, asked.assumptions, fixed=asked.fixed)
    except NotClosedForm as error:
        return _numerical(asked, error)
    derivation: Sequence[Step] = ()
    if options.steps or options.json:
        derivation = steps(asked.strategy, asked.expr, asked.assumptions, fixed=asked.fixed)
    return _threshold(asked, found, derivation, options.steps)


def _threshold(
    asked: Asked, found: Threshold, derivation: Sequence[Step], show_steps: bool
) -> tuple[dict[str, Any], str]:
    missing = _missing(asked, [b.expr for b in found.bounds])
    answer = None if missing else found.on(*asked.givers, **asked.values)
    sides = answer.sides if answer else ()
    bounds = []
    for index, bound in enumerate(found.bounds):
        value = sides[index].quantity if sides else None
        bounds.append(
            {
                "relation": bound.direction,
                "closed_form": tex.text(bound.expr),
                "latex": tex.tex(found.relations[index]),
                "value": _plain(value),
                "passes": list(bound.passes),
                "networks": list(bound.where),
            }
        )
    one = _one_side(bounds)
    data = {
        "strategy": asked.strategy.name,
        "question": tex.text(asked.expr),
        "relation": one["relation"] if one else "and",
        "closed_form": one["closed_form"] if one else str(found),
        "latex": found.latex,
        "value": one["value"] if one else None,
        "exact": str(sides[bounds.index(one)].quantity.value) if one and sides else None,
        "unit": str(found.question.unit),
        "bounds": bounds,
        "provided": [f"{tex.text(load)} <= 1" for load in found.provided],
        "split": {s.symbol.name: tex.text(s.at) for s in found.splits},
        "assumptions": asked.assumptions.described(),
        "inputs": [] if answer is None else _inputs(answer.quantity if one else sides[0].quantity),
        "missing": missing,
        "steps": [_step(step) for step in derivation],
    }
    lines = [str(found)]
    if show_steps:
        for place, step in enumerate(derivation, 1):
            lines += [f"{place:>3}. {step.words}", f"       {step.text}   [proved {prove(step)}]"]
    if answer is not None:
        lines.append(str(answer))
    else:
        lines += [*_needs(missing, asked), *_assumed(asked.assumptions)]
    return data, "\n".join(lines)


def _one_side(bounds: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The strictest of bounds that face one way; None where they face both."""
    directions = {b["relation"] for b in bounds}
    if len(directions) != 1:
        return None
    if any(b["value"] is None for b in bounds):
        return bounds[0] if len(bounds) == 1 else None
    pick = max if directions == {">="} else min
    return pick(bounds, key=lambda b: b["value"])


def _best(asked: Asked) -> tuple[dict[str, Any], str]:
    symbol = asked.expr
    if not isinstance(symbol, sp.Symbol):
        raise DeriveError(f"--best asks for a mesh axis such as X, found {tex.text(symbol)}")
    found = optimum(asked.strategy, symbol, asked.assumptions)
    missing = _missing(asked, [found.at])
    answer = None if missing else found.on(*asked.givers, **asked.values)
    data = {
        "strategy": asked.strategy.name,
        "question": symbol.name,
        "relation": "=",
        "closed_form": tex.text(found.at),
        "latex": found.latex,
        "value": _plain(answer.quantity) if answer else None,
        "exact": str(answer.value) if answer else None,
        "unit": str(v.unit_of_symbol(symbol)),
        "passes": list(found.passes),
        "second_derivative": tex.text(found.second),
        "assumptions": asked.assumptions.described(),
        "inputs": _inputs(answer.quantity) if answer else [],
        "missing": missing,
        "steps": [],
    }
    lines = [str(found), f"  second derivative there, positive: {tex.text(found.second)}"]
    lines += [str(answer)] if answer else [*_needs(missing, asked), *_assumed(asked.assumptions)]
    return data, "\n".join(lines)


def _feasible(asked: Asked, options: Namespace) -> tuple[dict[str, Any], str]:
    bound = values_from(asked.givers, asked.values, asked.assumptions)
    if v.N not in bound:
        raise DeriveError("--feasible needs the chips of the slice: --set N=8960")
    chips = bound[v.N].value
    if not chips.is_Integer:
        raise DeriveError(f"N: expected a whole number of chips, found {chips}")
    shape = None
    if options.feasible == "torus":
        shape = _shape(asked, int(chips))
    form = "exact" if options.form is None else options.form
    result = feasible(
        asked.strategy,
        int(chips),
        *asked.givers,
        splits=options.feasible,
        shape=shape,
        assumptions=asked.assumptions,
        values={k: x for k, x in asked.values.items() if k != "N"},
        form=form,
    )
    data = {
        "strategy": asked.strategy.name,
        "question": tex.text(asked.expr),
        "chips": result.chips,
        "splits": [_candidate(c) for c in result.candidates],
        "compute_bound": len(result.compute_bound),
        "best": _candidate(result.best) if result.best else None,
        "assumptions": result.assumptions.described(),
    }
    return data, _best_line(result)


def _best_line(result: Feasible) -> str:
    best = result.best
    if best is None:
        return f"{result}\nno split is compute-bound"
    mesh = " x ".join(f"{name}={n:,}" for name, n in best.degrees)
    return f"{result}\nbest: {mesh}"


def _candidate(c: Any) -> dict[str, Any]:
    return {
        "degrees": dict(c.degrees),
        "torus_axes": {name: float(n) for name, n in c.torus_axes},
        "chips": c.chips,
        "idle": c.idle,
        "ratio": float(c.ratio) if c.ratio.is_finite else None,
        "compute_bound": c.compute_bound,
    }


def _shape(asked: Asked, chips: int) -> tuple[int, ...]:
    for giver in asked.givers:
        if isinstance(giver, Chip) and giver.has("pod_shape"):
            shape = tuple(int(size) for size in giver.shape("pod_shape"))
            if prod(shape) == chips:
                return shape
            raise DeriveError(
                f"--feasible torus: the pod of {giver.name} is {' x '.join(map(str, shape))} = "
                f"{prod(shape):,} chips, found N = {chips:,}; a shape is known for whole pods only"
            )
    raise DeriveError("--feasible torus needs a chip whose pod shape is known: --chip tpu-v5p")


def _numerical(asked: Asked, error: NotClosedForm) -> tuple[dict[str, Any], str]:
    try:
        answer = numerical(
            asked.strategy,
            asked.expr,
            *asked.givers,
            assumptions=asked.assumptions,
            values=asked.values,
            fixed=asked.fixed,
        )
    except DeriveError as missing:
        raise NotClosedForm(f"{error}. Numerically: {missing}") from None
    side = answer.sides[0]
    data = {
        "strategy": asked.strategy.name,
        "question": tex.text(asked.expr),
        "relation": side.direction,
        "closed_form": None,
        "latex": None,
        "value": _plain(side.quantity),
        "exact": None,
        "unit": str(question(asked.expr).unit),
        "note": side.quantity.formula,
        "assumptions": asked.assumptions.described(),
        "inputs": _inputs(side.quantity),
        "missing": [],
        "steps": [],
    }
    return data, f"no readable closed form ({error}); numerically:\n{answer}"


def _missing(asked: Asked, exprs: Sequence[sp.Expr]) -> list[str]:
    """The symbols that a number still needs, alpha standing for C and W."""
    bound = set(values_from(asked.givers, asked.values, asked.assumptions))
    needed = {s for expr in exprs for s in expr.free_symbols}
    if v.alpha in needed and v.alpha not in bound:
        needed = (needed - {v.alpha}) | {v.C, v.W}
    left = needed - bound - {v.M_X, v.M_Y, v.M_Z}
    return [s.name for s in sorted(left, key=v.rank)]


def _needs(missing: list[str], asked: Asked) -> list[str]:
    if not (asked.givers or asked.values):
        return []
    glosses = ", ".join(f"{name} ({v.meaning(v.find(name)).gloss})" for name in missing)
    return [f"  for a number, give a value to {glosses}"]


def _assumed(assumptions: Assumptions) -> list[str]:
    return ["  assumptions:", *(f"    {k}: {t}" for k, t in assumptions.described().items())]


def _plain(quantity: Quantity | None) -> float | int | None:
    if quantity is None:
        return None
    return int(quantity.value) if quantity.value.is_Integer else float(quantity.value)


def _step(step: Step) -> dict[str, str]:
    return {
        "kind": step.kind,
        "words": step.words,
        "claim": step.text,
        "latex": step.latex,
        "proved": prove(step),
    }


def _inputs(quantity: Quantity) -> list[dict[str, Any]]:
    rows = []
    for name, given in quantity.inputs:
        rows.append(
            {
                "symbol": name,
                "value": _plain(given),
                "unit": str(given.unit),
                "of": given.of,
                "basis": given.basis,
                "source": given.source,
                "status": given.status,
            }
        )
        if given.inputs:
            rows += _inputs(given)
    return rows
