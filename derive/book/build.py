"""Chapters rendered in memory, built, and checked: that what is built is what would be built."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

from derive import facts
from derive.book import drawing, files, folders, statements, template
from derive.book.chapter import Chapter
from derive.book.figures import Figure
from derive.book.folders import DRAFT, FIGURES, OUTPUT, TEMPLATE, Folder, Shelf
from derive.book.lint import anchors, lint
from derive.book.marks import Rendered, parsed
from derive.book.plots import Drawable, is_current, signature
from derive.book.problems import BookError, Problem, diff, drifted
from derive.book.prose import Ledger, Prose
from derive.notation.errors import DeriveError

Outcome = TypeVar("Outcome")

# --- one chapter


@dataclass(frozen=True)
class Result:
    """A rendered chapter: its text with spans, its plots and its conditions' statements by file
    name, its figures by name with the answers to its questions, the author's words for each,
    whether each holds, and problems (claims that no longer hold among them)."""

    folder: Folder
    chapter: Chapter
    rendered: Rendered
    plots: tuple[tuple[str, Drawable], ...]
    statements: dict[str, str]
    figures: dict[str, Figure]
    words: dict[str, str]
    holding: dict[str, bool]
    problems: tuple[Problem, ...]


def render(folder: Folder, shelf: Shelf) -> Result:
    """Render a chapter of the shelf, writing nothing; `render_all` reads what came out as well.

    Raises BookError for what leaves nothing to look at: files that are missing, figures.py that
    raises, a template that cannot be read. Everything else is among the problems of the result.
    """
    chapter = shelf.chapter(folder)
    path = folder.named(TEMPLATE)
    source = template.source_of(folders.content(folder, TEMPLATE), path)
    ledger = Ledger(chapter, path, shelf)
    prose = Prose(ledger)
    compiled = template.compiled(source, path, prose.names())
    raw = prose.completed(template.rendered(compiled, path))
    head = (
        f"<!-- Made from {TEMPLATE} and {FIGURES} by: {shelf.script} {chapter.number} "
        f"(edit those, not this file) -->\n\n"
    )
    try:
        rendered = parsed(raw.lstrip("\n"), ledger.marks, head)
    except DeriveError as error:
        raise BookError(*ledger.problems, Problem(path, 0, str(error))) from None
    stated = {c.file: c.statement for c in chapter.conditions.values() if c.statement}
    problems = (*ledger.problems, *_unused(ledger, folder), *_stray(chapter, folder))
    plots = tuple((f"{p.name}.svg", p.plot) for p in chapter.plots.values())
    figures = {**chapter.numbers, **ledger.asked}
    return Result(
        folder, chapter, rendered, plots, stated, figures, ledger.words, ledger.holding, problems
    )


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
    closing = {"overrides": overridden, "errata": chapter.errata, "sources": ledger.cited}
    for block, there in closing.items():
        if there and ("block", block) not in ledger.used:
            yield Problem(path, 0, f"there are {block}, and << {block}() >> never prints them")


def _stray(chapter: Chapter, folder: Folder) -> Iterator[Problem]:
    for path in sorted({*folder.path.glob("*.svg")} - {*_drafts(folder)}):
        if path.stem not in chapter.plots and signature(files.read(path)) is not None:
            shown = folder.named(path.name)
            yield Problem(shown, 0, f"is a plot that {FIGURES} does not declare; delete it")


def _drafts(folder: Folder) -> Iterator[Path]:
    """The files of a draft: its text, and plots that the README shows otherwise or not at all."""
    return folder.path.glob(f"{DRAFT}.*")


# --- all of them


def render_all(
    shelf: Shelf, wanted: Iterable[str] = (), *, holes: bool = False
) -> dict[Folder, Result | BookError]:
    """The chapters that are wanted, or all, rendered and read by the lint, links among them too; an
    error for one that cannot be rendered. The lint reads texts with `holes` only where it is told
    to: a figure that failed printed nothing."""
    outcomes: dict[Folder, Result | BookError] = {}
    for folder in shelf.picked(wanted):
        outcomes[folder] = _attempted(shelf, folder, partial(render, folder, shelf))
    results = {f: result for f, result in outcomes.items() if isinstance(result, Result)}
    texts = {folder.path / OUTPUT: result.rendered.text for folder, result in results.items()}
    there = cache(lambda path: anchors(texts[path] if path in texts else path.read_text("utf-8")))
    for folder, result in results.items():
        outcomes[folder] = _attempted(
            shelf, folder, partial(_read, result, shelf, texts, there, holes)
        )
    return outcomes


def _attempted(shelf: Shelf, folder: Folder, step: Callable[[], Outcome]) -> Outcome | BookError:
    """What a step gives, or what stops it: its problems, or the file that the system refuses."""
    try:
        return step()
    except BookError as error:
        return error
    except OSError as error:
        return BookError(Problem(shelf.named(error), 0, error.strerror or str(error)))
    except DeriveError as error:
        return BookError(Problem(folder.shown, 0, str(error)))


def _read(
    result: Result,
    shelf: Shelf,
    texts: Mapping[Path, str],
    there: Callable[[Path], frozenset[str]],
    holes: bool,
) -> Result:
    """The result with what the lint says of it."""
    folder, problems = result.folder, list(result.problems)
    drawn = {*dict(result.plots), *result.statements, OUTPUT}
    outputs = {one.path / OUTPUT for one in shelf.folders} - texts.keys()
    unbuilt = {path for path in outputs if not path.exists()}

    def anchors_at(path: str, anchor: str) -> Set[str] | None:
        place = Path(os.path.normpath(folder.path / path))
        if not place.is_relative_to(shelf.place.parent) or path.startswith("/"):
            return None  # what is elsewhere is on this machine alone
        try:
            place = place / OUTPUT if place.is_dir() else place
            if place in unbuilt:
                return {anchor}
            if place not in texts and path not in drawn and not place.exists():
                return None
        except OSError:  # a name that is too long
            return None
        return there(place) if anchor and place.suffix == ".md" else {anchor}

    mine = folder.named(TEMPLATE)
    if holes or all(problem.is_drift or problem.path != mine for problem in problems):
        mistakes = lint(result.rendered, result.chapter.names, anchors_at)
        problems += [Problem(mine, line, text) for line, text in mistakes]
    ordered = sorted(dict.fromkeys(problems), key=lambda p: (p.path, p.line))
    return replace(result, problems=tuple(ordered))


def build(shelf: Shelf, wanted: Iterable[str] = ()) -> dict[Folder, tuple[str, ...]]:
    """Render the chapters, then write what differs; for each the names of the files written.

    Drafts of them are removed, and statements of what is no condition any more. Raises BookError
    with every problem of every chapter before anything is written, and where a file cannot be
    written; in both cases all files are as they were.
    """
    outcomes = render_all(shelf, wanted)
    if problems := [problem for outcome in outcomes.values() for problem in outcome.problems]:
        raise BookError(*sorted(problems, key=lambda p: (p.path, p.line)))
    results = {f: result for f, result in outcomes.items() if isinstance(result, Result)}
    try:
        outputs = {f: _outputs(result) for f, result in results.items()}
        left = [path for f, result in results.items() for path in _left(f, result.statements)]
        written = files.write({p: d for group in outputs.values() for p, d in group.items()})
    except OSError as error:
        text = f"{error.strerror or error}; nothing was changed"
        raise BookError(Problem(shelf.named(error), 0, text)) from None
    for path in left:
        with contextlib.suppress(OSError):
            path.unlink()
    return {f: tuple(p.name for p in group if p in written) for f, group in outputs.items()}


def _left(folder: Folder, stated: Iterable[str]) -> Iterator[Path]:
    """What a build leaves no more."""
    yield from _drafts(folder)
    yield from statements.stray(folder, stated)


def _outputs(result: Result) -> dict[Path, bytes]:
    """The text, and those plots and statements that are not current."""
    folder = result.folder.path
    outputs = {folder / OUTPUT: result.rendered.text.encode()}
    for name, plot in result.plots:
        if not is_current(plot, files.read(folder / name)):
            outputs[folder / name] = drawing.draw(plot)
    return outputs | statements.decided(result.folder, result.statements)


# --- what a build would change


@dataclass(frozen=True)
class Checked:
    """What is wrong with a chapter, what a build would change in it, and the diff of its text, none
    where it has errors: it would have holes. `figures` are the names of those that it prints."""

    folder: Folder
    errors: tuple[Problem, ...] = ()
    drifts: tuple[Problem, ...] = ()
    diff: str = ""
    figures: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """clean, drifted or broken"""
        return "broken" if self.errors else "drifted" if self.drifts or self.diff else "clean"


def check(shelf: Shelf, wanted: Iterable[str] = ()) -> list[Checked]:
    """Each chapter against what is written of it. Nothing is written."""
    folders = shelf.picked(wanted)
    if clean := _side_by_side(shelf, folders):
        return clean
    return _against_each_other(shelf, folders)


def _against_each_other(shelf: Shelf, folders: Iterable[Folder]) -> list[Checked]:
    outcomes = render_all(shelf, [folder.path.name for folder in folders])
    return [against_written(shelf, *each) for each in outcomes.items()]


def _side_by_side(shelf: Shelf, folders: Sequence[Folder]) -> list[Checked]:
    """The chapters, if all are clean: each core checks its share against the others as they are
    written, which is what they would be now. Empty where one is not, or where there is one core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    shares = [folders[k::cores] for k in range(min(cores, len(folders)))]
    if len(shares) < 2:
        return []
    facts.shipped()  # with what each share would import and read, once
    for module in ("jinja2", "markdown_it", "numpy"):
        import_module(module)
    fork, ends = get_context("fork"), []
    for share in shares[1:]:
        receiving, sending = fork.Pipe(duplex=False)
        fork.Process(target=_sent, args=(sending, shelf, share), daemon=True).start()
        sending.close()
        ends.append(receiving)
    every = _against_each_other(shelf, shares[0])
    for end in ends:
        with contextlib.suppress(EOFError):  # it ended early
            every += end.recv()
    clean = {one.folder: one for one in every if one.state == "clean"}
    return [*map(clean.__getitem__, folders)] if len(clean) == len(folders) else []


