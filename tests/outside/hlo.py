"""XLA's compiled text as what each device sends and computes.

The text is that of one device, flat: the passes that fuse operations and that join collectives are
left out (see `FLAT`), which changes neither bytes nor FLOPs.
"""

from __future__ import annotations

import re
from math import prod

import numpy as np
from cases import Sizes
from counted import Counted, Sent, sent

FLAT = {
    "xla_disable_hlo_passes": "fusion,dot-library-rewriter,cpu-all-reduce-combiner,fusion-wrapper",
    "xla_backend_optimization_level": 0,  # of the machine code, which nobody runs
}

_OPERATION = re.compile(r"^\s*(?:ROOT )?%([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\((.*?)\)(.*)$", re.M)
_SHAPE = re.compile(r"\b[a-z]+\d+\[([\d,]*)\]")
_KINDS = {
    "all-gather": "all_gather",
    "all-reduce": "all_reduce",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "collective-permute": "permute",
}
# What leaves the elements of a result where they are.
_UNMOVED = ("bitcast", "copy", "reshape", "transpose", "convert")


class Text:
    """The operations of a module's text by name."""

    def __init__(self, text: str) -> None:
        self.types: dict[str, str] = {}
        self.users: dict[str, list[re.Match[str]]] = {}
        self.operations = list(_OPERATION.finditer(text))
        for found in self.operations:
            self.types[found[1]] = found[2]
            for operand in re.findall(r"%([\w.-]+)", found[4]):
                self.users.setdefault(operand, []).append(found)

    def elements(self, name: str) -> int:
        """The elements of a result, of all its parts where it is a tuple."""
        return sum(prod(shape) for shape in _shapes(self.types[name]))

    def slice_of(self, name: str) -> int:
        """The most that any user needs of a result: all of it but where every one slices it."""
        needed = 0
        for user in self.users.get(name, []):
            if user[3] == "dynamic-slice" and user[4].startswith(f"%{name},"):
                needed = max(needed, self.elements(user[1]))
            elif user[3] in _UNMOVED:
                needed = max(needed, self.slice_of(user[1]))
            else:
                needed = self.elements(name)
        return needed or self.elements(name)


def _shapes(kind: str) -> list[list[int]]:
    return [[int(n) for n in found.split(",") if n] for found in _SHAPE.findall(kind)]


def counted(text: str, mesh: Sizes) -> Counted:
    """The collectives and the FLOPs of the products; `mesh` has the axes of the devices in order.

    On this processor a reduction whose result every user slices at once stays two operations, which
    the compilers of accelerators join: it counts as the reduce-scatter that it is. Where a tensor
    is gathered over a group twice, since the group is spelt in two ways, the second is `repeated`.
    """
    module, flops, repeated = Text(text), 0, 0
    moves: list[Sent] = []
    gathered: set[tuple[str, Sent]] = set()
    for found in module.operations:
        name, _, kind, operands, rest = found.groups()
        if kind == "dot":
            left = _shapes(module.types[operands.split(",")[0].strip("% ")])[0]
            places = re.findall(r"\d+", re.search(r"lhs_contracting_dims=\{(.*?)\}", rest)[1])
            flops += 2 * module.elements(name) * prod(left[int(place)] for place in places)
        elif kind.endswith("-start"):
            raise ValueError(f"{kind}: a collective in two halves, which is not read")
        elif kind in _KINDS:
            for one in _sent(module, name, _KINDS[kind], rest, mesh):
                if (operands, one) in gathered:
                    repeated += one.bytes
                    continue
                moves.append(one)
                if one.kind == "all_gather":
                    gathered.add((operands, one))
    return Counted(tuple(moves), flops, repeated)


def _sent(module: Text, name: str, kind: str, rest: str, mesh: Sizes) -> list[Sent]:
    held = module.elements(name)
    if kind == "permute":
        listed = re.search(r"source_target_pairs=\{(.*?)\}\}", rest)[1]
        pairs = [[int(n) for n in re.findall(r"\d+", pair)] for pair in listed.split("},")]
        axes = {axis for pair in pairs for axis in _axes(pair, mesh)}
        return [sent(kind, axes, 1, held)] if axes else []
    group = _group(rest, prod(mesh.values()))
    n = len(group)
    if kind == "all_gather":
        held //= n
    elif kind == "reduce_scatter":
        held *= n
    elif kind == "all_reduce" and module.slice_of(name) * n <= held:
        kind = "reduce_scatter"
    return [sent(kind, _axes(group, mesh), n, held)] if n > 1 else []


def _axes(devices: list[int], mesh: Sizes) -> list[str]:
    """The mesh axes along which some devices differ."""
    places = np.unravel_index(devices, tuple(mesh.values()))
    return [axis for axis, place in zip(mesh, places, strict=True) if len(set(place)) > 1]


def _group(rest: str, devices: int) -> list[int]:
    """The first group of devices, of which there are three spellings: listed, a number of groups
    cut from a transposed array of all devices, and the axes of a mesh of the compiler's own."""
    if listed := re.search(r"replica_groups=\{\{([\d,]+)\}", rest):
        return _numbers(listed[1])
    if cut := re.search(r"replica_groups=\[\d+,(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", rest):
        return [int(n) for n in _order(devices, cut[2], cut[3])[: int(cut[1])]]
    named = re.search(
        r"replica_groups=mesh\[(.*?)\](?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? "
        r"\{(.*?)\}",
        rest,
    )
    if named is None:
        raise ValueError(f"groups of devices in an unknown spelling: {rest}")
    sizes = {axis: int(size) for axis, size in re.findall(r"'(\w+)'=(\d+)", named[1])}
    ids = _order(devices, named[2] or str(devices), named[3])
    # A part of an axis, 'axis':(before)size, is an axis of its own between two others.
    shape: list[int] = []
    group: list[int] = []
    parts = re.findall(r"'(\w+)'(?::\((\d+)\)(\d+))?", named[4])
    for axis, size in sizes.items():
        before, used = 1, 1
        for name, place, part in parts:
            if name == axis:
                before, used = (int(place), int(part)) if part else (1, size)
                group.append(len(shape) + 1)
        shape += [before, used, size // before // used]
    others = [place for place in range(len(shape)) if place not in group]
    return [int(n) for n in ids.reshape(shape).transpose(*others, *group).ravel()][
        : prod(shape[place] for place in group)
    ]


def _order(devices: int, shape: str, turned: str | None) -> np.ndarray:
    """All devices as an array of a shape, its dimensions in another order, flat again."""
    numbers = np.arange(devices).reshape(_numbers(shape))
    return numbers.transpose(_numbers(turned) if turned else None).ravel()


def _numbers(listed: str) -> list[int]:
    return [int(n) for n in listed.split(",")]
