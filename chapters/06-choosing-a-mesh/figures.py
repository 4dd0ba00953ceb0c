"""The figures of chapter 06: every number of it, derived, under the name that the prose uses."""

# ruff: noqa: F403, F405
# fmt: off
import numpy as np
import sympy as sp

from derive import *
from derive.book import Chapter, Plot, cell, decimals, exact, integer, math, percent, scientific, si
from derive.book import significant as digits
from derive.cost.assumptions import ADAM_MOMENTS_BYTES, BYTES, CHOICES, FLOP_PER_MULTIPLY_ADD
from derive.cost.moves import Move
from derive.notation import units
from derive.notation.units import byte, flop, one, token
from derive.solve.conditions import conditions
from derive.solve.question import held, question

chapter = Chapter("06", "Choosing a mesh for training", profile="scaling-book", names=(
    "LLaMA-3-70B", "LLaMA-3", "Llama 3 8B", "Llama 3 70B", "Llama 3.1 405B", "TPU7x", "TPU 8t",
    "v4", "v5e", "v5p", "v6e", "ZeRO-3", "bf16", "fp32", "fp8", "int8", "3D", "2D"))
v5p, v5e, tpu8t = (chapter.chip(name) for name in ("tpu-v5p", "tpu-v5e", "tpu8t"))
ironwood = chapter.chip("tpu7x", override={"ici_axis": "D-gce"})
# For comparisons: the other basis of each chip, and a peak that one edition misprints.
v5p_vendor = chapter.chip("tpu-v5p", override={"ici_axis": "D-v5p", "memory": "D-v5p"})
v5p_slip = chapter.chip("tpu-v5p", override={"bf16": "SB5-later"})
ironwood_book = chapter.chip("tpu7x")
CHIPS = (chapter.chip("tpu-v4"), v5e, v5p, chapter.chip("tpu-v6e"), ironwood, tpu8t)
MODELS = tuple(chapter.model(f"llama-3-{size}") for size in ("8b", "70b", "405b"))
llama = MODELS[1]
BOTH_CHIPS = (("v5p", v5p), ("ironwood", ironwood))
DP, FSDP, TP, MIXED, PP = (
    s.passes() for s in (data_parallel, fsdp, tensor_parallel, fsdp_tensor, pipeline))

# --- how figures are declared and made
def shown(name, quantity, rule=None, cite=(), unit=None):
    chapter.shown(name, quantity, rule or integer(), unit=unit, cite=cite)
    return quantity

def claim(name, quantity, rule="round", cite=()):
    chapter.claim(name, quantity, rule, cite=cite)
    return quantity

def given(name, quantity, cite=()):
    chapter.given(name, quantity, cite=cite)
    return quantity

def holds(*statements):
    for name, statement, because in statements:
        chapter.require(name, holds=bool(statement), because=because)

def table(name, align, header, rows):
    chapter.table(name, [title.strip() for title in header.split("|")], rows, align=align)

def n(quantity, places=0, **more):
    return cell(quantity, decimals(places), **more)

def whole(value):
    return n(number(int(value), status="derived"))

def made(value, unit, formula, **inputs):
    """A quantity computed in Python, with what it was computed from."""
    return Quantity(sp.sympify(value), unit, formula=formula, inputs=tuple(inputs.items()))

def on(chosen, asked, *givers, fixed=(), side="quantity", **named):
    """The number of a threshold; `named` mixes assumptions and values of symbols."""
    changes = {k: x for k, x in named.items() if k in CHOICES}
    values = {k: x for k, x in named.items() if k not in CHOICES}
    return getattr(threshold(chosen, asked, fixed=fixed, **changes).on(*givers, **values), side)

def mixed_on(of, **changes):
    """The least tokens per chip of FSDP + tensor for LLaMA-3-70B on two axes and one."""
    return on(fsdp_tensor, B / N, of, llama, **TORUS, **changes)

def tensor_on(of, model=llama, **changes):
    return on(tensor_parallel, Y, of, model, **changes)

def intensity(of, precision="bf16"):
    return evaluated(C / W, of.bindings(precision), flop / byte, "alpha")

def power_of_two(of, shift=0):
    """The largest power of two not above a quantity; with a shift of 1/2, the nearest by ratio."""
    power = 2 ** sp.floor(sp.log(Y, 2) + shift)
    return evaluated(power, {Y: of.named("n", units.way)}, units.way)

def at_most(of, step=1):
    """The largest multiple of `step` not above a quantity."""
    formula = f"largest multiple of {step} not above n"
    return made(step * sp.floor(of.value / step), of.unit, formula, n=of)

def gives(expected, chosen, asked, direction=sp.Ge):
    """Whether the threshold is the relation that a sentence states."""
    return threshold(chosen, asked).relations == (direction(asked, expected, evaluate=False),)

