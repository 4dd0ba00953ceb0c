"""Rule 5: from one layout of a tensor to another by slices (free), all-to-alls and all-gathers."""

from __future__ import annotations

import sympy as sp

from derive.cost.program import Collective, Move, Moved, Operation, Sliced, elements
from derive.cost.tensor import Layout, Split, Tensor


def moved(
    collective: Collective,
    before: Tensor,
    after: Tensor,
    axes: tuple[str, ...],
    element: sp.Expr,
    critical: bool,
) -> Moved:
    """A move between two layouts; the array counted is the one that is whole over `axes`."""
    size = element * elements(before, without=axes)
    return Moved(Move(collective, before.name, axes, size, critical), before, after)


def reshard(tensor: Tensor, target: Layout, element: sp.Expr, critical: bool) -> list[Operation]:
    """The operations that bring `tensor` to the layout `target`, in canonical order.

    Slices come first, since they are free and make what follows smaller; then an axis that moves to
    another dimension goes by all-to-all, and one that is dropped is gathered. An axis can leave a
    dimension only from the inside outwards, so inner ones that stay are gathered and sliced again.
    """
    wanted = dict(zip(tensor.dims, target, strict=True))
    operations: list[Operation] = []
    current = tensor
    while current.layout != target:
        step: Moved | Sliced = (
            _sliced(current, wanted)
            or _exchanged(current, wanted, element, critical)
            or _gathered(current, wanted, element, critical)
        )
        operations.append(step)
        current = step.after
    return operations


def _excess(now: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The inner axes of `now` beyond what it shares with `wanted` from the outside."""
    shared = 0
    while shared < min(len(now), len(wanted)) and now[shared] == wanted[shared]:
        shared += 1
    return now[shared:]


def _sliced(current: Tensor, wanted: Split) -> Sliced | None:
    split = current.split
    for dim, axes in wanted.items():
        have = split[dim]
        if have != axes[: len(have)] or have == axes:
            continue
        free = []
        for axis in axes[len(have) :]:
            if axis in current.axes:
                break
            free.append(axis)
        if free:
            return Sliced(current, current.laid_out(split | {dim: have + tuple(free)}))
    return None


def _exchangeable(split: Split, wanted: Split, dim: str) -> tuple[str, tuple[str, ...]] | None:
    """The dimension that can take the longest inner group of `dim`'s excess axes, and the group."""
    excess = _excess(split[dim], wanted[dim])
    for start in range(len(excess)):
        group = excess[start:]
        for other, axes in wanted.items():
            have = split[other]
            if other != dim and axes[: len(have) + len(group)] == have + group:
                return other, group
    return None


def _exchanged(current: Tensor, wanted: Split, element: sp.Expr, critical: bool) -> Moved | None:
    split = current.split
    for dim in current.dims:
        exchange = _exchangeable(split, wanted, dim)
        if exchange is not None:
            other, group = exchange
            kept = split[dim][: len(split[dim]) - len(group)]
            after = current.laid_out(split | {dim: kept, other: split[other] + group})
            return moved("all_to_all", current, after, group, element, critical)
    return None


def _gathered(current: Tensor, wanted: Split, element: sp.Expr, critical: bool) -> Moved:
    split = current.split
    dim = next(d for d in current.dims if _excess(split[d], wanted[d]))
    rest = split[dim]
    limit = len(rest) - len(_excess(rest, wanted[dim]))
    group: tuple[str, ...] = ()
    while len(rest) > limit and (
        not group or _exchangeable(split | {dim: rest}, wanted, dim) is None
    ):
        rest, group = rest[:-1], (rest[-1], *group)
    after = current.laid_out(split | {dim: rest})
    return moved("all_gather", current, after, group, element, critical)
