"""Hostile text at every entrance, in this process, under guards.

Not part of the usual run. 2,000 inputs an entrance, the same each time, or as many random ones as
HOSTILE says: `HOSTILE=100000 .venv/bin/python -m pytest tests/hostile`. Whatever is typed, nothing
of it is executed, no file is opened for writing, no process is started, an input takes less than
ten seconds of processor time and 500 MB, and what comes back is an answer or one line of printable
characters.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest
from hostile.guards import INPUTS, hung, run
from hypothesis import HealthCheck, Phase, settings

import derive

BYTES = 500 * 2**20

settings.register_profile(
    "hostile",
    max_examples=INPUTS,
    deadline=None,
    derandomize=INPUTS <= 2000,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("hostile")


@pytest.fixture(scope="session", autouse=True)
def _guards() -> Iterator[None]:
    """Every module is loaded first, so that what is executed later is not the program's own."""
    for package in walk_packages(derive.__path__, "derive."):
        if not package.name.endswith("__main__"):
            import_module(package.name)
    for warmed in (("ask", "fsdp", "B/X", "--chip", "tpu-v5p", "--exact"), ("facts",)):
        assert run(*warmed)[0] == 0
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limits = resource.getrlimit(resource.RLIMIT_AS)
    previous = signal.signal(signal.SIGPROF, hung)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)
    signal.signal(signal.SIGPROF, previous)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test runs in an empty folder and leaves it empty."""
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []
