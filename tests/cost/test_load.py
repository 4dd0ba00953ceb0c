"""Loads together: which of them are left, whose passes they are, and two requirements as one."""

from __future__ import annotations

import pytest
import sympy as sp

from derive.cost.assumptions import CHOICES, DEFAULT, Assumptions, assume
from derive.cost.load import SHARED, Load, Requirement, compute_bound, strongest, timed_passes
from derive.cost.network import link_seconds, network_of
from derive.cost.strategies import STRATEGIES, Strategy, layer
from derive.notation import symbols as v
from derive.notation.errors import DeriveError

TERM, OTHER = v.B / v.F, v.D / v.F


def load(*pairs: tuple[sp.Expr, str], of: str = "forward") -> Load:
    terms, links = zip(*pairs, strict=True)
    return Load(terms, links, (of,))


@pytest.mark.parametrize("factor", [sp.Rational(1, 2), sp.Rational(99, 100), 1, 2, v.G])
def test_a_load_that_is_at_most_another_on_the_same_link_goes(factor: sp.Expr) -> None:
    """At any values: a ratio that is a symbol may be on either side of one."""
    one, other = load((TERM, "X")), load((factor * TERM, "X"), of="backward")
    for loads in ((one, other), (other, one)):
        left = strongest(loads)
        if factor == 1:
            assert left == (Load((TERM,), ("X",), loads[0].passes + loads[1].passes),)
        elif factor == v.G:
            assert left == loads
        else:
            assert left == ((one,) if factor < 1 else (other,))
    assert strongest((one, load((factor * TERM, "Y")))) == (one, load((factor * TERM, "Y")))


def test_each_term_needs_a_larger_one_of_its_own() -> None:
    two, half = load((TERM, "X"), (OTHER, "Y")), load((TERM / 2, "X"))
    assert strongest((half, two)) == strongest((two, half)) == (two,)
    twice = load((TERM / 2, "X"), (TERM / 2, "X"))
    assert strongest((twice, two)) == (twice, two)  # one term is not above two of half its size
    both = load((TERM, "X"), (OTHER, "Y"), of="backward")
    (left,) = strongest((two, half, both))
    assert left.passes == ("forward", "backward")
    third = load((3 * TERM, "X"), (3 * OTHER, "Y"))
    assert strongest((two, load((TERM, "Z")), third)) == (load((TERM, "Z")), third)


def required(
    name: str, *mesh: sp.Symbol, under: Assumptions = DEFAULT, **more: object
) -> Requirement:
    return Requirement(
        name, f"{name} holds", (load((TERM, name)),), under, mesh, sp.Mul(*mesh), **more
    )  # type: ignore[arg-type]


def test_two_requirements_are_both_in_their_order_over_the_larger_mesh() -> None:
    one = required("a", v.X, definitions=((v.F, v.D), (v.G, v.D)), held=(v.F,))
    other = required("b", v.Y, definitions=((v.F, v.B), (v.K, v.B)), held=(v.K, v.F))
    wide = required("c", v.X, v.Y)
    both = one & other
    assert (both.name, both.claim) == ("a and b", "a holds, and b holds")
    assert both.loads == (*one.loads, *other.loads)
    assert (both.mesh, both.chips) == (one.mesh, one.chips)  # of equal ones that of the first
    assert both.definitions == ((v.F, v.B), (v.G, v.D), (v.K, v.B))  # the later one holds
    assert both.held == (v.F, v.K)
    for pair in (one & wide, wide & one):
        assert (pair.mesh, pair.chips) == (wide.mesh, v.X * v.Y)
    with pytest.raises(DeriveError, match="a and d rest on other assumptions"):
        _ = one & required("d", v.X, under=assume(form="exact"))


NOTATIONS = (
    "In[B_XY, D] . W_in[D_X, F] . W_out[F, D_YX] -> Out[B_XY, D]",
    "In[B_X, D_Y] . W_in[D_XZ, F_Y] . W_out[F_Y, D_ZX] -> Out[B_X, D_Y]",
    "In[B_X, D] . W_a[D, F_Y] . W_b[F_Y, D_Z] -> Out[B_X, D_Z]",
)
EVERY = [*STRATEGIES.values(), *(layer(text) for text in NOTATIONS)]


def together(groups: list[set[str]]) -> list[set[str]]:
    """Sets of links of which no two have one in common, by merging until none has."""
    for k, one in enumerate(groups):
        for other in groups[k + 1 :]:
            if one & other:
                rest = [group for group in groups if group is not one and group is not other]
                return together([*rest, one | other])
    return groups


def at_a_point(expr: sp.Expr) -> sp.Expr:
    """At a number of its own for each symbol, but for those that the assumptions fix."""
    fixed = expr.xreplace(DEFAULT.elements)
    values = {s: sp.Rational(sum(map(ord, s.name)), 7) for s in fixed.free_symbols}
    return fixed.xreplace(values)


@pytest.mark.parametrize(
    ("asked", "network"), [*((each, "torus") for each in CHOICES["passes"]), ("each", "egress")]
)
@pytest.mark.parametrize("strategy", EVERY, ids=lambda strategy: strategy.name)
def test_moves_that_share_a_link_take_their_times_after_each_other(
    strategy: Strategy, asked: str, network: str
) -> None:
    under = assume(passes=asked, network=network)
    costs = {cost.name: [cost] for cost in strategy.passes()}
    both = {" + ".join(costs): [one for (one,) in costs.values()]}
    alone = {name: cost for name, cost in costs.items() if name == asked}
    every = {"each": costs, "step": both}.get(asked, alone)
    timed = timed_passes(strategy, under)
    assert [one.name for one in timed] == list(every)
    shares: list[sp.Expr] = []
    for one, parts in zip(timed, every.values(), strict=True):
        seconds = at_a_point(sp.Add(*(cost.flops for cost in parts)) / v.C)
        assert at_a_point(one.seconds) == seconds
        times: list[tuple[set[str], str, sp.Expr]] = []
        for move in (move for cost in parts for move in cost.moves):
            for link, time in link_seconds(move, network_of(network), False).items():
                links = set(move.axes) if link == move.axis else {link}
                times.append((links, move.axis, at_a_point(time)))
        whole = {"".join(sorted(g)): g for g in together([links for links, _, _ in times])}
        assert [traffic.link for traffic in one.traffic] == sorted(whole)
        for traffic in one.traffic:
            here = [time for time in times if time[0] <= whole[traffic.link]]
            assert at_a_point(traffic.seconds) == sum(time for _, _, time in here)
            assert len(traffic.moves) == len(here)
            # Groups that a shared switch carries are kept apart.
            groups = {axis for _, axis, _ in here} if traffic.link in SHARED else {""}
            apart = [sum(t for _, axis, t in here if group in ("", axis)) for group in groups]
            assert sorted(map(at_a_point, traffic.terms)) == sorted(t / seconds for t in apart)
            shares.append(sum(apart) / seconds)
    left = [at_a_point(one.total) for one in compute_bound(strategy, under).loads]
    assert bool(left) == bool(shares) and max(left, default=0) == max(shares, default=0)


def test_over_the_memory_each_product_reads_its_operands_and_writes_its_result() -> None:
    product = layer("In[B, D] . W[D, F] -> Out[B, F]")
    forward, backward = timed_passes(product, assume(network="hbm"))
    once = v.e * (v.B * v.D + v.D * v.F + v.B * v.F)
    for cost, products in ((forward, 1), (backward, 2)):
        (traffic,) = cost.traffic
        assert sp.expand(traffic.seconds * v.W_hbm - products * once) == 0
