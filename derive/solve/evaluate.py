"""Expressions as one Python function, the same for exact fractions, floats and arrays of float64.

What depends on fewer axes is computed once, at its own size: the factors of a product and the terms
of a sum are joined by the axes that they depend on, numbers first, then columns, then blocks; NumPy
broadcasts the rest. The product grid of `evaluate` is walked in blocks that stay in cache.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cmp_to_key, lru_cache, partial, reduce
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import sympy as sp

from derive.notation import symbols as v
from derive.notation.digits import fraction
from derive.notation.errors import DeriveError, quoted, too_large, written
from derive.solve.values import typed_values, value_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Arithmetic = Mapping[str, Any]  # the number one and, by name, what an expression calls

FLOAT64_BITS = 1023  # of a whole number that is in its range
BLOCK = 1 << 15  # elements; a few float64 temporaries of this size fit a 2 MB cache
LONGEST = 100  # characters: what is longer has a line of its own, so that no line nests deep
IN_ORDER = cmp_to_key(sp.Basic.compare)  # the same under every hash seed, unlike args of a Max
FUNCTIONS: Mapping[type, str] = {
    sp.Max: "max", sp.Min: "min", sp.floor: "floor", sp.ceiling: "ceil",
    sp.Mod: "mod", sp.exp: "exp", sp.log: "log", sp.Pow: "power",
}  # fmt: skip


def _inexact(name: str, *values: Fraction) -> NoReturn:
    raise DeriveError(f"no exact value of a {name}")


EXACT: Arithmetic = {
    "one": Fraction(1), "max": max, "min": min, "mod": operator.mod,
    "floor": lambda x: Fraction(math.floor(x)), "ceil": lambda x: Fraction(math.ceil(x)),
    **{name: partial(_inexact, name) for name in ("exp", "log", "power")},
}  # fmt: skip

SYMBOLIC: Arithmetic = {"one": sp.S.One, **{name: kind for kind, name in FUNCTIONS.items()}}


@lru_cache(maxsize=1)
def floats() -> Arithmetic:
    """The arithmetic of NumPy's float64, single numbers and arrays; infinity where it overflows."""
    import numpy as np

    alike = {name: getattr(np, name) for name in ("floor", "ceil", "mod", "exp", "log", "power")}
    return {"one": np.float64(1), "max": np.maximum, "min": np.minimum, **alike}


@dataclass(frozen=True, repr=False)
class Compiled:
    """Targets as one function of an arithmetic and of the values of `arguments`."""

    arguments: tuple[sp.Symbol, ...]
    body: Callable[..., tuple[Any, ...]]

    def __call__(self, arithmetic: Arithmetic, values: Mapping[sp.Symbol, Any]) -> tuple[Any, ...]:
        """The targets; raises DeriveError for a symbol without a value, and for what has none under
        the arithmetic: no root is exact."""
        if missing := [s.name for s in self.arguments if s not in values]:
            raise DeriveError(f"no value for {', '.join(missing)}")
        tools = (arithmetic[name] for name in EXACT)
        return self.body((*tools, *(values[s] for s in self.arguments)))


def exactly(expr: sp.Expr, values: Mapping[sp.Symbol, Fraction]) -> Fraction:
    """The value of an expression as a fraction; raises DeriveError as `Compiled` does."""
    (value,) = compiled((expr,))(EXACT, values)
    return Fraction(value)


def computed(expr: sp.Expr, values: Mapping[sp.Symbol, sp.Expr]) -> sp.Expr:
    """The value of an expression as SymPy has it, roots too; raises DeriveError as `Compiled`."""
    (value,) = compiled((expr,))(SYMBOLIC, values)
    return value


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
    extents = {s: 1 << place for place, group in enumerate(reversed(axes)) for s in group}
    page = _Page(dict(definitions), extents)
    results = tuple(sp.Dummy(page.part(target).text) for target in targets)
    arguments = tuple(sorted(page.arguments, key=v.rank))
    # lambdify makes the function: a symbol stands for names, a dummy for what is written.
    names = ", ".join([*(f"_{name}" for name in EXACT), *(s.name for s in arguments)])
    given = sp.Symbol("_given")  # one argument that is taken apart, since lambdify sorts them all
    body = sp.lambdify(
        (given,),
        results,
        modules=[{}],
        printer=lambda symbol: symbol.name,
        cse=lambda results: ([(sp.Symbol(names), given), *page.lines], results),
        docstring_limit=0,
    )
    return Compiled(arguments, body)


