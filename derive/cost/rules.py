"""The rules of a sharded product: for each mesh axis, what has to be moved.

For `left . right -> result` and one mesh axis:

0. on neither operand: nothing;
1. on a dimension of one operand that the result keeps: the result keeps it;
2. on a summed dimension of one operand only: all-gather that operand;
3. on a summed dimension of both: partial sums, then a reduce-scatter where the result is declared
   split by that axis, else an all-reduce;
4. on a kept dimension of both: all-gather the operand whose dimension the result does not declare;
5. last, reshard the result to its declaration (`reshard`).

The rules are canonical, not always the cheapest: under rule 2 slicing the other operand, where it
is replicated, can move less. Where an axis that has to leave a dimension bars a scatter onto it,
the sums are all-reduced and resharded. A pass that is given sizes takes the least program instead
(`least`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile

import sympy as sp

from derive.cost.block import Layout, Split, Tensor, summed_dims
from derive.cost.least import least_splits
from derive.cost.program import Applied, Moved, Multiplied, Operation, Pair, Sliced, elements, moved
from derive.cost.route import route
from derive.cost.sizes import Sizes
from derive.notation.symbols import e, e_g, find

Operands = tuple[Tensor, Tensor, sp.Rational]  # left, right, the part of the product done


class Pass:
    """The program of one pass as it grows, and the layouts in which each tensor is held so far.

    `critical` are the names of the tensors whose moves the pass waits for, `reduced` those of the
    gradients of parameters. With `sizes` it is the least one at them.
    `fetched` collects what was brought from `held` as it stood at first.
    """

    def __init__(
        self,
        held: dict[str, list[Tensor]],
        critical: Collection[str],
        reduced: Collection[str] = (),
        sizes: Sizes | None = None,
    ) -> None:
        self.sizes = sizes
        self.program: list[Operation] = []
        self.held = held
        self.critical = frozenset(critical)
        self.reduced = frozenset(reduced)
        self.given = {tensor for layouts in held.values() for tensor in layouts}
        self.fetched: dict[Tensor, None] = {}
        self.again = False

    def multiply(
        self, terms: Sequence[Operands], result: Tensor, splits: Sequence[Split] = ()
    ) -> None:
        """Fetch the operands as the rules, or `splits`, want them, multiply, reduce and reshard the
        sum.

        Products that leave the sum in different layouts are reduced one by one, and then added.
        """
        groups: dict[tuple[Layout, tuple[str, ...]], list[Pair]] = {}
        if self.sizes is None:
            splits = [_roles(left, right, result) for left, right, _ in terms]
        elif not splits:
            held = [(self.held[left.name], self.held[right.name]) for left, right, _ in terms]
            splits = least_splits(held, result, self.sizes, self.size)
        for (left, right, share), split in zip(terms, splits, strict=True):
            ready = (self.fetch(left.laid_out(split)), self.fetch(right.laid_out(split)))
            summed = summed_dims(left, right, result)
            partial = tuple(axis for dim in summed for axis in split[dim])
            pair = Pair(*ready, tuple(split.items()), share)
            groups.setdefault((result.laid_out(split).layout, partial), []).append(pair)
        names = [result.name]
        if len(groups) > 1:
            names = [f"{result.name}+{place}" for place in range(len(groups))]
        for name, ((layout, partial), pairs) in zip(names, groups.items(), strict=True):
            local = Tensor(name, result.dims, layout)
            self.program.append(Multiplied(tuple(pairs), local, partial, self.again))
            self.finish(local, partial, result.named(name))
        if len(groups) > 1:
            self.apply("+", [result.named(name) for name in names], result)

    def apply(
        self, function: str, operands: Sequence[Tensor], result: Tensor, wrt: int | None = None
    ) -> None:
        """Apply a function to operands as they are held, and hold the result."""
        self.program.append(Applied(function, tuple(operands), result, wrt, self.again))
        self.held[result.name] = [result]

    def fetch(self, wanted: Tensor) -> Tensor:
        """Bring a tensor to a layout from the held one that needs least, and hold what comes."""
        source, steps = self._from(self.held[wanted.name], wanted)
        if source in self.given:
            self.fetched[source] = None
        self.program.extend(steps)
        self.held[wanted.name] += [step.after for step in steps if isinstance(step, Moved)]
        return wanted

    def reshard(self, local: Tensor, result: Tensor) -> None:
        """Rule 5: bring what was made to the layout of its declaration, and hold it."""
        self.program.extend(self._from([local], result)[1])
        self.held[result.name] = [result]

    def finish(self, local: Tensor, partial: tuple[str, ...], result: Tensor) -> None:
        """Rules 3 and 5: reduce the partial sums, scattering where declared, then reshard."""
        if self.sizes is not None:
            self.program.extend(self._from([local], result, partial)[1])
            self.held[result.name] = [result]
            return
        element, critical = self.element(result), self.waits_for(result)
        current = local
        for dim, axes in result.split.items():
            have = current.axes_of(dim)
            if have != axes[: len(have)]:
                continue
            free, group = _scattered(axes[len(have) :], partial, current.axes)
            if free:
                # Outer axes that no operand has: dropping those parts of a partial sum is free.
                sliced = current.laid_out(current.split | {dim: have + free})
                self.program.append(Sliced(current, sliced))
                current, have = sliced, have + free
            if group:
                after = current.laid_out(current.split | {dim: have + group})
                self.program.append(
                    moved("reduce_scatter", current, after, group, element, critical)
                )
                current = after
                partial = tuple(axis for axis in partial if axis not in group)
        if partial:
            self.program.append(moved("all_reduce", current, current, partial, element, critical))
        self.reshard(current, result)

    def _from(
        self, held: Sequence[Tensor], wanted: Tensor, partial: tuple[str, ...] = ()
    ) -> tuple[Tensor, list[Operation]]:
        """The one of several held layouts that needs least, and what brings it to another."""
        element, critical = self.element(wanted), self.waits_for(wanted)
        if self.sizes is not None:
            return route(held, partial, wanted, self.sizes, element, critical)
        routes = [(one, reshard(one, wanted.layout, element, critical)) for one in held]
        return min(routes, key=lambda one: _moved_axes(one[1]))

    def element(self, tensor: Tensor) -> sp.Symbol:
        """The bytes of an element of a tensor."""
        return e_g if whole_name(tensor.name) in self.reduced else e

    def size(self, tensor: Tensor) -> int:
        """The bits of a whole tensor at the sizes of the least program."""
        known = {**self.sizes.lengths, **self.sizes.elements} if self.sizes is not None else {}
        whole = self.element(tensor) * elements(tensor, without=tensor.axes)
        return int(whole.xreplace({find(name): sp.Integer(n) for name, n in known.items()}))

    def waits_for(self, tensor: Tensor) -> bool:
        """Whether the pass waits for the moves of a tensor."""
        return whole_name(tensor.name) in self.critical


def whole_name(name: str) -> str:
    """The tensor that a part of a sum belongs to: dX for dX+0."""
    return name.partition("+")[0]


def _scattered(
    wanted: tuple[str, ...], partial: tuple[str, ...], used: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The leading axes of `wanted` that can be sliced, and the partial ones right inside them."""
    free = tuple(takewhile(lambda axis: axis not in partial and axis not in used, wanted))
    group = tuple(takewhile(lambda axis: axis in partial, wanted[len(free) :]))
    return (free, group) if group else ((), ())


