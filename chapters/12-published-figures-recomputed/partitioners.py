"""Partitioned by someone else: what three programs send for the shardings, beside the rules.

`partitioners.json` is what they sent (tests/outside writes it, and says how); what is derived, and
so where they agree, is worked out here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import sympy as sp

from derive import Quantity, evaluated, number
from derive.book import cell, si
from derive.book.tables import Cell
from derive.cost.passes import program
from derive.cost.program import Move
from derive.cost.reader import block
from derive.notation.symbols import e, e_g, find, mesh_axis
from derive.notation.units import byte, element, one, way

from .common import chapter, whole

RECORD: Mapping[str, Any] = json.loads(
    Path(__file__).with_name("partitioners.json").read_text(encoding="utf-8")
)
MESH, SIZES = RECORD["mesh"], RECORD["sizes"]
TITLES = {"xla": "XLA", "shardy": "Shardy", "dtensor": "DTensor"}
PASSES = ("forward", "both")
# A compiler keeps what the forward pass gathered; DTensor, which runs line by line, does not.
KEEP = {"xla": "all", "shardy": "all", "dtensor": "none"}

Listed = tuple[str, ...]


@dataclass(frozen=True)
class Sent:
    """The collectives of a device, as the record lists them, and their bytes in all."""

    listed: Listed
    bytes: Quantity


def values(sizes: str) -> dict[sp.Symbol, Quantity]:
    """Lengths, devices and bytes by their symbols, everything in fp32."""
    told = {find(dim): number(length, one, dim) for dim, length in SIZES[sizes].items()}
    told |= {mesh_axis(axis): number(n, way, axis) for axis, n in MESH.items()}
    return told | {symbol: number(4, byte / element, symbol.name) for symbol in (e, e_g)}


@cache
def derived(sharding: str, sizes: str, which: str, keep: str) -> Sent:
    """What the rules send for a sharding, forward or in both passes."""
    whole = program(block(sharding), keep)
    moves = (*whole.forward.moves, *(whole.backward.moves if which == "both" else ()))
    by = values(sizes)
    sent = evaluated(sp.Add(*(move.sent_bytes for move in moves)), by, byte, "sent")
    return Sent(listed(moves, by), sent)


def listed(moves: tuple[Move, ...], by: Mapping[sp.Symbol, Quantity]) -> Listed:
    """Moves as the record lists collectives: how often, the kind, the axes and the bytes sent."""
    told = Counter(
        (move.collective, tuple(sorted(move.axes)), int(evaluated(move.sent_bytes, by, byte).value))
        for move in moves
    )
    return tuple(
        f"{n} x {kind} {'+'.join(axes)} {size}" for (kind, axes, size), n in sorted(told.items())
    )


def recorded(row: Mapping[str, Any], partitioner: str) -> Sent | None:
    """What a partitioner sent; None where it cannot say the sharding."""
    told = row[partitioner]
    if told is None:
        return None
    size = sum(int(times) * int(sent) for times, _, *_, sent in map(str.split, told))
    return Sent(
        tuple(told), number(size, byte, "sent", source=TITLES[partitioner], status="measured")
    )


def verdict(ours: Sent, theirs: Sent | None) -> str:
    """Whether the same collectives are chosen; if not, how the bytes compare."""
    if theirs is None or ours.listed == theirs.listed:
        return "cannot say" if theirs is None else "agrees"
    less, more = theirs.bytes.value < ours.bytes.value, theirs.bytes.value > ours.bytes.value
    return "less" if less else "more" if more else "as much"


def compared(row: Mapping[str, Any], partitioner: str) -> tuple[Sent, Sent | None, str]:
    """What is derived for a row, what a partitioner sent, and the verdict."""
    ours = derived(row["sharding"], row["sizes"], row["pass"], KEEP[partitioner])
    theirs = recorded(row, partitioner)
    return ours, theirs, verdict(ours, theirs)


# --- how often each agrees

VERDICTS = ("agrees", "as much", "less", "more", "cannot say")
counts = {
    (partitioner, which, sizes): Counter(
        compared(row, partitioner)[2]
        for row in RECORD["rows"]
        if (row["pass"], row["sizes"]) == (which, sizes)
    )
    for partitioner in TITLES
    for which in PASSES
    for sizes in SIZES
}


def counted(count: int, name: str) -> Quantity:
    """A number of shardings, for a claim."""
    return number(count, name=name, status="derived")


chapter.table(
    "verdicts",
    "Partitioner | Pass | Rows | Agrees | As much, otherwise | Less | More | Cannot say",
    [
        [
            TITLES[partitioner],
            which,
            sizes.removesuffix(" rows"),
            *(whole(told[name], name) for name in VERDICTS),
        ]
        for (partitioner, which, sizes), told in counts.items()
    ],
)
SHARDINGS = list(dict.fromkeys(row["sharding"] for row in RECORD["rows"]))
chapter.claim("shardings-28", counted(len(SHARDINGS), "shardings"), "exact")
for axis, devices in MESH.items():
    chapter.given(f"mesh-{axis}", number(devices, way, axis))
for sizes, lengths in SIZES.items():
    chapter.given(f"{sizes.split()[0]}-B", number(lengths["B"], one, "B"))
for dim in ("D", "F"):
    chapter.given(f"outside-{dim}", number(SIZES["many rows"][dim], one, dim))
cases = len(SHARDINGS) * len(SIZES)
for partitioner in TITLES:
    agreeing = sum(counts[partitioner, "forward", sizes]["agrees"] for sizes in SIZES)
    chapter.claim(f"{partitioner}-forward", counted(agreeing, "agree"), "exact")
chapter.claim("outside-cases", counted(cases, "cases"), "exact")

# --- each of them, both passes


def told(row: Mapping[str, Any], partitioner: str) -> Cell:
    """What a partitioner does with a row: that it agrees, or its bytes."""
    _, theirs, word = compared(row, partitioner)
    if theirs is None or word == "agrees":
        return word
    return (cell(theirs.bytes, si(3), unit=True), f", {word}")


for sizes in SIZES:
    rows: list[list[Cell]] = []
    for row in RECORD["rows"]:
        if (row["pass"], row["sizes"]) == ("both", sizes):
            kept, again = (
                cell(compared(row, name)[0].bytes, si(3), unit=True) for name in ("xla", "dtensor")
            )
            others = [told(row, name) for name in TITLES]
            rows.append([f"`{row['sharding']}`", kept, *others[:2], again, others[2]])
    chapter.table(
        f"outside-{sizes.split()[0]}",
        "Sharding | derive | XLA | Shardy | derive, gathered again | DTensor",
        rows,
        "lrrrrr",
    )

# --- why


def row_of(sharding: str, sizes: str, which: str = "both") -> Mapping[str, Any]:
    """The one row of a sharding that is written so."""
    (found,) = (
        row
        for row in RECORD["rows"]
        if (row["sharding"], row["sizes"], row["pass"]) == (sharding, sizes, which)
    )
    return dict(found)


FSDP = "In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]"
GATED = "In[B_X, D] . W_gate[D, F_Y] * W_in[D, F_Y] -> Tmp[B_X, F_Y] . W_out[F_Y, D] -> Out[B_X, D]"
SUMMED = ("In[B, D_Y] . W_in[D, F] -> Out[B, F]", "In[B, D] . W_in[D_Y, F] -> Out[B, F]")
HSDP = "In[B_XZ, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_XZ, D]"
TWO_AXES = "In[B_XZ, D] . W_in[D_XZ, F] . W_out[F, D_XZ] -> Out[B_XZ, D]"
TURNED = "In[B_XZ, D] . W_in[D, F] -> Out[B_ZX, F]"
ours, theirs, _ = compared(row_of(FSDP, "few rows", "forward"), "shardy")
assert theirs is not None
chapter.claim("few-rows-more", ours.bytes / theirs.bytes, "round")
many = {name: row_of(name, "many rows") for name in (FSDP, HSDP, TWO_AXES, TURNED)}
apart, joint = compared(many[TWO_AXES], "dtensor")[:2]
assert joint is not None
chapter.holds(
    (
        "fsdp-many-agree",
        all(compared(many[FSDP], name)[2] == "agrees" for name in TITLES),
        "FSDP with many rows",
    ),
    (
        "gated-each",
        {compared(row_of(GATED, size), name)[2] for name in ("xla", "shardy") for size in SIZES}
        == {"more"},
        "the gated layer, both passes",
    ),
    (
        "turned-permuted",
        all("permute" in " ".join(many[TURNED][name]) for name in ("xla", "shardy")),
        "the row whose axes stand in another order",
    ),
    (
        "sliced-reduced",
        all(
            "all_reduce" in " ".join(row_of(one, size, "forward")[name])
            for one in SUMMED
            for size in SIZES
            for name in ("shardy", "dtensor")
        ),
        "the two rows that are split along what is summed",
    ),
    ("hsdp-at-once", "all_reduce X+Z" in " ".join(many[HSDP]["shardy"]), "HSDP with many rows"),
    (
        "axis-by-axis",
        apart.bytes.value == joint.bytes.value and len(joint.listed) == 2 * len(apart.listed),
        "FSDP over two axes",
    ),
)
