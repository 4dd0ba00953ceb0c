"""Tables as GitHub reads them, aligned by display width so that one number is a one-line diff."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from derive.book.figures import Figure, number_text, quantity_of
from derive.book.marks import checked, plain
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

    def figure(self, name: str, place: tuple[str, ...] = ()) -> Figure:
        """The number as a figure of that name, beside those words."""
        return Figure(name, "shown", self.quantity, self.rule, unit=self.unit, place=place)


@dataclass(frozen=True)
class MathCell:
    """Inline math in a cell."""

    latex: str


Part: TypeAlias = str | NumberCell | MathCell
Cell: TypeAlias = Part | tuple[Part, ...]
MOST_ROWS = 20_000


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
    words = (None if unit else "") if isinstance(unit, bool) else checked(unit)
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
    if not header or len(rows) > MOST_ROWS:
        told = f"has {len(rows):,} rows, the limit is {MOST_ROWS:,}" if header else "has no columns"
        raise DeriveError(f"table {name} {told}")
    for number, row in enumerate((header, *rows)):
        if len(row) != len(header):
            told = f"expected {len(header)} cells, found {len(row)}"
            raise DeriveError(f"table {name}, row {number}: {told}")
        for part in row:
            pieces(part)
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


def pieces(cell: Cell) -> tuple[Part, ...]:
    """The parts of a cell; raises DeriveError for what is none."""
    parts = cell if isinstance(cell, tuple) else (cell,)
    for part in parts:
        if not isinstance(part, (str, NumberCell, MathCell)):
            raise DeriveError(
                f"a cell is text, cell(quantity, rule), math(expr) or a tuple of these, "
                f"found the {type(part).__name__} {quoted(part)}"
            )
        if isinstance(part, str):
            checked(part)
    return parts


def figures(table: Table) -> Iterator[Figure]:
    """The numbers of a table in the order of its cells, each as a figure: "chips row 7 column 4".

    Rows are counted from the header, which is row 0. Where a cell has several numbers, the second
    is "chips row 7 column 4 number 2".
    """
    titles = [*map(words, table.header)]
    for r, row in enumerate((table.header, *table.rows)):
        first = words(row[0])
        for c, (cell, title) in enumerate(zip(row, titles, strict=True), 1):
            name = f"{table.name} row {r} column {c}"
            numbers = [part for part in pieces(cell) if isinstance(part, NumberCell)]
            for k, part in enumerate(numbers, 1):
                yield part.figure(f"{name} number {k}" if numbers[1:] else name, (first, title))


def words(cell: Cell) -> str:
    """A cell as text on one line."""
    return " ".join(text_of(cell).split())


def _bare(part: NumberCell) -> str:
    return number_text(part.quantity, part.rule, part.unit)[0]


def text_of(cell: Cell, number: Callable[[NumberCell], str] = _bare) -> str:
    """A cell as Markdown; `number` prints each of its numbers."""
    return "".join(
        part if isinstance(part, str)
        else number(part) if isinstance(part, NumberCell)
        else tex.inline(part.latex)
        for part in pieces(cell)
    )  # fmt: skip


def markdown(table: Table, mark: Callable[[Figure], str]) -> str:
    """The table as lines of Markdown, with each number of `figures` printed by `mark`."""
    numbers = figures(table)
    rows = [
        [text_of(cell, lambda _: mark(next(numbers))) for cell in row]
        for row in (table.header, *table.rows)
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


def _safe(text: str) -> str:
    text = re.sub(r"(?<!\s)\s*\n\s*", "<br>", text.strip())
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def _padded(text: str, wide: int, align: str) -> str:
    justified = {"l": str.ljust, "r": str.rjust, "c": str.center}[align]
    return justified(text, len(text) + wide - width(text))


def _rule(wide: int, align: str) -> str:
    left = ":" if align in "lc" else "-"
    return left + "-" * wide + (":" if align in "rc" else "-")
