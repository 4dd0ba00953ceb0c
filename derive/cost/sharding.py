"""The one-line notation of a sharded layer, read into values and written back.

    In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]

A tensor is a name and its dimensions; the letters after an underscore are the mesh axes that split
the dimension, the first one outermost. `->` after a product declares the hidden tensor it makes.
`W_gate[D, F] * W_in[D, F]` are two products whose results are multiplied element by element, which
is how a gated layer with three matrices is written. Where both operands of a product begin with the
same dimensions, those are batch dimensions: they are kept, not summed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from derive.cost.reader import Reader
from derive.cost.tensor import AXES as AXES
from derive.cost.tensor import Layout as Layout
from derive.cost.tensor import Tensor as Tensor
from derive.cost.tensor import check_layout as check_layout
from derive.notation.errors import ShardingError, quoted

LONGEST = 600
Stage = tuple[tuple[Tensor, ...], Tensor | None]


@dataclass(frozen=True)
class Product:
    """One matmul of the chain: the weights it multiplies by (two where gated) and its result."""

    weights: tuple[Tensor, ...]
    result: Tensor


@dataclass(frozen=True)
class Sharding:
    """A layer as a chain of products of its input with weights, each tensor with its sharding."""

    operand: Tensor
    products: tuple[Product, ...]

    @property
    def result(self) -> Tensor:
        return self.products[-1].result

    @property
    def weights(self) -> tuple[Tensor, ...]:
        return tuple(w for product in self.products for w in product.weights)

    @property
    def mesh(self) -> tuple[str, ...]:
        """The mesh axes that split any tensor, in alphabetical order."""
        tensors = (self.operand, *self.weights, *(p.result for p in self.products))
        return tuple(sorted({axis for t in tensors for axis in t.axes}))

    @property
    def latex(self) -> str:
        """The layer as TeX; a hidden tensor is shown where it is not what would be inferred."""
        made, current = self.operand.latex, self.operand
        for product in self.products:
            made += r" \cdot " + r" \ast ".join(w.latex for w in product.weights)
            inferred = _result(current, product.weights, product.result.name)
            current = product.result
            if current == self.result or current != inferred:
                made += rf" \to {current.latex}"
        return made

    def __str__(self) -> str:
        text = str(self.operand)
        for product in self.products:
            text += " . " + " * ".join(map(str, product.weights))
            text += f" -> {product.result}"
        return text


def sharding(text: str) -> Sharding:
    """Read the notation. Raises ShardingError naming what is wrong and what was expected."""
    if not isinstance(text, str):
        raise ShardingError(f"expected a sharding such as In[B_X, D] . ..., found {quoted(text)}")
    if len(text) > LONGEST:
        raise ShardingError(f"a sharding has at most {LONGEST} characters, found {len(text)}")
    reader = Reader(text)
    operand = reader.tensor()
    stages: list[Stage] = []
    while reader.peek() == ".":
        reader.take(".")
        weights = [reader.tensor()]
        while reader.peek() == "*":
            reader.take("*")
            weights.append(reader.tensor())
        declared = None
        if reader.peek() == "->":
            reader.take("->")
            declared = reader.tensor()
        stages.append((tuple(weights), declared))
    if not stages:
        raise ShardingError(f"expected '.' and a weight after {operand}, found {reader.found()}")
    if reader.peek() is not None:
        raise ShardingError(f"expected '.', '->' or the end, found {reader.found()}")
    if stages[-1][1] is None:
        raise ShardingError("expected '-> Out[...]' at the end: the result must be declared")
    return _chained(operand, stages)


def gated(plain: Sharding) -> Sharding:
    """The same layer with a gate: a second matrix in the first product, sharded like the first."""
    first, *rest = plain.products
    if len(first.weights) > 1:
        raise ShardingError(f"{plain} is gated already")
    if not rest:
        raise ShardingError(f"a gated layer needs two products, found one in {plain}")
    gate = replace(first.weights[0], name="W_gate")
    stages = [((gate, *first.weights), first.result), *((p.weights, p.result) for p in rest)]
    return _chained(plain.operand, stages)


def contraction(left: Tensor, right: Tensor) -> tuple[str, ...]:
    """The dimensions summed over in `left . right`: those shared, less the common leading ones."""
    batch = _leading(left, right)
    return tuple(d for d in left.dims if d in right.dims and d not in batch)


def _leading(left: Tensor, right: Tensor) -> tuple[str, ...]:
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(left.dims, right.dims, strict=False))
    return tuple(dim for dim, _ in pairs)


def _chained(operand: Tensor, stages: Sequence[Stage]) -> Sharding:
    products: list[Product] = []
    seen = {operand.name}
    current = operand
    hidden = len(stages) - 1
    for index, (weights, declared) in enumerate(stages):
        for weight in weights:
            _unused(weight, seen)
        inferred = _result(current, weights, "Tmp" if hidden < 2 else f"Tmp{index + 1}")
        result = declared or inferred
        _unused(result, seen)
        if set(result.dims) != set(inferred.dims):
            names = " . ".join(str(t) for t in (current, weights[0]))
            raise ShardingError(
                f"{result}: {names} gives dimensions {', '.join(inferred.dims)}, "
                f"found {', '.join(result.dims)}"
            )
        products.append(Product(weights, result))
        current = result
    _check_names(operand, products)
    return Sharding(operand, tuple(products))


def branch_name(product: Product, weight: Tensor) -> str:
    """What the product with `weight` is called: the result, or where gated a factor of it."""
    suffix = weight.name.removeprefix("W_")
    return f"{product.result.name}_{suffix}" if len(product.weights) > 1 else product.result.name


def _check_names(operand: Tensor, products: list[Product]) -> None:
    """Raise ShardingError where a tensor is called like the gradient or the factor of another."""
    factors = [branch_name(p, w) for p in products for w in p.weights if len(p.weights) > 1]
    tensors = [t for p in products for t in (*p.weights, p.result)]
    names = [operand.name, *factors, *(tensor.name for tensor in tensors)]
    for name in names:
        if names.count(name) > 1:
            raise ShardingError(f"{name} would name two tensors: one is a factor of a gated result")
        if f"d{name}" in names:
            raise ShardingError(f"d{name} would name two tensors: one is the gradient of {name}")


def _unused(tensor: Tensor, seen: set[str]) -> None:
    if tensor.name in seen:
        raise ShardingError(f"tensor {tensor.name} is written twice; give each its own name")
    seen.add(tensor.name)


def _result(left: Tensor, weights: tuple[Tensor, ...], name: str) -> Tensor:
    """The result of a product, sharded as its own dimensions are, batch first, each axis once."""
    right = weights[0]
    for other in weights[1:]:
        if (other.dims, other.layout) != (right.dims, right.layout):
            raise ShardingError(
                f"{right} * {other}: the matrices of a gated layer must be sharded alike"
            )
    summed = contraction(left, right)
    if not summed:
        raise ShardingError(
            f"{left} . {right}: nothing to sum over; they share "
            + ("only leading (batch) dimensions" if _leading(left, right) else "no dimension")
        )
    dims = [d for d in left.dims if d not in summed]
    dims += [d for d in right.dims if d not in summed and d not in dims]
    used: set[str] = set()
    layout = []
    for dim in dims:
        both = dict.fromkeys((*left.axes_of(dim), *right.axes_of(dim)))
        axes = tuple(axis for axis in both if axis not in used)
        used.update(axes)
        layout.append(axes)
    return Tensor(name, tuple(dims), tuple(layout))
