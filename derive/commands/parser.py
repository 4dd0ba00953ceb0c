"""What can be typed: the commands and their options. What a command needs is imported when it runs,
so that --help is quick."""

from __future__ import annotations

import re
import sys
from argparse import Action, ArgumentParser, Namespace, _ActionsContainer
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from derive.notation.errors import DeriveError, quoted, unknown

OVERLAPS = ("concurrent", "serial")
PASSES = ("each", "forward", "backward", "step")
KEEPS = ("activations", "none", "weights", "all")
FORMATS = ("text", "json", "github", "junit")
STYLES = ("table", "notebook")
SPLITS = ("divisors", "powers_of_two", "torus")
TASK = {
    "model": "such as llama-3-70b",
    "chip": "such as h100",
    "cards": "how many chips",
    "seq": "tokens of a sequence",
    "batch": "sequences of a step",
}
NETWORK = "what the moves run over: chip (default), torus, node, two-level or egress"
METAVARS = {"seq": "TOKENS", "batch": "SEQUENCES"}
PLANNED = (*TASK, "layout", "tokens", "assume", "set", "profile", "facts")
# How messages write an argument, and the option that is typed for it.
_AS_TYPED = (
    (re.compile(r"\bleave out (?=[A-Za-z]\w*$)"), "leave out --set "),
    (re.compile(r'\b(precision|gradients)="(\w+)"'), r"--\1 \2"),
    (re.compile(r'\bpasses="(\w+)"'), r"--pass \1"),
    (re.compile(r"(?<!-)\bset (?=\w+=)"), "--set "),
    (re.compile(r"(?<=\.\.\.), (?=\w+=\.\.\.)"), " --set "),
    (re.compile(r"\bleave gated out\b"), "leave out --gated"),
    (re.compile(r"(unknown symbol .*, none like it)$"), r"\1; derive symbols lists them"),
    (re.compile(r"\bfixed=\[(\w+)(?:, \w+)*\]"), r"--set \1=..."),
    (re.compile(r"^(cards|seq|batch)\b(?!\.)"), r"--\1"),
    (re.compile(r"\b(?:the )?network (torus|node|two-level|egress|hbm)\b"), r"--network \1"),
)


def as_typed(message: str) -> str:
    """A message with the options of the command line for the arguments that it names; what was
    typed stands in it as it was."""
    typed = re.findall(r"'[^']*'", message)
    message = re.sub(r"'[^']*'", "''", message)
    for pattern, option in _AS_TYPED:
        message = pattern.sub(option, message)
    return re.sub("''", lambda _: typed.pop(0), message)