def power(expr, symbol):
    """The exponent with which a product of powers grows in a symbol."""
    return sp.cancel(symbol * sp.diff(sp.log(expr), symbol))

def moves(cost, axes=None):
    return [(m.collective, m.tensor) for m in cost.moves if axes in (None, m.axis)]

def volume(*costs):
    """Bytes of the collectives of passes, an all-reduce counted twice."""
    return sp.Add(*(m.bytes for cost in costs for m in cost.moves)).xreplace(assume().constants)

# --- the run
sequences = given("sequences", number(1024, units.sequence, "sequences"), ("SB6",))
length = given("sequence-length", number(4096, token / units.sequence, "length"), ("SB6",))
batch = shown("batch-tokens", (sequences * length).named("B"))
later_batch = given("batch-16m", number(2**24, token, "B"), ("P-Llama3",))
tokens = given("tokens-15t", number("15e12", token, "R"), ("SB6",))
published = llama.fact("published_parameters")
parameters = given("params-70b", published.quantity(published.reading("M-llama3")), ("M-llama3",))
more_parameters = given("params-70b-70-5b", number("70.5e9", units.parameter, "P"))
shown("params-exact", llama.parameters)
mfu = given("mfu-40", number("0.4", one, "u", status="assumed"), ("SB6",))
pod = given("pod-v5p", v5p.quantity("pod_chips"), ("D-v5p",))
iron_pod = given("pod-ironwood", ironwood.quantity("pod_chips"), ("D-7x",))
given("f-llama3", llama.bindings()[F], ("R-maxtext",))
TORUS = {"M_X": number(2, units.axis, "M_X"), "M_Y": number(1, units.axis, "M_Y")}
CASE, LATER = ({"B": b, **TORUS} for b in (batch, later_batch))
given("mx-my", (TORUS["M_X"] * TORUS["M_Y"]).named("M_X M_Y"))
# One multiply-add per parameter and token in the forward pass, two in the backward pass.
TRAINING = 3 * fma * P * R
DAY = 24 * 60 * 60
per_multiply_add = number(FLOP_PER_MULTIPLY_ADD, flop, "fma", status="assumed")
run = {fma: per_multiply_add, P: parameters, R: tokens}

def days(chips, of=v5p, size=parameters):
    values = {**run, P: size, N: chips, u: mfu, C: of.bindings()[C]}
    return evaluated(TRAINING / (N * C * u) / DAY, values, units.day, "training time")

# --- the intensity
chapter.condition("alpha", sp.Eq(alpha, C / W, evaluate=False))
shown("alpha-v5p", intensity(v5p), cite=("SB5",))
shown("alpha-ironwood", intensity(ironwood))
claim("flops-ratio", ironwood.bindings()[C] / v5p.bindings()[C], "times", ("D-7x",))
holds(("alpha-definition", "bidirectional per axis" in v5p.bindings()[W].basis
       and intensity(v5p).unit == meaning(alpha).unit, "C/W, both directions of one axis"))

# --- data parallelism and FSDP
chapter.condition("data-parallel", threshold(data_parallel, B / X))
chapter.derivation("data-parallel", steps(data_parallel, B / X))
chapter.formula("hbm-rule", threshold(weight_reads, B))
claim("hbm-rule", on(weight_reads, B, v5e), cite=("SB1",))
for name, of in BOTH_CHIPS:
    for axes, word in ((1, "1axis"), (3, "3axes")):
        shown(f"dp-tokens-{name}-{word}", on(fsdp, B / X, of, M_X=axes))
fsdp_three_axes = on(fsdp, B / X, v5p, M_X=3)
reduce_both, scatter, gather = (seconds(Move(kind, "W", ("X",), e * D * F, False))
                                for kind in ("all_reduce", "reduce_scatter", "all_gather"))
share = made(volume(*FSDP) / volume(*DP), one, "bytes of FSDP / bytes of data parallelism")
claim("fsdp-same-bytes", share)
weights_kept = volume(*fsdp.passes(assume(keep="weights")))
holds(
    ("condition-number", chapter.conditions["data-parallel"].number == "6.2", "it is the second"),
    ("dp-forward-no-comms", not DP[0].moves, "the forward pass has no moves"),
    ("dp-backward-overlaps", not any(m.critical for m in DP[1].moves), "no move is critical"),
    ("dp-condition", gives(alpha / M_X, data_parallel, B / X), "B/X >= alpha/M_X"),
    ("fsdp-same-condition", gives(alpha / M_X, fsdp, B / X), "B/X >= alpha/M_X"),
    ("allreduce-is-rs-plus-ag", reduce_both == scatter + gather, "2V/W is V/W twice"),
    ("fsdp-kept-bytes", weights_kept == volume(*DP), "4DF + 4DF against 8DF"),
)

