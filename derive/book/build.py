"""Chapters rendered in memory, built, and checked: that what is built is what would be built."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from derive.book import drawing, folders, template
from derive.book.chapter import Chapter
from derive.book.folders import FIGURES, OUTPUT, TEMPLATE, Folder
from derive.book.lint import lint
from derive.book.marks import Rendered, parsed
from derive.book.plots import Drawable, is_current, signature
from derive.book.problems import BookError, Problem, diff, drifted
from derive.book.prose import Ledger, Prose
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
    except MemoryError:
        _say("more memory is needed than there is; no file is half written")
    except BrokenPipeError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except DeriveError as error:
        _say(str(error))
    except OSError as error:
        _say(f"{_place(error, root)}: {error.strerror or error}")
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
    if "--check" in arguments:
        return check(root, wanted)
    build(root, wanted)
    return DONE


def _say(text: str) -> None:
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)


def _place(error: OSError, root: Path) -> str:
    named = Path(str(error.filename or "the output"))
    with contextlib.suppress(ValueError):
        named = named.relative_to(root)
    return (named.parent if named.suffix == ".tmp" else named).as_posix()


# --- one chapter


@dataclass(frozen=True)
class Result:
    """A rendered chapter: its text with spans, its plots by file name, the author's words for each
    figure, whether each holds, and problems (claims that no longer hold among them)."""

    folder: Folder
    chapter: Chapter
    rendered: Rendered
    plots: tuple[tuple[str, Drawable], ...]
    words: dict[str, str]
    holding: dict[str, bool]
    problems: tuple[Problem, ...]


def render(folder: Folder) -> Result:
    """Render and lint a chapter, writing nothing.

    Raises BookError for what leaves nothing to look at: files that are missing, figures.py that
    raises, a template that cannot be read. Everything else is among the problems of the result.
    """
    chapter = folders.chapter(folder)
    path = folder.named(TEMPLATE)
    source = template.source_of(folders.content(folder, TEMPLATE), path)
    ledger = Ledger(chapter, path)
    prose = Prose(ledger)
    compiled = template.compiled(source, path, prose.names())
    raw = prose.completed(template.rendered(compiled, path))
    head = (
        f"<!-- Made from {TEMPLATE} and {FIGURES} by: python build.py {chapter.number} "
        f"(edit those, not this file) -->\n\n"
    )
    try:
        rendered = parsed(raw.lstrip("\n"), ledger.marks, head)
    except DeriveError as error:
        raise BookError(*ledger.problems, Problem(path, 0, str(error))) from None
    problems = [*ledger.problems, *_unused(ledger, folder), *_stray(chapter, folder)]
    # A function that failed printed nothing; what the lint would say of the hole is no help.
    if all(problem.is_drift for problem in ledger.problems):
        problems += _linted(rendered, ledger, folder)
    plots = tuple((f"{p.name}.svg", p.plot) for p in chapter.plots.values())
    ordered = tuple(sorted(dict.fromkeys(problems), key=lambda p: (p.path, p.line)))
    return Result(folder, chapter, rendered, plots, ledger.words, ledger.holding, ordered)


def _linted(rendered: Rendered, ledger: Ledger, folder: Folder) -> list[Problem]:
    drawn = {f"{name}.svg" for name in ledger.chapter.plots} | {OUTPUT}

    def there(path: str) -> bool:
        return path in drawn or (folder.path / path).exists()

    try:
        mistakes = lint(rendered, ledger.chapter.names, files=there)
    except DeriveError as error:
        raise BookError(Problem(folder.shown, 0, str(error))) from None
    return [Problem(ledger.path, line, text) for line, text in mistakes]


def _unused(ledger: Ledger, folder: Folder) -> Iterator[Problem]:
    """Nothing is declared that the template never prints."""
    chapter, path = ledger.chapter, folder.named(FIGURES)
    corrected = {("figure", erratum.figure) for erratum in chapter.errata}
    declared: dict[str, Iterable[str]] = {
        "figure": chapter.figures, "condition": chapter.conditions, "formula": chapter.formulas,
        "derivation": chapter.derivations, "table": chapter.tables, "plot": chapter.plots,
    }  # fmt: skip
    lines = folders.content(folder, FIGURES).decode(errors="replace").splitlines()
    for kind, names in declared.items():
        for name in names:
            if (kind, name) not in ledger.used | corrected:
                where = (n for n, text in enumerate(lines, 1) if f'"{name}"' in text)
                yield Problem(path, next(where, 0), f"{kind} {name} is declared and never printed")
    overridden = any(chip.overrides for chip in chapter.chips)
    for block, there in (("overrides", overridden), ("errata", bool(chapter.errata))):
        if there and ("block", block) not in ledger.used:
            yield Problem(path, 0, f"{block} are declared and << {block}() >> never prints them")


def _stray(chapter: Chapter, folder: Folder) -> Iterator[Problem]:
    for path in sorted(folder.path.glob("*.svg")):
        if path.stem not in chapter.plots and signature(folders.read(path)) is not None:
            shown = folder.named(path.name)
            yield Problem(shown, 0, f"is a plot that {FIGURES} does not declare; delete it")


# --- all of them


def build(root: Path, wanted: Sequence[str] = ()) -> None:
    """Render the chapters, then write what differs; prints a line for each chapter.

    Raises BookError with every problem of every chapter before anything is written, and where a
    file cannot be written; in both cases all files are as they were.
    """
    known = folders.folders(root, wanted)
    results, problems = render_all(known)
    problems += [problem for result in results for problem in result.problems]
    if problems:
        raise BookError(*sorted(problems, key=lambda p: (p.path, p.line)))
    try:
        outputs = {result.folder: _outputs(result) for result in results}
        written = folders.write({p: d for group in outputs.values() for p, d in group.items()})
    except OSError as error:
        text = f"{error.strerror or error}; nothing was changed"
        raise BookError(Problem(_place(error, root), 0, text)) from None
    for folder, group in outputs.items():
        names = [path.name for path in group if path in written]
        done = f"wrote {', '.join(names)}" if names else "unchanged"
        print(f"{folder.path.name}: {done}")


def render_all(known: Iterable[Folder]) -> tuple[list[Result], list[Problem]]:
    """The chapters that can be rendered, and the problems of those that cannot."""
    results: list[Result] = []
    problems: list[Problem] = []
    for folder in known:
        try:
            results.append(render(folder))
        except BookError as error:
            problems += error.problems
    return results, problems


def _outputs(result: Result) -> dict[Path, bytes]:
    """The text, and those plots that are not current."""
    folder = result.folder.path
    outputs = {folder / OUTPUT: result.rendered.text.encode()}
    for name, plot in result.plots:
        if not is_current(plot, folders.read(folder / name)):
            outputs[folder / name] = drawing.draw(plot)
    return outputs


def check(root: Path, wanted: Sequence[str] = ()) -> int:
    """Print what a build would change, and return 0 for nothing, 1 for drift and 2 for errors.

    Drifted figures, the diff and the command that repairs it go to standard output, all else to
    standard error. Every chapter is checked; one with an error shows its claims that drifted and no
    diff, which would have holes, and the command waits for the errors. Nothing is written.
    """
    known = folders.folders(root, wanted)
    results, broken = render_all(known)
    errors = [str(problem) for problem in broken]
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
            words.append(folder.named(TEMPLATE))
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
        numbers = " ".join(stale) if len(stale) < len(known) or wanted else ""
        first = f"edit {' and '.join(words)}, then " if words else ""
        print(f"{first}run: python build.py {numbers}".rstrip())
    return ERROR if errors else DRIFT if stale else DONE


def _compared(result: Result) -> tuple[list[str], list[str]]:
    """Lines for figures and plots that drifted, and the diff of the text."""
    folder = result.folder
    path = folder.named(OUTPUT)
    lines, changed = [], []
    old = folders.read(folder.path / OUTPUT)
    if old != result.rendered.text.encode():
        text = (old or b"").decode("utf-8", errors="replace")
        if old is None:
            lines.append(f"{path}  is missing")
        elif "\r" in text and text.replace("\r\n", "\n") == result.rendered.text:
            lines.append(f"{path}  has CRLF line ends")
        lines += [problem.drift() for problem in drifted(text, result.rendered, path)]
        changed.append(diff(text, result.rendered.text, path))
    for name, plot in result.plots:
        drawn = folders.read(folder.path / name)
        if not is_current(plot, drawn):
            lines.append(f"{folder.named(name)}  {_why(drawn, plot.digest)}")
    return lines, changed


def _why(drawn: bytes | None, digest: str) -> str:
    if drawn is None:
        return "is missing"
    signed = signature(drawn)
    if signed is not None and signed[0] == digest:
        return "was edited after it was drawn"
    return "shows other data than figures.py declares"
