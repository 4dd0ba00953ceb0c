"""`derive layer`: what a block costs under a layout: FLOPs, moves, what is saved, and on a chip the
time of each and what takes longest."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import sympy as sp

from derive.commands.inputs import (
    assumptions_of,
    check_division,
    follows_in_fold,
    givers_of,
    set_values,
    strategy_of,
)
from derive.cost.block import Block, Fusion
from derive.cost.experts import places
from derive.cost.load import Requirement
from derive.cost.network import Network, link_seconds, network_of
from derive.cost.program import Multiplied, PassCost
from derive.cost.sizes import ELEMENTS, sizes_of
from derive.cost.strategies import Strategy
from derive.cost.turns import turns
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, unknown
from derive.notation.text import aligned
from derive.solve.links import suited
from derive.solve.question import question
from derive.solve.values import Filled, check_values, values_for

STATED = ("keep", "program", "gated", "precision", "gradients", "causal", *Fusion._fields)
Plain = Callable[[sp.Expr], Any]


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The passes as JSON-ready data and as a table. Raises DeriveError.

    Expressions are text in the vocabulary's symbols, with bytes per element and FLOP per
    multiply-add bound; where every symbol has a value they are numbers. With a chip each move has
    its seconds, by the exact form of its collective.
    """
    data = costed(strategy_of(options.sharding, options), options)
    return data, _table(data)


def costed(strategy: Strategy, options: Namespace) -> dict[str, Any]:
    """What a strategy costs, as data."""
    assumptions = assumptions_of(options)
    values, givers = set_values(options.set), givers_of(options)
    whose = Requirement(strategy.name, "", (), assumptions, strategy.mesh, strategy.chips)
    given = values_for(whose, givers, values)
    known = {v.e_32: assumptions.constants[v.e_32], **assumptions.elements}
    at = {symbol: quantity.value for symbol, quantity in given.items()}
    known = {symbol: value.xreplace(at) for symbol, value in known.items()} | at
    if v.T in known:  # a sequence's own keys
        known.setdefault(v.U, known[v.T])
    used: set[sp.Symbol] = set()
    even: dict[sp.Symbol, sp.Expr] = {}
    if strategy.block is not None and strategy.block.rows:
        known |= follows_in_fold(strategy.block, {s.name: given[s] for s in given})
        even = {v.J: places(strategy.block)} if v.n_k in known and v.J not in known else {}
    if assumptions.program == "least":
        if strategy.block is None:
            told = "--least searches the program of a block"
            raise DeriveError(f"{told}, and {strategy.name} declares its moves; leave it out")
        split = {*strategy.block.mesh, *strategy.block.dims}
        check_values(given, [symbol for symbol in given if symbol.name in split])
        # Of an element the bits, which are whole for fp4 as well.
        sized = {s: 8 * value if s.name in ELEMENTS else value for s, value in known.items()}
        whole = ((symbol.name, int(value)) for symbol, value in sized.items() if value.is_Integer)
        assumptions = replace(assumptions, sizes=tuple(whole))
        sizes = sizes_of(strategy.block, dict(assumptions.sizes))
        used.update(v.find(name) for name in (*sizes.degrees, *sizes.lengths))
    elif getattr(options, "turns", None) is not None:
        raise DeriveError("--turns is for --least; add that, or leave it out")

    def plain(expr: sp.Expr) -> Any:
        expr = expr.xreplace(even)
        used.update(expr.free_symbols)
        bound = expr.xreplace(known)
        if bound.free_symbols:
            return tex.text(bound)
        return int(bound) if bound.is_Integer else float(bound)

    network = None
    if options.chip is not None:
        assumptions = suited(strategy, question(v.C), assumptions, givers, values)
        if assumptions.network == "chip":
            assumptions = replace(assumptions, network="torus")
        network = network_of(assumptions.network, strategy.nested, assumptions.wrap)
    laid_out = strategy.laid_out(assumptions)
    if laid_out is not None:
        check_division(laid_out, {symbol.name: value for symbol, value in given.items()})
    data: dict[str, Any] = {"sharding": str(laid_out or strategy.name)}
    saved = [{"tensor": one.name, "bytes": plain(one.bytes)} for one in strategy.saved(assumptions)]
    for cost in strategy.passes(assumptions):
        kept = saved if cost.name == "forward" else []
        data[cost.name] = {**_pass(cost, plain, network), "saved": kept}
    if laid_out is not None:
        data["parameters"] = list(laid_out.parameters)
    if assumptions.program == "least" and laid_out is not None:
        data["turns"] = [
            {"told": turn.told(laid_out), "dimension": turn.dim, "length": plain(turn.length)}
            for turn in turns(laid_out, sizes, _turning(laid_out, options))
        ]
    stated = (*STATED, *(("network",) if network else ()))
    data["assumptions"] = {
        n: told for n, told in strategy.stated(assumptions).items() if n in stated
    }
    if strategy.block is not None and strategy.block.rows:
        shares = f"J = {tex.text(places(strategy.block))}: each token goes to n_k of E experts, and"
        data["assumptions"]["places"] = f"{shares} the fullest has x_cap times an even share"
    data["notes"] = list(Filled({}, (), frozenset(used)).idle(values))
    return data


