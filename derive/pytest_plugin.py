"""A plugin of pytest: each figure of a text that `derive audit` reads is a test, and so is each
figure of a chapter (`chapter.md.j2` beside `figures.py`), which is rendered once.

What judges them is imported when the first of them is collected: other runs import nothing of it.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from derive.book.folders import Shelf
    from derive.commands.audit import Answer

TEXTS = (".md", ".markdown", ".qmd")
CHAPTER, FIGURES = "chapter.md.j2", "figures.py"
_ANSWER = pytest.StashKey["Answer"]()
_SHELVES = pytest.StashKey[dict[Path, "Shelf"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of `derive audit`, for pytest.ini or pyproject.toml."""
    parser.addini("derive_facts", "TOML files of facts for the figures of texts", type="paths")
    parser.addini("derive_profile", "whose readings of the facts, where a comment names none")
    parser.addini("derive_chapters", "the book whose figures comments ask for by `why 06.x`")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.File | None:
    """A text with comments that ask, or a chapter; nothing for any other file."""
    if file_path.name == CHAPTER and (file_path.parent / FIGURES).is_file():
        return ChapterFile.from_parent(parent, path=file_path)
    if file_path.suffix in TEXTS and file_path.is_file() and _asks(file_path.read_bytes()):
        return TextFile.from_parent(parent, path=file_path)
    return None


def _asks(text: bytes) -> bool:
    return b"<!--" in text and b"derive" in text


class Untrue(Exception):
    """A figure that does not hold, told in a line."""


class Figure(pytest.Item):
    """A figure at a line: `told` gives what is wrong with it, "" where nothing is."""

    def __init__(self, *, line: int, told: Callable[[], str], **more: Any) -> None:
        super().__init__(**more)
        self.line, self.told = line, told

    def runtest(self) -> None:
        if message := self.told():
            raise Untrue(message)

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, Untrue):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, max(self.line - 1, 0), self.name


class TextFile(pytest.File):
    """A text whose figures have comments that ask."""

    def collect(self) -> Iterator[Figure]:
        from derive.book.audit import places
        from derive.commands.audit import MATCH, judged, text_of
        from derive.notation.errors import DeriveError, plain

        try:
            text = text_of(str(self.path))
            answer = _answer(self.config)
        except DeriveError as error:
            raise self.CollectError(str(error)) from None
        shown = _shown(self)
        for place in places(text):

            def told(place: Any = place) -> str:
                verdict = judged(shown, place, answer)
                return "" if verdict.state == MATCH else plain(str(verdict))

            name = plain(f"{place.line}:{place.column} {place.printed or place.error}")
            yield Figure.from_parent(self, name=name, line=place.line, told=told)


class ChapterFile(pytest.File):
    """A chapter of a book: its figures, and its text as a whole."""

    def collect(self) -> Iterator[Figure]:
        from derive.book.build import Result, against_written, render_all
        from derive.book.problems import FIGURES as FIGURE_MARKS
        from derive.notation.errors import DeriveError, plain

        try:
            shelf = _shelf(self.config, self.path.parent.parent)
            ((folder, outcome),) = render_all(shelf, [self.path.parent.name]).items()
            checked = against_written(shelf, folder, outcome)
        except DeriveError as error:
            raise self.CollectError(str(error)) from None
        template, lines = folder.named(self.path.name), list[str]()
        spans = outcome.rendered.spans if isinstance(outcome, Result) else ()
        names = set()
        for span in spans:
            mark = span.mark
            if mark.kind not in FIGURE_MARKS:
                continue
            assert isinstance(outcome, Result)
            names.add(mark.name)
            wrong = [
                plain(drift.drift())
                for drift in checked.drifts
                if drift.figure == mark.name and drift.line in (mark.line, *_other(drift, template))
            ]
            words = outcome.rendered.text[span.start : span.end]
            name = plain(f"{mark.line} {' '.join(words.split())}")
            yield Figure.from_parent(self, name=name, line=mark.line, told="\n".join(wrong).__str__)
        lines += [str(error) for error in checked.errors]
        lines += [one.drift() for one in checked.drifts if one.figure not in names]
        if checked.diff and not checked.drifts:
            lines.append(f"{folder.shown}: the text differs from what a build writes")
        told = plain("\n".join(lines))
        yield Figure.from_parent(self, name="text", line=1, told=told.__str__)


def _other(drift: Any, template: str) -> tuple[int, ...]:
    """The line of a drift that is not of the template, which no line of the template can be."""
    return () if drift.path == template else (drift.line,)


def _shown(node: pytest.File) -> str:
    root = node.config.rootpath
    return str(node.path.relative_to(root) if node.path.is_relative_to(root) else node.path)


def _answer(config: pytest.Config) -> Answer:
    from derive.commands.audit import answers

    if _ANSWER not in config.stash:
        chapters = config.getini("derive_chapters")
        config.stash[_ANSWER] = answers(
            Namespace(
                facts=[str(path) for path in config.getini("derive_facts")],
                profile=config.getini("derive_profile") or None,
                chapters=str(config.rootpath / chapters) if chapters else None,
            )
        )
    return config.stash[_ANSWER]


def _shelf(config: pytest.Config, place: Path) -> Shelf:
    from derive.commands.shelf import shelf_of

    shelves = config.stash.setdefault(_SHELVES, {})
    if place not in shelves:
        shelves[place] = shelf_of(Namespace(chapters=str(place)))
    return shelves[place]
