"""`evaluate` on a product grid of a million points against hand-written blocked NumPy."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import sympy as sp

from derive import M_X, M_Y, B, C, F, N, W, X, evaluate, fsdp_tensor
from derive.cost.assumptions import assume
from derive.cost.load import compute_bound

ROWS, COLUMNS = 1000, 1000
PEAK, LINK, WIDTH, BATCH = 4.59e14, 1.8e11, 28672.0, 4194304.0


def load() -> sp.Expr:
    """The serial load of FSDP + tensor parallelism over chips N and degree X."""
    from derive import Y

    (one,) = compute_bound(fsdp_tensor, assume(overlap="serial")).loads
    return one.total.xreplace({Y: N / X})


def by_hand(chips: np.ndarray, degree: np.ndarray) -> np.ndarray:
    """The same, as one would write it: constants folded, rows in blocks that stay in cache."""
    alpha = PEAK / LINK
    weights, activations = alpha / (BATCH * 2.0), alpha / WIDTH
    out = np.empty((len(chips), len(degree)))
    block = 32
    for start in range(0, len(chips), block):
        n = chips[start : start + block, None]
        out[start : start + block] = degree[None, :] * weights + n / degree[None, :] * activations
    return out


def ratio(rounds: int = 15) -> tuple[float, float, float]:
    """Seconds of ours, of the hand-written code, and the largest relative difference."""
    chips = np.linspace(64, 65536, ROWS)
    degree = np.linspace(1, 4096, COLUMNS)
    given = {C: 459 * 10**12, W: 180 * 10**9, F: 28672, B: 4194304, M_X: 2, M_Y: 1}
    expr = load()

    def ours() -> np.ndarray:
        return evaluate(expr, {N: chips, X: degree}, given)

    def theirs() -> np.ndarray:
        return by_hand(chips, degree)

    apart = float(np.max(np.abs(ours() / theirs() - 1)))
    pairs = [(_timed(ours), _timed(theirs)) for _ in range(rounds)]
    return median(p[0] for p in pairs), median(p[1] for p in pairs), apart


def _timed(function: Callable[[], np.ndarray]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
