"""Machine proof of what a derivation claims: each check holds the expressions that were read off a
declaration, and is given the claim.

An equality is proved symbolically where SymPy can, and always checked at seeded random positive
rational points. A threshold is put back into the loads on both sides of it, at such points, with a
free split searched for the best.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Protocol

import sympy as sp

from derive.cost.load import Given, Load
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import ProofError
from derive.solve.evaluate import computed
from derive.solve.numerical import least
from derive.solve.powers import Balance
from derive.solve.question import Question, at_value

SEED = 20_240_229
POINTS = 12
AT_POINTS = "at points"
DIGITS = 50
SPLITS = (1e-6, 1e6)  # where the best value of a free axis is looked for
MARGINS = (sp.Rational(1, 1000), sp.Rational(1, 3))
# A share is below 1, and a model has more parameters than its vocabulary.
SCALES: Mapping[sp.Symbol, sp.Expr] = {v.epsilon: sp.Rational(1, 20), v.P: sp.Integer(10**4)}
ALPHA: Mapping[sp.Symbol, sp.Expr] = {v.alpha: v.C / v.W}
Claims = tuple[sp.Rel, ...]
Numbers = dict[sp.Symbol, sp.Expr]


class Check(Protocol):
    """What a claim is compared with; `proved` says how it was, and raises ProofError, beginning
    with `where`, if the claim fails."""

    def proved(self, claims: Claims, where: str) -> str: ...


@dataclass(frozen=True)
class Times:
    """The two sides of an equation are the same with the declared times put in for their symbols,
    and then the constants; the right side exceeds none of `at_least` by any factor."""

    times: Given
    constants: Given = ()
    at_least: tuple[sp.Expr, ...] = ()

    def proved(self, claims: Claims, where: str) -> str:
        claim = equation(claims, where)
        for bound in self.at_least:
            ratio = claim.rhs.xreplace(dict(ALPHA)) / bound
            if not (isinstance(ratio, sp.Rational) and ratio <= 1):
                raise ProofError(f"{where}: {tex.text(claim)} asks more than {tex.text(bound)}")
        times, constants = {**ALPHA, **dict(self.times)}, dict(self.constants)
        left, right = (side.xreplace(times).xreplace(constants) for side in claim.args)
        return proved_equal(left, right, where)


@dataclass(frozen=True)
class MeshProduct:
    """With the claimed degree, the mesh axes multiply to the chips N."""

    chips: sp.Expr

    def proved(self, claims: Claims, where: str) -> str:
        claim = equation(claims, where)
        return proved_equal((self.chips / v.N).xreplace({claim.lhs: claim.rhs}), sp.S.One, where)


@dataclass(frozen=True)
class BestSplit:
    """At the claimed value of the free axis the loads are equal, or where they add up, the
    derivative of their sum is zero and the second one positive."""

    free: sp.Symbol
    loads: tuple[sp.Expr, ...]
    summed: bool

    def proved(self, claims: Claims, where: str) -> str:
        claim = equation(claims, where)
        if claim.lhs != self.free:
            raise ProofError(f"{where}: expected a value of {self.free}, found {claim}")
        at = {self.free: claim.rhs.xreplace(dict(ALPHA))}
        if not self.summed:
            first, second = (load.xreplace(at) for load in self.loads)
            return proved_equal(first, second, where)
        slope = sp.expand(sp.diff(sp.Add(*self.loads), self.free))
        if not sp.diff(slope, self.free).xreplace(at).is_positive:
            raise ProofError(f"{where}: the second derivative is not positive")
        falling = sp.Add(*(t for t in sp.Add.make_args(slope) if t.could_extract_minus_sign()))
        return proved_equal((slope - falling).xreplace(at), -falling.xreplace(at), where)


@dataclass(frozen=True)
class AtSplit:
    """The loads at the best split are equal, and the claimed ratio is theirs, or it is the sum."""

    loads: tuple[sp.Expr, ...]
    summed: bool

    def proved(self, claims: Claims, where: str) -> str:
        here = self.loads
        if not self.summed:
            proved_equal(here[0], here[-1], where)
            here = here[:1]
        return Times(((v.T_comms, sp.Add(*here) * v.T_math),)).proved(claims, where)


@dataclass(frozen=True)
class Same:
    """The left side of an inequality is the declared expression, and the right side its bound."""

    expr: sp.Expr
    bound: sp.Expr
    how: str = ""

    def proved(self, claims: Claims, where: str) -> str:
        (claim,) = claims
        if not isinstance(claim, sp.Le) or claim.rhs != self.bound:
            raise ProofError(f"{where}: expected at most {self.bound}, found {tex.text(claim)}")
        how = proved_equal(claim.lhs, self.expr, where)
        return self.how or how


def equation(claims: Claims, where: str) -> sp.Eq:
    """The one claim, an equation; raises ProofError where it is none."""
    (claim,) = claims
    if not isinstance(claim, sp.Eq):
        raise ProofError(f"{where}: expected an equation, found {claim}")
    return claim


def random_points(symbols: Iterable[sp.Symbol], count: int = POINTS) -> Iterator[Numbers]:
    """Positive rational values for each symbol, the same on every run: thousandths from 2 to 10."""
    ordered = sorted(symbols, key=v.rank)
    source = random.Random(SEED)
    for _ in range(count):
        yield {s: sp.Rational(source.randint(2000, 10000), 1000) for s in ordered}


def proved_equal(left: sp.Expr, right: sp.Expr, where: str) -> str:
    """How the equality was proved: "symbolically" or "at points"; raises ProofError if it fails.

    A few random points are tried first, which most mistakes do not pass, and more of them where
    the proof is not symbolic.
    """
    points = random_points(left.free_symbols | right.free_symbols)
    _equal_at(islice(points, POINTS // 4), left, right, where)
    if _identical(left, right):
        return "symbolically"
    _equal_at(points, left, right, where)
    return AT_POINTS


def _equal_at(points: Iterable[Numbers], left: sp.Expr, right: sp.Expr, where: str) -> None:
    for point in points:
        a, b = (_digits(side.xreplace(point)) for side in (left, right))
        if not _alike(a, b):
            told = f"{where}: {tex.text(left)} is not {tex.text(right)}"
            raise ProofError(f"{told}; at {_shown(point)} they are {sp.N(a, 6)} and {sp.N(b, 6)}")


def _alike(a: sp.Expr, b: sp.Expr) -> bool:
    return a == b or bool(abs(a - b) <= abs(b) * sp.Float(10) ** (8 - DIGITS))


def _identical(left: sp.Expr, right: sp.Expr) -> bool:
    """Whether SymPy sees that the two are the same, by the cheapest means first."""
    if left == right or left / right == 1:
        return True
    if sp.powsimp(sp.expand_power_base(left / right, force=True)) == 1:
        return True
    return bool(sp.expand(left - right) == 0 or sp.together(left - right) == 0)


def _digits(value: sp.Expr) -> sp.Expr:
    """A number: exact where rational, else to many digits."""
    return value if value.is_Rational else sp.N(value, DIGITS)


@dataclass(frozen=True)
class Separation:
    """The claimed bounds separate where no load exceeds one, for some value of the free axis, from
    where one does, where the side conditions `provided` hold; the mesh axes `given` follow from the
    chips. `splits` are values of the free axis, one of which serves, and `known` holds anyway.

    At each point where all the bounds are met with a margin, the loads must hold for some split;
    where one bound is missed by a margin, for none. Without a split, the largest is one at a bound.
    """

    loads: tuple[Load, ...]
    asked: Question
    given: Given = ()
    free: sp.Symbol | None = None
    splits: tuple[Balance, ...] = ()
    provided: tuple[sp.Rel, ...] = ()
    known: tuple[sp.Rel, ...] = ()
    claim: str = ""

    def proved(self, claims: Claims, where: str) -> str:
        asked = self.asked.expr
        for claim in claims:
            if not isinstance(claim, (sp.Ge, sp.Le)) or claim.lhs != asked:
                raise ProofError(f"{where}: expected a bound on {asked}, found {tex.text(claim)}")
        trial = _trial(self)
        symbols = trial.symbols | {s for claim in claims for s in claim.rhs.free_symbols}
        symbols -= {self.asked.main, self.free, *(s for s, _ in self.given)}
        inside = 0
        every = symbols | self.asked.symbols - {self.asked.main}
        slow = [*random_points(every, 4 * POINTS)]
        # Beside the products of a whole layer little is sent, but by a chip that computes faster.
        fast = [at | {v.C: 10**4 * at[v.C]} for at in slow if v.C in at]
        for point in map(_likely, (*slow, *fast)):
            values = [_digits(computed(claim.rhs, point)) for claim in claims]
            if not all(value.is_real and value > 0 for value in values):
                continue
            pairs = list(zip(claims, values, strict=True))
            low = max((x for c, x in pairs if isinstance(c, sp.Ge)), default=None)
            high = min((x for c, x in pairs if isinstance(c, sp.Le)), default=None)
            if low is not None and high is not None and low >= high:
                continue
            if trial.side_conditions_hold(point):
                _check_sides(trial, point, low, high, where)
            inside += 1
            if inside == POINTS:
                break
        if inside == 0:
            raise ProofError(f"{where}: no point tried lies inside the bounds of {asked}")
        return AT_POINTS


def _likely(point: Numbers) -> Numbers:
    """A point as values of its symbols can be: shares below 1, the innermost group in a node."""
    point = point | {s: point[s] * n for s, n in SCALES.items() if s in point}
    degrees = [x for s, x in point.items() if v.is_degree(s)]
    if v.n_node in point and len(degrees) > 1:
        point[v.n_node] = max(degrees)
    if {v.C, v.W} <= point.keys():
        point[v.alpha] = point[v.C] / point[v.W]
    return point


def can_be_negative(expr: sp.Expr, mesh: Iterable[sp.Symbol]) -> bool:
    """Whether an expression is negative at one of the random points, also of a mesh."""
    points = random_points(expr.free_symbols.union(mesh))
    return any(computed(expr, _likely(at)) < 0 for at in points)


def _check_sides(
    trial: _Trial, point: Numbers, low: sp.Expr | None, high: sp.Expr | None, where: str
) -> None:
    asked, numbers = trial.check.asked.expr, [float(point[s]) for s in trial.order]
    facing = [(x, way) for x, way in ((low, 1), (high, -1)) if x is not None]
    for margin in MARGINS:
        for bound, way in facing:
            for value in (bound * (1 - way * margin), bound * (1 + way * margin)):
                expected = all(way * (value - x) > 0 for x, way in facing)
                if trial.holds(numbers, float(value)) is not expected:
                    side = "fails" if expected else "holds"
                    at = f"{asked} = {sp.N(value, 6)}, {_shown(point)}"
                    raise ProofError(f"{where}: does not hold: at {at}, the condition {side}")
    for bound, _ in facing:
        if not trial.reached(point, bound):
            at = f"{asked} = {sp.N(bound, 6)}, {_shown(point)}"
            raise ProofError(f"{where}: does not hold: no load is one at {at}")


class _Trial:
    """The loads of a separation as functions of a point, the question's value and the split."""

    def __init__(self, check: Separation) -> None:
        # The value of a ratio has the name of the symbol above its line, of which nothing is left.
        self.check, self.value, trial = check, check.asked.main, sp.Dummy(positive=True)
        loads = at_value(check.loads, check.asked, check.given, trial)
        self.loads = [load.xreplace({trial: self.value}) for load in loads]
        self.symbols = {s for load in self.loads for s in load.free_symbols} - {self.value}
        # Floats are enough: the points tried stand off the bounds by a margin.
        self.order = sorted(self.symbols - {check.free}, key=v.rank)
        split = [] if check.free is None else [check.free]
        arguments = [self.value, *self.order, *split]
        self.compiled = sp.lambdify(arguments, self.loads, modules="math")

    def side_conditions_hold(self, point: Numbers) -> bool:
        """Whether the loads that do not involve the question or the split are at most 1."""
        varied = {self.value, self.check.free}
        fixed = (load for load in self.loads if not load.free_symbols & varied)
        return all(_digits(computed(load, point)) <= 1 for load in fixed)

    def holds(self, numbers: list[float], value: float) -> bool:
        """Whether some split satisfies every load at the numbers of `order`."""
        if self.check.free is None:
            return all(load <= 1 for load in self.compiled(value, *numbers))
        return least(lambda x: max(self.compiled(value, *numbers, x)), *SPLITS) <= 1

    def reached(self, point: Numbers, value: sp.Expr) -> bool:
        """Whether some load is one at the value, as nearly as digits go; not asked of a split."""
        at = {**point, self.value: value}
        free = self.check.free is not None
        return free or any(_alike(_digits(computed(x, at)), sp.S.One) for x in self.loads)


_trial = lru_cache(maxsize=64)(_Trial)


def _shown(point: Numbers) -> str:
    return ", ".join(f"{s} = {sp.N(point[s], 5)}" for s in sorted(point, key=v.rank))
