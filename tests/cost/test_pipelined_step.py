"""The seconds of a step are those of its pipeline, run operation by operation."""

from __future__ import annotations

from fractions import Fraction as Q
from functools import cache
from typing import Any

import pytest
from schedule_simulator import Run, one_f_one_b, simulate, zero_bubble

from derive.cost.assumptions import CORRECTED, DEFAULT, Assumptions, assume
from derive.cost.schedule import BY_ASSUMPTION
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.plan.axes import degrees
from derive.plan.layout import layout
from derive.plan.plan import Plan, plan_of
from derive.plan.task import task
from derive.solve.evaluate import EXACT, compiled, exactly

Times = dict[str, list[Q]]
ONCE = ("dp", "optimizer", "overhead")


@cache
def planned(
    name: str, under: Assumptions, micro_batches: int, values: tuple[Any, ...] = (), **given: int
) -> Plan:
    ranks, size = 8, given.get("micro_batch", 1)
    cards = ranks * given.get("tp", 1) * given.get("cp", 1) * given["pp"]
    asked = task(
        model(name), chip("h100"), cards=cards, seq=8192, batch=ranks * size * micro_batches,
        assumptions=under, values=dict(values),
    )  # fmt: skip
    return plan_of(asked, degrees(**given))


def pieces(plan: Plan) -> Times:
    """Seconds of each pass of a micro-batch on each piece: so many layers of an inner stage's, and
    of the last the head, one product of which is forward and two backward."""
    n, p, virtual = plan.numbers, plan.pp, plan.virtual
    layers = [Q(plan.layers[place % p]) for place in range(p * virtual)]
    if virtual > 1:
        layers = [n[v.L_p] / virtual] * (p * virtual)
        layers[0] -= n[v.L_p] - plan.layers[0]
        layers[-1] -= n[v.L_p] - plan.layers[-1]
    times = {kind: [n[v.find(f"t_{kind}")] / n[v.L_p] * one for one in layers] for kind in "FBW"}
    for passes in times.values():
        passes[-1] += n[v.t_V] / 3
    return times


def ran(plan: Plan, times: Times, hop: Q = Q(0)) -> Run:
    shape = plan.pp, int(plan.numbers[v.n_mb]), plan.virtual
    if plan.task.assumptions.schedule == "zero-bubble":
        return simulate(zero_bubble, *shape, times, hop)
    both = [b + w for b, w in zip(times["B"], times["W"], strict=True)]
    return simulate(one_f_one_b, *shape, {"F": times["F"], "B": both}, hop)


def of_micro_batches(plan: Plan) -> Q:
    """Seconds of a step without what it takes once."""
    once = sum(plan.parts[name] for name in ONCE)
    return plan.step_seconds - once + plan.numbers[v.n_mb] * plan.numbers[v.t_wg]


ALIKE = [
    ("llama-3-70b", 12, {"tp": 8, "pp": 4}),
    ("llama-3-70b", 3, {"tp": 8, "pp": 8}),
    ("llama-3-70b", 16, {"tp": 2, "pp": 8, "virtual": 5}),
    ("llama-3-70b", 20, {"tp": 2, "cp": 2, "pp": 2, "virtual": 4}),
    ("llama-3-70b", 8, {"tp": 1, "pp": 1}),
    ("llama-3-8b", 16, {"tp": 2, "pp": 16, "micro_batch": 2}),
    ("llama-3-8b", 16, {"tp": 4, "pp": 4, "virtual": 8, "zero": 2}),
    ("llama-3-8b", 7, {"tp": 1, "pp": 32, "zero": 3}),
    ("mixtral-8x7b", 16, {"tp": 2, "pp": 8, "ep": 4}),
]
UNEVEN = [
    ("llama-3-405b", 16, {"tp": 8, "pp": 16, "virtual": 8}),
    ("llama-3-405b", 32, {"tp": 8, "pp": 16}),
    ("llama-3-405b", 8, {"tp": 8, "pp": 8, "virtual": 16}),
    ("llama-3-405b", 8, {"tp": 8, "pp": 4, "virtual": 4}),
    ("llama-3-70b", 70, {"tp": 8, "pp": 64}),
    ("llama-3-70b", 64, {"tp": 8, "pp": 64}),
    ("llama-3-70b", 12, {"tp": 8, "pp": 7}),
    ("llama-3-70b", 9, {"tp": 8, "pp": 3}),
    ("llama-3-8b", 13, {"tp": 1, "pp": 3}),
    ("llama-3-8b", 13, {"tp": 1, "pp": 5}),
    ("llama-3-8b", 2, {"tp": 1, "pp": 5}),
    ("deepseek-v3", 16, {"pp": 16, "ep": 8}),
]