def _turning(laid_out: Block, options: Namespace) -> str | None:
    """The dimension in whose length turns are asked for; raises UnknownName."""
    dim: str | None = getattr(options, "turns", None)
    if dim is not None and dim not in laid_out.dims:
        raise unknown("dimension", dim, laid_out.dims)
    return dim


def _pass(cost: PassCost, plain: Plain, network: Network | None) -> dict[str, Any]:
    moves = []
    for move in cost.moves:
        row = {name: getattr(move, name) for name in ("collective", "tensor", "axis")}
        sizes = ("array_bytes", "bytes", "sent_bytes")
        row |= {name: plain(getattr(move, name)) for name in sizes}
        row |= {"critical": move.critical, "under": list(move.under)}
        if network is not None:
            times = link_seconds(move, network, exact=True)
            row["seconds"] = plain(sp.Max(*times.values()))
            row["links"] = {link: plain(time) for link, time in times.items()}
        moves.append(row)
    total, sent = (
        plain(sp.Add(*(getattr(move, size) for move in cost.moves)))
        for size in ("bytes", "sent_bytes")
    )
    data = {"flops": plain(cost.flops), "bytes": total, "sent_bytes": sent, "moves": moves}
    products = [step for step in cost.program if isinstance(step, Multiplied) and not step.again]
    data["products"] = [{"result": p.result.name, "flops": plain(p.flops)} for p in products]
    if network is not None:
        data["seconds"] = plain(cost.flops / v.C)
        data["binds"] = _longest(data)
    return data


def _longest(data: dict[str, Any]) -> str | None:
    """What takes longest in a pass, computation or a link; None where a time is no number."""
    each = [("computation", data["seconds"])]
    each += [pair for move in data["moves"] for pair in move["links"].items()]
    if any(isinstance(seconds, str) for _, seconds in each):
        return None
    times = {name: sum(seconds for link, seconds in each if link == name) for name, _ in each}
    return max(times, key=times.__getitem__)


NOTES = (
    "bytes: what has to arrive on a device in the large-n form (an all-reduce counts twice)",
    "critical: the next matmul waits for it; the others can run beside the computation",
)


def _table(data: dict[str, Any]) -> str:
    passes: dict[str, Any] = {name: data[name] for name in ("forward", "backward") if name in data}
    lines = [*data["sharding"].split("; "), ""]
    for name, one in passes.items():
        work = f"{name:<9} {cell(one['flops'])} FLOP, {cell(one['bytes'])} bytes"
        if "seconds" in one:
            work += f", {cell(one['seconds'])} seconds of computation"
            work += f"; {one['binds']} takes longest" if one["binds"] else ""
        lines.append(work)
    lines += ["", *moves_table(passes)]
    if saved := data["forward"]["saved"]:
        told = ", ".join(f"{one['tensor']} {cell(one['bytes'])}" for one in saved)
        lines += ["", f"saved for the backward pass, in bytes: {told}"]
    if "parameters" in data:
        lines += [f"parameters: {', '.join(data['parameters']) or 'none'}"]
    for turn in data.get("turns", ()):
        lines += [f"{turn['told']} = {cell(turn['length'])}"]
    return "\n".join([*lines, "", *footer(data)])


def moves_table(passes: Mapping[str, dict[str, Any]]) -> list[str]:
    """The moves of passes, one on a line, and what the columns say."""
    every = [(name, move) for name, one in passes.items() for move in one["moves"]]
    if not every:
        return ["nothing moves"]
    timed = "seconds" in every[0][1]
    heads = ["", "collective", "tensor", "axis", "bytes", "sent per device"]
    rows = [[*heads, *(["seconds"] if timed else []), "critical"]]
    for name, move in every:
        cells = [name, move["collective"].replace("_", "-"), move["tensor"]]
        cells += [move["axis"] or "-", cell(move["bytes"]), cell(move["sent_bytes"])]
        cells += [cell(move["seconds"])] if timed else []
        rows.append([*cells, "yes" if move["critical"] else "no"])
    last = [move["bytes"] for name, move in every if name == every[-1][0]]
    side = "l" if any(isinstance(size, str) for size in last) else "r"
    table = aligned(rows, "llll" + 2 * side + "r" * timed + "l")
    return [*(line.rstrip() for line in table), "", *NOTES]


def footer(data: dict[str, Any]) -> list[str]:
    """What an answer rests on, and its notes."""
    told = (f"  {name}: {phrase}" for name, phrase in data["assumptions"].items())
    return ["assumptions:", *told, *(f"note: {note}" for note in data["notes"])]


def cell(value: Any) -> str:
    """A value as it stands in a table."""
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