class _Once(Action):
    """Stores a value, and refuses an option that is given twice."""

    def __call__(
        self,
        parser: ArgumentParser,
        namespace: Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        given = namespace.__dict__.setdefault("given", set())
        if self.dest in given:
            raise DeriveError(f"{option_string} is given twice, the second time {quoted(values)}")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


class _Parser(ArgumentParser):
    """argparse with one line for a mistake, offering the nearest command or option."""

    def error(self, message: str) -> Any:
        raise DeriveError(f"{message}; see {self.prog} --help")

    def _check_value(self, action: Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            command = isinstance(action.choices, dict)
            kind = "command" if command else str(action.metavar or action.dest).lower()
            raise unknown(kind, str(value), action.choices)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, with the nearest option for one that is not known."""
        options, extra = self.parse_known_args(args, namespace)
        for word in extra:
            if word.startswith("-"):
                raise unknown("option", word, self._options(args))
            raise DeriveError(f"one argument too many: {quoted(word)}; quote what holds spaces")
        return options

    def _options(self, args: Any) -> list[str]:
        """The options of the command that was named, for a hint."""
        words = sys.argv[1:] if args is None else args
        parsers = [self]
        for action in self._actions:
            if isinstance(action.choices, dict):
                parsers += [action.choices[w] for w in words if w in action.choices]
        return [o for p in parsers for o in p._option_string_actions if o.startswith("--")]


@lru_cache(maxsize=1)
def parser() -> ArgumentParser:
    """The parser of the command line: of options, `command` names the module of the command that
    was given and `call` its function; both are missing where none was given."""
    whole = _Parser(
        prog="derive",
        description="Thresholds, proofs and numbers of distributed training.",
        epilog="Without a command: a Python prompt with the names loaded.",
        allow_abbrev=False,
    )
    commands = whole.add_subparsers(metavar="COMMAND")
    _ask(_command(commands, "ask", "a closed form, its derivation and its value"))
    _layer(_command(commands, "layer", "FLOPs, moves and saved tensors of any block and layout"))
    _reshard(_command(commands, "reshard", "the moves that bring a tensor to another layout"))
    value = _command(commands, "value", "an expression of symbols, its number and where it is from")
    value.add_argument("expression", metavar="EXPRESSION", help="such as C/W or alpha**2/F")
    _given(value)
    _plan(_command(commands, "plan", "the ranked plans of a model on so many cards"))
    validate = _command(commands, "validate", "predicted times and memory against measured runs")
    told = "a CSV or JSONL file of measured runs; the published ones without"
    validate.add_argument("runs", nargs="?", metavar="RUNS", help=told)
    told = "what of chips and clusters the published runs fit, and no errors"
    validate.add_argument("--fit", action="store_true", help=told)
    _once(validate, "--source", metavar="KEY", help="the runs of one source, such as narayanan2021")
    _facts(validate, "whose readings of the facts", "scaling-book")
    _json(validate)
    _mesh(_command(commands, "mesh", "groups of a device mesh and coordinates of a rank"))
    facts = _command(commands, "facts", "chips and models, their readings and sources")
    facts.add_argument("name", nargs="?", metavar="NAME", help="a chip or model; all without")
    _facts(facts, "whose readings are in use", "scaling-book")
    _once(facts, "--chapters", metavar="FOLDER", help="a book whose own facts are known, too")
    _json(facts)
    sources = _command(commands, "sources", "the documents that can be cited", "facts", "sources")
    sources.add_argument("key", nargs="?", metavar="KEY", help="of a document; all without")
    _facts(sources, "whose readings are in use", "scaling-book")
    _once(sources, "--chapters", metavar="FOLDER", help="a book whose own facts are known, too")
    _json(sources)
    _json(_command(commands, "symbols", "every symbol, its unit and gloss", "facts", "symbols"))
    about = _command(commands, "about", "what a name stands for, what can be asked, lines to try")
    told = "a strategy, block, limit, symbol, assumption, chip or model; a list of them without"
    about.add_argument("name", nargs="?", metavar="NAME", help=told)
    new = _command(commands, "new", "a chapter to begin with, which builds at once")
    new.add_argument("name", metavar="NN-TITLE", help="such as 05-data-parallelism")
    _once(new, "--chapters", metavar="FOLDER", help="the folder of chapters; made if not there")
    _json(new)
    build = _command(commands, "build", "the chapters rendered, or checked")
    build.add_argument("chapter", nargs="*", metavar="NN", help="a chapter's number; all without")
    what = build.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="write nothing; exit 1 for drift")
    told = "write DRAFT.md, with a mark at what is missing, and no README.md"
    what.add_argument("--draft", action="store_true", help=told)
    told = "change what the book rests on, one thing at a time, and name what nothing notices"
    what.add_argument("--mutate", action="store_true", help=told)
    _once(build, "--only", metavar="TEXT", help="of --mutate: the changes whose names have it")
    build.add_argument("--tests", action="store_true", help="of --mutate: run tests on survivors")
    told = "go on, with each chapter whose files change, until Ctrl-C"
    build.add_argument("--watch", action="store_true", help=told)
    _once(build, "--chapters", metavar="FOLDER", help="the folder of chapters")
    form = build.add_mutually_exclusive_group()
    _chosen(form, "--format", FORMATS, "what a check prints: ")
    form.add_argument("--json", dest="format", action="store_const", const="json", help="as JSON")
    audit = _command(commands, "audit", "the figures of any text, by comments behind them")
    audit.add_argument("file", nargs="+", metavar="FILE", help="such as book.md")
    _facts(audit, "whose readings of the facts, where a comment names none")
    _once(audit, "--chapters", metavar="FOLDER", help="the book whose figures `why 06.x` asks for")
    audit.add_argument("--bare", action="store_true", help="count the numbers without a comment")
    form = audit.add_mutually_exclusive_group()
    _chosen(form, "--format", FORMATS, "what is printed: ")
    form.add_argument("--json", dest="format", action="store_const", const="json", help="as JSON")
    figures = _command(commands, "figures", "every figure of the book", "build", "figures")
    figures.add_argument("chapter", nargs="*", metavar="NN", help="a chapter's number; all without")
    _once(figures, "--chapters", metavar="FOLDER", help="the folder of chapters")
    _json(figures)
    why = _command(commands, "why", "the tree of one figure down to its sources", "build", "why")
    told = "such as 06.alpha-v5p, or plan.RANK.NAME with the options of plan: plan.1.mfu"
    why.add_argument("figure", metavar="CHAPTER.FIGURE", help=told)
    _task(why, required=False)
    _once(why, "--chapters", metavar="FOLDER", help="the folder of chapters")
    return whole


def _command(commands: Any, name: str, text: str, command: str = "", call: str = "run") -> Any:
    one = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    # Else "-1e3" is taken for an option, and the message is that a value is missing.
    one._negative_number_matcher = re.compile(r"-[0-9.]")
    one.set_defaults(command=command or name, call=call)
    return one


def _once(one: _ActionsContainer, option: str, **more: Any) -> None:
    one.add_argument(option, action=_Once, **more)


def _json(one: ArgumentParser) -> None:
    one.add_argument("--json", action="store_true", help="as JSON")


def _facts(one: ArgumentParser, told: str, default: str | None = None) -> None:
    _once(one, "--profile", default=default, help=told)
    one.add_argument("--facts", metavar="FILE", action="append", help="a TOML file of your own")


def _chosen(
    one: _ActionsContainer, option: str, choices: Sequence[str], told: str = "", **more: Any
) -> None:
    words = f"{told}{', '.join(choices[:-1])} or {choices[-1]}; the first is the default"
    metavar = option.removeprefix("--").upper()
    _once(one, option, choices=choices, metavar=metavar, help=words, **more)


def _ask(ask: ArgumentParser) -> None:
    told = (
        "such as fsdp_tensor, a sharding, a block such as layer with --layout, or a limit of a "
        "training step such as context_ring"
    )
    ask.add_argument("strategy", metavar="STRATEGY", help=told)
    ask.add_argument("question", metavar="QUESTION", help="a symbol or ratio: B/X, B/N, Y, N, F")
    _values(ask)
    told = (
        "of a limit (context_ring, pipeline_bubble, tensor_share, gradient_sync, batch_feed): "
        "default or notebook, or such as notebook+ring_tensor"
    )
    _once(ask, "--assume", help=told)
    _chosen(ask, "--overlap", OVERLAPS)
    _chosen(ask, "--pass", PASSES, dest="passes")
    form = ask.add_mutually_exclusive_group()
    for option, told in (
        ("exact", "collectives over n devices send (n-1)/n of an array; the default of --feasible"),
        ("large-n", "(n-1)/n taken as 1; the default of all else"),
    ):
        form.add_argument(f"--{option}", dest="form", action="store_const", const=option, help=told)
    told = "axes do not wrap around"
    ask.add_argument("--no-wrap", dest="wrap", action="store_const", const=False, help=told)
    ask.add_argument("--steps", action="store_true", help="show the derivation")
    told = "the closed form as SMT-LIB 2 text: questions that z3 -in answers with unsat"
    ask.add_argument("--smt", action="store_true", help=told)
    what = ask.add_mutually_exclusive_group()
    what.add_argument("--best", action="store_true", help="the optimum of a mesh axis")
    told = f"what survives rounding: {', '.join(SPLITS[:-1])} or {SPLITS[-1]}"
    what.add_argument("--feasible", action=_Once, metavar="SPLITS", choices=SPLITS, help=told)


def _layer(layer: ArgumentParser) -> None:
    told = (
        '"In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]", a strategy such as fsdp, or '
        "a block such as layer with --layout"
    )
    layer.add_argument("sharding", metavar="SHARDING", help=told)
    _values(layer)
    _least(layer)
    told = "with --least, the dimension whose length turns it; the first one of each product if not"
    _once(layer, "--turns", metavar="DIM", help=told)


def _reshard(reshard: ArgumentParser) -> None:
    told = 'a tensor in two layouts, such as "T[B_X, D] -> T[B, D_X]"'
    reshard.add_argument("layouts", metavar="LAYOUTS", help=told)
    _given(reshard)
    _once(reshard, "--network", help=NETWORK)
    _least(reshard)


def _least(one: ArgumentParser) -> None:
    told = (
        "the program that sends the fewest bytes at the sizes that are set, not the canonical one"
    )
    one.add_argument("--least", dest="program", action="store_const", const="least", help=told)


def _given(one: ArgumentParser) -> None:
    """What gives values to symbols."""
    _once(one, "--chip", metavar="CHIP", help="such as tpu-v5p")
    _once(one, "--model", metavar="MODEL", help="such as llama-3-70b")
    told = "a symbol's value, with a unit or not"
    one.add_argument("--set", metavar="NAME=VALUE", action="append", help=told)
    _facts(one, "whose readings of the facts", "scaling-book")
    _once(one, "--precision", help="bf16 (default), fp8, int8, fp4, fp32 or any")
    _json(one)


def _values(one: ArgumentParser) -> None:
    """What `ask` and `layer` take."""
    _given(one)
    _chosen(one, "--keep", KEEPS, "gathered tensors kept for the backward pass: ")
    _once(one, "--kernels", help="of attention: fused (default), unfused or recomputed")
    for name, told in (("norm", "norms"), ("glu", "gates")):
        _once(one, f"--{name}", help=f"kernels of {told}: fused (default) or unfused")
    one.add_argument("--gated", action="store_const", const=True, help="three matrices per layer")
    told = 'how a block is spread: "B:X D:X", dimension:axis, limited as in "D:dp(weights)"'
    _once(one, "--layout", metavar="RULES", help=told)
    told = "the parameters of a block that is written out, if not the tensors called W or W_..."
    _once(one, "--parameters", metavar="NAMES", help=told)
    _once(one, "--network", help=NETWORK)
    _once(one, "--gradients", help="precision of the weight gradients")


def _plan(plan: ArgumentParser) -> None:
    _task(plan, required=True)
    _once(plan, "--top", metavar="K", help="how many plans; 0: all")
    told = "why plan A beats plan B, each a rank or such as tp=8,cp=1,pp=1"
    _once(plan, "--why", nargs=2, metavar=("A", "B"), help=told)
    told = "the rank of a plan as well, such as tp=8,cp=1,pp=4"
    plan.add_argument("--also", metavar="DEGREES", action="append", help=told)
    _chosen(plan, "--style", STYLES)
    _json(plan)


def _task(one: ArgumentParser, *, required: bool) -> None:
    """What is planned; `derive why` takes it as well, for a figure plan.RANK.NAME."""
    for name, told in TASK.items():
        _once(one, f"--{name}", required=required, metavar=METAVARS.get(name), help=told)
    told = "degrees to hold and choices of the step: tp=8,pp=16,virtual=8,zero=1,recompute=full"
    told += ", or the layers of each stage: layers=7-14x8-7"
    _once(one, "--layout", metavar="LAYOUT", help=told)
    _once(one, "--tokens", metavar="TOKENS", help="of a run, whose days are told: 15T")
    told = "notebook, corrected or default (the default), or such as notebook+ring_tensor"
    _once(one, "--assume", help=told)
    told = "a constant (eta=0.5, M_hbm=96 GB), or a degree to hold, as of --layout"
    one.add_argument("--set", metavar="NAME=VALUE", action="append", help=told)
    _facts(one, "whose readings of the facts")


def _mesh(mesh: ArgumentParser) -> None:
    told = "such as tp=2,cp=2,dp=2,pp=2, innermost first"
    _once(mesh, "--sizes", required=True, help=told)
    _once(mesh, "--cards-per-node", required=True, metavar="N", help="cards of a node")
    told = "axes from the inside out (tp,cp,dp,pp or tp-cp-dp-pp), megatron, torchtitan, llama3"
    _once(mesh, "--order", help=told)
    _once(mesh, "--rank", metavar="R", help="a rank to locate")
    told = "coordinates whose rank is asked for, such as tp=1,dp=1 (an axis left out is at 0)"
    _once(mesh, "--at", metavar="INDICES", help=told)
    told = "the same cards regrouped for experts, such as ep=4 or etp=2,ep=4"
    _once(mesh, "--experts", metavar="SIZES", help=told)
    _json(mesh)
