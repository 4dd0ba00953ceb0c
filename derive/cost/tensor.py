"""A tensor with its dimensions and the mesh axes that split each of them."""

from __future__ import annotations

from dataclasses import dataclass

from derive.notation.errors import ShardingError

AXES = ("X", "Y", "Z")
Layout = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor's name, its dimensions, and for each dimension the mesh axes that split it."""

    name: str
    dims: tuple[str, ...]
    layout: Layout

    def __str__(self) -> str:
        split = ["_".join(filter(None, (d, "".join(a)))) for d, a in self._pairs()]
        return f"{self.name}[{', '.join(split)}]"

    @property
    def latex(self) -> str:
        r"""The tensor as TeX: \text{In}[B_{X}, D]."""
        split = [f"{d}_{{{''.join(a)}}}" if a else d for d, a in self._pairs()]
        name, _, index = self.name.partition("_")
        word = rf"\text{{{name}}}" + (rf"_{{\text{{{index}}}}}" if index else "")
        return f"{word}[{', '.join(split)}]"

    def _pairs(self) -> list[tuple[str, tuple[str, ...]]]:
        return list(zip(self.dims, self.layout, strict=True))

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(axis for axes in self.layout for axis in axes)

    def axes_of(self, dim: str) -> tuple[str, ...]:
        """The mesh axes that split `dim`, outermost first; empty where it is whole or absent."""
        return self.layout[self.dims.index(dim)] if dim in self.dims else ()


def check_layout(tensor: Tensor) -> None:
    """Raise ShardingError where a mesh axis splits two dimensions of `tensor`, or one twice."""
    for axis in tensor.axes:
        if tensor.axes.count(axis) > 1:
            split = [d for d in tensor.dims if axis in tensor.axes_of(d)]
            where = " and ".join(split) if len(split) > 1 else f"{split[0]} twice"
            raise ShardingError(f"{tensor}: mesh axis {axis} splits {where}; it can split one once")
