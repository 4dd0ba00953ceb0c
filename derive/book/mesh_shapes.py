"""What a drawing of a mesh is made of: boxes, lines, marks and words, and how each kind looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from derive.book.plots import COLOURS, INK

# By kind of box: the colour, the width of its line, and how opaque its inside is.
BOXES = {
    "node": (INK, 1.4, 0.0),
    "group": (COLOURS[0], 1.1, 0.12),
    "card": (INK, 0.8, 0.0),
    "marked": (INK, 3.0, 0.0),
}
# By axis from the second one that is drawn: colour, dash and mark. 64 cards have at most six axes.
LINES = (
    (COLOURS[1], "-", "o"), (COLOURS[2], "--", "s"), (COLOURS[3], ":", "^"),
    (COLOURS[4], "-.", "D"), (COLOURS[5], "-", "v"),
)  # fmt: skip
STYLE = (1, INK, BOXES, LINES)  # the number goes up when the painting changes otherwise
SIZE, SMALL = 10.0, 9.0  # of text, in points, as all lengths are


@dataclass(frozen=True)
class Box:
    """A rectangle of a kind: node, group, card or marked."""

    kind: str
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Line:
    """A straight line from one point to another; style -1 is a thin one without an axis."""

    style: int
    start: tuple[float, float]
    end: tuple[float, float]


@dataclass(frozen=True)
class Mark:
    """The mark of an axis on a card."""

    style: int
    at: tuple[float, float]


@dataclass(frozen=True)
class Words:
    """A line of text, centred on a height; `side` is the end that its position gives."""

    text: str
    at: tuple[float, float]
    side: str = "left"
    size: float = SMALL
    bold: bool = False

    @property
    def width(self) -> float:
        """A little more than the text takes in any common face without serifs."""
        return len(self.text) * self.size * (0.7 if self.bold else 0.62)


Shape: TypeAlias = Box | Line | Mark | Words


def ends(shape: Shape) -> tuple[tuple[float, float], ...]:
    """The corners within which a shape lies."""
    if isinstance(shape, Box):
        return (shape.left, shape.top), (shape.right, shape.bottom)
    if isinstance(shape, Line):
        return shape.start, shape.end
    if isinstance(shape, Mark):
        return (shape.at,)
    before = {"left": 0.0, "center": 0.5, "right": 1.0}[shape.side] * shape.width
    (x, y), half = shape.at, shape.size / 2
    return (x - before, y - half), (x - before + shape.width, y + half)
