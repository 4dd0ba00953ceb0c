"""What a layer's kernels take on a chip, counted product by product and tensor by tensor."""

from __future__ import annotations

import random
from fractions import Fraction as Q

import pytest
import sympy as sp

from derive.cost import kernels, stage
from derive.cost.block import FUSED
from derive.notation import symbols as v

NAMES = ("T_r", "b_seq", "tp", "cp", "D", "F", "K", "G", "H", "V", "s_0", "e")


def sizes(seed: int) -> dict[str, int]:
    """Sizes of which none is another's multiple by chance, with two or three matrices."""
    draw = random.Random(seed)
    n = {name: draw.randint(2, 97) for name in NAMES}
    return n | {"n_F": draw.choice((2, 3)), "fma": 2}


def at(expr: sp.Expr, n: dict[str, int]) -> Q:
    value = sp.Rational(expr.xreplace({v.find(name): sp.Integer(x) for name, x in n.items()}))
    return Q(int(value.p), int(value.q))


def padded(n: dict[str, int], made: Q, summed: Q) -> Q:
    """A product of so many elements, each a sum of so many products."""
    return 2 * (made + n["s_0"]) * summed


@pytest.mark.parametrize("seed", range(12))
def test_products_with_parameters_at_their_padded_shapes(seed: int) -> None:
    n = sizes(seed)
    tokens, width, wide = Q(n["T_r"] * n["b_seq"]), Q(n["D"]), Q(n["F"], n["tp"])
    heads, keys = Q(n["K"] * n["G"] * n["H"], n["tp"]), Q(n["K"] * n["H"], n["tp"])
    up = (n["n_F"] - 1) * wide
    forward = [
        (tokens * (heads + 2 * keys), width),  # queries, keys and values at once
        (tokens * width, heads),
        (tokens * up, width),  # the gate too, at once
        (tokens * width, wide),
    ]
    inputs = [(tokens * wide, width), (tokens * heads, width), (tokens * width, heads)]
    inputs += [(tokens * width, keys)] * 2 + [(tokens * width, wide)] * (n["n_F"] - 1)
    weights = [(made / tokens * summed, tokens) for made, summed in forward]
    read = {"forward": forward, "backward": inputs + weights}
    for which, products in read.items():
        flops = stage.on_layer(kernels.padded_flops, which, FUSED, True, "dense")
        assert at(flops, n) == sum(padded(n, *one) for one in products)
        # Without a result that is too small, the FLOP of the parameters, twice in the way back.
        plain = {"forward": 2, "backward": 4}[which]
        each = width * (2 * heads + 2 * keys + n["n_F"] * wide)
        assert at(flops, n | {"s_0": 0}) == plain * tokens * each
    late = stage.on_layer(kernels.gradient_flops, "backward", FUSED, True, "dense")
    assert at(late, n) == sum(padded(n, *one) for one in weights)
    assert stage.on_layer(kernels.gradient_flops, "forward", FUSED, True, "dense") == 0
    vocabulary = Q(n["V"], n["tp"])
    head = [(tokens * vocabulary, width), (tokens * width, vocabulary)]
    head.append((width * vocabulary, tokens))
    assert at(stage.on_head(kernels.padded_flops), n) == sum(padded(n, *one) for one in head)


@pytest.mark.parametrize("seed", range(6))
def test_attention_in_a_kernel_and_one_by_one(seed: int) -> None:
    """Two products one way, five back with the scores again; a mask leaves half of them out."""
    n = sizes(seed)
    group, keys = Q(n["b_seq"] * n["K"], n["tp"]), n["T_r"] * n["cp"]
    pairs = group * n["G"] * n["T_r"] * keys
    for which, count in (("forward", 2), ("backward", 5)):
        flops = stage.on_layer(kernels.fused_flops, which, FUSED, True, "dense")
        assert at(flops, n) == count * 2 * pairs * n["H"] / 2
    rows = group * n["G"] * n["T_r"] * n["H"]  # elements of the queries, or of what is made
    kept = group * keys * n["H"]  # of the keys, or of the values
    scores, made = (pairs, Q(n["H"])), (rows, Q(keys))
    back = (kept, Q(n["G"] * n["T_r"]))
    products = {"forward": [scores, made], "backward": [scores, scores, made, back, back]}
    for which, each in products.items():
        flops = stage.on_layer(kernels.unfused_flops, which, FUSED, True, "dense")
        assert at(flops, n) == sum(padded(n, *one) for one in each)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sequence", [True, False])
def test_bytes_of_each_operand_and_each_result(seed: int, sequence: bool) -> None:
    n = sizes(seed)
    tokens = n["T_r"] * n["b_seq"]
    whole = Q(tokens * n["D"], n["tp"] if sequence else 1)
    wide, gated = Q(tokens * n["F"], n["tp"]), n["n_F"] - 2
    scores = Q(tokens * n["K"] * n["G"] * n["T_r"] * n["cp"], n["tp"])
    norm, add, activation = 2 * whole, 3 * whole, (2 + gated) * wide
    forward = 2 * norm + 2 * add + activation
    # A norm back reads a gradient and its operand; sums join the ways round a norm.
    backward = 2 * 3 * whole + 2 * 3 * whole + (3 + 2 * gated) * wide
    softmax = {"forward": 2 * scores, "backward": 2 * scores + 3 * scores}
    for which, bytes_ in (("forward", forward), ("backward", backward)):
        fused = stage.on_layer(kernels.element_bytes, which, FUSED, sequence, "dense")
        assert at(fused, n) == n["e"] * bytes_
        unfused = stage.on_layer(kernels.unfused_bytes, which, FUSED, sequence, "dense")
        assert at(unfused, n) == n["e"] * (bytes_ + softmax[which])
