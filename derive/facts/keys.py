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

from derive.notation import symbols
from derive.notation.units import Unit, axis, byte, chip, flop, one, parameter, second, token

Kind = Literal["number", "count", "shape"]


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
    kind: Kind = "number"
    basis: str = ""
    precision: bool = False


def _table(*keys: FactKey) -> Mapping[str, FactKey]:
    return MappingProxyType({key.name: key for key in keys})


def _rate(name: str, elements: str) -> FactKey:
    gloss = f"peak rate of a chip on {elements}, one multiply-add counted as two"
    return FactKey(name, flop / second, symbols.C, gloss, basis="per chip", precision=True)


CHIP_FACTS = _table(
    _rate("bf16", "bfloat16 matrices"),
    _rate("fp8", "8-bit floating-point matrices"),
    _rate("int8", "8-bit integer matrices"),
    _rate("fp4", "4-bit floating-point matrices"),
    _rate("int4", "4-bit integer matrices"),
    FactKey("memory", byte, symbols.M_hbm, "memory of a chip", basis="per chip"),
    FactKey(
        "memory_bandwidth",
        byte / second,
        symbols.W_hbm,
        "memory bandwidth of a chip",
        basis="per chip",
    ),
    FactKey(
        "ici_axis",
        byte / second,
        symbols.W,
        "bandwidth of one torus axis: what a chip sends over both of its links on that axis",
        basis="bidirectional per axis",
    ),
    FactKey(
        "ici_link",
        byte / second,
        None,
        "bandwidth of one torus link in one direction",
        basis="one-way per link",
    ),
    FactKey(
        "ici_chip",
        byte / second,
        None,
        "bandwidth of all torus links of a chip, both directions added",
        basis="bidirectional per chip",
    ),
    FactKey(
        "dcn",
        byte / second,
        symbols.W_dcn,
        "bandwidth of a chip into the data-centre network",
        basis="one-way per chip",
    ),
    FactKey(
        "scaleup",
        byte / second,
        symbols.W_node,
        "bandwidth of a chip into the switches of its scale-up domain",
        basis="one-way per chip",
    ),
    FactKey("torus_axes", axis, None, "axes of the torus", kind="count"),
    FactKey("links_per_chip", one, None, "torus links of a chip", kind="count"),
    FactKey("pod_chips", chip, None, "chips of a pod", kind="count"),
    FactKey("pod_shape", chip, None, "torus shape of a whole pod", kind="shape"),
    FactKey("largest_job", chip, None, "chips of the largest job that can be run", kind="count"),
    FactKey("chips_per_host", chip, None, "chips of a host", kind="count"),
    FactKey("scaleup_chips", chip, symbols.n_node, "chips of a scale-up domain", kind="count"),
)

MODEL_FACTS = _table(
    FactKey("published_parameters", parameter, None, "parameters as the publisher names them"),
    FactKey("context", token, None, "longest sequence the model was trained for", kind="count"),
)

MODEL_COUNTS: Mapping[str, str] = MappingProxyType(
    {
        "layers": "layers",
        "hidden": "model width",
        "heads": "query heads",
        "kv_heads": "key and value heads",
        "head_dim": "width of one head",
        "ffn": "feed-forward width: of one matrix, gated or not",
        "vocab": "vocabulary size",
        "norms_per_layer": "norms of one layer, each with one weight per channel",
    }
)
MODEL_FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "gated": "three feed-forward matrices instead of two",
        "tied_embeddings": "the output head shares the embedding's weights",
        "final_norm": "one more norm before the output head",
    }
)
