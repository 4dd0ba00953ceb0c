"""The folders of the chapters: what is found and read in them, and written without halves."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
import tempfile
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import walk_tb
from typing import TypeAlias

from derive.book.chapter import PACKAGE, Chapter
from derive.book.problems import BookError, Problem
from derive.facts import Catalogue
from derive.notation.errors import DeriveError, UnknownName, quoted
from derive.notation.quantity import Quantity

TEMPLATE, FIGURES, OUTPUT = "chapter.md.j2", "figures.py", "README.md"
SCRIPT = "build.py"
Answer: TypeAlias = Callable[[str, Catalogue], Quantity]  # to a question as it is typed
_CHAPTER = re.compile(r"[0-9]{2}-[^/]+")


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


class Shelf:
    """The chapters in the folder `place`, in order: `figures.py` of each is run once, when it is
    first asked for. `command` is what builds them.

    Raises DeriveError where there are none at all or two have one number.
    """

    def __init__(self, place: Path, answer: Answer | None = None) -> None:
        self.place, self.answer = place, answer
        self.folders = folders(place)
        self._declared: dict[Folder, Chapter | BookError] = {}

    @property
    def command(self) -> str:
        """What is typed to build: the script beside the chapters, where there is one."""
        if (self.place.parent / SCRIPT).is_file():
            return f"python {SCRIPT}"
        return f"derive build --chapters {called(self.place)}"

    def picked(self, wanted: Iterable[str] = ()) -> tuple[Folder, ...]:
        """All chapters, or those wanted by number or folder name; raises UnknownName for one that
        is not there."""
        chosen = []
        for name in wanted:
            key = name.rstrip("/").rpartition("/")[2]
            key = key.zfill(2) if key.isdigit() else key
            match = [f for f in self.folders if key in (f.number, f.path.name)]
            if not match:
                listed = ", ".join(folder.path.name for folder in self.folders)
                raise UnknownName(f"unknown chapter {quoted(name)}; known: {listed}")
            chosen += match
        return tuple(f for f in self.folders if not chosen or f in chosen)

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


def folders(place: Path) -> tuple[Folder, ...]:
    """The chapters in the folder `place` in order; raises DeriveError as `Shelf` does."""
    try:
        paths = sorted(p for p in place.iterdir() if p.is_dir() and _CHAPTER.fullmatch(p.name))
    except OSError as error:
        raise DeriveError(f"cannot read {place.name}/: {error.strerror}") from None
    known = tuple(Folder(path, f"{called(place)}/{path.name}") for path in paths)
    if not known:
        raise DeriveError(f"no chapters: expected folders such as {called(place)}/06-name")
    numbers = [folder.number for folder in known]
    for number in numbers:
        if numbers.count(number) > 1:
            raise DeriveError(f"two chapters are numbered {number}")
    return known


def called(place: Path) -> str:
    """How messages call a folder of chapters: from where the reader is, if it lies below; else by
    its own name."""
    try:
        return place.relative_to(Path.cwd()).as_posix()
    except (OSError, ValueError):
        return place.name


def chapter(folder: Folder) -> Chapter:
    """The chapter that the folder's figures.py declares.

    The file is run as ordinary Python. Raises BookError with file and line for whatever it raises,
    and where it does not end up with a `chapter` of the folder's number.
    """
    path, shown = folder.path / FIGURES, folder.named(FIGURES)
    content(folder, FIGURES)
    declared = getattr(_run(path, shown, folder.shown), "chapter", None)
    if not isinstance(declared, Chapter):
        raise BookError(Problem(shown, 0, "declares no `chapter`: chapter = Chapter(...)"))
    if declared.number != folder.number:
        text = f"declares chapter {declared.number} in the folder of {folder.number}"
        raise BookError(Problem(shown, 0, text))
    return declared


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
    """Run figures.py as a package of the chapter's own, so that it can be in several files."""
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
    sys.modules[package] = module
    sys.meta_path.insert(0, finder)
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except SyntaxError as error:
        place = f"{folder}/{Path(error.filename or path).name}"
        raise BookError(Problem(place, error.lineno or 0, f"SyntaxError: {error.msg}")) from None
    except BaseException as error:
        file, line = _raised_at(error, path)
        text = str(error).replace(f"{path.parent}/", "")
        if not isinstance(error, DeriveError):
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
        return (folder.path / file).read_bytes()
    except FileNotFoundError:
        raise BookError(Problem(folder.shown, 0, f"no {file}")) from None
    except OSError as error:
        text = f"cannot be read: {error.strerror}"
        raise BookError(Problem(folder.named(file), 0, text)) from None


# --- bytes of files: none is ever half written, and none is changed where one fails


def read(path: Path) -> bytes | None:
    """The bytes of a file, or None where there is none; raises OSError as the system does."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def write(contents: Mapping[Path, bytes]) -> tuple[Path, ...]:
    """Write every file whose bytes differ and return those, in the order given.

    All are written out beside their targets first and moved into place last; where anything fails,
    an interrupt too, what was moved is put back and no temporary file stays. Raises OSError.
    """
    changed = {path: data for path, data in contents.items() if read(path) != data}
    with _staged(changed) as staged:
        done: list[tuple[Path, bytes | None]] = []
        try:
            for temporary, target in staged.values():
                before = read(target)
                done.append((target, before))
                os.replace(temporary, target)
        except BaseException:
            for target, before in done:
                _put_back(target, before)
            raise
    return tuple(changed)


@contextlib.contextmanager
def _staged(contents: Mapping[Path, bytes]) -> Iterator[dict[Path, tuple[str, Path]]]:
    staged: dict[Path, tuple[str, Path]] = {}
    temporary: list[str] = []
    try:
        for path, data in contents.items():
            target = Path(os.path.realpath(path))  # a link stays a link
            staged[path] = (_stage(target, data, temporary), target)
        yield staged
    finally:
        for name in temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)


def _stage(target: Path, data: bytes, temporary: list[str]) -> str:
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    temporary.append(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:  # a full disk says neither which file nor which folder
        raise OSError(error.errno, error.strerror, str(target)) from None
    os.chmod(name, _mode(target))
    return name


def _mode(target: Path) -> int:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _put_back(target: Path, before: bytes | None) -> None:
    """Undo a move; a target that holds its old bytes is not touched."""
    if read(target) == before:
        return
    if before is None:
        target.unlink()
        return
    with _staged({target: before}) as staged:
        os.replace(*staged[target])
