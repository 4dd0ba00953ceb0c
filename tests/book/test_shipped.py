"""The book that is shipped is the one that its templates and figures make."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive import cli

CHAPTERS = Path(__file__).resolve().parents[2] / "chapters"


def test_no_figure_of_the_shipped_book_has_drifted(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["build", "--check", "--chapters", str(CHAPTERS)])
    out, _ = capsys.readouterr()
    assert (code, out) == (0, "")
