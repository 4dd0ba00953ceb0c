"""What is asked, and what is held: the question's symbol, the mesh axes and the split.

A question is a symbol or a ratio of symbols, such as B/X, B/N, Y, N, F or W. The chips N of a
strategy are the product of its mesh axes; which of them are kept as symbols and which is expressed
through N depends on what the question and the caller hold fixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import sympy as sp

from derive.cost.assumptions import DEFAULT, Assumptions, assume
from derive.cost.limits import LIMITS, Limit
from derive.cost.load import Given, Load, Requirement, compute_bound, fits
from derive.cost.network import NETWORKS
from derive.cost.strategies import STRATEGIES, Strategy, as_strategy
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, NotClosedForm, UnknownName, quoted, unknown, written
from derive.notation.units import Unit, chip, one, way

Subject = Strategy | Limit | Requirement
Fixed: TypeAlias = sp.Symbol | str | Iterable[sp.Symbol | str]
STATE = {v.P, v.M_hbm, v.s_P}


@dataclass(frozen=True)
class Question:
    """A product of powers, the symbol that is solved for, and the rest of the product."""

    expr: sp.Expr
    main: sp.Symbol
    rest: sp.Expr

    @property
    def symbols(self) -> set[sp.Symbol]:
        return set(self.expr.free_symbols)

    @property
    def unit(self) -> Unit:
        """The unit of the answer; "per way" reads "per chip", since each way is a chip's share."""
        total = one
        for symbol, power in self.expr.as_powers_dict().items():
            unit = v.unit_of_symbol(symbol)
            if power < 0 and unit == way:
                unit = chip
            total = total * unit ** int(power)
        return total


def question(expr: object) -> Question:
    """Read a question; raises DeriveError where it is no symbol or ratio of declared symbols."""
    if isinstance(expr, str):
        raise DeriveError(f"a question is an expression, found the text {quoted(expr)}; no quotes")
    told = "a question is a symbol or a ratio of symbols such as B/X"
    if not isinstance(expr, sp.Expr) or not expr.free_symbols:
        raise DeriveError(f"{told}, found {quoted(expr)}")
    powers = expr.as_powers_dict()
    for base, power in powers.items():
        if not isinstance(base, sp.Symbol) or power not in (1, -1):
            raise DeriveError(f"{told}, found {quoted(expr)}")
        v.meaning(base)
    above = sorted((s for s, power in powers.items() if power == 1), key=v.rank)
    if len(above) != 1:
        told = "a question has one symbol above the line, such as B/X"
        raise DeriveError(f"{told}: found {quoted(expr)}")
    return Question(expr, above[0], expr / above[0])


def requirement(
    subject: object,
    asked: Question | None = None,
    assumptions: Assumptions | str = DEFAULT,
    fixed: Iterable[sp.Symbol] = (),
    **changes: object,
) -> Requirement:
    """What must hold for a strategy (compute-bound; of a question on P, M_hbm or s_P that the
    state fits) or a limit of a step, as loads; several of them are joined by `&`.

    `changes` are assumptions by name; exact=True is form="exact". Raises DeriveError for what is
    neither, saying how to name it, and for assumptions that play no part.
    """
    if "exact" in changes:
        exact = changes.pop("exact")
        if not isinstance(exact, bool):
            raise DeriveError(f"exact is True or False, found {quoted(exact)}")
        changes["form"] = "exact" if exact else "large-n"
    under = assume(assumptions, **changes)
    if isinstance(subject, Requirement):
        return subject
    if isinstance(subject, Limit):
        if tuple(fixed):
            raise DeriveError(f"fixed plays no part in {subject.name}; exact=True does")
        return subject.requirement(under)
    if isinstance(subject, str) and subject in LIMITS:
        raise DeriveError(f"expected a limit, found the text {quoted(subject)}; write {subject}")
    try:
        strategy = as_strategy(subject)
    except UnknownName:
        raise unknown("strategy or limit", str(subject), [*STRATEGIES, *LIMITS]) from None
    strategy.laid_out(under)  # a gate where there is none is told before all else
    if asked is not None and asked.symbols & STATE:
        return fits(strategy, _state_of_chip(strategy, asked, fixed), under)
    need = compute_bound(strategy, under)
    if any(sp.oo in load.terms for load in need.loads):
        told = f"{strategy.name} moves but multiplies nothing in a pass"
        raise DeriveError(f"{told}; its times can be asked, T_comms with --pass forward")
    return need


