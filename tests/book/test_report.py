"""The figures as data, and the tree of one figure."""

from __future__ import annotations

import json

import pytest

from derive.book import report
from derive.facts import chip
from derive.notation.errors import DeriveError, UnknownName

FIGURES = """
v5p = chapter.chip("tpu-v5p")
alpha = evaluated(v.C / v.W, v5p.bindings(), name="alpha")
chapter.shown("alpha-v5p", alpha, integer())
chapter.claim("twice", alpha * 2)
chapter.require("more", alpha, ">", 2000)
chapter.require("order", holds=True, because="sorted by hand")
chapter.given("batch", number(4096, token), cite=["SB5"])
"""
TEMPLATE = """<< show("alpha-v5p") >> << claim("twice", "about {twice}") >> << derived >>
<< require("more", "more") >> << require("order", "sorted") >> << given("batch", "4,096 tokens") >>
"""
FIELDS = [
    "chapter", "name", "value", "unit", "printed", "kind", "holds", "formula", "inputs", "file",
    "line",
]  # fmt: skip
README = "chapters/06-mesh/README.md"


def records(book, twice="5,100"):
    book.write(TEMPLATE.format(twice=twice), FIGURES)
    rows, errors = report.figures(book.shelf)
    assert not errors
    return {r["name"]: r for r in rows}


def test_fields_and_values(book):
    found = records(book)
    assert json.loads(json.dumps(found)) == found
    assert [list(record) for record in found.values()] == [FIELDS] * 5
    assert [r["kind"] for r in found.values()] == ["shown", "claim", "require", "require", "given"]
    shown = found["alpha-v5p"]
    basis = {s.name: q.basis for s, q in chip("tpu-v5p").bindings().items()}
    assert "per axis" in basis["W"]
    assert shown == {
        "chapter": "06", "name": "alpha-v5p", "value": 2550, "unit": "FLOP/byte",
        "printed": "2,550\u00a0FLOP per byte", "kind": "shown", "holds": True, "formula": "C/W",
        "inputs": [
            {"symbol": "C", "value": 459 * 10**12, "unit": "FLOP/second", "of": "tpu-v5p",
             "basis": basis["C"], "source": "SB2", "status": "published"},
            {"symbol": "W", "value": 18 * 10**10, "unit": "byte/second", "of": "tpu-v5p",
             "basis": basis["W"], "source": "SB2", "status": "published"},
        ],
        "file": README, "line": 3,
    }  # fmt: skip
    assert found["twice"]["printed"] == "about 5,100"
    assert found["more"]["formula"] == "C/W > 2,000\u00a0FLOP per byte"
    assert [i["symbol"] for i in found["more"]["inputs"]] == ["C", "W", "more"]
    assert found["order"]["value"] is None and found["order"]["formula"] == "sorted by hand"
    assert found["batch"]["inputs"][0]["status"] == "given"


def test_a_claim_that_does_not_hold_is_told_and_not_raised(book):
    found = records(book, twice="5,200")
    assert [r["name"] for r in found.values() if not r["holds"]] == ["twice"]
    assert found["twice"]["printed"] == "about 5,200"
    assert "06.twice      claim    about 5,200  DOES NOT HOLD" in report.listing([*found.values()])


def test_listing(book):
    found = records(book)
    assert report.listing([*found.values()]).splitlines()[:2] == [
        "06.alpha-v5p  shown    2,550\u00a0FLOP per byte",
        "06.twice      claim    about 5,100",
    ]


