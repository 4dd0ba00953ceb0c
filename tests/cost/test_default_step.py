"""The terms of a step beside its operations: each alone, all where they vanish, and by hand."""

from __future__ import annotations

import random
from fractions import Fraction as Q
from math import ceil

import pytest
import sympy as sp
from test_step_numbers import Numbers, numbers, valued

from derive.cost import stage, timing, traffic
from derive.cost.assumptions import CORRECTED, DEFAULT, TERMS, Assumptions, assume
from derive.cost.layout import rules_of, spread
from derive.cost.passes import program
from derive.cost.step import step_model
from derive.cost.transformer import LAYER
from derive.notation import symbols as v
from derive.solve.evaluate import EXACT, compiled, exactly

PLACES = {
    "zero": 1, "virtual": 1, "replicas": 1, "ep": 1, "L_g": 1, "s_0": 7, "C_A": 5000, "s_L": 7,
    "e_k": 5, "W_hbm": 900, "s_opt": 30, "s_V": 20, "x_el": 1,
}  # fmt: skip
SHARES = ("eta_A", "eta_hbm", "eta_node", "eta_dcn", "x_tp", "x_win", "x_hid")


def drawn(seed: int) -> tuple[Numbers, random.Random]:
    """Numbers of a step with all of its terms, stages even and states of the optimizer split."""
    draw = random.Random(seed)
    n = numbers(draw) | {name: Q(x) for name, x in PLACES.items()}
    n |= {name: Q(draw.randint(1, 9), 10) for name in SHARES}
    n |= {"t_hop": Q(1, 7), "t_fix": Q(3, 11), "M_hbm": Q(10**12)}
    return n, draw


def without(*names: str) -> Assumptions:
    return Assumptions(corrections=DEFAULT.corrections - {*names})


def corrected_with(*names: str) -> Assumptions:
    return Assumptions(corrections=CORRECTED.corrections | {*names})


def values(assumptions: Assumptions, n: Numbers) -> tuple[Numbers, dict[str, Numbers]]:
    return valued(step_model(assumptions), dict(n))


@pytest.mark.parametrize("seed", range(8))
def test_terms_that_are_set_to_nothing_leave_the_corrected_step(seed: int) -> None:
    n, _ = drawn(seed)
    n |= {name: Q(1) for name in ("eta_node", "eta_dcn", "x_win", "x_tp", "x_pp")}
    n |= {name: Q(0) for name in ("x_el", "s_V", "s_opt", "t_hop", "t_fix", "x_hid")}
    n |= {"s_L": n["e"] + n["e_32"], "e_k": n["e_g"], "n_V": Q(2), "n_node": Q(4096)}
    n["P"] = 2 * n["V"] * n["D"] + n["L"] * 1000
    before, _ = values(CORRECTED, n)
    # Shapes have another count of attention; a link alone is one of those that work at once.
    after, held = values(without("matmul_shape"), n)
    gone = after.pop("optimizer") + after.pop("overhead")
    assert gone == 0 and after == before
    _, plain = values(CORRECTED, n)
    for name in ("first", "last"):
        kinds = dict(held[name])
        assert kinds.pop("gathered") == 0
        assert kinds.keys() == plain[name].keys()
    fullest = [max(sum(kinds.values()) for kinds in every.values()) for every in (held, plain)]
    assert fullest[0] == fullest[1]


PART_OF = {
    "uneven_stages": {"imbalance", "bubble", "tp", "cp", "dp", "recompute", "L_r"},
    "sharded_states": {"dp", "bubble"},
    "matmul_shape": {"compute", "imbalance", "recompute", "cp", "bubble", "dp"},
    "elementwise": {"compute", "imbalance", "recompute", "bubble", "dp"},
    "network_share": {"tp", "cp", "pp", "bubble", "dp"},
    "contention": {"tp", "dp", "bubble"},
    "fixed_times": {"tp", "bubble", "overhead"},
    "optimizer_step": {"optimizer"},
    "kept_bytes": set(),
}


