"""A training step with experts: its work, its traffic, its parameters and its states, by hand."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction as Q
from functools import cache
from typing import Any

import pytest

from derive.cost.assumptions import DEFAULT, Assumptions, assume
from derive.cost.network import TwoLevels
from derive.cost.program import Move
from derive.cost.step import StepModel, step_model
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.plan.axes import degrees
from derive.plan.plan import Plan, plan_of
from derive.plan.task import task
from derive.solve.evaluate import EXACT, compiled, exactly

Numbers = dict[Any, Q]
PLANS: Mapping[str, Mapping[str, int]] = {
    "mixtral-8x7b": {"tp": 2, "cp": 2, "pp": 4, "ep": 4, "etp": 2},
    "deepseek-v3": {"pp": 16, "ep": 64},
}
CARDS = {"mixtral-8x7b": 128, "deepseek-v3": 2048}


@cache
def planned(name: str, layout: str = "recompute=none", **given: Any) -> Plan:
    """A plan of a model in sequences of 4,096 tokens on H100s, 16 micro-batches of one of them."""
    chosen = dict(given) or dict(PLANS[name])
    values = {key: chosen.pop(key) for key in ("n_M", "x_cap", "x_ep") if key in chosen}
    cards = chosen.pop("cards", CARDS[name])
    ranks = cards // (chosen.get("tp", 1) * chosen.get("cp", 1) * chosen.get("pp", 1))
    asked = task(
        model(name), chip("h100"), cards=cards, seq=4096, batch=16 * ranks, layout=layout,
        values=values,
    )  # fmt: skip
    return plan_of(asked, degrees(**chosen))


def evaluated(step: StepModel, at: Numbers) -> Numbers:
    """The numbers of every definition and part, the parts by name."""
    definitions = tuple((v.find(term.name), term.expr) for term in step.definitions)
    made = compiled((*(s for s, _ in definitions), *(t.expr for t in step.parts)), definitions)
    values = made(EXACT, at)
    names = (*(s for s, _ in definitions), *(term.name for term in step.parts))
    return dict(zip(names, map(Q, values), strict=True))


# --- work


def test_flop_of_a_layer_are_six_for_each_active_parameter_and_the_scores() -> None:
    mixtral = planned("mixtral-8x7b").numbers
    active = 12879925248 - 2 * 32000 * 4096 - 32 * 2 * 4096 - 4096  # without tables and gains
    assert mixtral[v.f_A] == 6 * 4096 * 4096
    assert mixtral[v.f_L] == Q(6 * active, 32) + mixtral[v.f_A]
    latent = planned("deepseek-v3").numbers
    gains = 61 * (2 * 7168 + 1536 + 512) + 7168
    active = 37552282624 - 2 * 129280 * 7168 - gains
    assert latent[v.f_A] == 6 * 2048 * 128 * (128 + 64 + 128)
    assert latent[v.f_L] == Q(6 * active, 61) + latent[v.f_A]


# --- rows to experts


def links(n: Numbers) -> tuple[Q, Q]:
    """What a link inside a node and a network card give of the bandwidth of an H100's."""
    return 450 * 10**9 * n[v.eta_node], 50 * 10**9 * n[v.eta_dcn]


def test_rows_of_mixtral_in_a_node() -> None:
    """58.7 MB each way a layer, there and back in either pass, and a score of four bytes a row."""
    n = planned("mixtral-8x7b", cards=64, ep=8).numbers
    assert n[v.n_wide] == 8
    each_way, scores = 4096 * 2 * 4096 * 2 * 7 // 8, 4096 * 2 * 4 * 7 // 8
    assert each_way == 58720256
    assert n[v.t_ep] == 32 * 2 * (2 * each_way + scores) / links(n)[0]
    again = planned("mixtral-8x7b", "recompute=full", cards=64, ep=8).numbers
    assert again[v.t_ep] == n[v.t_ep] * Q(3, 2)
    half = planned("mixtral-8x7b", cards=64, ep=8, x_ep=Q(1, 2)).numbers
    assert half[v.t_ep] == n[v.t_ep] / 2


