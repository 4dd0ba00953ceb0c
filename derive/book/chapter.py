"""The numbers of a chapter, collected under names as `figures.py` declares them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from traceback import walk_stack
from typing import Any

from derive import facts
from derive.book import tables
from derive.book.blocks import Erratum, Formula, steps_of
from derive.book.cards import MeshDrawing
from derive.book.claims import CLAIM_RULES, holds
from derive.book.figures import Figure, compared, quantity_of
from derive.book.lint import NOTHING, typed_numbers
from derive.book.marks import checked
from derive.book.plots import Bars, Drawable, Plot
from derive.book.tables import Cell, NumberCell, Table
from derive.notation.errors import (
    DeriveError,
    NotClosedForm,
    guarded,
    lookup,
    quoted,
    unknown,
    written,
)
from derive.notation.printed import Rounding, integer
from derive.notation.quantity import Quantity
from derive.notation.tex import latex_of
from derive.solve import smt
from derive.solve.derivation import Step
from derive.solve.optimum import Optimum
from derive.solve.threshold import Threshold

_NAME = re.compile(r"[A-Za-z0-9]+(?:[-.][A-Za-z0-9]+)*")
PACKAGE = "derive_chapter_"  # the modules of a chapter, by its number


@dataclass(frozen=True)
class Picture:
    """A plot under a name, with the text that stands for it."""

    name: str
    plot: Drawable
    alt: Cell

    @property
    def labels(self) -> tuple[Cell, ...]:
        """The text that stands for the plot, and every label that is drawn."""
        return (self.alt, *self.plot.labels)

    @property
    def figures(self) -> Iterator[Figure]:
        """The numbers in its labels, each as a figure: "ratio-v5p label 2"."""
        numbers = (
            (part, label)
            for label in self.labels
            for part in tables.pieces(label)
            if isinstance(part, NumberCell)
        )
        for k, (part, label) in enumerate(numbers, 1):
            yield part.figure(f"{self.name} label {k}", (tables.words(label),))


@guarded
class Chapter:
    """Everything a chapter's template may print, in the order of declaration.

    `names` are more whose digits are no figures: ZeRO-3, 1F1B; what the catalogue calls its chips,
    models and precisions, "TPU v5p" or "fp8", are such names already, in any case. `files` are TOML
    files of facts and sources of the chapter's own, by their paths from figures.py. All methods
    raise DeriveError for a name that is malformed or taken, and for a value that cannot be used.
    """

    def __init__(
        self,
        number: str,
        title: str,
        *,
        profile: str = facts.DEFAULT_PROFILE,
        names: Iterable[str] = (),
        files: Iterable[str | PathLike[str]] | str = (),
    ) -> None:
        if not isinstance(number, str) or not re.fullmatch(r"[0-9]{2}", number):
            told = 'a chapter\'s number is two digits in quotes, such as "04"'
            raise DeriveError(f"{told}, found {written(number)}")
        listed = (files,) if isinstance(files, str) else tuple(files)
        self.catalogue = facts.with_files(None, [_folder() / file for file in listed])
        lookup("profile", profile, self.catalogue.profiles)
        self.number, self.title, self.profile = number, checked(title), profile
        self.names = (*_names(names), title, *self.catalogue.names)
        self.chips: list[facts.Chip] = []
        self.figures: dict[str, Figure] = {}
        self.conditions: dict[str, Formula] = {}
        self.derivations: dict[str, tuple[Step, ...]] = {}
        self.formulas: dict[str, Formula] = {}
        self.tables: dict[str, Table] = {}
        self.plots: dict[str, Picture] = {}
        self.errata: list[Erratum] = []

    @property
    def numbers(self) -> dict[str, Figure]:
        """Every number under its name: the figures, those of the tables, those in plots' labels."""
        cells = (figure for table in self.tables.values() for figure in tables.figures(table))
        labels = (figure for picture in self.plots.values() for figure in picture.figures)
        return {**self.figures, **{figure.name: figure for figure in (*cells, *labels)}}

    def chip(self, name: str, override: Mapping[str, str | Quantity] | None = None) -> facts.Chip:
        """The chip under the profile. `override` maps a fact to the key of another reading
        or to a quantity: {"memory": "D-v5p"}; `overrides()` prints what it changes."""
        chip = facts.chip(name, profile=self.profile, override=override, catalogue=self.catalogue)
        self.chips.append(chip)
        return chip

    def model(self, name: str) -> facts.Model:
        """The model of that name."""
        return facts.model(name, catalogue=self.catalogue)

    def shown(
        self,
        name: str,
        quantity: object,
        rule: Rounding | None = None,
        *,
        unit: str | None = None,
        cite: Iterable[str] = (),
    ) -> Quantity:
        """A number that is regenerated, and its quantity; printed whole unless a rule says else.

        `unit` are words in place of the quantity's own unit.
        """
        rule = integer() if rule is None else rule
        if not isinstance(rule, Rounding):
            raise DeriveError(f"{name}: expected a rule such as integer(), found {quoted(rule)}")
        value = quantity_of(quantity, name)
        figure = Figure(name, "shown", value, rule, unit=unit, cite=self._cited(cite))
        figure.text()
        self._add(self.figures, "figure", name, figure)
        return value

    def claim(
        self, name: str, quantity: object, rule: str = "round", cite: Iterable[str] = ()
    ) -> Quantity:
        """A number that the author words, and its quantity; `rule` says when the words are true."""
        if rule not in CLAIM_RULES:
            raise unknown("claim rule", str(rule), CLAIM_RULES)
        value = quantity_of(quantity, name)
        figure = Figure(name, "claim", value, check=rule, cite=self._cited(cite))
        self._add(self.figures, "figure", name, figure)
        return value

    def require(
        self,
        name: str,
        left: object = None,
        relation: str = "",
        right: object = None,
        *,
        holds: bool | None = None,
        because: str = "",
        quantity: object = None,
        cite: Iterable[str] = (),
    ) -> None:
        """A relation that must hold for the words of the template to be true.

        Either left, relation and right, or `holds` with a text that says why (`because`).
        """
        keys = self._cited(cite)
        if holds is not None:
            if left is not None or not because or holds not in (True, False):
                raise DeriveError(f"{name}: holds= takes True or False, and because= with it")
            value = None if quantity is None else quantity_of(quantity, name)
            figure = Figure(
                name, "require", value, stated=bool(holds), because=checked(because), cite=keys
            )
        elif left is None or right is None:
            raise DeriveError(f"{name}: expected left, relation, right, or holds= and because=")
        else:
            sides = compared(name, left, relation, right)
            figure = Figure(name, "require", sides.left, relation=sides, cite=keys)
        self._add(self.figures, "figure", name, figure)

    def given(self, name: str, quantity: object, cite: Iterable[str] = ()) -> Quantity:
        """An input that the author states, and its quantity; the template's words must equal it."""
        value = quantity_of(quantity, name)
        self._add(
            self.figures, "figure", name, Figure(name, "given", value, cite=self._cited(cite))
        )
        return value

    def holds(self, *statements: tuple[str, bool, str]) -> None:
        """Several requirements at once: (name, whether it holds, why)."""
        for name, statement, because in statements:
            self.require(name, holds=statement, because=because)

    def condition(self, name: str, relation: object, label: str | None = None) -> None:
        """A condition, numbered in order of declaration: a threshold, a relation or several. That a
        threshold or an optimum is right is stated in `<name>.smt2`, which z3 decides."""
        number = f"{int(self.number)}.{len(self.conditions) + 1}"
        stated = ("", "")
        if isinstance(relation, (Threshold, Optimum)):
            claims = relation.relations
            with suppress(NotClosedForm):  # what no solver can be asked is no less a condition
                stated = (smt.statement(relation.check, claims), f"Proved {smt.of_all(claims)}.")
        formula = Formula(name, latex_of(relation), number, checked(label or ""), *stated)
        self._add(self.conditions, "condition", name, formula)

    def formula(self, name: str, expr: object) -> None:
        """Inline math: an expression, a relation, a threshold or an optimum."""
        self._add(self.formulas, "formula", name, Formula(name, latex_of(expr)))

    def derivation(self, name: str, steps: Sequence[Step]) -> None:
        """The steps of a derivation, proved each time they are printed."""
        self._add(self.derivations, "derivation", name, steps_of(steps))

    def table(
        self,
        name: str,
        header: Sequence[Cell] | str,
        rows: Sequence[Sequence[Cell]],
        align: str | None = None,
    ) -> None:
        """A table of text, `cell(quantity, rule)` and `math(expr)`; a header may
        be one text, its titles divided by bars: "One | Two"."""
        titles = [t.strip() for t in header.split("|")] if isinstance(header, str) else header
        self._add(self.tables, "table", name, tables.table(name, titles, rows, align))

    def plot(self, name: str, plot: Drawable, alt: Cell) -> None:
        """A plot, bars or a mesh, drawn to `<name>.svg`; `alt` is the text that stands for it.

        Its digits, like those of the labels, are printed by `cell` or in one of the `names`.
        """
        text = tables.text_of(alt)
        known = isinstance(plot, (Plot, Bars, MeshDrawing))
        if not known or not text.strip() or "\n" in text or "]" in text:
            raise DeriveError(
                f"plot {written(name)}: expected a Plot, Bars or a MeshDrawing, and one line of "
                "alt text without ]"
            )
        checked(text)
        picture = Picture(name, plot, alt)
        for label in picture.labels:
            for _, typed in typed_numbers(tables.text_of(label, lambda _: NOTHING), self.names):
                told = f"the number {quoted(typed)} is typed in {quoted(tables.words(label))}"
                raise DeriveError(f"plot {name}: {told}: print it by cell, or declare it as a name")
        self._add(self.plots, "plot", name, picture)

    def erratum(self, figure: str, printed: str, reason: str, place: str) -> None:
        """A number that a document gets wrong; raises DeriveError where it is right after all."""
        if _agrees(lookup("figure", figure, self.figures), printed):
            raise DeriveError(f"erratum of {figure}: {quoted(printed)} agrees with the figure")
        texts = (checked(text) for text in (printed, reason, place))
        self.errata.append(Erratum(figure, *texts))

    def _cited(self, keys: Iterable[str]) -> tuple[str, ...]:
        listed = (keys,) if isinstance(keys, str) else tuple(keys)
        for key in listed:
            facts.source(key, self.catalogue)
        return listed

    def _add(self, where: dict[str, Any], kind: str, name: str, declared: object) -> None:
        if not _NAME.fullmatch(name) or len(name) > 100 or name.split(".")[0] == "DRAFT":
            raise DeriveError(f"a {kind}'s name is words joined by dashes, found {quoted(name)}")
        if name in where:
            raise DeriveError(f"{kind} {name} is declared already")
        where[name] = declared


def _folder() -> Path:
    """The folder of the figures.py that is being run; that of the process outside of one."""
    for frame, _ in walk_stack(None):
        if str(frame.f_globals.get("__package__")).startswith(PACKAGE):
            return Path(frame.f_code.co_filename).parent
    return Path()


def _agrees(figure: Figure, printed: str) -> bool:
    if figure.quantity is None or figure.kind == "require":
        return False
    try:
        return holds(figure.check or "round", printed, figure.quantity.value)
    except DeriveError:
        return False  # words without a number are compared by the reader


def _names(names: Iterable[str]) -> tuple[str, ...]:
    listed = tuple(dict.fromkeys((names,) if isinstance(names, str) else names))
    for name in listed:
        if not re.search(r"[^\W\d_]", name) or name != name.strip():
            raise DeriveError(f"a name whose digits are no figure has letters: {quoted(name)}")
    return listed
