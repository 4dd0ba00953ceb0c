"""Expressions as one Python function, the same for exact fractions, floats and arrays.

The arithmetic is handed in: max, min, floor, ceil and the number one. What depends on fewer axes is
computed once, at its own size, and broadcasting does the rest: numbers first, then columns (what
depends on no inner axis, the last one), then blocks. So a value is kept as a sum of columns times
products of blocks, and its blocks are multiplied out only where they have to be.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key, lru_cache
from types import MappingProxyType
from typing import Any

import sympy as sp

from derive.notation import symbols as v
from derive.notation.errors import DeriveError, quoted

Arithmetic = Mapping[str, Any]
Block = tuple[tuple[str, int], ...]  # names of blocks, each with its power
Value = dict[Block, str]  # the name of a column for each product of blocks; their sum

EXACT: Arithmetic = MappingProxyType(
    {
        "max": max, "min": min, "one": Fraction(1),
        "floor": lambda x: Fraction(math.floor(x)), "ceil": lambda x: Fraction(math.ceil(x)),
        "mod": lambda x, y: x % y,
    }
)  # fmt: skip
FUNCTIONS: Mapping[type, str] = MappingProxyType(
    {sp.exp: "exp", sp.log: "log", sp.Mod: "mod", sp.Pow: "power"}
)
INNER = 1  # the bit of the last axis; the one before it has the next, and so on
DEEPEST = 40  # of parentheses: Python's parser takes 200
IN_ORDER = cmp_to_key(sp.Basic.compare)  # the same under every hash seed, unlike args of a Max


@lru_cache(maxsize=1)
def floats() -> Arithmetic:
    """The arithmetic of NumPy's float64, single numbers and arrays; infinity where it overflows."""
    import numpy as np

    names = ("floor", "ceil", "mod", "exp", "log", "power")
    functions = {name: getattr(np, name) for name in names}
    return MappingProxyType(
        {**functions, "max": np.maximum, "min": np.minimum, "one": np.float64(1)}
    )


@dataclass(frozen=True, repr=False)
class Compiled:
    """Targets as one function of the values of `arguments`, with functions of an arithmetic;
    `page` is its source, line by line."""

    arguments: tuple[sp.Symbol, ...]
    functions: tuple[str, ...]
    page: str
    body: Callable[..., tuple[Any, ...]]

    def __call__(self, arithmetic: Arithmetic, values: Mapping[sp.Symbol, Any]) -> tuple[Any, ...]:
        """The targets under an arithmetic; raises DeriveError for a symbol without a value, and
        for a function that the arithmetic lacks: no root is exact."""
        if missing := [s.name for s in self.arguments if s not in values]:
            raise DeriveError(f"no value for {', '.join(missing)}")
        if lacking := [name for name in self.functions if name not in arithmetic]:
            raise DeriveError(f"no exact value of a {lacking[0]}")
        tools = [arithmetic[name] for name in self.functions]
        return self.body(*tools, *[values[s] for s in self.arguments])


def exactly(expr: sp.Expr, values: Mapping[sp.Symbol, Fraction]) -> Fraction:
    """The value of an expression as a fraction; raises DeriveError as `Compiled` does."""
    (value,) = compiled((expr,))(EXACT, values)
    return Fraction(value)


