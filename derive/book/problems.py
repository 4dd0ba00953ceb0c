"""What is wrong with a chapter: one line each, with the file and the line to look at.

A chapter's problems show while it is rendered; what drifted, beside the file that is printed.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from itertools import zip_longest
from typing import TypeAlias

from derive.book.marks import Rendered, Span, in_full
from derive.notation.errors import DeriveError

_NEAR = 5  # old lines that are compared in full with a new one, and
_REACH = 200  # how far away one is looked for
_MANY = 5000
FIGURES = frozenset({"show", "claim", "given", "require", "cell", "label"})
_FORMULAS = frozenset({"formula", "ref", "cite"})
_WHOLES = frozenset({"condition", "derivation", "table", "plot", "block"})
Line: TypeAlias = list[tuple[int, int, Span]]  # the figures of a line, each with its columns
Change: TypeAlias = tuple[int, int, int, int]


@dataclass(frozen=True)
class Problem:
    """A mistake at `path`:`line` (0: the file as a whole).

    A claim or requirement that no longer holds names its `figure`, and what was `printed` and
    `derived`: under `--check` that is drift, and an error when building. A number of a table has
    the words of its row and column for its `place`. What has no number, such as "condition 6.3",
    has a `text` that says "changed", "missing" or "left over".
    """

    path: str
    line: int
    text: str
    figure: str = ""
    printed: str = ""
    derived: str = ""
    place: tuple[str, ...] = ()

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
        line = f"{self.path}:{self.line}  {in_full(self.figure, self.place)}"
        if not (self.printed or self.derived):
            return f"{line}  {self.text}"
        return f"{line}  printed {self.printed}  derived {self.derived}"


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


def drifted(old: str, new: Rendered, path: str) -> tuple[tuple[Problem, ...], str]:
    """What `old`, the file at `path`, has otherwise than `new`, in the order of its lines; and the
    text to compare it with, in which words that are not true are as the file has them.

    A figure has what is printed and what is derived; of all else it is said that it changed.
    """
    if not old:
        return (), new.text
    old = old.replace("\r\n", "\n")
    before, after = old.split("\n"), new.text.split("\n")
    numbers, wholes = _by_line(new), [span for span in new.spans if span.mark.kind in _WHOLES]
    drifts: dict[object, Problem] = {}
    untrue: dict[Span, str] = {}
    for change in _changes([*map(_even, before)], [*map(_even, after)]):
        for line, row, how, differing in sorted(_pairs(before, after, numbers, change)):
            if not differing:
                problem = Problem(path, line + 1, how, _thing(new, wholes, row, how))
                drifts.setdefault((change, how, problem.figure), problem)
            for span, printed in differing:
                mark, derived = span.mark, new.text[span.start : span.end]
                if not mark.holds:  # the template is wrong, and is told so
                    untrue[span] = printed
                elif mark.kind in FIGURES:
                    told = _numbers(printed, derived, mark.ending)
                    drifts[span] = Problem(path, line + 1, "", mark.name, *told, mark.place)
                else:
                    drifts[span] = Problem(path, line + 1, "changed", f"{mark.kind} {mark.name}")
    if old != new.text and not (drifts or untrue):  # only padding, or the end of the file
        line = next(n for n, (a, b) in enumerate(zip_longest(before, after)) if a != b)
        row = min(line, len(after) - 1)
        drifts[line] = Problem(path, line + 1, "changed", _thing(new, wholes, row, "changed"))
    return tuple(drifts.values()), _with(new.text, untrue)


def _with(text: str, words: Mapping[Span, str]) -> str:
    """The text with other words in the place of some spans."""
    for span in sorted(words, key=lambda span: -span.start):
        text = text[: span.start] + words[span] + text[span.end :]
    return text


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    """Where lines differ: from and to in the one, from and to in the other."""
    first = _alike(before, after)
    last = _alike(before[first:][::-1], after[first:][::-1])
    a, b = (lines[first : len(lines) - last] for lines in (before, after))
    # Among very many lines, those that repeat are no landmarks: matching them takes minutes.
    for tag, *edges in SequenceMatcher(None, a, b, autojunk=len(b) > _MANY).get_opcodes():
        if tag != "equal":
            i1, i2, j1, j2 = (first + edge for edge in edges)
            yield i1, i2, j1, j2


def _alike(before: Sequence[str], after: Sequence[str]) -> int:
    """How many lines are the same from the start."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(before), len(after)))


def _pairs(
    before: Sequence[str], after: Sequence[str], numbers: Mapping[int, Line], change: Change
) -> Iterator[tuple[int, int, str, list[tuple[Span, str]]]]:
    """The lines of a change: old, new, how they differ, and what the old one has in the place of
    each figure that differs. A line that one side alone has comes with the nearest of the other."""
    i1, i2, j1, j2 = change
    free = {i for i in range(i1, i2) if before[i]}
    # Lines without a figure are hard to tell apart, and take what those with figures leave.
    for row in sorted((j for j in range(j1, j2) if after[j]), key=lambda j: j not in numbers):
        spans, here = numbers.get(row, []), max(0, min(i1 + row - j1, i2 - 1))
        near = (i for n in range(_REACH) for i in dict.fromkeys((here - n, here + n)) if i in free)
        line, texts = _printed(before, near, after[row], spans) if free else (None, [])
        if line is None:
            yield here, row, "missing", []
            continue
        free.remove(line)
        columns = zip(spans, texts, strict=True)
        there = [(span, text, after[row][a:b]) for (a, b, span), text in columns]
        yield line, row, "changed", [(s, text) for s, text, x in there if text not in (None, x)]
    yield from ((line, max(0, j2 - 1), "left over", []) for line in free)


