"""What all figures of the chapter share: the chapter, what `derive validate` says, and helpers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from derive import Quantity, number
from derive.book import Chapter, cell, integer, percent, significant
from derive.book.tables import NumberCell
from derive.commands.validate import validated
from derive.facts.runs import Run, runs, studied
from derive.notation.units import Unit, one, second
from derive.plan.calibration import Calibration, calibration
from derive.plan.replay import replayed
from derive.plan.validation import Outcome

NAMES = (
    "A100, A3, B200, H100, FP16, BF16, FP8, 16 bits, 8 bits, arXiv 2205.05198, 22B, 175B, 530B, "
    "GPT-3, ZeRO-1, ZeRO-3, Llama 3 405B, MPT-30b, 500 W, TPU v5e, TPU v5p, TPU v6e"
)
RUNS = runs()
chapter = Chapter(
    "11",
    "Does the model hold?",
    names=[*NAMES.split(", "), *sorted({run.model for run in RUNS})],
    files="facts.toml",
)
SOURCES = {
    "automodel": "NeMo AutoModel",
    "bloom": "BLOOM",
    "dgxc_24.11.1": "DGX Cloud recipes",
    "korthikanti2022": "Korthikanti et al.",
    "llm_foundry": "llm-foundry",
    "maxtext2023": "MaxText",
    "maxtext_a3": "MaxText on A3",
    "mlperf40_gpt3": "MLPerf",
    "narayanan2021": "Narayanan et al.",
    "simumax_b200": "SimuMax",
    "torchtitan": "torchtitan",
    "torchtitan_a100": "torchtitan, fork",
    "tpu_recipes_v6e": "TPU recipes",
}
SAID = validated(RUNS, blind=True)
ASKED = [run for run in RUNS if studied(run) or (run.oom and not run.experts)]
EVERY = {key: one for key, one in replayed(ASKED).items() if not isinstance(one, str)}
BY_ID = {run.id: run for run in RUNS}
STUDIED = tuple(
    Outcome(run, EVERY[run.id].seconds, EVERY[run.id].memory_bytes)
    for run in RUNS
    if studied(run) and run.id in EVERY
)


@cache
def fits() -> Calibration:
    """The runs to which shares are fitted."""
    return calibration(RUNS)


def q(value: float, name: str, unit: Unit = one, source: str = "") -> Quantity:
    """A number as it comes out of arithmetic in floating point, or as a source prints it."""
    status = "published" if source else "derived"
    return number(float(f"{value:.6g}"), unit, name, source=source, status=status)


def n(count: int, name: str) -> NumberCell:
    """A count for a table."""
    return cell(number(count, name=name, status="derived"), integer())


def pc(value: float, name: str = "error", places: int = 1) -> NumberCell:
    """A share for a table, as a percentage."""
    return cell(q(value, name), percent(places))


def sec(value: float, name: str, source: str = "") -> NumberCell:
    """Seconds for a table."""
    return cell(q(value, name, second, source), significant(4), unit=True)


def count(name: str, value: int) -> None:
    """A count that the text shows."""
    chapter.shown(name, number(value, name=name, status="derived"), integer())


def share(name: str, value: float, places: int = 1) -> None:
    """A share that the text shows, as a percentage."""
    chapter.shown(name, q(value, name), percent(places))


def chips(rows: Sequence[Run]) -> str:
    """The chips of some runs, in words."""
    kinds = {"a100": "A100", "h100": "H100", "b200": "B200", "tpu": "TPU", "h200": "H200"}
    return ", ".join(sorted({kinds[run.chip.split("-")[0]] for run in rows}))
