"""A tensor with its dimensions and the mesh axes that split each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from derive.notation.errors import ShardingError

Layout = tuple[tuple[str, ...], ...]
Split = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Tensor:
    """A tensor's name, its dimensions, and for each dimension the mesh axes that split it, the
    outermost first."""

    name: str
    dims: tuple[str, ...]
    layout: Layout

    def __str__(self) -> str:
        parts = (f"{d}_{joined(a)}" if a else d for d, a in self.split.items())
        return f"{self.name}[{', '.join(parts)}]"

    @property
    def latex(self) -> str:
        r"""The tensor as TeX: \text{In}[B_{X}, D]."""
        parts = []
        for dim, axes in self.split.items():
            letter, _, index = dim.partition("_")
            split = joined(axes)
            words = (_roman(index), split if split.isupper() else _roman(split))
            inner = ",".join(filter(None, words))
            parts.append(f"{letter}_{{{inner}}}" if inner else letter)
        return f"{latex_name(self.name)}[{', '.join(parts)}]"

    @property
    def split(self) -> Split:
        """The axes of each dimension, by dimension."""
        return dict(zip(self.dims, self.layout, strict=True))

    @property
    def axes(self) -> tuple[str, ...]:
        """Every axis that splits the tensor."""
        return tuple(axis for axes in self.layout for axis in axes)

    def axes_of(self, dim: str) -> tuple[str, ...]:
        """The mesh axes that split `dim`, outermost first; empty where it is whole or absent."""
        return self.layout[self.dims.index(dim)] if dim in self.dims else ()

    def dim_of(self, axis: str) -> str | None:
        """The dimension that `axis` splits, if any."""
        return next((dim for dim, axes in self.split.items() if axis in axes), None)

    def laid_out(self, split: Mapping[str, tuple[str, ...]]) -> Tensor:
        """The same tensor with the layout that `split` gives by dimension, else whole."""
        return replace(self, layout=tuple(split.get(dim, ()) for dim in self.dims))

    def named(self, name: str) -> Tensor:
        """A tensor of the same dimensions and layout under another name."""
        return replace(self, name=name)


def latex_name(name: str) -> str:
    r"""A tensor's name as TeX: \text{W}_{\text{in}}."""
    word, _, index = name.partition("_")
    return _roman(word) + (f"_{{{_roman(index)}}}" if index else "")


def _roman(word: str) -> str:
    """A word in upright letters; nothing for none."""
    escaped = word.replace("_", r"\_")
    return rf"\text{{{escaped}}}" if word else ""


def joined(axes: tuple[str, ...]) -> str:
    """Mesh axes in one word, as they are written after a dimension: XZ, or cp+tp."""
    letters = all(len(axis) == 1 and axis.isupper() for axis in axes)
    return ("" if letters else "+").join(axes)


def check_layout(tensor: Tensor) -> None:
    """Raise ShardingError where a mesh axis splits two dimensions of `tensor`, or one twice."""
    for axis in tensor.axes:
        if tensor.axes.count(axis) > 1:
            split = [dim for dim, axes in tensor.split.items() if axis in axes]
            where = " and ".join(split) if len(split) > 1 else f"{split[0]} twice"
            raise ShardingError(f"{tensor}: mesh axis {axis} splits {where}; it can split one once")
