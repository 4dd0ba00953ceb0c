"""FSDP and tensor parallelism together, the bytes of every scheme, and gated layers."""

from __future__ import annotations

import sympy as sp

from derive import assume, evaluated, optimum, seconds, steps, threshold
from derive.book import cell, decimals, math, significant
from derive.book.tables import Cell
from derive.cost.strategies import Strategy, data_parallel, fsdp, fsdp_tensor, tensor_parallel
from derive.notation.symbols import M_X, M_Y, B, F, N, X, Y, alpha
from derive.notation.units import one

from .common import (
    FSDP,
    MIXED,
    TORUS,
    TP,
    chapter,
    gives,
    ironwood,
    made,
    mixed_on,
    moves,
    on,
    power,
    v5p,
    volume,
)
from .schemes import fsdp_three_axes

best, per_chip = optimum(fsdp_tensor, X), threshold(fsdp_tensor, B / N)
least = per_chip.closed_form


def forward_time(axis: str) -> sp.Expr:
    """The time of a layer's moves over a mesh axis, with Y in terms of the chips."""
    total = sp.Add(*(seconds(m) for m in MIXED[0].moves if m.axis == axis))
    return total.xreplace({**assume().elements, Y: N / X})


weights, activations = forward_time("X"), forward_time("Y")
chapter.formula("weights-time", weights)
chapter.formula("activations-time", activations)
chapter.condition("split", best)
chapter.condition("mixed", per_chip)
chapter.derivation("mixed", steps(fsdp_tensor, B / N))
chapter.condition("window", threshold(fsdp_tensor, Y))
chapter.formula("mixed-serial", threshold(fsdp_tensor, B / N, overlap="serial"))
# Against FSDP over the torus axes of both.
alone = threshold(fsdp, B / X).closed_form.xreplace({M_X: M_X + M_Y})
largest_alpha = alpha * alone / least
chapter.formula("mixing-pays", sp.Lt(alpha, largest_alpha, evaluate=False))
two_thirds = evaluated(sp.cancel(largest_alpha / F), {M_X: TORUS["M_X"], M_Y: TORUS["M_Y"]})
chapter.claim("mixing-pays", two_thirds.named("share", one), "exact")

both_kinds = [moves(MIXED[0], "X"), moves(MIXED[0], "Y")] == [moves(FSDP[0]), moves(TP[0])]
directions = power(activations, X) == -1 and power(weights, X) == 1
balanced = best.at**2 == M_X * B * N / (M_Y * F)
square_roots = power(best.at, B) == power(best.at, N) == sp.Rational(1, 2)
chapter.holds(
    ("mixed-moves", both_kinds, "weights over X, activations over Y"),
    ("larger-x-larger-tp", directions, "activations take 1/X of the time, weights X times it"),
    ("more-tp-fewer-chips", power(N / Y, Y) == -1, "X = N/Y"),
    ("x-opt-formula", balanced, "the optimum of X"),
    ("mixed-formula", gives(alpha**2 / (M_X * M_Y * F), fsdp_tensor, B / N), "the bound on B/N"),
    ("x-opt-growth", square_roots, "square roots"),
    ("mixed-scaling", (power(least, alpha), power(least, F)) == (2, -1), "alpha squared over F"),
)

mixed, mixed_iron = mixed_on(v5p), mixed_on(ironwood)
serial = mixed_on(v5p, overlap="serial")
chapter.claim("mixed-min-tokens-v5p", mixed)
chapter.claim("mixed-min-tokens-ironwood", mixed_iron)
chapter.claim("mixed-vs-fsdp", mixed / fsdp_three_axes, "unit_fraction")
chapter.shown("mixed-min-tokens-serial", serial)
chapter.claim("mixed-serial-factor", serial / mixed, "exact")
chapter.shown("mixed-saving-1axis", on(fsdp, B / X, v5p, M_X=1) / mixed)
saving = chapter.shown("mixed-saving-3axes", fsdp_three_axes / mixed, decimals(1))
chapter.require("mixed-far-fewer", saving, ">", 1)
iron_saving = on(fsdp, B / X, ironwood, M_X=3) / mixed_iron
chapter.shown("mixed-saving-ironwood", iron_saving, decimals(1))
for name, keep in (("kept", "activations"), ("again", "none")):
    backward = mixed_on(v5p, passes="backward", keep=keep)
    chapter.claim(f"mixed-backward-{name}", backward / mixed, "exact")


# The bytes of each scheme.
def bytes_row(chosen: Strategy, title: str) -> list[Cell]:
    """FLOPs and bytes of a scheme's passes."""
    (forward, kept), again = chosen.passes(), chosen.passes(assume(keep="none"))[1]
    flops = [cost.flops.xreplace(assume().elements) for cost in (forward, kept)]
    return [title, *map(math, [*flops, *map(volume, (forward, kept, again))])]


chapter.table(
    "per-layer",
    "Scheme | FLOP forward | FLOP backward | Bytes forward | Bytes backward, inputs kept"
    " | Bytes backward, gathered again",
    [
        bytes_row(data_parallel, "data parallel"),
        bytes_row(fsdp, "FSDP"),
        bytes_row(tensor_parallel, "tensor"),
        bytes_row(fsdp_tensor, "FSDP + tensor"),
        ["FSDP + tensor, in one edition", "", "", "", math(2 * volume(MIXED[0])), ""],
    ],
)


# Gated layers.
GATED = (
    ("FSDP: tokens per chip", fsdp, B / X),
    ("tensor: largest degree", tensor_parallel, Y),
    ("FSDP + tensor: best FSDP degree", fsdp_tensor, X),
    ("FSDP + tensor: tokens per chip", fsdp_tensor, B / N),
)


def closed(chosen: Strategy, asked: sp.Expr, **changes: object) -> sp.Expr:
    """The closed form of the best FSDP degree or of a threshold."""
    if asked == X:
        return optimum(chosen, X, **changes).at
    return threshold(chosen, asked, **changes).closed_form


factors = [
    made(
        sp.powsimp(closed(chosen, asked, gated=True) / closed(chosen, asked), force=True),
        one,
        "gated / not gated",
    )
    for _, chosen, asked in GATED
]
chapter.table(
    "gated",
    "Figure | Factor with three matrices",
    [
        [title, cell(factor, significant(3, trim=True))]
        for (title, _, _), factor in zip(GATED, factors, strict=True)
    ],
)
chapter.claim("gated-constants", factors[1], "exact")
chapter.require("gated-fsdp", factors[0], "==", 1)
chapter.shown("ironwood-gated", mixed_on(ironwood, gated=True))
