"""Splits of a slice into whole mesh axes, and their numbers for tables."""

from __future__ import annotations

import sympy as sp

from derive import Quantity, feasible, number
from derive.book.tables import Cell
from derive.cost.strategies import fsdp_tensor
from derive.facts import Chip
from derive.notation import units
from derive.notation.units import one
from derive.solve.feasible import Candidate, Feasible

from .common import TORUS, batch, llama, made, n, pod, v5p


def splits_of(
    kind: str = "divisors",
    chips: Quantity = pod,
    of: Chip = v5p,
    tokens: Quantity = batch,
    **more: object,
) -> Feasible:
    """The splits of a slice for LLaMA-3-70B, by default of a v5p pod with the batch of the run."""
    axes = {} if kind == "torus" else TORUS
    return feasible(
        fsdp_tensor, int(chips.value), of, llama, splits=kind, values={"B": tokens}, **axes, **more
    )


def on_network(split: Candidate, where: str) -> sp.Expr:
    """Computation over the communication on one network of a split."""
    return next(sp.oo if x == 0 else 1 / x for _, at, x in split.loads if at == where)


def ratio(splits: Feasible, split: Candidate, where: str | None = None) -> Cell:
    """Computation over communication of a split for a table, on one network or on all."""
    value = split.ratio if where is None else on_network(split, where)
    if value.is_infinite:
        return "no traffic"
    degrees = {x: number(at, units.way, x, status="derived") for x, at in split.degrees}
    times = f"T_math/T_{where or 'comms'}"
    return n(made(value, one, times, **dict(splits.inputs), **degrees), 2)


def verdict(split: Candidate) -> str:
    """Whether a split is compute-bound, for a table."""
    return "yes" if split.compute_bound else "no"
