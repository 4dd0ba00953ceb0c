"""A layer run on simulated devices against the unsharded layer, and the counts against `derive`."""

from __future__ import annotations

from math import prod

import sympy as sp
from derive.cost.sharding import Sharding, Tensor, sharding
from reference import branch_name, dims_of, truth
from simulator import Machine, Mesh, SimulationError

from derive.cost.program import Moved
from derive.cost.rules import gradient, passes
from derive.notation.symbols import find

ELEMENT, GRADIENT = 2, 4  # bytes; unlike, so that mixing them up shows


def sizes_for(layer: Sharding, mesh: Mesh) -> dict[str, int]:
    """A length per dimension that splits over the whole mesh, unlike for the first three."""
    devices = prod(mesh.sizes.values())
    dims = dims_of(layer)
    grow = (1, 2, 3, *(1 for _ in dims))
    return {dim: devices * factor for dim, factor in zip(dims, grow, strict=False)}


def starting(layer: Sharding) -> tuple[list[Tensor], list[Tensor]]:
    """The activations and the weights a backward pass may start from, in their declared layouts."""
    chain = [layer.operand]
    for made in layer.products:
        if len(made.weights) > 1:
            chain += [
                Tensor(branch_name(made, w), made.result.dims, made.result.layout)
                for w in made.weights
            ]
        chain.append(made.result)
    return chain, list(layer.weights)


def compare(layer: Sharding | str, mesh_sizes: dict[str, int], keep: str = "activations") -> None:
    """Run both passes; raise AssertionError where results, bytes or FLOPs differ from exact."""
    layer = sharding(layer) if isinstance(layer, str) else layer
    mesh = Mesh(mesh_sizes)
    sizes = sizes_for(layer, mesh)
    values = truth(layer, sizes)
    forward, backward = passes(layer, keep)
    chain, weights = starting(layer)

    first = Machine(mesh, values)
    for tensor in (layer.operand, *weights):
        first.place(tensor)
    first.run(forward.program)
    _holds(first, layer.result)

    second = Machine(mesh, values)
    for tensors, kept in ((chain, ("activations", "all")), (weights, ("weights", "all"))):
        for tensor in tensors:
            second.place(tensor)
        names = {tensor.name for tensor in tensors}
        if keep in kept:
            for tensor, shards in first.shards.items():
                if tensor.name in names and not first.partial[tensor]:
                    second.shards[tensor], second.partial[tensor] = shards, ()
    second.place(gradient(layer.result))
    second.run(backward.program)
    for tensor in (layer.operand, *weights):
        _holds(second, gradient(tensor))

    numbers = {find(name): sp.Integer(size) for name, size in sizes.items()}
    numbers |= {find(axis): sp.Integer(mesh_sizes.get(axis, 1)) for axis in "XYZ"}
    numbers |= {find("e"): sp.Integer(ELEMENT), find("e_g"): sp.Integer(GRADIENT)}
    numbers |= {find("fma"): sp.Integer(2)}
    gradients = {"d" + weight.name for weight in layer.weights}
    for cost, machine in ((forward, first), (backward, second)):
        _equal(cost.flops.xreplace(numbers), machine.flops, f"{layer}: {cost.name} FLOPs")
        assert cost.moves == tuple(op.move for op in cost.program if isinstance(op, Moved))
        for move, sent in zip(cost.moves, machine.sent, strict=True):
            one = GRADIENT if move.tensor in gradients else ELEMENT
            where = f"{layer}: {cost.name} {move.collective} of {move.tensor} over {move.axis}"
            _equal(move.sent_bytes.xreplace(numbers), sent.elements * one, f"{where}, sent")
            _equal(move.array_bytes.xreplace(numbers), sent.array * one, f"{where}, array")
            times = 2 if move.collective == "all_reduce" else 1
            _equal(move.bytes.xreplace(numbers), times * sent.array * one, f"{where}, bytes")


def _holds(machine: Machine, tensor: Tensor) -> None:
    machine.held(tensor)
    machine.check(tensor)


def _equal(derived: sp.Expr, counted: int, what: str) -> None:
    if derived != counted:
        raise SimulationError(f"{what}: derived {derived}, counted {counted}")
