"""Tables as GitHub reads them, aligned by display width so that one number is a one-line diff."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from derive.book.figures import number_text, quantity_of
from derive.book.marks import plain
from derive.notation import tex
from derive.notation.errors import DeriveError, quoted
from derive.notation.printed import Rounding
from derive.notation.quantity import Quantity
from derive.notation.tex import latex_of


@dataclass(frozen=True)
class NumberCell:
    """A number in a cell, printed by its rule; `unit` as in a shown figure, "" by default."""

    quantity: Quantity
    rule: Rounding
    unit: str | None = ""


@dataclass(frozen=True)
class MathCell:
    """Inline math in a cell."""

    latex: str


Part: TypeAlias = str | NumberCell | MathCell
Cell: TypeAlias = Part | tuple[Part, ...]


@dataclass(frozen=True)
class Table:
    """A declared table: each row has a cell for each header, `align` a letter l, r or c."""

    name: str
    header: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    align: str


def cell(quantity: object, rule: Rounding, *, unit: str | bool = False) -> NumberCell:
    """A number for a table; `unit` True adds the words of its unit, a text adds itself.

    Raises DeriveError for what is no exact number or cannot be printed by the rule.
    """
    words = unit if isinstance(unit, str) else (None if unit else "")
    number = NumberCell(quantity_of(quantity, "cell"), rule, words)
    number_text(number.quantity, number.rule, number.unit)
    return number


def math(expr: object) -> MathCell:
    """Inline math for a table: TeX of an expression, a relation, a threshold or an optimum."""
    return MathCell(latex_of(expr))


def table(
    name: str, header: Sequence[Cell], rows: Sequence[Sequence[Cell]], align: str | None = None
) -> Table:
    """A checked table; by default columns of numbers go to the right, others to the left.

    Raises DeriveError for a row or an alignment that does not fit the header.
    """
    if not header:
        raise DeriveError(f"table {name} has no columns")
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            told = f"expected {len(header)} cells, found {len(row)}"
            raise DeriveError(f"table {name}, row {number}: {told}")
        for part in row:
            _pieces(part)
    if align is None:
        columns = zip(*rows, strict=True) if rows else ((),) * len(header)
        align = "".join(
            "r" if column and all(isinstance(c, NumberCell) for c in column) else "l"
            for column in columns
        )
    if len(align) != len(header) or set(align) - set("lrc"):
        told = f"expected {len(header)} letters l, r or c, found {quoted(align)}"
        raise DeriveError(f"table {name}: {told}")
    return Table(name, tuple(header), tuple(map(tuple, rows)), align)


def markdown(table: Table, mark: Callable[[int, int, str, str], str]) -> str:
    """The table as lines of Markdown. `mark` surrounds the text of a number, given its row and
    column, counted from 1, and its unit."""
    rows = [
        [
            "".join(_text(part, partial(mark, r, c)) for part in _pieces(cell))
            for c, cell in enumerate(row, 1)
        ]
        for r, row in enumerate((table.header, *table.rows))
    ]
    return aligned(rows[0], rows[1:], table.align)


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """Cells of text as a table in Markdown, padded to the widest cell of each column."""
    lines = [[_safe(text) for text in row] for row in (header, *rows)]
    widths = [max(3, *(width(line[c]) for line in lines)) for c in range(len(header))]
    shown = [
        "| " + " | ".join(_padded(*c) for c in zip(line, widths, align, strict=True)) + " |"
        for line in lines
    ]
    return "\n".join([shown[0], "|" + "|".join(map(_rule, widths, align)) + "|", *shown[1:]])


def width(text: str) -> int:
    """The columns that `text` takes in a terminal: two for wide characters, none for marks."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in plain(text)
    )


def _pieces(cell: Cell) -> tuple[Part, ...]:
    pieces = cell if isinstance(cell, tuple) else (cell,)
    for part in pieces:
        if not isinstance(part, (str, NumberCell, MathCell)):
            raise DeriveError(
                f"a cell is text, cell(quantity, rule), math(expr) or a tuple of these, "
                f"found the {type(part).__name__} {quoted(part)}"
            )
    return pieces


def _text(part: Part, mark: Callable[[str, str], str]) -> str:
    if isinstance(part, NumberCell):
        return mark(*number_text(part.quantity, part.rule, part.unit))
    return tex.inline(part.latex) if isinstance(part, MathCell) else part


def _safe(text: str) -> str:
    text = re.sub(r"\s*\n\s*", "<br>", text.strip())
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def _padded(text: str, wide: int, align: str) -> str:
    space = wide - width(text)
    if align == "r":
        return " " * space + text
    left = space // 2 if align == "c" else 0
    return " " * left + text + " " * (space - left)


def _rule(wide: int, align: str) -> str:
    left = ":" if align in "lc" else "-"
    return left + "-" * wide + (":" if align in "rc" else "-")
