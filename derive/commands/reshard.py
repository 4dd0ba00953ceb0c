"""`derive reshard`: the moves that bring a tensor from one layout to another."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from derive.commands.layer import cell, costed, footer, moves_table
from derive.cost.block import Block, FunctionLine
from derive.cost.reader import resharded
from derive.cost.strategies import layer

STATED = ("program", "precision", "network")
_AFTER = "after"


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The moves as JSON-ready data and as a table: the forward pass of a block that calls the
    tensor by another name in the other layout. Raises DeriveError."""
    before, after = resharded(options.layouts)
    line = FunctionLine("view", (before.name,), _AFTER)
    data = costed(layer(Block((line,), (before, after.named(_AFTER)), ())), options)
    moved, told = data["forward"], data["assumptions"]
    answer = {
        "reshard": f"{before} -> {after}",
        **{name: moved[name] for name in ("moves", "bytes", "sent_bytes")},
        "assumptions": {name: told[name] for name in STATED if name in told},
        "notes": data["notes"],
    }
    sent = f"{cell(answer['sent_bytes'])} bytes sent by a device"
    lines = [answer["reshard"], "", sent, "", *moves_table({"": moved}), "", *footer(answer)]
    return answer, "\n".join(lines)
