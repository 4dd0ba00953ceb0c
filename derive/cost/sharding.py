"""The one-line notation of a sharded layer, read into values and written back.

    In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]

A tensor is a name and its dimensions; the letters after an underscore are the mesh axes that split
the dimension, the first one outermost. `->` after a product declares the hidden tensor it makes.
`W_gate[D, F] * W_in[D, F]` are two products whose results are multiplied element by element, which
is how a gated layer with three matrices is written. Where both operands of a product begin with the
same dimensions, those are batch dimensions: they are kept, not summed over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from derive.notation.errors import ShardingError, nearest, quoted
from derive.notation.symbols import vocabulary

LONGEST = 600
AXES = ("X", "Y", "Z")
Layout = tuple[tuple[str, ...], ...]

_TOKEN = re.compile(r"\s*(?:(->)|([A-Za-z_][A-Za-z_0-9]*)|([\[\].,*]))")


@dataclass(frozen=True)
class Tensor:
    """A tensor's name, its dimensions, and for each dimension the mesh axes that split it."""

    name: str
    dims: tuple[str, ...]
    layout: Layout

    def __str__(self) -> str:
        split = ["_".join(filter(None, (d, "".join(a)))) for d, a in self._pairs()]
        return f"{self.name}[{', '.join(split)}]"

    def _pairs(self) -> list[tuple[str, tuple[str, ...]]]:
        return list(zip(self.dims, self.layout, strict=True))

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(axis for axes in self.layout for axis in axes)

    def axes_of(self, dim: str) -> tuple[str, ...]:
        """The mesh axes that split `dim`, outermost first; empty where it is whole or absent."""
        return self.layout[self.dims.index(dim)] if dim in self.dims else ()


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

    def __str__(self) -> str:
        text = str(self.operand)
        for product in self.products:
            text += " . " + " * ".join(map(str, product.weights))
            text += f" -> {product.result}"
        return text


def sharding(text: str) -> Sharding:
    """Read the notation. Raises ShardingError naming what is wrong and what was expected."""
    if len(text) > LONGEST:
        raise ShardingError(f"a sharding has at most {LONGEST} characters, found {len(text)}")
    reader = _Reader(text)
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


def check_layout(tensor: Tensor) -> None:
    """Raise ShardingError where a mesh axis splits two dimensions of `tensor`, or one twice."""
    for axis in tensor.axes:
        if tensor.axes.count(axis) > 1:
            split = [d for d in tensor.dims if axis in tensor.axes_of(d)]
            where = " and ".join(split) if len(split) > 1 else f"{split[0]} twice"
            raise ShardingError(f"{tensor}: mesh axis {axis} splits {where}; it can split one once")


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


class _Reader:
    """A cursor over the tokens of one sharding."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        place = 0
        stripped = text.rstrip()
        while place < len(stripped):
            match = _TOKEN.match(stripped, place)
            if match is None:
                rest = stripped[place:].lstrip()
                raise ShardingError(f"a sharding cannot hold {quoted(rest[:1])}, at {quoted(rest)}")
            self.tokens.append(match.group().strip())
            place = match.end()
        self.place = 0

    def peek(self) -> str | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def found(self) -> str:
        token = self.peek()
        return "the end" if token is None else quoted(token)

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            raise ShardingError(f"expected {expected!r} in a sharding, found {self.found()}")
        self.place += 1

    def word(self, expected: str) -> str:
        token = self.peek()
        if token is None or not (token[0].isalpha() or token[0] == "_"):
            raise ShardingError(f"expected {expected} in a sharding, found {self.found()}")
        self.place += 1
        return token

    def tensor(self) -> Tensor:
        name = self.word("a tensor such as In[B_X, D]")
        if len(name) > 24:
            raise ShardingError(f"a tensor's name has at most 24 letters, found {quoted(name)}")
        self.take("[")
        dims: list[str] = []
        layout: list[tuple[str, ...]] = []
        while True:
            dim, axes = _dimension(self.word("a dimension such as B_X"), name)
            if dim in dims:
                raise ShardingError(f"{name}: dimension {dim} is written twice")
            dims.append(dim)
            layout.append(axes)
            if self.peek() != ",":
                break
            self.take(",")
        self.take("]")
        made = Tensor(name, tuple(dims), tuple(layout))
        check_layout(made)
        return made


def _dimension(word: str, tensor: str) -> tuple[str, tuple[str, ...]]:
    dim, _, axes = word.partition("_")
    known = [n for n, m in vocabulary().items() if m.role == "dimension"]
    if dim not in known:
        close = nearest(dim, known)
        hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known)}"
        raise ShardingError(f"{tensor}: unknown dimension {quoted(dim)}; {hint}")
    if word.endswith("_"):
        raise ShardingError(f"{tensor}: expected mesh axes after {quoted(word)}")
    for axis in axes:
        if axis not in AXES:
            raise ShardingError(
                f"{tensor}: unknown mesh axis {quoted(axis)} in {quoted(word)}; "
                f"known: {', '.join(AXES)}"
            )
    return dim, tuple(axes)
