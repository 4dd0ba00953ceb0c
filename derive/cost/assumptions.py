"""Assumptions: named values with defaults, shown with every answer and never buried.

One value says what a layer's strategy and what a training step rests on. A step starts from the
script of the notebook [NB]: each correction replaces one of its terms by the right form, and each
further term adds what a step takes besides; any can be switched on alone. `notebook` has none of
them, `corrected` the corrections, `default` all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import sympy as sp

from derive.cost.block import Fusion
from derive.cost.network import NETWORKS
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, meant, quoted, unknown, written

BYTES: Mapping[str, Fraction] = {
    "fp32": Fraction(4),
    "bf16": Fraction(2),
    "fp16": Fraction(2),
    "fp8": Fraction(1),
    "int8": Fraction(1),
    "fp4": Fraction(1, 2),
}
FLOP_PER_MULTIPLY_ADD = 2
ADAM_MOMENTS = 2
ADAM_MOMENTS_BYTES = ADAM_MOMENTS * BYTES["fp32"]

CORRECTIONS: Mapping[str, str] = {
    "largest_stage": "the fullest stage's parameters, embedding or head included, not P/(t p)",
    "gradient_bytes": "gradients are kept and reduced in fp32, not in bf16",
    "saved_tensors": "saved activations are counted from the shapes, not taken as 34 bytes",
    "logits": "the last stage holds the logits and their gradient",
    "working_set": "a recomputed layer's own activations are held while it is run again",
    "attention_width": "attention computes over the width of its heads, not the model width",
    "ring_tensor": "keys and values are split over the tensor group before the ring",
    "recompute_collectives": "recomputation repeats the collectives of the forward pass",
    "bubble": "the bubble is filled by the other stages, which have no head",
    "gradient_window": "gradient traffic hides under the last backward and next forward pass",
    "two_level": "gradients are reduced inside nodes first, then across them",
    "zigzag": "a causal sequence is balanced only when cut into 2c equal pieces",
    "any_chunk": "no least chunk for the ring, since its exposed part is priced",
    "exact_parameters": "parameters are counted from the shapes, and the chip is read as it is",
    "wide_grid": "divisors of the layers as stages, more context ranks, micro-batches up to 4",
}
# What a step takes beside what its operations ask for, each a term that can be switched on alone.
TERMS: Mapping[str, str] = {
    "uneven_stages": "stages may be virtual, and the first and the last may have fewer layers",
    "sharded_states": "ZeRO splits gradients and weights too, moved for each micro-batch",
    "matmul_shape": "the time of a product follows its shape, and attention has its own share",
    "elementwise": "norms, sums and activations take the time of the bytes that they touch",
    "network_share": "links give a share of their bandwidth, as measured or assumed",
    "contention": "traffic that is hidden slows what hides it",
    "fixed_times": "a hop between chips and a step take some time beside bytes and work",
    "optimizer_step": "the optimizer reads and writes its state",
    "kept_bytes": "gradients and logits are held in as many bytes as a stack keeps of them",
}
STEP: Mapping[str, str] = {**CORRECTIONS, **TERMS}

# The choices of every assumption but the corrections, each with the phrase that an answer prints.
PHRASES: Mapping[str, Mapping[object, str]] = {
    "overlap": {
        "concurrent": "concurrent: communication runs side by side, the largest counts",
        "serial": "serial: communication terms add up",
    },
    "passes": {
        "each": "each: forward and backward must both be compute-bound",
        "forward": "forward pass alone",
        "backward": "backward pass alone",
        "step": "forward and backward taken together",
    },
    "form": {
        "large-n": "large-n: a collective over n devices sends the whole array",
        "exact": "exact: a collective over n devices sends (n-1)/n of the array",
    },
    "keep": {
        "activations": "activations gathered in the forward pass are kept for the backward",
        "none": "nothing gathered in the forward pass is kept for the backward pass",
        "weights": "weights gathered in the forward pass are kept for the backward pass",
        "all": "all that is gathered in the forward pass is kept for the backward pass",
    },
    "gated": {False: "two matrices (not gated)", True: "three matrices (gated)"},
    "precision": {
        **{
            name: f"{name}: {size} {'bytes' if size > 1 else 'byte'} per element"
            for name, size in BYTES.items()
        },
        "any": "any: bytes per element stay a symbol",
    },
    "gradients": dict.fromkeys(("same", *BYTES), ""),  # told as a precision
    "wrap": {True: "torus axes wrap around", False: "torus axes do not wrap around"},
    "network": {
        "chip": "chip: what the chip has, a torus where no chip is named",
        **{name: f"{name}: {choice.phrase}" for name, choice in NETWORKS.items()},
    },
    "kernels": {
        "fused": "fused: what a fused kernel makes is made again, not kept",
        "unfused": "unfused: what a fused kernel would make again is kept",
        "recomputed": "recomputed: what a fused kernel would make again is, and its FLOP count",
    },
    "norm": {
        "fused": "fused: a norm keeps its operand, and of each row a number in fp32",
        "unfused": "unfused: a norm keeps its operand and what it makes of it in fp32",
    },
    "glu": {
        "fused": "fused: the activation of a gate is made again, not kept",
        "unfused": "unfused: the activation of a gate is kept",
    },
    "sequence_parallel": {
        True: "split: norms and sums are split over the tensor group too",
        False: "whole: norms and sums are whole on each chip of a tensor group",
    },
    "schedule": {
        "1f1b": "1f1b: one forward, one backward pass in turn, virtual stages interleaved",
        "zero-bubble": "zero-bubble: weights' gradients are worked out where a stage would wait",
    },
    "gathers": {
        "again": "again: weights that are split are gathered for each pass",
        "kept": "kept: weights that are split stay gathered between a forward and a backward pass",
    },
    "architecture": {
        "dense": "dense: attention of grouped heads, and a feed-forward of all tokens",
        "experts": "experts: each token goes to some of them",
        "shared-experts": "shared-experts: each token goes to some of them, and to the shared ones",
        "latent": "latent: keys and values through a latent",
        "latent-experts": "latent-experts: such attention, and experts",
        "latent-shared-experts": "latent-shared-experts: such attention, experts and shared ones",
    },
    "recompute": {
        "least": "least: as few layers are run again as make it fit",
        "none": "none: nothing is run again",
        "full": "full: every layer is run again",
        "given": "given: so many layers of a stage are run again",
    },
    "stages": {
        "even": "even: stages have as many layers each, as far as the layers divide",
        "given": "given: a layout lists the layers of each stage",
    },
    "program": {
        "canonical": "canonical: moves by the rules of a sharded product",
        "least": "least: the fewest bytes that a device sends, by search",
    },
}
# Choices of a training step alone; the architecture is that of its model.
OF_STEP = ("sequence_parallel", "schedule", "gathers", "architecture", "recompute", "stages")
CHOICES: Mapping[str, tuple[object, ...]] = {
    name: tuple(ways) for name, ways in PHRASES.items() if name not in OF_STEP
}
NAMES = (*PHRASES, "corrections")


@dataclass(frozen=True, repr=False)
class Assumptions:
    """What an answer rests on. Every field has a default and a line in `stated` or `described`.

    overlap: concurrent (terms run side by side, the largest counts) or serial (they add).
    passes: each (every pass has to be compute-bound), forward, backward, or step (their sum).
    form: large-n (shares (n-1)/n taken as 1) or exact collectives.
    keep: the gathered tensors that the forward pass leaves for the backward one.
    gated: three matrices per layer instead of two.
    precision: of weights, activations and FLOP rate; "any" leaves bytes per element as a symbol.
    gradients: precision of the weight gradients; "same" is that of the weights, or of a step what
    the correction `gradient_bytes` says.
    wrap: whether the torus axes close into rings.
    network: what a layer's moves run over; "chip" is what the chip has.
    kernels: of the lines that are marked fused, attention's among them: fused, unfused, or
    recomputed (selective recomputation).
    norm, glu: of norms, and of gates with their activation: fused, or unfused as autograd has them.
    program: how a layer's tensors are moved: by the canonical rules, or with the fewest bytes.
    sequence_parallel: of a step, whether norms and sums are split over the tensor group.
    schedule: of a step, the order of its micro-batches: 1f1b or zero-bubble.
    gathers: of a step under ZeRO-3, whether weights are gathered again for a backward pass.
    architecture: of a step, the kinds of layers that its model has.
    recompute: of a step, which layers are run again: least, none, full or given.
    stages: of a step, the layers of each stage: even or given.
    sizes: of mesh axes and dimensions, at which the least program is searched.
    corrections: of a training step, by name, and what it takes besides.
    """

    overlap: str = "concurrent"
    passes: str = "each"
    form: str = "large-n"
    keep: str = "activations"
    gated: bool = False
    precision: str = "bf16"
    gradients: str = "same"
    wrap: bool = True
    network: str = "chip"
    kernels: str = "fused"
    norm: str = "fused"
    glu: str = "fused"
    program: str = "canonical"
    sequence_parallel: bool = True
    schedule: str = "1f1b"
    gathers: str = "again"
    architecture: str = "dense"
    recompute: str = "least"
    stages: str = "even"
    corrections: frozenset[str] = frozenset(STEP)
    sizes: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        for name, ways in PHRASES.items():
            value = getattr(self, name)
            if not isinstance(value, (str, bool)) or value not in ways:
                choices = [str(choice) for choice in ways]
                told = f"expected one of {', '.join(choices)}, found {written(value)}"
                near = meant(value, choices) if isinstance(value, str) else ""
                raise DeriveError(f"{name}: {told}; {near}".rstrip("; "))
        for correction in sorted(self.corrections, key=str):
            if correction not in STEP:
                raise unknown("correction", correction, STEP)

    def __contains__(self, correction: str) -> bool:
        if correction not in STEP:
            raise unknown("correction", correction, STEP)
        return correction in self.corrections

    def __repr__(self) -> str:
        changed = (f"{n}={getattr(self, n)}" for n in PHRASES if n in self.changed)
        return ", ".join([self.name, *changed])

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of the assumptions that are not at their defaults."""
        return tuple(n for n in NAMES if getattr(self, n) != getattr(DEFAULT, n))

    @property
    def exact(self) -> bool:
        return self.form == "exact"

    @property
    def has_experts(self) -> bool:
        """Whether layers of a step's model have experts."""
        return self.architecture.endswith("experts")

    @property
    def name(self) -> str:
        """The corrections as they are typed: the name of a set, with what is added or left out."""
        base = min(SETS, key=lambda name: len(SETS[name].corrections ^ self.corrections))
        known = SETS[base].corrections
        added = [f"+{name}" for name in STEP if name in self.corrections - known]
        return "".join([base, *added, *(f"-{n}" for n in STEP if n in known - self.corrections)])

    @property
    def closed(self) -> Assumptions:
        """The same without what a step takes beside what its operations ask for: closed forms of
        limits rest on the rest."""
        return replace(self, corrections=self.corrections.difference(TERMS))

    @property
    def fusion(self) -> Fusion:
        """Which kernels are fused."""
        return Fusion(self.kernels, self.norm, self.glu)

    @property
    def kernels_stated(self) -> dict[str, str]:
        """The assumptions on kernels, each with a short phrase."""
        return {name: PHRASES[name][way] for name, way in self.fusion._asdict().items()}

    @property
    def elements(self) -> dict[sp.Symbol, sp.Expr]:
        """FLOP of a multiply-add and the bytes of an element, which are put into the costs of a
        layer: of weights and activations, of state per parameter, and of gradients."""
        values: dict[sp.Symbol, sp.Expr] = {v.fma: sp.Integer(FLOP_PER_MULTIPLY_ADD)}
        if self.precision != "any":
            values[v.e] = sp.Rational(BYTES[self.precision])
            values[v.s_P] = sp.Rational(BYTES[self.precision] + ADAM_MOMENTS_BYTES)
        gradients = self._gradients
        values[v.e_g] = v.e if gradients == "any" else sp.Rational(BYTES[gradients])
        return values

    @property
    def whole_state(self) -> Mapping[str, sp.Rational]:
        """The bytes of state per parameter with gradients and an fp32 copy of the weights, by the
        precision of the gradients; nothing where that of the weights is left open."""
        if self.precision == "any":
            return {}
        weight, fp32 = BYTES[self.precision], BYTES["fp32"]
        rest = weight + ADAM_MOMENTS_BYTES + (fp32 if self.precision != "fp32" else 0)
        return {name: sp.Rational(rest + BYTES[name]) for name in (self.precision, "fp32")}

    @property
    def constants(self) -> dict[sp.Symbol, sp.Expr]:
        """The values of a step's constants: bytes, FLOP per multiply-add and stated shares."""
        bytes_of = self.elements
        fp32 = sp.Rational(BYTES["fp32"])
        return {
            v.fma: bytes_of[v.fma],
            v.e: bytes_of.get(v.e, v.e),
            v.e_g: fp32 if self._widened else bytes_of[v.e_g],
            v.e_32: fp32,
            v.eta: sp.Rational(3, 5),
            v.mu: sp.Rational(9, 10),
            v.x_pp: sp.Rational(1, 2),
            v.x_dp: sp.Rational(1, 5),
            v.T_min: sp.Integer(1 if "any_chunk" in self else 4096),
            v.A_kept: sp.Integer(34),
            **(self._assumed if self.corrections & TERMS.keys() else {}),
        }

    @property
    def _assumed(self) -> dict[sp.Symbol, sp.Expr]:
        kept = BYTES["fp32"] if self._widened else BYTES[self._gradients]
        return {**ASSUMED, v.e_k: sp.Rational(kept)}

    @property
    def _widened(self) -> bool:
        """Whether the gradients of a step are in fp32 for want of another word."""
        return "gradient_bytes" in self and self.gradients == "same"

    @property
    def profile(self) -> str | None:
        """The profile of facts whose readings a step fixes, if any."""
        return None if "exact_parameters" in self else "notebook"

    @property
    def _gradients(self) -> str:
        return self.precision if self.gradients == "same" else self.gradients

    def stated(self, *, memory: bool = False) -> dict[str, str]:
        """What a layer's costs rest on, each a name and a short phrase, in a fixed order; with
        `memory`, the bytes of state per parameter too. Kernels are the block's to state."""
        told = {
            name: PHRASES[name][getattr(self, name)]
            for name in CHOICES
            if name not in Fusion._fields
        }
        told["gradients"] = PHRASES["precision"][self._gradients]
        # Only a torus has axes that wrap, and it is what there is where nothing else is named.
        del told["network" if self.network in ("chip", "torus") else "wrap"]
        if memory:
            size = self.elements.get(v.s_P, v.s_P)
            weight = f"{self.precision} weight, two fp32 Adam moments"
            told["state"] = f"{size} bytes per parameter: {weight}"
        return told

    def described(self) -> dict[str, str]:
        """The corrections of a step that are on, each with a short phrase, in a fixed order."""
        return {name: text for name, text in STEP.items() if name in self.corrections}

    def on(self, *names: str) -> tuple[str, ...]:
        """Those of the named corrections that are on."""
        return tuple(name for name in names if name in self)

    def only(self, taken: Iterable[str], whose: str) -> Assumptions:
        """These assumptions; raises DeriveError where one that is not `taken` has been changed,
        since it would play no part in `whose` answer."""
        for name in self.changed:
            if name not in taken:
                told = f"the set {self.name}" if name == "corrections" else name
                raise DeriveError(f"{told} plays no part in {whose}; it takes {', '.join(taken)}")
        return self


