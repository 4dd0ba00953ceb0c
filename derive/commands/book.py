"""`derive figures` and `derive why`: the figures of the book, and where each comes from."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from derive.book import report
from derive.commands import plan
from derive.commands.inputs import path_of
from derive.commands.parser import PLANNED
from derive.notation.errors import DeriveError, quoted


def figures(options: Namespace) -> tuple[list[dict[str, Any]], str]:
    """Every figure of the chapters as JSON-ready data and as a listing. Raises DeriveError."""
    root = book_root(options.chapters)
    return report.figures(root), report.listing(root)


def why(options: Namespace) -> tuple[None, str]:
    """The tree of one figure, named CHAPTER.FIGURE or plan.RANK.NAME, down to its sources. Raises
    DeriveError."""
    if options.figure.startswith("plan."):
        return None, plan.why(options)
    for name in PLANNED:
        if getattr(options, name) is not None:
            raise DeriveError(f"--{name}: of a plan alone, such as plan.1.mfu; leave it out")
    return None, report.why(book_root(options.chapters), options.figure)


def book_root(folder: str | None) -> Path:
    """The folder that holds `chapters`: the one named, else this one or the nearest above it.

    Raises DeriveError where there is none.
    """
    if folder is not None:
        try:
            named = path_of(folder, "--chapters").resolve()
            root = named.parent if named.name == "chapters" else named
            if (root / "chapters").is_dir():
                return root
        except (OSError, RuntimeError):  # too long, no permission, links in a circle
            pass
        raise DeriveError(f"no folder of chapters at {quoted(folder)}")
    try:
        here = Path.cwd()
    except OSError:
        raise DeriveError("this folder is gone; name the book with --chapters FOLDER") from None
    for place in (here, *here.parents):
        if (place / "chapters").is_dir():
            return place
    raise DeriveError("no folder of chapters here or above; name it with --chapters FOLDER")
