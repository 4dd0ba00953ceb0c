"""What a move costs in time on the network it runs over.

A torus axis has bidirectional bandwidth W: each chip has a link each way round the ring, each of
W/2. Collectives over a ring send both ways at once, so a wrapped axis moves W bytes a second and an
unwrapped one, whose end chips have one neighbour, half of that. Formulas: Scaling Book, sharding
chapter [SB-sharding]; the exact forms count the chunk-hops of the busiest link. An all-reduce is a
reduce-scatter and then an all-gather.

Switches and trees are further networks: a class here with `seconds(move, exact)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import sympy as sp

from derive.cost.moves import PASSES, Collective, Move, product
from derive.notation import symbols as v


class Network(Protocol):
    """Anything that prices a move in seconds, in its exact form or for a large group."""

    def seconds(self, move: Move, exact: bool) -> sp.Expr: ...


@dataclass(frozen=True)
class Torus:
    """One or more torus axes given to a mesh axis: `axes` of them, each of bandwidth `bandwidth`.

    Over several axes the group is taken as a cube: n**(1/axes) devices along each.
    """

    axes: sp.Expr
    bandwidth: sp.Expr = v.W
    wrap: bool = True

    def seconds(self, move: Move, exact: bool) -> sp.Expr:
        """The time of `move`; raises nothing for any collective a torus carries."""
        if move.collective == "send":
            return hop_seconds(move.array_bytes, self.bandwidth)
        share = self._share(move.collective, move.devices, exact)
        rate = self.bandwidth if self.wrap else self.bandwidth / 2
        return move.array_bytes * share / rate

    def _share(self, collective: Collective, n: sp.Expr, exact: bool) -> sp.Expr:
        if collective == "all_to_all":
            along = n ** (1 / self.axes)
            return _exchange_share(along, n, exact)
        return _ring_share(collective, n, exact) / self.axes


@dataclass(frozen=True)
class Egress:
    """A network that every device enters by its own link: `bandwidth` is one-way, per device."""

    bandwidth: sp.Expr

    def seconds(self, move: Move, exact: bool) -> sp.Expr:
        return (move.sent_bytes if exact else move.bytes) / self.bandwidth


def _ring_share(collective: Collective, n: sp.Expr, exact: bool) -> sp.Expr:
    return PASSES[collective] * ((n - 1) / n if exact else sp.Integer(1))


def _exchange_share(along: sp.Expr, n: sp.Expr, exact: bool) -> sp.Expr:
    # A chunk of V/n^2 bytes goes to each device; on a ring the mean distance is floor(n^2/4)/n
    # hops, and the two directions share the chunks that are half-way round.
    hops = sp.floor(along**2 / 4) / along if exact else along / 4
    return hops / n


def ring_seconds(
    collective: Collective,
    array_bytes: sp.Expr,
    sizes: tuple[sp.Expr, ...],
    bandwidth: sp.Expr = v.W,
    *,
    wrap: bool = True,
    exact: bool = True,
    hop_latency: sp.Expr = sp.S.Zero,
) -> sp.Expr:
    """The time in seconds of a collective over torus axes of the given sizes.

    `array_bytes` is the full array, `bandwidth` bidirectional per axis. Over several axes the data
    is cut into as many parts, which go round the axes in different orders; this is exact for equal
    sizes and a lower bound otherwise. With a hop latency the time is at least that of the hops.
    """
    n = product(list(sizes))
    rate = bandwidth if wrap else bandwidth / 2
    if collective == "send":
        return hop_seconds(array_bytes, bandwidth) + hop_latency
    if collective == "all_to_all":
        times = [array_bytes * _exchange_share(size, n, exact) / rate for size in sizes]
        transfer = sp.Max(*times)
    else:
        transfer = array_bytes * _ring_share(collective, n, exact) / (len(sizes) * rate)
    if hop_latency == 0:
        return transfer
    hops = sp.Add(*(_hops(size, wrap, exact) for size in sizes))
    return sp.Max(transfer, PASSES[collective] * hop_latency * hops)


def _hops(size: sp.Expr, wrap: bool, exact: bool) -> sp.Expr:
    if not wrap:
        return size - 1
    return sp.floor(size / 2) if exact else size / 2


def hop_seconds(array_bytes: sp.Expr, bandwidth: sp.Expr = v.W) -> sp.Expr:
    """The time in seconds to send an array to the next chip: one link, one way, W/2."""
    return array_bytes / (bandwidth / 2)


TORUS_AXES: Mapping[str, sp.Symbol] = {"X": v.M_X, "Y": v.M_Y, "Z": v.M_Z}


def network_of(move: Move, wrap: bool = True) -> Network:
    """The network a move runs over: the torus for mesh axes, the data-centre network for slices,
    memory for a load."""
    if move.collective == "load":
        return Egress(v.W_hbm)
    if move.axes == ("S",):
        return Egress(v.W_dcn)
    return Torus(sp.Add(*(TORUS_AXES[axis] for axis in move.axes)), v.W, wrap)


def seconds(move: Move, *, exact: bool = False, wrap: bool = True) -> sp.Expr:
    """The time of a move on its own network, in seconds."""
    return network_of(move, wrap).seconds(move, exact)