def under_schedules(cases: list[Any]) -> pytest.MarkDecorator:
    """Each case under each schedule that runs it."""
    every = [(*case, "1f1b") for case in cases]
    every += [(*case, "zero-bubble") for case in cases if "virtual" not in case[2]]
    return pytest.mark.parametrize(("name", "micro_batches", "given", "schedule"), every)


@under_schedules(ALIKE)
def test_stages_of_as_many_layers(
    name: str, micro_batches: int, given: dict[str, int], schedule: str
) -> None:
    """Exact: the head makes the last stage the slowest, or the only one."""
    plan = planned(name, assume(DEFAULT, schedule=schedule), micro_batches, **given)
    assert len({*plan.layers}) == 1
    assert of_micro_batches(plan) == ran(plan, pieces(plan)).seconds


@under_schedules(UNEVEN)
def test_stages_of_fewer_layers(
    name: str, micro_batches: int, given: dict[str, int], schedule: str
) -> None:
    """Exact for 1F1B where the first and the last piece alone have fewer layers and the head takes
    less than those that the last lacks; else no less than the pipeline takes."""
    plan = planned(name, assume(DEFAULT, schedule=schedule), micro_batches, **given)
    n, seconds = plan.numbers, ran(plan, pieces(plan)).seconds
    assert len({*plan.layers}) == 2
    if schedule == "1f1b" and len({*plan.layers[1:-1]}) == 1 and not n[v.t_over]:
        assert plan.layers[0] < plan.layers[1] and n[v.t_z] * plan.virtual < n[v.t_mb]
        assert of_micro_batches(plan) == seconds
    else:
        assert seconds <= of_micro_batches(plan) < seconds * Q(9, 8)


@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble"])
@pytest.mark.parametrize("micro_batches", [3, 4, 9])
@pytest.mark.parametrize(
    "layers", ["19-20-20-21", "18-20-20-22", "2x8-9-10-2x11-12-11", "30-50", "50-30",
               "19-22-20-19", "22-2x20-18", "10-12-2x11-10-2x9-8", "10-30-25-15"],
)  # fmt: skip
def test_stages_of_given_layers(layers: str, micro_batches: int, schedule: str) -> None:
    """Exact for 1F1B where no stage has more layers than the last, or there are two; else no less
    than the pipeline takes."""
    stages = layout(f"layers={layers}").stages
    asked = task(
        model("llama-3-70b"), chip("h100"), cards=64 * len(stages), seq=8192,
        batch=8 * micro_batches, layout=f"recompute=none,schedule={schedule},layers={layers}",
    )  # fmt: skip
    plan = plan_of(asked, degrees(tp=8, pp=len(stages)))
    seconds = ran(plan, pieces(plan)).seconds
    if schedule == "1f1b" and (stages[-1] == max(stages) or len(stages) == 2):
        assert of_micro_batches(plan) == seconds
    else:
        assert seconds <= of_micro_batches(plan) < seconds * Q(5, 4)


def test_both_kinds_of_uneven_stages_are_among_them() -> None:
    plans = [planned(name, DEFAULT, count, **given) for name, count, given in UNEVEN]
    ends = [p for p in plans if len({*p.layers[1:-1]}) == 1 and not p.numbers[v.t_over]]
    assert {p.virtual for p in ends} >= {1, 8, 16} and len(ends) < len(plans)
    assert any(p.numbers[v.t_over] for p in plans)


def test_a_step_without_the_terms_of_stages_waits_for_all_but_the_head() -> None:
    """The closed form of `corrected`, of stages alike."""
    plan = planned("llama-3-70b", CORRECTED, 12, tp=8, pp=4)
    n = plan.numbers
    inner = n[v.t_mb] - n[v.f_V] * n[v.t_1]
    times = {"F": [inner / 3] * 4, "B": [inner * 2 / 3] * 4}
    times["B"][-1] += n[v.f_V] * n[v.t_1]
    seconds = simulate(one_f_one_b, 4, 12, 1, times, Q(0)).seconds
    assert plan.step_seconds - plan.parts["dp"] == seconds


@under_schedules(ALIKE)
def test_hops_that_are_hidden_arrive_later(
    name: str, micro_batches: int, given: dict[str, int], schedule: str
) -> None:
    """What of a hop holds up no sender is still on its way: for stages alike but for the head no
    more than the closed form, and exact where there is one stage."""
    under = assume(DEFAULT, schedule=schedule)
    plan = planned(name, under, micro_batches, (("x_pp", Q(1, 4)),), **given)
    whole = planned(name, under, micro_batches, **given)
    n, each = plan.numbers, whole.numbers[v.t_pp] / plan.virtual / 2
    assert n[v.t_pp] == whole.numbers[v.t_pp] / 4
    seconds = ran(plan, pieces(plan), each * Q(3, 4)).seconds
    assert ran(plan, pieces(plan)).seconds <= seconds <= of_micro_batches(plan)
    if plan.pp == 1:
        assert seconds == of_micro_batches(plan)


