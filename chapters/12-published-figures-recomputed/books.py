"""Books audited: their printed figures against what this toolkit derives from the same inputs.

A figure of a data file is judged as `derive audit` judges one in a text; every count and every
erratum that the chapter prints is of that run. The tests hold the data files to the whole audit.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import sympy as sp

from derive.book import ceiling, cell, decimals, integer
from derive.book.audit import Place
from derive.book.literals import spelt, spelt_part
from derive.book.tables import Cell
from derive.commands.audit import ERRATUM, MATCH, Verdict, judged
from derive.commands.value import answer
from derive.notation.errors import DeriveError
from derive.notation.quantity import Quantity, number

from .common import chapter, whole

HERE = Path(__file__).parent
CHAPTERS = {
    "roofline": "Rooflines",
    "tpus": "TPUs",
    "sharding": "Sharded matrices",
    "transformers": "Transformer arithmetic",
    "training": "Training",
    "applied-training": "Training LLaMA",
    "inference": "Inference",
    "applied-inference": "Serving LLaMA",
    "gpus": "GPUs",
    "hw_acceleration": "Hardware",
    "communication": "Communication",
}
CHANGES = {
    "1,024 for 1,000": "a decimal thousand taken as a binary one",
    "1,000 for 1,024": "a binary thousand taken as a decimal one",
    "both ways for one": "both directions of a link counted for one",
}
asked = cache(lambda question: answer(question, chapter.catalogue))


def alone(question: str) -> Callable[[str], Quantity]:
    """The answer to a question and to no other: what makes printed digits hold takes long to find,
    and is kept in the data file."""

    def answered(other: str) -> Quantity:
        if other != question:
            raise DeriveError("another question")
        return asked(question)

    return answered


@dataclass(frozen=True)
class Audited:
    """A figure of a book: its chapter and edition, what it counts, how it is asked and judged."""

    chapter: str
    edition: str
    counts: str
    question: str
    rule: str
    verdict: Verdict

    @property
    def is_named(self) -> bool:
        """Whether the question is one of thresholds, times, facts or what a run takes, and no mere
        arithmetic of typed numbers."""
        nodes = asked(self.question).nodes()
        return self.question.startswith("ask") or any(
            node.source or (node.name and node.inputs) for node in nodes
        )


def audited(file: str) -> list[Audited]:
    """The figures of a data file, each with the verdict of the audit."""
    rows = []
    for line, row in enumerate(tomllib.loads((HERE / file).read_text("utf-8"))["figures"], 1):
        place, rule = row["place"].split(": ", 1), row.get("rule", "round")
        printed = Place(line, 1, row["printed"], rule, row["asks"])
        verdict = replace(judged(file, printed, alone(row["asks"])), cause=row.get("cause"))
        edition = row.get("version", "")
        rows.append(Audited(CHAPTERS[place[0]], edition, place[1], row["asks"], rule, verdict))
    return rows


def errata(rows: Sequence[Audited]) -> list[Audited]:
    """Those that the audit does not let pass."""
    return [row for row in rows if row.verdict.state == ERRATUM]


def figure(words: str, formula: str, *inputs: tuple[str, Quantity]) -> Cell:
    """A number with the words after it, as a book or the audit prints it."""
    digits, rest = re.fullmatch(r"([0-9][0-9.,]*)(.*)", words).groups()  # type: ignore[union-attr]
    places = len(digits.partition(".")[2])
    value = sp.Rational(digits.replace(",", ""))
    quantity = Quantity(value, name="printed", formula=formula, inputs=inputs)
    return (cell(quantity, decimals(places) if places else integer()), rest)


def worded(cause: str | None) -> Cell:
    """What makes the printed digits hold, in words."""
    if not cause:
        return "nothing that was tried"
    if match := re.fullmatch(r"holds with (.*?)(?:, (.*))?", cause):
        change = CHANGES.get(match[2], match[2])
        change = re.sub(r"a reading of \S+-later", "as the later edition prints it", change or "")
        typed = re.sub(r"(?<=[1-9])0{9,}", lambda zeros: f"e{len(zeros[0])}", match[1])
        return f"`{typed}`" + (f", {change}" if change else "")
    if match := re.fullmatch(r"([0-9,]+) times as much", cause):
        return f"{spelt(int(match[1].replace(',', '')))} times what is derived"
    if match := re.fullmatch(r"1/([0-9]+) of it", cause):
        return f"{spelt_part(Fraction(1, int(match[1])))} of what is derived"
    if match := re.fullmatch(r"(\S+) left out", cause):
        return f"`{match[1]}` left out"
    return cause.split(":")[0]


def declare(name: str, rows: Sequence[Audited]) -> None:
    """The counts of a book, a table of them by chapter, and a table of its errata."""
    wrong = errata(rows)
    counts = {
        "figures": len(rows),
        "matched": sum(row.verdict.state == MATCH for row in rows),
        "errata": len(wrong),
        "named": sum(row.is_named for row in rows),
        "cut": sum(row.rule == "floor" for row in rows if row.verdict.state == MATCH),
        "caused": sum(bool(row.verdict.cause) for row in wrong),
    }
    for what, count in counts.items():
        quantity = number(count, name=f"{what} of {name}", status="derived")
        chapter.shown(f"{name}-{what}", quantity, integer())
    of_chapters: dict[str, list[Audited]] = {}
    for row in rows:
        of_chapters.setdefault(row.chapter, []).append(row)
    chapter.table(
        f"{name}-counts",
        "Chapter | Figures | Matched | Errata",
        [
            [
                title,
                whole(len(own), "figures"),
                whole(sum(row.verdict.state == MATCH for row in own), "matched"),
                whole(len(errata(own)), "errata"),
            ]
            for title, own in of_chapters.items()
        ],
    )
    editions = any(row.edition for row in wrong)
    chapter.table(
        f"{name}-errata",
        f"Chapter | {'Edition | ' if editions else ''}What is counted | Printed | Derived | "
        "What makes the printed figure hold",
        [
            [
                row.chapter,
                *([row.edition] if editions else []),
                row.counts,
                figure(str(row.verdict.printed), "as it is printed"),
                figure(str(row.verdict.derived), "rounded", (row.question, asked(row.question))),
                worded(row.verdict.cause),
            ]
            for row in wrong
        ],
        align="lllrrl" if editions else "llrrl",
    )


scaling_book = audited("scaling-book.toml")
declare("sb", scaling_book)
ml_systems = audited("ml-systems.toml")
declare("mls", ml_systems)
causes = {row.verdict.cause for row in errata([*scaling_book, *ml_systems])}
chapter.require(
    "causes-of-both",
    holds=any("--overlap" in str(cause) for cause in causes)
    and any("both ways for one" in str(cause) for cause in causes),
    because="causes that the audits find",
)

# Two totals of parts that are themselves rounded, or wrong.
chapter.shown("llama-total", asked("value P --model llama-3-70b"), unit="")
chapter.shown(
    "small-total",
    asked(
        "value P_A+P_F+P_V --set D=5120 --set F=13824 --set V=32000 --set L=40 --set K=40 "
        "--set G=1 --set H=128 --set n_F=3 --set n_V=2"
    ),
    unit="",
)
chapter.shown(
    "least-chips",
    asked(
        "value s_P*P/M_hbm+M_A/M_hbm --chip tpu-v5p --model llama-3-70b --set P=70e9 --set A=4 "
        "--set B=4e6 --set N=1"
    ),
    ceiling(),
)


def listed(folder: str) -> int:
    """How many errata another chapter lists."""
    tree = ast.parse((HERE.parent / folder / "errata.py").read_text("utf-8"))
    (errata_of,) = (node.value for node in tree.body if isinstance(node, ast.Assign))
    return len(ast.literal_eval(errata_of))


for folder in ("06-choosing-a-mesh", "10-combining-parallelism"):
    count = number(listed(folder), name="errata that the chapter lists", status="derived")
    chapter.shown(f"errata-{folder[:2]}", count, integer())