class _Part(NamedTuple):
    """Source text, and of which axes its value has the extent, as bits."""

    text: str
    extent: int


@dataclass
class _Page:
    """Expressions as source text, each distinct one written once, with lines for what is long."""

    definitions: Mapping[sp.Symbol, sp.Expr]
    extents: Mapping[sp.Symbol, int]
    arguments: list[sp.Symbol] = field(default_factory=list)
    parts: dict[sp.Expr, _Part] = field(default_factory=dict)
    lines: list[tuple[sp.Symbol, sp.Dummy]] = field(default_factory=list)

    def line(self, name: str, part: _Part) -> _Part:
        """A line that gives a part a name."""
        self.lines.append((sp.Symbol(name), sp.Dummy(part.text)))
        return _Part(name, part.extent)

    def part(self, expr: sp.Expr) -> _Part:
        """An expression as source text."""
        if expr not in self.parts:
            part = self._part(expr)
            long = len(part.text) > LONGEST
            self.parts[expr] = self.line(f"_{len(self.lines)}", part) if long else part
        return self.parts[expr]

    def _part(self, expr: sp.Expr) -> _Part:
        if isinstance(expr, (sp.Rational, sp.Float)):
            value = sp.Rational(expr)
            return _Part(f"(_one * {value.p}{f' / {value.q}' if value.q > 1 else ''})", 0)
        if isinstance(expr, sp.Symbol) and expr in self.definitions:
            meant = self.definitions[expr]
            self.parts[meant] = self.line(expr.name, self.part(meant))
            return self.parts[meant]
        if isinstance(expr, sp.Symbol):
            v.meaning(expr)
            self.arguments.append(expr)
            return _Part(expr.name, self.extents.get(expr, 0))
        if isinstance(expr, sp.Add):
            taken = [arg for arg in expr.args if arg.as_coeff_Mul()[0].is_negative]
            above = [self.part(arg) for arg in expr.args if arg not in taken]
            return _joined("+-", above, [self.part(-arg) for arg in taken])
        whole = isinstance(expr, sp.Pow) and expr.exp.is_Integer
        if whole and expr.exp > 0:
            base = self.part(expr.base)
            return base._replace(text=f"{base.text}**{expr.exp}")
        if whole or isinstance(expr, sp.Mul):
            factors = (filter(sp.S.One.__ne__, sp.Mul.make_args(x)) for x in sp.fraction(expr))
            return _joined("*/", *([self.part(x) for x in side] for side in factors))
        if (function := FUNCTIONS.get(type(expr))) is None:
            raise DeriveError(f"no rule for the value of {quoted(expr)}")
        if isinstance(expr, (sp.Max, sp.Min)):
            return self._extreme(function, sorted(expr.args, key=IN_ORDER))
        rounded = isinstance(expr, (sp.floor, sp.ceiling))
        return _call(function, map(self._share if rounded else self.part, expr.args))

    def _share(self, rounded: sp.Expr) -> _Part:
        """What a floor or a ceiling acts on, divided once: n*(1/n) need not be 1."""
        above, below = map(self.part, sp.fraction(rounded))
        if sp.fraction(rounded)[1] == 1:
            return above
        return _Part(f"({above.text} / {below.text})", above.extent | below.extent)

    def _extreme(self, function: str, args: Sequence[sp.Expr]) -> _Part:
        """The extreme of two at a time, the smaller arrays first."""
        steps = [arg.args[0] for arg in args if isinstance(arg, sp.ceiling)]
        # max(0, ceil(x), ceil(y)) is the ceiling of max(-1/2, x, y).
        joint = function == "max" and sp.S.Zero in args and len(steps) == len(args) - 1
        parts = [self.part(-sp.S.Half), *map(self._share, steps)] if joint else map(self.part, args)
        ordered = sorted(parts, key=lambda part: part.extent)
        chosen = reduce(lambda x, y: _call(function, [x, y]), ordered)
        return _call("ceil", [chosen]) if joint else chosen


