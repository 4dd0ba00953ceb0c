"""The step model as two Python functions: what is the same for all plans, and one block of plans.

Everything that depends on constants alone is computed once, as Python numbers. What is left runs
on float64 arrays of plans, each operation once, and intermediates that are used once have no name,
so that NumPy reuses their memory. Names in the source are the vocabulary's, which are identifiers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from derive.notation import symbols as v
from derive.plan.writer import Writer


@dataclass(frozen=True)
class Compiled:
    """`prepare(*constants)` gives a tuple of numbers, `block(*plans, *numbers)` the targets.

    `edge`, the last target, is how far each plan is from a whole number that a ceiling acts on.
    """

    constants: tuple[str, ...]
    prepare: Callable[..., tuple[float, ...]]
    block: Callable[..., tuple[Any, ...]]
    source: str

    def numbers(self, constants: Mapping[str, float]) -> tuple[float, ...]:
        """What `block` takes after the plans, from the constants by name."""
        return self.prepare(*[constants[name] for name in self.constants])


def compiled(
    targets: Sequence[sp.Expr],
    definitions: Mapping[sp.Symbol, sp.Expr],
    axes: Sequence[sp.Symbol],
) -> Compiled:
    """The functions of `targets` over arrays of `axes`; every other symbol is a constant.

    Raises DeriveError for symbols outside the vocabulary and operations the step model lacks.
    """
    import math

    import numpy as np

    writer = Writer(axes, definitions)
    nodes = [writer.node(target) for target in targets]
    nodes.append(writer.edge())
    lines, result = writer.lines(nodes)
    constants = tuple(symbol.name for symbol in sorted(writer.constants, key=v.rank))
    used = set(re.findall(r"[A-Za-z_]\w*", " ".join([*lines, result])))
    scalars = [*constants, *writer.scalars.values()]
    needed = [name for name in scalars if name in used]
    given = ", ".join(constants)
    source = "\n    ".join(
        [
            f"def prepare({given}):",
            *(f"{name} = {text}" for text, name in writer.scalars.items()),
            f"return ({', '.join(needed)},)",
        ]
    )
    order = ", ".join([*(axis.name for axis in axes), *needed])
    source += "\n\n" + "\n    ".join([f"def block({order}):", *lines, f"return ({result},)"]) + "\n"
    names: dict[str, Any] = {
        "math_floor": math.floor, "math_ceil": math.ceil, "maximum": np.maximum,
        "minimum": np.minimum, "floor": np.floor, "ceil": np.ceil, "rint": np.rint,
        "absolute": np.absolute,
    }  # fmt: skip
    exec(compile(source, "<step model>", "exec"), names)
    return Compiled(constants, names["prepare"], names["block"], source)
