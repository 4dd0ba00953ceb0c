"""Where output goes: full disks, closed streams, readers that leave, narrow encodings."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from derive.cli import main, script
from derive.commands.output import encodable, write_json
from derive.notation.errors import DeriveError

ROOT = Path(__file__).parents[2]
ASK = ("ask", "fsdp_tensor", "B/N", "--chip", "tpu-v5p", "--model", "llama-3-70b", "--steps")


class Full(io.StringIO):
    """A stream on a full disk, or one whose reader has left."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def write(self, _: str) -> int:
        raise self.error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told(process: Any) -> None:
    with open("/dev/full", "wb") as full:
        done = process(*ASK, stdout=full)
    assert done.returncode == 2
    assert done.stderr == b"derive: the output cannot be written: No space left on device\n"


def test_full_and_closed_streams_in_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", Full(OSError(28, "No space left on device")))
    assert main(["ask", "fsdp", "B/X", "--json"]) == 2
    assert "No space left" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdout", Full(BrokenPipeError(32, "Broken pipe")))
    assert main(["ask", "fsdp", "B/X"]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["ask", "fsdp", "B/X"]) == 2
    assert "standard output is closed" in capsys.readouterr().err


def test_a_message_that_cannot_be_written_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for stream in (None, Full(OSError(28, "No space left on device"))):
        monkeypatch.setattr(sys, "stderr", stream)
        assert main(["ask", "fdsp", "B/X"]) == 2
        assert main(["--foo"]) == 2
    assert capsys.readouterr().out == ""


def test_a_reader_that_leaves(process: Any) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = process(*ASK, stdout=write)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_narrow_encoding(process: Any) -> None:
    done = process(*ASK, PYTHONIOENCODING="ascii", LC_ALL="C", NO_COLOR="1")
    assert (done.returncode, done.stderr) == (0, b"")
    asked_in(done.stdout)


def asked_in(text: bytes) -> None:
    assert b"226.8 tokens per chip" in text
    assert text.isascii()
    assert b"\x1b" not in text


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8"])
def test_encodings_in_process(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    assert main(list(ASK)) == 0
    sys.stdout.flush()
    asked_in(written.getvalue())


def test_powers_of_ten_in_a_narrow_encoding() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    assert encodable("2.8×10¹⁵\u00a0FLOP, 10⁻⁴⁰", stream) == "2.8x10^15 FLOP, 10^-40"
    assert encodable("2×3 é", stream) == "2×3 é"


def test_what_a_terminal_acts_on_is_an_escape() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    typed = "\x1b[31m\x9b\x7f\r\u202e\u2028 two\u2009words\tand\na line é"
    shown = r"\x1b[31m\x9b\x7f\r\u202e\u2028" + " two\u2009words\tand\na line é"
    assert encodable(typed, stream) == shown
    assert str(DeriveError(f"no {typed}")) == f"no {shown}"


def test_json_escapes_what_a_terminal_acts_on(capsys: pytest.CaptureFixture[str]) -> None:
    write_json({"é": "\x9b\x7f"})
    out = capsys.readouterr().out
    assert "\\u009b\\u007f" in out and json.loads(out) == {"é": "\x9b\x7f"}


def test_messages_in_a_narrow_encoding(process: Any) -> None:
    done = process("ask", "fsd\u0440", "B/X", PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert done.stderr == b"derive: unknown strategy 'fsd\\u0440'; did you mean fsdp or hsdp?\n"


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("derive.commands.ask.run", stop)
    assert main(["ask", "fsdp", "B/X"]) == 2
    assert capsys.readouterr() == ("", "derive: interrupted\n")


def test_no_exception_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raised: list[Exception] = [MemoryError(), ValueError("a\nb")]

    def fail(_: object) -> None:
        raise raised[0]

    monkeypatch.setattr("derive.commands.ask.run", fail)
    assert main(["ask", "fsdp", "B/X"]) == 2
    assert "more memory is needed" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["derive", "ask", "fsdp", "B/X"])
    raised.pop(0)
    assert script() == 2
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1
    assert err.startswith("derive: a fault of derive's own: ValueError in test_streams.py")


# A process that was started in the background ignores the signal unless it is told not to.
INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import derive.cli as c
print(1, flush=True)
c.main([])
"""


def test_a_signal_leaves_no_traceback() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
    ) as child:  # fmt: skip
        assert child.stdout is not None and child.stdin is not None and child.stderr is not None
        child.stdout.readline()
        child.stdin.write(b"print(2, flush=True)\n")
        child.stdin.flush()
        child.stdout.readline()
        time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=30)
    assert errors == b"derive: interrupted\n"
