"""`derive build --watch`: each chapter built when its files change, in a fork of a process that has
imported everything."""

from __future__ import annotations

import gc
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

import derive
from derive.book.folders import DRAFT, OUTPUT
from derive.book.statements import ENDING
from derive.commands import output
from derive.facts import shipped
from derive.notation.errors import DeriveError, written

INTERVAL = 0.5
SETTLING = 0.1  # seconds without a change: editors write a file in several steps
Attempt: TypeAlias = Callable[[str], Iterable[str]]  # of a chapter's folder, to lines that tell it
Snapshot: TypeAlias = Mapping[str, frozenset[tuple[str, int, int]]]
IMPORTED = ("jinja2", "markdown_it", "numpy", "matplotlib.figure", "derive.commands.value")


def watch(
    place: Path, picked: Callable[[], Iterable[str]], attempt: Attempt, again: list[str]
) -> None:
    """Attempt the chapters in the folder `place` that are `picked`, by the names of their folders,
    and go on with those whose files change until Ctrl-C. `again` is the command that attempts the
    one whose folder's name is put after it, where processes cannot fork."""
    before: Snapshot = {}
    with suppress(KeyboardInterrupt):
        prepare()
        while True:
            after = _settled(place, picked, before)
            for name in (name for name in after if after[name] != before.get(name)):
                if hasattr(os, "fork"):
                    forked(attempt, name)
                else:
                    subprocess.run([*again, name])
            before = after
            time.sleep(INTERVAL)


def prepare() -> None:
    """Import what chapters use, and read what they share, once."""
    for module in IMPORTED:
        with suppress(ImportError):  # the attempt says what is missing
            import_module(module)
    for name in dir(derive):
        getattr(derive, name)
    shipped()
    gc.freeze()  # so that no child copies pages to count what it has from here


def forked(attempt: Attempt, name: str) -> float:
    """Attempt a chapter in a child, which prints what came of it and how long it took, and return
    the seconds that the child computed."""
    output.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _told(attempt, name)
            code = 0
        except BaseException as error:
            if not isinstance(error, KeyboardInterrupt):
                output.complain(f"{name}: {type(error).__name__}: {written(error)}")
        finally:
            os._exit(code)
    try:
        used = os.wait4(child, 0)[2]
    except KeyboardInterrupt:  # the child got it as well, and puts files back
        with suppress(ChildProcessError):  # it may have ended just before
            os.wait4(child, 0)
        raise
    return used.ru_utime + used.ru_stime


def _told(attempt: Attempt, name: str) -> None:
    start = time.perf_counter()
    try:
        first, *others = attempt(name)
    except DeriveError as error:
        first, others = f"{name}: {error}", []
    seconds = time.perf_counter() - start
    output.write("\n".join([f"{first}  ({seconds:.2f} s)", *others]))
    output.flush()


def _settled(place: Path, picked: Callable[[], Iterable[str]], before: Snapshot) -> Snapshot:
    """The files of the chapters, when for a moment none of them has changed."""
    after = _snapshot(place, picked)
    while after != before:
        time.sleep(SETTLING)
        before, after = after, _snapshot(place, picked)
    return after


def _snapshot(place: Path, picked: Callable[[], Iterable[str]]) -> Snapshot:
    """Of each chapter its files but for what a build writes, each with its time and size."""
    with suppress(DeriveError):  # there are none now
        return {name: frozenset(_files(place / name)) for name in picked()}
    return {}


def _files(folder: Path) -> Iterator[tuple[str, int, int]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            built = entry.name == OUTPUT or entry.name.endswith((".svg", ENDING))
            if not built and not entry.name.startswith((f"{DRAFT}.", ".")):
                with suppress(OSError):
                    if entry.is_file():
                        status = entry.stat()
                        yield entry.name, status.st_mtime_ns, status.st_size
