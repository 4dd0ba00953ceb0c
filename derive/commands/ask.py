"""`derive ask`: a closed form, its derivation and its value; an optimum; what survives rounding."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import sympy as sp

from derive.commands.inputs import OPTIONS, assumptions_of, givers_of, set_values, subject_of
from derive.cost.assumptions import Assumptions, step_assumptions
from derive.cost.limits import Limit
from derive.cost.load import Requirement, compute_bound
from derive.cost.strategies import Strategy
from derive.facts import Chip, Model
from derive.facts.catalogue import tree
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, NotClosedForm
from derive.notation.quantity import Quantity, glossed
from derive.notation.read import ratio
from derive.solve.answer import Answer, Bounded, assumption_lines, holds
from derive.solve.derivation import Step, derived, prove
from derive.solve.derivation import steps as steps_to
from derive.solve.feasible import LARGEST, Feasible, feasible
from derive.solve.links import suited
from derive.solve.numerical import numerical
from derive.solve.optimum import Optimum, optimum
from derive.solve.question import STATE, axes_held, question
from derive.solve.smt import statement
from derive.solve.threshold import Threshold, threshold
from derive.solve.times import TIMED, layer_time
from derive.solve.values import Giver, whole


@dataclass(frozen=True)
class Asked:
    """What was typed, read: the strategy or limit, the question, assumptions and values."""

    subject: Strategy | Limit
    expr: sp.Expr
    assumptions: Assumptions
    givers: tuple[Giver, ...]
    values: dict[str, Quantity]
    latex: bool  # whether TeX is asked for, which a long formula has none of

    @property
    def mesh(self) -> tuple[sp.Symbol, ...]:
        """The axes of a strategy; a limit has none."""
        return self.subject.mesh if isinstance(self.subject, Strategy) else ()


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The answer as JSON-ready data and as text. Raises DeriveError."""
    asked = _read(options)
    if asked.expr.free_symbols <= TIMED:
        data, lines = _timed(asked, options)
    elif options.smt:
        return _statement(asked, options)
    elif options.feasible is not None:
        if options.steps:
            raise DeriveError("--steps derives a closed form; --feasible has none, leave one out")
        data, lines = _feasible(asked, options.feasible)
    elif options.best:
        data, lines = _best(asked, options)
    else:
        data, lines = _bounds(asked, options)
    notes = _notes(asked)
    data["notes"] += notes
    return data, "\n".join([*lines, *(f"note: {note}" for note in notes)])


def _time(asked: Asked, options: Namespace) -> tuple[Quantity, tuple[str, ...]]:
    if isinstance(asked.subject, Limit):
        raise DeriveError(f"{asked.expr} is a time of a strategy or a block, not of a limit")
    for name in ("best", "feasible", "steps", "smt"):
        if getattr(options, name):
            raise DeriveError(f"{asked.expr}: a time of a layer takes no --{name}; leave it out")
    return layer_time(asked.subject, asked.expr, asked.givers, asked.values, asked.assumptions)


def _timed(asked: Asked, options: Namespace) -> tuple[dict[str, Any], list[str]]:
    quantity, idle = _time(asked, options)
    rests_on = compute_bound(asked.subject, asked.assumptions)
    said = {"closed_form": quantity.formula, "printed": [f"= {quantity.printed()}"]}
    data = _data(asked, rests_on) | number_data(quantity) | said | {"notes": list(idle)}
    notes = [f"  note: {note}" for note in idle]
    return data, [*tree(quantity), *notes, *assumption_lines(rests_on.described)]


def _check_options(subject: Strategy | Limit, options: Namespace) -> None:
    """Raise DeriveError for an option that plays no part."""
    if isinstance(subject, Strategy):
        if options.assume is not None:
            raise DeriveError("--assume is for limits such as context_ring; leave it out")
        return
    for name, option in (*OPTIONS.items(), ("feasible", "--feasible"), ("best", "--best")):
        if getattr(options, name, None) not in (None, False):
            raise DeriveError(f"{option} plays no part in {options.strategy}; leave it out")


