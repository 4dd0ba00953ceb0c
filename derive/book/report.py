"""Every figure of the book as data, and the tree of one figure down to its sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from derive.book.build import Result, render, render_all
from derive.book.figures import Figure
from derive.book.folders import OUTPUT, TEMPLATE, Folder, Shelf, content
from derive.book.marks import in_full
from derive.book.problems import FIGURES, BookError, Problem
from derive.book.tables import Cell, words
from derive.facts.catalogue import cited, tree
from derive.notation.errors import DeriveError, UnknownName, nearest, quoted, unknown
from derive.notation.printed import NO_BREAK
from derive.notation.quantity import Quantity
from derive.notation.text import aligned

_CELL = re.compile(r"(.+?)[. ]([0-9]+)[., ]+([0-9]+)")  # of a table, as it may be typed
LISTED = 40  # rows of a table in a message


def figures(shelf: Shelf, wanted: Iterable[str] = ()) -> tuple[list[dict[str, Any]], list[Problem]]:
    """Every figure of the chapters wanted, or of all, ready for JSON, as declared, then the numbers
    of tables and labels; and the errors of the chapters: one that cannot be rendered has no
    figures.

    Values are numbers, integers where they are whole. `printed` is what the chapter prints: the
    author's first words for a claim, requirement or given. `inputs` are the inputs of the formula,
    or the figure itself where it has none. `file` and `line` say where it is printed first, a
    number in a label with its plot; for a number of a table `row` and `column` are the words of the
    row's first cell and of the header.
    """
    outcomes = render_all(shelf, wanted).values()
    rows = [
        _record(result, figure, lines.get(_printer(figure)))
        for result in outcomes
        if isinstance(result, Result)
        for lines in [_lines(result)]
        for figure in result.figures.values()
    ]
    return rows, [p for outcome in outcomes for p in outcome.problems if not p.is_drift]


def listing(figures: Sequence[Mapping[str, Any]]) -> str:
    """Figures as text: name, kind, what is printed and whether it holds."""
    rows = []
    for r in figures:
        place = tuple(r[key] for key in ("row", "column") if key in r)
        name = in_full(f"{r['chapter']}.{r['name']}", place)
        holds = "" if r["holds"] else "  DOES NOT HOLD"
        rows.append((name, f"{r['kind']:<7}", r["printed"] + holds))
    return "\n".join(aligned(rows))


def _record(result: Result, figure: Figure, lines: tuple[int, int] | None) -> dict[str, Any]:
    quantity, sides = figure.quantity, _sides(figure)
    formula = quantity.formula if quantity is not None else ""
    if figure.relation is not None:
        left, right = (side.formula or side.name or side.printed() for side in sides)
        formula = f"{left} {figure.relation.sign} {right}"
    elif figure.kind == "require":
        formula = formula or figure.because
    return {
        "chapter": result.chapter.number,
        "name": figure.name,
        "value": quantity.plain if quantity is not None else None,
        "unit": str(quantity.unit) if quantity is not None else "",
        "printed": result.words.get(figure.name, ""),
        "kind": figure.kind,
        "holds": result.holding.get(figure.name, figure.kind in ("shown", "claim", "given")),
        "formula": formula,
        "inputs": [
            given.row(symbol)
            for side in sides
            for symbol, given in side.inputs or ((side.name or figure.name, side),)
        ],
        "file": result.folder.named(OUTPUT) if lines else None,
        "line": lines[0] if lines else None,
        **(dict(zip(("row", "column"), figure.place, strict=True)) if figure.place[1:] else {}),
    }


def _lines(result: Result) -> dict[tuple[bool, str], tuple[int, int]]:
    """The lines of the chapter and of its template where each figure, and each plot, is first."""
    lines: dict[tuple[bool, str], tuple[int, int]] = {}
    for span in result.rendered.spans:
        place = result.rendered.row(span.start) + 1, span.mark.line
        if span.mark.kind in FIGURES | {"plot"}:
            lines.setdefault((span.mark.kind == "plot", span.mark.name), place)
    return lines


def _built(result: Result, line: int) -> bool:
    """Whether that line of the chapter stands in its file as it would be built."""
    try:
        text = content(result.folder, OUTPUT).decode(errors="replace")
    except BookError:
        return False
    each = (whole.split("\n")[line - 1 : line] for whole in (result.rendered.text, text))
    return next(each) == next(each)


def _printer(figure: Figure) -> tuple[bool, str]:
    """What prints a figure: the plot whose label it is part of, or else it is printed itself."""
    labelled = len(figure.place) == 1
    return labelled, figure.name.partition(" label ")[0] if labelled else figure.name


def why(shelf: Shelf, name: str) -> str:
    """The tree of "06.alpha-v5p" or "06.chips row 7 column 4": its formula, the formulas of its
    inputs, and so on down to readings with their sources, which are listed below.

    A number of a table is known by the words of its row and column as well: "06.chips TPU7x, Most
    chips". Raises UnknownName, offering near names, where the book has no such figure.
    """
    result, figure = named(shelf, name)
    lines = [_headline(result, figure)]
    if printed := _lines(result).get(_printer(figure)):
        shown, template = (result.folder.named(file) for file in (OUTPUT, TEMPLATE))
        be = "" if _built(result, printed[0]) else "to be "
        lines.append(f"{be}printed at {shown}:{printed[0]} by {template}:{printed[1]}")
    for side in _sides(figure):
        lines += tree(side)
    return "\n".join([*lines, *cited(_sides(figure), figure.cite, result.chapter.catalogue)])


def named(
    shelf: Shelf, name: str, rendered: Callable[[Folder, Shelf], Result] = render
) -> tuple[Result, Figure]:
    """The figure of that name, and its chapter as `rendered` gives it; raises as `why`."""
    number, dot, wanted = name.partition(".")
    if not dot or not number.isdigit():
        raise DeriveError(f"expected CHAPTER.FIGURE, such as 06.alpha-v5p, found {quoted(name)}")
    folder, *_ = shelf.picked([number])
    result = rendered(folder, shelf)
    return result, _found(result, " ".join(wanted.split()))


def _found(result: Result, wanted: str) -> Figure:
    """The figure of that name, or the only number of a table with those words."""
    known, number = result.figures, result.chapter.number
    if wanted in known:
        return known[wanted]
    start, _, rest = wanted.partition(" ")
    spellings = (
        (figure, in_full(key, figure.place), in_full(key.split()[0], figure.place))
        for key, figure in known.items()
        if key.startswith(f"{start} ")
    )
    asked = (wanted, f"{start} ({rest})")
    matches = [figure for figure, *names in spellings if {*names}.intersection(asked)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(f"{number}.{figure.name}" for figure in matches)
        raise DeriveError(f"{quoted(wanted)} may be any of {names}")
    shown = quoted(f"{number}.{wanted}")
    cells = _CELL.fullmatch(wanted)
    if cells and cells[1] in result.chapter.tables:
        row = f"{number}.{cells[1]} row {cells[2]} column {cells[3]}"
        raise UnknownName(f"no number {shown}; did you mean {row}?")
    if table := result.chapter.tables.get(start):
        rows = _counted("rows", [row[0] for row in table.rows])
        columns = _counted("columns", table.header)
        raise UnknownName(f"no number {shown}; {start} has {rows}; {columns}")
    close = [f"{number}.{match}" for match in nearest(wanted, known)]
    raise unknown("figure", f"{number}.{wanted}", close or [f"{number}.{key}" for key in known])


def _counted(what: str, cells: Sequence[Cell]) -> str:
    """The numbers of rows or columns, each with its words where they are few."""
    if len(cells) > LISTED:
        return f"{what} 1 to {len(cells):,}"
    return f"{what} " + " | ".join(f"{n} {words(cell)}" for n, cell in enumerate(cells, 1))


def _headline(result: Result, figure: Figure) -> str:
    printed = result.words.get(figure.name, "not printed")
    words = quoted(printed.replace(NO_BREAK, " "), 120)
    line = f"{result.chapter.number}.{in_full(figure.name, figure.place)}  {figure.kind}  {words}"
    if figure.kind == "claim":
        line += f"  by rule {figure.check}"
    if figure.kind != "shown":
        holds = result.holding.get(figure.name, figure.kind != "require" or figure.holds())
        line += "  holds" if holds else "  DOES NOT HOLD"
    if figure.relation is not None:
        line += f": {figure.relation}"
    return f"{line}: {figure.because}" if figure.because else line


def _sides(figure: Figure) -> list[Quantity]:
    if figure.relation is not None:
        return [figure.relation.left, figure.relation.right]
    return [figure.quantity] if figure.quantity is not None else []
