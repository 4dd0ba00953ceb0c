"""Machine proof of equalities and thresholds.

An equality is proved symbolically where SymPy can, and always checked at seeded random positive
rational points. A threshold is put back into the strategy's own conditions on both sides of it, at
such points, with a free split searched for the best.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import sympy as sp

from derive.cost.assumptions import Assumptions
from derive.cost.strategies import Strategy
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import ProofError
from derive.solve.conditions import conditions
from derive.solve.question import Question, mesh_in_terms_of_chips

SEED = 20_240_229
POINTS = 12
DIGITS = 50
MARGINS = (sp.Rational(1, 1000), sp.Rational(1, 3))


def random_points(
    symbols: Iterable[sp.Symbol], count: int = POINTS, seed: int = SEED
) -> list[dict[sp.Symbol, sp.Rational]]:
    """Positive rational values for each symbol, the same on every run: thousandths from 2 to 10."""
    ordered = sorted(symbols, key=v.rank)
    source = random.Random(seed)
    return [
        {s: sp.Rational(source.randint(2000, 10000), 1000) for s in ordered} for _ in range(count)
    ]


def proved_equal(left: sp.Expr, right: sp.Expr, where: str) -> str:
    """How the equality was proved: "symbolically" or "at points"; raises ProofError if it fails.

    Random points are tried in either case, fewer where the proof is symbolic.
    """
    symbolic = _identical(left, right)
    symbols = left.free_symbols | right.free_symbols
    for point in random_points(symbols, POINTS // 4 if symbolic else POINTS):
        a, b = (_value(side, point) for side in (left, right))
        if abs(a - b) > abs(b) * sp.Float(10) ** (8 - DIGITS):
            raise ProofError(
                f"{where}: {tex.text(left)} is not {tex.text(right)}; "
                f"at {_shown(point)} they are {sp.N(a, 6)} and {sp.N(b, 6)}"
            )
    return "symbolically" if symbolic else "at points"


def _identical(left: sp.Expr, right: sp.Expr) -> bool:
    """Whether SymPy sees that the two are the same, by the cheapest means first."""
    if left == right or left / right == 1:
        return True
    if sp.powsimp(sp.expand_power_base(left / right, force=True)) == 1:
        return True
    return bool(sp.expand(left - right) == 0 or sp.together(left - right) == 0)


def _value(expr: sp.Expr, point: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    """The number of an expression at a point: exact where rational, else to many digits."""
    value = expr.xreplace(point)
    return value if value.is_Rational else sp.N(value, DIGITS)


def proved_threshold(
    strategy: Strategy,
    assumptions: Assumptions,
    asked: Question,
    bounds: Iterable[tuple[str, sp.Expr]],
    fixed: Iterable[sp.Symbol] = (),
) -> None:
    """Raise ProofError unless the bounds separate compute-bound from communication-bound points.

    At each point where all the bounds are met with a margin, the strategy's conditions must hold
    for some split; where one bound is missed by a margin, for none.
    """
    bounds = tuple(bounds)
    check = _Check(strategy, assumptions, asked, tuple(fixed))
    symbols = check.symbols | {s for _, b in bounds for s in b.free_symbols}
    symbols = (symbols - {asked.main, *check.determined}) | asked.symbols - {asked.main}
    done = 0
    for point in random_points(symbols, 4 * POINTS):
        full = point | ({v.alpha: point[v.C] / point[v.W]} if {v.C, v.W} <= set(point) else {})
        values = [(d, _value(b, full)) for d, b in bounds]
        if not all(value.is_real and value > 0 for _, value in values):
            continue
        low = max((x for d, x in values if d == ">="), default=None)
        high = min((x for d, x in values if d == "<="), default=None)
        if low is not None and high is not None and low >= high:
            continue
        _check_sides(check, full, asked, low, high)
        done += 1
        if done == POINTS:
            return
    if done == 0:
        raise ProofError(f"{strategy.name}: no point tried lies inside the bounds of {asked.expr}")


def _check_sides(
    check: _Check,
    point: dict[sp.Symbol, sp.Expr],
    asked: Question,
    low: sp.Expr | None,
    high: sp.Expr | None,
) -> None:
    for margin in MARGINS:
        tries: list[tuple[sp.Expr, bool]] = []
        if low is not None:
            tries.append((low * (1 - margin), False))
            if high is None or low * (1 + margin) < high:
                tries.append((low * (1 + margin), True))
        if high is not None:
            tries.append((high * (1 + margin), False))
            if low is None or high * (1 - margin) > low:
                tries.append((high * (1 - margin), True))
        for value, expected in tries:
            if not check.side_conditions_hold(point):
                continue
            if check.compute_bound(point, value) is not expected:
                side = "compute-bound" if not expected else "communication-bound"
                raise ProofError(
                    f"{check.strategy.name}: at {asked.expr} = {sp.N(value, 6)}, {_shown(point)}, "
                    f"the layer is {side}"
                )


class _Check:
    """The loads of a strategy as functions of a point, the question's value and the split."""

    def __init__(
        self,
        strategy: Strategy,
        assumptions: Assumptions,
        asked: Question,
        fixed: tuple[sp.Symbol, ...],
    ) -> None:
        self.strategy = strategy
        self.value = sp.Dummy("q", positive=True)
        given, self.free = mesh_in_terms_of_chips(strategy, asked, fixed)
        self.determined = {s for s, _ in given} | ({self.free} if self.free is not None else set())
        replace = {asked.main: self.value / asked.rest}
        self.loads = []
        for condition in conditions(strategy, assumptions):
            load = condition.load
            if v.alpha in asked.symbols:
                load = load.xreplace({v.C: v.alpha * v.W})
            load = load.xreplace(replace).xreplace(dict(given)).xreplace(replace)
            self.loads.append(load)
        self.symbols = {s for load in self.loads for s in load.free_symbols} - {self.value}
        # Floats are enough: the points tried stand off the bounds by a margin.
        self.order = sorted(self.symbols - {self.free}, key=v.rank)
        split = [] if self.free is None else [self.free]
        arguments = [self.value, *self.order, *split]
        self.compiled = [sp.lambdify(arguments, load, modules="math") for load in self.loads]

    def side_conditions_hold(self, point: dict[sp.Symbol, sp.Expr]) -> bool:
        """Whether the loads that do not involve the question or the split are at most 1."""
        rest = [x for x in self.loads if not x.has(self.value) and not self._splits(x)]
        return all(_value(load, point) <= 1 for load in rest)

    def compute_bound(self, point: dict[sp.Symbol, sp.Expr], value: sp.Expr) -> bool:
        """Whether some split satisfies every condition at the point."""
        known = [float(value), *(float(point[s]) for s in self.order)]
        if self.free is None:
            return all(f(*known) <= 1 for f in self.compiled)
        return _least_over_split(lambda x: max(f(*known, x) for f in self.compiled)) <= 1

    def _splits(self, load: sp.Expr) -> bool:
        return self.free is not None and bool(load.has(self.free))


def _least_over_split(load: Callable[[float], float]) -> float:
    """The least load over a logarithmic grid of splits, refined round the best: loads are convex in
    the logarithm of the split."""
    low, high = 1e-6, 1e6
    best = 1.0
    for _ in range(6):
        ratio = (high / low) ** (1 / 40)
        best = min((low * ratio**i for i in range(41)), key=load)
        low, high = best / ratio, best * ratio
    return load(best)


def _shown(point: dict[sp.Symbol, sp.Expr]) -> str:
    return ", ".join(
        f"{s} = {sp.N(x, 5)}" for s, x in sorted(point.items(), key=lambda p: v.rank(p[0]))
    )
