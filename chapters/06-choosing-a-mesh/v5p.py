"""The case study: LLaMA-3-70B on a pod of v5p, from the formula to a mesh."""

from __future__ import annotations

import sympy as sp

from derive import (
    assume,
    evaluated,
    nearest_power_of_two,
    number,
    optimum,
    power_of_two_below,
    saved_activations,
    threshold,
    training_flops,
)
from derive.book import ceiling, cell, decimals, exact, floor, math, percent, scientific, si
from derive.book.tables import Cell
from derive.cost.assumptions import BYTES, CHOICES
from derive.cost.strategies import fsdp, fsdp_tensor, tensor_parallel
from derive.notation import units
from derive.notation.symbols import M_X, M_Y, A, B, F, M_hbm, N, P, W, X, Y, e, s_P
from derive.notation.units import byte, flop, one
from derive.solve.feasible import Candidate

from .common import (
    CASE,
    RUN,
    batch,
    chapter,
    days,
    llama,
    made,
    more_parameters,
    n,
    on,
    pod,
    sequences,
    v5p,
)
from .mixed import best, mixed, serial
from .schemes import fsdp_three_axes, state_bytes
from .splits import ratio, splits_of, verdict
from .tensor import eight

# Time and memory.
chapter.formula("run-flops", training_flops.xreplace(assume().elements))
chapter.shown("run-flops", evaluated(training_flops, RUN, flop, "run"), scientific(2), unit="")
pod_days = chapter.claim("days-v5p-pod", days(pod))
chapter.claim("days-v5p-pod-70.5B", days(pod, size=more_parameters))
stored = {
    **llama.bindings(),
    s_P: state_bytes,
    P: RUN[P],
    X: pod.named("X", units.way),
    N: pod,
    B: batch,
    e: number(BYTES["bf16"], byte, "e", status="assumed"),
    A: chapter.given("saved-activations", number(2, one, "A", status="assumed")),
}
four = number(4, one, "A", status="assumed")
four_saved = {**stored, A: chapter.given("saved-activations-more", four)}
state = evaluated(fsdp.state, stored, byte / units.chip, "state")
saved, more_saved = (
    evaluated(saved_activations, values, byte / units.chip, "activations")
    for values in (stored, four_saved)
)
memory = chapter.claim("memory-per-chip", state + saved)
chapter.shown("memory-four", state + more_saved, si(2))
share = (memory / v5p.bindings()[M_hbm]).named("share", one)
chapter.shown("memory-share", share, percent(1))
chapter.require("memory-not-constraint", share, "<", 1)
chapter.given("largest-job", v5p.quantity("largest_job"), cite="D-v5p")

# Which schemes suffice.
whole_sequences = made(sequences.value, units.way, "sequences", sequences=sequences)
chapter.claim("fsdp-batch-limit", whole_sequences, "exact")
chapter.require("fsdp-batch-not-enough", sequences / pod, "<", 1)
chapter.shown("fsdp-batch-share", (sequences / pod).named("share", one), percent())
per_pod_chip = chapter.claim("tokens-per-chip-v5p", (batch / pod).named("B/N"))
chapter.require("fsdp-seq-comm-bound", per_pod_chip / fsdp_three_axes, "<", 1)
margin = chapter.shown("mixed-margin", per_pod_chip / mixed, decimals(1))
chapter.require("mixed-compute-bound", margin, ">=", 1)
chapter.shown("mixed-margin-serial", per_pod_chip / serial, decimals(2))
x_opt = chapter.shown("x-opt-v5p", best.on(v5p, llama, N=pod, **CASE), unit="")
for name, keep in (("kept", "activations"), ("again", "none")):
    over_step = optimum(fsdp_tensor, X, passes="step", keep=keep)
    chapter.shown(f"x-opt-step-{name}", over_step.on(v5p, llama, N=pod, **CASE), unit="")

# The published mesh.
x_mesh = chapter.claim("x-practical", nearest_power_of_two(x_opt), "exact")
y_real = (pod / x_mesh).named("N/X", units.way)
y_mesh = chapter.claim("y-practical", power_of_two_below(y_real), "exact")
used = chapter.shown("mesh-leaves-chips-idle", (x_mesh * y_mesh).named("chips", units.chip))
idle = chapter.shown("mesh-idle", pod - used)
chapter.shown("mesh-idle-share", (idle / pod).named("share", one), percent(1))
chapter.shown("mesh-tokens-per-chip", batch / used)
chapter.shown("mesh-days", days(used), decimals(1))
parts = chapter.claim("summary-sequence", (x_mesh / sequences).named("ways", units.way))
powers = splits_of("powers_of_two", form="large-n")
published_mesh = next(
    split
    for split in powers.candidates
    if (split.degree(X), split.degree(Y)) == (x_mesh.value, y_mesh.value)
)
product = sequences.value * parts.value * y_mesh.value
chapter.holds(
    ("summary-mesh", product == used.value, "one product"),
    ("summary-avoids-comms-bound", published_mesh.compute_bound, "both ratios are above one"),
)
for name, axis in (("weights", "X"), ("activations", "Y")):
    chapter.shown(f"mesh-{name}", powers.margin(published_mesh, axis), decimals(2))

