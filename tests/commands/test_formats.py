"""What a check prints for people, scripts and CI systems: each is read back and says the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from derive.book.problems import Problem
from derive.commands.formats import Document, github, junit, told

FORMATS = ("text", "json", "github", "junit")
FIGURES = """
from derive.book import *
from derive.notation.quantity import number
from derive.notation.units import token

chapter = Chapter("{number}", "A chapter")
chapter.shown("batch", number(2550, token), integer())
chapter.claim("limit", number({limit}), "round")
chapter.table("sizes", ["Name", "Tokens"], [["one", cell(number(4096), integer())]])
"""
TEMPLATE = """# A

It is << show("batch") >> << derived >>, which is << claim("limit", "about 113") >> << derived >>.

<< table("sizes") >>
"""


def write(root: Path, name: str = "06-mesh", *, template: str = TEMPLATE, limit: int = 113) -> Path:
    folder = root / "chapters" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "chapter.md.j2").write_text(template)
    (folder / "figures.py").write_text(FIGURES.format(number=name[:2], limit=limit))
    return folder


def edited(old: str, new: str) -> Callable[[Path, Any], None]:
    def edit(root: Path, run: Any) -> None:
        readme = root / "chapters" / "06-mesh" / "README.md"
        text = readme.read_text()
        assert old in text
        readme.write_text(text.replace(old, new), newline="")

    return edit


def missing(root: Path, run: Any) -> None:
    (root / "chapters" / "06-mesh" / "README.md").unlink()


def one_of_two(root: Path, run: Any) -> None:
    write(root, "07-good")
    assert run("build", "07")[0] == 0
    write(root, template="It has 3 chips.\n\n<< show('none') >>\n")


def two_drifted(root: Path, run: Any) -> None:
    write(root, "07-good")
    assert run("build")[0] == 0
    for folder in (root / "chapters").iterdir():
        readme = folder / "README.md"
        readme.write_text(readme.read_text().replace("4,096", "4,097").replace("2,550", "2"))


def a_folder(root: Path, run: Any) -> None:
    write(root, "07-good")
    assert run("build", "07")[0] == 0
    missing(root, run)
    (root / "chapters" / "06-mesh" / "README.md").mkdir()


CASES: dict[str, tuple[int, Callable[[Path, Any], object]]] = {
    "clean": (0, lambda root, run: None),
    "drifted figure": (1, edited("2,550", "2,551")),
    "drifted cell": (1, edited("4,096", "4,095")),
    "false claim": (1, lambda root, run: write(root, limit=120)),
    "false claim of two lines": (
        1, lambda root, run: write(root, template=TEMPLATE.replace("t 113", "t\n  114")),
    ),
    "broken": (2, lambda root, run: write(root, template="<% if %>\n")),
    "no template": (2, lambda root, run: (root / "chapters/06-mesh/chapter.md.j2").unlink()),
    "missing README": (1, missing),
    "README is a folder, another chapter is not": (2, a_folder),
    "edited prose": (1, edited("# A", "# B")),
    "CRLF": (1, edited("\n", "\r\n")),
    "one broken of two": (2, one_of_two),
    "two drifted": (1, two_drifted),
    "percent, commas and colons": (1, edited("2,550", "::error file=a,line=1::50%0A,%")),
    "control characters": (1, edited("2,550", "\0\x1b[31m\r2\x85\u2028\u202e\ufffe")),
}  # fmt: skip


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any) -> Path:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("build")[0] == 0
    return tmp_path


@pytest.fixture(params=CASES, ids=CASES)
def case(request: pytest.FixtureRequest, book: Path, run: Any) -> int:
    """A book in some state, and the exit code of its check."""
    code, change = CASES[request.param]
    change(book, run)
    return code


def annotations(text: str) -> list[dict[str, str]]:
    """What GitHub's runner reads, as it reads it: https://github.com/actions/runner, ActionCommand.
    Each line has to be a command."""
    read = []
    for line in text.splitlines():
        match = re.fullmatch(r"::error ([^:]*)::(.*)", line)
        assert match, line
        properties = dict(pair.split("=", 1) for pair in match[1].split(","))
        for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ",")):
            properties = {key: x.replace(code, character) for key, x in properties.items()}
        message = match[2].replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
        properties = {key: x.replace("%25", "%") for key, x in properties.items()}
        read.append({**properties, "message": message})
    return read


def visible(text: str) -> str:
    """The text with what no format prints alike left out."""
    return re.sub(r"\\(x..|u....|r)|[\0\x1b\r\x85\u2028\u202e\ufffe]", "", text)


def test_each_format_says_the_same(case: int, run: Any) -> None:
    printed = {form: run("build", "--check", "--format", form) for form in FORMATS}
    assert {form: code for form, (code, _, _) in printed.items()} == dict.fromkeys(FORMATS, case)
    assert not any(err for form, (_, _, err) in printed.items() if form != "text")
    _, text, complaints = printed["text"]
    data = json.loads(printed["json"][1])
    noted = annotations(printed["github"][1])
    suites = ElementTree.fromstring(printed["junit"][1])
    drifts = [drift for chapter in data["chapters"] for drift in chapter["drifts"]]
    errors = [error for chapter in data["chapters"] for error in chapter["errors"]]

    assert data["clean"] == (case == 0) == (not drifts and not errors)
    assert bool(errors) == (case == 2)
    assert len(noted) == len(drifts) + len(errors)
    for problem, note in zip(
        [p for chapter in data["chapters"] for p in (*chapter["drifts"], *chapter["errors"])],
        noted, strict=True,
    ):  # fmt: skip
        assert note["file"] == problem["file"]
        assert note.get("line") == (problem["line"] and str(problem["line"]))
        kind = "drift" if "figure" in problem else "error"
        assert note["title"] == (problem.get("figure") or kind)
        assert visible(note["message"]) in visible(complaints if kind == "error" else text)
        told = (problem.get("printed"), problem.get("derived")) if problem.get("printed") else ()
        assert all(visible(word) in visible(note["message"]) for word in told or (problem["text"],))

    assert Counter(
        (visible(cause.get("message", "")), test.get("file"), test.get("line"))
        for test in suites.iter("testcase")
        for cause in (*test.findall("failure"), *test.findall("error"))
        if test.get("name") != "text"
    ) == Counter((visible(n["message"]), n["file"], n.get("line")) for n in noted)
    for suite, chapter in zip(suites, data["chapters"], strict=True):
        assert suite.get("name") == chapter["folder"]
        tests = {test.get("name"): test for test in suite}
        assert {test.get("classname") for test in suite} == {chapter["folder"]}
        differs = tests["text"].find("failure")
        assert (differs is None) == (chapter["diff"] == "")
        assert visible("" if differs is None else differs.text or "") == visible(chapter["diff"])
        if chapter["state"] == "clean":
            assert set(tests) == {"batch", "limit", "sizes row 1 column 2", "text"} and not [
                *suite.iter("failure")
            ]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> ElementTree.Element:
    """The file that pytest writes of a test that fails."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "test_a.py").write_text("def test_a():\n    assert not 1\n")
    command = [sys.executable, "-m", "pytest", "--junit-xml=own.xml", "test_a.py"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=alone, capture_output=True, timeout=60)
    assert done.returncode == 1
    return ElementTree.parse(folder / "own.xml").getroot()


