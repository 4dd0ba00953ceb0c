"""What the local operations of a pass take on a chip: its products by their shapes, the kernel of
attention, and what is read from memory and written to it element by element.

A product of m rows and n columns, k numbers each, is 2 m n k FLOP. It keeps the peak busy but for
one thing: the tiles of a small result do not fill the chip, which costs as much as s_0 elements
more. So it takes 2 (m n + s_0) k FLOP at the share eta of the peak; products of one left operand,
such as those that make queries, keys and values, are one. What a fused kernel does
between its products, the scores and the softmax over them, touches no memory; it has a share of the
peak of its own, and what it makes a second time in the backward pass takes its time.
"""

from __future__ import annotations

import sympy as sp

from derive.cost.block import Block, FunctionLine, Tensor, summed_dims
from derive.cost.program import Applied, Multiplied, Pair, PassCost, degree, elements
from derive.notation import symbols as v
from derive.notation.symbols import find


def padded_flops(cost: PassCost, block: Block) -> sp.Expr:
    """The FLOP of a pass's products with parameters, each at its padded shape."""
    return _padded(_products(cost, block, fused=False))


def gradient_flops(cost: PassCost, block: Block) -> sp.Expr:
    """Those of them that are of the gradients of parameters, which nothing waits for in a pass."""
    gradients = {f"d{name}" for name in block.parameters}
    products = _products(cost, block, fused=False)
    return _padded([(pair, step) for pair, step in products if step.result.name in gradients])


def fused_flops(cost: PassCost, block: Block) -> sp.Expr:
    """The FLOP of its products without parameters, those that are made again too."""
    return sp.Add(*(pair.flops for pair, _ in _products(cost, block, fused=True)))


def core_flops(cost: PassCost, block: Block) -> sp.Expr:
    """The same without what is made again: by convention, what a model requires."""
    products = _products(cost, block, fused=True)
    return sp.Add(*(pair.flops for pair, step in products if not step.again))


def unfused_flops(cost: PassCost, block: Block) -> sp.Expr:
    """The FLOP of the same products one by one, each at its padded shape: there a mask leaves
    nothing out."""
    return _padded(_products(cost, block, fused=True))


def element_bytes(cost: PassCost, block: Block) -> sp.Expr:
    """The bytes that functions read and write, but for those inside fused kernels: each operand and
    each result once, since functions of the same operands are one kernel. A sum with one operand
    hands a gradient on, which costs nothing."""
    fused = {line.function for line in block.lines if isinstance(line, FunctionLine) and line.fused}
    return _touched(cost, {"view", *fused})


def unfused_bytes(cost: PassCost, block: Block) -> sp.Expr:
    """The bytes that all functions read and write, those that a fused kernel would spare too."""
    return _touched(cost, {"view"})


def _touched(cost: PassCost, free: set[str]) -> sp.Expr:
    kernels: dict[tuple[Tensor, ...], list[Tensor]] = {}
    for step in cost.program:
        moved = isinstance(step, Applied) and step.function == "+" and len(step.operands) == 1
        if isinstance(step, Applied) and step.function not in free and not moved:
            kernels.setdefault(step.operands, []).append(step.result)
    touched = (tensor for read, made in kernels.items() for tensor in (*read, *made))
    return v.e * sp.Add(*(elements(tensor) for tensor in touched))


def _products(cost: PassCost, block: Block, *, fused: bool) -> list[tuple[Pair, Multiplied]]:
    """The products without a parameter or its gradient, which fused kernels make, or the others."""
    gradients = {f"d{name}" for name in block.parameters}
    chosen = []
    for step in cost.program:
        if isinstance(step, Multiplied):
            operands = {tensor.name for pair in step.pairs for tensor in (pair.left, pair.right)}
            plain = bool(operands & {*block.parameters}) or step.result.name in gradients
            chosen += [(pair, step) for pair in step.pairs if plain != fused]
    return chosen


def _padded(products: list[tuple[Pair, Multiplied]]) -> sp.Expr:
    """The FLOP of some products at their padded shapes, what a mask leaves out among them."""
    together: dict[tuple[Tensor, sp.Expr], sp.Expr] = {}
    for pair, step in products:
        sizes = {dim: find(dim) / degree(axes) for dim, axes in pair.roles}
        summed = summed_dims(pair.left, pair.right, step.result)
        each = v.fma * sp.Mul(*(sizes[dim] for dim in summed))
        made = sp.Mul(*(size for dim, size in sizes.items() if dim not in summed))
        together[pair.left, each] = together.get((pair.left, each), sp.S.Zero) + made
    return sp.Add(*(each * (made + v.s_0) for (_, each), made in together.items()))
