"""Units: exponents of FLOP, byte and second, and labels that are printed beside them.

Labels (token, sequence, chip, way, ...) tell apart what has no dimension. They are printed, and a
value in sequences is refused where tokens are meant, but they do not enter the dimensional fold:
the mixed strategy adds 4DF/Y and 4BD/X, so a batch in tokens and a width must share a unit.
Units are read here as people type them, too: "GB/s", "tokens per chip", "FLOP/byte".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod

import sympy as sp

from derive.notation.digits import PREFIXES, SMALL
from derive.notation.errors import UnitError, meant, quoted, unknown

BASES = ("FLOP", "byte", "second")
LABELS = (
    "token", "sequence", "micro-batch", "element", "parameter", "layer", "stage",
    "chip", "way", "slice", "axis", "head", "day", "expert",
)  # fmt: skip
PLURAL_SAME = frozenset({"FLOP"})

Powers = tuple[tuple[str, Fraction], ...]


def _product(left: Powers, right: Powers, order: tuple[str, ...]) -> Powers:
    total = dict(left)
    for name, power in right:
        total[name] = total.get(name, Fraction(0)) + power
    return tuple((name, total[name]) for name in order if total.get(name))


@dataclass(frozen=True, repr=False)
class Unit:
    """A product of powers of the base units, with the labels that are printed with it."""

    powers: Powers = ()
    labels: Powers = ()

    def __mul__(self, other: Unit) -> Unit:
        return Unit(
            _product(self.powers, other.powers, BASES), _product(self.labels, other.labels, LABELS)
        )

    def __truediv__(self, other: Unit) -> Unit:
        return self * other**-1

    def __pow__(self, power: int | Fraction) -> Unit:
        every = (self.powers, self.labels)
        return Unit(*(tuple((n, p * Fraction(power)) for n, p in each if power) for each in every))

    @property
    def dimension(self) -> Unit:
        """The same unit without its labels."""
        return Unit(self.powers)

    def fits(self, other: Unit) -> bool:
        """Whether the dimensions are the same, and the labels where both have some."""
        labels = not self.labels or not other.labels or self.labels == other.labels
        return labels and self.powers == other.powers

    def __str__(self) -> str:
        every = self.powers + self.labels
        above = [_raised(n, p) for n, p in every if p > 0]
        return "/".join([" ".join(above) or "1", *(_raised(n, -p) for n, p in every if p < 0)])

    __repr__ = __str__

    def words(self, *, singular: bool = False) -> str:
        """The unit as it reads in a sentence: "tokens per chip", "FLOP per byte", "" if none.

        `singular` is for a count of exactly one: "1 token per chip".
        """
        every = self.powers + self.labels
        same = LABELS + BASES if singular else PLURAL_SAME
        above = " ".join(_raised(n if n in same else plural(n), p) for n, p in every if p > 0)
        below = [_raised(n, -p) for n, p in every if p < 0]
        return " per ".join([above, *below]).lstrip()


def plural(name: str) -> str:
    """The English plural of a unit or label name."""
    return {"axis": "axes", "micro-batch": "micro-batches"}.get(name, f"{name}s")


def _raised(name: str, power: Fraction) -> str:
    return name if power == 1 else f"{name}^{power}"


def label(name: str) -> Unit:
    """The label `name` as a unit without dimension; raises UnknownName for an undeclared label."""
    if name not in LABELS:
        raise unknown("label", name, LABELS)
    return Unit(labels=((name, Fraction(1)),))


one = Unit()
flop, byte, second = (Unit(((name, Fraction(1)),)) for name in BASES)
token, sequence, chip, way = (label(n) for n in ("token", "sequence", "chip", "way"))
parameter, layer, slice_, axis = (label(n) for n in ("parameter", "layer", "slice", "axis"))
stage, element, micro_batch, day = (label(n) for n in ("stage", "element", "micro-batch", "day"))
WHOLE_UNITS = (token, sequence, micro_batch, chip, layer)  # what there is no part of


def unit_of(expr: sp.Expr, unit_of_symbol: Callable[[sp.Symbol], Unit], where: str = "") -> Unit:
    """The dimension of `expr`, folded through sums, Max, Min, powers, ceiling, floor and log.

    `unit_of_symbol` gives each symbol's unit; `where` names the strategy and term for the message.
    Raises UnitError where terms of different dimension meet, naming both.
    """

    def fold(node: sp.Basic) -> Unit:
        if isinstance(node, sp.Symbol):
            return unit_of_symbol(node).dimension
        if isinstance(node, sp.Mul):
            return prod(map(fold, node.args), start=one)
        if isinstance(node, sp.Pow):
            base, exponent = node.args
            if isinstance(exponent, sp.Rational):
                return fold(base) ** Fraction(int(exponent.p), int(exponent.q))
            _pure(fold(exponent), node, where)
            return _pure(fold(base), node, where)
        if isinstance(node, (sp.Add, sp.Max, sp.Min)):
            return _alike(node, fold, where)
        if isinstance(node, (sp.ceiling, sp.floor, sp.log, sp.exp)):
            return _pure(fold(node.args[0]), node, where)
        if isinstance(node, sp.Basic) and node.is_number:
            return one
        raise UnitError(f"{_place(where)}no unit rule for {quoted(node)}")

    return fold(expr)


@lru_cache(maxsize=2048)  # models that differ in one term share all the others
def expect_unit(
    expr: sp.Expr, expected: Unit, unit_of_symbol: Callable[[sp.Symbol], Unit], where: str
) -> None:
    """Raise UnitError unless `expr` has the dimension of `expected`."""
    dimension = unit_of(expr, unit_of_symbol, where)
    if dimension != expected.dimension:
        raise UnitError(f"{where}: expected {expected.dimension}, found {dimension}, in {expr}")


def _place(where: str) -> str:
    return f"{where}: " if where else ""


def _pure(unit: Unit, node: sp.Basic, where: str) -> Unit:
    if unit.powers:
        raise UnitError(f"{_place(where)}{node} takes a number without unit, found {unit}")
    return one


def _alike(node: sp.Basic, fold: Callable[[sp.Basic], Unit], where: str) -> Unit:
    units = {term: fold(term) for term in node.args}
    if len(set(units.values())) > 1:
        # Sorted by their text so that the message is the same under every hash seed.
        first, *others = sorted(units, key=str)
        other = next(term for term in others if units[term] != units[first])
        told = f"{first} is {units[first]}, {other} is {units[other]}"
        raise UnitError(f"{_place(where)}{type(node).__name__} of unlike terms: {told}")
    return units.popitem()[1]


# --- as people type them

_TYPED: dict[str, Unit] = {
    "FLOP": flop, "FLOPs": flop, "byte": byte, "bytes": byte, "B": byte,
    "second": second, "seconds": second, "s": second,
}  # fmt: skip
_TYPED |= {form: label(name) for name in LABELS for form in (name, plural(name))}
_BITS = re.compile(r"[kMGTPE]?i?(?:b|bps|bits?|bit/s)")
_PER_SECOND = re.compile(r"([kMGTPE]?)(?:FLOPS|flops)")
# What a prefix may stand before: nobody means a kilo-token by "ktoken", but "k tokens" is read.
_LARGE = ("B", "byte", "bytes", "FLOP", "FLOPs")


def typed_unit(text: str) -> tuple[Fraction, Unit]:
    """The unit in `text` and how many of it the prefixes make: (10**9, byte/second) for "GB/s".

    Factors are joined by a space or `*`, divided by `/` or "per", raised by `^`. An empty text is
    the pure number. Raises UnitError for an unknown unit, offering the nearest.
    """
    if len(text) > 100:
        raise UnitError(f"a unit of more than 100 characters: {quoted(text)}")
    scale, unit = Fraction(1), one
    for index, part in enumerate(re.split(r" *(?:/|\bper\b) *", text.strip())):
        if index == 0 and part in ("", "1"):
            continue
        for word in re.split(r"[ *·]+", part):
            factor, factor_unit = _factor(word, text)
            scale = scale / factor if index else scale * factor
            unit = unit / factor_unit if index else unit * factor_unit
    return scale, unit


def base_unit(unit: Unit | str) -> Unit:
    """A unit, also as text: "FLOP/byte"; raises UnitError for a prefix, and as `typed_unit`."""
    scale, named = typed_unit(unit) if isinstance(unit, str) else (1, unit)
    if scale != 1:
        raise UnitError(f"expected a unit without prefix, such as {named}, found {quoted(unit)}")
    return named


def _factor(word: str, text: str) -> tuple[Fraction, Unit]:
    name, _, raised = word.partition("^")
    power = Fraction(int(raised)) if re.fullmatch(r"-?[1-9]", raised) else Fraction(1)
    if raised and power == 1 and raised != "1":
        told = f"expected a whole power in the unit {quoted(text)}"
        raise UnitError(f"{told}, found {quoted(raised)}")
    scale, base = _prefixed(name, text)
    return Fraction(scale ** int(power)), base**power


def _prefixed(name: str, text: str) -> tuple[Fraction, Unit]:
    if name in _TYPED:
        return Fraction(1), _TYPED[name]
    for prefix, scale in PREFIXES.items():
        if name.startswith(prefix) and name[len(prefix) :] in _LARGE:
            return scale, _TYPED[name[len(prefix) :]]
    small = SMALL | {"u": SMALL["µ"]}
    if len(name) == 2 and name[1] == "s" and name[0] in small:
        return small[name[0]], second
    if _BITS.fullmatch(name):
        raise UnitError(f"{quoted(text)} is in bits: divide by 8 and write B, kB, GB, ...")
    if match := _PER_SECOND.fullmatch(name):
        told = f"write {match[1]}FLOP for a count or {match[1]}FLOP/s for a rate"
        raise UnitError(f"{told}: {quoted(text)}")
    hint = meant(name, _TYPED, f"known: {', '.join(BASES + LABELS)}")
    raise UnitError(f"unknown unit {quoted(name)} in {quoted(text)}; {hint}")
