"""The books that chapter 12 audits: each verdict and each cause as the data files have them."""

from __future__ import annotations

import json
import tomllib
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from derive import cli
from derive.book.literals import literal
from derive.commands.value import answer

FOLDER = Path(__file__).parents[2] / "chapters" / "12-published-figures-recomputed"
BOOKS = {
    name: tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))["figures"]
    for name in ("scaling-book", "ml-systems")
}
ROWS = [(name, number) for name, rows in BOOKS.items() for number in range(len(rows))]


def text_of(rows: list[dict[str, str]]) -> str:
    """A text that prints the figures, each with a comment that asks."""
    return "".join(
        f"It is {row['printed']}<!-- derive {row.get('rule', 'round')}: {row['asks']} -->.\n"
        for row in rows
    )


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What `derive audit` says of each book."""
    return {name: audited(tmp_path_factory, rows)["figures"] for name, rows in BOOKS.items()}


def audited(factory: pytest.TempPathFactory, rows: list[dict[str, str]]) -> dict[str, Any]:
    path, out = factory.mktemp("audit") / "book.md", StringIO()
    path.write_text(text_of(rows), "utf-8")
    with redirect_stdout(out):
        cli.main(["audit", str(path), "--json"])
    return json.loads(out.getvalue())


@pytest.mark.parametrize(("name", "number"), ROWS)
def test_a_verdict_has_not_turned(verdicts: Any, name: str, number: int) -> None:
    row, verdict = BOOKS[name][number], verdicts[name][number]
    assert (verdict["question"], verdict["state"]) == (row["asks"], row["state"]), verdict
    assert (verdict["cause"] or "") == row.get("cause", "")
    assert literal(verdict["printed"]).value == literal(row["printed"]).value


def test_counts() -> None:
    states = [row["state"] for row in BOOKS["scaling-book"]]
    assert (states.count("match"), states.count("erratum")) == (85, 17)
    assert len(BOOKS["ml-systems"]) >= 70


def test_most_questions_are_the_toolkits_own() -> None:
    own = 0
    for row in BOOKS["scaling-book"]:
        nodes = [*answer(row["asks"]).nodes()]
        names = any(node.source or (node.name and node.inputs) for node in nodes)
        own += row["asks"].startswith("ask") or names
    assert own >= 75


@pytest.mark.parametrize("name", BOOKS)
def test_other_digits_are_told(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    """A printed number three times as large is an erratum, wherever the figure is right."""
    rows = [row for row in BOOKS[name] if row["state"] == "match"]
    tripled = []
    for row in rows:
        number = literal(row["printed"]).number
        times = f"{3 * float(number.rstrip('%').replace(',', '')):,.10g}"
        tripled.append({**row, "printed": row["printed"].replace(number, times, 1)})
    said = audited(tmp_path_factory, tripled)["figures"]
    assert {verdict["state"] for verdict in said} == {"erratum"}


def test_every_kind_of_cause_is_found() -> None:
    causes = {row.get("cause", "") for rows in BOOKS.values() for row in rows}
    for part in (
        "--pass", "--overlap", "--precision", "--chip", "both ways for one",
        "left out", "a reading of", "1,000 for 1,024", "1,024 for 1,000", "1/2 of it", "rounded up",
    ):  # fmt: skip
        assert any(part in cause for cause in causes), part
