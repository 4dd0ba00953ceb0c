"""The numerical answer, where there is no readable closed form but every symbol has a value.

The condition is checked at trial values of the question; a free split is chosen for the best by a
search on its logarithm, along which loads are convex. The answer says that it is numerical.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import exp, isfinite, log

import sympy as sp

from derive.cost.assumptions import DEFAULT, Assumptions
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, NotClosedForm
from derive.notation.quantity import Quantity
from derive.solve.answer import Answer, Side
from derive.solve.links import deciding, link_notes, suited
from derive.solve.question import (
    Fixed,
    Subject,
    at_value,
    axes_held,
    mesh_in_terms_of_chips,
    put_through,
    question,
    requirement,
)  # fmt: skip
from derive.solve.values import Giver, filled, typed_values, values_for

LEAST, LARGEST = 1e-15, 1e30
DIGITS = 12
SEARCHES = 80  # enough for every digit of a float


def numerical(
    subject: Subject,
    asked: sp.Expr,
    *givers: Giver,
    assumptions: Assumptions | str = DEFAULT,
    values: Mapping[str, object] | None = None,
    fixed: Fixed = (),
    **changes: object,
) -> Answer:
    """The bound on `asked` found by bisection, to 12 significant digits, with status "derived" and
    a formula that says so. Raises DeriveError naming the symbols left without a value, and
    NotClosedForm where the condition crosses no bound in the range searched."""
    what = question(asked)
    given_values = {s.name: quantity for s, quantity in typed_values(values or {}).items()}
    axes_fixed = axes_held(subject, what, fixed, given_values)
    need = requirement(subject, what, assumptions, axes_fixed, **changes)
    before = need.assumptions
    under = suited(subject, what, before, givers, given_values)
    notes = link_notes(before, under, givers, given_values)
    need = requirement(subject, what, under, axes_fixed)
    given, free = mesh_in_terms_of_chips(need, what, axes_fixed)
    trial = sp.Dummy("q", positive=True)
    asked_for = {what.main: trial / what.rest}
    loads = at_value(put_through(need, what).loads, what, given, trial)
    if not loads:
        raise DeriveError(f"{need.name} communicates nothing under these assumptions")
    axes = [] if free is None else [free]
    needed = {s for load in loads for s in load.free_symbols} - {trial, *axes}
    # The other axis has a degree of at least 1, too.
    widest = given[0][1].xreplace({**asked_for, free: sp.S.One}) if free is not None else sp.S.One
    asked_symbol = what.main if need.definitions else None
    known = values_for(need, givers, given_values)
    full = filled(needed | widest.free_symbols - {trial}, need, asked_symbol, known)
    bound = full.checked()
    notes += full.idle(given_values, deciding(subject, what, before, under))
    numbers = {s: q.value for s, q in bound.items() if s not in axes}
    bare = [load.xreplace(numbers) for load in loads]
    functions = [sp.lambdify([trial, *axes], load, modules="math") for load in bare]
    most = sp.lambdify([trial], widest.xreplace(numbers), modules="math")

    def largest(q: float) -> float:
        if free is None:
            return max(float(f(q)) for f in functions)
        best = max(1.0, float(most(q)))
        return least(lambda x: max(float(f(q, x)) for f in functions), 1.0, best)

    direction, at = _crossing(largest, str(asked))
    value = sp.Rational(Fraction(f"{at:.{DIGITS}g}"))
    inputs = tuple((s.name, bound[s]) for s in sorted(needed, key=v.rank))
    how = f"numerically, to {DIGITS} digits, from the {need.assumptions.form} loads"
    quantity = Quantity(value, what.unit, str(asked), formula=how, inputs=inputs, bound=direction)
    sides = (Side(quantity, () if need.definitions else (need.assumptions.passes,)),)
    return Answer(asked, sides, need.assumptions, dict(need.described), (), tuple(notes))


def _crossing(load: Callable[[float], float], asked: str) -> tuple[str, float]:
    """On which side of which value the load is at most 1; raises NotClosedForm where there is no
    single one."""

    def holds(at: float) -> bool:
        value = load(exp(at))
        return isfinite(value) and value <= 1

    low, high = log(LEAST), log(LARGEST)
    samples = [low + (high - low) * i / 400 for i in range(401)]
    held = [holds(at) for at in samples]
    changes = [i for i in range(400) if held[i] != held[i + 1]]
    if len(changes) != 1:
        state = "never" if not any(held) else "always" if all(held) else "in several ranges"
        raise NotClosedForm(f"{asked}: compute-bound {state} between 1e-15 and 1e30")
    (place,) = changes
    a, b = samples[place : place + 2]
    while a < (middle := (a + b) / 2) < b:
        a, b = (middle, b) if holds(middle) == held[place] else (a, middle)
    return ("<=" if held[place] else ">="), exp((a + b) / 2)


def least(function: Callable[[float], float], low: float, high: float) -> float:
    """The least value between two arguments of a function that is convex in the logarithm of its
    argument, as loads are in a split."""
    left, right = log(low), max(log(high), log(low))
    ratio = (5**0.5 - 1) / 2
    first, second = right - ratio * (right - left), left + ratio * (right - left)
    at_first, at_second = function(exp(first)), function(exp(second))
    for _ in range(SEARCHES):
        if at_first <= at_second:
            right, second, at_second = second, first, at_first
            first = right - ratio * (right - left)
            at_first = function(exp(first))
        else:
            left, first, at_first = first, second, at_second
            second = left + ratio * (right - left)
            at_second = function(exp(second))
    return min(at_first, at_second)
