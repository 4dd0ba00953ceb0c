"""`derive layer`: the FLOPs and moves of any sharding, forward and backward."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import sympy as sp

from derive.commands.ask import assumptions_of, check_mesh, strategy_of, values_of
from derive.commands.inputs import givers_of
from derive.cost.program import PassCost
from derive.notation import tex
from derive.solve.values import given_facts, typed_values


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The passes as JSON-ready data and as a table. Raises DeriveError.

    Expressions are text in the vocabulary's symbols, with bytes per element and FLOP per
    multiply-add bound; where every symbol has a value they are numbers.
    """
    assumptions = assumptions_of(options)
    strategy = strategy_of(options.sharding)
    values = values_of(options.set, assumptions)
    check_mesh(strategy, values)
    given = {**given_facts(givers_of(options), assumptions), **typed_values(values)}
    known: dict[sp.Symbol, sp.Expr] = dict(assumptions.elements)
    known |= {symbol: quantity.value for symbol, quantity in given.items()}
    data: dict[str, Any] = {"sharding": str(strategy.block or strategy.name)}
    for cost in strategy.passes(assumptions):
        data[cost.name] = _pass(cost, known)
    data["assumptions"] = {
        name: text
        for name, text in assumptions.stated().items()
        if name in ("keep", "gated", "precision", "gradients")
    }
    return data, _table(data)


def _pass(cost: PassCost, known: dict[sp.Symbol, sp.Expr]) -> dict[str, Any]:
    def plain(expr: sp.Expr) -> Any:
        bound = expr.xreplace(known)
        if bound.free_symbols:
            return tex.text(bound)
        return int(bound) if bound.is_Integer else float(bound)

    moves = [
        {
            "collective": move.collective,
            "tensor": move.tensor,
            "axis": move.axis,
            "array_bytes": plain(move.array_bytes),
            "bytes": plain(move.bytes),
            "sent_bytes": plain(move.sent_bytes),
            "critical": move.critical,
        }
        for move in cost.moves
    ]
    total = sp.Add(*(move.bytes for move in cost.moves))
    return {"flops": plain(cost.flops), "bytes": plain(total), "moves": moves}


COLUMNS = ("", "collective", "tensor", "axis", "bytes", "sent per device", "critical")
NOTES = (
    "bytes: what has to arrive on a device in the large-n form (an all-reduce counts twice)",
    "critical: the next matmul waits for it; the others can run beside the computation",
)


def _table(data: dict[str, Any]) -> str:
    passes = [name for name in ("forward", "backward") if name in data]
    rows = [COLUMNS]
    for name in passes:
        for move in data[name]["moves"]:
            rows.append(
                (
                    name,
                    move["collective"].replace("_", "-"),
                    move["tensor"],
                    move["axis"] or "-",
                    _cell(move["bytes"]),
                    _cell(move["sent_bytes"]),
                    "yes" if move["critical"] else "no",
                )
            )
    numbers = all(
        not isinstance(move[key], str)
        for name in passes
        for move in data[name]["moves"]
        for key in ("bytes", "sent_bytes")
    )
    right = {4, 5} if numbers else set()
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    lines = [data["sharding"], ""]
    costs = [(_cell(data[name]["flops"]), _cell(data[name]["bytes"])) for name in passes]
    flops, size = (max(len(cost[i]) for cost in costs) if numbers else 0 for i in (0, 1))
    for name, (work, moved) in zip(passes, costs, strict=True):
        lines.append(f"{name:<9} {work.rjust(flops)} FLOP, {moved.rjust(size)} bytes")
    lines.append("")
    if len(rows) == 1:
        lines.append("nothing moves")
    else:
        for row in rows:
            cells = [_set(cell, widths[i], i in right) for i, cell in enumerate(row)]
            lines.append("  ".join(cells))
        lines += ["", *NOTES]
    lines += ["", "assumptions:", *(f"  {k}: {t}" for k, t in data["assumptions"].items())]
    return "\n".join(line.rstrip() for line in lines)


def _set(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)