def test_junit_counts_as_that_of_pytest_does(case: int, run: Any, own: Any) -> None:
    root = ElementTree.fromstring(run("build", "--check", "--format", "junit")[1])
    assert root.tag == own.tag
    for suite in root:
        assert suite.tag == own[0].tag
        assert set(suite.attrib) <= set(own[0].attrib)
        for test in suite:
            assert test.tag == own[0][0].tag
            assert set(test.attrib) - {"file", "line"} <= set(own[0][0].attrib)
        counts = {"tests": "testcase", "failures": "failure", "errors": "error"}
        counts["skipped"] = "skipped"
        for count, tag in counts.items():
            assert suite.get(count) == str(len([*suite.iter(tag)]))


def test_figures_of_a_chapter_with_errors_count_as_not_compared(book: Path, run: Any) -> None:
    write(book, template=TEMPLATE + "\nIt has 3 chips.\n")
    root = ElementTree.fromstring(run("build", "--check", "--format", "junit")[1])
    assert {t.get("name"): [c.tag for c in t] for t in root.iter("testcase")} == {
        "batch": ["skipped"], "limit": ["skipped"], "sizes row 1 column 2": ["skipped"],
        "text": ["skipped"],
        "chapters/06-mesh/chapter.md.j2:7": ["error"],
    }  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
