"""Commands run in this process: exit code, standard output and standard error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from derive.cli import main

Run = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("ask", "fsdp", "B/X")` gives (exit code, stdout, stderr)."""

    def made(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return code, out, err

    return made


@pytest.fixture
def answer(run: Run) -> Callable[..., Any]:
    """`answer("ask", "fsdp", "B/X")` gives the data that --json prints."""

    def made(*arguments: str) -> Any:
        code, out, err = run(*arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return made


@pytest.fixture
def refused(run: Run) -> Callable[..., str]:
    """`refused("ask", "fdsp", "B/X")` gives the message: one line, exit 2, nothing printed."""

    def made(*arguments: str) -> str:
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert err.endswith("\n")
        assert err.count("\n") == 1, err
        assert err.startswith("derive")
        assert "Traceback" not in err
        assert len(err) < 700
        assert all(c == "\n" or c.isprintable() for c in err)
        return err

    return made


@pytest.fixture
def process() -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """`derive` as its own process; further names are environment variables."""

    def made(
        *arguments: str, stdin: bytes = b"", stdout: Any = subprocess.PIPE, **environment: str
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "derive", *arguments],
            input=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            timeout=60,
        )

    return made
