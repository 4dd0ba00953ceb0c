"""The law of tensor parallelism: communication over computation grows as (t-1)/h."""

from __future__ import annotations

import sympy as sp

from derive import Quantity, assume, number, tensor_share
from derive.book import Plot, decimals, percent, si
from derive.cost import stage
from derive.cost.assumptions import NOTEBOOK
from derive.notation import symbols as v
from derive.notation.units import flop, one, second

from .common import LONGER, STEP, Plan, at, chapter, q, share
from .searches import FIRST, PLANS

TEXTBOOK, SMALL = PLANS["70b-64-8k", 5], PLANS["8b-8-8k", 2]
# The load of the limit is the ratio over the share epsilon that it may have.
RATIO = tensor_share.load(assume(NOTEBOOK, form="exact")) * v.epsilon
COEFFICIENT = RATIO / (v.tp - 1)
communication = STEP.term("t_tp").expr / v.L_p
computation = v.f_L * STEP.term("t_1").expr
BF16 = {v.e: NOTEBOOK.constants[v.e]}

chapter.formula("tp-compute-time", computation)
chapter.formula("tp-comm-time", communication.xreplace(BF16))
law = sp.Eq(v.t_tp / (v.L_p * v.f_L * v.t_1), RATIO.xreplace(BF16), evaluate=False)
chapter.condition("law", law)
plain = v.T_r * v.b_seq
stated = 4 * 2 * (v.tp - 1) / v.tp * 2 * plain * v.D / v.W_tp
quotient = 16 * (v.tp - 1) * v.D * v.C * v.eta / (v.W_tp * v.f_L)
divided = communication / computation
chapter.holds(
    (
        "tp-compute-time",
        computation / (plain * v.f_L) * v.tp * v.C * v.eta == 1,
        "s b f_L over t C eta",
    ),
    ("tp-comm-time", sp.cancel(communication.xreplace(BF16) - stated) == 0, "four all-reduces"),
    ("tp-ratio", sp.cancel(divided.xreplace(BF16) - quotient) == 0, "s, b and t cancel"),
    (
        "tp-share-law",
        divided / RATIO == 1 and v.tp not in COEFFICIENT.free_symbols,
        "the ratio to computation is (t - 1) times what does not depend on t",
    ),
    (
        "summary-tp-law",
        COEFFICIENT.as_powers_dict()[v.D] == 1 and COEFFICIENT.as_powers_dict()[v.f_L] == -1,
        "D over f_L, which holds D squared",
    ),
)

# For 70B at 8K.
coefficient = chapter.claim("coefficient", FIRST.value(COEFFICIENT, one, "coefficient"))
layer = chapter.claim("f-layer", FIRST["f_L"])
chapter.shown("f-linear", FIRST.value(v.f_L - v.f_A, flop, "f_L - f_A"), si(4))
chapter.shown("f-attention", FIRST["f_A"], si(3))
effective = chapter.claim("pe", FIRST.value(v.C * v.eta, flop / second, "C eta"))
chapter.given("b-450", FIRST.known[v.W_node], cite="NB")
four, eight, two = (number(t, name="tp", status="derived") for t in (4, 8, 2))


def ratio(of: Quantity, t: Quantity) -> Quantity:
    """Communication over computation at a tensor degree."""
    return q((t.value - 1) * of.value, one, "(t - 1)*coefficient", t=t, coefficient=of)


def share_of_layer(of: Quantity, t: Quantity) -> Quantity:
    """The share of a layer, with nothing else in it."""
    r = ratio(of, t)
    return q(r.value / (1 + r.value), one, "r/(1 + r)", r=r)


t4 = chapter.claim("t4-ratio", ratio(coefficient, four))
t8 = chapter.claim("t8-ratio", ratio(coefficient, eight))
shares = {t: share_of_layer(coefficient, number(t)) for t in (2, 4, 8)}
for t, of in shares.items():
    chapter.shown(f"layer-share-t{t}", of, percent(1))
