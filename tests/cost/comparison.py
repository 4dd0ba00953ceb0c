"""A block run on simulated devices against the unsharded block, and the counts against `derive`."""

from __future__ import annotations

from fractions import Fraction
from math import gcd, lcm, prod

import numpy as np
import sympy as sp
from functions import places_and_rows
from reference import Placing, Sizes, differentiable, is_exact, truth
from simulator import Machine, Mesh, SimulationError

from derive.cost.block import FUSED, Block, FunctionLine, Fusion, Tensor
from derive.cost.passes import Program, gradient, program
from derive.cost.program import Applied, Moved, Multiplied, PassCost, Saved, Sliced
from derive.cost.reader import block
from derive.cost.sizes import sizes_of
from derive.notation.symbols import find, mesh_axis

ELEMENT, GRADIENT, WIDE = 2, 5, 7  # bytes; unlike, so that mixing them up shows
WIDE_TENSORS = ("Prob", "Scale", "dProb", "dScale")  # of a router
UNFUSED = Fusion("unfused", "unfused", "unfused")
FUSIONS = (FUSED, UNFUSED, Fusion("recomputed", "unfused"), Fusion("unfused", "fused", "unfused"))


def tensors_of(whole: Program) -> list[Tensor]:
    """Every tensor of the passes in every layout that it has."""
    tensors = [*whole.block.tensors, *whole.block.states]
    for cost in (whole.forward, whole.backward, whole.update):
        for op in cost.program:
            if isinstance(op, (Moved, Sliced)):
                tensors += [op.before, op.after]
            elif isinstance(op, Applied):
                tensors += [*op.operands, op.result]
            else:
                tensors += [tensor for pair in op.pairs for tensor in (pair.left, pair.right)]
                tensors.append(op.result)
    return list(dict.fromkeys(tensors))


def alike(read: Block) -> list[list[str]]:
    """The dimensions in groups of one length: those that a view calls by another name."""
    groups = {dim: [dim] for dim in read.dims}
    for line in read.lines:
        if isinstance(line, FunctionLine) and line.function == "view":
            for one, other in zip(read[line.operands[0]].dims, read[line.result].dims, strict=True):
                if groups[one] is not groups[other]:
                    groups[one] += groups[other]
                    groups |= dict.fromkeys(groups[other], groups[one])
    return list({id(group): group for group in groups.values()}.values())


