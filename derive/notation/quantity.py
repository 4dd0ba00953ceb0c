"""A number that knows where it comes from: value, unit, formula, inputs, source and status.

Every number that derive prints is a Quantity. A leaf is read from a source, assumed or given; all
others are made from quantities by a formula, so that the tree of any figure can be shown.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any, Literal, TypeAlias, get_args

import sympy as sp

from derive.notation import digits
from derive.notation.errors import (
    TOO_LARGE,
    DeriveError,
    UnitError,
    guarded,
    quoted,
    too_large,
    whole_number,
    written,
)
from derive.notation.printed import Kind, Rounding, printed, printed_tex, reading_rule
from derive.notation.symbols import known, meaning, symbols_of, unit_of_symbol
from derive.notation.text import text
from derive.notation.units import Unit, base_unit, one, typed_unit, unit_of

Operand: TypeAlias = "Quantity | int | Fraction"
Comparison: TypeAlias = Callable[["Quantity", Operand], bool]
Status = Literal["published", "derived", "provisional", "assumed", "measured", "given"]
_TOWARD: dict[str, digits.Toward] = {"": "nearest", "<=": "down", ">=": "up"}
_WAYS = {"status": get_args(Status), "bound": tuple(_TOWARD)}
_TURNED = {"": "", "<=": ">=", ">=": "<="}
_FORMAT = re.compile(r"((?:.?[<^>])?(?:[1-9][0-9]{0,2})?)(,?)(?:(?:\.([0-9]{1,2}))?([defg%]))?s?")
_KINDS: dict[str, Kind] = {
    "d": "integer", "e": "scientific", "f": "decimals", "g": "significant", "%": "percent",
}  # fmt: skip


def _comparison(sign: str, holds: Callable[[Fraction, int], bool]) -> Comparison:
    def compared(left: Quantity, right: Operand) -> bool:
        return holds(digits.fraction(left.value - _alike(left, right, sign).value), 0)

    return compared


def _operation(sign: str) -> tuple[Callable[..., Quantity], Callable[..., Quantity]]:
    """An operator with a quantity on its left, and with one on its right."""

    def combined(left: Quantity, other: Operand) -> Quantity:
        return _combined(left, other, sign)

    def reflected(right: Quantity, other: Operand) -> Quantity:
        if sign == "+" and isinstance(other, int) and other == 0:  # where Python's sum begins
            return right
        return _combined(other, right, sign)

    return guarded(combined), guarded(reflected)


@guarded
@dataclass(frozen=True, repr=False)
class Quantity:
    """An exact number with its unit and its origin.

    `owner` names what it belongs to (a chip, a model), `source` the citation key, `where` the place
    in that source, `basis` what is counted (one-way per link, bidirectional per axis, ...).
    `formula` and `inputs` are set on a derived quantity: each input is the symbol's name and its
    quantity. `bound` is "<=" or ">=" where the value is the most or the least of what is bounded:
    such a number is rounded, wherever it is printed, to the side on which it still is one.

    Quantities are equal where all of this is; `<` and its like compare values alone.
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
    bound: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.unit, Unit):
            told = "expected a unit of derive.notation.units, such as units.token"
            raise DeriveError(f"unit: {told}, found {written(self.unit)}")
        if not isinstance(self.name, str):
            raise DeriveError(f"name: expected text, found {written(self.name)}")
        for field, ways in _WAYS.items():
            if (value := getattr(self, field)) not in ways:
                told = f"expected one of {', '.join(map(repr, ways))}"
                raise DeriveError(f"{field}: {told}, found {written(value)}")

    def named(self, name: str, unit: Unit | str | None = None) -> Quantity:
        """The same quantity under a name, and with a unit of the same dimension where given."""
        other = self.unit if unit is None else base_unit(unit)
        if other.dimension != self.unit.dimension:
            raise UnitError(f"{name}: expected {other}, found {self.unit}")
        return replace(self, name=name, unit=other)

    def rounding(self, rule: Rounding | None = None) -> Rounding:
        """`rule`, or one for a reader; that of a bound rounds to the bound's own side."""
        toward = _TOWARD[self.bound]
        if rule is None:
            return reading_rule(self.value, self.unit, toward=toward)
        return replace(rule, toward=toward) if rule.toward == "nearest" != toward else rule

    def printed(self, rule: Rounding | None = None) -> str:
        """The number with its unit, by a rule or as a reader takes it in; raises as `printed`."""
        return printed(self.value, self.rounding(rule), self.unit)

    def printed_tex(self, rule: Rounding | None = None) -> str:
        """The same as TeX, to stand inside math."""
        return printed_tex(self.value, self.rounding(rule), self.unit)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        """The whole part; of a bound that on its own side, which still is one."""
        return int(self.value if not self.bound else self.__round__().value)

    def __bool__(self) -> bool:
        return not self.value.is_zero

    def __neg__(self) -> Quantity:
        return replace(-1 * self, bound=_TURNED[self.bound])

    def __abs__(self) -> Quantity:
        return -self if self.value < 0 else self

    def __repr__(self) -> str:
        name = f"{self.name} = " if self.name else ""
        origin = f" = {self.formula}" if self.formula else ""
        return f"{name}{self.printed()}{origin}"

    def __format__(self, spec: str) -> str:
        """The number with its unit, by a format of Python's numbers: ",.2f", ".3g", ".1e", ".0%"
        or "d", after a width where there is one; without, as `str`. Raises DeriveError else."""
        asked = _FORMAT.fullmatch(spec)
        if asked is None:
            known = "expected such as .2f, .3g, .1e, .0% or d"
            raise DeriveError(f"format of a quantity: {known}, found {quoted(spec)}")
        aligned, comma, places, kind = asked.groups()
        if not kind:
            return format(self.printed() if comma else str(self), aligned)
        # Python counts the digits of ".2e" after the point, a rule counts all.
        count = 0 if kind == "d" else int(places or 6) + (kind == "e")
        rule = Rounding(_KINDS[kind], count, kind == "g")
        return format(self.printed(rule), aligned)

    def __round__(self, places: int = 0, toward: digits.Toward = "nearest") -> Quantity:
        """The quantity at so many digits after the point, a bound rounded to its own side."""
        places = whole_number("places", places, -100, 100)
        own = _TOWARD[self.bound]
        toward = own if toward == "nearest" else toward
        count = digits.rounded(digits.fraction(self.value), -places, toward)
        value, bound = count * sp.Integer(10) ** -places, self.bound if toward == own else ""
        words, inputs = f"n rounded {toward}".replace("nearest", "to nearest"), (("n", self),)
        return Quantity(value, self.unit, self.name, formula=words, inputs=inputs, bound=bound)

    def __floor__(self) -> Quantity:
        return self.__round__(0, "down")

    def __ceil__(self) -> Quantity:
        return self.__round__(0, "up")

    __lt__, __le__ = _comparison("<", operator.lt), _comparison("<=", operator.le)
    __gt__, __ge__ = _comparison(">", operator.gt), _comparison(">=", operator.ge)

    def _repr_latex_(self) -> str:
        name = self.name if self.name.isidentifier() else ""
        entry = known(name)
        left = f"{entry.tex} = " if entry else ""
        return f"$\\displaystyle {left}{self.printed_tex()}$"

    _op_priority = 20.0  # above SymPy's, which else takes a quantity for a float
    __mul__, __rmul__ = _operation("*")
    __truediv__, __rtruediv__ = _operation("/")
    __add__, __radd__ = _operation("+")
    __sub__, __rsub__ = _operation("-")

    @property
    def plain(self) -> int | float | None:
        """The number as JSON has it: whole where it is, None beyond the range of float64."""
        exact = digits.fraction(self.value)
        try:
            return exact.numerator if exact.denominator == 1 else float(exact)
        except OverflowError:
            return None

    def row(self, symbol: str) -> dict[str, Any]:
        """What JSON says of an input, under the name that a formula has for it."""
        return {
            "symbol": symbol,
            "value": self.plain,
            "unit": str(self.unit),
            "of": self.owner,
            "basis": self.basis,
            "source": self.source,
            "status": self.status,
        }

    def nodes(self) -> Iterator[Quantity]:
        """This quantity and all that it rests on, each once, in the order of the formula."""
        seen: set[int] = set()  # a quantity that stands in several places is one object
        stack = [self]
        while stack:
            node = stack.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                stack.extend(child for _, child in reversed(node.inputs))

    def leaves(self) -> Iterator[Quantity]:
        """The quantities at the bottom of the tree, each once, in the order of the formula."""
        return iter(dict.fromkeys(node for node in self.nodes() if not node.inputs))


