"""What is wrong with a chapter: one line each, with the file and the line to look at.

A chapter's problems show while it is rendered; what drifted, beside the file that is printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff

from derive.book.marks import Rendered, Span
from derive.notation.errors import DeriveError

_NEAR = 5
_FIGURES = frozenset({"show", "claim", "given", "require", "cell"})


@dataclass(frozen=True)
class Problem:
    """A mistake at `path`:`line` (0: the file as a whole).

    A claim or requirement that no longer holds names its `figure`, and what was `printed` and
    `derived`: under `--check` that is drift, and an error when building.
    """

    path: str
    line: int
    text: str
    figure: str = ""
    printed: str = ""
    derived: str = ""

    @property
    def is_drift(self) -> bool:
        return bool(self.figure)

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.text}"

    def drift(self) -> str:
        """The line of the drift report: place, figure, what is printed and what is derived; or what
        is wrong with the file as a whole."""
        if not self.is_drift:
            return f"{self.path}  {self.text}"
        place = f"{self.path}:{self.line}  {self.figure}"
        return f"{place}  printed {self.printed}  derived {self.derived}"


@dataclass(frozen=True)
class Mistake:
    """What the lint finds at a line of the rendered text, counted from 0; `typed` is the very text
    that is wrong, where there is one."""

    line: int
    text: str
    typed: str = ""


class BookError(DeriveError):
    """What stops a chapter, or the whole build: its problems, one a line."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


# --- what drifted


def drifted(old: str, new: Rendered, path: str) -> tuple[Problem, ...]:
    """The figures of `new` that `old`, the file at `path`, prints otherwise, in the order of its
    lines."""
    before, after = old.split("\n"), new.text.split("\n")
    spans = _by_line(new)
    drifts: list[Problem] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "replace":
            continue
        free = list(range(i1, i2))
        for number in range(j1, j2):
            if number not in spans or not free:
                continue
            here = min(i1 + number - j1, i2 - 1)
            order = sorted(free, key=lambda i, at=here: abs(i - at))  # type: ignore[misc]
            line, texts = _printed(before, order, after[number], spans[number])
            free.remove(line)
            for (_, _, span), text in zip(spans[number], texts, strict=True):
                derived = new.text[span.start : span.end]
                if text is not None and text != derived:
                    numbers = _numbers(text, derived, span)
                    drifts.append(Problem(path, line + 1, "", span.mark.name, *numbers))
    return tuple(drifts)


def _by_line(new: Rendered) -> dict[int, list[tuple[int, int, Span]]]:
    """For each line the outermost figures on it, with their columns."""
    by_line: dict[int, list[tuple[int, int, Span]]] = {}
    end = 0
    for span in new.spans:
        if span.mark.kind not in _FIGURES or span.start < end:
            continue
        end = span.end
        begin = new.text.rfind("\n", 0, span.start) + 1
        line = new.text.count("\n", 0, begin)
        if "\n" not in new.text[span.start : span.end]:
            by_line.setdefault(line, []).append((span.start - begin, span.end - begin, span))
    return by_line


def _printed(
    before: Sequence[str], order: Sequence[int], line: str, spans: list[tuple[int, int, Span]]
) -> tuple[int, list[str | None]]:
    """The old line that goes with a new one, and what it has in the place of each figure."""
    edges = [0, *(column for first, last, _ in spans for column in (first, last)), len(line)]
    between = [line[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
    for number in order:
        texts = _fitted(before[number], between)
        if texts is not None:
            return number, list(texts)
    # Where nothing fits, the likest of a few lines: comparing all of them takes minutes.
    best = max(order[:_NEAR], key=lambda i: (SequenceMatcher(None, before[i], line).ratio(), -i))
    return best, _aligned(before[best], line, spans)


def _fitted(old: str, between: Sequence[str]) -> list[str] | None:
    """What stands in `old` between the same texts, where padding counts for nothing."""
    old, texts = _squeezed(old), [_squeezed(text) for text in between]
    if not old.startswith(texts[0]) or not old.endswith(texts[-1]):
        return None
    printed, cursor, limit = [], len(texts[0]), len(old) - len(texts[-1])
    for text in texts[1:-1]:
        at = old.find(text, cursor, limit)
        if at < 0 or not text:
            return None
        printed.append(old[cursor:at].strip(" "))
        cursor = at + len(text)
    if cursor > limit:
        return None
    return [*printed, old[cursor:limit].strip(" ")]


def _squeezed(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text)


def _aligned(old: str, new: str, spans: list[tuple[int, int, Span]]) -> list[str | None]:
    """What `old` has in the place of each figure where other text changed too."""
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    edges = (
        (_mapped(steps, first, last_side=False), _mapped(steps, last, last_side=True))
        for first, last, _ in spans
    )
    return [old[start:end].strip(" ") or None for start, end in edges]


def _mapped(
    steps: Sequence[tuple[str, int, int, int, int]], position: int, *, last_side: bool
) -> int:
    for tag, i1, i2, j1, j2 in steps:
        inside = j1 < position <= j2 if last_side else j1 <= position < j2
        if inside:
            if tag == "equal":
                return i1 + position - j1
            return i2 if last_side else i1
    return steps[-1][2] if steps else 0


def _numbers(printed: str, derived: str, span: Span) -> tuple[str, str]:
    """Both without the unit where it is the same in both."""
    ending = span.mark.ending
    if ending and printed.endswith(ending) and derived.endswith(ending):
        return printed.removesuffix(ending), derived.removesuffix(ending)
    return printed, derived


def diff(old: str, new: str, path: str) -> str:
    """A unified diff with a/ and b/ headers; empty where nothing differs."""
    lines = unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
