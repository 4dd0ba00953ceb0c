"""Layers with experts: routed rows, groups folded over the same devices, latent attention."""

from __future__ import annotations

import pytest
import sympy as sp
from comparison import UNFUSED, compare

from derive.cost.block import FUSED, Fusion
from derive.cost.layout import rules_for, spread
from derive.cost.passes import Program, program
from derive.cost.program import Move
from derive.cost.reader import block
from derive.cost.stage import parameters
from derive.cost.transformer import BLOCKS, EXPERTS, LAYER_OF, MLA
from derive.notation import symbols as v
from derive.notation.errors import ShardingError

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
    laid_out = spread(BLOCKS[name], rules_for(BLOCKS[name], FOLDED))
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
        ("experts", "B:dp E:ep dp=ep cp=tp", "expected one fold, found dp=ep and cp=tp"),
        ("experts", "B:dp E:ep dp=dp", "expected axes by name, each once, found 'dp'"),
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
