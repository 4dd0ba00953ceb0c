"""`derive figures` and `derive why`: the figures of the book, and where each comes from."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from derive.book import report
from derive.commands import plan
from derive.commands.build import shelf_of
from derive.commands.parser import PLANNED
from derive.notation.errors import DeriveError


def figures(options: Namespace) -> tuple[list[dict[str, Any]], str]:
    """Every figure of the chapters as JSON-ready data and as a listing. Raises DeriveError."""
    shelf = shelf_of(options)
    return report.figures(shelf), report.listing(shelf)


def why(options: Namespace) -> tuple[None, str]:
    """The tree of one figure, named CHAPTER.FIGURE or plan.RANK.NAME, down to its sources. Raises
    DeriveError."""
    if options.figure.startswith("plan."):
        return None, plan.why(options)
    for name in PLANNED:
        if getattr(options, name) is not None:
            raise DeriveError(f"--{name}: of a plan alone, such as plan.1.mfu; leave it out")
    return None, report.why(shelf_of(options), options.figure)
