"""Where each character of a rendered chapter comes from.

While a template is rendered, private-use characters surround what a figure printed and precede what
came from each line of the template. They are taken out before anything is written; what is left is
the text, the spans of its figures and the template line of every character.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from derive.notation.errors import DeriveError, quoted, written

START, MIDDLE, END, LINE = "\ue000", "\ue001", "\ue002", "\ue003"
_SHOWN = "0123456789" + "⁰¹²³⁴⁵⁶⁷⁸⁹"
_HIDDEN = "".join(map(chr, [*range(0xE010, 0xE01A), *range(0xE020, 0xE02A)]))
_HIDE, _REVEAL = str.maketrans(_SHOWN, _HIDDEN), str.maketrans(_HIDDEN, _SHOWN)
PRIVATE = re.compile("[\ud800-\udfff\ue000-\ue02f]")  # and halves of characters, which no file has
# marks, and what no reader sees or what ends a line for some programs alone
UNSEEN = re.compile(
    f"[{PRIVATE.pattern[1:-1]}\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ufeff\U000e0000-\U000e007f]"
)
_ANY = re.compile(f"([{START}{LINE}])([\ue010-\ue019]+){MIDDLE}|({END})")
_MARK = f"{END}|[{START}{LINE}][\ue010-\ue019]+{MIDDLE}"
_TRAILING = re.compile(f"(?<![ \t])[ \t]+(?=[\n{END}{START}{LINE}]|$)((?:{_MARK})*)(?=\n|$)")


@dataclass(frozen=True)
class Mark:
    """What printed a span: its kind (show, claim, cite, ...), a name, the template line, the unit
    that ends the text, if any, the words beside the number in its table, and whether what the text
    says is true."""

    kind: str
    name: str
    line: int = 0
    ending: str = ""
    place: tuple[str, ...] = ()
    holds: bool = True


@dataclass(frozen=True)
class Span:
    """The characters from `start` to `end` of a rendered chapter, printed by `mark`."""

    mark: Mark
    start: int
    end: int


@dataclass(frozen=True)
class Rendered:
    """A rendered chapter without its marks: the text, its spans in order of their start, and the
    positions at which another template line begins."""

    text: str
    spans: tuple[Span, ...]
    origins: tuple[tuple[int, int], ...]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each line begins, and where one after the last would."""
        return (0, *accumulate(len(line) + 1 for line in self.text.split("\n")))

    def row(self, position: int) -> int:
        """The line of the character at `position`, from 0."""
        return bisect_right(self.starts, position) - 1

    def line_at(self, position: int) -> int:
        """The template line of the character at `position`; 1 where there is none."""
        index = bisect_right(self.origins, (position, 1 << 60)) - 1
        return self.origins[index][1] if index >= 0 else 1


def in_full(name: str, place: tuple[str, ...]) -> str:
    """A name with the words of its place: "chips row 7 column 4 (TPU7x, Most chips)"."""
    return f"{name} ({', '.join(place)})" if place else name


def marked(index: int, text: str) -> str:
    """`text` surrounded by the characters of mark number `index`.

    Raises DeriveError for text that has no text form, that is, with private characters of its own.
    """
    return f"{START}{hidden(str(index))}{MIDDLE}{text}{END}"


def from_line(number: int) -> str:
    """The characters that say: what follows comes from template line `number`."""
    return f"{LINE}{hidden(str(number))}{MIDDLE}"


def checked(text: object) -> str:
    """`text`, if it is one line of what can be printed, without what marks are made of; else
    DeriveError."""
    if not isinstance(text, str):
        raise DeriveError(f"expected text, found {written(text)}")
    if match := UNSEEN.search(text) or re.search("\n", text):
        raise DeriveError(f"the character {match[0]!r} cannot be printed")
    return text


def plain(text: str) -> str:
    """`text` without marks."""
    return _ANY.sub("", text)


def hidden(text: str) -> str:
    """`text` with each digit as a private character, which Markdown takes for a letter."""
    return text.translate(_HIDE)


def revealed(text: str) -> str:
    """`text` with the digits that `hidden` replaced."""
    return text.translate(_REVEAL)


def parsed(raw: str, marks: list[Mark], head: str = "") -> Rendered:
    """The text, spans and origins of a rendering with marks; `head` is put before it.

    Space at the ends of lines is dropped and the text ends with one newline. Raises DeriveError
    where marks do not nest, which no template that only prints can bring about.
    """
    raw = _TRAILING.sub(r"\1", raw)
    parts = [head]
    length, cursor = len(head), 0
    open_spans: list[tuple[int, int]] = []
    spans: list[Span] = []
    origins: list[tuple[int, int]] = []
    for match in _ANY.finditer(raw):
        parts.append(raw[cursor : match.start()])
        length += match.start() - cursor
        cursor = match.end()
        number = int(revealed(match[2])) if match[2] else 0
        if match[1] == LINE:
            origins.append((length, number))
        elif match[1] == START:
            open_spans.append((number, length))
        elif open_spans:
            index, start = open_spans.pop()
            spans.append(Span(marks[index], start, length))
        else:
            raise DeriveError("a figure's marks do not nest")
    parts.append(raw[cursor:])
    text = "".join(parts)
    if open_spans or PRIVATE.search(text):
        raise DeriveError(f"a figure's text was cut: {quoted(plain(text)[-40:])}")
    text = text.rstrip("\n") + "\n"
    return Rendered(text, tuple(sorted(spans, key=lambda s: (s.start, -s.end))), tuple(origins))