@pytest.mark.parametrize("copies", [8, 4, 1])
def test_rows_of_deepseek_over_nodes(copies: int) -> None:
    """Of 64 chips 8 are in a node; what leaves it goes as often as a row is sent out."""
    plan = planned("deepseek-v3", pp=16, ep=64, n_M=copies)
    n = plan.numbers
    assert n[v.n_wide] == 8
    sent = 4096 * 8 * (2 * 7168 * 2 + 4)  # one pass of a layer: there and back, and the scores
    node, card = links(n)
    inside, out = sent * Q(7, 64) / node, sent * Q(56, 64) / card * Q(copies, 8)
    each = 2 * max(inside, out)
    assert n[v.t_ep] == n[v.L_p] * Q(58, 61) * each
    assert plan.parts["ep"] == n[v.n_mb] * n[v.t_ep] == 16 * n[v.t_ep]
    if copies == 4:
        whole = planned("deepseek-v3", pp=16, ep=64, n_M=8).numbers
        assert n[v.t_ep] == whole[v.t_ep] / 2


def test_inside_of_a_node_where_it_takes_longer() -> None:
    """Experts of which rows hardly leave a node: the switches take longer than the cards."""
    n = planned("deepseek-v3", pp=16, ep=16, n_M=1).numbers
    sent = 4096 * 8 * (2 * 7168 * 2 + 4)
    node, card = links(n)
    inside, out = sent * Q(7, 16) / node, sent * Q(8, 16) / card / 8
    assert n[v.t_ep] == 2 * n[v.L_p] * Q(58, 61) * max(inside, out)


def test_a_fuller_expert_takes_more_rows_and_more_work() -> None:
    even, full = (planned("mixtral-8x7b", cards=64, ep=8, x_cap=x).numbers for x in (1, 2))
    assert full[v.t_ep] == 2 * even[v.t_ep]
    # The products of the experts take twice the rows; what is not a product of theirs does not.
    shape = 3 * 4096 * 14336 + 2 * even[v.s_0]  # two gradients come of the rows: one product
    work = 2 * 4096 * 2 * shape
    assert full[v.t_w] - even[v.t_w] == work / (even[v.C] * even[v.eta])
    assert full[v.f_L] == even[v.f_L] and full[v.t_1] == even[v.t_1]


def test_tensor_groups_of_experts_leave_fewer_places_in_a_node() -> None:
    """Chips of an expert's tensor group are neighbours: of 8 in a node, 4 or 1 hold other ones."""
    for etp, wide in ((2, 4), (8, 1)):
        n = planned("mixtral-8x7b", cards=64, tp=2, ep=8, etp=etp).numbers
        assert n[v.n_wide] == wide
        assert n[v.W_ep] == links(n)[0]


# --- parameters and states


def parameters(name: str, plan: Plan) -> tuple[Q, Q, Q]:
    """Of a chip of a mean layer: those of experts, those that are split by tp with the gains, and
    those that are whole."""
    tp, groups = plan.tp, plan.ep * plan.etp
    if name == "mixtral-8x7b":
        own = Q(3 * 8 * 4096 * 14336, groups)
        split = Q(2 * 4096 * 4096 + 2 * 4096 * 1024, tp)
        return own, split + Q(32 * 2 * 4096 + 4096, 32) / tp, Q(4096 * 8)
    own = Q(58, 61) * Q(3 * 256 * 7168 * 2048, groups)
    latent = Q(7168 * (1536 + 512 + 64))
    heads = 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    ffn = Q(58, 61) * 3 * 7168 * 2048 + Q(3, 61) * 3 * 7168 * 18432
    gains = Q(61 * (2 * 7168 + 1536 + 512) + 7168, 61)
    return own, (heads + ffn + gains) / tp, latent + Q(58, 61) * 7168 * 256


LAID = [
    ("mixtral-8x7b", {"tp": 2, "cp": 2, "pp": 4, "ep": 4, "etp": 2}),
    ("mixtral-8x7b", {"tp": 4, "pp": 2, "ep": 8, "etp": 1}),
    ("mixtral-8x7b", {"tp": 2, "pp": 1, "ep": 2, "etp": 4}),
    ("deepseek-v3", {"pp": 16, "ep": 64}),
    ("deepseek-v3", {"tp": 4, "pp": 8, "ep": 32, "etp": 2}),
]


