"""Every threshold put back into the condition: compute-bound on one side of it, not on the other.

The condition is put together in `loads_by_hand`, from the passes of the strategy alone.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
import sympy as sp
from exact import real
from loads_by_hand import (
    BYTES,
    Point,
    constants_of,
    put,
    random_point,
    strategy_and_question,
    worst,
)  # fmt: skip
from mpmath import mp

from derive.cost.assumptions import Assumptions
from derive.cost.strategies import (
    Strategy,
    cross_pod,
    data_parallel,
    fsdp_tensor,
    sequence_parallel,
)
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, NotClosedForm
from derive.solve.threshold import Threshold, threshold

MARGIN = 1e-3
# precision, gradients and wraparound: bf16 everywhere, and one of these in turn
ELEMENTS = (("any", "fp32", True), ("fp8", "bf16", False), ("any", "same", False))
SHARDED = ("data_parallel", "fsdp", "tensor_parallel", "fsdp_tensor")


def every_assumption(strategy: Strategy) -> list[Assumptions]:
    """All combinations, leaving out what a strategy that declares its moves does not have."""
    sharded = strategy.name in SHARDED
    rest = product(
        ("concurrent", "serial"),
        ("each", "forward", "backward", "step"),
        ("large-n", "exact"),
        ("activations", "none", "weights", "all") if sharded else ("activations",),
        (False, True) if sharded else (False,),
    )
    return [
        Assumptions(*chosen, *elements)
        for k, chosen in enumerate(rest)
        for elements in (("bf16", "same", True), ELEMENTS[k % len(ELEMENTS)])
    ]


def numbers(found: Threshold, point: Point) -> tuple[float | None, float | None, float]:
    """The largest lower bound, the smallest upper one, and the largest of what is provided."""
    with mp.workdps(30):
        full = {s: mp.mpf(x.numerator) / x.denominator for s, x in point.items()}
        full[v.alpha] = full[v.C] / full[v.W]
        provided = float(max((real(p.lhs, full) for p in found.provided), default=0))
        if provided > 1:
            return None, None, provided
        ends = [(bound.direction, float(real(bound.expr, full))) for bound in found.bounds]
    low = max((x for direction, x in ends if direction == ">="), default=None)
    return low, min((x for direction, x in ends if direction == "<="), default=None), provided


def points(strategy: Strategy, asked: sp.Expr, mesh: str, seed: int) -> list[Point]:
    """A point; where a bound is conditional, one at which it holds and one where it does not."""
    point = random_point(f"{strategy.name} {asked} {seed}")
    if mesh == "other":
        for side in (v.B, v.F):  # so that both degrees are well above 1 at either bound
            point[side] *= 5000
        alpha = point[v.C] / point[v.W]
        widest = point[v.B] * point[v.F] * point[v.M_X] * point[v.M_Y] / alpha**2
        point[v.N] = widest * Fraction(seed % 5 + 1, 2000)
        return [point, point | {v.N: 3000 * point[v.N]}]
    if strategy == fsdp_tensor and asked == v.B / v.X:
        return [point, point | {v.Y: 3000 * point[v.Y]}]
    return [point]


@pytest.mark.parametrize(
    ("strategy", "asked", "mesh"),
    strategy_and_question(),
    ids=[f"{s.name}-{asked}" for s, asked, _ in strategy_and_question()],
)
def test_a_bound_separates(strategy: Strategy, asked: sp.Expr, mesh: str) -> None:
    answered = checked = 0
    for seed, assumptions in enumerate(every_assumption(strategy)):
        try:
            found = threshold(strategy, asked, assumptions)
        except DeriveError as error:
            assert expected_refusal(strategy, assumptions, mesh, error), (assumptions, error)
            continue
        answered += 1
        for point in points(strategy, asked, mesh, seed):
            here = point | {
                s: Fraction(int(x.p), int(x.q))
                for s, x in constants_of(assumptions).items()
                if x.is_Rational
            }
            checked += compare(found, assumptions, here, mesh)
    assert checked >= answered > 0


def compare(found: Threshold, assumptions: Assumptions, point: Point, mesh: str) -> bool:
    """Assert the bounds of a threshold at one point; whether there was a bound to assert."""
    strategy, asked = found.subject, found.question.expr
    where = (found, assumptions, point)
    near = {s: float(x) for s, x in point.items()}

    def ratio(value: float) -> float:
        return worst(strategy, assumptions, put(near, asked, value, mesh), mesh)

    low, high, provided = numbers(found, point)
    if provided > 1 or (low is not None and high is not None and low >= high):
        tries = [float(point[v.N]) ** (k / 8) for k in range(1, 16)]
        assert all(ratio(value) > 1 for value in tries), where
        return False
    if mesh == "other":
        assert low is not None and high is not None and 1 < low < high < point[v.N], where
    if low is not None:
        assert abs(ratio(low) - 1) < 1e-4, where
        assert ratio(low * (1 - MARGIN)) > 1, where
        assert high is not None or ratio(1000 * low) <= 1, where
        if high is None or high > 1.01 * low:
            assert ratio(low * (1 + MARGIN)) < 1, where
    if high is not None:
        assert abs(ratio(high) - 1) < 1e-4, where
        assert ratio(high * (1 + MARGIN)) > 1, where
        if low is None or high > 1.01 * low:
            assert ratio(high * (1 - MARGIN)) < 1, where
    return True


def expected_refusal(
    strategy: Strategy, assumptions: Assumptions, mesh: str, error: DeriveError
) -> bool:
    """Where there is rightly no closed form, or nothing to bound."""
    backward_only = strategy in (data_parallel, cross_pod) and assumptions.passes == "forward"
    no_backward = strategy.name == "weight_reads" and assumptions.passes == "backward"
    if backward_only or no_backward:
        return "communicates nothing" in str(error)
    unlike = assumptions.passes == "forward" or assumptions.overlap == "serial"
    if strategy is sequence_parallel and unlike:  # forward its weights move nowhere
        return isinstance(error, NotClosedForm) or "does not involve B/X" in str(error)
    exact = assumptions.form == "exact"
    two_sums = assumptions.passes == "each" and assumptions.gradients != "same"
    return isinstance(error, NotClosedForm) and (
        mesh == "split" and (exact or (two_sums and assumptions.overlap == "serial"))
    )


def test_a_share_of_bytes_is_not_taken_for_granted() -> None:
    """The table of bytes above is the one that the assumptions use."""
    for precision, size in BYTES.items():
        constants = Assumptions(precision=precision).elements
        assert (constants[v.fma], constants[v.e], constants[v.e_g]) == (2, size, size)


def test_a_threshold_of_one_load_has_it_and_one_of_several_says_so() -> None:
    found = threshold(fsdp_tensor, v.B / v.N)
    at = {found.question.main: found.closed_form * v.N}
    assert sp.simplify(found.load.xreplace(at).xreplace({v.alpha: v.C / v.W})) == 1
    both = threshold(fsdp_tensor, v.Y)
    with pytest.raises(DeriveError, match="has 2 loads; ask for"):
        _ = both.load
    with pytest.raises(DeriveError, match="is bounded on both sides; ask for"):
        _ = both.direction
