"""`derive new`: a chapter that builds at once, or nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from derive import cli
from derive.book import files
from derive.book.lint import typed_numbers
from derive.book.scaffold import FILES, FIRST


def new(book, *arguments):
    book.capsys.readouterr()
    code = cli.main(["new", "--chapters", str(book.root / "chapters"), *arguments])
    return code, *book.capsys.readouterr()


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("05-data-parallelism", "Data parallelism"),
        ("99-MoE", "MoE"),
        ("07-3d-übersicht", "3d übersicht"),
    ],
)
def test_it_builds_at_once_under_its_name(book, name, title):
    code, out, err = new(book, name)
    assert (code, err) == (0, "") and all(f"{name}/{file}" in out for file in FILES)
    assert book.run() == (0, f"{name}: wrote README.md, axes.svg, fsdp.smt2\n", "")
    text = (book.folder(name) / "README.md").read_text()
    assert f"\n# {title}\n" in text and f"**({int(name[:2])}.1)**" in text
    assert "First chapter" not in text and book.run("--check")[0] == 0


def test_what_it_says_next_can_be_typed(book, monkeypatch):
    monkeypatch.chdir(book.root)
    _, out, _ = new(book, "05-a")
    typed = [line.split("  ")[1].split() for line in out.splitlines() if "python build.py" in line]
    assert len(typed) == 3
    for words in typed:
        if "--watch" not in words:
            assert cli.main(["build", *words[2:]]) in (0, 1)
    assert "chapters/WRITING.md" in out and (book.root / "chapters" / "WRITING.md").is_file()


def test_prose_has_no_number_of_its_own():
    text = (FIRST / "chapter.md.j2").read_text()
    outside = "".join(part.partition(">>")[2] for part in ("<<>>" + text).split("<<"))
    assert [typed for _, typed in typed_numbers(outside, ["v5p", "Llama 3 70B"])] == []


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("5-mesh", "05-mesh"),
        ("mesh", "08-mesh"),
        ("05", "05-name"),
        ("05_Data, parallel", "05-data-parallel"),
        ("05-a/b", "05-a-b"),
        ("../05-a", "05-a"),
        ("", "08-name"),
        ("123-a", "08-a"),
        ("٠٥-a", "08-"),
        ("05-a\n", "05-a"),
    ],
)
def test_a_bad_name_is_refused_with_the_nearest_good_one(book, name, told):
    book.folder("07-there").mkdir()
    code, out, err = new(book, "--", name)
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert "two digits, a dash and words" in err and f"such as {told}" in err
    near = err.split("such as ")[1].split(",")[0]
    assert new(book, near)[0] == 0


@pytest.mark.parametrize("there", ["06-mesh", "06-other", "06-file"])
def test_a_number_that_is_taken_is_refused(book, there):
    if there.endswith("file"):
        book.folder(there).touch()
    else:
        book.folder(there).mkdir()
    before = sorted(book.root.rglob("*"))
    code, out, err = new(book, "06-mesh")
    assert (code, out) == (2, "") and there in err and "07-mesh" in err
    assert sorted(book.root.rglob("*")) == before


def test_a_place_that_is_not_there_is_made_with_the_page_for_authors(tmp_path, capsys):
    place = tmp_path / "a" / "notes"
    assert cli.main(["new", "01-first", "--chapters", str(place)]) == 0
    assert (place / "WRITING.md").is_file() and "DRAFT" in (place / ".gitignore").read_text()
    capsys.readouterr()
    assert cli.main(["build", "--check", "--chapters", str(place)]) == 1
    out = capsys.readouterr().out
    assert "01-first/README.md  is missing" in out and "WRITING.md  " not in out
    assert cli.main(["build", "--chapters", str(place)]) == 0


@pytest.mark.parametrize("inside", ["", "notes"])
def test_a_place_that_is_no_folder_is_refused(tmp_path, capsys, inside):
    (tmp_path / "file").touch()
    assert cli.main(["new", "01-first", "--chapters", str(tmp_path / "file" / inside)]) == 2
    assert "is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("call", ["replace", "fsync", "mkdir"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_stays_where_a_file_fails(tmp_path, monkeypatch, capsys, call, error):
    real, calls = getattr(os, call), 0

    def failing(*arguments, **named):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise error
        return real(*arguments, **named)

    monkeypatch.setattr(os, call, failing)
    place = tmp_path / "deep" / "notes"
    assert cli.main(["new", "01-first", "--chapters", str(place)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_only_what_is_listed_is_written(book):
    new(book, "05-a")
    made = {
        str(path.relative_to(book.root / "chapters"))
        for path in (book.root / "chapters").rglob("*")
    }
    assert made == {".gitignore", "WRITING.md", "05-a", *(f"05-a/{file}" for file in FILES)}
    assert (
        files.read(Path(book.folder("05-a") / "facts.toml")) == (FIRST / "facts.toml").read_bytes()
    )
    new(book, "06-b")
    assert book.folder("06-b").is_dir()
