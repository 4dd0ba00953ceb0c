"""`derive figures` and `derive why` on a small book in a folder of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from derive.notation.read import expression

FIGURES = """
from derive.book import *
from derive.notation import symbols as v
from derive.notation.quantity import evaluated, number
from derive.notation.units import token

chapter = Chapter("06", "A chapter")
v5p = chapter.chip("tpu-v5p")
alpha = evaluated(v.C / v.W, v5p.bindings(), name="alpha")
chapter.shown("alpha-v5p", alpha, integer())
chapter.claim("twice", alpha * 2)
chapter.require("more", alpha, ">", 2000)
chapter.given("batch", number(4096, token), cite=["SB5"])
"""
TEMPLATE = """<< show("alpha-v5p") >> << claim("twice", "about 5,100") >> << derived >>
<< require("more", "more") >> << given("batch", "4,096 tokens") >>
"""
FIELDS = [
    "chapter", "name", "value", "unit", "printed", "kind", "holds", "formula", "inputs", "file",
    "line",
]  # fmt: skip
INPUT = {"symbol", "value", "unit", "of", "basis", "source", "status"}


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "chapters" / "06-mesh"
    folder.mkdir(parents=True)
    (folder / "chapter.md.j2").write_text(TEMPLATE)
    (folder / "figures.py").write_text(FIGURES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*.*") if p.is_file()
            and "__pycache__" not in p.parts}  # fmt: skip


def test_figures_as_data(book: Path, answer: Any) -> None:
    before = files(book)
    found = answer("figures")
    assert [list(figure) for figure in found] == [FIELDS] * 4
    by_name = {figure["name"]: figure for figure in found}
    assert {n: f["kind"] for n, f in by_name.items()} == {
        "alpha-v5p": "shown", "twice": "claim", "more": "require", "batch": "given"
    }  # fmt: skip
    assert all(figure["holds"] and set(i) == INPUT for figure in found for i in figure["inputs"])
    assert files(book) == before
    shown = by_name["alpha-v5p"]
    assert (shown["value"], shown["unit"]) == (2550, "FLOP/byte")
    values = {row["symbol"]: row["value"] for row in shown["inputs"]}
    read = expression(shown["formula"])
    assert read.subs({s: values[s.name] for s in read.free_symbols}) == shown["value"]


def test_figures_as_text(book: Path, run: Any) -> None:
    code, out, err = run("figures")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "06.alpha-v5p  shown    2,550 FLOP per byte",
        "06.twice      claim    about 5,100",
        "06.more       require  more",
        "06.batch      given    4,096 tokens",
    ]


@pytest.mark.parametrize("folder", [".", "chapters", "absolute"])
def test_the_folder_of_chapters(
    book: Path, answer: Any, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answer("figures")
    assert len(expected) == 4
    path = str(book) if folder == "absolute" else folder
    assert answer("figures", "--chapters", path) == expected
    monkeypatch.chdir(book / "chapters" / "06-mesh")
    assert answer("figures") == expected


def test_the_tree_of_a_figure(book: Path, run: Any) -> None:
    code, out, err = run("why", "06.twice")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "06.twice  claim  'about 5,100'  by rule round  holds"
    assert "alpha * 2 = 5,100 FLOP per byte" in lines[2]
    assert any(line.startswith("│  ├─ C = 459 TFLOP/s") for line in lines)
    assert lines[-1].startswith("[SB2] How to Scale Your Model, chapter 2")


def test_the_tree_in_ascii(book: Path, process: Any) -> None:
    done = process("why", "06.twice", "--chapters", str(book), PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"|  |- C = 459 TFLOP/s" in done.stdout


@pytest.mark.parametrize(
    ("figure", "part"),
    [
        ("06.twise", "did you mean 06.twice"),
        ("06.", "unknown figure"),
        ("twice", "CHAPTER.FIGURE"),
        ("07.twice", "06-mesh"),
        ("", "CHAPTER.FIGURE"),
        ("A" * 100_000, "CHAPTER.FIGURE"),
        ("06." + "A" * 100_000, "unknown figure"),
        ("9" * 100_000 + ".x", "unknown chapter"),
        ("06.x\x1b[31m", "unknown figure"),
        ("06.x\0", "unknown figure"),
        ("__import__('os').system('touch pwned')", "CHAPTER.FIGURE"),
    ],
    ids=lambda x: repr(x)[:20],
)
def test_a_figure_that_is_not_there(book: Path, refused: Any, figure: str, part: str) -> None:
    assert part in refused("why", figure)
    assert not (book / "pwned").exists()


def test_a_claim_that_no_longer_holds_is_listed_as_such(book: Path, run: Any) -> None:
    template = book / "chapters" / "06-mesh" / "chapter.md.j2"
    template.write_text(TEMPLATE.replace("5,100", "5,200"))
    (code, data, err), (also, text, told) = run("figures", "--json"), run("figures")
    assert (code, also, err, told) == (1, 1, "", "")
    assert [f["name"] for f in json.loads(data) if not f["holds"]] == ["twice"]
    assert "about 5,200  DOES NOT HOLD" in text


def test_a_chapter_that_cannot_be_rendered_is_an_error(book: Path, run: Any) -> None:
    template = book / "chapters" / "06-mesh" / "chapter.md.j2"
    template.write_text("<% if %>\n")
    for arguments in (("figures",), ("figures", "--json"), ("why", "06.twice")):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "[]\n" if "--json" in arguments else "")
        assert "chapter.md.j2:1" in err
        assert "Traceback" not in err
