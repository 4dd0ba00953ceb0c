"""What a move costs in time on each link of the network that it runs over.

A network is a class with `seconds(move, exact)`: the time on each of its links, by the link's name.
Moves on links of one name share it, and their times add; those on other links run beside them.

A torus axis has bidirectional bandwidth W: each chip has a link each way round the ring, each of
W/2. Collectives over a ring send both ways at once, so a wrapped axis moves W bytes a second and an
unwrapped one, whose end chips have one neighbour, half of that. Formulas: Scaling Book, sharding
chapter [SB-sharding]; the exact forms count the chunk-hops of the busiest link. An all-reduce is a
reduce-scatter and then an all-gather. What a permute sends is taken to go as far on the mean as
that of an all-to-all.

A chip enters a switch by one link of its own, which sends and receives at once, and the switch
carries what all of them send: a chip takes the bytes that it sends over the link's one-way rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

import sympy as sp

from derive.cost.program import TRAVERSALS, Move, degree
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, unknown

NODE, CARDS, SLICES, MEMORY = "node", "dcn", "S", "hbm"
TORUS_AXES: Mapping[str, sp.Symbol] = {"X": v.M_X, "Y": v.M_Y, "Z": v.M_Z}
LINK_WORDS: Mapping[str, str] = {
    NODE: "the switches of the node",
    CARDS: "the network cards of the node",
    SLICES: "the data-centre network",
    MEMORY: "the memory bus",
}


class Network(Protocol):
    """Anything that prices a move: the seconds on each of its links, in the exact form or for a
    large group, which is what the exact form approaches as the group grows."""

    def seconds(self, move: Move, exact: bool) -> dict[str, sp.Expr]: ...
    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Torus:
    """A ring along each torus axis, `bandwidth` bidirectional; each mesh axis has torus axes of its
    own, M_X and so on, over which a group is taken as a cube: n**(1/M) devices along each. Its
    link is called by its mesh axes."""

    bandwidth: sp.Expr = v.W
    wrap: bool = True

    def seconds(self, move: Move, exact: bool) -> dict[str, sp.Expr]:
        if move.collective == "send":  # to the next chip: one link, one way
            return {move.axis: move.array_bytes / (self.bandwidth / 2)}
        axes = sp.Add(*(TORUS_AXES.get(axis, sp.S.One) for axis in move.axes))
        rate = self.bandwidth if self.wrap else self.bandwidth / 2
        n = move.devices
        if move.collective in ("all_to_all", "permute"):
            # A chunk of V/n^2 bytes goes to each device; on a ring the mean distance is
            # floor(n^2/4)/n hops, and the two directions share the chunks that are half-way round.
            along = n ** (1 / axes)
            hops = sp.floor(along**2 / 4) / along if exact else along / 4
            sent = move.array_bytes / (n if move.collective == "all_to_all" else 1)
            return {move.axis: sent * hops / rate}
        return {move.axis: _sent(move, exact) / axes / rate}


@dataclass(frozen=True)
class Switch:
    """A link of each chip into a switch (a node's, the data-centre network) or its memory;
    `bandwidth` is one-way. All mesh axes share it."""

    link: str
    bandwidth: sp.Expr

    def seconds(self, move: Move, exact: bool) -> dict[str, sp.Expr]:
        return {self.link: _sent(move, exact) / self.bandwidth}


@dataclass(frozen=True)
class TwoLevels:
    """Whole nodes of n_node chips: switches inside, and a network card of each chip out of it.

    `mesh` gives the mesh axes, outermost first. With one, a group has n_node chips in each node.
    With two, the last lies inside a node and the first has as many chips there as fill it. A
    collective runs inside the nodes and, for the share of each chip in its node, between
    them: an all-gather of V bytes leaves a node as V/n bytes over the card of each of n chips.
    `in_node` is the chips of a group in one node, where they are known.
    """

    mesh: tuple[str, ...] = ()
    in_node: sp.Expr | None = None

    def seconds(self, move: Move, exact: bool) -> dict[str, sp.Expr]:
        n, near = move.devices, self.near(move.axes)
        if near == n:
            return {NODE: _sent(move, exact) / v.W_node}
        if move.collective in ("send", "permute"):
            return {CARDS: move.array_bytes / v.W_dcn}
        inside, out = (near - 1) / near, ((n - near) / n if exact else sp.S.One)
        if move.collective == "all_to_all":  # each device's n-th goes straight to where it belongs
            inside, out = near / n * inside / n, out / n
        else:
            inside, out = (TRAVERSALS[move.collective] * x for x in (inside, out / near))
        return {NODE: move.array_bytes * inside / v.W_node, CARDS: move.array_bytes * out / v.W_dcn}

    def near(self, axes: tuple[str, ...]) -> sp.Expr:
        """The chips of a group over `axes` that one node holds."""
        if self.in_node is not None:
            return self.in_node
        if len(self.mesh) < 2:
            return v.n_node
        first, last = self.mesh
        inside = {last: degree((last,)), first: v.n_node / degree((last,))}
        return sp.Mul(*(inside[axis] for axis in axes))


def network_of(name: str, mesh: tuple[str, ...] = (), wrap: bool = True) -> Network:
    """The network of a name among the assumptions, over the mesh axes given, outermost first;
    "chip" is a torus here, since no chip is named. Raises DeriveError where two levels do not say
    which of more than two mesh axes lie inside a node."""
    if name not in NETWORKS and name != "chip":
        raise unknown("network", name, NETWORKS)
    return NETWORKS["torus" if name == "chip" else name].over(mesh, wrap)


def link_seconds(move: Move, network: Network, exact: bool) -> dict[str, sp.Expr]:
    """The time of a move on each link: those of the network, but for what leaves a slice or the
    memory. Raises DeriveError for a group over slices and axes inside them."""
    if move.collective == "load":
        return {MEMORY: move.array_bytes / v.W_hbm}
    if SLICES in move.axes:
        if len(move.axes) > 1:
            raise DeriveError(
                f"{move.collective} of {move.tensor} over {', '.join(move.axes)}: a group over "
                f"{SLICES}, the slices, and axes inside them is not modelled; give {SLICES} groups "
                "of its own"
            )
        return Switch(SLICES, v.W_dcn).seconds(move, exact)
    return network.seconds(move, exact)


def seconds(move: Move, *, exact: bool = False, wrap: bool = True) -> sp.Expr:
    """The time of a move over mesh axes that are torus axes, between slices or from memory, in
    seconds."""
    (time,) = link_seconds(move, Torus(v.W, wrap), exact).values()
    return time


def _sent(move: Move, exact: bool) -> sp.Expr:
    """The bytes that one device sends."""
    if exact:
        return move.sent_bytes
    return move.bytes / move.devices if move.collective == "all_to_all" else move.bytes


def _two_levels(mesh: tuple[str, ...], wrap: bool) -> TwoLevels:
    if len(mesh) > 2:
        raise DeriveError(
            f"two-level takes one or two mesh axes, found {', '.join(mesh)}; egress takes any"
        )
    return TwoLevels(mesh)


class NetworkChoice(NamedTuple):
    """A network that can be chosen by name: the fact of a chip that says that it has it, the symbol
    of its bandwidth, the network over some mesh axes, whose torus axes wrap or not, what is assumed
    with it, and how a note tells it beside an answer for a node, if it does."""

    fact: str
    bandwidth: sp.Symbol
    over: Callable[[tuple[str, ...], bool], Network]
    phrase: str
    beside: str = ""


NETWORKS: Mapping[str, NetworkChoice] = MappingProxyType({
    "torus": NetworkChoice(
        "ici_axis", v.W, lambda mesh, wrap: Torus(v.W, wrap),
        "a ring of bandwidth W, both ways added, along each torus axis",
    ),
    "node": NetworkChoice(
        "scaleup", v.W_node, lambda mesh, wrap: Switch(NODE, v.W_node),
        "the switches of one node, W_node one-way per chip, shared by all axes",
    ),
    "two-level": NetworkChoice(
        "scaleup", v.W_node, _two_levels,
        "whole nodes, W_node inside and n_node links of W_dcn out of each",
        "over whole nodes, each left by {n_node} links of {W_dcn}",
    ),
    "egress": NetworkChoice(
        "dcn", v.W_dcn, lambda mesh, wrap: Switch(CARDS, v.W_dcn),
        "one chip in each node, W_dcn one-way per chip, shared by all axes",
        "with one chip in each node, over its own link of {W_dcn}",
    ),
    MEMORY: NetworkChoice(
        "memory_bandwidth", v.W_hbm, lambda mesh, wrap: Switch(MEMORY, v.W_hbm),
        "a chip's own memory: each product reads its operands and writes its result",
    ),
})  # fmt: skip
