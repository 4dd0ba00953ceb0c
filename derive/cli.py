"""The command line. SymPy is imported inside the commands, so that --help is quick.

Exit codes: 0 done, 1 no plan fits (drift in build.py --check), 2 an error in the input.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any

from derive.commands import output
from derive.commands.plan_parser import (
    TASK_OPTIONS,
    add_limit_options,
    add_mesh_parser,
    add_plan_parser,
    add_task_options,
)
from derive.notation.errors import DeriveError, quoted, unknown

OVERLAPS = ("concurrent", "serial")
PASSES = ("each", "forward", "backward", "step")
KEEPS = ("activations", "none", "weights", "all")
NETWORKS = ("chip", "torus", "node", "two-level", "egress")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. A mistake in the input is one message on stderr."""
    collecting = gc.isenabled()
    gc.disable()  # a command is short and keeps most of what it makes; the prompt turns it on
    try:
        return _run(arguments)
    finally:
        if collecting:
            gc.enable()


def _run(arguments: Sequence[str] | None) -> int:
    try:
        try:
            options = _parser().parse_args(arguments)
        except SystemExit as stop:  # argparse, after --help or a mistake
            output.flush()
            return stop.code if isinstance(stop.code, int) else 2
        code = options.run(options)
        output.flush()
        return int(code)
    except DeriveError as error:
        output.complain(f"derive: {error}")
    except KeyboardInterrupt:
        output.complain("derive: interrupted")
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing is left to tell it.
        output.discard()
        return 0
    except OSError as error:
        output.discard()
        output.complain(f"derive: {_told(error)}")
    return 2


def _told(error: OSError) -> str:
    """What the system refused: to write the output (where no file is named), or a file."""
    reason = error.strerror or type(error).__name__
    if error.filename is None:
        return f"the output cannot be written: {reason}"
    return f"{quoted(error.filename)}: {reason}"


class _Once(argparse.Action):
    """Stores a value, and refuses an option that is given twice."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        given = namespace.__dict__.setdefault("given", set())
        if self.dest in given:
            raise DeriveError(f"{option_string} is given twice, the second time {quoted(values)}")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


class _Parser(argparse.ArgumentParser):
    """argparse with one line for a mistake, offering the nearest command or option."""

    def error(self, message: str) -> Any:
        output.complain(f"{self.prog}: {message}; see {self.prog} --help")
        raise SystemExit(2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            kind = (
                "command" if isinstance(action.choices, dict) else (action.metavar or action.dest)
            )
            raise unknown(str(kind).lower(), str(value), list(action.choices))

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, with the nearest option for one that is not known."""
        found, extra = self.parse_known_args(args, namespace)
        for word in extra:
            if word.startswith("-"):
                raise unknown("option", word, self._options(args))
            raise DeriveError(f"one argument too many: {quoted(word)}; quote what holds spaces")
        return found

    def _options(self, args: Any) -> list[str]:
        """The options of the command that was named, for a hint."""
        words = sys.argv[1:] if args is None else args
        parsers = [self]
        for action in self._actions:
            if isinstance(action.choices, dict):
                parsers += [action.choices[w] for w in words if w in action.choices]
        return [o for p in parsers for o in p._option_string_actions if o.startswith("--")]


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="derive",
        description="Thresholds, proofs and numbers of distributed training.",
        epilog="Without a command: a Python prompt with the names loaded.",
        allow_abbrev=False,
    )
    parser.set_defaults(run=_repl)
    commands = parser.add_subparsers(metavar="COMMAND")
    _ask_parser(commands)
    _layer_parser(commands)
    add_plan_parser(commands, _Once)
    add_mesh_parser(commands, _Once)
    facts = _command(commands, "facts", "chips and models, their readings and sources", _facts)
    facts.add_argument("name", nargs="?", metavar="NAME", help="a chip or model; all without")
    facts.add_argument(
        "--profile", action=_Once, default="scaling-book", help="whose readings are in use"
    )
    facts.add_argument("--facts", metavar="FILE", action="append", help="a TOML file of your own")
    facts.add_argument("--json", action="store_true", help="as JSON")
    figures = _command(commands, "figures", "every figure of the book", _figures)
    figures.add_argument(
        "--chapters", action=_Once, metavar="FOLDER", help="the folder of chapters"
    )
    figures.add_argument("--json", action="store_true", help="as JSON")
    why = _command(commands, "why", "the tree of one figure down to its sources", _why)
    why.add_argument(
        "figure",
        metavar="CHAPTER.FIGURE",
        help="such as 06.alpha-v5p, or plan.RANK.NAME with the options of plan: plan.1.mfu",
    )
    add_task_options(why, _Once, required=False)
    why.add_argument("--chapters", action=_Once, metavar="FOLDER", help="the folder of chapters")
    return parser


def _command(
    commands: Any, name: str, text: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=text, allow_abbrev=False
    )
    parser.set_defaults(run=run)
    return parser


