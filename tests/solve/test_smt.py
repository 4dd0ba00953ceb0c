"""Closed forms as SMT-LIB text: each decided for all positive reals, both ways, and none that is
changed; what is said of a proof, with a solver and without one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
import sympy as sp
import z3

from derive import chip, layer
from derive.cost.limits import LIMITS, Limit, gradient_sync
from derive.cost.strategies import (
    STRATEGIES,
    Strategy,
    expert_parallel,
    fsdp,
    fsdp_tensor,
    hsdp,
    tensor_parallel,
)  # fmt: skip
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, NotClosedForm, ProofError
from derive.solve import smt
from derive.solve.derivation import prove, steps
from derive.solve.optimum import optimum
from derive.solve.smt import decided, statement, verdicts
from derive.solve.threshold import Threshold, threshold

QUESTIONS = (
    v.B / v.X, v.B / v.N, v.B, v.Y, v.N, v.F, v.W, v.Z, v.X, v.C / v.W, v.L / v.Z, v.B / v.S, v.S,
    v.T / v.X, v.P, v.M_hbm, v.W_hbm, v.W_dcn,
)  # fmt: skip
OVERLAPS, FORMS, PASSES = ("concurrent", "serial"), ("large-n", "exact"), ("each", "step")
SETS = (
    "notebook", "corrected", "notebook+ring_tensor", "notebook+gradient_bytes",
    "corrected-two_level",
)  # fmt: skip


def of_strategy(strategy: Strategy) -> Iterator[Threshold]:
    """Every closed form of a strategy: question, overlap, form and pass."""
    for asked, overlap, form, passes in product(QUESTIONS, OVERLAPS, FORMS, PASSES):
        try:
            yield threshold(strategy, asked, overlap=overlap, form=form, passes=passes)
        except DeriveError:
            continue


def of_limit(limit: Limit) -> Iterator[Threshold]:
    """Every closed form of a limit: each symbol of its load, set and form."""
    for text, form in product(SETS, FORMS):
        for asked in v.symbols_of(threshold(limit, limit.asked, text, form=form).load):
            try:
                yield threshold(limit, asked, text, form=form)
            except DeriveError:
                continue


def said(found: Threshold) -> tuple[str, ...]:
    return verdicts(statement(found.check, found.relations))


@pytest.mark.parametrize("subject", [*STRATEGIES.values(), *LIMITS.values()], ids=lambda x: x.name)
def test_every_closed_form_is_decided(subject: Strategy | Limit) -> None:
    """Both ways, for each whole exponent that a chip has; none is unknown."""
    forms = of_strategy(subject) if isinstance(subject, Strategy) else of_limit(subject)
    decisions = [(str(found), said(found)) for found in forms]
    assert len(decisions) >= 8
    assert all(len(answers) >= 2 for _, answers in decisions)
    assert not [found for found, answers in decisions if {*answers} != {"unsat"}]


NETWORKS = ("two-level", "node", "egress", "hbm")


def on_network(network: str) -> Iterator[Threshold]:
    """Closed forms of each strategy. Left out are those exact and serial ones on two levels that
    bound a split both ways, where z3 gives up."""
    ways = (("concurrent", "exact"), ("serial", "large-n"))
    for strategy, (overlap, form) in product(STRATEGIES.values(), ways):
        for asked in (v.Y, v.N, v.B / v.X):
            try:
                yield threshold(strategy, asked, network=network, overlap=overlap, form=form)
            except DeriveError:
                continue


@pytest.mark.parametrize("network", NETWORKS)
def test_every_closed_form_on_a_network_is_decided(network: str) -> None:
    decisions = [(str(found), said(found)) for found in on_network(network)]
    assert len(decisions) >= 15
    assert not [found for found, answers in decisions if {*answers} != {"unsat"}]


@pytest.mark.parametrize(
    ("strategy", "asked", "network", "dropped"),
    [
        ("sequence_parallel", v.X, "hbm", "provided"),
        ("fsdp_tensor", v.Y, "two-level", "provided"),
        ("ulysses", v.N, "two-level", "provided"),
        ("fsdp_tensor", v.B / v.X, "two-level", "known"),
    ],
    ids=str,
)
def test_what_holds_on_a_network_and_is_dropped_is_missed(
    strategy: str, asked: sp.Expr, network: str, dropped: str
) -> None:
    found = threshold(STRATEGIES[strategy], asked, network=network, overlap="serial")
    assert {*said(found)} == {"unsat"}
    without = replace(found.check, **{dropped: ()})  # type: ignore[arg-type]
    assert "sat" in verdicts(statement(without, found.relations))


def test_no_room_is_needed_where_a_group_of_one_sends_nothing() -> None:
    """Y = 2 at F = 2,550 takes all of the time, and X = 1 asks for none."""
    asked = threshold(fsdp_tensor, v.B / v.X, overlap="serial", form="exact")
    at = {"F": 2550, "Y": 2, "M_X": 1, "M_Y": 1}
    for ways, width, will_do in ((1, 2550, True), (1, 2549, False), (2, 2550, False)):
        notes = asked.on(chip("tpu-v5p"), **{**at, "X": ways, "F": width}).notes
        assert ("with these values any B/X will do" in notes) is will_do
        assert any(note.startswith("no B/X is enough") for note in notes) is not will_do


CHANGED = [
    threshold(fsdp, v.B / v.X),
    threshold(fsdp_tensor, v.B / v.N),
    threshold(fsdp_tensor, v.B / v.N, overlap="serial"),
    threshold(fsdp_tensor, v.Y, overlap="serial"),
    threshold(fsdp_tensor, v.N, overlap="serial", form="exact"),
    threshold(tensor_parallel, v.Y, form="exact"),
    threshold(expert_parallel, v.F_E),
    threshold(expert_parallel, v.X),
    threshold(gradient_sync, v.T_r),
]


@pytest.mark.parametrize("found", CHANGED, ids=str)
def test_a_claim_that_is_changed_is_not_decided(found: Threshold) -> None:
    for k, claim in enumerate(found.relations):
        slips = [
            claim.func(claim.lhs, claim.rhs * (1 + off), evaluate=False)
            for off in (sp.Rational(1, 10**9), -sp.Rational(1, 10**9), 1)
        ]
        slips.append((sp.Le if isinstance(claim, sp.Ge) else sp.Ge)(claim.lhs, claim.rhs))
        for slip in slips:
            claims = (*found.relations[:k], slip, *found.relations[k + 1 :])
            assert "sat" in verdicts(statement(found.check, claims)), slip
            with pytest.raises(ProofError, match="fsdp, threshold: does not hold"):
                decided(found.check, claims, "fsdp, threshold")


@pytest.mark.parametrize(
    "found",
    [
        threshold(fsdp_tensor, v.B / v.X),
        threshold(fsdp_tensor, v.B / v.X, overlap="serial"),
        threshold(fsdp_tensor, v.Y, overlap="serial"),
    ],
    ids=str,
)
def test_a_side_condition_that_is_dropped_is_missed(found: Threshold) -> None:
    assert said(found) == ("unsat", "unsat")
    check = replace(found.check, provided=())
    assert verdicts(statement(check, found.relations))[1] == "sat"
    for relation in found.provided:
        other = sp.Le if isinstance(relation, sp.StrictLessThan) else sp.Lt
        turned = other(relation.lhs, 1, evaluate=False)
        check = replace(found.check, provided=(turned,))
        assert "sat" in verdicts(statement(check, found.relations)), turned


@pytest.mark.parametrize(("width", "enough"), [(2549, False), (2550, False), (2551, True)])
def test_no_batch_is_enough_where_the_tensor_term_takes_all_of_the_time(
    width: int, enough: bool
) -> None:
    """alpha is 2,550: at F = 2,550 the other term would have to be nothing."""
    asked = threshold(fsdp_tensor, v.B / v.X, overlap="serial")
    answer = asked.on(chip("tpu-v5p"), F=width, Y=1, M_X=1, M_Y=1)
    assert bool(answer.sides) is enough
    assert any(note.startswith("no B/X is enough") for note in answer.notes) is not enough
    load = sp.Rational(2550, width)
    for tokens in (10**6, 10**9):
        held = sp.Rational(2550, tokens) + load <= 1
        assert held == (enough and tokens >= answer.value if enough else False)


def test_an_upper_bound_that_is_not_positive_says_nothing() -> None:
    """Of a group of n only (n-1)/n is sent: where even all of it is not too much, any n will do."""
    asked = threshold(hsdp, v.X, form="exact")
    plenty = asked.on(chip("tpu-v5p"), B=10**9, N=64)
    assert [side.direction for side in plenty.sides] == [">="]
    assert not any(note.startswith("no X") for note in plenty.notes)
    scarce = asked.on(chip("tpu-v5p"), B=64 * 2549, N=64)
    assert {side.direction for side in scarce.sides} == {">=", "<="}
    sync = threshold(gradient_sync, v.dp, "notebook", form="exact")
    given = {"cp": 1, "W_dp": 5 * 10**10, "e_g": 4}
    notes = sync.on(chip("h100", profile="notebook"), T_r=10**6, **given).notes
    assert "with these values any dp will do" in notes
    assert sync.on(chip("h100", profile="notebook"), T_r=1000, **given).value > 0


def test_a_bound_whose_direction_hangs_on_a_sign_is_refused() -> None:
    for asked in (v.Z, v.X):
        with pytest.raises(NotClosedForm):
            threshold(hsdp, asked, overlap="serial", form="exact")


def test_the_largest_axis_of_the_typed_experts() -> None:
    """An all-to-all of n devices over a cube of M axes takes as its n**(1/M)."""
    plain = layer(
        "In[B, D] => Rows[E, J, D]; Rows . W_in[E, D, F] . W_out[E, F, D] -> Back[E, J, D]"
        "; Back => Out[B, D]",
        "E:X B:X",
    )
    found = threshold(plain, v.X)
    assert found.direction == "<="
    assert sp.simplify(found.closed_form / (4 * v.F / v.alpha) ** v.M_X) == 1
    assert said(found) == ("unsat",) * 6
    at = {"F": 4096, "C": 459 * 10**12, "W": 180 * 10**9}
    for axes in (1, 2, 3):
        assert found.on(M_X=axes, **at).value == sp.Rational(4 * 4096, 2550) ** axes


def test_the_text_is_what_any_solver_reads() -> None:
    for found in CHANGED:
        text = statement(found.check, found.relations)
        questions = text.split(smt.NEXT)
        assert text.count("(check-sat)") == len(questions) == len(said(found))
        for question in questions:
            solver = z3.Solver(ctx=z3.Context())
            solver.from_string(question)
            assert str(solver.check()) == "unsat"
            assert question.startswith("; ") and str(found.relations[0].lhs) in question


PARTS = (
    sp.Max(v.T, 3), sp.Min(v.T, 3), sp.Min(v.T / 2, v.T**2, 3), sp.sqrt(v.T), sp.cbrt(v.T) ** 2,
    1 / sp.sqrt(v.T), sp.sqrt(v.T + sp.sqrt(v.T)), sp.sqrt(2 * v.T - 1),
)  # fmt: skip


def possible(*relations: sp.Rel) -> bool:
    (answer,) = verdicts(smt._question("; possible?", (), relations, ()))
    return {"sat": True, "unsat": False}[answer]


@pytest.mark.parametrize("expr", PARTS, ids=str)
@pytest.mark.parametrize("at", [1, 3, sp.Rational(9, 4), 64], ids=str)
def test_an_unknown_has_the_value_of_what_it_stands_for(expr: sp.Expr, at: sp.Expr) -> None:
    """And no other: else a definition that contradicts itself would prove all that there is."""
    length = sp.Eq(v.T, at, evaluate=False)
    for kind, holds in ((sp.Eq, True), (sp.Lt, False), (sp.Gt, False), (sp.Le, True)):
        value = sp.nsimplify(expr.xreplace({v.T: sp.sympify(at)}))
        relations = [length, kind(expr, value, evaluate=False)]
        assert possible(*relations) is holds, kind


@pytest.mark.parametrize("count", range(4))
def test_what_is_rounded_down_is_less_than_one_below(count: int) -> None:
    below = sp.floor(v.T / 2)
    for at in (2 * count + sp.Rational(1, 2), 2 * count):
        length = sp.Eq(v.T, at, evaluate=False)
        assert possible(length, sp.Eq(below, count, evaluate=False)) is bool(at)
        assert not possible(length, sp.Gt(below, at / sp.Integer(2), evaluate=False))
        assert not possible(length, sp.Le(below, at / sp.Integer(2) - 1, evaluate=False))
    assert not possible(sp.Lt(below, 0, evaluate=False))


def test_of_what_is_negative_there_is_no_root() -> None:
    """Nothing is known of it; else it would be a contradiction."""
    root, length = sp.sqrt(v.T - 1), sp.Eq(v.T, sp.Rational(1, 2), evaluate=False)
    assert all(possible(length, sp.Eq(root, n, evaluate=False)) for n in (-1, 0, 5))


def test_a_bound_that_is_not_positive_or_is_none_says_nothing() -> None:
    bound = 6 / (v.T - 3)
    for kind, by_length in ((sp.Le, {1: True, 3: True, 4: True, 5: False}),
                            (sp.Ge, {1: True, 3: True, 4: False, 5: True})):  # fmt: skip
        for at, holds in by_length.items():
            known = [sp.Eq(v.T, at, evaluate=False), sp.Eq(v.B, 4, evaluate=False)]
            assert possible(*known, kind(v.B, bound, evaluate=False)) is holds, (kind, at)
    for relation in (sp.Lt(v.B, bound), sp.Eq(v.B, bound), sp.Le(bound, v.B), sp.Ge(bound, v.B)):
        with pytest.raises(NotClosedForm, match="can be negative"):
            possible(relation)


def test_no_name_is_a_users() -> None:
    typed = "In[B_pods, D] . W_in[D_pods, F_rows] . W_out[F_rows, D_pods] -> Out[B_pods, D]"
    for asked in (v.B, v.mesh_axis("rows"), v.B / v.mesh_axis("pods")):
        found = threshold(layer(typed), asked, overlap="serial")
        text = statement(found.check, found.relations)
        assert not re.search("pods|rows", text)
        declared = {*re.findall(r"declare-const \|?(\w+)", text)}
        known = {*v.vocabulary(), "axis_1", "axis_2"}
        assert declared and all(x in known or re.match("(root|max)_[0-9]", x) for x in declared)
        assert {*verdicts(text)} == {"unsat"}
    assert not {"pi", "let", "par", "as"} & {*v.vocabulary()}


@pytest.mark.parametrize("overlap", OVERLAPS)
def test_the_best_split_is_least(overlap: str) -> None:
    best = optimum(fsdp_tensor, v.X, overlap=overlap)
    assert {*verdicts(statement(best.check, best.relations))} == {"unsat"}
    for wrong in (best.at * sp.Rational(1001, 1000), v.N / best.at):
        claim = sp.Eq(v.X, wrong, evaluate=False)
        assert "sat" in verdicts(statement(best.check, (claim,)))


# What is said of it.
def test_the_words_follow_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    *before, last = steps(fsdp_tensor, v.B / v.N)
    assert prove(last) == "for all positive values"
    assert last.certainty == "proved for all positive values"
    assert {step.certainty for step in before} == {"proved symbolically"}
    assert last.certainty in repr(steps(fsdp_tensor, v.B / v.N))
    assert last.certainty in steps(fsdp_tensor, v.B / v.N)._repr_markdown_()
    (*_, cases) = steps(expert_parallel, v.X)
    assert cases.certainty.endswith("for all positive values with M_X = 1, M_X = 2, M_X = 3")

    monkeypatch.setattr(smt, "EFFORT", 1)
    gives_up = replace(last, words="told again")
    verdicts.cache_clear()
    assert gives_up.certainty == "checked at points"
    monkeypatch.undo()
    verdicts.cache_clear()

    monkeypatch.setitem(sys.modules, "z3", None)
    absent = replace(last, words="told once more")
    assert absent.certainty == "checked at points"