DEFAULT = Assumptions()
CORRECTED = Assumptions(corrections=frozenset(CORRECTIONS))
NOTEBOOK = Assumptions(corrections=frozenset())
SETS: Mapping[str, Assumptions] = {
    "notebook": NOTEBOOK, "corrected": CORRECTED, "default": DEFAULT,
}  # fmt: skip
# Where nothing was measured on a chip, or what no chip decides.
ASSUMED: Mapping[sp.Symbol, sp.Expr] = {
    v.eta: sp.Rational(7, 10),
    v.s_0: sp.Integer(4_000_000),
    v.eta_A: sp.Rational(2, 5),
    v.eta_hbm: sp.Rational(3, 4),
    v.eta_node: sp.Rational(7, 10),
    v.eta_dcn: sp.Rational(1, 2),
    v.x_pp: sp.Integer(1),
    v.x_tp: sp.Integer(1),
    v.x_win: sp.Integer(1),
    v.x_hid: sp.Rational(1, 3),
    v.x_el: sp.Integer(1),
    v.s_opt: sp.Integer(30),
    v.s_V: sp.Integer(28),
    v.s_L: sp.Integer(8),
    v.t_hop: sp.Rational(5, 10**6),
    v.t_fix: sp.Rational(20, 10**3),
    v.x_cap: sp.Integer(1),
    v.x_ep: sp.Integer(1),
}


