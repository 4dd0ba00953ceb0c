"""What people type: values such as "180 GB/s", assignments, and expressions.

Command lines, TOML and audit files go through here. Expressions have numbers, declared symbols,
+ - * / ** ^ and a short list of functions; the size of everything is bounded, and the rest is
refused. No text ever reaches SymPy, whose own parsers execute it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

import sympy as sp

from derive.notation import digits
from derive.notation.errors import DeriveError, UnitError, quoted, unknown
from derive.notation.quantity import Quantity, number
from derive.notation.symbols import find, known, meaning
from derive.notation.units import Unit, byte, one, sequence, token, typed_unit

MAX_LENGTH = 500
MAX_VALUE_LENGTH = 200
MAX_DEPTH = 30
MAX_POWER = 100
MAX_ROOT = 12
MAX_BITS = 1000
MAX_SUM = 12
MAX_ARGUMENTS = 12
LARGEST = Fraction(10) ** 40

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<sign>\*\*|[-+*/^(),]))"
)
_TYPOGRAPHY = str.maketrans({"−": "-", "×": "*", "·": "*"})


FUNCTIONS: dict[str, Callable[..., sp.Expr]] = {
    "sqrt": sp.sqrt, "log2": lambda x: sp.log(x, 2), "log": sp.log, "ceil": sp.ceiling,
    "ceiling": sp.ceiling, "floor": sp.floor, "min": sp.Min, "max": sp.Max, "Min": sp.Min,
    "Max": sp.Max,
}  # fmt: skip
_MANY = ("min", "max", "Min", "Max")


# --- values


def quantity(text: str, expected: Unit | None = None, name: str = "") -> Quantity:
    """The positive quantity that `text` states, exactly, in base units: 180000000000 byte/second.

    A bare number is in the expected base unit. Raises UnitError for another unit than the expected
    one, and DeriveError for what is no number, or not between 1e-40 and 1e40.
    """
    try:
        value, unit = _value(text, expected)
    except DeriveError as error:
        entry = known(name)
        called = f"{name} ({entry.gloss})" if entry else (name or "value")
        raise type(error)(f"{called}: {error}") from None
    return number(value, unit, name)


def assignment(text: str) -> tuple[sp.Symbol, Quantity]:
    """The symbol and the value of "NAME=VALUE", such as "W=180 GB/s".

    Raises UnknownName for an undeclared symbol, and what `quantity` raises.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise DeriveError(f"expected NAME=VALUE, found {quoted(text)}")
    symbol = find(name.strip())
    return symbol, quantity(value, meaning(symbol).unit, symbol.name)


def _value(text: str, expected: Unit | None) -> tuple[Fraction, Unit]:
    if len(text) > MAX_VALUE_LENGTH:
        raise DeriveError(f"a value of {len(text)} characters, the limit is {MAX_VALUE_LENGTH}")
    core = " ".join(text.split())
    if (share := re.fullmatch(r"([0-9]{1,18})/([1-9][0-9]{0,17})", core)) and int(share[1]):
        return Fraction(int(share[1]), int(share[2])), expected or one
    written = digits.numeral(core)
    if written is None:
        raise DeriveError(f"expected a positive number, found {quoted(text)}")
    value, rest = written.value, core[len(written.text) :]
    if re.match(r"[0-9.,_(*^+\-−]", rest):
        raise DeriveError(f"expected a number and a unit, found {quoted(text)}")
    if rest.lstrip() in ("%", "percent"):
        if expected is not None and expected != one:
            raise UnitError(f"expected {expected}, found a percentage, {quoted(text)}")
        scale, unit = Fraction(1, 100), one
    else:
        scale, unit = _scaled(text, rest, expected)
    value *= scale
    if value <= 0:
        raise DeriveError(f"expected a positive number, found {quoted(text)}")
    if not 1 / LARGEST < value < LARGEST:
        raise DeriveError(f"expected between 1e-40 and 1e40, found {quoted(text)}")
    return value, unit if expected is None else _expected(text, unit, expected)


def _scaled(text: str, rest: str, expected: Unit | None) -> tuple[Fraction, Unit]:
    """What follows the number: a prefix that stands alone, and a unit."""
    scale, words = digits.prefix(rest) or (Fraction(1), rest)
    if words != rest and rest.startswith("B"):
        bare = expected is None and not words.strip()
        if bare or expected == byte:
            raise UnitError(f"B may mean bytes or billions in {quoted(text)}: write byte or e9")
    factor, unit = typed_unit(words.strip())
    return scale * factor, unit


def _expected(text: str, unit: Unit, expected: Unit) -> Unit:
    if unit == one:
        return expected
    if unit.fits(expected):
        return expected if expected.labels or not unit.labels else unit
    message = f"expected {expected}, found {unit} in {quoted(text)}"
    if expected == token and unit == sequence:
        message += "; multiply by the sequence length to get tokens"
    raise UnitError(message)


# --- expressions