def test_what_figures_print_stands_not_in_between(book: Path, run: Any, form: str) -> None:
    expected = run("build", "--check", "--format", form)
    figures = book / "chapters" / "06-mesh" / "figures.py"
    figures.write_text("print('::error::heard')\n" + figures.read_text())
    code, out, err = run("build", "--check", "--format", form)
    assert (code, out) == expected[:2]
    assert "heard" in err


def test_the_shape_of_the_data(case: int, run: Any) -> None:
    data = json.loads(run("build", "--check", "--json")[1])
    assert list(data) == ["clean", "chapters", "repair"]
    for chapter in data["chapters"]:
        assert list(chapter) == ["chapter", "folder", "state", "drifts", "errors", "diff"]
        for drift in chapter["drifts"]:
            assert set(drift) == {"file", "line", "figure", "printed", "derived", "text"}
        for error in chapter["errors"]:
            assert set(error) == {"file", "line", "text"} and error["text"]


def test_a_build_tells_what_it_wrote(book: Path, run: Any) -> None:
    write(book, "07-good")
    built = run("build", "--format", "json")
    assert (built[0], built[2]) == (0, "")
    assert json.loads(built[1]) == {"chapters/06-mesh": [], "chapters/07-good": ["README.md"]}
    assert run("build", "--format", "github") == (0, "", "")


def test_errors_of_a_build(book: Path, run: Any) -> None:
    write(book, limit=120)
    (code, out, err), (_, _, told) = run("build", "--json"), run("build")
    (error,) = json.loads(out)["errors"]
    assert (code, err) == (2, "")
    assert (error["figure"], error["printed"], error["derived"]) == (
        "limit", "about 113", "about 120",
    )  # fmt: skip
    assert told == f"{error['file']}:{error['line']}: {error['text']}\n"
    code, out, err = run("build", "--format", "github")
    assert (code, err) == (2, "")
    assert [note["message"] + "\n" for note in annotations(out)] == [told]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--format", "junit"), "add --check"),
        (("--check", "--format", "xml"), "unknown format 'xml'; known: github, json, junit, text"),
        (("--check", "--format", "json", "--json"), "not allowed with"),
        (("--format",), "expected one argument"),
    ],
)
def test_formats_that_cannot_be(book: Path, refused: Any, arguments: Any, part: str) -> None:
    assert part in refused("build", *arguments)


HOSTILE = ["%0A", "a\nb", "a\r\n::error::b", "x,line=9::y", "\0\x1b\x85\ud800\ufffe]]>", "<&\"'>"]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_whatever_names_and_texts_hold(text: str) -> None:
    drifts = [Problem(text, 3, "", text, text, text), Problem(text, 0, text)]
    documents = [Document(text, [Problem(text, 7, text)], drifts, f"-{text}\n", [text, "other"])]
    notes = annotations(github(documents))
    assert [note.get("line") for note in notes] == ["3", None, "7"]
    assert {visible(note["file"]) for note in notes} == {visible(text).replace("\ud800", "")}
    root = ElementTree.fromstring(junit(documents))
    assert [case.get("line") for case in root.iter("testcase")] == [None, "3", None, "7", None]
    assert told("text", documents).count("printed") == 1
