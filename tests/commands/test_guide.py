"""The page for authors: it has what the code has, and is compared as a chapter is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from derive.book.chapter import Chapter
from derive.book.folders import Shelf
from derive.book.prose import Ledger, Prose
from derive.book.scaffold import FIRST
from derive.commands import guide
from derive.facts import shipped
from derive.facts.catalogue import load_file
from derive.facts.fact import MODEL_COUNTS, MODEL_FLAGS

PAGE = guide.page(Path("chapters"))


def test_it_has_every_name_of_a_template_and_of_a_chapter_with_its_words() -> None:
    calls = dict(re.findall(r"^- `(?:chapter\.)?(\w+)\(.*?\)`: (.+)", PAGE, re.MULTILINE))
    shelf = Shelf(FIRST.parent)
    template = Prose(Ledger(shelf.chapter(shelf.folders[0]), "", shelf)).names()
    methods = {name for name, one in vars(Chapter).items() if callable(one) and name[0] != "_"}
    assert {*template, *methods} - {"derived"} <= calls.keys()
    assert all(words.strip() for words in calls.values())
    for name in methods:
        first = getattr(Chapter, name).__doc__.split("\n")[0].split(";")[0].rstrip(".")
        assert first in PAGE


def test_it_has_every_source_and_the_example_as_it_is() -> None:
    assert {*re.findall(r"^\| `(\S+)` \| \S", PAGE, re.MULTILINE)} >= shipped().sources.keys()
    for file in ("figures.py", "chapter.md.j2", "facts.toml"):
        assert (FIRST / file).read_text() in PAGE
    assert " object at 0x" not in PAGE and "Raises" not in PAGE and "derive/book" not in PAGE


def test_the_facts_of_the_example_can_be_read(tmp_path: Path) -> None:
    lines = [line.removeprefix("#").removeprefix(" ") for line in
             (FIRST / "facts.toml").read_text().splitlines()][4:]  # fmt: skip
    assert tomllib.loads("\n".join(lines))
    (tmp_path / "facts.toml").write_text("\n".join(lines))
    known = load_file(tmp_path / "facts.toml")
    assert "our-chip" in known.chips and known.models["our-model"].layers == 32
    told = "\n".join(lines)
    assert all(key in told for key in (*MODEL_COUNTS, *MODEL_FLAGS, "assumed"))


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any) -> Path:
    monkeypatch.chdir(tmp_path)
    assert run("new", "05-a", "--chapters", "chapters")[0] == 0
    assert run("build")[0] == 0
    return tmp_path / "chapters" / "WRITING.md"


def test_a_check_compares_it_and_a_build_mends_it(book: Path, run: Any) -> None:
    assert run("build", "--check")[0] == 0
    good = book.read_text()
    book.write_text(good.replace("Writing a chapter", "Writing a book"))
    code, out, _ = run("build", "--check")
    assert code == 1 and "chapters/WRITING.md  has other text" in out and "+# Writing a" in out
    assert out.splitlines()[-1].startswith("run: ") and not out.rstrip().endswith("05")
    assert run("build", "--check", "05")[0] == 0
    assert "wrote WRITING.md" in run("build")[1]
    assert book.read_text() == good and run("build", "--check")[0] == 0
    book.unlink()
    assert run("build", "--check")[0] == 0 and run("build")[0] == 0 and not book.exists()


def test_sources(run: Any, answer: Any, refused: Any, tmp_path: Path) -> None:
    assert set(answer("sources")) == set(shipped().sources)
    assert answer("sources", "SB5")["SB5"]["title"] in run("sources", "SB5")[1]
    assert "did you mean SB5" in refused("sources", "SB55")
    mine = tmp_path / "mine.toml"
    text = '[sources.mine]\ntitle = "T"\npublisher = "us"\nkind = "own"\ndated = "2026"\n'
    mine.write_text(f"{text}read = 2026-01-01\n")
    assert "T" in run("sources", "mine", "--facts", str(mine))[1]
