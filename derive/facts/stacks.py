"""How the software of published runs works: what a stack does by the source of its runs, what its
cluster's cards send, and what was fitted to the runs.

The shipped tables stand in data/stacks.toml. A stack says what a run's own row does not; nothing in
it is told for a single run. What was fitted has the status `derived` and an error.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import sqrt
from statistics import fmean
from types import MappingProxyType
from typing import Any

from derive.facts.catalogue import DATA, contents

LARGEST = 2**20  # bytes of the file


@dataclass(frozen=True)
class Stack:
    """What a source's software does. `clusters` names the cluster by the kind of chip; `zero` is
    the stage of ZeRO where a run says none; `kernel` is that of attention (unfused, flash2, cudnn);
    `gradients` the bytes of an element on the wire by the precision of the run, 4 where that is not
    named; `hidden` whether the data group's traffic hides under passes; `passes` those over memory
    for each of the element-wise work; `tensor` and `pipeline` the share of those groups' traffic
    that no pass hides; `copies` the bytes of a gradient kept besides, by the precision of the run;
    `logits` the bytes held of a logit; `reserve` those of a chip that its device counts and no
    tensor holds; `assumed` names what nothing says."""

    clusters: Mapping[str, str]
    zero: int = 1
    kernel: str = "cudnn"
    gradients: Mapping[str, int] = field(default_factory=dict)
    hidden: bool = True
    passes: float = 1
    tensor: float = 1
    pipeline: float = 1
    copies: Mapping[str, int] = field(default_factory=dict)
    logits: int = 8
    reserve: float = 0
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cluster:
    """What a chip sends over the network of a cluster, in bytes a second, one-way."""

    network: float
    source: str
    status: str


@dataclass(frozen=True)
class Fitted:
    """A share that was fitted, of a chip or a cluster, with its relative error (one standard
    deviation) and how many runs it rests on."""

    value: float
    error: float
    runs: int


OTHER = Stack({}, assumed=("zero", "kernel", "gradients", "hidden", "passes"))
"""What is taken of a stack that is not known."""


@lru_cache(maxsize=1)
def _tables() -> Mapping[str, Any]:
    return tomllib.loads(contents(DATA / "stacks.toml", "stacks.toml", "TOML", LARGEST))


@lru_cache(maxsize=1)
def stacks() -> Mapping[str, Stack]:
    """The stacks, by the source of their runs."""
    every = _tables()["stacks"].items()
    made = {n: Stack(**{**row, "assumed": tuple(row["assumed"])}) for n, row in every}
    return MappingProxyType(made)


@lru_cache(maxsize=1)
def clusters() -> Mapping[str, Cluster]:
    """The clusters by name."""
    return MappingProxyType({n: Cluster(**row) for n, row in _tables()["clusters"].items()})


@lru_cache(maxsize=1)
def fitted() -> Mapping[str, Mapping[str, Fitted]]:
    """What was fitted: by the name of the symbol, then by chip or cluster."""
    every = _tables().get("fitted", {}).items()
    return MappingProxyType({s: {n: Fitted(**row) for n, row in rows.items()} for s, rows in every})


def fitted_to_chip(name: str) -> Mapping[str, tuple[Fitted, tuple[str, ...]]]:
    """What was fitted for a chip, by the name of the symbol, and for what: of attention the best
    kernel; of links the mean of its clusters, whose spread the error has too."""
    kind, known = kind_of_chip(name), {}
    places = [stack.clusters[kind] for stack in stacks().values() if kind in stack.clusters]
    for symbol, rows in fitted().items():
        kernels = [kind, *(owner for owner in rows if owner.startswith(f"{kind}-flash"))]
        owners = tuple(owner for owner in (*kernels, *dict.fromkeys(places)) if owner in rows)
        if owners and owners[0] in kernels:
            owners = (max(owners, key=lambda owner: rows[owner].value),)
        if owners:
            known[symbol] = _mean([rows[owner] for owner in owners]), owners
    return known


def _mean(rows: Sequence[Fitted]) -> Fitted:
    """The mean of several, its error that of one drawn among them."""
    value = fmean(row.value for row in rows)
    square = fmean((row.value * row.error) ** 2 + (row.value - value) ** 2 for row in rows)
    return Fitted(value, sqrt(square) / value, sum(row.runs for row in rows))


def step_error(name: str) -> float:
    """How far off nine of ten predicted steps on a chip are at most, relatively: of runs that were
    left out of the fit, with their source where no run on the chip is in it."""
    errors = _tables()["errors"]
    return float(errors.get(kind_of_chip(name), errors["other"]))


def kind_of_chip(name: str) -> str:
    """The chips that were fitted together: a100, whatever its memory."""
    first, *rest = name.split("-")
    return first if first != "tpu" and rest[:1] != ["500w"] else name
