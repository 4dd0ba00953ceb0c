"""The space of plans: a product grid of degrees, and why a combination is no plan.

A rule on one degree is checked per value, so that a grid of millions costs as much as its axes. The
reasons are counted in the order of `REASONS`: a combination falls under the first that applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from derive.notation import symbols as v
from derive.notation.errors import DeriveError, quoted
from derive.plan.rules import REASONS, RULES, context, division
from derive.plan.task import Counts, Task


@dataclass(frozen=True)
class Space:
    """The values of each degree, and of the micro-batch in sequences, in order of enumeration.

    Any sequence of different whole numbers is taken for a tuple; raises DeriveError for others.
    """

    tp: tuple[int, ...]
    cp: tuple[int, ...]
    pp: tuple[int, ...]
    micro_batch: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        for name in ("tp", "cp", "pp", "micro_batch"):
            given = getattr(self, name)
            values = tuple(given) if isinstance(given, Sequence) else ()
            if not values or any(type(x) is not int or x < 1 for x in values):
                raise DeriveError(f"{name}: expected whole numbers from 1, found {quoted(given)}")
            if len(set(values)) < len(values):
                twice = next(x for x in values if values.count(x) > 1)
                raise DeriveError(f"{name}: {twice} is given more than once")
            object.__setattr__(self, name, values)  # frozen, and hashed from here on

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


def passed(of: Counts, grid: Space) -> tuple[list[tuple[int, ...]], dict[str, int]]:
    """The values of tp, cp and pp that no rule of their own rejects, and how many combinations the
    others have, by reason."""
    rest = grid.size
    axes = []
    lost: dict[str, int] = {}
    for values, rule in zip((grid.tp, grid.cp, grid.pp), RULES.values(), strict=True):
        per_value = rest // len(values)
        found = rule(of, values)
        for reason in filter(None, found):
            lost[reason] = lost.get(reason, 0) + per_value
        values = tuple([x for x, why in zip(values, found, strict=True) if why is None])
        axes.append(values)
        rest = per_value * len(values)
    return axes, lost


@dataclass(frozen=True, eq=False)
class Whole:
    """The combinations of a grid that whole numbers let pass, and how many they reject by reason.

    `rows` are (tp, cp, pp, dp, micro-batch) in the order of enumeration.
    """

    rows: tuple[tuple[int, ...], ...]
    rejected: tuple[tuple[str, int], ...]


def whole(task: Task, grid: Space) -> Whole:
    """What every rule but memory lets pass, for a grid that can be written out."""
    axes, lost = passed(task.counts, grid)
    every = [(t * c * p, t, c, p, b) for t, c, p, b in product(*axes, grid.micro_batch)]
    rows = []
    reasons = division(task.counts, [(size, b) for size, _, _, _, b in every])
    for (size, t, c, p, b), why in zip(every, reasons, strict=True):
        if why is None:
            rows.append((t, c, p, task.cards // size, b))
        else:
            lost[why] = lost.get(why, 0) + 1
    return Whole(tuple(rows), tuple((key, lost[key]) for key in REASONS if key in lost))


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
        told = f"not the {task.cards} given" if every else f"and does not divide {task.cards} cards"
        raise DeriveError(f"{names} makes {product}, {told}")
    micro = fixed.get(v.b_seq, 1)
    if task.batch % (fixed.get(v.dp, 1) * micro):
        over = f"over dp={fixed[v.dp]} " if v.dp in fixed else ""
        raise DeriveError(
            f"the batch of {task.batch} sequences does not split {over}"
            f"into micro-batches of {micro}"
        )


def _check_sequence(task: Task, space: Space) -> None:
    """A sequence that no context degree but 1 divides is taken for a mistake."""
    for cp in space.cp:
        if cp > 1 and context(task.counts, (cp,))[0] != "sequence":
            return
    if wide := [cp for cp in space.cp if cp > 1]:
        pieces = task.counts.pieces
        even = min(wide) * pieces
        by = "any context-parallel degree" if pieces == 1 else f"{pieces}c, the pieces of zigzag,"
        degree = "" if pieces == 1 else " for any context-parallel degree c"
        raise DeriveError(
            f"--seq {task.seq}: not divisible by {by}{degree} from {min(wide)} to {max(wide)}; "
            f"pad it, to {-(-task.seq // even) * even} at least, or use --set cp=1"
        )