# --- memory
chapter.condition("memory", threshold(data_parallel, P))
chapter.derivation("memory", steps(data_parallel, P))
weight = number(BYTES["bf16"], byte / units.parameter, "weight", status="assumed")
moments = number(ADAM_MOMENTS_BYTES, byte / units.parameter, "moments", status="assumed")
shown("weight-bytes", weight, unit="")
shown("moment-bytes", moments, unit="")
state_bytes = shown("bytes-per-parameter", (weight + moments).named("s_P"))
given("hbm-v5p", v5p.bindings()[M_hbm], ("SB2",))
given("hbm-v5p-vendor", v5p_vendor.bindings()[M_hbm], ("D-v5p",))
claim("dp-largest-exact", on(data_parallel, P, v5p))
claim("dp-largest-model", on(data_parallel, P, v5p), "floor")
claim("dp-largest-vendor", on(data_parallel, P, v5p_vendor), cite=("D-v5p",))

# --- tensor parallelism
chapter.condition("tensor", threshold(tensor_parallel, Y))
chapter.derivation("tensor", steps(tensor_parallel, Y))
chapter.formula("tensor-exact", threshold(tensor_parallel, Y, form="exact"))
chapter.formula("tensor-precision", threshold(tensor_parallel, Y, precision="any"))
limit = claim("tp-max-v5p", tensor_on(v5p))
claim("tp-practical-v5p", power_of_two(limit), "exact")
claim("tp-max-ironwood", tensor_on(ironwood))
for name, of in BOTH_CHIPS:
    shown(f"tp-exact-{name}", tensor_on(of, form="exact"), decimals(1))
holds(
    ("tp-moves", moves(TP[0]) == [("all_gather", "In"), ("reduce_scatter", "Out")], "its moves"),
    ("tp-critical-path", all(m.critical for m in TP[0].moves), "both moves are critical"),
    ("tp-no-batch", not any(c.load.has(B) for c in conditions(tensor_parallel, assume())), "no B"),
    ("tp-condition", gives(M_Y * F / alpha, tensor_parallel, Y, sp.Le), "Y <= M_Y F/alpha"),
)

def gain(of, precision):
    """The tensor limit at a precision over the limit in bf16."""
    return tensor_on(of, precision=precision) / tensor_on(of)

table("precision", "llrrrr",
      "Chip | Precision | Peak over bf16 | ICI intensity | Tensor limit | Limit over bf16",
      [[of.title, p, cell(of.bindings(p)[C] / of.bindings()[C], digits(3, trim=True)),
        n(intensity(of, p)), cell(tensor_on(of, precision=p), digits(3)),
        cell(gain(of, p), digits(3, trim=True))]
       for of, p in ((v5p, "int8"), (v5p, "fp8"), (ironwood, "fp8"), (tpu8t, "int8"),
                     (tpu8t, "fp8"))])
chapter.require("tp-int8-unchanged", gain(v5p, "int8"), "==", 1)
chapter.require("tp-fp8-ironwood", gain(ironwood, "fp8"), "==", 1)
claim("tp-fp8-unchanged", gain(v5p, "fp8"), "times", ("D-v5p",))
shown("alpha-v5p-int8", intensity(v5p, "int8"), cite=("SB2",))
claim("int8-alpha-wording", intensity(v5p, "int8") / intensity(v5p), "times")

# --- FSDP and tensor parallelism together
best, per_chip = optimum(fsdp_tensor, X), threshold(fsdp_tensor, B / N)
weights, activations = (
    sp.Add(*(seconds(m) for m in MIXED[0].moves if m.axis == axis))
    .xreplace({**assume().constants, Y: N / X}) for axis in "XY")
chapter.formula("weights-time", weights)
chapter.formula("activations-time", activations)
chapter.condition("split", sp.Eq(X, best.at, evaluate=False))
chapter.condition("mixed", per_chip)
chapter.derivation("mixed", steps(fsdp_tensor, B / N))
chapter.condition("window", threshold(fsdp_tensor, Y))
chapter.formula("mixed-serial", threshold(fsdp_tensor, B / N, overlap="serial"))
least = per_chip.closed_form
holds(
    ("mixed-moves", [moves(MIXED[0], "X"), moves(MIXED[0], "Y")] == [moves(FSDP[0]), moves(TP[0])],
     "weights over X, activations over Y"),
    ("larger-x-larger-tp", power(activations, X) == -1 and power(weights, X) == 1,
     "the time of activations falls as 1/X, that of weights grows as X"),
    ("more-tp-fewer-chips", power(N / Y, Y) == -1, "X = N/Y"),
    ("x-opt-formula", sp.simplify(best.at**2 - B / F * M_X / M_Y * N) == 0, "the optimum of X"),
    ("mixed-formula", gives(alpha**2 / (M_X * M_Y * F), fsdp_tensor, B / N), "the bound on B/N"),
    ("x-opt-growth", power(best.at, B) == power(best.at, N) == sp.Rational(1, 2), "square roots"),
    ("mixed-scaling", (power(least, alpha), power(least, F)) == (2, -1), "alpha squared over F"),
)
mixed, mixed_iron = mixed_on(v5p), mixed_on(ironwood)
serial = mixed_on(v5p, overlap="serial")
claim("mixed-min-tokens-v5p", mixed)
claim("mixed-min-tokens-ironwood", mixed_iron)
claim("mixed-vs-fsdp", mixed / fsdp_three_axes, "unit_fraction")
shown("mixed-min-tokens-serial", serial)
claim("mixed-serial-factor", serial / mixed, "exact")
chapter.require("mixed-far-fewer", mixed, "<", fsdp_three_axes)
shown("mixed-saving-1axis", on(fsdp, B / X, v5p, M_X=1) / mixed)
shown("mixed-saving-3axes", fsdp_three_axes / mixed, decimals(1))
shown("mixed-saving-ironwood", on(fsdp, B / X, ironwood, M_X=3) / mixed_iron, decimals(1))
for name, keep in (("kept", "activations"), ("again", "none")):
    backward = mixed_on(v5p, passes="backward", keep=keep)
    claim(f"mixed-backward-{name}", backward / mixed, "exact")

