"""Which network a strategy runs over on a chip: what the chip has, what is refused, what is noted.

The assumption `network` is "chip" where it is left to the chip: a torus where the chip has one or
none is named; else the switches of a node, where no more chips are given than it has; else whole
nodes; else one chip in each node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import sympy as sp

from derive.cost.assumptions import Assumptions
from derive.cost.limits import Limit
from derive.cost.load import needs_network
from derive.cost.network import NETWORKS, SLICES, TORUS_AXES
from derive.cost.strategies import Strategy
from derive.facts import Chip
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.notation.printed import shown
from derive.solve.question import STATE, Question, Subject
from derive.solve.values import Giver, Values, given_facts, one_of, typed_values


def suited(
    subject: Subject,
    asked: Question,
    assumptions: Assumptions,
    givers: Iterable[Giver],
    values: Mapping[str, object],
) -> Assumptions:
    """The assumptions with the network that the chip has, where they leave it to the chip.

    Raises DeriveError, naming what works, for a chip without the link that is asked for, for the
    bandwidth of a link that the network does not have, and for more torus axes than there are.
    """
    if not isinstance(subject, Strategy) or asked.symbols & STATE or not needs_network(subject):
        return assumptions
    chip, typed = one_of(Chip, givers), typed_values(values)
    known = {**given_facts(givers, assumptions), **typed}
    name = assumptions.network
    if name == "chip":
        name = _of_chip(chip, subject, asked, known)
    _check_links(name, assumptions.network, chip, typed)
    if name == "two-level" and (outside := _innermost(subject, known)) is not None:
        axis, degree = outside
        told = f"two-level has {axis}, the innermost mesh axis, inside a node"
        why = f"{axis} = {degree} does not divide its {known[v.n_node].value} chips"
        raise DeriveError(f"{told}: {why}; the network egress takes any")
    if name == "torus" and subject.block is not None and subject.block.fold:
        told = "a torus gives each mesh axis torus axes of its own, and a fold has two for the same"
        raise DeriveError(f"{told} devices; name another network, such as node")
    if name == "torus" and chip is not None and chip.has("torus_axes"):
        _check_torus_axes(chip, subject, asked, typed)
    return assumptions if name == "torus" else replace(assumptions, network=name)


def deciding(
    subject: Subject, asked: Question, before: Assumptions, after: Assumptions
) -> set[sp.Symbol]:
    """The symbols whose values decide over which network of a chip an answer runs, and what is told
    of its others; none where it has one."""
    if isinstance(subject, Limit) or before.network != "chip" or after.network == "chip":
        return set()
    return {v.N, v.n_node, v.W_dcn, *subject.mesh} - {asked.main}


def link_notes(
    before: Assumptions, after: Assumptions, givers: Iterable[Giver], values: Mapping[str, object]
) -> list[str]:
    """What is to be said of the links of an answer: a rate that looks like that of both ways, and
    that the chips given do not fit a node."""
    chip, typed = one_of(Chip, givers), typed_values(values)
    notes = []
    if chip is not None and v.W_node in typed and chip.has("scaleup"):
        own = chip.quantity("scaleup")
        if typed[v.W_node].value == 2 * own.value:
            given = shown(typed[v.W_node].value, own.unit)
            told = f"W_node is one-way, and {given} is twice the {own.printed()} of {chip.name}"
            notes.append(f"{told}: the figure for both ways?")
    beside = after.network != "chip" and NETWORKS[after.network].beside
    if before.network == "chip" and beside and chip is not None:
        node = {**given_facts(givers, before), **typed}[v.n_node].value
        inside = "are more than one node" if after.network == "two-level" else "do not divide nodes"
        notes.append(f"the chips given {inside} of {node}: network {after.network}")
    return notes


def other_networks(
    assumptions: Assumptions, givers: Iterable[Giver], values: Mapping[str, object]
) -> Iterable[tuple[Assumptions, str]]:
    """What else a chip with nodes can run over, each with words for it."""
    known = {**given_facts(givers, assumptions), **typed_values(values)}
    if v.W_dcn not in known or v.n_node not in known:
        return
    told = {"n_node": known[v.n_node].value, "W_dcn": known[v.W_dcn].printed()}
    for name, choice in NETWORKS.items():
        if choice.beside:
            yield replace(assumptions, network=name), choice.beside.format(**told)


def _of_chip(chip: Chip | None, strategy: Strategy, asked: Question, known: Values) -> str:
    if chip is None or chip.has("ici_axis") or not chip.has("scaleup"):
        return "torus"
    mesh = strategy.mesh
    if v.N in known and asked.main != v.N:
        size = known[v.N].value
    elif asked.main not in mesh and all(axis in known for axis in mesh):
        size = strategy.chips.xreplace({s: quantity.value for s, quantity in known.items()})
    else:
        return "node"
    if v.n_node not in known or size.free_symbols or size <= (node := known[v.n_node].value):
        return "node"
    fits = (size / node).is_integer and _innermost(strategy, known) is None
    return "two-level" if fits else "egress"


def _innermost(strategy: Strategy, known: Values) -> tuple[str, sp.Expr] | None:
    """The innermost of several mesh axes and its degree, where that does not divide a node."""
    inner = strategy.nested[-1]
    degree = next((q.value for s, q in known.items() if s.name == inner), sp.S.One)
    if len(strategy.nested) < 2 or v.n_node not in known:
        return None
    return None if (known[v.n_node].value / degree).is_integer else (inner, degree)


def _check_links(name: str, chosen: str, chip: Chip | None, typed: Values) -> None:
    fact, bandwidth = NETWORKS[name][:2]
    who = chip.name if chip is not None else "the network"
    if v.W in typed and name != "torus":
        lacks = f"{who} has no torus" if chip and not chip.has("ici_axis") else f"not of {name}"
        told = f"W is the bandwidth of a torus axis, both ways added: {lacks}"
        raise DeriveError(f"{told}; set {bandwidth}, which is one-way")
    if v.W_node in typed and name == "torus":
        told = f"W_node is the one-way link into the switches of a node, and {who} is taken as"
        ways = "set W, bidirectional per axis, or choose the network node"
        raise DeriveError(f"{told} a torus: {ways}")
    rate_given = bandwidth in typed or (name == "torus" and v.alpha in typed)
    if chosen == "chip" or chip is None or chip.has(fact) or rate_given:
        return
    works = [other for other, choice in NETWORKS.items() if chip.has(choice.fact)]
    hint = f"the network {' or '.join(works[:2])} works" if works else f"set {bandwidth}"
    raise DeriveError(f"{chip.name} has no link for the network {name} ({bandwidth}); {hint}")


def _check_torus_axes(chip: Chip, strategy: Strategy, asked: Question, typed: Values) -> None:
    symbols = {axis: TORUS_AXES.get(axis) for axis in strategy.nested if axis != SLICES}
    if asked.symbols & {*symbols.values()}:
        return
    axes = [typed[symbol].value if symbol in typed else sp.S.One for symbol in symbols.values()]
    there = chip.quantity("torus_axes").value
    if sum(axes) > there:
        names = " + ".join(symbol.name if symbol else axis for axis, symbol in symbols.items())
        told = f"{names} = {' + '.join(map(str, axes))} torus axes, and {chip.name} has {there}"
        raise DeriveError(f"{told}: mesh axes that share links share their bandwidth")
