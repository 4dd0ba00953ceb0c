"""Pipelines run operation by operation: what each rank does in which order, and when.

Written from the schedules alone: the order of a rank is fixed, a piece's forward pass waits for
that of the piece before it, its backward pass for that of the piece after it, and nothing else
waits. Durations are Fractions. Nothing here calls the code that is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple


class Op(NamedTuple):
    """A pass of a micro-batch through a piece of the model: "F" forward, "B" backward for inputs
    (and, in a schedule without "W", for weights), "W" backward for weights."""

    kind: str
    micro_batch: int
    piece: int


Order = Callable[[int, int, int, int], list[Op]]  # of stages, micro-batches, pieces a rank, rank


def one_f_one_b(p: int, m: int, v: int, rank: int) -> list[Op]:
    """Forward passes until the first gradient can come, then one of each in turn, then the rest
    [arXiv 2104.04473]. With v > 1 as Megatron-LM orders them: p micro-batches on one piece of the
    rank, then the same on its next one; backward with the last piece first."""
    total = m * v
    warm_up = p - 1 - rank if v == 1 else 2 * (p - 1 - rank) + (v - 1) * p
    warm_up = min(warm_up, total)

    def at(kind: str, place: int) -> Op:
        group, within = divmod(place, p * v)
        own, micro_batch = divmod(within, p)
        own = own if kind == "F" else v - 1 - own
        return Op(kind, group * p + micro_batch, own * p + rank)

    if v == 1:
        forward, backward = ([Op(kind, n, rank) for n in range(m)] for kind in "FB")
    else:
        forward, backward = ([at(kind, n) for n in range(total)] for kind in "FB")
    ops = forward[:warm_up]
    for one, other in zip(forward[warm_up:], backward, strict=False):
        ops += [one, other]
    return ops + backward[total - warm_up :]


def zero_bubble(p: int, m: int, v: int, rank: int) -> list[Op]:
    """ZB-H1 [arXiv 2401.10241]: as 1F1B, and after each backward pass the weights' of the
    micro-batch `rank` earlier, so that the stages after the first have some left for the end."""
    assert v == 1
    ops, late = [], 0
    for op in one_f_one_b(p, m, 1, rank):
        ops.append(op)
        if op.kind == "B" and op.micro_batch >= rank:
            ops.append(Op("W", late, rank))
            late += 1
    return ops + [Op("W", n, rank) for n in range(late, m)]


@dataclass(frozen=True)
class Run:
    """Seconds of a step, and for each rank the most pieces saved at once: until the backward pass
    for inputs, and until the last backward pass of a micro-batch."""

    seconds: Fraction
    saved: tuple[int, ...]
    kept: tuple[int, ...]


def simulate(
    order: Order, p: int, m: int, v: int, time: Mapping[str, Sequence[Fraction]], hop: Fraction
) -> Run:
    """Run a step of m micro-batches over p ranks of v pieces each. `time` has for each kind of
    operation the seconds on each of the p v pieces; what goes from a rank to another arrives `hop`
    seconds after it is sent. Raises AssertionError where the ranks wait for each other."""
    orders = [order(p, m, v, rank) for rank in range(p)]
    ends: dict[Op, Fraction] = {}
    clock, done = [Fraction(0)] * p, [0] * p
    turn = True
    while turn:
        turn = False
        for rank, ops in enumerate(orders):
            while done[rank] < len(ops):
                op = ops[done[rank]]
                needs = _needs(op, p * v)
                if needs is not None and needs not in ends:
                    break
                start = clock[rank]
                if needs is not None:
                    away = needs.piece % p != rank
                    start = max(start, ends[needs] + hop * away)
                clock[rank] = ends[op] = start + time[op.kind][op.piece]
                done[rank] += 1
                turn = True
    left = [ops[n] for ops, n in zip(orders, done, strict=True) if n < len(ops)]
    assert not left, f"ranks wait for each other at {left}"
    last = "W" if "W" in time else "B"
    return Run(max(clock), *(tuple(_peak(ops, end) for ops in orders) for end in ("B", last)))


def _needs(op: Op, pieces: int) -> Op | None:
    """What an operation waits for, besides those before it on its rank."""
    if op.kind == "F":
        return Op("F", op.micro_batch, op.piece - 1) if op.piece else None
    if op.kind == "W":
        return Op("B", op.micro_batch, op.piece)
    after = op.piece + 1
    return Op("B", op.micro_batch, after) if after < pieces else Op("F", op.micro_batch, op.piece)


def _peak(ops: Sequence[Op], end: str) -> int:
    saved = most = 0
    for op in ops:
        saved += (op.kind == "F") - (op.kind == end)
        most = max(most, saved)
    return most