def bytes_row(chosen, title):
    (forward, kept), again = chosen.passes(), chosen.passes(assume(keep="none"))[1]
    flops = (cost.flops.xreplace(assume().constants) for cost in (forward, kept))
    return [title, *map(math, flops), *(math(volume(cost)) for cost in (forward, kept, again))]

table("per-layer", "llllll",
      "Scheme | FLOP forward | FLOP backward | Bytes forward | Bytes backward, inputs kept"
      " | Bytes backward, gathered again",
      [bytes_row(data_parallel, "data parallel"), bytes_row(fsdp, "FSDP"),
       bytes_row(tensor_parallel, "tensor"), bytes_row(fsdp_tensor, "FSDP + tensor"),
       ["FSDP + tensor, as once printed", "", "", "", math(2 * volume(MIXED[0])), ""]])
GATED = (("FSDP: tokens per chip", lambda **a: threshold(fsdp, B / X, **a).closed_form),
         ("tensor: largest degree", lambda **a: threshold(tensor_parallel, Y, **a).closed_form),
         ("FSDP + tensor: best FSDP degree", lambda **a: optimum(fsdp_tensor, X, **a).at),
         ("FSDP + tensor: tokens per chip",
          lambda **a: threshold(fsdp_tensor, B / N, **a).closed_form))
factors = [made(sp.powsimp(form(gated=True) / form(), force=True), one, "gated / not gated")
           for _, form in GATED]
table("gated", "lr", "Figure | Factor with three matrices",
      [[t, cell(f, digits(3, trim=True))] for (t, _), f in zip(GATED, factors, strict=True)])
claim("gated-constants", factors[1], "exact")
chapter.require("gated-fsdp", factors[0], "==", 1)
shown("ironwood-gated", mixed_on(ironwood, gated=True))

# --- the thresholds on each chip
def threshold_row(of):
    axes = int(of.quantity("torus_axes").value)
    both = [on(fsdp_tensor, B / N, of, llama, overlap=o, M_X=axes - 1, M_Y=1)
            for o in CHOICES["overlap"]]
    across = n(on(cross_pod, B / S, of)) if of.has("dcn") else "not published"
    return [of.title, n(intensity(of)), *(n(on(fsdp, B / X, of, M_X=m)) for m in (1, axes)),
            *map(n, both), across]

table("thresholds", "lrrrrrr",
      "Chip | ICI intensity | FSDP, one axis | FSDP, all axes | FSDP + tensor, overlapped"
      " | FSDP + tensor, added | Tokens per slice over DCN", [threshold_row(of) for of in CHIPS])
table("tensor-limits", "lrrrrrr",
      "Chip | " + " | ".join(f"{m.title} | power of two" for m in MODELS),
      [[of.title, *(x for m in MODELS
                    for x in (n(tensor_on(of, m), 1), n(power_of_two(tensor_on(of, m)))))]
       for of in CHIPS])

# --- the case study on a v5p pod
chapter.formula("run-flops", TRAINING.xreplace(assume().constants))
shown("run-flops", evaluated(TRAINING, run, flop, "run"), scientific(2), unit="")
pod_days = claim("days-v5p-pod", days(pod))
claim("days-v5p-pod-70-5b", days(pod, size=more_parameters))
saved = given("saved-activations", number(2, one, "saved", status="assumed"))
stored = {**llama.bindings(), s_P: state_bytes, P: parameters, X: pod.named("X", units.way), N: pod,
          B: batch, e: number(BYTES["bf16"], byte, "e", status="assumed")}