def _call(function: str, parts: Iterable[_Part]) -> _Part:
    texts, extents = zip(*parts, strict=True)
    return _Part(f"_{function}({', '.join(texts)})", reduce(operator.or_, extents))


def _joined(signs: str, above: Sequence[_Part], below: Sequence[_Part]) -> _Part:
    """Some parts without others, the signs "+-", or over others, "*/": those of one extent
    together, then with those of the next larger."""
    plus, minus = f" {signs[0]} ", f" {signs[1]} "
    lead = min((part.extent for part in above), default=0)  # not 1/x times y, but y/x
    text = "" if above else {"+-": "0", "*/": "_one"}[signs]
    extents = {part.extent for part in (*above, *below)}
    for extent in sorted(extents, key=lambda extent: (extent != lead, extent)):
        sides = ([part.text for part in side if part.extent == extent] for side in (above, below))
        here, away = map(plus.join, sides)
        both = f"{here}{minus}({away})" if here and away else here or away
        text = f"({text}{plus if here else minus}({both}))" if text else f"({both})"
    return _Part(text, reduce(operator.or_, extents))


def evaluate(
    expr: sp.Expr, grid: Mapping[sp.Symbol, Any], given: Mapping[sp.Symbol, object] | None = None
) -> NDArray[np.float64]:
    """`expr` at every point of the product grid of one-dimensional arrays.

    Returns float64 of shape (len(first), len(second), ...) in the order of `grid`. `given` binds
    the remaining symbols to numbers or quantities. Raises DeriveError for what is no expression,
    where a symbol is left without a value or given one that plays no part, or an axis is not
    one-dimensional, finite and positive.
    """
    import numpy as np

    if not isinstance(expr, sp.Expr):
        told = "expected an expression such as alpha*X or threshold(...).closed_form"
        raise DeriveError(f"{told}, found {written(expr)}")
    for one in expr.atoms(sp.Rational, sp.Float):
        if too_large(one, FLOAT64_BITS):
            raise DeriveError(f"expected numbers in the range of float64, found {written(one)}")
    views = {}
    for place, (symbol, values) in enumerate(grid.items()):
        v.meaning(symbol)
        try:
            axis = np.asarray(values)
            for one in axis.flat if axis.dtype == object else ():
                value_of(symbol, one)
            taken = axis.dtype.kind in "iufO" and not hasattr(values, "filled")  # masked
            axis = axis.astype(np.float64) if taken else np.empty((0, 0))
        except (TypeError, ValueError):
            axis = np.empty((0, 0))
        if axis.ndim != 1 or not (np.isfinite(axis) & (axis > 0)).all():
            raise DeriveError(f"{symbol}: expected a one-dimensional array of positive numbers")
        views[symbol] = axis.reshape([-1 if k == place else 1 for k in range(len(grid))])
    typed = typed_values(given or {})
    constants = {s: np.float64(as_float(fraction(x.value))) for s, x in typed.items()}
    function = compiled((expr,), axes=tuple((s,) for s in views))
    for symbol in constants:
        if symbol in views or symbol not in function.arguments:
            told = "has a grid as well" if symbol in views else f"plays no part in {quoted(expr)}"
            raise DeriveError(f"{symbol} {told}; leave it out")
    out = np.empty([view.size for view in views.values()])

    def fill(out: Any, views: Mapping[sp.Symbol, Any], axis: int) -> None:
        """Cut along the first axis into blocks; where a row is too long, along the next within."""
        if out.size <= BLOCK:
            (out[...],) = function(floats(), {**constants, **views})
            return
        step = max(1, BLOCK * out.shape[axis] // out.size)
        for start in range(0, out.shape[axis], step):
            index = (slice(None),) * axis + (slice(start, start + step),)
            part = {s: x[index] if x.shape[axis] > 1 else x for s, x in views.items()}
            fill(out[index], part, axis + 1)

    fill(out, views, 0)
    return out
