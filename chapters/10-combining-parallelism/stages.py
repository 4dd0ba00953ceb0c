"""The first and the last stage: what each computes and holds."""

from __future__ import annotations

from fractions import Fraction

from derive import Quantity, number
from derive.book import decimals
from derive.cost.assumptions import NOTEBOOK, step_assumptions
from derive.cost.memory import chip_parameters
from derive.cost.step import step_model
from derive.notation import symbols as v
from derive.notation.units import byte, flop, one
from derive.solve.evaluate import exactly

from .common import STEP, chapter, n, q, whole
from .searches import PLANS

# Computation: the embedding is looked up, the head is multiplied.
slowest = PLANS["70b-64-8k", 3]
last = slowest.value((v.t_slow - v.t_redo) / v.t_1, flop, "last stage")
others = slowest.value(v.L_p * v.f_L, flop, "other stages")
chapter.require("first-last-compute-more", last, ">", others)

# Memory of each of eight stages: TP4 CP2 PP8 DP1, with the parameters where they are.
NUMBERS = slowest.numbers
(ACTIVATIONS,) = (kind.expr for kind in STEP.memory["first"] if kind.name == "activations")
LOGITS = step_model("notebook+logits").term("M_logits").expr


def stage(index: int) -> Fraction:
    """The bytes of a card of the stage: states, activations in flight, and logits on the last."""
    last = slowest.pp - 1
    table = NUMBERS[v.V] * NUMBERS[v.D]
    layers = (NUMBERS[v.P] - NUMBERS[v.n_V] * table) / slowest.pp
    here = (layers + table * (index in (0, last))) / slowest.tp
    states = exactly(STEP.term("M_states").expr, {**NUMBERS, v.psi: here})
    # Under 1F1B a stage has as many micro-batches in flight as stages follow, and its own.
    flying = Fraction(slowest.pp - index)
    acts = exactly(ACTIVATIONS, {**NUMBERS, v.n_fly: flying})
    logits = exactly(LOGITS, NUMBERS) if index == last else 0
    return states + acts + logits


held = [q(stage(index), byte, "states + activations + logits") for index in range(8)]
chapter.require(
    "first-last-more-memory",
    holds=bool(
        held[0].value == max(h.value for h in held)
        and held[6].value < held[7].value < min(h.value for h in held[:5])
    ),
    because="bytes of each stage",
)
chapter.table(
    "stages",
    ["Stage", *(whole(index, "stage") for index in range(1, 9))],
    [["GiB of a card", *(n(q(h.value / 2**30, one, "bytes/2**30", b=h), 1) for h in held)]],
    align="lrrrrrrrr",
)


# The parameters of the fullest stage over an even share.
def fullest(pp: int) -> Quantity:
    """The first stage's parameters against those of an average stage."""
    known = {**NUMBERS, v.tp: 1, v.pp: pp}
    over = exactly(chip_parameters(FULL), known) / exactly(chip_parameters(NOTEBOOK), known)
    return q(over, one, "fullest stage/(P/p)", P=slowest.known[v.P], p=number(pp))


FULL = step_assumptions("notebook+largest_stage")
for pp in (2, 4, 8, 16):
    figure = "first-stage-tightest" if pp == 16 else f"first-stage-pp{pp}"
    words = "times an even share" if pp == 16 else ""
    chapter.shown(figure, fullest(pp), decimals(3 if pp == 16 else 2), unit=words)