state = evaluated(fsdp.state, stored, byte / units.chip, "state")
saved_layer = evaluated(e * B * D * L / N, stored, byte / units.chip, "activation")
memory = claim("memory-per-chip", state + saved_layer * saved)
shown("memory-four", state + saved_layer * 4, si(2))
shown("memory-share", (memory / v5p.bindings()[M_hbm]).named("share", one), percent(1))
chapter.require("memory-not-constraint", memory, "<", v5p.bindings()[M_hbm])
shown("largest-job", v5p.quantity("largest_job"), cite=("D-v5p",))
claim("fsdp-batch-limit", sequences, "exact")
chapter.require("fsdp-batch-not-enough", sequences.value, "<", pod.value)
shown("fsdp-batch-share", (sequences / pod).named("share", one), percent())
per_pod_chip = claim("tokens-per-chip-v5p", (batch / pod).named("B/N"))
chapter.require("fsdp-seq-comm-bound", per_pod_chip, "<", fsdp_three_axes)
chapter.require("mixed-compute-bound", per_pod_chip, ">=", mixed)
shown("mixed-margin", per_pod_chip / mixed, decimals(1))
shown("mixed-margin-serial", per_pod_chip / serial, decimals(2))
x_opt = shown("x-opt-v5p", best.on(v5p, llama, N=pod, **CASE).quantity, unit="")
for name, keep in (("kept", "activations"), ("again", "none")):
    over_step = optimum(fsdp_tensor, X, passes="step", keep=keep)
    shown(f"x-opt-step-{name}", over_step.on(v5p, llama, N=pod, **CASE).quantity, unit="")
x_mesh = claim("x-practical", power_of_two(x_opt, sp.Rational(1, 2)), "exact")
y_mesh = claim("y-practical", power_of_two(pod / x_mesh), "exact")
used = shown("mesh-leaves-chips-idle", (x_mesh * y_mesh).named("chips", units.chip))
idle = shown("mesh-idle", pod - used)
shown("mesh-idle-share", (idle / pod).named("share", one), percent(1))
shown("mesh-tokens-per-chip", batch / used)
shown("mesh-days", days(used), decimals(1))
parts = claim("summary-sequence", (x_mesh / sequences).named("ways", units.way))
holds(("summary-mesh", sequences.value * parts.value * y_mesh.value == used.value, "one product"))

def splits_of(kind="divisors", chips=pod, of=v5p, b=batch, **more):
    more = more if kind == "torus" else {**TORUS, **more}
    return feasible(fsdp_tensor, int(chips.value), of, llama, splits=kind, values={"B": b}, **more)

def load(candidate, where):
    """Computation over the communication on one network of a split."""
    return next(sp.oo if x == 0 else 1 / x for _, at, x in candidate.loads if at == where)

def ratio(candidate, where=None):
    x = candidate.ratio if where is None else load(candidate, where)
    return "no traffic" if x.is_infinite else n(made(x, one, f"ratio at {candidate.degrees}"), 2)

def verdict(candidate):
    return "yes" if candidate.compute_bound else "no"

printed_mesh = next(c for c in splits_of("powers_of_two", form="large-n").candidates
                    if (c.degree(X), c.degree(Y)) == (x_mesh.value, y_mesh.value))
holds(("summary-avoids-comms-bound", printed_mesh.compute_bound, "both ratios are above one"))
shown("mesh-weights", made(load(printed_mesh, "X"), one, "T_math/T_X"), decimals(2))
shown("mesh-activations", made(load(printed_mesh, "Y"), one, "T_math/T_Y"), decimals(2))
overlapped, added = (splits_of(overlap=o) for o in CHOICES["overlap"])
table("pod-splits", "rrrrrrll",
      "Y | X | Weights | Activations | Overlapped | Added | Compute-bound overlapped"
      " | Compute-bound added",
      [[whole(c.degree(Y)), whole(c.degree(X)), ratio(c, "X"), ratio(c, "Y"), ratio(c), ratio(s),
        verdict(c), verdict(s)]
       for c, s in zip(overlapped.candidates, added.candidates, strict=True) if c.degree(Y) <= 20])
coarse = splits_of(form="large-n", overlap="serial").degrees(Y)
holds(("pod-serial-one", len(coarse) == 1, "one divisor, in the large-n form"))
for name, y in (("pod-serial-only", coarse[0]), ("pod-best", overlapped.best.degree(Y))):
    shown(name, number(y, units.way, "Y", status="derived"), unit="")
table("torus-splits", "rrrrr", "Y | X | Axes of Y | Axes of X | Computation over communication",
      [[whole(c.degree(Y)), whole(c.degree(X)),
        *(cell(made(dict(c.torus_axes)[axis], one, axis), exact()) for axis in ("M_Y", "M_X")),
        ratio(c)] for c in splits_of("torus", shape=v5p.shape()).compute_bound])

