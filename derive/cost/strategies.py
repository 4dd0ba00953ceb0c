"""The strategies: each a block and a line of layout, but for a few that declare their moves
directly."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import sympy as sp

from derive.cost.assumptions import CHOICES, DEFAULT, Assumptions
from derive.cost.block import Block, Fusion, ProductLine, gated
from derive.cost.experts import places
from derive.cost.layout import spread
from derive.cost.passes import Program, program
from derive.cost.program import Move, PassCost, Saved, degree
from derive.cost.reader import block
from derive.cost.sizes import sizes_of
from derive.cost.transformer import (
    ATTENTION,
    ATTENTION_CORE,
    BLOCKS,
    EXPERTS,
    LAYER_OF,
    MLP,
    SHARED,
)
from derive.notation import symbols as v
from derive.notation import units
from derive.notation.errors import DeriveError, guarded, quoted, unknown
from derive.notation.units import expect_unit

# --- a strategy


@guarded
@dataclass(frozen=True)
class Strategy:
    """How a layer is spread over chips.

    Either `block` (laid out, from which moves and FLOPs follow) or `declared` (the passes as data)
    is set. `chips` is the number of chips in terms of the mesh axes. `state` is the bytes of
    weights and optimizer state that a chip holds for P parameters, where the strategy says.
    `gate` is the same block with a gate, where that is what a gated model has.
    """

    name: str
    title: str
    block: Block | None
    declared: tuple[PassCost, ...]
    chips: sp.Expr
    state: sp.Expr | None = None
    gate: Block | None = None

    def __post_init__(self) -> None:
        for cost in self.passes():
            where = f"{self.name}, {cost.name}"
            if cost.flops != 0:
                expect_unit(cost.flops, units.flop, v.unit_of_symbol, f"{where}, computation")
            for move in cost.moves:
                place = f"{where}, {move.collective} of {move.tensor}"
                expect_unit(move.array_bytes, units.byte, v.unit_of_symbol, place)
        if self.state is not None:
            expect_unit(self.state, units.byte, v.unit_of_symbol, f"{self.name}: state")

    def passes(self, assumptions: Assumptions = DEFAULT) -> tuple[PassCost, ...]:
        """Forward and backward cost of one layer under the assumptions (keep, gated, kernels)."""
        laid_out = self.laid_out(assumptions)
        if laid_out is None:
            return self.declared
        whole = _program(laid_out, assumptions)
        # Weights that an optimizer step left in pieces are gathered before the next forward pass.
        forward = replace(
            whole.forward,
            moves=(*whole.update.moves, *whole.forward.moves),
            program=(*whole.update.program, *whole.forward.program),
        )
        return forward, whole.backward

    def saved(self, assumptions: Assumptions = DEFAULT) -> tuple[Saved, ...]:
        """What the forward pass leaves for the backward one; nothing for declared moves."""
        laid_out = self.laid_out(assumptions)
        return () if laid_out is None else _program(laid_out, assumptions).saved

    @property
    def taken(self) -> tuple[str, ...]:
        """The assumptions that play a part: of kernels those that the block has."""
        kernels = self.block.kernels if self.block is not None else ()
        left_out = {*Fusion._fields, *(("program",) if self.block is None else ())} - {*kernels}
        return tuple(n for n in CHOICES if n not in left_out)

    def laid_out(self, assumptions: Assumptions = DEFAULT) -> Block | None:
        """The block under the assumptions; None where the moves are declared. Raises DeriveError
        for a gate or a kernel where there is none."""
        assumptions.only(self.taken, self.name)
        if not assumptions.gated:
            return self.block
        if self.gate is None:
            way = "or write its third matrix as W_gate[D, F] * W_in[D, F]"
            if self.block is None:
                way = "since it declares its moves for two matrices"
            raise DeriveError(
                f"gated adds a matrix to a named strategy of the MLP such as fsdp, and {self.name} "
                f"is none: leave gated out, {way}"
            )
        return self.gate

    def stated(self, assumptions: Assumptions, *, memory: bool = False) -> dict[str, str]:
        """The assumptions by name, each with a phrase: those of a gate only where there can be one,
        and those that the block declares, of masks and fused kernels."""
        told = assumptions.stated(memory=memory)
        if self.gate is None:
            del told["gated"]
        if assumptions.network == "two-level" and len(self.nested) > 1:
            *outer, inner = self.nested
            told["network"] += f"; {inner} inside a node, {' and '.join(outer)} over nodes"
        if self.block is None:
            del told["program"]
        elif assumptions.program == "least":
            told["program"] += f"; {sizes_of(self.block, dict(assumptions.sizes))}"
        lines = self.block.lines if self.block is not None else ()
        if any(isinstance(line, ProductLine) and 0 < line.share < 1 for line in lines):
            told["causal"] = "causal: a mask leaves out half of the scores and of their products"
        kernels = assumptions.kernels_stated
        return told | {name: kernels[name] for name in kernels if name in self.taken}

    @property
    def mesh(self) -> tuple[sp.Symbol, ...]:
        """The mesh axes whose degrees multiply to the chips, in the order of the vocabulary."""
        degrees = (s for s in self.chips.free_symbols if v.is_degree(s) and s != v.N)
        return tuple(sorted(degrees, key=v.rank))

    @property
    def nested(self) -> tuple[str, ...]:
        """The mesh axes by name, outermost first: that is the order in which the block has them, so
        that the last one's devices are neighbours."""
        if self.block is None:
            moves = (move for cost in self.declared for move in cost.moves)
            return tuple(dict.fromkeys(axis for move in moves for axis in move.axes))
        return self.block.mesh

    def __repr__(self) -> str:
        what = repr(self.block).split("; ") if self.block is not None else ["declares its moves"]
        passes = [cost.told(DEFAULT.elements) for cost in self.passes()]
        return "\n  ".join([f"{self.name}: {self.title}", *what, *passes])

    def _repr_latex_(self) -> str | None:
        return f"$\\displaystyle {self.block.latex}$" if self.block is not None else None


