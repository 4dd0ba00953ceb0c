"""The bubble and the micro-batches in flight of each schedule are those of a simulated pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from random import Random

import pytest
import sympy as sp
from schedule_simulator import Order, Run, one_f_one_b, simulate, zero_bubble

from derive.cost import schedule, timing
from derive.cost.schedule import SCHEDULES, by_stage, layer_split, why_not
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.solve.evaluate import exactly

ORDERS: dict[str, Order] = {
    "1f1b": one_f_one_b, "interleaved": one_f_one_b, "zero-bubble": zero_bubble,
}  # fmt: skip
Times = dict[str, list[Fraction]]


def run(name: str, p: int, m: int, n: int, time: Times, hop: Fraction = Fraction(0)) -> Run:
    if name != "zero-bubble" and "W" in time:
        both = [b + w for b, w in zip(time["B"], time["W"], strict=True)]
        time = {"F": time["F"], "B": both}
    return simulate(ORDERS[name], p, m, n, time, hop)


def shapes(name: str) -> Iterator[tuple[int, int, int]]:
    """Stages, micro-batches and pieces of a stage with which a schedule can run."""
    for p, m, n in product(range(1, 8), range(1, 15), range(1, 5)):
        if why_not(name, p, n, m) is None:
            yield p, m, n


def value(expr: sp.Expr, **numbers: Fraction | int) -> Fraction:
    return exactly(expr, {v.find(name): Fraction(number) for name, number in numbers.items()})


def slowest(time: Times, p: int) -> Fraction:
    """Seconds of a micro-batch on the slowest rank."""
    return max(
        sum((sum(t[rank::p], Fraction(0)) for t in time.values()), Fraction(0)) for rank in range(p)
    )


def kinds(pick: Random, pieces: int) -> tuple[Times, dict[str, Fraction]]:
    """Times of pieces of which the first and the last are not as the inner ones, and what they
    are in the symbols of a bubble but for the pieces of a stage. The last may be the quicker or
    the slower, in each pass; backward passes for weights are the quickest."""
    inner = {kind: Fraction(pick.randint(1, 9)) for kind in "FBW"}
    inner["W"] = min(inner.values())
    zeta = Fraction(pick.randint(0, 4), 4)
    low, high = pick.choice([(0, 8), (8, 24)])
    time = {kind: [t] * pieces for kind, t in inner.items()}
    for passes in time.values():
        passes[0] *= 1 - zeta * (pieces > 1)  # a single piece is the last
        passes[-1] *= Fraction(pick.randint(low, high), 8)
    time["W"][-1] = min(passes[-1] for passes in time.values())
    last = sum((passes[-1] for passes in time.values()), Fraction(0))
    ends = {"zeta": zeta, "L_p": Fraction(1), "t_z": last, "t_Wz": time["W"][-1]}
    return time, ends | {f"t_{kind}": t for kind, t in inner.items()}


def step(name: str, p: int, m: int, n: int, time: Times, known: dict[str, Fraction]) -> Fraction:
    """Seconds of a step by the closed form."""
    of_a_stage = {f"t_{kind}": known[f"t_{kind}"] * n for kind in "FBW"}
    bubble = value(SCHEDULES[name].bubble, pp=p, n_mb=m, virtual=n, **(known | of_a_stage))
    return m * slowest(time, p) + bubble


@pytest.mark.parametrize("seed", range(3))
def test_first_and_last_pieces_that_are_not_as_the_inner_ones(seed: int) -> None:
    """1F1B is exact, whether the last piece is the quicker or the slower."""
    pick = Random(seed)
    for name in ("1f1b", "interleaved"):
        for p, m, n in shapes(name):
            time, known = kinds(pick, p * n)
            seconds, form = run(name, p, m, n, time).seconds, step(name, p, m, n, time, known)
            quicker = known["t_z"] < sum(known[f"t_{kind}"] for kind in "FBW")
            if quicker and p == 2 and n > 1:
                assert form <= seconds
            else:
                assert form == seconds


@pytest.mark.parametrize("seed", range(3))
def test_zero_bubble_with_a_last_stage_that_is_not_as_the_inner_ones(seed: int) -> None:
    """Exact for a slower one; for a quicker one the step with an inner one in its place."""
    pick = Random(seed)
    for p, m, _ in shapes("zero-bubble"):
        time, known = kinds(pick, p)
        seconds = run("zero-bubble", p, m, 1, time).seconds
        form = step("zero-bubble", p, m, 1, time, known)
        raised = {k: [*t[:-1], max(t[-1], known[f"t_{k}"])] for k, t in time.items()}
        if p > 2:
            assert seconds <= run("zero-bubble", p, m, 1, raised).seconds == form
        elif time == raised:
            assert seconds == form


@pytest.mark.parametrize("name", SCHEDULES)
def test_micro_batches_in_flight(name: str) -> None:
    pick = Random(name)
    for p, m, n in shapes(name):
        time = {kind: [Fraction(pick.randint(1, 9)) for _ in range(p * n)] for kind in "FBW"}
        seen = run(name, p, m, n, time)
        held = [value(SCHEDULES[name].saved, i_p=i, pp=p, n_mb=m, virtual=n) for i in range(p)]
        assert held == [Fraction(chunks, n) for chunks in seen.kept]


def test_the_first_stage_of_an_interleaved_pipeline_holds_most() -> None:
    """p (1 + (p - 1)/(p v)) micro-batches [Megatron-LM], where there are as many."""
    for p, n in product(range(1, 9), range(2, 6)):
        held = value(SCHEDULES["interleaved"].saved, i_p=0, pp=p, n_mb=8 * p, virtual=n)
        assert held == p * (1 + Fraction(p - 1, p * n))


def lists(pick: Random, p: int) -> list[Fraction]:
    return [Fraction(pick.randint(1, 9), pick.randint(1, 3)) for _ in range(p)]


def with_slowest_last(time: Sequence[Fraction]) -> list[Fraction]:
    """In the same order but for the slowest, which changes places with the last."""
    ordered, place = list(time), time.index(max(time))
    ordered[place], ordered[-1] = ordered[-1], ordered[place]
    return ordered


def test_any_stages_of_which_the_last_is_the_slowest() -> None:
    """1F1B, where the last stage is the slowest in each pass, and in proportion or not."""
    pick = Random(1)
    for p, m, _ in list(shapes("1f1b")) * 3:
        time = {kind: with_slowest_last(lists(pick, p)) for kind in "FB"}
        stages = [sp.Rational(f + b) for f, b in zip(time["F"], time["B"], strict=True)]
        seconds = run("1f1b", p, m, 1, time).seconds
        assert seconds == m * stages[-1] + schedule.filling(stages)


def test_interleaved_stages_none_of_which_is_slower_than_the_next() -> None:
    pick = Random(2)
    for p, m, n in list(shapes("interleaved")) * 2:
        time = {kind: sorted(lists(pick, p)) * n for kind in "FB"}
        stages = [sp.Rational(f + b) for f, b in zip(time["F"], time["B"], strict=True)][:p]
        seconds = run("interleaved", p, m, n, time).seconds
        assert seconds == m * n * stages[-1] + schedule.filling(stages)


def test_any_stages_with_weights_apart() -> None:
    """ZB-H1, where the last stage is the slowest in each pass and no weights take longest."""
    pick = Random(3)
    for p, m, _ in list(shapes("zero-bubble")) * 3:
        time = {kind: with_slowest_last(lists(pick, p)) for kind in "FBW"}
        time["W"] = [min(passes) for passes in zip(*time.values(), strict=True)]
        bubble = schedule.zero_bubble(*([sp.Rational(t) for t in time[kind]] for kind in "FBW"))
        seconds = run("zero-bubble", p, m, 1, time).seconds
        assert seconds == m * slowest(time, p) + value(bubble, n_mb=m)


def test_layers_are_split() -> None:
    assert set(layer_split(80, 16)) == {5}
    assert layer_split(126, 128) == (0, *[1] * 126, 0)
    assert by_stage(layer_split(126, 128), 16) == (7, *[8] * 14, 7)
    assert layer_split(61, 16) == (3, *[4] * 13, 3, 3)
    for layers, pieces in product(range(1, 40), range(1, 12)):
        if layers >= pieces:
            split = layer_split(layers, pieces)
            assert sum(split) == layers and len(split) == pieces
            assert max(split) - min(split) <= 1


def test_a_step_has_the_layers_as_they_are_split() -> None:
    counted = {term.name: term.expr for term in timing.stages(())}
    for layers, stages in product(range(1, 40), range(1, 12)):
        if layers >= stages:
            split = layer_split(layers, stages)
            said = [value(counted[name], L=layers, pp=stages) for name in ("L_p", "L_f", "L_l")]
            assert said == [max(split), split[0] if stages > 1 else said[1], split[-1]]


def test_layers_that_do_not_split() -> None:
    with pytest.raises(DeriveError, match="3 layers do not fill 8 pieces"):
        layer_split(3, 8)


def test_why_a_schedule_cannot_run() -> None:
    assert why_not("interleaved", 6, 2, 3) == "3 micro-batches on 6 interleaved stages"
    assert why_not("interleaved", 6, 1, 3) is None
    assert why_not("interleaved", 6, 2, 12) is None
    assert why_not("interleaved", 1, 2, 12) == "2 virtual stages on a single rank"
    assert "2 virtual stages a rank" in str(why_not("1f1b", 6, 2, 12))


@pytest.mark.parametrize("name", SCHEDULES)
def test_hops_of_stages_alike(name: str) -> None:
    """Exact for 1F1B; where stages are interleaved, up to hops as long as a pass of a piece."""
    pick = Random(name)
    for p, m, n in shapes(name):
        each = {kind: Fraction(pick.randint(1, 9)) for kind in "FBW"}
        each["W"] = min(each.values())
        hop = min(each["F"], each["B"] + each["W"]) * Fraction(pick.randint(1, 8), 8)
        if n == 1:
            hop *= pick.randint(1, 4)
        time = {kind: [t] * (p * n) for kind, t in each.items()}
        waits = run(name, p, m, n, time, hop).seconds - run(name, p, m, n, time).seconds
        most = hop * value(SCHEDULES[name].hops, pp=p, n_mb=m, virtual=n)
        assert waits <= most if name == "zero-bubble" else waits == most


def test_hops_of_any_stages() -> None:
    pick = Random(4)
    for p, m, _ in list(shapes("1f1b")) * 2:
        time = {kind: lists(pick, p) for kind in "FB"}
        hop = Fraction(pick.randint(1, 20), 4)
        waits = run("1f1b", p, m, 1, time, hop).seconds - run("1f1b", p, m, 1, time).seconds
        assert waits <= hop * value(SCHEDULES["1f1b"].hops, pp=p, n_mb=m)