# --- the same job on Ironwood
iron_share = claim("tokens-per-chip-ironwood", (batch / iron_pod).named("B/N"))
chapter.require("ironwood-comm-bound", iron_share, "<", mixed_iron)
over = iron_share / mixed_iron
root = made(sp.sqrt(over.value), one, "sqrt(a)", a=over)
claim("ironwood-math-over-comms", root)
claim("ironwood-bound-by", made(1 / root.value, one, "1/a", a=root), "times")
chapter.formula("slice", threshold(fsdp_tensor, N))
chapter.formula("slice-at-y", threshold(fsdp_tensor, N, fixed=(Y,)))
chapter.formula("slice-at-y-exact", threshold(fsdp_tensor, N, fixed=(Y,), form="exact"))
largest = claim("ironwood-largest-slice", on(fsdp_tensor, N, ironwood, llama, **CASE))
iron_days = claim("ironwood-days", days(largest, ironwood))
claim("ironwood-16m-slice", on(fsdp_tensor, N, ironwood, llama, **LATER))
holds(("ironwood-same-days", round(iron_days.value) == round(pod_days.value), "whole days"))
needed = on(fsdp_tensor, Y, ironwood, llama, N=largest, side="high", **CASE)
shown("ironwood-needs-y", needed, decimals(2), unit="")

def slices_at(y, form):
    """The largest slice at a whole Y for both batches: the bound, and the largest whole mesh."""
    bounds = [on(fsdp_tensor, N, ironwood, llama, fixed=(Y,), form=form, Y=y, **case)
              for case in (CASE, LATER)]
    return [(bound, at_most(bound, y)) for bound in bounds]

