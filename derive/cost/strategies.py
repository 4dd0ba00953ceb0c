"""The strategies. Most are their sharding; the others declare their moves directly.

A layer is two matmuls, In[B, D] . W_in[D, F] . W_out[F, D], with B the batch in tokens: the model
of the Scaling Book's training chapter [SB5]. Attention is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from derive.cost import rules
from derive.cost.assumptions import DEFAULT, Assumptions
from derive.cost.moves import Move, degree
from derive.cost.network import seconds
from derive.cost.program import PassCost
from derive.cost.sharding import Sharding, gated, sharding
from derive.notation import symbols as v
from derive.notation import units
from derive.notation.errors import DeriveError, quoted, unknown
from derive.notation.plain import text
from derive.notation.units import expect_unit


@dataclass(frozen=True)
class Strategy:
    """How a layer is spread over chips.

    Either `layer` (a sharding, from which moves and FLOPs follow) or `declared` (the passes as
    data) is set. `chips` is the number of chips in terms of the mesh axes. `state` is the bytes of
    weights and optimizer state that a chip holds for P parameters, where the strategy says.
    """

    name: str
    title: str
    layer: Sharding | None
    declared: tuple[PassCost, ...]
    chips: sp.Expr
    state: sp.Expr | None = None
    source: str = "SB5"

    def __post_init__(self) -> None:
        for cost in self.passes():
            _check_units(self, cost)
        if self.state is not None:
            expect_unit(self.state, units.byte, v.unit_of_symbol, f"{self.name}: state")

    def passes(self, assumptions: Assumptions = DEFAULT) -> tuple[PassCost, ...]:
        """Forward and backward cost of one layer under the assumptions (keep, gated)."""
        if self.layer is None:
            if assumptions.gated:
                raise DeriveError(f"{self.name} declares its moves for two matrices, not for three")
            return self.declared
        layer = gated(self.layer) if assumptions.gated else self.layer
        return rules.passes(layer, assumptions.keep)

    @property
    def mesh(self) -> tuple[sp.Symbol, ...]:
        """The mesh axes whose degrees multiply to the chips, in the order X, Y, Z."""
        return tuple(sorted((s for s in self.chips.free_symbols if s != v.N), key=v.rank))

    def __repr__(self) -> str:
        what = str(self.layer) if self.layer is not None else "declares its moves"
        lines = [f"{self.name}: {self.title}", f"  {what}"]
        for cost in self.passes():
            sizes = sp.Add(*(move.bytes for move in cost.moves)).xreplace(DEFAULT.elements)
            flops = text(cost.flops.xreplace(DEFAULT.elements))
            moved = ", ".join(f"{m.collective} {m.tensor}" for m in cost.moves) or "nothing moves"
            lines.append(f"  {cost.name:<9}{flops} FLOP, {text(sizes)} bytes: {moved}")
        return "\n".join(lines)

    def _repr_latex_(self) -> str | None:
        return f"$\\displaystyle {self.layer.latex}$" if self.layer is not None else None


def _check_units(strategy: Strategy, cost: PassCost) -> None:
    where = f"{strategy.name}, {cost.name}"
    expect_unit(cost.flops, units.flop, v.unit_of_symbol, f"{where}, computation")
    for move in cost.moves:
        place = f"{where}, {move.collective} of {move.tensor}"
        expect_unit(move.array_bytes, units.byte, v.unit_of_symbol, place)
        expect_unit(seconds(move), units.second, v.unit_of_symbol, place)


def layer(
    notation: str, *, name: str = "layer", title: str = "a sharding", source: str = ""
) -> Strategy:
    """The strategy that a sharding is: `layer("In[B_X, D] . W_in[D, F] . W_out[F, D] -> ...")`.

    Raises ShardingError where the text is malformed, contradictory or illegal.
    """
    read = sharding(notation)
    chips = degree(read.mesh)
    # Weights and optimizer state are split as the weights are; where they are not split alike,
    # the layer says nothing of the whole model's state.
    splits = {degree(w.axes) for w in read.weights}
    state = v.s_P * v.P / splits.pop() if len(splits) == 1 else None
    return Strategy(name, title, read, (), chips, state, source)


def _pipeline() -> Strategy:
    # Per stage boundary: the whole batch's activations go to the next stage once forward, and
    # their gradients come back once. A stage computes L/Z layers meanwhile.
    per_stage = v.fma * 2 * v.B * v.D * v.F * v.L / v.Z
    activations = v.e * v.B * v.D
    forward = Move("send", "Out", ("Z",), activations, critical=True)
    backward = Move("send", "dOut", ("Z",), activations, critical=True)
    return Strategy(
        "pipeline",
        "pipeline parallelism, per stage boundary",
        None,
        (
            PassCost("forward", per_stage, (forward,)),
            PassCost("backward", 2 * per_stage, (backward,)),
        ),
        v.Z,
        v.s_P * v.P / v.Z,
    )


def _cross_pod() -> Strategy:
    # Inside a slice the layer is spread over N chips in any way that splits the weights evenly;
    # each chip all-reduces the gradients of its own share with its peers in the other slices.
    flops = v.fma * 2 * v.B * v.D * v.F / (v.S * v.N)
    gradient = v.e_g * v.D * v.F / v.N
    moves = tuple(
        Move("all_reduce", tensor, ("S",), gradient, critical=False)
        for tensor in ("dW_out", "dW_in")
    )
    return Strategy(
        "cross_pod",
        "data parallelism across slices",
        None,
        (PassCost("forward", flops, ()), PassCost("backward", 2 * flops, moves)),
        v.S * v.N,
        v.s_P * v.P / v.N,
    )


def _weight_reads() -> Strategy:
    # Every weight is read from memory once per pass while B tokens are multiplied with it.
    flops = v.fma * 2 * v.B * v.D * v.F
    loads = tuple(Move("load", t, (), v.e * v.D * v.F, critical=True) for t in ("W_in", "W_out"))
    return Strategy(
        "weight_reads",
        "weights read from the chip's own memory",
        None,
        (PassCost("forward", flops, loads),),
        sp.Integer(1),
    )


data_parallel = layer(
    "In[B_X, D] . W_in[D, F] . W_out[F, D] -> Out[B_X, D]",
    name="data_parallel",
    title="data parallelism",
    source="SB5",
)
fsdp = layer(
    "In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]",
    name="fsdp",
    title="FSDP (ZeRO-3)",
    source="SB5",
)
tensor_parallel = layer(
    "In[B, D_Y] . W_in[D, F_Y] . W_out[F_Y, D] -> Out[B, D_Y]",
    name="tensor_parallel",
    title="tensor parallelism",
    source="SB5",
)
fsdp_tensor = layer(
    "In[B_X, D_Y] . W_in[D_X, F_Y] . W_out[F_Y, D_X] -> Out[B_X, D_Y]",
    name="fsdp_tensor",
    title="FSDP + tensor parallelism",
    source="SB5",
)
pipeline = _pipeline()
cross_pod = _cross_pod()
weight_reads = _weight_reads()

STRATEGIES: Mapping[str, Strategy] = {
    s.name: s
    for s in (
        data_parallel, fsdp, tensor_parallel, fsdp_tensor, pipeline, cross_pod, weight_reads
    )
}  # fmt: skip


@lru_cache(maxsize=1)
def _spellings() -> dict[str, str]:
    return {name.replace("_", ""): name for name in STRATEGIES}


def strategy(name: str) -> Strategy:
    """The strategy called `name`; hyphens and capitals do not matter. Raises UnknownName."""
    key = name.lower().replace("-", "").replace("_", "")
    if key not in _spellings():
        raise unknown("strategy", name, STRATEGIES)
    return STRATEGIES[_spellings()[key]]


def as_strategy(value: object) -> Strategy:
    """`value` where it is a strategy; raises DeriveError where it is not, saying how to name it."""
    if isinstance(value, Strategy):
        return value
    if isinstance(value, str):
        named = strategy(value).name
        raise DeriveError(f"expected a strategy, found the text {quoted(value)}; write {named}")
    raise DeriveError(f"expected a strategy such as fsdp, found {quoted(value)}")
