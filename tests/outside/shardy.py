"""Shardy's own passes, run in this process, and the collectives that they put into a program.

    propagation -> explicit reshards -> collectives

The program keeps the whole tensors; what a device holds of each follows from its sharding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import prod

from cases import Sizes
from counted import Counted, Sent, sent
from jax.interpreters import mlir
from jaxlib.mlir import ir, passmanager

from derive.cost.block import Layout

PROPAGATE = "sdy-propagation-pipeline"
PARTITION = (
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true}),canonicalize,"
    "func.func(sdy-reshard-to-collectives),canonicalize,cse"
)

# Where each collective names its axes.
_AXES = {
    "sdy.all_gather": "gathering_axes",
    "sdy.all_to_all": "params",
    "sdy.all_reduce": "reduction_axes",
    "sdy.reduce_scatter": "reduce_scatter_axes",
}
_FREE = ("sdy.all_slice", "sdy.mesh", "sdy.constant")
_AXIS = re.compile(r'"(\w+)"(?::\((\d+)\)(\d+))?')

Part = tuple[str, str, str]  # an axis, and of a part of it what is before and its size


def module(functions: Iterable[str], mesh: Sizes) -> str:
    """The text of a module of functions that know the mesh as @mesh."""
    axes = ", ".join(f'"{axis}"={size}' for axis, size in mesh.items())
    return "\n".join(["module {", f"sdy.mesh @mesh = <[{axes}]>", *functions, "}"])


def sharding(layout: Layout) -> str:
    """A layout as the text of a sharding on @mesh."""
    dims = ", ".join("{" + ", ".join(f'"{axis}"' for axis in axes) + "}" for axes in layout)
    return f"<@mesh, [{dims}]>"


def split(layout: Layout) -> str:
    """What follows a tensor of that layout where a function takes it or gives it."""
    return f"{{sdy.sharding = #sdy.sharding{sharding(layout)}}}"


def counted(text: str, passes: str, mesh: Sizes) -> dict[str, Counted]:
    """The functions of a module by name: their collectives after some passes, and the FLOPs of
    their products on a device."""
    with mlir.make_ir_context():
        parsed = ir.Module.parse(text)
        passmanager.PassManager.parse(f"builtin.module({passes})").run(parsed.operation)
        found = (op for op in parsed.body.operations if op.operation.name == "func.func")
        return {ir.StringAttr(op.attributes["sym_name"]).value: _counted(op, mesh) for op in found}


def _counted(function: ir.Operation, mesh: Sizes) -> Counted:
    moves: list[Sent] = []
    flops = 0
    for op in _operations(function):
        if op.name == "stablehlo.dot_general":
            numbers = str(op.attributes["dot_dimension_numbers"])
            found = re.search(r"lhs_contracting_dimensions = \[(.*?)\]", numbers)
            summed = [int(n) for n in found[1].split(",")] if found else []
            left = _local(op.operands[0], mesh)
            flops += 2 * prod(_local(op.results[0], mesh)) * prod(left[place] for place in summed)
        elif op.name.startswith("sdy.") and op.name not in _FREE:
            moves.append(_sent(op, mesh))
    return Counted(tuple(moves), flops)


def _operations(function: ir.Operation) -> Iterator[ir.Operation]:
    for block in function.regions[0]:
        for op in block:
            yield op.operation


def _sent(op: ir.Operation, mesh: Sizes) -> Sent:
    kind, held = op.name.removeprefix("sdy."), prod(_local(op.operands[0], mesh))
    if kind == "collective_permute":
        before, after = _layout(op.operands[0]), _layout(op.results[0])
        changed = {
            part
            for one, other in zip(before, after, strict=True)
            for part in (*one, *other)
            if one != other
        }
        return sent("permute", {axis for axis, *_ in changed}, 1, held)
    axes = _AXIS.findall(str(op.attributes[_AXES[op.name]]))
    return sent(kind, {axis for axis, *_ in axes}, _size(axes, mesh), held)


def _size(parts: list[Part], mesh: Sizes) -> int:
    return prod(int(size) if size else mesh[axis] for axis, _, size in parts)


def _layout(value: ir.Value) -> list[list[Part]]:
    """The axes of each dimension of a value, the outermost first."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        given = owner.owner.attributes["arg_attrs"][value.arg_number]
        told = str(given["sdy.sharding"]) if "sdy.sharding" in given else ""
    else:
        name = next((n for n in ("out_sharding", "sdy.sharding") if n in owner.attributes), "")
        told = str(owner.attributes[name]) if name else ""
    dims = re.search(r"@\w+, \[(.*?)\]", told)
    if dims is None:  # nothing splits it
        return [[] for _ in value.type.shape]
    return [_AXIS.findall(dim) for dim in re.findall(r"\{(.*?)\}", dims[1])]


def _local(value: ir.Value, mesh: Sizes) -> list[int]:
    """The shape of a device's part of a value."""
    parts = zip(value.type.shape, _layout(value), strict=True)
    return [size // _size(axes, mesh) for size, axes in parts]
