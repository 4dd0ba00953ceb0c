"""Blocks run on simulated devices: results, bytes, FLOPs and saved tensors as derived, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from comparison import FUSIONS, UNFUSED, compare, sizes_for
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference import backward, differentiable, forward, inputs, is_exact, loss, truth
from shardings import AXES, NAMED_AXES, ODD, layouts, meshes, shardings, typed
from simulator import Mesh

from derive.cost.block import FUNCTIONS, Block, FunctionLine, Fusion, gated
from derive.cost.layout import rules_of, spread
from derive.cost.passes import KEEP, program
from derive.cost.program import Applied
from derive.cost.reader import block
from derive.cost.stage import LAYOUT
from derive.cost.strategies import STRATEGIES
from derive.cost.transformer import BLOCKS, LAYER
from derive.notation.errors import ShardingError

TYPED = {
    "data parallel": "In[B_X, D] . W_in[D, F] . W_out[F, D] -> Out[B_X, D]",
    "FSDP": "In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]",
    "tensor": "In[B, D_Y] . W_in[D, F_Y] . W_out[F_Y, D] -> Out[B, D_Y]",
    "FSDP + tensor": "In[B_X, D_Y] . W_in[D_X, F_Y] . W_out[F_Y, D_X] -> Out[B_X, D_Y]",
}

AWKWARD = {
    "nothing split": "In[B, D] . W_in[D, F] . W_out[F, D] -> Out[B, D]",
    "hidden declared whole": "In[B_X, D] . W_in[D, F] -> Tmp[B, F] . W_out[F, D] -> Out[B_X, D]",
    "hidden moved": "In[B_X, D] . W_in[D, F] -> Tmp[B, F_X] . W_out[F_X, D] -> Out[B_X, D]",
    "hidden turned": "In[B_X, D_Y] . W_in[D, F_Y] -> Tmp[F_XY, B] . W_out[D, F] -> Out[B, D_YX]",
    "rule 4, left gathered": "In[B_X, D] . W[D, F_X] -> Out[B, F_X]",
    "rule 4, right gathered": "In[B_X, D] . W[D, F_X] -> Out[B_X, F]",
    "rule 4, neither declared": "In[B_X, D] . W[D, F_X] -> Out[B, F]",
    "rule 5, slice": "In[B, D] . W[D, F] -> Out[B_Z, F_X]",
    "rule 5, gather": "In[B_X, D] . W[D, F_Y] -> Out[B, F]",
    "rule 5, all-to-all": "In[B_X, D] . W[D, F] -> Out[B, F_X]",
    "rule 5, all three": "In[B_X, D] . W[D, F_Y] -> Out[B_Z, F_X]",
    "two axes change places": "In[B_X, D] . W[D, F_Y] -> Out[B_Y, F_X]",
    "XZ and Z": "In[B, D_XZ] . W[D_Z, F] -> Out[B, F_X]",
    "XZ and ZX": "In[B, D_XZ] . W[D_ZX, F] -> Out[B, F]",
    "a ring over XZ": "In[B, D_XZ] . W[D_XZ, F] -> Out[B, F_ZX]",
    "a ring over XYZ": "In[B_XYZ, D] . W[D_ZYX, F] -> Out[B_YXZ, F]",
    "inner axis leaves": "In[B_XY, D] . W[D, F] -> Out[B_X, F_Y]",
    "outer axis leaves": "In[B_XY, D] . W[D, F] -> Out[B_Y, F_X]",
    "inner axis stays in place": "In[B, D_X] . W[D, F_YX] -> Out[B, F_YX]",
    "scattered inside a slice": "In[B, D_X] . W[D_X, F] -> Out[B, F_YX]",
    "scattered to two dimensions": "In[B, D_XY] . W[D_XY, F] -> Out[B_X, F_Y]",
    "result in another order": "In[B, D_X] . W[D_X, F_Y] -> Out[B, F_XY]",
    "replicated input": "In[B, D] . W_in[D_X, F_Y] . W_out[F_YX, D] -> Out[B_XY, D]",
    "experts": "In[E, B_X, D] . W_in[E_X, D, F] . W_out[E_X, F, D] -> Out[E, B_X, D]",
    "experts and tensor": "In[E, B_X, D] . W_in[E_X, D, F_Y] . W_out[E_X, F_Y, D] -> "
    "Out[E, B_X, D_Y]",
    "experts, batch split twice": "In[E_X, B, D] . W[E_XY, D, F] . V[E, F, D] -> Out[E_Y, B_X, D]",
    "heads": "In[B_X, D] . W_q[D, K_Y, H] -> Q[B_X, K_Y, H] . W_o[K_Y, H, D] -> Out[B_X, D_Y]",
    "two summed dimensions": "In[B, K_X, H_Y] . W[K_Y, H_X, D] -> Out[B_X, D]",
    "one axis on two summed dimensions": "In[B, K_X, H] . W[K, H_X, D] -> Out[B, D]",
    "gradient summed over B_X and T_X": "In[B_X, T, D] . W[D, F] -> Out[B, T_X, F]",
    "gradient summed over B_XY and T_YX": "In[B_XY, T, D] . W[D, F] -> Out[B, T_YX, F]",
    "gradient summed over B_X and T_Y": "In[B_X, T, D] . W[D_Z, F] -> Out[B, T_Y, F_Z]",
    "three products": "In[B_X, D] . A[D, F_Y] . C[F_Y, H_Z] . W[H_X, D] -> Out[B_X, D_Y]",
    "gate as written": "In[B_X, D] . W_a[D, F_Y] * W_b[D, F_Y] * W_c[D, F_Y] -> T[B, F_X] "
    ". W_out[F, D] -> Out[B, D]",
    "batch dimensions behind": "In[D, B_X, K_Y] . W[D, F, K_Y] -> Out[F, K, B_XY]",
    "batch dimensions apart": "In[K_Y, D, B_X] . W[F_X, D, K] -> Out[B, K_Y, F_X]",
    "scores as they are said": "Q[b_seq, T_X, K, H] . Key[b_seq, U_X, K, H] -> S[b_seq, K, T_X, U]"
    " (causal); softmax(S) -> A (fused); A . Val[b_seq, U_X, K, H] -> O[b_seq, T_X, K, H] (causal)",
    "scores moved": "Q[T_X, K, H] . Key[U_X, K, H] -> S[T, U_X, K] . Val[U, K_X, H] -> "
    "O[T_X, K, H]",
    "softmax of what is split": "Q[T_X, H_Y] . Key[U_Y, H] -> S[T, U_XY]; softmax(S) -> A[T_X, U_Y]"
    " (fused); A . Val[U_X, H] -> O[T_Y, H]",
    "one tensor on both sides": "Q[T_X, H_Y] . Q -> S[T]",
    "a sum of unlike layouts": "In[B_X, D_Y] + Att[B_Y, D] -> Mid[B, D_X]; norm(Mid) -> Y[B_XY, D]",
    "norm of a partial sum": "In[B, D_X] . W[D_X, F] -> Mid[B_Y, F_X]; norm(Mid) -> Y[B, F_X]; "
    "Y . W_b[F_Y, H] -> Out[B, H_XY]",
    "a parameter in two products": "In[B_X, D_Y] . W[D_Y, F] -> A[B_X, F]; A . W -> Out[B, D_X]",
    "a bias": "In[B_X, D] . W[D_X, F_Y] -> A[B_X, F]; A + W_b[B, F_X] -> Out[B_X, F]",
    "a table for both ends": "Ids[T_X, V_Y] @ W_e[V_Y, D_X] -> In[T_XY, D]; In . W_e -> "
    "Out[T_X, V_Y]",
    "experts over two axes": "In[B_XY, D] => Rows[E_Y, J_X, D]; Rows . W[E_Y, D, F_X] -> "
    "Hid[E_Y, J, F_X]; relu(Hid) -> Act[E_Y, J, F_X]; Act . W_o[E_Y, F_X, D] -> Back[E_Y, J_X, D]; "
    "Back => Out[B_XY, D]",
    "axes by name": "In[B_dp+cp, D_tp] . W[D_dp+tp, F] -> A[B_dp, F_tp]; gelu(A) -> "
    "Out[B_cp, F_tp]",
}

UNEVEN = {"X": 2, "Y": 3, "Z": 4, "dp": 2, "cp": 3, "tp": 2}
APART = {"X": 2, "Y": 4, "Z": 2, "dp": 2, "cp": 2, "tp": 4}
MESHES = ({"X": 4, "Y": 3, "Z": 2}, {"X": 2, "Y": 2, "Z": 3}, {"X": 1, "Y": 5, "Z": 1})
NAMED = {name: one.block for name, one in STRATEGIES.items() if one.block is not None}


@pytest.mark.parametrize("keep", KEEP)
@pytest.mark.parametrize("gate", [False, True], ids=["two matrices", "gated"])
@pytest.mark.parametrize("name", TYPED)
def test_typed_strategies(name: str, gate: bool, keep: str) -> None:
    plain = block(TYPED[name])
    compare(gated(plain) if gate else plain, {"X": 4, "Y": 3}, keep)


@pytest.mark.parametrize("name", TYPED)
def test_sixty_four_devices(name: str) -> None:
    compare(TYPED[name], {"X": 8, "Y": 8})


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("name", NAMED)
def test_named_strategies(name: str, mesh: dict[str, int]) -> None:
    for keep in KEEP:
        compare(NAMED[name], mesh, keep)
    compare(NAMED[name], mesh, fusion=UNFUSED)
    compare(NAMED[name], mesh, least=True)
    gate = STRATEGIES[name].gate
    if gate is not None:
        compare(gate, mesh)


def test_every_kind_of_strategy_is_run() -> None:
    kinds = {"sequence_parallel", "hsdp", "context_parallel", "context_gathered", "ulysses"}
    assert kinds | {"expert_parallel", "fsdp", "tensor_parallel"} < {*NAMED}


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward(name: str) -> None:
    read = block(AWKWARD[name])
    for keep in KEEP:
        compare(read, UNEVEN, keep)
        compare(read, UNEVEN, keep, least=True)
    compare(read, UNEVEN, fusion=UNFUSED)
    compare(read, APART, least=True)
    if all(hasattr(line, "rights") for line in read.lines) and len(read.lines) > 1:
        compare(gated(read) if len(read.lines[0].rights) == 1 else read, UNEVEN)


@pytest.mark.parametrize("text", ODD)
def test_odd(text: str) -> None:
    read = block(text)
    dims = [dim for dim in ("B", "T", "D") if dim in read.dims]
    for layout in (" ".join(f"{dim}:X" for dim in dims), " ".join(f"{d}:Y" for d in dims[::-1])):
        for fusion in FUSIONS:
            compare(spread(read, f"{layout} D:Z(optimizer)" if read.parameters else layout),
                    UNEVEN, "all", fusion, least=fusion is FUSIONS[0])  # fmt: skip


@pytest.mark.parametrize(
    "mesh",
    [{"dp": 2, "cp": 2, "tp": 2}, {"dp": 3, "cp": 1, "tp": 2}, {"dp": 1, "cp": 3, "tp": 1},
     {"dp": 2, "cp": 1, "tp": 4}, {"dp": 1, "cp": 2, "tp": 3}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("name", BLOCKS)
def test_the_layout_of_a_plan(name: str, mesh: dict[str, int]) -> None:
    """Every block of a transformer under the layout that the step model is read off."""
    rules = [rule for rule in rules_of(LAYOUT) if rule.dim in BLOCKS[name].dims]
    laid_out = spread(BLOCKS[name], rules)
    compare(laid_out, mesh, "none")
    compare(laid_out, mesh, "all", fusion=UNFUSED)


def test_a_fused_softmax_is_made_again_from_its_statistics() -> None:
    """No scores are kept, and the backward pass makes them again from what is kept."""
    whole = compare(LAYER[3], {})
    kept = {one.name for one in whole.saved}
    assert "log-sum-exp of Share" in kept and not kept & {"Score", "Share"}
    again = [op for op in whole.backward.program if getattr(op, "again", False)]
    assert [op.result.name for op in again] == ["Score", "Share"]  # type: ignore[union-attr]
    kept = {one.name for one in compare(LAYER[3], {}, fusion=UNFUSED).saved}
    assert {"Share", "silu(Gate)", "norm(In) in fp32"} <= kept and not {"Score", "In"} & kept


def test_what_is_recomputed_is_counted() -> None:
    """Selective recomputation keeps no statistics, and computes the scores once more."""
    fused, recomputed = compare(LAYER[3], {}), compare(LAYER[3], {}, fusion=Fusion("recomputed"))
    kept, less = ({one.name for one in whole.saved} for whole in (fused, recomputed))
    assert kept - less == {"log-sum-exp of Share"} and less < kept
    (scores,) = (
        op.flops for op in fused.forward.program if getattr(op, "result", None) == LAYER[3]["Score"]
    )
    more = recomputed.backward.flops - fused.backward.flops
    assert more == scores.xreplace(LAYER[3].same_length)


def test_every_function_is_run_and_has_its_gradient_run() -> None:
    forward_run, backward_run = set(), set()
    for read in (*BLOCKS.values(), *map(block, ODD)):
        whole = program(read, "none", UNFUSED)
        for cost, run in ((whole.forward, forward_run), (whole.backward, backward_run)):
            run |= {
                op.function
                for op in cost.program
                if isinstance(op, Applied) and (op.wrt is None) == (cost is whole.forward)
            }
    assert forward_run == backward_run == {*FUNCTIONS}


def runs(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


@runs(400)
@given(shardings(), meshes(), st.sampled_from(KEEP))
def test_random_shardings(read: Block, sizes: dict[str, int], keep: str) -> None:
    compare(read, sizes, keep)


@runs(30)
@given(shardings(), meshes(), st.sampled_from(KEEP))
def test_the_least_programs_of_random_shardings(
    read: Block, sizes: dict[str, int], keep: str
) -> None:
    compare(read, sizes, keep, least=True)


@runs(40)
@given(
    typed(), meshes((*AXES, *NAMED_AXES[1:3]), 8), st.sampled_from(KEEP), st.sampled_from(FUSIONS)
)
def test_the_least_programs_of_random_layouts(
    read: Block, sizes: dict[str, int], keep: str, fusion: Fusion
) -> None:
    compare(read, sizes, keep, fusion, least=True)


@runs(150)
@given(
    typed(), meshes((*AXES, *NAMED_AXES[1:3]), 8), st.sampled_from(KEEP), st.sampled_from(FUSIONS)
)
def test_random_layouts_of_each_tensor(
    read: Block, sizes: dict[str, int], keep: str, fusion: Fusion
) -> None:
    compare(read, sizes, keep, fusion)


@runs(200)
@given(layouts(), meshes(NAMED_AXES, 12), st.sampled_from(KEEP), st.sampled_from(FUSIONS))
def test_random_lines_of_layout(
    laid: tuple[Block, str], sizes: dict[str, int], keep: str, fusion: Fusion
) -> None:
    """A line of rules is a legal program, or is refused since it says nothing of the block."""
    read, line = laid
    try:
        laid_out = spread(read, line)
    except ShardingError as error:
        assert "no tensor that it speaks of has the dimension" in str(error)
        return
    compare(laid_out, sizes, keep, fusion)


@pytest.mark.parametrize(
    "read",
    [gated(block(TYPED["FSDP"])), *map(block, (AWKWARD["experts"], AWKWARD["hidden turned"])),
     *BLOCKS.values(), *map(block, ODD)],
    ids=str,
)  # fmt: skip
def test_reference_gradients_are_differences(read: Block) -> None:
    """The loss of products is at most quadratic in each entry, so that central differences are
    exact; of one of a few more factors so are four-point ones; the rest is close."""
    read = spread(read, ())
    sizes = sizes_for(program(read), Mesh({"X": 1}))
    values = truth(read, sizes)
    given = inputs(read, sizes)
    random = np.random.default_rng(1)
    step = 1.0 if is_exact(read) and not kinked(read) else 2.0**-9
    for name in differentiable(read):
        places = list(np.ndindex(given[name].shape))
        for place in random.permutation(len(places))[:12]:
            change = np.zeros_like(given[name])
            change[places[place]] = step
            near, far = (
                loss(read, given | {name: given[name] + n * change}, sizes)
                - loss(read, given | {name: given[name] - n * change}, sizes)
                for n in (1, 2)
            )
            slope = (8 * near - far) / (12 * step)
            want = values["d" + name][places[place]]
            assert abs(slope - want) <= (0 if step == 1 else 1e-6 * (1 + abs(want))), name


def kinked(read: Block) -> bool:
    return any(isinstance(line, FunctionLine) and line.function == "relu" for line in read.lines)


def test_blocks_by_hand() -> None:
    mesh = Mesh({"X": 2, "Y": 1, "Z": 3})
    assert mesh.block((("X",), ()), (4, 5), (1, 0, 2)) == (slice(2, 4), slice(0, 5))
    assert mesh.block((("X", "Z"),), (12,), (1, 0, 2)) == (slice(10, 12),)  # block 1 * 3 + 2
    assert mesh.block((("Z", "X"),), (12,), (1, 0, 1)) == (slice(6, 8),)  # block 1 * 2 + 1
    number = np.arange(6).reshape(2, 1, 3)  # of the devices, by their coordinates
    assert mesh.by_rank(number, ("Z", "X"))[:, 0].tolist() == [0, 3, 1, 4, 2, 5]
    assert mesh.by_rank(number, ("X",))[:, 0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.array_equal(mesh.by_device(mesh.by_rank(number, ("Z", "X")), ("Z", "X")), number)


@pytest.mark.parametrize("layout", [(("X", "Z"), ("Y",)), ((), ("Z", "X")), (("Y",), ()), ((), ())])
def test_all_devices_at_once_hold_what_each_of_them_does(
    layout: tuple[tuple[str, ...], ...],
) -> None:
    mesh = Mesh({"X": 2, "Y": 2, "Z": 3})
    whole = np.arange(12 * 24).reshape(12, 24)
    shards = mesh.spread(whole, layout)
    for device in np.ndindex(mesh.shape):
        assert np.array_equal(shards[device], whole[mesh.block(layout, whole.shape, device)])


def test_reference_by_hand() -> None:
    read = block("In[B, D] . W[D, F] -> Out[B, F]")
    given = {"In": np.array([[1.0, 2.0]]), "W": np.array([[3.0], [4.0]]), "dOut": np.array([[5.0]])}
    sizes = {"B": 1, "D": 2, "F": 1}
    values = backward(read, forward(read, given, sizes), sizes)
    assert values["Out"].tolist() == [[11.0]]
    assert values["dIn"].tolist() == [[15.0, 20.0]]
    assert values["dW"].tolist() == [[5.0], [10.0]]


def test_routing_by_hand() -> None:
    """Two rows, two experts of two places: the places in order take the rows twice each."""
    read = block("In[B, D] => Rows[E, J, D]; Rows => Out[B, D]")
    sizes = {"B": 2, "D": 1, "E": 2, "J": 2}
    given = {"In": np.array([[1.0], [2.0]]), "dOut": np.array([[3.0], [5.0]])}
    values = backward(read, forward(read, given, sizes), sizes)
    assert values["Rows"][..., 0].tolist() == [[1.0, 2.0], [1.0, 2.0]]  # expert by place
    assert values["Out"].tolist() == [[2.0], [4.0]]
    assert values["dRows"][..., 0].tolist() == [[3.0, 5.0], [3.0, 5.0]]
    assert values["dIn"].tolist() == [[6.0], [10.0]]


def test_lengths_differ() -> None:
    whole = program(block(TYPED["FSDP"]))
    assert sizes_for(whole, Mesh({"X": 4})) == {"B": 4, "D": 8, "F": 3}
    layer = program(spread(LAYER[3], [r for r in rules_of(LAYOUT) if r.dim in LAYER[3].dims]))
    sizes = sizes_for(layer, Mesh({"dp": 2, "cp": 3, "tp": 5}))
    assert sizes["T"] == sizes["U"] and sizes["T"] % 15 == 0 and sizes["b_seq"] == 2