@pytest.mark.parametrize("term", TERMS)
def test_a_term_alone_shapes_its_parts_and_no_others(term: str) -> None:
    changed: set[str] = set()
    for seed in range(12):
        n, _ = drawn(seed)
        n["zero"] = Q(3 if term == "sharded_states" else 1)
        n["L"] += (seed % 2) * (n["pp"] - 1) if term == "uneven_stages" else 0
        before, _ = values(assume(CORRECTED, recompute="full"), n)
        after, _ = values(assume(corrected_with(term), recompute="full"), n)
        assert after["model_flops"] == before["model_flops"]
        changed |= {name for name in after if after[name] != before.get(name)}
    assert changed == PART_OF[term]


@pytest.mark.parametrize("seed", range(8))
def test_parts_add_up_to_micro_batches_and_what_a_step_takes_once(seed: int) -> None:
    n, draw = drawn(seed)
    n["zero"] = Q(draw.choice((0, 1)))
    model = step_model(DEFAULT)
    parts, _ = valued(model, dict(n))
    at = dict(n)
    for term in model.definitions:
        numbers_at = {v.find(k): sp.Rational(q.numerator, q.denominator) for k, q in at.items()}
        found = sp.Rational(term.expr.xreplace(numbers_at).doit())
        at[term.name] = Q(int(found.p), int(found.q))
    del parts["model_flops"], parts["L_r"]
    once = {name: parts[name] for name in ("bubble", "dp", "optimizer", "overhead")}
    assert sum(parts.values()) == at["n_mb"] * at["t_mb"] + sum(once.values())
    assert parts["overhead"] == at["t_fix"]
    share = 1 if at["zero"] == 0 else 1 / (at["cp"] * at["dp"])
    touched = at["s_opt"] * at["psi"] * share / (at["W_hbm"] * at["eta_hbm"])
    assert parts["optimizer"] == touched


@pytest.mark.parametrize("zero", range(4))
@pytest.mark.parametrize("replicas", [1, 2])
def test_bytes_of_a_chip_under_each_stage_of_zero(zero: int, replicas: int) -> None:
    for seed in range(4):
        n, _ = drawn(seed)
        n |= {"dp": n["dp"] * 2, "B_seq": n["B_seq"] * 2}
        n |= {"zero": Q(zero), "replicas": Q(replicas)}
        group = n["cp"] * n["dp"] / replicas
        _, held = values(DEFAULT, n)
        each = (n["P"] - n["n_V"] * n["V"] * n["D"]) / n["L"]
        layers, table = n["L"] / n["pp"], n["V"] * n["D"]
        tables = {"first": 1, "second": 0, "last": 1 if n["pp"] > 1 else n["n_V"]}
        for name, kinds in held.items():
            size = (layers * each + tables[name] * table) / n["tp"]
            assert kinds["weights"] == n["e"] * size / (group if zero >= 3 else 1)
            assert kinds["gradients"] == n["e_k"] * size / (group if zero >= 2 else 1)
            assert kinds["optimizer"] == 3 * n["e_32"] * size / (group if zero >= 1 else 1)
            two = 2 * (n["e"] + n["e_g"]) * size / layers
            assert kinds["gathered"] == (two if zero == 3 else 0)


def test_zero_3_moves_what_a_layer_s_program_moves_with_its_weights_split() -> None:
    """Each weight is gathered on either way and its gradient scattered: the bytes of both."""
    block = LAYER[3]
    rules = rules_of("b_seq:dp T:cp U:cp(ring) K:tp F:tp T:tp D:dp D:cp")
    whole = program(spread(block, [r for r in rules if r.dim in block.dims]), "none")
    names = {*block.parameters}
    size = sp.Add(*(n for _, n in stage.layer().parameters))
    ours = {
        "all_gather": [m.array_bytes for m in stage.gradient_moves(stage.layer().update)],
        "reduce_scatter": [m.array_bytes for m in stage.gradient_moves(stage.layer().backward)],
    }
    for cost, collective, count in (
        (whole.forward, "all_gather", v.e), (whole.backward, "all_gather", v.e),
        (whole.backward, "reduce_scatter", v.e_g),
    ):  # fmt: skip
        moved = [m for m in cost.moves if m.collective == collective
                 and m.tensor.removeprefix("d") in names]  # fmt: skip
        assert {m.tensor.removeprefix("d") for m in moved} == names
        assert sp.expand(sum(m.array_bytes for m in moved) - count * size) == 0
        assert sp.expand(sum(ours[collective]) - count * size) == 0


