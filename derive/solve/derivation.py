"""The derivation of a threshold as data: each step is words and a claim, and every claim is proved.

The claims are what a reader sees. Each step carries what its claim is compared with, read off the
declaration, so that a claim with a changed coefficient fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import sympy as sp

from derive.cost.assumptions import DEFAULT, Assumptions
from derive.cost.load import CAPACITY, TimedPass, Traffic, compute_bound, timed_passes
from derive.cost.network import LINK_WORDS
from derive.cost.program import Move
from derive.cost.strategies import Strategy
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, quoted
from derive.solve.powers import Balance
from derive.solve.proof import ALPHA, AT_POINTS, AtSplit, BestSplit, Check, MeshProduct, Same, Times
from derive.solve.question import Fixed, Subject
from derive.solve.smt import decided
from derive.solve.threshold import Threshold, in_alpha, threshold

TIMES: Mapping[str, sp.Symbol] = {
    "X": v.T_X, "Y": v.T_Y, "Z": v.T_Z, "S": v.T_S, "hbm": v.T_hbm,
}  # fmt: skip
VERBS: Mapping[str, str] = {
    "all_gather": "all-gathers",
    "reduce_scatter": "reduce-scatters",
    "all_reduce": "all-reduces",
    "all_to_all": "exchanges by all-to-all",
    "permute": "permutes",
    "send": "sends",
    "load": "loads",
}


@dataclass(frozen=True, repr=False)
class Step:
    """A step of a derivation: its kind, what it says in words, its claim and further claims listed
    with it, what they are compared with, and the name of what is derived.

    `kind` is computation, communication, load, implied, mesh, split, best, capacity or threshold;
    of recomputation fits, frees, bound or closed_form.
    """

    kind: str
    words: str
    claim: sp.Rel
    check: Check
    name: str
    also: tuple[sp.Rel, ...] = ()

    @property
    def claims(self) -> tuple[sp.Rel, ...]:
        """The claim, and what else is claimed with it."""
        return (self.claim, *self.also)

    @property
    def latex(self) -> str:
        """The claim as TeX, without delimiters."""
        return r" \quad\text{and}\quad ".join(tex.tex(claim) for claim in self.claims)

    @property
    def text(self) -> str:
        """The claim as plain text."""
        return " and ".join(tex.text(claim) for claim in self.claims)

    def with_claim(self, claim: sp.Rel) -> Step:
        """The same step with the claim an author prefers; to be proved before it is printed."""
        return replace(self, claim=claim)

    def proof(self) -> str:
        """How the claim was proved without a solver; raises ProofError, naming what is derived and
        the step."""
        return self.check.proved(self.claims, f"{self.name}, {self.kind}")

    @property
    def certainty(self) -> str:
        """In words how the claim is known: "proved for all positive values" or "symbolically",
        "checked at points"; raises as `prove` does."""
        how = prove(self)
        return f"checked {how}" if how == AT_POINTS else f"proved {how}"

    def __str__(self) -> str:
        return f"{self.words}:\n    {self.text}"

    __repr__ = __str__

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex}$"


class ProvedSteps(tuple[Step, ...]):
    """Steps in order, each proved when it was put here; shown in full in a terminal and as
    mathematics in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(f"{n}. {step}   [{step.certainty}]" for n, step in enumerate(self, 1))

    def _repr_markdown_(self) -> str:
        parts = (
            f"{n}. {s.words} ({s.certainty}):\n\n   $$\n   {s.latex}\n   $$\n"
            for n, s in enumerate(self, 1)
        )
        return "\n".join(parts)


@lru_cache(maxsize=512)
def tried(step: Step) -> str:
    """How the claim of a step was proved without a solver: "symbolically", "at points", or, for the
    load of a limit, "by the step model". Raises as `prove` does."""
    if not isinstance(step, Step):
        raise DeriveError(f"expected a step of a derivation, found {quoted(step)}")
    return step.proof()


@lru_cache(maxsize=512)
def prove(step: Step) -> str:
    """How the claim of a step was proved: "symbolically", "for all positive values" where z3 is
    installed and decides it, else "at points", or, for the load of a limit, "by the step model".

    Raises ProofError naming what is derived, the step and, where it can, a point at which the claim
    fails.
    """
    how = tried(step)
    return decided(step.check, step.claims, step.name) or how if how == AT_POINTS else how