def _read(options: Namespace) -> Asked:
    subject = subject_of(options.strategy, options)
    _check_options(subject, options)
    if isinstance(subject, Limit):
        under = step_assumptions(options.assume or "default")
        if options.form is not None:
            under = replace(under, form=options.form)
        # The chip is read as the notebook reads it where its assumptions are taken.
        if under.profile and "profile" not in getattr(options, "given", ()):
            options = Namespace(**{**vars(options), "profile": under.profile})
    else:
        under = assumptions_of(options)
        if options.feasible is not None and options.form is None:
            under = replace(under, form="exact")
    expr, values = ratio(options.question), set_values(options.set)
    return Asked(subject, expr, under, givers_of(options), values, options.json)


def number(options: Namespace) -> Quantity:
    """The strictest bound or the optimum that is asked for, with its tree. Raises DeriveError where
    values are missing, and where bounds face both ways."""
    asked = _read(options)
    if asked.expr.free_symbols <= TIMED:
        return _time(asked, options)[0]
    if options.best:
        return _optimum(asked).on(*asked.givers, **asked.values).quantity
    try:
        general = _general(asked)
    except NotClosedForm as error:
        return _numerically(asked, error).quantity
    return general.on(*asked.givers, **asked.values).quantity


def _statement(asked: Asked, options: Namespace) -> tuple[dict[str, Any], str]:
    """What the closed form claims, for a solver to read."""
    for other in ("feasible", "steps"):
        if getattr(options, other):
            raise DeriveError(f"--smt prints a statement alone; leave --{other} out")
    closed = _optimum(asked) if options.best else _general(asked)
    here = closed.suited(*asked.givers, **asked.values)
    text = statement(here.check, here.relations)
    data = {"strategy": asked.subject.name, "question": tex.text(asked.expr)}
    return data | {"closed_form": str(here), "smt": text}, text.rstrip("\n")


# The three answers.
def _bounds(asked: Asked, options: Namespace) -> tuple[dict[str, Any], list[str]]:
    try:
        general = _general(asked)
        closed = general.suited(*asked.givers, **asked.values)
    except NotClosedForm as error:
        return _numerical(asked, error)
    missing = general.missing(*asked.givers, **asked.values)
    answer = None if missing else general.on(*asked.givers, **asked.values)
    if answer is not None and isinstance(answer.threshold, Threshold):
        closed = answer.threshold
        if isinstance(asked.subject, Limit) and answer.sides:
            answer = replace(answer, notes=(*_other_form(closed, asked), *answer.notes))
    steps = derived(closed) if options.steps or options.json else ()
    # A bound that the values make infinite, or that says nothing beside another, has no side.
    sides = {(s.direction, s.passes, s.where): s for s in (answer.sides if answer else ())}
    faces = [sides.get((bound.direction, bound.passes, bound.where)) for bound in closed.bounds]
    bounds = [
        {
            "relation": bound.direction,
            "closed_form": tex.text(bound.expr),
            "latex": tex.tex(relation) if asked.latex else None,
            "value": face.quantity.plain if face else None,
            "printed": face.text if face else None,
            "passes": list(bound.passes),
            "networks": list(bound.where),
        }
        for bound, relation, face in zip(closed.bounds, closed.relations, faces, strict=True)
    ]
    one = _one_side(bounds)
    face = faces[bounds.index(one)] if one else None
    data = _data(
        asked,
        answer or closed,
        closed,
        answer,
        relation=one["relation"] if one else "and",
        closed_form=one["closed_form"] if one else str(closed),
        value=one["value"] if one else None,
        exact=str(face.quantity.value) if face else None,
        unit=str(closed.question.unit),
        missing=[symbol.name for symbol in missing],
        steps=steps,
        bounds=bounds,
        provided=list(map(tex.text, closed.provided)),
        conditions=[
            {"relation": tex.text(relation), "value": share.plain, "holds": holds(relation, share)}
            for relation, share in (answer.provided if answer else ())
        ],
        split={s.symbol.name: tex.text(s.at) for s in closed.splits},
    )
    lines = [str(closed)]
    if isinstance(asked.subject, Limit):
        data["claim"] = closed.requirement.claim
        lines.append(f"  so that {closed.requirement.claim}")
    if options.steps:
        lines += derivation_lines(steps)
    elif closed.splits:
        places = dict.fromkeys(f"{s.symbol} = {tex.text(s.at)}" for s in closed.splits)
        lines.append(f"  at the best split, {' or '.join(places)}")
    return data, lines + _number_lines(asked, closed, answer, missing)


