"""The unsharded layer in plain NumPy: what a sharded one has to reproduce, forward and backward.

Small integers held in float64 keep every product and sum exact, so results are compared with `==`.
"""

from __future__ import annotations

import numpy as np
from derive.cost.sharding import Product, Sharding, Tensor

Values = dict[str, np.ndarray]


def dims_of(layer: Sharding) -> tuple[str, ...]:
    """Every dimension of the layer, each once, in the order it is written."""
    tensors = (layer.operand, *(t for p in layer.products for t in (*p.weights, p.result)))
    return tuple(dict.fromkeys(dim for tensor in tensors for dim in tensor.dims))


def branch_name(product: Product, weight: Tensor) -> str:
    """What a product of `weight` is called: the result, or where gated one of its two factors."""
    if len(product.weights) == 1:
        return product.result.name
    return f"{product.result.name}_{weight.name.removeprefix('W_')}"


def einsum(left: np.ndarray, a: str, right: np.ndarray, b: str, out: str) -> np.ndarray:
    """The product of two arrays whose dimensions are single letters."""
    return np.asarray(np.einsum(f"{a},{b}->{out}", left, right))


def inputs(layer: Sharding, sizes: dict[str, int], seed: int = 0) -> Values:
    """Random small integers for the input, every weight and the gradient of the result."""
    random = np.random.default_rng(seed)
    made: Values = {}
    for name, tensor in (
        (layer.operand.name, layer.operand),
        *((w.name, w) for w in layer.weights),
        ("d" + layer.result.name, layer.result),
    ):
        shape = [sizes[dim] for dim in tensor.dims]
        made[name] = random.integers(-2, 3, shape).astype(float)
    return made


def forward(layer: Sharding, given: Values) -> Values:
    """Every tensor of the forward pass by name."""
    values = dict(given)
    current = layer.operand
    for product in layer.products:
        out = "".join(product.result.dims)
        result: np.ndarray | float = 1.0
        for weight in product.weights:
            name = branch_name(product, weight)
            values[name] = einsum(
                values[current.name], "".join(current.dims),
                values[weight.name], "".join(weight.dims), out,
            )  # fmt: skip
            result = result * values[name]
        values[product.result.name] = np.asarray(result)
        current = product.result
    return values


def backward(layer: Sharding, values: Values) -> Values:
    """`values` of the forward pass and every gradient, each named with a leading d."""
    values = dict(values)
    operands = (layer.operand, *(p.result for p in layer.products[:-1]))
    for operand, product in reversed(list(zip(operands, layer.products, strict=True))):
        a, out = "".join(operand.dims), "".join(product.result.dims)
        total: np.ndarray | float = 0.0
        for weight in product.weights:
            name = branch_name(product, weight)
            grad = values["d" + product.result.name]
            for other in product.weights:
                if other.name != weight.name:
                    grad = grad * values[branch_name(product, other)]
            values["d" + name] = grad
            w = "".join(weight.dims)
            values["d" + weight.name] = einsum(values[operand.name], a, grad, out, w)
            total = total + einsum(grad, out, values[weight.name], w, a)
        values["d" + operand.name] = np.asarray(total)
    return values


def truth(layer: Sharding, sizes: dict[str, int], seed: int = 0) -> Values:
    """Every tensor and gradient of the unsharded layer by name."""
    return backward(layer, forward(layer, inputs(layer, sizes, seed)))
