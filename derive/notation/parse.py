"""The one parser of typed text: command lines, TOML and audit files go through here.

It knows numbers, declared symbols, + - * / ** ^ and a short list of functions, bounds the size of
everything, and refuses the rest. No text ever reaches SymPy, whose own parsers execute it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import sympy as sp

from derive.notation import typed_number
from derive.notation.errors import DeriveError, quoted, unknown
from derive.notation.symbols import find
from derive.notation.typed_quantity import assignment, quantity

__all__ = ["FUNCTIONS", "assignment", "expression", "quantity", "ratio"]

MAX_LENGTH = 500
MAX_DEPTH = 30
MAX_POWER = 100
MAX_ROOT = 12
MAX_BITS = 1000
MAX_ARGUMENTS = 12

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<sign>\*\*|[-+*/^(),]))"
)
_TYPOGRAPHY = str.maketrans({"−": "-", "×": "*", "·": "*"})


def _log2(of: sp.Expr) -> sp.Expr:
    return sp.log(of, 2)


FUNCTIONS: dict[str, Callable[..., sp.Expr]] = {
    "sqrt": sp.sqrt, "log2": _log2, "log": sp.log, "ceil": sp.ceiling, "ceiling": sp.ceiling,
    "floor": sp.floor, "min": sp.Min, "max": sp.Max, "Min": sp.Min, "Max": sp.Max,
}  # fmt: skip
_MANY = ("min", "max", "Min", "Max")


def expression(text: str) -> sp.Expr:
    """The exact expression that `text` writes: "alpha**2/(F*M_X*M_Y)", "1.8e11", "sqrt(2*B)".

    Raises UnknownName for an undeclared symbol or function, DeriveError for anything else that is
    malformed, too large to be meant, or no finite real expression.
    """
    return _Reader(text).read()


def ratio(text: str) -> sp.Expr:
    """A question such as "B/X", "B/N" or "Y": a product of powers of declared symbols.

    Raises DeriveError for any other expression, and what `expression` raises.
    """
    found = expression(text)
    factors = [factor.as_base_exp() for factor in sp.Mul.make_args(found)]
    if not all(base.is_Symbol and power.is_Rational for base, power in factors):
        raise DeriveError(f"expected a symbol or a ratio of symbols such as B/X: {quoted(text)}")
    return found


class _Reader:
    """Recursive descent over the tokens of one text; each method reads one level of precedence."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise DeriveError(
                f"an expression of {len(text)} characters, the limit is {MAX_LENGTH}: "
                f"{quoted(text)}"
            )
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0
        self.depth = 0
        self.arguments = 0

    def read(self) -> sp.Expr:
        found = self.sum()
        if self.kind != "end":
            raise self.error("an operator or the end")
        infinite = found.has(sp.zoo, sp.nan, sp.oo, -sp.oo, sp.I)
        if infinite or found.is_extended_real is False:
            raise DeriveError(f"no finite real expression: {quoted(self.text)}")
        return found

    @property
    def kind(self) -> str:
        return self.tokens[self.at][0]

    @property
    def token(self) -> str:
        return self.tokens[self.at][1]

    def error(self, expected: str) -> DeriveError:
        found = quoted(self.token) if self.token else "the end"
        return DeriveError(f"expected {expected}, found {found} in {quoted(self.text)}")

    def take(self, *signs: str) -> str:
        """The next token where it is one of the signs, then consumed; else an empty text."""
        if self.kind != "sign" or self.token not in signs:
            return ""
        self.at += 1
        return self.tokens[self.at - 1][1]

    def sum(self) -> sp.Expr:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise DeriveError(f"nested deeper than {MAX_DEPTH}: {quoted(self.text)}")
        terms = [self.term()]
        while sign := self.take("+", "-"):
            terms.append(self.term(negative=sign == "-"))
        self.depth -= 1
        return self.bounded(sp.Add(*terms))

    def term(self, negative: bool = False) -> sp.Expr:
        # One product of all factors: SymPy multiplies a number into a sum where it meets the two
        # alone, and 2*(B + D)/N would come back as another expression than was printed.
        factors = [sp.S.NegativeOne] if negative else []
        divides = ""
        while True:
            while sign := self.take("+", "-"):
                factors += [sp.S.NegativeOne] if sign == "-" else []
            factor = self.power()
            if divides == "/":
                if factor.is_zero:
                    raise DeriveError(f"a division by zero in {quoted(self.text)}")
                factor = sp.Pow(factor, -1)
            factors.append(factor)
            divides = self.take("*", "/")
            if not divides:
                return self.bounded(sp.Mul(*factors))

    def power(self) -> sp.Expr:
        base = self.atom()
        if not self.take("**", "^"):
            return base
        negative = self.take("-") != ""
        exponent = self.deeper(self.power)
        return self.raised(base, -exponent if negative else exponent)

    def deeper(self, read: Callable[[], sp.Expr]) -> sp.Expr:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise DeriveError(f"nested deeper than {MAX_DEPTH}: {quoted(self.text)}")
        found = read()
        self.depth -= 1
        return found

    def raised(self, base: sp.Expr, exponent: sp.Expr) -> sp.Expr:
        where = f"in {quoted(self.text)}"
        if not exponent.is_Rational:
            raise DeriveError(f"expected a number as exponent, found {quoted(exponent)} {where}")
        if abs(exponent) > MAX_POWER or exponent.q > MAX_ROOT:
            raise DeriveError(
                f"expected an exponent up to {MAX_POWER} with a root up to {MAX_ROOT}, "
                f"found {quoted(exponent)} {where}"
            )
        if base.is_zero and exponent <= 0:
            raise DeriveError(f"a division by zero {where}")
        bits = sum(int(n.p).bit_length() + int(n.q).bit_length() for n in base.atoms(sp.Rational))
        if bits > MAX_BITS or (bits > 2 and bits * abs(exponent) > MAX_BITS):
            raise DeriveError(f"a power of more than {MAX_BITS} bits {where}")
        return self.bounded(sp.Pow(base, exponent))

    def bounded(self, expr: sp.Expr) -> sp.Expr:
        """Refuse what small steps have made large: (B**99)**99, or 9**99 many times over."""
        bits = (int(n.p).bit_length() + int(n.q).bit_length() for n in expr.atoms(sp.Rational))
        if max(bits, default=0) > MAX_BITS:
            raise DeriveError(f"a number of more than {MAX_BITS} bits in {quoted(self.text)}")
        for node in expr.atoms(sp.Pow):
            if abs(node.exp) > MAX_POWER or node.exp.q > MAX_ROOT:
                raise DeriveError(f"a power beyond {MAX_POWER} in {quoted(self.text)}")
        return expr

    def atom(self) -> sp.Expr:
        kind, token = self.tokens[self.at]
        if kind == "number":
            self.at += 1
            value = typed_number.exact(token.rstrip(".").replace(".e", "e").replace(".E", "e"))
            return sp.Rational(value.numerator, value.denominator)
        if kind == "name":
            self.at += 1
            return self.call(token) if self.take("(") else find(token)
        if self.take("("):
            inner = self.sum()
            self.close()
            return inner
        raise self.error("a number, a symbol or a parenthesis")

    def close(self) -> None:
        if not self.take(")"):
            raise self.error("an operator or a closing parenthesis")

    def call(self, name: str) -> sp.Expr:
        if name not in FUNCTIONS:
            raise unknown("function", name, FUNCTIONS)
        given = [self.sum()]
        while self.take(","):
            given.append(self.sum())
        self.close()
        # Max and Min compare every two of their arguments, which SymPy does slowly.
        self.arguments += len(given) if name in _MANY else 0
        if self.arguments > MAX_ARGUMENTS:
            raise DeriveError(f"more than {MAX_ARGUMENTS} things compared in {quoted(self.text)}")
        if name not in _MANY and len(given) != 1:
            raise DeriveError(f"{name} takes one argument, found {len(given)}")
        if name == "sqrt":
            return self.raised(given[0], sp.Rational(1, 2))
        if name.startswith("log") and given[0].is_zero:
            raise DeriveError(f"the logarithm of zero in {quoted(self.text)}")
        return FUNCTIONS[name](*given)


def _tokens(text: str) -> list[tuple[str, str]]:
    plain = text.translate(_TYPOGRAPHY).rstrip()
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(plain):
        match = _TOKEN.match(plain, at)
        if match is None:
            rest = plain[at:].lstrip()
            raise DeriveError(f"expected a formula, found {quoted(rest[:1])} in {quoted(text)}")
        kind = str(match.lastgroup)
        found.append((kind, match[kind]))
        at = match.end()
    return [*found, ("end", "")]