def test_layers_of_uneven_stages_by_every_split() -> None:
    """The fullest has as few as can be; the last is the first to have fewer, then the first."""
    terms = {t.name: t.expr for t in timing.stages(("uneven_stages",))}
    for layers in range(1, 60):
        for stages in range(1, min(layers, 20) + 1):
            at = {v.L: sp.Integer(layers), v.pp: sp.Integer(stages)}
            most, first, last = (int(terms[k].xreplace(at).doit()) for k in ("L_p", "L_f", "L_l"))
            splits = {most, most - 1}
            assert most == ceil(Q(layers, stages)) and {first, last} <= splits
            fewer = most * stages - layers  # stages with one layer less
            assert last == most - (fewer >= 1)
            assert first == (last if stages == 1 else most - (fewer >= 2))
            if stages > 2:
                inner = layers - first - last
                assert (stages - 2) * (most - 1) <= inner <= (stages - 2) * most


def test_what_is_hidden_slows_what_hides_it() -> None:
    draw = random.Random(1)
    on, off = assume("notebook+contention"), assume("notebook")
    for _ in range(100):
        time, window = (Q(draw.randint(1, 99), 7) for _ in range(2))
        reach, slows = (Q(draw.randint(0, 10), 10) for _ in range(2))
        at = {v.t_ring: time, v.t_attn: window, v.x_win: reach, v.x_hid: slows}
        at = {s: sp.Rational(q.numerator, q.denominator) for s, q in at.items()}
        hidden = min(time, reach * window)
        seen = traffic.exposed(v.t_ring, v.t_attn, on).xreplace(at).doit()
        wanted = time - hidden + slows * hidden
        assert seen == sp.Rational(wanted.numerator, wanted.denominator)
        plain = traffic.exposed(v.t_ring, v.t_attn, off).xreplace(at).doit()
        assert plain == max(at[v.t_ring] - at[v.t_attn], 0)


@pytest.mark.parametrize("zero", range(4))
def test_gradients_and_weights_move_once_a_step_or_once_a_micro_batch(zero: int) -> None:
    """Seconds of both collectives, each on a window of the pass that hides it, by hand."""
    for seed in range(6):
        n, draw = drawn(seed)
        n |= {"zero": Q(zero), "W_dcn": Q(draw.choice((1, 3, 900)), 100)}
        model = step_model(corrected_with("sharded_states", "contention"))
        at = dict(n)
        for term in model.definitions:
            known = {v.find(k): sp.Rational(q.numerator, q.denominator) for k, q in at.items()}
            found = sp.Rational(term.expr.xreplace(known).doit())
            at[term.name] = Q(int(found.p), int(found.q))
        work = at["f_L"] * at["t_1"]
        forward, backward = work / 3, 2 * work / 3
        scatter, gather, layers = at["t_scatter"], at["t_gather"], at["L_p"]

        def seen(time: Q, window: Q, at: Numbers = at) -> Q:
            hidden = min(time, at["x_win"] * window)
            return time - hidden + at["x_hid"] * hidden

        once = Q(0)
        if zero < 2:
            once += seen(scatter, layers * backward + at["t_redo"])
        if zero == 0:
            once += seen(gather * at["e_g"] / at["e"], layers * forward)
        elif zero < 3:
            once += seen(gather, layers * forward)
        both = at["t_tp"] / layers / 2  # of either pass
        ways = [gather * (zero == 3), gather * (zero == 3) + scatter * (zero > 1)]
        windows = [forward + both, backward + at["t_redo"] / layers + both]
        each = layers * sum(seen(t / layers, w) for t, w in zip(ways, windows, strict=True))
        assert at["t_wg"] == each
        parts, _ = valued(model, dict(n))
        assert parts["dp"] == once + at["n_mb"] * each


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_replicas_share_what_the_data_group_moves(replicas: int) -> None:
    """Gradients are scattered in a replica, and what is left is reduced between replicas."""
    for seed in range(6):
        n, _ = drawn(seed)
        n |= {"dp": n["dp"] * 4, "B_seq": n["B_seq"] * 4, "replicas": Q(replicas)}
        assumptions = Assumptions(
            corrections=CORRECTED.corrections - {"two_level"} | {"sharded_states"}
        )
        model, at = step_model(assumptions), dict(n)
        for term in model.definitions:
            known = {v.find(k): sp.Rational(q.numerator, q.denominator) for k, q in at.items()}
            found = sp.Rational(term.expr.xreplace(known).doit())
            at[term.name] = Q(int(found.p), int(found.q))
        group = n["cp"] * n["dp"] / replicas
        share = at["psi"] * (group - 1) / group / at["W_dp"]
        between = 2 * Q(replicas - 1, replicas) * n["e_g"] * at["psi"] / group / at["W_dp"]
        assert at["t_gather"] == n["e"] * share
        assert at["t_scatter"] == n["e_g"] * share + between


