"""`derive plan`: the ranked plans of a model on so many cards, and why one beats another."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import isfinite
from types import MappingProxyType
from typing import Any, NamedTuple

import sympy as sp

from derive.commands.typed import set_values
from derive.cost.step_assumptions import step_assumptions
from derive.facts import DEFAULT_PROFILE, Catalogue, chip, model, shipped
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, UnitError, quoted, unknown
from derive.notation.read import quantity
from derive.notation.units import sequence
from derive.plan import report
from derive.plan.exact import as_float
from derive.plan.few import search_few
from derive.plan.found import Found
from derive.plan.nearest import Near, Row
from derive.plan.plans import Plan, shown_degrees
from derive.plan.task import Task, check_parameters, task

TOP_OF_STYLE: Mapping[str, int] = MappingProxyType({"table": report.TOP, "notebook": 3})
STYLES = tuple(TOP_OF_STYLE)
NOTHING_FITS = 1
OPTIONS: Mapping[sp.Symbol, str] = MappingProxyType(
    {v.N: "--cards", v.T: "--seq", v.B_seq: "--batch"}
)


def run(options: Namespace) -> tuple[dict[str, Any], str, int]:
    """The plans as JSON-ready data and as text, and the exit code: 1 where nothing fits.

    Raises DeriveError for input that no plan can have.
    """
    style = STYLES[0] if options.style is None else options.style
    if style not in STYLES:
        raise unknown("style", style, STYLES)
    top = _top(options.top, style)
    also = [_Degrees.typed(text, "--also") for text in options.also or ()]
    why = [_rank_or_degrees(text) for text in options.why or ()]
    found = search_few(task_of(options), top=0 if also or why else top)
    if not found.fit:
        return _nothing(found, style)
    ranks = [degrees.rank(found, "--also") for degrees in also]
    pair = _pair(found, why) if why else None
    plans = found.plans(top)
    data = as_data(found, plans)
    if ranks:
        data["also"] = [{"rank": rank, **plan_data(found.plan(rank))} for rank in ranks]
    if pair:
        data["why"] = _why_data(*pair)
    if style == "notebook":
        from derive.plan import notebook

        lines = list(notebook.lines(found, plans, [one.searched for one in also]))
    else:
        lines = report.framed(found, report.table(plans))
        lines += [f"rank {rank}: {found.plan(rank).degrees}" for rank in ranks]
    if pair:
        lines += report.why(*pair)
    return data, "\n".join(lines), 0


def _nothing(found: Found, style: str) -> tuple[dict[str, Any], str, int]:
    """What `run` gives where nothing fits: what is nearest, or the notebook's line of 0 plans."""
    from derive.plan import nearest, notebook

    near = nearest.nearest(found.task, found.space)
    if style == "notebook":
        lines = list(notebook.lines(found, ()))
    else:
        lines = report.framed(found, report.nearest(found, near))
    return as_data(found, (), near), "\n".join(lines), NOTHING_FITS


def task_of(options: Namespace) -> Task:
    """What was typed as a task; raises DeriveError."""
    assumptions = step_assumptions("default" if options.assume is None else options.assume)
    profile = assumptions.profile or DEFAULT_PROFILE
    if options.profile is not None:
        profile = options.profile
    known = _catalogue(options, profile)
    values = set_values(options.set)
    for symbol in values:
        if symbol in OPTIONS:
            raise DeriveError(f"--set {symbol}: unknown value to set; use {OPTIONS[symbol]}")
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
    unit = v.unit_of_symbol(symbol)
    try:
        value = quantity(text, unit, symbol.name).value
    except UnitError as error:
        hint = (
            "; divide by the tokens of a sequence" if unit == sequence and "token" in text else ""
        )
        raise UnitError(f"{option}: {error}{hint}") from None
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


