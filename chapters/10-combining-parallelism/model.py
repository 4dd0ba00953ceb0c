"""The step model: what the search adds up, with its constants and their status."""

from __future__ import annotations

import sympy as sp

from derive import number
from derive.book import binary, percent
from derive.cost.assumptions import NOTEBOOK, step_assumptions
from derive.cost.step import step_model
from derive.notation import symbols as v
from derive.notation.units import byte, flop, one
from derive.plan.axes import degrees
from derive.plan.plan import plan_of
from derive.plan.search import Ranking
from derive.solve.evaluate import exactly
from derive.solve.recomputation import recomputation

from .common import FOUND, STEP, Plan, chapter, llama8, llama70, ranked


def defined(symbol: sp.Symbol) -> sp.Rel:
    """The definition of an intermediate of the model, as an equation."""
    return sp.Eq(symbol, STEP.term(symbol.name).expr, evaluate=False)


# What a step is made of.
whole_batch = sp.Eq(v.B_seq, v.dp * v.b_seq * v.n_mb, evaluate=False)
chapter.condition("batch", whole_batch)
chapter.condition("states", defined(v.M_states))
chapter.condition("activations", (defined(v.a_1), defined(v.a_0)))
chapter.formula("even-share", defined(v.psi))
chapter.formula("in-flight", defined(v.n_fly))
chapter.formula("head", defined(v.f_V))
chapter.condition("recomputed", defined(v.L_r))
least = recomputation(NOTEBOOK)
chapter.derivation("recomputation", least)
chapter.require(
    "closed-form-of-the-loop",
    holds=least[-1].claim == defined(v.L_r),
    because="the last step of the derivation is the step model's own definition",
)
chapter.require(
    "redo-of-the-first",
    holds=v.n_fly in STEP.term("L_r").expr.free_symbols
    and v.t_redo in STEP.term("t_slow").expr.args,
    because="r is counted with the micro-batches of the first stage, and charged to the last",
)
chapter.condition("layer", (defined(v.f_L), defined(v.f_A)))
chapter.condition("slowest", (defined(v.t_slow), defined(v.t_1)))
chapter.condition("redo", defined(v.t_redo))
chapter.condition("tensor", defined(v.t_tp))
chapter.condition("ring", (defined(v.t_ring), defined(v.t_attn), defined(v.t_cp)))
total = v.n_mb * v.t_mb + STEP.term("bubble").expr + STEP.term("dp").expr
chapter.condition("micro-batch", (defined(v.t_mb), defined(v.t_pp)))
chapter.condition("gradients", (defined(v.t_scatter), defined(v.t_gather)))
chapter.formula("step-time", sp.collect(total, v.t_mb))
chapter.formula("average-stage", defined(v.t_avg))
for part in ("compute", "imbalance"):
    chapter.formula(f"part-{part}", STEP.term(part).expr)
chapter.formula("model-flops", STEP.model_flops.expr)
chapter.require(
    "mfu-counts-once",
    holds=v.L_r not in STEP.expanded(STEP.model_flops.expr).free_symbols,
    because="no recomputed layer in the FLOP of the model",
)
held = sp.expand(STEP.seconds - total).xreplace({v.t_mb: v.t_slow + v.t_tp + v.t_cp + v.t_pp})
chapter.require(
    "step-sums", holds=bool(sp.expand(held) == 0), because="the parts add up to the step"
)

