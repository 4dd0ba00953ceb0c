"""Where the cards of a mesh stand when it is drawn: rows in rank order, and what surrounds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

from derive.plan.mesh import Mesh

LONGEST = 16  # cards in a row, and rows of whole axes before an axis is broken over several rows


@dataclass(frozen=True)
class Run:
    """Ranks in a rectangle of the grid: the first and the last row and column of it."""

    of: int
    top: int
    left: int
    bottom: int
    right: int


@dataclass(frozen=True)
class Grid:
    """The ranks of a mesh from the left to the right and from the top down.

    A row holds whole axes, the innermost ones, wherever the mesh can be drawn so. Else the first
    axis that is too long is broken: every `block` ranks, which are that axis and those inside it,
    begin a new row.
    """

    mesh: Mesh
    width: int
    block: int

    def place(self, rank: int) -> tuple[int, int]:
        """The row and the column of a rank."""
        block, inside = divmod(rank, self.block)
        row, column = divmod(inside, self.width)
        return block * -(-self.block // self.width) + row, column

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each row."""
        ranks = range(self.mesh.cards)
        return tuple(tuple(r) for _, r in groupby(ranks, lambda rank: self.place(rank)[0]))

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes with more than one way, innermost first."""
        return tuple(name for name, size in self.mesh.axes if size > 1)

    @property
    def along(self) -> tuple[str, ...]:
        """The axes that run along a row, each of them whole, innermost first."""
        return tuple(a for a in self.axes if self._span(a) <= self.width)

    @property
    def down(self) -> tuple[str, ...]:
        """The axes that run down the rows, innermost first; a broken one is the first of them."""
        return tuple(a for a in self.axes if self._span(a) > self.width)

    def depth(self, first: int, second: int) -> int:
        """How far out the outermost axis is along which two ranks differ: 0 is the innermost."""
        one, other = self.mesh.coordinates(first), self.mesh.coordinates(second)
        return max((i for i, axis in enumerate(self.axes) if one[axis] != other[axis]), default=0)

    def runs(self, of: Callable[[int], int]) -> tuple[Run, ...]:
        """The rectangles of consecutive ranks for which `of` is the same, such as their node."""
        found: list[Run] = []
        for row, ranks in enumerate(self.rows):
            for key, members in groupby(ranks, of):
                columns = [self.place(rank)[1] for rank in members]
                made = Run(key, row, columns[0], row, columns[-1])
                last = next((run for run in reversed(found) if run.of == key), None)
                if last is not None and (last.left, last.right) == (made.left, made.right):
                    found[found.index(last)] = Run(key, last.top, last.left, row, last.right)
                else:
                    found.append(made)
        return tuple(found)

    def group(self, rank: int) -> int:
        """Which group of the innermost axis a rank is in; alone where no axis has two ways."""
        return rank // self.mesh.sizes[self.axes[0]] if self.axes else rank

    def neighbours(self) -> Iterator[tuple[bool, int, int, int]]:
        """Pairs of cards side by side: whether in one row, the column or row of the second, and
        the two ranks."""
        rows = self.rows
        for ranks in rows:
            for column, (one, other) in enumerate(pairwise(ranks), 1):
                yield True, column, one, other
        for row, (above, below) in enumerate(pairwise(rows), 1):
            for one, other in zip(above, below, strict=False):
                yield False, row, one, other

    def _span(self, axis: str) -> int:
        return self.mesh.stride(axis) * self.mesh.sizes[axis]


def grid(of: Mesh) -> Grid:
    """The grid of a mesh: rows of whole axes, no narrower than the grid is high where they fit."""
    inner = 1
    for _, size in of.axes:
        if inner**2 >= of.cards:
            break
        if inner * size > LONGEST:
            if of.cards // inner > LONGEST:
                return Grid(of, inner * _piece(of.cards, inner, size), inner * size)
            break
        inner *= size
    return Grid(of, inner, inner)


def _piece(cards: int, inner: int, size: int) -> int:
    """How much of a broken axis stands in a row: a divisor of its size wherever one will do."""
    enough = [n for n in range(1, LONGEST // inner + 1) if (inner * n) ** 2 >= cards]
    return next((n for n in enough if size % n == 0), enough[0])
