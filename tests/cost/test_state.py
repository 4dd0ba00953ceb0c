"""Weights and optimizer state of a chip: counted from what each simulated device holds."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from comparison import sizes_for
from simulator import Machine, Mesh

from derive.cost.block import Block
from derive.cost.passes import program
from derive.cost.strategies import STRATEGIES, layer
from derive.notation import symbols as v
from derive.notation.quantity import Quantity
from derive.solve.threshold import threshold

SIZES = {"X": 2, "Y": 3, "Z": 4}
SHARDED = [s for s in STRATEGIES.values() if s.block is not None]
WITH_STATE = [s for s in SHARDED if s.state is not None]
ODD = (
    "In[B_X, D] . W_in[D_XZ, F_Y] . W_out[F_Y, D_ZX] -> Out[B_X, D]",
    "In[E, B_X, D] . W_in[E_X, D, F_Y] . W_out[E_X, F_Y, D] -> Out[E, B_X, D]",
)
BYTES = {v.s_P: sp.Integer(10), v.P: sp.Integer(2**3 * 3**3 * 5 * 7)}


def state(size: sp.Expr | None, numbers: dict[sp.Symbol, int]) -> sp.Expr:
    assert size is not None
    return size.xreplace(BYTES | {symbol: sp.Integer(n) for symbol, n in numbers.items()})


def held_share(read: Block, sizes: dict[str, int]) -> sp.Rational:
    """The share of all elements of the parameters that every device of the mesh holds."""
    mesh = Mesh({axis: sizes[axis] for axis in read.mesh})
    lengths = sizes_for(program(read), mesh)
    parameters = [read[name] for name in read.parameters]
    whole = {w.name: np.zeros([lengths[dim] for dim in w.dims]) for w in parameters}
    machine = Machine(mesh, whole)
    for weight in parameters:
        machine.place(weight)
    count = sum(machine.held(weight).size for weight in parameters)
    devices = int(np.prod(mesh.shape))
    return sp.Rational(count, devices * sum(array.size for array in whole.values()))


@pytest.mark.parametrize(
    "strategy", [*WITH_STATE, *map(layer, ODD)], ids=lambda s: f"{s.name}: {s.block}"
)
def test_the_state_of_a_sharded_layer_is_what_a_device_holds(strategy) -> None:
    numbers = {v.find(axis): SIZES[axis] for axis in strategy.block.mesh}
    share = held_share(strategy.block, SIZES)
    assert state(strategy.state, numbers) == BYTES[v.s_P] * BYTES[v.P] * share


def test_the_shares_by_hand() -> None:
    shares = {s.name: held_share(s.block, SIZES) for s in WITH_STATE}  # type: ignore[arg-type]
    x, y = SIZES["X"], SIZES["Y"]
    assert shares == {
        "data_parallel": 1,
        "fsdp": sp.Rational(1, x),
        "tensor_parallel": sp.Rational(1, y),
        "fsdp_tensor": sp.Rational(1, x * y),
        "sequence_parallel": sp.Rational(1, y),
        "hsdp": sp.Rational(1, x),
        "ulysses": 1,
        "expert_parallel": sp.Rational(1, x),
    }


def test_attention_alone_has_no_parameters_and_no_state() -> None:
    without = {s.name for s in SHARDED} - {s.name for s in WITH_STATE}
    assert without == {"context_parallel", "context_gathered"}
    assert all(not s.block.parameters for s in SHARDED if s.name in without)  # type: ignore[union-attr]


def test_weights_split_unlike_have_no_state() -> None:
    assert layer("In[B_X, D] . W_in[D_X, F] . W_out[F, D] -> Out[B_X, D]").state is None


@pytest.mark.parametrize(("slices", "chips"), [(1, 1), (2, 1), (1, 6), (4, 6), (3, 12)])
def test_a_chip_of_a_slice_holds_its_share_of_the_slice_s_copy(slices: int, chips: int) -> None:
    """Every slice has all parameters, spread over its own chips: more slices, not less each."""
    parameters = np.arange(int(BYTES[v.P]))
    held = {
        (pod, rank): part
        for pod in range(slices)
        for rank, part in enumerate(np.split(parameters, chips))
    }
    for pod in range(slices):
        copy = np.concatenate([held[pod, rank] for rank in range(chips)])
        assert np.array_equal(copy, parameters)
    for rank in range(chips):  # peers, whose gradients are all-reduced, hold the same share
        assert all(np.array_equal(held[pod, rank], held[0, rank]) for pod in range(slices))
    strategy = STRATEGIES["cross_pod"]
    numbers = {v.S: slices, v.N: chips}
    for part in held.values():
        assert state(strategy.state, numbers) == BYTES[v.s_P] * part.size
    assert len(held) == strategy.chips.xreplace({s: sp.Integer(n) for s, n in numbers.items()})


@pytest.mark.parametrize("stages", [1, 2, 3, 6])
def test_a_stage_holds_its_own_layers(stages: int) -> None:
    layers = 6
    per_layer = int(BYTES[v.P]) // layers
    held = [
        [number for number in range(layers) if number * stages // layers == stage]
        for stage in range(stages)
    ]
    assert sorted(number for stage in held for number in stage) == list(range(layers))
    strategy = STRATEGIES["pipeline"]
    for stage in held:
        assert state(strategy.state, {v.Z: stages}) == BYTES[v.s_P] * len(stage) * per_layer
    assert strategy.chips.xreplace({v.Z: sp.Integer(stages)}) == len(held)


def test_reading_weights_says_nothing_of_state() -> None:
    assert STRATEGIES["weight_reads"].state is None
    assert STRATEGIES["weight_reads"].chips == 1


def test_every_strategy_is_counted_here() -> None:
    by_hand = {"cross_pod", "pipeline", "weight_reads"}
    by_hand |= {"shared_dispatch", "layer_dispatch", "node_limited"}  # in test_experts
    assert {s.name for s in SHARDED} | by_hand == set(STRATEGIES)


@pytest.mark.parametrize(("precision", "bytes_"), [("bf16", (16, 18)), ("fp8", (14, 17))])
def test_the_whole_state_is_told_beside_the_state_that_is_counted(
    precision: str, bytes_: tuple[int, ...]
) -> None:
    bound = threshold(STRATEGIES["fsdp"], v.P, precision=precision)
    notes = bound.on(N=16, M_hbm=80_000_000_000).notes
    for size, note in zip(bytes_, notes, strict=True):
        most = Quantity(sp.Rational(16 * 80 * 10**9, size), v.unit_of_symbol(v.P), bound="<=")
        told = most.printed()
        assert note.endswith(f" {size} bytes per parameter: P <= {told}")
    assert not threshold(STRATEGIES["fsdp"], v.P, precision="any").on(N=1, M_hbm=1, s_P=1).notes
