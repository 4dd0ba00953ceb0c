"""A new chapter: a copy of the first one of `derive/book/guide`, under a name of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from derive.book import files
from derive.book.folders import FIGURES, TEMPLATE
from derive.notation.errors import DeriveError, quoted

GUIDE = Path(__file__).parent / "guide"
FIRST = GUIDE / "01-first-chapter"
_NAME = re.compile(r"([0-9]{2})((?:-[^\W_]+)+)")
FILES = (FIGURES, TEMPLATE, "facts.toml")


def title(name: str) -> str:
    """The title that a chapter's name says: "Data parallelism" of "05-data-parallelism"."""
    words = name[3:].replace("-", " ")
    return words[:1].upper() + words[1:]


def checked(place: Path, name: str) -> str:
    """The name, if a chapter in the folder `place` can have it.

    Raises DeriveError, offering the nearest good name, for one that is not of the form, and for one
    whose number or folder is there already.
    """
    taken = {path.name for path in place.iterdir()} if place.is_dir() else set()
    match = _NAME.fullmatch(name)
    near = _near(name, taken)
    if match is None:
        form = "two digits, a dash and words joined by dashes"
        raise DeriveError(f"expected {form}, such as {near}, found {quoted(name)}")
    same = sorted(other for other in taken if other[:2] == match[1] and other[2:3] in ("", "-"))
    if same:
        raise DeriveError(f"number {match[1]} is that of {same[0]}; free: {near}")
    return name


def _near(name: str, taken: set[str]) -> str:
    """The good name that is nearest: its words, under its number if that is free, else the next."""
    number, rest = re.match(r"\W*([0-9]*)(.*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
    used = {other[:2] for other in taken if other[:2].isdecimal()}
    free = [n for n in (f"{n:02}" for n in range(1, 100)) if n not in used]
    after = [n for n in free if n > max(used, default="")]
    wanted = number.zfill(2)
    best = wanted if wanted in free else (after or free or [wanted])[0]
    return "-".join([best, *(re.findall(r"[^\W_]+", rest.lower()) or ["name"])])


def contents(name: str) -> dict[str, bytes]:
    """The files of a new chapter of that name."""
    texts = {file: (FIRST / file).read_text("utf-8") for file in FILES}
    for before, after in (
        (f'"{FIRST.name[:2]}"', f'"{name[:2]}"'),
        (title(FIRST.name), title(name)),
    ):
        texts = {file: text.replace(before, after) for file, text in texts.items()}
    return {file: text.encode() for file, text in texts.items()}


def write(place: Path, name: str, beside: Mapping[str, bytes]) -> None:
    """Write a new chapter into the folder `place`, and what belongs beside it; folders that are not
    there are made. Where anything fails, an interrupt too, nothing stays. Raises OSError."""
    folder = place / name
    added = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True)
        own = {folder / file: data for file, data in contents(name).items()}
        files.write(own | {place / file: data for file, data in beside.items()})
    except BaseException:
        for path in added:
            with suppress(OSError):
                path.rmdir()
        raise
