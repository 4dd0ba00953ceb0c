"""The thresholds the script assumes, derived, and checked on both sides against the model."""

from __future__ import annotations

from fractions import Fraction as Q

import pytest
import sympy as sp
from cases import made

from derive.cost.step import step_model
from derive.cost.step_assumptions import NOTEBOOK, step_assumptions
from derive.notation import symbols as v
from derive.notation.quantity import number
from derive.plan import limits
from derive.plan.exact import exact, solved_model
from derive.plan.plans import plan_of

RING = step_assumptions("notebook+ring_tensor")


def values(**more):
    bound = dict(made().values)
    for name, value in more.items():
        bound[v.find(name)] = number(value, v.unit_of_symbol(v.find(name)), name)
    return bound


NET = {"tp": 8, "cp": 2, "W_cp": 50 * 10**9}


@pytest.mark.parametrize(
    ("assumptions", "large", "more", "expected"),
    [
        (NOTEBOOK, False, NET, Q(11868)),
        (NOTEBOOK, True, NET, Q(23736)),
        (NOTEBOOK, False, {**NET, "cp": 4}, Q(17802)),
        (NOTEBOOK, False, {"tp": 4, "cp": 2, "W_cp": 450 * 10**9}, Q(1978, 3)),
        (RING, False, NET, Q(2967, 2)),
        (RING, True, NET, Q(2967)),
        (RING, True, {**NET, "tp": 1}, Q(2967)),
    ],
)
def test_the_least_tokens_that_hide_the_ring(assumptions, large, more, expected):
    limit = limits.ring_tokens(assumptions, large=large)
    assert limit.direction == ">=" and limit.asked == v.T_r
    assert limit.on(values(**more)).value == sp.Rational(expected.numerator, expected.denominator)


@pytest.mark.parametrize(("seq", "exposed"), [(2 * 11868, False), (2 * 11867, True)])
def test_the_ring_is_hidden_from_that_length_on(seq, exposed):
    plan = plan_of(made(seq=seq, batch=32, M_hbm=10**15), 8, 2, 1, 4)
    assert (plan.parts["cp"] > 0) == exposed


@pytest.mark.parametrize("pp", [2, 4, 16])
@pytest.mark.parametrize("share", [Q(1, 20), Q(1, 100), Q(1, 3)])
def test_the_least_micro_batches_for_a_share_of_bubble(pp, share):
    least = limits.micro_batches().on(values(pp=pp, epsilon=share)).value
    assert least == (pp - 1) * (1 - share) / share
    for count, within in ((sp.ceiling(least), True), (sp.ceiling(least) - 1, False)):
        if count > 0:
            assert (sp.Integer(pp - 1) / (count + pp - 1) <= share) == within


def test_the_coefficient_of_the_law():
    coefficient = limits.tensor_coefficient()
    assert coefficient == 8 * v.D * v.e * v.C * v.eta / (v.W_tp * v.f_L)
    model = step_model(NOTEBOOK)
    numbers = {**made().numbers, v.W_tp: Q(450 * 10**9)}
    numbers[v.f_A] = exact(model.term("f_A").expr, numbers)
    numbers[v.f_L] = exact(model.term("f_L").expr, numbers)
    at = exact(coefficient, numbers)
    assert f"{float(at):.4f}" == "0.0312"
    # 16 (t-1) h P e / (B f): the ratio in the model's own plans, at 4 and at 8.
    for tp, printed in ((4, "9%"), (8, "22%")):
        whole = solved_model(
            model,
            {**made().numbers, v.tp: Q(tp), v.cp: Q(1), v.pp: Q(1), v.dp: Q(8), v.b_seq: Q(1)},
        )
        ratio = whole[v.t_tp] / (80 * whole[v.f_L] * whole[v.t_1])
        assert ratio == (tp - 1) * at
        assert f"{float(ratio):.0%}" == printed


def test_the_largest_tensor_degree_for_a_share():
    model = step_model(NOTEBOOK)
    numbers = {**made().numbers}
    numbers[v.f_A] = exact(model.term("f_A").expr, numbers)
    layer = exact(model.term("f_L").expr, numbers)
    bound = limits.tensor_degree()
    assert bound.direction == "<="
    degree = float(bound.on(values(epsilon="0.1", W_tp=450 * 10**9, f_L=layer)).value)
    assert degree == pytest.approx(1 + 0.1 / 0.0311983, rel=1e-5)


@pytest.mark.parametrize(("gradient", "tokens"), [(2, 5934), (4, 11868)])
def test_the_least_tokens_that_hide_the_gradients(gradient, tokens):
    limit = limits.gradient_tokens(large=True)
    assert limit.on(values(e_g=gradient, W_dp=50 * 10**9)).value == tokens
    exact_form = limits.gradient_tokens()
    more = {"e_g": gradient, "W_dp": 50 * 10**9, "cp": 2, "dp": 4}
    assert exact_form.on(values(**more)).value == sp.Rational(tokens * 7, 8)


def test_the_cards_that_a_batch_can_feed():
    limit = limits.most_cards()
    more = {"tp": 4, "cp": 2, "pp": 2, "b_seq": 1, "epsilon": "0.11111111111111111111"}
    share = Q(1, 9)
    most = limit.on(values(**{**more, "epsilon": share})).value
    # 512 sequences, 8 micro-batches a pipeline for a ninth of bubble: 64 pipelines of 16 cards.
    assert most == 1024
    assert limit.direction == "<=" and limit.asked == v.N


def test_limits_print_as_text_and_tex():
    from derive.notation.tex import tex

    every = [
        limits.ring_tokens(), limits.ring_tokens(RING), limits.micro_batches(),
        limits.tensor_degree(), limits.gradient_tokens(), limits.most_cards(),
    ]  # fmt: skip
    for limit in every:
        assert tex(limit.relation) and str(limit) and limit.claim
    assert str(limits.micro_batches()).startswith("n_mb >= ")