def as_float(value: Fraction) -> float:
    """The nearest number of float64, infinity beyond its range."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


@lru_cache(maxsize=512)
def compiled(
    targets: tuple[sp.Expr, ...],
    definitions: tuple[tuple[sp.Symbol, sp.Expr], ...] = (),
    axes: tuple[tuple[sp.Symbol, ...], ...] = (),
) -> Compiled:
    """The function of some expressions, in symbols with `definitions` and symbols with values.

    `axes` are groups of symbols whose arrays lie along one axis, the inner axis last; all other
    symbols are constants. Raises DeriveError for a kind of expression that is not known, and
    UnknownName for a symbol that is not the vocabulary's: no other name becomes source text.
    """
    writer = _Writer(dict(definitions), axes)
    names = [writer.whole(writer.value(target)) for target in targets]
    arguments, functions = tuple(writer.arguments), tuple(sorted(writer.functions))
    # lambdify makes the function: a symbol stands for a line's name, a dummy for what is written.
    lines = [(sp.Symbol(name), sp.Dummy(name)) for name in writer.lines(names)]
    body = sp.lambdify(
        (*(sp.Symbol(f"_{name}") for name in functions), *arguments),
        tuple(sp.Dummy(name) if writer.nested(name) else sp.Symbol(name) for name in names),
        modules=[{}],
        printer=lambda s: writer.written(s.name) if isinstance(s, sp.Dummy) else s.name,
        cse=lambda results: (lines, results),
        docstring_limit=0,
    )
    page = [f"{line} = {writer.written(line.name)}" for line, _ in lines]
    page += [writer.written(name) if writer.nested(name) else name for name in names]
    return Compiled(arguments, functions, "\n".join(page), body)


class _Writer:
    """Writes operations, each distinct one once. A name is a symbol's, or a number after `_`."""

    def __init__(
        self, definitions: Mapping[sp.Symbol, sp.Expr], axes: Sequence[Sequence[sp.Symbol]]
    ) -> None:
        self.definitions = definitions
        self.bit = {s: 1 << k for k, group in enumerate(reversed(axes)) for s in group}
        self.arguments: dict[sp.Symbol, None] = {}
        self.functions: set[str] = set()
        self.values: dict[sp.Expr, Value] = {}
        self.size: dict[str, int] = {}  # of which axes a name's array has the extent, as bits
        self.operations: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.known: dict[tuple[str, tuple[str, ...]], str] = {}
        self.named: dict[str, None] = {}  # what has a line of its own
        self.one = self.literal(sp.S.One)
        self.minus = self.plus([], [self.one])

    # Names.

    def operation(self, form: str, *operands: str) -> str:
        """The name of a form filled with operands; made once."""
        if (form, operands) not in self.known:
            name = f"_{len(self.known)}"
            self.known[form, operands] = name
            self.operations[name] = form, operands
            self.size[name] = 0
            for operand in operands:
                self.size[name] |= self.size[operand]
        return self.known[form, operands]

    def literal(self, value: sp.Rational) -> str:
        """The name of a number."""
        over = "" if value.q == 1 else f" / {value.q}"
        return self.operation(f"{self.function('one')} * {value.p}{over}")

    def function(self, name: str) -> str:
        """What a function of the arithmetic is called on the page."""
        self.functions.add(name)
        return f"_{name}"

    def times(self, names: Iterable[str]) -> str:
        """The product, numbers first, then what is larger."""
        return self._joined(" * ", [name for name in names if name != self.one]) or self.one

    def plus(self, names: Sequence[str], less: Sequence[str] = ()) -> str:
        """The sum of some names without that of others, numbers first, then what is larger."""
        total = self._joined(" + ", names)
        away = self._joined(" + ", less)
        if not away:
            return total or self.literal(sp.S.Zero)
        return self.operation("{} - {}", total, away) if total else self.operation("-{}", away)

    def over(self, above: str, below: str) -> str:
        """A quotient, in one division: a floor may act on it."""
        return above if below == self.one else self.operation("{} / {}", above, below)

    def _power(self, name: str, power: int) -> str:
        return name if power == 1 else self.operation(f"{{}}**{power}", name)

    def _extent(self, name: str) -> tuple[int, int]:
        return self.size[name].bit_count(), self.size[name]

    def _joined(self, sign: str, names: Sequence[str]) -> str:
        """Those of one extent joined, then with the next larger; nothing where there are none."""
        total = ""
        for extent in sorted({self._extent(name) for name in names}):
            alike = sorted(name for name in names if self._extent(name) == extent)
            here = alike[0]
            if len(alike) > 1:
                here = self.operation(sign.join(["{}"] * len(alike)), *alike)
            total = self.operation(f"{{}}{sign}{{}}", total, here) if total else here
        return total

    # Values.

    def value(self, expr: sp.Expr) -> Value:
        """The value of an expression; each distinct one is read once."""
        if expr not in self.values:
            self.values[expr] = self._value(expr)
        return self.values[expr]

    def whole(self, value: Value) -> str:
        """The name of a value, multiplied out and added up."""
        groups: dict[Block, dict[Block, str]] = {}
        for block, column in value.items():
            row = tuple(pair for pair in block if self.size[pair[0]] == INNER)
            groups.setdefault(tuple(p for p in block if p not in row), {})[row] = column
        added: list[str] = []
        taken: list[str] = []
        for rest, columns in groups.items():
            if len(columns) == 1 or not rest:  # a product, or what depends on no block
                added += [self._times(column, (*row, *rest)) for row, column in columns.items()]
            else:
                factor = self.plus([self._times(c, row) for row, c in columns.items()])
                added.append(self._times(factor, rest))
            if rest and len(columns) == 1 and columns == {(): self.minus}:
                taken.append(self._times(self.one, rest))
                added.pop()
        return self.plus(added, taken)

    def _times(self, column: str, block: Block) -> str:
        """A column times a product of blocks, those above the line and those below joined first."""
        above = self.times([self._power(name, k) for name, k in block if k > 0])
        under = [self._power(name, -k) for name, k in block if k < 0]
        form, operands = self.operations.get(column, ("", ()))
        if form == "{} / {}" and operands[0] == self.one:  # one division rather than two roundings
            column, under = self.one, [operands[1], *under]
        return self.over(self.times([column, above]), self.times(under))

    def _named(self, name: str) -> Value:
        """The value of a name: a block by itself where it depends on the inner axis."""
        return {((name, 1),): self.one} if self.size[name] & INNER else {(): name}

    def _value(self, expr: sp.Expr) -> Value:
        if isinstance(expr, sp.Symbol):
            if expr in self.definitions:
                return self.value(self.definitions[expr])
            v.meaning(expr)
            self.arguments[expr] = None
            self.size[expr.name] = self.bit.get(expr, 0)
            return self._named(expr.name)
        if isinstance(expr, (sp.Rational, sp.Float)):
            return {(): self.literal(sp.Rational(expr))}
        if isinstance(expr, sp.Add):
            return self._sum(expr.args)
        if isinstance(expr, sp.Mul) or _is_power(expr):
            return self._product(sp.Mul.make_args(expr))
        if isinstance(expr, (sp.floor, sp.ceiling)):
            return self._call(
                "floor" if isinstance(expr, sp.floor) else "ceil", [self._share(expr)]
            )
        if isinstance(expr, (sp.Max, sp.Min)):
            return self._extreme(expr, "max" if isinstance(expr, sp.Max) else "min")
        if (function := FUNCTIONS.get(type(expr))) is not None:
            return self._call(function, [self.whole(self.value(arg)) for arg in expr.args])
        raise DeriveError(f"no rule for the value of {quoted(expr)}")

    def _call(self, function: str, names: Sequence[str]) -> Value:
        form = f"{self.function(function)}({', '.join(['{}'] * len(names))})"
        return self._named(self.operation(form, *names))

    def _share(self, rounded: sp.Expr) -> str:
        """What a floor or a ceiling acts on, divided once: n*(1/n) need not be 1."""
        sides: tuple[list[sp.Expr], list[sp.Expr]] = ([], [])
        for factor in sp.Mul.make_args(rounded.args[0]):
            if isinstance(factor, sp.Rational):
                sides[0].append(sp.Integer(factor.p))
                sides[1].append(sp.Integer(factor.q))
            else:
                below = isinstance(factor, sp.Pow) and factor.exp.is_negative
                sides[bool(below)].append(1 / factor if below else factor)
        return self.over(*(self.whole(self._product(side)) for side in sides))

    def _extreme(self, expr: sp.Expr, function: str) -> Value:
        args = sorted(expr.args, key=IN_ORDER)
        steps = [arg for arg in args if isinstance(arg, sp.ceiling)]
        if function == "max" and steps and [a for a in args if a not in steps] == [sp.S.Zero]:
            # max(0, ceil(x), ceil(y)) is the ceiling of max(-1/2, x, y).
            shares = [self.literal(-sp.S.Half), *map(self._share, steps)]
            return self._call("ceil", [self._chosen("max", shares)])
        values = [self.value(arg) for arg in args]
        # What all are multiples of can be taken out where it is positive, as symbols are.
        blocks = [set(block) for value in values for block in value]
        common = {pair for pair in set.intersection(*blocks) if not pair[0].startswith("_")}
        inside = [
            {tuple(pair for pair in block if pair not in common): c for block, c in value.items()}
            for value in values
        ]
        chosen = self._chosen(function, [self.whole(value) for value in inside])
        return self._scaled(self._named(chosen), dict(common), [], [])

    def _chosen(self, function: str, names: Iterable[str]) -> str:
        """The extreme of some names, taken of two at a time, the smaller arrays first."""
        first, *others = sorted(dict.fromkeys(names), key=self._extent)
        for name in others:
            first = self.operation(f"{self.function(function)}({{}}, {{}})", first, name)
        return first

    def _sum(self, args: Iterable[sp.Expr]) -> Value:
        like: dict[Block, tuple[list[str], list[str]]] = {}
        for arg in args:
            negative = arg.could_extract_minus_sign()
            for block, column in self.value(-arg if negative else arg).items():
                like.setdefault(block, ([], []))[negative].append(column)
        return {block: self.plus(*columns) for block, columns in like.items()}

    def _product(self, factors: Iterable[sp.Expr]) -> Value:
        sides: tuple[list[str], list[str]] = ([], [])
        powers: dict[str, int] = {}
        several: Value = {}
        for factor in factors:
            base, power = (factor.base, int(factor.exp)) if _is_power(factor) else (factor, 1)
            value = self.value(base)
            if len(value) > 1 and power == 1 and not several:
                several = value
                continue
            if len(value) > 1:
                value = self._named(self.whole(value))
            ((block, column),) = value.items()
            sides[power < 0].append(self._power(column, abs(power)))
            for name, times in block:
                powers[name] = powers.get(name, 0) + times * power
        return self._scaled(several or {(): self.one}, powers, *sides)

    def _scaled(
        self, value: Value, powers: Mapping[str, int], above: list[str], below: list[str]
    ) -> Value:
        """A value times powers of blocks and columns, over other columns."""
        scaled: Value = {}
        for block, column in value.items():
            every = dict(block)
            for name, power in powers.items():
                every[name] = every.get(name, 0) + power
            kept = tuple(sorted(pair for pair in every.items() if pair[1]))
            scaled[kept] = self.over(self.times([column, *above]), self.times(below))
        return scaled

    # The page.

    def lines(self, targets: Sequence[str]) -> list[str]:
        """The operations that get a line of their own, in order: those that the targets need more
        than once, or that would nest too deep."""
        uses = Counter(targets)
        for name, (_, operands) in reversed(self.operations.items()):
            if uses[name]:
                uses.update(operands)
        deep: Counter[str] = Counter()
        for name, (_, operands) in self.operations.items():
            depth = 1 + max((deep[operand] for operand in operands), default=0)
            if uses[name] == 1 and depth < DEEPEST:
                deep[name] = depth
            elif uses[name]:
                self.named[name] = None
        return list(self.named)

    def nested(self, name: str) -> bool:
        """Whether an operation is written inside what uses it."""
        return name in self.operations and name not in self.named

    def written(self, name: str) -> str:
        """An operation as source text."""
        form, operands = self.operations[name]
        return form.format(*(f"({self.written(o)})" if self.nested(o) else o for o in operands))


def _is_power(expr: sp.Expr) -> bool:
    """Whether an expression is a whole power."""
    return isinstance(expr, sp.Pow) and isinstance(expr.exp, sp.Integer)
