"""The degrees of a plan as data: a row for each axis, the values it may take, and why it may not.

A search walks these rows, as does whatever names or prints a plan: a new axis is a new row. The
reasons for which there is no plan are counted in the order in which the rows are walked: first the
rules on one degree, then what the degrees have to divide together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

import sympy as sp

from derive.cost.schedule import by_stage, layer_split, why_not
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, quoted, unknown

REASONS: Mapping[str, str] = MappingProxyType({
    "tensor_beyond_node": "the tensor group is larger than a node",
    "heads": "the heads do not split over the tensor group",
    "sequence": "the sequence does not split evenly over the context group",
    "zigzag": "the sequence does not split into the 2c equal pieces of zigzag",
    "short_chunk": "too few tokens per context-parallel rank",
    "layers": "the layers do not split evenly over the stages",
    "experts": "the experts do not split over their group",
    "width": "the width of an expert does not split over its tensor group",
    "uninterleaved": "the schedule has no virtual stages",
    "unmodelled": "the step model has no terms for it",
    "cards": "the degrees do not divide the cards",
    "held": "the data degree is not the one that is held",
    "folded": "the expert groups do not divide the tensor, context and data groups",
    "unpiped": "virtual stages are those of a pipeline",
    "virtual": "the layers, or those and embedding and head, do not split over the virtual stages",
    "alone": "there is no data group over which gradients or weights would be split",
    "replicas": "the replicas do not divide the data group, or nothing is split over it",
    "batch": "the batch does not split over the data group in whole micro-batches",
    "interleaved": "the micro-batches do not divide by the stages, which interleaving takes",
    "memory": "does not fit in memory",
})  # fmt: skip
MOST_STAGES = 64
MOST_RANKS = 64  # of a context group


class Counts(NamedTuple):
    """The whole numbers of a task, which alone decide what divides what: cards, those of a node,
    tokens and sequences, layers, heads, the least tokens of a context rank, into how many pieces a
    context rank's tokens are cut, the experts of a layer and their width (0 without), whether the
    grid is the wide one, whether stages may be uneven, whether they may be interleaved, whether
    states may be split, the data degree that is held, if any, and the stages whose layers are given
    (0 without)."""

    cards: int
    seq: int
    batch: int
    node: int
    layers: int
    kv_heads: int
    heads: int
    least_chunk: int
    pieces: int
    experts: int
    expert_width: int
    wide: bool
    uneven: bool
    interleaves: bool
    sharded: bool
    held: int | None
    given: int = 0


def _powers(most: int) -> tuple[int, ...]:
    return tuple(2**k for k in range(most.bit_length()))


def _divisors(number: int, most: int) -> tuple[int, ...]:
    return tuple(k for k in range(1, min(number, most) + 1) if number % k == 0)


def _tensor(n: Counts, degree: int) -> str | None:
    if degree > n.node:
        return "tensor_beyond_node"
    # More ranks than key and value heads share them, in equal groups.
    shared = n.kv_heads % degree == 0 or degree % n.kv_heads == 0
    return None if n.heads % degree == 0 and shared else "heads"


def _context(n: Counts, degree: int) -> str | None:
    if degree == 1:
        return None
    if n.seq % (n.pieces * degree):
        return "sequence" if n.seq % degree else "zigzag"
    return "short_chunk" if n.seq // degree < n.least_chunk else None


def _context_facts(n: Counts, degree: int) -> str:
    pieces = n.pieces * degree
    if n.seq % pieces == 0:
        return f"{n.seq} tokens, at least {n.least_chunk} a rank"
    near = f"; {n.seq // pieces * pieces} or {-(-n.seq // pieces) * pieces} tokens do"
    return f"{n.seq} tokens in {'2c = ' if n.pieces > 1 else ''}{pieces} pieces{near}"


def _stages(n: Counts, degree: int) -> str | None:
    if n.uneven:
        return "layers" if degree > n.layers or n.given not in (0, degree) else None
    return "layers" if n.layers % degree else None


def _virtual(n: Counts, degree: int) -> str | None:
    if degree > 1 and n.uneven and not n.interleaves:
        return "uninterleaved"
    return "unmodelled" if degree > 1 and not n.uneven else None


def _stage_facts(n: Counts, degree: int) -> str:
    facts = f"{n.layers} layers{f', given for {n.given} stages' if n.given else ''}"
    if n.uneven or degree > n.layers:
        return facts
    return f"{facts}; with uneven_stages, as default has it, {_split(n.layers, degree)} do"


def _split(layers: int, stages: int, virtual: int = 1) -> str:
    """The layers of the stages, as "7, 14 x 8, 7"."""
    split = by_stage(layer_split(layers, stages * virtual), stages)
    runs = ((count, len([*group])) for count, group in groupby(split))
    return ", ".join(f"{times} x {count}" if times > 1 else f"{count}" for count, times in runs)


def _zero(n: Counts, degree: int) -> str | None:
    return "unmodelled" if degree > 3 or (degree != 1 and not n.sharded) else None


def _experts(n: Counts, degree: int) -> str | None:
    return "experts" if degree > 1 and (not n.experts or n.experts % degree) else None


def _expert_width(n: Counts, degree: int) -> str | None:
    return "width" if degree > 1 and (not n.experts or n.expert_width % degree) else None


# --- what degrees have to do with each other: numbers, or arrays of whole numbers in float64

Values = Mapping[str, Any]


def _pieces(n: Counts, x: Values) -> Any:
    """Layers on each of the virtual stages alike, or one less on the first and on the last."""
    pieces = x["pp"] * x["virtual"]
    even = (n.layers % pieces == 0) | ((n.layers + 2) % pieces == 0)
    return (x["virtual"] == 1) | (even & (pieces <= n.layers + 2))


def _turns(n: Counts, x: Values) -> Any:
    """Interleaved stages take as many micro-batches in turn as there are stages."""
    micro_batches = n.batch // (x["dp"] * x["micro_batch"])
    return (x["virtual"] == 1) | (micro_batches % x["pp"] == 0)


def _folded(n: Counts, x: Values) -> Any:
    """Experts and their data ranks are the same chips as tensor, context and data ranks."""
    return (x["tp"] * x["cp"] * x["dp"]) % (x["ep"] * x["etp"]) == 0


def _replicated(n: Counts, x: Values) -> Any:
    """Replicas part a data group over which gradients are split."""
    return (x["replicas"] == 1) | ((x["dp"] % x["replicas"] == 0) & (x["zero"] > 1))


def _pieces_facts(n: Counts, x: Mapping[str, int]) -> str:
    stages, virtual = x["pp"], x["virtual"]
    every = range(1, max(1, (n.layers + 2) // stages) + 1)
    fitting = [w for w in every if _pieces(n, {"pp": stages, "virtual": w})]
    near = min(fitting, key=lambda w: (abs(w - virtual), -w))  # 1 is always one of them
    return (
        f"{n.layers} layers on {stages} stages x {virtual} virtual: {stages * virtual} divides "
        f"neither {n.layers} nor, with embedding and head, {n.layers + 2}; virtual={near} does, "
        f"with {_split(n.layers, stages, near)} layers"
    )


def _turns_facts(n: Counts, x: Mapping[str, int]) -> str:
    step = x["dp"] * x["micro_batch"]
    told = why_not("interleaved", x["pp"], x["virtual"], n.batch // step)
    turn = step * x["pp"]
    near = [k for k in (n.batch // turn * turn, (n.batch // turn + 1) * turn) if k]
    return f"{told}; a batch of {' or '.join(map(str, near))} sequences does, or virtual=1"


def _replica_facts(n: Counts, x: Mapping[str, int]) -> str:
    near = max(k for k in range(1, min(x["replicas"], x["dp"]) + 1) if x["dp"] % k == 0)
    told = f"replicas={x['replicas']} of dp={x['dp']} at zero={x['zero']}"
    return f"{told}; replicas={near if x['zero'] > 1 else 1} does"


class Joint(NamedTuple):
    """A rule on several degrees: a key of REASONS, the axes that it reads, whether it holds, and
    what it rests on where it does not."""

    reason: str
    reads: tuple[str, ...]
    holds: Callable[[Counts, Values], Any]
    facts: Callable[[Counts, Mapping[str, int]], str]


@dataclass(frozen=True)
class Axis:
    """A degree that a plan has.

    `name` is its attribute and its key in JSON, `symbol.name` what is typed. `values` are those of
    a task's own grid; None where it is what the cards leave to the axes that divide them. `rule`
    gives why no plan has a degree by itself, a key of REASONS, and `facts` what that rests on.
    `divides` are the quantities of Counts that the product of all axes which name it, this one the
    last of them, has to divide; `joint` are other rules on it and the axes before it. A degree of
    1 goes without saying unless `said` or, in tables, `column`. `traffic` says whether its group
    sends something in a step of its own.
    """

    symbol: sp.Symbol
    name: str
    values: Callable[[Counts], tuple[int, ...]] | None
    rule: Callable[[Counts, int], str | None] = lambda n, degree: None
    facts: Callable[[Counts, int], str] = lambda n, degree: "only 1 is planned"
    divides: tuple[str, ...] = ()
    joint: tuple[Joint, ...] = ()
    said: bool = True
    column: bool = True
    traffic: bool = True

    @property
    def least(self) -> int:
        """The least value: a degree counts chips, a stage of ZeRO starts with none."""
        return 0 if self.symbol == v.zero else 1


def _stage_counts(n: Counts) -> tuple[int, ...]:
    """Divisors of the layers, and where stages need not be even powers of two as well."""
    even = _divisors(n.layers, MOST_STAGES)
    if not n.uneven:
        return even
    return tuple(sorted({*even, *(x for x in _powers(MOST_STAGES) if x <= n.layers)}))


def _micro_batches(n: Counts) -> tuple[int, ...]:
    return ((1, 2, 4, 8, 16) if n.sharded else (1, 2, 4)) if n.wide else (1,)


_ROWS = (
    Axis(
        v.tp, "tp", lambda n: _powers(n.node) if n.wide else (1, 2, 4, 8), _tensor,
        lambda n, x: f"{n.node} cards a node, {n.heads} heads, {n.kv_heads} key and value heads",
        divides=("cards",),
    ),
    Axis(
        v.cp, "cp", lambda n: _powers(MOST_RANKS) if n.wide else (1, 2, 4, 8, 16, 32), _context,
        _context_facts, divides=("cards",),
    ),
    Axis(
        v.pp, "pp", lambda n: _stage_counts(n) if n.wide else (1, 2, 4, 8, 16), _stages,
        _stage_facts, divides=("cards",),
    ),
    Axis(
        v.dp, "dp", None, lambda n, x: "held" if n.held not in (None, x) else None,
        divides=("batch",),
    ),
    Axis(
        v.ep, "ep", lambda n: _powers(n.experts) if n.experts and n.wide else (1,), _experts,
        lambda n, x: f"{n.experts} experts" if n.experts else "no experts",
        said=False, column=False,
    ),
    Axis(
        v.etp, "etp", lambda n: (1,), _expert_width,
        lambda n, x: f"experts {n.expert_width} wide" if n.experts else "no experts",
        joint=(Joint(
            "folded", ("tp", "cp", "dp", "ep", "etp"), _folded,
            lambda n, x: f"ep={x['ep']} x etp={x['etp']} of {x['tp'] * x['cp'] * x['dp']} chips",
        ),),
        said=False, column=False, traffic=False,
    ),
    Axis(
        v.virtual, "virtual", lambda n: (1, 2, 4, 8) if n.uneven and n.interleaves else (1,),
        _virtual, lambda n, x: "1f1b has" if n.uneven else "uneven_stages, as in default, has",
        joint=(
            Joint(
                "unpiped", ("pp", "virtual"), lambda n, x: (x["virtual"] == 1) | (x["pp"] > 1),
                lambda n, x: f"virtual={x['virtual']} on pp=1; virtual=1 does",
            ),
            Joint("virtual", ("pp", "virtual"), _pieces, _pieces_facts),
        ),
        said=False, column=False, traffic=False,
    ),
    Axis(
        v.zero, "zero", lambda n: (1, 2, 3) if n.sharded else (1,), _zero,
        lambda n, x: f"ZeRO has stages 0 to 3{'' if n.sharded else '; without sharded_states, 1'}",
        joint=(Joint(
            "alone", ("cp", "dp", "zero"),
            lambda n, x: (x["zero"] < 2) | (x["cp"] * x["dp"] > 1),
            lambda n, x: f"zero={x['zero']} on cp x dp = 1; zero=1 does",
        ),),
        said=False, column=False, traffic=False,
    ),
    Axis(
        v.replicas, "replicas", lambda n: (1,),
        lambda n, x: "unmodelled" if x > 1 and not n.sharded else None,
        joint=(Joint("replicas", ("dp", "zero", "replicas"), _replicated, _replica_facts),),
        said=False, column=False, traffic=False,
    ),
    Axis(
        v.b_seq, "micro_batch", _micro_batches,
        divides=("batch",), joint=(
            Joint("interleaved", ("pp", "dp", "virtual", "micro_batch"), _turns, _turns_facts),
        ),
        said=False, traffic=False,
    ),
)  # fmt: skip
# The axes that split the cards, then dp, which takes what they leave, then the others.
AXES = tuple(sorted(_ROWS, key=lambda axis: ("cards" not in axis.divides, axis.values is not None)))
FREE = tuple(axis.name for axis in AXES if axis.values)
NAMED: Mapping[str, Axis] = MappingProxyType(
    {name: axis for axis in AXES for name in (axis.symbol.name, axis.name)}
)
PLACE: Mapping[str, int] = MappingProxyType({axis.name: k for k, axis in enumerate(AXES)})


class Degrees(tuple[int, ...]):
    """A degree for each axis, in the order of AXES, and under its name; a data degree of 0 is what
    the cards leave."""

    def __getattr__(self, name: str) -> int:
        if name not in PLACE:
            raise AttributeError(name)
        return self[PLACE[name]]

    def __repr__(self) -> str:
        """As they are typed: "tp=4 cp=2 pp=2 dp=4"; what is 0, and most that is 1, left out."""
        pairs = zip(AXES, self, strict=True)
        shown = ((a, x) for a, x in pairs if (x or a.values) and (a.said or x != 1))
        said = (f"{axis.symbol}={x}" for axis, x in shown)
        return " ".join(said)

    @property
    def size(self) -> int:
        """The cards of one data rank."""
        return prod(x for axis, x in zip(AXES, self, strict=True) if "cards" in axis.divides)

    def on(self, cards: int) -> Degrees:
        """With the data degree that so many cards leave where it is 0; `size` divides them."""
        pairs = zip(AXES, self, strict=True)
        return Degrees(x if axis.values or x else cards // self.size for axis, x in pairs)


def degrees(**given: int) -> Degrees:
    """Degrees by name, 1 where they are left out; without dp what the cards leave."""
    return Degrees(given.get(axis.name, 1 if axis.values else 0) for axis in AXES)


def broken(n: Counts, row: Degrees) -> str | None:
    """The rule on whole numbers that rejects a combination, as a key of REASONS, or None."""
    for axis, degree in zip(AXES, row, strict=True):
        if axis.values and (reason := axis.rule(n, degree)):
            return reason
    products: dict[str, int] = {}
    before: dict[str, int] = {}
    for axis, degree in zip(AXES, row, strict=True):
        if not axis.values:
            degree = n.cards // row.size
            if reason := axis.rule(n, degree):
                return reason
        before[axis.name] = degree
        for quantity in axis.divides:
            products[quantity] = products.get(quantity, 1) * degree
            if getattr(n, quantity) % products[quantity]:
                return quantity
        for joint in axis.joint:
            if not joint.holds(n, before):
                return joint.reason
    return None


def worded(n: Counts, row: Degrees, rule: str) -> str:
    """Why a rule rejects a combination, with what that rests on where its degrees break it."""
    values = {axis.name: degree for axis, degree in zip(AXES, row.on(n.cards), strict=True)}
    for axis in AXES:
        if axis.values and axis.rule(n, values[axis.name]) == rule:
            return f"{REASONS[rule]} ({axis.facts(n, values[axis.name])})"
        if told := [joint.facts(n, values) for joint in axis.joint if joint.reason == rule]:
            return f"{REASONS[rule]} ({told[0]})"
    return REASONS[rule]


@dataclass(frozen=True, init=False)
class Space:
    """The values of each axis, in order of enumeration, as attributes by its name; none of dp,
    which is what the cards leave.

    An axis that is left out has the value 1. Any sequence of different whole numbers is taken for
    a tuple; raises DeriveError for others, and UnknownName.
    """

    values: tuple[tuple[int, ...], ...]

    def __init__(self, **values: Sequence[int]) -> None:
        for name in values:
            if name not in FREE:
                raise unknown("axis of a grid", name, FREE)
        rows = (_distinct(a, values.get(a.name, (1,))) if a.values else () for a in AXES)
        object.__setattr__(self, "values", tuple(rows))

    def __getattr__(self, name: str) -> tuple[int, ...]:
        if name not in PLACE:
            raise AttributeError(name)
        return self.values[PLACE[name]]

    @property
    def size(self) -> int:
        """How many combinations there are, rejected ones included."""
        return prod(len(row) for row in self.values if row)

    def rows(self) -> Iterator[Degrees]:
        """Every combination, in order of enumeration."""
        return map(Degrees, product(*(row or (0,) for row in self.values)))


def _distinct(axis: Axis, given: object) -> tuple[int, ...]:
    values, name = tuple(given) if isinstance(given, Sequence) else (), axis.name
    if not values or any(type(x) is not int or x < axis.least for x in values):
        raise DeriveError(
            f"{name}: expected whole numbers from {axis.least}, found {quoted(given)}"
        )
    if len(set(values)) < len(values):
        twice = next(x for x in values if values.count(x) > 1)
        raise DeriveError(f"{name}: {twice} is given more than once")
    return values


def grid(n: Counts, fixed: Mapping[sp.Symbol, int]) -> Space:
    """The grid of a task: the notebook's own, or powers of two for the tensor and context groups
    and the micro-batch, and for the stages every divisor of the layers up to 64, and powers of two
    where they may be uneven.

    Degrees that are fixed have that value alone. Raises DeriveError where one of them, or the
    sequence, can be in no plan.
    """
    if fixed:
        _check_fixed(n, fixed)
    held = {axis.name: (fixed[axis.symbol],) for axis in AXES if axis.symbol in fixed}
    space = Space(**{a.name: held.get(a.name) or a.values(n) for a in AXES if a.values})
    if v.cp not in fixed:
        _check_sequence(n, space.cp)
    return space


def _check_fixed(n: Counts, fixed: Mapping[sp.Symbol, int]) -> None:
    for axis in AXES:
        degree = fixed.get(axis.symbol, 1)
        if axis.values and (rule := axis.rule(n, degree)):
            told = worded(n, degrees(**{axis.name: degree}), rule)
            below = range(min(degree, n.layers + n.seq) - 1, 0, -1)
            nearest = next((f"; {x} does" for x in below if not axis.rule(n, x)), "")
            raise DeriveError(f"{axis.symbol} = {degree}: {told}{nearest}")
    ranks = [axis.symbol for axis in AXES if "cards" in axis.divides or not axis.values]
    cards = prod(fixed.get(s, 1) for s in ranks)
    every = all(s in fixed for s in ranks)
    if n.cards % cards or (every and cards != n.cards):
        names = " x ".join(f"{s}={x}" for s, x in fixed.items() if s in ranks)
        told = f"not the {n.cards} given" if every else f"and does not divide {n.cards} cards"
        raise DeriveError(f"{names} makes {cards}, {told}{_fitting(n, fixed, ranks, every)}")
    step = prod(fixed.get(a.symbol, 1) for a in AXES if "batch" in a.divides)
    if n.batch % step:
        over = f"over dp={fixed[v.dp]} " if v.dp in fixed else ""
        told = f"{over}into micro-batches of {fixed.get(v.b_seq, 1)}"
        near = " or ".join(
            f"{k}" for k in (n.batch // step * step, -(-n.batch // step) * step) if k
        )
        told = f"the batch of {n.batch} sequences does not split {told}"
        raise DeriveError(f"{told}; a batch of {near} does")
    held = {axis.name: fixed[axis.symbol] for axis in AXES if axis.symbol in fixed}
    if all(a.symbol in fixed for a in AXES if "cards" in a.divides):
        held["dp"] = n.cards // prod(fixed[a.symbol] for a in AXES if "cards" in a.divides)
    for joint in (joint for axis in AXES for joint in axis.joint):
        if all(name in held for name in joint.reads) and not joint.holds(n, held):
            raise DeriveError(f"{REASONS[joint.reason]}: {joint.facts(n, held)}")


def _fitting(
    n: Counts, fixed: Mapping[sp.Symbol, int], ranks: Sequence[sp.Symbol], every: bool
) -> str:
    """The largest value of the last degree that alone makes the cards, or divides them."""
    for symbol in (s for s in reversed(ranks) if s in fixed):
        rest = prod(fixed[s] for s in ranks if s in fixed and s != symbol)
        most = n.cards // rest if every else min(fixed[symbol], n.cards // rest)
        if n.cards % rest == 0 and most:
            near = next(x for x in range(most, 0, -1) if n.cards // rest % x == 0)
            return f"; {symbol}={near} does"
    return ""


def _check_sequence(n: Counts, ranks: Sequence[int]) -> None:
    """A sequence that no context degree but 1 divides is taken for a mistake."""
    wide = [cp for cp in ranks if cp > 1]
    if not wide or any(_context(n, cp) not in ("sequence", "zigzag") for cp in wide):
        return
    even = min(wide) * n.pieces
    pieces = f"{n.pieces}c, the pieces of zigzag, for " if n.pieces > 1 else ""
    degree = f"any context-parallel degree{' c' if pieces else ''}"
    raise DeriveError(
        f"seq {n.seq}: not divisible by {pieces}{degree} from {min(wide)} to {max(wide)}; "
        f"pad it, to {-(-n.seq // even) * even} at least, or set cp=1"
    )
