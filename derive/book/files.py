"""Bytes of files: none is ever half written, and none is changed where one fails."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType

LARGEST = 50_000_000
_LEFT = re.compile(r"\..+\.derive-[0-9]+\.tmp")


def read(path: Path) -> bytes | None:
    """The bytes of a file, or None where there is none; raises OSError as the system does, and for
    what is no file (a pipe never ends) or too large."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    if status.st_size > LARGEST:
        raise OSError(errno.EFBIG, f"has more than {LARGEST:,} bytes", str(path))
    return path.read_bytes()


def write(contents: Mapping[Path, bytes]) -> tuple[Path, ...]:
    """Write every file whose bytes differ and return those, in the order given.

    All are written out beside their targets first and moved into place last; where anything fails,
    an interrupt too, what was moved is put back and no temporary file stays. Those of a process
    that was killed are removed by the next one that writes in the folder. Raises OSError.
    """
    for path in contents:
        if path.is_symlink():  # which may lead to any file that the user can write
            raise OSError(errno.ELOOP, "is a link: a build writes files, remove it", str(path))
    with _alone({path.parent for path in contents}):
        changed = {path: data for path, data in contents.items() if read(path) != data}
        with _staged(changed) as staged:
            before = {target: read(target) for target in staged}
            try:
                for target, temporary in staged.items():
                    os.replace(temporary, target)
            except BaseException:
                for target, data in before.items():
                    _put_back(target, data)
                raise
    return tuple(changed)


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Within, SIGTERM (a job that is cancelled) raises KeyboardInterrupt, as Ctrl-C does.

    In another thread than the main one, which signals do not reach, nothing changes.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    try:
        usual = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, usual)


@contextlib.contextmanager
def _alone(folders: Iterable[Path]) -> Iterator[None]:
    """Hold the folders: two builds at once write one after the other.

    The system lets go of what a killed process held, so that temporary files in a folder that is
    held are left from one that is no more, and are removed. Where folders cannot be held (a file
    system without locks), nothing waits and nothing is removed.
    """
    with contextlib.ExitStack() as held:
        for folder in sorted(folders):  # in one order, so that no two wait for each other
            with contextlib.suppress(OSError, ImportError):
                import fcntl  # there is none on Windows

                handle = os.open(folder, os.O_RDONLY)
                held.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_EX)
                for name in filter(_LEFT.fullmatch, os.listdir(handle)):
                    with contextlib.suppress(OSError):
                        os.unlink(folder / name)
        yield


@contextlib.contextmanager
def _staged(contents: Mapping[Path, bytes]) -> Iterator[dict[Path, Path]]:
    """Each target's temporary file, which holds its bytes and has its mode."""
    number = os.getpid()
    staged = {path: path.with_name(f".{path.name}.derive-{number}.tmp") for path in contents}
    try:
        for target, temporary in staged.items():
            _stage(temporary, target, contents[target])
        yield staged
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)


def _stage(temporary: Path, target: Path, data: bytes) -> None:
    temporary.unlink(missing_ok=True)  # where folders cannot be held
    temporary.touch(exist_ok=False)  # follows no link
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:  # a full disk says neither which file nor which folder
        raise OSError(error.errno, error.strerror, str(target)) from None
    with contextlib.suppress(FileNotFoundError):
        os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))


def _put_back(target: Path, before: bytes | None) -> None:
    """Undo a move; a target that holds its old bytes is not touched."""
    if read(target) == before:
        return
    if before is None:
        target.unlink()
        return
    with _staged({target: before}) as staged:
        os.replace(staged[target], target)
