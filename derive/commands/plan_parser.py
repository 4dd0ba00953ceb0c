"""The options of `derive plan` and `derive mesh`; what they need is imported when they run."""

from __future__ import annotations

import re
from argparse import Action, ArgumentParser, Namespace
from typing import Any

TASK_OPTIONS = ("model", "chip", "cards", "seq", "batch", "assume", "set", "profile", "facts")


def add_plan_parser(commands: Any, once: type[Action]) -> None:
    """Add `derive plan`; `once` is the action of an option that may be given one time."""
    parser = _command(commands, "plan", "the ranked plans of a model on so many cards", _plan)
    add_task_options(parser, once, required=True)
    parser.add_argument("--top", action=once, metavar="K", help="how many plans; 0: all")
    parser.add_argument(
        "--why",
        action=once,
        nargs=2,
        metavar=("A", "B"),
        help="why plan A beats plan B, each a rank or such as tp=8,cp=1,pp=1",
    )
    parser.add_argument(
        "--also",
        metavar="DEGREES",
        action="append",
        help="the rank of a plan as well, such as tp=8,cp=1,pp=4",
    )
    parser.add_argument("--style", action=once, help="table (the default) or notebook")
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_task_options(parser: ArgumentParser, once: type[Action], *, required: bool) -> None:
    """What is planned; `derive why` takes it as well, for a figure plan.RANK.NAME."""
    parser.add_argument("--model", action=once, required=required, help="such as llama-3-70b")
    parser.add_argument("--chip", action=once, required=required, help="such as h100")
    parser.add_argument("--cards", action=once, required=required, help="how many chips")
    parser.add_argument(
        "--seq", action=once, required=required, metavar="TOKENS", help="tokens of a sequence"
    )
    parser.add_argument(
        "--batch", action=once, required=required, metavar="SEQUENCES", help="sequences of a step"
    )
    parser.add_argument(
        "--assume",
        action=once,
        help="notebook or default (the default), or such as notebook+ring_tensor",
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        help="a constant (eta=0.5, M_hbm=96 GB), or a degree to hold (tp, cp, pp, dp, b_seq)",
    )
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
    parser = _command(commands, "mesh", "groups of a device mesh and coordinates of a rank", _mesh)
    parser.add_argument(
        "--sizes", action=once, required=True, help="such as tp=2,cp=2,dp=2,pp=2, innermost first"
    )
    parser.add_argument(
        "--cards-per-node", action=once, required=True, metavar="N", help="cards of a node"
    )
    parser.add_argument(
        "--order",
        action=once,
        help="axes from the inside out (tp,cp,dp,pp or tp-cp-dp-pp), megatron, torchtitan, llama3",
    )
    parser.add_argument("--rank", action=once, metavar="R", help="a rank to locate")
    parser.add_argument(
        "--at",
        action=once,
        metavar="INDICES",
        help="coordinates whose rank is asked for, such as tp=1,dp=1 (an axis left out is at 0)",
    )
    parser.add_argument(
        "--experts",
        action=once,
        metavar="SIZES",
        help="the same cards regrouped for experts, such as ep=4 or etp=2,ep=4",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def _command(commands: Any, name: str, text: str, run: Any) -> ArgumentParser:
    parser: ArgumentParser = commands.add_parser(
        name, help=text, description=text, allow_abbrev=False
    )
    # Else "-1e3" is taken for an option, and the message is that a value is missing.
    parser._negative_number_matcher = re.compile(r"-[0-9.]")
    parser.set_defaults(run=run)
    return parser


def _plan(options: Namespace) -> int:
    from derive.commands import output, plan

    data, text, code = plan.run(options)
    if options.json:
        output.write_json(data)
    else:
        output.write(text)
    return code


def _mesh(options: Namespace) -> int:
    from derive.commands import mesh, output

    data, text = mesh.run(options)
    if options.json:
        output.write_json(data)
    else:
        output.write(text)
    return 0