def expression(text: str) -> sp.Expr:
    """The exact expression that `text` writes: "alpha**2/(F*M_X*M_Y)", "1.8e11", "sqrt(2*B)".

    Raises UnknownName for an undeclared symbol or function, DeriveError for anything else that is
    malformed, too large to be meant, or no finite real expression.
    """
    return _Grammar(text).read()


def ratio(text: str) -> sp.Expr:
    """A question such as "B/X", "B/N" or "Y": a product of powers of declared symbols.

    Raises DeriveError for any other expression, and what `expression` raises.
    """
    typed = expression(text)
    factors = [factor.as_base_exp() for factor in sp.Mul.make_args(typed)]
    if not all(base.is_Symbol and power.is_Rational for base, power in factors):
        raise DeriveError(f"expected a symbol or a ratio of symbols such as B/X: {quoted(text)}")
    return typed


class _Grammar:
    """Recursive descent over the tokens of one text; each method reads one level of precedence."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            told = f"an expression of {len(text)} characters, the limit is {MAX_LENGTH}"
            raise DeriveError(f"{told}: {quoted(text)}")
        self.text = text
        self.tokens = tokens(text.translate(_TYPOGRAPHY).rstrip(), _TOKEN, self.refused)
        self.tokens.append(("end", ""))
        self.at = 0
        self.depth = 0
        self.arguments = 0

    def read(self) -> sp.Expr:
        try:
            expr = self.sum()
        except ValueError:  # of SymPy's Max and Min, for what has no order
            expr = sp.nan
        if expr.has(sp.zoo, sp.nan, sp.oo, -sp.oo, sp.I) or expr.is_extended_real is False:
            raise DeriveError(f"no finite real expression: {quoted(self.text)}")
        if self.next[0] != "end":
            raise self.error("an operator or the end")
        return expr

    def refused(self, rest: str) -> DeriveError:
        return DeriveError(f"expected a formula, found {quoted(rest[:1])} in {quoted(self.text)}")

    @property
    def next(self) -> tuple[str, str]:
        """The kind of the next token, and its text."""
        return self.tokens[self.at]

    def error(self, expected: str) -> DeriveError:
        here = quoted(self.next[1]) if self.next[1] else "the end"
        return DeriveError(f"expected {expected}, found {here} in {quoted(self.text)}")

    def take(self, *signs: str) -> str:
        """The next token where it is one of the signs, then consumed; else an empty text."""
        kind, token = self.next
        if kind != "sign" or token not in signs:
            return ""
        self.at += 1
        return token

    def sum(self) -> sp.Expr:
        return self.deeper(self.terms)

    def terms(self) -> sp.Expr:
        terms = [self.term()]
        while self.next[1] in ("+", "-"):
            terms.append(self.term())
        return self.bounded(sp.Add(*terms))

    def term(self) -> sp.Expr:
        # One product of all factors: SymPy multiplies a number into a sum where it meets the two
        # alone, and 2*(B + D)/N would come back as another expression than was printed.
        factors: list[sp.Expr] = []
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
        expr = read()
        self.depth -= 1
        return expr

    def raised(self, base: sp.Expr, exponent: sp.Expr) -> sp.Expr:
        where = f"in {quoted(self.text)}"
        if not exponent.is_Rational:
            raise DeriveError(f"expected a number as exponent, found {quoted(exponent)} {where}")
        if abs(exponent) > MAX_POWER or exponent.q > MAX_ROOT:
            told = f"expected an exponent up to {MAX_POWER} with a root up to {MAX_ROOT}"
            raise DeriveError(f"{told}, found {quoted(exponent)} {where}")
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
        # SymPy asks a sum for its sign, and isolates the roots of a polynomial for that.
        if expr.is_Add and any(_degree(expr, s) > MAX_SUM for s in expr.free_symbols):
            raise DeriveError(f"a sum of powers beyond {MAX_SUM} in {quoted(self.text)}")
        return expr

    def atom(self) -> sp.Expr:
        kind, token = self.next
        if kind == "number":
            self.at += 1
            value = digits.exact(token.rstrip(".").replace(".e", "e").replace(".E", "e"))
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
        if name in _MANY:  # SymPy compares them by the signs of their differences
            self.bounded(sp.Add(*given, evaluate=False))
        return FUNCTIONS[name](*given)


def _degree(expr: sp.Expr, symbol: sp.Symbol) -> sp.Rational:
    """At most so many factors of the symbol are multiplied where a sum is expanded."""
    if isinstance(expr, sp.Pow):
        return abs(expr.exp) * _degree(expr.base, symbol)
    return sum((_degree(arg, symbol) for arg in expr.args), sp.Integer(expr == symbol))


def tokens(
    text: str, token: re.Pattern[str], refused: Callable[[str], DeriveError]
) -> list[tuple[str, str]]:
    """The tokens of a text, each with the name of the group of the pattern that it matched.

    Raises `refused(rest)` where the rest of the text begins with no token.
    """
    read: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        match = token.match(text, at)
        if match is None or match.lastgroup is None:
            raise refused(text[at:].lstrip())
        read.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return read
