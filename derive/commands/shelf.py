"""The book that was named on the command line, or the one that stands here."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from derive.book.folders import TEMPLATE, Shelf
from derive.commands.inputs import path_of
from derive.facts import Catalogue
from derive.notation.errors import DeriveError, quoted
from derive.notation.quantity import Quantity


def shelf_of(options: Namespace) -> Shelf:
    """The chapters of the book that was named, whose templates may ask what `derive` answers."""

    def answer(question: str, catalogue: Catalogue) -> Quantity:
        from derive.commands import value  # as plan: only where a template asks

        return value.answer(question, catalogue)

    return Shelf(place_of(options.chapters), answer)


def place_of(typed: str | None, *, new: bool = False) -> Path:
    """The folder of chapters: the one named, or the `chapters` in it, else the nearest `chapters`
    here or above. One that is named need not be there where it is `new`.

    Raises DeriveError where there is none, and where there can be none.
    """
    if typed is not None:
        try:
            named = path_of(typed, "--chapters").resolve()
            place = named / "chapters" if (named / "chapters").is_dir() else named
            there = next(path for path in (place, *place.parents) if path.exists())
        except (OSError, RuntimeError):  # too long, no permission, links in a circle
            told = "no folder can be" if new else "no folder of chapters"
            raise DeriveError(f"{told} at {quoted(typed)}") from None
        if new and not there.is_dir():
            raise DeriveError(f"{quoted(typed)} is no folder: {there.name} is a file")
        if not new and not place.is_dir():
            raise DeriveError(f"no folder of chapters at {quoted(typed)}")
        return place
    try:
        here = Path.cwd()
    except OSError:
        raise DeriveError("this folder is gone; name the book with --chapters FOLDER") from None
    for place in (here, *here.parents):
        if (place / "chapters").is_dir():
            return place / "chapters"
        if any(place.glob(f"[0-9][0-9]-*/{TEMPLATE}")):
            return place
    raise DeriveError("no folder of chapters here or above; name it with --chapters FOLDER")
