"""A mesh as a picture: its cards in rank order, their nodes, and the groups of one of them.

Cards stand in rows, each with its rank and its coordinates, inside boxes for their node and their
innermost group. One group of each other axis, that of the marked card, is a line with a mark on
each member. An axis has its own colour, dash and mark, so that the picture does without colours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import groupby
from typing import TypeAlias

from derive.book.plots import COLOURS, INK, Labelled
from derive.notation.errors import DeriveError
from derive.notation.printed import counted
from derive.plan.mesh import Mesh

LARGEST = 64
LONGEST = 16  # cards in a row, and rows of whole axes before an axis is broken over several rows
AXIS_WORDS = {
    "tp": "tensor", "cp": "context", "ep": "expert", "dp": "data", "pp": "pipeline",
    "dp_shard": "sharded data", "dp_replicate": "replicated data", "etp": "expert tensor",
    "edp": "expert data",
}  # fmt: skip
# By kind of box: the colour, the width of its line, and how opaque its inside is.
BOXES = {
    "node": (INK, 1.4, 0), "group": (COLOURS[0], 1.1, 0.12), "card": (INK, 0.8, 0),
    "marked": (INK, 3, 0),
}  # fmt: skip
# By axis from the second one that is drawn: colour, dash and mark. 64 cards have at most six axes.
LINES = (
    (COLOURS[1], "none", "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z"),
    (COLOURS[2], "6 3", "M-3.5-3.5h7v7h-7z"),
    (COLOURS[3], "2 3", "M0-4.2L4.2 3.4h-8.4z"),
    (COLOURS[4], "8 3 2 3", "M0-4.6L4.6 0 0 4.6-4.6 0z"),
    (COLOURS[5], "none", "M0 4.2L4.2-3.4h-8.4z"),
)
# All lengths are points: a card beside its words, what is free between cards, the pads of boxes.
SIDES, HIGH, BESIDE, BELOW, GROUP, NODE = 36.0, 46.0, 18.0, 34.0, 4.0, 8.0
MARGIN, LINE, SWATCH, SMALL, LARGE = 12.0, 18.0, 44.0, 9.0, 11.0
# Where lines cross a card, clear of its words: along a row from its top, down the rows from a side.
LEVEL, UPRIGHT = (6.0, HIGH - 6), (6.0, -6.0, 12.0)
Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Shape:
    """What is drawn: a box, a line, a mark or a text, by its kind; `name` is the text, or the axis
    of a line and of its marks. It lies between its corners."""

    kind: str
    name: str
    corners: tuple[Point, Point]
    svg: str


def _box(kind: str, left: float, top: float, right: float, bottom: float) -> Shape:
    colour, width, opaque = BOXES[kind]
    place = f'x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}"'
    style = f'fill="{colour}" fill-opacity="{opaque}" stroke="{colour}" stroke-width="{width}"'
    return Shape(kind, "", ((left, top), (right, bottom)), f"<rect {place} {style}/>")


def _line(axis: str, style: int, start: Point, end: Point) -> Shape:
    colour, dash, _ = LINES[style]
    path = f'd="M{start[0]:g} {start[1]:g}L{end[0]:g} {end[1]:g}" stroke="{colour}"'
    svg = f'<path {path} stroke-width="1.6" stroke-dasharray="{dash}"/>'
    return Shape("line", axis, (start, end), svg)


def _mark(axis: str, style: int, at: Point) -> Shape:
    colour, _, path = LINES[style]
    place = f'transform="translate({at[0]:g} {at[1]:g})"'
    return Shape("mark", axis, (at, at), f'<path d="{path}" {place} fill="{colour}"/>')


def _text(
    text: str, at: Point, size: float = SMALL, bold: bool = False, middle: bool = False
) -> Shape:
    """A text whose middle is at a height; it begins at `at`, or has its middle there."""
    wide = _width(text, size, bold)
    left, top = at[0] - (wide / 2 if middle else 0), at[1] - size / 2
    style = ' font-weight="bold"' * bold + ' text-anchor="middle"' * middle
    # The foot of the letters is about a third of their size below the middle.
    place = f'x="{at[0]:g}" y="{at[1] + 0.35 * size:g}" font-size="{size:g}"'
    svg = f"<text {place}{style}>{escape(text, quote=False)}</text>"
    return Shape("text", text, ((left, top), (left + wide, top + size)), svg)


def _width(text: str, size: float = SMALL, bold: bool = False) -> float:
    """A little more than a text takes in any common face without serifs."""
    return len(text) * size * (0.7 if bold else 0.62)


@dataclass(frozen=True)
class MeshDrawing(Labelled):
    """A drawing of a mesh, with one card marked and a group of each axis through that card.

    Raises DeriveError for a mesh of more than 64 cards and for a rank outside the mesh.
    """

    mesh: Mesh
    rank: int

    def __post_init__(self) -> None:
        if self.mesh.cards > LARGEST:
            raise DeriveError(f"a mesh of {self.mesh.cards:,} cards; a drawing holds {LARGEST}")
        self.mesh.coordinates(self.rank)

    @property
    def title(self) -> str:
        """How many cards on how many nodes."""
        cards, nodes = counted(self.mesh.cards, "card"), counted(self.mesh.nodes, "node")
        return f"{cards} on {nodes} of {self.mesh.cards_per_node}"

    @property
    def description(self) -> str:
        """What the drawing shows, in words."""
        axes = "; ".join(
            f"{name}, {counted(int(ways), 'way')}, {where}, with the group {group}"
            for name, ways, group, where in self.legend
        )
        return f"{self.title}. From the inside out: {axes}. {self.coordinates}."

    @property
    def coordinates(self) -> str:
        """The coordinates of the marked card, outermost first."""
        at = self.mesh.coordinates(self.rank)
        listed = ", ".join(f"{AXIS_WORDS[a]} {at[a]}" for a in self.mesh.names)
        return f"Rank {self.rank} is {listed}"

    @property
    def legend(self) -> tuple[tuple[str, str, str, str], ...]:
        """For each axis, innermost first: name, ways, group of the marked card, and where."""
        return tuple(
            (f"{AXIS_WORDS[a]} ({a})", str(n), _ranks(self._group(a)), _where(self.mesh, a))
            for a, n in self.mesh.axes
        )

    @property
    def digest(self) -> str:
        """The digest of everything that is shown, the same on every machine."""
        return hashlib.sha256(self.svg.encode()).hexdigest()

    @cached_property
    def svg(self) -> str:
        """The drawing as SVG. Words stay words, in whatever face without serifs the reader has:
        nothing is placed by their exact width."""
        wide, high = (
            max(at) + MARGIN for at in zip(*(s.corners[1] for s in self.shapes), strict=True)
        )
        lines = [
            '<?xml version="1.0" encoding="utf-8"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{wide:g}pt" '
            f'height="{high:g}pt" viewBox="0 0 {wide:g} {high:g}" fill="{INK}" '
            'font-family="DejaVu Sans, Verdana, sans-serif">',
            f"<title>{escape(self.title, quote=False)}</title>",
            f"<desc>{escape(self.description, quote=False)}</desc>",
            *(shape.svg for shape in self.shapes),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes with more than one way, innermost first."""
        return tuple(name for name, size in self.mesh.axes if size > 1)

    @cached_property
    def rows(self) -> tuple[range, ...]:
        """The ranks of each row, from the top down.

        A row holds whole axes, the innermost ones, no narrower than the grid is high, wherever the
        mesh can be drawn so. Else the first axis that is too long is broken over several rows.
        """
        cards, width, block = self.mesh.cards, 1, 0
        for _, size in self.mesh.axes:
            if width**2 >= cards or (width * size > LONGEST >= cards // width):
                break
            if width * size > LONGEST:
                block, width = width * size, width * _piece(cards, width, size)
                break
            width *= size
        block = block or width
        return tuple(
            range(start, min(start + width, first + block))
            for first in range(0, cards, block)
            for start in range(first, first + block, width)
        )

    @cached_property
    def _wide(self) -> float:
        return SIDES + _width(self._digits(self.mesh.cards - 1))

    @cached_property
    def _corners(self) -> dict[int, Point]:
        """The upper left corner of each card."""
        left, top = MARGIN + NODE, MARGIN + 1.5 * LINE + BELOW - NODE
        return {
            rank: (left + column * (self._wide + BESIDE), top + row * (HIGH + BELOW))
            for row, ranks in enumerate(self.rows)
            for column, rank in enumerate(ranks)
        }

    def _digits(self, rank: int) -> str:
        """The coordinates of a rank as digits of a mixed radix, outermost first."""
        at = self.mesh.coordinates(rank)
        return " ".join(str(at[axis]) for axis in self.axes[::-1])

    def _group(self, axis: str) -> tuple[int, ...]:
        return next(group for group in self.mesh.groups(axis) if self.rank in group)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """All that is drawn, from the back to the front."""
        title = _text(self.title, (MARGIN, MARGIN + LARGE / 2), LARGE, bold=True)
        return (title, *self._boxes(), *self._cards(), *self._lines(), *self._key())

    def _boxes(self) -> Iterator[Shape]:
        for node, left, top, right, bottom in self._runs(self.mesh.node):
            label = BELOW - 2 * NODE - GROUP
            yield _box("node", left - NODE, top - NODE - label, right + NODE, bottom + NODE)
            yield _text(f"node {node}", (left, top - NODE / 2 - label / 2))
        if self.axes:
            size = self.mesh.sizes[self.axes[0]]
            for _, left, top, right, bottom in self._runs(lambda rank: rank // size):
                yield _box("group", left - GROUP, top - GROUP, right + GROUP, bottom + GROUP)

    def _cards(self) -> Iterator[Shape]:
        for rank, (x, y) in self._corners.items():
            marked, middle = rank == self.rank, x + self._wide / 2
            yield _box("marked" if marked else "card", x, y, x + self._wide, y + HIGH)
            yield _text(str(rank), (middle, y + HIGH * 0.4), LARGE, marked, middle=True)
            yield _text(self._digits(rank), (middle, y + HIGH * 0.7), bold=marked, middle=True)

    def _runs(self, key: Callable[[int], int]) -> list[tuple[int, float, float, float, float]]:
        """The rectangles of consecutive ranks of one key, such as their node: the key and sides."""
        runs: list[tuple[int, float, float, float, float]] = []
        for ranks in self.rows:
            for value, members in groupby(ranks, key):
                corners = [self._corners[rank] for rank in members]
                (left, top), right = corners[0], corners[-1][0] + self._wide
                above = next((run for run in reversed(runs) if run[0] == value), None)
                if above is not None and (above[1], above[3]) == (left, right):
                    runs.remove(above)
                    top = above[2]
                runs.append((value, left, top, right, corners[0][1] + HIGH))
        return runs

    def _lines(self) -> Iterator[Shape]:
        """The group of the marked card along each axis but the innermost."""
        level, upright = iter(LEVEL), iter(UPRIGHT)
        for style, axis in enumerate(self.axes[1:]):
            corners = [self._corners[rank] for rank in self._group(axis)]
            rows = [list(row) for _, row in groupby(corners, lambda corner: corner[1])]
            # A line along a row has a height of its own on the cards, one down the rows a side.
            x = next(upright) % self._wide if len(rows) > 1 else self._wide / 2
            y = next(level) if len(rows) < len(corners) else HIGH / 2
            points = [[(left + x, top + y) for left, top in row] for row in rows]
            for row in points:
                if len(row) > 1:
                    yield _line(axis, style, row[0], row[-1])
            if len(points) > 1:
                yield _line(axis, style, points[0][0], (points[0][0][0], points[-1][0][1]))
            yield from (_mark(axis, style, point) for row in points for point in row)

    def _key(self) -> Iterator[Shape]:
        """The legend: a row for each axis with its ways and its example, and the marked card."""
        x, y = MARGIN + SWATCH, max(y for _, y in self._corners.values()) + HIGH + NODE + LINE
        heads = ("from the inside out", "ways", f"group of {self.rank}", "its groups lie")
        for column in zip(heads, *self.legend, strict=True):
            for place, text in enumerate(column):
                yield _text(text, (x, y + place * LINE), bold=not place)
            x += max(_width(text, bold=not place) for place, text in enumerate(column)) + 12
        for style, axis in enumerate(self.axes, -1):
            row = y + LINE * (1 + self.mesh.names[::-1].index(axis))
            if style < 0:
                yield _box("group", MARGIN + 4, row - 6, MARGIN + SWATCH - 12, row + 6)
            else:
                yield _line(axis, style, (MARGIN, row), (MARGIN + SWATCH - 8, row))
                yield _mark(axis, style, (MARGIN + SWATCH / 2 - 4, row))
        row = y + LINE * (len(self.legend) + 1.2)
        yield _box("marked", MARGIN + 10, row - 6, MARGIN + SWATCH - 18, row + 6)
        yield _text(self.coordinates, (MARGIN + SWATCH, row), bold=True)


def _piece(cards: int, inner: int, size: int) -> int:
    """How much of a broken axis stands in a row: a divisor of its size wherever one will do."""
    enough = [n for n in range(1, LONGEST // inner + 1) if (inner * n) ** 2 >= cards]
    return next((n for n in enough if size % n == 0), enough[0])


def _where(mesh: Mesh, axis: str) -> str:
    if mesh.inside_node(axis):
        return "inside a node"
    inside = any(mesh.one_node(group) for group in mesh.each_group(axis))
    return "partly across nodes" if inside else "across nodes"


def _ranks(group: Sequence[int]) -> str:
    """The ranks of a group; of a long one the first three and the last."""
    shown = list(map(str, group))
    return ", ".join(shown if len(shown) <= 8 else [*shown[:3], "\u2026", shown[-1]])
