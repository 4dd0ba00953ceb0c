"""Statements of conditions: written once z3 has decided them, and then known by their text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from derive.book.statements import ENDING
from derive.solve import smt
from derive.solve.smt import verdicts

CHAPTERS = Path(__file__).parents[2] / "chapters"
COMMITTED = sorted(CHAPTERS.glob(f"*/*{ENDING}"))
TEMPLATE = '<< condition("least", "So many tokens a chip.") >>\n\nSee << ref("least") >>.\n'
CONDITION = 'least = threshold(strategies.fsdp, v.B / v.X)\nchapter.condition("least", least)\n'


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_statements_of_the_book_are_decided_again(path: Path) -> None:
    text = path.read_text()
    answers = verdicts(text)
    assert len(answers) == text.count("(check-sat)") >= 2 and {*answers} == {"unsat"}


def test_every_condition_that_is_proved_has_its_statement() -> None:
    linked = {
        folder.parent / name.split(")")[0]
        for folder in CHAPTERS.glob("*/README.md")
        for name in folder.read_text().split("[Proved for all positive values.](")[1:]
    }
    assert linked == {*COMMITTED} and len(linked) >= 13


@pytest.fixture
def condition(book):
    """A book with a condition that is built, and its statement."""
    folder = book.write(TEMPLATE, CONDITION)
    assert book.run() == (0, "06-mesh: wrote README.md, least.smt2\n", "")
    return book, folder / "least.smt2"


@pytest.fixture
def no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts.cache_clear()
    monkeypatch.setitem(sys.modules, "z3", None)


def test_the_text_of_a_condition_says_how_it_is_known(condition) -> None:
    book, path = condition
    text = (path.parent / "README.md").read_text()
    assert (
        "**(6.1)** So many tokens a chip. *[Proved for all positive values.](least.smt2)*" in text
    )
    assert "B/X >= alpha/M_X" in path.read_text() and "declare-const |B/X| Real" in path.read_text()
    plain = CONDITION + 'chapter.condition("intensity", v.sp.Eq(v.alpha, v.C / v.W))\n'
    both = TEMPLATE + '\n<< condition("intensity", "That is what it is.") >>\n'
    assert "**(6.2)** That is" in book.built(both, plain)


def test_a_statement_that_is_current_needs_no_solver(condition, no_solver) -> None:
    book, _ = condition
    before = book.files()
    assert book.run("--check")[0] == 0
    assert book.run() == (0, "06-mesh: unchanged\n", "")
    book.write(TEMPLATE.replace("So many", "This many"), CONDITION)
    assert book.run() == (0, "06-mesh: wrote README.md\n", "")
    assert book.files().keys() == before.keys()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_text(path.read_text() + "; more\n"), "states other than"),
        (lambda path: path.write_text(path.read_text().replace(">=", "<=")), "states other than"),
    ],
    ids=["missing", "longer", "turned"],
)
def test_a_statement_that_is_not_current_is_a_drift(condition, change, told) -> None:
    book, path = condition
    good = path.read_bytes()
    change(path)
    code, out, err = book.run("--check")
    assert code == 1 and f"chapters/06-mesh/least.smt2  {told}" in out + err
    assert book.run() == (0, "06-mesh: wrote least.smt2\n", "")
    assert path.read_bytes() == good


def test_a_new_statement_without_a_solver_is_one_line(book, no_solver) -> None:
    told = book.refused(TEMPLATE, CONDITION)
    assert "pip install -e '.[proofs]'" in told and told.count("\n") == 1
    assert "condition least: z3 decides it and is not installed" in told


def test_a_statement_that_is_contradicted_or_not_decided_is_refused(book, monkeypatch) -> None:
    halved = "from dataclasses import replace\n" + CONDITION.replace(
        'chapter.condition("least", least)',
        "(one,) = least.bounds\n"
        'chapter.condition("least", replace(least, bounds=(replace(one, expr=one.expr / 2),)))',
    )
    told = book.refused(TEMPLATE, halved)
    assert "condition least: does not hold: " in told and "B/X" in told and "W = " in told
    verdicts.cache_clear()
    monkeypatch.setattr(smt, "EFFORT", 1)
    assert "condition least: z3 does not decide it" in book.refused(TEMPLATE, CONDITION)
    verdicts.cache_clear()


def test_a_statement_of_no_condition_any_more_is_removed(condition) -> None:
    book, path = condition
    mine = path.with_name("mine.smt2")
    mine.write_text("(check-sat)\n")
    path.rename(path.with_name("other.smt2"))
    code, out, err = book.run("--check")
    assert code == 1 and "other.smt2  states no condition that figures.py declares" in out + err
    assert book.run() == (0, "06-mesh: wrote least.smt2\n", "")
    assert {*path.parent.glob("*.smt2")} == {path, mine} and book.run("--check")[0] == 0


def test_the_exponents_of_a_statement_are_said(book) -> None:
    experts = CONDITION.replace("strategies.fsdp, v.B / v.X", "strategies.expert_parallel, v.F_E")
    text = book.built(TEMPLATE, experts)
    assert "Proved for all positive values with M_X = 1, M_X = 2, M_X = 3." in text