def assume(base: Assumptions | str = DEFAULT, **changes: object) -> Assumptions:
    """`base`, a value or the name of a set, with some assumptions changed; raises DeriveError for
    an unknown name or choice. `corrections` may be the name of a set, too."""
    for name in changes:
        if name not in NAMES:
            raise unknown("assumption", name, NAMES)
    if "corrections" in changes:
        wanted: Any = changes["corrections"]
        named = step_assumptions(wanted).corrections if isinstance(wanted, str) else wanted
        try:
            changes["corrections"] = frozenset(named)
        except TypeError:
            told = f"corrections: expected their names, found {written(wanted)}"
            raise DeriveError(told) from None
    return replace(as_assumptions(base), **changes)  # type: ignore[arg-type]


def step_assumptions(text: str) -> Assumptions:
    """The set of corrections that `text` names: "notebook", "default",
    "notebook+ring_tensor+logits" or "default-two_level". Raises UnknownName for a set or a
    correction that does not exist."""
    if not isinstance(text, str):
        raise DeriveError(f"expected the name of assumptions as text, found {quoted(text)}")
    base, *rest = (part.strip() for part in re.split("([+-])", text))
    signs, names = rest[::2], rest[1::2]
    if base in STEP:
        raise DeriveError(
            f"{base} is a correction of an assumption set; write notebook+{base} or default-{base}"
        )
    if base not in SETS:
        raise unknown("assumption set", base, SETS)
    for name in names:
        if name not in STEP:
            raise unknown("correction", name, STEP)
    if len(set(names)) != len(names):
        raise DeriveError(f"a correction is named twice in {quoted(text)}")
    added, left_out = (
        {name for sign, name in zip(signs, names, strict=True) if sign == which} for which in "+-"
    )
    return Assumptions(corrections=(SETS[base].corrections | added) - left_out)


def as_assumptions(value: object) -> Assumptions:
    """`value` where it is assumptions, or the set that a text names; raises DeriveError where it is
    neither."""
    if isinstance(value, str):
        return step_assumptions(value)
    if not isinstance(value, Assumptions):
        what = 'layer or step assumptions such as "notebook"'
        raise DeriveError(f"expected {what}, found {quoted(value)}")
    return value
