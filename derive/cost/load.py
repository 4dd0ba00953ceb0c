"""What must not exceed one, as one kind of value: a load, and loads that must all hold.

A layer is compute-bound where, in every pass, the time on each link is at most the time of the
computation; with serial overlap, where the times on all links together are. A model's state fits
where it is at most the memory. The limits of a training step (`limits`) are loads, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import sympy as sp

from derive.cost.assumptions import Assumptions
from derive.cost.block import joined
from derive.cost.network import CARDS, MEMORY, NODE, link_seconds, network_of
from derive.cost.program import Move, Multiplied, PassCost, elements
from derive.cost.strategies import Strategy
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.notation.units import expect_unit, one

CAPACITY = "memory"
SHARED = {NODE, CARDS}
Given = tuple[tuple[sp.Symbol, sp.Expr], ...]


@dataclass(frozen=True)
class Load:
    """Terms that together must not exceed one, the link of each ("memory" where it is capacity),
    and the passes for which they are the same."""

    terms: tuple[sp.Expr, ...]
    links: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()

    @property
    def total(self) -> sp.Expr:
        return sp.Add(*self.terms)

    def put(self, given: Mapping[sp.Symbol, sp.Expr]) -> Load:
        """The load with expressions in place of symbols."""
        return replace(self, terms=tuple(term.xreplace(given) for term in self.terms))


@dataclass(frozen=True, repr=False)
class Requirement:
    """Loads none of which may exceed one; `claim` says in words what is then true.

    `mesh` and `chips` are the mesh axes that the loads hold and their product. `definitions` give
    symbols in terms of those before them, from which values follow; of those `held`, which step,
    it is not asked how they depend on another. `described` says what the loads rest on, `idle` what
    loads of zero mean. `inside_node` is the link that is taken to be the one inside a node where
    the group that it belongs to is itself asked for.
    """

    name: str
    claim: str
    loads: tuple[Load, ...]
    assumptions: Assumptions
    mesh: tuple[sp.Symbol, ...] = ()
    chips: sp.Expr = sp.S.One
    definitions: Given = ()
    held: tuple[sp.Symbol, ...] = ()
    described: Mapping[str, str] = field(default_factory=dict, compare=False)
    idle: str = ""
    inside_node: sp.Symbol | None = None

    def __repr__(self) -> str:
        return f"{self.name}: {self.claim}"

    def __and__(self, other: Requirement) -> Requirement:
        """Both; raises DeriveError where they do not rest on the same assumptions."""
        if self.assumptions != other.assumptions:
            both = f"{self.assumptions!r} and {other.assumptions!r}"
            raise DeriveError(f"{self.name} and {other.name} rest on other assumptions: {both}")
        larger = max((self, other), key=lambda one: len(one.mesh))
        return Requirement(
            f"{self.name} and {other.name}",
            f"{self.claim}, and {other.claim}",
            strongest((*self.loads, *other.loads)),
            self.assumptions,
            larger.mesh,
            larger.chips,
            tuple(dict([*self.definitions, *other.definitions]).items()),
            tuple(dict.fromkeys((*self.held, *other.held))),
            {**self.described, **other.described},
        )


@dataclass(frozen=True)
class Traffic:
    """The moves of one pass that share a link: their time, and the load that they make, as one
    term for each group of mesh axes that a shared switch carries beside others."""

    link: str
    moves: tuple[Move, ...]
    seconds: sp.Expr
    terms: tuple[sp.Expr, ...]

    @property
    def load(self) -> sp.Expr:
        return sp.Add(*self.terms)


@dataclass(frozen=True)
class TimedPass:
    """A pass with its computation time and its traffic, constants not yet put in."""

    name: str
    seconds: sp.Expr
    traffic: tuple[Traffic, ...]


@lru_cache(maxsize=256)
def timed_passes(strategy: Strategy, assumptions: Assumptions) -> tuple[TimedPass, ...]:
    """The passes that the assumptions ask for; "step" is forward and backward as one pass."""
    passes = strategy.passes(assumptions)
    if assumptions.network == MEMORY:
        passes = tuple(replace(cost, moves=_through_memory(cost)) for cost in passes)
    if assumptions.passes == "step":
        flops = sp.Add(*(p.flops for p in passes))
        moves = tuple(m for p in passes for m in p.moves)
        passes = (PassCost(" + ".join(p.name for p in passes), flops, moves),)
    elif assumptions.passes != "each":
        passes = tuple(p for p in passes if p.name == assumptions.passes)
    return tuple(_timed(cost, strategy.nested, assumptions) for cost in passes)


def _through_memory(cost: PassCost) -> tuple[Move, ...]:
    """What the products of a pass read and write, functions between them being fused [SB1]; the
    loads of a pass that declares its moves."""
    products = [step for step in cost.program if isinstance(step, Multiplied) and step.flops]
    read = [t for one in products for pair in one.pairs for t in (pair.left, pair.right)]
    every = (*read, *(one.result for one in products))
    loads = tuple(Move("load", t.name, (), v.e * elements(t), critical=True) for t in every)
    return loads or tuple(move for move in cost.moves if move.collective == "load")


def needs_network(strategy: Strategy) -> bool:
    """Whether any move runs over a mesh axis, and so over what is chosen as the network."""
    return any(
        move.collective != "load" and move.axes != ("S",)
        for cost in strategy.passes()
        for move in cost.moves
    )


def _timed(cost: PassCost, mesh: tuple[str, ...], assumptions: Assumptions) -> TimedPass:
    network = network_of(assumptions.network, mesh, assumptions.wrap)
    # What several products share is taken out, so that it cancels in a load.
    math = sp.factor_terms(cost.flops) / v.C
    traffic = []
    shared: list[tuple[set[str], list[tuple[Move, sp.Expr]]]] = []
    for move in cost.moves:
        for link, time in link_seconds(move, network, assumptions.exact).items():
            # Groups of several mesh axes share the links of each of them.
            links = set(move.axes) if link == move.axis else {link}
            together = [(move, time)]
            for other in [group for group in shared if group[0] & links]:
                links |= other[0]
                together = [*other[1], *together]
                shared.remove(other)
            shared.append((links, together))
    for links, timed in sorted(shared, key=lambda one: "".join(sorted(one[0]))):
        terms: dict[str, sp.Expr] = {}
        for move, time in timed:
            group = move.axis if links <= SHARED else ""
            # Term by term: a product of powers over a product of powers stays one.
            load = (time / math).xreplace(assumptions.elements) if math else sp.oo
            terms[group] = terms.get(group, sp.S.Zero) + load
        moves, times = zip(*timed, strict=True)
        link = joined(tuple(sorted(links)))
        traffic.append(Traffic(link, moves, sp.Add(*times), tuple(terms.values())))
    return TimedPass(cost.name, math, tuple(traffic))


@lru_cache(maxsize=256)
def compute_bound(strategy: Strategy, assumptions: Assumptions) -> Requirement:
    """That computation takes at least as long as communication: the loads that bind, those that
    another one implies left out; none where nothing is sent."""
    loads = []
    for cost in timed_passes(strategy, assumptions):
        together = [[(term, t.link) for term in t.terms] for t in cost.traffic]
        if assumptions.overlap == "serial" and together:
            together = [[one for links in together for one in links]]
        for pairs in together:
            terms, links = zip(*pairs, strict=True)
            loads.append(Load(terms, links, (cost.name,)))
    claim = "computation takes at least as long as communication"
    return _of_strategy(strategy, claim, strongest(loads), assumptions)


def fits(strategy: Strategy, state: sp.Expr, assumptions: Assumptions) -> Requirement:
    """That the bytes of state of a chip, as `state` has them, fit in its memory."""
    expect_unit(state / v.M_hbm, one, v.unit_of_symbol, f"{strategy.name}, memory")
    load = (state / v.M_hbm).xreplace(assumptions.elements)
    loads = (Load((load,), (CAPACITY,), ("every",)),)
    claim = "weights and optimizer state of a chip fit in its memory"
    return _of_strategy(strategy, claim, loads, assumptions, memory=True)


def _of_strategy(
    strategy: Strategy,
    claim: str,
    loads: tuple[Load, ...],
    assumptions: Assumptions,
    memory: bool = False,
) -> Requirement:
    assumptions.only(strategy.taken, strategy.name)
    told = strategy.stated(assumptions, memory=memory)
    mesh, chips = strategy.mesh, strategy.chips
    return Requirement(strategy.name, claim, loads, assumptions, mesh, chips, described=told)


def strongest(loads: Iterable[Load]) -> tuple[Load, ...]:
    """The loads without those that another implies; those that imply each other are one, of the
    passes of both."""
    kept: list[Load] = []
    for new in loads:
        stronger = next((old for old in kept if _implied(new, old)), None)
        if stronger is None:
            kept = [old for old in kept if not _implied(old, new)] + [new]
        elif _implied(stronger, new):
            both = (*stronger.passes, *new.passes)
            kept[kept.index(stronger)] = replace(stronger, passes=both)
    return tuple(kept)


def _implied(weak: Load, strong: Load) -> bool:
    """Whether each term of `weak` is at most a term of its own of `strong` on the same link."""
    left = list(zip(strong.links, strong.terms, strict=True))
    for link, term in zip(weak.links, weak.terms, strict=True):
        for pair in left:
            ratio = term / pair[1] if pair[0] == link else None
            if isinstance(ratio, sp.Rational) and ratio <= 1:
                left.remove(pair)
                break
        else:
            return False
    return True