def test_the_tree_goes_down_to_the_sources(book):
    records(book)
    lines = report.why(book.shelf, "06.twice").splitlines()
    assert lines[0] == "06.twice  claim  'about 5,100'  by rule round  holds"
    assert lines.pop(1) == f"to be printed at {README}:3 by chapters/06-mesh/chapter.md.j2:1"
    assert lines[1] == "value = alpha * 2 = 5,100\u00a0FLOP per byte  (derived)"
    assert lines[2] == "├─ alpha = C/W = 2,550\u00a0FLOP per byte  (derived)"
    assert lines[3].startswith("│  ├─ C = 459\u00a0TFLOP/s  (tpu-v5p, ")
    assert "[SB2]" in lines[3] and lines[3].endswith("published)")
    assert lines[4].startswith("│  └─ W = 180\u00a0GB/s  (tpu-v5p, bidirectional per axis")
    assert lines[5] == "└─ 2 = 2  (given)"
    assert lines[6].startswith("[SB2] How to Scale Your Model, chapter 2")
    assert len(lines) == 7


def test_both_sides_of_a_requirement_and_cited_sources(book):
    records(book)
    text = report.why(book.shelf, "06.more")
    assert "'more'  holds: 2,550\u00a0FLOP per byte > 2,000\u00a0FLOP per byte\n" in text
    assert "value = 2,000\u00a0FLOP per byte  (given)" in text
    assert "[SB5] How to Scale" in report.why(book.shelf, "6.batch")
    assert report.why(book.shelf, "06.order") == (
        "06.order  require  'sorted'  holds: sorted by hand\n"
        f"to be printed at {README}:4 by chapters/06-mesh/chapter.md.j2:2"
    )


def test_a_line_of_the_chapter_is_named_as_it_stands_there(book):
    records(book)
    assert book.run()[0] == 0
    told = [f"{README}:{line} by" for line in (3, 4)]
    assert f"\nprinted at {told[0]}" in report.why(book.shelf, "06.twice")
    readme = book.folder() / "README.md"
    readme.write_text(readme.read_text().replace("sorted", "in order"))
    assert f"\nprinted at {told[0]}" in report.why(book.shelf, "06.twice")
    assert f"\nto be printed at {told[1]}" in report.why(book.shelf, "06.order")


def test_a_number_of_a_table_is_told_by_row_and_column(book):
    figures = 'chapter.table("t", "a | b", [["x", cell(1, integer())], ["x", "y"]])\n'
    book.write('<< table("t") >>\n\n<< derived >>\n', figures)
    assert report.why(book.shelf, "06.t row 1 column 2").startswith("06.t row 1 column 2 (x, b)")
    for typed in ("t.1.2", "t 1 2", "t.1,2"):
        with pytest.raises(UnknownName, match=r"did you mean 06\.t row 1 column 2\?"):
            report.why(book.shelf, f"06.{typed}")
    with pytest.raises(UnknownName, match=r"rows 1 x \| 2 x"):
        report.why(book.shelf, "06.t row 3 column 2")


def test_shared_inputs_are_drawn_once(book):
    figures = """
x = number(3, name="x") * 1
for _ in range(30):
    x = (x + x).named("y")
chapter.shown("deep", x, integer())
"""
    book.write('<< show("deep") >> << derived >>\n', figures)
    lines = report.why(book.shelf, "06.deep").splitlines()
    assert len(lines) < 100
    assert any(line.endswith("as above") for line in lines)


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("06.alpa-v5p", UnknownName, "did you mean 06.alpha-v5p"),
        ("09.alpha-v5p", UnknownName, "unknown chapter '09'"),
        ("alpha-v5p", DeriveError, "expected CHAPTER.FIGURE"),
        ("06", DeriveError, "expected CHAPTER.FIGURE"),
    ],
)
def test_unknown_figures(book, name, kind, message):
    records(book)
    with pytest.raises(kind, match=message):
        report.why(book.shelf, name)


def test_a_chapter_that_does_not_render_is_told_and_hides_no_other(book):
    expected = records(book)
    book.write("Prose.\n", "1/0", name="07-broken")
    rows, (error,) = report.figures(book.shelf)
    assert "ZeroDivisionError" in error.text and error.path.endswith("07-broken/figures.py")
    assert {r["name"]: r for r in rows} == expected
