"""The figures of a chapter printed by a notebook that nbconvert runs, against `build.py --check`.

The notebook runs the same figures.py and prints each number and each table, without any check; a
line of a benchmark is printed where nbconvert and ipykernel are installed.
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from processes import ROOT, paired

CHAPTER = "06"
DECLARED = f"""
from pathlib import Path
from IPython.display import Markdown, display
from derive.book import tables
from derive.book.folders import Shelf

shelf = Shelf(Path({str(ROOT / "chapters")!r}))
chapter = shelf.chapter(shelf.picked([{CHAPTER!r}])[0])
"""
FIGURES = """
for figure in chapter.figures.values():
    if figure.quantity is not None:
        display(Markdown(f"{figure.name}: {figure.quantity.printed(figure.rule)}"))
"""
TABLES = """
for table in chapter.tables.values():
    display(Markdown(tables.markdown(table, lambda figure, *more, **named: figure.text()[0])))
"""


def cell(source: str) -> dict[str, object]:
    """A cell of code as a notebook's JSON has it."""
    code = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    return {**code, "source": source}


def main(rounds: int = 3) -> None:
    """Print the ratio of both, each a whole process."""
    if not (find_spec("nbconvert") and find_spec("ipykernel")):
        print("check chapter 06 / the same figures by a notebook: nbconvert, ipykernel are missing")
        return
    notebook = {
        "cells": [cell(DECLARED), cell(FIGURES), cell(TABLES)],
        "metadata": {"kernelspec": {"name": "python3", "display_name": "", "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "chapter.ipynb"
        page.write_text(json.dumps(notebook))
        convert = [sys.executable, "-m", "nbconvert", "--execute", "--to", "markdown", str(page)]
        check = [sys.executable, str(ROOT / "build.py"), "--check", CHAPTER]
        ours, theirs = paired(check, convert, rounds)
        assert "alpha-v5p: 2,550" in page.with_suffix(".md").read_text()
    told = f"{1e3 * ours:8.1f} ms / {1e3 * theirs:8.1f} ms = {ours / theirs:6.3f}"
    print(f"{'check chapter 06 / notebook of its figures':<44} {told}   aim: none set", flush=True)


if __name__ == "__main__":
    main()
