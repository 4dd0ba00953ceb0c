"""Both chips on one basis, either overlap, and what a faster network changes."""

from __future__ import annotations

from derive import Quantity, evaluated, seconds, threshold
from derive.book import cell, decimals, si
from derive.book.tables import Cell
from derive.cost.assumptions import CHOICES
from derive.cost.strategies import fsdp, fsdp_tensor
from derive.facts import Chip
from derive.notation.symbols import B, C, N, W, X, alpha, e
from derive.notation.units import byte, flop

from .common import (
    MIXED,
    batch,
    chapter,
    intensity,
    iron_pod,
    ironwood,
    ironwood_book,
    mixed_on,
    n,
    on,
    pod,
    pods,
    power,
    tensor_on,
    tpu8t,
    v5p,
    v5p_vendor,
)
from .ironwood import iron_share
from .mixed import least
from .v5p import per_pod_chip

chapter.shown("alpha-ironwood-book", intensity(ironwood_book), cite="SB2-later")
vendor_alpha = chapter.shown("alpha-v5p-vendor", intensity(v5p_vendor), cite="D-v5p")
chapter.claim("same-ici-per-link", ironwood.bindings()[W] / v5p.bindings()[W])


def basis_row(title: str, basis: str, of: Chip, chips: Quantity) -> list[Cell]:
    """Bandwidth, intensity and thresholds of a chip on one basis, and the pod over the last."""
    over = batch / chips / mixed_on(of)
    limits = [n(on(fsdp, B / X, of, M_X=3)), n(tensor_on(of), 1), n(mixed_on(of)), n(over, 2)]
    return [title, basis, cell(of.bindings()[W], si(3), unit=True), n(intensity(of)), *limits]


chapter.table(
    "bases",
    "Chip | Basis | Bandwidth of an axis | ICI intensity | FSDP, three axes | Tensor limit"
    " | FSDP + tensor | Tokens per chip of a pod over it",
    [
        basis_row("v5p", "Scaling Book", v5p, pod),
        basis_row("v5p", "vendor", v5p_vendor, pod),
        basis_row("Ironwood", "Scaling Book", ironwood_book, iron_pod),
        basis_row("Ironwood", "vendor", ironwood, iron_pod),
    ],
    align="llrrrrrr",
)


def overlap_row(title: str, of: Chip, share: Quantity) -> list[Cell]:
    """Which side bounds a case, with communication overlapped and added."""
    both = [mixed_on(of, overlap=overlap) for overlap in CHOICES["overlap"]]
    bound = ["computation" if share.value >= q.value else "communication" for q in both]
    return [title, n(share), *map(n, both), *bound]


chapter.table(
    "overlap",
    "Case | Tokens per chip | Threshold overlapped | Threshold added | Bound overlapped"
    " | Bound added",
    [
        overlap_row("one v5p pod", v5p, per_pod_chip),
        overlap_row("one Ironwood pod", ironwood, iron_share),
        overlap_row("four v5p pods", v5p, batch / pod / pods),
    ],
    align="lrrrll",
)
slices = threshold(fsdp_tensor, N).closed_form
times = seconds(MIXED[0].moves[0])
chapter.holds(
    (
        "direction-robust",
        power(least, alpha) > 0 and power(slices, alpha) < 0 and power(times, e) > 0,
        "thresholds grow with alpha, slices shrink, times grow with the bytes",
    )
)

# TPU 8t.
alpha_8t = chapter.claim("alpha-8t", intensity(tpu8t), cite="G-8dd")
twice = tpu8t.bindings()[W] / ironwood.bindings()[W]
chapter.claim("8t-doubles-ici", twice, "exact", cite="N-hc26")
chapter.claim("8t-v5p-level", alpha_8t / intensity(v5p))
chapter.claim("8t-vendor-basis", alpha_8t / vendor_alpha)
faster_links = {C: ironwood.bindings()[C], W: tpu8t.bindings()[W]}
chapter.shown("alpha-ici-alone", evaluated(C / W, faster_links, flop / byte, "alpha"))
chapter.shown("8t-lower-peak", ironwood.bindings()[C] / tpu8t.bindings()[C], decimals(1))
