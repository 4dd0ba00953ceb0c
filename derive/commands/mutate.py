"""`derive build --mutate`: what a book rests on is changed, one thing at a time, in copies; what no
claim, given, requirement, condition, derivation or error notices is named.

survivors.toml, beside the chapters, says why something may survive: [[argued]] tables, each with a
`reason` and `survivors` by name, which may end at the place, or at the file where `tests` notice
them.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from functools import partial
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, TypeAlias

import derive
from derive.book.folders import Shelf
from derive.book.mutants import Mutant, mutants
from derive.commands import output
from derive.commands.watch import prepare
from derive.notation.errors import DeriveError

ARGUMENTS = "survivors.toml"
NOTICING = ("claim", "given", "require", "condition", "derivation", "error")
SECONDS = 20  # that a judgement may compute
STEP = 25  # changes from one line of progress to the next
PYTEST = ("-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider")
Row: TypeAlias = dict[str, Any]


def run(shelf: Shelf, options: Namespace) -> tuple[Row, str, int]:
    """What is noticed by what, and what survives, as data and in words, and the exit code: 1 where
    something survives unargued or is argued in vain. Progress goes to standard error.

    Raises DeriveError where the book is not up to date, or its arguments cannot be read.
    """
    if not hasattr(os, "fork"):
        raise DeriveError("--mutate: expected a system that can fork a process")
    place, argued = shelf.place, _argued(shelf.place / ARGUMENTS)
    folders = [folder.path for folder in shelf.picked(options.chapter)]
    chapters = [folder.name for folder in folders]
    chosen = list(mutants(Path(derive.__file__).parent, folders, options.only or ""))
    prepare()
    rows: list[Row] = []
    with get_context("fork").Pool(maxtasksperchild=1) as pool:
        by, told, calls = pool.apply(_calling, (place, chapters, any(one.called for one in chosen)))
        if by:
            raise DeriveError(
                f"--mutate: expected a book that is up to date, found: {told}; build it"
            )
        for row in pool.imap(partial(_row, place, chapters, calls, argued, options.tests), chosen):
            rows.append(row)
            if len(rows) % STEP == 0:
                output.complain(f"{len(rows)} of {len(chosen)} changes")
    return _summary(rows, argued, whole=not (options.chapter or options.only))


def _argued(path: Path) -> dict[str, Row]:
    """The argument for each name."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))["argued"] if path.exists() else ()
        argued = {name: one for one in tables if one["reason"] for name in one["survivors"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        told = "expected [[argued]] tables with reason and survivors"
        raise DeriveError(f"{path.name}: {told}, found {type(error).__name__}: {error}") from None
    for name in argued:
        if ": " not in name and not argued[name].get("tests"):
            told = "expected a place in a file, or tests that notice all of it"
            raise DeriveError(f"{path.name}: {name}: {told}")
    return argued


def _summary(rows: list[Row], argued: Mapping[str, Row], *, whole: bool) -> tuple[Row, str, int]:
    counts = Counter(row["by"] for row in rows)
    noticed, survivors = {by: counts[by] for by in NOTICING}, [r for r in rows if r["survives"]]
    unused = len(rows) - sum(noticed.values()) - len(survivors)
    left = [row for row in survivors if not row["argued"] or row["test"] == ""]
    vain = [name for name in argued if whole and name not in {row["argued"] for row in survivors}]
    lines = [
        f"{row['file']}:{row['line']}  {row['name'].removeprefix(row['file'])[2:]}  ("
        f"{'only shown' if row['by'] else 'nothing printed changes'}"
        f"{'' if row['test'] is None else ', ' + (row['test'] or 'no test fails')})"
        for row in left
    ]
    lines += [f"{ARGUMENTS}  {name} is argued, and does not survive" for name in vain]
    by = ", ".join(f"{kind} {count}" for kind, count in noticed.items())
    lines.append(
        f"{len(rows)} changes: {sum(noticed.values())} noticed ({by}), {unused} of facts that the "
        f"book does not use, {len(survivors) - len(left)} argued, {len(left)} left"
    )
    if idle := sum(not row["run"] for row in rows):
        lines.append(f"{idle} of the changes are in functions that the book never calls")
    data = {"changes": len(rows), "noticed": noticed, "unused": unused, "survivors": survivors}
    return data | {"in_vain": vain}, "\n".join(lines), int(bool(left or vain))


# --- in a process of its own


def _row(
    place: Path, chapters: list[str], calls: set[str], argued: Mapping[str, Row], testing: bool,
    one: Mutant,
) -> Row:  # fmt: skip
    """What is found of a mutant: noticed `by` what, else "shown" where it changes what is printed
    and "" where it does not; whether it was `run`, which takes a function that is called; the name
    under which it is `argued`, if any; and the `test` that notices a survivor, "" for none and None
    where none was run."""
    name = next((name for name in (one.name, one.at, one.file) if name in argued), "")
    by, told, runs = "", "", not one.called or one.at in calls
    if runs:  # the chapter that is changed is the first that may notice
        by, told = _judged(place, sorted(chapters, key=lambda each: each not in one.file), one)
    survives = by == "shown" or (not by and one.kind != "fact")
    tests = argued.get(name, {"tests": ["tests"]}).get("tests") if testing and survives else None
    return {
        "file": one.file, "line": one.line, "kind": one.kind, "name": one.name, "by": by,
        "told": told, "run": runs, "survives": survives, "argued": name,
        "reason": argued[name]["reason"] if name else None,
        "test": _tested(place, one, tests) if tests else None,
    }  # fmt: skip


@contextmanager
def _copied(place: Path, one: Mutant | None) -> Iterator[Path]:
    """A folder with copies of derive and of the book, in which one thing is changed."""
    with TemporaryDirectory(prefix="derive-") as folder:
        root = Path(folder).resolve()
        shutil.copytree(Path(derive.__file__).parent, root / "derive")
        shutil.copytree(place, root / place.name)
        for path in place.parent.iterdir():  # what links lead to, and tests
            if not (root / path.name).exists():
                (root / path.name).symlink_to(path)
        if one is not None:
            (root / one.file).write_text(one.content, "utf-8")
        yield root


def _calling(place: Path, chapters: list[str], asked: bool) -> tuple[str, str, set[str]]:
    """What notices the book as it is, and, where it is asked, each function that it calls, as
    `Mutant.at` has it."""
    calls: set[str] = set()
    return *_judged(place, chapters, None, calls if asked else None), calls


def _judged(
    place: Path, chapters: list[str], one: Mutant | None, calls: set[str] | None = None
) -> tuple[str, str]:
    """What of the chapters notices first, one of NOTICING, and the line that tells it; else "shown"
    where anything printed has changed, else "". Where derive is changed, or what it `calls` is
    asked for, it is imported anew."""
    signal.signal(signal.SIGVTALRM, lambda *_: sys.exit("takes too long"))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    gc.disable()  # a process this short has the memory
    with _copied(place, one) as root, redirect_stderr(StringIO()):
        os.chdir(root)
        if calls is not None or (one and not one.file.startswith(f"{place.name}/")):
            sys.path.insert(0, str(root))
            for name in [name for name in sys.modules if name.split(".")[0] == "derive"]:
                del sys.modules[name]
        if calls is not None:
            sys.settrace(partial(_seen, calls, f"{root}/"))
        try:
            return _noticed(root / place.name, chapters)
        except (Exception, SystemExit) as error:
            return "error", f"{type(error).__name__}: {error}"
        finally:
            sys.settrace(None)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _seen(calls: set[str], root: str, frame: FrameType, *_: object) -> None:
    code = frame.f_code
    if code.co_filename.startswith(root):
        place = code.co_qualname.replace(".<locals>", "")
        calls.add(f"{code.co_filename.removeprefix(root)}: {place}")


def _noticed(place: Path, chapters: list[str]) -> tuple[str, str]:
    from derive.book.build import Result, against_written, render_all
    from derive.commands.shelf import shelf_of

    shelf, shown = shelf_of(Namespace(chapters=str(place))), ("", "")
    for folder, outcome in (
        each for name in chapters for each in render_all(shelf, [name]).items()
    ):
        checked = against_written(shelf, folder, outcome)
        for problem in outcome.problems:
            if problem.is_drift and isinstance(outcome, Result):
                return outcome.figures[problem.figure].kind, problem.drift()
        for problem in checked.errors:
            return "error", str(problem)
        for problem in checked.drifts:
            kind, blank, _ = problem.figure.partition(" ")
            if blank and kind in NOTICING:
                return kind, problem.drift()
            shown = shown if shown[0] else ("shown", problem.drift())
    return shown


def _tested(place: Path, one: Mutant, tests: list[str]) -> str:
    """The first of the tests that fails, or ""."""
    with _copied(place, one) as root:
        command, paths = [sys.executable, *PYTEST, *tests], {**os.environ, "PYTHONPATH": str(root)}
        ran = subprocess.run(command, cwd=root, capture_output=True, text=True, env=paths)
    failed = (line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR")))
    return next(failed, "the tests end").partition(" - ")[0] if ran.returncode in (1, 2) else ""
