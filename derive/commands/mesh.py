"""`derive mesh`: groups of a device mesh, which stay in a node, and the coordinates of a rank."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from derive.notation.errors import DeriveError, quoted, unknown
from derive.plan.mesh import Mesh, Regrouped, lines, mesh, regrouped


def sizes_of(text: str, option: str = "--sizes", least: int = 1) -> dict[str, int]:
    """The whole numbers from `least` of "tp=2,cp=2", in that order; raises DeriveError."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name:
            raise DeriveError(
                f"{option}: expected AXIS={'SIZE' if least else 'INDEX'},..., found {quoted(text)}"
            )
        if name in found:
            raise DeriveError(f"{option}: {name} is given twice")
        found[name] = whole(value, f"{option} {name}", least)
    return found


def whole(text: str, option: str, least: int = 1) -> int:
    """A whole number that was typed; raises DeriveError naming the option."""
    value = text.strip().replace(",", "").replace("_", "")
    if not value.isascii() or not value.isdigit() or len(value) > 4000 or int(value) < least:
        raise DeriveError(f"{option}: expected a whole number from {least}, found {quoted(text)}")
    if len(value) > 18:
        raise DeriveError(f"{option}: expected a whole number below 10**18, found {quoted(text)}")
    return int(value)


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The mesh as JSON-ready data and as text. Raises DeriveError."""
    of = mesh(
        sizes_of(options.sizes), whole(options.cards_per_node, "--cards-per-node"), options.order
    )
    rank = None if options.rank is None else whole(options.rank, "--rank", 0)
    data = _as_data(of, rank)
    text = lines(of)
    if rank is not None:
        text.append(f"rank {rank} is at {_shown(of.coordinates(rank))}")
    if options.at is not None:
        data["rank"] = of.rank(sizes_of(options.at, "--at", 0))
        text.append(f"{_shown(of.coordinates(data['rank']))} is rank {data['rank']}")
    if options.experts is not None:
        experts = _experts(of, options.experts)
        data["experts"] = _as_data(experts, rank)
        text += lines(experts)
        if rank is not None:
            text.append(f"rank {rank} is at {_shown(experts.coordinates(rank))} among them")
    return data, "\n".join(text)


def _experts(of: Mesh, text: str) -> Regrouped:
    sizes = sizes_of(text, "--experts")
    for name in sizes:
        if name not in ("etp", "ep"):
            raise unknown("axis of --experts", name, ("etp", "ep"))
    return regrouped(of, **sizes)


def _as_data(of: Mesh | Regrouped, rank: int | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "groups": {axis: [list(g) for g in of.groups(axis)] for axis in of.sizes},
        "inside_node": {axis: of.inside_node(axis) for axis in of.sizes},
    }
    if rank is not None:
        data["coordinates"] = of.coordinates(rank)
    return data


def _shown(coordinates: Mapping[str, int]) -> str:
    return " ".join(f"{name}={index}" for name, index in coordinates.items())
