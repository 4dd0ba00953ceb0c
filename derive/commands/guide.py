"""The page for authors, made from what it tells of: a template and the code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from derive.book import files
from derive.book.build import Checked
from derive.book.folders import Folder, called
from derive.book.problems import Problem, diff

PAGE = "WRITING.md"


def page(place: Path) -> str:
    """The page for the book whose chapters are in the folder `place`."""
    return "to be written\n"


def written(place: Path) -> tuple[Path, ...]:
    """The page, if it is there and was another: it is written anew. Raises OSError."""
    path = place / PAGE
    return files.write({path: page(place).encode()}) if path.is_file() else ()


def checked(place: Path) -> Iterator[Checked]:
    """The page against what is written of it, where it is there. Raises OSError."""
    path, shown = place / PAGE, f"{called(place)}/{PAGE}"
    if not path.is_file():
        return
    old, new = path.read_bytes(), page(place)
    differs = Problem(shown, 0, "has other text than a build writes")
    drifts = (differs,) if old != new.encode() else ()
    yield Checked(Folder(path, shown), (), drifts, diff(old.decode(errors="replace"), new, shown))
