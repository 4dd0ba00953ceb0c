"""`derive ask`: a closed form, its derivation and its value; an optimum; what survives rounding."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from derive.commands import splits
from derive.commands.inputs import (
    assumptions_of,
    check_mesh,
    givers_of,
    strategy_of,
    values_of,
)
from derive.commands.rows import derivation_lines, input_rows, plain, step_row
from derive.cost.assumptions import Assumptions
from derive.cost.strategies import Strategy
from derive.facts import Model
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, NotClosedForm, UnknownName
from derive.notation.read import ratio
from derive.solve.binding import Giver, values_from
from derive.solve.feasible import FEASIBLE_DEFAULT
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
    assumptions = assumptions_of(options)
    if options.feasible is not None and options.form is None:
        assumptions = replace(assumptions, form=FEASIBLE_DEFAULT.form)
    asked = Asked(
        strategy_of(options.strategy),
        ratio(options.question),
        assumptions,
        givers_of(options),
        values_of(options.set, assumptions),
    )
    if options.feasible is None:
        check_mesh(asked.strategy, asked.values)
    return asked


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The answer as JSON-ready data and as text. Raises DeriveError."""
    try:
        strategy_of(options.strategy)
    except UnknownName:
        if "[" in options.strategy:
            raise
        # Imported here: it brings the step model, which a strategy does not need.
        from derive.commands import limits

        return limits.run(options)
    if getattr(options, "assume", None) is not None:
        raise DeriveError(f"--assume is for limits such as context_ring, not {options.strategy}")
    asked = read(options)
    if options.feasible is not None:
        if options.steps:
            raise DeriveError("--steps derives a closed form; --feasible has none, leave one out")
        data, text = splits.run(
            asked.strategy,
            asked.expr,
            options.feasible,
            asked.assumptions,
            asked.givers,
            asked.values,
        )
    elif options.best:
        data, text = _best(asked, options.steps or options.json)
    else:
        data, text = _bounds(asked, options)
    return data, "\n".join([text, *_notes(asked, data)])


def _bounds(asked: Asked, options: Namespace) -> tuple[dict[str, Any], str]:
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
    exprs = [*(b.expr for b in found.bounds), *found.provided]
    missing = _missing(asked, exprs)
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
                "value": plain(value),
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
        "assumptions": _assumptions(asked),
        "inputs": input_rows(*(side.quantity for side in sides)),
        "missing": missing,
        "steps": [step_row(step, prove(step)) for step in derivation],
    }
    lines = [str(found)]
    if show_steps:
        lines += derivation_lines(derivation)
    elif found.splits:
        places = dict.fromkeys(f"{s.symbol} = {tex.text(s.at)}" for s in found.splits)
        lines.append(f"  at the best split, {' or '.join(places)}")
    if answer is not None:
        lines.append(str(answer))
    else:
        lines += [*_needs(missing, asked), *_assumed(asked)]
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


def _best(asked: Asked, derive_it: bool) -> tuple[dict[str, Any], str]:
    symbol = asked.expr
    if not isinstance(symbol, sp.Symbol):
        raise DeriveError(f"--best asks for a mesh axis such as X, found {tex.text(symbol)}")
    held = [s.name for s in asked.strategy.mesh if s.name in asked.values]
    if held:
        raise DeriveError(f"--best chooses the mesh at N chips; leave out --set {held[0]}")
    found = optimum(asked.strategy, symbol, asked.assumptions)
    derivation = _steps_to_split(asked) if derive_it else []
    missing = _missing(asked, [found.at])
    answer = None if missing else found.on(*asked.givers, **asked.values)
    data = {
        "strategy": asked.strategy.name,
        "question": symbol.name,
        "relation": "=",
        "closed_form": tex.text(found.at),
        "latex": found.latex,
        "value": plain(answer.quantity) if answer else None,
        "exact": str(answer.value) if answer else None,
        "unit": str(v.unit_of_symbol(symbol)),
        "passes": list(found.passes),
        "second_derivative": tex.text(found.second),
        "assumptions": _assumptions(asked),
        "inputs": input_rows(answer.quantity) if answer else [],
        "missing": missing,
        "steps": [step_row(step, prove(step)) for step in derivation],
    }
    lines = [str(found)]
    lines += derivation_lines(derivation) if derivation else []
    lines.append(f"  second derivative there, positive: {tex.text(found.second)}")
    lines += [str(answer)] if answer else [*_needs(missing, asked), *_assumed(asked)]
    return data, "\n".join(lines)


def _steps_to_split(asked: Asked) -> list[Step]:
    """The derivation of the largest slice as far as its best split, which is the optimum."""
    made: list[Step] = []
    for step in steps(asked.strategy, v.N, asked.assumptions):
        made.append(step)
        if step.kind == "split":
            return made
    return []


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
    except NotClosedForm:
        raise error from None
    except DeriveError as missing:
        raise NotClosedForm(f"{error}; for a numerical answer: {missing}") from None
    side = answer.sides[0]
    data = {
        "strategy": asked.strategy.name,
        "question": tex.text(asked.expr),
        "relation": side.direction,
        "closed_form": None,
        "latex": None,
        "value": plain(side.quantity),
        "exact": None,
        "unit": str(question(asked.expr).unit),
        "note": side.quantity.formula,
        "assumptions": _assumptions(asked),
        "inputs": input_rows(side.quantity),
        "missing": [],
        "steps": [],
    }
    return data, f"{error}; numerically:\n{answer}"


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


def _assumptions(asked: Asked) -> dict[str, str]:
    """The assumptions by name; where memory is asked for, the state of a parameter too."""
    memory = bool(asked.expr.free_symbols & {v.P, v.M_hbm})
    return asked.assumptions.described(memory=memory)


def _assumed(asked: Asked) -> list[str]:
    described = _assumptions(asked)
    return ["  assumptions:", *(f"    {name}: {text}" for name, text in described.items())]


def _notes(asked: Asked, data: dict[str, Any]) -> list[str]:
    """What the answer's own lines do not say: a gated model, values that play no part."""
    lines = []
    for giver in asked.givers:
        if isinstance(giver, Model) and giver.gated and not asked.assumptions.gated:
            lines.append(f"note: {giver.name} has three matrices per layer; --gated counts them")
    rows = data.get("inputs")
    if rows:
        conditions = " ".join(data.get("provided", ()))
        used = {row["symbol"] for row in rows} | set(re.findall(r"[A-Za-z_]+", conditions))
        idle = [name for name in asked.values if name not in used]
        lines += [f"note: {name} plays no part in this answer" for name in idle]
    return lines