def slice_row(form, y):
    (bound, mesh), (_, later) = slices_at(y, form)
    return [form, whole(y), n(bound, 1), (whole(mesh.value // y), " × ", whole(y)), n(mesh),
            n(days(mesh, ironwood), 1), n(later)]

(bound, mesh), (later_bound, later_mesh) = slices_at(2, "large-n")
claim("ironwood-slice-after-rounding", bound, "floor")
claim("ironwood-16m-after-rounding", later_bound, "floor")
shown("ironwood-16m-mesh", later_mesh)
shown("ironwood-rounded-days", days(mesh, ironwood), decimals(1))
three_ways = shown("ironwood-exact-mesh", slices_at(3, "exact")[0][1])
shown("ironwood-exact-x", three_ways / 3, unit="")
# The exact tensor limit beside the large-n gather of the weights.
shown("ironwood-mixed-forms", slices_at(3, "large-n")[0][1])
holds(("ironwood-exact-holds", 3 in splits_of(chips=three_ways, of=ironwood).degrees(Y),
       "the whole mesh, with exact collectives on both axes"))
table("ironwood-slices", "lrrrrrr",
      "Form | Y | Bound | Mesh | Chips | Days | Chips at the later batch",
      [["large-n", n(needed, 2), n(largest, 1), "not whole", "-", n(iron_days, 1), "-"],
       slice_row("large-n", 2), slice_row("exact", 2), slice_row("exact", 3)])

# --- one basis for both chips
shown("alpha-ironwood-book", intensity(ironwood_book), cite=("SB2-later",))
vendor_alpha = shown("alpha-v5p-vendor", intensity(v5p_vendor), cite=("D-v5p",))
claim("same-ici-per-link", ironwood.bindings()[W] / v5p.bindings()[W])
table("bases", "llrrrrrr",
      "Chip | Basis | Bandwidth of an axis | ICI intensity | FSDP, three axes | Tensor limit"
      " | FSDP + tensor | Tokens per chip of a pod over it",
      [[title, basis, cell(of.bindings()[W], si(3), unit=True), n(intensity(of)),
        n(on(fsdp, B / X, of, M_X=3)), n(tensor_on(of), 1), n(mixed_on(of)),
        n(batch / chips / mixed_on(of), 2)]
       for title, basis, of, chips in (
           ("v5p", "Scaling Book", v5p, pod), ("v5p", "vendor", v5p_vendor, pod),
           ("Ironwood", "Scaling Book", ironwood_book, iron_pod),
           ("Ironwood", "vendor", ironwood, iron_pod))])

def overlap_row(title, of, tokens_per_chip):
    both = [mixed_on(of, overlap=o) for o in CHOICES["overlap"]]
    bound = ["computation" if tokens_per_chip.value >= q.value else "communication" for q in both]
    return [title, n(tokens_per_chip), *map(n, both), *bound]

table("overlap", "lrrrll",
      "Case | Tokens per chip | Threshold overlapped | Threshold added | Bound overlapped"
      " | Bound added",
      [overlap_row("one v5p pod", v5p, per_pod_chip),
       overlap_row("one Ironwood pod", ironwood, iron_share),
       overlap_row("four v5p pods", v5p, batch / pod / 4)])
holds(("direction-robust", power(least, alpha) > 0 and power(seconds(MIXED[0].moves[0]), e) > 0
       and power(threshold(fsdp_tensor, N).closed_form, alpha) < 0,
       "thresholds grow with alpha, slices shrink, times grow with the bytes"))

# --- TPU 8t
alpha_8t = claim("alpha-8t", intensity(tpu8t), cite=("G-8dd",))
claim("8t-doubles-ici", tpu8t.bindings()[W] / ironwood.bindings()[W], "exact", ("N-hc26",))
claim("8t-v5p-level", alpha_8t / intensity(v5p))
claim("8t-vendor-basis", alpha_8t / vendor_alpha)
faster_links = {C: ironwood.bindings()[C], W: tpu8t.bindings()[W]}
shown("alpha-ici-alone", evaluated(C / W, faster_links, flop / byte, "alpha"))

# --- pipelining
chapter.condition("pipeline", threshold(pipeline, Z))
chapter.derivation("pipeline", steps(pipeline, Z))
stages = {Z: given("pp-stages", number(8, units.way, "Z")), L: llama.bindings()[L]}
chapter.formula("pp-per-layer", volume(PP[0]) * (Z - 1) / L)
over_tensor = volume(PP[0]) * (Z - 1) / (volume(TP[0]) * L)
shown("pp-small", evaluated(over_tensor, stages, one, "pipeline over tensor"), percent(1))
for name, of in BOTH_CHIPS:
    shown(f"pp-limit-{name}", on(pipeline, Z, of, llama), unit="")
hops = on(pipeline, Z, ironwood, llama).value
claim("pp-alpha-ratio", intensity(ironwood) / intensity(v5p), "times")
holds(
    ("pp-moves-per-layer", [m.array_bytes for m in PP[0].moves] == [e * B * D], "one send of BD"),
    ("pp-within-layers", hops > llama.layers, "as many stages as layers are still covered"),
    ("pod-thousands", min(pod.value, iron_pod.value) >= 2000, "both pods"),
    ("pp-favoured-by-alpha", mixed_iron.value > mixed.value and hops > llama.layers
     and tensor_on(ironwood).value < limit.value, "ICI limits tighten, a hop is still covered"),
)

# --- across pods
chapter.condition("cross-pod", threshold(cross_pod, B / S))
chapter.derivation("cross-pod", steps(cross_pod, B / S))
chapter.formula("cross-pod-exact", threshold(cross_pod, B / S, form="exact"))
once = [[], [("all_reduce", "dW_out"), ("all_reduce", "dW_in")]]
holds(("dcn-once", [moves(cost) for cost in cross_pod.passes()] == once, "each gradient once"),
      ("dcn-condition", gives(C / W_dcn, cross_pod, B / S), "B/S >= C/W_dcn"))
given("dcn-bandwidths", v5p.bindings()[W_dcn], ("D-v5p",))
given("dcn-bandwidth-ironwood", ironwood.bindings()[W_dcn], ("D-gce",))
over_dcn = shown("dcn-tokens-v5p", on(cross_pod, B / S, v5p))
claim("dcn-rounded", on(cross_pod, B / S, v5p_slip), cite=("SB5-later",))
iron_dcn = claim("dcn-tokens-ironwood", on(cross_pod, B / S, ironwood))
pods = given("four-pods", number(4, units.slice_, "S"), ("SB5",))
shown("dcn-exact", on(cross_pod, B / S, v5p, form="exact", S=pods))
per_pod = claim("dcn-per-pod", (batch / pods).named("B/S"))
shown("dcn-easy-v5p", per_pod / over_dcn, decimals(1))
shown("dcn-easy-ironwood", per_pod / iron_dcn, decimals(1))
chapter.require("dcn-clears", per_pod, ">", over_dcn)
chapter.require("dcn-easy", per_pod, ">", iron_dcn)
four = shown("four-pods-chips", (pods * pod).named("chips", units.chip))
thin = claim("dcn-tokens-per-chip", (per_pod / pod).named("B/N", token / units.chip))
chapter.require("dcn-just-clears", thin, ">", mixed)
shown("dcn-margin", ((thin - mixed) / mixed).named("margin", one), percent(1))
claim("dcn-days", days(four))
thin_batch = per_pod.named("B", token)
for side in ("low", "high"):
    edge = on(fsdp_tensor, Y, v5p, llama, side=side, N=pod, B=thin_batch, **TORUS)
    shown(f"dcn-window-{side}", edge, decimals(2), unit="")
def in_forms(chips):
    return [splits_of(chips=chips, b=thin_batch, form=form) for form in CHOICES["form"]]

full = in_forms(pod)
on_vendor_basis = splits_of(b=thin_batch, form="large-n", of=v5p_vendor)
holds(("dcn-after-rounding", not any(s.compute_bound for s in full), "splits of a full pod"),
      ("dcn-vendor-basis", on_vendor_basis.degrees(Y) == (10,), "splits of a full pod"))

def thin_row(forms, y):
    coarse, fine = (next(c for c in s.candidates if c.degree(Y) == y) for s in forms)
    which = "both forms" if coarse.compute_bound else "exact form only"
    return [whole(fine.chips), whole(y), whole(fine.degree(X)), ratio(coarse), ratio(fine),
            which if fine.compute_bound else "no"]

table("four-pod-splits", "rrrrrl",
      "Chips used of each pod | Y | X | Large-n | Exact | Compute-bound",
      [*(thin_row(full, y) for y in (8, 10, 14, 16)),
       *(thin_row(in_forms(at_most(pod, y)), y) for y in (11, 12))])

# --- MaxText: settings and rules as its base configuration has them (configs/base.yml)
SETTINGS = {"ici_fsdp_parallelism": -1, "dcn_data_parallelism": -1}
RULES = {"embed": "fsdp", "mlp": "tensor", "heads": "tensor", "layers": "stage"}
given("maxtext", number(SETTINGS["ici_fsdp_parallelism"], one, "setting"), ("R-maxtext",))
claim("maxtext-two-lines", number(len(SETTINGS), one, "lines"), "exact", ("R-maxtext",))
holds(("maxtext-axis-rules", {"embed", "mlp", "heads"} <= set(RULES), "the configuration's rules"))

# --- plots: computation over communication, from the loads
POINTS = np.geomspace(10, 10_000, 61)

def curve(chosen, asked, of, axes=2):
    """T_math / T_comms at each number of tokens per chip: one chip, with B its tokens."""
    mesh = {N: 1, X: 1, Y: power_of_two(limit), M_X: axes, M_Y: 1}
    known = {**of.bindings(), **llama.bindings(), **mesh}
    loads = [c.load for c in held(chosen, assume(), question(asked)).conditions]
    needed = [{s: known[s] for s in x.free_symbols - {B}} for x in loads]
    values = [evaluate(x, {B: POINTS}, g) for x, g in zip(loads, needed, strict=True)]
    return 1 / np.max(values, axis=0)

for name, of in BOTH_CHIPS:
    title = name.replace("ironwood", "Ironwood")
    series = (("FSDP, three axes", POINTS, curve(fsdp, B / X, of, axes=3)),
              ("8-way tensor, one axis", POINTS, curve(tensor_parallel, Y, of)),
              ("FSDP + tensor, best split", POINTS, curve(fsdp_tensor, B / N, of)))
    marks = (("FSDP + tensor", mixed_on(of)), ("FSDP", on(fsdp, B / X, of, M_X=3)))
    plot = Plot(f"LLaMA-3-70B on {title}", "tokens per chip", "computation over communication",
                series, vertical=marks, horizontal=(("compute-bound above", 1),),
                log_x=True, log_y=True)
    alt = f"Computation time over communication time against tokens per chip on {title}"
    chapter.plot(f"ratio-{name}", plot, alt=alt)

# --- errata
for figure, place, printed, reason in (
    ("x-opt-v5p", "Case study", "about 1,618",
     "The printed value takes a batch rounded to three digits; the case study's own is exact."),
    ("fsdp-same-bytes", "Data parallelism and FSDP", "FSDP moves the same bytes",
     "Only if the gathered weights are kept for the backward pass, which gives back the memory. "
     "The condition is the same, pass by pass."),
    ("tp-fp8-unchanged", "Tensor parallelism", "int8 or fp8 does not help",
     "Right for int8 on v5p and fp8 on Ironwood. v5p has no faster fp8, so there the bytes halve, "
     "the peak stays and the limit doubles."),
    ("int8-alpha-wording", "Tensor parallelism", "α per byte moved is unchanged",
     "α is FLOP/s over byte/s and doubles with the peak. It is the limit that does not change."),
    ("larger-x-larger-tp", "FSDP and tensor parallelism", "larger X: larger TP collectives",
     "The direction is reversed: a larger X leaves fewer tokens to each tensor group."),
    ("mesh-leaves-chips-idle", "Case study", "2,048 × 4 on a full v5p pod",
     "The product of the two degrees is smaller than the pod; the rest stays idle."),
    ("ironwood-slice-after-rounding", "Ironwood", "about 1,800 chips",
     "That slice needs a tensor degree that is not whole. At the largest whole one the weights set "
     "the limit (large-n; the exact form allows one way more)."),
    ("ironwood-16m-after-rounding", "Ironwood", "about 7,200 chips",
     "The same tensor degree, which is not whole."),
    ("same-ici-per-link", "Ironwood", "the same ICI bandwidth per link",
     "Right of the vendor's figures, but the printed intensities do not both rest on them: v5p's "
     "takes the lower figure of the Scaling Book."),
    ("pp-moves-per-layer", "Pipelining", "[B, D] activations once per layer",
     "They move once per stage boundary; a layer inside a stage moves nothing."),
    ("dcn-after-rounding", "Across pods", "just clears the threshold",
     "Only the real-valued best split does. No whole tensor degree in the window divides a pod."),
):
    chapter.erratum(figure, printed, reason, place)
