"""One chapter rendered and checked in memory: its text, its plots, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from derive.book import files, load, template
from derive.book.blocks import completed
from derive.book.chapter import Chapter
from derive.book.ledger import Ledger
from derive.book.lint import lint
from derive.book.load import FIGURES, OUTPUT, TEMPLATE, Folder
from derive.book.marks import Rendered, parsed
from derive.book.plots import Drawing, signature
from derive.book.problems import BookError, Problem
from derive.book.prose import Prose
from derive.notation.errors import DeriveError


@dataclass(frozen=True)
class Result:
    """A rendered chapter: its text with spans, its plots by file name, the author's words for each
    figure, whether each holds, and problems (claims that no longer hold among them)."""

    folder: Folder
    chapter: Chapter
    rendered: Rendered
    plots: tuple[tuple[str, Drawing], ...]
    words: dict[str, str]
    holding: dict[str, bool]
    problems: tuple[Problem, ...]


def render(folder: Folder) -> Result:
    """Render and lint a chapter, writing nothing.

    Raises BookError for what leaves nothing to look at: files that are missing, figures.py that
    raises, a template that cannot be read. Everything else is among the problems of the result.
    """
    chapter = load.chapter(folder)
    path = folder.named(TEMPLATE)
    source = template.source_of(load.template(folder), path)
    ledger = Ledger(chapter, path)
    made = template.compiled(source, path, Prose(ledger).names())
    raw = completed(template.rendered(made, path), ledger)
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
        found = lint(rendered, ledger.chapter.names, files=there)
    except DeriveError as error:
        raise BookError(Problem(folder.shown, 0, str(error))) from None
    return [Problem(ledger.path, line, text) for line, text in found]


def _unused(ledger: Ledger, folder: Folder) -> Iterator[Problem]:
    """Nothing is declared that the template never prints."""
    chapter, path = ledger.chapter, folder.named(FIGURES)
    corrected = {("figure", erratum.figure) for erratum in chapter.errata}
    declared: dict[str, Iterable[str]] = {
        "figure": chapter.figures, "condition": chapter.conditions, "formula": chapter.formulas,
        "derivation": chapter.derivations, "table": chapter.tables, "plot": chapter.plots,
    }  # fmt: skip
    for kind, names in declared.items():
        for name in names:
            if (kind, name) not in ledger.used | corrected:
                yield Problem(path, 0, f"{kind} {name} is declared and never printed")
    overridden = any(chip.overrides for chip in chapter.chips)
    for block, there in (("overrides", overridden), ("errata", bool(chapter.errata))):
        if there and ("block", block) not in ledger.used:
            yield Problem(path, 0, f"{block} are declared and << {block}() >> never prints them")


def _stray(chapter: Chapter, folder: Folder) -> Iterator[Problem]:
    for path in sorted(folder.path.glob("*.svg")):
        if path.stem not in chapter.plots and signature(files.read(path)) is not None:
            shown = folder.named(path.name)
            yield Problem(shown, 0, f"is a plot that {FIGURES} does not declare; delete it")
