"""The numerical answer, where there is no readable closed form but every symbol has a value.

The condition is checked at trial values of the question; a free split is chosen for the best by a
search on its logarithm, along which loads are convex. The answer says that it is numerical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from math import exp, isfinite, log

import sympy as sp

from derive.cost.assumptions import DEFAULT, Assumptions
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, NotClosedForm
from derive.notation.quantity import Quantity, glossed
from derive.solve.answer import Answer, Side
from derive.solve.links import link_notes, suited
from derive.solve.question import (
    Subject,
    at_value,
    mesh_in_terms_of_chips,
    put_through,
    question,
    requirement,
)
from derive.solve.values import Giver, Values, filled, values_for

LEAST, LARGEST = 1e-15, 1e30
DIGITS = 12
SEARCHES = 100  # enough for every digit of a float


def numerical(
    subject: Subject,
    asked: sp.Expr,
    *givers: Giver,
    assumptions: Assumptions | str = DEFAULT,
    values: Mapping[str, object] | None = None,
    fixed: Iterable[sp.Symbol] = (),
    **changes: object,
) -> Answer:
    """The bound on `asked` found by bisection, to 12 significant digits, with status "derived" and
    a formula that says so. Raises DeriveError naming the symbols left without a value, and
    NotClosedForm where the condition crosses no bound in the range searched."""
    what = question(asked)
    given_values = values or {}
    need = requirement(subject, what, assumptions, tuple(fixed), **changes)
    under = suited(subject, what, need.assumptions, givers, given_values)
    notes = link_notes(need.assumptions, under, givers, given_values)
    if under != need.assumptions:
        need = requirement(subject, what, under, tuple(fixed))
    given, free = mesh_in_terms_of_chips(need, what, fixed)
    trial = sp.Dummy("q", positive=True)
    asked_for = {what.main: trial / what.rest}
    loads = at_value(put_through(need, what).loads, what, given, trial)
    if not loads:
        raise DeriveError(f"{need.name} communicates nothing under these assumptions")
    keep = {trial, *([free] if free is not None else [])}
    needed = {s for load in loads for s in load.free_symbols} - keep
    known_values = values_for(need, givers, given_values)
    asked_symbol = what.main if need.definitions else None
    bound = filled(needed, need, asked_symbol, known_values).checked()
    known = [_with_values(load, bound, keep) for load in loads]
    widest = sp.S.One
    if free is not None:  # the other axis has a degree of at least 1, too
        other = given[0][1].xreplace({free: sp.S.One}).xreplace(asked_for)
        widest = _with_values(other, bound, {trial})
    function = _largest(known, trial, free, widest)
    direction, at = _crossing(function, str(asked))
    rounded = Fraction(f"{at:.{DIGITS}g}")
    value = sp.Rational(rounded.numerator, rounded.denominator)
    used = sorted((s for s in needed if s in bound), key=v.rank)
    inputs = tuple((s.name, bound[s]) for s in used)
    formula = f"numerically, to {DIGITS} digits, from the {need.assumptions.form} loads"
    quantity = Quantity(value, what.unit, str(asked), formula=formula, inputs=inputs)
    passes = () if need.definitions else (need.assumptions.passes,)
    side = Side(direction, quantity, passes)
    return Answer(asked, (side,), need.assumptions, dict(need.described), (), tuple(notes))


def _with_values(load: sp.Expr, bound: Values, keep: set[sp.Symbol]) -> sp.Expr:
    left = load.xreplace({s: q.value for s, q in bound.items() if s not in keep})
    missing = sorted(left.free_symbols - keep, key=v.rank)
    if missing:
        raise DeriveError(f"no value for {glossed(missing)}")
    return left


def _largest(
    loads: list[sp.Expr], trial: sp.Symbol, free: sp.Symbol | None, widest: sp.Expr
) -> Callable[[float], float]:
    if free is None:
        plain = [sp.lambdify([trial], load, modules="math") for load in loads]
        return lambda q: max(float(f(q)) for f in plain)
    functions = [sp.lambdify([trial, free], load, modules="math") for load in loads]
    limit = sp.lambdify([trial], widest, modules="math")

    def best(q: float) -> float:
        widest = max(1.0, float(limit(q)))
        return least(lambda x: max(float(f(q, x)) for f in functions), 1.0, widest)

    return best


def _crossing(load: Callable[[float], float], asked: str) -> tuple[str, float]:
    low, high = log(LEAST), log(LARGEST)
    samples = [low + (high - low) * i / 400 for i in range(401)]
    bounded = [_is_bound(load, s) for s in samples]
    changes = [i for i in range(400) if bounded[i] != bounded[i + 1]]
    if len(changes) != 1:
        state = "never" if not any(bounded) else "always" if all(bounded) else "in several ranges"
        raise NotClosedForm(f"{asked}: compute-bound {state} between 1e-15 and 1e30")
    a, b = samples[changes[0]], samples[changes[0] + 1]
    falls = bounded[changes[0]]
    for _ in range(200):
        middle = (a + b) / 2
        if _is_bound(load, middle) == falls:
            a = middle
        else:
            b = middle
    return ("<=" if falls else ">="), exp((a + b) / 2)


def _is_bound(load: Callable[[float], float], at: float) -> bool:
    value = load(exp(at))
    return isfinite(value) and value <= 1


def least(function: Callable[[float], float], low: float, high: float) -> float:
    """The least value between two arguments of a function that is convex in the logarithm of its
    argument, as loads are in a split."""
    left, right = log(low), max(log(high), log(low))
    ratio = (5**0.5 - 1) / 2
    for _ in range(SEARCHES):
        inner = [right - ratio * (right - left), left + ratio * (right - left)]
        if function(exp(inner[0])) <= function(exp(inner[1])):
            right = inner[1]
        else:
            left = inner[0]
    return function(exp((left + right) / 2))
