"""A tape: a computation as a tuple of operations on numbered places, run in a plain loop.

The same tape runs on NumPy arrays, where every result goes into memory that is used again as soon
as nothing needs it, and on single numbers, without NumPy.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

# Each operation by the name of NumPy's function, with what it is on single numbers.
OPERATIONS: Mapping[str, Callable[..., float]] = MappingProxyType(
    {
        "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
        "divide": operator.truediv, "less_equal": operator.le,
        "maximum": max, "minimum": min,
        "floor": lambda x: _whole(x, math.floor), "ceil": lambda x: _whole(x, math.ceil),
    }
)  # fmt: skip


def _whole(x: float, way: Callable[[float], int]) -> float:
    """As NumPy has it: a float from 2**53 on is whole, infinity stays."""
    return float(way(x)) if abs(x) < 2**53 else x


class Step(NamedTuple):
    """One operation: its name, the places of its operands (the second -1 where there is one
    operand), and the place of the result."""

    name: str
    left: int
    right: int
    out: int


@dataclass(frozen=True)
class Tape:
    """Two computations: of numbers from constants, once, and of targets from axes and numbers.

    The places of the first are the constants, the literals, then one for each result; `kept` are
    those that the second needs. The places of the second are the axes, the kept numbers, its own
    literals, then registers. `registers` holds what each register is for: 1 a column, 2 a block, 0
    a column of truth values. `targets` are the places of the results.
    """

    axes: tuple[str, ...]
    constants: tuple[str, ...]
    literals: tuple[float, ...]
    before: tuple[Step, ...]
    kept: tuple[int, ...]
    own: tuple[float, ...]
    steps: tuple[Step, ...]
    registers: tuple[int, ...]
    targets: tuple[int, ...]

    def numbers(self, constants: Mapping[str, float]) -> tuple[float, ...]:
        """What depends on constants alone and is needed for every plan, from them by name."""
        places = [*self._read(constants), *self.literals]
        for function, left, right in self._scalar_before:
            if right < 0:
                places.append(function(places[left]))
            else:
                places.append(function(places[left], places[right]))
        return self._keep(places)

    def block(
        self, axes: Sequence[Any], numbers: Sequence[Any], room: Sequence[Any]
    ) -> tuple[Any, ...]:
        """The targets over arrays of the axes. `room` is of `room` or `Room.of`, and what is
        returned lies in it: it holds until the room is used again."""
        places = [*axes, *numbers, *self._arrays, *room]
        for function, left, right, out in self._functions:
            if right < 0:
                function(places[left], places[out])
            else:
                function(places[left], places[right], places[out])
        return tuple([places[i] for i in self.targets])

    def single(self, axes: Sequence[float], numbers: Sequence[float]) -> tuple[float, ...]:
        """The targets of one plan, in Python numbers; raises ZeroDivisionError where float64 cannot
        hold a divisor."""
        places: list[Any] = [*axes, *numbers, *self.own, *self.registers]
        for function, left, right, out in self._scalars:
            if right < 0:
                places[out] = function(places[left])
            else:
                places[out] = function(places[left], places[right])
        return tuple([places[i] for i in self.targets])

    def room(self, plans: int) -> list[Any]:
        """New memory for plans written out, one by one."""
        import numpy as np

        some = iter(np.empty((len(self.registers), plans)))
        masks = iter(np.empty((self.registers.count(0), plans), dtype=bool))
        return [next(some if kind else masks) for kind in self.registers]

    @cached_property
    def _functions(self) -> tuple[tuple[Callable[..., Any], int, int, int], ...]:
        import numpy as np

        # Given by place, an output is found sooner than by name; the extrema take it by name only.
        named: dict[str, Callable[..., Any]] = {
            "maximum": lambda left, right, out: np.maximum(left, right, out=out),
            "minimum": lambda left, right, out: np.minimum(left, right, out=out),
        }
        functions = [named.get(s.name) or getattr(np, s.name) for s in self.steps]
        return tuple(
            (f, s.left, s.right, s.out) for f, s in zip(functions, self.steps, strict=True)
        )

    @cached_property
    def _arrays(self) -> tuple[Any, ...]:
        import numpy as np

        # NumPy takes a number as an array of its own twice as fast as a Python float.
        return tuple(np.array(x) for x in self.own)

    @cached_property
    def _scalars(self) -> tuple[tuple[Callable[..., float], int, int, int], ...]:
        return tuple((OPERATIONS[s.name], s.left, s.right, s.out) for s in self.steps)

    @cached_property
    def _scalar_before(self) -> tuple[tuple[Callable[..., float], int, int], ...]:
        return tuple((OPERATIONS[s.name], s.left, s.right) for s in self.before)

    @cached_property
    def _read(self) -> Callable[[Mapping[str, float]], tuple[float, ...]]:
        return _chosen(self.constants)

    @cached_property
    def _keep(self) -> Callable[[Sequence[float]], tuple[float, ...]]:
        return _chosen(self.kept)


def _chosen(keys: Sequence[Any]) -> Callable[[Any], tuple[float, ...]]:
    """The values of the keys, in one call."""
    if len(keys) > 1:
        return operator.itemgetter(*keys)
    return lambda values: tuple(values[key] for key in keys)


@dataclass
class Room:
    """The memory of a search by blocks, used again for each of them."""

    tape: Tape
    _memory: list[Any] = field(default_factory=list)
    _shape: tuple[int, ...] = ()
    _views: list[Any] = field(default_factory=list)

    def of(self, shape: tuple[int, int]) -> list[Any]:
        """Registers for a block of so many rows and columns."""
        if shape != self._shape:
            self._views = [
                self._view(index, kind, shape if kind == 2 else (shape[0], 1))
                for index, kind in enumerate(self.tape.registers)
            ]
            self._shape = shape
        return self._views

    def _view(self, index: int, kind: int, shape: tuple[int, int]) -> Any:
        import numpy as np

        size = shape[0] * shape[1]
        if index == len(self._memory):
            self._memory.append(np.empty(size, dtype=float if kind else bool))
        elif self._memory[index].size < size:
            self._memory[index] = np.empty(size, dtype=float if kind else bool)
        return self._memory[index][:size].reshape(shape)
