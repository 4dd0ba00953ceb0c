"""The folders of the chapters, and what the figures.py in each of them declares."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import walk_tb
from typing import TypeAlias

import derive
from derive.book import files
from derive.book.chapter import PACKAGE, Chapter
from derive.book.problems import BookError, Problem
from derive.facts import Catalogue
from derive.notation.errors import DeriveError, UnknownName, quoted, unknown
from derive.notation.quantity import Quantity

TEMPLATE, FIGURES, OUTPUT = "chapter.md.j2", "figures.py", "README.md"
DRAFT = "DRAFT"  # what the name of a draft's file begins with, before a dot
SCRIPT = "build.py"
Answer: TypeAlias = Callable[[str, Catalogue], Quantity]  # to a question as it is typed
_MISSING = re.compile(r"cannot import name '(\w+)' from '([\w.]+)' .*")  # as Python says it
_CHAPTER = re.compile(r"[0-9]{2}-[^/]+")


@dataclass(frozen=True)
class Folder:
    """A chapter's folder, and how it is called in messages: `chapters/06-mesh`."""

    path: Path
    shown: str

    @property
    def number(self) -> str:
        """The two digits that the folder's name begins with; empty where it is misnamed."""
        return self.path.name[:2] if _CHAPTER.fullmatch(self.path.name) else ""

    def named(self, file: str) -> str:
        """A file of the folder as messages have it."""
        return f"{self.shown}/{file}"


class Shelf:
    """The chapters in the folder `place`, in order: `figures.py` of each is run once, when it is
    first asked for. `command` is what builds them.

    A folder with a chapter in it that is misnamed is among them, and so are two of one number:
    `chapter` refuses them. Raises DeriveError where there are none at all.
    """

    def __init__(self, place: Path, answer: Answer | None = None) -> None:
        self.place, self.answer = place, answer
        try:
            paths = sorted(path for path in place.iterdir() if _is_chapter(path))
        except OSError as error:
            raise DeriveError(f"cannot read {place.name}/: {error.strerror}") from None
        self.folders = tuple(Folder(path, f"{called(place)}/{path.name}") for path in paths)
        if not paths:
            raise DeriveError(f"no chapters: expected folders such as {called(place)}/06-name")
        self._declared: dict[Folder, Chapter | BookError] = {}

    @property
    def script(self) -> str:
        """What builds the chapters: the script beside them, where there is one."""
        return f"python {SCRIPT}" if has_script(self.place) else "derive build"

    @property
    def command(self) -> str:
        """What is typed to build them from here."""
        if has_script(self.place):
            return f"python {os.path.relpath(self.place.parent / SCRIPT)}"
        return f"derive build --chapters {os.path.relpath(self.place)}"

    def picked(self, wanted: Iterable[str] = ()) -> tuple[Folder, ...]:
        """All chapters, or those wanted by number, by folder name or by the path of a file in the
        folder; raises UnknownName for one that is not there."""
        chosen = []
        for name in wanted:
            match = self._matching(name)
            if not match:
                listed = ", ".join(folder.path.name for folder in self.folders)
                raise UnknownName(f"unknown chapter {quoted(name)}; known: {listed}")
            chosen += match
        return tuple(f for f in self.folders if not chosen or f in chosen)

    def _matching(self, name: str) -> list[Folder]:
        key = Path(name).name
        key = key.zfill(2) if key.isdigit() else key
        if match := [f for f in self.folders if key and key in (f.number, f.path.name)]:
            return match
        paths = [Path(os.path.abspath(above / name)) for above in (self.place.parent, Path())]
        holding = {folder for file in paths if os.path.isfile(file) for folder in file.parents}
        return [f for f in self.folders if Path(os.path.abspath(f.path)) in holding]

    def chapter(self, folder: Folder) -> Chapter:
        """What a chapter declares; raises BookError as `chapter` does."""
        if folder not in self._declared:
            try:
                self._declared[folder] = chapter(folder)
            except BookError as error:
                self._declared[folder] = error
        declared = self._declared[folder]
        if isinstance(declared, BookError):
            raise declared
        return declared

    def named(self, error: OSError) -> str:
        """How messages call the file, or for one of ours the folder, that the system refused."""
        path = Path(str(error.filename or "the output"))
        path = path.parent if path.suffix == ".tmp" else path
        with contextlib.suppress(ValueError):
            return f"{called(self.place)}/{path.relative_to(self.place).as_posix()}"
        return path.as_posix()


def has_script(place: Path) -> bool:
    """Whether a script beside the folder of chapters builds them."""
    return (place.parent / SCRIPT).is_file()


def _is_chapter(path: Path) -> bool:
    if path.is_dir() and any((path / file).exists() for file in (TEMPLATE, FIGURES)):
        return True
    folder = path.is_dir() or path.is_symlink()  # one that leads nowhere is told
    return folder and _CHAPTER.fullmatch(path.name) is not None


