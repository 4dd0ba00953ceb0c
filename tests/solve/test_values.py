"""What facts say of a step, and what follows from values by definition."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import sympy as sp

from derive.cost.assumptions import DEFAULT, NOTEBOOK
from derive.cost.limits import context_ring, tensor_share
from derive.cost.load import Requirement
from derive.cost.strategies import fsdp, fsdp_tensor, tensor_parallel
from derive.facts import chip, chips, model, models
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.notation.quantity import Quantity, number
from derive.plan.task import task
from derive.solve.feasible import feasible
from derive.solve.optimum import optimum
from derive.solve.threshold import threshold
from derive.solve.values import (
    SOURCE_OF_NOTEBOOK,
    check_values,
    fabric_of,
    facts_of,
    filled,
    value_of,
    whole,
)


@pytest.mark.parametrize("name", models())
def test_a_model_says_what_its_shape_is(name: str) -> None:
    one = model(name)
    for under in (DEFAULT, NOTEBOOK):
        known = facts_of(one, None, under)
        assert (known[v.n_V].value, known[v.n_F].value) == (
            one.tables, one.feed_forward_matrices,
        )  # fmt: skip
        for symbol in (v.D, v.L, v.V, v.K, v.G):
            assert known[symbol] == one.bindings()[symbol]
        assert (known.get(v.H) is None) == bool(one.kv_lora_rank)
        assert (known.get(v.F) is None) == bool(one.experts)  # which no one width is of
        assert {s: known[s].value for s in under.constants} == under.constants
    assert facts_of(one, None, DEFAULT)[v.P] == one.bindings()[v.P]


@pytest.mark.parametrize("name", chips())
def test_a_pod_of_a_torus_stands_for_a_node(name: str) -> None:
    one = chip(name)
    precision = one.precisions[0]  # a V100 has no bf16
    known = facts_of(None, one, replace(DEFAULT, precision=precision))
    torus = one.has("ici_axis") and not one.has("scaleup")
    assert (fabric_of(one) == "torus") == torus
    if torus:
        assert known[v.W_node].value == one.quantity("ici_axis").value
        assert (v.n_node in known) == one.has("pod_chips")
    elif name == "tpu8i":  # whose network is neither
        assert v.W_node not in known
    else:
        assert known[v.W_node] == one.bindings(precision)[v.W_node]
    for symbol in (v.C, v.M_hbm):
        assert known[symbol] == one.bindings(precision)[symbol]


def test_the_notebook_reads_its_own_numbers_but_for_what_is_overridden() -> None:
    own = chip("h100", profile="notebook")
    here = facts_of(None, chip("h100"), NOTEBOOK)
    by_profile = facts_of(None, own, DEFAULT)
    for symbol in (v.C, v.M_hbm, v.W_node, v.W_dcn, v.n_node):
        assert here[symbol].value == by_profile[symbol].value
    assert here[v.C].value == own.quantity("bf16").value  # and not the rate of another precision
    other = number(Fraction(10**12), v.unit_of_symbol(v.M_hbm))
    changed = facts_of(None, chip("h100", override={"memory": other}), NOTEBOOK)
    assert changed[v.M_hbm].value == 10**12 and changed[v.C] == here[v.C]


def test_the_notebook_has_its_own_count_of_parameters_where_it_gives_one() -> None:
    own = {}
    for name in models():
        for fact in model(name).facts:
            if fact.key.name == "published_parameters":
                stated = [r.value for r in fact.readings if r.source == SOURCE_OF_NOTEBOOK]
                if stated:
                    (own[name],) = stated
    assert own
    for name in models():
        counted = model(name).bindings()[v.P].value
        assert facts_of(model(name), None, NOTEBOOK)[v.P].value == own.get(name, counted)


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3", "deepseek-v2-lite"])
def test_a_limit_is_refused_of_a_model_that_is_not_dense(name: str) -> None:
    told = f"^{name} has experts( and a latent of keys and values)?; expected a dense transformer"
    given = {"tp": 2, "cp": 1, "pp": 1, "dp": 4, "B_seq": 64, "T": 4096}
    with pytest.raises(DeriveError, match=told):
        threshold(tensor_share, v.tp).on(chip("h100"), model(name), **given)
    with pytest.raises(DeriveError, match="no value for F"):
        threshold(tensor_parallel, v.Y).on(chip("tpu-v5p"), model(name))


@pytest.mark.parametrize("name", ["gpt-3-175b", "qwen-2.5-7b", "gemma-2-9b"])
def test_a_step_counts_the_parameters_that_the_shapes_make(name: str) -> None:
    one = model(name)
    assert task(one, chip("h100"), cards=64, seq=8192, batch=512).values[v.P] == one.parameters


def test_two_chips_or_two_models_are_refused_by_name() -> None:
    asked, mesh = v.B / v.X, {"N": 64}
    for two in (("tpu-v5p", "h100"), ("h100", "tpu-v5p")):
        pair = [chip(name) for name in two]
        for ask in (threshold(fsdp, asked).on, lambda *on: feasible(fsdp, 64, *on, B=10**6)):
            with pytest.raises(
                DeriveError, match=f"one chip, found {' and '.join(one.name for one in pair)}"
            ):
                ask(*pair)
    with pytest.raises(DeriveError, match="one model, found llama-3-70b and llama-3-8b"):
        threshold(tensor_parallel, v.Y).on(
            chip("h100"), model("llama-3-70b"), model("llama-3-8b"), **mesh
        )


def values(**given: object) -> dict[sp.Symbol, Quantity]:
    return {
        v.find(k): number(x, v.unit_of_symbol(v.find(k)), k)  # type: ignore[arg-type]
        for k, x in given.items()
    }


def test_shares_are_at_most_one_and_counts_are_whole() -> None:
    for share in (Fraction(1, 10**9), Fraction(1, 2), 1):
        check_values(values(eta=share, mu=share, x_dp=share))
    for wrong in (Fraction(1001, 1000), 2):
        with pytest.raises(DeriveError, match=r"eta .*expected at most 1"):
            check_values(values(eta=wrong))
    check_values(values(L=3, T_min=1))
    for name in ("D", "F", "H", "K", "G", "L", "V", "n_node", "n_V", "n_F", "T_min"):
        with pytest.raises(DeriveError, match=rf"{name} \(.*expected a whole number, found 7/2"):
            check_values(values(**{name: Fraction(7, 2)}))


def required(*definitions: tuple[sp.Symbol, sp.Expr], inside: sp.Symbol | None) -> Requirement:
    return Requirement("r", "holds", (), DEFAULT, definitions=definitions, inside_node=inside)


@pytest.mark.parametrize("link", [v.W_tp, None])
def test_what_is_defined_by_what_is_asked_is_missing_but_for_the_link_in_a_node(
    link: sp.Symbol | None,
) -> None:
    """That is taken for a group of one, where all else that it follows from has a value."""
    need = required((v.W_tp, v.W_node / v.tp), (v.L_p, v.L / v.pp), inside=link)
    given = values(W_node=12, L=8, pp=2, tp=3)
    found = filled((v.W_tp, v.L_p), need, None, given)
    assert (found.values[v.W_tp].value, found.values[v.L_p].value) == (4, 4)
    assert found.missing == () and found.inside_node is None
    found = filled((v.W_tp, v.L_p), need, v.tp, given)
    assert found.inside_node == link and found.values[v.L_p].value == 4
    assert found.missing == (() if link else (v.W_tp,))
    assert not link or found.values[v.W_tp].value == 12
    found = filled((v.W_tp, v.L_p), need, v.tp, values(pp=2))
    assert found.missing == tuple(sorted((v.W_tp, v.L), key=v.rank)) and found.inside_node is None
    with pytest.raises(DeriveError, match="no value for "):
        found.checked()
    found = filled((v.L_p,), need, v.pp, given)  # another link than the one inside a node
    assert found.missing == (v.L_p,) and found.inside_node is None


def test_what_follows_from_what_follows() -> None:
    need = required((v.L_p, v.L / v.pp), (v.L_r, v.L_p - 1), inside=None)
    found = filled((v.L_r, v.alpha), need, None, values(L=8, pp=2, C=100, W=20))
    assert (found.values[v.L_r].value, found.values[v.alpha].value) == (3, 5)
    assert found.checked() == found.values


def test_a_mesh_axis_alone_without_a_value_follows_from_the_chips() -> None:
    here = chip("tpu-v5p")
    assert threshold(fsdp, v.B).on(here, N=64).value == 64 * 2550
    assert threshold(tensor_parallel, v.F).on(here, N=16).value == 16 * 2550
    assert v.X in threshold(fsdp, v.B).missing(here)
    with pytest.raises(DeriveError, match=r"X .*: expected a whole number, found 64/5"):
        threshold(fsdp_tensor, v.B / v.Y).on(here, N=64, Y=5)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (v.B / v.X, {"N": 63.5}), (v.B / v.X, {"N": 16.5}), (v.B / v.X, {"n_node": 7.5}),
        (v.B / v.X, {"n_mb": 2.5}),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_counted_is_whole(asked: sp.Expr, given: dict[str, float]) -> None:
    with pytest.raises(DeriveError, match=f"{next(iter(given))} .*: expected a whole number"):
        threshold(fsdp, asked).on(chip("h100"), **given)


def test_the_chips_that_an_answer_allows_need_not_be_whole() -> None:
    here = {"B": 10**6, "F": 28672}
    most = threshold(fsdp_tensor, v.N).on(chip("tpu-v5p"), **here).quantity
    assert not most.value.is_Integer
    assert optimum(fsdp_tensor, v.X).on(chip("tpu-v5p"), N=most, **here).value > 1
    with pytest.raises(DeriveError, match=r"N .*: expected a whole number"):
        optimum(fsdp_tensor, v.X).on(chip("tpu-v5p"), N=most.value, **here)


def test_what_is_given_is_bounded_at_its_ends() -> None:
    for within in (10**40 - 1, Fraction(1, 10**40)):
        assert value_of(v.B, within).value == within
    for beyond in (10**40, Fraction(1, 10**40 + 1)):
        with pytest.raises(DeriveError, match="from 1e-40 to 1e40"):
            value_of(v.B, beyond)
    check_values(values(N=1))
    assert whole(5, v.N, "chips", 5) == 5
    with pytest.raises(DeriveError, match="from 1 to 5, found 6"):
        whole(6, v.N, "chips", 5)


def test_what_is_printed_of_a_count_is_what_was_given() -> None:
    with pytest.raises(DeriveError, match=r"found 29999999999/10000000000$"):
        threshold(fsdp, v.B / v.X).on(chip("tpu-v5p"), M_X="2.9999999999")


def test_a_link_that_a_limit_holds_takes_a_value_of_its_own() -> None:
    asked = threshold(context_ring, v.T_r)
    on, mesh = (chip("h100"), model("llama-3-70b")), {"tp": 8, "cp": 2}
    slow, fast = (asked.on(*on, **mesh, W_cp=rate).value for rate in ("1 GB/s", "2 GB/s"))
    assert slow == 2 * fast
