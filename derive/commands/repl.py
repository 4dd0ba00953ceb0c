"""`derive` without a command: a Python prompt with the names of the project loaded."""

from __future__ import annotations

import builtins
import code
import sys
from typing import Any

from derive.notation.errors import DeriveError

BANNER = """\
derive: closed forms for distributed training. Try
  threshold(fsdp, B/X)         the critical batch per chip
  optimum(fsdp_tensor, X)      the best FSDP degree
  threshold(tensor_parallel, Y).on(chip("tpu-v5p"), model("llama-3-70b"))
Symbols: {symbols}
Leave with Ctrl-D."""


class Console(code.InteractiveConsole):
    """The prompt; a mistake in the input is told in one line instead of a traceback."""

    def showtraceback(self) -> None:
        """Print a DeriveError as its message and anything else as Python does."""
        kind, value, _ = sys.exc_info()
        if kind is not None and issubclass(kind, DeriveError):
            self.write(f"{value}\\n".replace("\\n", "\n"))
        else:
            super().showtraceback()


def run() -> int:
    """Read and evaluate until the input ends; always 0."""
    import derive
    from derive.notation.symbols import vocabulary

    names: dict[str, Any] = {name: getattr(derive, name) for name in dir(derive)}
    names["__builtins__"] = builtins
    try:
        import readline
        import rlcompleter

        readline.set_completer(rlcompleter.Completer(names).complete)
        readline.parse_and_bind("tab: complete")
    except ImportError:  # no line editing on this platform: the prompt works without it
        pass
    Console(names).interact(BANNER.format(symbols=" ".join(vocabulary())), exitmsg="")
    return 0
