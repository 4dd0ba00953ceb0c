"""Building the chapters, and checking that what is built is what would be built."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from derive.book import drift, files, load
from derive.book.load import OUTPUT, Folder
from derive.book.plots import is_current, signature
from derive.book.problems import BookError, Problem
from derive.book.render import Result, render
from derive.notation.errors import DeriveError

USAGE = """\
usage: python build.py [--check] [NN ...]

Renders the chapters (all, or those named by number) from chapter.md.j2 and figures.py.
With --check nothing is written: what would change is printed, and the exit code is 1.

exit codes: 0 done or clean, 1 drift (only with --check), 2 error"""
DONE, DRIFT, ERROR = 0, 1, 2


def main(arguments: Sequence[str], root: Path) -> int:
    """Build or check the chapters under `root` as the arguments say, and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without the minus sign
    try:
        code = _main(arguments, root)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        _say("interrupted; no file is half written")
        return ERROR
    except BrokenPipeError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ERROR


def _main(arguments: Sequence[str], root: Path) -> int:
    if "--help" in arguments or "-h" in arguments:
        print(USAGE)
        return DONE
    unknown = [a for a in arguments if a.startswith("-") and a != "--check"]
    if unknown:
        _say(f"unknown option {unknown[0]}\n{USAGE}")
        return ERROR
    wanted = [a for a in arguments if a != "--check"]
    try:
        if "--check" in arguments:
            return check(root, wanted)
        build(root, wanted)
        return DONE
    except DeriveError as error:
        _say(str(error))
        return ERROR
    except BrokenPipeError:
        raise
    except OSError as error:
        _say(f"{_place(error, root)}: {error.strerror or error}")
        return ERROR


def _say(text: str) -> None:
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)


def _place(error: OSError, root: Path) -> str:
    named = Path(str(error.filename or "the output"))
    with contextlib.suppress(ValueError):
        named = named.relative_to(root)
    return (named.parent if named.suffix == ".tmp" else named).as_posix()


def build(root: Path, wanted: Sequence[str] = ()) -> None:
    """Render the chapters, then write what differs; prints a line for each chapter.

    Raises BookError with every problem of every chapter before anything is written, and where a
    file cannot be written; in both cases all files are as they were.
    """
    found = load.folders(root, wanted)
    results, broken = _rendered(found)
    problems = [problem for result in results for problem in result.problems]
    problems += [problem for error in broken for problem in error.problems]
    if problems:
        raise BookError(*sorted(problems, key=lambda p: (p.path, p.line)))
    try:
        outputs = {result.folder: _outputs(result) for result in results}
        written = files.write({p: d for group in outputs.values() for p, d in group.items()})
    except OSError as error:
        text = f"{error.strerror or error}; nothing was changed"
        raise BookError(Problem(_place(error, root), 0, text)) from None
    for folder, group in outputs.items():
        names = [path.name for path in group if path in written]
        done = f"wrote {', '.join(names)}" if names else "unchanged"
        print(f"{folder.path.name}: {done}")


def _rendered(found: Sequence[Folder]) -> tuple[list[Result], list[BookError]]:
    results, broken = [], []
    for folder in found:
        try:
            results.append(render(folder))
        except BookError as error:
            broken.append(error)
    return results, broken


def _outputs(result: Result) -> dict[Path, bytes]:
    """The text, and those plots that are not current."""
    folder = result.folder.path
    made = {folder / OUTPUT: result.rendered.text.encode()}
    for name, plot in result.plots:
        if not is_current(plot, files.read(folder / name)):
            from derive.book.drawing import draw

            made[folder / name] = draw(plot)
    return made


def check(root: Path, wanted: Sequence[str] = ()) -> int:
    """Print what a build would change, and return 0 for nothing, 1 for drift and 2 for errors.

    Drifted figures, the diff and the command that repairs it go to standard output, all else to
    standard error. Every chapter is checked; one with an error shows its claims that drifted and no
    diff, which would have holes, and the command waits for the errors. Nothing is written.
    """
    found = load.folders(root, wanted)
    results, broken = _rendered(found)
    errors = [str(error) for error in broken]
    stale: list[str] = []
    diffs: list[str] = []
    words: list[str] = []
    for result in results:
        folder, name = result.folder, result.folder.path.name
        wrong = [str(problem) for problem in result.problems if not problem.is_drift]
        errors += wrong
        claims = [problem.drift() for problem in result.problems if problem.is_drift]
        lines, changed = ([], []) if wrong else _compared(result)
        for line in (*claims, *lines):
            print(line)
        diffs += changed
        if claims:
            words.append(folder.named(load.TEMPLATE))
        if claims or lines or changed:
            stale.append(folder.number)
        elif not wrong:
            _say(f"{name}: up to date")
    for text in diffs:
        print(text, end="")
    for text in errors:
        _say(text)
    if errors:
        them = "the error above" if len(errors) == 1 else "the errors above"
        _say(f"mend {them}, then run: python build.py {' '.join(['--check', *wanted])}")
    elif stale:
        numbers = " ".join(stale) if len(stale) < len(found) or wanted else ""
        first = f"edit {' and '.join(words)}, then " if words else ""
        print(f"{first}run: python build.py {numbers}".rstrip())
    return ERROR if errors else DRIFT if stale else DONE


def _compared(result: Result) -> tuple[list[str], list[str]]:
    """Lines for figures and plots that drifted, and the diff of the text."""
    folder = result.folder
    path = folder.named(OUTPUT)
    lines, changed = [], []
    old = files.read(folder.path / OUTPUT)
    if old != result.rendered.text.encode():
        text = (old or b"").decode("utf-8", errors="replace")
        if old is None:
            lines.append(f"{path}  is missing")
        elif "\r" in text and text.replace("\r\n", "\n") == result.rendered.text:
            lines.append(f"{path}  has CRLF line ends")
        lines += [found.told(path) for found in drift.drifted(text, result.rendered)]
        changed.append(drift.diff(text, result.rendered.text, path))
    for name, plot in result.plots:
        drawn = files.read(folder.path / name)
        if not is_current(plot, drawn):
            lines.append(f"{folder.named(name)}  {_why(drawn, plot.digest)}")
    return lines, changed


def _why(drawn: bytes | None, digest: str) -> str:
    if drawn is None:
        return "is missing"
    found = signature(drawn)
    if found is not None and found[0] == digest:
        return "was edited after it was drawn"
    return "shows other data than figures.py declares"
