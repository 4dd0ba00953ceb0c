"""`derive plan`: the ranked plans of a model on so many cards, and why one beats another."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import sympy as sp

from derive.commands.inputs import catalogue_of, set_values
from derive.commands.mesh import sizes_of
from derive.commands.parser import STYLES, TASK
from derive.cost.assumptions import step_assumptions
from derive.facts import DEFAULT_PROFILE, Catalogue, chip, model
from derive.facts.catalogue import cited, tree
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, UnitError, quoted, unknown
from derive.notation.quantity import Quantity
from derive.notation.read import quantity
from derive.notation.units import sequence
from derive.plan import report
from derive.plan.axes import AXES, NAMED, degrees
from derive.plan.nearest import Near
from derive.plan.plan import Plan, json_number
from derive.plan.search import Ranking, search
from derive.plan.task import Task, check_parameters, task

TOP_OF_STYLE: Mapping[str, int] = MappingProxyType({"table": report.TOP, "notebook": 3})
NOTHING_FITS = 1
OPTIONS: Mapping[str, str] = MappingProxyType({"N": "--cards", "T": "--seq", "B_seq": "--batch"})
Wanted = dict[str, int]  # degrees by the names of their axes


def run(options: Namespace) -> tuple[dict[str, Any], str, int]:
    """The plans as JSON-ready data and as text, and the exit code: 1 where nothing fits.

    Raises DeriveError for input that no plan can have.
    """
    style = options.style or STYLES[0]
    top = _top(options.top, style)
    if style == "notebook" and options.tokens is not None:
        raise DeriveError("--tokens: plays no part in --style notebook, which tells no days")
    also = [_degrees(text, "--also") for text in options.also or ()]
    compared = [_rank_or_degrees(text) for text in options.why or ()]
    ranking = search(asked_of(options)[0], top=0 if also or compared else top)
    plans = ranking.plans(top)
    data = as_data(ranking, plans)
    unranked: list[str] = []
    if not ranking.fit and (also or compared):
        unranked += _unranked(ranking, "--also", also) + _unranked(ranking, "--why", compared)
        data["unranked"], also, compared = unranked, [], []
    ranks = [_rank(ranking, wanted, "--also") for wanted in also]
    others = [(rank, ranking.plan(rank)) for rank in ranks]
    if others:
        data["also"] = [{"rank": rank, **plan.row} for rank, plan in others]
    if style == "notebook":
        lines = report.notebook_lines(ranking.task, ranking.fit, plans, others)
    else:
        lines = ranking.lines(plans)
        lines += [f"rank {rank}: {plan!r}" for rank, plan in others]
    lines += unranked
    if compared:
        better, worse = _pair(ranking, compared)
        saved = report.differences(better, worse)
        data["why"] = {
            "first": str(better.degrees),
            "second": str(worse.degrees),
            "saved_seconds": json_number(worse.step_seconds - better.step_seconds),
            "parts": {name: json_number(seconds) for name, seconds in saved},
        }
        lines += report.why(better, worse)
    return data, "\n".join(lines), 0 if ranking.fit else NOTHING_FITS


def why(options: Namespace) -> str:
    """The tree of "plan.RANK.NAME", a number of a ranked plan, down to its sources. Raises
    DeriveError and UnknownName."""
    plan, known, number = wanted(options)
    lines = [f"{options.figure}  {plan}", *tree(number), *cited([number], catalogue=known)]
    return "\n".join(lines)


def wanted(options: Namespace) -> tuple[Plan, Catalogue, Quantity]:
    """The plan that "plan.RANK.NAME" is of, the facts it rests on, and the number. Raises
    DeriveError and UnknownName."""
    figure = options.figure
    _, rank, name = [*figure.split(".", 2), "", ""][:3]
    if not name or not rank.isascii() or not rank.isdigit() or len(rank) > 18:
        told = "expected plan.RANK.NAME, such as plan.1.mfu"
        raise DeriveError(f"{told}, found {quoted(figure)}")
    if options.chapters is not None:
        raise DeriveError(f"--chapters: not of {quoted(figure)}, which is no figure of a chapter")
    for option in TASK:
        if getattr(options, option) is None:
            raise DeriveError(f"{figure}: expected --{option} as well, as derive plan takes it")
    asked, known = asked_of(options)
    ranking = search(asked, top=int(rank))
    if not 1 <= int(rank) <= ranking.fit:
        told = f"expected a rank from 1 to {ranking.fit:,}" if ranking.fit else "nothing fits"
        raise DeriveError(f"{figure}: {told}, found {rank}")
    plan = ranking.plan(int(rank))
    return plan, known, plan.quantity(name)


def asked_of(options: Namespace) -> tuple[Task, Catalogue]:
    """What was typed as a task, and the facts it rests on; raises DeriveError."""
    assumptions = step_assumptions("default" if options.assume is None else options.assume)
    own = assumptions.profile or DEFAULT_PROFILE
    profile = own if options.profile is None else options.profile
    known = catalogue_of(Namespace(**{**vars(options), "profile": profile}))
    values = set_values(options.set)
    for symbol in values:
        if symbol in OPTIONS:
            raise DeriveError(f"--set {symbol}: unknown value to set; use {OPTIONS[symbol]}")
    chosen = model(options.model, catalogue=known)
    asked = task(
        chosen,
        chip(options.chip, profile=profile, catalogue=known),
        cards=_count(options.cards, v.N, "--cards"),
        seq=_count(options.seq, v.T, "--seq"),
        batch=_count(options.batch, v.B_seq, "--batch"),
        assumptions=assumptions,
        values=values,
        layout=options.layout or "",
        tokens=None if options.tokens is None else _count(options.tokens, v.R, "--tokens"),
    )
    if "P" in values:
        check_parameters(chosen, asked)
    return asked, known


def _count(text: str, symbol: Any, option: str) -> int:
    unit = v.unit_of_symbol(symbol)
    try:
        value = quantity(text, unit, symbol.name).value
    except DeriveError as error:
        tokens = isinstance(error, UnitError) and unit == sequence and "token" in text
        hint = "; divide by the tokens of a sequence" if tokens else ""
        raise type(error)(f"{option}: {error}{hint}") from None
    if not value.is_Integer:
        raise DeriveError(f"{option}: expected a whole number, found {quoted(text)}")
    return int(value)


def _top(text: str | None, style: str) -> int:
    if text is None:
        return TOP_OF_STYLE[style]
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise DeriveError(f"--top: expected a whole number from 0 (all), found {quoted(text)}")
    return int(text)


def _degrees(text: str, option: str) -> Wanted:
    """Those of "tp=8,cp=1", or of "tp=8 cp=1" as plans are shown; of those that are always shown
    1 where they are left out, but dp. Raises DeriveError."""
    typed = sizes_of(text, option)
    for name in typed:
        if name not in NAMED:
            raise unknown(f"degree of {option}", name, [axis.symbol.name for axis in AXES])
    wanted = {NAMED[name].name: degree for name, degree in typed.items()}
    return {axis.name: 1 for axis in AXES if axis.values and axis.said} | wanted


def _rank(ranking: Ranking, wanted: Wanted, option: str) -> int:
    """The rank of the best plan with some degrees; raises DeriveError that says why there is
    none."""
    try:
        return ranking.rank(**wanted)
    except DeriveError:
        raise DeriveError(f"{option}: {_why_not(ranking, wanted)}") from None


def _why_not(ranking: Ranking, wanted: Wanted) -> str:
    """Why no plan that fits has some degrees."""
    space, cards = ranking.space, ranking.task.cards
    row = degrees(**wanted)
    if row.dp and row.size * row.dp != cards:
        return f"{row} is {row.size * row.dp:,} cards, not the {cards:,} given"
    firsts = {axis.name: rows[0] for axis, rows in zip(AXES, space.values, strict=True) if rows}
    return report.why_not(ranking.task, space, degrees(**{**firsts, **wanted, "dp": 0}))


def _unranked(ranking: Ranking, option: str, asked: Sequence[int | Wanted]) -> list[str]:
    """What an option is told where nothing fits: what rejects each plan, and that none has a
    rank."""
    no = "nothing fits, so that no plan has rank"
    told = (f"{no} {x}" if isinstance(x, int) else _why_not(ranking, x) for x in asked)
    return [f"{option}: {why}" for why in told]


def _rank_or_degrees(text: str) -> int | Wanted:
    """A plan of --why: its rank ("2") or its degrees ("tp=8,cp=1,pp=1", those left out being 1)."""
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    if "=" not in text:
        told = "expected a rank from 1, or degrees such as tp=8,cp=1,pp=1"
        raise DeriveError(f"--why: {told}, found {quoted(text)}")
    return _degrees(text, "--why")


def _pair(ranking: Ranking, asked: Sequence[int | Wanted]) -> tuple[Plan, Plan]:
    """The two plans of --why; raises DeriveError."""
    first, second = (x if isinstance(x, int) else _rank(ranking, x, "--why") for x in asked)
    for rank in (first, second):
        if not 1 <= rank <= ranking.fit:
            raise DeriveError(f"--why: expected a rank from 1 to {ranking.fit:,}, found {rank}")
    plans = ranking.plan(first), ranking.plan(second)
    if first == second:
        told = f"found one twice: rank {first} is {plans[0].degrees}"
        raise DeriveError(f"--why: expected two plans, {told}")
    return plans


def as_data(ranking: Ranking, plans: Sequence[Plan]) -> dict[str, Any]:
    """The outcome of a search as JSON-ready data; times in seconds, memory in bytes."""
    asked, under = ranking.task, ranking.task.assumptions
    kernels = under.kernels_stated if "saved_tensors" in under else {}
    values: dict[sp.Symbol, Fraction | int] = {**asked.numbers, **asked.fixed}
    data: dict[str, Any] = {
        **{name: getattr(asked, name) for name in TASK},
        "assumptions": {"name": under.name, **under.described(), **kernels},
        "set": {s.name: json_number(Fraction(values[s])) for s in asked.given},
        "notes": report.notes(asked),
        "inputs": [value.row(symbol.name) for symbol, value in asked.constants.items()],
        "mfu_convention": report.CONVENTION,
        "candidates": ranking.candidates,
        "fit": ranking.fit,
        "rejected": ranking.rejected,
        "plans": [one.row_by_stage if len(plans) <= report.TOP else one.row for one in plans],
    }
    if asked.step_error is not None:
        data["step_error"] = asked.step_error
    if not ranking.fit:
        data["cause"] = ranking.cause
        told, plan = ranking.instead or ("", None)
        data["instead"] = {"change": told, **plan.row} if plan else None
        data["nearest"] = [_lacking(plan) for plan in ranking.too_large]
        data["nearest"] += [{**_lacking(one.plan), **_near_data(one)} for one in ranking.near]
    return data


def _lacking(plan: Plan) -> dict[str, Any]:
    return {**plan.row, "lacks_bytes": json_number(plan.lacks_bytes)}


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
