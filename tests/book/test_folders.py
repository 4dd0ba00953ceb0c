"""Which folders are chapters, how one is asked for, and chapters of several files of Python."""

from __future__ import annotations

import pytest

OTHER = '\nchapter = Chapter("07", "Other")\n'


@pytest.mark.parametrize("name", ["4-mesh", "04_mesh", "chapter-04", "004-mesh", "mesh"])
def test_a_misnamed_folder_is_an_error_and_the_others_are_checked(book, name):
    book.write("# A\n", name="07-other", declared=OTHER)
    book.write("# B\n", name=name)
    expected = (
        f"chapters/{name}: a chapter's folder is named by two digits, a dash and a name, "
        "such as 06-mesh\n"
    )
    assert book.run() == (2, "", expected)
    code, out, err = book.run("--check")
    assert code == 2 and out.startswith("chapters/07-other/README.md  is missing\n")
    assert expected in err
    assert book.run("07")[0] == 0
    assert book.run(name) == (2, "", expected)


def test_either_file_makes_a_chapter_and_other_folders_are_none(book):
    book.write("# A\n", name="07-other", declared=OTHER)
    for name, file in (("assets", "a.png"), (".cache", "x"), ("drafts", "README.md")):
        book.folder(name).mkdir()
        (book.folder(name) / file).write_text("")
    assert book.run()[0] == 0
    (book.folder("drafts") / "figures.py").write_text("")
    assert book.run()[2].startswith("chapters/drafts: a chapter's folder is named")
    (book.folder("drafts") / "figures.py").rename(book.folder("drafts") / "chapter.md.j2")
    assert book.run()[2].startswith("chapters/drafts: a chapter's folder is named")


def test_two_chapters_of_one_number_are_named_and_block_no_other(book):
    book.write("# A\n", name="06-a")
    book.write("# B\n", name="06-b")
    book.write("# C\n", name="07-other", declared=OTHER)
    expected = "".join(
        f"chapters/{name}: one number for 06-a and 06-b: give one of them another\n"
        for name in ("06-a", "06-b")
    )
    for arguments in ((), ("06",), ("06", "07")):
        assert book.run(*arguments) == (2, "", expected)
    assert book.run("07") == (0, "07-other: wrote README.md\n", "")
    assert expected in book.run("--check")[2]


@pytest.mark.parametrize(
    "typed",
    [
        "06", "6", "06-mesh", "chapters/06-mesh", "chapters/06-mesh/", "./chapters/06-mesh",
        "chapters/06-mesh/chapter.md.j2", "./chapters/06-mesh/figures.py",
        "{root}/chapters/06-mesh/figures.py", "chapters/07-other/../06-mesh/README.md",
        "chapters/06-mesh/data/rows.csv",
    ],
)  # fmt: skip
def test_a_chapter_is_asked_for_by_number_name_or_file(book, typed):
    book.write("# C\n", name="07-other", declared=OTHER)
    folder = book.write("# A\n")
    (folder / "data").mkdir()
    for name in ("data/rows.csv", "README.md"):
        (folder / name).write_text("")
    done = (0, "06-mesh: wrote README.md\n", "")
    assert book.run(typed.format(root=book.root)) == done


def test_a_file_is_found_from_the_folder_one_is_in(book, monkeypatch):
    folder = book.write("# A\n")
    monkeypatch.chdir(folder)
    assert book.run("figures.py") == (0, "06-mesh: wrote README.md\n", "")


@pytest.mark.parametrize(
    "typed", ["", "/", ".", "08", "chapters", "chapters/06-mesh/no.py", "chapters/08-x/a.py", "\0"]
)
def test_a_chapter_that_is_not_there(book, typed):
    book.write("# A\n")
    code, out, err = book.run(typed)
    assert (code, out) == (2, "")
    assert err.startswith("derive: unknown chapter ") and err.endswith("; known: 06-mesh\n")


def test_two_files_of_a_chapter_share_what_it_declares(book):
    folder = book.folder()
    folder.mkdir(parents=True)
    (folder / "more.py").write_text(
        "from derive.book import integer\n"
        "from derive.notation.quantity import number\n"
        "from . import figures\n"
        "from .figures import chapter\n"
        "assert figures.chapter is chapter\n"
        "chapter.shown('extra', number(12), integer())\n"
    )
    text = book.built(
        "Twelve is << show('extra') >><< derived >>, as << show('own') >> is.\n",
        "from . import more\nchapter.shown('own', number(12), integer())\n",
    )
    assert "Twelve is 12" in text


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({"a": "from .b import y\nx = 1\n", "b": "\nfrom .a import x\ny = 1\n"}, "b.py:2"),
        ({"a": "from . import b\nx = 1\n", "b": "from . import a\ny = a.x\n"}, "b.py:2"),
        ({"a": "from .figures import late\n"}, "a.py:1"),
        ({"a": "from . import figures\n\nfigures.late\n"}, "a.py:3"),
    ],
)
def test_a_circular_import_is_one_line(book, files, place):
    folder = book.folder()
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    error = book.refused("# A\n", "from . import a\nlate = 1\n")
    assert error == (
        f"chapters/06-mesh/{place}: circular import: "
        "no such name is declared before the import that leads here\n"
    )


def test_what_figures_print_does_not_disturb_the_output(book):
    book.write("# A\n", "print('looking at', 1)\n")
    assert book.run() == (0, "06-mesh: wrote README.md\n", "looking at 1\n")


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ("from derive import fsdpp", "unknown name of derive 'fsdpp'; did you mean fsdp"),
        ("from derive.book import Plots", "unknown name of derive.book 'Plots'; did you mean Plot"),
        ("t = threshold(strategies.fsdp, v.B / v.X)\nchapter.claim('t', t)", ".on(...) gives its"),
    ],
)
def test_what_an_author_mistypes_is_told_with_the_way_out(book, figures, told):
    error = book.refused("Prose.\n", figures)
    assert (
        told in error and "chapters/06-mesh/figures.py:" in error and "derive/__init__" not in error
    )
