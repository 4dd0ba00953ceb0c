"""The notebook's arithmetic written out once more, in plain Python and exact, for any inputs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction as Q


@dataclass(frozen=True)
class Machine:
    peak: int = 989 * 10**12
    efficiency: Q = Q(3, 5)
    near: int = 450 * 10**9
    far: int = 50 * 10**9
    node: int = 8
    memory: int = 72 * 10**9
    least_chunk: int = 4096


@dataclass(frozen=True)
class Shape:
    params: int
    layers: int
    width: int
    kv: int
    vocab: int


def link(machine: Machine, span: int) -> int:
    return machine.near if span <= machine.node else machine.far


def layers_again(states: Q, keep: Q, redo: Q, flying: int, layers: int, budget: Q) -> int | None:
    """The loop: one more recomputed layer at a time until it fits; None where it never does."""
    for again in range(layers + 1):
        if states + flying * (keep * (layers - again) + redo * again) <= budget:
            return again
    return None


def one_plan(
    shape: Shape,
    machine: Machine,
    seq: int,
    batch: int,
    cards: int,
    tp: int,
    cp: int,
    pp: int,
    b: int = 1,
) -> dict[str, object] | str:
    """The plan as numbers, or the reason it is none."""  # fmt: skip
    if tp > machine.node:
        return "tensor_beyond_node"
    if cp > 1 and seq // cp < machine.least_chunk:
        return "short_chunk"
    if shape.layers % pp:
        return "layers"
    if cards % (tp * cp * pp):
        return "cards"
    dp = cards // (tp * cp * pp)
    if batch % (dp * b):
        return "batch"
    count = batch // (dp * b)
    tokens, layers = seq // cp, shape.layers // pp
    params = Q(shape.params, tp * pp)
    states = 4 * params + 12 * params / (dp * cp)
    unit = Q(tokens * b * shape.width, tp)
    flying = min(pp, count)
    again = layers_again(states, 34 * unit, 2 * unit, flying, layers, Q(machine.memory))
    if again is None:
        return "memory"
    memory = states + flying * unit * (34 * (layers - again) + 2 * again)
    attention = 6 * seq * shape.width
    dense = Q(6 * (shape.params - 2 * shape.vocab * shape.width), shape.layers)
    layer, head = dense + attention, 6 * shape.vocab * shape.width
    pace = Q(tokens * b, tp) / (machine.peak * machine.efficiency)
    even = (shape.layers * layer + head) / pp * pace
    redo = again * layer / 3 * pace
    hidden = 2 * tokens * b * shape.width
    tensor = layers * 8 * Q(tp - 1, tp) * hidden / link(machine, tp)
    ring = Q(layers * 3 * (cp - 1) * 4 * tokens * b * shape.kv, link(machine, tp * cp))
    context = max(Q(0), ring - layers * attention * pace)
    hops = Q(hidden, tp) / link(machine, tp * cp * dp * pp) if pp > 1 else Q(0)
    slowest = (layers * layer + head) * pace + redo
    whole = slowest + tensor + context + hops
    group = dp * cp
    data = Q(4, 5) * Q(group - 1, group) * params / link(machine, tp * group)
    parts = {
        "compute": count * even,
        "recompute": count * redo,
        "imbalance": count * (slowest - redo - even),
        "tp": count * tensor,
        "cp": count * context,
        "pp": count * hops,
        "bubble": (pp - 1) * whole,
        "dp": data,
    }
    seconds = sum(parts.values())
    work = (shape.layers * layer + head) * batch * seq
    return {
        "dp": dp, "recomputed": again, "layers": layers, "memory": memory, "parts": parts,
        "seconds": seconds, "mfu": work / (seconds * cards * machine.peak),
    }  # fmt: skip
