"""What is wrong with documents, such as chapters, as people, scripts and CI systems read it: lines
of text, rows of JSON, annotations of GitHub's workflow commands, JUnit's XML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from derive.book.problems import Problem
from derive.notation.errors import plain

_OUTCOMES = {"drift": "failure", "error": "error"}  # as JUnit calls them
TEXT = "text"  # the test case that stands for all of a document that is no figure


@dataclass(frozen=True)
class Document:
    """What is wrong with a document that is called `name`: errors, and what drifted, with a diff.
    `figures` are the names of what was compared; where there are errors, nothing was."""

    name: str
    errors: Sequence[Problem] = ()
    drifts: Sequence[Problem] = ()
    diff: str = ""
    figures: Sequence[str] = ()

    def lines(self) -> list[tuple[Problem, str, str]]:
        """Each problem with what it is, a "drift" or an "error", and the line that tells it."""
        drifts = [(problem, "drift", problem.drift()) for problem in self.drifts]
        return drifts + [(problem, "error", str(problem)) for problem in self.errors]


def told(form: str, documents: Sequence[Document]) -> str:
    """What stands on standard output in a format; nothing for json, which is data.

    In text, errors are left out: they belong on standard error.
    """
    if form == "junit":
        return junit(documents)
    if form == "github":
        return github(documents)
    if form == "json":
        return ""
    drifts = [plain(problem.drift()) for one in documents for problem in one.drifts]
    return "\n".join([*drifts, *(one.diff.rstrip("\n") for one in documents if one.diff)])


def row(problem: Problem, *, drift: bool = False) -> dict[str, Any]:
    """A problem as JSON has it: what does not apply is null, as the line is of a file as a whole.
    A drift has its figure, and what is printed and derived, too."""
    told = problem.text or f"printed {problem.printed}  derived {problem.derived}"
    data = {"file": problem.path, "line": problem.line or None, "text": told}
    if drift or problem.is_drift:
        data |= {name: getattr(problem, name) or None for name in ("figure", "printed", "derived")}
    return data


def github(documents: Sequence[Document]) -> str:
    """Workflow commands of GitHub that annotate each drift and each error."""
    return "\n".join(
        _annotation(problem, problem.figure or kind, message)
        for one in documents
        for problem, kind, message in one.lines()
    )


def _annotation(problem: Problem, title: str, message: str) -> str:
    properties = {"file": problem.path, "line": str(problem.line or ""), "title": title}
    listed = ",".join(f"{key}={_escaped(x, ':,')}" for key, x in properties.items() if x)
    return f"::error {listed}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """The text on one line as workflow commands have it: `more` is what a property may not hold."""
    return plain(text.translate({ord(c): f"%{ord(c):02X}" for c in f"%\r\n{more}"}))


def junit(documents: Sequence[Document]) -> str:
    """JUnit's XML in ASCII: a suite for each document, a case for each figure, drift and error, and
    one for the text. What XML cannot hold is an escape, as on a terminal."""
    root = ElementTree.Element("testsuites", name="derive")
    root.extend(map(_suite, documents))
    ElementTree.indent(root)
    xml: bytes = ElementTree.tostring(root, "us-ascii", xml_declaration=True)
    return xml.decode()


def _suite(document: Document) -> ElementTree.Element:
    name, drifted = document.name, {problem.figure for problem in document.drifts}
    skipped = ("skipped", "not compared: there are errors") if document.errors else ()
    cases = [
        _case(name, figure, {}, *skipped) for figure in document.figures if figure not in drifted
    ]
    for problem, kind, message in document.lines():
        place = {"file": problem.path} | ({"line": str(problem.line)} if problem.line else {})
        called = problem.figure or ":".join(place.values())
        cases.append(_case(name, called, place, _OUTCOMES[kind], message))
    differs = ("failure", f"{name}  differs in its text", document.diff)
    cases.append(_case(name, TEXT, {}, *(differs if document.diff else skipped)))
    suite = ElementTree.Element("testsuite", name=plain(name), tests=str(len(cases)))
    suite.extend(cases)
    for count in ("failures", "errors", "skipped"):
        suite.set(count, str(len(suite.findall(f"*/{count.removesuffix('s')}"))))
    return suite


def _case(
    suite: str,
    name: str,
    place: dict[str, str],
    outcome: str = "",
    message: str = "",
    text: str = "",
) -> ElementTree.Element:
    attributes = {"classname": suite, "name": name, **place}
    case = ElementTree.Element("testcase", {key: plain(x) for key, x in attributes.items()})
    if outcome:
        ElementTree.SubElement(case, outcome, message=plain(message)).text = plain(text)
    return case