def axes_held(
    subject: Subject, asked: Question, fixed: Fixed = (), names: Iterable[str] = ()
) -> tuple[sp.Symbol, ...]:
    """The mesh axes that are held rather than chosen for the best: those `fixed`, one or several,
    as symbols or by name, and those among the names of what is given; of what fits in memory none
    of these beside the chips N, from which it follows alone. Raises DeriveError for a fixed one
    that the strategy does not have."""
    several = (fixed,) if isinstance(fixed, (sp.Symbol, str)) else fixed
    axes = [v.find(axis) if isinstance(axis, str) else axis for axis in several]
    mesh = subject.mesh if isinstance(subject, (Strategy, Requirement)) else None
    for axis in axes:
        if mesh is not None and axis not in mesh:
            told = f"expected mesh axes of {subject.name} ({', '.join(map(str, mesh)) or 'none'})"
            raise DeriveError(f"fixed: {told}, found {written(axis)}")
    given = {*names}
    if v.N.name not in given or not asked.symbols & STATE:
        axes += [s for s in mesh or () if s.name in given and s not in asked.symbols]
    return tuple(dict.fromkeys(axes))


def _state_of_chip(strategy: Strategy, asked: Question, fixed: Iterable[sp.Symbol]) -> sp.Expr:
    """The bytes of state that a chip holds: through the chips N where that takes the place of every
    mesh axis and none is asked for or fixed. Raises DeriveError where the strategy says nothing."""
    if strategy.state is None and strategy.block is None:
        raise DeriveError(f"{strategy.name} does not say what state a chip holds")
    if strategy.state is None:
        why = "none of its tensors are parameters, or they are not all split alike"
        raise DeriveError(f"{strategy.block} says nothing of {asked.expr}: {why}")
    through = strategy.state * strategy.chips / v.N
    named = through.free_symbols.union(asked.symbols, fixed)
    return strategy.state if named & {*strategy.mesh} else through


def mesh_in_terms_of_chips(
    need: Requirement, asked: Question, fixed: Iterable[sp.Symbol] = ()
) -> tuple[Given, sp.Symbol | None]:
    """Which mesh axis is expressed through N and how, and which one is free to choose; raises
    NotClosedForm where more than one would be free."""
    if v.N in need.chips.free_symbols or need.chips == 1 or asked.symbols & STATE:
        return (), None
    mesh, chips_asked = need.mesh, v.N in asked.symbols
    held = {*fixed} & {*mesh}
    kept = [axis for axis in mesh if axis in asked.symbols or axis in held]
    others = [axis for axis in mesh if axis not in kept]
    if not others:
        if chips_asked and len(mesh) == 1:
            raise DeriveError(f"{need.name}: N is {mesh[0]}, which is held; ask for B")
        return (((v.N, need.chips),) if chips_asked else ()), None
    # Without the chips what is left of the mesh follows from nothing.
    through_chips = chips_asked or bool(held) or asked.expr in mesh
    if not through_chips and (kept or len(mesh) == 1):
        return (), None
    if len(others) > 2:
        more = ", ".join(str(axis) for axis in others[2:])
        told = f"{need.name} has {len(others)} mesh axes to choose, and two can be"
        raise NotClosedForm(f"{told}: fixed=[{more}]")
    last = others[-1]
    free = others[0] if len(others) == 2 else None
    return ((last, v.N / (need.chips / last)),), free


def put_through(need: Requirement, asked: Question) -> Requirement:
    """The requirement with what is defined through the question put into its loads, so that all of
    their dependence on it shows; what is held is none of it, and needs a value of its own. Where
    alpha is asked for, the peak is alpha times the bandwidth of the link."""
    instead: list[tuple[sp.Symbol, sp.Expr]] = []
    through = {asked.main}
    for defined, expr in need.definitions:
        if defined != asked.main and defined not in need.held and expr.free_symbols & through:
            through.add(defined)
            instead.append((defined, expr))
    if v.alpha in asked.symbols:
        instead.append((v.C, v.alpha * _bandwidth(need)))
    loads = need.loads
    for defined, expr in reversed(instead):
        loads = tuple(load.put({defined: expr}) for load in loads)
    return replace(need, loads=loads) if instead else need


def _bandwidth(need: Requirement) -> sp.Symbol:
    network = need.assumptions.network
    if network == "two-level":
        raise DeriveError("alpha is the intensity of one link; two-level has two: ask for C")
    return NETWORKS["torus" if network == "chip" else network].bandwidth


def at_value(loads: Iterable[Load], asked: Question, given: Given, value: sp.Expr) -> list[sp.Expr]:
    """The loads where the question has a value and the mesh follows from the chips."""
    put = {asked.main: value / asked.rest}
    return [load.total.xreplace(put).xreplace(dict(given)).xreplace(put) for load in loads]