# Meshes that use every chip.
overlapped, added = (splits_of(overlap=overlap) for overlap in CHOICES["overlap"])


def pod_row(split: Candidate, other: Candidate) -> list[Cell]:
    """A split of the pod, with communication overlapped and added."""
    degrees = [n(overlapped.quantity(split, axis)) for axis in (Y, X)]
    alone = [ratio(overlapped, split, axis) for axis in ("X", "Y")]
    ratios = [*alone, ratio(overlapped, split), ratio(added, other)]
    return [*degrees, *ratios, verdict(split), verdict(other)]


chapter.table(
    "pod-splits",
    "Y | X | Weights | Activations | Overlapped | Added | Compute-bound overlapped"
    " | Compute-bound added",
    [
        pod_row(*pair)
        for pair in zip(overlapped.candidates, added.candidates, strict=True)
        if pair[0].degree(Y) <= 20
    ],
    align="rrrrrrll",
)
coarse = splits_of(form="large-n", overlap="serial").degrees(Y)
chapter.holds(("pod-serial-one", len(coarse) == 1, "one divisor, in the large-n form"))
for name, y in (("pod-serial-only", coarse[0]), ("pod-best", overlapped.best.degree(Y))):
    chapter.shown(name, number(y, units.way, "Y", status="derived"), unit="")
several = number(len(added.degrees(Y)), name="splits", status="derived")
chapter.claim("pod-serial-exact", several, "exact")


def torus_row(split: Candidate) -> list[Cell]:
    """A split of the pod's torus, with the axes that each mesh axis has."""
    shares = [cell(tori.quantity(split, axis), exact()) for axis in (M_Y, M_X)]
    return [*(n(tori.quantity(split, axis)) for axis in (Y, X)), *shares, ratio(tori, split)]


tori = splits_of("torus", shape=v5p.shape())
on_torus = tori.compute_bound
chapter.table(
    "torus-splits",
    "Y | X | Axes of Y | Axes of X | Computation over communication",
    [torus_row(split) for split in on_torus],
    align="rrrrr",
)
worst = min(on_torus, key=lambda split: split.ratio)
cut_thrice = ("M_Y", sp.Rational(3, 2)) in worst.torus_axes
chapter.holds(("torus-shared", cut_thrice, "the least ratio of the table"))

# The same conditions, asked for something else.
pod_case = {**CASE, "N": pod}
largest = on(fsdp_tensor, N, v5p, llama, **CASE)
narrowest = on(fsdp_tensor, F, v5p, **pod_case)
slowest = on(fsdp_tensor, W, v5p, llama, **pod_case)
at_eight = {"Y": eight}
mixture, tensor = "FSDP + tensor", ("tensor, ", n(eight), "-way")
narrowest_tensor = on(tensor_parallel, F, v5p, **at_eight)
slowest_tensor = on(tensor_parallel, W, v5p, llama, **at_eight)
width, bandwidth = "least width", "least bandwidth of an axis"
ASKED = (
    (
        mixture,
        "most chips of a slice",
        threshold(fsdp_tensor, N),
        cell(largest, floor(), unit=True),
    ),
    (mixture, width, threshold(fsdp_tensor, F), cell(narrowest, ceiling())),
    (mixture, bandwidth, threshold(fsdp_tensor, W), cell(slowest, si(3), unit=True)),
    (tensor, width, threshold(tensor_parallel, F), cell(narrowest_tensor, ceiling())),
    (tensor, bandwidth, threshold(tensor_parallel, W), cell(slowest_tensor, si(3), unit=True)),
)
chapter.table(
    "other-way",
    "Scheme | Asked | Condition | On v5p",
    [[scheme, asked, math(condition), found] for scheme, asked, condition, found in ASKED],
    align="lllr",
)
chapter.claim("other-way-chips", largest / pod, "times")
chapter.claim("other-way-width", narrowest / llama.bindings()[F], "unit_fraction")
chapter.claim("other-way-bandwidth", slowest / v5p.bindings()[W], "unit_fraction")
