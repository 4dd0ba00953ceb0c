"""The two published configurations at their own layout under `default`, and what is left out."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path

from derive import Quantity, chip, number
from derive.book import binary, cell, percent, si, significant
from derive.book.tables import Cell
from derive.notation import symbols as v
from derive.notation.units import byte, flop, one, second
from derive.plan.axes import AXES, degrees
from derive.plan.plan import Plan, plan_of
from derive.plan.task import Task, task

from .common import LONG, SHORT, chapter, llama405, n, pc, q
from .published import cards as h800_cards
from .published import known

H100, H800 = chip("h100"), chip("h800")  # as `derive plan` reads them
LEAST = Fraction(1, 200)  # seconds, below which a part is not shown


def parts_of(plans: list[Plan], words: dict[str, Cell]) -> list[list[Cell]]:
    """A row for each part that in some plan is more than nothing, in seconds."""
    terms = (term for term in plans[0].task.step.parts)
    seen = [term for term in terms if any(p.parts[term.name] >= LEAST for p in plans)]
    return [
        [words[term.name], *(n(p.value(term.expr, second, term.name), 2) for p in plans)]
        for term in seen
    ]


WORDS: dict[str, Cell] = {
    "compute": "Computation of an average stage",
    "recompute": "Layers run again",
    "imbalance": "Waiting for the slowest stage",
    "tp": "Tensor communication",
    "pp": "Hops between stages",
    "ep": "Rows to experts and back",
    "bubble": "Filling and draining",
    "dp": "Gradient traffic not hidden",
    "optimizer": "The optimizer's own step",
    "overhead": "Beside the work of a step",
}


def laid_out(asked: Task) -> Plan:
    """The plan with the degrees of the task's layout, which has all of them."""
    fixed = {axis.name: asked.fixed[axis.symbol] for axis in AXES if axis.symbol in asked.fixed}
    return plan_of(asked, degrees(**fixed))


def asks(on: str, of: Task, layout: str) -> bool:
    """Whether the template shows the command that asks for a task at a layout."""
    template = Path(__file__).with_name("chapter.md.j2").read_text(encoding="utf-8")
    line = (
        f"derive plan --model {of.model} --chip {on} --cards {of.cards} --seq {of.seq} "
        f"--batch {of.batch} \\\n  --layout {layout}"
    )
    return f"\n{line}\n" in template


# Llama 3 405B.
LLAMA = "tp=8,cp={cp},pp=16,dp={dp},virtual=8,micro_batch=1,zero={zero}"
ROOM = number(120, "GB", "M_hbm")  # in which no layer has to be run again
RUNS = {  # cards, tokens, sequences, context degree, data degree, TFLOP/s of a card as published
    "8k-16k-cards": (16384, SHORT, 2048, 1, 128, 400),
    "8k-8k-cards": (8192, SHORT, 2048, 1, 64, 430),
    "128k": (16384, LONG, 128, 16, 8, 380),
}


@cache
def llama(run: str, again: bool, zero: int = 1) -> Plan:
    """A published run at its own layout, with as many layers run again as the memory asks, or with
    memory for none."""
    cards, seq, batch, cp, dp, _ = RUNS[run]
    layout = LLAMA.format(cp=cp, dp=dp, zero=zero)
    asked = task(
        llama405, H100, cards=cards, seq=seq, batch=batch, layout=layout,
        values={} if again else {v.M_hbm: ROOM},
    )  # fmt: skip
    return laid_out(asked)


def measured(run: str, whole: bool) -> Quantity:
    """The step as published: its FLOP over the rate of a card, with the attention of a causal mask
    at half or whole."""
    plan, (cards, *_, rate) = llama(run, True), RUNS[run]
    each = v.L * (v.f_L + (v.f_A if whole else 0)) + v.f_V
    flops = plan.value(each * v.B_seq * v.T, flop, "FLOP of a step")
    per_card = known(rate * 10**12, "rate", "P-Llama3", flop / second)
    return q(
        flops.value / cards / per_card.value, second, "FLOP/(N*rate)", FLOP=flops, rate=per_card
    )


PAIRS = [(run, again) for run in RUNS for again in (True, False)]
PLANS = [llama(run, again) for run, again in PAIRS]


def over(plan: Plan, published: Quantity) -> Quantity:
    """By what share a predicted step is longer than the published one."""
    step = plan["seconds"]
    return q(step.value / published.value - 1, one, "a/b - 1", a=step, b=published)


def row(title: Cell, whole: bool) -> list[list[Cell]]:
    """The published step of each run, and how far the plan is from it."""
    steps = [measured(run, whole) for run, _ in PAIRS]
    gaps = [pc(over(p, step), 1) for p, step in zip(PLANS, steps, strict=True)]
    return [[title, *(n(step, 2) for step in steps)], ["Predicted beyond that", *gaps]]