def _sent(end: Connection, shelf: Shelf, share: Sequence[Folder]) -> None:
    with contextlib.suppress(Exception, KeyboardInterrupt):  # then all is checked again, together
        end.send(_against_each_other(shelf, share))


def against_written(shelf: Shelf, folder: Folder, outcome: Result | BookError) -> Checked:
    """A chapter as `render_all` gives it, against what is written of it."""
    one = _attempted(shelf, folder, partial(_checked, folder, outcome))
    return Checked(folder, one.problems) if isinstance(one, BookError) else one


def _checked(folder: Folder, outcome: Result | BookError) -> Checked:
    errors = tuple(problem for problem in outcome.problems if not problem.is_drift)
    if isinstance(outcome, BookError):
        return Checked(folder, errors)
    claims = tuple(problem for problem in outcome.problems if problem.is_drift)
    changes, text = ((), "") if errors else _compared(outcome)
    return Checked(folder, errors, (*claims, *changes), text, tuple(outcome.words))


def _compared(result: Result) -> tuple[tuple[Problem, ...], str]:
    """The figures, plots and statements that drifted, and the diff of the text."""
    folder = result.folder
    path = folder.named(OUTPUT)
    changes: list[Problem] = []
    changed = ""
    old = files.read(folder.path / OUTPUT)
    if old != result.rendered.text.encode():
        text = (old or b"").decode("utf-8", errors="replace")
        if old is None:
            changes.append(Problem(path, 0, "is missing"))
        elif "\r" in text and text.replace("\r\n", "\n") == result.rendered.text:
            changes.append(Problem(path, 0, "has CRLF line ends"))
        drifts, derived = drifted(text, result.rendered, path)
        changes += drifts
        changed = diff(text, derived, path)
        if changed and not changes:
            changes.append(Problem(path, 0, "has other text than a build writes"))
    for name, plot in result.plots:
        drawn = files.read(folder.path / name)
        if not is_current(plot, drawn):
            changes.append(Problem(folder.named(name), 0, _why(drawn, plot.digest)))
    return (*changes, *statements.drifts(folder, result.statements)), changed


def _why(drawn: bytes | None, digest: str) -> str:
    if drawn is None:
        return "is missing"
    signed = signature(drawn)
    if signed is not None and signed[0] == digest:
        return "was edited after it was drawn"
    return "shows other data than figures.py declares"


if __name__ == "__main__":  # else a check that is typed this way would pass for ever
    raise SystemExit("run: derive build, or python build.py")
