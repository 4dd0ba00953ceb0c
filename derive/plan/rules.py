"""Which degrees a plan may have, by themselves and together, and every reason for which there is no
plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import sympy as sp

from derive.notation import symbols as v
from derive.plan.task import Counts

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "tensor_beyond_node": "the tensor group is larger than a node",
        "heads": "the heads do not split over the tensor group",
        "sequence": "the sequence does not split evenly over the context group",
        "short_chunk": "too few tokens per context-parallel rank",
        "layers": "the layers do not split evenly over the stages",
        "cards": "the degrees do not divide the cards",
        "held": "the data degree is not the one that is held",
        "batch": "the batch does not split over the data group in whole micro-batches",
        "memory": "does not fit in memory even with every layer recomputed",
    }
)  # fmt: skip


def tensor(of: Counts, degrees: Sequence[int]) -> list[str | None]:
    """Why no plan has each tensor degree, as a key of REASONS, or None."""
    node, heads, kv = of.node, of.heads, of.kv_heads
    # More ranks than key and value heads share them, in equal groups.
    return [
        "tensor_beyond_node" if t > node else "heads" if heads % t or (kv % t and t % kv) else None
        for t in degrees
    ]


def context(of: Counts, degrees: Sequence[int]) -> list[str | None]:
    """Why no plan has each context degree, as a key of REASONS, or None."""
    seq, least, pieces = of.seq, of.least_chunk, of.pieces
    return [
        None
        if c == 1
        else "sequence"
        if seq % (pieces * c)
        else "short_chunk"
        if seq // c < least
        else None
        for c in degrees
    ]


def pipeline(of: Counts, degrees: Sequence[int]) -> list[str | None]:
    """Why no plan has so many stages, as a key of REASONS, or None."""
    return ["layers" if of.layers % p else None for p in degrees]


def division(of: Counts, shares: Iterable[tuple[int, int]]) -> list[str | None]:
    """Why no plan has each pair of a data rank's cards, tp x cp x pp, and a micro-batch, as a key
    of REASONS, or None."""
    cards, batch, held = of.cards, of.batch, of.held
    return [
        "cards"
        if cards % size
        else "held"
        if held and cards // size != held
        else "batch"
        if batch % (cards // size * micro)
        else None
        for size, micro in shares
    ]


Rule = Callable[[Counts, Sequence[int]], list[str | None]]
RULES: Mapping[sp.Symbol, Rule] = MappingProxyType({v.tp: tensor, v.cp: context, v.pp: pipeline})
