"""Limits put back into the whole step model: a claim holds on one side, and not on the other."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from fractions import Fraction as Q
from typing import Any

import pytest
import sympy as sp

from derive import chip, model
from derive.cost.assumptions import NOTEBOOK, assume, step_assumptions
from derive.cost.limits import (
    LIMITS,
    LINKS,
    Limit,
    batch_feed,
    context_ring,
    gradient_sync,
    pipeline_bubble,
    tensor_share,
)
from derive.cost.step import step_model
from derive.notation import symbols as v
from derive.notation.errors import NotClosedForm, UnknownName
from derive.solve.threshold import threshold
from derive.solve.values import values_for

H100, LLAMA = chip("h100", profile="notebook"), model("llama-3-70b")
SETS = ("notebook", "default", "default-two_level", "notebook+ring_tensor+gradient_bytes")
ALL_BUT_ONE = sp.Rational(999, 1000)
DEGREES = {v.tp: Q(8), v.cp: Q(2), v.pp: Q(4), v.dp: Q(4), v.b_seq: Q(1)}
MODEL = {v.B_seq: sp.Integer(512), v.epsilon: sp.Rational(1, 10)}
SEQUENCE = sp.Integer(2**13)
# What the claims leave out: recomputation everywhere, and the head of an uneven last stage.
PLAIN = {v.L_r: sp.S.Zero}
EVEN = {**PLAIN, v.f_V: sp.S.Zero}


def whole(
    text: str, changed: Mapping[sp.Symbol, Any], held: Mapping[sp.Symbol, sp.Expr]
) -> dict[sp.Symbol | str, sp.Expr]:
    """Every intermediate and part of the step model, with `held` in place of their definitions."""
    of = step_model(step_assumptions(text))
    degrees = {s: sp.Rational(x.numerator, x.denominator) for s, x in DEGREES.items()}
    facts = values_for(context_ring.requirement(of.assumptions), (H100, LLAMA), {})
    found: dict[Any, sp.Expr] = {s: q.value for s, q in facts.items()}
    found |= {v.T: SEQUENCE, **MODEL, **degrees, **changed}
    for term in of.definitions:
        symbol = v.find(term.name)
        found[symbol] = held[symbol] if symbol in held else term.expr.xreplace(found)
    parts = {term.name: term.expr.xreplace(found) for term in of.parts}
    return {**found, **parts, "step": of.seconds.xreplace(found)}


def bound(of: Limit, text: str, **values: Any) -> sp.Expr:
    """The exact bound at the same degrees, as a number."""
    degrees = {s.name: x for s, x in (DEGREES | MODEL).items() if s != of.asked}
    degrees = {"T": SEQUENCE, **degrees, **values}
    return threshold(of, of.asked, text, exact=True).on(H100, LLAMA, **degrees).value


@pytest.mark.parametrize("text", SETS)
def test_the_ring_is_hidden_from_that_length_on(text: str) -> None:
    at = bound(context_ring, text)
    for tokens, exposed in ((at * ALL_BUT_ONE, True), (at, False), (at / ALL_BUT_ONE, False)):
        assert bool(whole(text, {v.T: tokens * 2}, PLAIN)["cp"] > 0) is exposed


@pytest.mark.parametrize("text", SETS)
def test_the_bubble_is_its_share_of_the_step_from_that_many_on(text: str) -> None:
    at = bound(pipeline_bubble, text)
    for count, less in ((at * ALL_BUT_ONE, False), (at, True), (at / ALL_BUT_ONE, True)):
        made = whole(text, {v.B_seq: count * 4}, EVEN)
        assert made[v.n_mb] == count
        ratio = made["bubble"] / (made["step"] - made["dp"])
        assert bool(ratio <= MODEL[v.epsilon]) is less
        assert (ratio == MODEL[v.epsilon]) is (count == at)


@pytest.mark.parametrize("text", SETS)
def test_tensor_communication_is_its_share_up_to_that_degree(text: str) -> None:
    at = bound(tensor_share, text)
    assert 1 < at < 8  # inside a node, where the answer takes the link of a node
    node = H100.quantity("scaleup").value
    for degree, less in ((at * ALL_BUT_ONE, True), (at, True), (at / ALL_BUT_ONE, False)):
        # No group of a fractional degree fits a node: the link is held, as the answer says.
        made = whole(text, {v.tp: degree}, {**PLAIN, v.W_tp: node})
        layers = made[v.n_mb] * made[v.L_p] * made[v.f_L] * made[v.t_1]
        assert bool(made["tp"] / layers <= MODEL[v.epsilon]) is less


@pytest.mark.parametrize("text", ["default", "default-two_level", "notebook+gradient_window"])
def test_the_gradients_are_hidden_from_that_length_on(text: str) -> None:
    at = bound(gradient_sync, text)
    # The work of attention is left out; without the vocabulary where parameters are shared evenly.
    held = {**PLAIN, v.f_A: sp.S.Zero}
    if "largest_stage" not in step_assumptions(text):
        share = step_model(NOTEBOOK).term("f_L").expr.xreplace({v.f_A: sp.S.Zero, v.V: sp.S.Zero})
        facts = values_for(context_ring.requirement(NOTEBOOK), (H100, LLAMA), {})
        held[v.f_L] = share.xreplace({s: q.value for s, q in facts.items()})
    for tokens, exposed in ((at * ALL_BUT_ONE, True), (at, False), (at / ALL_BUT_ONE, False)):
        made = whole(text, {v.T: tokens * 2}, held)
        backward = sp.Rational(2, 3) * made[v.L_p] * made[v.f_L] * made[v.t_1]
        assert bool(made[v.t_scatter] > backward) is exposed
        if "gradient_bytes" in step_assumptions(text):
            # A gather of bf16 has half the bytes and half the window, so the part is the scatter's.
            assert bool(made["dp"] > 0) is exposed


@pytest.mark.parametrize("text", SETS)
def test_the_batch_feeds_that_many_cards(text: str) -> None:
    at = bound(batch_feed, text)
    for cards, less in ((at * ALL_BUT_ONE, True), (at, True), (at / ALL_BUT_ONE, False)):
        made = whole(text, {v.dp: cards / (8 * 2 * 4)}, EVEN)
        assert bool(made["bubble"] / (made["step"] - made["dp"]) <= MODEL[v.epsilon]) is less


# Any symbol: all of its dependence shows, through whatever the model defines by it.
def model_at(text: str, given: Mapping[sp.Symbol, sp.Expr]) -> dict[sp.Symbol, sp.Expr]:
    """Every intermediate of the step model, but for the links, which are among what is given."""
    found = {**given, **PLAIN}
    for term in step_model(text).definitions:
        symbol = v.find(term.name)
        if symbol not in found:
            found[symbol] = term.expr.xreplace(found)
    return found


def some_values(text: str, draw: random.Random) -> dict[sp.Symbol, sp.Expr]:
    """Values of what the model does not define, and of the links."""
    defined = {v.find(term.name) for term in step_model(text).definitions}
    needed = {s for term in step_model(text).definitions for s in term.expr.free_symbols}
    needed |= {v.N, v.epsilon, v.B_seq, v.b_seq, *LINKS}
    found = {s: sp.Rational(draw.randint(2, 30)) for s in sorted(needed - defined, key=v.rank)}
    found |= {s: sp.Rational(draw.randint(2, 30)) for s in LINKS}
    found[v.P] = found[v.P] + 2 * found[v.n_V] * found[v.V] * found[v.D]
    return found | {v.epsilon: sp.Rational(draw.randint(1, 20), 21)}


def load_at(of: Limit, text: str, large: bool, given: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    """The declared load with every intermediate worked out anew from what is given."""
    made = model_at(text, given)
    load = of.load(assume(text, form="large-n" if large else "exact"))
    return load.xreplace(made).doit()


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("text", [*SETS, "notebook+largest_stage"])
@pytest.mark.parametrize("of", LIMITS.values(), ids=lambda of: of.name)
def test_a_bound_on_any_symbol_is_where_the_whole_load_is_one(
    of: Limit, text: str, large: bool
) -> None:
    defined = {v.find(term.name) for term in step_model(text).definitions}
    draw = random.Random(5)
    checked = 0
    for symbol in sorted(some_values(text, draw).keys() | {v.T_r, v.n_mb, v.psi}, key=v.rank):
        try:
            found = threshold(of, symbol, text, exact=not large)
        except (NotClosedForm, UnknownName):
            continue
        if symbol in defined - {*LINKS, v.T_r, v.n_mb}:
            continue  # what is asked in place of its own definition
        for _ in range(3):
            given = some_values(text, draw)
            where = bound_of(found, of, text, symbol, given)
            if where is None:
                continue
            at, load = where
            if load(at) == 0 or at <= 0:
                continue
            checked += 1
            assert load(at) == 1
            below, above = load(at * ALL_BUT_ONE), load(at / ALL_BUT_ONE)
            assert (above < 1 < below) if found.direction == ">=" else (below < 1 < above)
    assert checked > 5


def bound_of(
    found: Any, of: Limit, text: str, symbol: sp.Symbol, given: dict[sp.Symbol, sp.Expr]
) -> tuple[sp.Expr, Callable[[sp.Expr], sp.Expr]] | None:
    """The number of a bound, and the load as a function of the symbol."""
    through = {v.T_r: v.T, v.n_mb: v.B_seq}
    values = model_at(text, given)
    at = found.closed_form.xreplace({s: x for s, x in values.items() if s != symbol}).doit()
    if not at.is_Rational:
        return None

    def load(value: sp.Expr) -> sp.Expr:
        changed = dict(given)
        if symbol in through:  # asked through what it follows from
            scale = value / values[symbol]
            changed[through[symbol]] = given[through[symbol]] * scale
        else:
            changed[symbol] = value
        return load_at(of, text, not found.exact, changed)

    return at, load
