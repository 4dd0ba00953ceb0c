"""The space of plans: a product grid of degrees, and why a combination is no plan.

A rule on one degree is checked per value, so that a grid of millions costs as much as its axes. The
reasons are counted in the order of `REASONS`: a combination falls under the first that applies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from types import MappingProxyType
from typing import Any

from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.plan.task import Counts, Task

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "tensor_beyond_node": "the tensor group is larger than a node",
        "heads": "the heads do not split over the tensor group",
        "sequence": "the sequence does not split evenly over the context group",
        "short_chunk": "too few tokens per context-parallel rank",
        "layers": "the layers do not split evenly over the stages",
        "cards": "the degrees do not divide the cards",
        "batch": "the batch does not split over the data group in whole micro-batches",
        "memory": "does not fit in memory even with every layer recomputed",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Space:
    """The values of each degree, and of the micro-batch in sequences, in order of enumeration."""

    tp: tuple[int, ...]
    cp: tuple[int, ...]
    pp: tuple[int, ...]
    micro_batch: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        for name in ("tp", "cp", "pp", "micro_batch"):
            values = getattr(self, name)
            if not values or any(not isinstance(x, int) or x < 1 for x in values):
                raise DeriveError(f"{name}: expected whole numbers from 1, found {values}")

    @cached_property
    def size(self) -> int:
        """How many combinations there are, rejected ones included."""
        return len(self.tp) * len(self.cp) * len(self.pp) * len(self.micro_batch)


NOTEBOOK_SPACE = Space((1, 2, 4, 8), (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16))
MOST_STAGES = 64


def space_of(task: Task) -> Space:
    """The grid for a task: the notebook's own, or powers of two for the tensor and context groups
    and the micro-batch, and every divisor of the layers up to 64 for the stages.

    Degrees that the task fixes have that value alone. Raises DeriveError where one of them, or the
    sequence, can be in no plan.
    """
    if "wide_grid" in task.assumptions.corrections:
        layers = task.counts.layers
        stages = tuple(p for p in range(1, min(layers, MOST_STAGES) + 1) if layers % p == 0)
        space = Space(_powers(task.counts.node), _powers(64), stages, (1, 2, 4))
    else:
        space = NOTEBOOK_SPACE
    if not task.fixed:
        _check_sequence(task, space)
        return space
    _check_fixed(task)
    names = {v.tp: "tp", v.cp: "cp", v.pp: "pp", v.b_seq: "micro_batch"}
    held = {names[s]: (value,) for s, value in task.fixed.items() if s in names}
    if "cp" not in held:
        _check_sequence(task, space)
    return replace(space, **held)


def _powers(most: int) -> tuple[int, ...]:
    return tuple(2**k for k in range(most.bit_length()) if 2**k <= most)


def tensor_reasons(counts: Counts, degrees: Sequence[int]) -> list[str | None]:
    """Why no plan has each tensor degree, as a key of REASONS, or None."""
    node, heads, kv = counts.node, counts.heads, counts.kv_heads
    # More ranks than key and value heads share them, in equal groups.
    return [
        "tensor_beyond_node" if t > node else "heads" if heads % t or (kv % t and t % kv) else None
        for t in degrees
    ]


def context_reasons(counts: Counts, degrees: Sequence[int]) -> list[str | None]:
    """Why no plan has each context degree, as a key of REASONS, or None."""
    seq, least, pieces = counts.seq, counts.least_chunk, counts.pieces
    return [
        None
        if c == 1
        else "sequence"
        if seq % (pieces * c)
        else "short_chunk"
        if seq // c < least
        else None
        for c in degrees
    ]


def pipeline_reasons(counts: Counts, degrees: Sequence[int]) -> list[str | None]:
    """Why no plan has so many stages, as a key of REASONS, or None."""
    return ["layers" if counts.layers % p else None for p in degrees]


RULES = {v.tp: tensor_reasons, v.cp: context_reasons, v.pp: pipeline_reasons}


def passed(of: Counts, grid: Space, lost: dict[str, int]) -> tuple[tuple[int, ...], ...]:
    """The values of tp, cp and pp that no rule of their own rejects; counts the combinations of the
    others by reason."""
    rest = grid.size
    axes = []
    for values, rule in zip((grid.tp, grid.cp, grid.pp), RULES.values(), strict=True):
        per_value = rest // len(values)
        reasons = rule(of, values)
        for reason in filter(None, reasons):
            lost[reason] = lost.get(reason, 0) + per_value
        values = tuple([x for x, why in zip(values, reasons, strict=True) if why is None])
        axes.append(values)
        rest = per_value * len(values)
    return tuple(axes)


@dataclass(frozen=True, eq=False)
class Whole:
    """The combinations of a grid that whole numbers let pass, and how many they reject by reason.

    `rows` are (tp, cp, pp, dp, micro-batch) in the order of enumeration.
    """

    rows: tuple[tuple[int, ...], ...]
    rejected: tuple[tuple[str, int], ...]

    @cached_property
    def columns(self) -> Any:
        """The rows as an array of five rows, one column for each combination."""
        import numpy as np

        if not self.rows:
            return np.empty((5, 0))
        made = np.array(tuple(zip(*self.rows, strict=True)), dtype=np.float64)
        made.flags.writeable = False
        return made


def whole(task: Task, grid: Space) -> Whole:
    """What every rule but memory lets pass, for a grid that can be written out.

    It depends on whole numbers alone, so a sweep over constants asks for it once.
    """
    return _whole(task.counts, grid, task.fixed.get(v.dp, 0))


@lru_cache(maxsize=64)
def _whole(of: Counts, grid: Space, dp_held: int) -> Whole:
    lost: dict[str, int] = {}
    cards, batch, micro = of.cards, of.batch, grid.micro_batch
    triples = _triples(passed(of, grid, lost))
    divided = [(t, c, p, cards // n) for n, t, c, p in triples if not cards % n]
    if dp_held:
        divided = [row for row in divided if row[3] == dp_held]
    rows = [(*row, b) for row in divided for b in micro if not batch % (row[3] * b)]
    by_cards = (len(triples) - len(divided)) * len(micro)
    by_batch = len(divided) * len(micro) - len(rows)
    lost |= {key: n for key, n in (("cards", by_cards), ("batch", by_batch)) if n}
    return Whole(tuple(rows), tuple(lost.items()))


@lru_cache(maxsize=64)
def _triples(axes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, int, int, int], ...]:
    """The combinations of three degrees, each after its product."""
    return tuple((t * c * p, t, c, p) for t, c, p in product(*axes))


def _check_fixed(task: Task) -> None:
    fixed, counts = task.fixed, task.counts
    facts = {
        v.tp: f"{counts.node} cards a node, {counts.heads} heads, "
        f"{counts.kv_heads} key and value heads",
        v.cp: f"{task.seq} tokens, at least {counts.least_chunk} a rank",
        v.pp: f"{counts.layers} layers",
    }
    for symbol, rule in RULES.items():
        if symbol in fixed and (reason := rule(counts, (fixed[symbol],))[0]):
            raise DeriveError(f"{symbol} = {fixed[symbol]}: {REASONS[reason]} ({facts[symbol]})")
    product = 1
    for degree in (v.tp, v.cp, v.pp, v.dp):
        product *= fixed.get(degree, 1)
    every = all(degree in fixed for degree in (v.tp, v.cp, v.pp, v.dp))
    if task.cards % product or (every and product != task.cards):
        names = " x ".join(f"{s}={n}" for s, n in fixed.items() if s != v.b_seq)
        told = "are not" if every else "do not divide"
        raise DeriveError(f"{names} is {product} cards, which {told} the {task.cards} given")
    share = fixed.get(v.dp, 1) * fixed.get(v.b_seq, 1)
    if task.batch % share:
        raise DeriveError(
            f"the batch of {task.batch} sequences does not split over dp={fixed.get(v.dp, 1)} "
            f"in micro-batches of {fixed.get(v.b_seq, 1)}"
        )


def _check_sequence(task: Task, space: Space) -> None:
    """A sequence that no context degree but 1 divides is taken for a mistake."""
    for cp in space.cp:
        if cp > 1 and context_reasons(task.counts, (cp,))[0] != "sequence":
            return
    if wide := [cp for cp in space.cp if cp > 1]:
        raise DeriveError(
            f"--seq {task.seq}: not divisible by any context-parallel degree from {wide[0]} to "
            f"{wide[-1]}; pad it, or use --set cp=1"
        )
