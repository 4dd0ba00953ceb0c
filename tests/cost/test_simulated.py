"""Shardings run on simulated devices: results, bytes and FLOPs as derived, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from comparison import compare, sizes_for
from derive.cost.sharding import Sharding, gated, sharding
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference import backward, forward, inputs, truth
from shardings import meshes, shardings
from simulator import Mesh

from derive.cost.rules import KEEP

STRATEGIES = {
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
}

UNEVEN = {"X": 2, "Y": 3, "Z": 4}


@pytest.mark.parametrize("keep", KEEP)
@pytest.mark.parametrize("gate", [False, True], ids=["two matrices", "gated"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies(name: str, gate: bool, keep: str) -> None:
    plain = sharding(STRATEGIES[name])
    compare(gated(plain) if gate else plain, {"X": 4, "Y": 3}, keep)


@pytest.mark.parametrize("name", STRATEGIES)
def test_sixty_four_devices(name: str) -> None:
    compare(STRATEGIES[name], {"X": 8, "Y": 8})


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward(name: str) -> None:
    layer = sharding(AWKWARD[name])
    sizes = {axis: UNEVEN[axis] for axis in layer.mesh}
    for keep in KEEP:
        compare(layer, sizes, keep)
    if len(layer.products) > 1 and len(layer.products[0].weights) == 1:
        compare(gated(layer), sizes)


@settings(
    max_examples=600,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(shardings(), meshes(), st.sampled_from(KEEP))
def test_random(layer: Sharding, sizes: dict[str, int], keep: str) -> None:
    compare(layer, sizes, keep)


def test_reference_gradients_are_exact_differences() -> None:
    """The loss is at most quadratic in each entry, so central differences are exact."""
    for text in (STRATEGIES["FSDP"], AWKWARD["experts"], AWKWARD["hidden turned"]):
        layer = gated(sharding(text))
        sizes = dict.fromkeys("EBDF", 2) | {"B": 3, "F": 4}
        values = truth(layer, sizes)
        given = inputs(layer, sizes)
        result = layer.result.name

        def loss(given: dict[str, np.ndarray], layer: Sharding = layer, out: str = result) -> float:
            return float((forward(layer, given)[out] * given["d" + out]).sum())

        for name in (layer.operand.name, *(w.name for w in layer.weights)):
            for place in np.ndindex(given[name].shape):
                step = np.zeros_like(given[name])
                step[place] = 1
                above = loss(given | {name: given[name] + step})
                below = loss(given | {name: given[name] - step})
                assert values["d" + name][place] == (above - below) / 2


def test_blocks_by_hand() -> None:
    mesh = Mesh({"X": 2, "Z": 3})
    assert mesh.block((("X",), ()), (4, 5), (1, 0, 2)) == (slice(2, 4), slice(0, 5))
    assert mesh.block((("X", "Z"),), (12,), (1, 0, 2)) == (slice(10, 12),)  # block 1 * 3 + 2
    assert mesh.block((("Z", "X"),), (12,), (1, 0, 1)) == (slice(6, 8),)  # block 1 * 2 + 1
    assert mesh.groups(("Z", "X"))[0][:3] == [(0, 0, 0), (1, 0, 0), (0, 0, 1)]


def test_reference_by_hand() -> None:
    layer = sharding("In[B, D] . W[D, F] -> Out[B, F]")
    given = {"In": np.array([[1.0, 2.0]]), "W": np.array([[3.0], [4.0]]), "dOut": np.array([[5.0]])}
    values = backward(layer, forward(layer, given))
    assert values["Out"].tolist() == [[11.0]]
    assert values["dIn"].tolist() == [[15.0, 20.0]]
    assert values["dW"].tolist() == [[5.0], [10.0]]


def test_lengths_differ() -> None:
    layer = sharding(STRATEGIES["FSDP"])
    assert sizes_for(layer, Mesh({"X": 4})) == {"B": 4, "D": 8, "F": 12}
