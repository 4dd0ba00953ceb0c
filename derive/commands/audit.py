"""`derive audit`: the figures of any text against what the comments behind them ask."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import sympy as sp

from derive.book import report
from derive.book.audit import Place, bare, places
from derive.book.build import render
from derive.book.claims import clash, holds, restated
from derive.book.literals import literal
from derive.book.problems import Problem
from derive.commands import output, value
from derive.commands.causes import likeliest
from derive.commands.formats import Document, told
from derive.commands.inputs import path_of
from derive.commands.parser import FORMATS, as_typed, parser
from derive.commands.shelf import shelf_of
from derive.facts import Catalogue, with_files
from derive.notation.digits import fraction
from derive.notation.errors import DeriveError, plain, quoted, unknown
from derive.notation.quantity import Quantity
from derive.notation.read import expression

DONE, ERRATA, ERROR = 0, 1, 2
LARGEST = 100_000_000  # bytes of a text
MATCH, ERRATUM, UNSAID, WRONG = "match", "erratum", "cannot say", "error"
_LENGTHS = {"minute": 60, "hour": 3600, "day": 86400, "week": 604800, "year": 31557600}
_SECONDS = {form: Fraction(size) for word, size in _LENGTHS.items() for form in (word, f"{word}s")}
Answer = Callable[[str], Quantity]


@dataclass(frozen=True)
class Verdict:
    """What is said of a figure: of an `erratum` what the words would have to be and what makes them
    hold; of what there is nothing to compare with ("cannot say"), or to compare ("error"), why."""

    file: str
    line: int | None
    column: int | None
    printed: str | None
    question: str | None
    state: str
    derived: str | None = None
    value: int | float | None = None
    unit: str | None = None
    cause: str | None = None
    reason: str | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        if self.state == WRONG:
            return f"{place}: {self.reason}"
        derived = f"derived {self.derived}" if self.derived else f"cannot say: {self.reason}"
        line = f"{place}  printed {self.printed}  {derived}  {self.question}"
        return f"{line}  ({self.cause})" if self.cause else line


def run(options: Namespace) -> tuple[Any, str, int]:
    """The verdicts on all figures as data and in the format that was asked for, and the exit code:
    1 for errata, 2 for errors and for what cannot be said. In text these go to standard error."""
    form = options.format or FORMATS[0]
    answer, verdicts, unasked = answers(options), list[Verdict](), 0
    for name in options.file:
        try:
            text = text_of(name)
        except DeriveError as error:
            verdicts.append(Verdict(name, None, None, None, None, WRONG, reason=str(error)))
            continue
        verdicts += [judged(name, place, answer) for place in places(text)]
        unasked += bare(text) if options.bare else 0
    count = {s: [x.state for x in verdicts].count(s) for s in (MATCH, ERRATUM, UNSAID, WRONG)}
    code = ERROR if count[UNSAID] or count[WRONG] else ERRATA if count[ERRATUM] else DONE
    data = {
        "clean": code == DONE,
        "figures": [asdict(verdict) for verdict in verdicts],
        "matched": count[MATCH],
        "errata": count[ERRATUM],
        "cannot_say": count[UNSAID],
        "errors": count[WRONG],
        "bare": unasked if options.bare else None,
    }
    if form != FORMATS[0]:
        return data, told(form, [*_documents(verdicts)]), code
    for verdict in verdicts:
        if verdict.state in (UNSAID, WRONG):
            output.complain(str(verdict))
    lines = [str(verdict) for verdict in verdicts if verdict.state == ERRATUM]
    counts = f"{count[MATCH]} matched, {count[ERRATUM]} errata, {count[UNSAID]} cannot say"
    counts += f", {count[WRONG]} errors" if count[WRONG] else ""
    counts += f", {unasked} without a comment" if options.bare else ""
    return data, plain("\n".join([*lines, counts])), code


def text_of(name: str) -> str:
    """The text of a file with plain line ends; raises DeriveError where there is none in UTF-8."""
    path = path_of(name, "FILE")
    try:
        if not path.is_file():
            raise DeriveError(f"expected a text, found {'a folder' if path.is_dir() else 'none'}")
        with path.open("rb") as opened:
            raw = opened.read(LARGEST + 1)
        if len(raw) > LARGEST:
            raise DeriveError(f"expected at most {LARGEST:,} bytes, found more")
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DeriveError(f"expected UTF-8, found another byte on line {line}") from None
    except OSError as error:
        raise DeriveError(f"cannot be read: {error.strerror}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def answers(options: Namespace) -> Answer:
    """What gives the number of a question under the options' `facts`, `profile` and `chapters`,
    each worked out once; it raises DeriveError as `value.answer`.

    Only the book that the options name is run: its figures.py is Python, and a comment is anyone's.
    """
    catalogue = with_files(None, [path_of(name, "--facts") for name in options.facts or ()])
    if options.profile is not None and options.profile not in catalogue.profiles:
        raise unknown("profile", options.profile, catalogue.profiles)
    figure = _figures(options)
    known: dict[str, Quantity | DeriveError] = {}

    def answer(question: str) -> Quantity:
        if question not in known:
            try:
                known[question] = _answered(question, options.profile, catalogue, figure)
            except DeriveError as error:
                known[question] = error
        if isinstance(found := known[question], DeriveError):
            raise found
        return found

    return answer


def _answered(
    question: str, profile: str | None, catalogue: Catalogue, figure: Callable[[str, str], Quantity]
) -> Quantity:
    words = value.words_of(question)
    if words[:1] == ["why"] and len(words) > 1 and not words[1].startswith(("plan.", "-")):
        match words[2:]:
            case []:
                return figure(words[1], "")
            case ["--chapters", folder]:
                return figure(words[1], folder)
        raise DeriveError(f"expected why CHAPTER.FIGURE, found {quoted(question)}")
    if profile is not None and "--profile" not in words:
        question = shlex.join([*words, "--profile", profile])
    return value.answer(question, catalogue)


def _figures(options: Namespace) -> Callable[[str, str], Quantity]:
    """What gives the quantity of a figure of the book; a chapter is rendered once."""
    shelf = cache(lambda: shelf_of(options))
    once = cache(render)

    def figure(name: str, folder: str) -> Quantity:
        if options.chapters is None:
            told = "the book is not run unless it is named: add --chapters FOLDER to derive audit"
            raise DeriveError(f"why {name}: {told}")
        if folder and shelf_of(Namespace(chapters=folder)).place != shelf().place:
            raise DeriveError(f"why {name}: expected --chapters {options.chapters}, found {folder}")
        if (quantity := report.named(shelf(), name, once)[1].quantity) is None:
            raise DeriveError(f"why {name}: it has no number")
        return quantity

    return figure


def judged(file: str, place: Place, answer: Answer) -> Verdict:
    """The verdict on a figure."""
    where = (file, place.line, place.column, place.printed or None, place.question or None)
    try:
        if place.error:
            raise DeriveError(place.error)
        value.words_of(place.question)
    except DeriveError as error:
        return Verdict(*where, WRONG, reason=str(error))
    try:
        quantity = answer(place.question)
    except DeriveError as error:
        return Verdict(*where, UNSAID, reason=as_typed(str(error)).replace("\n", "; "))
    written, unit = literal(place.printed), str(quantity.unit)
    scale = _SECONDS.get(written.rest.split(" ")[0].lower(), Fraction(1))
    if dict(quantity.unit.powers).get("second") != 1:
        scale = Fraction(1)
    noun = clash(written, quantity.unit) if scale == 1 and _has_unit(place.question) else ""
    if noun:
        counts = quantity.unit.words() or "nothing, it is a pure number"
        reason = f"the question counts {counts}, {quoted(place.printed)} counts {noun}"
        return Verdict(*where, UNSAID, None, quantity.plain, unit, reason=reason)

    def true(
        words: str, number: Quantity, factor: Fraction = Fraction(1), rule: str = place.rule
    ) -> bool:
        return holds(rule, words, fraction(number.value) / scale * factor)

    try:
        if true(place.printed, quantity):
            return Verdict(*where, MATCH, place.printed, quantity.plain, unit)
        derived = restated(place.rule, place.printed, fraction(quantity.value) / scale)
    except DeriveError as error:  # a number that the rule does not take
        return Verdict(*where, WRONG, reason=str(error))
    cause = likeliest(place, quantity, answer, true)
    return Verdict(*where, ERRATUM, derived, quantity.plain, unit, cause or None)


def _has_unit(question: str) -> bool:
    """Whether the unit of the answer is known: the 6 in 6*P*R may be of any."""
    words = value.words_of(question)
    if words[0] != "value":
        return True
    expr = expression(parser().parse_args(words).expression)
    sums = (node for node in sp.preorder_traversal(expr) if isinstance(node, (sp.Mul, sp.Add)))
    return not expr.is_number and not any(part.is_number for node in sums for part in node.args)


def _documents(verdicts: Sequence[Verdict]) -> Iterator[Document]:
    """What is wrong, by file; errors apart, since they keep no other figure from being judged."""
    for file in dict.fromkeys(verdict.file for verdict in verdicts):
        own = [verdict for verdict in verdicts if verdict.file == file]
        drifts = [_problem(verdict) for verdict in own if verdict.state == ERRATUM]
        figures = [_name(verdict) for verdict in own if verdict.state in (MATCH, ERRATUM)]
        yield Document(file, (), drifts, "", figures)
        if errors := [_problem(x) for x in own if x.state in (UNSAID, WRONG)]:
            yield Document(file, errors)


def _problem(verdict: Verdict) -> Problem:
    if verdict.state == ERRATUM:
        derived = f"{verdict.derived}  ({verdict.cause})" if verdict.cause else str(verdict.derived)
        return Problem(
            verdict.file, verdict.line or 0, "", _name(verdict), str(verdict.printed), derived
        )
    told = "cannot say: " if verdict.state == UNSAID else ""
    return Problem(verdict.file, verdict.line or 0, f"{told}{verdict.reason}")


def _name(verdict: Verdict) -> str:
    return f"{verdict.line}:{verdict.column} {verdict.question}"
