"""Plots: computation over communication against tokens per chip, from the loads."""

from __future__ import annotations

import numpy as np
import sympy as sp

from derive import evaluate
from derive.book import Plot
from derive.cost.strategies import Strategy, fsdp, fsdp_tensor, tensor_parallel
from derive.facts import Chip
from derive.notation.symbols import M_X, M_Y, B, N, X, Y
from derive.solve.powers import held
from derive.solve.question import question, requirement

from .common import BOTH_CHIPS, chapter, llama, mixed_on, n, on
from .tensor import eight

POINTS = np.geomspace(10, 10_000, 61)


def curve(
    chosen: Strategy, asked: sp.Expr, of: Chip, axes: int = 2, tokens: np.ndarray = POINTS
) -> np.ndarray:
    """T_math / T_comms at each number of tokens per chip: one chip, with B its tokens."""
    known = {**of.bindings(), **llama.bindings(), N: 1, X: 1, Y: eight, M_X: axes, M_Y: 1}
    what = question(asked)
    loads = [load.total for load in held(requirement(chosen, what), what).loads]
    given = [{s: known[s] for s in load.free_symbols - {B}} for load in loads]
    values = [evaluate(load, {B: tokens}, g) for load, g in zip(loads, given, strict=True)]
    return 1 / np.max(values, axis=0)


for name, of in BOTH_CHIPS:
    title = name.replace("ironwood", "Ironwood")
    plot = Plot(
        f"LLaMA-3-70B on {title}",
        "tokens per chip",
        "computation over communication",
        [
            ("FSDP, three axes", POINTS, curve(fsdp, B / X, of, axes=3)),
            ((n(eight), "-way tensor, one axis"), POINTS, curve(tensor_parallel, Y, of)),
            ("FSDP + tensor, best split", POINTS, curve(fsdp_tensor, B / N, of)),
        ],
        vertical=[("FSDP + tensor", mixed_on(of)), ("FSDP", on(fsdp, B / X, of, M_X=3))],
        horizontal=[("compute-bound above", 1)],
        log_x=True,
        log_y=True,
    )
    alt = f"Computation time over communication time against tokens per chip on {title}"
    chapter.plot(f"ratio-{name}", plot, alt=alt)

MEETINGS = [
    curve(chosen, asked, of, axes, np.array([float(bound.value)]))
    for _, of in BOTH_CHIPS
    for chosen, asked, axes, bound in (
        (fsdp, B / X, 3, on(fsdp, B / X, of, M_X=3)),
        (fsdp_tensor, B / N, 2, mixed_on(of)),
    )
]
chapter.holds(("curves-meet", bool(np.allclose(MEETINGS, 1)), "one at the two thresholds"))
