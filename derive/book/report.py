"""Every figure of the book as data, and the tree of one figure down to its sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from derive.book.build import Result, render, render_all
from derive.book.figures import Figure
from derive.book.folders import Shelf
from derive.book.problems import Problem
from derive.facts.catalogue import cited, tree
from derive.notation.errors import DeriveError, nearest, quoted, unknown
from derive.notation.printed import NO_BREAK
from derive.notation.quantity import Quantity
from derive.notation.text import aligned


def figures(shelf: Shelf) -> tuple[list[dict[str, Any]], list[Problem]]:
    """Every figure of the book, in order, ready for JSON, and the errors of its chapters: one that
    cannot be rendered has no figures.

    Values are numbers, integers where they are whole. `printed` is what the chapter prints: the
    author's first words for a claim, requirement or given. `inputs` are the inputs of the formula,
    or the figure itself where it has none.
    """
    outcomes = render_all(shelf).values()
    rows = [
        _record(result, figure)
        for result in outcomes
        if isinstance(result, Result)
        for figure in result.figures.values()
    ]
    return rows, [p for outcome in outcomes for p in outcome.problems if not p.is_drift]


def listing(figures: Sequence[Mapping[str, Any]]) -> str:
    """Figures as text: name, kind, what is printed and whether it holds."""
    rows = [
        (
            f"{r['chapter']}.{r['name']}",
            f"{r['kind']:<7}",
            r["printed"] + ("" if r["holds"] else "  DOES NOT HOLD"),
        )
        for r in figures
    ]
    return "\n".join(aligned(rows))


def _record(result: Result, figure: Figure) -> dict[str, Any]:
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
    }


def why(shelf: Shelf, name: str) -> str:
    """The tree of "06.alpha-v5p": its formula, the formulas of its inputs, and so on down to
    readings with their sources, which are listed below.

    Raises UnknownName, offering near names, where the book has no such figure.
    """
    number, dot, wanted = name.partition(".")
    if not dot or not number.isdigit():
        raise DeriveError(f"expected CHAPTER.FIGURE, such as 06.alpha-v5p, found {quoted(name)}")
    folder, *_ = shelf.picked([number])
    result = render(folder, shelf)
    known = result.figures
    if wanted not in known:
        close = [f"{folder.number}.{match}" for match in nearest(wanted, known)]
        raise unknown("figure", name, close or [f"{folder.number}.{key}" for key in known])
    figure = known[wanted]
    lines = [_headline(result, figure)]
    for side in _sides(figure):
        lines += tree(side)
    return "\n".join([*lines, *cited(_sides(figure), figure.cite, result.chapter.catalogue)])


def _headline(result: Result, figure: Figure) -> str:
    printed = result.words.get(figure.name, "not printed")
    words = quoted(printed.replace(NO_BREAK, " "), 120)
    line = f"{result.chapter.number}.{figure.name}  {figure.kind}  {words}"
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