def _general(asked: Asked) -> Threshold:
    """The threshold on any network; raises NotClosedForm for that on the chip's."""
    # First over the links that the chip has, so that a refusal speaks of those.
    what = question(asked.expr)
    fixed = axes_held(asked.subject, what, (), asked.values)
    under = suited(asked.subject, what, asked.assumptions, asked.givers, asked.values)
    threshold(asked.subject, asked.expr, under, fixed=fixed)
    return threshold(asked.subject, asked.expr, asked.assumptions, fixed=fixed)


def _number_lines(
    asked: Asked, closed: Bounded, answer: Answer | None, missing: Sequence[sp.Symbol]
) -> list[str]:
    if answer is not None:
        return [str(answer)]
    lines = [f"  note: {note}" for note in _idle(asked, closed)]
    if missing and (asked.givers or asked.values):
        lines.insert(0, f"  for a number, give a value to {glossed(missing)}")
    return lines + assumption_lines(closed.described)


def _idle(asked: Asked, closed: Bounded) -> tuple[str, ...]:
    """A note for each value given that will play no part in the number."""
    return closed.idle(closed.filled(asked.givers, asked.values), asked.values, asked.assumptions)


def _other_form(closed: Threshold, asked: Asked) -> list[str]:
    """The number in the form that was not asked for, where it is another one."""
    option, form = ("--large-n", "large-n") if closed.exact else ("--exact", "exact")
    try:
        also = threshold(closed.subject, closed.symbol, replace(closed.assumptions, form=form))
    except NotClosedForm:
        return []
    if also.closed_form == closed.closed_form:
        return []
    missing = also.missing(*asked.givers, **asked.values)
    if missing:
        needs = ", ".join(s.name for s in missing)
        return [f"with {option}: {also}, which needs {needs} as well"]
    answer = also.on(*asked.givers, **asked.values)
    if answer.threshold != also or not answer.sides:
        return []
    return [f"with {option}: {also.direction} {answer.sides[0].text}"]


