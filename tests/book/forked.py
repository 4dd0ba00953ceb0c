"""Builds as processes of their own, forked from one that has built a chapter: a JSON list of
jobs a line in, their exit codes a line out.

A job has the root, the template's text and a signal that it sends itself at its n-th call that
touches the disk: 9 ends it there, 15 asks it to end, 19 stops it until the next job has started.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from derive.cli import script

FIGURES = """
from derive.book import *

chapter = Chapter("01", "Warm")
chapter.plot("p", Plot("warm", "x", "y", [("a", [1, 2], [1, 2])]), alt="a")
"""
CALLS = ("open", "fsync", "replace", "chmod", "unlink")


def disturbed(number: int, moment: int) -> None:
    """Send this process the signal at the `moment`-th of the calls that follow."""
    calls = 0

    def hooked(name: str) -> None:
        real = getattr(os, name)

        def call(*arguments, **named):
            nonlocal calls
            calls += 1
            if calls == moment:
                os.kill(os.getpid(), number)
            return real(*arguments, **named)

        setattr(os, name, call)

    for name in CALLS:
        hooked(name)


def started(job: dict) -> int:
    """The process that builds."""
    root = Path(job["root"])
    for name, text in job["write"].items():
        if (root / name).read_text() != text:  # which another that was started may be reading
            (root / name).write_text(text)
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    out = os.open(root / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    code = 70
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored under some shells
    try:
        disturbed(job["signal"], job["moment"])
        code = script(["build", "--chapters", str(root)])
    finally:
        os._exit(code)


def ended(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


with TemporaryDirectory() as warm, redirect_stdout(StringIO()):
    folder = Path(warm, "01-warm")
    folder.mkdir()
    (folder / "chapter.md.j2").write_text("# Warm\n<< plot('p') >>\n")
    (folder / "figures.py").write_text(FIGURES)
    assert script(["build", "--chapters", warm]) == 0
for line in sys.stdin:
    processes = []
    stopped = 0
    for job in json.loads(line):
        processes.append(started(job))
        if job["signal"] == signal.SIGSTOP and job["moment"]:
            os.waitpid(processes[-1], os.WUNTRACED)
            stopped = processes[-1]
    if stopped:
        time.sleep(0.3)  # the others get as far as they can beside it
        os.kill(stopped, signal.SIGCONT)
    print(json.dumps([ended(process) for process in processes]), flush=True)
