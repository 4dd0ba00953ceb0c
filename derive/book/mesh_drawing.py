"""A drawing of a mesh as a value: boxes, lines, marks and words, all read off the mesh.

Cards stand in rows in rank order, inside boxes for their node and for their innermost group. One
group of each other axis, that of the marked card, is a line with a mark on each member. An axis
has its own colour, dash and mark, so that the drawing does without colours.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import ceil

from derive.book.mesh_grid import Grid, grid
from derive.book.mesh_shapes import SIZE, STYLE, Box, Line, Mark, Shape, Words, ends
from derive.notation.errors import DeriveError
from derive.plan.mesh import Mesh
from derive.plan.wording import counted

LARGEST = 64
AXIS_WORDS = {
    "tp": "tensor", "cp": "context", "ep": "expert", "dp": "data", "pp": "pipeline",
    "dp_shard": "sharded data", "dp_replicate": "replicated data", "etp": "expert tensor",
    "edp": "expert data",
}  # fmt: skip
# All lengths are points.
WIDE, HIGH = 50.0, 44.0  # a card
CLOSE, APART, FARTHER = 6.0, 12.0, 6.0  # between cards of a group, between groups, per axis more
GROUP, NODE, LABEL = 4.0, 12.0, 14.0  # from cards to the box around them, and a node's label
MARGIN, LINE = 12.0, 18.0
LANES = (0.13, 0.87, 0.27)  # where the lines of up to three axes cross a card, clear of its number


@dataclass(frozen=True)
class MeshDrawing:
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
        of = self.mesh
        return f"{counted(of.cards, 'card')} on {counted(of.nodes, 'node')} of {of.cards_per_node}"

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
        rows = []
        for axis, ways in self.mesh.axes:
            group = next(g for g in self.mesh.groups(axis) if self.rank in g)
            name = f"{AXIS_WORDS[axis]} ({axis})"
            rows.append((name, str(ways), _ranks(group), _where(self.mesh, axis)))
        return tuple(rows)

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """All that is drawn, from the back to the front."""
        return tuple(_shapes(self))

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the drawing."""
        corners = [end for shape in self.shapes for end in ends(shape)]
        return max(x for x, _ in corners) + MARGIN, max(y for _, y in corners) + MARGIN

    @property
    def digest(self) -> str:
        """The digest of everything that is shown, the same on every machine."""
        shown = [self.title, self.description, *map(repr, self.shapes), STYLE]
        return hashlib.sha256(json.dumps(shown, ensure_ascii=True).encode()).hexdigest()


def _shapes(of: MeshDrawing) -> Iterator[Shape]:
    cards = grid(of.mesh)
    top = MARGIN + 2 * LINE + LINE * len(cards.along) + LABEL
    heads = sum(_name(axis).width + 10 for axis in cards.down)
    beside = max([heads, *(_name(axis).width for axis in cards.along)])
    lefts, tops = _starts(cards, ceil(MARGIN + beside + 10 + NODE), top)
    yield Words(of.title, (MARGIN, MARGIN + SIZE / 2), size=SIZE + 1, bold=True)
    yield from _boxes(of, cards, lefts, tops)
    yield from _columns(of, cards, lefts, tops[0])
    yield from _rows(of, cards, lefts[0], tops)
    yield from _groups(of, cards, lefts, tops)
    yield from _key(of, cards, tops[-1] + HIGH + NODE + 1.5 * LINE)


def _starts(cards: Grid, left: float, top: float) -> tuple[list[float], list[float]]:
    """The left edges of the columns and the top edges of the rows."""
    across, down = [0.0] * cards.width, [0.0] * len(cards.rows)
    for beside, index, one, other in cards.neighbours():
        if cards.mesh.node(one) != cards.mesh.node(other):
            gap = 2 * NODE + APART
        elif cards.group(one) == cards.group(other):
            gap = CLOSE
        else:
            gap = APART + FARTHER * cards.depth(one, other)
        gaps = across if beside else down
        gaps[index] = max(gaps[index], gap)
    for row in {run.top for run in cards.runs(cards.mesh.node)} - {0}:
        down[row] += LABEL  # a node's label stands above its first row
    return _added(across, WIDE, left), _added(down, HIGH, top)


def _added(gaps: Sequence[float], length: float, start: float) -> list[float]:
    places = [start]
    for gap in gaps[1:]:
        places.append(places[-1] + length + gap)
    return places


def _boxes(
    of: MeshDrawing, cards: Grid, lefts: Sequence[float], tops: Sequence[float]
) -> Iterator[Shape]:
    kinds = [("node", cards.mesh.node, NODE, LABEL)]
    if cards.axes:
        kinds.append(("group", cards.group, GROUP, 0.0))
    for kind, key, pad, above in kinds:
        for run in cards.runs(key):
            left, top = lefts[run.left] - pad, tops[run.top] - pad - above
            yield Box(kind, left, top, lefts[run.right] + WIDE + pad, tops[run.bottom] + HIGH + pad)
    for run in cards.runs(cards.mesh.node):
        yield Words(f"node {run.of}", (lefts[run.left], tops[run.top] - NODE - LABEL / 2 + 2))
    for rank in range(of.mesh.cards):
        row, column = cards.place(rank)
        x, y, marked = lefts[column], tops[row], rank == of.rank
        yield Box("marked" if marked else "card", x, y, x + WIDE, y + HIGH)
        yield Words(str(rank), (x + WIDE / 2, y + HIGH / 2), "center", SIZE + 1, marked)


