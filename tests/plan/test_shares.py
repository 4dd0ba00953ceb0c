"""The shares that runs fit stand in a plan where a set takes measured shares, and nowhere else."""

from math import isclose, sqrt

import pytest
import sympy as sp

from derive.cost.assumptions import ASSUMED, SETS
from derive.facts import chip, model
from derive.facts.stacks import fitted, fitted_to_chip, kind_of_chip, stacks, step_error
from derive.notation import symbols as v
from derive.plan.report import basis
from derive.plan.task import task
from derive.solve.values import facts_of

SHARES = (v.eta, v.eta_A, v.eta_node, v.eta_dcn)


@pytest.mark.parametrize("name", ["a100-80g", "a100-40g", "h100-sxm", "b200-sxm", "h100-500w"])
def test_a_chip_with_runs_has_what_they_fit(name):
    known = facts_of(None, chip(name), SETS["default"])
    kind = kind_of_chip(name)
    assert known[v.eta].value == sp.Rational(str(fitted()["eta"][kind].value))
    attention = [
        x.value for owner, x in fitted()["eta_A"].items() if owner.split("-flash")[0] == kind
    ]
    assert known[v.eta_A].value == sp.Rational(str(max(attention)))
    for symbol in SHARES:
        quantity = known[symbol]
        if symbol.name in fitted_to_chip(name):
            assert quantity.status == "derived" and "runs of" in quantity.where
        else:
            assert quantity.status == "assumed" and quantity.value == ASSUMED[symbol]


def test_links_have_the_mean_of_the_clusters_and_their_spread():
    share, owners = fitted_to_chip("a100-80g")["eta_node"]
    clusters = {stack.clusters.get("a100") for stack in stacks().values()}
    rows = {name: x for name, x in fitted()["eta_node"].items() if name in clusters}
    assert {*owners} == {*rows} and len(rows) > 1
    mean = sum(x.value for x in rows.values()) / len(rows)
    square = sum((x.value * x.error) ** 2 + (x.value - mean) ** 2 for x in rows.values())
    assert isclose(share.value, mean)
    assert isclose(share.error, sqrt(square / len(rows)) / mean)


@pytest.mark.parametrize("name", ["corrected", "notebook"])
def test_a_set_without_measured_shares_has_none(name):
    for on in ("h100-sxm", "tpu-v5p"):
        known = facts_of(None, chip(on), SETS[name])
        assert known[v.eta].value == sp.Rational(3, 5) and known[v.eta].status == "assumed"


def test_a_chip_without_runs_is_assumed_and_further_off():
    known = facts_of(None, chip("mi300x"), SETS["default"])
    assert not fitted_to_chip("mi300x")
    assert all(known[s].value == ASSUMED[s] and known[s].status == "assumed" for s in SHARES)
    assert all(step_error("mi300x") > step_error(name) for name in ("a100-80g", "h100-sxm"))


@pytest.mark.parametrize("name", ["h100-sxm", "mi300x"])
def test_a_plan_says_how_far_off_it_may_be(name):
    def asked(under):
        return task(model("llama-3-8b"), chip(name), cards=8, seq=4096, batch=8, assumptions=under)

    assert asked("default").step_error == step_error(name)
    (told,) = (line for line in basis(asked("default")) if line.startswith("steps: "))
    assert told.endswith(f"within {step_error(name):.0%}")
    assert ("no run on this chip" in told) == (name == "mi300x")
    assert (("model" if name == "h100-sxm" else "source") + " the fit leaves out") in told
    assert asked("corrected").step_error is None
    assert not any(line.startswith("steps: ") for line in basis(asked("corrected")))


@pytest.mark.parametrize(
    ("name", "on", "layout", "told"),
    [
        ("mixtral-8x7b", "h100-sxm", "", "no run with experts"),
        ("llama-3-8b", "tpu-v5p", "", "no run on a torus"),
        ("llama-3-8b", "h100-sxm", "precision=fp8", "no run in fp8"),
    ],
)
def test_a_plan_of_what_no_run_of_the_fit_is_claims_no_error(name, on, layout, told):
    asked = task(model(name), chip(on), cards=64, seq=4096, batch=64, layout=layout)
    assert asked.step_error is None
    (line,) = (line for line in basis(asked) if line.startswith("steps: "))
    assert told in line and "within" not in line
