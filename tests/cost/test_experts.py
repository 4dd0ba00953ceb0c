"""Layers with experts: routed rows, groups folded over the same devices, latent attention."""

from __future__ import annotations

import json
from itertools import combinations

import pytest
import sympy as sp
from comparison import UNFUSED, compare

from derive.cli import main
from derive.cost.assumptions import assume
from derive.cost.block import FUSED, Fusion
from derive.cost.experts import nodes_of_a_token, places
from derive.cost.layout import fold_of, rules_of, spread
from derive.cost.load import compute_bound
from derive.cost.passes import Program, program
from derive.cost.program import Move
from derive.cost.reader import block
from derive.cost.stage import flops, group_moves, laid_out, on_chip, parameters
from derive.cost.strategies import (
    Strategy,
    expert_parallel,
    layer_dispatch,
    node_limited,
    shared_dispatch,
)
from derive.cost.transformer import BLOCKS, EXPERTS, LAYER_OF, MLA
from derive.notation import symbols as v
from derive.notation.errors import ShardingError
from derive.solve.threshold import threshold

FOLDED = (
    "b_seq:dp B:dp T:cp B:cp U:cp(ring) K:tp F:tp E:ep(experts) J:edp F_E:etp(experts) J:etp "
    "F_E:tp T:tp B:tp D:dp(optimizer) D:cp(optimizer) D:edp(optimizer) dp*cp*tp=edp*etp*ep"
)
WITH_EXPERTS = ("experts", "expert_layer", "shared_expert_layer", "mla_expert_layer")
# Devices along axes of their own, and what each axis of the layout is made of.
ONE = {"i": 1, "j": 1, "k": 1}
FOLDS = {
    "ep is cp": ({"p": 2, "q": 2, "r": 2}, "dp=p cp=q tp=r edp=p ep=q etp=r"),
    "ep is dp and cp": ({"p": 2, "q": 3, "r": 2}, "dp=p cp=q tp=r edp=i ep=p+q etp=r"),
    "ep is tp and dp": ({"p": 3, "r": 2}, "dp=p cp=k tp=r edp=i ep=r+p etp=j"),
    "ep is a part of dp": ({"p": 2, "s": 2, "r": 3}, "dp=p+s cp=k tp=r edp=s ep=r etp=p"),
    "a part of dp and of tp": ({"p": 2, "s": 2, "q": 2}, "dp=p tp=s+q cp=k edp=i ep=p+s etp=q"),
}


def made(text: str) -> dict[str, tuple[str, ...]]:
    sides = (word.split("=") for word in text.split())
    return {axis: tuple(parts.split("+")) for axis, parts in sides}


@pytest.mark.parametrize(("keep", "fusion"), [("none", FUSED), ("all", UNFUSED)])
@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("name", WITH_EXPERTS)
def test_folded_groups_are_run(name: str, fold: str, keep: str, fusion: Fusion) -> None:
    """Values, bytes and FLOPs of experts over groups of the same devices as the rows'."""
    sizes, text = FOLDS[fold]
    rules = [rule for rule in rules_of(FOLDED) if rule.dim in BLOCKS[name].dims]
    laid_out = spread(BLOCKS[name], rules, fold_of(FOLDED))
    compare(laid_out, sizes | ONE, keep, fusion, made=made(text))


@pytest.mark.parametrize("layout", ["E:dp(experts)", "E:tp(experts)", "E:cp(experts) F_E:tp"])
def test_experts_over_an_axis_of_the_rows(layout: str) -> None:
    """Whatever axis the experts have, rows leave over it alone, and once."""
    for name in ("shared_expert_layer", "mla_expert_layer"):
        laid_out = spread(BLOCKS[name], f"b_seq:dp T:cp U:cp K:tp {layout} T:tp J:dp J:cp J:tp")
        whole = compare(laid_out, {"dp": 2, "cp": 2, "tp": 3})
        (sent,) = (
            m for m in whole.forward.moves if m.collective == "all_to_all" and m.tensor == "Rows"
        )
        assert sent.axes == (layout.split("(")[0].split(":")[1],)


def routed(whole: Program) -> list[Move]:
    every = (*whole.forward.moves, *whole.backward.moves)
    return [m for m in every if m.collective == "all_to_all" and "Scale" not in m.tensor]


