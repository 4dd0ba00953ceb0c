"""`derive new`: the files of a chapter to begin with."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from derive.book import scaffold
from derive.book.files import terminated_as_interrupted
from derive.book.folders import DRAFT, Shelf, called
from derive.commands import guide
from derive.commands.shelf import place_of
from derive.notation.text import aligned

IGNORED = f"{DRAFT}.*\n.*.derive-*.tmp\n"  # by git, in a book of its own


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The files that were made and what to type next, as data and as text.

    Raises DeriveError for a name or a place that will not do, and OSError; then nothing is made.
    """
    place = place_of(options.chapters, new=True)
    name = scaffold.checked(place, options.name)
    beside: dict[str, bytes] = {}
    if not place.is_dir() or not any(place.iterdir()):
        beside = {guide.PAGE: guide.page(place).encode(), ".gitignore": IGNORED.encode()}
    with terminated_as_interrupted():
        scaffold.write(place, name, beside)
    files = [f"{called(place)}/{name}/{file}" for file in scaffold.FILES]
    files += [f"{called(place)}/{file}" for file in beside]
    build, number = Shelf(place).command, name[:2]
    following = {
        f"{build} --watch {number}": "builds it whenever you save",
        f"{build} --draft {number}": f"shows it half written, in {DRAFT}.md",
        f"{build} --check {number}": "says whether it is still true",
    }
    if (place / guide.PAGE).is_file():
        following[f"{called(place)}/{guide.PAGE}"] = "is all that there is to know"
    lines = ["made " + ", ".join(files), "next:"]
    lines += [f"  {line}" for line in aligned([*following.items()])]
    return {"files": files, "next": following}, "\n".join(lines)
