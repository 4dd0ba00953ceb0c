"""The recomputed layers: the closed form is what a loop finds, and what is not is not proved."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import chain, combinations

import pytest
import sympy as sp
from exact import exact

from derive.cost.assumptions import CORRECTIONS, DEFAULT, NOTEBOOK, step_assumptions
from derive.cost.memory import STATES, definitions, memory, recomputed_layers
from derive.cost.terms import Term
from derive.notation import symbols as v
from derive.notation.errors import ProofError, UnknownName
from derive.solve import recomputation as module
from derive.solve.derivation import prove
from derive.solve.recomputation import BUDGET, recomputation

SHAPING = ("working_set", "logits")
SETS = [
    step_assumptions("+".join(("notebook", *some)))
    for some in chain.from_iterable(combinations(SHAPING, n) for n in range(3))
]
ALONE = [step_assumptions(f"notebook+{name}") for name in CORRECTIONS if name not in SHAPING]


def last(assumptions):
    return recomputation(assumptions)[-1]


@pytest.mark.parametrize("assumptions", [*SETS, *ALONE, DEFAULT], ids=lambda a: a.name)
def test_every_step_is_proved_and_the_last_is_the_models_own(assumptions):
    made = recomputation(assumptions)
    assert made[-1].claim.rhs == recomputed_layers(assumptions)
    assert [prove(step) for step in made] == ["symbolically"] * len(made)
    kinds = [step.kind for step in made]
    stages = 3 if "uneven_stages" in assumptions else 2 if "logits" in assumptions else 1
    assert kinds == ["fits", "frees", "bound"] * stages + ["closed_form"]


@pytest.mark.parametrize("assumptions", SETS, ids=lambda a: a.name)
def test_the_words_say_what_is_held_and_by_whom(assumptions):
    """The working set is held where a layer is recomputed; a chip with logits is in the last
    stage, and without any the first is the fullest."""
    made = recomputation(assumptions)
    wholes = ["first stage", "last stage"] if "logits" in assumptions else ["fullest stage"]
    fits = [step.words for step in made if step.kind == "fits"]
    once = "working_set" in assumptions
    for words, whole in zip(fits, wholes, strict=True):
        assert whole in words and ("with a layer or more recomputed" in words) == once
    assert made[-1].words.startswith("With the layer that is run again held") == once


def drawn(draw):
    """Values of what the memory rests on, with a_1 > a_0."""
    n = {s: Fraction(draw.randint(1, 60), draw.randint(1, 6)) for s in (v.a_0, v.M_logits)}
    n[v.a_1] = n[v.a_0] + Fraction(draw.randint(1, 200), draw.randint(1, 9))
    n[v.L_p], n[v.n_fly] = Fraction(draw.randint(1, 25)), Fraction(draw.randint(1, 8))
    n[v.M_states] = Fraction(draw.randint(1, 900), 7)
    n[v.mu] = Fraction(draw.randint(1, 10), 10)
    full = n[v.M_states] + n[v.n_fly] * n[v.a_1] * n[v.L_p]
    n[v.M_hbm] = full / n[v.mu] * Fraction(draw.randint(1, 24), 20)
    return n


@pytest.mark.parametrize("assumptions", SETS, ids=lambda a: a.name)
def test_the_claims_are_what_a_loop_over_the_memory_finds(assumptions):
    draw = random.Random(3)
    every = [{term.name: term.expr for term in terms} for terms in memory(assumptions).values()]
    states = {term.name: term.expr for term in definitions(assumptions)}["M_states"]
    for sizes in every:
        assert sp.expand(states - sum(sizes.pop(kind) for kind in STATES)) == 0
    total = sp.Max(*(v.M_states + sp.Add(*sizes.values()) for sizes in every), evaluate=False)
    closed = last(assumptions).claim.rhs
    seen = set()
    for _ in range(60):
        values = drawn(draw)
        budget = exact(BUDGET, values)
        layers = 0
        while exact(total, values | {v.L_r: Fraction(layers)}) > budget:
            layers += 1
        assert exact(closed, values) == layers
        seen.add(min(layers, int(values[v.L_p]) + 1))
    assert {0, 1} <= seen and len(seen) > 5


@pytest.mark.parametrize("assumptions", SETS, ids=lambda a: a.name)
def test_other_forms_of_the_last_step_are_not_proved(assumptions):
    step = last(assumptions)
    closed = step.claim.rhs
    ceilings = sorted(closed.args, key=lambda x: x.has(sp.ceiling))[1:]
    arguments = [x.args[0] for x in ceilings]
    wrong = [
        closed + 1,
        closed.xreplace({v.a_0: v.a_0 / 2}),
        closed.xreplace({v.n_fly: sp.S.One}),
        sp.Max(0, *(sp.floor(x) for x in arguments), evaluate=False),
        sp.Max(1, *ceilings, evaluate=False),
        sp.Max(0, *ceilings, sp.ceiling(v.L_p), evaluate=False),
        sp.Max(*ceilings, evaluate=False) if len(ceilings) > 1 else ceilings[0],
        sp.Max(0, *(sp.ceiling(x + v.a_1 / (v.a_1 - v.a_0)) for x in arguments), evaluate=False),
    ]
    if "working_set" in assumptions:
        (inner,) = closed.atoms(sp.Min)
        wrong += [
            closed.xreplace({inner: sp.S.One}),
            closed.xreplace({inner: sp.S.Zero}),
            closed.xreplace({inner: sp.Min(2, *(x for x in inner.args if x != 1))}),
            closed.xreplace({inner: (1 + inner) / 2}),
            closed.xreplace({x: x + 1 for x in inner.args if x != 1}),
        ]
    if "logits" in assumptions:
        wrong.append(sp.Max(0, ceilings[0], evaluate=False))
    for other in wrong:
        with pytest.raises(ProofError):
            step.with_claim(sp.Eq(v.L_r, other, evaluate=False)).proof()
    with pytest.raises(ProofError):
        step.with_claim(sp.Ge(v.L_r, closed, evaluate=False)).proof()


@pytest.mark.parametrize("assumptions", SETS, ids=lambda a: a.name)
def test_other_claims_of_the_other_steps_are_not_proved(assumptions):
    for step in recomputation(assumptions)[:-1]:
        left, right = step.claim.lhs, step.claim.rhs
        kind = type(step.claim)
        for claim in (
            kind(left, right + v.a_0, evaluate=False),
            kind(left * 2, right, evaluate=False),
            sp.Lt(left, right, evaluate=False),
            step.claim.reversedsign if kind is not sp.Gt else sp.Gt(-left, 0, evaluate=False),
        ):
            with pytest.raises(ProofError):
                step.with_claim(claim).proof()


def changed(patch, change):
    terms = module.memory

    def other(assumptions):
        return {
            name: tuple(Term(t.name, change(t.name, t.expr), t.unit, t.gloss) for t in every)
            for name, every in terms(assumptions).items()
        }

    patch.setattr(module, "memory", other)


@pytest.mark.parametrize(
    "change",
    [
        lambda name, x: 2 * x if name == "optimizer" else x,
        lambda name, x: x.xreplace({v.n_fly: v.n_fly + 1}),
        lambda name, x: x.xreplace({v.a_0: v.a_0 / 3}),
        lambda name, x: x.xreplace({v.L_p: v.L_p + 1}),
        lambda name, x: x * v.L_r / v.L_p if name == "activations" else x,
    ],
    ids=["states", "in flight", "inputs", "layers", "not linear"],
)
@pytest.mark.parametrize("assumptions", SETS, ids=lambda a: a.name)
def test_a_changed_memory_contradicts_the_closed_form(monkeypatch, assumptions, change):
    step = last(assumptions)
    changed(monkeypatch, change)
    with pytest.raises(ProofError):
        step.proof()


def test_where_recomputation_frees_nothing_there_is_no_proof(monkeypatch):
    changed(monkeypatch, lambda name, x: x.xreplace({v.a_1: v.a_0, v.a_0: v.a_1}))
    with pytest.raises(ProofError, match="may not be positive"):
        recomputation(NOTEBOOK)


def test_assumptions_by_name():
    assert recomputation("notebook") == recomputation(NOTEBOOK)
    with pytest.raises(UnknownName, match="notebok"):
        recomputation("notebok")


def test_whole_numbers_that_reach_a_number_are_those_that_reach_its_ceiling():
    """Any number is k - f with k whole and 0 <= f < 1, here f = g/(1 + g), and k its ceiling: k + j
    is at least the number, and k - 1 - j is less, for every whole j from 0."""
    k, j = sp.Dummy("k", integer=True), sp.Dummy("j", integer=True, nonnegative=True)
    x = k - 1 + 1 / (1 + sp.Dummy("g", nonnegative=True))
    assert sp.factor(sp.expand(k + j - x)).is_nonnegative
    assert sp.expand(k - 1 - j - x).is_negative


def test_the_first_stage_is_the_one_with_micro_batches_in_flight():
    for step in recomputation("notebook+logits")[:-1]:
        assert step.claim.has(v.n_fly) is (step.check.stage == "first")


@pytest.mark.parametrize("assumptions", SETS, ids=lambda a: a.name)
def test_a_bound_does_not_hold_where_recomputation_frees_nothing(monkeypatch, assumptions):
    bounds = [step for step in recomputation(assumptions) if step.kind == "bound"]
    swapped = {v.a_1: v.a_0, v.a_0: v.a_1}
    changed(monkeypatch, lambda name, x: x.xreplace(swapped))
    for step in bounds:
        with pytest.raises(ProofError, match="may not be positive"):
            step.with_claim(step.claim.xreplace(swapped)).proof()


def test_a_negative_working_set_is_refused(monkeypatch):
    step = last(step_assumptions("notebook+working_set"))
    changed(monkeypatch, lambda name, x: -x if name == "working_set" else x)
    with pytest.raises(ProofError):
        step.proof()
