"""A number that knows where it comes from: value, unit, formula, inputs, source and status.

Every number that derive prints is a Quantity. A leaf is read from a source, assumed or given; all
others are made from quantities by a formula, so that the tree of any figure can be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeAlias

import sympy as sp

from derive.notation import digits
from derive.notation.arguments import guarded
from derive.notation.errors import DeriveError, UnitError, written
from derive.notation.printed import shown, shown_tex
from derive.notation.symbols import known, meaning, rank, unit_of_symbol
from derive.notation.text import text
from derive.notation.units import Unit, one, unit_of

Operand: TypeAlias = "Quantity | int | Fraction"
Status = Literal["published", "derived", "provisional", "assumed", "measured", "given"]


def _operation(sign: str) -> tuple[Callable[..., Quantity], Callable[..., Quantity]]:
    """An operator with a quantity on its left, and with one on its right."""

    def combined(left: Quantity, other: Operand) -> Quantity:
        return _combined(left, other, sign)

    def reflected(right: Quantity, other: Operand) -> Quantity:
        return _combined(other, right, sign)

    return guarded(combined), guarded(reflected)


@guarded
@dataclass(frozen=True, repr=False)
class Quantity:
    """An exact number with its unit and its origin.

    `owner` names what it belongs to (a chip, a model), `source` the citation key, `where` the place
    in that source, `basis` what is counted (one-way per link, bidirectional per axis, ...).
    `formula` and `inputs` are set on a derived quantity: each input is the symbol's name and its
    quantity.
    """

    value: sp.Expr
    unit: Unit = one
    name: str = ""
    owner: str = ""
    source: str = ""
    where: str = ""
    basis: str = ""
    status: Status = "derived"
    formula: str = ""
    inputs: tuple[tuple[str, Quantity], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.unit, Unit):
            told = "expected a unit of derive.notation.units, such as token"
            raise DeriveError(f"unit: {told}, found {written(self.unit)}")

    def named(self, name: str, unit: Unit | None = None) -> Quantity:
        """The same quantity under a name, and with a unit of the same dimension where given."""
        if unit is not None and unit.dimension != self.unit.dimension:
            raise UnitError(f"{name}: expected {unit}, found {self.unit}")
        return replace(self, name=name, unit=self.unit if unit is None else unit)

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        name = f"{self.name} = " if self.name else ""
        origin = f" = {self.formula}" if self.formula else ""
        return f"{name}{shown(self.value, self.unit)}{origin}"

    def _repr_latex_(self) -> str:
        name = self.name if self.name.isidentifier() else ""
        entry = known(name)
        left = f"{entry.tex} = " if entry else ""
        return f"$\\displaystyle {left}{shown_tex(self.value, self.unit)}$"

    _op_priority = 20.0  # above SymPy's, which else takes a quantity for a float
    __mul__, __rmul__ = _operation("*")
    __truediv__, __rtruediv__ = _operation("/")
    __add__, __radd__ = _operation("+")
    __sub__, __rsub__ = _operation("-")

    def leaves(self) -> Iterator[Quantity]:
        """The quantities at the bottom of the tree, each once, in the order of the formula."""
        seen: set[Quantity] = set()
        stack = [self]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if not node.inputs:
                yield node
            stack.extend(child for _, child in reversed(node.inputs))


@guarded
def number(
    value: int | str | Fraction | sp.Rational,
    unit: Unit = one,
    name: str = "",
    *,
    source: str = "",
    status: Status = "given",
    owner: str = "",
    basis: str = "",
) -> Quantity:
    """A leaf: a number that an author or a user states. Decimal text is taken exactly."""
    exact = value if isinstance(value, sp.Rational) else _rational(value)
    return Quantity(exact, unit, name, owner, source, basis=basis, status=status)


def _rational(value: int | str | Fraction) -> sp.Rational:
    if isinstance(value, float):
        raise DeriveError(f"floats are inexact: write {value!r} as text or as a fraction")
    fraction = digits.exact(value) if isinstance(value, str) else Fraction(value)
    return sp.Rational(fraction.numerator, fraction.denominator)


@guarded
def evaluated(
    expr: sp.Expr, values: Mapping[sp.Symbol, Quantity], unit: Unit | None = None, name: str = ""
) -> Quantity:
    """The quantity that `expr` gives with each of its symbols bound to a quantity.

    Without `unit`, the unit is the fold of the expression over the bound quantities' units.
    Raises DeriveError naming the symbols left without a value.
    """
    symbols = sorted(expr.free_symbols, key=rank)
    missing = [s for s in symbols if s not in values]
    if missing:
        raise without_value(missing)
    for s in symbols:
        check_label(s, values[s])
    exact = expr.xreplace({s: values[s].value for s in symbols})
    inputs = tuple((s.name, values[s]) for s in symbols)
    folded = _folded(expr) if unit is None else unit
    return Quantity(exact, folded, name, formula=text(expr), inputs=inputs)


def without_value(symbols: Sequence[sp.Symbol], whose: str = "") -> DeriveError:
    """The error for symbols that are left without a value, with how one is given."""
    ways = ", ".join(f"{s.name}=..." for s in symbols)
    return DeriveError(f"{whose}no value for {glossed(symbols)}; set {ways}")


def glossed(symbols: Iterable[sp.Symbol]) -> str:
    """The names of symbols, each with what it stands for: "D (model width), F (...)"."""
    return ", ".join(f"{s.name} ({meaning(s).gloss})" for s in symbols)


def check_label(letter: sp.Symbol, value: Quantity) -> None:
    """Raise UnitError where a value's unit is not the symbol's: sequences for tokens, and so on.

    A pure number is accepted for a symbol that has only labels.
    """
    expected, unit = unit_of_symbol(letter), value.unit
    unlike = unit.labels and unit.labels != expected.labels and expected.labels
    if unit.dimension != expected.dimension or unlike:
        raise UnitError(f"{glossed([letter])}: expected {expected}, found {unit}")


def _folded(expr: sp.Expr) -> Unit:
    """The unit of a product of powers, labels included; of anything else, without labels."""
    if isinstance(expr, (sp.Mul, sp.Pow, sp.Symbol)):
        total = one
        for factor in sp.Mul.make_args(expr):
            base, power = factor.as_base_exp()
            if not isinstance(base, sp.Symbol) or not isinstance(power, sp.Rational):
                break
            total = total * unit_of_symbol(base) ** Fraction(int(power.p), int(power.q))
        else:
            return total
    return unit_of(expr, unit_of_symbol)


def _combined(first: Operand, second: Operand, sign: str) -> Quantity:
    left, other = (
        x if isinstance(x, Quantity) else number(x, name=str(x)) for x in (first, second)
    )
    if sign == "/" and other.value.is_zero:
        raise DeriveError(f"{left.name or 'a quantity'}: a division by zero")
    unlike = left.unit.dimension != other.unit.dimension or (
        left.unit.labels and other.unit.labels and left.unit.labels != other.unit.labels
    )
    if sign in "+-" and unlike:
        raise UnitError(
            f"{left.name} {sign} {other.name}: expected {left.unit}, found {other.unit}"
        )
    value, unit = {
        "*": (left.value * other.value, left.unit * other.unit),
        "/": (left.value / other.value, left.unit / other.unit),
        "+": (left.value + other.value, left.unit),
        "-": (left.value - other.value, left.unit),
    }[sign]
    names = [left.name or "a", other.name or "b"]
    if names[0] == names[1]:
        names = [f"{names[0]}[{left.owner or 1}]", f"{names[1]}[{other.owner or 2}]"]
    inputs = ((names[0], left), (names[1], other))
    return Quantity(value, unit, formula=f"{names[0]} {sign} {names[1]}", inputs=inputs)