@pytest.mark.parametrize(("name", "degrees_"), LAID)
def test_parameters_of_a_chip(name: str, degrees_: dict[str, int]) -> None:
    plan = planned(name, **degrees_)
    n, (own, split, whole) = plan.numbers, parameters(name, plan)
    assert n[v.p_L] == own + split + whole
    assert n[v.rho_E] * n[v.p_L] == own
    table = n[v.V] * n[v.D] / plan.tp
    assert n[v.psi_f] == n[v.L_f] * n[v.p_L] + table
    assert n[v.psi_m] == n[v.L_p] * n[v.p_L]
    assert n[v.psi_l] == n[v.L_l] * n[v.p_L] + table * (1 if plan.pp > 1 else 2)


@pytest.mark.parametrize("zero", range(4))
@pytest.mark.parametrize(("name", "degrees_"), LAID)
def test_states_of_a_chip(name: str, degrees_: dict[str, int], zero: int) -> None:
    """Experts' are split over edp chips, the others', tables' among them, over dp x cp."""
    plan = planned(name, **degrees_, zero=zero)
    n, (own, split, whole) = plan.numbers, parameters(name, plan)
    data = plan.dp * plan.cp
    experts = Q(plan.tp * data, plan.ep * plan.etp)
    tables = {"first": 1, "second": 0, "last": 1 if plan.pp > 1 else 2}
    layers = {"first": n[v.L_f], "second": n[v.L_p], "last": n[v.L_l]}
    for stage, kinds in plan.stages.items():
        others = layers[stage] * (split + whole) + tables[stage] * n[v.V] * n[v.D] / plan.tp
        for kind, each, least in (("optimizer", 12, 1), ("gradients", 4, 2), ("weights", 2, 3)):
            held = others + layers[stage] * own
            if zero >= least:
                held = others / data + layers[stage] * own / experts
            assert kinds[kind] == each * held
        assert kinds["gathered"] == (12 * (others / layers[stage] + own) if zero == 3 else 0)


# --- gradients


