"""The expressions on NumPy arrays: constants bound before compiling, float64, blocks in cache.

The cost of a grid is memory traffic. Binding the constants first leaves fewer operations, and a
product grid is cut into blocks small enough that intermediate arrays stay in cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.printing.numpy import NumPyPrinter

from derive.notation import symbols as v
from derive.notation.errors import DeriveError, quoted
from derive.notation.quantity import Quantity
from derive.solve.values import value_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

PRINTED = {
    "fully_qualified_modules": False,
    "inline": True,
    "allow_unknown_functions": False,
    "user_functions": {},
}
BLOCK = 1 << 15  # elements; a few float64 temporaries of this size fit a 2 MB cache


def evaluate(
    expr: sp.Expr,
    grid: Mapping[sp.Symbol, ArrayLike],
    given: Mapping[sp.Symbol, object] | None = None,
) -> NDArray[np.float64]:
    """`expr` at every point of the product grid of one-dimensional arrays.

    Returns float64 of shape (len(first), len(second), ...) in the order of `grid`. `given` binds
    the remaining symbols to numbers or quantities. Raises DeriveError where a symbol is left
    without a value, or an axis is not one-dimensional, finite and positive.
    """
    import numpy as np

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
    bound = expr.xreplace({s: _number(s, value) for s, value in (given or {}).items()})
    left = sorted(bound.free_symbols - set(axes), key=v.rank)
    if left:
        raise DeriveError(f"no value for {', '.join(s.name for s in left)}")
    order = tuple(axes)
    shape = tuple(len(values) for values in axes.values())
    out = np.empty(shape)
    if out.size == 0:
        return out
    function = compiled(bound, order)
    views = [
        values.reshape(tuple(-1 if i == k else 1 for i in range(len(shape))))
        for k, values in enumerate(axes.values())
    ]
    _fill(out, views, function, 0)
    return out


def _fill(out: Any, views: Sequence[Any], function: Callable[..., Any], axis: int) -> None:
    """Cut along the first axis into blocks; where one row is too long, cut the next axis within."""
    rows = out.shape[axis] if axis < out.ndim else 1
    per_row = out.size // rows if rows else 0
    if axis >= out.ndim or out.size <= BLOCK:
        out[...] = function(*views)
        return
    step = max(1, BLOCK // per_row)
    for start in range(0, rows, step):
        cut = slice(start, start + step)
        index = (slice(None),) * axis + (cut,)
        part = [view[index] if view.shape[axis] > 1 else view for view in views]
        block = out[index]
        if block.size > BLOCK:
            _fill(block, part, function, axis + 1)
        else:
            block[...] = function(*part)


@lru_cache(maxsize=128)
def compiled(expr: sp.Expr, order: tuple[sp.Symbol, ...]) -> Callable[..., Any]:
    """The NumPy function of an expression. Only declared symbols reach lambdify, and no functions
    but SymPy's own: the names of both become source text there."""
    for symbol in (*order, *sorted(expr.free_symbols, key=v.rank)):
        v.meaning(symbol)
    for unknown in expr.atoms(AppliedUndef):
        raise DeriveError(f"unknown function {quoted(unknown.func)}")
    function: Callable[..., Any] = sp.lambdify(
        order, expr, modules=[_functions()], printer=NumPyPrinter(PRINTED)
    )
    return function


@lru_cache(maxsize=1)
def _functions() -> dict[str, Any]:
    """The NumPy functions of expressions; naming the module instead would import all of it."""
    import numpy as np

    names = ("sqrt", "exp", "log", "floor", "ceil", "maximum", "minimum", "mod")
    return {name: getattr(np, name) for name in names} | {"reduce": reduce}


def _number(symbol: sp.Symbol, value: object) -> sp.Expr:
    return value.value if isinstance(value, Quantity) else value_of(symbol, value).value
