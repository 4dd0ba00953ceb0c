"""Schedules of a pipeline as closed forms: the bubble of a step, the hops that it waits for, and
the micro-batches in flight.

Stage i of p holds v pieces of the model, the pieces i, p + i and so on of p v; v is 1 but where
stages are interleaved. A step of m micro-batches takes m times those of the slowest stage, and the
bubble; the optimizer and the gradients stand outside. All that is said here to be exact equals a
simulation of each operation of each stage, in fractions (`tests/cost/schedule_simulator.py`).

1F1B [arXiv 2104.04473]: the last stage starts after the first piece of every stage before it, is
never idle from there on, and has as many backward passes after its own. So the bubble is the time
of both passes of one piece of each other stage (`filling`). With v = 1 that is exact where no stage
is slower in either pass than the last, with v > 1 where none is slower than the one after it.
A step takes no less time where a stage takes more, so that for any stages the form with such times
put for theirs is an upper bound.

In a plan all inner pieces are alike, the first lacks layers (none but the embedding, say), and the
last has the head. Where the last piece takes no less than an inner one, the bubble is the above.
Where it takes less, the stage before it is the slowest, and goes on with micro-batches while it
waits for the last: q forward or backward passes, 1 with v = 1 and else 2. Exact in both cases, but
for two interleaved stages with a quicker last piece, where it is a lower bound.

ZB-H1 [arXiv 2401.10241]: the backward pass for weights of stage i is i micro-batches late, so that
the bubble is (p - 1)(t_F + t_B - t_W) for stages alike and m >= p. In general the last stage starts
after the forward passes before it, and the step ends with a stage's late weights. Exact where the
last stage is the slowest in each of the three passes and weights take no stage longer than inputs
or the forward pass; where the last of three or more is quicker, or inner ones lack layers, an upper
bound.

A hop is what arrives that long after it was sent, while the sender goes on. 1F1B waits for those of
round trips, 2 (p - 1) for p micro-batches: exact for stages alike, else an upper bound (for ZB-H1
too). Interleaved stages alike wait for those of the first micro-batch alone, as long as a hop takes
no more than a pass of a piece. What holds up the sender is part of a stage's time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import sympy as sp

from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.notation.printed import counted

_least, _most = partial(sp.Min, evaluate=False), partial(sp.Max, evaluate=False)


def _up(expr: sp.Expr) -> sp.Expr:
    """The next whole number, as the floor of the negative: a search watches its ceilings."""
    return -sp.floor(-expr, evaluate=False)


# 1 with more than one of them, else 0
_PIPED, _SEVERAL = (_least(1, degree - 1) for degree in (v.pp, v.virtual))
_BEFORE = v.pp - 1 - v.zeta * _PIPED  # the stages before the last, in inner ones


@dataclass(frozen=True)
class Schedule:
    """What a schedule makes of a step.

    `bubble` is the seconds of a step beyond n_mb micro-batches on the slowest stage, where the
    first piece lacks a share zeta of an inner one's layers; all inner pieces are alike. `hops` are
    how many from a stage to the next, one after the other, a step waits for besides. `saved` are
    the most micro-batches that the stage number i_p has saved at once, in units of all its layers.
    `interleaves` says whether a stage may have several pieces.
    """

    bubble: sp.Expr
    hops: sp.Expr
    saved: sp.Expr
    interleaves: bool = False


def filling(stages: Sequence[sp.Expr]) -> sp.Expr:
    """The bubble of 1F1B, in seconds, for the time of both passes of a micro-batch on the first
    piece of each stage; the last stage is the slowest (see above)."""
    return sp.Add(*stages[:-1])


def zero_bubble(
    forward: Sequence[sp.Expr], inputs: Sequence[sp.Expr], weights: Sequence[sp.Expr]
) -> sp.Expr:
    """The bubble of ZB-H1, in seconds, for the time of each pass of a micro-batch on each stage;
    the last stage is the slowest (see above)."""
    late = [
        sp.Add(*inputs[i:-1], _least(i + 1, v.n_mb) * weight)
        for i, weight in enumerate(weights[:-1])
    ]
    return _late(filling(forward), late, _least(len(weights), v.n_mb) * weights[-1])


def _late(start: sp.Expr, late: Sequence[sp.Expr], last: sp.Expr) -> sp.Expr:
    """The idle time of the last stage before it starts, and what other stages end later."""
    return start + _most(*late, last) - last


def _one_f_one_b() -> sp.Expr:
    """The bubble of 1F1B, less what the stage before a quicker last one does while it waits."""
    piece = (v.t_F + v.t_B + v.t_W) / v.virtual
    before = 1 - v.zeta * _least(1, _most(0, 3 - v.pp))  # of two stages it is the first
    one_pass = before * _least(v.t_F, v.t_B + v.t_W) / v.virtual
    lack = _most(before * piece, v.t_z) - v.t_z
    trips = _least(v.n_mb, 2 + (v.n_mb - 2) * _SEVERAL)
    done = _least(before * piece, lack + (1 + _SEVERAL) * one_pass, trips * lack)
    return _BEFORE * piece - _PIPED * done


_ROUND_TRIPS = 2 * (v.n_mb + v.pp - 2 - _up((v.n_mb - 1) / v.pp))
_FIRST_TRIP = 2 * (v.pp * v.virtual - 1)
_WARM_UP = (v.pp - 1 - v.i_p) * (1 + _SEVERAL) + (v.virtual - 1) * v.pp
_INTERLEAVED = Schedule(
    _one_f_one_b(),
    _ROUND_TRIPS + (_FIRST_TRIP - _ROUND_TRIPS) * _SEVERAL,
    _least(_WARM_UP + 1, v.n_mb * v.virtual) / v.virtual,
    interleaves=True,
)
_ALONE = {v.virtual: sp.S.One}
SCHEDULES: Mapping[str, Schedule] = MappingProxyType({
    "1f1b": Schedule(
        _INTERLEAVED.bubble.xreplace(_ALONE),
        _INTERLEAVED.hops.xreplace(_ALONE),
        _INTERLEAVED.saved.xreplace(_ALONE),
    ),
    "interleaved": _INTERLEAVED,
    "zero-bubble": Schedule(
        _late(
            _BEFORE * v.t_F,
            (
                # Of the first stage, which lacks a layer at most, and of the second.
                _BEFORE * v.t_B + (1 - _least(v.zeta, 1 / v.L_p)) * v.t_W,
                _least(v.pp - 2, _BEFORE) * v.t_B + _least(2, v.n_mb) * v.t_W,
            ),
            _least(v.pp, v.n_mb) * _most(v.t_W, v.t_Wz),
        ),
        _ROUND_TRIPS,
        _least(v.pp, v.n_mb),
    ),
})  # fmt: skip

BY_ASSUMPTION: Mapping[str, Schedule] = MappingProxyType(
    {"1f1b": _INTERLEAVED, "zero-bubble": SCHEDULES["zero-bubble"]}
)
"""The schedule by the assumption of a step, with any number of virtual stages."""


def why_not(schedule: str, stages: int, virtual: int, micro_batches: int) -> str | None:
    """Why a schedule cannot run, as a phrase; None where it can."""
    if virtual == 1:
        return None
    if not SCHEDULES[schedule].interleaves:
        return f"{virtual} virtual stages a rank, which only an interleaved schedule has"
    if stages == 1:
        return f"{virtual} virtual stages on a single rank"
    if micro_batches % stages:
        return f"{counted(micro_batches, 'micro-batch')} on {stages} interleaved stages"
    return None


def layer_split(layers: int, pieces: int) -> tuple[int, ...]:
    """The layers of each piece of a pipeline, which are p v pieces.

    Alike where the pieces divide the layers. Else the first and the last, which hold embedding and
    head, are the first to have one layer fewer (Llama 3, arXiv 2407.21783: 126 layers on 128
    pieces); of the inner ones those with most stand first. Raises DeriveError where an inner piece
    would have none.
    """
    fewest, more = divmod(layers, pieces)  # and so many with one more
    first = min(more, max(0, more - pieces + 2))
    inner = (fewest + (place < more - first) for place in range(pieces - 2))
    split = (fewest + first, *inner, fewest)[-pieces:]
    if 0 in split[1:-1]:
        told = f"{counted(layers, 'layer')} do not fill {counted(pieces, 'piece')}"
        raise DeriveError(f"{told}: found {', '.join(map(str, split))}")
    return split


def by_stage(split: Sequence[int], stages: int) -> tuple[int, ...]:
    """The layers of each stage, for those of each piece: stage i has piece i, p + i and so on."""
    return tuple(sum(split[i::stages]) for i in range(stages))
