"""`derive` without a command: a Python prompt with the names of the project loaded."""

from __future__ import annotations

import builtins
import code
import errno
import os
import pydoc
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import format_exception_only
from typing import Any

import derive
from derive.commands import about, output
from derive.commands.completion import matches
from derive.cost.limits import LIMITS
from derive.cost.strategies import STRATEGIES
from derive.notation.errors import DeriveError, unknown
from derive.notation.symbols import vocabulary

BANNER = """\
derive: closed forms for distributed training. Try
  threshold(fsdp, B/X)         the critical batch per chip
  optimum(fsdp_tensor, X)      the best FSDP degree
  threshold(tensor_parallel, Y).on(chip("tpu-v5p"), model("llama-3-70b"))
  threshold(context_ring, T_r) tokens that hide the ring of context parallelism
{names}
help(fsdp), help(X), help(threshold), help("symbols") tell more. Leave with exit() or Ctrl-D."""

HISTORY_LINES = 1000


class Console(code.InteractiveConsole):
    """The prompt; a mistake in the input is told in one line instead of a traceback."""

    def write(self, data: str) -> None:
        """Print on standard error, in characters that it can write."""
        output.complain(data.removesuffix("\n"))

    def showtraceback(self) -> None:
        """Print a DeriveError as its message and anything else as Python's own last line."""
        _, value, _ = sys.exc_info()
        if isinstance(value, DeriveError):
            self.write(str(value))
        elif isinstance(value, OSError) and value.errno in (errno.ENOSPC, errno.EPIPE):
            raise value  # the answers go nowhere
        elif isinstance(value, NameError) and value.name is not None:
            self.write(str(unknown("name", value.name, self.locals)))
        else:
            self.write("".join(format_exception_only(value)).rstrip())


class Help:
    """What `help` is at the prompt: the page of a thing or a name of derive, Python's of others."""

    def __repr__(self) -> str:
        return about.index()

    def __call__(self, *things: object) -> None:
        for thing in things:
            told = about.about(thing) if isinstance(thing, str) else about.page(thing)
            if told:
                output.write(told)
            else:
                pydoc.help(thing)
        if not things:
            output.write(about.index())


def _display(value: object) -> None:
    """Show an answer as the command line does, and keep it as `_`."""
    if value is not None:
        output.write(repr(value))
        setattr(builtins, "_", value)  # noqa: B010 - mypy knows no builtins._


def _feed(console: Console) -> None:
    """Evaluate piped lines; neither banner nor prompts, so that the output is the answers."""
    if sys.stdin is None:
        raise DeriveError("the prompt reads standard input, which is closed")
    more = False
    try:
        for line in sys.stdin:
            line.encode()  # what was no text stands in it as surrogates
            more = console.push(line.rstrip("\r\n"))
    except UnicodeError:
        told = f"expected {sys.stdin.encoding} text to evaluate"
        raise DeriveError(f"{told}, found bytes that are none") from None
    if more:
        console.push("")


@contextmanager
def _line_editing(names: dict[str, Any]) -> Iterator[None]:
    """Completion, and the lines of former sessions; what cannot be read or written is
    done without."""
    try:
        import readline
        import rlcompleter
    except ImportError:  # no line editing on this platform: the prompt works without it
        yield
        return
    python = rlcompleter.Completer(names).complete
    words: list[str] = []

    def complete(text: str, state: int) -> str | None:
        if state == 0:
            typed = readline.get_line_buffer()[: readline.get_endidx()]
            words[:] = matches(typed, text, names, python)
        return words[state] if state < len(words) else None

    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    readline.set_history_length(HISTORY_LINES)
    with suppress(OSError, RuntimeError):  # no file yet, or no home
        readline.read_history_file(_history())
    try:
        yield
    finally:
        # A home that cannot be written is no fault of what was typed, and nothing else is lost.
        with suppress(OSError, RuntimeError):
            file = _history()
            file.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)


def _history() -> Path:
    """Where the lines that were typed are kept: the state folder of the user, by XDG's rules."""
    state = Path(os.environ.get("XDG_STATE_HOME") or "")
    return (state if state.is_absolute() else Path.home() / ".local/state") / "derive" / "history"


def run() -> int:
    """Read and evaluate until the input ends; always 0."""
    names: dict[str, Any] = {name: getattr(derive, name) for name in dir(derive)}
    names |= {"__builtins__": builtins, "help": Help()}
    symbols = [s for s, known in vocabulary().items() if known.role not in ("time", "axis")]
    listed = {"Strategies": STRATEGIES, "Limits of a step": LIMITS, "Symbols": symbols}
    wrapped = (
        textwrap.fill(f"{title}: {' '.join(each)}", width=80, subsequent_indent="  ")
        for title, each in listed.items()
    )
    shown, sys.displayhook = sys.displayhook, _display
    try:
        console = Console(names)
        if sys.stdin is not None and sys.stdin.isatty():
            with _line_editing(names):
                console.interact(BANNER.format(names="\n".join(wrapped)), exitmsg="")
        else:
            _feed(console)
    finally:
        sys.displayhook = shown
    return 0
