"""The figures of a chapter: named values with the rule that prints or checks each."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeAlias

import sympy as sp

from derive.book import claims
from derive.book.literals import literal, unhedged
from derive.book.marks import checked
from derive.notation.digits import fraction
from derive.notation.errors import DeriveError, UnitError, quoted, unknown
from derive.notation.printed import NO_BREAK, Rounding, printed, shown
from derive.notation.quantity import Quantity, number

RELATIONS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
Kind: TypeAlias = Literal["shown", "claim", "require", "given"]
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_SIDES = {"": "", "<=": "floor", ">=": "ceil"}


def quantity_of(value: object, name: str = "") -> Quantity:
    """A quantity, the quantity of an answer, or a plain number as a quantity that is given.

    Raises DeriveError for anything else, floats among it.
    """
    if isinstance(value, Quantity):
        return value
    if isinstance(value, (int, str, Fraction, sp.Rational)) and not isinstance(value, bool):
        return number(value, name=name)
    if isinstance(quantity := getattr(value, "quantity", None), Quantity):
        if idle := [note for note in getattr(value, "notes", ()) if "plays no part" in note]:
            raise DeriveError(f"{name}: {idle[0]}; leave it out")
        return quantity
    hint = "; .on(...) gives its number" if hasattr(value, "on") else ""
    raise DeriveError(
        f"{name}: expected a quantity, an answer or an exact number, "
        f"found the {type(value).__name__} {quoted(value)}{hint}"
    )


@dataclass(frozen=True)
class Relation:
    """Two quantities and the relation that must hold between them."""

    left: Quantity
    sign: str
    right: Quantity

    @property
    def holds(self) -> bool:
        return bool(RELATIONS[self.sign](fraction(self.left.value - self.right.value), 0))

    def __str__(self) -> str:
        left, right = (q.printed() for q in (self.left, self.right))
        if left == right and self.left.value != self.right.value:
            left, right = (shown(q.value, q.unit, 12) for q in (self.left, self.right))
        return f"{left} {self.sign} {right}"


@dataclass(frozen=True)
class Figure:
    """A figure of a chapter.

    `rule` prints a shown figure; `check` names the rule of a claim; `relation` is what a
    requirement demands, or `stated` its truth where it is no comparison, with `because` to say why.
    `unit` replaces the words of the quantity's own unit. `cite` are keys of sources.
    `place` are the words of the row and the column of a number in a table, or of the whole label.
    """

    name: str
    kind: Kind
    quantity: Quantity | None
    rule: Rounding | None = None
    check: str = ""
    unit: str | None = None
    relation: Relation | None = None
    stated: bool = True
    because: str = ""
    cite: tuple[str, ...] = ()
    place: tuple[str, ...] = ()

    def text(self, *, unit: bool = True) -> tuple[str, str]:
        """A shown figure as printed, and the part of it that is the unit.

        Raises DeriveError for a figure of another kind or a number that the rule cannot write.
        """
        if self.rule is None or self.quantity is None:
            raise DeriveError(f"{self.name} is no shown figure")
        return number_text(self.quantity, self.rule, self.unit if unit else "")

    def holds(self, words: str = "") -> bool:
        """Whether the author's words are true of a claim or a given, or a requirement holds.

        Raises DeriveError for words without a number, or with one that the rule does not take.
        """
        if self.kind in ("claim", "given") and self.quantity is not None:
            return claims.holds(self._rule(words), words, self.quantity.value)
        return self.relation.holds if self.relation is not None else self.stated

    def clash(self, words: str) -> str:
        """The unit that the words name and that the quantity does not have: "sequences", or ""."""
        if self.quantity is None or self.kind == "require":
            return ""
        return claims.clash(literal(words), self.quantity.unit)

    def restated(self, words: str) -> str:
        """What the author's words would have to say; of a requirement what holds in its place."""
        if self.kind == "require":
            if self.relation is None:
                return f"untrue: {self.because}"
            return str(replace(self.relation, sign=_NEGATED[self.relation.sign]))
        if self.quantity is None:
            return ""
        return claims.restated(self._rule(words), words, self.quantity.value)

    def _rule(self, words: str) -> str:
        """The rule for these words: a bound is rounded to its own side where no hedge softens it,
        or where one says that it is a bound: "at least", for "over" speaks of the number."""
        if self.kind == "given" and self.quantity is not None:
            return given_rule(self.quantity)
        side = _SIDES[self.quantity.bound if self.quantity is not None else ""]
        if not side or self.check != "round":
            return self.check
        says = literal(words).hedges
        bounds = says == {self.quantity.bound if self.quantity is not None else ""}
        return side if bounds or unhedged(words)[0] == words else self.check


def given_rule(quantity: Quantity) -> str:
    """`exact`, or `round` where the value has no end as a decimal and cannot be written out."""
    value = quantity.value
    denominator = fraction(value).denominator if isinstance(value, (int, sp.Rational)) else 3
    # A number of so many bits has fewer factors 2 and 5 than this power of ten has.
    return "round" if 10 ** denominator.bit_length() % denominator else "exact"


def number_text(quantity: Quantity, rule: Rounding, unit: str | None) -> tuple[str, str]:
    """A number by its rule, and the part of the text that is the unit.

    `unit` None prints the quantity's own unit, "" none, and any other text itself.
    """
    bare = printed(quantity.value, quantity.rounding(rule))
    if unit is not None:
        checked(unit)
        return (bare + NO_BREAK + unit, NO_BREAK + unit) if unit else (bare, "")
    text = quantity.printed(rule)
    return text, text[len(bare) :] if text.startswith(bare) else ""


def compared(name: str, left: object, sign: str, right: object) -> Relation:
    """The relation between two values; a plain number takes the unit of the other side.

    Raises UnknownName for a relation that is none and UnitError for sides of different units, or
    of different labels where both have some.
    """
    if sign not in RELATIONS:
        raise unknown("relation", sign, RELATIONS)
    first, second = quantity_of(left, name), quantity_of(right, name)
    if _is_plain(left):
        first = number(first.value, first.unit if _is_plain(right) else second.unit)
    if _is_plain(right):
        second = number(second.value, first.unit)
    if not first.unit.fits(second.unit):
        raise UnitError(f"{name}: expected {first.unit}, found {second.unit}")
    return Relation(first, sign, second)


def _is_plain(value: object) -> bool:
    return not (isinstance(value, Quantity) or hasattr(value, "quantity"))
