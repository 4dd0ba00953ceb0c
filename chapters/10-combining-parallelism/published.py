"""The two published configurations, and folding: what the search says and what it cannot."""

from __future__ import annotations

import sympy as sp

from derive import Quantity, number
from derive.book import percent, si
from derive.notation import symbols as v
from derive.notation import units
from derive.notation.units import one, token
from derive.plan.mesh import mesh, regrouped

from .common import LONG as LONG_TOKENS
from .common import PADDED_405, at, chapter, degrees_of, llama405, pc, q, rank_of, share, whole
from .common import SHORT as SHORT_TOKENS
from .layout import NODE
from .reading import bubble
from .searches import FIRST


def known(value: object, name: str, source: str = "", unit: units.Unit = one) -> Quantity:
    """A published or a derived number."""
    status = "published" if source else "derived"
    return number(value, unit, name, source=source, status=status)


# Llama 3 405B.
SHORT = {"tp": 8, "cp": 1, "pp": 16, "dp": 128}
LONG = {"tp": 8, "cp": 16, "pp": 16, "dp": 8}
meshes = [mesh(sizes, NODE, "llama3") for sizes in (SHORT, LONG)]
for figure, of in zip(("llama3-cards-8k", "llama3-cards-128k"), meshes, strict=True):
    chapter.claim(figure, known(of.cards, "cards"), "exact", cite="P-Llama3")