@guarded
def number(
    value: object,
    unit: Unit | str = one,
    name: str = "",
    *,
    source: str = "",
    status: Status = "given",
    owner: str = "",
    basis: str = "",
) -> Quantity:
    """A leaf: a number that an author or a user states, as text, or a number of Python, NumPy or
    SymPy. Decimals are taken exactly, floats as the decimals that they print as.

    The unit may be text as facts files have it: number(96, "GB"), number(2, "FLOP/byte"). Raises
    UnitError for a unit that there is not, offering the nearest.
    """
    scale, base = typed_unit(unit) if isinstance(unit, str) else (1, unit)
    exact = sp.Rational(digits.exact(value) * scale)
    return Quantity(exact, base, name, owner, source, basis=basis, status=status)


@guarded
def evaluated(
    expr: sp.Expr,
    values: Mapping[sp.Symbol, Quantity],
    unit: Unit | str | None = None,
    name: str = "",
) -> Quantity:
    """The quantity that `expr` gives with each of its symbols bound to a quantity.

    Without `unit`, which may be text such as "FLOP/byte", the unit is the fold of the expression
    over the bound quantities' units. Raises DeriveError naming the symbols left without a value.
    """
    symbols = symbols_of(expr)
    if missing := [s for s in symbols if s not in values]:
        raise without_value(missing)
    for s in symbols:
        check_label(s, values[s])
    exact = expr.xreplace({s: values[s].value for s in symbols})
    inputs = tuple((s.name, values[s]) for s in symbols)
    folded = _folded(expr) if unit is None else base_unit(unit)
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
    expected = unit_of_symbol(letter)
    if not value.unit.fits(expected):
        raise UnitError(f"{glossed([letter])}: expected {expected}, found {value.unit}")


