"""Schedules of a pipeline as closed forms: the bubble of a step and the micro-batches in flight.

Stage i of p holds v pieces of the model, piece i, p + i and so on of p v; v is 1 but where stages
are interleaved. A step of m micro-batches takes m times those of the slowest stage, and the bubble.
Hops between stages, the optimizer and gradients stand outside. A simulation of every schedule,
operation by operation (`tests/cost/schedule_simulator.py`), decides what is said here to be exact.

1F1B [arXiv 2104.04473]: the last stage starts after the first piece of every stage before it, is
never idle from there on, and has as many backward passes after its own. So the bubble is the time
of both passes of a piece of each other stage. With v = 1 that is exact where no stage is slower in
either pass than the last, with v > 1 where none is slower in either than the one after it. Pieces
of a stage need not be alike: the first may be shorter (an embedding instead of a layer), the last
longer (the head). A step takes no less time where a stage takes longer, so that for any stages the
form with such times put for theirs is an upper bound.

ZB-H1 [arXiv 2401.10241]: the backward pass for weights of stage i is i micro-batches late, so that
the bubble is (p - 1)(t_F + t_B - t_W) for stages alike and m >= p. In general the last stage starts
after the forward passes before it, and the step ends with a stage's late weights. Exact where the
last stage is the slowest in each of the three passes and weights take no stage longer than inputs
or the forward pass.
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
# 1 with more than one of them, else 0
_PIPED, _SEVERAL = (_least(1, degree - 1) for degree in (v.pp, v.virtual))
_BEFORE = v.pp - 1 - v.zeta * _PIPED  # the stages before the last, in inner ones


@dataclass(frozen=True)
class Schedule:
    """What a schedule makes of a step.

    `bubble` is the seconds of a step beyond n_mb micro-batches on the slowest stage, where the
    first piece lacks a share zeta of an inner one's layers; all inner pieces are alike.
    `saved` are the most micro-batches that the stage number i_p has saved at once, in units of
    all its layers. `interleaves` says whether a stage may have several pieces.
    """

    title: str
    bubble: sp.Expr
    saved: sp.Expr
    interleaves: bool = False

    def in_flight(self, stage: int) -> sp.Expr:
        """The micro-batches that a stage, the first one being 0, has saved at once."""
        return self.saved.xreplace({v.i_p: sp.Integer(stage)})


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


_INTERLEAVED = Schedule(
    "interleaved 1F1B",
    _BEFORE * (v.t_F + v.t_B + v.t_W) / v.virtual,
    _least((v.pp - 1 - v.i_p) * (1 + _SEVERAL) + (v.virtual - 1) * v.pp + 1, v.n_mb * v.virtual)
    / v.virtual,
    interleaves=True,
)
_ZERO_BUBBLE = Schedule(
    "zero-bubble ZB-H1",
    _late(
        _BEFORE * v.t_F,
        (
            _BEFORE * v.t_B + (1 - v.zeta) * v.t_W,  # of the first stage, and of the second
            (v.pp - 2) * v.t_B + _least(2, v.n_mb) * v.t_W,
        ),
        _least(v.pp, v.n_mb) * v.t_Wz,
    ),
    _least(v.pp, v.n_mb),
)
SCHEDULES: Mapping[str, Schedule] = MappingProxyType(
    {"1f1b": _INTERLEAVED, "zero-bubble": _ZERO_BUBBLE}
)


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


def layer_split(
    layers: int, pieces: int, first: int | None = None, last: int | None = None
) -> tuple[int, ...]:
    """The layers of each piece of a pipeline, which are p v pieces.

    Alike where the pieces divide the layers. Else embedding and head count as a layer each, of the
    first and of the last piece (Llama 3, arXiv 2407.21783: 126 layers on 128 pieces), and where
    that does not divide either, the pieces towards the last have one more. With `first` or `last`
    given, the others share the rest. Raises DeriveError where a piece would have less than none.
    """
    if first is None and last is None:
        less = (0, 0) if layers % pieces == 0 else (1, 1)
        each, more = divmod(layers + sum(less), pieces)
        split = [each + (place >= pieces - more) for place in range(pieces)]
        split[0] -= less[0]
        split[-1] -= less[1]
    else:
        ends = [end for end in (first, last) if end is not None]
        inner = pieces - len(ends)
        each, more = divmod(layers - sum(ends), max(inner, 1))
        split = [each + (place >= inner - more) for place in range(inner)]
        split = [*([] if first is None else [first]), *split, *([] if last is None else [last])]
    if min(split) < 0 or sum(split) != layers:
        raise DeriveError(f"{counted(layers, 'layer')} do not split over {pieces} pieces")
    return tuple(split)


def by_stage(split: Sequence[int], stages: int) -> tuple[int, ...]:
    """The layers of each stage, for those of each piece: stage i has piece i, p + i and so on."""
    return tuple(sum(split[i::stages]) for i in range(stages))
