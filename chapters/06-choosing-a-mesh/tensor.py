"""Tensor parallelism: its limit, exactly and in other precisions."""

from __future__ import annotations

import sympy as sp

from derive import Quantity, assume, power_of_two_below, steps, threshold
from derive.book import cell, decimals, significant
from derive.cost.load import compute_bound
from derive.cost.strategies import tensor_parallel
from derive.facts import Chip
from derive.notation.symbols import M_Y, B, C, F, Y, alpha

from .common import (
    BOTH_CHIPS,
    TP,
    chapter,
    gives,
    intensity,
    ironwood,
    moves,
    n,
    tensor_on,
    tpu8t,
    v5p,
)

chapter.condition("tensor", threshold(tensor_parallel, Y))
chapter.derivation("tensor", steps(tensor_parallel, Y))
chapter.formula("tensor-exact", threshold(tensor_parallel, Y, form="exact"))
chapter.formula("tensor-precision", threshold(tensor_parallel, Y, precision="any"))
limit = chapter.claim("tp-max-v5p", tensor_on(v5p), "floor")
eight = chapter.claim("tp-practical-v5p", power_of_two_below(limit), "exact")
chapter.claim("tp-max-ironwood", tensor_on(ironwood))
for name, of in BOTH_CHIPS:
    chapter.shown(f"tp-exact-{name}", tensor_on(of, form="exact"), decimals(1))
no_batch = not any(load.total.has(B) for load in compute_bound(tensor_parallel, assume()).loads)
gather_scatter = [("all_gather", "In"), ("reduce_scatter", "Out")]
chapter.holds(
    ("tp-moves", moves(TP[0]) == gather_scatter, "its moves"),
    ("tp-critical-path", all(m.critical for m in TP[0].moves), "both moves are critical"),
    ("tp-no-batch", no_batch, "no B"),
    ("tp-condition", gives(M_Y * F / alpha, tensor_parallel, Y, sp.Le), "Y <= M_Y F/alpha"),
)


# Lower precision.
def gain(of: Chip, precision: str) -> Quantity:
    """The tensor limit at a precision over the limit in bf16."""
    return tensor_on(of, precision=precision) / tensor_on(of)


PRECISIONS = ((v5p, "int8"), (v5p, "fp8"), (ironwood, "fp8"), (tpu8t, "int8"), (tpu8t, "fp8"))
ratio = significant(3, trim=True)
chapter.table(
    "precision",
    "Chip | Precision | Peak over bf16 | ICI intensity | Tensor limit | Limit over bf16",
    [
        [
            of.title,
            precision,
            cell(of.bindings(precision)[C] / of.bindings()[C], ratio),
            n(intensity(of, precision)),
            cell(tensor_on(of, precision=precision), significant(3)),
            cell(gain(of, precision), ratio),
        ]
        for of, precision in PRECISIONS
    ],
    align="llrrrr",
)
chapter.require("tp-int8-unchanged", gain(v5p, "int8"), "==", 1)
chapter.require("tp-fp8-ironwood", gain(ironwood, "fp8"), "==", 1)
chapter.claim("tp-fp8-unchanged", gain(v5p, "fp8"), "times", cite="D-v5p")
chapter.claim("tp-int8-8t", gain(tpu8t, "int8"), "exact", cite="J-tpuinfo")
chapter.claim("tp-fp8-8t", gain(tpu8t, "fp8"), "unit_fraction", cite="J-tpuinfo")
chapter.shown("alpha-v5p-int8", intensity(v5p, "int8"), cite="SB2")
chapter.claim("int8-alpha-wording", intensity(v5p, "int8") / intensity(v5p), "times")
