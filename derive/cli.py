"""The command line. SymPy is imported inside the commands, so that --help is quick.

Exit codes: 0 done; 1 asked rightly, and the answer is no (drift, no plan fits); 2 an error.
"""

from __future__ import annotations

import gc
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from traceback import extract_tb

from derive.commands import output
from derive.commands.parser import as_typed, parser
from derive.notation.errors import DeriveError, quoted, written


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. A mistake in the input is one message on stderr."""
    collecting = gc.isenabled()
    gc.disable()  # a command is short and keeps most of what it makes; the prompt turns it on
    try:
        return _run(arguments)
    finally:
        if collecting:
            gc.enable()


def script(arguments: Sequence[str] | None = None) -> int:
    """`main` as a process, which tells a fault of derive's own in one line as well."""
    try:
        return main(arguments)
    except ModuleNotFoundError as error:
        output.complain(f"{error.name} is not installed; run: pip install -e '.[book]'")
        return 2
    except Exception as error:
        place = extract_tb(error.__traceback__)[-1]
        told = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno}"
        output.complain(f"derive: a fault of derive's own: {told}: {written(error)}")
        return 2
    finally:
        gc.freeze()  # what is left goes with the process, unsearched


def _run(arguments: Sequence[str] | None) -> int:
    options = Namespace()
    try:
        try:
            options = parser().parse_args(arguments)
        except SystemExit as stop:  # argparse, after --help or a mistake
            output.flush()
            return stop.code if isinstance(stop.code, int) else 2
        code = _answered(options)
        output.flush()
        return code
    except DeriveError as error:
        output.complain(f"derive: {as_typed(str(error))}")
    except KeyboardInterrupt:
        output.complain("derive: interrupted")
    except MemoryError:
        output.complain("derive: more memory is needed than there is; ask for less")
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing is left to tell it, but 0 would say "clean".
        output.discard()
        return 2 if hasattr(options, "check") else 0
    except OSError as error:
        output.discard()
        # Where no file is named, it is the output that the system refused to write.
        what = "the output cannot be written" if error.filename is None else quoted(error.filename)
        output.complain(f"derive: {what}: {error.strerror or type(error).__name__}")
    return 2


def _answered(options: Namespace) -> int:
    """Run the command that was typed, print its answer and return the exit code."""
    if not hasattr(options, "command"):
        gc.enable()
        return import_module("derive.commands.repl").run()  # type: ignore[no-any-return]
    command = import_module(f"derive.commands.{options.command}")
    data, text, *code = getattr(command, options.call)(options)
    if getattr(options, "json", False) or getattr(options, "format", "") == "json":
        output.write_json(data)
    elif text:
        output.write(text, verbatim=hasattr(options, "check"))
    return code[0] if code else 0