def proved_steps(steps: Iterable[Step]) -> ProvedSteps:
    """The steps, each tried; raises ProofError where one does not hold (a bug, never input)."""
    every = ProvedSteps(steps)
    for step in every:
        tried(step)
    return every


def steps(
    subject: Subject,
    asked: sp.Expr,
    assumptions: Assumptions | str = DEFAULT,
    *,
    fixed: Fixed = (),
    **changes: object,
) -> ProvedSteps:
    """The derivation of `threshold(subject, asked)`, of a strategy for the pass that binds, each
    step proved; it takes what `threshold` takes.

    Raises what `threshold` raises, and ProofError where a step does not hold (a bug, never input).
    """
    return derived(threshold(subject, asked, assumptions, fixed=fixed, **changes))


def derived(given: Threshold) -> ProvedSteps:
    """The derivation of a threshold, each step proved."""
    return proved_steps([*_steps_to_loads(given), _threshold_step(given)])


def _steps_to_loads(given: Threshold) -> Iterator[Step]:
    need = given.requirement
    if need.loads[0].links == (CAPACITY,):
        state = need.loads[0].total * v.M_hbm
        check = Same(state, v.M_hbm)
        yield Step("capacity", _sentence(need.claim), sp.Le(state, v.M_hbm), check, need.name)
        return
    if not isinstance(given.subject, Strategy):
        words = f"{_sentence(need.claim)} where this load is at most 1"
        for load in given.state.loads:
            check = Same(load.total, sp.S.One, "by the step model")
            yield Step("load", words, sp.Le(load.total, 1, evaluate=False), check, need.name)
        return
    binding = _binding_passes(given, given.subject)
    for cost in binding:
        yield from _pass_steps(given, cost)
    yield from _implied_steps(given, given.subject, binding)
    for symbol, degree in given.state.given:
        words = f"The mesh axes multiply to the chips, so {symbol} follows"
        yield Step("mesh", words, _equal(symbol, degree), MeshProduct(need.chips), need.name)
    yield from _split_steps(given)


def _pass_steps(given: Threshold, cost: TimedPass) -> Iterator[Step]:
    """The times of a pass and the loads that they make."""
    name = given.requirement.name
    words = f"A chip computes its share of the {cost.name} pass in"
    yield Step("computation", words, _equal(v.T_math, cost.seconds), _times(cost), name)
    for traffic in cost.traffic:
        words = f"Over {_link(traffic.link)} it {_listed(traffic.moves)}, in"
        claim = _equal(time_of(traffic.link), traffic.seconds)
        yield Step("communication", words, claim, _times(cost, traffic), name)
    for traffic in cost.traffic:
        share = f"the time over {_link(traffic.link)} is this share of the computation"
        words = f"With {_constants(given.assumptions, traffic)}, {share}"
        claim = _share(traffic, in_alpha(traffic.load, given.question))
        yield Step("load", words, claim, _times(cost, traffic, given.assumptions), name)


def _implied_steps(
    given: Threshold, strategy: Strategy, binding: list[TimedPass]
) -> Iterator[Step]:
    """That the passes left out ask no more than the binding ones, load by load."""
    loads = {traffic.link: traffic.load for cost in binding for traffic in cost.traffic}
    for cost in timed_passes(strategy, given.assumptions):
        for traffic in cost.traffic if cost not in binding else ():
            binding_load = loads[traffic.link]
            ratio = traffic.load / binding_load
            asks = f"asks {'the same' if ratio == 1 else 'less'} over {_link(traffic.link)}"
            words = f"The {cost.name} pass {asks}; its share there is"
            share = ratio * in_alpha(binding_load)
            at_least: tuple[sp.Expr, ...] = (binding_load,)
            if not isinstance(ratio, sp.Rational):  # sums: less term by term
                share, at_least = traffic.load, ()
            check = replace(_times(cost, traffic, given.assumptions), at_least=at_least)
            yield Step("implied", words, _share(traffic, share), check, given.requirement.name)