chapter.table(
    "llama3-ran",
    [
        "In seconds",
        ("8K, ", n(known(16384, "N")), " cards"), "nothing run again",
        ("8K, ", n(known(8192, "N")), " cards"), "nothing run again",
        ("128K, ", n(known(16384, "N")), " cards"), "nothing run again",
    ],
    [
        *parts_of(PLANS, WORDS),
        ["**Step, predicted**", *(n(p["seconds"], 2) for p in PLANS)],
        *row("**Step, published**, attention halved", False),
        *row("**Step, published**, attention whole", True),
        ["MFU, predicted", *(pc(p["mfu"], 1) for p in PLANS)],
        ["Layers run again, of a stage", *(n(p["L_r"]) for p in PLANS)],
        ["Memory of the fullest card", *(cell(p["memory"], binary(3), unit=True) for p in PLANS)],
    ],
    align="lrrrrrr",
)  # fmt: skip
asked, kept = llama("8k-16k-cards", True), llama("8k-16k-cards", False)
step = measured("8k-16k-cards", False)
shown = asks("h100", asked.task, LLAMA.format(cp=1, dp=128, zero=1))
chapter.require("llama3-command", holds=shown, because="the command in the text")
longer = q(asked["seconds"].value - step.value, second, "a - b", a=asked["seconds"], b=step)
again = q(
    asked["seconds"].value - kept["seconds"].value, second, "a - b",
    a=asked["seconds"], b=kept["seconds"],
)  # fmt: skip
left = q(kept["seconds"].value - step.value, second, "a - b", a=kept["seconds"], b=step)
chapter.shown("llama3-ran-mfu", asked["mfu"], percent(1))
chapter.shown("llama3-kept-mfu", kept["mfu"], percent(1))
chapter.shown("llama3-gap", longer, significant(3))
chapter.shown("llama3-gap-again", again, significant(2))
chapter.shown("llama3-gap-left", left, significant(2))
chapter.shown("llama3-hops", kept["pp"], significant(2))
chapter.shown("llama3-gradients", kept["dp"], significant(2))
chapter.shown("llama3-again-itself", asked["recompute"], significant(2))
chapter.require("llama3-hops-more", kept["pp"], ">", left)
chapter.given(
    "llama3-tflops", known(400 * 10**12, "rate", "P-Llama3", flop / second), cite="P-Llama3"
)
chapter.shown("llama3-kept-memory", kept["memory"], binary(3))
chapter.require("llama3-kept-more", kept["memory"], ">", asked.known[v.M_hbm])
near = [
    over(llama(run, False), measured(run, whole)) for run in RUNS if run != "128k"
    for whole in (False, True)
]  # fmt: skip
chapter.claim("llama3-near", q(max(abs(gap.value) for gap in near), one, "max |a/b - 1|"))
long = [over(llama("128k", False), measured("128k", whole)).value for whole in (False, True)]
chapter.require(
    "llama3-long-between",
    holds=bool(long[0] > 0 > long[1]),
    because="the step at 128K against both readings of the published rate",
)
scores = llama("128k", True)
chapter.claim("llama3-scores", scores.value(v.L * v.f_A / (v.L * v.f_L + v.f_V), one, "attention"))
chunks = known(126 + 2, "pieces of a layer, the embedding and the head")
chapter.claim("llama3-virtual", q(chunks.value / 16, one, "(L + 2)/p"), "exact")
each_time = llama("8k-16k-cards", False, zero=2)
chapter.shown("llama3-zero2", each_time["mfu"], percent())
chapter.shown("llama3-zero2-data", each_time["dp"], significant(2))

# DeepSeek-V3.
deepseek = chapter.model("deepseek-v3")
DEEPSEEK = "tp=1,cp=1,pp=16,dp=128,ep=64,micro_batch=1,zero=1,precision={precision}"
NODES = chapter.given("dsv3-nodes", known(4, "n_M", "P-DSV3"), cite="P-DSV3")
HIDDEN = Fraction(1, 3)


@cache
def moe(precision: str = "fp8", nodes: int = 4, exposed: object = 1, fullest: object = 1) -> Plan:
    """The published run at its own layout, with so many copies of a row, such a share of their way
    exposed, and the fullest expert so far over an even share."""
    layout = DEEPSEEK.format(precision=precision)
    asked = task(
        deepseek, H800, cards=2048, seq=4096, batch=15360, layout=layout,
        values={v.n_M: nodes, v.x_ep: exposed, v.x_cap: fullest},
    )  # fmt: skip
    return laid_out(asked)