def _moved_axes(route: Sequence[Operation]) -> int:
    return sum(len(step.move.axes) for step in route if isinstance(step, Moved))


def _roles(left: Tensor, right: Tensor, result: Tensor) -> Split:
    """Which mesh axes split each dimension of the local product, by rules 0 to 4."""
    split: Split = {}
    for dim in dict.fromkeys((*left.dims, *right.dims)):
        # In the order in which the operands have them, so that an axis that stays is not moved.
        own = dict.fromkeys((*left.axes_of(dim), *right.axes_of(dim)))
        split[dim] = tuple(axis for axis in own if _role(axis, left, right, result) == dim)
    return split


def _role(axis: str, left: Tensor, right: Tensor, result: Tensor) -> str | None:
    """The dimension of the local product that an axis splits, if any."""
    p, q = left.dim_of(axis), right.dim_of(axis)
    if p == q:
        return p
    summed = summed_dims(left, right, result)
    kept = [dim for dim in (p, q) if dim is not None and dim not in summed]
    if len(kept) < 2:
        return kept[0] if kept else None
    declared = [dim for dim in kept if axis in result.axes_of(dim)]
    return (declared or kept)[0]


# --- rule 5: slices (free), all-to-alls and all-gathers


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
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(now, wanted, strict=False))
    return now[len(list(shared)) :]


def _sliced(current: Tensor, wanted: Split) -> Sliced | None:
    split = current.split
    for dim, axes in wanted.items():
        have = split[dim]
        if have != axes[: len(have)] or have == axes:
            continue
        free = tuple(takewhile(lambda axis: axis not in current.axes, axes[len(have) :]))
        if free:
            return Sliced(current, current.laid_out(split | {dim: have + free}))
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
