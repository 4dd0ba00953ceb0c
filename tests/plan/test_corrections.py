"""What each correction changes, by arithmetic written out here and by a simulated pipeline."""

from __future__ import annotations

from fractions import Fraction as Q
from math import ceil

import pytest
from cases import asked, at

from derive.cost.assumptions import CORRECTED, DEFAULT, NOTEBOOK, STEP, step_assumptions
from derive.notation.errors import DeriveError
from derive.plan.search import search
from derive.solve.evaluate import exactly

PARAMS, WIDTH, VOCAB, LAYERS = 70_600_000_000, 8192, 128256, 80
GIB = 2**30


def plan(correction, *degrees, **task):
    return at(asked(assumptions=step_assumptions(f"notebook+{correction}"), **task), *degrees)


def plain(*degrees, **task):
    return at(asked(**task), *degrees)


def states(plan):
    """The weights, the gradients and the optimizer's copies of a chip."""
    return sum(plan.memory[kind] for kind in ("weights", "gradients", "optimizer"))


def test_sets_are_named_as_typed():
    assert step_assumptions("notebook") == NOTEBOOK and NOTEBOOK.name == "notebook"
    assert step_assumptions("default") == DEFAULT and DEFAULT.name == "default"
    some = step_assumptions("notebook+logits+bubble")
    assert some.corrections == {"logits", "bubble"}
    assert step_assumptions(some.name) == some
    most = step_assumptions("default-two_level")
    assert most.corrections == set(STEP) - {"two_level"}
    assert step_assumptions(most.name) == most
    assert set(DEFAULT.described()) == set(STEP)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("notbook", "did you mean notebook"),
        ("notebook+ring_tensors", "did you mean ring_tensor"),
        ("notebook+bubble+bubble", "twice"),
        ("", "unknown assumption set"),
    ],
)
def test_unknown_sets_are_refused(text, told):
    with pytest.raises(DeriveError, match=told):
        step_assumptions(text)