def _by_line(new: Rendered) -> dict[int, Line]:
    """For each line the outermost figures and formulas on it, with their columns."""
    by_line: dict[int, Line] = {}
    end = 0
    for span in new.spans:
        if span.mark.kind not in FIGURES | _FORMULAS or span.start < end:
            continue
        end, line = span.end, new.row(span.start)
        begin = new.starts[line]
        if end < new.starts[line + 1]:
            by_line.setdefault(line, []).append((span.start - begin, span.end - begin, span))
    return by_line


def _thing(new: Rendered, wholes: Sequence[Span], row: int, how: str) -> str:
    """What a line is part of: "condition 6.3", "table chips row 7"; or "prose"."""
    at = bisect_left(wholes, new.starts[row + 1], key=lambda span: span.start) - 1
    if at < 0 or wholes[at].end <= new.starts[row]:
        return "prose"
    mark, below = wholes[at].mark, row - new.row(wholes[at].start) - 1
    words = [mark.kind] * (mark.kind != "block") + [" ".join(mark.place) or mark.name]
    if mark.kind == "table" and how != "left over":
        words.append(f"row {max(0, below)}")
    return " ".join(words)


def _printed(
    before: Sequence[str], near: Iterator[int], line: str, spans: Line
) -> tuple[int | None, list[str | None]]:
    """The old line that goes with a new one, and what it has in the place of each figure."""
    edges = [0, *(column for first, last, _ in spans for column in (first, last)), len(line)]
    between = [line[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
    derived = [line[first:last] for first, last, _ in spans]
    likely = []
    for number in near:
        texts = _fitted(before[number], between, derived)
        if texts is not None:
            return number, list(texts)
        likely.append(number)
    # Where nothing fits, the likest of a few lines: comparing all of them takes minutes.
    ratios = {i: SequenceMatcher(None, before[i], line).ratio() for i in likely[:_NEAR]}
    best = max(ratios, key=ratios.__getitem__, default=None)
    return best, [] if best is None else _aligned(before[best], line, spans)


def _fitted(old: str, between: Sequence[str], derived: Sequence[str]) -> Sequence[str] | None:
    """What stands in `old` between the same texts, with as few changes from what is derived as can
    be; padding counts for nothing."""
    old, gaps, texts = _even(old), [*map(_even, between)], [*map(_even, derived)]
    limit = len(old) - len(gaps[-1])
    if not texts or not old.startswith(gaps[0]) or not old.endswith(gaps[-1]):
        return [] if [old] == gaps else None
    # By where the next one may begin: how many changes that takes, and what is printed before it.
    ways: dict[int, tuple[int, tuple[str, ...]]] = {len(gaps[0]): (0, ())}
    for place, (text, gap) in enumerate(zip(texts, gaps[1:], strict=True), 1):
        gaps_at = re.finditer(f"(?={re.escape(gap)})", old[:limit]) if gap else ()
        ends = [limit] if place == len(texts) else [match.start() for match in gaps_at]
        starts, following, least = sorted(ways, reverse=True), {}, (len(texts), -1)
        for end in ends:
            while starts and starts[-1] <= end:
                least = min(least, (ways[starts[-1]][0], starts.pop()))
            changes, start = least[0] + 1, least[1]
            same = end - len(text)
            if same in ways and ways[same][0] < changes and old.startswith(text, same):
                changes, start = ways[same][0], same
            if start >= 0:
                printed = old[start:end].strip(" ")
                following[end + len(gap)] = (changes, (*ways[start][1], printed))
        ways = following
    return next((printed for _, printed in ways.values()), None)


def _even(text: str) -> str:
    """The text without the padding of tables."""
    return re.sub(r"[ \t]+", " ", re.sub("-{4,}", "---", text))


def _aligned(old: str, new: str, spans: list[tuple[int, int, Span]]) -> list[str | None]:
    """What `old` has in the place of each figure where other text changed too."""
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()

    def place(position: int, ends: bool) -> int:
        """Where a position of `new`, at which a figure begins or ends, lies in `old`."""
        for tag, i1, i2, j1, j2 in steps:
            if j1 <= position - ends < j2:
                return i1 + position - j1 if tag == "equal" else i2 if ends else i1
        return len(old)

    places = ((place(first, False), place(last, True)) for first, last, _ in spans)
    return [old[start:end].strip(" ") or None for start, end in places]


def _numbers(printed: str, derived: str, ending: str) -> tuple[str, str]:
    """Both without the unit where it is the same in both."""
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
