"""Nothing is ever lost: writes are whole or not at all, and what is unchanged is not touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from derive.book import build as build_module
from derive.book import files

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


def test_a_link_stays_a_link(book):
    book.write("# A\n")
    target = book.root / "elsewhere.md"
    target.write_text("old")
    (book.folder() / "README.md").symlink_to(target)
    assert book.run()[0] == 0
    assert (book.folder() / "README.md").is_symlink()
    assert target.read_text().endswith("# A\n")


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
        tail = "" if flag else "; nothing was changed"
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


MAIN = (
    "import sys, pathlib\n"
    "from derive.book.build import main\n"
    "code = main(sys.argv[2:], pathlib.Path(sys.argv[1]))\n"
    "bad = {'matplotlib'} & set(sys.modules)\n"
    "sys.exit(code if not bad else 9)\n"
)


def test_the_same_bytes_under_every_hash_seed(book):
    book.built(TEMPLATE, FIGURES)
    readme = book.folder() / "README.md"
    first = readme.read_bytes()
    for seed in ("1", "2"):
        readme.unlink()
        made = run(MAIN, str(book.root), seed=seed)
        assert (made.returncode, made.stderr) == (0, "")
        assert readme.read_bytes() == first


def test_an_unchanged_plot_is_checked_without_matplotlib(book):
    figures = 'chapter.plot("p", Plot("t", "x", "y", [("a", [1, 2], [1, 2])]), alt="a")'
    book.built('<< plot("p") >>\n', figures)
    for flag in ((), ("--check",)):
        made = run(MAIN, str(book.root), *flag)
        assert made.returncode == 0, made


def test_importing_the_package_is_light():
    code = (
        "import sys, derive.book, derive.book.build, derive.book.report\n"
        "print({'matplotlib', 'markdown_it'} & set(sys.modules))"
    )
    assert run(code).stdout == "set()\n"


def test_a_missing_extra_is_told_with_the_command(book):
    book.write("# A\n")
    hide = "import sys\nsys.modules['markdown_it'] = None\n"
    made = run(hide + MAIN, str(book.root))
    assert (made.returncode, made.stdout) == (2, "")
    assert made.stderr == (
        "chapters/06-mesh: markdown-it-py checks the chapters and is not installed; "
        "pip install -e '.[book]'\n"
    )
    figures = 'chapter.plot("p", Plot("t", "x", "y", [("a", [1, 2], [1, 2])]), alt="a")'
    folder = book.write('<< plot("p") >>\n', figures)
    hide = "import sys\nsys.modules['matplotlib'] = None\n"
    made = run(hide + MAIN.replace("if not bad", "if 1"), str(book.root))
    assert made.returncode == 2
    assert made.stderr == (
        "matplotlib draws the plots and is not installed; pip install -e '.[book]'\n"
    )
    assert not (folder / "README.md").exists()


def test_the_script_names_what_is_missing():
    code = (
        "import sys, runpy\n"
        "sys.modules['jinja2'] = None\n"
        "sys.argv = ['build.py', '--check']\n"
        f"runpy.run_path({str(ROOT / 'build.py')!r}, run_name='__main__')\n"
    )
    made = run(code)
    assert (made.returncode, made.stdout) == (2, "")
    assert made.stderr == "jinja2 is not installed; run: pip install -e '.[book]'\n"


def test_a_closed_pipe_is_no_traceback(book, monkeypatch):
    book.write("# A\n")

    def broken(*arguments):
        raise BrokenPipeError

    monkeypatch.setattr(build_module, "check", broken)
    monkeypatch.setattr(os, "dup2", lambda *arguments: None)
    code, _, err = book.run("--check")
    assert (code, err) == (2, "")
