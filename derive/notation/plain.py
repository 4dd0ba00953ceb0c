"""Formulas as plain text, in the order of the vocabulary, for terminals and messages.

`parse.expression` reads back the same expression, so a printed answer can be typed again.
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp
from sympy.core.relational import Relational

from derive.notation.errors import DeriveError, quoted
from derive.notation.products import Factor, Product, product, terms

_NAMES = {"Max": "max", "Min": "min", "ceiling": "ceil"}
_RELATIONS = {"==": "="}


@lru_cache(maxsize=4096)
def text(expr: sp.Basic) -> str:
    """The formula as it would be typed: "alpha**2/(F*M_X*M_Y)", "sqrt(2*B*N/F)", "B/X >= alpha".

    Raises DeriveError for a float, which no exact formula contains.
    """
    if isinstance(expr, Relational):
        sign = _RELATIONS.get(expr.rel_op, expr.rel_op)
        return f"{text(expr.lhs)} {sign} {text(expr.rhs)}"
    if expr.is_Float:
        raise DeriveError(f"a formula is exact; found the float {quoted(expr)}")
    if expr.is_Add:
        return _sum(expr)
    if expr.is_Mul or expr.is_Rational or (expr.is_Pow and expr.exp.is_Rational):
        return _product(product(expr))
    if expr.is_Pow:
        return f"{_atom(expr.base)}**{_atom(expr.exp)}"
    if isinstance(expr, (sp.Function, sp.Max, sp.Min)):
        name = type(expr).__name__
        arguments = sorted(expr.args, key=str) if name in ("Max", "Min") else expr.args
        return f"{_NAMES.get(name, name)}({', '.join(text(a) for a in arguments)})"
    return str(expr)


def _sum(expr: sp.Add) -> str:
    shown = ""
    for term in terms(expr):
        part = text(term)
        if not shown:
            shown = part
        else:
            shown += f" - {part[1:]}" if part.startswith("-") else f" + {part}"
    return shown


def _product(parts: Product) -> str:
    (number, above), (over, below) = parts.top, parts.bottom
    root_above, root_below = _factors(*parts.root_top), _factors(*parts.root_bottom)
    numeric = not parts.root_top[1] and not parts.root_bottom[1]
    root = [f"sqrt({_quotient(root_above, root_below)})"] if root_above else []
    top = [_power(*factor) for factor in above]
    top = [*_factors(number, ()), *(root + top if numeric else top + root)]
    bottom = _factors(over, below)
    if root_below and not root_above:
        bottom.append(f"sqrt({_quotient(root_below, [])})")
    if over != 1 and len(bottom) == 2 and below and below[0][0].is_Add and below[0][1] == 1:
        # SymPy would multiply the number into the sum on the way back.
        quotient = f"{_quotient(top, bottom[:1])}/{bottom[1]}"
    else:
        quotient = _quotient(top, bottom)
    return f"-{quotient}" if parts.negative else quotient


def _factors(number: int, factors: tuple[Factor, ...]) -> list[str]:
    return ([str(number)] if number != 1 else []) + [_power(*factor) for factor in factors]


def _quotient(above: list[str], below: list[str]) -> str:
    top = "*".join(above) or "1"
    if not below:
        return top
    return f"{top}/{below[0]}" if len(below) == 1 else f"{top}/({'*'.join(below)})"


def _power(base: sp.Expr, power: sp.Rational) -> str:
    if power == 1:
        return _atom(base)
    if power == sp.Rational(1, 2):
        return f"sqrt({text(base)})"
    return f"{_atom(base)}**{power}" if power.q == 1 else f"{_atom(base)}**({power})"


def _atom(expr: sp.Expr) -> str:
    single = expr.is_Symbol or isinstance(expr, (sp.Function, sp.Max, sp.Min))
    return text(expr) if single or (expr.is_Integer and expr >= 0) else f"({text(expr)})"
