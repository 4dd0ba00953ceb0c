"""`derive plan`: the ranked plans of a model on so many cards, and why one beats another."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from derive.cost.step_assumptions import step_assumptions
from derive.facts import DEFAULT_PROFILE, Catalogue, chip, model, shipped
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, quoted, unknown
from derive.notation.quantity import Quantity
from derive.notation.typed_quantity import assignment, quantity
from derive.plan import report
from derive.plan.few import search_few
from derive.plan.found import Found
from derive.plan.plans import Plan
from derive.plan.task import Task, check_parameters, task

TOP_OF_STYLE = {"table": 10, "notebook": 3}
STYLES = tuple(TOP_OF_STYLE)
NOTHING_FITS = 1


def run(options: Namespace) -> tuple[dict[str, Any], str, int]:
    """The plans as JSON-ready data and as text, and the exit code: 1 where nothing fits.

    Raises DeriveError for input that no plan can have.
    """
    style = options.style or STYLES[0]
    if style not in STYLES:
        raise unknown("style", style, STYLES)
    top = _top(options.top, style)
    asked = task_of(options)
    also = [_degrees(text, "--also") for text in options.also or ()]
    found = search_few(asked, top=0 if also or options.why else top)
    pair = tuple(_plan(found, text) for text in options.why) if options.why and found.fit else None
    plans = found.plans(top)
    data = as_data(found, plans)
    if pair:
        data["why"] = _why_data(*pair)
    if not found.fit:
        text = [report.heading(asked), *report.nearest(found), *report.summary(found)]
        return data, "\n".join(text), NOTHING_FITS
    if style == "notebook":
        from derive.plan import notebook

        three = [(d["tp"], d["cp"], d["pp"]) for d in also]
        lines = list(notebook.lines(found, plans, three))
    else:
        lines = [report.heading(asked), *report.table(plans), *report.summary(found)]
        for degrees in also:
            rank = found.rank(degrees["tp"], degrees["cp"], degrees["pp"])
            lines.append(f"rank {rank}: {found.plan(rank).degrees}")
    if pair:
        lines += report.why(*pair)
    return data, "\n".join(lines), 0


def task_of(options: Namespace) -> Task:
    """What was typed as a task; raises DeriveError."""
    assumptions = step_assumptions(options.assume or "default")
    profile = options.profile or ("notebook" if "notebook" in assumptions.name else DEFAULT_PROFILE)
    known = _catalogue(options, profile)
    values: dict[Any, Quantity] = {}
    for text in options.set or ():
        symbol, value = assignment(text)
        if symbol in values:
            raise DeriveError(f"--set {symbol} is given twice, the second time {quoted(text)}")
        values[symbol] = value
    of = model(options.model, catalogue=known)
    asked = task(
        of,
        chip(options.chip, profile=profile, catalogue=known),
        cards=_count(options.cards, v.N, "--cards"),
        seq=_count(options.seq, v.T, "--seq"),
        batch=_count(options.batch, v.B_seq, "--batch"),
        assumptions=assumptions,
        values=values,
    )
    if v.P in values:
        check_parameters(of, asked)
    return asked


def _catalogue(options: Namespace, profile: str) -> Catalogue:
    if not options.facts:
        return shipped()
    # Imported here: it brings the strategies, which a plan does not need.
    from derive.commands.inputs import catalogue_of

    return catalogue_of(Namespace(facts=options.facts, profile=profile))


def _count(text: str, symbol: Any, option: str) -> int:
    try:
        value = quantity(text, v.unit_of_symbol(symbol), symbol.name).value
    except DeriveError as error:
        raise type(error)(f"{option}: {error}") from None
    if not value.is_Integer:
        raise DeriveError(f"{option}: expected a whole number, found {quoted(text)}")
    return int(value)


def _top(text: str | None, style: str) -> int:
    if text is None:
        return TOP_OF_STYLE[style]
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise DeriveError(f"--top: expected a whole number from 0 (all), found {quoted(text)}")
    return int(text)


def _degrees(text: str, option: str) -> dict[str, int]:
    from derive.commands.mesh import sizes_of

    found = sizes_of(text, option)
    for name in found:
        if name not in ("tp", "cp", "pp", "dp", "b_seq"):
            raise unknown("degree", name, ("tp", "cp", "pp", "dp", "b_seq"))
    return {"tp": 1, "cp": 1, "pp": 1, **found}


def _plan(found: Found, text: str) -> Plan:
    """The plan of a rank ("2") or of degrees ("tp=8,cp=1,pp=1", those left out being 1)."""
    if text.isascii() and text.isdigit():
        return found.plan(int(text[:12]))
    degrees = _degrees(text, "--why")
    rank = found.rank(degrees["tp"], degrees["cp"], degrees["pp"], degrees.get("b_seq"))
    return found.plan(rank)


def as_data(found: Found, plans: Sequence[Plan]) -> dict[str, Any]:
    """The outcome of a search as JSON-ready data; times in seconds, memory in bytes."""
    asked = found.task
    data: dict[str, Any] = {
        "model": asked.model,
        "chip": asked.chip,
        "cards": asked.cards,
        "seq": asked.seq,
        "batch": asked.batch,
        "assumptions": {"name": asked.assumptions.name, **asked.assumptions.described()},
        "candidates": found.candidates,
        "fit": found.fit,
        "rejected": found.rejected,
        "plans": [plan_data(plan) for plan in plans],
    }
    if found.nearest:
        data["nearest"] = [
            {**plan_data(plan), "lacks_bytes": float(plan.lacks_bytes)} for plan in found.nearest
        ]
    return data


def plan_data(plan: Plan) -> dict[str, Any]:
    """One plan as JSON-ready data."""
    return {
        "tp": plan.tp,
        "cp": plan.cp,
        "pp": plan.pp,
        "dp": plan.dp,
        "ep": 1,
        "virtual": 1,
        "micro_batch": plan.micro_batch,
        "mfu": float(plan.mfu),
        "step_seconds": float(plan.step_seconds),
        "memory_bytes": float(plan.memory_bytes),
        "recomputed_layers": plan.recomputed_layers,
        "layers_per_stage": plan.layers_per_stage,
        "parts": {**{name: float(part) for name, part in plan.parts.items()}, "ep": 0.0},
        "memory": {name: float(part) for name, part in plan.memory.items()},
    }


def _why_data(better: Plan, worse: Plan) -> dict[str, Any]:
    return {
        "first": better.degrees,
        "second": worse.degrees,
        "saved_seconds": float(worse.step_seconds - better.step_seconds),
        "parts": {name: float(saved) for name, saved in report.differences(better, worse)},
    }
