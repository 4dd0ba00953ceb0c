"""What no input may do, whatever is typed: execute, write, start a process, hang, take memory, or
answer with anything but an answer or one printable line."""

from __future__ import annotations

import code
import math
import os
import signal
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO, TextIOWrapper
from pathlib import Path
from types import CodeType
from typing import Any

from derive.cli import main
from derive.notation.errors import DeriveError

INPUTS = int(os.environ.get("HOSTILE", "2000"))
SECONDS = 10
FORBIDDEN = ("subprocess.", "os.", "shutil.", "socket.", "ctypes.", "pty.", "webbrowser.")
EXECUTING = (
    "sympy/polys/monomials.py",
    "sympy/utilities/lambdify.py",
    "jinja2/environment.py",
    os.path.realpath(code.__file__),
)
HARMLESS = ("os.listdir", "os.scandir", "os.walk", "os.fwalk")

watching = False


class Harm(BaseException):
    """What no input may do. No `except Exception` of the program can swallow it."""


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not watching:
        return
    if event == "open":
        path, mode, flags = arguments
        if (mode and set(mode) & set("wax+")) or (flags or 0) & (os.O_WRONLY | os.O_RDWR):
            raise Harm(f"{path!r} is opened for writing")
    elif event == "exec":
        if not _own(arguments[0], sys._getframe(1).f_code.co_filename):
            raise Harm(f"executed: {arguments[0]} of {arguments[0].co_names}")
    elif event.startswith(FORBIDDEN) and event not in HARMLESS:
        raise Harm(f"{event}{arguments}")


MATHEMATICS = {"max", "min", *dir(math)}


def _own(executed: CodeType, by: str) -> bool:
    """Whether code is a module's of the program or of a library, a line of the prompt, a template
    that was checked, an import of lambdify's, what SymPy writes for a ring of polynomials, or what
    lambdify makes of a checked page: a function that names nothing but its arguments and
    mathematics."""
    if executed.co_filename.startswith("<lambdifygenerated"):
        (function,) = (part for part in executed.co_consts if isinstance(part, CodeType))
        return {*function.co_names} <= MATHEMATICS
    return Path(executed.co_filename).is_absolute() or by.endswith(EXECUTING)


sys.addaudithook(_watch)


def hung(*_: object) -> None:
    raise Harm(f"more than {SECONDS} seconds of processor time")


def clean(text: str) -> bool:
    """Whether a terminal does nothing with a text but print its lines."""
    kinds = {unicodedata.category(c) for c in text if c not in "\n\t"}
    return not any(kind[0] == "C" or kind in ("Zl", "Zp") for kind in kinds)


@contextmanager
def guarded() -> Iterator[None]:
    """What is done inside raises Harm where it executes or writes something, or hangs."""
    global watching
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    watching = True
    try:
        yield
    finally:
        watching = False
        signal.setitimer(signal.ITIMER_PROF, 0)


def answered(read: Callable[..., Any], *arguments: Any) -> Any:
    """What `read` gives, or None where it refuses in one line of printable characters."""
    with guarded():
        try:
            return read(*arguments)
        except DeriveError as error:
            message = str(error)
    assert clean(message) and "\n" not in message and 0 < len(message) < 2000, message
    return None


def run(*arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    """The exit code, standard output and standard error of a command run in this process."""
    streams = sys.stdin, sys.stdout, sys.stderr
    out, err = (TextIOWrapper(BytesIO(), encoding="utf-8") for _ in range(2))
    sys.stdin, sys.stdout, sys.stderr = TextIOWrapper(BytesIO(stdin), encoding="utf-8"), out, err
    try:
        with guarded():
            exit_code = main(arguments)
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
    told = []
    for stream in (out, err):
        stream.flush()
        told.append(stream.buffer.getvalue().decode("utf-8"))
    return exit_code, told[0], told[1]


def commanded(*arguments: str) -> str | None:
    """What a command prints, or None where it refuses: exit 2, one printable line, nothing else."""
    exit_code, out, err = run(*arguments)
    if exit_code == 2:
        assert out == "" and clean(err) and err.count("\n") == 1 and err.startswith("derive"), err
        assert len(err) < 2000
        return None
    assert (exit_code, err) == (0, "") or (exit_code == 1 and arguments[0] == "plan"), err
    assert clean(out), out
    return out
