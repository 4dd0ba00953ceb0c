"""The README's table of exit codes: each command gives each code that is there, and no other."""

from __future__ import annotations

import re
import shlex
from argparse import _SubParsersAction
from pathlib import Path
from typing import Any

import pytest

from derive.commands.parser import parser

README = (Path(__file__).parents[2] / "README.md").read_text()
PLAN = "plan --model llama-3-70b --chip h100 --seq 8192 --batch 512 --top 1 --cards"
# What is typed for a code; in the book, chapter 06 is clean, 07 untrue, 08 broken and 09 unwritten.
TYPED = {
    ("ask", 0): "fsdp B/X",
    ("ask", 2): "fdsp B/X",
    ("layer", 0): "fsdp",
    ("layer", 2): "fdsp",
    ("reshard", 0): "T[B_X,D]->T[B,D_X]",
    ("reshard", 2): "T[B_X,D]->T[D_X,B]",
    ("value", 0): "C/W --chip tpu-v5p",
    ("value", 2): "C/Q --chip tpu-v5p",
    ("mesh", 0): "--sizes tp=2,dp=2 --cards-per-node 2",
    ("mesh", 2): "--sizes tp=0 --cards-per-node 2",
    ("validate", 0): "--source llama3",
    ("validate", 2): "--source llama4",
    ("facts", 0): "tpu-v5p",
    ("facts", 2): "tpu-v6p",
    ("sources", 0): "",
    ("sources", 2): "SB99",
    ("new", 0): "05-new",
    ("new", 2): "06-new",
    ("build --draft", 0): "06 07",
    ("build --draft", 2): "06 08",
    ("symbols", 0): "",
    ("symbols", 2): "B",
    ("about", 0): "fsdp",
    ("about", 2): "fdsp",
    ("why", 0): "06.a",
    ("why", 2): "06.b",
    ("plan", 0): "64",
    ("plan", 1): "1",
    ("plan", 2): "none",
    ("figures", 0): "06",
    ("figures", 1): "06 07",
    ("figures", 2): "06 07 08",
    ("audit", 0): "right.md",
    ("audit", 1): "right.md wrong.md",
    ("audit", 2): "wrong.md unread.md",
    ("build", 0): "06 09",
    ("build", 2): "07",
    ("build --mutate", 0): "06 --only number(113)",
    ("build --mutate", 1): "06 --only Plan.row:",
    ("build --mutate", 2): "07 --only number(113)",
    ("build --check", 0): "06",
    ("build --check", 1): "06 07",
    ("build --check", 2): "06 08 09",
}
FIGURES = """
from derive.book import *
from derive.notation.quantity import number

chapter = Chapter("{}", "A chapter")
chapter.claim("a", number(113), "round")
"""


def table() -> dict[tuple[str, int], str]:
    """The cells that say something, by command and code."""
    lines = README[README.index("| `derive` ...") :].split("\n\n")[0].splitlines()
    heads, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {
        (command, int(code)): cell
        for first, *cells in rows
        for command in re.findall("`([^`]*)`", first)
        for code, cell in zip(heads[1:], cells, strict=True)
        if cell
    }


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any) -> Path:
    for number in ("06", "07", "08", "09"):
        folder = tmp_path / "chapters" / f"{number}-chapter"
        folder.mkdir(parents=True)
        (folder / "figures.py").write_text(FIGURES.format(number))
        (folder / "chapter.md.j2").write_text(
            'It is << claim("a", "about 113") >> << derived >>.\n'
        )
    for name, words in (("right", "2,550"), ("wrong", "2,560"), ("unread", "some")):
        comment = "<!-- derive: value C/W --chip tpu-v5p -->"
        (tmp_path / f"{name}.md").write_text(f"It is {words}{comment}.\n")
    monkeypatch.chdir(tmp_path)
    assert run("build", "06", "07", "08")[0] == 0
    for number, template in (("07", '<< claim("a", "about 114") >> << derived >>\n'), ("08", "<%")):
        (tmp_path / "chapters" / f"{number}-chapter" / "chapter.md.j2").write_text(template)
    return tmp_path


def test_every_command_has_a_row_and_every_cell_an_example() -> None:
    (commands,) = (a for a in parser()._actions if isinstance(a, _SubParsersAction))
    assert {command.split()[0] for command, _ in table()} == set(commands.choices)
    assert set(table()) == set(TYPED)


@pytest.mark.parametrize(("command", "code"), TYPED, ids=lambda x: str(x))
def test_the_code_of_a_command(book: Path, run: Any, command: str, code: int) -> None:
    typed = TYPED[command, code].split()
    if command == "figures":  # takes all chapters that there are
        for folder in (book / "chapters").iterdir():
            if folder.name[:2] not in typed:
                folder.rename(book / folder.name)
        typed = []
    words = PLAN.split() if command == "plan" else command.split()
    got, out, err = run(*words, *typed)
    assert got == code, out + err
    assert bool(err) == (code == 2 or command == "build --check")
    assert out or code == 2 or command == "build --check"


def test_commands_of_the_samples_can_be_typed() -> None:
    typed = re.findall(r"^.*(?:run: |entry: \S*)python build\.py (.*?)(?: >.*)?$", README, re.M)
    assert len(typed) == 3
    for arguments in typed:
        assert parser().parse_args(["build", *shlex.split(arguments)]).check
