"""The plugin of pytest in runs of its own: what is collected, and what fails and how."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from derive.cli import main

ROOT = Path(__file__).parents[1]
ASKS = "<!-- derive: ask fsdp_tensor B/N --chip tpu-v5p --model llama-3-70b --set M_X=2 -->"
FIGURES = """
from pathlib import Path
from derive.book import *
from derive.notation.quantity import number

with Path(__file__).with_name("rendered").open("a") as log:
    log.write("x")
chapter = Chapter("06", "A chapter")
chapter.claim("a", number(113), "round")
chapter.shown("b", number(7))
"""
TEMPLATE = 'It is << claim("a", "about {}") >> and\n<< show("b") >> << derived >>.\n'


def ran(folder: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:derive", "-p", "derive.pytest_plugin"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def book(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    folder = tmp_path / "chapters" / "06-chapter"
    folder.mkdir(parents=True)
    (folder / "figures.py").write_text(FIGURES)
    (folder / "chapter.md.j2").write_text(TEMPLATE.format(113))
    assert main(["build", "--chapters", str(tmp_path / "chapters")]) == 0
    (folder / "rendered").unlink()
    (tmp_path / "book.md").write_text(f"We need about 113{ASKS}\nor about 131 tokens{ASKS}.\n")
    (tmp_path / "plain.md").write_text(f"# No figure\n\n```\n5{ASKS}\n```\n")
    return tmp_path


@pytest.mark.parametrize("more", [(), ("-n", "2"), ("--import-mode=importlib",)])
def test_figures_are_tests(book: Path, more: tuple[str, ...]) -> None:
    code, out = ran(book, "-v", *more)
    assert code == 1
    assert "4 passed" in out and "1 failed" in out
    assert "book.md::1:18 about 113" in out and "book.md::2:20 about 131 tokens" in out
    wrong = "book.md:2  printed about 131 tokens  derived about 113 tokens  ask fsdp_tensor B/N"
    assert [line for line in out.splitlines() if line.startswith(wrong)]
    assert "two digits swapped" in out
    assert "chapters/06-chapter/chapter.md.j2::1 about 113 " in out
    assert "chapters/06-chapter/chapter.md.j2::2 7 " in out


def test_a_chapter_is_rendered_once_and_told_in_lines(book: Path) -> None:
    folder = book / "chapters" / "06-chapter"
    (folder / "chapter.md.j2").write_text(TEMPLATE.format(114))
    code, out = ran(book, "chapters", "-v")
    assert code == 1
    assert "chapter.md.j2::1 about 114 FAILED" in out and "chapter.md.j2::2 7 PASSED" in out
    assert "06-chapter/chapter.md.j2:1  a  printed about 114  derived about 113" in out
    assert (folder / "rendered").read_text() == "x"
    (folder / "chapter.md.j2").write_text(TEMPLATE.format(113) + '<< show("c") >>\n')
    code, out = ran(book, "chapters", "-v")
    assert code == 1 and "chapter.md.j2::text FAILED" in out and "unknown figure 'c'" in out
    (folder / "figures.py").write_text("1/0")
    code, out = ran(book, "chapters")
    assert code == 1 and "ZeroDivisionError" in out


def test_what_cannot_be_read_is_an_error_of_one_file(book: Path) -> None:
    (book / "other.md").write_bytes(b"5\xff<!-- derive: value C -->")
    code, out = ran(book)
    assert code == 2 and "expected UTF-8" in out
    code, out = ran(book, "--continue-on-collection-errors")
    assert "4 passed" in out


def test_facts_and_the_book_of_a_text(book: Path) -> None:
    (book / "book.md").write_text("We need 113<!-- derive: why 06.a -->.\n")
    code, out = ran(book, "book.md")
    assert code == 1 and "the book is not run unless it is named" in out
    code, out = ran(book, "book.md", "-o", "derive_chapters=chapters")
    assert code == 0, out
    code, out = ran(book, "book.md", "-o", "derive_facts=none.toml")
    assert code == 2 and "none.toml: expected a TOML file" in out


def test_other_runs_import_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "readme.md").write_text("# Nothing <!-- of ours -->\n")
    heavy = "sympy", "jinja2", "derive.cost", "derive.book", "derive.commands", "derive.notation"
    (tmp_path / "test_one.py").write_text(
        f"import sys\ndef test_one(): assert not {set(heavy)} & set(sys.modules)\n"
    )
    code, out = ran(tmp_path)
    assert code == 0 and "1 passed" in out


def test_the_project_itself_has_none_in_its_texts() -> None:
    texts = [p for p in (ROOT / "README.md", ROOT / "chapters" / "WRITING.md") if p.exists()]
    code, out = ran(ROOT, "-n", "0", "-o", "addopts=", *map(str, texts), "--collect-only", "-q")
    assert "no tests" in out and code == 5
