"""Nothing is ever lost: writes are whole or not at all, and what is unchanged is not touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from derive.book import files
from derive.commands import build as build_module

ROOT = Path(__file__).resolve().parents[2]
FIGURES = """
alpha = evaluated(v.C / v.W, chapter.chip("tpu-v5p").bindings(), name="alpha")
chapter.shown("alpha", alpha, integer())
chapter.table("t", ["Chip", "FLOP per byte"], [["v5p", cell(alpha, integer())]])
chapter.condition("c", threshold(strategies.fsdp_tensor, v.B / v.N))
"""
TEMPLATE = """# A

<< show("alpha") >> << cite("SB5") >> << ref("c") >>

<< condition("c", "A reading.") >>

A table << derived >>:

<< table("t") >>

<< notation() >>

<< sources() >>
"""


def test_a_second_build_touches_nothing(book):
    first = book.built(TEMPLATE, FIGURES)
    before = book.files()
    assert book.run() == (0, "06-mesh: unchanged\n", "")
    assert book.files() == before
    assert first == (book.folder() / "README.md").read_text()


def test_the_mode_of_a_file_stays(book):
    book.built(TEMPLATE, FIGURES)
    readme = book.folder() / "README.md"
    readme.chmod(0o640)
    readme.write_text("old")
    book.run()
    assert readme.stat().st_mode & 0o777 == 0o640
    assert readme.read_text() != "old"


def test_a_new_file_has_the_usual_mode(book):
    before = os.umask(0o027)
    try:
        book.built(TEMPLATE, FIGURES)
    finally:
        os.umask(before)
    assert (book.folder() / "README.md").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("target", ["../../elsewhere.md", "chapter.md.j2", "nowhere"])
def test_nothing_is_written_through_a_link(book, target):
    """A link in a pull request would have a build overwrite any file of whoever runs it."""
    book.write("# A\n")
    (book.root / "elsewhere.md").write_text("old")
    (book.folder() / "README.md").symlink_to(target)
    before = book.files()
    code, out, err = book.run()
    assert (code, out) == (2, "") and "06-mesh/README.md: is a link" in err
    assert book.files() == before and not (book.folder() / "nowhere").exists()


@pytest.mark.parametrize("file", ["chapter.md.j2", "figures.py", "README.md"])
@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_what_is_no_file_is_not_read(book, file, kind):
    folder = book.write("# A\n")
    book.write("# B\n", name="07-b", declared='\nchapter = Chapter("07", "B")\n')
    (folder / file).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(folder / file)
    else:
        (folder / file).symlink_to("/dev/zero")
    code, out, err = book.run("--check")
    assert code == 2 and "07-b/README.md  is missing" in out
    assert f"chapters/06-mesh/{file}: " in err and "is no regular file" in err


def test_a_chapter_that_leads_nowhere_is_told(book):
    book.write("# A\n")
    (book.root / "chapters" / "07-b").symlink_to("07-b")
    code, _, err = book.run()
    assert code == 2 and err.startswith("chapters/07-b")


@pytest.mark.parametrize("call", ["replace", "fsync", "chmod"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_every_file_as_it_was(book, monkeypatch, call, error):
    book.built(TEMPLATE, FIGURES)
    other = '\nchapter = Chapter("07", "B")\n'
    book.write("old\n", name="07-b", declared=other)
    book.run()
    book.write("# New\n")
    book.write("new\n", name="07-b", declared=other)
    before = book.files()
    real, calls = getattr(os, call), []

    def failing(*arguments, **named):
        calls.append(arguments)
        if len(calls) == 2:  # the second file: the first one is already in place, or staged
            raise error
        return real(*arguments, **named)

    monkeypatch.setattr(os, call, failing)
    code, out, err = book.run()
    monkeypatch.undo()
    assert len(calls) >= 2
    assert (code, out) == (2, "")
    expected = "No space left" if isinstance(error, OSError) else "interrupted"
    assert expected in err and "Traceback" not in err
    after = book.files()
    assert {name: data[0] for name, data in after.items()} == {
        name: data[0] for name, data in before.items()
    }
    assert {name: data[2] for name, data in after.items()} == {
        name: data[2] for name, data in before.items()
    }


def test_a_full_disk_names_the_file(book, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    book.write("# A\n")
    monkeypatch.setattr(os, "fsync", full)
    expected = "chapters/06-mesh/README.md: No space left on device; nothing was changed\n"
    assert book.run() == (2, "", expected)


def test_an_error_in_one_chapter_writes_none(book):
    book.built("# A\n")
    book.write("# B\n")
    book.write("a 3\n", name="07-b", declared='\nchapter = Chapter("07", "B")\n')
    before = book.files()
    assert book.run()[0] == 2
    assert book.files() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_without_permission(book):
    folder = book.write("# A\n")
    folder.chmod(0o555)
    try:
        code, out, err = book.run()
    finally:
        folder.chmod(0o755)
    assert (code, out) == (2, "")
    assert err == "chapters/06-mesh: Permission denied; nothing was changed\n"


def test_the_readme_is_a_folder(book):
    folder = book.write("# A\n")
    (folder / "README.md").mkdir()
    for flag in ((), ("--check",)):
        code, out, err = book.run(*flag)
        assert (code, out) == (2, "")
        again = "\nmend the error above, then run: python build.py --check"
        tail = again if flag else "; nothing was changed"
        assert err == f"chapters/06-mesh/README.md: Is a directory{tail}\n"


def test_files_are_whole_at_every_moment(tmp_path, monkeypatch):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    seen = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda f: (seen.append(target.read_bytes()), real(f)))
    assert files.write({target: b"new", tmp_path / "b": b"x"}) == (target, tmp_path / "b")
    assert seen == [b"old", b"old"]
    assert target.read_bytes() == b"new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def run(code, *arguments, seed="0"):
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/",
    )


PLOT = 'chapter.plot("p", Plot("t", "x", "y", [("a", [1, 2], [1, 2])]), alt="a")'
FRESH = """
import pathlib, sys
import derive.book, derive.book.report, derive.commands.build
from derive import cli
assert not {"matplotlib", "markdown_it"} & set(sys.modules), "the import is not light"
root = pathlib.Path(sys.argv[1])
for flags in ([], ["--check"]):
    assert cli.main(["build", "--chapters", str(root / "chapters"), *flags]) == 0
