"""`derive validate`: predicted times and memory against measured runs, and what is fitted to them.

A published run is predicted three ways: by shares that it is among the runs fitted to, by those of
a fit that left its source's model out (five draws), and by those of a fit without its source.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from derive.commands.inputs import catalogue_of, path_of
from derive.facts import Catalogue
from derive.facts.runs import RULES, Run, read_runs, reasons, runs, studied
from derive.facts.stacks import OTHER, stacks
from derive.notation.errors import DeriveError, unknown
from derive.notation.printed import as_text
from derive.notation.text import aligned
from derive.plan.calibration import calibration, fitted_shares, held_back
from derive.plan.replay import replayed
from derive.plan.validation import APART, NEAR, Outcome, grouped, order, spread, worst

# The columns of a table, and how a row fills them.
ERRORS: Mapping[str, str] = MappingProxyType({
    "kind": "{kind}", "source": "{source}", "chip": "{chip}", "runs": "{rows}",
    "mean": "{mean:.1%}", "median": "{median:.1%}", "p90": "{p90:.1%}",
    f"within {NEAR:.0%}": "{within:.1%}", "worst": "{worst:.1%}",
})  # fmt: skip
DRAWS: Mapping[str, str] = MappingProxyType({
    "draw": "{draw}", "runs": "{rows}", "mean": "{mean:.2%}", "p90": "{p90:.1%}",
    f"within {NEAR:.0%}": "{within:.1%}", f"pairs {APART:.0%} apart": "{pairs}",
    "right": "{right}",
})  # fmt: skip
EIGHTS: Mapping[str, str] = MappingProxyType({
    "way": "{way}", "mean": "{mean:.2%}", "worst": "{worst:.2%}",
})  # fmt: skip
WORST: Mapping[str, str] = MappingProxyType({
    "run": "{id}", "model": "{model}", "layout": "tp={tp} cp={cp} pp={pp} dp={dp}",
    "measured": "{measured_seconds:.4g} s", "predicted": "{predicted_seconds:.4g} s",
    "error": "{error:+.1%}", "why": "{why}",
})  # fmt: skip
SHARES: Mapping[str, str] = MappingProxyType({
    "share": "{symbol}", "of": "{owner}", "value": "{value:.3g}", "error": "{error:.1%}",
    "runs": "{rows}",
})  # fmt: skip
EIGHT = tuple(f"korthikanti2022-00{number}" for number in range(1, 9))  # of arXiv 2205.05198
TAKEN = {"recompute", "partial"}  # what a run may leave open: nothing, or the nearest, is taken


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The errors as JSON-ready data, times in seconds and memory in bytes, and as text. Raises
    DeriveError for a file that cannot be taken, and for a source that no run has."""
    catalogue, source = catalogue_of(options), options.source
    if options.fit:
        if options.runs is not None or source is not None:
            raise DeriveError("--fit: fits to the published runs; leave out RUNS and --source")
        fits = fitted_shares(calibration(runs(), catalogue))
        rows = [{**share._asdict(), "rows": len(share.runs)} for share in fits]
        title = "shares that published runs fit, and how far off (one standard deviation)"
        return {"shares": rows}, as_text([title, *_table(rows, SHARES)])
    taken = runs() if options.runs is None else read_runs(path_of(options.runs, "RUNS"))
    if source is not None and source not in (known := {run.source for run in taken}):
        raise unknown("source of runs", source, known)

    chosen = [run for run in taken if source in (None, run.source)]
    data = validated(chosen, catalogue, blind=options.runs is None)
    return data, as_text(_lines(data))


def validated(
    chosen: Sequence[Run], catalogue: Catalogue | None = None, *, blind: bool
) -> dict[str, Any]:
    """What the step model makes of runs, as JSON-ready data: errors by source, the worst, order,
    memory, and why some are not predicted; of the shipped runs `blind` too, by fits that have not
    seen them."""
    refused: dict[str, list[str]] = {}
    parts: dict[str, Mapping[str, float]] = {}
    every = []
    made = replayed([one for one in chosen if not _reason(one)], catalogue)
    for one in chosen:
        answer = made.get(one.id) or _reason(one)
        if isinstance(answer, str):
            refused.setdefault(answer, []).append(one.id)
        else:
            parts[one.id] = answer.parts
            every.append(Outcome(one, answer.seconds, answer.memory_bytes))
    telling = _studied(every)
    return {
        "runs": len(chosen),
        "predicted": len(every),
        "errors": _errors(every, "error"),
        **(_blind(every, catalogue) if blind else {}),
        "worst": [_row(one, parts[one.run.id]) for one in worst(telling)],
        "order": {**order(telling)._asdict(), "ids": [one.run.id for one in telling]},
        "memory": _errors((one for one in every if one.memory_error is not None), "memory_error"),
        "refused": dict(sorted(refused.items(), key=lambda item: -len(item[1]))),
    }


def _reason(run: Run) -> str:
    """Why a run is not scored, in a phrase; empty for one that is."""
    why = [] if studied(run) else [reason for reason in reasons(run) if reason not in TAKEN]
    return RULES[why[0]][0] if why else ""


