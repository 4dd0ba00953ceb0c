"""Whole processes timed in pairs: one side, then the other, round after round."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

ROOT = Path(__file__).resolve().parents[2]


def seconds(command: list[str]) -> float:
    """The wall-clock time of one run; raises CalledProcessError where it fails."""
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return time.perf_counter() - start


def computed(command: list[str]) -> float:
    """The CPU time of one run; raises CalledProcessError where it fails."""
    start = getrusage(RUSAGE_CHILDREN)
    seconds(command)
    end = getrusage(RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime


def paired(ours: list[str], theirs: list[str], rounds: int = 9) -> tuple[float, float]:
    """The medians of both sides over alternating rounds, after one unmeasured round each."""
    seconds(ours), seconds(theirs)
    times = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
    return median(t[0] for t in times), median(t[1] for t in times)


def python(code: str) -> list[str]:
    """The command that runs a line of Python."""
    return [sys.executable, "-c", code]