assert "matplotlib" not in sys.modules, "an unchanged plot takes matplotlib"
"""


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_fresh_process_imports_little_and_writes_the_same_bytes(book, seed):
    """Under another hash seed; an unchanged plot is checked without matplotlib."""
    book.built(TEMPLATE + '\n<< plot("p") >>\n', FIGURES + PLOT)
    readme = book.folder() / "README.md"
    first, plot = readme.read_bytes(), book.files()["chapters/06-mesh/p.svg"]
    readme.unlink()
    done = run(FRESH, str(book.root), seed=seed)
    assert (done.returncode, done.stderr) == (0, "06-mesh: up to date\n")
    assert done.stdout == "06-mesh: wrote README.md\n"
    assert readme.read_bytes() == first
    assert book.files()["chapters/06-mesh/p.svg"] == plot


def test_a_missing_extra_is_told_with_the_command(book, monkeypatch):
    book.write("# A\n")
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    code, out, err = book.run()
    assert (code, out) == (2, "")
    assert err == (
        "chapters/06-mesh: markdown-it-py checks the chapters and is not installed; "
        "pip install -e '.[book]'\n"
    )
    monkeypatch.undo()
    folder = book.write('<< plot("p") >>\n', PLOT)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = book.run()
    assert code == 2
    assert (
        err == "derive: matplotlib draws the plots and is not installed; pip install -e '.[book]'\n"
    )
    assert not (folder / "README.md").exists()


def test_the_script_names_what_is_missing():
    code = (
        "import sys, runpy\n"
        "sys.modules['jinja2'] = None\n"
        "sys.argv = ['build.py', '--check']\n"
        f"runpy.run_path({str(ROOT / 'build.py')!r}, run_name='__main__')\n"
    )
    done = run(code)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "jinja2 is not installed; run: pip install -e '.[book]'\n"


def test_a_closed_pipe_is_no_traceback(book, monkeypatch):
    book.write("# A\n")

    def broken(*arguments):
        raise BrokenPipeError

    monkeypatch.setattr(build_module, "check", broken)
    monkeypatch.setattr(os, "dup2", lambda *arguments: None)
    code, _, err = book.run("--check")
    assert (code, err) == (2, "")
