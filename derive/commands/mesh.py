"""`derive mesh`: groups of a device mesh, which stay in a node, and the coordinates of a rank."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from derive.notation.errors import DeriveError, quoted
from derive.plan.mesh import Mesh, mesh

SHOWN = 4


def sizes_of(text: str, option: str = "--sizes") -> dict[str, int]:
    """The sizes of "tp=2,cp=2", in that order; raises DeriveError."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise DeriveError(f"{option}: expected AXIS=SIZE,..., found {quoted(text)}")
        if name in found:
            raise DeriveError(f"{option}: {name} is given twice")
        found[name] = whole(value, f"{option} {name}")
    return found


def whole(text: str, option: str, least: int = 1) -> int:
    """A whole number that was typed; raises DeriveError naming the option."""
    value = text.strip().replace(",", "").replace("_", "")
    if not value.isascii() or not value.isdigit() or len(value) > 18 or int(value) < least:
        raise DeriveError(f"{option}: expected a whole number from {least}, found {quoted(text)}")
    return int(value)


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The mesh as JSON-ready data and as text. Raises DeriveError."""
    of = mesh(
        sizes_of(options.sizes),
        whole(options.cards_per_node, "--cards-per-node"),
        options.order or "",
    )
    rank = None if options.rank is None else whole(options.rank, "--rank", 0)
    coordinates = None if rank is None else of.coordinates(rank)
    data: dict[str, Any] = {
        "groups": {axis: [list(g) for g in of.groups(axis)] for axis in of.sizes},
        "inside_node": {axis: of.inside_node(axis) for axis in of.sizes},
    }
    if coordinates is not None:
        data["coordinates"] = coordinates
    return data, "\n".join(_lines(of, rank))


def _lines(of: Mesh, rank: int | None) -> list[str]:
    nodes = -(-of.cards // of.cards_per_node)
    shape = " x ".join(f"{name}={size}" for name, size in of.axes)
    lines = [f"{of.cards} cards on {nodes} node{'s'[: nodes != 1]}, innermost first: {shape}"]
    width = max(len(name) for name in of.sizes)
    for axis in of.sizes:
        groups = of.groups(axis)
        shown = " ".join(str(list(group)) for group in groups[:SHOWN])
        more = " ..." if len(groups) > SHOWN else ""
        where = "inside a node" if of.inside_node(axis) else "across nodes"
        lines.append(f"{axis:<{width}}  {len(groups)} groups {where}: {shown}{more}")
    if rank is not None:
        at = " ".join(f"{name}={index}" for name, index in of.coordinates(rank).items())
        lines.append(f"rank {rank} is at {at}")
    return lines
