"""The functions of a template. Each verifies on the spot, and says where in the template it was
used when something does not hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from derive import facts
from derive.book import blocks, tables
from derive.book.figures import Figure
from derive.book.formulas import proved
from derive.book.ledger import Ledger
from derive.book.marks import checked, from_line
from derive.book.problems import Problem
from derive.book.template import current_line
from derive.notation import tex
from derive.notation.errors import DeriveError, unknown

_Item = TypeVar("_Item")
DERIVED = "<sup>derived</sup>"
_CALLS = {"shown": "show", "claim": "claim", "require": "require", "given": "given"}


class Prose:
    """The names a template may use, writing what it prints into a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.chapter = ledger, ledger.chapter

    def names(self) -> dict[str, Any]:
        """Every name with its function, each adding the line and catching its mistakes."""
        functions: tuple[Callable[..., str], ...] = (
            self.show, self.claim, self.require, self.given, self.condition, self.ref,
            self.derivation, self.table, self.plot, self.cite, self.formula, self.math,
            self.overrides, self.errata, self.sources, self.notation,
        )  # fmt: skip
        found: dict[str, Any] = {f.__name__: self._located(f) for f in functions}
        found["derived"] = self.ledger.mark("derived", "derived", DERIVED, 0)
        return found

    def _located(self, function: Callable[..., str]) -> Callable[..., str]:
        signature = inspect.signature(function)
        # the line is not the author's to give
        allowed = signature.replace(parameters=list(signature.parameters.values())[:-1])

        def call(*given: Any, **named: Any) -> str:
            line = current_line()
            try:
                bound = allowed.bind(*given, **named)
            except TypeError as error:
                self._wrong(line, f"{function.__name__}: {error}")
                return ""
            try:
                wrong = [v for k, v in bound.arguments.items() if not isinstance(v, (str, bool))]
                if wrong:
                    raise DeriveError(f"expected text, found {type(wrong[0]).__name__}")
                return from_line(line) + function(*bound.args, **bound.kwargs, line=line)
            except DeriveError as error:
                self._wrong(line, str(error))
            return ""

        call.__name__ = function.__name__
        return call

    def _wrong(self, line: int, text: str) -> None:
        self.ledger.problems.append(Problem(self.ledger.path, line, text))

    # --- figures

    def show(self, name: str, unit: bool = True, *, line: int) -> str:
        """A shown figure by its rule, with its unit or without."""
        figure = self._figure(name, "shown")
        text, ending = figure.text(unit=unit)
        self.ledger.use("figure", name)
        self.ledger.words.setdefault(name, text)
        return self.ledger.mark("show", name, text, line, ending)

    def claim(self, name: str, words: str, *, line: int) -> str:
        """The author's words, where they are true of the figure."""
        return self.ledger.say(self._figure(name, "claim"), words, line)

    def require(self, name: str, words: str, *, line: int) -> str:
        """The author's words, where the relation holds."""
        return self.ledger.say(self._figure(name, "require"), words, line)

    def given(self, name: str, words: str, *, line: int) -> str:
        """The author's words for an input, where they equal it."""
        return self.ledger.say(self._figure(name, "given"), words, line)

    def _figure(self, name: str, kind: str) -> Figure:
        figure = _find("figure", name, self.chapter.figures)
        if figure.kind != kind:
            self.ledger.use("figure", name)
            raise DeriveError(
                f"{name} is declared as {figure.kind}: write {_CALLS[figure.kind]}(...), "
                f"not {_CALLS[kind]}(...)"
            )
        return figure

    # --- formulas and blocks

    def condition(self, name: str, reading: str, *, line: int) -> str:
        """A numbered condition: its anchor, formula and reading."""
        found = _find("condition", name, self.chapter.conditions)
        if ("condition", name) in self.ledger.used:
            raise DeriveError(f"condition {name} is printed twice; refer to it by ref({name!r})")
        self.ledger.use("condition", name)
        return blocks.condition(found, reading, self.ledger, line)

    def ref(self, name: str, *, line: int) -> str:
        """A link to a condition by its number."""
        found = _find("condition", name, self.chapter.conditions)
        text = f"[{found.number}](#{found.anchor})"
        return self.ledger.mark("ref", name, text, line)

    def derivation(self, name: str, *, line: int) -> str:
        """The steps of a derivation, each proved before it is printed."""
        found = _find("derivation", name, self.chapter.derivations)
        self.ledger.use("derivation", name)
        proved(found)
        return self.ledger.mark("derivation", name, blocks.derivation(found), line)

    def table(self, name: str, *, line: int) -> str:
        """A declared table; its numbers are figures, its texts are prose."""
        found = _find("table", name, self.chapter.tables)
        self.ledger.use("table", name)

        def number(row: int, column: int, text: str, ending: str) -> str:
            place = f"{name} row {row} column {column}"
            return self.ledger.mark("cell", place, text, line, ending)

        return self.ledger.mark("table", name, tables.markdown(found, number), line)

    def plot(self, name: str, *, line: int) -> str:
        """A declared plot as an image."""
        found = _find("plot", name, self.chapter.plots)
        self.ledger.use("plot", name)
        return self.ledger.mark("plot", name, f"![{found.alt}]({name}.svg)", line)

    def formula(self, name: str, *, line: int) -> str:
        """Inline math of a declared formula."""
        found = _find("formula", name, self.chapter.formulas)
        self.ledger.use("formula", name)
        return self.ledger.mark("formula", name, tex.inline(found.latex), line)

    def math(self, name: str, *, line: int) -> str:
        """The same as `formula`."""
        return self.formula(name, line=line)

    def cite(self, key: str, where: str = "", *, line: int) -> str:
        """A citation: a link to the list of sources, with a place in the source."""
        facts.source(key)
        self.ledger.cited.setdefault(key)
        place = f", {checked(where)}" if where else ""
        return self.ledger.mark("cite", key, f"[[{key}](#{blocks.anchor(key)}){place}]", line)

    # --- closing blocks

    def overrides(self, *, line: int) -> str:
        """What the chapter overrides of its profile."""
        self.ledger.use("block", "overrides")
        return self.ledger.mark("block", "overrides", blocks.overrides(self.ledger), line)

    def errata(self, *, line: int) -> str:
        """What documents print otherwise."""
        self.ledger.use("block", "errata")
        return self.ledger.mark("block", "errata", blocks.late("errata"), line)

    def sources(self, *, line: int) -> str:
        """The sources that are cited."""
        self.ledger.use("block", "sources")
        return self.ledger.mark("block", "sources", blocks.late("sources"), line)

    def notation(self, *, line: int) -> str:
        """The symbols that the chapter's formulas show."""
        self.ledger.use("block", "notation")
        return self.ledger.mark("block", "notation", blocks.late("notation"), line)


def _find(kind: str, name: str, known: Mapping[str, _Item]) -> _Item:
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]
