"""Expressions as operations of a tape: each once, constants apart, small arrays first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key
from itertools import combinations
from typing import NamedTuple

import sympy as sp

from derive.notation import symbols as v
from derive.notation.errors import DeriveError, quoted


class Node(NamedTuple):
    """A value in the making: an axis, a constant, a literal or an operation, by its place.

    Its level is 0 for a number, 1 for what depends on degrees, 2 for what depends on the
    micro-batch as well: in a block of degrees by micro-batches level 1 is a column.
    """

    place: int
    level: int


class Operation(NamedTuple):
    """An operation of `tape.OPERATIONS` on one or two nodes."""

    name: str
    of: tuple[Node, ...]


class _Value(NamedTuple):
    """The product of a number, a column and a block, each left out where it is 1. They are
    multiplied only where they have to be, the small ones first."""

    scale: Node | None = None
    low: Node | None = None
    high: Node | None = None


IN_ORDER = cmp_to_key(sp.Basic.compare)  # the same under every hash seed, unlike args of a Max
COMMUTES = ("add", "multiply", "maximum", "minimum")


class Writer:
    """Collects operations, each distinct one once.

    `made` holds what each node is: an axis or a constant by name, a literal, or an operation. A
    ceiling is taken `slack` below its argument, and `edge` is how far that lies below the ceiling:
    at most twice the slack where the argument is within the slack of a whole number.
    """

    def __init__(
        self,
        axes: Sequence[sp.Symbol],
        definitions: Mapping[sp.Symbol, sp.Expr],
        slack: float = 0.0,
    ) -> None:
        self.made: list[str | float | Operation] = []
        self.known: dict[object, Node] = {}
        self.axes = {s: self._leaf(s.name, 2 if s == v.b_seq else 1) for s in axes}
        self.definitions = definitions
        self.slack = slack
        self.values: dict[sp.Expr, _Value] = {}
        self.constants: dict[sp.Symbol, Node] = {}
        self.one = self.literal(1.0)
        self.zero = self.literal(0.0)
        self._edges: list[Node] = []

    def literal(self, value: float) -> Node:
        """The node of a number."""
        return self._leaf(value, 0)

    def _leaf(self, made: str | float, level: int) -> Node:
        if made not in self.known:
            self.known[made] = Node(len(self.made), level)
            self.made.append(made)
        return self.known[made]

    def node(self, expr: sp.Expr) -> Node:
        """The value of an expression, multiplied out."""
        return self._applied(self._value(expr))

    def _applied(self, value: _Value) -> Node:
        factors = [f for f in (value.low, value.scale) if f is not None]
        if value.high is not None and factors != [self.one]:
            factors.append(value.high)
        elif value.high is not None:
            return value.high
        return self._chain("multiply", factors) or self.one

    def _value(self, expr: sp.Expr) -> _Value:
        if expr not in self.values:
            self.values[expr] = self._made(expr)
        return self.values[expr]

    def _made(self, expr: sp.Expr) -> _Value:
        if isinstance(expr, sp.Symbol):
            if expr in self.definitions:
                return self._value(self.definitions[expr])
            v.meaning(expr)
            if expr in self.axes:
                return _valued(self.axes[expr])
            self.constants[expr] = self._leaf(expr.name, 0)
            return _Value(self.constants[expr])
        if isinstance(expr, sp.Rational):
            return _Value(self.literal(int(expr.p) / int(expr.q)))
        if isinstance(expr, (sp.Mul, sp.Pow)):
            return self._product(sp.Mul.make_args(expr))
        if isinstance(expr, sp.Add):
            return self._sum(expr.args)
        if isinstance(expr, (sp.Max, sp.Min)):
            return self._extreme(expr)
        if isinstance(expr, (sp.floor, sp.ceiling)):
            return _valued(self._rounded(expr))
        raise DeriveError(f"no rule to compile {quoted(expr)}")

    def _extreme(self, expr: sp.Expr) -> _Value:
        if (quotient := _indicated(expr)) is not None:
            above, below = (self.node(side) for side in sp.fraction(quotient))
            return _valued(self.apply("less_equal", below, above))
        if (ceilings := _from_zero(expr)) is not None:
            return _valued(self._ceiling([self.node(of) for of in ceilings]))
        name = "maximum" if isinstance(expr, sp.Max) else "minimum"
        values = [self._value(arg) for arg in sorted(expr.args, key=IN_ORDER)]
        common = values[0].high
        if common is not None and all(value.high == common for value in values):
            # A block is a product of positive numbers, so it can be taken out.
            values = [_Value(value.scale or self.one, value.low) for value in values]
        else:
            common = None
        found = _valued(self._need(name, [self._applied(value) for value in values]))
        return found if common is None else _Value(found.scale, found.low, common)

    def _ceiling(self, of: Sequence[Node]) -> Node:
        """max(0, ceil(x), ceil(y), ...), which is the ceiling of max(-1/2, x, y, ...)."""
        above = self._need("maximum", [self.literal(-0.5), *of])
        if self.slack and above.level:
            above = self.apply("subtract", above, self.literal(self.slack))
            found = self.apply("ceil", above)
            self._edges.append(self.apply("subtract", found, above))
            return found
        return self.apply("ceil", above)

    def _rounded(self, expr: sp.Expr) -> Node:
        if isinstance(expr, sp.ceiling):
            raise DeriveError(f"no rule to compile {quoted(expr)} outside Max(0, ...)")
        return self.apply("floor", self.node(expr.args[0]))

    def _product(self, factors: Iterable[sp.Expr]) -> _Value:
        above: list[_Value] = []
        below: list[_Value] = []
        for factor in factors:
            base, power = factor.as_base_exp()
            if not isinstance(power, sp.Integer):
                raise DeriveError(f"no rule to compile the power {quoted(factor)}")
            (above if power > 0 else below).extend([self._value(base)] * abs(int(power)))
        scale = self._chain("multiply", [f.scale for f in above if f.scale])
        if under := [f.scale for f in below if f.scale]:
            scale = self.apply("divide", scale or self.one, self._need("multiply", under))
        low = self._chain("multiply", [f.low for f in above if f.low])
        high = self._chain("multiply", [f.high for f in above if f.high])
        if (under_low := self._chain("multiply", [f.low for f in below if f.low])) is not None:
            if low is None:  # divided at once: n*(1/n) need not be 1, and floors act on quotients
                low, scale = self.apply("divide", scale or self.one, under_low), None
            else:
                low = self.apply("divide", low, under_low)
        if (under_high := self._chain("multiply", [f.high for f in below if f.high])) is not None:
            if high is None:
                coefficient = self._applied(_Value(scale, low))
                return _Value(high=self.apply("divide", coefficient, under_high))
            if high == under_high:
                return _Value(scale, low)
            high = self.apply("divide", high, under_high)
        return _Value(scale, low, high)

    def _sum(self, args: Iterable[sp.Expr]) -> _Value:
        like: dict[Node | None, dict[Node | None, tuple[list[Node], list[Node]]]] = {}
        for term in args:
            negative = term.could_extract_minus_sign()
            value = self._value(-term if negative else term)
            of_high = like.setdefault(value.high, {})
            of_high.setdefault(value.low, ([], []))[negative].append(value.scale or self.one)
        columns = like.pop(None, None)
        if not like:
            assert columns is not None
            return self._column(columns)[0]
        if columns is None and len(like) == 1:
            ((high, lows),) = like.items()
            value, negative = self._column(lows)
            if not negative:
                return _Value(value.scale, value.low, high)
        plus: list[Node] = []
        minus: list[Node] = []
        for high, lows in [*([(None, columns)] if columns else []), *like.items()]:
            value, negative = self._column(lows, signed=True)
            (minus if negative else plus).append(
                self._applied(_Value(value.scale, value.low, high))
            )
        total = self._chain("add", plus) or self.zero
        if minus:
            total = self.apply("subtract", total, self._need("add", minus))
        return _valued(total)

    def _column(
        self, lows: Mapping[Node | None, tuple[list[Node], list[Node]]], signed: bool = False
    ) -> tuple[_Value, bool]:
        """The sum of numbers times columns; where `signed` and every term is taken away, the sum
        without its sign and True."""
        away = signed and all(taken and not added for added, taken in lows.values())
        if len(lows) == 1:
            ((low, (added, taken)),) = lows.items()
            scale = self._need("add", taken) if away else self._difference(added, taken)
            return _Value(None if scale == self.one and low is not None else scale, low), away
        plus: list[Node] = []
        minus: list[Node] = []
        for low, (added, taken) in lows.items():
            negative = bool(taken) and not added
            scale = self._need("add", taken) if negative else self._difference(added, taken)
            node = self._applied(_Value(None if scale == self.one and low else scale, low))
            (minus if negative and not away else plus).append(node)
        total = self._chain("add", plus) or self.zero
        if minus:
            total = self.apply("subtract", total, self._need("add", minus))
        return _valued(total), away

    def _difference(self, added: list[Node], taken: list[Node]) -> Node:
        total = self._chain("add", added)
        if not taken:
            return total or self.zero
        return self.apply("subtract", total or self.zero, self._need("add", taken))

    def _chain(self, name: str, nodes: Iterable[Node]) -> Node | None:
        """The nodes joined by an operation, numbers first, then columns, then blocks; but a pair
        that is joined elsewhere before all others."""
        left = sorted(nodes, key=lambda n: n.level)
        while len(left) > 1:
            made = (pair for pair in combinations(left, 2) if _key(name, pair) in self.known)
            first, second = next(made, left[:2])
            left.remove(second)
            left[left.index(first)] = self.apply(name, first, second)
        return left[0] if left else None

    def _need(self, name: str, nodes: Sequence[Node]) -> Node:
        found = self._chain(name, nodes)
        assert found is not None
        return found

    def apply(self, name: str, *of: Node) -> Node:
        """The node of an operation, made once."""
        key = _key(name, of)
        if key not in self.known:
            self.known[key] = Node(len(self.made), max(node.level for node in of))
            self.made.append(Operation(name, of))
        return self.known[key]

    def edge(self) -> Node:
        """How far the nearest ceiling of each plan is from a step."""
        return self._chain("minimum", dict.fromkeys(self._edges)) or self.one


def _key(name: str, of: tuple[Node, ...]) -> tuple[object, ...]:
    return (name, tuple(sorted(n.place for n in of)) if name in COMMUTES else of)


def _valued(node: Node) -> _Value:
    return _Value(**{("scale", "low", "high")[node.level]: node})


def _indicated(expr: sp.Expr) -> sp.Expr | None:
    """x where the expression is min(1, floor(x)), which is 1 from x = 1 on and 0 below."""
    if isinstance(expr, sp.Min) and len(expr.args) == 2 and sp.S.One in expr.args:
        (other,) = set(expr.args) - {sp.S.One}
        if isinstance(other, sp.floor):
            return other.args[0]
    return None


def _from_zero(expr: sp.Expr) -> list[sp.Expr] | None:
    """x, y, ... where the expression is max(0, ceil(x), ceil(y), ...)."""
    others = [arg for arg in expr.args if arg is not sp.S.Zero]
    if not isinstance(expr, sp.Max) or len(others) != len(expr.args) - 1:
        return None
    if not all(isinstance(arg, sp.ceiling) for arg in others):
        return None
    return sorted((arg.args[0] for arg in others), key=IN_ORDER)
