"""Finding chapters and reading what they are made of."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from derive.book.chapter import Chapter
from derive.book.problems import BookError, Problem
from derive.notation.errors import DeriveError, unknown

TEMPLATE, FIGURES, OUTPUT = "chapter.md.j2", "figures.py", "README.md"


@dataclass(frozen=True)
class Folder:
    """A chapter's folder, and how it is called in messages: `chapters/06-mesh`."""

    path: Path
    shown: str

    @property
    def number(self) -> str:
        return self.path.name[:2]

    def named(self, file: str) -> str:
        """A file of the folder as messages have it."""
        return f"{self.shown}/{file}"


def folders(root: Path, wanted: Iterable[str] = ()) -> tuple[Folder, ...]:
    """The chapters under `root`/chapters in order: all, or those wanted by number or folder name.

    Raises UnknownName for a chapter that is not there, DeriveError where there are none at all or
    two have one number.
    """
    place = root / "chapters"
    try:
        found = sorted(p for p in place.iterdir() if p.is_dir() and _is_chapter(p.name))
    except OSError as error:
        raise DeriveError(f"cannot read {place.name}/: {error.strerror}") from None
    known = [Folder(path, f"chapters/{path.name}") for path in found]
    if not known:
        raise DeriveError("no chapters: expected folders such as chapters/06-name")
    numbers = [folder.number for folder in known]
    for number in numbers:
        if numbers.count(number) > 1:
            raise DeriveError(f"two chapters are numbered {number}")
    picked = []
    for name in wanted:
        key = name.rstrip("/").rpartition("/")[2]
        key = key.zfill(2) if key.isdigit() else key
        match = [f for f in known if key in (f.number, f.path.name)]
        if not match:
            listed = ", ".join(folder.path.name for folder in known)
            offered = unknown("chapter", name, [*numbers, *(f.path.name for f in known)])
            raise type(offered)(f"{str(offered).partition(';')[0]}; known: {listed}")
        picked += match
    return tuple(f for f in known if not picked or f in picked)


def _is_chapter(name: str) -> bool:
    return re.fullmatch(r"[0-9]{2}-[^/]+", name) is not None


def chapter(folder: Folder) -> Chapter:
    """The chapter that the folder's figures.py declares.

    The file is run as ordinary Python. Raises BookError with file and line for whatever it raises,
    and where it does not end up with a `chapter` of the folder's number.
    """
    path, shown = folder.path / FIGURES, folder.named(FIGURES)
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        raise BookError(Problem(folder.shown, 0, f"no {FIGURES}")) from None
    except OSError as error:
        raise BookError(Problem(shown, 0, f"cannot be read: {error.strerror}")) from None
    made = _run(source, path, shown)
    found = getattr(made, "chapter", None)
    if not isinstance(found, Chapter):
        raise BookError(Problem(shown, 0, "declares no `chapter`: chapter = Chapter(...)"))
    if found.number != folder.number:
        text = f"declares chapter {found.number} in the folder of {folder.number}"
        raise BookError(Problem(shown, 0, text))
    return found


def _run(source: bytes, path: Path, shown: str) -> types.ModuleType:
    module = types.ModuleType(f"derive_chapter_{path.parent.name[:2]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    except KeyboardInterrupt:
        raise
    except SyntaxError as error:
        raise BookError(Problem(shown, error.lineno or 0, f"SyntaxError: {error.msg}")) from None
    except BaseException as error:
        line, trace = 0, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == str(path):
                line = trace.tb_lineno
            trace = trace.tb_next
        text = str(error)
        if not isinstance(error, DeriveError):
            text = " ".join(f"{type(error).__name__}: {text}".split())
        raise BookError(Problem(shown, line, text)) from None
    finally:
        del sys.modules[module.__name__]
    return module


def template(folder: Folder) -> bytes:
    """The bytes of the folder's template; raises BookError where it cannot be read."""
    try:
        return (folder.path / TEMPLATE).read_bytes()
    except FileNotFoundError:
        raise BookError(Problem(folder.shown, 0, f"no {TEMPLATE}")) from None
    except OSError as error:
        shown = folder.named(TEMPLATE)
        raise BookError(Problem(shown, 0, f"cannot be read: {error.strerror}")) from None
