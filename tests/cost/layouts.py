"""Every layout of a tensor over some mesh axes."""

from __future__ import annotations

from functools import cache
from itertools import permutations, product

from derive.cost.block import Layout


@cache
def every_layout(axes: tuple[str, ...], dims: int = 2) -> tuple[Layout, ...]:
    """Each axis on one dimension or on none, in every order: each layout once."""
    known = set()
    for order in permutations(axes):
        for places in product(range(dims + 1), repeat=len(axes)):
            at = dict(zip(order, places, strict=True))
            known.add(tuple(tuple(a for a in order if at[a] == dim) for dim in range(dims)))
    return tuple(sorted(known))