spent = known(180_000 * 3600, "card seconds of 1e12 tokens", "P-DSV3", second)
tokens = q(15360 * 4096, one, "B_seq*T")
trained = q(
    spent.value * tokens.value / 10**12 / h800_cards.value, second, "seconds*B/(1e12*N)",
    seconds=spent, B=tokens, N=h800_cards,
)  # fmt: skip
CASES = [moe("bf16", 8), moe("fp8", 8), moe(), moe(exposed=HIDDEN)]
chapter.table(
    "dsv3-ran",
    "In seconds | bf16, a copy of a row for each expert | fp8 | fp8, a copy for each node | "
    "fp8, a copy for each node, hidden",
    [
        *parts_of(CASES, WORDS),
        ["**Step, predicted**", *(n(p["seconds"], 1) for p in CASES)],
        ["**Step, published**", *(n(trained, 1) for _ in CASES)],
        ["Predicted beyond that", *(pc(over(p, trained)) for p in CASES)],
        ["Layers run again, of a stage", *(n(p["L_r"]) for p in CASES)],
        ["Memory of the fullest card", *(cell(p["memory"], binary(3), unit=True) for p in CASES)],
    ],
    align="lrrrr",
)
open_, hidden = moe(), moe(exposed=HIDDEN)
shown = asks("h800", open_.task, f"{DEEPSEEK.format(precision='fp8')} --set n_M=4")
chapter.require("dsv3-command", holds=shown, because="the command in the text")
slope = (open_["seconds"].value - hidden["seconds"].value) / (1 - HIDDEN)
least = q(
    open_["seconds"].value - slope, second, "a - (a - b)/(1 - 1/3)",
    a=open_["seconds"], b=hidden["seconds"],
)  # fmt: skip
share = q((trained.value - least.value) / slope, one, "(t - t_0)/(t_1 - t_0)", t=trained, t_0=least)
chapter.given("dsv3-hours-trillion", known(180_000, "hours", "P-DSV3"), cite="P-DSV3")
chapter.given("dsv3-batch", known(15360, "B_seq", "P-DSV3"), cite="P-DSV3")
chapter.shown("dsv3-step", trained, significant(3))
chapter.shown("dsv3-least", least, significant(3))
chapter.claim("dsv3-share", share)
chapter.claim("dsv3-ratio", open_["ep"] / open_["compute"], "times")
chapter.claim("dsv3-rows", CASES[0]["ep"] / CASES[0]["seconds"])
chapter.claim("dsv3-hidden-share", hidden.known[v.x_ep], "unit_fraction")
chapter.require("dsv3-hidden-alike", hidden.known[v.x_ep], "==", hidden.known[v.x_hid])
between = hidden["seconds"].value > trained.value > least.value
chapter.require("dsv3-between", holds=bool(between), because="the published step and two predicted")

# What is still left out, and its size.
chapter.given("llama3-effective", known("0.9", "share", "P-Llama3"), cite="P-Llama3")
chapter.given("llama3-diurnal-low", known("0.01", "share", "P-Llama3"), cite="P-Llama3")
chapter.given("llama3-diurnal-high", known("0.02", "share", "P-Llama3"), cite="P-Llama3")
chapter.shown("left-hops", kept["t_pp"], si(2))
chapter.shown("left-gather", scores.value(v.n_mb * v.t_ring, second, "rings"), significant(2))
sms = [known(count, "SMs", "P-DSV3") for count in (20, 132)]
for figure, count in zip(("dsv3-sms-away", "dsv3-sms"), sms, strict=True):
    chapter.given(figure, count, cite="P-DSV3")
away, every = (count.value for count in sms)
lost = q(
    open_["compute"].value * away / (every - away), second, "compute*a/(b - a)",
    compute=open_["compute"], a=sms[0], b=sms[1],
)  # fmt: skip
chapter.shown("left-sms", lost, significant(2))
spared = q(open_["ep"].value / 4, second, "ep/4", ep=open_["ep"])  # half of half of the rows
chapter.shown("left-combine", spared, significant(2))
extra = open_.value((v.t_f + v.t_b + v.t_V) * v.n_mb / v.pp, second, "a layer and a head")
chapter.shown("left-mtp", extra, significant(2))
chapter.shown("left-bubble", open_["bubble"], significant(2))
uneven = moe(fullest=Fraction(11, 10))
chapter.shown(
    "left-fullest",
    q(uneven["seconds"].value - open_["seconds"].value, second, "a - b",
      a=uneven["seconds"], b=open_["seconds"]),
    significant(2),
)  # fmt: skip
more = uneven.recomputed_layers - open_.recomputed_layers
chapter.require(
    "left-fullest-again", holds=more == 1, because="layers of a stage that are run again"
)
chapter.given("left-fullest-share", known("0.1", "x_cap - 1"))
chapter.shown(
    "left-average", open_.value(v.psi * v.e_32, byte, "an fp32 copy of the weights"), binary(2)
)
