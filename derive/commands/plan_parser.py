"""The options of `derive plan` and `derive mesh`; what they need is imported when they run."""

from __future__ import annotations

import re
from argparse import Action, ArgumentParser, Namespace
from functools import partial
from importlib import import_module
from typing import Any

TASK_OPTIONS = ("model", "chip", "cards", "seq", "batch", "assume", "set", "profile", "facts")


def add_plan_parser(commands: Any, once: type[Action]) -> None:
    """Add `derive plan`; `once` is the action of an option that may be given one time."""
    parser = _command(commands, "plan", "the ranked plans of a model on so many cards")
    add_task_options(parser, once, required=True)
    add = parser.add_argument
    add("--top", action=once, metavar="K", help="how many plans; 0: all")
    told = "why plan A beats plan B, each a rank or such as tp=8,cp=1,pp=1"
    add("--why", action=once, nargs=2, metavar=("A", "B"), help=told)
    told = "the rank of a plan as well, such as tp=8,cp=1,pp=4"
    add("--also", metavar="DEGREES", action="append", help=told)
    add("--style", action=once, help="table (the default) or notebook")
    add("--json", action="store_true", help="as JSON")


def add_task_options(parser: ArgumentParser, once: type[Action], *, required: bool) -> None:
    """What is planned; `derive why` takes it as well, for a figure plan.RANK.NAME."""
    for name, metavar, told in (
        ("--model", None, "such as llama-3-70b"),
        ("--chip", None, "such as h100"),
        ("--cards", None, "how many chips"),
        ("--seq", "TOKENS", "tokens of a sequence"),
        ("--batch", "SEQUENCES", "sequences of a step"),
    ):
        parser.add_argument(name, action=once, required=required, metavar=metavar, help=told)
    told = "notebook or default (the default), or such as notebook+ring_tensor"
    parser.add_argument("--assume", action=once, help=told)
    told = "a constant (eta=0.5, M_hbm=96 GB), or a degree to hold (tp, cp, pp, dp, b_seq)"
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", help=told)
    parser.add_argument("--profile", action=once, help="whose readings of the facts")
    parser.add_argument("--facts", metavar="FILE", action="append", help="a TOML file of your own")


def add_limit_options(ask: ArgumentParser, once: type[Action]) -> None:
    """What `derive ask` takes where the strategy is a limit of the step model."""
    ask.add_argument(
        "--assume",
        action=once,
        help="of a limit (context_ring, pipeline_bubble, tensor_share, gradient_sync, batch_feed): "
        "default or notebook, or such as notebook+ring_tensor",
    )


def add_mesh_parser(commands: Any, once: type[Action]) -> None:
    """Add `derive mesh`."""
    parser = _command(commands, "mesh", "groups of a device mesh and coordinates of a rank")
    add = parser.add_argument
    told = "such as tp=2,cp=2,dp=2,pp=2, innermost first"
    add("--sizes", action=once, required=True, help=told)
    add("--cards-per-node", action=once, required=True, metavar="N", help="cards of a node")
    told = "axes from the inside out (tp,cp,dp,pp or tp-cp-dp-pp), megatron, torchtitan, llama3"
    add("--order", action=once, help=told)
    add("--rank", action=once, metavar="R", help="a rank to locate")
    told = "coordinates whose rank is asked for, such as tp=1,dp=1 (an axis left out is at 0)"
    add("--at", action=once, metavar="INDICES", help=told)
    told = "the same cards regrouped for experts, such as ep=4 or etp=2,ep=4"
    add("--experts", action=once, metavar="SIZES", help=told)
    add("--json", action="store_true", help="as JSON")


def _command(commands: Any, name: str, text: str) -> ArgumentParser:
    parser: ArgumentParser = commands.add_parser(
        name, help=text, description=text, allow_abbrev=False
    )
    # Else "-1e3" is taken for an option, and the message is that a value is missing.
    parser._negative_number_matcher = re.compile(r"-[0-9.]")
    parser.set_defaults(run=partial(_run, name))
    return parser


def _run(command: str, options: Namespace) -> int:
    from derive.commands import output

    data, text, *code = import_module(f"derive.commands.{command}").run(options)
    if options.json:
        output.write_json(data)
    else:
        output.write(text)
    return code[0] if code else 0
