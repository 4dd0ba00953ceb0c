"""Limits put back into the whole step model: a claim holds on one side, and not on the other."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from fractions import Fraction as Q
from functools import cache
from typing import Any

import pytest
import sympy as sp
from exact import exact

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
from derive.solve.threshold import Threshold, threshold
from derive.solve.values import values_for

H100, LLAMA = chip("h100", profile="notebook"), model("llama-3-70b")
SETS = ("notebook", "corrected", "corrected-two_level", "notebook+ring_tensor+gradient_bytes")
ALL_BUT_ONE = sp.Rational(999, 1000)
LESS = Q(999, 1000)
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


@pytest.mark.parametrize("text", ["corrected", "corrected-two_level", "notebook+gradient_window"])
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
@cache
def defined_in(text: str) -> dict[sp.Symbol, sp.Expr]:
    """The definitions of the step model in their order."""
    return {v.find(term.name): term.expr for term in step_model(text).definitions}


@cache
def load_of(of: Limit, text: str, form: str) -> sp.Expr:
    """The load as it is declared."""
    return of.load(assume(text, form=form))


@cache
def behind(of: Limit, text: str, form: str) -> dict[sp.Symbol, sp.Expr]:
    """The definitions that the load rests on, through whatever number of others."""
    reached = set(load_of(of, text, form).free_symbols)
    for symbol, expr in reversed(defined_in(text).items()):
        if symbol in reached:
            reached |= expr.free_symbols
    return {symbol: expr for symbol, expr in defined_in(text).items() if symbol in reached}


def model_at(
    definitions: Mapping[sp.Symbol, sp.Expr], given: Mapping[sp.Symbol, Q]
) -> dict[sp.Symbol, Q]:
    """Every intermediate of the step model, but for the links, which are among what is given."""
    values = {**given, v.L_r: Q(0)}
    for symbol, expr in definitions.items():
        if symbol not in values:
            values[symbol] = exact(expr, values)
    return values


@cache
def undefined(text: str) -> list[sp.Symbol]:
    """What the model needs and does not define, and what limits need besides."""
    needed = {s for expr in defined_in(text).values() for s in expr.free_symbols}
    return sorted(needed - {*defined_in(text)} | {v.N, v.epsilon, v.B_seq, v.b_seq}, key=v.rank)


def some_values(text: str, draw: random.Random) -> dict[sp.Symbol, Q]:
    """Values of what the model does not define, and of the links."""
    values = {s: Q(draw.randint(2, 30)) for s in undefined(text)}
    values |= {s: Q(draw.randint(2, 30)) for s in LINKS}
    values[v.P] = values[v.P] + 2 * values[v.n_V] * values[v.V] * values[v.D]
    return values | {v.epsilon: Q(draw.randint(1, 20), 21)}


@pytest.mark.parametrize("form", ["exact", "large-n"])
@pytest.mark.parametrize("text", [*SETS, "notebook+largest_stage"])
@pytest.mark.parametrize("of", LIMITS.values(), ids=lambda of: of.name)
def test_a_bound_on_any_symbol_is_where_the_whole_load_is_one(
    of: Limit, text: str, form: str
) -> None:
    draw = random.Random(5)
    checked = 0
    for symbol in sorted(some_values(text, draw).keys() | {v.T_r, v.n_mb, v.psi}, key=v.rank):
        if symbol in defined_in(text) and symbol not in {*LINKS, v.T_r, v.n_mb}:
            continue  # what is asked in place of its own definition
        bounded = bound_on(of, symbol, text, form)
        if bounded is None:
            continue
        for _ in range(3):
            at, load = bound_of(bounded, text, form, symbol, some_values(text, draw))
            if at is None or at <= 0 or load(at) == 0:
                continue
            checked += 1
            assert load(at) == 1
            below, above = load(at * LESS), load(at / LESS)
            assert (above < 1 < below) if bounded.direction == ">=" else (below < 1 < above)
    assert checked > 5


def bound_on(of: Limit, symbol: sp.Symbol, text: str, form: str) -> Threshold | None:
    """The bound, None where there is none."""
    try:
        return threshold(of, symbol, text, form=form)
    except (NotClosedForm, UnknownName):
        return None


def bound_of(
    bounded: Threshold, text: str, form: str, symbol: sp.Symbol, given: dict[sp.Symbol, Q]
) -> tuple[Q | None, Callable[[Q], Q]]:
    """The number of a bound, None where it is not rational, and the load as a function of the
    symbol: declared, with every intermediate worked out anew from what is given."""
    through = {v.T_r: v.T, v.n_mb: v.B_seq}
    values, definitions = model_at(defined_in(text), given), behind(bounded.subject, text, form)
    declared = load_of(bounded.subject, text, form)
    known = {s: sp.Rational(x.numerator, x.denominator) for s, x in values.items() if s != symbol}
    at = bounded.closed_form.xreplace(known).doit()

    def load(value: Q) -> Q:
        changed = dict(given)
        if symbol in through:  # asked through what it follows from
            changed[through[symbol]] *= value / values[symbol]
        else:
            changed[symbol] = value
        return exact(declared, model_at(definitions, changed))

    return Q(int(at.p), int(at.q)) if at.is_Rational else None, load