@pytest.mark.parametrize(("name", "degrees_"), LAID)
def test_gradients_of_experts_go_over_their_own_group(name: str, degrees_: dict[str, int]) -> None:
    """Each collective is that of a Move of so many bytes over so many chips, two levels at once;
    experts' gradients over edp chips, of which a node holds what ep x etp leaves."""
    plan = planned(name, **degrees_)
    n, data = plan.numbers, plan.dp * plan.cp
    edp = plan.tp * data // (plan.ep * plan.etp)
    own = n[v.L_p] * parameters(name, plan)[0]

    def time(collective: str, size: Q, chips: int, near: int) -> Q:
        move = Move(collective, "all", ("dp",), v.M_states, critical=False)
        times = TwoLevels(in_node=v.n_near).seconds(move, exact=True).values()
        at = {v.M_states: size, v.dp: Q(chips), v.n_near: Q(near)}
        at[v.W_node], at[v.W_dcn] = links(n)
        return max(exactly(link, at) for link in times)

    for symbol, collective, each in (
        (v.t_gather, "all_gather", 2), (v.t_scatter, "reduce_scatter", 4)
    ):  # fmt: skip
        near = min(data, max(1, 8 // plan.tp))
        deep = min(edp, max(1, 8 // (plan.ep * plan.etp)))
        assert (n[v.n_near], n[v.n_deep]) == (near, deep)
        both = time(collective, each * (n[v.psi] - own), data, near)
        both += time(collective, each * own, edp, deep)
        assert n[symbol] == both


# --- limits


DENSE = {"tp": 2, "cp": 2, "pp": 4, "zero": 1}


def dense(**changes: object) -> tuple[Assumptions, Numbers]:
    """Assumptions and the numbers of a dense plan, without those of definitions."""
    plan = plan_of(
        task(
            model("llama-3-8b"), chip("h100"), cards=64, seq=4096, batch=64,
            assumptions=assume(DEFAULT, **changes),
        ),
        degrees(**DENSE),
    )  # fmt: skip
    of_step = {v.find(term.name) for term in plan.task.step.definitions}
    given = {s: x for s, x in plan.numbers.items() if s not in of_step}
    return plan.task.assumptions, given


@pytest.mark.parametrize("zero", range(4))
@pytest.mark.parametrize("blocks", ["experts", "shared-experts"])
def test_a_model_without_a_layer_of_experts_is_dense(blocks: str, zero: int) -> None:
    under, at = dense()
    at |= {v.zero: Q(zero)}
    without = {v.L_E: 0, v.E: 8, v.n_k: 2, v.F_E: 512, v.n_S: 1, v.ep: 4, v.etp: 2, v.n_M: 2}
    without |= {v.x_ep: 1, v.x_cap: 3}
    plain = evaluated(step_model(under), at)
    made = evaluated(
        step_model(assume(under, architecture=blocks)), at | {s: Q(x) for s, x in without.items()}
    )
    assert made[v.t_ep] == made["ep"] == made[v.rho_E] == 0
    assert {name: made[name] for name in plain} == plain


@pytest.mark.parametrize("etp", [1, 2])
def test_one_expert_for_every_token_is_the_gated_feed_forward(etp: int) -> None:
    """But for the router and its scores; with tp = etp what goes over the tensor group is alike."""
    terms = DEFAULT.corrections - {"elementwise"}
    under, at = dense(corrections=terms)
    at |= {v.tp: Q(etp), v.s_0: Q(0)}
    one = {v.L_E: at[v.L], v.E: 1, v.n_k: 1, v.F_E: at[v.F], v.ep: 1, v.etp: etp, v.n_M: 1}
    one |= {v.x_ep: 1, v.x_cap: 1, v.n_S: 0}
    plain = evaluated(step_model(under), at)
    at[v.P] += at[v.L] * at[v.D]  # the routers
    made = evaluated(
        step_model(assume(under, architecture="experts")), at | {s: Q(x) for s, x in one.items()}
    )
    router, tokens = at[v.D], at[v.b_seq] * plain[v.T_r]
    assert made[v.t_ep] == 0
    assert made[v.f_L] - plain[v.f_L] == 6 * router
    assert made[v.p_L] - (plain[v.psi_m] / plain[v.L_p]) == router
    assert made[v.rho_E] * made[v.p_L] == 3 * at[v.D] * at[v.F] / etp
    # Each chip has the router whole and the tokens that its tensor group splits.
    each = 2 * router * tokens / etp / (at[v.C] * at[v.eta])
    for symbol, passes in ((v.t_f, 1), (v.t_b, 2), (v.t_w, 1)):
        assert made[symbol] - plain[symbol] == passes * each
    scores = 4 * tokens * Q(etp - 1, etp) / plain[v.W_tp]
    hops = 2 * (etp - 1) * at[v.t_hop]
    assert made[v.t_tp] - plain[v.t_tp] == at[v.x_tp] * plain[v.L_p] * (2 * scores + hops)
    assert made[v.x_o] == plain[v.x_o]


# --- what is no plan


@pytest.mark.parametrize(
    ("name", "layout", "told"),
    [
        ("mixtral-8x7b", "tp=1,cp=1,dp=4,pp=16,ep=8,etp=1",
         "the expert groups do not divide the tensor, context and data groups: "
         "ep=8 x etp=1 of 4 chips"),
        ("mixtral-8x7b", "tp=2,cp=1,dp=2,pp=16,ep=4,etp=2",
         "the expert groups do not divide the tensor, context and data groups: "
         "ep=4 x etp=2 of 4 chips"),
        ("mixtral-8x7b", "ep=3", "the experts do not split over their group (8 experts); 2 does"),
        ("mixtral-8x7b", "ep=16", "the experts do not split over their group (8 experts); 8 does"),
        ("mixtral-8x7b", "etp=3", "(experts 14336 wide); 2 does"),
        ("llama-3-8b", "ep=2", "the experts do not split over their group (no experts); 1 does"),
        ("llama-3-8b", "etp=2", "(no experts); 1 does"),
    ],
)  # fmt: skip
def test_experts_that_do_not_fit(name: str, layout: str, told: str) -> None:
    with pytest.raises(DeriveError) as error:
        asked = task(model(name), chip("h100"), cards=64, seq=4096, batch=64, layout=layout)
        assert asked.space.size
    assert told in str(error.value) and "\n" not in str(error.value)


def test_a_step_under_other_assumptions_keeps_its_experts() -> None:
    """In 8 bits too: tensors stay in two bytes, and the peak of attention that of bf16."""
    for precision in ("bf16", "fp8"):
        under = assume(DEFAULT, precision=precision)
        asked = task(
            model("mixtral-8x7b"), chip("h100"), cards=64, seq=4096, batch=64, assumptions=under
        )
        other = asked.under(assume(asked.assumptions, recompute="full"))
        assert other.values == asked.values and asked.numbers[v.e] == 2
        assert asked.numbers[v.C_A] == chip("h100").bindings("bf16")[v.C].value
        plan = plan_of(other, degrees(tp=2, ep=8))
        assert plan.recomputed_layers == 32


@pytest.mark.parametrize("replicas", [1, 2, 4, 8])
def test_replicas_of_experts(replicas: int) -> None:
    """Each of them holds the states of experts, and of the others, once; what is reduced between
    them is what a chip has of the gradients."""
    plan = planned("mixtral-8x7b", tp=2, pp=4, ep=4, zero=2, replicas=replicas)
    n, (own, split, whole) = plan.numbers, parameters("mixtral-8x7b", plan)
    data, experts = Q(plan.dp, replicas), Q(2 * plan.dp, 4 * replicas)
    others = n[v.L_p] * (split + whole)
    held = 4 * (others / data + n[v.L_p] * own / experts)
    assert plan.stages["second"]["gradients"] == held
    table = 4 * n[v.V] * n[v.D] / 2 / data
    assert plan.stages["first"]["gradients"] == held + table
    assert n[v.psi] == n[v.psi_f]
    between = 2 * Q(replicas - 1, replicas) * (held + table) / n[v.W_dp]
    near = {"near": min(data, 4), "deep": min(experts, 2)}
    assert (n[v.n_near], n[v.n_deep]) == (near["near"], near["deep"])
    node, card = links(n)

    def scattered(size: Q, chips: Q, inside: Q | int) -> Q:
        out = (chips - inside) / chips / inside / card
        return size * max(Q(inside - 1) / inside / node, out)

    each = scattered(4 * (others + table * data / 4), data, near["near"])
    each += scattered(4 * n[v.L_p] * own, experts, near["deep"])
    assert n[v.t_scatter] == each + between


def test_shares_of_links_are_of_a_step_that_takes_them() -> None:
    """Without network_share rows and what else moves have the whole of each link."""
    plan, blocks = planned("deepseek-v3", pp=16, ep=64), "latent-shared-experts"
    step = step_model(assume("default-network_share", architecture=blocks, recompute="none"))
    of_step = {v.find(term.name) for term in plan.task.step.definitions}
    at = {s: x for s, x in plan.numbers.items() if s not in of_step}
    made = evaluated(step, at | {v.eta_node: Q(1, 9), v.eta_dcn: Q(1, 7)})
    assert made[v.t_ep] == plan.numbers[v.t_ep] * at[v.eta_dcn]


@pytest.mark.parametrize("gathers", ["kept", "again"])
def test_weights_that_are_gathered_once_or_twice(gathers: str) -> None:
    """Under ZeRO-3, of a micro-batch, a layer at a time."""
    under, at = dense(gathers=gathers, recompute="full")
    at |= {v.zero: Q(3), v.W_dcn: at[v.W_dcn] / 50}
    made = evaluated(step_model(under), at)
    half, layers = made[v.t_tp] / 2 / made[v.L_p], made[v.L_p]

    def seen(time: Q, window: Q) -> Q:
        hidden = min(time, at[v.x_win] * window)
        return time - (1 - at[v.x_hid]) * hidden

    twice = made[v.t_gather] * (gathers == "again")
    backward = made[v.t_b] + made[v.t_redo] / layers + half
    both = seen(made[v.t_gather] / layers, made[v.t_f] + half)
    both += seen((twice + made[v.t_scatter]) / layers, backward)
    assert made[v.t_wg] == layers * both and made[v.t_redo] > 0


def test_an_expert_splits_by_its_width_whatever_their_number() -> None:
    """14,336 wide over seven chips; there are eight of them."""
    plan = planned("mixtral-8x7b", cards=56, etp=7)
    assert plan.numbers[v.rho_E] * plan.numbers[v.p_L] == 3 * 8 * 4096 * 14336 // 7