def test_mixtral_by_hand() -> None:
    """4,096 tokens of a rank to 2 of 8 experts, one on each of 8: 58.7 MB each way, four times."""
    whole = program(spread(LAYER_OF["gqa", "experts"], "b_seq:ep E:ep(experts)"))
    at = {v.b_seq: 8, v.T: 4096, v.D: 4096, v.E: 8, v.J: 8 * 4096 * 2 / sp.S(8), v.ep: 8, v.e: 2}
    moves = routed(whole)
    assert [m.tensor for m in moves] == ["Rows", "Back", "dBack", "dRows"]
    assert {m.sent_bytes.xreplace(at) for m in moves} == {4096 * 2 * 4096 * 2 * 7 // 8}
    assert 4096 * 2 * 4096 * 2 * 7 // 8 == 58720256


def test_parameters_of_published_models() -> None:
    """Mixtral 8x7B and DeepSeek-V3 from their layers, the gains of norms beside them."""
    mixtral = {v.D: 4096, v.K: 8, v.G: 4, v.H: 128, v.E: 8, v.F_E: 14336}
    layer = parameters(LAYER_OF["gqa", "experts"]).xreplace(mixtral) + 2 * 4096
    assert 32 * layer + 2 * 32000 * 4096 + 4096 == 46702792704
    v3 = {v.D: 7168, v.K: 128, v.H_N: 128, v.H_R: 64, v.H_V: 128, v.r_q: 1536, v.r_kv: 512}
    v3 |= {v.E: 256, v.F_E: 2048, v.n_S: 1, v.F: 18432}
    dense, experts = (parameters(LAYER_OF["mla", one]).xreplace(v3) for one in ("gated", "shared"))
    gains = 61 * (2 * 7168 + 1536 + 512) + 7168
    assert 3 * dense + 58 * experts + gains + 2 * 129280 * 7168 == 671026404352


def test_latent_attention_by_hand() -> None:
    """FLOP of the forward pass and parameters, each product by its shape; twice that backward."""
    shapes = v.D * v.r_q + v.r_q * v.K * (v.H_N + v.H_R) + v.D * (v.r_kv + v.H_R)
    shapes += v.r_kv * v.K * (v.H_N + v.H_V) + v.K * v.H_V * v.D
    assert sp.expand(parameters(MLA) - shapes) == 0
    tokens, causal = v.b_seq * v.T, v.T / 2 * v.K * (v.H_N + v.H_R + v.H_V)
    whole = program(MLA)
    assert sp.expand(whole.forward.flops - v.fma * tokens * (shapes + causal)) == 0
    assert sp.expand(whole.backward.flops - 2 * whole.forward.flops) == 0


def test_latent_attention_split_by_heads() -> None:
    """Under a plan's layout a tensor group gathers the latents, not the heads that come of them."""
    laid_out = spread(MLA, "b_seq:dp T:cp U:cp(ring) K:tp T:tp D:dp(optimizer)")
    whole = compare(laid_out, {"dp": 2, "cp": 3, "tp": 2}, "none")
    gathered = [m.tensor for m in whole.forward.moves if m.axes == ("tp",)]
    assert gathered == ["NormQ", "Norm", "KeyR", "Att"]
    ring = [m.tensor for m in whole.forward.moves if m.axes == ("cp",) and not m.critical]
    assert ring == ["AllKey", "AllKeyR", "AllVal"]


def test_what_a_layer_of_experts_saves() -> None:
    """Of the experts what their products and the gate need, the router's scores in fp32; what the
    gate makes before it is scaled is made again."""
    for fusion, more in ((FUSED, set[str]()), (UNFUSED, {"Hid"})):
        whole = compare(LAYER_OF["gqa", "shared"], {}, fusion=fusion)
        sizes = {one.name: one.bytes for one in whole.saved}
        own = {"Rows", "Gate", "Up", "Act", "Scale", "Prob", "Hid"} & {*sizes}
        assert own == {"Rows", "Gate", "Up", "Act", "Scale", "Prob"} | more
        assert sizes["Prob"] == v.e_32 * v.b_seq * v.T * v.E
        assert sizes["Scale"] == v.e_32 * v.E * v.J
        assert sizes["Rows"] == v.e * v.E * v.J * v.D


def test_a_scaled_tensor() -> None:
    """No FLOP, and a gradient that is summed where the scale lacks a dimension."""
    read = block("X[B_X, D_Y] * W_g[D_Y] -> Y[B_X, D_Y]; Y . W[D, F_Y] -> Out[B_X, F_Y]")
    whole = compare(read, {"X": 2, "Y": 3})
    assert whole.block.looked_up == ()
    assert [m.collective for m in whole.backward.moves if m.tensor == "dW_g"] == ["all_reduce"]
    assert sp.expand(whole.forward.flops * v.X * v.Y - v.fma * v.B * v.D * v.F) == 0
    assert block(str(read)) == read


@pytest.mark.parametrize(
    ("name", "layout", "told"),
    [
        ("layer", "b_seq:dp dp=ep", "layout dp=ep: the block hands no rows to experts"),
        ("experts", "B:dp E:ep dp*cp=ep", "expected In[B_dp, D] to have its rows over dp, cp"),
        (
            "experts",
            "B:dp E:ep dp=ep cp=tp",
            "expected one fold, of axes by name, each once, found",
        ),
        ("experts", "B:dp E:ep dp=dp", "of axes by name, each once, found 'dp'"),
        ("expert_layer", "b_seq:dp E:ep dp=ep", "and W_r[D, E_ep] has ep of the fold, which are"),
        ("mlp", "F:X(experts)", "no tensor that it speaks of has the dimension F"),
    ],
)
def test_refused(name: str, layout: str, told: str) -> None:
    with pytest.raises(ShardingError) as error:
        spread(BLOCKS[name], layout)
    assert told in str(error.value) and "\n" not in str(error.value)


def test_experts_are_those_between_the_routes() -> None:
    own = LAYER_OF["mla", "shared"].of_experts
    assert own == {"Rows", "Scale", "W_gate", "W_in", "Gate", "Up", "Hid", "Act", "W_out", "Back"}
    assert EXPERTS.of_experts >= {"W_gate", "W_in", "W_out", "Hid", "Hid_gate", "Hid_in"}


# --- a chip of a plan


V3 = {
    v.D: 7168, v.K: 128, v.H_N: 128, v.H_R: 64, v.H_V: 128, v.r_q: 1536, v.r_kv: 512, v.E: 256,
    v.F_E: 2048, v.n_S: 1, v.F: 18432, v.n_k: 8, v.x_cap: 1, v.fma: 2, v.T: 4096,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["gqa", "mla"])
@pytest.mark.parametrize("width", ["experts", "shared"])
def test_a_layer_of_experts_on_a_chip(kind: str, width: str) -> None:
    """What a chip has of a layer, as the devices of a small run have it between them."""
    read = LAYER_OF[kind, width]
    at = {v.tp: 2, v.cp: 3, v.dp: 4, v.ep: 6, v.etp: 2, v.edp: 2}
    sizes = {tensor.name: size for tensor, size in laid_out(read).parameters}
    own = sp.Add(*(sizes[name] for name in sizes if name in read.of_experts)).xreplace(at)
    rest = sp.Add(*sizes.values()).xreplace(at) - own
    assert sp.expand(own - 3 * v.D * v.E * v.F_E / (6 * 2)) == 0
    whole = parameters(read) - 3 * v.D * v.E * v.F_E
    split = [read[n] for n in read.parameters if n not in read.of_experts]
    by_tp = [t for t in split if "K" in t.dims or "F_E" in t.dims]
    rows = sum(sp.Mul(*map(v.find, t.dims)) for t in by_tp)
    assert sp.expand(rest - (whole - rows) - rows / 2) == 0


def test_the_work_of_a_chip_is_its_share_of_a_layer() -> None:
    """Products of a chip, times chips, are those of the layer; alike with a fuller expert."""
    read = LAYER_OF["gqa", "shared"]
    chips = v.tp * v.cp
    each = on_chip(laid_out(read).forward.flops) * chips
    whole = (program(read).forward.flops).xreplace({v.J: places(read), v.U: v.T})
    in_tokens = whole.xreplace({v.T: v.T_r * v.cp})
    routers = v.fma * v.D * v.E * v.T_r * v.cp * v.b_seq
    assert sp.expand(each - in_tokens) == 0
    assert sp.expand(each).coeff(v.E) == sp.expand(routers).coeff(v.E)
    fuller = sp.expand(each.xreplace({v.x_cap: 2}) - each.xreplace({v.x_cap: 1}))
    rows = v.n_k * v.T_r * v.cp * v.b_seq
    assert sp.expand(fuller - v.fma * 3 * v.D * v.F_E * rows) == 0


def test_flops_of_deepseek_v3_per_token() -> None:
    """Six FLOP for each parameter that takes part, and the scores; of a model with 37B active."""
    total = 58 * flops(LAYER_OF["mla", "shared"]) + 3 * flops(LAYER_OF["mla", "gated"])
    scores = 61 * 3 * 2 * sp.Rational(4096, 2) * 128 * (128 + 64 + 128)
    taking_part = 36625603584 - 129280 * 7168 - 61 * (2 * 7168 + 1536 + 512) - 7168
    assert total.xreplace(V3) == 6 * taking_part + scores


@pytest.mark.parametrize("axis", ["ep", "etp", "tp"])
def test_what_a_chip_waits_for(axis: str) -> None:
    whole = laid_out(LAYER_OF["gqa", "experts"])
    waited = [move.tensor for move in group_moves((whole.forward, whole.backward), axis)]
    rows = ["Rows", "Scale", "Back", "dBack", "dScale", "dRows"]
    assert {"ep": waited == rows, "etp": {*rows} <= {*waited}, "tp": "X" in waited}[axis]


def test_bytes_of_a_layer_of_experts_on_a_chip() -> None:
    """In bf16, for a token of DeepSeek-V3 on one chip: each tensor that is kept, by its width."""
    kept = on_chip(sp.Add(*(one.bytes for one in laid_out(LAYER_OF["mla", "shared"]).saved)))
    one = {v.tp: 1, v.cp: 1, v.dp: 1, v.ep: 1, v.etp: 1, v.b_seq: 1, v.T_r: 1, v.e: 2, v.e_32: 4}
    heads = 128 * (128 + 64 + 128 + 128 + 128) + 64  # queries, keys, values, and what comes of them
    latents = 2 * (1536 + 512)
    of_experts = 8 * (7168 + 3 * 2048) + 3 * 2048
    statistics = 4 + 128 + 256 + 8  # of four norms and of the heads; scores and scales
    width = 4 * 7168 + heads + latents + of_experts
    assert kept.xreplace(V3 | one) == 2 * width + 4 * statistics


# --- nodes


@pytest.mark.parametrize(("n_k", "in_node", "nodes"), [(2, 2, 3), (3, 2, 4), (1, 3, 3), (4, 1, 4)])
def test_nodes_of_a_token_by_counting(n_k: int, in_node: int, nodes: int) -> None:
    ways = list(combinations(range(in_node * nodes), n_k))
    count = sum(len({expert // in_node for expert in way}) for way in ways)
    assert nodes_of_a_token(n_k, in_node, nodes) == sp.Rational(count, len(ways))


def test_a_row_crosses_to_a_node_once() -> None:
    """Over all ways to route a token: what leaves its node, and what goes on inside the nodes."""
    n_k, in_node, nodes, chips = 2, 2, 3, 2
    ways = list(combinations(range(in_node * nodes), n_k))
    left = sum(len({e // in_node for e in way} - {0}) for way in ways)
    inside = sum(
        e % chips != 0 for way in ways for e in way
    )  # its own place among its node's chips
    at = {v.n_hit: nodes_of_a_token(n_k, in_node, nodes), v.n_k: n_k, v.x_cap: 1, v.e: 1}
    at |= {v.X: nodes, v.Y: chips, v.B: nodes * chips, v.D: 1}
    for cost, name in zip(node_limited.passes(), ("Rows", "dRows"), strict=True):
        sent = {m.axis: m.sent_bytes.xreplace(at) for m in cost.moves if m.tensor == name}
        assert sent == {"X": sp.Rational(left, len(ways)), "Y": sp.Rational(inside, len(ways))}


# --- whether rows are sent under products


def loads(strategy: Strategy, network: str, at: dict[sp.Symbol, sp.Expr]) -> list[sp.Expr]:
    need = compute_bound(strategy, assume(network=network))
    return [sp.N(load.total.xreplace(at)) for load in need.loads]


@pytest.mark.parametrize("network", ["torus", "node", "two-level", "egress"])
@pytest.mark.parametrize(
    ("strategy", "asked"),
    [(expert_parallel, v.F_E), (shared_dispatch, v.F_E), (shared_dispatch, v.n_k),
     (shared_dispatch, v.n_S), (layer_dispatch, v.F_E)],
    ids=str,
)  # fmt: skip
def test_both_sides_of_what_hides_the_dispatch(
    strategy: Strategy, asked: sp.Symbol, network: str
) -> None:
    """At a bound a link takes as long as the products; on one side less, on the other more."""
    chip = {v.C: sp.Integer(10) ** 15, v.W: 2 * sp.Integer(10) ** 11, v.W_dcn: 5 * 10**10}
    shape = {v.D: 7168, v.E: 256, v.T: 4096, v.K: 8, v.G: 4, v.H: 128, v.n_S: 1, v.n_k: 8}
    at = chip | shape | {v.W_node: 2 * 10**11, v.n_node: 8, v.X: 64, v.M_X: 2, v.F_E: 2048}
    at[v.x_cap] = sp.Rational(5, 4)
    del at[asked]
    form = threshold(strategy, asked, network=network)
    here = at | {v.alpha: at[v.C] / at[v.W]}
    ends = [bound.expr.xreplace(here) for bound in form.bounds]
    (direction,) = {bound.direction for bound in form.bounds}
    low = direction == ">="
    tightest = max(ends) if low else min(ends)
    for factor, hides in ((sp.Rational(99, 100), not low), (sp.Rational(101, 100), low)):
        assert (
            all(x <= 1 for x in loads(strategy, network, at | {asked: tightest * factor})) is hides
        )
    assert abs(max(loads(strategy, network, at | {asked: tightest})) - 1) < 1e-9


def test_more_routed_experts_need_more_of_what_hides_them() -> None:
    """By hand: two sends of n_k rows against three products of n_S experts, on a switch."""
    n_k = threshold(shared_dispatch, v.n_k, network="node").closed_form
    assert sp.simplify(n_k - v.n_S * v.F_E * v.W_node * 6 / (2 * 2 * v.C * v.x_cap)) == 0
    fewer = threshold(node_limited, v.F_E, network="two-level").bounds[0].expr
    flat = threshold(expert_parallel, v.F_E, network="two-level").bounds[0].expr
    assert sp.simplify(fewer / flat - v.n_hit / v.n_k) == 0


def test_deepseek_v3_sends_about_as_long_as_it_computes() -> None:
    """Its report: across nodes, computation over communication is about 1 (H800, eight nodes, at
    most four for a token). Its experts alone do not hide their rows, whatever is limited."""
    hit = nodes_of_a_token(8, 32, 4)
    assert 3.6 < hit < 4
    cards, fp8, efficiency = 5 * 10**10, 2 * 989 * 10**12, sp.Rational(4, 10)
    forward, _ = node_limited.passes()
    at = V3 | {v.n_hit: hit, v.X: 8, v.Y: 8, v.B: 64, v.e: sp.Rational(3, 2)}  # fp8 out, bf16 back
    sent = sum(m.sent_bytes.xreplace(at) for m in forward.moves if m.axis == "X") / cards
    work = flops(LAYER_OF["mla", "shared"]).xreplace(V3) / 3 / (fp8 * efficiency)
    assert sp.Rational(1, 2) < work / sent < 2
    bound = threshold(node_limited, v.F_E, network="egress").bounds
    rate = {v.C: fp8 / 2, v.W_dcn: cards, v.n_hit: hit, v.n_k: 8}
    assert max(one.expr.xreplace(rate) for one in bound) > 2 * 2048


# --- as it is typed


FOLD = "b_seq:dp T:cp U:cp T:tp U:tp E:ep(experts) J:edp dp*cp*tp=edp*ep"


def typed(*values: str) -> list[str]:
    sizes = [word for value in values for word in ("--set", value)]
    return ["layer", "expert_layer", "--layout", FOLD, *sizes]


MIXTRAL = dict(D=4096, T=4096, K=8, G=4, H=128, E=8, F_E=14336, n_k=2) | dict(
    b_seq=8, dp=8, cp=1, tp=1, ep=8
)


def test_a_layer_of_mixtral_as_it_is_typed(capsys: pytest.CaptureFixture[str]) -> None:
    shape = [f"{name}={value}" for name, value in MIXTRAL.items()]
    assert main([*typed(*shape), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    rows = [m for m in data["forward"]["moves"] if m["tensor"] in ("Rows", "Back")]
    assert [m["sent_bytes"] for m in rows] == [58720256] * 2
    assert data["assumptions"]["places"].startswith("J = T*b_seq*n_k*x_cap/E")
    assert main([*typed(*shape, "x_cap=1.25"), "--json"]) == 0
    fuller = json.loads(capsys.readouterr().out)["forward"]
    assert [m["sent_bytes"] for m in fuller["moves"] if m["tensor"] == "Rows"] == [
        58720256 * 5 // 4
    ]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ("dp=8 cp=1 tp=1 ep=3", "edp = tp*cp*dp/ep is 2.667; expected a whole number"),
        ("dp=8 cp=1 tp=1 ep=8 edp=2", "ep = tp*cp*dp/edp is 4; they are the same devices"),
        ("b_seq=9 dp=9 cp=1 tp=1 ep=3 E=8", "ep = 3 does not divide E = 8 of Rows"),
    ],
)
def test_degrees_that_do_not_fit(
    capsys: pytest.CaptureFixture[str], values: str, told: str
) -> None:
    assert main(typed(*values.split())) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1


def test_a_fold_is_no_torus(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*typed(), "--chip", "tpu-v5p"]) == 2
    assert "a fold has two for the same devices" in capsys.readouterr().err
