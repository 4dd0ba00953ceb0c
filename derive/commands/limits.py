"""`derive ask` of a limit: how long, how many, how wide a step may be, from the step model."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import sympy as sp

from derive.commands.inputs import catalogue_of
from derive.commands.rows import input_rows, plain, step_row
from derive.cost.step_assumptions import StepAssumptions, step_assumptions
from derive.cost.strategies import STRATEGIES
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, NotClosedForm, ProofError, quoted, unknown
from derive.notation.parse import ratio
from derive.notation.printed import shown
from derive.notation.quantity import Quantity
from derive.notation.typed_quantity import assignment
from derive.plan.limit_steps import limit_steps
from derive.plan.limits import LIMITS, Limit, filled, limit
from derive.plan.task import DEGREES, facts_of

# What belongs to the strategies, by the name it has among the options.
ELSEWHERE = {
    "overlap": "--overlap", "passes": "--pass", "keep": "--keep", "gated": "--gated",
    "precision": "--precision", "gradients": "--gradients", "wrap": "--no-wrap",
    "feasible": "--feasible", "best": "--best",
}  # fmt: skip
FORMS = {
    "exact": "exact: (n-1)/n of a group of n is kept",
    "large-n": "large-n: (n-1)/n of a group of n is taken as 1",
}


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The limit as JSON-ready data and as text. Raises DeriveError; UnknownName, with strategies
    and limits as known, where the name is neither."""
    if options.strategy not in LIMITS:
        raise unknown("strategy", options.strategy, [*STRATEGIES, *LIMITS])
    for name, option in ELSEWHERE.items():
        if getattr(options, name, None) not in (None, False):
            raise DeriveError(f"{option} plays no part in {options.strategy}; leave it out")
    assumptions = step_assumptions(getattr(options, "assume", None) or "default")
    symbol = _symbol(options.question)
    form = options.form or "large-n"
    found = _limit(options.strategy, symbol, assumptions, form)
    given = _values(options, assumptions)
    values, missing = filled(found, assumptions, given)
    answer = None if missing else found.on(values)
    told_of = "" if answer is None else _beyond(found, answer)
    if answer is not None and not answer.value.is_finite:
        answer = None
    derivation = limit_steps(found) if options.steps or options.json else ()
    told = _assumed(assumptions, form, _matters(options.strategy, symbol, assumptions))
    data = {
        "strategy": options.strategy,
        "question": tex.text(found.asked),
        "relation": found.direction,
        "closed_form": tex.text(found.expr),
        "latex": tex.tex(found.relation),
        "value": plain(answer),
        "exact": str(answer.value) if answer else None,
        "unit": str(v.unit_of_symbol(found.asked)),
        "claim": found.claim,
        "assumptions": told,
        "inputs": input_rows(answer) if answer else [],
        "missing": [s.name for s in missing],
        "steps": [step_row(step, step.proved) for step in derivation],
    }
    lines = [str(found), f"  so that {found.claim}"]
    if options.steps:
        for place, step in enumerate(derivation, 1):
            lines += [f"{place:>3}. {step.words}", f"       {step.text}   [proved {step.proved}]"]
    if answer is not None:
        lines += _number(found, answer)
        lines += _other_form(options.strategy, found, assumptions, form, values)
    if told_of:
        lines.append(f"  {told_of}")
    if missing and given.keys() - assumptions.constants.keys():
        needs = ", ".join(f"{s.name} ({v.meaning(s).gloss})" for s in missing)
        lines.append(f"  for a number, give a value to {needs}")
    lines += ["  assumptions:", *(f"    {name}: {text}" for name, text in told.items())]
    used = {row["symbol"] for row in data["inputs"]}
    if answer is not None:
        typed = [text.partition("=")[0].strip() for text in options.set or ()]
        lines += [f"note: {n} plays no part in this answer" for n in typed if n not in used]
    return data, "\n".join(lines)


def _symbol(text: str) -> sp.Symbol:
    asked = ratio(text)
    if asked == v.T / v.cp:
        return v.T_r
    if not isinstance(asked, sp.Symbol):
        raise DeriveError(f"a limit is asked for one symbol, such as T_r, found {quoted(text)}")
    return asked