class _Degrees(NamedTuple):
    """Degrees that were typed; dp and the micro-batch may be left open."""

    tp: int = 1
    cp: int = 1
    pp: int = 1
    dp: int | None = None
    b_seq: int | None = None

    @classmethod
    def typed(cls, text: str, option: str) -> _Degrees:
        """Those of "tp=8,cp=1", or of "tp=8 cp=1" as plans are shown; raises DeriveError."""
        # Imported here: a mesh is not needed for a plan without them.
        from derive.commands.mesh import sizes_of

        found = sizes_of(re.sub(r"[,\s]+(?=\w+\s*=)", ",", text.strip()), option)
        for name in found:
            if name not in cls._fields:
                raise unknown(f"degree of {option}", name, cls._fields)
        return cls(**found)

    @property
    def searched(self) -> tuple[int, ...]:
        """What a search looks them up by."""
        three = (self.tp, self.cp, self.pp)
        return three if self.b_seq is None else (*three, self.b_seq)

    def rank(self, found: Found, option: str) -> int:
        """The rank of the best plan with these degrees; raises DeriveError that says why there is
        none."""
        if self.dp is not None:
            cards = self.tp * self.cp * self.pp * self.dp
            if cards != found.task.cards:
                shown = shown_degrees(self.tp, self.cp, self.pp, self.dp)
                raise DeriveError(
                    f"{option}: {shown} is {cards:,} cards, not the {found.task.cards:,} given"
                )
        try:
            return found.rank(*self.searched)
        except DeriveError:
            row = Row(self.tp, self.cp, self.pp, self.b_seq or found.space.micro_batch[0])
            raise DeriveError(f"{option}: {report.why_not(found, row)}") from None


def _rank_or_degrees(text: str) -> int | _Degrees:
    """A plan of --why: its rank ("2") or its degrees ("tp=8,cp=1,pp=1", those left out being 1)."""
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    if "=" not in text:
        told = "expected a rank from 1, or degrees such as tp=8,cp=1,pp=1"
        raise DeriveError(f"--why: {told}, found {quoted(text)}")
    return _Degrees.typed(text, "--why")


def _pair(found: Found, asked: Sequence[int | _Degrees]) -> tuple[Plan, Plan]:
    """The two plans of --why; raises DeriveError."""
    first, second = (one if isinstance(one, int) else one.rank(found, "--why") for one in asked)
    for rank in (first, second):
        if not 1 <= rank <= found.fit:
            raise DeriveError(f"--why: expected a rank from 1 to {found.fit:,}, found {rank}")
    plans = found.plan(first), found.plan(second)
    if first == second:
        raise DeriveError(
            f"--why: expected two plans, found one twice: rank {first} is {plans[0].degrees}"
        )
    return plans


def as_data(found: Found, plans: Sequence[Plan], near: Sequence[Near] = ()) -> dict[str, Any]:
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
    if not found.fit:
        data["nearest"] = [_lacking(plan) for plan in found.too_large]
        data["nearest"] += [{**_lacking(one.plan), **_near_data(one)} for one in near]
    return data


def _lacking(plan: Plan) -> dict[str, Any]:
    return {**plan_data(plan), "lacks_bytes": _number(plan.lacks_bytes)}


def _near_data(near: Near) -> dict[str, Any]:
    """What a combination lacks; the numbers of its plan hold `with` the first value changed."""
    first = near.changes[0]
    return {
        "rule": near.rule,
        "lacks": [
            {"quantity": one.quantity, "given": one.given, "nearest": list(one.values)}
            for one in near.changes
        ],
        "with": {first.quantity: first.value},
    }


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
        "mfu": _number(plan.mfu),
        "step_seconds": _number(plan.step_seconds),
        "memory_bytes": _number(plan.memory_bytes),
        "recomputed_layers": plan.recomputed_layers,
        "layers_per_stage": plan.layers_per_stage,
        "parts": {**{name: _number(part) for name, part in plan.parts.items()}, "ep": 0.0},
        "memory": {name: _number(part) for name, part in plan.memory.items()},
    }


def _why_data(better: Plan, worse: Plan) -> dict[str, Any]:
    return {
        "first": better.degrees,
        "second": worse.degrees,
        "saved_seconds": _number(worse.step_seconds - better.step_seconds),
        "parts": {name: _number(saved) for name, saved in report.differences(better, worse)},
    }


def _number(value: Fraction) -> float | None:
    """A number of JSON, or null beyond the range of float64."""
    found = as_float(value)
    return found if isfinite(found) else None
