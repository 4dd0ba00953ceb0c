"""The functions of a template, and what they write down while one is rendered.

Each verifies on the spot, and says where in the template it was used when something does not hold.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from derive import facts
from derive.book import blocks, tables
from derive.book.blocks import Formula
from derive.book.chapter import Chapter
from derive.book.figures import Figure, Kind
from derive.book.folders import OUTPUT, Folder, Shelf
from derive.book.marks import Mark, checked, from_line, marked
from derive.book.problems import BookError, Problem
from derive.book.template import current_line
from derive.notation import tex
from derive.notation.errors import DeriveError, lookup, quoted, written

_Item = TypeVar("_Item")
DERIVED = "<sup>derived</sup>"
LATE = "\ue004"
HOLE = "hole"  # the kind of mark of what could not be printed; its name says why
_CALLS = {"shown": "show", "claim": "claim", "require": "require", "given": "given"}


@dataclass
class Ledger:
    """The notes of one rendering of `chapter` from the template at `path`: `used` is what declared
    things it prints, each by kind and name, `asked` the answers to its questions by name."""

    chapter: Chapter
    path: str
    shelf: Shelf
    marks: list[Mark] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    used: set[tuple[str, str]] = field(default_factory=set)
    words: dict[str, str] = field(default_factory=dict)
    holding: dict[str, bool] = field(default_factory=dict)
    cited: dict[str, None] = field(default_factory=dict)
    conditions: list[Formula] = field(default_factory=list)
    asked: dict[str, Figure] = field(default_factory=dict)
    line: int = 0  # of the template, where it calls what is running

    def mark(self, kind: str, name: str, text: str, ending: str = "", **more: Any) -> str:
        """`text` with the mark of what printed it."""
        self.marks.append(Mark(kind, name, self.line, ending, **more))
        return marked(len(self.marks) - 1, text)

    def number(self, figure: Figure, *, unit: bool = True) -> str:
        """A number by its rule, noted, with its mark."""
        text, ending = figure.text(unit=unit)
        self.words.setdefault(figure.name, text)
        kind = ("show", "label", "cell")[len(figure.place)]
        return self.mark(kind, figure.name, text, ending, place=figure.place)

    def say(self, figure: Figure, words: str) -> str:
        """Check the author's words for a figure, note them, and give them back with their mark.

        Words that do not hold are a problem, and are printed all the same, so that one run finds
        all of them.
        """
        checked(words.replace("\n", " "))  # a line may end within them
        self.used.add(("figure", figure.name))
        self.words.setdefault(figure.name, words)
        if (noun := figure.clash(words)) and figure.quantity:
            counted = figure.quantity.unit.words() or "nothing, it is a pure number"
            raise DeriveError(f"{figure.name} counts {counted}; {quoted(words)} counts {noun}")
        true = figure.holds(words)
        self.holding[figure.name] = self.holding.get(figure.name, True) and true
        if not true:
            self.problems.append(self._broken(figure, words))
        return self.mark(figure.kind, figure.name, words, holds=true)

    def _broken(self, figure: Figure, words: str) -> Problem:
        derived = figure.restated(words)
        if figure.kind == "require":
            why = f": {figure.because}" if figure.because else f", it is {derived}"
            text = f"{figure.name} does not hold{why}; the template says {quoted(words)}"
        else:
            number = figure.quantity
            value = "" if number is None else number.printed()
            rule = f" by rule {figure.check}" if figure.check else ""
            text = (
                f"{figure.name} is {value}, so {quoted(words)} does not hold{rule}; "
                f"it would be {quoted(derived)}"
            )
        return Problem(self.path, self.line, text, figure.name, words, derived)


class Prose:
    """The names a template may use, writing what it prints into a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.chapter = ledger, ledger.chapter

    def names(self) -> dict[str, Any]:
        """Every name with its function, each adding the line and catching its mistakes."""
        names: dict[str, Any] = {
            f.__name__: self._located(getattr(self, f.__name__)) for f in FUNCTIONS
        }
        names["derived"] = self.ledger.mark("derived", "derived", DERIVED)
        return names

    def completed(self, raw: str) -> str:
        """The rendering with the blocks that depend on all of it; sources come last, since others
        may cite."""
        chapter, ledger = self.chapter, self.ledger
        late: dict[str, Callable[[], str]] = {
            "errata": lambda: blocks.errata(chapter.errata, chapter.figures, ledger.words),
            "notation": lambda: blocks.notation(raw),
            "sources": lambda: blocks.sources(
                {*ledger.cited, *(key for f in chapter.figures.values() for key in f.cite)},
                chapter.catalogue,
            ),
        }
        for name, block in late.items():
            if (mark := _late(name)) in raw:
                raw = raw.replace(mark, block())
        return raw

    def _located(self, function: Callable[..., str]) -> Callable[..., str]:
        allowed = inspect.signature(function)

        def call(*given: Any, **named: Any) -> str:
            self.ledger.line = line = current_line()
            try:
                try:
                    bound = allowed.bind(*given, **named)
                except TypeError as error:
                    raise DeriveError(f"{function.__name__}: {error}") from None
                for name, value in bound.arguments.items():
                    kind = allowed.parameters[name].annotation  # "str" or "bool"
                    if type(value).__name__ != kind:
                        expected = "text" if kind == "str" else "true or false"
                        text = f"{function.__name__}: expected {expected} as {name}"
                        raise DeriveError(f"{text}, found {written(value)}")
                return from_line(line) + function(*bound.args, **bound.kwargs)
            except DeriveError as error:
                self.ledger.problems.append(Problem(self.ledger.path, line, str(error)))
                return self.ledger.mark(HOLE, str(error), "")

        call.__name__ = function.__name__
        return call

    # --- figures

    def show(self, name: str, unit: bool = True) -> str:
        """A shown figure by its rule, with its unit or without; of another chapter as "06.NAME"; or
        the answer to a question such as "ask fsdp B/X --chip tpu-v5p"."""
        return self.ledger.number(self._figure(name, "shown"), unit=unit)

    def claim(self, name: str, words: str) -> str:
        """The author's words, where they are true of the figure; of another chapter as "06.NAME";
        or of the answer to a question such as "value C/W --chip tpu-v5p"."""
        return self.ledger.say(self._figure(name, "claim"), words)

    def require(self, name: str, words: str) -> str:
        """The author's words, where the relation holds."""
        return self.ledger.say(self._figure(name, "require"), words)

    def given(self, name: str, words: str) -> str:
        """The author's words for an input, where they equal it."""
        return self.ledger.say(self._figure(name, "given"), words)

    def _figure(self, name: str, kind: Kind) -> Figure:
        """The figure of that name, or one for the answer to a question, to be printed as `kind`."""
        if " " in name.strip():
            return self._asked(name, kind)
        _, chapter, own = self._whose(name)
        figure = self._named("figure", name, own, chapter.figures)
        if chapter is not self.chapter:  # its number, in words of this chapter
            number = figure.quantity
            if number is not None and kind in ("shown", "claim"):
                rule, check = figure.rule or number.rounding(), figure.check or "round"
                return replace(figure, name=name, kind=kind, rule=rule, check=check)
            figure = replace(figure, name=name)
        self.ledger.used.add(("figure", figure.name))
        if figure.kind != kind:
            raise DeriveError(
                f"{name} is declared as {figure.kind}: write {_CALLS[figure.kind]}(...), "
                f"not {_CALLS[kind]}(...)"
            )
        return figure

    def _asked(self, question: str, kind: Kind) -> Figure:
        if kind not in ("shown", "claim"):
            raise DeriveError(f"a question is shown or claimed: {quoted(question)}")
        if self.ledger.shelf.answer is None:
            raise DeriveError(f"nothing here answers a question: {quoted(question)}")
        quantity = self.ledger.shelf.answer(question, self.chapter.catalogue)
        name = f"question {len(self.ledger.asked) + 1}"
        figure = Figure(name, kind, quantity, quantity.rounding(), "round")
        self.ledger.asked[name] = figure
        return figure

    def _whose(self, name: str) -> tuple[Folder | None, Chapter, str]:
        """The chapter that a name such as "06.mixed" is of, its folder where it is another one, and
        the name that it has there."""
        number, dot, own = name.partition(".")
        if not dot or not re.fullmatch(r"[0-9]{1,2}", number):
            return None, self.chapter, name
        if number.zfill(2) == self.chapter.number:
            return None, self.chapter, own
        folder, *_ = self.ledger.shelf.picked([number])
        try:
            return folder, self.ledger.shelf.chapter(folder), own
        except BookError:
            raise DeriveError(f"{name}: {folder.shown} has errors of its own") from None

    def _named(self, kind: str, name: str, own: str, known: Mapping[str, _Item]) -> _Item:
        """What is called `own` in its chapter, and `name` here."""
        before = name.removesuffix(own)
        here = {before + other: item for other, item in known.items()} if before else known
        return lookup(kind, name, here)

    # --- formulas and blocks

    def condition(self, name: str, reading: str) -> str:
        """A numbered condition: its anchor and formula, and its one-sentence reading, which is
        prose."""
        formula = lookup("condition", name, self.chapter.conditions)
        if ("condition", name) in self.ledger.used:
            raise DeriveError(f"condition {name} is printed twice; refer to it by ref({name!r})")
        self.ledger.used.add(("condition", name))
        late = [c for c in self.ledger.conditions if c.place > formula.place]
        self.ledger.conditions.append(formula)
        if late:
            told = f"({formula.number}) after ({late[0].number}); declare them in figures.py in the"
            raise DeriveError(f"condition {name} is printed as {told} order of the text")
        above, label = blocks.condition(formula)
        mark = self.ledger.mark("condition", name, above, place=(formula.number,))
        text = mark + f"{label} {reading.strip()}"
        if formula.statement:
            link = f"*[{formula.decided}]({formula.file})*"
            text += f" {self.ledger.mark('ref', name, link)}"
        return text

    def ref(self, name: str) -> str:
        """A link to a condition by its number; of another chapter as "06.NAME"."""
        folder, chapter, own = self._whose(name)
        formula = self._named("condition", name, own, chapter.conditions)
        path = "" if folder is None else f"../{folder.path.name}/{OUTPUT}"
        text = f"[{formula.number}]({path}#{formula.anchor})"
        return self.ledger.mark("ref", name, text)

    def derivation(self, name: str) -> str:
        """The steps of a derivation, each proved before it is printed."""
        steps = self._used("derivation", name, self.chapter.derivations)
        proved = self.chapter.conditions.get(name)
        if proved is not None and proved.latex != steps[-1].latex:
            told = f"derivation {name} ends in {steps[-1].text}, and condition {name} is another"
            raise DeriveError(told)
        return self.ledger.mark("derivation", name, blocks.derivation(name, steps))

    def table(self, name: str) -> str:
        """A declared table; its numbers are figures, its texts are prose."""
        table = self._used("table", name, self.chapter.tables)
        text = tables.markdown(table, self.ledger.number)
        return self.ledger.mark("table", name, text)

    def plot(self, name: str) -> str:
        """A declared plot as an image."""
        picture = self._used("plot", name, self.chapter.plots)
        numbers = iter([*map(self.ledger.number, picture.figures)])
        alt = tables.text_of(picture.alt, lambda _: next(numbers))
        return self.ledger.mark("plot", name, f"![{alt}]({name}.svg)")

    def formula(self, name: str) -> str:
        """Inline math of a declared formula."""
        formula = self._used("formula", name, self.chapter.formulas)
        return self.ledger.mark("formula", name, tex.inline(formula.latex))

    def cite(self, key: str, where: str = "") -> str:
        """A citation: a link to the list of sources, with a place in the source."""
        facts.source(key, self.chapter.catalogue)
        self.ledger.cited.setdefault(key)
        place = f", {checked(where)}" if where else ""
        return self.ledger.mark("cite", key, f"[[{key}](#{blocks.anchor(key)}){place}]")

    def _used(self, kind: str, name: str, known: Mapping[str, _Item]) -> _Item:
        item = lookup(kind, name, known)
        self.ledger.used.add((kind, name))
        return item

    # --- closing blocks

    def overrides(self) -> str:
        """What the chapter overrides of its profile."""
        chapter = self.chapter
        table = blocks.overrides(chapter.profile, chapter.chips, self.ledger.cited)
        return self._block("overrides", table)

    def errata(self) -> str:
        """What documents print otherwise."""
        return self._block("errata", _late("errata"))

    def sources(self) -> str:
        """The sources that are cited."""
        return self._block("sources", _late("sources"))

    def notation(self) -> str:
        """The symbols that the chapter's formulas show."""
        return self._block("notation", _late("notation"))

    def _block(self, name: str, text: str) -> str:
        if ("block", name) in self.ledger.used:
            raise DeriveError(f"{name}() is printed twice")
        self.ledger.used.add(("block", name))
        return self.ledger.mark("block", name, text)


# What a template can call.
FUNCTIONS: tuple[Callable[..., str], ...] = (
    Prose.show, Prose.claim, Prose.require, Prose.given, Prose.condition, Prose.ref,
    Prose.derivation, Prose.table, Prose.plot, Prose.formula, Prose.cite,
    Prose.notation, Prose.sources, Prose.overrides, Prose.errata,
)  # fmt: skip


def _late(name: str) -> str:
    """What stands for a block that depends on the whole chapter until `completed`."""
    return f"{LATE}{name}{LATE}"