def _folded(expr: sp.Expr) -> Unit:
    """The unit of a product of powers, labels included; of anything else, without labels."""
    factors = [factor.as_base_exp() for factor in sp.Mul.make_args(expr)]
    if all(base.is_Symbol and power.is_Rational for base, power in factors):
        units = (unit_of_symbol(base) ** digits.fraction(power) for base, power in factors)
        return prod(units, start=one)
    return unit_of(expr, unit_of_symbol)


def _operand(value: Operand) -> Quantity:
    return value if isinstance(value, Quantity) else number(value).named(str(value))


def _alike(left: Quantity, right: Operand, sign: str) -> Quantity:
    """The other side of a sign; raises UnitError where both must have one unit and do not."""
    other = _operand(right)
    if sign not in "*/" and not left.unit.fits(other.unit):
        told = f"expected {left.unit}, found {other.unit}"
        raise UnitError(f"{left.name} {sign} {other.name}: {told}")
    return other


def _combined(first: Operand, second: Operand, sign: str) -> Quantity:
    left = _operand(first)
    other = _alike(left, second, sign)
    if sign == "/" and other.value.is_zero:
        raise DeriveError(f"{left.name or 'a quantity'}: a division by zero")
    either = left.unit if left.unit.labels else other.unit  # a plain number takes the other's
    value, unit = {
        "*": (left.value * other.value, left.unit * other.unit),
        "/": (left.value / other.value, left.unit / other.unit),
        "+": (left.value + other.value, either),
        "-": (left.value - other.value, either),
    }[sign]
    if too_large(value):
        raise DeriveError(f"{left.name or 'a quantity'} {sign} {other.name}: {TOO_LARGE}")
    sides = {left.bound, _TURNED[other.bound] if sign in "-/" else other.bound} - {""}
    over = sign == "/" and other.bound and first is left  # how far from a bound: a ratio, and none
    one_sided = len(sides) == 1 and (sign in "+-" or (left.value > 0 and other.value > 0))
    bound = sides.pop() if one_sided and not over else ""
    names = [left.name or "a", other.name or "b"]
    if names[0] == names[1]:
        names = [f"{names[0]}[{left.owner or 1}]", f"{names[1]}[{other.owner or 2}]"]
    inputs = tuple(zip(names, (left, other), strict=True))
    return Quantity(value, unit, formula=f" {sign} ".join(names), inputs=inputs, bound=bound)
