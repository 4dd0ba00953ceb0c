"""Numbers at the points of arrays, as an array that knows what was asked: its frame and plot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from derive.cost.assumptions import Assumptions
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, guarded
from derive.notation.frames import library
from derive.notation.units import Unit
from derive.solve.question import Question

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Numbers = np.ndarray[Any, np.dtype[np.float64]]
DECADES = 100  # the span of an axis from which it is logarithmic


@dataclass(frozen=True, repr=False)
class Swept:
    """What a sweep is of: the strategy or limit, the closed form, the question, the swept symbols
    with a number at each point in the symbol's unit, and what all points with a bound rest on, by
    line."""

    name: str
    closed_form: str
    question: Question
    arrays: Mapping[sp.Symbol, Any]
    assumptions: Assumptions
    rests_on: tuple[str, ...]


@guarded
class Sweep(Numbers):
    """Numbers of one question at points, in its unit: a float64 array with `.frame()`, `.plot()`
    and, as `.swept`, what was asked. Slices, copies and arithmetic of it are plain arrays."""

    swept: Swept | None

    def __new__(cls, numbers: Numbers, swept: Swept) -> Sweep:
        sweep = np.array(numbers, dtype=np.float64).view(cls)
        sweep.swept = swept
        return sweep

    def __array_finalize__(self, origin: object) -> None:
        self.swept = None  # of a view it is not known which points those are

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return np.asarray(array)[()]

    def __getitem__(self, place: Any) -> Any:
        return np.asarray(self)[place]

    def copy(self, order: Any = "C") -> Any:
        return np.array(self, order=order)

    def frame(self) -> Any:
        """A pandas DataFrame: a row for each point, in the order of NumPy, a column for each swept
        symbol and one for the answer. `attrs` have the units of the columns, the closed form and
        what it rests on. Raises DeriveError where pandas is missing."""
        swept, asked = self._known()
        numbers = {s.name: array.ravel() for s, array in swept.arrays.items()}
        table = library("pandas").DataFrame({**numbers, asked: np.array(self).ravel()})
        units = {s.name: str(v.unit_of_symbol(s)) for s in swept.arrays}
        table.attrs |= {
            "units": {**units, asked: str(swept.question.unit)},
            "strategy": swept.name,
            "closed_form": swept.closed_form,
            "rests_on": list(swept.rests_on),
        }
        return table

    def plot(self, axes: Axes | None = None) -> Axes:
        """The sweep of one symbol along one dimension as a line, in the `axes` of matplotlib that
        are given or in a new figure, and those axes: each with symbol, unit and gloss, and
        logarithmic from two decades on. Raises DeriveError for another sweep, and where matplotlib
        is missing."""
        swept, _ = self._known()
        if self.ndim != 1 or len(swept.arrays) != 1:
            names = " and ".join(symbol.name for symbol in swept.arrays)
            told = f"found {names} in an array of shape {self.shape}"
            raise DeriveError(f"expected a sweep of one symbol along one dimension, {told}")
        ((symbol, along),) = swept.arrays.items()
        if axes is None:  # pyplot keeps the figure, which is how a notebook comes to show it
            axes = library("matplotlib.pyplot").subplots(layout="constrained")[1]
        order = np.argsort(along)
        axes.plot(along[order], self[order])
        axes.set(
            title=f"{swept.name}: {swept.closed_form}",
            xlabel=_label(symbol, v.unit_of_symbol(symbol)),
            ylabel=_label(swept.question.expr, swept.question.unit),
            xscale=_scale(along),
            yscale=_scale(self),
        )
        return axes

    def _known(self) -> tuple[Swept, str]:
        """What was asked, and that as text."""
        if self.swept is None:
            raise DeriveError("a part or a copy of a sweep is a plain array: ask the whole sweep")
        return self.swept, tex.text(self.swept.question.expr)


def _label(expr: sp.Expr, unit: Unit) -> str:
    words = unit.words()
    above = f"${tex.tex(expr)}$" + (f" ({words})" if words else "")
    glosses = (v.meaning(s).gloss for s in sorted(expr.free_symbols, key=v.rank))
    return f"{above}\n{' / '.join(glosses)}"


def _scale(numbers: Numbers) -> str:
    shown = numbers[np.isfinite(numbers)]
    wide = shown.size > 0 and 0 < shown.min() * DECADES < shown.max()
    return "log" if wide else "linear"
