"""`derive mesh`: groups of a device mesh, which stay in a node, and the coordinates of a rank."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from derive.notation.digits import exact
from derive.notation.errors import DeriveError, quoted, unknown
from derive.notation.read import MAX_LENGTH
from derive.plan.mesh import Mesh, lines, mesh, regrouped


def sizes_of(text: str, option: str = "--sizes", least: int = 1) -> dict[str, int]:
    """The whole numbers from `least` of "tp=2,cp=2" or "tp=2 cp=2", in that order; raises
    DeriveError."""
    if len(text) > MAX_LENGTH:
        raise DeriveError(f"{option}: {len(text)} characters, the limit is {MAX_LENGTH}")
    sizes: dict[str, int] = {}
    for part in re.sub(r"[,\s]+(?=\w+\s*=)", ",", text.strip()).split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name.isidentifier():
            told = f"expected AXIS={'SIZE' if least else 'INDEX'},..."
            raise DeriveError(f"{option}: {told}, found {quoted(text)}")
        if name in sizes:
            raise DeriveError(f"{option}: {name} is given twice")
        sizes[name] = whole(value, f"{option} {name}", least)
    return sizes


def whole(text: str, option: str, least: int = 1) -> int:
    """A whole number that was typed; raises DeriveError naming the option."""
    with suppress(DeriveError):
        value = exact(text)
        if value.denominator == 1 and least <= value < 10**18:
            return int(value)
    told = f"expected a whole number from {least}, below 10**18"
    raise DeriveError(f"{option}: {told}, found {quoted(text)}")


def run(options: Namespace) -> tuple[dict[str, Any], str]:
    """The mesh as JSON-ready data and as text. Raises DeriveError."""
    per_node = whole(options.cards_per_node, "--cards-per-node")
    cards = mesh(sizes_of(options.sizes), per_node, options.order)
    rank = None if options.rank is None else whole(options.rank, "--rank", 0)
    data = _as_data(cards, rank) if options.json else {}
    text = lines(cards)
    if rank is not None:
        text.append(f"rank {rank} is at {_shown(cards.coordinates(rank))}")
    if options.at is not None:
        data["rank"] = cards.rank(sizes_of(options.at, "--at", 0))
        text.append(f"{_shown(cards.coordinates(data['rank']))} is rank {data['rank']}")
    if options.experts is not None:
        sizes = sizes_of(options.experts, "--experts")
        for name in sizes:
            if name not in ("etp", "ep"):
                raise unknown("axis of --experts", name, ("etp", "ep"))
        experts = regrouped(cards, **sizes)
        data["experts"] = _as_data(experts, rank) if options.json else {}
        text += lines(experts)
        if rank is not None:
            text.append(f"rank {rank} is at {_shown(experts.coordinates(rank))} among them")
    return data, "\n".join(text)


def _as_data(cards: Mesh, rank: int | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "groups": {axis: [list(group) for group in cards.groups(axis)] for axis in cards.sizes},
        "inside_node": {axis: cards.inside_node(axis) for axis in cards.sizes},
    }
    if rank is not None:
        data["coordinates"] = cards.coordinates(rank)
    return data


def _shown(coordinates: Mapping[str, int]) -> str:
    return " ".join(f"{name}={index}" for name, index in coordinates.items())
