"""`derive new`: the files of a chapter to begin with."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from derive.book import scaffold
from derive.book.files import terminated_as_interrupted
from derive.book.folders import DRAFT, Shelf, called
from derive.commands import guide
from derive.commands.build import place_of
from derive.commands.inputs import path_of
from derive.notation.errors import DeriveError, quoted

IGNORED = f"{DRAFT}.*\n.*.derive-*.tmp\n"  # by git, in a book of its own


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The files that were made and what to type next, as data and as text.

    Raises DeriveError for a name or a place that will not do, and OSError; then nothing is made.
    """
    place = _place(options.chapters)
    name = scaffold.checked(place, options.name)
    beside: dict[str, bytes] = {}
    if not place.is_dir() or not any(place.iterdir()):
        beside = {guide.PAGE: guide.page(place).encode(), ".gitignore": IGNORED.encode()}
    with terminated_as_interrupted():
        scaffold.write(place, name, beside)
    made = [f"{called(place)}/{name}/{file}" for file in scaffold.FILES]
    made += [f"{called(place)}/{file}" for file in beside]
    build, number = Shelf(place).command, name[:2]
    following = {
        f"{build} --watch {number}": "builds it whenever you save",
        f"{build} --draft {number}": f"shows it half written, in {DRAFT}.md",
        f"{build} --check {number}": "says whether it is still true",
    }
    if (place / guide.PAGE).is_file():
        following[f"{called(place)}/{guide.PAGE}"] = "is all that there is to know"
    lines = ["made " + ", ".join(made), "next:"]
    wide = max(map(len, following))
    lines += [f"  {typed:<{wide}}  {does}" for typed, does in following.items()]
    return {"files": made, "next": following}, "\n".join(lines)


def _place(typed: str | None) -> Path:
    """The folder of chapters, which need not be there where it is named. Raises DeriveError."""
    if typed is None:
        return place_of(None)
    named = path_of(typed, "--chapters")
    try:
        named = named.resolve()
        there = next(path for path in (named, *named.parents) if path.exists())
        if not there.is_dir():
            raise DeriveError(f"{quoted(typed)} is no folder: {there.name} is a file")
    except (OSError, RuntimeError):  # too long, no permission, links in a circle
        raise DeriveError(f"no folder can be at {quoted(typed)}") from None
    return named / "chapters" if (named / "chapters").is_dir() else named
