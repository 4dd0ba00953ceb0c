"""What all figures of the chapter share: its chips and models, the run, and small helpers."""

from __future__ import annotations

from collections.abc import Iterable

import sympy as sp

from derive import Quantity, assume, evaluated, number, run_seconds, threshold
from derive.book import Chapter, cell, decimals
from derive.book.tables import NumberCell
from derive.cost.assumptions import CHOICES, FLOP_PER_MULTIPLY_ADD
from derive.cost.program import PassCost
from derive.cost.strategies import (
    Strategy,
    data_parallel,
    fsdp,
    fsdp_tensor,
    pipeline,
    tensor_parallel,
)
from derive.facts import Chip, Model
from derive.notation import units
from derive.notation.symbols import B, C, F, N, P, R, W, Y, fma, u
from derive.notation.units import Unit, byte, flop, one, token

SECONDS_PER_DAY = 24 * 60 * 60
NAMES = (
    "LLaMA-3-70B, LLaMA-3, LLaMA-3-8B, LLaMA-3.1-405B, TPU7x, TPU 8t, v4, v5e, v5p, v6e, ZeRO-3, "
    "bf16, fp32, fp8, int8, 3D, 2D"
)
chapter = Chapter(
    "06", "Choosing a mesh for training", profile="scaling-book", names=NAMES.split(", ")
)

# Chips and models.
v4, v5e, v5p, v6e, tpu8t = (
    chapter.chip(name) for name in ("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu8t")
)
ironwood = chapter.chip("tpu7x", override={"ici_axis": "D-gce"})
# For comparisons: the other basis of each chip, and a peak that one edition misprints.
v5p_vendor = chapter.chip("tpu-v5p", override={"ici_axis": "D-v5p", "memory": "D-v5p"})
v5p_slip = chapter.chip("tpu-v5p", override={"bf16": "SB5-later"})
ironwood_book = chapter.chip("tpu7x")
CHIPS = (v4, v5e, v5p, v6e, ironwood, tpu8t)
BOTH_CHIPS = (("v5p", v5p), ("ironwood", ironwood))
MODELS = tuple(chapter.model(f"llama-3-{size}") for size in ("8b", "70b", "405b"))
llama = MODELS[1]

# The moves of a layer under the default assumptions: (forward, backward).
DP, FSDP, TP, MIXED, PP = (
    strategy.passes() for strategy in (data_parallel, fsdp, tensor_parallel, fsdp_tensor, pipeline)
)

# The run.
sequences = chapter.given("sequences", number(1024, units.sequence, "sequences"), cite="SB6")
length = number(4096, token / units.sequence, "length")
chapter.given("sequence-length", length, cite="SB6")
batch = chapter.shown("batch-tokens", (sequences * length).named("B"))
later_batch = chapter.given("batch-16m", number(2**24, token, "B"), cite="P-Llama3")
tokens = chapter.given("tokens-15t", number("15e12", token, "R"), cite="SB6")
published = llama.fact("published_parameters")
parameters = published.quantity(published.reading("M-llama3"))
chapter.given("params-70b", parameters, cite="M-llama3")
more_parameters = chapter.given("params-70b-70.5b", number("70.5e9", units.parameter, "P"))
chapter.shown("params-exact", llama.parameters)
mfu = chapter.given("mfu-40", number("0.4", one, "u", status="assumed"), cite="SB6")
pod = chapter.given("pod-v5p", v5p.quantity("pod_chips"), cite="D-v5p")
pods = chapter.given("pods", number(4, units.slice_, "S"), cite="SB5")
iron_pod = chapter.given("pod-ironwood", ironwood.quantity("pod_chips"), cite="D-7x")
chapter.given("f-llama3", llama.bindings()[F], cite="R-maxtext")
TORUS = {"M_X": number(2, units.axis, "M_X"), "M_Y": number(1, units.axis, "M_Y")}
chapter.given("mx-my", (TORUS["M_X"] * TORUS["M_Y"]).named("M_X M_Y"))
CASE, LATER = ({"B": tokens_of, **TORUS} for tokens_of in (batch, later_batch))
RUN = {fma: number(FLOP_PER_MULTIPLY_ADD, flop, "fma", status="assumed"), P: parameters, R: tokens}


def days(chips: Quantity, of: Chip = v5p, size: Quantity = parameters) -> Quantity:
    """How long the run takes on some chips."""
    values = {**RUN, P: size, N: chips, u: mfu, C: of.bindings()[C]}
    seconds = evaluated(run_seconds, values, units.second, "training time")
    return made(seconds.value / SECONDS_PER_DAY, units.day, "t / 86,400", t=seconds)


# Numbers.
def made(value: sp.Expr, unit: Unit, formula: str, **inputs: Quantity) -> Quantity:
    """A quantity computed in Python, with what it was computed from."""
    return Quantity(value, unit, formula=formula, inputs=tuple(inputs.items()))


def n(quantity: object, places: int = 0) -> NumberCell:
    """A number for a table, to some decimals."""
    return cell(quantity, decimals(places))


def whole(value: int, name: str) -> NumberCell:
    """A degree or a count of chips, of that name, for a table."""
    return n(number(value, name=name, status="derived"))


# Thresholds.
def on(
    chosen: Strategy,
    asked: sp.Expr,
    *givers: Chip | Model,
    fixed: Iterable[sp.Symbol] = (),
    side: str = "quantity",
    **named: object,
) -> Quantity:
    """The number of a threshold; `named` mixes assumptions and values of symbols."""
    changes = {k: x for k, x in named.items() if k in CHOICES}
    values = {k: x for k, x in named.items() if k not in CHOICES}
    answer = threshold(chosen, asked, fixed=fixed, **changes).on(*givers, **values)
    return getattr(answer, side)


def mixed_on(of: Chip, **changes: object) -> Quantity:
    """The least tokens per chip of FSDP + tensor for LLaMA-3-70B on two axes and one."""
    return on(fsdp_tensor, B / N, of, llama, **TORUS, **changes)


def tensor_on(of: Chip, model: Model = llama, **changes: object) -> Quantity:
    """The largest tensor degree on one axis."""
    return on(tensor_parallel, Y, of, model, **changes)


def intensity(of: Chip, precision: str = "bf16") -> Quantity:
    """The ICI intensity of a chip."""
    return evaluated(C / W, of.bindings(precision), flop / byte, "alpha")


# Statements about formulas.
def gives(
    expected: sp.Expr, chosen: Strategy, asked: sp.Expr, direction: type[sp.Rel] = sp.Ge
) -> bool:
    """Whether the threshold is the relation that a sentence states."""
    return threshold(chosen, asked).relations == (direction(asked, expected, evaluate=False),)


def power(expr: sp.Expr, symbol: sp.Symbol) -> sp.Expr:
    """The exponent with which a product of powers grows in a symbol."""
    return expr.as_powers_dict()[symbol]


def moves(cost: PassCost, axis: str | None = None) -> list[tuple[str, str]]:
    """The collectives of a pass, or those over one mesh axis, and what they move."""
    return [(m.collective, m.tensor) for m in cost.moves if axis in (None, m.axis)]


def volume(*costs: PassCost) -> sp.Expr:
    """Bytes of the collectives of passes, an all-reduce counted twice."""
    return sp.Add(*(m.bytes for cost in costs for m in cost.moves)).xreplace(assume().elements)