@pytest.mark.parametrize("seed", range(4))
def test_the_head_the_attention_and_the_links_at_their_own_shares(seed: int) -> None:
    n, _ = drawn(seed)
    model, at = step_model(DEFAULT), dict(n)
    for term in model.definitions:
        known = {v.find(k): sp.Rational(q.numerator, q.denominator) for k, q in at.items()}
        found = sp.Rational(term.expr.xreplace(known).doit())
        at[term.name] = Q(int(found.p), int(found.q))
    tokens, small, table = at["T_r"] * n["b_seq"], n["s_0"], n["V"] / n["tp"]
    wide, rows = n["D"] * table, tokens * n["D"]
    head = (tokens * table + small) * n["D"] + (rows + small) * table + (wide + small) * tokens
    loss = n["s_V"] * tokens * table / (n["W_hbm"] * n["eta_hbm"])
    assert at["t_V"] == 2 * head / (n["C_A"] * n["eta"]) + loss
    pairs = tokens * n["T"] * n["K"] * n["G"] * n["H"] / n["tp"]
    assert at["t_A"] == 2 * pairs / (n["C_A"] * n["eta_A"])
    assert at["t_dA"] == 5 * pairs / (n["C_A"] * n["eta_A"])
    inside = n["n_node"] % n["tp"] == 0
    node, network = n["W_node"] * n["eta_node"], n["W_dcn"] * n["eta_dcn"]
    assert at["W_tp"] == max(network, node if inside else 0)


def times_of(assumptions: Assumptions, n: Numbers) -> Numbers:
    """Seconds of the passes of a layer and of the head, at numbers of the symbols by name."""
    known = {v.find(name): x for name, x in n.items()}
    known |= {v.T_r: n["T"] / n["cp"], v.t_1: Q(0), v.f_A: Q(0)}
    step = step_model(assumptions)
    passes = (step.term(name) for name in ("t_A", "t_dA", "t_f", "t_b", "t_w", "t_V"))
    return {term.name: exactly(term.expr, known) for term in passes}


