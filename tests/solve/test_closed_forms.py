"""The closed forms as mathematics: each equal to the one worked out by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
import sympy as sp

from derive.cost.strategies import (
    STRATEGIES,
    Strategy,
    context_gathered,
    context_parallel,
    cross_pod,
    data_parallel,
    expert_parallel,
    fsdp,
    fsdp_tensor,
    hsdp,
    layer_dispatch,
    node_limited,
    pipeline,
    sequence_parallel,
    shared_dispatch,
    tensor_parallel,
    ulysses,
    weight_reads,
)  # fmt: skip
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, NotClosedForm
from derive.notation.symbols import (
    F_E,
    M_X,
    M_Y,
    B,
    C,
    D,
    F,
    G,
    H,
    K,
    L,
    M_hbm,
    N,
    P,
    S,
    T,
    W,
    W_dcn,
    W_hbm,
    X,
    Y,
    Z,
    alpha,
    e,
    e_g,
)  # fmt: skip
from derive.solve.answer import Bound
from derive.solve.optimum import optimum
from derive.solve.threshold import _without_implied, threshold

HALF, TWO_THIRDS = sp.Rational(1, 2), sp.Rational(2, 3)
MIXED = alpha**2 / (M_X * M_Y * F)
SPLIT = sp.sqrt(B / F * M_X / M_Y * N)


def equal(left: sp.Expr, right: sp.Expr) -> bool:
    """Whether the difference is zero: symbolically, and at random rational points too."""
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    source = random.Random(str(right))
    for _ in range(5):
        point = {s: sp.Rational(source.randint(100, 10**6), 1000) for s in symbols}
        a, b = (side.evalf(40, subs=point) for side in (left, right))
        if abs(a - b) > abs(b) * sp.Float("1e-30"):
            return False
    return rational(left - right) == 0 or bool(sp.simplify(left - right) == 0)


def rational(expr: sp.Expr) -> sp.Expr:
    """The numerator of an expression, multiplied out, with a symbol for each root and power."""
    apart = sp.expand(expr)
    powers = {p for p in apart.atoms(sp.Pow) if not p.exp.is_Integer}
    plain = apart.xreplace({power: sp.Dummy(positive=True) for power in powers})
    return sp.expand(sp.numer(sp.together(plain)))


CLOSED: tuple[tuple[Strategy, sp.Expr, Mapping[str, object], str, sp.Expr], ...] = (
    # data parallelism and FSDP
    (data_parallel, B / X, {}, ">=", alpha / M_X),
    (fsdp, B / X, {}, ">=", alpha / M_X),
    (fsdp, B / X, {"passes": "forward"}, ">=", alpha / M_X),
    (fsdp, B / X, {"passes": "backward"}, ">=", alpha / M_X),
    (fsdp, B / X, {"passes": "backward", "keep": "weights"}, ">=", alpha / M_X / 2),
    (fsdp, B / X, {"passes": "step", "keep": "weights"}, ">=", TWO_THIRDS * alpha / M_X),
    (data_parallel, B / X, {"passes": "step"}, ">=", TWO_THIRDS * alpha / M_X),
    (fsdp, B / X, {"form": "exact"}, ">=", alpha * (1 - 1 / X) / M_X),
    (fsdp, B / X, {"overlap": "serial"}, ">=", alpha / M_X),
    (fsdp, B / X, {"wrap": False}, ">=", 2 * alpha / M_X),
    (fsdp, B / N, {}, ">=", alpha / M_X),
    (fsdp, N, {}, "<=", B * M_X / alpha),
    (fsdp, N, {"form": "exact"}, "<=", B * M_X / alpha + 1),
    (fsdp, X, {}, "<=", B * M_X / alpha),
    (fsdp, W, {}, ">=", C * X / (B * M_X)),
    (fsdp, C / W, {}, "<=", B * M_X / X),
    (fsdp, alpha, {}, "<=", B * M_X / X),
    # tensor parallelism
    (tensor_parallel, Y, {}, "<=", M_Y * F / alpha),
    (tensor_parallel, Y, {"form": "exact"}, "<=", 1 + M_Y * F / alpha),
    (tensor_parallel, Y, {"passes": "backward"}, "<=", 2 * M_Y * F / alpha),
    (tensor_parallel, Y, {"passes": "backward", "keep": "none"}, "<=", 4 * M_Y * F / alpha / 3),
    (tensor_parallel, Y, {"passes": "step"}, "<=", 3 * M_Y * F / alpha / 2),
    (tensor_parallel, Y, {"precision": "any"}, "<=", 2 * M_Y * F / (e * alpha)),
    (tensor_parallel, Y, {"precision": "any", "form": "exact"}, "<=", 1 + 2 * M_Y * F / e / alpha),
    (tensor_parallel, Y, {"precision": "int8"}, "<=", 2 * M_Y * F / alpha),
    (tensor_parallel, Y, {"precision": "fp4"}, "<=", 4 * M_Y * F / alpha),
    (tensor_parallel, F, {}, ">=", alpha * Y / M_Y),
    (tensor_parallel, F, {"form": "exact"}, ">=", alpha * (Y - 1) / M_Y),
    (tensor_parallel, W, {}, ">=", C * Y / (F * M_Y)),
    (tensor_parallel, C, {}, "<=", W * F * M_Y / Y),
    # the further lines of layout: all of their traffic over the wire, worked out by hand
    (sequence_parallel, Y, {"passes": "forward"}, "<=", M_Y * F / alpha),
    (sequence_parallel, B / N, {}, ">=", MIXED),
    (sequence_parallel, B / N, {"passes": "backward"}, ">=", MIXED / 2),
    (hsdp, B / X, {"passes": "forward"}, ">=", alpha * Z / M_X),
    (context_parallel, T / X, {}, ">=", 2 * alpha / (G * M_X)),
    (context_parallel, T / X, {"form": "exact"}, ">=", 2 * alpha * (1 - 1 / X) / (G * M_X)),
    (context_parallel, X, {}, "<=", G * M_X * T / (2 * alpha)),
    (context_parallel, T / X, {"passes": "backward"}, ">=", 2 * alpha / (G * M_X)),
    (context_gathered, T / X, {"passes": "forward"}, ">=", 2 * alpha / (G * M_X)),
    (context_gathered, T / X, {"passes": "backward"}, ">=", alpha / (G * M_X)),
    (
        ulysses, W, {"passes": "forward"}, ">=",
        C * X ** (1 / M_X) * (K * H + K * G * H)
        / (4 * (2 * D * K * G * H + 2 * D * K * H + T * K * G * H)) * 2,
    ),
    (expert_parallel, F_E, {}, ">=", alpha * X ** (1 / M_X) / 6),
    (shared_dispatch, F_E, {}, ">=", alpha * v.n_k * v.x_cap * X ** (1 / M_X) / (6 * v.n_S)),
    (node_limited, F_E, {"network": "egress", "overlap": "serial"}, ">=",
     2 * C * (v.n_hit / v.n_k + 1) / (3 * W_dcn)),
    (layer_dispatch, F_E, {"network": "node"}, ">=",
     (2 * C * v.n_k * v.x_cap / v.W_node - v.E - 2 * K * H * (G + 1) - T * K * G * H / D)
     / (3 * (v.n_k * v.x_cap + v.n_S))),
    (expert_parallel, F_E, {"passes": "backward"}, ">=", alpha * X ** (1 / M_X) / 12),
    # FSDP + tensor parallelism
    (fsdp_tensor, B / N, {}, ">=", MIXED),
    (fsdp_tensor, B / N, {"overlap": "serial"}, ">=", 4 * MIXED),
    (fsdp_tensor, B / N, {"passes": "forward"}, ">=", MIXED),
    (fsdp_tensor, B / N, {"passes": "backward"}, ">=", MIXED / 2),
    (fsdp_tensor, B / N, {"passes": "backward", "keep": "none"}, ">=", 3 * MIXED / 4),
    (fsdp_tensor, B / N, {"passes": "step"}, ">=", TWO_THIRDS * MIXED),
    (fsdp_tensor, B / N, {"passes": "step", "keep": "none"}, ">=", 5 * MIXED / 6),
    (fsdp_tensor, B / N, {"passes": "step", "overlap": "serial"}, ">=", 8 * MIXED / 3),
    (fsdp_tensor, B / N, {"wrap": False}, ">=", 4 * MIXED),
    (fsdp_tensor, B / N, {"precision": "any"}, ">=", e**2 * MIXED / 4),
    (fsdp_tensor, B / N, {"gradients": "fp32"}, ">=", 3 * MIXED / 2),
    (fsdp_tensor, B, {}, ">=", N * MIXED),
    (fsdp_tensor, N, {}, "<=", B / MIXED),
    (fsdp_tensor, N, {"overlap": "serial"}, "<=", B / MIXED / 4),
    (fsdp_tensor, F, {}, ">=", alpha**2 * N / (B * M_X * M_Y)),
    (fsdp_tensor, F, {"overlap": "serial"}, ">=", 4 * alpha**2 * N / (B * M_X * M_Y)),
    (fsdp_tensor, W, {}, ">=", C * sp.sqrt(N / (B * F * M_X * M_Y))),
    (fsdp_tensor, W, {"overlap": "serial"}, ">=", 2 * C * sp.sqrt(N / (B * F * M_X * M_Y))),
    (fsdp_tensor, C, {}, "<=", W * sp.sqrt(B * F * M_X * M_Y / N)),
    (fsdp_tensor, alpha, {}, "<=", sp.sqrt(B * F * M_X * M_Y / N)),
    (fsdp_tensor, alpha, {"overlap": "serial"}, "<=", sp.sqrt(B * F * M_X * M_Y / N) / 2),
    (fsdp_tensor, C / W, {}, "<=", sp.sqrt(B * F * M_X * M_Y / N)),
    (fsdp_tensor, B / X, {}, ">=", alpha / M_X),
    # pipeline, slices, memory
    (pipeline, L / Z, {}, ">=", alpha / F),
    (pipeline, Z, {}, "<=", F * L / alpha),
    (cross_pod, B / S, {}, ">=", C / W_dcn),
    (cross_pod, B / S, {"form": "exact"}, ">=", (S - 1) / S * C / W_dcn),
    (cross_pod, S, {"form": "exact"}, "<=", 1 + B * W_dcn / C),
    (cross_pod, B / S, {"passes": "step"}, ">=", TWO_THIRDS * C / W_dcn),
    (cross_pod, B / S, {"gradients": "fp32"}, ">=", 2 * C / W_dcn),
    (cross_pod, W_dcn, {}, ">=", C * S / B),
    (weight_reads, B, {}, ">=", C / W_hbm),
    (weight_reads, B, {"precision": "any"}, ">=", e * C / (2 * W_hbm)),
    (weight_reads, W_hbm, {}, ">=", C / B),
    # what fits
    (data_parallel, P, {}, "<=", M_hbm / 10),
    (data_parallel, M_hbm, {}, ">=", 10 * P),
    (data_parallel, P, {"precision": "fp32"}, "<=", M_hbm / 12),
    (fsdp, P, {}, "<=", N * M_hbm / 10),
    (fsdp, M_hbm, {}, ">=", 10 * P / N),
    (fsdp, P / N, {}, "<=", M_hbm / 10),
    (fsdp_tensor, P, {}, "<=", N * M_hbm / 10),
    (fsdp_tensor, P / N, {}, "<=", M_hbm / 10),
    (pipeline, P, {}, "<=", N * M_hbm / 10),
)  # fmt: skip


@pytest.mark.parametrize(
    ("strategy", "asked", "assumed", "direction", "expected"),
    CLOSED,
    ids=[f"{s.name}-{q}-{'-'.join(map(str, a.values()))}" for s, q, a, _, _ in CLOSED],
)
def test_closed_form(
    strategy: Strategy,
    asked: sp.Expr,
    assumed: Mapping[str, object],
    direction: str,
    expected: sp.Expr,
) -> None:
    found = threshold(strategy, asked, **assumed)
    assert found.bounds[0].direction == direction
    assert equal(found.closed_form, expected), found


def test_the_gradients_bytes_count_in_the_data_parallel_threshold() -> None:
    for precision, gradients, factor in (
        ("fp8", "fp32", 2),
        ("bf16", "fp32", 2),
        ("fp8", "same", HALF),
    ):
        found = threshold(data_parallel, B / X, precision=precision, gradients=gradients)
        assert equal(found.closed_form, factor * alpha / M_X)
    free = threshold(data_parallel, B / X, precision="any")
    assert equal(free.closed_form, e * alpha / (2 * M_X))
    assert e_g not in free.closed_form.free_symbols


@pytest.mark.parametrize("overlap", ["concurrent", "serial"])
@pytest.mark.parametrize("form", ["large-n", "exact"])
def test_a_gate_changes_the_constants(overlap: str, form: str) -> None:
    """Three matrices: FSDP as before, tensor parallelism half as far again, the rest follows."""
    given = {"overlap": overlap, "form": form}
    for of, asked, factor in ((fsdp, B / X, 1), (data_parallel, B / X, 1)):
        plain, gate = (threshold(of, asked, gated=g, **given).closed_form for g in (False, True))
        assert equal(gate, factor * plain)
    plain, gate = (threshold(tensor_parallel, Y, gated=g, **given) for g in (False, True))
    one = 1 if form == "exact" else 0
    assert equal(gate.closed_form - one, sp.Rational(3, 2) * (plain.closed_form - one))
    if form == "large-n":
        for asked, power in ((B / N, 1), (N, -1), (F, 1), (W, HALF), (C, -HALF), (alpha, -HALF)):
            plain, gate = (threshold(fsdp_tensor, asked, gated=g, **given) for g in (False, True))
            assert equal(gate.closed_form, plain.closed_form * TWO_THIRDS**power), asked
    if form == "large-n" or overlap == "serial":
        best = [optimum(fsdp_tensor, X, gated=g, **given).at for g in (False, True)]
        assert equal(best[0], SPLIT)
        assert equal(best[1], SPLIT * sp.sqrt(TWO_THIRDS))


def test_the_degree_of_the_mixed_strategy_is_bounded_on_both_sides() -> None:
    concurrent = threshold(fsdp_tensor, Y)
    assert [b.direction for b in concurrent.bounds] == [">=", "<="]
    low, high = (b.expr for b in concurrent.bounds)
    assert equal(low, N * alpha / (B * M_X))
    assert equal(high, M_Y * F / alpha)
    exact = threshold(fsdp_tensor, Y, form="exact")
    assert equal(exact.bounds[0].expr, N / (B * M_X / alpha + 1))
    assert equal(exact.bounds[1].expr, 1 + M_Y * F / alpha)
    serial = threshold(fsdp_tensor, Y, overlap="serial")
    load = N * alpha / (Y * B * M_X) + Y * alpha / (F * M_Y)
    for bound in serial.bounds:
        assert equal(load.xreplace({Y: bound.expr}), sp.S.One)
    (provided,) = serial.provided
    assert provided == sp.Le(provided.lhs, 1) and equal(provided.lhs, 4 * N * MIXED / B)
    with pytest.raises(DeriveError, match="2 bounds"):
        _ = serial.closed_form


def test_the_largest_slice_when_exact_collectives_add_up() -> None:
    """Twice the root of the product of the loads, less one of each, is at most 1."""
    a, b = alpha / (B * M_X), alpha / (F * M_Y)
    found = threshold(fsdp_tensor, N, overlap="serial", form="exact")
    assert equal(found.closed_form, (1 + a + b) ** 2 / (4 * a * b))


def test_what_is_held_fixed() -> None:
    found = threshold(fsdp_tensor, B / N, fixed=(Y,))
    assert equal(found.closed_form, alpha / (M_X * Y))
    assert [equal(p.lhs, Y * alpha / (F * M_Y)) for p in found.provided] == [True]
    exact = threshold(fsdp_tensor, N, fixed=(Y,), form="exact")
    assert equal(exact.closed_form, Y * (1 + B * M_X / alpha))
    serial = threshold(fsdp_tensor, B / X, overlap="serial")
    assert equal(serial.closed_form, 1 / (M_X / alpha - Y * M_X / (F * M_Y)))


def test_where_there_is_no_closed_form() -> None:
    for asked in (B / N, B, F, W, C, alpha, N):
        with pytest.raises(NotClosedForm):
            threshold(fsdp_tensor, asked, form="exact")
    for asked in (B / N, B, F):
        with pytest.raises(NotClosedForm):
            threshold(fsdp_tensor, asked, form="exact", overlap="serial")
    with pytest.raises(NotClosedForm):
        threshold(fsdp_tensor, B / N, overlap="serial", gradients="fp32")


def test_what_does_not_depend_on_the_question_is_refused() -> None:
    for strategy, asked in ((tensor_parallel, B), (fsdp, F), (cross_pod, N), (fsdp, D)):
        with pytest.raises(DeriveError, match="does not involve"):
            threshold(strategy, asked)
    for asked in (
        1 / B,
        B + F,
        B**2,
        sp.Symbol("B"),
        sp.Integer(3),
        sp.Max(B, F),
        "B/N",
        B * X / X**3,
    ):
        with pytest.raises(DeriveError):
            threshold(fsdp_tensor, asked)
    with pytest.raises(DeriveError, match="fsdp: N is X"):
        threshold(fsdp, X / N)


def test_tensor_parallelism_does_not_depend_on_the_batch() -> None:
    for form in ("large-n", "exact"):
        for overlap in ("concurrent", "serial"):
            found = threshold(tensor_parallel, Y, form=form, overlap=overlap)
            assert found.closed_form.free_symbols == {F, M_Y, alpha}


def test_the_binding_pass_is_named() -> None:
    assert threshold(fsdp_tensor, B / N).bounds[0].passes == ("forward",)
    assert threshold(fsdp, B / X).bounds[0].passes == ("forward", "backward")
    assert threshold(fsdp, B / X, keep="weights").bounds[0].passes == ("forward",)
    assert threshold(cross_pod, B / S).bounds[0].passes == ("backward",)
    assert set(threshold(fsdp_tensor, B / N, gradients="fp32").bounds[0].passes) == {
        "forward", "backward",
    }  # fmt: skip


def test_of_two_bounds_one_way_the_stricter_is_kept() -> None:
    bounds = [
        Bound(direction, factor * F, ("forward",), ("X",))
        for direction in (">=", "<=")
        for factor in (2, 1, 3)
    ]
    for order in (bounds, bounds[::-1]):
        kept = {(bound.direction, bound.expr) for bound in _without_implied(order)}
        assert kept == {(">=", 3 * F), ("<=", F)}
    other = Bound("<=", alpha, ("forward",), ("Y",))
    assert _without_implied([bounds[3], other]) == (bounds[3], other)


def test_every_strategy_has_an_answer() -> None:
    answered = {strategy.name for strategy, *_ in CLOSED}
    assert answered == set(STRATEGIES)
    assert v.N in threshold(fsdp_tensor, B).closed_form.free_symbols
