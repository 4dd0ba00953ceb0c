"""`derive layer`: the FLOPs and moves of any sharding, forward and backward."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import sympy as sp

from derive.commands.inputs import assumptions_of, givers_of, strategy_of, values_of
from derive.cost.program import PassCost
from derive.notation import tex
from derive.solve.binding import value_of, values_from


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The passes as JSON-ready data and as a table. Raises DeriveError.

    Expressions are text in the vocabulary's symbols, with bytes per element and FLOP per
    multiply-add bound; where every symbol has a value they are numbers.
    """
    assumptions = assumptions_of(options)
    strategy = strategy_of(options.sharding)
    given = values_from(givers_of(options), values_of(options.set), assumptions)
    known: dict[sp.Symbol, sp.Expr] = dict(assumptions.constants)
    known |= {symbol: value_of(symbol, quantity).value for symbol, quantity in given.items()}
    data: dict[str, Any] = {"sharding": str(strategy.layer or strategy.name)}
    for cost in strategy.passes(assumptions):
        data[cost.name] = _pass(cost, known)
    data["assumptions"] = {
        name: text
        for name, text in assumptions.described().items()
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


def _table(data: dict[str, Any]) -> str:
    header = ("", "collective", "tensor", "axis", "bytes (large n)", "sent by a device", "waits")
    rows = [header]
    for name in ("forward", "backward"):
        if name not in data:
            continue
        for move in data[name]["moves"]:
            rows.append(
                (
                    name,
                    move["collective"].replace("_", "-"),
                    move["tensor"],
                    move["axis"],
                    _cell(move["bytes"]),
                    _cell(move["sent_bytes"]),
                    "yes" if move["critical"] else "no",
                )
            )
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    lines = [data["sharding"], ""]
    for name in ("forward", "backward"):
        if name in data:
            lines.append(
                f"{name:<9} {_cell(data[name]['flops'])} FLOP, {_cell(data[name]['bytes'])} bytes"
            )
    lines.append("")
    lines += [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines += ["", "assumptions:", *(f"  {k}: {t}" for k, t in data["assumptions"].items())]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)