rises = shares[2].value < shares[4].value < shares[8].value
chapter.require("q3-share-grows", holds=bool(rises), because="the share of a layer at 2, 4, 8")
tp4 = chapter.claim("tp4-share", share(FIRST, "tp"))
tp8 = chapter.claim("tp8-share", share(TEXTBOOK, "tp"))
near = all(
    0 < a.value - b.value < sp.Rational(1, 200) for a, b in ((shares[4], tp4), (shares[8], tp8))
)
chapter.require("matches-script", holds=bool(near), because="shares of the step against r/(1 + r)")
chapter.shown("tp4-step-share", share(FIRST, "tp"), percent(1))
chapter.shown("tp8-step-share", share(TEXTBOOK, "tp"), percent(1))
chapter.claim("8b-tp2-share", share(SMALL, "tp"))

# What the law does not say: shares, and h alone.
four, eight = (RATIO.xreplace({v.tp: sp.Integer(of.tp)}) for of in (FIRST, TEXTBOOK))
grown = chapter.claim("seven-thirds", q(eight / four, one, "(8 - 1)/(4 - 1)"), "exact")
over = [of["tp"].value / of["compute"].value for of in (FIRST, TEXTBOOK)]
chapter.require(
    "seven-thirds-plans", holds=bool(over[1] / over[0] == grown.value), because="TP/compute"
)
chapter.claim("ex1-share", q(tp8.value / tp4.value, one, "share at 8 / share at 4", a=tp8, b=tp4))
coefficient8 = SMALL.value(COEFFICIENT, one, "coefficient")
chapter.claim(
    "tp-inverse-h",
    q(coefficient8.value / coefficient.value, one, "8B/70B", a=coefficient8, b=coefficient),
)
linear8, linear70 = (
    of.numbers[v.D] / (of.numbers[v.f_L] - of.numbers[v.f_A]) for of in (SMALL, FIRST)
)
narrower = linear8 / linear70  # without attention
chapter.require(
    "mainly-attention",
    holds=bool(narrower - coefficient8.value / coefficient.value > 2 - narrower > 0),
    because="of what is missing to a factor of 2, attention is the larger part",
)
for size, of in (("8b", SMALL), ("70b", FIRST)):
    chapter.shown(f"attention-share-{size}", of.value(v.f_A / v.f_L, one, "f_A/f_L"), percent(1))
twelve = FIRST.value((v.f_L - v.f_A) / (12 * v.D**2), flop, "c")
chapter.claim("f-layer-12h2c", twelve)

# The volume of an all-reduce per card.
array = v.e * v.T_r * v.b_seq * v.D
LAYER = stage.layer()
# An all-reduce is a reduce-scatter and an all-gather in the layer's program.
all_reduces = sp.Rational(len(stage.group_moves((LAYER.forward, LAYER.backward), "tp")), 2)
VOLUME = sp.factor(communication * v.W_tp / (all_reduces * array))
chapter.formula("all-reduce-volume", VOLUME)
volume = [VOLUME.xreplace({v.tp: sp.Integer(t)}) for t in (2, 4, 8)]
for t, of in zip((2, 4, 8), volume, strict=True):
    chapter.shown(f"volume-t{t}", q(of, one, "2 (t - 1)/t"), decimals(2, trim=True))
chapter.holds(
    ("allreduce-volume-grows", volume[0] < volume[1] < volume[2] < 2, "2 (t-1)/t at 2, 4, 8"),
    ("volume-barely-falls", volume[0] < volume[1] < volume[2], "2 (t-1)/t rises with t"),
)

# The plot: the share of a layer against t, inside a node.
DEGREES = range(1, 9)


def curve(plan: Plan) -> list[float]:
    """Percent of a layer's time that tensor communication takes, at each degree."""
    of = plan.value(COEFFICIENT, one, "coefficient")
    return [100 * float(share_of_layer(of, number(t)).value) for t in DEGREES]


long = at(LONGER[64], 8, 4, 2)
chapter.plot(
    "tensor-share",
    Plot(
        "Tensor communication inside a node",
        "tensor degree t",
        "percent of the time of a layer",
        [
            ("8B, 8K sequences", DEGREES, curve(SMALL)),
            ("70B, 8K sequences", DEGREES, curve(FIRST)),
            ("70B, 128K sequences", DEGREES, curve(long)),
        ],
    ),
    alt="Share of a layer's time that tensor communication takes, against the tensor degree",
)
