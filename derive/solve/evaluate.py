"""Expressions on NumPy arrays: every point of a product grid, in blocks that stay in cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import sympy as sp

from derive.notation import symbols as v
from derive.notation.digits import fraction
from derive.notation.errors import DeriveError, quoted
from derive.notation.quantity import Quantity
from derive.solve.compiled import as_float, compiled, floats
from derive.solve.values import value_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

BLOCK = 1 << 15  # elements; a few float64 temporaries of this size fit a 2 MB cache


def evaluate(
    expr: sp.Expr,
    grid: Mapping[sp.Symbol, ArrayLike],
    given: Mapping[sp.Symbol, object] | None = None,
) -> NDArray[np.float64]:
    """`expr` at every point of the product grid of one-dimensional arrays.

    Returns float64 of shape (len(first), len(second), ...) in the order of `grid`. `given` binds
    the remaining symbols to numbers or quantities. Raises DeriveError for what is no expression,
    where a symbol is left without a value, or an axis is not one-dimensional, finite and positive.
    """
    import numpy as np

    if not isinstance(expr, sp.Expr):
        raise DeriveError(f"expected an expression such as alpha*X, found {quoted(expr)}")
    axes = {}
    for symbol, given_values in grid.items():
        v.meaning(symbol)
        try:
            values = np.asarray(given_values, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.empty((0, 0))
        if values.ndim != 1 or not (np.isfinite(values) & (values > 0)).all():
            raise DeriveError(f"{symbol}: expected a one-dimensional array of positive numbers")
        axes[symbol] = values
    constants = {s: np.float64(as_float(_number(s, x))) for s, x in (given or {}).items()}
    function = compiled((expr,), axes=tuple((s,) for s in axes))
    left = sorted({*function.arguments} - {*axes, *constants}, key=v.rank)
    if left:
        raise DeriveError(f"no value for {', '.join(s.name for s in left)}")
    shape = tuple(len(values) for values in axes.values())
    out = np.empty(shape)

    def fill(views: Sequence[Any]) -> Any:
        (points,) = function(floats(), {**constants, **dict(zip(axes, views, strict=True))})
        return points

    views = [
        values.reshape(tuple(-1 if i == k else 1 for i in range(len(shape))))
        for k, values in enumerate(axes.values())
    ]
    if out.size:
        _fill(out, views, fill, 0)
    return out


def _fill(out: Any, views: Sequence[Any], function: Callable[..., Any], axis: int) -> None:
    """Cut along the first axis into blocks; where one row is too long, cut the next axis within."""
    if out.size <= BLOCK:
        out[...] = function(views)
        return
    rows = out.shape[axis]
    step = max(1, BLOCK * rows // out.size)
    for start in range(0, rows, step):
        index = (slice(None),) * axis + (slice(start, start + step),)
        part = [view[index] if view.shape[axis] > 1 else view for view in views]
        _fill(out[index], part, function, axis + 1)


def _number(symbol: sp.Symbol, value: object) -> Fraction:
    return fraction(value.value if isinstance(value, Quantity) else value_of(symbol, value).value)