def _ask_parser(commands: Any) -> None:
    parser = _command(commands, "ask", "a closed form, its derivation and its value", _ask)
    parser.add_argument(
        "strategy",
        metavar="STRATEGY",
        help="such as fsdp_tensor, a sharding, or a limit of the step model such as context_ring",
    )
    parser.add_argument("question", metavar="QUESTION", help="a symbol or ratio: B/X, B/N, Y, N, F")
    _values(parser)
    add_limit_options(parser, _Once)
    parser.add_argument(
        "--overlap", action=_Once, choices=OVERLAPS, metavar="OVERLAP", help=_one_of(OVERLAPS)
    )
    parser.add_argument(
        "--pass", dest="passes", action=_Once, choices=PASSES, metavar="PASS", help=_one_of(PASSES)
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--exact", dest="form", action="store_const", const="exact",
        help="collectives over n devices send (n-1)/n of an array; the default of --feasible",
    )  # fmt: skip
    form.add_argument(
        "--large-n", dest="form", action="store_const", const="large-n",
        help="(n-1)/n taken as 1; the default of all else",
    )  # fmt: skip
    parser.add_argument(
        "--no-wrap", dest="wrap", action="store_const", const=False, help="axes do not wrap around"
    )
    parser.add_argument(
        "--network", action=_Once, choices=NETWORKS, metavar="NETWORK",
        help=f"{_one_of(NETWORKS)}: what the chip has",
    )  # fmt: skip
    parser.add_argument("--steps", action="store_true", help="show the derivation")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--best", action="store_true", help="the optimum of a mesh axis")
    what.add_argument(
        "--feasible",
        action=_Once,
        metavar="SPLITS",
        choices=("divisors", "powers_of_two", "torus"),
        help="what survives rounding: divisors, powers_of_two or torus",
    )


def _layer_parser(commands: Any) -> None:
    parser = _command(commands, "layer", "FLOPs and moves of any sharding", _layer)
    parser.add_argument(
        "sharding",
        metavar="SHARDING",
        help='"In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]" or a strategy',
    )
    _values(parser)


def _values(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--chip", action=_Once, metavar="CHIP", help="such as tpu-v5p")
    parser.add_argument("--model", action=_Once, metavar="MODEL", help="such as llama-3-70b")
    parser.add_argument(
        "--set", metavar="NAME=VALUE", action="append", help="a symbol's value, with a unit or not"
    )
    parser.add_argument(
        "--profile", action=_Once, default="scaling-book", help="whose readings of the facts"
    )
    parser.add_argument("--facts", metavar="FILE", action="append", help="a TOML file of your own")
    parser.add_argument(
        "--keep",
        action=_Once,
        choices=KEEPS,
        metavar="KEEP",
        help=f"gathered tensors kept for the backward pass: {_one_of(KEEPS)}",
    )
    parser.add_argument(
        "--gated", action="store_const", const=True, help="three matrices per layer"
    )
    parser.add_argument(
        "--layout", action=_Once, metavar="RULES",
        help='how a block is spread: "B:X D:X", dimension:axis, limited as in "D:dp(weights)"',
    )  # fmt: skip
    parser.add_argument(
        "--parameters", action=_Once, metavar="NAMES",
        help="the tensors of a block that are parameters, if not those called W or W_...",
    )  # fmt: skip
    parser.add_argument(
        "--precision", action=_Once, help="bf16 (default), fp8, int8, fp4, fp32 or any"
    )
    parser.add_argument("--gradients", action=_Once, help="precision of the weight gradients")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _one_of(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}; the first is the default"


def _print(data: Any, text: str, as_json: bool) -> int:
    if as_json:
        output.write_json(data)
    else:
        output.write(text)
    return 0


def _ask(options: argparse.Namespace) -> int:
    from derive.commands import ask

    return _print(*ask.run(options), options.json)


def _layer(options: argparse.Namespace) -> int:
    from derive.commands import layer

    return _print(*layer.run(options), options.json)


def _facts(options: argparse.Namespace) -> int:
    from derive.commands import facts

    return _print(*facts.run(options), options.json)


def _figures(options: argparse.Namespace) -> int:
    from derive.commands import book

    data, text = book.figures(options.chapters)
    return _print(data, text, options.json)


def _why(options: argparse.Namespace) -> int:
    if options.figure.startswith("plan."):
        from derive.commands import plan

        output.write(plan.why(options))
        return 0
    from derive.commands import book

    for name in TASK_OPTIONS:
        if getattr(options, name) is not None:
            raise DeriveError(f"--{name}: of a plan alone, such as plan.1.mfu")
    output.write(book.why(options.figure, options.chapters))
    return 0


def _repl(options: argparse.Namespace) -> int:
    from derive.commands import repl

    gc.enable()
    return repl.run()


if __name__ == "__main__":
    raise SystemExit(main())
