"""The rules of a sharded layer: for each product and each mesh axis, what has to be moved.

For `left . right -> result` and one mesh axis:

0. on neither operand: nothing;
1. on a dimension of one operand that the result keeps: the result keeps it;
2. on a summed dimension of one operand only: all-gather that operand;
3. on a summed dimension of both: partial sums, then a reduce-scatter where the result is declared
   split by that axis, else an all-reduce;
4. on a kept dimension of both: all-gather the operand whose dimension the result does not declare;
5. last, reshard the result to its declaration (`reshard`).

The rules are canonical, not always the cheapest: under rule 2 slicing the other operand, where it
is replicated, can move less. Where an axis that has to leave a dimension bars a scatter onto it,
the sums are all-reduced and resharded. The backward pass is the two transposed products of each
matmul under the same rules; a gradient is sharded like its tensor. Element-wise work is ignored.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import takewhile

import sympy as sp

from derive.cost.program import Combined, Moved, Multiplied, Operation, PassCost, Sliced, pass_of
from derive.cost.reshard import laid_out, moved, reshard
from derive.cost.sharding import Product, Sharding, Tensor, branch_name
from derive.notation.symbols import e, e_g

KEEP = ("activations", "none", "weights", "all")


@lru_cache(maxsize=512)
def passes(layer: Sharding, keep: str = "activations") -> tuple[PassCost, PassCost]:
    """The forward and the backward pass of a layer.

    `keep` says which gathered tensors the forward pass leaves for the backward one: activations,
    weights, all or none; what is not kept is gathered again. Within a pass a gathered tensor is
    reused.
    """
    forward = _Pass(layer, backward=False)
    forward.run_forward()
    backward = _Pass(layer, backward=True)
    for tensor in (layer.operand, *(t for p in layer.products for t in _made(p))):
        kept = keep in ("activations", "all")
        backward.held[tensor.name] = forward.held[tensor.name] if kept else [tensor]
    for weight in layer.weights:
        kept = keep in ("weights", "all")
        backward.held[weight.name] = forward.held[weight.name] if kept else [weight]
    backward.run_backward()
    return pass_of("forward", tuple(forward.program)), pass_of("backward", tuple(backward.program))


def _made(product: Product) -> tuple[Tensor, ...]:
    """What a product makes: its result, and where gated the results of its branches before it."""
    if len(product.weights) == 1:
        return (product.result,)
    return (*(_branch(product, weight) for weight in product.weights), product.result)


def _branch(product: Product, weight: Tensor) -> Tensor:
    return replace(product.result, name=branch_name(product, weight))


def gradient(tensor: Tensor) -> Tensor:
    """The gradient of a tensor, sharded like it."""
    return replace(tensor, name=f"d{tensor.name}")


class _Pass:
    """The program of one pass as it grows, and the layouts in which each tensor is held so far."""

    def __init__(self, layer: Sharding, backward: bool) -> None:
        self.layer = layer
        self.program: list[Operation] = []
        self.held: dict[str, list[Tensor]] = {t.name: [t] for t in (layer.operand, *layer.weights)}
        # The pass waits for what its own chain of activations (or their gradients) needs; weights
        # can be gathered ahead, and their gradients reduced behind.
        chain = [layer.operand, *(t for p in layer.products for t in _made(p))]
        self.chain = {gradient(t).name if backward else t.name for t in chain}
        self.weight_gradients = {gradient(w).name for w in layer.weights}

    def run_forward(self) -> None:
        current = self.layer.operand
        for product in self.layer.products:
            branches = [
                product.result if len(product.weights) == 1 else _branch(product, weight)
                for weight in product.weights
            ]
            for weight, branch in zip(product.weights, branches, strict=True):
                self.multiply([(current, weight)], branch)
            if len(branches) > 1:
                self.combine(tuple(branches), product.result)
            current = product.result

    def run_backward(self) -> None:
        inputs = [self.layer.operand, *(p.result for p in self.layer.products[:-1])]
        last = gradient(self.layer.result)
        self.held[last.name] = [last]
        for operand, product in reversed(list(zip(inputs, self.layer.products, strict=True))):
            branches = [gradient(product.result)]
            if len(product.weights) > 1:
                others = [_branch(product, weight) for weight in product.weights]
                branches = [gradient(branch) for branch in others]
                for index, branch in enumerate(branches):
                    rest = tuple(t for i, t in enumerate(others) if i != index)
                    self.combine((gradient(product.result), *rest), branch)
            pairs = list(zip(branches, product.weights, strict=True))
            self.multiply(pairs, gradient(operand))
            for branch, weight in pairs:
                self.multiply([(operand, branch)], gradient(weight))

    def combine(self, operands: tuple[Tensor, ...], result: Tensor) -> None:
        self.program.append(Combined(operands, result))
        self.held[result.name] = [result]

    def multiply(self, pairs: list[tuple[Tensor, Tensor]], result: Tensor) -> None:
        """Fetch the operands as the rules want them, multiply, reduce and reshard the result."""
        left, right = pairs[0]
        split = _roles(left, right, result)
        ready = tuple(
            (self.fetch(laid_out(a, split)), self.fetch(laid_out(b, split))) for a, b in pairs
        )
        local = laid_out(result, split)
        summed = [d for d in left.dims if d in right.dims and d not in result.dims]
        partial = tuple(axis for d in summed for axis in split.get(d, ()))
        dims = dict.fromkeys((*left.dims, *right.dims))
        roles = tuple((d, split.get(d, ())) for d in dims)
        self.program.append(Multiplied(ready, local, partial, roles))
        self.finish(local, partial, result)

    def fetch(self, wanted: Tensor) -> Tensor:
        """Bring a tensor to a layout from the held one that needs least, and hold what comes."""
        routes = [
            reshard(held, wanted.layout, self.element(wanted), self.critical(wanted))
            for held in self.held[wanted.name]
        ]
        self.take(min(routes, key=_moved_axes), wanted.name)
        return wanted

    def finish(self, local: Tensor, partial: tuple[str, ...], result: Tensor) -> None:
        """Rules 3 and 5: reduce the partial sums, scattering where declared, then reshard."""
        element, critical = self.element(result), self.critical(result)
        declared = dict(zip(result.dims, result.layout, strict=True))
        current = local
        for dim, axes in declared.items():
            have = current.axes_of(dim)
            if have != axes[: len(have)]:
                continue
            free, group = _scattered(axes[len(have) :], partial, current.axes)
            if free:
                # Outer axes that no operand has: dropping those parts of a partial sum is free.
                sliced = laid_out(current, _split(current) | {dim: have + free})
                self.program.append(Sliced(current, sliced))
                current, have = sliced, have + free
            if group:
                after = laid_out(current, _split(current) | {dim: have + group})
                self.program.append(
                    moved("reduce_scatter", current, after, group, element, critical)
                )
                current = after
                partial = tuple(axis for axis in partial if axis not in group)
        if partial:
            self.program.append(moved("all_reduce", current, current, partial, element, critical))
        self.program.extend(reshard(current, result.layout, element, critical))
        self.held[result.name] = [result]

    def take(self, route: list[Operation], name: str) -> None:
        self.program.extend(route)
        for operation in route:
            if isinstance(operation, Moved):
                self.held[name].append(operation.after)

    def element(self, tensor: Tensor) -> sp.Symbol:
        return e_g if tensor.name in self.weight_gradients else e

    def critical(self, tensor: Tensor) -> bool:
        return tensor.name in self.chain


def _split(tensor: Tensor) -> dict[str, tuple[str, ...]]:
    return dict(zip(tensor.dims, tensor.layout, strict=True))


def _scattered(
    wanted: tuple[str, ...], partial: tuple[str, ...], used: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The leading axes of `wanted` that can be sliced, and the partial ones right inside them."""
    free = tuple(takewhile(lambda axis: axis not in partial and axis not in used, wanted))
    group = tuple(takewhile(lambda axis: axis in partial, wanted[len(free) :]))
    return (free, group) if group else ((), ())


