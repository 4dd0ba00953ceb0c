"""A book of small chapters in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from derive import cli
from derive.book.folders import Shelf

# Random tests draw the same examples on every run, and no slow machine fails them.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")

FIGURES = """
from derive.book import *
from derive.cost import strategies
from derive.notation import symbols as v
from derive.notation.quantity import evaluated, number
from derive.notation.units import byte, chip, flop, one, second, token
from derive.solve.threshold import threshold
"""
DECLARED = """
chapter = Chapter("06", "A chapter", names=("v5p", "LLaMA-3-70B", "TPU 8t", "3D"))
"""


class Book:
    """A root with chapters; `run` gives the exit code, standard output and standard error."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.capsys = root, capsys
        (root / "build.py").touch()  # so that messages name the script
        (root / "chapters").mkdir()

    @property
    def shelf(self) -> Shelf:
        return Shelf(self.root / "chapters")

    def folder(self, name: str = "06-mesh") -> Path:
        return self.root / "chapters" / name

    def write(
        self, template: str, figures: str = "", *, name: str = "06-mesh", declared: str = DECLARED
    ) -> Path:
        folder = self.folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "chapter.md.j2").write_bytes(template.encode())
        (folder / "figures.py").write_text(FIGURES + declared + figures)
        return folder

    def run(self, *arguments: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        code = cli.main(["build", "--chapters", str(self.root / "chapters"), *arguments])
        out, err = self.capsys.readouterr()
        return code, out, err

    def built(self, template: str, figures: str = "") -> str:
        """The README of a chapter that builds."""
        folder = self.write(template, figures)
        code, out, err = self.run()
        assert (code, err) == (0, ""), out + err
        return (folder / "README.md").read_text()

    def refused(self, template: str, figures: str = "") -> str:
        """The message about a chapter that does not build; it leaves no file behind."""
        folder = self.write(template, figures)
        before = self.files()
        code, out, err = self.run()
        assert (code, out) == (2, ""), out + err
        assert self.files() == before
        assert "Traceback" not in err
        assert folder.is_dir()
        return err

    def files(self) -> dict[str, tuple[bytes, int, int]]:
        """Every file under the root with its bytes, time of change and mode."""
        return {
            str(path.relative_to(self.root)): (
                path.read_bytes(),
                path.stat().st_mtime_ns,
                path.stat().st_mode,
            )
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def book(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Book:
    monkeypatch.chdir(tmp_path)
    return Book(tmp_path, capsys)