def _columns(of: MeshDrawing, cards: Grid, lefts: Sequence[float], top: float) -> Iterator[Shape]:
    """The indices along a row, above it: the axes from the outside down to the innermost."""
    indices = [of.mesh.coordinates(rank) for rank in cards.rows[0]]
    here = cards.place(of.rank)[1]
    y = top - NODE - LABEL - LINE * len(cards.along) + LINE / 2 - 2
    for place, axis in reversed(list(enumerate(cards.along))):
        outer = cards.along[place:]
        yield _name(axis, (lefts[0] - NODE - 10, y))
        for columns in _spans([tuple(at[a] for a in outer) for at in indices]):
            first, last = lefts[columns[0]], lefts[columns[-1]] + WIDE
            text = str(indices[columns[0]][axis])
            yield Words(text, ((first + last) / 2, y), "center", SIZE, here in columns)
            if len(columns) > 1:
                yield Line(-1, (first, y + LINE / 2 - 1), (last, y + LINE / 2 - 1))
        y += LINE


def _rows(of: MeshDrawing, cards: Grid, left: float, tops: Sequence[float]) -> Iterator[Shape]:
    """The indices down the rows, beside them: the axes from the outside in."""
    ends = [(of.mesh.coordinates(r[0]), of.mesh.coordinates(r[-1])) for r in cards.rows]
    here = cards.place(of.rank)[0]
    right = left - NODE - 10
    for place, axis in enumerate(cards.down):
        outer = cards.down[place:]
        head = _name(axis, (right, tops[0] - NODE - LABEL / 2))
        yield head
        x = right - head.width / 2
        keys = [tuple((a[name], b[name]) for name in outer) for a, b in ends]
        for rows in _spans(keys):
            first, last = tops[rows[0]], tops[rows[-1]] + HIGH
            low, high = keys[rows[0]][0]
            text = str(low) if low == high else f"{low}\u2013{high}"
            yield Words(text, (x, (first + last) / 2), "center", SIZE, here in rows)
            if len(rows) > 1:
                yield Line(-1, (x + 14, first), (x + 14, last))
        right -= head.width + 10


def _groups(
    of: MeshDrawing, cards: Grid, lefts: Sequence[float], tops: Sequence[float]
) -> Iterator[Shape]:
    """The group of the marked card along each axis but the innermost."""
    for style, axis in enumerate(cards.axes[1:]):
        group = next(g for g in of.mesh.groups(axis) if of.rank in g)
        # A line along a row has a height of its own on the cards, one down the rows a side.
        x = y = 0.5
        if axis in cards.along:
            y = LANES[cards.along.index(axis) - 1]
        else:
            x = LANES[cards.down.index(axis)]
            if of.mesh.stride(axis) < cards.width:
                y = LANES[-1]  # a broken axis runs both ways
        places = [cards.place(rank) for rank in group]
        points = [(lefts[c] + x * WIDE, tops[r] + y * HIGH) for r, c in places]
        for _, members in groupby(points, lambda point: point[1]):
            row = list(members)
            if len(row) > 1:
                yield Line(style, row[0], row[-1])
        corner = points[0]
        if points[-1][1] > corner[1]:
            yield Line(style, corner, (corner[0], points[-1][1]))
        yield from (Mark(style, point) for point in points)


def _key(of: MeshDrawing, cards: Grid, y: float) -> Iterator[Shape]:
    """The legend: a row for each axis with its ways and its example, and the marked card."""
    heads = ("from the inside out", "ways", f"group of {of.rank}", "its groups lie")
    rows = [heads, *of.legend]
    swatch = 44.0
    x = MARGIN + swatch
    for column in zip(*rows, strict=True):
        words = [Words(text, (x, y + i * LINE), bold=not i) for i, text in enumerate(column)]
        yield from words
        x += max(w.width for w in words) + 12
    for axis in cards.axes:
        row = y + LINE * (1 + list(of.mesh.sizes).index(axis))
        style = cards.axes.index(axis) - 1
        if style < 0:
            yield Box("group", MARGIN + 4, row - 6, MARGIN + swatch - 12, row + 6)
            continue
        ends = (MARGIN, row), (MARGIN + swatch - 8, row)
        yield Line(style, *ends)
        yield Mark(style, ((ends[0][0] + ends[1][0]) / 2, row))
    row = y + LINE * (len(rows) + 0.2)
    yield Box("marked", MARGIN + 10, row - 6, MARGIN + swatch - 18, row + 6)
    yield Words(of.coordinates, (MARGIN + swatch, row), bold=True)


def _name(axis: str, at: tuple[float, float] = (0, 0)) -> Words:
    return Words(AXIS_WORDS[axis], at, "right")


def _spans(keys: Sequence[object]) -> Iterator[list[int]]:
    """The places of equal keys that follow each other."""
    for _, members in groupby(range(len(keys)), lambda index: keys[index]):
        yield list(members)


def _where(of: Mesh, axis: str) -> str:
    if of.inside_node(axis):
        return "inside a node"
    inside = any(of.one_node(group) for group in of.each_group(axis))
    return "partly across nodes" if inside else "across nodes"


def _ranks(group: Sequence[int]) -> str:
    """The ranks of a group; of a long one the first three and the last."""
    shown = list(map(str, group))
    return ", ".join(shown if len(shown) <= 8 else [*shown[:3], "\u2026", shown[-1]])
