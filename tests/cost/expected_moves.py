"""Shardings with their moves worked out by hand from the rules, and why.

A move is (collective, tensor, axes, bytes): bytes are of the large-n volume, so twice the array
for an all-reduce. Activations are kept from the forward pass, gathered weights are not.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from derive.cost.block import Block
from derive.cost.passes import program
from derive.cost.program import PassCost
from derive.notation.symbols import B, D, E, F, H, K, T, X, Y, e, e_g

AG, RS, AR, A2A = "all_gather", "reduce_scatter", "all_reduce", "all_to_all"
Expected = tuple[str, str, str, sp.Expr]


@dataclass(frozen=True)
class Row:
    """A sharding, the moves of its two passes by hand, and the reasoning."""

    text: str
    forward: tuple[Expected, ...]
    backward: tuple[Expected, ...]
    why: str
    rule5: bool = False
    keep: str = "activations"


ROWS = (
    Row(
        "In[B_X, D] . W_in[D, F] . W_out[F, D] -> Out[B_X, D]",
        (),
        ((AR, "dW_out", "X", 2 * e_g * D * F), (AR, "dW_in", "X", 2 * e_g * D * F)),
        "rule 1 forward; the gradients of weights sum over B, which both operands split by X",
    ),
    Row(
        "In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]",
        ((AG, "W_in", "X", e * D * F), (AG, "W_out", "X", e * D * F)),
        (
            (AG, "W_out", "X", e * D * F),
            (RS, "dW_out", "X", e_g * D * F),
            (AG, "W_in", "X", e * D * F),
            (RS, "dW_in", "X", e_g * D * F),
        ),
        "W_in: rule 2; W_out: rule 4, the result declares B_X; gradients: rule 3 to their D_X",
    ),
    Row(
        "In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]",
        ((AG, "W_in", "X", e * D * F), (AG, "W_out", "X", e * D * F)),
        ((RS, "dW_out", "X", e_g * D * F), (RS, "dW_in", "X", e_g * D * F)),
        "the same with the gathered weights kept for the backward pass",
        keep="weights",
    ),
    Row(
        "In[B, D_Y] . W_in[D, F_Y] . W_out[F_Y, D] -> Out[B, D_Y]",
        ((AG, "In", "Y", e * B * D), (RS, "Out", "Y", e * B * D)),
        ((AG, "dOut", "Y", e * B * D), (RS, "dIn", "Y", e * B * D)),
        "rule 2 on In and dOut, rule 3 on Out and dIn; dW_in reuses the gathered In",
    ),
    Row(
        "In[B, D_Y] . W_in[D, F_Y] . W_out[F_Y, D] -> Out[B, D_Y]",
        ((AG, "In", "Y", e * B * D), (RS, "Out", "Y", e * B * D)),
        ((AG, "dOut", "Y", e * B * D), (RS, "dIn", "Y", e * B * D), (AG, "In", "Y", e * B * D)),
        "nothing kept: dW_in[D, F_Y] = In[B, D_Y] . dTmp[B, F_Y] gathers In again by rule 4",
        keep="none",
    ),
    Row(
        "In[B_X, D_Y] . W_in[D_X, F_Y] . W_out[F_Y, D_X] -> Out[B_X, D_Y]",
        (
            (AG, "In", "Y", e * B * D / X),
            (AG, "W_in", "X", e * D * F / Y),
            (AG, "W_out", "X", e * D * F / Y),
            (RS, "Out", "Y", e * B * D / X),
        ),
        (
            (AG, "dOut", "Y", e * B * D / X),
            (AG, "W_out", "X", e * D * F / Y),
            (RS, "dW_out", "X", e_g * D * F / Y),
            (AG, "W_in", "X", e * D * F / Y),
            (RS, "dIn", "Y", e * B * D / X),
            (RS, "dW_in", "X", e_g * D * F / Y),
        ),
        "FSDP on the 1/Y of each weight and tensor parallelism on the 1/X of the batch",
    ),
    Row(
        "In[B, D_Y] . W_a[D, F_Y] * W_b[D, F_Y] -> Tmp[B, F_Y] . W_out[F_Y, D] -> Out[B, D_Y]",
        ((AG, "In", "Y", e * B * D), (RS, "Out", "Y", e * B * D)),
        ((AG, "dOut", "Y", e * B * D), (RS, "dIn", "Y", e * B * D)),
        "gated: In is gathered once for both matrices, dIn is summed before it is scattered once",
    ),
    Row(
        "In[B, D_Y] . W[D_Y, F] -> Out[B, F]",
        ((AR, "Out", "Y", 2 * e * B * F),),
        (),
        "rule 3 without a place to scatter to; backward D is kept (rule 1), B and F are whole",
    ),
    Row(
        "In[B_X, D] . W[D, F_X] -> Out[B, F_X]",
        ((AG, "In", "X", e * B * D),),
        ((RS, "dIn", "X", e * B * D),),
        "rule 4: Out keeps F_X, so In is gathered; dIn sums over F and is B_X; dW reuses In",
    ),
    Row(
        "In[B_X, D] . W[D, F_X] -> Out[B_X, F]",
        ((AG, "W", "X", e * D * F),),
        ((AG, "W", "X", e * D * F), (RS, "dW", "X", e_g * D * F)),
        "rule 4: Out keeps B_X, so W is gathered, again backward (rule 2); dW sums over B to F_X",
    ),
    Row(
        "In[B, D] . W[D, F] -> Out[B, F_Z]",
        (),
        ((AG, "dOut", "Z", e * B * F), (AG, "dW", "Z", e_g * D * F)),
        "Out is sliced; dIn gathers dOut (rule 2); dW comes out as F_Z and is gathered",
        rule5=True,
    ),
    Row(
        "In[B_X, D] . W[D, F] -> Out[B, F]",
        ((AG, "Out", "X", e * B * F),),
        ((AG, "In", "X", e * B * D),),
        "Out is gathered; dIn is sliced; dW sums over B, split on In only, so rule 2 gathers In",
        rule5=True,
    ),
    Row(
        "In[B_X, D] . W[D, F] -> Out[B, F_X]",
        ((A2A, "Out", "X", e * B * F),),
        ((AG, "dOut", "X", e * B * F), (AG, "In", "X", e * B * D), (AG, "dW", "X", e_g * D * F)),
        "X goes from B to F; dIn: rule 2, sliced; dW: In summed over B_X gathered, F_X gathered",
        rule5=True,
    ),
    Row(
        "In[E, B_X, D] . W_in[E_X, D, F] . W_out[E_X, F, D] -> Out[E, B_X, D]",
        ((A2A, "In", "X", e * E * B * D), (A2A, "Out", "X", e * E * B * D)),
        ((A2A, "dOut", "X", e * E * B * D), (A2A, "dIn", "X", e * E * B * D)),
        "experts: the hidden tensor is E_X, tokens go to their experts and come back",
        rule5=True,
    ),
    Row(
        "In[B_X, D] . W_in[D, F] -> Tmp[B, F_X] . W_out[F_X, D] -> Out[B_X, D]",
        ((A2A, "Tmp", "X", e * B * F), (RS, "Out", "X", e * B * D)),
        (
            (AG, "dOut", "X", e * B * D),
            (AG, "dTmp", "X", e * B * F),
            (AG, "In", "X", e * B * D),
            (AG, "dW_in", "X", e_g * D * F),
        ),
        "hidden declared F_X: all-to-all; dTmp keeps F_X (rule 4), dIn gathers it (rule 2)",
        rule5=True,
    ),
    Row(
        "In[B, D_XZ] . W[D_Z, F] -> Out[B, F_X]",
        ((AG, "In", "XZ", e * B * D), (AR, "Out", "Z", 2 * e * B * F)),
        ((AG, "dOut", "X", e * B * F), (AG, "dIn", "Z", e * B * D), (AG, "dW", "XZ", e_g * D * F)),
        "X, the outer one, leaves D only with Z inside it, in one ring; Z is sliced again",
        rule5=True,
    ),
    Row(
        "In[B, D_XZ] . W[D_XZ, F] -> Out[B, F_ZX]",
        ((RS, "Out", "ZX", e * B * F),),
        ((AG, "dOut", "ZX", e * B * F),),
        "partial sums over both axes, scattered in one ring; dIn and dW gather dOut once",
    ),
    Row(
        "In[B, D_X] . W[D, F_YX] -> Out[B, F_YX]",
        ((AG, "In", "X", e * B * D),),
        ((RS, "dIn", "X", e * B * D), (AR, "dIn", "Y", 2 * e * B * D / X)),
        "rule 2 on In leaves F_YX where it is; dIn: both partial, X scattered, Y reduced after it",
    ),
    Row(
        "In[B, D_X] . W[D_X, F] -> Out[B, F_YX]",
        ((RS, "Out", "X", e * B * F / Y),),
        ((AG, "dOut", "YX", e * B * F), (AG, "dW", "Y", e_g * D * F / X)),
        "Y is on no operand: its slice is free, and X is scattered inside it",
        rule5=True,
    ),
    Row(
        "In[E_X, B, D] . W[E_XZ, D, F] . W_b[E_XZ, F, D] -> Out[E_X, B, D]",
        ((AG, "Out", "Z", e * E * B * D / X),),
        ((AG, "dIn", "Z", e * E * B * D / X),),
        "the hidden tensor is E_XZ; In and dOut are sliced to it, Out and dIn gathered from it",
        rule5=True,
    ),
    Row(
        "In[B, D_X] . W[D_X, F_Y] -> Out[B_Y, F_X]",
        ((AR, "Out", "X", 2 * e * B * F / Y), (A2A, "Out", "Y", e * B * F)),
        (
            (AG, "dOut", "X", e * B * F / Y),
            (AG, "W", "Y", e * D * F / X),
            (AG, "dIn", "Y", e * B * D / X),
            (AG, "dOut", "Y", e * B * F),
        ),
        "Y on F bars the scatter over X: all-reduce, Y to B, slice; dW gathers dOut the rest of it",
        rule5=True,
    ),
    Row(
        "In[B_X, T, D] . W[D, F] -> Out[B, T_X, F]",
        ((A2A, "Out", "X", e * B * T * F),),
        (
            (A2A, "dIn", "X", e * B * T * D),
            (AG, "In", "X", e * B * T * D),
            (AG, "dOut", "X", e * B * T * F),
        ),
        "dW sums over B and T, split by X on one operand each: rule 2 gathers both, dW is whole",
        rule5=True,
    ),
    Row(
        "In[B, K_X, H] . W[K, H_X, D] -> Out[B, D]",
        ((AG, "In", "X", e * B * K * H), (AG, "W", "X", e * K * H * D)),
        ((A2A, "dIn", "X", e * B * K * H), (A2A, "dW", "X", e_g * K * H * D)),
        "X on two summed dimensions: rule 2 gathers both; dIn comes out as H_X and dW as K_X",
        rule5=True,
    ),
)

# One axis, one product: where X is on In, on W and on Out, and what the forward pass moves.
Kinds = tuple[tuple[str, str], ...]
TO_OUT: dict[str, dict[str, Kinds]] = {
    "": {"": (), "B": (), "F": ()},  # slices
    "B": {"": ((AG, "Out"),), "B": (), "F": ((A2A, "Out"),)},
    "F": {"": ((AG, "Out"),), "B": ((A2A, "Out"),), "F": ()},
    "partial": {"": ((AR, "Out"),), "B": ((RS, "Out"),), "F": ((RS, "Out"),)},
}
# (on In, on W): what rules 1 to 4 move, and where that leaves the result. B and F: see rule 4.
TO_MULTIPLY: dict[tuple[str, str], tuple[Kinds, str]] = {
    ("", ""): ((), ""),
    ("", "D"): (((AG, "W"),), ""),
    ("", "F"): ((), "F"),
    ("B", ""): ((), "B"),
    ("B", "D"): (((AG, "W"),), "B"),
    ("D", ""): (((AG, "In"),), ""),
    ("D", "D"): ((), "partial"),
    ("D", "F"): (((AG, "In"),), "F"),
}


def passes(block: Block, keep: str = "activations") -> tuple[PassCost, PassCost]:
    """The forward and the backward pass of a block."""
    whole = program(block, keep)
    return whole.forward, whole.backward


def by_rule(on_in: str, on_w: str, on_out: str) -> Kinds:
    """The forward moves for one axis, read off the two tables."""
    if (on_in, on_w) == ("B", "F"):
        lost, place = ("In", "F") if on_out == "F" else ("W", "B")
        return ((AG, lost), *TO_OUT[place][on_out])
    fetched, place = TO_MULTIPLY[on_in, on_w]
    return (*fetched, *TO_OUT[place][on_out])
