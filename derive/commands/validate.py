"""`derive validate`: predicted times and memory against measured runs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from derive.commands.inputs import catalogue_of, path_of
from derive.facts.runs import RULES, Run, read_runs, reasons, runs, studied
from derive.notation.errors import unknown
from derive.notation.printed import as_text
from derive.notation.text import aligned
from derive.plan.replay import predicted
from derive.plan.validation import APART, NEAR, Outcome, grouped, order, predictions, spread, worst

# The columns of a table, and how a row fills them.
ERRORS: Mapping[str, str] = MappingProxyType({
    "kind": "{kind}", "source": "{source}", "chip": "{chip}", "runs": "{rows}",
    "mean": "{mean:.1%}", "median": "{median:.1%}", "p90": "{p90:.1%}",
    f"within {NEAR:.0%}": "{within:.1%}", "worst": "{worst:.1%}",
})  # fmt: skip
WORST: Mapping[str, str] = MappingProxyType({
    "run": "{id}", "model": "{model}", "layout": "tp={tp} cp={cp} pp={pp} dp={dp}",
    "measured": "{measured_seconds:.4g} s", "predicted": "{predicted_seconds:.4g} s",
    "error": "{error:+.1%}",
})  # fmt: skip


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The errors as JSON-ready data, times in seconds and memory in bytes, and as text. Raises
    DeriveError for a file that cannot be taken, and for a source that no run has."""
    taken = runs() if options.runs is None else read_runs(path_of(options.runs, "RUNS"))
    if (source := options.source) is not None:
        if source not in (known := {run.source for run in taken}):
            raise unknown("source of runs", source, known)
        taken = tuple(run for run in taken if run.source == source)
    step = partial(predicted, catalogue=catalogue_of(options))
    outcomes, refused = predictions(taken, lambda run: _reason(run) or step(run))
    data: dict[str, Any] = {
        "runs": len(taken),
        "predicted": len(outcomes),
        "errors": _errors(outcomes, "error"),
        "worst": [_row(one) for one in worst(outcomes)],
        "order": order(outcomes)._asdict(),
        "memory": _errors(
            (one for one in outcomes if one.memory_error is not None), "memory_error"
        ),
        "refused": dict(sorted(refused.items(), key=lambda item: -len(item[1]))),
    }
    return data, as_text(_lines(data))


def _reason(run: Run) -> str:
    """Why a run is not scored, in a phrase; empty for one that is."""
    why = [] if studied(run) and run.seconds else reasons(run)
    return RULES[why[0]][0] if why else ""


def _kind(one: Outcome) -> str:
    """What is told apart beside sources and chips."""
    if one.run.experts:
        return "experts"
    if one.run.chip.startswith("tpu"):
        return "TPU"
    return "8 bits" if one.run.precision in ("fp8", "int8") else "16 bits"


def _errors(outcomes: Iterable[Outcome], name: str) -> list[dict[str, Any]]:
    """The spread of each source on each chip, and over all of a kind."""
    rows = []
    for kind, same in sorted(grouped(outcomes, _kind).items()):
        stacks = grouped(same, lambda one: (one.run.source, one.run.chip))
        for (source, chip), each in [*sorted(stacks.items()), (("all", ""), same)]:
            figures = spread([getattr(one, name) for one in each])._asdict()
            rows.append({"kind": kind, "source": source, "chip": chip, **figures})
    return rows


def _row(one: Outcome) -> dict[str, Any]:
    shown = ("id", "source", "chip", "model", "tp", "cp", "pp", "dp", "micro_batch", "recompute")
    times = {"measured_seconds": one.run.seconds, "predicted_seconds": one.seconds}
    return {**{name: getattr(one.run, name) for name in shown}, **times, "error": one.error}


def _lines(data: dict[str, Any]) -> list[str]:
    lines = [f"{data['predicted']} of {data['runs']} runs are predicted"]
    for title, name, columns in (
        ("time of a step: predicted over measured, less 1, without its sign", "errors", ERRORS),
        ("memory of the fullest chip: the same", "memory", ERRORS),
        ("the worst times", "worst", WORST),
    ):
        lines += ["", title, *_table(data[name], columns)] if data[name] else []
    pairs, right, tau = data["order"].values()
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