@pytest.mark.parametrize(("name", "micro_batches", "given"), [*ALIKE, *UNEVEN])
def test_what_the_schedule_is_told_of_a_stage(
    name: str, micro_batches: int, given: dict[str, int]
) -> None:
    """Passes of an inner stage are a micro-batch without what the last has beyond it; half of the
    tensor communication is forward, and products of weights are those of its layers."""
    n = planned(name, DEFAULT, micro_batches, **given).numbers
    assert n[v.t_F] == n[v.L_p] * n[v.t_f] + n[v.t_tp] / 2
    assert n[v.t_W] == n[v.L_p] * n[v.t_w]
    assert n[v.t_F] + n[v.t_B] + n[v.t_W] + n[v.t_over] == n[v.t_mb]
    waits = n[v.t_tp] + n[v.t_cp] + n[v.t_pp] + n[v.t_wg] + n.get(v.t_ep, 0)
    assert n[v.t_mb] == n[v.t_slow] + waits


@pytest.mark.parametrize(("name", "micro_batches", "given"), ALIKE)
def test_a_hop_that_is_hidden_takes_the_rest_of_its_time(
    name: str, micro_batches: int, given: dict[str, int]
) -> None:
    """Of pieces alike: so many hops one after the other as they take in a pipeline without work."""
    plan = planned(name, DEFAULT, micro_batches, (("x_pp", Q(1, 4)),), **given)
    n, p, virtual = plan.numbers, plan.pp, plan.virtual
    hop = n[v.t_pp] / n[v.x_pp] / virtual / 2
    bubble = exactly(BY_ASSUMPTION["1f1b"].bubble, n)
    pieces_alike = {kind: [Q(1)] * (p * virtual) for kind in "FB"}
    shape = p, int(n[v.n_mb]), virtual
    late, plain = (
        simulate(one_f_one_b, *shape, pieces_alike, wait).seconds for wait in (Q(1), Q(0))
    )
    assert plan.parts["bubble"] - bubble == (late - plain) * hop * Q(3, 4)


def test_layers_that_are_run_again_as_given_are_at_most_those_of_a_stage() -> None:
    given = assume(DEFAULT, recompute="given")
    for stages, again in ((1, 20), (4, 20), (8, 10), (7, 12)):
        plan = planned("llama-3-70b", given, 8, (("L_g", 20),), tp=8, pp=stages)
        assert plan.recomputed_layers == again
        a_1, a_0 = plan.numbers[v.a_1], plan.numbers[v.a_0]
        for one in plan.each_stage:
            kept = max(0, one.layers - again)
            held = a_1 * kept + a_0 * (one.layers - kept)
            assert one.memory["activations"] == one.in_flight * held


@pytest.mark.parametrize("gathers", ["kept", "again"])
def test_what_is_whole_under_zero_3(gathers: str) -> None:
    """Weights and gradients of two layers; or the weights of all, and gradients of two layers."""
    plan = planned("llama-3-70b", assume(DEFAULT, gathers=gathers), 8, tp=8, pp=4, zero=3)
    for one in plan.each_stage:
        layer = one.parameters / one.layers
        weights = 2 * one.parameters if gathers == "kept" else 2 * 2 * layer
        assert one.memory["gathered"] == weights + 2 * 4 * layer
    split = planned("llama-3-70b", assume(DEFAULT, gathers=gathers), 8, tp=8, pp=4, zero=2)
    assert split.memory["gathered"] == 0


@pytest.mark.parametrize("ways", ["none", "full", "given"])
def test_a_step_fits_where_each_of_its_stages_does(ways: str) -> None:
    """By the layers that are run again, of which a stage has no more than its own, in a search."""
    under = assume(DEFAULT, recompute=ways)
    for count, given in ((1, {"tp": 2, "pp": 3}), (9, {"tp": 2, "pp": 5}), (8, {"tp": 1, "pp": 4})):
        plan = planned("llama-3-8b", under, count, (("L_g", 5),), **given)
        step = plan.task.step
        definitions = tuple((v.find(term.name), term.expr) for term in step.definitions)
        symbols = {s for s, _ in definitions}
        at = {s: x for s, x in plan.numbers.items() if s not in symbols}
        at[v.L_g] = Q(20)  # of a plan with fewer stages
        asked = (v.L_r, step.lacking, *step.stage_bytes.values())
        again, _, *sizes = compiled(asked, definitions)(EXACT, at)
        assert again == {"none": 0, "full": plan.layers_per_stage}.get(
            ways, min(20, plan.layers_per_stage)
        )
        for size in sizes:
            for less, fits in ((0, size == max(sizes)), (1, False)):
                at[v.M_hbm] = (Q(size) - less) / at[v.mu]
                (lacks,) = compiled((step.lacking,), definitions)(EXACT, at)
                assert (lacks <= 0) is fits