def sizes_for(whole: Program, mesh: Mesh) -> Sizes:
    """A length per dimension that splits over whatever splits it, unlike for the first three.

    The places of experts, E J, are a whole number of times their rows, B; and what is all-reduced
    has a whole chunk for each device.
    """
    splits: dict[str, set[tuple[str, ...]]] = {}
    for tensor in tensors_of(whole):
        for dim, axes in tensor.split.items():
            splits.setdefault(dim, set()).add(axes)
    sizes: Sizes = {}
    groups = alike(whole.block)
    for group, factor in zip(groups, (1, 2, 3, *(1 for _ in groups)), strict=False):
        length = factor * lcm(*(mesh.size(axes) for dim in group for axes in splits[dim]))
        sizes |= dict.fromkeys(group, max(length, 2))
    for line in whole.block.lines:
        if isinstance(line, FunctionLine) and line.function in ("route", "combine"):
            wide, narrow = places_and_rows(whole.block[line.operands[0]], whole.block[line.result])
            count = len(narrow.dims) - len(wide.dims[2:] or ("E",))
            rows = prod(sizes[dim] for dim in narrow.dims[:count])
            sizes["J"] *= rows // gcd(rows, sizes["E"] * sizes["J"])
    for cost in (whole.forward, whole.backward):
        for op in cost.program:
            if isinstance(op, Moved) and op.move.collective == "all_reduce":
                shard = prod(sizes[dim] // mesh.size(axes) for dim, axes in op.before.split.items())
                n = mesh.size(op.move.axes)
                group = next(g for g in groups if op.before.dims[0] in g)
                sizes |= {dim: sizes[dim] * (n // gcd(n, shard)) for dim in group}
    return sizes


def placing(whole: Program, mesh: Mesh) -> Placing:
    """Which row takes which place, as the first route of the forward pass has it."""
    for op in whole.forward.program:
        if isinstance(op, Applied) and op.function in ("route", "combine"):
            wide, narrow = places_and_rows(op.operands[0], op.result)
            count = len(narrow.dims) - len(wide.dims[2:] or ("E",))
            return mesh, narrow.layout[:count], wide.layout[1]
    return mesh, (), ()


def compare(
    read: Block | str,
    mesh_sizes: dict[str, int],
    keep: str = "activations",
    fusion: Fusion = FUSED,
    least: bool = False,
    made: dict[str, tuple[str, ...]] | None = None,
) -> Program:
    """Run all passes; raise AssertionError where results, bytes or FLOPs differ from what is
    derived, and return the program that was run: the canonical or the least one. `made` are axes
    that are others of the mesh together."""
    read = block(read) if isinstance(read, str) else read
    degrees = {axis: mesh_sizes.get(axis, 1) for axis in read.mesh} or {"X": 1}
    degrees = mesh_sizes if made else degrees
    whole = program(read, keep, fusion, tuple(degrees.items()) if least else None)
    mesh = Mesh(sizes_of(read, degrees).parts if least else degrees, made or {})
    sizes = sizes_for(whole, mesh)
    values, whole_numbers = truth(read, sizes, 0, placing(whole, mesh)), is_exact(read)
    wanted: dict[Tensor, np.ndarray] = {}
    forward, backward, update = (Machine(mesh, values, whole_numbers, wanted) for _ in range(3))
    count = Counter(whole, mesh, sizes)

    for name in (*read.inputs, *read.parameters):
        forward.place(read[name])
    forward.run(whole.forward.program)
    for name in read.outputs:
        forward.held(read[name])

    for saved in whole.saved:  # and the backward pass starts from nothing else
        count.saved(saved.name, saved.bytes, keep_one(forward, backward, read, saved))
    for name in read.parameters:
        backward.place(read[name])
    for name in read.outputs:
        backward.place(gradient(read[name]))
    backward.run(whole.backward.program)
    in_vain = {one.tensor for one in whole.saved if not one.function} - backward.used
    if in_vain:
        raise SimulationError(f"{read}: saved in vain: {', '.join(map(str, in_vain))}")
    for name in differentiable(read):
        backward.held(gradient(read.state_of(name) if name in read.parameters else read[name]))

    for name in read.parameters:  # the optimizer's state, and from it the parameters again
        update.place(read.state_of(name))
    update.run(whole.update.program)
    for name in read.parameters:
        update.held(read[name])

    count.cost(whole.forward, forward)
    count.cost(whole.backward, backward)
    count.cost(whole.update, update)
    for tensor, size in whole.parameters:
        shard = mesh.spread(values[tensor.name], tensor.layout)
        count.equal(size, shard.size // prod(mesh.shape), f"elements of {tensor}")
    return whole


def keep_one(forward: Machine, backward: Machine, read: Block, saved: Saved) -> int | Fraction:
    """Hand one saved tensor over to the backward pass; the bytes of it on a device."""
    tensor, devices = saved.tensor, prod(forward.mesh.shape)
    if saved.function:
        if tensor.name not in forward.statistics:
            raise SimulationError(f"{saved.function} has no {tensor.name} to keep")
        kept = backward.statistics[tensor.name] = forward.statistics[tensor.name]
        backward.put(tensor, kept)  # a cast is what the gradient of a norm is of
        wide = tensor.name.endswith("+fp32") or " of " in tensor.name
        return (WIDE if wide else ELEMENT) * (kept.size // devices)
    shards = forward.held(tensor)
    backward.put(tensor, shards)
    if tensor.name in read.looked_up:  # the number of a column for each row
        return WIDE * (shards.size // shards.shape[-1] // devices)
    return (WIDE if tensor.name in WIDE_TENSORS else ELEMENT) * (shards.size // devices)


class Counter:
    """The expressions of a program at the sizes of a run, against what was counted."""

    def __init__(self, whole: Program, mesh: Mesh, sizes: Sizes) -> None:
        self.block = whole.block
        self.known: dict[sp.Expr, Fraction] = {}
        self.sizes = sizes
        self.numbers = {find(name): sp.Integer(size) for name, size in sizes.items()}
        axes = {axis.partition(":")[0] for axis in (*mesh.sizes, *mesh.made)}
        self.numbers |= {mesh_axis(axis): sp.Integer(mesh.size((axis,))) for axis in axes}
        bytes_ = {"e": ELEMENT, "e_g": GRADIENT, "e_32": WIDE, "fma": 2}
        self.numbers |= {find(name): sp.Integer(size) for name, size in bytes_.items()}

    def element(self, name: str) -> Fraction:
        """The bytes of an element of the tensor called `name`."""
        base = name.partition("+")[0]
        if base in self.block.looked_up:
            return Fraction(WIDE, self.sizes[self.block[base].dims[-1]])
        if base in WIDE_TENSORS:
            return Fraction(WIDE)
        reduced = {f"d{parameter}" for parameter in self.block.parameters}
        return Fraction(GRADIENT if base in reduced else ELEMENT)

    def cost(self, cost: PassCost, machine: Machine) -> None:
        """FLOP and bytes of a pass."""
        self.equal(cost.flops, machine.flops, f"{cost.name} FLOPs")
        again = sum(one.flops for one in cost.program if isinstance(one, Multiplied) and one.again)
        self.equal(sp.sympify(again), 0, f"{cost.name} FLOPs of what is made again")
        assert cost.moves == tuple(op.move for op in cost.program if isinstance(op, Moved))
        for move, sent in zip(cost.moves, machine.sent, strict=True):
            one = self.element(move.tensor)
            where = f"{cost.name} {move.collective} of {move.tensor} over {move.axis}"
            self.equal(move.sent_bytes, sent.elements * one, f"{where}, sent")
            self.equal(move.array_bytes, sent.array * one, f"{where}, array")
            times = 2 if move.collective == "all_reduce" else 1
            self.equal(move.bytes, times * sent.array * one, f"{where}, bytes")

    def saved(self, name: str, derived: sp.Expr, counted: int | Fraction) -> None:
        self.equal(derived, counted, f"saved {name}")

    def number(self, expr: sp.Expr) -> Fraction:
        """An expression at the sizes of the run: SymPy's own way takes several times as long."""
        if expr not in self.known:
            values = [self.number(one) for one in expr.args]
            if expr.is_Pow:
                self.known[expr] = values[0] ** int(values[1])
            elif expr.is_Mul:
                self.known[expr] = prod(values, start=Fraction(1))
            elif expr.is_Add:
                self.known[expr] = sum(values, start=Fraction(0))
            else:
                number = self.numbers.get(expr, expr)
                self.known[expr] = Fraction(int(number.p), int(number.q))
        return self.known[expr]

    def equal(self, derived: sp.Expr, counted: int | Fraction, what: str) -> None:
        value = self.number(derived)
        if value != counted:
            raise SimulationError(f"{self.block}: {what}: derived {value}, counted {counted}")
