"""The links of a plan's groups, and the time of moves over them.

Axes are laid out tensor, context, data, pipeline from the inside out; a group has the links of a
node where it lies inside one, else those of the network.
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from derive.cost import stage
from derive.cost.assumptions import Assumptions
from derive.cost.network import Network
from derive.cost.program import Move
from derive.cost.terms import Term, define
from derive.notation import symbols as v

SPANS = {
    v.W_tp: v.tp,
    v.W_cp: v.tp * v.cp,
    v.W_dp: v.tp * v.cp * v.dp,
    v.W_pp: v.tp * v.cp * v.dp * v.pp,
}
"""The chips that a group of each link spans."""


REACHED = {v.W_node: v.eta_node * v.W_node, v.W_dcn: v.eta_dcn * v.W_dcn}
"""What links give of their bandwidth."""


def links(assumptions: Assumptions, fabric: str) -> list[Term]:
    """The link of each group on a fabric of nodes with switches, or of a torus, with the share of
    its bandwidth that it gives."""
    link = _torus_link if fabric == "torus" else _node_link
    shared = assumptions.on("network_share")
    return [
        define(symbol, link(span).xreplace(REACHED if shared else {}), shared)
        for symbol, span in spans(assumptions).items()
    ]


def spans(assumptions: Assumptions) -> dict[sp.Symbol, sp.Expr]:
    """The chips that the group of each link spans; those of an expert are neighbours."""
    return {**SPANS, v.W_ep: v.etp} if assumptions.has_experts else SPANS


def _node_link(span: sp.Expr) -> sp.Expr:
    """The network, or the node's switches where they are faster and no group straddles nodes, which
    is where the chips that it spans divide those of a node: floor(x) + floor(-x) + 1 is 1 for a
    whole x and 0 for any other."""
    nodes = v.n_node / span
    inside = sp.floor(nodes, evaluate=False) + sp.floor(-nodes, evaluate=False) + 1
    return sp.Max(v.W_dcn, v.W_node * inside, evaluate=False)


def _torus_link(span: sp.Expr) -> sp.Expr:
    """The network, or inside a pod of n_node chips a torus axis: each kind of group has one of its
    own, and where there are more kinds than axes they share them. A hop between stages goes one
    way, over half of an axis."""
    kinds = sp.Add(*(sp.Min(1, degree - 1, evaluate=False) for degree in (v.tp, v.cp, v.dp, v.pp)))
    share = sp.Min(1, v.M_axes / sp.Max(1, kinds, evaluate=False), evaluate=False)
    inside = sp.Min(1, sp.floor(v.n_node / span, evaluate=False), evaluate=False)
    one_way = sp.Rational(1, 2) if span == SPANS[v.W_pp] else sp.S.One
    return sp.Max(v.W_dcn, v.W_node * one_way * share * inside, evaluate=False)


@lru_cache(maxsize=64)
def seconds(moves: tuple[Move, ...], network: Network, exact: bool) -> sp.Expr:
    """The time of some moves one after the other, in the terms of one chip."""
    return sp.Add(*by_link(moves, network, exact).values())


def by_link(moves: tuple[Move, ...], network: Network, exact: bool) -> dict[str, sp.Expr]:
    """As `seconds`, apart for each link of the network."""
    times: dict[str, sp.Expr] = {}
    for move in moves:
        for link, time in network.seconds(move, exact).items():
            times[link] = times.get(link, sp.S.Zero) + time
    return {link: stage.on_chip(time) for link, time in times.items()}
