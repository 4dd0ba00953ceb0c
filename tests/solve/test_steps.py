"""Derivations: every step holds as it stands, and no step with a coefficient changed does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

import pytest
import sympy as sp

from derive.cost.strategies import (
    STRATEGIES,
    Strategy,
    cross_pod,
    data_parallel,
    fsdp,
    fsdp_tensor,
    tensor_parallel,
    weight_reads,
)  # fmt: skip
from derive.notation import symbols as v
from derive.notation.errors import ProofError
from derive.solve.derivation import Step, prove, steps
from derive.solve.threshold import threshold

SERIAL, EXACT, CONCURRENT = {"overlap": "serial"}, {"form": "exact"}, {"overlap": "concurrent"}
DERIVATIONS: dict[str, tuple[tuple[sp.Expr, tuple[Mapping[str, object], ...]], ...]] = {
    "data_parallel": (
        (v.B / v.X, (CONCURRENT, SERIAL, EXACT, {"gated": True}, {"gradients": "fp32"})),
        (v.B / v.N, (CONCURRENT,)),
        (v.P, (CONCURRENT,)),
        (v.M_hbm, (CONCURRENT,)),
    ),
    "fsdp": (
        (v.B / v.X, (CONCURRENT, SERIAL, EXACT, {"keep": "weights"}, {"gradients": "fp32"})),
        (v.N, (CONCURRENT, EXACT)),
        (v.alpha, (CONCURRENT,)),
        (v.P / v.N, (CONCURRENT,)),
    ),
    "tensor_parallel": (
        (v.Y, (CONCURRENT, SERIAL, EXACT, {"keep": "none"}, {"precision": "any"})),
        (v.F, (CONCURRENT, EXACT)),
        (v.W, (CONCURRENT,)),
    ),
    "fsdp_tensor": (
        (
            v.B / v.N,
            (
                CONCURRENT, SERIAL, {"passes": "step"}, {"passes": "backward"}, {"gated": True},
                {"gradients": "fp32"}, {"gradients": "fp32", "precision": "any"},
            ),
        ),
        (v.N, (CONCURRENT, SERIAL, {**SERIAL, **EXACT})),
        (v.F, (CONCURRENT, SERIAL)),
        (v.W, (CONCURRENT, SERIAL)),
        (v.alpha, (CONCURRENT,)),
        (v.Y, (CONCURRENT, SERIAL, EXACT)),
        (v.X, (CONCURRENT, SERIAL)),
        (v.B / v.X, (CONCURRENT, SERIAL, {"gradients": "fp32"})),
    ),
    "pipeline": ((v.L / v.Z, (CONCURRENT, SERIAL, EXACT)), (v.F, (CONCURRENT,))),
    "cross_pod": ((v.B / v.S, (CONCURRENT, SERIAL, EXACT)), (v.W_dcn, (CONCURRENT, EXACT))),
    "weight_reads": ((v.B, (CONCURRENT, {"precision": "any"})), (v.W_hbm, (CONCURRENT,))),
}  # fmt: skip
CASES = [
    (STRATEGIES[name], asked, assumed)
    for name, questions in DERIVATIONS.items()
    for asked, every in questions
    for assumed in every
]
IDS = [f"{s.name}-{q}-{'-'.join(map(str, a.values()))}" for s, q, a in CASES]


@cache
def _derived(strategy: Strategy, asked: sp.Expr, assumed: tuple[object, ...]) -> tuple[Step, ...]:
    return steps(strategy, asked, **dict(assumed))  # type: ignore[arg-type]


def derived(strategy: Strategy, asked: sp.Expr, assumed: Mapping[str, object]) -> tuple[Step, ...]:
    """The derivation, made once."""
    return _derived(strategy, asked, tuple(assumed.items()))


def numbers_changed(expr: sp.Expr) -> Iterator[sp.Expr]:
    """The expression with each of its numbers in turn, exponents too, multiplied by 3/2."""
    if isinstance(expr, sp.Rational):
        yield expr * sp.Rational(3, 2)
    for k, part in enumerate(expr.args):
        for changed in numbers_changed(part):
            yield expr.func(*expr.args[:k], changed, *expr.args[k + 1 :])


def slips(claim: sp.Rel) -> Iterator[sp.Rel]:
    """The claim with a coefficient changed, or a factor added, on one side."""
    for left in (2 * claim.lhs, claim.lhs / 3, *numbers_changed(claim.lhs)):
        if left != claim.lhs:
            yield claim.func(left, claim.rhs, evaluate=False)
    for right in (2 * claim.rhs, claim.rhs / 2, v.D * claim.rhs, *numbers_changed(claim.rhs)):
        if right != claim.rhs:
            yield claim.func(claim.lhs, right, evaluate=False)


def refused(step: Step) -> bool:
    """Whether the proof of a step fails, in the way proofs are to fail."""
    try:
        prove(step)
    except ProofError as error:
        assert step.name in str(error)
        return True
    return False


@pytest.mark.parametrize(("strategy", "asked", "assumed"), CASES, ids=IDS)
def test_a_step_with_a_coefficient_changed_fails(
    strategy: Strategy, asked: sp.Expr, assumed: Mapping[str, object]
) -> None:
    for step in derived(strategy, asked, assumed):
        changed = [step.with_claim(claim) for claim in slips(step.claim)]
        for k, further in enumerate(step.also):
            for claim in slips(further):
                others = (*step.also[:k], claim, *step.also[k + 1 :])
                changed.append(replace(step, also=others))
        assert len(changed) >= 5
        for slip in changed:
            assert refused(slip), (step, slip.text)


@pytest.mark.parametrize(("strategy", "asked", "assumed"), CASES, ids=IDS)
def test_a_bound_the_wrong_way_round_fails(
    strategy: Strategy, asked: sp.Expr, assumed: Mapping[str, object]
) -> None:
    last = derived(strategy, asked, assumed)[-1]
    assert last.kind == "threshold"
    for k, claim in enumerate(last.claims):
        turned = (sp.Le if isinstance(claim, sp.Ge) else sp.Ge)(claim.lhs, claim.rhs)
        claims = [*last.claims[:k], turned, *last.claims[k + 1 :]]
        assert refused(replace(last, claim=claims[0], also=tuple(claims[1:])))
        as_equation = sp.Eq(claim.lhs, claim.rhs)
        assert refused(last.with_claim(as_equation))


@pytest.mark.parametrize("name", list(STRATEGIES))
def test_the_kinds_of_step_in_their_order(name: str) -> None:
    order = ["computation", "communication", "load", "implied", "mesh", "split", "best"]
    for strategy, asked, assumed in CASES:
        if strategy.name != name:
            continue
        kinds = [step.kind for step in derived(strategy, asked, assumed)]
        assert kinds[-1] == "threshold" and kinds.count("threshold") == 1
        if kinds[0] == "capacity":
            assert len(kinds) == 2
            continue
        assert kinds[:3] == order[:3] or kinds[:5] == [
            "computation", "communication", "communication", "load", "load",
        ]  # fmt: skip
        assert set(kinds) <= {*order, "threshold"}
        if strategy == fsdp_tensor and asked not in (v.X, v.Y, v.B / v.X):
            assert {"mesh", "split", "best"} <= set(kinds)


@pytest.mark.parametrize("overlap", ["concurrent", "serial"])
def test_another_split_is_no_optimum(overlap: str) -> None:
    made = steps(fsdp_tensor, v.B / v.N, overlap=overlap)
    (split,) = (step for step in made if step.kind == "split")
    for wrong in (
        sp.sqrt(v.B * v.N / v.F), sp.sqrt(v.B * v.N * v.M_Y / (v.F * v.M_X)), v.N / 2,
        v.N / split.claim.rhs, sp.Integer(1),
    ):  # fmt: skip
        assert refused(split.with_claim(sp.Eq(v.X, wrong)))
    assert refused(split.with_claim(sp.Eq(v.Y, split.claim.rhs)))


def test_loads_that_differ_at_the_split_are_refused() -> None:
    """The best load is that of both; at another split the first alone is not enough."""
    (best,) = (step for step in steps(fsdp_tensor, v.B / v.N) if step.kind == "best")
    here = best.check.loads
    elsewhere = replace(best.check, loads=(2 * here[0], here[1] / 2))
    for factor in (2, sp.Rational(1, 2)):
        claim = sp.Eq(best.claim.lhs, factor * best.claim.rhs)
        assert refused(replace(best, check=elsewhere, claim=claim))


def test_an_equal_form_that_an_author_prefers_is_proved() -> None:
    made = {step.kind: step for step in steps(fsdp_tensor, v.B / v.N)}
    preferred = v.B / v.N
    for bound in (
        (v.alpha / v.M_X) * (v.alpha / (v.M_Y * v.F)),
        sp.Pow(v.alpha / sp.sqrt(v.M_X * v.M_Y * v.F), 2, evaluate=False),
        v.C**2 / (v.W**2 * v.F * v.M_X * v.M_Y),
        1 / (v.M_X * v.M_Y * v.F / v.alpha**2),
    ):
        prove(made["threshold"].with_claim(sp.Ge(preferred, bound)))
    root = sp.Pow(v.B / v.F * v.M_X / v.M_Y * v.N, sp.Rational(1, 2), evaluate=False)
    assert prove(made["split"].with_claim(sp.Eq(v.X, root)))
    assert prove(made["mesh"].with_claim(sp.Eq(v.Y, v.N / v.X)))
    assert prove(made["best"].with_claim(sp.Eq(v.T_comms, made["best"].claim.rhs * v.T_math)))
    computation = made["computation"]
    layered = sp.Eq(v.T_math, 2 * v.fma * v.B * v.D * v.F / (v.C * v.X * v.Y))
    assert prove(computation.with_claim(layered)) == "symbolically"
    for wrong in (v.alpha / v.M_X, v.alpha**2 / (v.M_X * v.F), v.alpha**2 / v.F, v.alpha * v.F):
        assert refused(made["threshold"].with_claim(sp.Ge(preferred, wrong)))
    assert refused(made["threshold"].with_claim(sp.Ge(v.B, made["threshold"].claim.rhs)))
    assert refused(computation.with_claim(sp.Le(v.T_math, computation.claim.rhs)))


@pytest.mark.parametrize(
    ("strategy", "asked", "assumed"),
    [
        (fsdp_tensor, v.B / v.N, {}), (fsdp_tensor, v.N, SERIAL), (fsdp_tensor, v.Y, CONCURRENT),
        (fsdp, v.N, EXACT), (tensor_parallel, v.Y, {}),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)  # fmt: skip
def test_a_bound_that_is_off_by_little_is_refused(
    strategy: Strategy, asked: sp.Expr, assumed: Mapping[str, object]
) -> None:
    """By more than the margin where a split is to choose, and else by anything: without one, a load
    is one at the bound."""
    last = derived(strategy, asked, assumed)[-1]
    least = sp.Rational(3, 2000) if last.check.free else sp.Rational(1, 10**9)
    for off in (least, -least):
        for k, claim in enumerate(last.claims):
            wrong = claim.func(claim.lhs, claim.rhs * (1 + off), evaluate=False)
            claims = [*last.claims[:k], wrong, *last.claims[k + 1 :]]
            assert refused(replace(last, claim=claims[0], also=tuple(claims[1:])))


def said(step: Step) -> str:
    """The words of a step on one line."""
    return " ".join(step.words.split())


def test_words_name_collectives_and_tensors() -> None:
    def moves(strategy: Strategy, asked: sp.Expr, **assumed: object) -> list[str]:
        made = steps(strategy, asked, **assumed)
        return [said(step) for step in made if step.kind == "communication"]

    weights, activations = moves(fsdp_tensor, v.B / v.N)
    assert "mesh axis X" in weights and "all-gathers `W_in` and `W_out`" in weights
    assert "mesh axis Y" in activations
    assert "all-gathers `In` and reduce-scatters `Out`" in activations
    (gradients,) = moves(data_parallel, v.B / v.X)
    assert "all-reduces `dW_out` and `dW_in`" in gradients
    (between,) = moves(cross_pod, v.B / v.S)
    assert "data-centre network" in between and "all-reduces" in between
    (reads,) = moves(weight_reads, v.B)
    assert "memory bus" in reads and "loads `W_in` and `W_out`" in reads
    (backward,) = moves(fsdp, v.B / v.X, passes="backward")
    assert "all-gathers" in backward and "reduce-scatters" in backward
    (again,) = moves(tensor_parallel, v.Y, passes="backward", keep="none")
    assert "`dOut`" in again and "`In`" in again


def test_a_pass_that_asks_no_more_is_said_to() -> None:
    made = steps(fsdp_tensor, v.B / v.N)
    implied = [said(step) for step in made if step.kind == "implied"]
    assert len(implied) == 2
    assert implied[0].startswith("The backward pass asks the same over mesh axis X")
    assert implied[1].startswith("The backward pass asks less over mesh axis Y")


def test_both_passes_are_derived_where_each_binds_on_an_axis() -> None:
    """With gradients of 4 bytes the backward pass binds on X, the forward pass on Y."""
    made = steps(fsdp_tensor, v.B / v.N, gradients="fp32")
    passes = [said(s) for s in made if s.kind == "computation"]
    assert ["forward" in passes[0], "backward" in passes[1], len(passes)] == [True, True, 2]
    (split,) = threshold(fsdp_tensor, v.B / v.N, gradients="fp32").splits
    assert set(split.passes) == {"forward", "backward"}
    loads = [said(step) for step in made if step.kind == "load"]
    assert any("4 bytes per gradient" in words for words in loads)


def test_what_a_threshold_is_provided_on() -> None:
    last = steps(fsdp_tensor, v.B / v.X)[-1]
    assert said(last).startswith("Provided Y*alpha/(F*M_Y) <= 1, computation takes")


def test_a_step_shows_as_text_and_as_math() -> None:
    last = steps(tensor_parallel, v.Y)[-1]
    assert last.text == "Y <= F*M_Y/alpha"
    assert str(last) == f"{last.words}:\n    {last.text}"
    assert last.latex in last._repr_latex_()


def test_the_chips_follow_where_the_whole_mesh_is_held() -> None:
    """With X and Y held, N is the claim, and a wrong one is refused."""
    listed = steps(fsdp_tensor, v.B / v.N, fixed=(v.X, v.Y))
    (mesh,) = (step for step in listed if step.kind == "mesh")
    assert mesh.claim == sp.Eq(v.N, v.X * v.Y, evaluate=False)
    assert all(refused(mesh.with_claim(claim)) for claim in slips(mesh.claim))
