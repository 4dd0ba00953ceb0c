"""Beyond one slice and one layer: pipelining, pods, and the mesh in MaxText."""

from __future__ import annotations

from derive import Quantity, evaluated, multiple_below, number, steps, threshold
from derive.book import decimals, floor, percent
from derive.book.tables import Cell
from derive.cost.assumptions import CHOICES
from derive.cost.strategies import cross_pod, fsdp_tensor, pipeline
from derive.facts import Chip
from derive.notation import units
from derive.notation.symbols import B, C, D, L, S, W_dcn, X, Y, Z, e
from derive.notation.units import one, token
from derive.solve.feasible import Feasible

from .common import (
    BOTH_CHIPS,
    PP,
    TORUS,
    TP,
    batch,
    chapter,
    days,
    gives,
    intensity,
    iron_pod,
    ironwood,
    llama,
    moves,
    n,
    on,
    pod,
    pods,
    tensor_on,
    v5p,
    v5p_slip,
    v5p_vendor,
    volume,
    whole,
)
from .mixed import mixed, mixed_iron
from .splits import ratio, splits_of
from .tensor import limit

# Pipelining.
chapter.condition("pipeline", threshold(pipeline, Z))
chapter.derivation("pipeline", steps(pipeline, Z))
stages = {Z: chapter.given("pp-stages", number(8, units.way, "Z")), L: llama.bindings()[L]}
sends = volume(PP[0]) * (Z - 1)
chapter.formula("pp-per-layer", sends / L)
over_tensor = sends / (volume(TP[0]) * L)
chapter.shown("pp-small", evaluated(over_tensor, stages, one, "pipeline over tensor"), percent(1))
for name, of in BOTH_CHIPS:
    chapter.shown(f"pp-limit-{name}", on(pipeline, Z, of, llama), floor(), unit="")
chapter.claim("pp-alpha-ratio", intensity(ironwood) / intensity(v5p), "times")
hop_fits = on(pipeline, Z, ironwood, llama).value > llama.layers
tighter = mixed_iron.value > mixed.value and tensor_on(ironwood).value < limit.value
one_send = [m.array_bytes for m in PP[0].moves] == [e * B * D] and sends.subs(Z, 2) == volume(PP[0])
chapter.holds(
    ("pp-moves-per-layer", one_send, "one send of BD"),
    ("pp-within-layers", hop_fits, "as many stages as layers are still covered"),
    ("pod-thousands", min(pod.value, iron_pod.value) >= 2000, "both pods"),
    ("pp-favoured-by-alpha", tighter and hop_fits, "ICI limits tighten, a hop is still covered"),
)

# Across pods.
chapter.condition("cross-pod", threshold(cross_pod, B / S))
chapter.derivation("cross-pod", steps(cross_pod, B / S))
chapter.formula("cross-pod-exact", threshold(cross_pod, B / S, form="exact"))
once = [[], [("all_reduce", "dW_out"), ("all_reduce", "dW_in")]]
chapter.holds(
    ("dcn-once", [moves(cost) for cost in cross_pod.passes()] == once, "each gradient once"),
    ("dcn-condition", gives(C / W_dcn, cross_pod, B / S), "B/S >= C/W_dcn"),
)
chapter.given("dcn-bandwidths", v5p.bindings()[W_dcn], cite="D-v5p")
chapter.given("dcn-bandwidth-ironwood", ironwood.bindings()[W_dcn], cite="D-gce")
over_dcn = chapter.shown("dcn-tokens-v5p", on(cross_pod, B / S, v5p))
chapter.claim("dcn-rounded", on(cross_pod, B / S, v5p_slip), cite="SB5-later")
iron_dcn = chapter.claim("dcn-tokens-ironwood", on(cross_pod, B / S, ironwood))
chapter.shown("dcn-exact", on(cross_pod, B / S, v5p, form="exact", S=pods))

# Four pods, one batch.
per_pod = chapter.claim("dcn-per-pod", (batch / pods).named("B/S"))
clears = chapter.shown("dcn-easy-v5p", per_pod / over_dcn, decimals(1))
clears_iron = chapter.shown("dcn-easy-ironwood", per_pod / iron_dcn, decimals(1))
chapter.require("dcn-clears", clears, ">", 1)
chapter.require("dcn-easy", clears_iron, ">", 1)
four = chapter.shown("four-pods", (pods * pod).named("chips", units.chip))
thin = (per_pod / pod).named("B/N", token / units.chip)
chapter.claim("dcn-tokens-per-chip", thin)
chapter.require("dcn-just-clears", thin / mixed, ">", 1)
chapter.shown("dcn-margin", ((thin - mixed) / mixed).named("margin", one), percent(1))
chapter.claim("dcn-days", days(four))
thin_batch = per_pod.named("B", token)
for side in ("low", "high"):
    edge = on(fsdp_tensor, Y, v5p, llama, side=side, N=pod, B=thin_batch, **TORUS)
    chapter.shown(f"dcn-window-{side}", edge, decimals(2), unit="")


def in_forms(chips: Quantity, of: Chip = v5p) -> list[Feasible]:
    """The splits of some chips of each pod, large-n and exact."""
    return [splits_of(chips=chips, of=of, tokens=thin_batch, form=form) for form in CHOICES["form"]]


full = in_forms(pod)
on_vendor_basis = [s.degrees(Y) for s in in_forms(pod, v5p_vendor)]
chapter.holds(
    ("dcn-after-rounding", not any(s.compute_bound for s in full), "splits of a full pod"),
    ("dcn-vendor-basis", on_vendor_basis == [(10,), (10,)], "splits of a full pod"),
)


def thin_row(forms: list[Feasible], y: int) -> list[Cell]:
    """A tensor degree on a pod with a quarter of the batch, in both forms."""
    coarse, fine = (next(c for c in s.candidates if c.degree(Y) == y) for s in forms)
    which = "both forms" if coarse.compute_bound else "exact form only"
    degrees = [whole(fine.chips, "chips"), *(n(forms[1].quantity(fine, axis)) for axis in (Y, X))]
    ratios = [ratio(s, c) for s, c in zip(forms, (coarse, fine), strict=True)]
    return [*degrees, *ratios, which if fine.compute_bound else "no"]


chapter.table(
    "four-pod-splits",
    "Chips used of each pod | Y | X | Large-n | Exact | Compute-bound",
    [
        *(thin_row(full, y) for y in (8, 10, 14, 16)),
        *(thin_row(in_forms(multiple_below(pod, y)), y) for y in (11, 12)),
    ],
    align="rrrrrl",
)

# MaxText: settings and rules as its base configuration has them (configs/base.yml).
SETTINGS = {"ici_fsdp_parallelism": -1, "dcn_data_parallelism": -1}
RULES = {"embed": "fsdp", "mlp": "tensor", "heads": "tensor", "layers": "stage"}
chapter.given("maxtext", number(SETTINGS["ici_fsdp_parallelism"], one, "setting"), "R-maxtext")
lines = number(len(SETTINGS), one, "lines")
chapter.claim("maxtext-two-lines", lines, "exact", cite="R-maxtext")
named = {"embed", "mlp", "heads"} <= set(RULES)
chapter.holds(("maxtext-axis-rules", named, "the configuration's rules"))
