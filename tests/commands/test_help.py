"""Help is quick and readable: it imports neither SymPy nor NumPy, and prints the same each time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from derive.cost.limits import LIMITS

ROOT = Path(__file__).parents[2]
HEAVY = ("sympy", "numpy", "mpmath", "jinja2", "matplotlib")
CASES = [
    ("--help",),
    ("ask", "--help"),
    ("layer", "--help"),
    ("facts", "--help"),
    ("figures", "--help"),
    ("why", "--help"),
    ("akk",),
    ("ask", "fsdp", "B/X", "--stepz"),
    ("ask", "fsdp"),
]


@pytest.mark.parametrize("arguments", CASES, ids=" ".join)
def test_help_and_its_mistakes_import_nothing_heavy(arguments: tuple[str, ...]) -> None:
    script = (
        "import sys; from derive.cli import main; code = main(sys.argv[1:]); "
        f"print('HEAVY', [m for m in {HEAVY} if m in sys.modules], code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    code = 0 if "--help" in arguments else 2
    assert done.stdout.splitlines()[-1] == f"HEAVY [] {code}", done.stderr


def test_an_answer_does_import_sympy() -> None:
    script = (
        "import sys; from derive.cli import main; main(['ask', 'fsdp', 'B/X']); "
        "print('sympy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "True"


def test_help_names_every_command_and_option(run: Any) -> None:
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    for name in ("ask", "layer", "facts", "about", "figures", "why"):
        assert f"    {name} " in out
    _, out, _ = run("ask", "--help")
    options = "chip model set profile facts overlap pass keep gated precision gradients exact"
    for name in f"{options} large-n no-wrap steps best feasible json".split():
        assert f"--{name}" in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_the_help_names_every_limit(run: Any) -> None:
    _, out, _ = run("ask", "--help")
    told = re.search(r"of a limit \(([^)]*)\)", " ".join(out.split()))
    assert told and told[1].split(", ") == list(LIMITS)
