"""The drawing of a mesh: what stands where, for any mesh that it takes, and the file."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import chain, combinations
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.book import drawing
from derive.book.mesh_drawing import AXIS_WORDS, MeshDrawing
from derive.book.mesh_grid import grid
from derive.book.mesh_shapes import LINES, Box, Line, Mark, Words, ends
from derive.book.plots import is_current, signed
from derive.notation.errors import DeriveError
from derive.plan.mesh import AXES, Mesh, mesh

EXAMPLE = mesh({"tp": 2, "cp": 2, "dp": 2, "pp": 2}, 8)
DECLARED = """
from derive.book.mesh_drawing import MeshDrawing
from derive.plan.mesh import mesh
chapter.plot("p", MeshDrawing(mesh({"tp": 2, "pp": %d}, 4), 1), alt="A mesh")
"""


@st.composite
def meshes(draw: st.DrawFn) -> tuple[Mesh, int]:
    """A mesh that can be drawn, in any order and on any nodes, and a rank of it."""
    names = draw(st.permutations(AXES))[: draw(st.integers(1, 6))]
    axes: list[tuple[str, int]] = []
    for name in names:
        axes.append((name, draw(st.integers(1, 64 // prod(size for _, size in axes)))))
    made = Mesh(tuple(axes), draw(st.integers(1, 70)))
    return made, draw(st.integers(0, made.cards - 1))


def cards(of: MeshDrawing) -> dict[int, Box]:
    """The box of each rank: the one around its number."""
    boxes = [s for s in of.shapes if isinstance(s, Box) and s.kind in ("card", "marked")]
    return dict(enumerate(boxes[: of.mesh.cards]))


def kept(of: MeshDrawing, kind: str) -> list[Box]:
    """The boxes of a kind that are in the picture and not in the legend below it."""
    lowest = max(box.bottom for box in cards(of).values())
    return [s for s in of.shapes if isinstance(s, Box) and s.kind == kind and s.top < lowest]


def holds(outer: Box, inner: Box) -> bool:
    return (
        outer.left <= inner.left and inner.right <= outer.right
        and outer.top <= inner.top and inner.bottom <= outer.bottom
    )  # fmt: skip


def apart(one: object, other: object) -> bool:
    (a, b), (c, d) = ends(one), ends(other)  # type: ignore[arg-type]
    return b[0] <= c[0] or d[0] <= a[0] or b[1] <= c[1] or d[1] <= a[1]


def on(mark: Mark, box: Box) -> bool:
    return box.left < mark.at[0] < box.right and box.top < mark.at[1] < box.bottom


def test_the_example_of_two_nodes():
    made = MeshDrawing(EXAMPLE, 13)
    assert made.title == "16 cards on 2 nodes of 8"
    assert made.legend == (
        ("tensor (tp)", "2", "12, 13", "inside a node"),
        ("context (cp)", "2", "13, 15", "inside a node"),
        ("data (dp)", "2", "9, 13", "inside a node"),
        ("pipeline (pp)", "2", "5, 13", "across nodes"),
    )
    assert made.coordinates == "Rank 13 is pipeline 1, data 1, context 0, tensor 1"
    assert grid(EXAMPLE).rows == tuple(tuple(range(r, r + 4)) for r in (0, 4, 8, 12))
    words = [s.text for s in made.shapes if isinstance(s, Words)]
    assert words.count("node 0") == words.count("node 1") == 1
    bold = [s.text for s in made.shapes if isinstance(s, Words) and s.bold]
    assert bold[1:6] == ["13", "0", "1", "1", "1"]  # card, context, tensor, data, pipeline
    marked = cards(made)[13]
    assert [box for box in kept(made, "marked")] == [marked]


@pytest.mark.parametrize(
    ("sizes", "width", "along", "down"),
    [
        ({"tp": 1, "dp": 1}, 1, (), ()),
        ({"tp": 8}, 8, ("tp",), ()),
        ({"tp": 8, "dp": 2, "pp": 4}, 8, ("tp",), ("dp", "pp")),
        ({"tp": 2, "cp": 1, "dp": 2, "pp": 2}, 4, ("tp", "dp"), ("pp",)),
        ({"tp": 4, "pp": 16}, 4, ("tp",), ("pp",)),  # high, and no axis is broken
        ({"tp": 2, "dp": 32}, 8, ("tp",), ("dp",)),  # four replicas in a row
        ({"dp": 61}, 8, (), ("dp",)),
        ({"tp": 2, "cp": 17}, 6, ("tp",), ("cp",)),
    ],
)
def test_rows_hold_whole_axes_where_they_can(sizes, width, along, down):
    made = grid(mesh(sizes, 8))
    assert (made.width, made.along, made.down) == (width, along, down)


@settings(max_examples=150, deadline=None)
@given(meshes())
def test_every_mesh_is_drawn_as_it_is(drawn):
    of, rank = drawn
    made = MeshDrawing(of, rank)
    boxes, axes = cards(made), grid(of).axes
    assert len(boxes) == of.cards and len(axes) <= len(LINES) + 1
    assert all(apart(one, other) for one, other in combinations(boxes.values(), 2))
    numbers = {s.at: s.text for s in made.shapes if isinstance(s, Words)}
    for r, box in boxes.items():
        assert numbers[(box.left + box.right) / 2, (box.top + box.bottom) / 2] == str(r)
        assert (box.kind == "marked") == (r == rank)
    # A box holds cards of one node, or of one innermost group, and every card is in one box.
    kinds = {"node": of.cards_per_node, "group": of.sizes[axes[0]] if axes else 0}
    for kind, size in kinds.items():
        inside = [[r for r, b in boxes.items() if holds(box, b)] for box in kept(made, kind)]
        assert sorted(chain(*inside)) == (list(boxes) if size else [])
        assert all(len({r // size for r in ranks}) == 1 for ranks in inside)
    # The members of the marked card's groups have a mark, and no other card has one.
    for style, axis in enumerate(axes[1:]):
        marks = [s for s in made.shapes if isinstance(s, Mark) and s.style == style][:-1]
        found = [r for mark in marks for r, box in boxes.items() if on(mark, box)]
        assert found == list(next(g for g in of.groups(axis) if rank in g))


@settings(max_examples=150, deadline=None)
@given(meshes())
def test_nothing_covers_words(drawn):
    made = MeshDrawing(*drawn)
    words = [s for s in made.shapes if isinstance(s, Words)]
    assert all(apart(one, other) for one, other in combinations(words, 2))
    wide, high = made.size
    for shape in made.shapes:
        assert all(0 <= x < wide and 0 <= y < high for x, y in ends(shape))
    numbers = [w for w in words if w.side == "center" and w.text.isdigit()]
    lines = [s for s in made.shapes if isinstance(s, Line)]
    for line in lines:
        (a, b), (c, d) = ends(line)
        straight = Box("line", min(a, c), min(b, d), max(a, c), max(b, d))
        assert all(apart(straight, word) for word in numbers)


def test_an_axis_is_told_without_its_colour():
    assert len({(dash, mark) for _, dash, mark in LINES}) == len(LINES)
    assert len({mark for _, _, mark in LINES}) == len(LINES)
    assert set(AXIS_WORDS) == set(AXES)


def test_groups_that_leave_their_node_in_part_and_long_groups():
    made = MeshDrawing(mesh({"tp": 4, "cp": 3, "pp": 2}, 6), 13)
    assert [row[3] for row in made.legend] == [
        "partly across nodes", "across nodes", "across nodes",
    ]  # fmt: skip
    assert MeshDrawing(mesh({"tp": 2, "dp": 32}, 8), 13).legend[1][2] == "1, 3, 5, \u2026, 63"


def test_refusals():
    with pytest.raises(DeriveError, match=r"^a mesh of 65 cards; a drawing holds 64$"):
        MeshDrawing(mesh({"dp": 65}, 8), 0)
    with pytest.raises(DeriveError, match=r"rank 16 is outside the mesh of ranks 0 to 15"):
        MeshDrawing(EXAMPLE, 16)
    with pytest.raises(AttributeError):
        MeshDrawing(EXAMPLE, 1).rank = 2  # type: ignore[misc]


def test_everything_that_is_shown_is_in_the_digest():
    others = [
        MeshDrawing(EXAMPLE, 12),
        MeshDrawing(mesh(EXAMPLE.sizes, 4), 13),
        MeshDrawing(mesh(EXAMPLE.sizes, 8, "llama3"), 13),
        MeshDrawing(mesh({"tp": 4, "dp": 2, "pp": 2}, 8), 13),
    ]
    assert len({made.digest for made in (MeshDrawing(EXAMPLE, 13), *others)}) == 5


def test_the_digest_is_the_same_on_every_machine():
    assert (
        MeshDrawing(EXAMPLE, 13).digest
        == "98a3063c8cb4f60921af728fab04a917fba3c854f08e1dc26c433022e7cd2191"
    )


def test_matplotlib_draws_the_same_bytes_with_a_title_a_description_and_words():
    pytest.importorskip("matplotlib")
    made = MeshDrawing(EXAMPLE, 13)
    first = drawing.draw(made)
    assert first == drawing.draw(MeshDrawing(EXAMPLE, 13)) and is_current(made, first)
    assert not any(line != line.rstrip() for line in first.decode().split("\n"))
    root = ET.fromstring(first)
    name = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert [child.tag for child in root][:2] == [f"{name}title", f"{name}desc"]
    assert (root[0].text, root[1].text) == (made.title, made.description)
    texts = [t for t in root.iter(f"{name}text")]
    assert [t.text for t in texts] == [s.text for s in made.shapes if isinstance(s, Words)]
    assert all("sans-serif" in t.get("style", "") for t in texts)
    assert b"dc:date" not in first and b"Matplotlib v" not in first


def test_a_chapter_takes_a_mesh_and_draws_it_again_when_it_changes(book, monkeypatch):
    made = []

    def draw(value):
        made.append(value)
        return signed(value, b"<?xml?>\n<svg/>\n")

    monkeypatch.setattr(drawing, "draw", draw)
    assert "![A mesh](p.svg)" in book.built('<< plot("p") >>\n', DECLARED % 2)
    assert made == [MeshDrawing(mesh({"tp": 2, "pp": 2}, 4), 1)]
    assert book.run("--check")[0] == 0
    book.write('<< plot("p") >>\n', DECLARED % 4)
    code, out, _ = book.run("--check")
    assert code == 1 and "p.svg  shows other data than figures.py declares" in out
    assert book.run()[0] == 0 and len(made) == 2


def test_a_chapter_refuses_a_mesh_that_is_too_large(book):
    err = book.refused('<< plot("p") >>\n', DECLARED % 33)
    assert "a mesh of 66 cards; a drawing holds 64" in err and err.count("\n") == 1
