"""What z3 decides of the conditions of a chapter, each stated in a file beside it.

A file is current where it has the statement that figures.py makes: none is written before z3 has
decided it, so that one that is current needs no solver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from derive.book import files
from derive.book.folders import FIGURES, Folder
from derive.book.problems import BookError, Problem
from derive.solve.smt import LOGIC, SAT, UNSAT, counterexample, verdicts

ENDING = ".smt2"
INSTALL = "pip install -e '.[proofs]'"


def drifts(folder: Folder, statements: Mapping[str, str]) -> Iterator[Problem]:
    """What a build would change of the files."""
    for name, text in statements.items():
        written = files.read(folder.path / name)
        if written != text.encode():
            why = f"states other than {FIGURES} declares"
            yield Problem(folder.named(name), 0, "is missing" if written is None else why)
    for path in stray(folder, statements):
        yield Problem(folder.named(path.name), 0, f"states no condition that {FIGURES} declares")


def stray(folder: Folder, statements: Iterable[str]) -> list[Path]:
    """The files of statements that the chapter has no more."""
    others = {*folder.path.glob(f"*{ENDING}")} - {folder.path / name for name in statements}
    return [path for path in sorted(others) if LOGIC.encode() in (files.read(path) or b"")]


def decided(folder: Folder, statements: Mapping[str, str]) -> dict[Path, bytes]:
    """The files that are not current, with their bytes, each decided. Raises BookError where z3 is
    not installed, does not decide one, or finds values that contradict it."""
    changed = {
        name: text
        for name, text in statements.items()
        if files.read(folder.path / name) != text.encode()
    }
    problems = [
        Problem(folder.named(FIGURES), 0, f"condition {name.removesuffix(ENDING)}: {told}")
        for name, text in changed.items()
        if (told := _undecided(text))
    ]
    if problems:
        raise BookError(*problems)
    return {folder.path / name: text.encode() for name, text in changed.items()}


def _undecided(text: str) -> str:
    """Why a statement is not proved; empty where it is."""
    try:
        answers = {*verdicts(text)}
    except ImportError:
        return f"z3 decides it and is not installed; {INSTALL}"
    if SAT in answers:
        return f"does not hold: {counterexample(text)}"
    return "" if answers == {UNSAT} else "z3 does not decide it for all positive values"