def test_each_share_of_a_rate_is_of_what_it_is_of() -> None:
    """Twice the share halves its own part of a pass: products with parameters at C, the core of
    attention and the head at C_A, what is touched at the memory's rate."""
    n, _ = drawn(3)
    n["x_el"] = Q(0)
    products = times_of(DEFAULT, n)
    core = {name: products[at] for name, at in (("t_f", "t_A"), ("t_b", "t_dA"))}
    fast = times_of(DEFAULT, n | {"C": 2 * n["C"]})
    for name, part in core.items():
        assert fast[name] - part == (products[name] - part) / 2
    assert fast["t_w"] == products["t_w"] / 2 and fast["t_A"] == products["t_A"]
    assert times_of(DEFAULT, n | {"C_A": 2 * n["C_A"]})["t_w"] == products["t_w"]
    assert times_of(DEFAULT, n | {"eta": n["eta"] / 2})["t_w"] == 2 * products["t_w"]
    whole = times_of(DEFAULT, n | {"x_el": Q(1)})
    slow = times_of(DEFAULT, n | {"x_el": Q(1), "eta_hbm": n["eta_hbm"] / 2})
    twice = times_of(DEFAULT, n | {"x_el": Q(2)})
    for name in ("t_f", "t_b"):
        touched = whole[name] - products[name]
        assert slow[name] - products[name] == 2 * touched == twice[name] - products[name] > 0


def test_a_core_that_is_not_fused_takes_the_share_of_products() -> None:
    """And one that is run again its forward pass once more."""
    n, _ = drawn(4)
    n["x_el"] = Q(0)
    plain, again = (times_of(assume(DEFAULT, kernels=k), n) for k in ("unfused", "recomputed"))
    for ways in ("unfused", "recomputed"):
        under = assume(DEFAULT, kernels=ways)
        here = times_of(under, n)
        assert times_of(under, n | {"eta_A": n["eta_A"] / 3})["t_A"] == here["t_A"]
        for name in ("eta", "C_A"):
            slow = times_of(under, n | {name: n[name] / 2})
            assert (slow["t_A"], slow["t_dA"]) == (2 * here["t_A"], 2 * here["t_dA"])
    assert again["t_A"] == plain["t_A"] > 0
    assert again["t_dA"] - plain["t_dA"] == plain["t_A"]
    assert again["t_b"] - plain["t_b"] == plain["t_A"]


@pytest.mark.parametrize("seed", range(4))
def test_a_micro_batch_hops_as_often_as_a_rank_has_pieces(seed: int) -> None:
    """There and back for each of them, what of a hop holds up its sender."""
    n, draw = drawn(seed)
    n |= {"pp": Q(4), "L": Q(24), "virtual": Q(draw.choice((1, 2, 3)))}
    n["P"] = n["n_V"] * n["V"] * n["D"] + n["L"] * 1000
    parts, _ = values(corrected_with("uneven_stages"), n)
    count = n["B_seq"] / (n["dp"] * n["b_seq"])
    span = n["tp"] * n["cp"] * n["dp"] * n["pp"]
    inside = n["n_node"] % span == 0
    link = max(n["W_dcn"], n["W_node"]) if inside else n["W_dcn"]
    hop = n["e"] * n["b_seq"] * n["T"] / n["cp"] * n["D"] / n["tp"] / link
    assert parts["pp"] == count * 2 * n["virtual"] * hop * n["x_pp"]


@pytest.mark.parametrize(("heads", "tensor"), [(1, 4), (2, 4), (4, 4), (8, 2)])
def test_a_ring_passes_the_heads_of_a_chip(heads: int, tensor: int) -> None:
    """At least one, where a tensor group has more chips than there are heads; all of them where the
    ring does not know of the group. Three times a tensor in either of two passes, by hand."""
    n, _ = drawn(5)
    n |= {"K": Q(heads), "tp": Q(tensor), "cp": Q(4), "pp": Q(1), "T": Q(40), "n_node": Q(1)}
    for under, passed in ((DEFAULT, max(Q(heads, tensor), 1)), (without("ring_tensor"), heads)):
        model = step_model(assume(under, recompute="none"))
        definitions = tuple((v.find(term.name), term.expr) for term in model.definitions)
        known = {v.find(name): x for name, x in n.items()}
        (seconds,) = compiled((v.t_ring,), definitions)(EXACT, known)
        size = n["e"] * n["T"] * n["b_seq"] * passed * n["H"] * Q(3, 4)
        assert seconds == 6 * n["L"] * size / (n["W_dcn"] * n["eta_dcn"])
