"""`derive figures` and `derive why`: the figures of the book, and where each comes from."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from derive.book import report
from derive.commands import output, plan
from derive.commands.build import DONE, DRIFT, ERROR, shelf_of
from derive.commands.parser import PLANNED
from derive.notation.errors import DeriveError


def figures(options: Namespace) -> tuple[list[dict[str, Any]], str, int]:
    """Every figure of the chapters as JSON-ready data and as a listing, and the exit code: 1 where
    one does not hold. Errors of chapters go to standard error. Raises DeriveError."""
    figures, errors = report.figures(shelf_of(options))
    for error in errors:
        output.complain(str(error))
    code = ERROR if errors else DONE if all(figure["holds"] for figure in figures) else DRIFT
    return figures, report.listing(figures), code


def why(options: Namespace) -> tuple[None, str]:
    """The tree of one figure, named CHAPTER.FIGURE or plan.RANK.NAME, down to its sources. Raises
    DeriveError."""
    if options.figure.startswith("plan."):
        return None, plan.why(options)
    for name in PLANNED:
        if getattr(options, name) is not None:
            raise DeriveError(f"--{name}: of a plan alone, such as plan.1.mfu; leave it out")
    return None, report.why(shelf_of(options), options.figure)