def _limit(name: str, symbol: sp.Symbol, assumptions: StepAssumptions, form: str) -> Limit:
    found = limit(name, symbol, assumptions, large=form == "large-n")
    try:
        limit_steps(found)
    except ProofError:
        raise NotClosedForm(f"{name}: no single bound on {symbol.name}") from None
    return found


def _matters(name: str, symbol: sp.Symbol, assumptions: StepAssumptions) -> bool:
    exact, large = (LIMITS[name].made(assumptions, form).load for form in (False, True))
    return bool(exact != large)


def _values(options: Namespace, assumptions: StepAssumptions) -> dict[sp.Symbol, Quantity]:
    """Facts of the chip and the model, the constants of the assumptions, then what was set."""
    profile = options.profile
    if "notebook" in assumptions.name and "profile" not in getattr(options, "given", ()):
        profile = "notebook"
    known = catalogue_of(Namespace(facts=options.facts, profile=profile))
    of_chip = chip(options.chip, profile=profile, catalogue=known) if options.chip else None
    of_model = model(options.model, catalogue=known) if options.model else None
    values = facts_of(of_model, of_chip, assumptions)
    typed: dict[sp.Symbol, Quantity] = {}
    for text in options.set or ():
        symbol, quantity = assignment(text)
        if symbol in typed:
            raise DeriveError(f"--set {symbol} is given twice, the second time {quoted(text)}")
        typed[symbol] = quantity
    for symbol in (*DEGREES, v.b_seq, v.B_seq, v.n_node):
        if symbol in typed and not typed[symbol].value.is_Integer:
            raise DeriveError(f"{symbol}: expected a whole number, found {typed[symbol].value}")
    if v.epsilon in typed and not 0 < typed[v.epsilon].value < 1:
        raise DeriveError(
            f"epsilon: expected a share between 0 and 1, found {typed[v.epsilon].value}"
        )
    return {**values, **typed}


def _assumed(assumptions: StepAssumptions, form: str, matters: bool) -> dict[str, str]:
    told = {"name": assumptions.name}
    told["form"] = FORMS[form] if matters else "exact and large-n are the same here"
    return {**told, **assumptions.described()}


def _beyond(found: Limit, answer: Quantity) -> str:
    """What a bound that is no positive number says."""
    if not answer.value.is_finite:
        return f"with these values there is no bound on {found.asked}"
    if answer.value > 0:
        return ""
    return f"with these values {'any' if found.direction == '>=' else 'no'} {found.asked} will do"


def _number(found: Limit, answer: Quantity) -> list[str]:
    first, *rest = repr(answer).splitlines()
    return [first.replace(" = ", f" {found.direction} ", 1), *rest, *_tree(answer)]


def _tree(answer: Quantity, depth: int = 1) -> list[str]:
    """The inputs, and those of what the step model defines."""
    lines = []
    for name, given in answer.inputs:
        origin = given.formula or ", ".join(x for x in (given.of, given.source, given.status) if x)
        lines.append(f"{'  ' * depth}{name} = {shown(given.value, given.unit)} ({origin})")
        if given.formula and given.inputs and not given.of:  # facts have trees of their own
            lines += _tree(given, depth + 1)
    return lines


def _other_form(
    name: str,
    found: Limit,
    assumptions: StepAssumptions,
    form: str,
    values: dict[sp.Symbol, Quantity],
) -> list[str]:
    """The number in the form that was not asked for, where it is another one."""
    other = "exact" if form == "large-n" else "large-n"
    try:
        also = limit(name, found.asked, assumptions, large=other == "large-n")
    except NotClosedForm:
        return []
    if also.expr == found.expr:
        return []
    values, missing = filled(also, assumptions, values)
    if missing:
        needs = ", ".join(s.name for s in missing)
        return [f"  with --{other}: {also}, which needs {needs} as well"]
    number = shown(also.on(values).value, v.unit_of_symbol(also.asked))
    return [f"  with --{other}: {also.direction} {number}"]
