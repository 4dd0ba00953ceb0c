"""Random legal shardings, blocks, layouts and meshes for Hypothesis."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import prod
from typing import Any

from hypothesis import strategies as st

from derive.cost.block import Block, gated
from derive.cost.layout import KINDS
from derive.cost.reader import block
from derive.cost.transformer import BLOCKS

AXES = ("X", "Y", "Z")
NAMED_AXES = ("X", "a", "cp_1", "t")

# Each layer: the input, then for each product its weight and its result, as names and dimensions.
LAYERS: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "single": ("In B D", [("W D F", "Out B F")]),
    "two": ("In B D", [("W_in D F", "Tmp B F"), ("W_out F D", "Out B D")]),
    "experts": ("In E B D", [("W_in E D F", "Tmp E B F"), ("W_out E F D", "Out E B D")]),
    "heads": ("In B D", [("W_q D K H", "Q B K H"), ("W_o K H D", "Out B D")]),
    "grouped": ("Q K B H", [("W_k K H U", "S K B U"), ("W_v K U H", "Out K B H")]),
    "three": ("In B D", [("W_a D F", "Ta B F"), ("W_b F H", "Tb B H"), ("W_c H D", "Out B D")]),
    "turned": ("In B D", [("W_in D F", "Tmp F B"), ("W_out D F", "Out D B")]),
    "batch last": ("In D B K", [("W_in D F K", "Tmp F K B"), ("W_out K F D", "Out B D K")]),
}

# What no block of a transformer has: parameters in functions, made of parameters, used again.
ODD = (
    "layer_norm(In[B, D]) -> Y; Y . W[D, F] -> Out[B, F]",
    "X[B, D] + W_b[B, D] -> Y; relu(Y) -> Z; Z . W[D, F] -> Out[B, F]",
    "W_a[D, H] . W_b[H, F] -> Merged[D, F]; X[B, D] . Merged -> Y[B, F]; "
    "Y . W_c[F, D] -> Z[B, D]; Z . W_a -> Out[B, H]",
    "X[B, D] . W_a[D, F] * W_b[D, F] * W_c[D, F] -> Y[B, F]; X . W_a -> Z[B, F]; Y * Z -> Out",
    "Ids[T, V] @ W_embed[V, D] -> X[T, D]; relu(X) -> Y; W_embed -> Table[V, D]; "
    "Table . Y -> Out[T, V]",
    "X[T, D] -> Other[U, D]; X . Other -> S[T, U]; S . Other -> Y[T, D]; X + Y -> Out; "
    "X * X -> More",
    "silu(X[B, D]) -> Y; gelu(Y) -> Z; softmax(Z) -> P; gelu(P) * Y -> Out",
    "X[B, T, D] . W_a[D, F] * W_b[D, F] -> S[B, T, F]; softmax(S) -> P (fused); "
    "P . W_c[F, D] -> Y[B, T, D]; P . Q[B, F] -> Out[B, T]",
    "X[B, D] => Y[E, J, D]; Y => Z[B, D]; X + Z -> Out",
)


# Strategies are made once: Hypothesis looks into each that is new.
ORDERS = {axes: st.permutations(axes) for axes in (AXES, AXES[:1], AXES[:2], NAMED_AXES[1:3])}

SIZES = {most: st.integers(1, most) for most in (1, 2, 3, 4)}


@cache
def some(*values: Any) -> st.SearchStrategy[Any]:
    """One of the values."""
    return st.sampled_from(values)


@st.composite
def tensors(draw: st.DrawFn, words: str) -> str:
    """A tensor with each axis on one of its dimensions or on none, in any order."""
    name, *dims = words.split()
    split = dict.fromkeys(dims, "")
    for axis in draw(ORDERS[AXES]):
        dim = draw(some(None, *dims))
        if dim is not None:
            split[dim] += axis
    return f"{name}[{', '.join(f'{d}_{a}' if a else d for d, a in split.items())}]"


@st.composite
def shardings(draw: st.DrawFn) -> Block:
    """A legal sharding: hidden tensors declared or not, gated or not."""
    operand, products = LAYERS[draw(some(*sorted(LAYERS)))]
    text = draw(tensors(operand))
    for number, (weight, result) in enumerate(products, 1):
        text += f" . {draw(tensors(weight))}"
        # A hidden tensor left out has the dimensions in the order in which they come.
        inferable = number < len(products) and result.split()[1] == operand.split()[1]
        if not (inferable and draw(st.booleans())):
            text += f" -> {draw(tensors(result))}"
    read = block(text)
    return gated(read) if len(products) > 1 and draw(st.booleans()) else read


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    """A block of a transformer, or one unlike any of them."""
    named = draw(st.sampled_from([*BLOCKS, *ODD]))
    return BLOCKS[named] if named in BLOCKS else block(named)


@st.composite
def typed(draw: st.DrawFn) -> Block:
    """A block in which every tensor is laid out by itself."""
    read = draw(blocks())
    axes = draw(some(AXES[:1], AXES[:2], NAMED_AXES[1:3]))
    laid_out = []
    for tensor in read.tensors:
        split: dict[str, tuple[str, ...]] = {}
        for axis in draw(ORDERS[axes]):
            dim = draw(some(None, *tensor.dims))
            if dim is not None:
                split[dim] = (*split.get(dim, ()), axis)
        laid_out.append(tensor.laid_out(split))
    return replace(read, tensors=tuple(laid_out))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Block, str]:
    """A block and a line of rules over its dimensions, some of them limited in brackets."""
    read = draw(blocks())
    names = [tensor.name for tensor in read.tensors]
    rules = []
    for _ in range(draw(st.integers(1, 7))):
        only = draw(st.one_of(st.just([]), st.lists(st.sampled_from([*KINDS, *names]), max_size=3)))
        dim, axis = draw(some(*read.dims)), draw(some(*NAMED_AXES))
        rules.append(f"{dim}:{axis}" + (f"({','.join(only)})" if only else ""))
    return read, " ".join(dict.fromkeys(rules))


@st.composite
def meshes(draw: st.DrawFn, axes: tuple[str, ...] = AXES, most: int = 24) -> dict[str, int]:
    """One to four devices along each axis, at most `most` in all."""
    sizes: dict[str, int] = {}
    for axis in axes:
        room = most // prod(sizes.values())
        sizes[axis] = draw(SIZES[max(1, min(4, room))])
    return sizes
