"""Checking: what drifted, where, and what repairs it; nothing is written."""

from __future__ import annotations

import subprocess
import sys

import pytest

FIGURES = """
alpha = evaluated(v.C / v.W, chapter.chip("tpu-v5p").bindings(), name="alpha")
chapter.shown("alpha-v5p", alpha, integer())
chapter.claim("limit", number({limit}), "round")
chapter.require("clears", number({limit}, token), "<", number(117, token))
chapter.table("t", ["Chip", "FLOP per byte"], [["v5p", cell(alpha, integer())]])
"""
TEMPLATE = """# A

On v5p it is << show("alpha-v5p") >> << derived >>.

It is << claim("limit", "about 113") >> and << require("clears", "just clears") >> << derived >>.

<< table("t") >>
"""


@pytest.fixture
def made(book):
    """A built chapter and its README."""
    book.built(TEMPLATE, FIGURES.format(limit=113))
    return book.folder() / "README.md"


def checked(book, *arguments):
    """The result of a check, which changes no file."""
    before = book.files()
    result = book.run("--check", *arguments)
    assert book.files() == before
    return result


def test_clean(book, made):
    assert checked(book) == (0, "", "06-mesh: up to date\n")


@pytest.mark.parametrize("drifts", [(), ("06",), ("10",), ("06", "10")])
def test_side_by_side_is_as_together(book, monkeypatch, drifts):
    for number, other in (("06", "10"), ("10", "06")):
        linked = f"# A\n\nSee [that](../{other}-mesh/README.md#a), not `{number}`.\n"
        declared = f'chapter = Chapter("{number}", "A")\n'
        book.write(linked, name=f"{number}-mesh", declared=declared)
    assert book.run()[0] == 0
    for number in drifts:
        readme = book.folder(f"{number}-mesh") / "README.md"
        readme.write_text(readme.read_text().replace("# A", "# B"))
    told = []
    for cores in ({0}, {0, 1}, {0, 1, 2, 3}):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: cores)
        told.append(checked(book))
    assert told == told[:1] * 3
    assert told[0][0] == bool(drifts)


def test_each_core_checks_its_share_once(book, monkeypatch):
    ran = book.root / "ran"
    log = f"import os\nwith open({str(ran)!r}, 'a') as log:\n    print(os.getpid(), file=log)\n"
    for number in ("06", "07", "10"):
        declared = f'chapter = Chapter("{number}", "A")\n'
        book.write("# A\n", log, name=f"{number}-mesh", declared=declared)
    assert book.run()[0] == 0
    for cores in (1, 2, 3):
        ran.unlink()
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: {*range(cores)})
        assert book.run("--check")[0] == 0
        processes = ran.read_text().split()
        assert len(processes) == 3 and len({*processes}) == cores


def test_a_drifted_figure(book, made):
    made.write_text(made.read_text().replace("is 2,550", "is 2,551"))
    code, out, err = checked(book)
    assert (code, err) == (1, "")
    assert out == (
        "chapters/06-mesh/README.md:5  alpha-v5p  printed 2,551  derived 2,550\n"
        "--- a/chapters/06-mesh/README.md\n"
        "+++ b/chapters/06-mesh/README.md\n"
        "@@ -2,7 +2,7 @@\n"
        " \n"
        " # A\n"
        " \n"
        "-On v5p it is 2,551\u00a0FLOP per byte <sup>derived</sup>.\n"
        "+On v5p it is 2,550\u00a0FLOP per byte <sup>derived</sup>.\n"
        " \n"
        " It is about 113 and just clears <sup>derived</sup>.\n"
        " \n"
        "run: python build.py\n"
    )


def test_the_command_repairs(book, made):
    good = made.read_bytes()
    made.write_text(made.read_text().replace("2,550", "9"))
    code, out, _ = checked(book, "06")
    assert code == 1
    assert out.endswith("run: python build.py 06\n")
    assert book.run("06")[0] == 0
    assert made.read_bytes() == good
    assert checked(book)[0] == 0