def _split_steps(given: Threshold) -> Iterator[Step]:
    for split in given.splits:
        free, name = split.symbol, given.requirement.name
        why = "The larger of the two loads is least where they are equal"
        there = "There each of them is"
        if split.summed:
            why = "The sum of the loads is least where its derivative is zero"
            there = "There the sum is"
        loads = tuple(load.xreplace(dict(ALPHA)) for load in split.loads)
        check = BestSplit(free, loads, split.summed)
        yield Step("split", why, _equal(free, split.at), check, name)
        claim = _equal(v.T_comms / v.T_math, _load_at_split(given, split))
        at = {free: split.at.xreplace(dict(ALPHA))}
        here = AtSplit(tuple(load.xreplace(at) for load in loads), split.summed)
        yield Step("best", there, claim, here, name)


def _load_at_split(given: Threshold, split: Balance) -> sp.Expr:
    """The load at the best split: the sum, or the first of equals."""
    in_terms = {v.C: v.alpha * v.W}
    at = {split.symbol: split.at.xreplace(in_terms)}
    here = [load.xreplace(in_terms).xreplace(at) for load in split.loads]
    total = sp.powsimp(sp.Add(*here) if split.summed else here[0])
    if {v.C, v.W} & given.question.symbols or v.W in total.free_symbols:
        total = total.xreplace(dict(ALPHA))
    return in_alpha(total, given.question)


def _threshold_step(given: Threshold) -> Step:
    need = given.requirement
    words = f"{_sentence(need.claim)} if and only if"
    if need.definitions:
        (load,) = given.state.loads
        reached = sp.simplify(load.total.xreplace({given.symbol: given.closed_form}))
        words = f"Solved for {given.symbol}; there the load is {tex.text(reached)}"
    elif need.loads[0].links == (CAPACITY,):
        words = "It fits if and only if"
    if given.provided:
        side = " and ".join(map(tex.text, given.provided))
        words = f"Provided {side}, {words[0].lower()}{words[1:]}"
    first, *rest = given.relations
    return Step("threshold", words, first, given.check, need.name, also=tuple(rest))


def _binding_passes(given: Threshold, strategy: Strategy) -> list[TimedPass]:
    """The passes that the bounds rest on, one of those that bind alike."""
    named = {name for split in given.splits for name in split.passes}
    for load in compute_bound(strategy, given.assumptions).loads:
        if not named & set(load.passes):
            named.add(load.passes[0])
    return [cost for cost in timed_passes(strategy, given.assumptions) if cost.name in named]


def _times(
    cost: TimedPass, traffic: Traffic | None = None, assumptions: Assumptions | None = None
) -> Times:
    """The declared times of a pass and of its traffic over a link, and the constants in a load."""
    times = [(v.T_math, cost.seconds)]
    if traffic is not None:
        times.append((time_of(traffic.link), traffic.seconds))
    constants = () if assumptions is None else tuple(assumptions.elements.items())
    return Times(tuple(times), constants)


def time_of(link: str) -> sp.Symbol:
    """The symbol of the time over a link."""
    return TIMES.get(link, v.T_comms)


def _sentence(claim: str) -> str:
    return f"{claim[0].upper()}{claim[1:]}"


def _share(traffic: Traffic, share: sp.Expr) -> sp.Rel:
    return _equal(time_of(traffic.link) / v.T_math, share)


def _equal(left: sp.Expr, right: sp.Expr) -> sp.Rel:
    # Unevaluated: SymPy would try to decide the equation, which takes longer than to prove it.
    return sp.Eq(left, right, evaluate=False)


def _link(link: str) -> str:
    if link in LINK_WORDS:
        return LINK_WORDS[link]
    names = list(link) if link.isupper() else link.split("+")
    return f"mesh ax{'i' if len(names) == 1 else 'e'}s {' and '.join(names)}"


def _listed(moves: tuple[Move, ...]) -> str:
    """What is done to which tensors: "all-gathers `In` and reduce-scatters `Out`"."""
    kinds: dict[str, list[str]] = {}
    for move in moves:
        kinds.setdefault(VERBS[move.collective], []).append(f"`{move.tensor}`")
    return " and ".join(f"{verb} {_joined(tensors)}" for verb, tensors in kinds.items())


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _constants(assumptions: Assumptions, traffic: Traffic) -> str:
    """The constants that the time holds, with their values."""
    names = {v.fma: "FLOP per multiply-add", v.e: "bytes per element", v.e_g: "bytes per gradient"}
    used = {v.fma} | traffic.seconds.free_symbols
    values = assumptions.elements
    return _joined([f"{values[s]} {name}" for s, name in names.items() if s in used & set(values)])
