"""The book on the command line: `derive build`, which is `python build.py`, renders or checks its
chapters; `derive figures` lists their figures, and `derive why` tells where one comes from."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from derive.book import report
from derive.book.build import Checked, build, check
from derive.book.draft import draft
from derive.book.files import terminated_as_interrupted
from derive.book.folders import TEMPLATE, Folder, Shelf
from derive.book.problems import BookError
from derive.commands import guide, mutate, output
from derive.commands.formats import Document, row, told
from derive.commands.parser import FORMATS, PLANNED
from derive.commands.shelf import shelf_of
from derive.commands.watch import watch
from derive.notation.errors import DeriveError
from derive.notation.printed import counted

DONE, DRIFT, ERROR = 0, 1, 2


def run(options: Namespace) -> tuple[Any, str, int]:
    """What was built, or what a build would change, as data and in the format that was asked for,
    and the exit code: 1 for drift under --check. In text, mistakes go to standard error.

    Raises DeriveError where nothing can be built or checked.
    """
    form = options.format or FORMATS[0]
    if form == "junit" and not options.check:
        raise DeriveError("--format junit: of a check; add --check, or take another format")
    if options.watch and (options.check or options.format):
        raise DeriveError("--watch: builds or drafts, told in text; leave out --check and --format")
    if options.draft and form == "github":
        raise DeriveError("--format github: of a build or a check; leave out --draft")
    if not options.mutate and (options.only or options.tests):
        raise DeriveError("--only and --tests: of changes; add --mutate, or leave them out")
    if options.mutate and (options.watch or form not in ("text", "json")):
        raise DeriveError("--mutate: told in text or JSON; leave out --watch and --format")
    shelf = shelf_of(options)
    if options.mutate:
        return mutate.run(shelf, options)
    try:
        with terminated_as_interrupted():
            if options.check:
                return _check(shelf, options.chapter, form)
            if options.watch:
                return _watch(shelf, options)
            if options.draft:
                return _draft(shelf, options.chapter)
            written = build(shelf, options.chapter)
            page = guide.written(shelf.place) if not options.chapter else ()
    except BookError as error:
        if form == FORMATS[0]:
            output.complain(str(error))
        rows = [row(problem) for problem in error.problems]
        return {"errors": rows}, told(form, [Document(shelf.place.name, error.problems)]), ERROR
    except KeyboardInterrupt:
        raise DeriveError("interrupted; no file is half written") from None
    lines = [*map(_line, written, written.values()), *(f"wrote {path.name}" for path in page)]
    data = {f.shown: list(names) for f, names in written.items()}
    return data, "\n".join(lines) if form == FORMATS[0] else "", DONE


def _line(folder: Folder, names: Sequence[str]) -> str:
    return f"{folder.path.name}: {'wrote ' + ', '.join(names) if names else 'unchanged'}"


def _draft(shelf: Shelf, wanted: Sequence[str]) -> tuple[Any, str, int]:
    """Every draft is written that can be; for the others, what stopped them is an error."""
    drafts = draft(shelf, wanted)
    for one in drafts:
        if not one.rendered:
            output.complain("\n".join(one.lines()))
    data = {
        one.folder.shown: {
            "rendered": one.rendered,
            "missing": [row(problem) for problem in one.missing],
        }
        for one in drafts
    }
    lines = [line for one in drafts if one.rendered for line in one.lines()]
    return data, "\n".join(lines), DONE if all(one.rendered for one in drafts) else ERROR


def _watch(shelf: Shelf, options: Namespace) -> tuple[None, str, int]:
    """Until Ctrl-C; each attempt reads everything anew."""

    def picked() -> list[str]:
        return [folder.path.name for folder in shelf_of(options).picked(options.chapter)]

    def attempt(name: str) -> Iterator[str]:
        fresh = shelf_of(options)
        if options.draft:
            return chain.from_iterable(one.lines() for one in draft(fresh, [name]))
        try:
            return iter([_line(*one) for one in build(fresh, [name]).items()])
        except BookError as error:
            told = f"{name}: {counted(len(error.problems), 'problem')}, nothing is written"
            return iter([told, *(f"  {problem}" for problem in error.problems)])

    again = [sys.executable, "-m", "derive", "build", "--chapters", str(shelf.place)]
    output.write(f"watching {', '.join(picked())} (Ctrl-C ends it)")
    watch(shelf.place, picked, attempt, [*again, *["--draft"] * options.draft])
    return None, "watched no longer", DONE


def _check(shelf: Shelf, wanted: Sequence[str], form: str) -> tuple[Any, str, int]:
    """Every chapter is checked; the command that repairs waits for the errors."""
    chapters = [*check(shelf, wanted), *(() if wanted else guide.checked(shelf.place))]
    states = {chapter.state for chapter in chapters}
    code = ERROR if "broken" in states else DRIFT if "drifted" in states else DONE
    repair = _repair(shelf, chapters, wanted)
    documents = [Document(c.folder.shown, c.errors, c.drifts, c.diff, c.figures) for c in chapters]
    text = told(form, documents)
    if form == FORMATS[0]:
        _complain(shelf, chapters, wanted)
        text = f"{text}\n{repair}" if code == DRIFT else text
    data = {
        "clean": code == DONE,
        "chapters": [
            {
                "chapter": chapter.folder.number or None,
                "folder": chapter.folder.shown,
                "state": chapter.state,
                "drifts": [row(problem, drift=True) for problem in chapter.drifts],
                "errors": [row(problem) for problem in chapter.errors],
                "diff": chapter.diff,
            }
            for chapter in chapters
        ],
        "repair": repair,
    }
    return data, text, code


def _complain(shelf: Shelf, chapters: Sequence[Checked], wanted: Sequence[str]) -> None:
    """Tell which chapters are as they should be, and the errors of the others."""
    for chapter in chapters:
        if chapter.state == "clean":
            output.complain(f"{chapter.folder.path.name}: up to date")
    errors = [problem for chapter in chapters for problem in chapter.errors]
    for problem in errors:
        output.complain(str(problem))
    if errors:
        them = "the error above" if len(errors) == 1 else "the errors above"
        again = " ".join([shelf.command, "--check", *wanted])
        output.complain(f"mend {them}, then run: {again}")


def _repair(shelf: Shelf, chapters: Sequence[Checked], wanted: Sequence[str]) -> str:
    """What mends the drift: the templates to edit first, if any, and the command."""
    stale = [chapter for chapter in chapters if chapter.drifts or chapter.diff]
    if not stale:
        return ""
    numbers = [c.folder.number for c in stale] if len(stale) < len(chapters) or wanted else []
    numbers = numbers if all(numbers) else []  # the page for authors has none
    templates = [
        path
        for c in stale
        if (path := c.folder.named(TEMPLATE)) in {problem.path for problem in c.drifts}
    ]
    first = f"edit {' and '.join(templates)}, then " if templates else ""
    return " ".join([f"{first}run: {shelf.command}", *numbers])


def figures(options: Namespace) -> tuple[list[dict[str, Any]], str, int]:
    """Every figure of the chapters as JSON-ready data and as a listing, and the exit code: 1 where
    one does not hold. Errors of chapters go to standard error. Raises DeriveError."""
    figures, errors = report.figures(shelf_of(options), options.chapter)
    for error in errors:
        output.complain(str(error))
    code = ERROR if errors else DONE if all(figure["holds"] for figure in figures) else DRIFT
    return figures, report.listing(figures), code


def why(options: Namespace) -> tuple[None, str]:
    """The tree of one figure, named CHAPTER.FIGURE or plan.RANK.NAME, down to its sources. Raises
    DeriveError."""
    if options.figure.startswith("plan."):
        from derive.commands import plan  # for this alone: it takes a tenth of a second

        return None, plan.why(options)
    for name in PLANNED:
        if getattr(options, name) is not None:
            raise DeriveError(f"--{name}: of a plan alone, such as plan.1.mfu; leave it out")
    return None, report.why(shelf_of(options), options.figure)
