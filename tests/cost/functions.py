"""The functions of a block and their gradients in plain NumPy, on the last dimensions of an array.

A gradient takes the place of the operand that it is in, the gradient of the result and what
`block.FUNCTIONS` says that it needs: operands by place, then the result.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from derive.cost.block import Tensor
from derive.cost.program import Applied

SMALL = 1e-6  # under the root of a norm
ALONG = ("norm", "layer_norm", "softmax")
EXACT = ("+", "*", "relu", "view", "route", "combine")

_SLOPE = np.sqrt(2 / np.pi)


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def _silu_slope(x: np.ndarray) -> np.ndarray:
    s = 1 / (1 + np.exp(-x))
    return s + x * s * (1 - s)


def _gelu(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh(_SLOPE * (x + 0.044715 * x**3)))


def _gelu_slope(x: np.ndarray) -> np.ndarray:
    t = np.tanh(_SLOPE * (x + 0.044715 * x**3))
    return (1 + t) / 2 + x / 2 * (1 - t * t) * _SLOPE * (1 + 3 * 0.044715 * x * x)


def _root(x: np.ndarray) -> np.ndarray:
    return np.sqrt((x * x).mean(axis=-1, keepdims=True) + SMALL)


def _norm_gradient(wrt: int, g: np.ndarray, x: np.ndarray) -> np.ndarray:
    root = _root(x)
    return g / root - x * (g * x).mean(axis=-1, keepdims=True) / root**3


def _centred(x: np.ndarray) -> np.ndarray:
    return np.asarray(x - x.mean(axis=-1, keepdims=True))


def _layer_norm_gradient(wrt: int, g: np.ndarray, x: np.ndarray) -> np.ndarray:
    return _centred(_norm_gradient(wrt, g, _centred(x)))


def log_sum_exp(x: np.ndarray) -> np.ndarray:
    """The logarithm of the sum of exponentials of each row."""
    most = x.max(axis=-1)
    return np.asarray(most + np.log(np.exp(x - most[..., None]).sum(axis=-1)))


FORWARD: dict[str, Callable[..., np.ndarray]] = {
    "+": lambda *parts: np.sum(parts, axis=0),
    "*": lambda *factors: np.prod(factors, axis=0),
    "relu": lambda x: np.maximum(x, 0),
    "gelu": _gelu,
    "silu": _silu,
    "silu*": lambda x, y: _silu(x) * y,
    "gelu*": lambda x, y: _gelu(x) * y,
    "norm": lambda x: x / _root(x),
    "layer_norm": lambda x: _centred(x) / _root(_centred(x)),
    "softmax": lambda x: np.exp(x - log_sum_exp(x)[..., None]),
    "view": lambda x: x,
}

GRADIENTS: dict[str, Callable[..., np.ndarray]] = {
    "+": lambda wrt, g: g,
    "*": lambda wrt, g, *factors: np.prod([g, *factors[:wrt], *factors[wrt + 1 :]], axis=0),
    "relu": lambda wrt, g, result: g * (result > 0),
    "gelu": lambda wrt, g, x: g * _gelu_slope(x),
    "silu": lambda wrt, g, x: g * _silu_slope(x),
    "silu*": lambda wrt, g, x, y: g * (_silu(x) if wrt else y * _silu_slope(x)),
    "gelu*": lambda wrt, g, x, y: g * (_gelu(x) if wrt else y * _gelu_slope(x)),
    "norm": _norm_gradient,
    "layer_norm": _layer_norm_gradient,
    "softmax": lambda wrt, g, s: s * (g - (g * s).sum(axis=-1, keepdims=True)),
    "view": lambda wrt, g: g,
}

KEPT: dict[str, dict[str, Callable[..., np.ndarray]]] = {
    "softmax": {"log-sum-exp of {result}": log_sum_exp},
    "silu*": {"silu({0})": lambda x, y: _silu(x)},
    "gelu*": {"gelu({0})": lambda x, y: _gelu(x)},
    "norm": {
        "rstd of {result}": lambda x: 1 / _root(x)[..., 0],
        "{0}+fp32": lambda x: x,
        "norm({0})+fp32": lambda x: x / _root(x),
    },
    "layer_norm": {
        "mean of {result}": lambda x: x.mean(axis=-1),
        "rstd of {result}": lambda x: 1 / _root(_centred(x))[..., 0],
    },
}
"""What a kernel keeps besides its operands and its result as they are, by its name."""


def places_and_rows(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """What experts take, [E, J, ...], and the rows that it is of, of the two sides of a route."""
    return (one, other) if one.dims[:2] == ("E", "J") else (other, one)


def routed(op: Applied, array: np.ndarray, lead: int, shape: tuple[int, ...]) -> np.ndarray:
    """Rows handed to places of experts, or brought back, after `lead` dimensions of the mesh. Of
    rows that have a column for each expert a place takes that of its own."""
    spreads = (op.function == "route") == (op.wrt is None)
    mesh, local = array.shape[:lead], array.shape[lead:]
    places, rows = (shape, local) if spreads else (local, shape)
    if len(places) > 2:
        count = (prod(rows[: len(rows) - len(places) + 2]), *places[2:])
        if spreads:
            return hand_out(array.reshape(*mesh, *count), mesh, count, places)
        return bring_back(array, mesh, local, count).reshape(*mesh, *rows)
    wide, own = (*places, rows[-1]), np.arange(places[0])
    count = (prod(rows[:-1]), rows[-1])
    if spreads:
        taken = hand_out(array.reshape(*mesh, *count), mesh, count, wide)
        return np.moveaxis(taken[..., own, :, own], 0, -2)
    spread = np.zeros((*mesh, *wide))
    spread[..., own, :, own] = np.moveaxis(array, -2, 0)
    return bring_back(spread, mesh, wide, count).reshape(*mesh, *rows)


def hand_out(
    rows: np.ndarray, mesh: tuple[int, ...], local: tuple[int, ...], shape: tuple[int, ...]
) -> np.ndarray:
    """Rows [B, ...] at the places [E, J, ...]: place j of expert e, the (j E + e)-th, takes row
    (j E + e) // k, so that each row goes to k = E J / B of the experts and places."""
    experts, places, *rest = shape
    copies = experts * places // local[0]
    axis = len(mesh)
    taken = np.repeat(rows, copies, axis=axis).reshape(*mesh, places, experts, *rest)
    return taken.swapaxes(axis, axis + 1)


def bring_back(
    placed: np.ndarray, mesh: tuple[int, ...], local: tuple[int, ...], shape: tuple[int, ...]
) -> np.ndarray:
    """Places [E, J, ...] added up for the rows [B, ...] that they took."""
    rows, *rest = shape
    axis = len(mesh)
    in_order = placed.swapaxes(axis, axis + 1)
    copies = prod(local[:2]) // rows
    return np.asarray(in_order.reshape(*mesh, rows, copies, *rest).sum(axis=axis + 1))
