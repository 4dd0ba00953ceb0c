"""The same job on an Ironwood pod, the slice that it allows, and what rounding leaves of it."""

from __future__ import annotations

from math import lcm

import sympy as sp

from derive import Quantity, multiple_below, threshold
from derive.book import decimals
from derive.book.tables import Cell
from derive.cost.strategies import fsdp, fsdp_tensor
from derive.notation.symbols import N, X, Y
from derive.notation.units import one

from .common import CASE, LATER, batch, chapter, days, iron_pod, ironwood, llama, made, n, on, whole
from .mixed import mixed_iron
from .splits import splits_of
from .v5p import pod_days

iron_share = chapter.claim("tokens-per-chip-ironwood", (batch / iron_pod).named("B/N"))
over = iron_share / mixed_iron
chapter.require("ironwood-comm-bound", over, "<", 1)
root = made(sp.sqrt(over.value), one, "sqrt(a)", a=over)
chapter.claim("ironwood-math-over-comms", root)
chapter.claim("ironwood-bound-by", made(1 / root.value, one, "1/a", a=root), "times")

chapter.formula("slice", threshold(fsdp_tensor, N))
chapter.formula("slice-at-y", threshold(fsdp_tensor, N, fixed=(Y,)))
chapter.formula("slice-at-y-exact", threshold(fsdp_tensor, N, fixed=(Y,), form="exact"))
largest = on(fsdp_tensor, N, ironwood, llama, **CASE)
chapter.claim("ironwood-largest-slice", largest)
iron_days = chapter.claim("ironwood-days", days(largest, ironwood))
chapter.claim("ironwood-16M-slice", on(fsdp_tensor, N, ironwood, llama, **LATER))
same_day = round(iron_days.value) == round(pod_days.value)
chapter.holds(("ironwood-same-days", same_day, "whole days"))
needed = on(fsdp_tensor, Y, ironwood, llama, N=largest, side="high", **CASE)
chapter.shown("ironwood-needs-y", needed, decimals(2), unit="")


# After rounding.
CUBE = chapter.given("cube", ironwood.quantity("cube_chips"))


def of_cubes(bound: Quantity, y: int) -> Quantity:
    """The largest slice of whole cubes, not above a bound, whose chips Y divides."""
    return multiple_below(bound, lcm(int(CUBE.value), y))


def slices_at(y: int, form: str) -> list[tuple[Quantity, Quantity]]:
    """The largest slice at a whole Y for both batches: the bound, and the largest whole mesh."""
    bounds = [
        on(fsdp_tensor, N, ironwood, llama, fixed=(Y,), form=form, Y=y, **case)
        for case in (CASE, LATER)
    ]
    return [(bound, multiple_below(bound, y)) for bound in bounds]


def slice_row(form: str, y: int) -> list[Cell]:
    """The slice at a whole Y, for a table."""
    (bound, mesh), (later_bound, later) = slices_at(y, form)
    degrees = (n(mesh / y), " × ", whole(y, "Y"))
    cubes = [n(of_cubes(one, y)) for one in (bound, later_bound)]
    at_once = [n(mesh), n(days(mesh, ironwood), 1), cubes[0]]
    return [form, whole(y, "Y"), n(bound, 1), degrees, *at_once, n(later), cubes[1]]


(bound, mesh), (later_bound, later_mesh) = slices_at(2, "large-n")
chapter.claim("ironwood-slice-after-rounding", bound, "floor")
chapter.claim("ironwood-16m-after-rounding", later_bound, "floor")
chapter.shown("ironwood-16m-mesh", later_mesh)
largest_slices = [of_cubes(one, 2) for one in (bound, later_bound)]
for name, chips in zip(("ironwood-cubes", "ironwood-cubes-16m"), largest_slices, strict=True):
    chapter.shown(name, chips)
chapter.shown("ironwood-cubes-count", largest_slices[0] / CUBE, decimals(0), unit="")
chapter.shown("ironwood-rounded-days", days(mesh, ironwood), decimals(1))
three_ways = chapter.shown("ironwood-exact-mesh", slices_at(3, "exact")[0][1])
chapter.claim("ironwood-exact-x", three_ways / 3)
# The exact tensor limit beside the large-n gather of the weights.
weights_alone = on(fsdp, X, ironwood, B=batch, M_X=CASE["M_X"])
chapter.claim("ironwood-mixed-forms", multiple_below(weights_alone * 3, 3))
exact_holds = 3 in splits_of(chips=three_ways, of=ironwood).degrees(Y)
why = "the whole mesh, with exact collectives on both axes"
chapter.holds(("ironwood-exact-holds", exact_holds, why))
chapter.table(
    "ironwood-slices",
    "Form | Y | Bound | Mesh | Chips | Days | Slice | Chips at the later batch | Slice then",
    [
        ["large-n", n(needed, 2), n(largest, 1), "not whole", "-", n(iron_days, 1), "-", "-", "-"],
        slice_row("large-n", 2),
        slice_row("exact", 2),
        slice_row("exact", 3),
    ],
    align="lrrrrrrrr",
)
