"""The ICI intensity, data parallelism, FSDP, and what fits in memory."""

from __future__ import annotations

import sympy as sp

from derive import assume, meaning, number, seconds, steps, threshold
from derive.cost.assumptions import ADAM_MOMENTS_BYTES, BYTES
from derive.cost.program import Move
from derive.cost.strategies import data_parallel, fsdp, weight_reads
from derive.notation import units
from derive.notation.symbols import M_X, B, C, D, F, M_hbm, P, W, X, alpha, e
from derive.notation.units import byte, one

from .common import (
    BOTH_CHIPS,
    DP,
    FSDP,
    chapter,
    gives,
    intensity,
    ironwood,
    made,
    on,
    v5e,
    v5p,
    v5p_vendor,
    volume,
)

# The intensity.
chapter.condition("alpha", sp.Eq(alpha, C / W, evaluate=False))
chapter.shown("alpha-v5p", intensity(v5p), cite="SB5")
chapter.shown("alpha-ironwood", intensity(ironwood))
chapter.claim("flops-ratio", ironwood.bindings()[C] / v5p.bindings()[C], "times", cite="D-7x")
both_ways = "bidirectional per axis" in v5p.bindings()[W].basis
same_unit = intensity(v5p).unit == meaning(alpha).unit
chapter.holds(("alpha-definition", both_ways and same_unit, "C/W, both directions of one axis"))

# Data parallelism and FSDP.
chapter.condition("data-parallel", threshold(data_parallel, B / X))
chapter.derivation("data-parallel", steps(data_parallel, B / X))
chapter.formula("hbm-rule", threshold(weight_reads, B))
chapter.claim("hbm-rule", on(weight_reads, B, v5e), "times", cite="SB1")
for name, of in BOTH_CHIPS:
    for axes, word in ((1, "1axis"), (3, "3axes")):
        chapter.shown(f"dp-tokens-{name}-{word}", on(fsdp, B / X, of, M_X=axes))
fsdp_three_axes = on(fsdp, B / X, v5p, M_X=3)

reduce_both, scatter, gather = (
    seconds(Move(kind, "W", ("X",), e * D * F, False))
    for kind in ("all_reduce", "reduce_scatter", "all_gather")
)
share = made(volume(*FSDP) / volume(*DP), one, "bytes of FSDP / bytes of data parallelism")
chapter.claim("fsdp-same-bytes", share)
weights_kept = volume(*fsdp.passes(assume(keep="weights")))
chapter.holds(
    ("condition-number", chapter.conditions["data-parallel"].number == "6.2", "it is the second"),
    ("dp-forward-no-comms", not DP[0].moves, "the forward pass has no moves"),
    ("dp-backward-overlaps", not any(m.critical for m in DP[1].moves), "no move is critical"),
    ("dp-condition", gives(alpha / M_X, data_parallel, B / X), "B/X >= alpha/M_X"),
    ("fsdp-same-condition", gives(alpha / M_X, fsdp, B / X), "B/X >= alpha/M_X"),
    ("allreduce-is-rs-plus-ag", reduce_both == scatter + gather, "2V/W is V/W twice"),
    ("fsdp-backward-bytes", volume(FSDP[1]) == volume(DP[1]), "8DF in both"),
    ("fsdp-forward-bytes", 2 * volume(FSDP[0]) == volume(FSDP[1]), "4DF against 8DF"),
    ("fsdp-kept-bytes", weights_kept == volume(*DP), "4DF + 4DF against 8DF"),
)

# Memory.
chapter.condition("memory", threshold(data_parallel, P))
chapter.derivation("memory", steps(data_parallel, P))
weight = number(BYTES["bf16"], byte / units.parameter, "weight", status="assumed")
moments = number(ADAM_MOMENTS_BYTES, byte / units.parameter, "moments", status="assumed")
chapter.shown("weight-bytes", weight, unit="")
chapter.shown("moment-bytes", moments, unit="")
state_bytes = chapter.shown("bytes-per-parameter", (weight + moments).named("s_P"))
chapter.given("hbm-v5p", v5p.bindings()[M_hbm], cite="SB2")
chapter.given("hbm-v5p-vendor", v5p_vendor.bindings()[M_hbm], cite="D-v5p")
chapter.claim("dp-largest-exact", on(data_parallel, P, v5p))
chapter.claim("dp-largest-model", on(data_parallel, P, v5p), "floor")
chapter.claim("dp-largest-vendor", on(data_parallel, P, v5p_vendor), cite="D-v5p")
