"""`build --watch` as a process: what it says as chapters change, and how it ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.commands import watch

ROOT = Path(__file__).parents[2]
FIGURES = """
from derive.book import Chapter

chapter = Chapter("{0}", "A")
chapter.claim("a", 113)
"""
GOOD = 'It is << claim("a", "about 113") >> << derived >>.\n'
LONGEST = 90  # seconds until a line must have come


class Watcher:
    """A process that watches, and the lines that it says."""

    def __init__(self, place: Path, *options: str) -> None:
        command = [sys.executable, "-m", "derive", "build", "--watch", "--chapters", str(place)]
        self.process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=place.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            # A shell that starts the tests beside others has them ignore it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.said = b""

    def line(self) -> str:
        assert self.process.stdout is not None
        end = time.monotonic() + LONGEST
        while b"\n" not in self.said:
            ready, _, _ = select.select([self.process.stdout], [], [], end - time.monotonic())
            assert ready, self.said
            read = os.read(self.process.stdout.fileno(), 4096)
            assert read, self.said
            self.said += read
        line, _, self.said = self.said.partition(b"\n")
        return line.decode()

    def ended(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(LONGEST)


def chapter(place: Path, name: str, template: str = GOOD) -> Path:
    folder = place / name
    folder.mkdir(exist_ok=True)
    (folder / "figures.py").write_text(FIGURES.format(name[:2]))
    (folder / "chapter.md.j2").write_text(template)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "chapters").mkdir()
    chapter(tmp_path / "chapters", "06-a")
    return tmp_path / "chapters"


@pytest.fixture
def watching(place: Path, request: pytest.FixtureRequest) -> Iterator[Watcher]:
    watcher = Watcher(place, *getattr(request, "param", ()))
    yield watcher
    if watcher.process.poll() is None:
        watcher.process.kill()
    watcher.process.wait()
    assert watcher.process.stdout is not None
    watcher.process.stdout.close()


def test_it_builds_what_changes_until_it_is_interrupted(place: Path, watching: Watcher) -> None:
    assert watching.line().startswith("watching 06-a")
    assert watching.line().startswith("06-a: wrote README.md  (")
    folder = place / "06-a"
    (folder / "chapter.md.j2").write_text(GOOD.replace("It is", "It was"))
    assert watching.line().startswith("06-a: wrote README.md  (")
    assert "It was about 113" in (folder / "README.md").read_text()
    (folder / "chapter.md.j2").write_text(GOOD.replace("113", "131"))
    assert watching.line().startswith("06-a: 1 problem, nothing is written  (")
    assert watching.line().startswith("  chapters/06-a/chapter.md.j2:1: a is 113")
    (folder / "figures.py").write_text("chapter = (\n")
    assert watching.line().startswith("06-a: 1 problem")
    assert "figures.py:1: SyntaxError" in watching.line()
    chapter(place, "06-a")
    assert watching.line().startswith("06-a: wrote README.md  (")
    chapter(place, "07-b")
    assert watching.line().startswith("07-b: wrote README.md  (")
    assert watching.ended() == 0
    assert watching.line() == "watched no longer"


@pytest.mark.parametrize("watching", [("--draft",)], indirect=True)
def test_drafts(place: Path, watching: Watcher) -> None:
    watching.line()
    assert watching.line().startswith("06-a: wrote DRAFT.md, nothing is missing  (")
    chapter(place, "06-a", GOOD + "\n<< show(")
    assert watching.line().startswith("06-a: cannot be rendered  (")
    assert "chapter.md.j2:3: " in watching.line()
    assert watching.ended() == 0
    assert not (place / "06-a" / "README.md").exists()


def test_an_outcome_without_forks(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where processes cannot fork, the command that was given runs for each chapter."""
    ran: list[list[str]] = []

    def run(command: list[str]) -> None:
        ran.append(command)
        raise KeyboardInterrupt

    monkeypatch.delattr(os, "fork")
    monkeypatch.setattr(watch.subprocess, "run", run)
    watch.watch(place, lambda: ["06-a"], lambda name: [name], ["derive", "build"])
    assert ran == [["derive", "build", "06-a"]]


@pytest.mark.parametrize("more", [["--check"], ["--format", "json"], ["--json"]])
def test_what_a_watch_does_not_take(refused: object, place: Path, more: list[str]) -> None:
    told = refused("build", "--chapters", str(place), "--watch", *more)  # type: ignore[operator]
    assert "--watch" in told


def test_an_unknown_chapter_is_refused_before_it_watches(refused: object, place: Path) -> None:
    assert "unknown chapter" in refused("build", "--chapters", str(place), "--watch", "09")  # type: ignore[operator]
