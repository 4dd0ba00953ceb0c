"""What derive and each partitioner make of every case, as `verdicts.json` has it.

`python tests/outside/verdicts.py` writes that file anew, of the versions that are installed; the
tests hold both sides to it, so that a choice that changes on either is told.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import conftest  # noqa: F401 - sixteen devices, before JAX starts
import dtensor
import hlo
import shardy
import sympy as sp
from cases import BLOCKS, MESH, SHARDINGS, SIZES, Sizes
from counted import Counted, derived, verdict
from exhaustive import PRODUCTS, products, reshards
from partitioned import Spread

from derive.cost.block import Block, ProductLine, gated
from derive.cost.layout import spread
from derive.cost.reader import block
from derive.cost.transformer import BLOCKS as DECLARED

HERE = Path(__file__).parent
RECORD = HERE / "verdicts.json"
(CHAPTER,) = HERE.parents[1].glob("chapters/12-*")
PRINTED = CHAPTER / "partitioners.json"
PASSES = ("forward", "both")  # the forward pass alone, or one step: forward and backward


@dataclass(frozen=True)
class Case:
    """A block laid out on a mesh, with the lengths of its dimensions; one pass of it or both."""

    name: str
    told: str  # the sharding, or the block and its line of layout
    sizes_name: str
    which: str
    block: Block
    mesh: Sizes
    sizes: Sizes

    def __str__(self) -> str:
        return f"{self.name}; {self.sizes_name}; {self.which}"


def cases() -> Iterator[Case]:
    """Every case in the order of the record."""
    for size, (name, text), which in product(SIZES, SHARDINGS.items(), PASSES):
        yield Case(name, text, size, which, block(text), MESH, SIZES[size])
    for (name, (known, layout, mesh, sizes)), which in product(BLOCKS.items(), PASSES):
        laid_out = spread(unmasked(known), layout)
        yield Case(name, f"{known} under {layout}", "block", which, laid_out, mesh, sizes)


def unmasked(name: str) -> Block:
    """A block of the book, all of whose multiply-adds are done: nobody here skips a mask's half."""
    plain = DECLARED.get(name) or gated(DECLARED[name.removeprefix("gated ")])
    lines = (
        replace(line, share=sp.S.One) if isinstance(line, ProductLine) and line.share else line
        for line in plain.lines
    )
    return replace(plain, lines=tuple(lines))


def row(case: Case) -> dict[str, Any]:
    """A case as the record has it: what each sends and computes, and its verdict beside derive's.

    XLA, Shardy and the least program keep what was gathered for the backward pass; DTensor gathers
    it again, and is held against the rules that do so, too.
    """
    backward = case.which == "both"
    lowered = Spread(case.block, case.mesh, case.sizes).lowered(backward)
    ours, again, least = (
        derived(case.block, case.mesh, case.sizes, backward=backward, keep=keep, least=least)
        for keep, least in (("all", False), ("none", False), ("all", True))
    )
    mesh = {axis: case.mesh[axis] for axis in case.block.mesh}
    compiled = hlo.counted(lowered.compile(compiler_options=hlo.FLAT).as_text(), mesh)
    passes = f"{shardy.PROPAGATE},{shardy.PARTITION}"
    passed = shardy.counted(lowered.as_text(), passes, mesh)["main"]
    recorded = None
    if case.sizes_name in SIZES:  # blocks were not put to it
        recorded = dtensor.recorded(case.told, case.sizes_name, case.which)
    return {
        "case": case.name,
        "sharding": case.told,
        "sizes": case.sizes_name,
        "pass": case.which,
        "derive": _told(ours),
        "derive, gathered again": _told(again),
        "least": _told(least, ours),
        "xla": _told(compiled, ours),
        "shardy": _told(passed, ours),
        "dtensor": recorded and _told(recorded, again),
    }


def printed(record: dict[str, Any]) -> dict[str, Any]:
    """What chapter 12 prints of a record: the collectives of the shardings and the FLOPs, of others
    alone, and how many of all reshards and products send what."""
    rows = [
        {name: one[name] for name in ("case", "sharding", "sizes", "pass")}
        | {name: one[name] and one[name]["sent"] for name in ("xla", "shardy", "dtensor")}
        | {"flops": {name: one[name]["flops"] for name in ("xla", "shardy")}}
        for one in record["rows"]
        if one["sizes"] in SIZES
    ]
    every = {name: told for name, told in record.items() if name.startswith("every")}
    head = {"versions": record["versions"], "mesh": MESH, "sizes": SIZES}
    return {**head, **every, "rows": rows}


def _told(one: Counted, derive: Counted | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {"bytes": one.bytes}
    if derive is not None:
        told = {"verdict": verdict(derive, one), **told}
    told["sent"] = one.listed
    if one.flops is not None:
        told["flops"] = one.flops
    if one.repeated:
        told["repeated bytes"] = one.repeated
    return told


def versions() -> dict[str, str]:
    """What the record rests on."""
    return {"jaxlib": version("jaxlib"), "torch": dtensor.RECORD["torch"]}


def on_lines(told: dict[str, Any]) -> str:
    """JSON with a line to each row."""
    listed = {**told, "rows": ["ROW"] * len(told["rows"])}
    head, *ends = json.dumps(listed, indent=1).split('"ROW"')
    pairs = zip(map(json.dumps, told["rows"]), ends, strict=True)
    return head + "".join(row + end for row, end in pairs) + "\n"


if __name__ == "__main__":
    whole = {
        "versions": versions(),
        "every reshard": asdict(reshards()),
        "every product": {name: asdict(products(sizes)) for name, sizes in PRODUCTS.items()},
        "rows": [row(case) for case in cases()],
    }
    for file, told in ((RECORD, whole), (PRINTED, printed(whole))):
        file.write_text(on_lines(told), encoding="utf-8")
    sys.stdout.write(f"{len(whole['rows'])} rows\n")
