"""The facts that a chip or a model may have, each with its unit, symbol and gloss.

This table is the only place where a fact is declared; the data files, a user's file and the error
messages all follow it. A new kind of hardware adds rows here and nothing elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import sympy as sp

from derive.notation import symbols as v
from derive.notation import units
from derive.notation.units import Unit, byte, chip, flop, label, one, parameter, second


@dataclass(frozen=True)
class FactKey:
    """What a fact is: its unit, the symbol it binds (or None), a gloss and the basis it must state.

    `kind` is number, count (a whole number) or shape (whole numbers, one per torus axis). `basis`
    is a phrase that the basis of every reading must contain, so that a one-way figure is never
    taken for a bidirectional one. `precision` marks FLOP rates: they share the symbol C.
    """

    name: str
    unit: Unit
    symbol: sp.Symbol | None
    gloss: str
    kind: Literal["number", "count", "shape"] = "number"
    basis: str = ""
    precision: bool = False


def _rate(name: str, elements: str) -> FactKey:
    gloss = f"peak rate of a chip on {elements}, one multiply-add counted as two"
    return FactKey(name, flop / second, v.C, gloss, basis="per chip", precision=True)


def _bandwidth(name: str, basis: str, gloss: str, symbol: sp.Symbol | None = None) -> FactKey:
    return FactKey(name, byte / second, symbol, gloss, basis=basis)


def _count(name: str, unit: Unit, gloss: str, symbol: sp.Symbol | None = None) -> FactKey:
    return FactKey(name, unit, symbol, gloss, kind="count")


def _by_name(*keys: FactKey) -> Mapping[str, FactKey]:
    return MappingProxyType({key.name: key for key in keys})


CHIP_FACTS = _by_name(
    _rate("bf16", "bfloat16 matrices"),
    _rate("fp8", "8-bit floating-point matrices"),
    _rate("int8", "8-bit integer matrices"),
    _rate("fp4", "4-bit floating-point matrices"),
    _rate("int4", "4-bit integer matrices"),
    FactKey("memory", byte, v.M_hbm, "memory of a chip", basis="per chip"),
    _bandwidth("memory_bandwidth", "per chip", "memory bandwidth of a chip", v.W_hbm),
    _bandwidth(
        "ici_axis",
        "bidirectional per axis",
        "bandwidth of one torus axis: what a chip sends over both of its links on that axis",
        v.W,
    ),
    _bandwidth("ici_link", "one-way per link", "bandwidth of one torus link in one direction"),
    _bandwidth(
        "ici_chip",
        "bidirectional per chip",
        "bandwidth of all torus links of a chip, both directions added",
    ),
    _bandwidth(
        "dcn", "one-way per chip", "bandwidth of a chip into the data-centre network", v.W_dcn
    ),
    _bandwidth(
        "scaleup",
        "one-way per chip",
        "bandwidth of a chip into the switches of its scale-up domain",
        v.W_node,
    ),
    _count("torus_axes", units.axis, "axes of the torus", v.M_axes),
    _count("links_per_chip", one, "torus links of a chip"),
    _count("pod_chips", chip, "chips of a pod"),
    FactKey("pod_shape", chip, None, "torus shape of a whole pod", kind="shape"),
    _count("cube_chips", chip, "chips of a cube, of which whole slices are made"),
    _count("largest_job", chip, "chips of the largest job that can be run"),
    _count("chips_per_host", chip, "chips of a host"),
    _count("scaleup_chips", chip, "chips of a scale-up domain", v.n_node),
)

MODEL_FACTS = _by_name(
    FactKey("published_parameters", parameter, None, "parameters as the publisher names them"),
    _count("context", units.token, "longest sequence the model was trained for"),
)

# The shape of a model: what `ffn` is to a file, F is to formulas.
MODEL_COUNTS = _by_name(
    _count("layers", units.layer, "layers", v.L),
    _count("hidden", one, "model width", v.D),
    _count("heads", label("head"), "query heads"),
    _count("kv_heads", label("head"), "key and value heads", v.K),
    _count("head_dim", one, "width of one head", v.H),
    _count("ffn", one, "feed-forward width: of one matrix, gated or not", v.F),
    _count("vocab", one, "vocabulary size", v.V),
    _count("norms_per_layer", one, "norms of one layer, each with one weight per channel"),
)
MODEL_FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "gated": "three feed-forward matrices instead of two",
        "tied_embeddings": "the output head shares the embedding's weights",
        "final_norm": "one more norm before the output head",
    }
)