def test_a_drifted_cell_and_unit_and_words(book, made):
    text = made.read_text()
    made.write_text(
        text.replace("|         2,550 |", "|         2,551 |")
        .replace("2,550\u00a0FLOP per byte", "2.55\u00a0GB")
        .replace("about 113", "about 112")
    )
    _, out, _ = checked(book)
    assert [line for line in out.splitlines() if "  printed " in line] == [
        "chapters/06-mesh/README.md:5  alpha-v5p  printed 2.55\u00a0GB  "
        "derived 2,550\u00a0FLOP per byte",
        "chapters/06-mesh/README.md:7  limit  printed about 112  derived about 113",
        "chapters/06-mesh/README.md:11  t row 1 column 2 (v5p, FLOP per byte)  "
        "printed 2,551  derived 2,550",
    ]


def test_a_figure_that_drifted_in_changed_prose(book, made):
    text = made.read_text().replace("On v5p it is 2,550", "New.\n\nOn a v5p chip it is 2,551")
    made.write_text(text)
    _, out, _ = checked(book)
    assert "README.md:7  alpha-v5p  printed 2,551  derived 2,550\n" in out


def test_a_wider_number_moves_the_column_of_a_table(book, made):
    made.write_text(made.read_text().replace("|         2,550 |", "| 1,000,002,550 |"))
    _, out, _ = checked(book)
    line = "README.md:11  t row 1 column 2 (v5p, FLOP per byte)  printed 1,000,002,550"
    assert f"{line}  derived 2,550\n" in out


def test_hand_edited_prose_is_drift_without_a_figure(book, made):
    made.write_text(made.read_text().replace("# A", "# B"))
    code, out, _ = checked(book)
    assert code == 1
    assert "printed" not in out and "-# B\n+# A\n" in out


def test_claims_that_no_longer_hold_are_drift(book, made):
    book.write(TEMPLATE, FIGURES.format(limit=118))
    code, out, err = checked(book)
    assert (code, err) == (1, "")
    assert out == (
        "chapters/06-mesh/chapter.md.j2:5  limit  printed about 113  derived about 118\n"
        "chapters/06-mesh/chapter.md.j2:5  clears  printed just clears  "
        "derived 118\u00a0tokens >= 117\u00a0tokens\n"
        "edit chapters/06-mesh/chapter.md.j2, then run: python build.py\n"
    )
    code, out, err = book.run()
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "chapters/06-mesh/chapter.md.j2:5: limit is 118, so 'about 113' does not hold by rule "
        "round; it would be 'about 118'",
        "chapters/06-mesh/chapter.md.j2:5: clears does not hold, it is 118 tokens >= "
        "117 tokens; the template says 'just clears'",
    ]


def test_a_given_that_is_no_longer_equal_is_drift(book):
    book.write(
        '<< given("g", "28,672 chips") >> << derived >>\n',
        'chapter.given("g", number(28673, chip))',
    )
    code, out, err = checked(book)
    assert (code, err) == (1, "")
    assert out.startswith(
        "chapters/06-mesh/chapter.md.j2:1  g  printed 28,672 chips  derived 28,673 chips\n"
    )
    assert out.endswith("edit chapters/06-mesh/chapter.md.j2, then run: python build.py\n")
    assert book.run() == (
        2, "", "chapters/06-mesh/chapter.md.j2:1: g is 28,673 chips, so '28,672 chips' does not "
        "hold; it would be '28,673 chips'\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("template", "figures"),
    [
        ("# A\n\nIt has 3 chips.\n", ""),
        ("# A\n\nIt has << show('x') >> chips.\n", ""),
        ("# A\n\nIt has << claim('x', '3 slices') >>.\n", "chapter.claim('x', number(3, chip))"),
    ],
)
def test_an_error_is_mended_before_anything_is_built(book, made, template, figures):
    book.write(template, figures)
    code, out, err = checked(book)
    assert (code, out) == (2, "")
    first, last = err.splitlines()
    assert first.startswith("chapters/06-mesh/chapter.md.j2:3: ")
    assert last == "mend the error above, then run: python build.py --check"
    assert checked(book, "06")[2].endswith("run: python build.py --check 06\n")


def test_never_built(book):
    book.write("# A\n")
    code, out, _ = checked(book)
    assert code == 1
    assert out.startswith("chapters/06-mesh/README.md  is missing\n--- a/")
    assert out.endswith("+# A\nrun: python build.py\n")


