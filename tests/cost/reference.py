"""The unsharded block in plain NumPy: what a sharded one has to reproduce, forward and backward.

Small integers held in float64 keep every product and sum exact, so results are compared with `==`
where the block has no roots and exponentials.
"""

from __future__ import annotations

import functions
import numpy as np
from simulator import Mesh

from derive.cost.block import FUNCTIONS, Block, FunctionLine, Layout
from derive.cost.program import Applied

Values = dict[str, np.ndarray]
Sizes = dict[str, int]
Placing = tuple[Mesh, Layout, tuple[str, ...]]
"""Which row takes which place of an expert: on each device of a mesh those that it has of both, by
the layout of the dimensions of rows and the axes of places."""
ONE_DEVICE: Placing = (Mesh({}), (), ())


def is_exact(block: Block) -> bool:
    """Whether integers stay integers in a block."""
    lines = (line for line in block.lines if isinstance(line, FunctionLine))
    return all(line.function in functions.EXACT for line in lines)


def einsum(
    left: np.ndarray,
    a: tuple[str, ...],
    right: np.ndarray,
    b: tuple[str, ...],
    out: tuple[str, ...],
) -> np.ndarray:
    """The product of two arrays whose dimensions have names."""
    number = {dim: place for place, dim in enumerate(dict.fromkeys((*a, *b)))}
    x, y, z = ([number[dim] for dim in dims] for dims in (a, b, out))
    return np.asarray(np.einsum(left, x, right, y, z))


def inputs(block: Block, sizes: Sizes, seed: int = 0) -> Values:
    """Random small integers for the inputs, every parameter and the gradients of the results, or
    eighths of them where the block has exponentials; one column of each row for look-ups."""
    random = np.random.default_rng(seed)
    scale = 1.0 if is_exact(block) else 8.0
    given: Values = {}
    for name, tensor in (
        *((name, block[name]) for name in (*block.inputs, *block.parameters)),
        *((f"d{name}", block[name]) for name in block.outputs),
    ):
        shape = [sizes[dim] for dim in tensor.dims]
        if name in block.looked_up:
            given[name] = np.eye(shape[-1])[random.integers(0, shape[-1], shape[:-1])]
        else:
            given[name] = random.integers(-2, 3, shape) / scale
    return given


def forward(block: Block, given: Values, sizes: Sizes, placing: Placing = ONE_DEVICE) -> Values:
    """Every tensor of the forward pass by name."""
    values = dict(given)
    for line in block.lines:
        if isinstance(line, FunctionLine):
            operands = [values[name] for name in line.operands]
            values[line.result] = _function(block, line, operands, sizes, placing)
            continue
        left, out = block[line.left], block[line.result].dims
        for name, branch in zip(line.rights, line.branches, strict=True):
            right = block[name]
            values[branch] = einsum(values[left.name], left.dims, values[name], right.dims, out)
        values[line.result] = np.prod([values[name] for name in line.branches], axis=0)
    return values


def backward(block: Block, values: Values, sizes: Sizes, placing: Placing = ONE_DEVICE) -> Values:
    """`values` of the forward pass and every gradient, each named with a leading d."""
    values = dict(values)

    def add(name: str, part: np.ndarray) -> None:
        values[f"d{name}"] = values[f"d{name}"] + part if f"d{name}" in values else part

    for line in reversed(block.lines):
        grad, out = values[f"d{line.result}"], block[line.result].dims
        if isinstance(line, FunctionLine):
            needed = [values[line.operands[place]] for place in FUNCTIONS[line.function].needs]
            if FUNCTIONS[line.function].needs_result:
                needed.append(values[line.result])
            for place, name in enumerate(line.operands):
                add(name, _function(block, line, [grad, *needed], sizes, placing, place))
            continue
        left = block[line.left]
        for name, branch in zip(line.rights, line.branches, strict=True):
            others = [values[other] for other in line.branches if other != branch]
            values[f"d{branch}"] = part = np.prod([grad, *others], axis=0)
            right = block[name]
            add(name, einsum(values[left.name], left.dims, part, out, right.dims))
            if line.left not in block.looked_up:
                add(line.left, einsum(part, out, values[name], right.dims, left.dims))
    return values


def _function(
    block: Block,
    line: FunctionLine,
    arrays: list[np.ndarray],
    sizes: Sizes,
    placing: Placing,
    wrt: int | None = None,
) -> np.ndarray:
    result = block[line.result] if wrt is None else block[line.operands[wrt]]
    if line.function in ("route", "combine"):
        mesh, rows, places = placing
        step = Applied(line.function, (), result, wrt)
        made = np.zeros([sizes[dim] for dim in result.dims])
        wide = result.dims[:2] == ("E", "J")
        for device in np.ndindex(mesh.shape):
            here, there = (
                mesh.block((*layout, *((),) * (array.ndim - len(layout))), array.shape, device)
                for layout, array in zip(
                    (rows, ((), places)) if wide else (((), places), rows),
                    (arrays[0], made),
                    strict=True,
                )
            )
            made[there] = functions.routed(step, arrays[0][here], 0, made[there].shape)
        return made
    if wrt is None:
        return functions.FORWARD[line.function](*arrays)
    return functions.GRADIENTS[line.function](wrt, *arrays)


def truth(block: Block, sizes: Sizes, seed: int = 0, placing: Placing = ONE_DEVICE) -> Values:
    """Every tensor and gradient of the unsharded block by name."""
    values = forward(block, inputs(block, sizes, seed), sizes, placing)
    return backward(block, values, sizes, placing)


def loss(block: Block, given: Values, sizes: Sizes) -> float:
    """The sum of all results, each weighted by its gradient."""
    values = forward(block, given, sizes)
    return float(sum((values[name] * given[f"d{name}"]).sum() for name in block.outputs))


def differentiable(block: Block) -> tuple[str, ...]:
    """The names of the tensors from outside that have a gradient."""
    names = (*block.inputs, *block.parameters)
    return tuple(name for name in names if name not in block.looked_up)
