"""The step model as a tape: what is the same for all plans apart, then one block of plans.

Everything that depends on constants alone is computed once, as Python numbers. What is left runs
on float64 arrays of plans, each operation once, in as few registers as can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import sympy as sp

from derive.notation import symbols as v
from derive.plan.tape import Step, Tape
from derive.plan.writer import Node, Operation, Writer


def compiled(
    targets: Sequence[sp.Expr],
    definitions: Mapping[sp.Symbol, sp.Expr],
    axes: Sequence[sp.Symbol],
    slack: float = 0.0,
) -> Tape:
    """The tape of `targets` over arrays of `axes`; every other symbol is a constant.

    The last target is the edge: how far a plan is from a whole number that a ceiling acts on, where
    ceilings are taken `slack` below their arguments. Raises DeriveError for symbols outside the
    vocabulary and operations the step model lacks.
    """
    writer = Writer(axes, definitions, slack)
    nodes = [writer.node(target) for target in targets]
    nodes.append(writer.edge())
    return _tape(writer, nodes)


def _tape(writer: Writer, targets: Sequence[Node]) -> Tape:
    made = writer.made
    needed = _needed(made, targets)
    scalar = [n for n in needed if n.level == 0]
    later = {of for n in needed if n.level for of in _operands(made, n)} | set(targets)

    constants = [writer.constants[s] for s in sorted(writer.constants, key=v.rank)]
    constants = [n for n in constants if n in scalar]
    literals = [n for n in scalar if isinstance(made[n.place], float)]
    results = [n for n in scalar if isinstance(made[n.place], Operation)]
    place = {n: i for i, n in enumerate([*constants, *literals, *results])}
    before = tuple(_step(made, n, place, place[n]) for n in results)
    kept = [n for n in [*constants, *results] if n in later]
    own = [n for n in literals if n in later]

    axes = list(writer.axes.values())
    seats = {n: i for i, n in enumerate([*axes, *kept, *own])}
    operations = [n for n in needed if n.level and isinstance(made[n.place], Operation)]
    steps, registers = _allotted(made, operations, targets, seats)
    return Tape(
        tuple(s.name for s in writer.axes),
        tuple(str(made[n.place]) for n in constants),
        _numbers(made, literals),
        before,
        tuple(place[n] for n in kept),
        _numbers(made, own),
        steps,
        registers,
        tuple(seats[n] for n in targets),
    )


def _needed(made: Sequence[object], targets: Iterable[Node]) -> list[Node]:
    """The targets and all that they rest on, in the order in which it was made."""
    found = set(targets)
    stack = list(found)
    while stack:
        for node in _operands(made, stack.pop()):
            if node not in found:
                found.add(node)
                stack.append(node)
    return sorted(found, key=lambda n: n.place)


def _operands(made: Sequence[object], node: Node) -> tuple[Node, ...]:
    of = made[node.place]
    return of.of if isinstance(of, Operation) else ()


def _numbers(made: Sequence[object], nodes: Iterable[Node]) -> tuple[float, ...]:
    return tuple(x for x in (made[n.place] for n in nodes) if isinstance(x, float))


def _step(made: Sequence[object], node: Node, place: Mapping[Node, int], out: int) -> Step:
    operation = made[node.place]
    assert isinstance(operation, Operation)
    left, *right = (place[n] for n in operation.of)
    return Step(operation.name, left, right[0] if right else -1, out)


def _allotted(
    made: Sequence[object],
    operations: Sequence[Node],
    targets: Sequence[Node],
    seats: dict[Node, int],
) -> tuple[tuple[Step, ...], tuple[int, ...]]:
    """The operations with a register each, which is free again after its last use; `seats` gets
    the places of the results. What is no target may end in the register of an operand."""
    first = len(seats)
    last: dict[Node, int] = {n: index for index, op in enumerate(operations)
                             for n in _operands(made, op)}  # fmt: skip
    last |= dict.fromkeys(targets, len(operations))
    free: dict[int, list[int]] = {0: [], 1: [], 2: []}
    registers: list[int] = []
    kinds: dict[Node, int] = {}
    steps = []
    for index, node in enumerate(operations):
        operation = made[node.place]
        assert isinstance(operation, Operation)
        kinds[node] = 0 if operation.name == "less_equal" and node.level == 1 else node.level
        for of in dict.fromkeys(operation.of):
            if of in kinds and last[of] == index:
                free[kinds[of]].append(seats[of])
        if not free[kinds[node]]:
            registers.append(kinds[node])
            free[kinds[node]].append(first + len(registers) - 1)
        out = free[kinds[node]].pop()
        steps.append(_step(made, node, seats, out))
        seats[node] = out
    return tuple(steps), tuple(registers)
