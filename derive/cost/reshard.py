"""Rule 5: from one layout of a tensor to another by slices (free), all-to-alls and all-gathers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import sympy as sp

from derive.cost.moves import Collective, Move, degree, product
from derive.cost.program import Moved, Operation, Sliced
from derive.cost.sharding import Layout, Tensor
from derive.notation.symbols import find

Split = dict[str, tuple[str, ...]]


def array_bytes(tensor: Tensor, element: sp.Expr, without: tuple[str, ...] = ()) -> sp.Expr:
    """The bytes of `tensor` over the axes it is still split by, those of `without` left out."""
    rest = tuple(axis for axis in tensor.axes if axis not in without)
    return element * product([find(dim) for dim in tensor.dims]) / degree(rest)


def moved(
    collective: Collective,
    before: Tensor,
    after: Tensor,
    axes: tuple[str, ...],
    element: sp.Expr,
    critical: bool,
) -> Moved:
    """A move between two layouts; the array counted is the one that is whole over `axes`."""
    size = array_bytes(before, element, without=axes)
    return Moved(Move(collective, before.name, axes, size, critical), before, after)


def laid_out(tensor: Tensor, split: Mapping[str, tuple[str, ...]]) -> Tensor:
    """`tensor` with the layout that `split` gives by dimension."""
    return replace(tensor, layout=tuple(split.get(dim, ()) for dim in tensor.dims))


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


def _split(tensor: Tensor) -> Split:
    return dict(zip(tensor.dims, tensor.layout, strict=True))


def _excess(now: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The inner axes of `now` beyond what it shares with `wanted` from the outside."""
    shared = 0
    while shared < min(len(now), len(wanted)) and now[shared] == wanted[shared]:
        shared += 1
    return now[shared:]


def _sliced(current: Tensor, wanted: Split) -> Sliced | None:
    split = _split(current)
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
            return Sliced(current, laid_out(current, split | {dim: have + tuple(free)}))
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
    split = _split(current)
    for dim in current.dims:
        found = _exchangeable(split, wanted, dim)
        if found is not None:
            other, group = found
            kept = split[dim][: len(split[dim]) - len(group)]
            after = laid_out(current, split | {dim: kept, other: split[other] + group})
            return moved("all_to_all", current, after, group, element, critical)
    return None


def _gathered(current: Tensor, wanted: Split, element: sp.Expr, critical: bool) -> Moved:
    split = _split(current)
    dim = next(d for d in current.dims if _excess(split[d], wanted[d]))
    rest = split[dim]
    limit = len(rest) - len(_excess(rest, wanted[dim]))
    group: tuple[str, ...] = ()
    while len(rest) > limit and (
        not group or _exchangeable(split | {dim: rest}, wanted, dim) is None
    ):
        rest, group = rest[:-1], (rest[-1], *group)
    return moved(
        "all_gather", current, laid_out(current, split | {dim: rest}), group, element, critical
    )
