"""`derive ask` of a limit: how long, how many, how wide a step may be, from the step model."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from derive.commands.inputs import givers_of
from derive.commands.rows import derivation_lines, input_rows, plain, step_row
from derive.commands.typed import set_values
from derive.cost.limits import LIMITS
from derive.cost.step_assumptions import StepAssumptions, step_assumptions
from derive.cost.strategies import STRATEGIES
from derive.notation import tex
from derive.notation.errors import DeriveError, NotClosedForm, unknown
from derive.notation.quantity import Quantity, glossed
from derive.notation.read import ratio
from derive.solve.binding import Giver
from derive.solve.limit import LimitThreshold, bounded_text
from derive.solve.limit_steps import limit_steps
from derive.solve.steps import prove
from derive.solve.threshold import threshold

# What belongs to the strategies, by the name it has among the options.
ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "overlap": "--overlap", "passes": "--pass", "keep": "--keep", "gated": "--gated",
        "precision": "--precision", "gradients": "--gradients", "wrap": "--no-wrap",
        "feasible": "--feasible", "best": "--best",
    }
)  # fmt: skip


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The limit as JSON-ready data and as text. Raises DeriveError; UnknownName, with strategies
    and limits as known, where the name is neither."""
    if options.strategy not in LIMITS:
        raise unknown("strategy", options.strategy, [*STRATEGIES, *LIMITS])
    for name, option in ELSEWHERE.items():
        if getattr(options, name, None) not in (None, False):
            raise DeriveError(f"{option} plays no part in {options.strategy}; leave it out")
    typed_set = getattr(options, "assume", None)
    assumptions = step_assumptions("default" if typed_set is None else typed_set)
    limit, asked = LIMITS[options.strategy], ratio(options.question)
    found = threshold(limit, asked, assumptions, exact=options.form == "exact")
    givers = _givers(options, assumptions)
    typed = {symbol.name: value for symbol, value in set_values(options.set).items()}
    missing = found.missing(*givers, **typed)
    answer = None if missing else found.on(*givers, **typed)
    if answer is not None:
        found = answer.threshold
    number = answer.quantity if answer and answer.sides else None
    derivation = limit_steps(found) if options.steps or options.json else ()
    told = found.described if answer is None else answer.described
    data = {
        "strategy": options.strategy,
        "question": tex.text(found.symbol),
        "relation": found.direction,
        "closed_form": tex.text(found.closed_form),
        "latex": found.latex,
        "value": plain(number),
        "exact": str(number.value) if number else None,
        "unit": str(found.question.unit),
        "claim": found.limit.claim,
        "assumptions": told,
        "inputs": input_rows(*([number] if number else [])),
        "missing": [s.name for s in missing],
        "notes": list(answer.notes) if answer else [],
        "steps": [step_row(step, prove(step)) for step in derivation],
    }
    lines = [str(found), f"  so that {found.limit.claim}"]
    if options.steps:
        lines += derivation_lines(derivation)
    if answer is not None:
        lines += answer.number_lines
        if number is not None:
            lines += _other_form(found, givers, typed)
        lines += [f"  {note}" for note in answer.notes]
    if missing and (givers or typed):
        lines.append(f"  for a number, give a value to {glossed(missing)}")
    lines += ["  assumptions:", *(f"    {name}: {text}" for name, text in told.items())]
    if number is not None:
        used = {row["symbol"] for row in data["inputs"]}
        lines += [
            f"note: {name} plays no part in this answer" for name in typed if name not in used
        ]
    return data, "\n".join(lines)


def _givers(options: Namespace, assumptions: StepAssumptions) -> tuple[Giver, ...]:
    """The chip and the model; the chip as the notebook reads it where its assumptions are taken."""
    if assumptions.profile and "profile" not in getattr(options, "given", ()):
        options = Namespace(**{**vars(options), "profile": assumptions.profile})
    return givers_of(options)


def _other_form(
    found: LimitThreshold, givers: Sequence[Giver], typed: Mapping[str, Quantity]
) -> list[str]:
    """The number in the form that was not asked for, where it is another one."""
    option = "--large-n" if found.exact else "--exact"
    try:
        also = threshold(found.limit, found.symbol, found.assumptions, exact=not found.exact)
    except NotClosedForm:
        return []
    if also.closed_form == found.closed_form:
        return []
    missing = also.missing(*givers, **typed)
    if missing:
        needs = ", ".join(s.name for s in missing)
        return [f"  with {option}: {also}, which needs {needs} as well"]
    answer = also.on(*givers, **typed)
    if answer.threshold is not also or not answer.sides:
        return []
    return [f"  with {option}: {also.direction} {bounded_text(answer.sides[0])}"]
