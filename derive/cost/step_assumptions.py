"""What a model of a training step assumes: a named set of corrections, and its constants.

`notebook` is the script of the notebook [NB] as it stands. Each correction replaces one of its
terms by the right form and can be switched on alone; `default` has all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import sympy as sp

from derive.notation import symbols as v
from derive.notation.errors import DeriveError, quoted, unknown

CORRECTIONS: Mapping[str, str] = MappingProxyType(
    {
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
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class StepAssumptions:
    """A set of corrections by name; `notebook` has none of them, `default` all."""

    corrections: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in sorted(self.corrections):
            if name not in CORRECTIONS:
                raise unknown("correction", name, CORRECTIONS)

    def __contains__(self, name: str) -> bool:
        if name not in CORRECTIONS:
            raise unknown("correction", name, CORRECTIONS)
        return name in self.corrections

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """As it is typed: notebook, default, or one of them with corrections added or left out."""
        if len(self.corrections) <= len(CORRECTIONS) // 2:
            return "+".join(["notebook", *(n for n in CORRECTIONS if n in self.corrections)])
        return "-".join(["default", *(n for n in CORRECTIONS if n not in self.corrections)])

    @property
    def constants(self) -> dict[sp.Symbol, sp.Rational]:
        """The values of the model's constants: bytes, FLOP per multiply-add and stated shares."""
        fp32 = sp.Integer(4)
        return {
            v.fma: sp.Integer(2),
            v.e: sp.Integer(2),
            v.e_g: fp32 if "gradient_bytes" in self else sp.Integer(2),
            v.e_32: fp32,
            v.eta: sp.Rational(3, 5),
            v.mu: sp.Rational(9, 10),
            v.x_pp: sp.Rational(1, 2),
            v.x_dp: sp.Rational(1, 5),
            v.T_min: sp.Integer(1 if "any_chunk" in self else 4096),
            v.A_kept: sp.Integer(34),
        }

    @property
    def profile(self) -> str | None:
        """The profile of facts whose readings it fixes, if any."""
        return None if "exact_parameters" in self else "notebook"

    def described(self) -> dict[str, str]:
        """The corrections that are on, each with a short phrase, in a fixed order."""
        return {name: text for name, text in CORRECTIONS.items() if name in self.corrections}


NOTEBOOK = StepAssumptions()
DEFAULT = StepAssumptions(frozenset(CORRECTIONS))
SETS: Mapping[str, StepAssumptions] = MappingProxyType({"notebook": NOTEBOOK, "default": DEFAULT})


def step_assumptions(text: str) -> StepAssumptions:
    """The set that `text` names: "notebook", "default", "notebook+ring_tensor+logits" or
    "default-two_level". Raises UnknownName for a set or a correction that does not exist."""
    if not isinstance(text, str):
        raise DeriveError(f"expected the name of assumptions as text, found {quoted(text)}")
    base, *rest = (part.strip() for part in re.split("([+-])", text))
    signs, names = rest[::2], rest[1::2]
    if base in CORRECTIONS:
        raise DeriveError(
            f"{base} is a correction of an assumption set; write notebook+{base} or default-{base}"
        )
    if base not in SETS:
        raise unknown("assumption set", base, SETS)
    for name in names:
        if name not in CORRECTIONS:
            raise unknown("correction", name, CORRECTIONS)
    if len(set(names)) != len(names):
        raise DeriveError(f"a correction is named twice in {quoted(text)}")
    added, left_out = (
        {name for sign, name in zip(signs, names, strict=True) if sign == which} for which in "+-"
    )
    return StepAssumptions((SETS[base].corrections | added) - left_out)


def as_step_assumptions(value: object) -> StepAssumptions:
    """`value` where it is a set of assumptions, or the set that a text names; raises DeriveError
    where it is neither."""
    if isinstance(value, str):
        return step_assumptions(value)
    if not isinstance(value, StepAssumptions):
        what = 'step assumptions such as "notebook"'
        raise DeriveError(f"expected {what}, found {quoted(value)}")
    return value


def on_of(assumptions: StepAssumptions, *names: str) -> tuple[str, ...]:
    """Those of the named corrections that are on."""
    return tuple(name for name in names if name in assumptions)