def called(place: Path) -> str:
    """How messages call a folder of chapters: from where the reader is, if it lies below; else by
    its own name."""
    try:
        return place.relative_to(Path.cwd()).as_posix()
    except (OSError, ValueError):
        return place.name


def chapter(folder: Folder) -> Chapter:
    """The chapter that the folder's figures.py declares.

    The file is run as ordinary Python; what it prints goes to standard error. Raises BookError with
    file and line for whatever it raises, where it does not end up with a `chapter` of the folder's
    number, and where the folder's name is no NN-name or its number is another folder's too.
    """
    path, shown = folder.path / FIGURES, folder.named(FIGURES)
    if text := _misplaced(folder):
        raise BookError(Problem(folder.shown, 0, text))
    content(folder, FIGURES)
    declared = getattr(_run(path, shown, folder.shown), "chapter", None)
    if not isinstance(declared, Chapter):
        raise BookError(Problem(shown, 0, "declares no `chapter`: chapter = Chapter(...)"))
    if declared.number != folder.number:
        text = f"declares chapter {declared.number} in the folder of {folder.number}"
        raise BookError(Problem(shown, 0, text))
    return declared


def _misplaced(folder: Folder) -> str:
    """What is wrong with the folder's name; empty where nothing is."""
    if not folder.number:
        return "a chapter's folder is named by two digits, a dash and a name, such as 06-mesh"
    same = sorted(path for path in folder.path.parent.glob(f"{folder.number}-*") if path.is_dir())
    if len(same) > 1:
        both = " and ".join(path.name for path in same)
        return f"one number for {both}: give one of them another"
    return ""


class _ChapterLoader(SourceFileLoader):
    """Reads a chapter's Python from its file every time, and leaves no bytecode beside it."""

    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        code: types.CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _ChapterFinder(MetaPathFinder):
    """Finds the modules of one chapter: `from .parts import name` in its figures.py."""

    def __init__(self, package: str, folder: Path) -> None:
        self.package, self.folder = package, folder

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        parent, _, name = fullname.rpartition(".")
        file = self.folder / f"{name}.py"
        if parent != self.package or not file.is_file():
            return None
        return spec_from_file_location(fullname, file, loader=_ChapterLoader(fullname, str(file)))


def _run(path: Path, shown: str, folder: str) -> types.ModuleType:
    """Run figures.py as a package of the chapter's own, so that it can be in several files; these
    find it as `.figures`, too."""
    package = f"{PACKAGE}{path.parent.name[:2]}"
    finder = _ChapterFinder(package, path.parent)
    spec = spec_from_file_location(
        package,
        path,
        loader=_ChapterLoader(package, str(path)),
        submodule_search_locations=[str(path.parent)],
    )
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[package] = sys.modules[f"{package}.{path.stem}"] = module
    sys.meta_path.insert(0, finder)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except SyntaxError as error:
        place = f"{folder}/{Path(error.filename or path).name}"
        raise BookError(Problem(place, error.lineno or 0, f"SyntaxError: {error.msg}")) from None
    except BaseException as error:
        file, line = _raised_at(error, path)
        text = str(error).replace(f"{path.parent}/", "")
        unfinished = getattr(error, "name", "") == package or getattr(error, "obj", 0) is module
        if "circular import" in text or unfinished:
            text = "circular import: no such name is declared before the import that leads here"
        elif missing := _MISSING.fullmatch(text):
            wanted, whose = missing.groups()
            known = vars(sys.modules[whose]).get("__all__") or dir(sys.modules[whose])
            text = str(unknown(f"name of {whose}", wanted, known))
        elif isinstance(error, NameError) and error.name in dir(derive):
            text = f"{error.name} is not imported: from derive import {error.name}"
        elif isinstance(error, NameError) and error.name:
            own = [name for name in vars(module) if not name.startswith("__")]
            text = str(unknown("name", error.name, own))
        elif isinstance(error, AttributeError) and text.endswith(f"attribute {error.name!r}"):
            whose = type(error.obj).__name__
            text = str(unknown(f"name of a {whose}", error.name, dir(error.obj)))
        elif not isinstance(error, DeriveError):
            text = " ".join(f"{type(error).__name__}: {text}".split())
        raise BookError(Problem(f"{folder}/{file}", line, text)) from None
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
            del sys.modules[name]
    return module


def _raised_at(error: BaseException, path: Path) -> tuple[str, int]:
    """The file of the chapter and the line in it where an error was raised, innermost first."""
    raised = ((Path(f.f_code.co_filename), line) for f, line in walk_tb(error.__traceback__))
    here = [(file.name, line) for file, line in raised if file.parent == path.parent]
    return here[-1] if here else (path.name, 0)


def content(folder: Folder, file: str) -> bytes:
    """The bytes of a file of the folder; raises BookError where it cannot be read."""
    try:
        data = files.read(folder.path / file)
    except OSError as error:
        text = f"cannot be read: {error.strerror}"
        raise BookError(Problem(folder.named(file), 0, text)) from None
    if data is None:
        raise BookError(Problem(folder.shown, 0, f"no {file}"))
    return data
