"""The closed forms of chapter 06 through `threshold` against SymPy's `solve` for the same.

Run as a process with one argument, ours or theirs: prints the seconds taken beyond imports, cold.
"""

from __future__ import annotations

import sys
import time

import sympy as sp

from derive import (
    M_X,
    M_Y,
    B,
    C,
    D,
    F,
    M_hbm,
    N,
    P,
    S,
    W,
    W_dcn,
    W_hbm,
    X,
    Y,
    cross_pod,
    data_parallel,
    fsdp,
    fsdp_tensor,
    optimum,
    tensor_parallel,
    threshold,
    weight_reads,
)  # fmt: skip
from derive.cost.load import compute_bound  # noqa: F401 (imported before the clock starts)


def ours() -> list[sp.Expr]:
    """Fourteen closed forms through derive."""
    asked = [
        (data_parallel, B / X), (data_parallel, P), (fsdp, B / X), (fsdp, N),
        (tensor_parallel, Y), (tensor_parallel, F), (tensor_parallel, W),
        (fsdp_tensor, B / N), (fsdp_tensor, N), (fsdp_tensor, F),
        (cross_pod, B / S), (weight_reads, B),
    ]  # fmt: skip
    found = [threshold(strategy, question).closed_form for strategy, question in asked]
    found.append(threshold(fsdp_tensor, B / N, overlap="serial").closed_form)
    found.append(optimum(fsdp_tensor, X).at)
    return found


def theirs() -> list[sp.Expr]:
    """The same fourteen, each condition written out by hand and given to `solve`."""
    q = sp.Symbol("q", positive=True)
    solve = sp.solve
    weights, activations = 4 * D * F / (W * M_X), 4 * B * D / (W * M_Y)
    math = 4 * B * D * F / C
    mixed_math, mixed_weights = math / N, weights * X / N
    mixed_activations = activations / X
    split = solve(sp.diff(mixed_weights + mixed_activations, X), X)[0]
    at_split = {X: split}
    condition = mixed_math - mixed_weights.subs(at_split)
    serial = mixed_math - (mixed_weights + mixed_activations).subs(at_split)
    return [
        solve((2 * math / X - 2 * weights).subs(B, q * X), q)[0],
        solve(10 * P - M_hbm, P)[0],
        solve((math / X - weights).subs(B, q * X), q)[0],
        solve(math / N - weights, N)[0],
        solve(math / Y - activations, Y)[0],
        solve(math / Y - activations, F)[0],
        solve(math / Y - activations, W)[0],
        solve(condition.subs(B, q * N), q)[0],
        solve(condition, N)[0],
        solve(condition, F)[0],
        solve((2 * math / (S * N) - 8 * D * F / (N * W_dcn)).subs(B, q * S), q)[0],
        solve(4 * B * D * F / C - 4 * D * F / W_hbm, B)[0],
        solve(serial.subs(B, q * N), q)[0],
        split,
    ]


if __name__ == "__main__":
    side = {"ours": ours, "theirs": theirs}[sys.argv[1]]
    start = time.perf_counter()
    found = side()
    elapsed = time.perf_counter() - start
    if len(sys.argv) > 2:  # the two sides must give the same answers, or the ratio means nothing
        from derive import alpha

        expected = [form.subs(alpha, C / W) for form in ours()]
        for mine, other in zip(expected, theirs(), strict=True):
            assert sp.simplify(mine - other) == 0, (mine, other)
    print(elapsed)
