"""The model under `notebook` against plain arithmetic, for random inputs."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from by_hand import Machine, Shape, layers_again, one_plan
from cases import asked, at, space

from derive.notation import symbols as v
from derive.plan.search import search
from derive.solve.evaluate import exactly

NODES = (1, 2, 4, 8, 16)


def random_task(draw: random.Random):
    layers = draw.choice((8, 12, 32, 60, 80, 96))
    heads, kv = draw.choice(((32, 8), (64, 8), (16, 16), (48, 8)))
    width = 128 * heads
    vocab = draw.choice((32000, 128256, 50257))
    params = 2 * vocab * width + layers * draw.randrange(10 * width * width, 16 * width * width)
    cards = draw.choice((1, 8, 48, 64, 96, 256, 1024))
    seq = draw.choice((4096, 8192, 32768, 131072))
    batch = draw.choice((1, 16, 48, 96, 512))
    machine = Machine(
        peak=draw.randrange(10**14, 2 * 10**15),
        near=draw.randrange(10**11, 10**12),
        far=draw.randrange(10**10, 10**11),
        node=draw.choice(NODES),
        memory=9 * draw.randrange(10**9, 3 * 10**10),
        least_chunk=draw.choice((1, 1024, 4096)),
    )
    task = asked(
        "llama-3-70b", cards, seq, batch,
        P=params, L=layers, D=width, K=kv, G=heads // kv, H=128, V=vocab, C=machine.peak,
        W_node=machine.near, W_dcn=machine.far, n_node=machine.node,
        M_hbm=Fraction(machine.memory * 10, 9), T_min=machine.least_chunk,
    )  # fmt: skip
    return task, Shape(params, layers, width, kv * 128, vocab), machine


@pytest.mark.parametrize("seed", range(40))
def test_a_search_finds_what_plain_arithmetic_finds(seed):
    draw = random.Random(seed)
    task, shape, machine = random_task(draw)
    grid = space((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 3, 4, 6), (1, 2, 3))
    expected, rejected = [], {}
    for tp in grid.tp:
        for cp in grid.cp:
            for pp in grid.pp:
                for b in grid.micro_batch:
                    plan = one_plan(shape, machine, task.seq, task.batch, task.cards, tp, cp, pp, b)
                    if isinstance(plan, str):
                        rejected[plan] = rejected.get(plan, 0) + 1
                    else:
                        expected.append(((tp, cp, pp, b), plan))
    expected.sort(key=lambda pair: pair[1]["seconds"])
    ranking = search(task, grid)
    assert ranking.fit == len(expected)
    assert ranking.rejected == rejected
    for plan, (degrees, numbers) in zip(ranking.plans(), expected, strict=True):
        assert (plan.tp, plan.cp, plan.pp, plan.micro_batch) == degrees
        assert plan.dp == numbers["dp"]
        assert plan.recomputed_layers == numbers["recomputed"]
        assert plan.layers_per_stage == numbers["layers"]
        assert plan.memory_bytes == numbers["memory"]
        assert plan.step_seconds == numbers["seconds"]
        assert plan.mfu == numbers["mfu"]
        assert plan.parts == numbers["parts"]
        assert 0 < plan.mfu <= task.numbers[v.eta]


def test_the_comparison_would_notice_a_wrong_term():
    task = asked()
    plan = at(task, 8, 2, 1, 4)
    right = one_plan(Shape(70600000000, 80, 8192, 1024, 128256), Machine(), 8192, 512, 64, 8, 2, 1)
    wrong = one_plan(Shape(70600000000, 80, 8192, 128, 128256), Machine(), 8192, 512, 64, 8, 2, 1)
    assert plan.parts == right["parts"]
    assert plan.parts["cp"] > wrong["parts"]["cp"]


def closed(states, keep, redo, flying, layers, budget):
    """The closed form, evaluated from the model's own expression."""
    from derive.cost.assumptions import NOTEBOOK
    from derive.cost.memory import recomputed_layers

    values = {
        v.M_states: states, v.a_1: keep, v.a_0: redo, v.n_fly: Fraction(flying),
        v.L_p: Fraction(layers), v.mu: Fraction(1), v.M_hbm: budget,
    }  # fmt: skip
    least = exactly(recomputed_layers(NOTEBOOK), values)
    return int(least) if least <= layers else None


def test_recomputed_layers_in_closed_form_are_those_of_the_loop():
    draw = random.Random(1)
    outcomes = set()
    for _ in range(4000):
        redo = Fraction(draw.randrange(1, 50), draw.randrange(1, 9))
        keep = redo + Fraction(draw.randrange(1, 500), draw.randrange(1, 9))
        layers, flying = draw.randrange(1, 130), draw.randrange(1, 17)
        states = Fraction(draw.randrange(1, 10**5), draw.randrange(1, 7))
        again = draw.randrange(0, layers + 1)
        # Exactly at a step, one unit to either side of it, or anywhere.
        edge = states + flying * (keep * (layers - again) + redo * again)
        nudge = draw.choice((0, 0, 1, -1)) * Fraction(1, 10**9)
        budget = draw.choice((edge + nudge, Fraction(draw.randrange(1, 10**6))))
        if budget <= 0:
            continue
        expected = layers_again(states, keep, redo, flying, layers, budget)
        assert closed(states, keep, redo, flying, layers, budget) == expected
        outcomes.add("none" if expected is None else "all" if expected == layers else expected > 0)
    assert outcomes == {"none", "all", True, False}


@pytest.mark.parametrize("again", [0, 1, 17, 40])
def test_a_budget_met_to_the_byte_fits(again):
    """Rounding in float64 must not decide what lies exactly on a step."""
    task = asked(seq=131072, batch=32)
    plan = at(task, 8, 4, 2, 1)
    unit = Fraction(131072 // 4 * 8192, 8)
    states = sum(plan.memory[kind] for kind in ("weights", "gradients", "optimizer"))
    exact = states + 2 * unit * (34 * (40 - again) + 2 * again)
    grid = space((8,), (4,), (2,))
    for nudge, expected in ((0, again), (-1, again + 1)):
        budget = (exact + nudge) / Fraction(9, 10)
        one = search(asked(seq=131072, batch=32, M_hbm=budget), grid)
        if expected > 40:
            assert one.fit == 0 and one.rejected == {"memory": 1}
            assert one.too_large[0].lacks_bytes == 1
        else:
            assert [p.recomputed_layers for p in one.plans()] == [expected]
