"""Writing to the terminal: any encoding, a reader that leaves, a full disk, a closed stream."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import suppress
from typing import Any, TextIO

from derive.notation.errors import DeriveError, plain

# What a narrow encoding lacks: the tree of `why`, and typography.
_ASCII = str.maketrans({
    "├": "|", "└": "`", "│": "|", "─": "-", "−": "-", "×": "x", "·": ".", "≥": ">=", "≤": "<=",
    "–": "-", "—": "-", "’": "'", "“": '"', "”": '"', "…": "...", "√": "sqrt",
})  # fmt: skip
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-", strict=True))


def write(text: str, *, verbatim: bool = False) -> None:
    """Print text; spaces are plain, so that what is seen can be searched for and copied, but in
    text that is `verbatim`: a diff must apply."""
    out = _stream(sys.stdout)
    if verbatim and _fits(text, out):
        print(text, file=out)
    else:
        print(encodable(text, out), file=out)


def write_json(data: Any) -> None:
    """Print data as JSON, with characters escaped where the encoding lacks them."""
    out = _stream(sys.stdout)
    text = json.dumps(data, indent=2, ensure_ascii=False)
    fits = plain(text) == text and _fits(text, out)
    print(text if fits else json.dumps(data, indent=2), file=out)


def complain(message: str) -> None:
    """Print a message on standard error; nothing where that is closed or full."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            print(encodable(message, sys.stderr), file=sys.stderr, flush=True)


def flush() -> None:
    """Write what is buffered; raises OSError where the disk is full or the reader has gone."""
    if sys.stdout is not None:
        sys.stdout.flush()


def discard() -> None:
    """Send what is still buffered nowhere, so that Python does not fail on it when it ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def encodable(text: str, stream: TextIO) -> str:
    """`text` with plain spaces, in characters that the stream can write and no terminal acts on."""
    text = plain(text.replace("\u00a0", " "))
    if _fits(text, stream):
        return text
    name = stream.encoding
    text = re.sub(f"[{''.join(_RAISED)}]+", lambda m: "^" + "".join(_RAISED[c] for c in m[0]), text)
    return text.translate(_ASCII).encode(name, "backslashreplace").decode(name)


def _fits(text: str, stream: TextIO) -> bool:
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeError:
        return False
    return True


def _stream(stream: TextIO | None) -> TextIO:
    if stream is None:
        raise DeriveError("the output cannot be written: standard output is closed")
    return stream
