"""Formulas of derived readings: read into steps and evaluated exactly; nothing is executed.

    formula = 2 * 100e9 / 8 / chips_per_host      formula = 4 * tpu7x.dcn

Numbers, facts of the same chip (or model, with its shape) by name, `chip.fact` of another, + - * /
and parentheses; spaces stand around a minus, since names of chips have dashes. What the names stand
for, and whether the value and its unit are right, is checked in `derived`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

from derive.notation.errors import FactError, quoted

LONGEST = 200
DEEPEST = 16

_TOKEN = re.compile(
    r"\s*(?:(?P<other>[a-z0-9]+(?:[-.][a-z0-9]+)*\.[a-z_][a-z0-9_]*)"
    r"|(?P<number>[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][0-9]{1,2})?)(?![\w.])"
    r"|(?P<own>[a-zA-Z_]\w*)"
    r"|(?P<sign>[-+*/()]))\s*",
    re.ASCII,
)
_ACTIONS: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
Value = TypeVar("Value")


@dataclass(frozen=True)
class Name:
    """A fact that a formula names; `of` is its chip or model, empty for the formula's own."""

    of: str
    fact: str

    def __str__(self) -> str:
        return f"{self.of}.{self.fact}" if self.of else self.fact


Step = Fraction | Name | str


@dataclass(frozen=True)
class Formula:
    """A formula in postfix order: numbers and names, each operator after its two operands."""

    steps: tuple[Step, ...]

    @property
    def names(self) -> tuple[Name, ...]:
        """The facts that it names, each once."""
        return tuple(dict.fromkeys(step for step in self.steps if isinstance(step, Name)))

    def fold(
        self, leaf: Callable[[Fraction | Name], Value], join: Callable[[str, Value, Value], Value]
    ) -> Value:
        """`leaf` of every number and name, joined by the operators."""
        stack: list[Value] = []
        for step in self.steps:
            if isinstance(step, str):
                right = stack.pop()
                stack.append(join(step, stack.pop(), right))
            else:
                stack.append(leaf(step))
        return stack.pop()

    def value(self, given: Mapping[Name, Fraction]) -> Fraction | None:
        """The exact value with a number for each name; None where it divides by zero."""
        try:
            return self.fold(
                lambda leaf: given[leaf] if isinstance(leaf, Name) else leaf,
                lambda sign, left, right: _ACTIONS[sign](left, right),
            )
        except ZeroDivisionError:
            return None


class FormulaFault(FactError):
    """A formula that does not hold: what was expected of it and what was found."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}, found {found}")
        self.expected, self.found = expected, found


@lru_cache(maxsize=512)
def formula(text: str) -> Formula:
    """Read a formula; raises FormulaFault for what is not numbers, names, + - * / and ( )."""
    return _Reader(text).formula()


class _Reader:
    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise FormulaFault(f"at most {LONGEST} characters", str(len(text)))
        self.steps: list[Step] = []
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None or match.lastgroup is None:
                raise FormulaFault("numbers, facts, + - * / and parentheses", quoted(text[at:], 20))
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        self.at = 0

    def formula(self) -> Formula:
        self.sum(0)
        if self.at < len(self.tokens):
            raise FormulaFault("+ - * / or the end", quoted(self.tokens[self.at][1]))
        return Formula(tuple(self.steps))

    def sum(self, depth: int) -> None:
        self.chain("+-", lambda: self.chain("*/", lambda: self.operand(depth)))

    def chain(self, signs: str, part: Callable[[], None]) -> None:
        part()
        while self.at < len(self.tokens) and self.tokens[self.at][1] in signs:
            sign = self.tokens[self.at][1]
            self.at += 1
            part()
            self.steps.append(sign)

    def operand(self, depth: int) -> None:
        kind, token = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
        self.at += 1
        if kind == "number":
            self.steps.append(Fraction(token))
        elif kind in ("own", "other"):
            of, _, fact = token.rpartition(".")
            self.steps.append(Name(of, fact))
        elif token == "(" and depth < DEEPEST:
            self.sum(depth + 1)
            if self.at >= len(self.tokens) or self.tokens[self.at][1] != ")":
                raise FormulaFault("')'", self.found())
            self.at += 1
        else:
            self.at -= 1
            deep = f"at most {DEEPEST} parentheses inside each other"
            raise FormulaFault(deep if token == "(" else "a number or a fact", self.found())

    def found(self) -> str:
        return quoted(self.tokens[self.at][1]) if self.at < len(self.tokens) else "the end"
