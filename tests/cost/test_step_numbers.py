"""Every term of the step model at random whole numbers, under random corrections, against the step
written out stage by stage in plain fractions."""

from __future__ import annotations

import random
from fractions import Fraction as Q

import pytest
import sympy as sp

from derive.cost.assumptions import CORRECTED, CORRECTIONS, NOTEBOOK, Assumptions
from derive.cost.step import StepModel, step_model
from derive.notation import symbols as v

Numbers = dict[str, Q]


def numbers(draw: random.Random) -> Numbers:
    """A model, a machine and a plan whose counts divide as they must."""
    tp, cp, pp, dp = (draw.choice((1, 2, 4)) for _ in range(4))
    given = {
        "tp": tp, "cp": cp, "pp": pp, "dp": dp, "b_seq": draw.randint(1, 3),
        "L": pp * draw.randint(3, 9), "T": cp * draw.randint(5, 50), "D": draw.randint(3, 90),
        "F": draw.randint(3, 90), "K": draw.choice((1, 2, 4, 8)), "G": draw.randint(1, 4),
        "H": draw.randint(2, 9), "V": draw.randint(3, 90), "n_V": draw.randint(1, 2),
        "n_F": draw.randint(2, 3), "C": draw.randint(10, 10**4), "W_node": draw.randint(20, 10**3),
        "W_dcn": draw.randint(3, 30), "n_node": draw.choice((1, 2, 3, 4, 6, 8, 16)),
        "M_axes": draw.randint(1, 3), "fma": 2, "e": draw.randint(1, 3), "e_g": draw.randint(2, 5),
        "e_32": draw.randint(3, 6),
    }  # fmt: skip
    given["B_seq"] = given["b_seq"] * dp * draw.randint(1, 6)
    tables = given["n_V"] * given["V"] * given["D"]
    given["P"] = tables + given["L"] * draw.randint(10, 10**5)
    shares = {name: Q(draw.randint(1, 9), 10) for name in ("eta", "x_pp", "x_dp")}
    return {name: Q(n) for name, n in given.items()} | shares | {"A_kept": Q(30), "mu": Q(9, 10)}


