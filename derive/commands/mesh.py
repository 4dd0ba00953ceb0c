"""`derive mesh`: groups of a device mesh, which stay in a node, and the coordinates of a rank."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from typing import Any

from derive.notation.errors import DeriveError, quoted, unknown
from derive.plan.mesh import Mesh, Regrouped, mesh, regrouped

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
    lines = _lines(of, rank)
    if options.experts is not None:
        experts = _experts(of, options.experts)
        data["experts"] = {
            "groups": {axis: [list(g) for g in experts.groups(axis)] for axis in experts.axes},
            "inside_node": {axis: experts.inside_node(axis) for axis in experts.axes},
        }
        shape = " x ".join(f"{name}={size}" for name, size in experts.sizes.items())
        lines += [f"the same cards for a mixture-of-experts layer: {shape}"]
        lines += _groups(experts, experts.axes)
    return data, "\n".join(lines)


def _experts(of: Mesh, text: str) -> Regrouped:
    sizes = sizes_of(text, "--experts")
    for name in sizes:
        if name not in ("etp", "ep"):
            raise unknown("axis of --experts", name, ("etp", "ep"))
    return regrouped(of, **sizes)


def _lines(of: Mesh, rank: int | None) -> list[str]:
    nodes = -(-of.cards // of.cards_per_node)
    shape = " x ".join(f"{name}={size}" for name, size in of.axes)
    lines = [f"{of.cards} cards on {nodes} node{'s'[: nodes != 1]}, innermost first: {shape}"]
    lines += _groups(of, of.sizes)
    if rank is not None:
        at = " ".join(f"{name}={index}" for name, index in of.coordinates(rank).items())
        lines.append(f"rank {rank} is at {at}")
    return lines


def _groups(of: Mesh | Regrouped, axes: Iterable[str]) -> list[str]:
    """A line for each axis: its groups, the first few, and whether they stay in a node."""
    lines = []
    width = max(len(name) for name in axes)
    for axis in axes:
        groups = of.groups(axis)
        shown = " ".join(str(list(group)) for group in groups[:SHOWN])
        more = " ..." if len(groups) > SHOWN else ""
        where = "inside a node" if of.inside_node(axis) else "across nodes"
        lines.append(f"{axis:<{width}}  {len(groups)} groups {where}: {shown}{more}")
    return lines