def _program(laid_out: Block, assumptions: Assumptions) -> Program:
    least = assumptions.sizes if assumptions.program == "least" else None
    return program(laid_out, assumptions.keep, assumptions.fusion, least)


def layer(
    notation: str | Block,
    layout: str = "",
    *,
    name: str = "layer",
    title: str = "a sharding",
    parameters: Collection[str] | None = None,
) -> Strategy:
    """The strategy that a block is, spread by a line of layout or as it is typed:
    `layer("In[B, D] . W_in[D, F] . W_out[F, D] -> Out[B, D]", "B:X D:X")`, or by the name that it
    has in BLOCKS: `layer("attention", "T:X")`.

    Raises UnknownName for such a name that is not known, ShardingError where the text is malformed,
    contradictory or illegal.
    """
    if isinstance(notation, Block):
        plain = notation
    elif isinstance(notation, str) and re.fullmatch(r"\w+", notation):
        if notation not in BLOCKS:
            raise unknown("block", notation, BLOCKS)
        plain = BLOCKS[notation]
    else:
        plain = block(notation, parameters)
    laid_out = spread(plain, layout or ())
    # Weights and optimizer state are split as the weights are; where they are not split alike, or
    # there are none, the layer says nothing of the whole model's state.
    splits = {degree(laid_out[parameter].axes) for parameter in laid_out.parameters}
    state = v.s_P * v.P / splits.pop() if len(splits) == 1 else None
    gate = spread(gated(MLP), layout or ()) if plain is MLP else None
    return Strategy(name, title, laid_out, (), degree(laid_out.devices), state, gate)


# --- those that have a name

data_parallel = layer(MLP, "B:X", name="data_parallel", title="data parallelism")
fsdp = layer(MLP, "B:X D:X", name="fsdp", title="FSDP (ZeRO-3)")
tensor_parallel = layer(MLP, "F:Y D:Y", name="tensor_parallel", title="tensor parallelism")
fsdp_tensor = layer(MLP, "B:X F:Y D:Y D:X", name="fsdp_tensor", title="FSDP + tensor parallelism")
sequence_parallel = layer(
    MLP, "B:X F:Y B:Y", name="sequence_parallel", title="tensor + sequence parallelism"
)
hsdp = layer(MLP, "B:Z B:X D:X", name="hsdp", title="FSDP in groups that are replicated (HSDP)")
context_parallel = layer(
    ATTENTION_CORE,
    "T:X U:X(ring)",
    name="context_parallel",
    title="context parallelism, keys and values passed round a ring",
)
context_gathered = layer(
    ATTENTION_CORE,
    "T:X U:X",
    name="context_gathered",
    title="context parallelism, keys and values gathered first",
)
ulysses = layer(
    ATTENTION,
    "K:X(Q,AllKey,AllVal,Score,Share,O) T:X",
    name="ulysses",
    title="context parallelism by heads (Ulysses)",
)
expert_parallel = layer(
    EXPERTS, "E:X B:X", name="expert_parallel", title="experts over the axis of the tokens"
)

