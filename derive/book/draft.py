"""Drafts: half-written chapters as they are, with a mark at what is missing and a list of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from derive.book import drawing, files
from derive.book.build import Result, render_all
from derive.book.folders import DRAFT, Folder, Shelf
from derive.book.plots import is_current
from derive.book.problems import Problem
from derive.book.prose import HOLE
from derive.notation.printed import counted

TEXT = f"{DRAFT}.md"


@dataclass(frozen=True)
class Draft:
    """What became of a chapter: what is `missing` from its draft, or, where it could not be
    `rendered`, what stopped it."""

    folder: Folder
    rendered: bool
    missing: tuple[Problem, ...]

    def lines(self) -> Iterator[str]:
        """What was done with the chapter, then a line for each problem."""
        wrote = f"wrote {TEXT}, {_count(self.missing)}"
        yield f"{self.folder.path.name}: {wrote if self.rendered else 'cannot be rendered'}"
        yield from (f"  {problem}" for problem in self.missing)


def draft(shelf: Shelf, wanted: Iterable[str] = ()) -> list[Draft]:
    """Write the draft of each chapter that can be rendered, and nothing else: its text, and those
    plots that are not drawn yet. Raises OSError; then all files are as they were."""
    drafts: list[Draft] = []
    contents: dict[Path, bytes] = {}
    for folder, outcome in render_all(shelf, wanted, holes=True).items():
        drafts.append(Draft(folder, isinstance(outcome, Result), outcome.problems))
        if isinstance(outcome, Result):
            plots = {
                f"{DRAFT}.{name}": drawing.draw(plot)
                for name, plot in outcome.plots
                if not is_current(plot, files.read(folder.path / name))
            }
            plots[TEXT] = _text(outcome, plots).encode()
            contents |= {folder.path / name: data for name, data in plots.items()}
    files.write(contents)
    return drafts


def _text(result: Result, plots: Iterable[str]) -> str:
    """The text of a draft, which shows those `plots` that are its own."""
    text, parts, cursor = result.rendered.text, [], 0
    untrue = {(p.figure, p.line): p.derived for p in result.problems if p.is_drift}
    for span in sorted(result.rendered.spans, key=lambda span: span.end):
        mark, told = span.mark, ""
        if mark.kind == HOLE:
            told = f"missing: {mark.name}"
        elif not mark.holds:
            told = f"untrue, derived: {untrue[mark.name, mark.line]}"
        if told:
            alone = "\n" * (span.end > len(text))  # a text ends with one newline, whatever failed
            gap = " " if span.end > span.start else alone
            parts += [text[cursor : span.end], gap, _marked(told)]
            cursor = span.end
    shown = "".join([*parts, text[cursor:]])
    for name in plots:
        shown = shown.replace(f"]({name.removeprefix(f'{DRAFT}.')})", f"]({name})")
    missing = [f"- `{str(p).removesuffix(f': {p.text}')}` {_safe(p.text)}" for p in result.problems]
    listed = "\n".join(missing) or "Nothing."
    return (
        f"{_marked(f'draft, {_count(result.problems)}')}\n\n{shown}\n## Still missing\n\n{listed}\n"
    )


def _count(missing: Sequence[Problem]) -> str:
    return f"{counted(len(missing), 'problem')} left" if missing else "nothing is missing"


def _marked(text: str) -> str:
    return f"**⟦{_safe(text)}⟧**"


def _safe(text: str) -> str:
    """A text of one line that Markdown shows as it is."""
    return re.sub(r"([\\`*_<>\[\]|$#&~])", r"\\\1", " ".join(text.split()))