def _one_side(bounds: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The strictest of bounds that face one way; None where they face both."""
    directions = {b["relation"] for b in bounds}
    if len(directions) != 1:
        return None
    valued = [b for b in bounds if b["value"] is not None]
    if not valued:
        return bounds[0] if len(bounds) == 1 else None
    return (max if directions == {">="} else min)(valued, key=lambda b: b["value"])


def _optimum(asked: Asked) -> Optimum:
    symbol = asked.expr
    if not isinstance(symbol, sp.Symbol):
        raise DeriveError(f"--best asks for a mesh axis such as X, found {tex.text(symbol)}")
    mesh = asked.mesh
    held = [s for s in mesh if s.name in asked.values]
    if len(mesh) == 1:
        raise DeriveError(f"--best: {asked.subject.name} has nothing to choose; leave it out")
    if held and (symbol in held or len(held) > len(mesh) - 2):
        one = symbol if symbol in held else held[0]
        raise DeriveError(f"--best chooses the mesh at N chips; leave out --set {one}")
    best = optimum(asked.subject, symbol, asked.assumptions, fixed=held)
    return best.suited(*asked.givers, **asked.values)


def _best(asked: Asked, options: Namespace) -> tuple[dict[str, Any], list[str]]:
    best = _optimum(asked)
    try:
        steps = _steps_to_split(best) if options.steps or options.json else []
    except NotClosedForm:  # of the largest slice, which the split itself does not need
        if options.steps:
            raise
        steps = []
    missing = best.missing(*asked.givers, **asked.values)
    answer = None if missing else best.on(*asked.givers, **asked.values)
    data = _data(
        asked,
        answer or best,
        best,
        answer,
        closed_form=tex.text(best.at),
        value=answer.quantity.plain if answer else None,
        exact=str(answer.value) if answer else None,
        unit=str(best.question.unit),
        missing=[symbol.name for symbol in missing],
        steps=steps,
        passes=list(best.passes),
        second_derivative=tex.text(best.second),
    )
    lines = [str(best), *derivation_lines(steps)]
    lines.append(f"  second derivative there, positive: {tex.text(best.second)}")
    return data, lines + _number_lines(asked, best, answer, missing)


def _steps_to_split(best: Optimum) -> list[Step]:
    """The derivation of the largest slice as far as its best split, which is the optimum."""
    every = list(steps_to(best.subject, v.N, best.assumptions, fixed=best.fixed))
    ends = [place for place, step in enumerate(every, 1) if step.kind == "split"]
    return every[: ends[0]] if ends else []


def _numerically(asked: Asked, error: NotClosedForm) -> Answer:
    try:
        return numerical(
            asked.subject,
            asked.expr,
            *asked.givers,
            assumptions=asked.assumptions,
            values=asked.values,
        )
    except NotClosedForm as why:
        raise NotClosedForm(f"{error}; {why}") from None
    except DeriveError as missing:
        if isinstance(asked.subject, Limit):
            raise error from None
        raise NotClosedForm(f"{error}; for a numerical answer: {missing}") from None


def _numerical(asked: Asked, error: NotClosedForm) -> tuple[dict[str, Any], list[str]]:
    answer = _numerically(asked, error)
    side = answer.sides[0]
    data = _data(
        asked,
        answer,
        answer=answer,
        relation=side.direction,
        value=side.quantity.plain,
        unit=str(question(asked.expr).unit),
        note=side.quantity.formula,
    )
    return data, [f"{error}; numerically:", str(answer)]


def _data(
    asked: Asked,
    rests_on: Answer | Bounded | Requirement,
    closed: Bounded | None = None,
    answer: Answer | None = None,
    *,
    steps: Sequence[Step] = (),
    **stated: Any,
) -> dict[str, Any]:
    """What every answer says, in the order of the names that it has, and then what one says
    beside; what is not stated it has not."""
    network = rests_on.assumptions.network if isinstance(asked.subject, Strategy) else None
    return {
        "strategy": asked.subject.name,
        "question": tex.text(closed.question.expr if closed is not None else asked.expr),
        "relation": "=",
        "closed_form": None,
        "latex": closed.latex if closed is not None and asked.latex else None,
        "value": None,
        "exact": None,
        "printed": [f"{side.direction} {side.text}" for side in answer.sides] if answer else [],
        "unit": None,
        "network": "torus" if network == "chip" else network,
        "assumptions": dict(rests_on.described),
        "inputs": input_rows(*(side.quantity for side in answer.sides)) if answer else [],
        "missing": [],
        "notes": list(answer.notes if answer else _idle(asked, closed) if closed else ()),
        "steps": [
            {
                "kind": step.kind,
                "words": step.words,
                "claim": step.text,
                "latex": step.latex if asked.latex else None,
                "proved": prove(step),
                "proof": step.certainty,
            }
            for step in steps
        ],
    } | stated


# What survives rounding.
def _feasible(asked: Asked, splits: str) -> tuple[dict[str, Any], list[str]]:
    """The splits and whether each is compute-bound, as data and as text. Raises DeriveError.

    `value` is the degree of the axis asked for at the best split, null where none is compute-bound.
    """
    axes = " or ".join(map(str, asked.mesh))
    for symbol in sorted(asked.expr.free_symbols, key=v.rank):
        if v.meaning(symbol).role == "mesh" and symbol not in (v.N, *asked.mesh):
            told = f"{asked.subject.name} has no mesh axis {symbol}"
            raise DeriveError(f"--feasible: {told}; ask for {axes or 'another strategy'}")
    if "N" not in asked.values:
        raise DeriveError("--feasible needs the chips of the slice: --set N=8960")
    chips = whole(asked.values["N"], v.N, "N", LARGEST)
    result = feasible(
        asked.subject,
        chips,
        *asked.givers,
        splits=splits,
        shape=_shape(asked.givers, chips) if splits == "torus" else None,
        assumptions=asked.assumptions,
        values={name: value for name, value in asked.values.items() if name != "N"},
    )
    best = result.best
    line = "no split is compute-bound"
    if best:
        mesh = " x ".join(f"{name}={degree:,}" for name, degree in best.degrees)
        line = f"best: {mesh}" + "".join(f" {name}={n}" for name, n in best.torus_axes)
    data = _data(
        asked,
        result.requirement,
        value=dict(best.degrees).get(str(asked.expr)) if best else None,
        unit="way",
        chips=result.chips,
        splits=[c.row for c in result.candidates],
        compute_bound=len(result.compute_bound),
        best=best.row if best else None,
        inputs=input_rows(result),
        notes=list(result.notes),
    )
    return data, [str(result), line]


def _shape(givers: Sequence[Giver], chips: int) -> tuple[int, ...]:
    for giver in givers:
        if isinstance(giver, Chip) and giver.has("pod_shape"):
            shape = tuple(int(size) for size in giver.shape("pod_shape"))
            if prod(shape) == chips:
                return shape
            pod = f"{' x '.join(map(str, shape))} = {prod(shape):,} chips, found N = {chips:,}"
            told = f"a shape is known for whole pods only: set N={prod(shape)}"
            raise DeriveError(f"--feasible torus: the pod of {giver.name} is {pod}; {told}")
    raise DeriveError("--feasible torus needs a chip whose pod shape is known: --chip tpu-v5p")


# Rows of JSON and lines of text.
def derivation_lines(derivation: Sequence[Step]) -> list[str]:
    """The steps, numbered, each with its claim and how it was proved."""
    lines = []
    for place, step in enumerate(derivation, 1):
        lines += [f"{place:>3}. {step.words}", f"       {step.text}   [{step.certainty}]"]
    return lines


def number_data(quantity: Quantity) -> dict[str, Any]:
    """A number as JSON has it: as a float, exactly, its unit and its inputs."""
    rows = input_rows(quantity)
    value, exact = quantity.plain, str(quantity.value)
    return {"value": value, "exact": exact, "unit": str(quantity.unit), "inputs": rows}


def input_rows(*several: Quantity | Feasible) -> list[dict[str, Any]]:
    """The inputs of all of these, each once, each before its own inputs."""
    rows: dict[str, dict[str, Any]] = {}
    for one in several:
        for name, given in one.inputs:
            for row in (given.row(name), *input_rows(given)):
                rows.setdefault(row["symbol"], row)
    return list(rows.values())


def _notes(asked: Asked) -> list[str]:
    """What the answer's own lines do not say: a gated model."""
    plain_layer = (
        isinstance(asked.subject, Strategy)
        and asked.subject.gate is not None
        and not asked.assumptions.gated
        and not asked.expr.free_symbols & STATE
    )
    return [
        f"{giver.name} has three matrices per layer; --gated counts them"
        for giver in asked.givers
        if plain_layer and isinstance(giver, Model) and giver.gated
    ]