# Constants and what they stand for.
bound = FOUND["70b-64-8k"].task.values
weights = bound[v.e] + bound[v.e_g]
chapter.claim("bytes-params-grads", weights, "exact")
optimizer = (number(3) * bound[v.e_32]).named("optimizer", byte)
chapter.claim("optimizer-bytes", optimizer, "exact")
in_fp32 = (bound[v.e] + bound[v.e_32]).named("weights + gradients in fp32", byte)
chapter.claim("bytes-fp32-gradients", in_fp32, "exact")
chapter.given("activation-34", bound[v.A_kept], cite="NB")
chapter.given("peak", bound[v.C], cite="NB")
chapter.given("efficiency", bound[v.eta], cite="NB")
chapter.given("nvlink", bound[v.W_node], cite="NB")
chapter.given("net", bound[v.W_dcn], cite="NB")
recomputed_bytes = ranked("70b-64-8k", 1).value(v.a_0 * v.tp / (v.T_r * v.b_seq * v.D), byte)
chapter.claim("recomputed-2", recomputed_bytes, "exact")
budget = chapter.claim(
    "memory-limit", (bound[v.mu] * bound[v.M_hbm]).named("budget", byte), "exact"
)
chapter.given("memory-gb", bound[v.M_hbm], cite="NB")
chapter.shown("memory-limit-gib", budget, binary(4))
chapter.given("min-cp-chunk", bound[v.T_min], cite="NB")
chapter.given("n-70b", bound[v.P], cite="NB")
chapter.claim("n-70b-exact", llama70.parameters, "exact")
chapter.given("n-8b", FOUND["8b-8-8k"].task.values[v.P], cite="NB")
chapter.claim("n-8b-exact", llama8.parameters, "exact")
kv = (bound[v.K] * bound[v.H]).named("K H", one)
chapter.claim("kv-width", kv, "exact")
chapter.given("vocab", bound[v.V], cite="R-maxtext")
for size, model in (("70b", llama70), ("8b", llama8)):
    shape = model.bindings()
    chapter.given(f"shape-{size}", shape[v.L], cite="R-maxtext")
    chapter.given(f"width-{size}", shape[v.D], cite="R-maxtext")
third = sp.Rational(STEP.term("t_redo").expr / (v.L_r * v.f_L * v.t_1))
chapter.claim(
    "recompute-forward-third", number(third, name="forward passes", status="derived"), "exact"
)
causal = sp.Rational(STEP.term("f_A").expr.xreplace(NOTEBOOK.constants) / (v.T * v.D))
chapter.claim(
    "causal-attention-flops",
    number(causal, flop, name="FLOP per token and D", status="derived"),
    "exact",
)
chapter.given("pp-half-hidden", bound[v.x_pp], cite="NB")
chapter.given("dp-80-overlapped", bound[v.x_dp], cite="NB")
passes = sp.Rational(
    STEP.term("t_ring").expr * v.W_cp / (v.L_p * (v.cp - 1) * 2 * v.e * v.T_r * v.b_seq * v.K * v.H)
)
chapter.claim("ring-passes", number(passes, name="passes of the ring", status="derived"), "exact")
chapter.require(
    "compute-1-over-t",
    holds=STEP.term("t_1").expr.xreplace({v.tp: 2 * v.tp}) * 2 == STEP.term("t_1").expr,
    because="t_1 is inversely proportional to t",
)
chapter.require(
    "bubble-micro-batches",
    holds=bool(STEP.term("bubble").expr == (v.pp - 1) * v.t_mb),
    because="the bubble is p - 1 micro-batches",
)
chapter.require(
    "batch-identity",
    holds=bool(
        all(
            ranking.task.batch % (d * b) == 0
            for ranking in FOUND.values()
            for d, b in zip(ranking[v.dp].tolist(), ranking[v.b_seq].tolist(), strict=True)
        )
        and whole_batch.rhs.xreplace({v.n_mb: STEP.term("n_mb").expr}) == v.B_seq
    ),
    because="d b m = B_seq in every fitting plan",
)
grid = FOUND["70b-64-8k"]
for axis, sizes in (("tp", grid.space.tp), ("cp", grid.space.cp), ("pp", grid.space.pp)):
    chapter.claim(f"grid-{axis}", number(max(sizes), name=axis, status="derived"), "exact")