@pytest.mark.parametrize("pp", [1, 2, 4, 8, 16])
def test_the_fullest_stage_holds_a_table_of_the_vocabulary(pp):
    tables = 2 if pp == 1 else 1
    params = Q(PARAMS - 2 * VOCAB * WIDTH, pp) + tables * VOCAB * WIDTH
    held = states(plan("largest_stage", 1, 1, pp, 64 // pp))
    assert held == params * (4 + Q(12, 64 // pp))


@pytest.mark.parametrize(("pp", "ratio"), [(16, "1.208"), (8, "1.089"), (4, "1.030"), (2, "1.000")])
def test_the_fullest_stage_against_an_even_share(pp, ratio):
    full = states(plan("largest_stage", 1, 1, pp, 64 // pp))
    assert f"{float(full / states(plain(1, 1, pp, 64 // pp))):.3f}" == ratio


def test_fp32_gradients_make_the_document_s_plan_too_large():
    first = plan("gradient_bytes", 8, 1, 1, 8)
    assert f"{float(states(first) / GIB):.1f}" == "61.6"
    assert first.recomputed_layers > 0
    again = plain(8, 1, 1, 8)
    assert again.recomputed_layers == 0
    assert first.parts["dp"] == again.parts["dp"] * Q(3, 2)


@pytest.mark.parametrize(
    ("name", "width", "per_width"), [("llama-3-70b", 8192, "33.53"), ("llama-3-8b", 4096, "34.03")]
)
def test_saved_tensors_by_shape(name, width, per_width):
    alone = plan("saved_tensors", 8, 1, 1, 1, name=name, M_hbm=10**15)
    layers = alone.layers_per_stage
    assert f"{float(alone.memory['activations'] * 8 / (layers * 8192 * width)):.2f}" == per_width


def test_logits_of_the_last_stage():
    alone = plan("logits", 1, 1, 1, 64)
    assert alone.memory["logits"] == 6 * 8192 * VOCAB
    assert f"{float(alone.memory['logits'] / GIB):.1f}" == "5.9"
    # With stages before it, the last one has fewer micro-batches in flight: the first is fuller.
    piped = plan("logits", 1, 1, 8, 8)
    assert piped.fullest == "first" and "logits" not in piped.memory
    assert piped.stages["last"]["logits"] == 6 * 8192 * VOCAB


def test_the_working_set_is_held_once_where_layers_are_recomputed():
    first, again = (
        plan("working_set", 8, 1, 1, 8, seq=131072, batch=32),
        plain(8, 4, 2, 1, seq=131072, batch=32),
    )
    assert first.lacks_bytes > 0 or first.memory["working_set"] == 34 * 131072 * 8192 // 8
    assert f"{float(Q(34 * 131072 * 8192, 8) / 10**9):.1f}" == "4.6"
    assert again.recomputed_layers == 24
    assert plan("working_set", 4, 2, 2, 4).memory["working_set"] == 0


@pytest.mark.parametrize("seed", range(20))
def test_recomputed_layers_with_working_set_and_logits_are_those_of_a_loop(seed):
    seq, batch = (131072, 32) if seed % 2 else (16384, 128)
    task = asked(seq=seq, batch=batch, assumptions=CORRECTED, M_hbm=(40 + 3 * seed) * 10**9)
    ranking = search(task)
    for row in ranking.plans():
        wanted = None
        for again in range(row.layers_per_stage + 1):
            trial = {**row.numbers, symbol("L_r"): Q(again)}
            if exactly(task.step.memory_bytes, trial) <= task.budget:
                wanted = again
                break
        assert row.recomputed_layers == wanted, row.degrees
    if ranking.fit == 0:
        assert all(plan.lacks_bytes > 0 for plan in ranking.too_large)


def symbol(name):
    from derive.notation.symbols import find

    return find(name)


def test_attention_is_as_wide_as_its_heads():
    task = {"G": 4, "C": 989 * 10**12}  # 32 heads of 128: half the width of the model
    full, half = plain(4, 2, 2, 4, **task), plan("attention_width", 4, 2, 2, 4, **task)
    per_token = lambda p: p.mfu * p.step_seconds  # noqa: E731
    assert per_token(full) - per_token(half) == Q(
        80 * 6 * 8192 * (8192 - 4096) * 512 * 8192, 64 * 989 * 10**12
    )


@pytest.mark.parametrize(("tp", "share"), [(1, 1), (2, 2), (8, 8)])
def test_the_ring_moves_a_ranks_own_heads(tp, share):
    slow = {"seq": 131072, "batch": 32, "M_hbm": 10**15, "W_node": 10**9, "W_dcn": 10**9}
    ring = lambda p, t: p.parts["cp"] / 32 + attention(t)  # noqa: E731

    def attention(t):
        return Q(80 * 6 * 131072 * 8192) * Q(131072, 8 * t) / (989 * 10**12 * Q(3, 5))

    whole = ring(plain(tp, 8, 1, 1, **slow), tp)
    own = ring(plan("ring_tensor", tp, 8, 1, 1, **slow), tp)
    assert whole == own * share
    if tp == 1:  # seven steps of 67.1 MB each way, three passes, at 1 GB/s
        assert f"{float(own / 80 / 3 * 10**9 / 7 / 10**6):.1f}" == "67.1"


def test_more_ranks_than_heads_share_a_head():
    slow = {
        "seq": 131072,
        "batch": 32,
        "M_hbm": 10**15,
        "W_node": 10**6,
        "W_dcn": 10**6,
        "K": 2,
        "G": 32,
    }
    eight = plan("ring_tensor", 8, 2, 1, 4, n_node=64, **slow)
    two = plan("ring_tensor", 2, 2, 1, 16, n_node=64, **slow)
    attention = lambda t: Q(80 * 6 * 131072 * 8192) * Q(65536, t) / (989 * 10**12 * Q(3, 5))  # noqa: E731
    assert eight.parts["cp"] / 8 + attention(8) == two.parts["cp"] / 2 + attention(2)


def test_recomputation_repeats_half_of_the_forward_and_backward_collectives():
    task = {"seq": 131072, "batch": 32}
    once, again = plain(8, 1, 1, 8, **task), plan("recompute_collectives", 8, 1, 1, 8, **task)
    assert once.recomputed_layers == again.recomputed_layers == 80
    assert again.parts["tp"] == once.parts["tp"] * Q(3, 2)
    none = plan("recompute_collectives", 4, 2, 2, 4)
    assert none.parts == plain(4, 2, 2, 4).parts


def one_f_one_b(times, count):
    """The makespan of 1F1B: stage i runs p-i forwards ahead, then alternates; a forward takes a
    third of its stage's time. Simulated by finishing times."""
    p = len(times)
    orders = []
    for i in range(p):
        ahead = min(p - i, count)
        order = [("f", j) for j in range(ahead)]
        for j in range(count):
            order.append(("b", j))
            if ahead + j < count:
                order.append(("f", ahead + j))
        orders.append(order)
    done, free, at = {}, [Q(0)] * p, [0] * p
    while any(at[i] < len(orders[i]) for i in range(p)):
        for i in range(p):
            if at[i] == len(orders[i]):
                continue
            kind, j = orders[i][at[i]]
            if kind == "f":
                needs = done.get(("f", i - 1, j)) if i else Q(0)
            else:
                needs = done.get(("b", i + 1, j)) if i < p - 1 else done.get(("f", i, j))
            if needs is None:
                continue
            length = times[i] / 3 if kind == "f" else 2 * times[i] / 3
            free[i] = done[kind, i, j] = max(free[i], needs) + length
            at[i] += 1
    return max(free)


@pytest.mark.parametrize(("pp", "dp"), [(2, 32), (4, 16), (8, 8), (4, 1)])
def test_the_bubble_is_that_of_a_simulated_pipeline(pp, dp):
    batch = 16 * dp
    task = {"batch": batch, "cards": pp * dp, "x_pp": Q(1, 10**9)}
    ranking = plan("bubble", 1, 1, pp, dp, M_hbm=10**15, **task)
    other = plain(1, 1, pp, dp, M_hbm=10**15, **task)
    pace = Q(8192) / (989 * 10**12 * Q(3, 5))
    layer = Q(6 * (PARAMS - 2 * VOCAB * WIDTH), LAYERS) + 6 * 8192 * 8192
    stage, head = LAYERS // pp * layer * pace, 6 * VOCAB * WIDTH * pace
    makespan = one_f_one_b([stage] * (pp - 1) + [stage + head], 16)
    # The hops, here all but hidden, are not in the simulation.
    seconds = ranking.step_seconds - ranking.parts["dp"]
    assert seconds == pytest.approx(makespan, rel=1e-9)
    assert other.parts["bubble"] - ranking.parts["bubble"] == (pp - 1) * head


def test_gradient_traffic_hides_under_a_window():
    task = {"cards": 1024, "batch": 1024}
    ranking = plan("gradient_window", 8, 1, 1, 128, **task)
    volume = 2 * Q(PARAMS, 8) * Q(127, 128) / (50 * 10**9)
    layer = (Q(6 * (PARAMS - 2 * VOCAB * WIDTH), LAYERS) + 6 * 8192 * 8192) * LAYERS
    forward = layer / 3 * Q(8192, 8) / (989 * 10**12 * Q(3, 5))
    redo = ranking.parts["recompute"] / 8
    expected = max(Q(0), volume - 2 * forward - redo) + max(Q(0), volume - forward)
    assert ranking.parts["dp"] == expected > 0
    assert plan("gradient_window", 8, 1, 1, 128, W_dcn=10**15, **task).parts["dp"] == 0


def test_layers_that_are_run_again_hide_gradients_too():
    """Between the last backward pass and the scatter there is what is run again as well."""
    task = {"cards": 1024, "batch": 1024, "M_hbm": 60 * 10**9, "W_dcn": 20 * 10**9}
    again = plan("gradient_window", 8, 1, 1, 128, **task)
    n = {name: again.numbers[symbol(name)] for name in ("t_scatter", "t_gather", "t_redo", "t_1")}
    layer = (Q(6 * (PARAMS - 2 * VOCAB * WIDTH), LAYERS) + 6 * 8192 * 8192) * LAYERS * n["t_1"]
    assert 0 < again.recomputed_layers < LAYERS
    assert n["t_redo"] == again.recomputed_layers * layer / LAYERS / 3
    assert n["t_redo"] < n["t_scatter"] - layer * Q(2, 3)
    scatter = n["t_scatter"] - layer * Q(2, 3) - n["t_redo"]
    assert again.parts["dp"] == scatter + max(Q(0), n["t_gather"] - layer / 3)


def test_gradients_are_reduced_inside_nodes_first():
    ranking = plan("two_level", 2, 1, 1, 32)
    volume = 2 * Q(PARAMS, 2)
    inside = Q(3, 4) * volume / (450 * 10**9)
    across = Q(7, 8) * volume / 4 / (50 * 10**9)
    assert ranking.parts["dp"] == 2 * (inside + across) * Q(1, 5)
    # A group within a node, or with one rank a node, has one level and so the notebook's time.
    for degrees, cards in (((2, 2, 16, 2), 128), ((8, 1, 1, 8), 64)):
        one = plan("two_level", *degrees, cards=cards, seq=16384)
        assert one.parts["dp"] == plain(*degrees, cards=cards, seq=16384).parts["dp"]


@pytest.mark.parametrize(("tp", "near"), [(3, 2), (5, 1), (8, 1), (16, 1)])
def test_a_node_holds_whole_tensor_groups(tp, near):
    """Two groups of three of a node of eight, one of five; of a larger one a chip at least."""
    over = plan("two_level", tp, 1, 1, 16, cards=16 * tp)
    volume = 2 * Q(PARAMS, tp)
    inside = Q(near - 1, near) * volume / (450 * 10**9)
    across = Q(16 - near, 16) * volume / near / (50 * 10**9)
    assert over.numbers[symbol("n_near")] == near
    assert over.parts["dp"] == 2 * (inside + across) * Q(1, 5)


def test_a_zigzag_needs_two_pieces_a_rank():
    odd = {"seq": 32 * 4097, "batch": 64}
    zigzag = search(asked(assumptions=step_assumptions("notebook+zigzag"), **odd))
    assert zigzag.rejected["zigzag"] == 4 * 5
    assert "zigzag" not in search(asked(**odd)).rejected


def test_any_chunk_lets_short_chunks_in():
    assert "short_chunk" in search(asked()).rejected
    free = step_assumptions("notebook+any_chunk")
    assert "short_chunk" not in search(asked(assumptions=free)).rejected


def test_the_ring_divided_by_t_changes_the_winner_at_128k():
    ring = step_assumptions("notebook+ring_tensor")
    best = search(asked(seq=131072, batch=32, assumptions=ring)).plan(1)
    assert (best.tp, best.cp, best.pp, best.dp) == (8, 8, 1, 1)
    assert f"{float(best.mfu):.3f}" == "0.469"


def test_parameters_are_counted_or_rounded():
    assert asked().numbers[symbol("P")] == PARAMS
    exact_count = asked(assumptions=step_assumptions("notebook+exact_parameters"))
    assert exact_count.numbers[symbol("P")] == 70_553_706_496
    assert ceil(exact_count.numbers[symbol("P")] / 10**8) == 706