def _moved_axes(route: list[Operation]) -> int:
    return sum(len(op.move.axes) for op in route if isinstance(op, Moved))


def _roles(left: Tensor, right: Tensor, result: Tensor) -> dict[str, tuple[str, ...]]:
    """Which mesh axes split each dimension of the local product, by rules 0 to 4."""
    split: dict[str, tuple[str, ...]] = {}
    for dim in dict.fromkeys((*left.dims, *right.dims)):
        # In the order in which the operands have them, so that an axis that stays is not moved.
        own = dict.fromkeys((*left.axes_of(dim), *right.axes_of(dim)))
        split[dim] = tuple(
            axis
            for axis in own
            if _role(axis, _dim_of(left, axis), _dim_of(right, axis), left, right, result) == dim
        )
    return split


def _dim_of(tensor: Tensor, axis: str) -> str | None:
    return next((d for d in tensor.dims if axis in tensor.axes_of(d)), None)


def _role(
    axis: str, p: str | None, q: str | None, left: Tensor, right: Tensor, result: Tensor
) -> str | None:
    def summed(dim: str) -> bool:
        return dim in left.dims and dim in right.dims and dim not in result.dims

    if p == q:
        return p
    if p is None or q is None:
        only = p or q
        return None if only is None or summed(only) else only
    if summed(p):
        return None if summed(q) else q
    if summed(q):
        return p
    return q if axis in result.axes_of(q) and axis not in result.axes_of(p) else p
