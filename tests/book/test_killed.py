"""A build that is killed, asked to end, or not alone: every file is whole, and nothing stays.

KILLS in the environment is how many moments are tried.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

KILLS = int(os.environ.get("KILLS", "5"))
INTERRUPT, KILL, TERMINATE, STOP = 2, 9, 15, 19
NAMES = ("06-mesh", "07-other")
OUTPUTS = ["chapters/06-mesh/README.md", "chapters/06-mesh/p.svg", "chapters/07-other/README.md"]
# Two folders are opened; each file is cleared, made, synced, moved and cleared again.
FOLDERS, CALLS = len(NAMES), 5 * len(OUTPUTS)
CASES = list(product((KILL, TERMINATE, INTERRUPT), (False, True), range(1, FOLDERS + CALLS + 1)))
TRIED = [CASES[n * len(CASES) // KILLS] for n in range(KILLS)] if len(CASES) > KILLS else CASES


class Forked:
    """Starts builds as processes, from one that is warm."""

    def __init__(self) -> None:
        root = Path(__file__).resolve().parents[2]
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forked.py"))],
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def codes(self, *jobs: dict[str, object]) -> list[int]:
        assert self.process.stdin and self.process.stdout
        print(json.dumps(jobs), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def forked():
    started = Forked()
    yield started
    started.process.communicate()


def job(book, version: str, number: int = 0, moment: int = 0) -> dict[str, object]:
    """A build of two chapters, with texts and a plot that tell the version."""
    plot = f'chapter.plot("p", Plot("{version}", "x", "y", [("a", [1, 2], [1, 2])]), alt="a")'
    sources = {}
    for name, printed, figures in ((NAMES[0], "\n<< plot('p') >>\n", plot), (NAMES[1], "", "")):
        book.write(
            f"# Version {version}\n{printed}",
            figures,
            name=name,
            declared=f'\nchapter = Chapter("{name[:2]}", "A")\n',
        )
        for file in ("chapter.md.j2", "figures.py"):
            sources[f"chapters/{name}/{file}"] = (book.folder(name) / file).read_text()
    return {"root": str(book.root), "write": sources, "signal": number, "moment": moment}


def outputs(book) -> list[bytes | None]:
    paths = [book.root / name for name in OUTPUTS]
    return [path.read_bytes() if path.exists() else None for path in paths]


def leftovers(book) -> list[Path]:
    return list(book.root.rglob("*.tmp"))


@pytest.mark.parametrize("case", TRIED, ids=str)
def test_a_build_that_is_killed_leaves_whole_files_and_the_next_one_cleans_up(book, forked, case):
    number, built_before, moment = case
    if built_before:
        assert forked.codes(job(book, "old")) == [0]
    before = outputs(book)
    assert forked.codes(job(book, "new", number, moment)) == [-KILL if number == KILL else 2]
    after = outputs(book)
    if number != KILL:
        said = (book.root / "said").read_text().splitlines()
        assert said[-1:] == ["derive: interrupted; no file is half written"]
        assert not leftovers(book)
    assert forked.codes(job(book, "new")) == [0]
    built = outputs(book)
    assert None not in built
    assert all(b != c for b, c in zip(before, built, strict=True))
    assert all(a in pair for a, *pair in zip(after, before, built, strict=True))
    if number != KILL:
        assert after in (before, built)
    assert not leftovers(book)
    assert book.run("--check")[0] == 0


def test_a_killed_build_does_leave_something(book, forked):
    """The test above would notice nothing if no kill ever fell between two writes."""
    assert forked.codes(job(book, "new", KILL, FOLDERS + 6)) == [-KILL]
    assert leftovers(book)
    assert book.run("--check")[0] == 1
    assert leftovers(book), "--check writes nothing"


@pytest.mark.parametrize("moment", [FOLDERS + 3, FOLDERS + 11])
@pytest.mark.parametrize("beside", [1, 2])
def test_builds_at_once_write_one_after_the_other(book, forked, moment, beside):
    """The first stops in the middle of its writing, and the others begin."""
    versions = {}
    for version in ("first", "second"):
        assert forked.codes(job(book, version)) == [0]
        versions[version] = outputs(book)
    assert forked.codes(job(book, "old")) == [0]
    jobs = [job(book, "first", STOP, moment)]
    jobs += [job(book, "second")] * beside
    assert set(forked.codes(*jobs)) == {0}
    assert outputs(book) in versions.values()
    assert not leftovers(book)


def test_what_is_not_ours_stays(book, forked):
    job(book, "new")
    strange = [".README.md.tmp", "README.md.derive-1.tmp", ".README.md.derive-x.tmp", ".a.swp"]
    for name in strange:
        (book.folder() / name).write_text("mine")
    (book.folder() / ".folder.derive-1.tmp").mkdir()
    (book.folder() / ".README.md.derive-1.tmp").write_text("left")
    assert book.run()[0] == 0
    there = {path.name for path in book.folder().iterdir()}
    assert {*strange, ".folder.derive-1.tmp"} < there
    assert ".README.md.derive-1.tmp" not in there
