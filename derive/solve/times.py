"""The times of a layer as numbers: its computation, and its communication over each link or all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy as sp

from derive.cost.assumptions import Assumptions
from derive.cost.load import Requirement, timed_passes
from derive.cost.strategies import Strategy
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, unknown
from derive.notation.quantity import Quantity, evaluated
from derive.solve.derivation import TIMES, time_of
from derive.solve.links import suited
from derive.solve.question import question
from derive.solve.values import Giver, filled, values_for

TIMED = frozenset((v.T_math, v.T_comms, *TIMES.values()))


def layer_time(
    strategy: Strategy,
    asked: sp.Expr,
    givers: Sequence[Giver],
    values: Mapping[str, object],
    assumptions: Assumptions,
) -> tuple[Quantity, tuple[str, ...]]:
    """A time of a layer, such as T_comms, or a ratio of two, T_math/T_comms, and a note for each
    value that plays no part. Communication is that of the slowest link; if serial, of all links.
    Raises DeriveError where two passes could be meant, and naming the symbols without a value."""
    under = suited(strategy, question(v.C), assumptions, givers, values)
    timed = timed_passes(strategy, under)
    passes = [one for one in timed if one.seconds or one.traffic] or timed[:1]
    if len(passes) != 1:
        told = 'passes="forward", passes="backward" or passes="step"'
        raise DeriveError(f"{asked} is the time of one pass: add {told}")
    # Beside the computation all is a share of it, in which what both hold cancels.
    (cost,), said = passes, dict[Any, Any]()
    share = bool(cost.seconds) and v.T_math in asked.free_symbols - {asked}
    for one in cost.traffic:
        link, time = time_of(one.link), one.load if share else one.seconds
        said[link] = said.get(link, sp.S.Zero) + time
    longest = sp.Add if under.overlap == "serial" else sp.Max
    said |= {v.T_comms: longest(0, *said.values()), v.T_math: sp.S.One if share else cost.seconds}
    if not_its_own := asked.free_symbols - said.keys():
        names = [symbol.name for symbol in said]
        raise unknown(f"time of {strategy.name}", not_its_own.pop().name, names)
    formula = asked.xreplace(said).xreplace(under.elements)
    need = Requirement(strategy.name, "", (), under, strategy.mesh, strategy.chips)
    full = filled(formula.free_symbols, need, None, values_for(need, givers, values))
    below = sp.fraction(asked)[1]
    at = {symbol: given.value for symbol, given in full.checked().items()}
    if below.xreplace(said).xreplace(under.elements).xreplace(at).is_zero:
        raise DeriveError(f"{asked}: {below} is zero; ask for {sp.fraction(asked)[0]} alone")
    quantity = evaluated(formula, full.checked(), question(asked).unit, str(asked))
    return quantity, full.idle(values)