def test_crlf_and_missing_final_newline(book, made):
    good = made.read_bytes()
    made.write_bytes(good.replace(b"\n", b"\r\n"))
    code, out, _ = checked(book)
    assert code == 1 and "README.md  has CRLF line ends\n" in out
    made.write_bytes(good.rstrip(b"\n"))
    code, out, _ = checked(book)
    assert code == 1 and "\\ No newline at end of file\n" in out


def test_binary_rubbish_in_the_readme(book, made):
    made.write_bytes(b"\xff\x00\xfe" * 50)
    code, out, _ = checked(book)
    assert code == 1 and out.endswith("run: python build.py\n")
    assert book.run()[0] == 0


def test_a_readme_that_shares_nothing_is_compared_quickly(book):
    from time import perf_counter

    lines = "".join(
        f'Line {chr(97 + n % 26)} << show("x") >> << derived >>.\n\n' for n in range(200)
    )
    book.write(lines.replace("Line", "word " * 40), 'chapter.shown("x", number(5), integer())')
    other = "".join(f"Other {'text ' * (n % 50)} {n}\n\n" for n in range(200))
    (book.folder() / "README.md").write_text(other)
    begin = perf_counter()
    code, _, _ = checked(book)
    assert code == 1
    assert perf_counter() - begin < 8


def test_every_chapter_is_checked_and_errors_outrank_drift(book, made):
    other = '\nchapter = Chapter("07", "B")\n'
    book.write("a 3\n", name="07-b", declared=other)
    made.write_text(made.read_text().replace("2,550\u00a0", "2,551\u00a0"))
    code, out, err = checked(book)
    assert code == 2
    assert "printed 2,551" in out and "run:" not in out
    assert err == (
        "chapters/07-b/chapter.md.j2:1: the number '3' is typed in prose: print it by show, "
        "claim or given, or declare it as a name\n"
        "mend the error above, then run: python build.py --check\n"
    )
    assert checked(book, "06")[0] == 1
    assert checked(book, "7")[0] == 2
    (book.folder("07-b") / "figures.py").write_text("1/0")
    code, out, err = checked(book)
    assert code == 2 and "printed 2,551" in out
    assert err.startswith("chapters/07-b/figures.py:1: ZeroDivisionError")


def test_one_stale_chapter_is_named_in_the_command(book, made):
    book.write("b\n", name="07-b", declared='\nchapter = Chapter("07", "B")\n')
    assert checked(book)[1].endswith("run: python build.py 07\n")


@pytest.mark.parametrize("flag", [(), ("--check",)])
def test_unknown_chapters_and_options(book, made, flag):
    code, out, err = book.run(*flag, "9")
    assert (code, out) == (2, "")
    assert err == "derive: unknown chapter '9'; known: 06-mesh\n"
    code, out, err = book.run(*flag, "--chek")
    assert (code, out) == (2, "")
    assert err.startswith("derive: unknown option '--chek'; did you mean --check")


def test_no_chapters(book):
    assert book.run() == (2, "", "derive: no chapters: expected folders such as chapters/06-name\n")
    (book.root / "chapters").rmdir()
    code, out, err = book.run()
    assert (code, out) == (2, "") and err.startswith("derive: no folder of chapters at")


def test_chapters_by_number_or_folder(book, made):
    for name in ("06", "6", "06-mesh", "chapters/06-mesh/"):
        assert book.run(name) == (0, "06-mesh: unchanged\n", "")


def test_help(book):
    code, out, err = book.run("--help")
    assert (code, err) == (0, "") and out.startswith("usage: derive build")


def test_the_module_is_no_command():
    """A CI step that runs it would be green for ever."""
    done = subprocess.run(
        [sys.executable, "-m", "derive.book.build", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stderr == "run: derive build, or python build.py\n"


def test_an_emptied_chapter_has_a_line_of_its_own(book, made):
    made.write_text("")
    assert checked(book)[1].startswith("chapters/06-mesh/README.md  has other text than a build")
    code, out, _ = checked(book, "--format", "github")
    assert code == 1 and out.startswith("::error file=chapters/06-mesh/README.md,title=drift::")