_WHOLE = program(MLP)
# Per stage boundary: the whole batch's activations go to the next stage once forward, and their
# gradients come back once. A stage computes L/Z layers meanwhile.
_STAGES = tuple(
    PassCost(
        cost.name,
        cost.flops * v.L / v.Z,
        (Move("send", tensor, ("Z",), v.e * v.B * v.D, critical=True),),
    )
    for cost, tensor in ((_WHOLE.forward, "Out"), (_WHOLE.backward, "dOut"))
)
pipeline = Strategy(
    "pipeline", "pipeline parallelism, per stage boundary", None, _STAGES, v.Z, v.s_P * v.P / v.Z
)
# Inside a slice the layer is spread over N chips in any way that splits the weights evenly; each
# chip all-reduces the gradients of its own share with its peers in the other slices.
_CHIPS, _SHARE = v.S * v.N, v.e_g * v.D * v.F / v.N
_SLICES = (
    PassCost("forward", _WHOLE.forward.flops / _CHIPS, ()),
    PassCost(
        "backward",
        _WHOLE.backward.flops / _CHIPS,
        tuple(Move("all_reduce", t, ("S",), _SHARE, critical=False) for t in ("dW_out", "dW_in")),
    ),
)
cross_pod = Strategy(
    "cross_pod", "data parallelism across slices", None, _SLICES, _CHIPS, v.s_P * v.P / v.N
)
# Every weight is read from memory once per pass while B tokens are multiplied with it.
_READS = tuple(Move("load", t.name, (), v.e * size, critical=True) for t, size in _WHOLE.parameters)
weight_reads = Strategy(
    "weight_reads",
    "weights read from the chip's own memory",
    None,
    (PassCost("forward", _WHOLE.forward.flops, _READS),),
    sp.S.One,
)


# Rows go to experts and come back while products run that do not wait for them: those of experts
# that have their rows, of the shared ones, or of a layer where two micro-batches take turns.
def _dispatch(
    name: str, title: str, work: Block, steps: Mapping[str, sp.Expr], chips: sp.Expr = v.X
) -> Strategy:
    """The passes of `work`, and the all-to-alls of experts over all chips, in a step over each of
    some axes that takes a part of the whole."""
    even = {v.U: v.T, v.b_seq: v.B / v.T, v.J: places(EXPERTS)}
    whole, flat = program(work), program(spread(EXPERTS, "E:X B:X"))
    passes = []
    for cost, rows in ((whole.forward, flat.forward), (whole.backward, flat.backward)):
        moves = tuple(
            replace(m, axes=(axis,), array_bytes=(part * m.array_bytes).xreplace(even))
            for m in rows.moves
            if m.collective == "all_to_all"
            for axis, part in steps.items()
        )
        passes.append(PassCost(cost.name, cost.flops.xreplace(even), moves))
    return Strategy(name, title, None, tuple(passes), chips)


shared_dispatch = _dispatch(
    "shared_dispatch", "experts, rows sent under the shared experts", spread(SHARED, "B:X"),
    {"X": sp.S.One},
)  # fmt: skip
layer_dispatch = _dispatch(
    "layer_dispatch",
    "experts, rows sent under the layer of another micro-batch",
    spread(LAYER_OF["gqa", "shared"], "b_seq:X E:X(experts)"),
    {"X": sp.S.One},
)
# Y chips in each of X nodes, all that it has: a row crosses to a node once, whatever experts it has
# there. How many a node has is no choice, so that Y is no axis of the mesh that is looked for.
node_limited = _dispatch(
    "node_limited",
    "experts over nodes, each row sent once to a node and spread inside it",
    spread(EXPERTS, "E:X E:Y B:X B:Y"),
    {"X": v.n_hit / v.n_k / v.Y, "Y": 1 / v.X},
    v.X * v.n_node,
)

STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {one.name: one for one in list(vars().values()) if isinstance(one, Strategy)}
)
"""Every strategy of this file, by name, in the order in which they are declared."""


@guarded
def strategy(name: str) -> Strategy:
    """The strategy called `name`; hyphens and capitals do not matter. Raises UnknownName."""
    letters = name.lower().replace("-", "").replace("_", "")
    for known, one in STRATEGIES.items():
        if known.replace("_", "") == letters:
            return one
    raise unknown("strategy", name, STRATEGIES)


def as_strategy(value: object) -> Strategy:
    """`value` where it is a strategy; raises DeriveError where it is not, saying how to name it."""
    if isinstance(value, Strategy):
        return value
    if isinstance(value, str):
        named = strategy(value).name
        raise DeriveError(f"expected a strategy, found the text {quoted(value)}; write {named}")
    raise DeriveError(f"expected a strategy such as fsdp, found {quoted(value)}")
