"""The drawing of a mesh: what stands where, for any mesh that it takes, and the file."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import chain, combinations
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derive.book import drawing
from derive.book.cards import AXIS_WORDS, LINES, MeshDrawing, Shape
from derive.book.plots import is_current, signed
from derive.notation.errors import DeriveError
from derive.plan.mesh import AXIS_NAMES, Mesh, mesh

EXAMPLE = mesh({"tp": 2, "cp": 2, "dp": 2, "pp": 2}, 8)
DECLARED = """
from derive.book.cards import MeshDrawing
from derive.plan.mesh import mesh
chapter.plot("p", MeshDrawing(mesh({"tp": 2, "pp": %d}, 4), 1), alt="A mesh")
"""


@st.composite
def meshes(draw: st.DrawFn) -> tuple[Mesh, int]:
    """A mesh that can be drawn, in any order and on any nodes, and a rank of it."""
    names = draw(st.permutations(AXIS_NAMES))[: draw(st.integers(1, 6))]
    axes: list[tuple[str, int]] = []
    for name in names:
        axes.append((name, draw(st.integers(1, 64 // prod(size for _, size in axes)))))
    drawn = Mesh(tuple(axes), draw(st.integers(1, 70)))
    return drawn, draw(st.integers(0, drawn.cards - 1))


def cards(picture: MeshDrawing) -> dict[int, Shape]:
    """The box of each rank: the one around its number."""
    boxes = [s for s in picture.shapes if s.kind in ("card", "marked")]
    return dict(enumerate(boxes[: picture.mesh.cards]))


def above_legend(picture: MeshDrawing, kind: str) -> list[Shape]:
    """The shapes of a kind that are in the picture and not in the legend below it."""
    lowest = max(box.corners[1][1] for box in cards(picture).values())
    return [s for s in picture.shapes if s.kind == kind and s.corners[0][1] < lowest]


def holds(outer: Shape, inner: Shape) -> bool:
    (a, b), (c, d) = outer.corners, inner.corners
    return a[0] <= c[0] and a[1] <= c[1] and d[0] <= b[0] and d[1] <= b[1]


def apart(one: Shape, other: Shape) -> bool:
    (a, b), (c, d) = one.corners, other.corners
    return b[0] <= c[0] or d[0] <= a[0] or b[1] <= c[1] or d[1] <= a[1]


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
    assert made.rows == tuple(range(r, r + 4) for r in (0, 4, 8, 12))
    words = [s.name for s in made.shapes if s.kind == "text"]
    assert words.count("node 0") == words.count("node 1") == 1
    bold = [s.name for s in made.shapes if 'font-weight="bold"' in s.svg]
    assert bold[1:3] == ["13", "1 1 0 1"]  # the marked card and its coordinates
    assert above_legend(made, "marked") == [cards(made)[13]]


@pytest.mark.parametrize(
    ("sizes", "widths"),
    [
        ({"tp": 1, "dp": 1}, {1}),
        ({"tp": 8}, {8}),
        ({"tp": 8, "dp": 2, "pp": 4}, {8}),
        ({"tp": 2, "cp": 1, "dp": 2, "pp": 2}, {4}),
        ({"tp": 4, "pp": 16}, {4}),  # high, and no axis is broken
        ({"tp": 2, "dp": 32}, {8}),  # four replicas in a row
        ({"dp": 61}, {8, 5}),
        ({"tp": 2, "cp": 17}, {6, 4}),
        ({"dp": 17, "pp": 3}, {8, 1}),  # each pipeline stage begins a row
    ],
)
def test_rows_hold_whole_axes_where_they_can(sizes, widths):
    made = MeshDrawing(mesh(sizes, 8), 0)
    assert {len(row) for row in made.rows} == widths
    assert [rank for row in made.rows for rank in row] == list(range(made.mesh.cards))


@settings(max_examples=100)
@given(meshes())
def test_every_mesh_is_drawn_as_it_is(drawn):
    of, rank = drawn
    made = MeshDrawing(of, rank)
    boxes, axes = cards(made), made.axes
    assert len(boxes) == of.cards and len(axes) <= len(LINES) + 1
    # A card says its rank and, for each axis of more than one way, its coordinate.
    said = {r: [] for r in boxes}
    for text in above_legend(made, "text"):
        for r, box in boxes.items():
            if holds(box, text):
                said[r].append(text.name)
    for r, box in boxes.items():
        at = of.coordinates(r)
        assert said[r] == [str(r), " ".join(str(at[a]) for a in of.names if of.sizes[a] > 1)]
        assert (box.kind == "marked") == (r == rank)
    # A box holds cards of one node, or of one innermost group, and every card is in one box.
    kinds = {"node": of.cards_per_node, "group": of.sizes[axes[0]] if axes else 0}
    for kind, size in kinds.items():
        inside = [[r for r, b in boxes.items() if holds(x, b)] for x in above_legend(made, kind)]
        assert sorted(chain(*inside)) == (list(boxes) if size else [])
        assert all(len({r // size for r in ranks}) == 1 for ranks in inside)
    # The members of the marked card's groups have a mark, and no other card has one.
    for axis in axes[1:]:
        marks = [s for s in made.shapes if s.kind == "mark" and s.name == axis][:-1]
        members = [r for mark in marks for r, box in boxes.items() if holds(box, mark)]
        assert members == list(next(g for g in of.groups(axis) if rank in g))


@settings(max_examples=100)
@given(meshes())
def test_nothing_covers_words_and_no_box_crosses_another(drawn):
    made = MeshDrawing(*drawn)
    for kind in ("text", "card", "group", "node"):
        alike = [s for s in made.shapes if s.kind == kind]
        assert all(apart(one, other) for one, other in combinations(alike, 2))
    root = ET.fromstring(made.svg)
    wide, high = (float(side) for side in root.get("viewBox").split()[2:])
    for shape in made.shapes:
        assert all(0 <= x < wide and 0 <= y < high for x, y in shape.corners)
    words = above_legend(made, "text")
    for line in above_legend(made, "line"):
        assert all(apart(line, word) for word in words if not word.name.startswith("node"))


def test_an_axis_is_told_without_its_colour():
    assert len({mark for _, _, mark in LINES}) == len(LINES)
    assert set(AXIS_WORDS) == set(AXIS_NAMES)


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


def test_it_draws_itself_with_a_title_a_description_and_words():
    made = MeshDrawing(EXAMPLE, 13)
    first = drawing.draw(made)
    assert first == drawing.draw(MeshDrawing(EXAMPLE, 13)) and is_current(made, first)
    assert not any(line != line.rstrip() for line in first.decode().split("\n"))
    root = ET.fromstring(first)
    name = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert [child.tag for child in root][:2] == [f"{name}title", f"{name}desc"]
    assert (root[0].text, root[1].text) == (made.title, made.description)
    texts = [t.text for t in root.iter(f"{name}text")]
    assert texts == [s.name for s in made.shapes if s.kind == "text"]
    drawn = [s for s in made.shapes if s.kind != "text"]
    assert len(list(root)) == 2 + len(texts) + len(drawn)
    for element, shape in zip(list(root)[2:], made.shapes, strict=True):
        if element.tag == f"{name}rect":
            (left, top), (right, bottom) = shape.corners
            sides = [float(element.get(key)) for key in ("x", "y", "width", "height")]
            assert sides == pytest.approx([left, top, right - left, bottom - top], abs=1e-3)


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