chapter.given("llama3-16k", known(16384, "N", "P-Llama3"), cite="P-Llama3")
chapter.require("over-ten-thousand", meshes[0].cards, ">", 10_000)
chapter.given("llama3-mfu", known("0.38", "u", "P-Llama3"), cite="P-Llama3")
chapter.given("llama3-mfu-8k", known("0.41", "u", "P-Llama3"), cite="P-Llama3")
chapter.given("llama3-mfu-high", known("0.43", "u", "P-Llama3"), cite="P-Llama3")
chapter.claim("llama3-405b", llama405.parameters, "floor")
chapter.shown("llama3-parameters", llama405.parameters, si(5))
stages, per_stage = number(SHORT["pp"]), number(8, units.layer)
fewer = q(stages.value * per_stage.value - 2, units.layer, "16*8 - 2")
chapter.claim("llama3-layers-126", fewer, "exact")
chapter.require("llama3-one-layer-fewer", fewer, "==", llama405.layers)
sequences = known(2048, "B_seq", unit=units.sequence)
chapter.claim("llama3-sequences", sequences, "exact")
short = q(sequences.value * SHORT_TOKENS, token, "2048 * 8192", B_seq=sequences)
chapter.claim("batch-16m", short, "exact")
chapter.require("batch-16m-long", short, "==", q(128 * 2**17, token, "128 * 131072"))
longer = sequences.value * SHORT_TOKENS / LONG_TOKENS  # sequences of 128K in the same batch
chapter.require("llama3-one-sequence", q(longer / SHORT["dp"], one, "B_seq/d"), "==", 1)
chapter.claim(
    "llama3-replica", q(2048 // SHORT["dp"], units.sequence, "B_seq/d", B_seq=sequences), "exact"
)
chapter.given("llama3-cp16", known(LONG["cp"], "c", "P-Llama3"), cite="P-Llama3")
chapter.claim("cp16-replaces-dp16", known(sp.Rational(SHORT["dp"], LONG["dp"]), "d/d"), "exact")
ramp = [known(2**22, "B", "P-Llama3", token), known(2**24, "B", "P-Llama3", token)]
chapter.claim("llama3-batch-ramp", ramp[0], cite="P-Llama3")
chapter.require(
    "llama3-batch-ramp-end", ramp[1], "==", q(16 * 2**20, token, "16 * 2**20"), cite="P-Llama3"
)

# What the search makes of it: with the layers padded to a whole number for each stage.
theirs = at(PADDED_405, 8, 1, 16)
chapter.claim("padded-layers", theirs.known[v.L], "exact")
chapter.shown("padded-parameters", PADDED_405.task.values[v.P], si(3))
chapter.shown("padded-mfu", theirs["mfu"], percent())
chapter.shown("padded-bubble", share(theirs, "bubble"), percent())
place = rank_of(PADDED_405, 8, 1, 16)
chapter.claim("padded-rank", known(place, "rank"), "rank")
wider = [rank_of(PADDED_405, 8, 1, pp) for pp in (8, 4)]
counts = PADDED_405.task.batch
chapter.require(
    "pp-has-to-reach-16",
    holds=bool(all(rank < place for rank in wider) and counts % 256 == counts % 512 == 0),
    because="plans with DP 256 and 512 that divide the batch, and their ranks",
)
top = PADDED_405.plan(1)
flat = at(PADDED_405, top.tp, 1, top.pp)
chapter.require(
    "padded-context-two",
    holds=bool(
        all(PADDED_405.plan(rank).cp == 2 for rank in (1, 2, 3))
        and (top.cp, 2 * top.dp) == (2, flat.dp)
        and counts // top.dp == 2 * (counts // flat.dp)
    ),
    because="replicas and micro-batches of TP8 PP8 with CP2 and with CP1",
)
chapter.table(
    "padded",
    "Rank | TP | CP | PP | DP | MFU | Bubble, share of the step",
    [
        [whole(rank, "rank"), *degrees_of(p), pc(p["mfu"], 1), pc(share(p, "bubble"))]
        for rank, p in enumerate(PADDED_405.plans(place), 1)
    ],
)
ratio = chapter.shown("micro-per-stage", FIRST.value(v.n_mb / v.pp, one, "m/p"))
chapter.require(
    "micro-much-larger",
    holds=bool(ratio.value >= 10 and sequences.value // SHORT["dp"] == SHORT["pp"]),
    because="micro-batches per stage: many in the search, one in the published set-up",
)
even = {v.pp: sp.Integer(SHORT["pp"]), v.n_mb: sequences.value / SHORT["dp"]}
chapter.claim("llama3-bubble", q(bubble.xreplace(even), one, "(p-1)/(m+p-1)"))
remainders = (llama405.layers % 16, 61 % 16)
chapter.require(
    "both-explained", holds=bool(remainders == (14, 13)), because="layers modulo stages"
)
chapter.require("grouped-limit", holds=bool(all(remainders)), because="neither count divides by 16")
chapter.given("dsv3-layers", known(61, "L", "R-DSV3", units.layer), cite="R-DSV3")

# DeepSeek-V3: parameters from the shapes.
D, LAYERS, DENSE, VOCAB, HEADS = 7168, 61, 3, 129280, 128
LORA_Q, LORA_KV, NOPE, ROPE, VALUE = 1536, 512, 128, 64, 128
EXPERTS, CHOSEN, SHARED, WIDTH, FFN = 256, 8, 1, 2048, 18432
attention = (
    D * LORA_Q + LORA_Q + LORA_Q * HEADS * (NOPE + ROPE)
    + D * (LORA_KV + ROPE) + LORA_KV + LORA_KV * HEADS * (NOPE + VALUE)
    + HEADS * VALUE * D
)  # fmt: skip
SHAPES = (
    "2 V D + D + L (attention + 2 D) + 3 * 3 D F + 58 (3 D F_e n + 256 D), "
    "inference/configs/config_671B.json"
)


def counted(experts: int) -> int:
    """Parameters with so many routed experts a layer."""
    expert = 3 * D * WIDTH
    layers = LAYERS * (attention + 2 * D) + DENSE * 3 * D * FFN
    return (
        2 * VOCAB * D + D + layers + (LAYERS - DENSE) * ((experts + SHARED) * expert + EXPERTS * D)
    )


everything = q(counted(EXPERTS), units.parameter, SHAPES)
active = q(counted(CHOSEN), units.parameter, SHAPES)
without = q(counted(CHOSEN) - VOCAB * D, units.parameter, f"{SHAPES}, less V D")
chapter.claim("dsv3-671b", everything, cite="R-DSV3")
chapter.claim("dsv3-37b", without, cite="R-DSV3")
chapter.claim("dsv3-active-low", without)
chapter.claim("dsv3-active-high", active)
cards = chapter.given("dsv3-cards", known(2048, "N", "P-DSV3"), cite="P-DSV3")
EP = 64
chapter.claim("dsv3-ep64", known(EP // NODE, "64/8"), "exact", cite="P-DSV3")
attention_mesh = mesh({"dp": 128, "pp": 16}, NODE)
folded = regrouped(attention_mesh, etp=1, ep=EP)
chapter.claim("dsv3-folding", known(folded.sizes["edp"], "edp"), "exact")
chapter.claim("dsv3-dp", known(attention_mesh.sizes["dp"], "dp"), "exact")
small = mesh({"tp": 2, "cp": 2, "dp": 2, "pp": 2}, NODE)
again = regrouped(small, etp=1, ep=4)
chapter.require(
    "folding-identity",
    holds=bool(
        all(
            of.cards == made.sizes["etp"] * made.sizes["ep"] * made.sizes["edp"] * made.sizes["pp"]
            for of, made in ((attention_mesh, folded), (small, again))
        )
    ),
    because="t c d = etp ep edp on each stage",
)
chapter.table(
    "folded",
    "Axis in the expert layers | Groups | The first two",
    [
        [
            axis, whole(len(again.groups(axis)), "groups"),
            f"`{' '.join(str(list(g)) for g in again.groups(axis)[:2])}`",
        ]
        for axis in ("ep", "edp", "pp")
    ],
)  # fmt: skip
chapter.given("dsv3-4-nodes", known(4, "nodes", "P-DSV3"), cite="P-DSV3")
hours = chapter.given("dsv3-hours", known(2_788_000, "hours", "P-DSV3"), cite="P-DSV3")
chapter.claim(
    "dsv3-days", q(hours.value / cards.value / 24, units.day, "hours/N/24", hours=hours, N=cards)
)
