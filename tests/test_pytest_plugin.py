"""The plugin of pytest in runs of its own: what is collected, and what fails and how."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from derive.book.audit import places
from derive.cli import main

ROOT = Path(__file__).parents[1]
ASKS = "<!-- derive: ask fsdp_tensor B/N --chip tpu-v5p --model llama-3-70b --set M_X=2 -->"
FIGURES = """
from pathlib import Path
from derive.book import *
from derive.notation.quantity import number

with Path(__file__).with_name("rendered").open("a") as log:
    log.write("x")
chapter = Chapter("{}", "A chapter")
chapter.claim("a", number(113), "round")
chapter.shown("b", number(7))
"""
TEMPLATE = 'It is << claim("a", "about {}") >> and\n<< show("b") >> << derived >>.\n'
CHAPTERS = "06-true", "07-wrong", "08-unknown", "09-broken"


def ran(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and the output of pytest with this plugin and no other that is installed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "derive.pytest_plugin", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts beside a book of four built chapters, three of which have been changed since."""
    root = tmp_path_factory.mktemp("book")
    (root / "pytest.ini").write_text("[pytest]\n")
    folders = [root / "chapters" / name for name in CHAPTERS]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "figures.py").write_text(FIGURES.format(folder.name[:2]))
        (folder / "chapter.md.j2").write_text(TEMPLATE.format(113))
    assert main(["build", "--chapters", str(root / "chapters")]) == 0
    for folder in folders:
        (folder / "rendered").unlink()
    (folders[1] / "chapter.md.j2").write_text(TEMPLATE.format(114))
    (folders[2] / "chapter.md.j2").write_text(TEMPLATE.format(113) + '<< show("c") >>\n')
    (folders[3] / "figures.py").write_text("1/0")
    (root / "book.md").write_text(f"We need about 113{ASKS}\nor about 131 tokens{ASKS}.\n")
    (root / "hostile.md").write_text("5\x1b[2J\u202e<!-- derive: value C\x1b[31m\u202e -->\n")
    (root / "other.md").write_bytes(b"5\xff<!-- derive: value C -->")
    (root / "plain.md").write_text(f"# No figure\n\n```\n5{ASKS}\n```\n")
    (root / "why.md").write_text("We need 113<!-- derive: why 06.a -->.\n")
    return root


@pytest.fixture(scope="module")
def whole(book: Path) -> str:
    """What a run over all of it tells."""
    more = ("-v", "--continue-on-collection-errors", "-o", "derive_chapters=chapters")
    code, out = ran(book, *more)
    assert code == 1
    return out


def test_figures_of_texts_are_tests(whole: str) -> None:
    assert "book.md::1:18 about 113 PASSED" in whole
    assert "book.md::2:20 about 131 tokens FAILED" in whole
    wrong = "book.md:2  printed about 131 tokens  derived about 113 tokens  ask fsdp_tensor B/N"
    assert [line for line in whole.splitlines() if line.startswith(wrong)]
    assert "two digits swapped" in whole
    assert "plain.md" not in whole
    assert "why.md::1:12 113 PASSED" in whole


def test_a_chapter_is_rendered_once_and_told_in_lines(book: Path, whole: str) -> None:
    true, wrong, unknown, broken = (f"chapters/{name}/chapter.md.j2" for name in CHAPTERS)
    for test in ("1 about 113", "2 7", "text"):
        assert f"{true}::{test} PASSED" in whole
    assert f"{wrong}::1 about 114 FAILED" in whole and f"{wrong}::2 7 PASSED" in whole
    assert "07-wrong/chapter.md.j2:1  a  printed about 114  derived about 113" in whole
    assert f"{unknown}::text FAILED" in whole and "unknown figure 'c'" in whole
    assert f"{broken}::text FAILED" in whole and "ZeroDivisionError" in whole
    # The first is also the book of why.md, and is rendered for it.
    assert (book / "chapters" / CHAPTERS[0] / "rendered").read_text() == "xx"
    assert (book / "chapters" / CHAPTERS[1] / "rendered").read_text() == "x"


def test_what_cannot_be_read_is_an_error_of_one_file(book: Path, whole: str) -> None:
    assert "ERROR other.md" in whole and "expected UTF-8" in whole and ", 1 error in" in whole
    code, out = ran(book, "book.md", "other.md", "-o", "derive_facts=none.toml")
    assert code == 2 and "none.toml: expected a TOML file" in out and "expected UTF-8" in out


def test_what_is_told_is_printable(whole: str) -> None:
    assert "hostile.md::1:" in whole
    assert all(c == "\n" or c.isprintable() for c in whole)


def test_processes_of_xdist_collect_the_same(book: Path) -> None:
    texts = ("book.md", "plain.md", "why.md", f"chapters/{CHAPTERS[0]}")
    code, out = ran(book, "-p", "xdist", "-n", "2", "--import-mode=importlib", "-v", *texts)
    assert code == 1 and "4 passed" in out and "2 failed" in out
    assert "book.md::1:18 about 113" in out and "book.md::2:20 about 131 tokens" in out
    assert "the book is not run unless it is named" in out


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
    assert texts and not [place for p in texts for place in places(p.read_text())]
