"""Costs that no program of a sharded layer holds, counted array by array: strategies that declare
their moves, and a whole training run."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from derive.cost import stage
from derive.cost.program import TRAVERSALS, Move
from derive.cost.strategies import STRATEGIES
from derive.notation import symbols as v

B, D, F, L, P, R, A = 24, 4, 12, 6, 11, 7, 5
GIVEN = {v.B: B, v.D: D, v.F: F, v.L: L, v.P: P, v.R: R, v.A: A, v.fma: 2, v.e: 2, v.e_g: 4}


def number(expr: sp.Expr, **more: int) -> sp.Expr:
    named = {v.find(name): value for name, value in more.items()}
    return expr.xreplace({s: sp.Integer(n) for s, n in (GIVEN | named).items()})


def flops(tokens: int) -> tuple[int, int]:
    """FLOP of the passes of the two-matrix layer: a multiplication and an addition for each row,
    column and summed number of each product, of which the backward pass has one for the gradient
    of either operand."""
    forward = [(tokens, D, F), (tokens, F, D)]
    of_operands = [sizes for n, m, k in forward for sizes in ((n, k, m), (m, n, k))]
    first, second = (sum(2 * n * m * k for n, m, k in every) for every in (forward, of_operands))
    return first, second


def sent(moves: tuple[Move, ...], **more: int) -> list[tuple[str, str, sp.Expr]]:
    return [(m.collective, m.tensor, number(m.array_bytes, **more)) for m in moves]


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_stage_of_a_pipeline(stages: int) -> None:
    """It computes its own layers for the whole batch, and hands on their last output, or the
    gradient of their first input."""
    forward, backward = STRATEGIES["pipeline"].passes()
    layers = len(np.split(np.arange(L), stages)[0])
    assert number(forward.flops, Z=stages) == layers * flops(B)[0]
    assert number(backward.flops, Z=stages) == layers * flops(B)[1]
    handed = np.empty((B, D), np.float16).nbytes
    assert sent(forward.moves) == [("send", "Out", handed)]
    assert sent(backward.moves) == [("send", "dOut", handed)]
    assert all(m.axes == ("Z",) and m.critical for m in (*forward.moves, *backward.moves))


@pytest.mark.parametrize(("slices", "chips"), [(1, 1), (2, 3), (4, 6)])
def test_a_chip_of_one_of_several_slices(slices: int, chips: int) -> None:
    """It computes its share of the batch and reduces the gradients of its share of the weights."""
    forward, backward = STRATEGIES["cross_pod"].passes()
    mesh = {"S": slices, "N": chips}
    for cost, whole in zip((forward, backward), flops(B), strict=True):
        assert number(cost.flops, **mesh) * slices * chips == whole
    share = np.split(np.empty((D, F), np.float32).ravel(), chips)[0].nbytes
    assert sent(forward.moves) == []
    assert sent(backward.moves, **mesh) == [
        ("all_reduce", "dW_out", share), ("all_reduce", "dW_in", share),
    ]  # fmt: skip
    assert all(m.axes == ("S",) and not m.critical for m in backward.moves)


def test_weights_that_are_read_for_each_batch() -> None:
    (forward,) = STRATEGIES["weight_reads"].passes()
    assert number(forward.flops) == flops(B)[0]
    weight = np.empty((D, F), np.float16).nbytes
    assert sent(forward.moves) == [("load", "W_in", weight), ("load", "W_out", weight)]


def test_every_move_passes_its_array_once_but_an_all_reduce() -> None:
    for collective, times in TRAVERSALS.items():
        move = Move(collective, "In", ("X",), v.e * v.B * v.D, critical=True)
        passed = [move.array_bytes]  # a reduction is a scatter of sums; to have them all, a gather
        if collective == "all_reduce":
            passed.append(move.array_bytes)
        assert move.bytes == times * move.array_bytes == sp.Add(*passed)


def test_a_training_run() -> None:
    """Each token meets each parameter in a product forward, and in two backward; a tensor of
    [B, D] is kept for each of A of every layer, all of them spread over the chips."""
    for_a_weight = sum(flops(1)) // (2 * D * F)
    assert number(stage.training_flops) == for_a_weight * P * R
    run = {"N": 3, "C": 10, "u": 2}
    assert number(stage.run_seconds, **run) * 3 * 10 * 2 == for_a_weight * P * R
    kept = np.empty((L, A, B, D), np.float16)
    (held,) = {part.nbytes for part in np.split(kept, 3, axis=2)}
    assert number(stage.saved_activations, N=3) == held
