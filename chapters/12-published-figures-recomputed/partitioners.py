"""Partitioned by someone else: what three programs send for the shardings, beside the rules and
the least program.

`partitioners.json` is what they sent (tests/outside writes it, and says how); what is derived, and
so where they agree, is worked out here, but for all the reshards and products, which are counted
there.
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
from derive.book import cell, integer, si
from derive.book.tables import Cell
from derive.cost.passes import program
from derive.cost.program import Move, PassCost
from derive.cost.reader import block
from derive.notation.symbols import e, e_g, find, fma, mesh_axis
from derive.notation.units import byte, element, flop, one, way

from .common import chapter, whole

RECORD: Mapping[str, Any] = json.loads(
    Path(__file__).with_name("partitioners.json").read_text(encoding="utf-8")
)
MESH, SIZES = RECORD["mesh"], RECORD["sizes"]
TITLES = {"xla": "XLA", "shardy": "Shardy", "dtensor": "DTensor"}
PASSES = ("forward", "both")
ELEMENT = 4  # bytes: everything is in fp32
# A compiler keeps what the forward pass gathered; DTensor, which runs line by line, does not.
KEEP = {"xla": "all", "shardy": "all", "dtensor": "none"}

Listed = tuple[str, ...]


@dataclass(frozen=True)
class Sent:
    """The collectives of a device, as the record lists them, and their bytes in all."""

    listed: Listed
    bytes: Quantity


@cache
def values(sizes: str) -> Mapping[sp.Symbol, Quantity]:
    """Lengths, devices and bytes by their symbols, everything in fp32."""
    told = {find(dim): number(length, one, dim) for dim, length in SIZES[sizes].items()}
    told |= {mesh_axis(axis): number(n, way, axis) for axis, n in MESH.items()}
    told[fma] = number(2, flop, "fma")
    return told | {symbol: number(ELEMENT, byte / element, symbol.name) for symbol in (e, e_g)}


@cache
def passes(sharding: str, which: str, keep: str, least: str | None = None) -> list[PassCost]:
    """The passes of a sharding, by the rules, or of the least program at some sizes, over the axes
    that the sharding names."""
    laid_out = block(sharding)
    known = {axis: MESH[axis] for axis in laid_out.mesh} | {"e": ELEMENT, "e_g": ELEMENT}
    search = None if least is None else tuple({**known, **SIZES[least]}.items())
    both = program(laid_out, keep, least=search)
    return [both.forward, *([both.backward] if which == "both" else [])]


@cache
def derived(sharding: str, sizes: str, which: str, keep: str, least: bool = False) -> Sent:
    """What the rules, or the least program, send for a sharding, forward or in both passes."""
    costs = passes(sharding, which, keep, sizes if least else None)
    moves, by = tuple(move for cost in costs for move in cost.moves), values(sizes)
    sent = evaluated(sp.Add(*(move.sent_bytes for move in moves)), by, byte, "sent")
    return Sent(listed(moves, by), sent)


def flops(row: Mapping[str, Any], name: str) -> Quantity:
    """What a device multiplies in a row: by the rules, the least program, XLA or Shardy."""
    if name in TITLES:
        return number(row["flops"][name], flop, "FLOPs", source=TITLES[name], status="measured")
    costs = passes(row["sharding"], row["pass"], "all", row["sizes"] if name == "least" else None)
    return evaluated(sp.Add(*(cost.flops for cost in costs)), values(row["sizes"]), flop, "FLOPs")


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
    return size(theirs.bytes, ours.bytes)


def size(one: Quantity, other: Quantity) -> str:
    """How one number of bytes compares with another."""
    return "less" if one.value < other.value else "more" if one.value > other.value else "as much"


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
    "Program | Pass | Rows | Same collectives | Others of the same bytes | Of fewer bytes | "
    "Of more bytes | Cannot say the sharding",
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
SHARDINGS = {row["case"]: row["sharding"] for row in RECORD["rows"]}
chapter.table(
    "shardings",
    "Name | Sharding",
    [[name, f"`{sharding}`"] for name, sharding in SHARDINGS.items()],
)
chapter.claim("shardings-28", counted(len(SHARDINGS), "shardings"), "exact")
for axis, devices in MESH.items():
    chapter.given(f"mesh-{axis}", number(devices, way, axis))
for sizes, lengths in SIZES.items():
    chapter.given(f"{sizes.split()[0]}-B", number(lengths["B"], one, "B"))
for dim in ("D", "F", "K", "H", "U", "E"):
    chapter.given(f"outside-{dim}", number(SIZES["many rows"][dim], one, dim))
cases = len(SHARDINGS) * len(SIZES)
for partitioner in TITLES:
    agreeing = sum(counts[partitioner, "forward", sizes]["agrees"] for sizes in SIZES)
    chapter.claim(f"{partitioner}-forward", counted(agreeing, "agree"), "exact")
chapter.claim("outside-cases", counted(cases, "cases"), "exact")

# --- against the least program


def least(row: Mapping[str, Any]) -> Sent:
    """The least program of a row, which keeps what it gathered."""
    return derived(row["sharding"], row["sizes"], row["pass"], "all", True)


def sent_by(row: Mapping[str, Any], name: str) -> Sent | None:
    """What is sent by the rules, which keep what they gathered, or by a partitioner."""
    return recorded(row, name) if name in TITLES else compared(row, "xla")[0]


ALL = {"rules": "the rules", **TITLES}
against = {
    (name, which): Counter(
        size(sent.bytes, least(row).bytes)
        for row in RECORD["rows"]
        if row["pass"] == which and (sent := sent_by(row, name)) is not None
    )
    for name in ALL
    for which in PASSES
}
chapter.table(
    "against-least",
    "Program | Pass | More bytes than the least | As many | Fewer",
    [
        [ALL[name], which, *(whole(told[word], word) for word in ("more", "as much", "less"))]
        for (name, which), told in against.items()
    ],
)


def is_below_all(row: Mapping[str, Any]) -> bool:
    """Whether the least program sends less than each partitioner that can say the row."""
    others = (recorded(row, name) for name in TITLES)
    return all(least(row).bytes.value < sent.bytes.value for sent in others if sent is not None)


both = [row for row in RECORD["rows"] if row["pass"] == "both"]
chapter.claim("least-below", counted(sum(map(is_below_all, both)), "below all"), "exact")
for name in ("xla", "shardy"):
    fewer = sum(against[name, which]["less"] for which in PASSES)
    chapter.claim(f"{name}-below", counted(fewer, f"{TITLES[name]} below the least"), "exact")
chapter.holds(
    (
        "below-multiplies",
        all(
            flops(row, name).value > flops(row, "least").value
            for row in RECORD["rows"]
            for name in ("rules", "xla", "shardy")
            if (sent := sent_by(row, name)) and size(sent.bytes, least(row).bytes) == "less"
        )
        and not any(against["dtensor", which]["less"] for which in PASSES),
        "bytes and FLOPs of each row in which a program sends less than the least",
    )
)

# --- every reshard and every product, as counted by tests/outside

EVERY = [("every reshard", "", RECORD["every reshard"])]
EVERY += [("every product", sizes, told) for sizes, told in RECORD["every product"].items()]


def lengths(sizes: str) -> Cell:
    """Rows, summed and columns of a product."""
    n = [cell(number(int(n), one, "length"), integer()) for n in sizes.split(" x ")]
    return (n[0], " × ", n[1], " × ", n[2])


COMPARED = ("more", "same", "less")
chapter.table(
    "every",
    "Of | B × D × F | Cases | Rules: more than Shardy | as much | less | Least: more than Shardy | "
    "as much | less",
    [
        [
            name,
            lengths(sizes) if sizes else "any",
            whole(told["cases"], "cases"),
            *(
                cell(
                    number(told[who][word], name=word, source="Shardy", status="measured"),
                    integer(),
                )
                for who in ("derive", "least")
                for word in COMPARED
            ),
        ]
        for name, sizes, told in EVERY
    ],
)
for name, _, told in EVERY[:2]:
    chapter.claim(name.replace(" ", "-"), counted(told["cases"], name), "exact")
chapter.require(
    "never-above",
    holds=all(told["least"]["more"] == 0 for _, _, told in EVERY),
    because="the counts of every reshard and every product",
)

# --- each of them, both passes


def bytes_of(row: Mapping[str, Any], partitioner: str) -> Cell:
    """What a partitioner does with a row: that it agrees, or its bytes."""
    _, theirs, word = compared(row, partitioner)
    if theirs is None or word == "agrees":
        return word
    return cell(theirs.bytes, si(3), unit=True)


for sizes in SIZES:
    rows: list[list[Cell]] = []
    for row in both:
        if row["sizes"] == sizes:
            rules, fewest, again = (
                cell(sent.bytes, si(3), unit=True)
                for sent in (compared(row, "xla")[0], least(row), compared(row, "dtensor")[0])
            )
            xla, shardy, dtensor = (bytes_of(row, name) for name in TITLES)
            rows.append([row["case"], rules, xla, shardy, fewest, again, dtensor])
    chapter.table(
        f"outside-{sizes.split()[0]}",
        "Name | Rules | XLA | Shardy | Least | Rules, gathering again | DTensor",
        rows,
        "lrrrrrr",
    )

# --- why


def row_of(name: str, sizes: str, which: str = "both") -> Mapping[str, Any]:
    """The one row of a sharding, by its name."""
    (found,) = (
        row
        for row in RECORD["rows"]
        if (row["case"], row["sizes"], row["pass"]) == (name, sizes, which)
    )
    return dict(found)


ours, theirs, _ = compared(row_of("FSDP", "few rows", "forward"), "shardy")
assert theirs is not None
chapter.claim("few-rows-more", ours.bytes / theirs.bytes, "round")
many = {name: row_of(name, "many rows") for name in SHARDINGS}
chapter.claim(
    "hsdp-flops",
    flops(row_of("HSDP", "few rows"), "shardy") / flops(row_of("HSDP", "few rows"), "least"),
    "exact",
)
apart, joint = compared(many["FSDP over two axes"], "dtensor")[:2]
assert joint is not None
chapter.holds(
    (
        "fsdp-many-agree",
        all(compared(many["FSDP"], name)[2] == "agrees" for name in TITLES),
        "FSDP with many rows",
    ),
    (
        "gated-each",
        {
            compared(row_of("column, then row, gated", size), name)[2]
            for name in ("xla", "shardy")
            for size in SIZES
        }
        == {"more"},
        "the gated layer, both passes",
    ),
    (
        "turned-permuted",
        all("permute" in " ".join(many["order of axes"][name]) for name in ("xla", "shardy")),
        "the row whose axes stand in another order",
    ),
    (
        "sliced-reduced",
        all(
            "all_reduce" in " ".join(row_of(one, size, "forward")[name])
            for one in ("summed, left split", "summed, right split")
            for size in SIZES
            for name in ("shardy", "dtensor")
        ),
        "the two rows that are split along what is summed",
    ),
    ("hsdp-at-once", "all_reduce X+Z" in " ".join(many["HSDP"]["shardy"]), "HSDP with many rows"),
    (
        "axis-by-axis",
        apart.bytes.value == joint.bytes.value and len(joint.listed) == 2 * len(apart.listed),
        "FSDP over two axes",
    ),
)