def _studied(outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
    """The studied ones among them; all where there are none."""
    return [one for one in outcomes if studied(one.run)] or outcomes


def _kind(one: Outcome) -> str:
    """What is told apart beside sources and chips."""
    if one.run.experts:
        return "experts"
    if one.run.chip.startswith("tpu"):
        return "TPU"
    if one.run.precision in ("fp8", "int8"):
        return "8 bits"
    return "studied" if studied(one.run) else "16 bits"


def _errors(outcomes: Iterable[Outcome], name: str) -> list[dict[str, Any]]:
    """The spread of each source on each chip, and over all of a kind, with the ids of the runs."""
    rows = []
    for kind, same in sorted(grouped(outcomes, _kind).items()):
        stacks = grouped(same, lambda one: (one.run.source, one.run.chip))
        for (source, chip), each in [*sorted(stacks.items()), (("all", ""), same)]:
            figures = spread([getattr(one, name) for one in each])._asdict()
            ids = [one.run.id for one in each]
            rows.append({"kind": kind, "source": source, "chip": chip, **figures, "ids": ids})
    return rows


def _blind(outcomes: Sequence[Outcome], catalogue: Catalogue | None) -> dict[str, Any]:
    """The errors of those of the published runs that fits have not seen: of the draw whose mean is
    the worst, and with the whole source left out; each draw; and the eight runs apart."""
    wanted = {one.run.id for one in outcomes}
    ways = held_back(calibration(runs(), catalogue))
    *draws, left = [[one for one in way if one.run.id in wanted] for way in ways]
    if not left:
        return {}
    rows: list[dict[str, Any]] = []
    for draw in draws:
        scored = _studied(draw)
        told, figures = order(scored), spread([one.error for one in scored])._asdict()
        rows.append(
            {
                "draw": len(rows),
                **figures,
                "pairs": told.pairs,
                "right": told.right,
                "tau": told.tau,
            }
        )
    data = {
        "draws": rows,
        "cross_validated": _errors(draws[_worst_of(rows)], "error"),
        "left_out": _errors(left, "error"),
    }
    every = [outcomes, *draws, left]
    names = ["fitted", *(f"draw {number}" for number in range(len(draws))), "its source left out"]
    if wanted.issuperset(EIGHT):
        data["eight"] = [
            {
                "way": name,
                **spread([one.error for one in way if one.run.id in EIGHT])._asdict(),
                "errors": {one.run.id: one.error for one in way if one.run.id in EIGHT},
            }
            for name, way in zip(names, every, strict=True)
        ]
    return data


def _worst_of(draws: Sequence[Mapping[str, Any]]) -> int:
    return max(range(len(draws)), key=lambda number: draws[number]["mean"])


def _row(one: Outcome, parts: Mapping[str, float]) -> dict[str, Any]:
    """One of the worst: its layout and times, and what in its row, its stack and its parts may tell
    why: fields that are open, rules that leave it out elsewhere, and the largest part but one."""
    run = one.run
    shown = ("id", "source", "chip", "model", "tp", "cp", "pp", "dp", "micro_batch", "recompute")
    why: dict[str, Any] = {
        "rules": reasons(run),
        "missing": list(run.missing),
        "assumed": list(stacks().get(run.source, OTHER).assumed),
        "parts": {name: part / sum(parts.values()) for name, part in parts.items()},
    }
    told = [RULES[reason][0] for reason in why["rules"]]
    left_open = [name for name in run.missing if name not in why["rules"]]
    for words, names in (("not stated", left_open), ("assumed", why["assumed"])):
        told += [f"{words}: {', '.join(names)}"] if names else []
    times = {"measured_seconds": run.seconds or run.layer_seconds, "predicted_seconds": one.seconds}
    return {
        **{name: getattr(run, name) for name in shown},
        **times,
        "error": one.error,
        **why,
        "why": "; ".join(told) or "unexplained",
    }


def _lines(data: dict[str, Any]) -> list[str]:
    lines = [f"{data['predicted']} of {data['runs']} runs are predicted"]
    draw = f"draw {_worst_of(data['draws'])}" if "draws" in data else ""
    for title, name, columns in (
        ("time of a step: predicted over measured, less 1, without its sign", "errors", ERRORS),
        (f"by a fit without their source's model: {draw}", "cross_validated", ERRORS),
        ("by a fit without their source", "left_out", ERRORS),
        ("the studied runs by each draw, with pairs of a sweep", "draws", DRAWS),
        ("the eight runs of arXiv 2205.05198", "eight", EIGHTS),
        ("memory of the fullest chip: predicted over measured, less 1", "memory", ERRORS),
        ("the worst times of the studied runs, where there are any", "worst", WORST),
    ):
        lines += ["", title, *_table(data[name], columns)] if data.get(name) else []
    pairs, right, tau, _ = data["order"].values()
    if pairs:
        told = (
            f"{right} of {pairs} pairs more than {APART:.0%} apart are right, {right / pairs:.1%}"
        )
        rank = "" if tau is None else f"; Kendall's tau {tau:.2f}"
        lines += ["", f"order within sweeps: {told}{rank}"]
    counts = [(str(len(ids)), reason) for reason, ids in data["refused"].items()]
    return lines + (["", "not predicted", *aligned(counts, "rl")] if counts else [])


def _table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> list[str]:
    cells = [[form.format_map(row) for form in columns.values()] for row in rows]
    return aligned([tuple(columns), *cells], "lll".ljust(len(columns), "r"))
