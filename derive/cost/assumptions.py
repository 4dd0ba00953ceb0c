"""Assumptions: named values with defaults, shown with every answer and never buried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction

import sympy as sp

from derive.notation.errors import DeriveError, nearest, quoted
from derive.notation.symbols import e, e_g, fma, s_P

BYTES: Mapping[str, Fraction] = {
    "fp32": Fraction(4),
    "bf16": Fraction(2),
    "fp8": Fraction(1),
    "int8": Fraction(1),
    "fp4": Fraction(1, 2),
}
FLOP_PER_MULTIPLY_ADD = 2
ADAM_MOMENTS_BYTES = 2 * BYTES["fp32"]


@dataclass(frozen=True)
class Assumptions:
    """What an answer rests on. Every field has a default and a line in `described`.

    overlap: concurrent (terms run side by side, the largest counts) or serial (they add).
    passes: each (every pass has to be compute-bound), forward, backward, or step (their sum).
    form: large-n (shares (n-1)/n taken as 1) or exact collectives.
    keep: the gathered tensors that the forward pass leaves for the backward one.
    gated: three matrices per layer instead of two.
    precision: of weights, activations and FLOP rate; "any" leaves bytes per element as a symbol.
    gradients: precision of the weight gradients; "same" is that of the weights.
    wrap: whether the torus axes close into rings.
    """

    overlap: str = "concurrent"
    passes: str = "each"
    form: str = "large-n"
    keep: str = "activations"
    gated: bool = False
    precision: str = "bf16"
    gradients: str = "same"
    wrap: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value not in CHOICES[field.name]:
                raise DeriveError(_refusal(field.name, value))

    @property
    def exact(self) -> bool:
        return self.form == "exact"

    @property
    def constants(self) -> dict[sp.Symbol, sp.Expr]:
        """The values of the vocabulary's constants under these assumptions."""
        values: dict[sp.Symbol, sp.Expr] = {fma: sp.Integer(FLOP_PER_MULTIPLY_ADD)}
        if self.precision != "any":
            values[e] = _exact(BYTES[self.precision])
            values[s_P] = _exact(BYTES[self.precision] + ADAM_MOMENTS_BYTES)
        gradients = self.precision if self.gradients == "same" else self.gradients
        values[e_g] = e if gradients == "any" else _exact(BYTES[gradients])
        return values

    def described(self, *, memory: bool = False) -> dict[str, str]:
        """Each assumption as a name and a short phrase, in a fixed order; with `memory`, the bytes
        of state per parameter too."""
        gradients = self.precision if self.gradients == "same" else self.gradients
        size = self.constants.get(s_P, s_P)
        state = f"{size} bytes per parameter: {self.precision} weight, two fp32 Adam moments"
        described = {
            "overlap": {
                "concurrent": "concurrent: communication runs side by side, the largest counts",
                "serial": "serial: communication terms add up",
            }[self.overlap],
            "passes": {
                "each": "each: forward and backward must both be compute-bound",
                "forward": "forward pass alone",
                "backward": "backward pass alone",
                "step": "forward and backward taken together",
            }[self.passes],
            "form": {
                "large-n": "large-n: a collective over n devices sends the whole array",
                "exact": "exact: a collective over n devices sends (n-1)/n of the array",
            }[self.form],
            "keep": {
                "activations": "activations gathered in the forward pass are kept for the backward",
                "none": "nothing gathered in the forward pass is kept for the backward pass",
                "weights": "weights gathered in the forward pass are kept for the backward pass",
                "all": "all that is gathered in the forward pass is kept for the backward pass",
            }[self.keep],
            "gated": "three matrices (gated)" if self.gated else "two matrices (not gated)",
            "precision": _bytes(self.precision),
            "gradients": _bytes(gradients),
            "wrap": "torus axes wrap around" if self.wrap else "torus axes do not wrap around",
        }
        return described | ({"state": state} if memory else {})


CHOICES: Mapping[str, tuple[object, ...]] = {
    "overlap": ("concurrent", "serial"),
    "passes": ("each", "forward", "backward", "step"),
    "form": ("large-n", "exact"),
    "keep": ("activations", "none", "weights", "all"),
    "gated": (False, True),
    "precision": (*BYTES, "any"),
    "gradients": ("same", *BYTES),
    "wrap": (True, False),
}
DEFAULT = Assumptions()


def assume(base: Assumptions = DEFAULT, **changes: object) -> Assumptions:
    """`base` with some assumptions changed; raises DeriveError for an unknown name or choice."""
    for name in changes:
        if name not in CHOICES:
            close = nearest(name, CHOICES)
            hint = (
                f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(CHOICES)}"
            )
            raise DeriveError(f"unknown assumption {quoted(name)}; {hint}")
    return replace(base, **changes)  # type: ignore[arg-type]


def _exact(value: Fraction) -> sp.Rational:
    return sp.Rational(value.numerator, value.denominator)


def _bytes(precision: str) -> str:
    if precision == "any":
        return "any: bytes per element stay a symbol"
    size = BYTES[precision]
    return f"{precision}: {size} {'bytes' if size > 1 else 'byte'} per element"


def _refusal(name: str, value: object) -> str:
    choices = ", ".join(str(c) for c in CHOICES[name])
    close = nearest(str(value), [str(c) for c in CHOICES[name]])
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return f"{name}: expected one of {choices}, found {quoted(value)}{hint}"
