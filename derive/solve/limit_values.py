"""The values that a limit is put into numbers with: what was given, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sympy as sp

from derive.cost.limits import Limit
from derive.cost.step import step_model
from derive.cost.step_assumptions import StepAssumptions
from derive.facts import Chip, Model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, quoted
from derive.notation.quantity import evaluated, number
from derive.solve.binding import Giver, Values, value_of
from derive.solve.step_values import check_values, facts_of

COUNTS = (v.tp, v.cp, v.pp, v.dp, v.b_seq, v.B_seq)
ONE_SEQUENCE = number(1, v.unit_of_symbol(v.b_seq), "b_seq", status="assumed")


def given_values(
    givers: Iterable[Giver], values: Mapping[str, object], assumptions: StepAssumptions
) -> Values:
    """The facts of the chip and the model, the constants of the assumptions, and before these the
    caller's own values by symbol name.

    Raises UnknownName for a name that is no symbol and DeriveError for a degree that is no whole
    number, a share epsilon that is not between 0 and 1, and for what `value_of` refuses.
    """
    of_chip = of_model = None
    for giver in givers:
        if isinstance(giver, Chip):
            of_chip = giver
        elif isinstance(giver, Model):
            of_model = giver
        else:
            raise DeriveError(f"expected a chip or a model, found {quoted(giver)}")
    found = facts_of(of_model, of_chip, assumptions)
    own = {v.find(name): value for name, value in values.items()}
    typed = {symbol: value_of(symbol, value) for symbol, value in own.items()}
    for symbol in COUNTS:
        if symbol in typed and not typed[symbol].value.is_Integer:
            raise DeriveError(f"{symbol}: expected a whole number, found {typed[symbol].value}")
    if v.epsilon in typed and not 0 < typed[v.epsilon].value < 1:
        raise DeriveError(
            f"epsilon: expected a share between 0 and 1, found {typed[v.epsilon].value}"
        )
    check_values(typed)
    return {v.b_seq: ONE_SEQUENCE, **found, **typed}


@dataclass(frozen=True)
class Filled:
    """Values with those that follow from them; the symbols left without one, in order; and whether
    a link was taken to be the one inside a node."""

    values: Values
    missing: tuple[sp.Symbol, ...]
    inside_node: bool


def filled(
    needed: Iterable[sp.Symbol],
    of: Limit,
    asked: sp.Symbol,
    assumptions: StepAssumptions,
    values: Values,
) -> Filled:
    """`values` with what is needed besides and the model defines, such as the link of a group from
    its size.

    What is defined by the symbol that is asked for is needed itself; but the link `of.inside_node`
    is then that of a group of one, where what it follows from has values.
    """
    defined = {v.find(term.name): term.expr for term in step_model(assumptions).definitions}
    found = dict(values)
    missing: set[sp.Symbol] = set()
    inside: set[sp.Symbol] = set()

    def fill(symbol: sp.Symbol) -> bool:
        if symbol in found:
            return True
        expr = defined.get(symbol)
        if expr is not None and asked in expr.free_symbols:
            expr = expr.xreplace({asked: sp.S.One}) if symbol == of.inside_node else None
            if expr is not None and not expr.free_symbols <= found.keys():
                expr = None
            inside.update({symbol} if expr is not None else ())
        if expr is None:
            missing.add(symbol)
            return False
        if not all([fill(s) for s in sorted(expr.free_symbols, key=v.rank)]):
            return False
        found[symbol] = evaluated(expr, found, v.unit_of_symbol(symbol), symbol.name)
        return True

    for symbol in sorted(needed, key=v.rank):
        fill(symbol)
    return Filled(found, tuple(sorted(missing, key=v.rank)), bool(inside))