def links(plan: Plan) -> bool:
    """Whether each group has NVLink just where it and the axes inside it divide a node."""
    spans, inside = {}, 1
    for degree, link in ((v.tp, v.W_tp), (v.cp, v.W_cp), (v.dp, v.W_dp), (v.pp, v.W_pp)):
        inside *= plan.numbers[degree]
        spans[link] = inside
    fast = {link: plan.numbers[link] == plan.numbers[v.W_node] for link in spans}
    return fast == {link: plan.numbers[v.n_node] % span == 0 for link, span in spans.items()}


every = [ranked(key, rank) for key in ("70b-64-8k", "8b-8-8k") for rank in range(1, 17)]
straddling = [plan_of(grid.task, degrees(tp=6)), plan_of(grid.task, degrees(tp=2, cp=3))]
chapter.require(
    "links-by-span",
    holds=all(map(links, [*every, *straddling])),
    because="the bandwidth of each group against the cards it spans, in 34 plans",
)
group = v.cp * v.dp
sent = v.e_g * v.psi * (group - 1) / group
chapter.require(
    "gradient-group",
    holds=STEP.term("t_scatter").expr * v.W_dp / sent == 1,
    because="the reduce-scatter is that of c d ranks",
)
chapter.shown("grid-size", number(grid.candidates, name="candidates", status="derived"))
for reason in ("short_chunk", "cards", "memory"):
    count = number(grid.rejected[reason], name="rejected", status="derived")
    chapter.shown(f"rejected-{reason.replace('_', '-')}", count)
chapter.require(
    "rejected-all",
    holds=sum(grid.rejected.values()) + grid.fit == grid.candidates and len(grid.rejected) == 3,
    because="what fits and what is rejected add up to the grid",
)


def powers_only(ranking: Ranking) -> bool:
    """Whether whole degrees that fit are all in the grid: cards that are a power of two split into
    powers of two, at most a node, the least chunk and the layers allow no others."""
    task, space = ranking.task, ranking.space
    cards = task.cards
    longest = max(1, task.seq // task.counts.least_chunk)
    stages = [p for p in range(1, cards + 1) if cards % p == 0 and task.counts.layers % p == 0]
    ranks = [c for c in range(1, longest + 1) if cards % c == 0]
    ways = [t for t in range(1, task.counts.node + 1) if cards % t == 0]
    return all(
        set(x) <= set(y) for x, y in ((ways, space.tp), (ranks, space.cp), (stages, space.pp))
    )


chapter.require(
    "grid-whole",
    holds=all(powers_only(ranking) for ranking in FOUND.values()),
    because="degrees that divide the cards of each search",
)
chapter.given("script-size", number(76, one, "lines"), cite="NB")

# Saved activations by shape, without the log-sum-exp of each head: bytes a token and unit of width.
BY_SHAPE = step_model(step_assumptions("notebook+saved_tensors")).term("a_1").expr
kept = BY_SHAPE.xreplace({v.e_32: sp.S.Zero}) * v.tp / (v.T_r * v.b_seq * v.D)
for size, key in (("70b", "70b-64-8k"), ("8b", "8b-8-8k")):
    chapter.claim(f"activation-{size}", ranked(key, 1).value(sp.cancel(kept), byte))

# The ceiling, and the least recomputation.
highest = max((ranked(key, 1).mfu, key) for key in FOUND)
best = ranked(highest[1], 1)
chapter.require("search-maximum-mfu", best["mfu"], "<", bound[v.eta])
chapter.shown("search-maximum-mfu-value", best["mfu"], percent(1))


def one_layer_fewer(plan: Plan) -> bool:
    """Whether a plan that recomputes would not fit with one recomputed layer fewer."""
    fewer = {**plan.numbers, v.L_r: plan.numbers[v.L_r] - 1}
    return exactly(STEP.memory_bytes, fewer) > plan.task.budget >= plan.memory_bytes


chapter.require(
    "recompute-only-needed",
    holds=bool(
        all(one_layer_fewer(ranked("70b-64-128k", rank)) for rank in (1, 2, 3, 6))
        and one_layer_fewer(ranked("8b-8-8k", 4))
    ),
    because="one layer fewer does not fit",
)
