"""Writing files so that none is ever half written, and none is changed where one fails."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path


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
    made: dict[Path, tuple[str, Path]] = {}
    temporary: list[str] = []
    try:
        for path, data in contents.items():
            target = Path(os.path.realpath(path))  # a link stays a link
            made[path] = (_stage(target, data, temporary), target)
        yield made
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
    now = read(target)
    if now == before:
        return
    if before is None:
        target.unlink()
        return
    temporary: list[str] = []
    try:
        os.replace(_stage(target, before, temporary), target)
    finally:
        for name in temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