def written_out(
    n: Numbers, on: frozenset[str], exact: bool, torus: bool
) -> tuple[Numbers, dict[str, Numbers]]:
    """The parts of the step and what stages hold; the memory there is takes some recomputation."""

    def share(devices: Q) -> Q:
        return (devices - 1) / devices if exact else Q(1)

    tp, cp, pp, dp = n["tp"], n["cp"], n["pp"], n["dp"]
    layers, count, group = n["L"] / pp, n["B_seq"] / (dp * n["b_seq"]), cp * dp
    tokens = n["T"] / cp * n["b_seq"]  # of a rank and a micro-batch
    queries, keys = n["K"] * n["G"] * n["H"], n["K"] * n["H"]

    # Memory, stage by stage.
    table = n["V"] * n["D"]
    held = n["P"] / pp
    if "largest_stage" in on:
        stages = [(n["P"] - n["n_V"] * table) / pp for _ in range(int(pp))]
        stages[0] += table
        if n["n_V"] == 2 or pp > 1:  # tied tables are two where two stages have them
            stages[-1] += table
        held = max(stages)
    psi = held / tp
    states = {"weights": n["e"] * psi, "gradients": n["e_g"] * psi}
    states["optimizer"] = 3 * n["e_32"] * psi / group
    inside = n["e"] * tokens * n["D"] / tp
    saved = n["A_kept"] * tokens * n["D"] / tp
    if "saved_tensors" in on:
        wide = 4 * n["D"] + 2 * queries + 2 * keys + n["n_F"] * n["F"]
        saved = (n["e"] * wide + n["e_32"] * (n["K"] * n["G"] + 2)) * tokens / tp
    logits = (n["e"] + n["e_32"]) * tokens * n["V"] / tp if "logits" in on else Q(0)
    flying = min(pp, count)

    def of_stages(again: int) -> dict[str, Numbers]:
        """What the first and the last stage hold, by kind."""
        kept = saved * (layers - again) + inside * again
        once = {"working_set": saved if again else Q(0)} if "working_set" in on else {}
        stages = {"first": {**states, **once, "activations": flying * kept}}
        if "logits" in on:
            stages["last"] = {**states, **once, "activations": kept, "logits": logits}
        return stages

    def fullest(again: int) -> Q:
        return max(sum(kinds.values()) for kinds in of_stages(again).values())

    target = int(n["target"])
    budget = (fullest(target) + fullest(max(target - 1, 0))) / 2
    n["M_hbm"] = budget / n["mu"]
    redo = next(r for r in range(int(layers) + 1) if fullest(r) <= budget)
    memory = of_stages(redo)

    # Time of a micro-batch.
    def link(*degrees: Q) -> Q:
        span = Q(1)
        for degree in degrees:
            span *= degree
        if torus:
            kinds = sum(degree > 1 for degree in (tp, cp, pp, dp))
            axis = n["W_node"] * min(Q(1), n["M_axes"] / max(1, kinds))
            axis /= 2 if len(degrees) == 4 else 1
            return max(n["W_dcn"], axis if span <= n["n_node"] else Q(0))
        return n["W_dcn"] if n["n_node"] % span else max(n["W_dcn"], n["W_node"])

    attention = 6 * n["T"] * (queries if "attention_width" in on else n["D"])
    matrices = 6 * (n["P"] - n["n_V"] * table) / n["L"]
    if "exact_parameters" in on:
        matrices = 6 * n["D"] * (2 * queries + 2 * keys + n["n_F"] * n["F"])
    head = 6 * n["D"] * n["V"]
    pace = tokens / (tp * n["C"] * n["eta"])
    repeated = redo if "recompute_collectives" in on else 0
    run_again = redo * (matrices + attention) / 3 * pace
    slowest = (layers * (matrices + attention) + head) * pace + run_again
    each = n["e"] * tokens * n["D"] * share(tp) / link(tp)  # a gather or a scatter
    tensor = (8 * layers + 4 * repeated) * each
    heads = max(n["K"] / tp, 1) if "ring_tensor" in on else n["K"]
    passed = n["e"] * n["T"] * n["b_seq"] * heads * n["H"] * share(cp) / link(tp, cp)
    ring = (6 * layers + 2 * repeated) * passed
    hides = (layers + Q(repeated) / 3) * attention * pace
    context = max(Q(0), ring - hides)
    hops = 2 * inside / link(tp, cp, dp, pp) * n["x_pp"] if pp > 1 else Q(0)
    whole = slowest + tensor + context + hops

    # Gradients to the optimizer's shares, and parameters back from them.
    times = []
    for size in (n["e_g"] * psi, n["e"] * psi):
        time = size * share(group) / link(tp, cp, dp)
        if "two_level" in on:
            near = min(group, max(1, n["n_node"] // tp))
            beyond = (group - near) / group if exact else Q(1)
            time = size * (near - 1) / near / n["W_node"] + size * beyond / near / n["W_dcn"]
        times.append(time)
    scatter, gather = times
    data = (scatter + gather) * n["x_dp"]
    if "gradient_window" in on:
        forward = layers * (matrices + attention) * pace / 3
        data = max(Q(0), scatter - 2 * forward - run_again) + max(Q(0), gather - forward)
    even = (n["L"] * (matrices + attention) + head) / pp * pace
    parts = {
        "compute": count * even,
        "recompute": count * run_again,
        "imbalance": count * (slowest - run_again - even),
        "tp": count * tensor,
        "cp": count * context,
        "pp": count * hops,
        "bubble": (pp - 1) * (whole - (head * pace if "bubble" in on else 0)),
        "dp": data,
        "model_flops": (n["L"] * (matrices + attention) + head) * n["B_seq"] * n["T"],
        "L_r": Q(redo),
    }
    return parts, memory


def valued(model: StepModel, n: Numbers) -> tuple[Numbers, dict[str, Numbers]]:
    """The same from the model: its definitions put in one after the other."""
    at = {v.find(name): sp.Rational(q.numerator, q.denominator) for name, q in n.items()
          if name != "target"}  # fmt: skip

    def value(expr: sp.Expr) -> Q:
        number = expr.xreplace(at).doit()
        return Q(int(number.p), int(number.q))

    for term in model.definitions:
        found = value(term.expr)
        at[v.find(term.name)] = sp.Rational(found.numerator, found.denominator)
    parts = {term.name: value(term.expr) for term in (*model.parts, model.model_flops)}
    memory = {
        name: {term.name: value(term.expr) for term in terms}
        for name, terms in model.memory.items()
    }
    return parts | {"L_r": value(v.L_r)}, memory


@pytest.mark.parametrize("seed", range(6))
def test_the_terms_are_those_of_a_step_written_out(seed: int) -> None:
    draw = random.Random(seed)
    for assumptions in (
        NOTEBOOK, CORRECTED,
        Assumptions(corrections=frozenset(c for c in CORRECTIONS if draw.random() < 0.5)),
    ):  # fmt: skip
        n = numbers(draw)
        n["target"] = Q(draw.randint(0, int(n["L"] / n["pp"])))
        exact, torus = draw.random() < 0.7, draw.random() < 0.5
        parts, memory = written_out(n, assumptions.corrections, exact, torus)
        model = step_model(assumptions, exact=exact, fabric="torus" if torus else "switch")
        got, held = valued(model, n)
        assert held == memory
        assert got == parts
