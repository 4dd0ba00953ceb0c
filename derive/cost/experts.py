"""What experts take: the rows of each, and the nodes over which the rows of a token go."""

from __future__ import annotations

import sympy as sp

from derive.cost.block import Block
from derive.notation import symbols as v


def places(block: Block) -> sp.Expr:
    """The rows J that an expert of a block takes: each token goes to n_k of E, and the fullest
    takes x_cap times an even share."""
    return v.n_k * v.x_cap * sp.Mul(*map(v.find, block.rows)) / v.E


def nodes_of_a_token(n_k: int, in_node: int, nodes: int) -> sp.Rational:
    """The nodes that a token goes to on the mean, where its n_k experts are any of those of
    `nodes` nodes, `in_node` in each, alike: all nodes, or as many as routing is limited to.

    A node has none of them in C(in_node (nodes - 1), n_k) of C(in_node nodes, n_k) cases.
    """
    none = sp.binomial(in_node * (nodes - 1), n_k) / sp.binomial(in_node * nodes, n_k)
    return sp.Rational(nodes * (1 - none))
