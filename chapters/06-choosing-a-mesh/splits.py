"""Splits of a slice into whole mesh axes, and their numbers for tables."""

from __future__ import annotations

from derive import Quantity, feasible
from derive.book.tables import Cell
from derive.cost.strategies import fsdp_tensor
from derive.facts import Chip
from derive.solve.feasible import Candidate, Feasible

from .common import TORUS, batch, llama, n, pod, v5p


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


def ratio(splits: Feasible, split: Candidate, network: str = "") -> Cell:
    """Computation over communication of a split for a table, on one network or on all."""
    margin = splits.margin(split, network)
    return "no traffic" if margin is None else n(margin, 2)


def verdict(split: Candidate) -> str:
    """Whether a split is compute-bound, for a table."""
    return "yes" if split.compute_bound else "no"
