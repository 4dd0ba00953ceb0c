"""Expressions as operations in NumPy's terms: each once, constants apart, small arrays first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import sympy as sp

from derive.notation import symbols as v
from derive.notation.errors import DeriveError, quoted


@dataclass(frozen=True)
class Node:
    """A value in the making: source text if scalar or bare, else the index of an operation.

    Its level is 0 for a number, 1 for what depends on degrees, 2 for what depends on the
    micro-batch as well: in a block of degrees by micro-batches level 1 is a column.
    """

    text: str
    level: int
    index: int = -1


@dataclass(frozen=True)
class _Value:
    """The product of a number, a column and a block, each left out where it is 1. They are
    multiplied only where they have to be, the small ones first."""

    scale: Node | None = None
    low: Node | None = None
    high: Node | None = None


ONE = Node("1.0", 0)
ZERO = Node("0.0", 0)


class Writer:
    """Collects operations, each distinct one once."""

    def __init__(self, axes: Sequence[sp.Symbol], definitions: Mapping[sp.Symbol, sp.Expr]) -> None:
        self.axes = {axis: 2 if axis == v.b_seq else 1 for axis in axes}
        self.definitions = definitions
        self.scalars: dict[str, str] = {}
        self.operations: list[tuple[str, tuple[Node, ...]]] = []
        self.known: dict[object, Node] = {}
        self.values: dict[sp.Expr, _Value] = {}
        self.constants: dict[sp.Symbol, None] = {}
        self.ceilings: list[Node] = []

    def node(self, expr: sp.Expr) -> Node:
        """The value of an expression, multiplied out."""
        return self._applied(self._value(expr))

    def _applied(self, value: _Value) -> Node:
        factors = [f for f in (value.low, value.scale) if f is not None]
        if value.high is not None and factors != [ONE]:
            factors.append(value.high)
        elif value.high is not None:
            return value.high
        return self._chain("*", factors) or ONE

    def _value(self, expr: sp.Expr) -> _Value:
        if expr not in self.values:
            self.values[expr] = self._made(expr)
        return self.values[expr]

    def _made(self, expr: sp.Expr) -> _Value:
        if isinstance(expr, sp.Symbol):
            v.meaning(expr)
            if expr in self.axes:
                return _valued(Node(expr.name, self.axes[expr]))
            if expr in self.definitions:
                return self._value(self.definitions[expr])
            self.constants[expr] = None
            return _Value(Node(expr.name, 0))
        if isinstance(expr, sp.Rational):
            return _Value(Node(repr(int(expr.p) / int(expr.q)), 0))
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
            return _valued(self.apply("({1} <= {0})", above, below))
        wide, narrow = ("maximum", "max") if isinstance(expr, sp.Max) else ("minimum", "min")
        values = [self._value(arg) for arg in sorted(expr.args, key=str)]
        common = values[0].high
        if common is not None and all(value.high == common for value in values):
            # A block is a product of positive numbers, so it can be taken out.
            values = [_Value(value.scale or ONE, value.low) for value in values]
        else:
            common = None
        found = _valued(self._folded(wide, narrow, [self._applied(value) for value in values]))
        return found if common is None else _Value(found.scale, found.low, common)

    def _rounded(self, expr: sp.Expr) -> Node:
        of = self.node(expr.args[0])
        name = "floor" if isinstance(expr, sp.floor) else "ceil"
        if of.level == 0:
            return self.apply(f"float(math_{name}({{0}}))", of)
        if name == "ceil":
            self.ceilings.append(of)
        return self.apply(f"{name}({{0}})", of)

    def _product(self, factors: Iterable[sp.Expr]) -> _Value:
        above: list[_Value] = []
        below: list[_Value] = []
        for factor in factors:
            base, power = factor.as_base_exp()
            if not isinstance(power, sp.Integer):
                raise DeriveError(f"no rule to compile the power {quoted(factor)}")
            (above if power > 0 else below).extend([self._value(base)] * abs(int(power)))
        scale = self._chain("*", [f.scale for f in above if f.scale])
        if under := [f.scale for f in below if f.scale]:
            scale = self.apply("{0} / {1}", scale or ONE, self._need("*", under))
        low = self._chain("*", [f.low for f in above if f.low])
        high = self._chain("*", [f.high for f in above if f.high])
        if (under_low := self._chain("*", [f.low for f in below if f.low])) is not None:
            if low is None:  # divided at once: n*(1/n) need not be 1, and floors act on quotients
                low, scale = self.apply("{0} / {1}", scale or ONE, under_low), None
            else:
                low = self.apply("{0} / {1}", low, under_low)
        if (under_high := self._chain("*", [f.high for f in below if f.high])) is not None:
            if high is None:
                coefficient = self._applied(_Value(scale, low))
                return _Value(high=self.apply("{0} / {1}", coefficient, under_high))
            if high == under_high:
                return _Value(scale, low)
            high = self.apply("{0} / {1}", high, under_high)
        return _Value(scale, low, high)

    def _sum(self, args: Iterable[sp.Expr]) -> _Value:
        like: dict[Node | None, dict[Node | None, tuple[list[Node], list[Node]]]] = {}
        for term in args:
            negative = term.could_extract_minus_sign()
            value = self._value(-term if negative else term)
            of_high = like.setdefault(value.high, {})
            of_high.setdefault(value.low, ([], []))[negative].append(value.scale or ONE)
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
        total = self._chain("+", plus) or ZERO
        if minus:
            total = self.apply("{0} - {1}", total, self._need("+", minus))
        return _valued(total)

    def _column(
        self, lows: Mapping[Node | None, tuple[list[Node], list[Node]]], signed: bool = False
    ) -> tuple[_Value, bool]:
        """The sum of numbers times columns; where `signed` and every term is taken away, the sum
        without its sign and True."""
        away = signed and all(taken and not added for added, taken in lows.values())
        if len(lows) == 1:
            ((low, (added, taken)),) = lows.items()
            scale = self._need("+", taken) if away else self._difference(added, taken)
            return _Value(None if scale == ONE and low is not None else scale, low), away
        plus: list[Node] = []
        minus: list[Node] = []
        for low, (added, taken) in lows.items():
            negative = bool(taken) and not added
            scale = self._need("+", taken) if negative else self._difference(added, taken)
            node = self._applied(_Value(None if scale == ONE and low else scale, low))
            (minus if negative and not away else plus).append(node)
        total = self._chain("+", plus) or ZERO
        if minus:
            total = self.apply("{0} - {1}", total, self._need("+", minus))
        return _valued(total), away

    def _difference(self, added: list[Node], taken: list[Node]) -> Node:
        total = self._chain("+", added)
        if not taken:
            return total or ZERO
        return self.apply("{0} - {1}", total or ZERO, self._need("+", taken))

    def _chain(self, sign: str, nodes: Iterable[Node]) -> Node | None:
        """The nodes joined by an operation, numbers first, then columns, then blocks."""
        total: Node | None = None
        for node in sorted(nodes, key=lambda n: n.level):
            total = node if total is None else self.apply(f"{{0}} {sign} {{1}}", total, node)
        return total

    def _need(self, sign: str, nodes: Sequence[Node]) -> Node:
        found = self._chain(sign, nodes)
        assert found is not None
        return found

    def _folded(self, wide: str, narrow: str, nodes: Iterable[Node]) -> Node:
        first, *others = sorted(nodes, key=lambda n: n.level)
        for node in others:
            form = wide if node.level else narrow
            first = self.apply(f"{form}({{0}}, {{1}})", first, node)
        return first

    def apply(self, form: str, *of: Node) -> Node:
        """The node of an operation, made once; on scalars alone it goes to `prepare`."""
        level = max(node.level for node in of)
        if level == 0:
            text = form.format(*(node.text for node in of))
            name = self.scalars.setdefault(text, f"k{len(self.scalars)}")
            return Node(name, 0)
        key = (form, *((n.text, n.index) for n in of))
        if key not in self.known:
            self.operations.append((form, of))
            self.known[key] = Node("", level, len(self.operations) - 1)
        return self.known[key]

    def edge(self) -> Node:
        """How far the nearest ceiling of each plan is from a step, where it is above zero."""
        distances = []
        for of in dict.fromkeys(self.ceilings):
            above = self.apply("maximum({0}, -0.5)", of)
            distances.append(
                self.apply("absolute({0} - {1})", above, self.apply("rint({0})", above))
            )
        if not distances:
            return ONE
        return self._folded("minimum", "min", distances)

    def lines(self, targets: Sequence[Node]) -> tuple[list[str], str]:
        """Assignments for what is used more than once, and the tuple of the targets."""
        uses = [0] * len(self.operations)
        needed = {n.index for n in targets if n.index >= 0}
        stack = list(needed)
        while stack:
            for node in self.operations[stack.pop()][1]:
                if node.index >= 0:
                    uses[node.index] += 1
                    if node.index not in needed:
                        needed.add(node.index)
                        stack.append(node.index)
        texts: dict[int, str] = {}
        lines = []

        def text(node: Node) -> str:
            return node.text if node.index < 0 else texts[node.index]

        for index in sorted(needed):
            form, of = self.operations[index]
            call = form.format(*(text(node) for node in of))
            if uses[index] > 1:
                lines.append(f"v{index} = {call}")
                texts[index] = f"v{index}"
            else:
                texts[index] = f"({call})"
        return lines, ", ".join(text(node) for node in targets)


def _valued(node: Node) -> _Value:
    return _Value(**{("scale", "low", "high")[node.level]: node})


def _indicated(expr: sp.Expr) -> sp.Expr | None:
    """x where the expression is min(1, floor(x)), which is 1 from x = 1 on and 0 below."""
    if isinstance(expr, sp.Min) and len(expr.args) == 2 and sp.S.One in expr.args:
        (other,) = set(expr.args) - {sp.S.One}
        if isinstance(other, sp.floor):
            return other.args[0]
    return None
