"""Memory: what a layer saves for the backward pass, against what PyTorch's autograd saved."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import sympy as sp

from derive import assume, evaluated, layer, number
from derive.book import cell, decimals
from derive.notation import symbols as v
from derive.notation import units
from derive.notation.quantity import Quantity
from derive.notation.units import byte

from .common import chapter

MEASURED = tomllib.loads((Path(__file__).parent / "autograd.toml").read_text())
WAYS = {
    "unfused": assume(norm="unfused", glu="unfused"),
    "fused": assume(glu="unfused"),
    "recomputed": assume(glu="unfused", kernels="recomputed"),
}
BYTES = {s: number(WAYS["fused"].constants[s], byte, s.name) for s in (v.e, v.e_32)}


@cache
def saved(way: str) -> sp.Expr:
    """Bytes that a layer saves for a token and a unit of its width, whatever its sizes are."""
    total = sp.Add(*(one.bytes for one in layer("layer").saved(WAYS[way])))
    return sp.cancel(total / (v.b_seq * v.T * v.D))


def derived(sizes: dict[str, int], way: str) -> Quantity:
    """The same, at the sizes of a layer."""
    each = saved(way)
    values = {s: number(sizes[s.name], v.unit_of_symbol(s), s.name, source="R-maxtext",
                        status="published") for s in each.free_symbols - {*BYTES}}  # fmt: skip
    return evaluated(each, values | BYTES, byte)


def recorded(sizes: dict[str, int], way: str) -> Quantity:
    """The same as PyTorch has it."""
    total = number(sizes[way], byte, f"saved, {way}", source="torch", status="measured")
    return total / (MEASURED["tokens"] * sizes["D"])


rows = {
    name: {way: (derived(sizes, way), recorded(sizes, way)) for way in WAYS}
    for name, sizes in MEASURED["layers"].items()
}
chapter.claim("layers-of-autograd", number(len(rows), units.layer, status="derived"), "exact")
for way in ("unfused", "fused"):
    chapter.claim(f"saved-{way}", rows["Llama 3 70B"][way][0])
chapter.require(
    "saved-as-autograd",
    holds=all(
        ours.value == theirs.value for ways in rows.values() for ours, theirs in ways.values()
    ),
    because="bytes per token and unit of width are the same fractions",
)
chapter.table(
    "saved",
    "Layer | norm in parts | PyTorch | norm fused | PyTorch | attention recomputed | PyTorch",
    [
        [name, *(cell(each, decimals(2)) for pair in ways.values() for each in pair)]
        for name, ways in rows.items()
    ],
)
