"""`derive layer`: moves and FLOPs of shardings against the table worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp

from derive.notation.read import expression

MOVE = {"collective", "tensor", "axis", "array_bytes", "bytes", "sent_bytes", "critical", "under"}
COLLECTIVES = {
    "all_gather",
    "reduce_scatter",
    "all_reduce",
    "all_to_all",
    "permute",
    "send",
    "load",
}
STRATEGIES = ["data_parallel", "fsdp", "tensor_parallel", "fsdp_tensor", "pipeline", "cross_pod"]

# The per-layer table of the four strategies in bf16, by hand: FLOPs and bytes of each pass.
TABLE = [
    ("data_parallel", "4*B*D*F/X", "0", "8*B*D*F/X", "8*D*F"),
    ("fsdp", "4*B*D*F/X", "4*D*F", "8*B*D*F/X", "8*D*F"),
    ("tensor_parallel", "4*B*D*F/Y", "4*B*D", "8*B*D*F/Y", "4*B*D"),
    ("fsdp_tensor", "4*B*D*F/(X*Y)", "4*D*F/Y + 4*B*D/X", "8*B*D*F/(X*Y)", "8*D*F/Y + 4*B*D/X"),
]


def same(left: object, right: str) -> bool:
    return sp.expand(expression(str(left)) - expression(right)) == 0


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0])
def test_the_table_of_the_four_strategies(answer: Any, row: tuple[str, ...]) -> None:
    name, forward, moved, backward, moved_back = row
    found = answer("layer", name)
    assert same(found["forward"]["flops"], forward)
    assert same(found["forward"]["bytes"], moved)
    assert same(found["backward"]["flops"], backward)
    assert same(found["backward"]["bytes"], moved_back)


def test_a_forward_pass_alone(answer: Any) -> None:
    """Decoding has no backward pass, and saves nothing for one."""
    found = answer("layer", "weight_reads")
    assert "backward" not in found and found["forward"]["saved"] == []


@pytest.mark.parametrize("name", STRATEGIES)
def test_json_has_its_names(answer: Any, name: str) -> None:
    found = answer("layer", name)
    for side in ("forward", "backward"):
        assert set(found[side]) >= {"flops", "moves"}
        total = sp.S.Zero
        for move in found[side]["moves"]:
            assert set(move) == MOVE
            assert move["collective"] in COLLECTIVES
            assert isinstance(move["critical"], bool)
            total += expression(str(move["bytes"]))
        assert same(found[side]["bytes"], str(total))


@pytest.mark.parametrize("name", ["data_parallel", "fsdp", "tensor_parallel", "fsdp_tensor"])
def test_a_device_sends_the_share_that_the_exact_form_says(answer: Any, name: str) -> None:
    for side in ("forward", "backward"):
        for move in answer("layer", name)[side]["moves"]:
            n = move["axis"]
            turns = 2 if move["collective"] == "all_reduce" else 1
            assert same(move["bytes"], f"{turns}*({move['array_bytes']})")
            assert same(move["sent_bytes"], f"{turns}*({move['array_bytes']})*({n} - 1)/{n}")


def test_numbers_where_every_symbol_has_a_value(answer: Any) -> None:
    found = answer("layer", "fsdp", "--model", "llama-3-70b", "--set", "B=4M", "--set", "X=64")
    assert found["forward"]["flops"] == 4 * 4_000_000 * 8192 * 28672 // 64
    move = found["forward"]["moves"][0]
    assert move["bytes"] == 2 * 8192 * 28672
    assert move["sent_bytes"] == 2 * 8192 * 28672 * 63 // 64
    symbolic = answer("layer", "fsdp")["forward"]["moves"][0]
    values = {"D": 8192, "F": 28672, "X": 64}
    read = expression(symbolic["sent_bytes"]).subs({sp.Symbol(k, positive=True): x
                                                    for k, x in values.items()})  # fmt: skip
    assert read == move["sent_bytes"]


def test_assumptions_change_the_bytes(answer: Any) -> None:
    def bytes_of(*options: str) -> sp.Expr:
        return expression(str(answer("layer", "fsdp", *options)["backward"]["bytes"]))

    plain = bytes_of()
    assert bytes_of("--precision", "fp8") == plain / 2
    assert bytes_of("--gated") == plain * sp.Rational(3, 2)
    assert bytes_of("--keep", "all") == plain / 2
    assert bytes_of("--gradients", "fp32") == plain * sp.Rational(3, 2)
    assert {s.name for s in bytes_of("--precision", "any").free_symbols} == {"D", "F", "e"}


def test_a_declared_hidden_tensor_and_resharding(answer: Any) -> None:
    text = "In[B_X, D] . W_in[D, F_Y] -> Tmp[B_X, F_Y] . W_out[F_Y, D] -> Out[B_XY, D]"
    (move,) = answer("layer", text)["forward"]["moves"]
    assert (move["collective"], move["tensor"], move["axis"]) == ("reduce_scatter", "Out", "Y")
    assert same(move["bytes"], "2*B*D/X")


def test_the_table_is_aligned_and_explained(run: Any) -> None:
    for options in ((), ("--model", "llama-3-70b", "--set", "B=4M", "--set", "X=64")):
        code, out, err = run("layer", "fsdp", *options)
        assert (code, err) == (0, "")
        lines = out.splitlines()
        header = next(line for line in lines if "collective" in line)
        at = header.index("critical")
        rows = [x for x in lines if x.endswith("  no") or x.endswith("  yes")]
        assert len(rows) == 6
        assert all(row[at:] in ("no", "yes") for row in rows)
        assert "critical: " in out
        assert "bf16: 2 bytes per element" in out


def test_nothing_moves_where_nothing_is_split(run: Any) -> None:
    _, out, _ = run("layer", "In[B, D] . W_in[D, F] . W_out[F, D] -> Out[B, D]")
    assert "nothing moves" in out


MLP = "In[B, D] . W_in[D, F] . W_out[F, D] -> Out[B, D]"
LINES = {
    "data_parallel": "B:X",
    "fsdp": "B:X D:X",
    "tensor_parallel": "F:Y D:Y",
    "fsdp_tensor": "B:X F:Y D:Y D:X",
}
ATTENTION = (
    "Q[K, T_X, G, H] . Key[K, U_X, H] -> S[K, T_X, G, U] . Val[K, U_X, H] -> O[K, T_X, G, H]"
)


@pytest.mark.parametrize("name", LINES)
def test_a_block_under_a_line_of_layout_is_the_strategy(answer: Any, name: str) -> None:
    named = answer("layer", name)
    for text in (MLP, "mlp"):
        under = answer("layer", text, "--layout", LINES[name])
        assert {**under, "assumptions": 0} == {**named, "assumptions": 0}


def test_axes_of_a_user_s_own(answer: Any) -> None:
    own = answer("layer", "mlp", "--layout", "B:data D:data")
    assert {move["axis"] for move in own["forward"]["moves"]} == {"data"}
    assert same(own["forward"]["flops"].replace("data", "X"), "4*B*D*F/X")


def test_kernels_change_what_is_saved(answer: Any) -> None:
    options = ("--norm", "unfused", "--glu", "unfused", "--kernels", "recomputed")
    fused, plain = answer("layer", "layer"), answer("layer", "layer", *options)
    names = [{one["tensor"] for one in data["forward"]["saved"]} for data in (fused, plain)]
    assert names[0] - names[1] == {"In", "Mid", "log-sum-exp of Share"}
    assert names[1] - names[0] == {
        *(f"{x} in fp32" for x in ("In", "Mid", "norm(In)", "norm(Mid)")), "silu(Gate)",
    }  # fmt: skip
    assert plain["assumptions"]["norm"].startswith("unfused: ")
    assert fused["backward"]["flops"] != plain["backward"]["flops"]


def test_what_is_saved_and_what_is_a_parameter(answer: Any) -> None:
    found = answer("layer", "fsdp", "--set", "B=4096", "--set", "X=4", "--model", "llama-3-8b")
    assert found["parameters"] == ["W_in", "W_out"]
    saved = {row["tensor"]: row["bytes"] for row in found["forward"]["saved"]}
    assert saved == {"In": 2 * 1024 * 4096, "Tmp": 2 * 1024 * 14336}
    scores = answer("layer", ATTENTION, "--gradients", "fp32", "--keep", "none")
    assert scores["parameters"] == []
    back = scores["backward"]["moves"]
    # Gathered again, and gradients of activations: bf16 whatever the gradients' precision.
    assert same(scores["backward"]["bytes"], "8*U*K*H")
    assert [m["critical"] for m in back if m["tensor"].startswith("d")] == [True, True]
    options = ("--gradients", "fp32", "--keep", "none", "--parameters", "Key,Val")
    named = answer("layer", ATTENTION, *options)
    assert named["parameters"] == ["Key", "Val"]
    assert same(named["backward"]["bytes"], "12*U*K*H")


@pytest.mark.parametrize(("chip", "link"), [("h100", 450e9), ("tpu-v5p", 180e9)])
def test_a_chip_gives_each_move_its_time(answer: Any, chip: str, link: float) -> None:
    sizes = ("--model", "llama-3-70b", "--set", "B=4M", "--set", "X=8", "--chip", chip)
    found = answer("layer", "fsdp", *sizes)
    peak = {"h100": 989.4e12, "tpu-v5p": 459e12}[chip]
    for side in ("forward", "backward"):
        assert found[side]["seconds"] == pytest.approx(found[side]["flops"] / peak)
        for move in found[side]["moves"]:
            assert move["seconds"] == pytest.approx(move["sent_bytes"] / link)
        assert found[side]["binds"] == "computation"  # far above the critical batch
    little = answer("layer", "fsdp", *sizes[:2], "--set", "B=8192", *sizes[4:])
    assert little["forward"]["binds"] == {"h100": "node", "tpu-v5p": "X"}[chip]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("mlp", "--layout", "Q:X"), "no dimension 'Q'; it has B, D, F"),
        (("mlp", "--layout", "B:X D:X(W_inn)"), "no tensor 'W_inn'; did you mean W_in"),
        (("mlp", "--layout", "B=X"), "expected a rule such as B:X"),
        (("mlp", "--layout", "B:DP"), "write dp"),
        ((MLP, "--parameters", "W_on"), "did you mean W_in"),
        (("fsdp", "--layout", "B:X"), "fsdp has its own"),
        (
            ("attention", "--layout", "K:tp", "--set", "tp=16", "--set", "K=8"),
            "tp = 16 does not divide K = 8 of W_q[D, K_tp, G, H]; 8 does",
        ),
        (("mlp", "--layout", "B:X B:X"), "the rule B:X is given twice"),
        (("fsdp", "--set", "X=2.5"), "FSDP): expected a whole number, found 5/2"),
        (("Out . W[D, F] -> In[B, F]",), "Out is used before it is made"),
        (("In[B, D] . W[D, F] -> Out[B, F]; In . W -> Out[B, F]",), "Out is made twice"),
        (("In[B, D] . W[F, H] -> Out[B, D, F, H]",), "nothing to sum over"),
    ],
)
def test_blocks_and_layouts_are_refused_in_one_line(
    run: Any, arguments: tuple[str, ...], reason: str
) -> None:
    code, out, err = run("layer", *arguments)
    assert (code, out) == (2, "")
    assert reason in err and err.count("\n") == 1


def test_what_binds_adds_the_times_of_each_link(answer: Any) -> None:
    """By hand: over the node 2*(1 - 1/Y)*B*D*e/X of activations, and (n/Y - 1)/(n/Y) of weights."""
    sizes = {"D": 4096, "F": 7168, "X": 8, "Y": 4, "B": 65536}
    held = [part for name, size in sizes.items() for part in ("--set", f"{name}={size}")]
    forward = answer("layer", "fsdp_tensor", "--chip", "h100", *held)["forward"]
    activations, weights = 2 * 3 / 4 * 65536 * 4096 * 2 / 8, 2 * 1 / 2 * 4096 * 7168 * 2 / 4
    node = (activations + weights) / 450e9
    assert node > forward["seconds"] > activations / 450e9
    assert forward["binds"] == "node"
    assert sum(m["links"].get("node", 0) for m in forward["moves"]) == pytest.approx(node)


def test_a_value_without_a_part_is_told(run: Any) -> None:
    for more in ((), ("--json",)):
        _, out, _ = run("layer", "fsdp", "--set", "B=1024", "--set", "L_p=3", *more)
        assert "L_p plays no part in this answer" in out and "B plays no part" not in out
