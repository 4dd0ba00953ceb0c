"""A device mesh: cards numbered along axes, innermost first, and the groups that communicate.

Rank numbers rise along the innermost axis first, and consecutive ranks share a node. A group is a
line of cards along one axis: all other coordinates are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import MappingProxyType

from derive.notation.errors import DeriveError, quoted, unknown
from derive.plan.wording import counted

AXES = ("tp", "cp", "ep", "dp", "pp", "dp_shard", "dp_replicate", "etp", "edp")
ORDERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # The default `order` of Megatron-LM, from the inside out [R-megatron]. It makes one mesh
        # for attention, in which ep is 1, and one for the expert layers, in which cp is.
        "megatron": ("tp", "cp", "ep", "dp", "pp"),
        # torchtitan names its axes from the outside in; data parallelism is one of them, or two.
        "torchtitan": ("tp", "cp", "dp", "dp_shard", "dp_replicate", "pp"),
        # [TP, CP, PP, DP], the paper of Llama 3 [P-Llama3].
        "llama3": ("tp", "cp", "pp", "dp"),
    }
)
LARGEST = 1 << 20
GROUPS = 4  # of an axis that are shown
RANKS = 8  # of a group that are shown


@dataclass(frozen=True, repr=False)
class Mesh:
    """Sizes by axis, innermost first, on nodes of so many cards."""

    axes: tuple[tuple[str, int], ...]
    cards_per_node: int

    def __post_init__(self) -> None:
        names = [name for name, _ in self.axes]
        if not names:
            raise DeriveError("a mesh needs at least one axis")
        for name, size in (*self.axes, ("cards per node", self.cards_per_node)):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise DeriveError(f"{name}: expected a whole number from 1, found {size}")
        for name in names:
            if name not in AXES:
                raise unknown("mesh axis", name, AXES)
            if names.count(name) > 1:
                raise DeriveError(f"mesh axis {name} is given twice")
        if self.cards > LARGEST:
            raise DeriveError(f"a mesh of {self.cards:,} cards; the limit is {LARGEST:,}")

    def __repr__(self) -> str:
        """Its shape and the first groups of each axis, as `derive mesh` prints them."""
        return "\n".join(lines(self))

    @cached_property
    def cards(self) -> int:
        """How many cards the mesh has."""
        return prod(size for _, size in self.axes)

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each axis, innermost first."""
        return dict(self.axes)

    def stride(self, axis: str) -> int:
        """How far apart the ranks of neighbours along the axis are; raises UnknownName."""
        stride = 1
        for name, size in self.axes:
            if name == axis:
                return stride
            stride *= size
        raise unknown("mesh axis", str(axis), self.sizes)

    @property
    def nodes(self) -> int:
        """How many nodes the cards take, the last of which may have cards to spare."""
        return self.node(self.cards - 1) + 1

    def node(self, rank: int) -> int:
        """The node of a rank; raises DeriveError for a rank outside the mesh."""
        return self._checked(rank) // self.cards_per_node

    def each_group(self, axis: str) -> Iterator[range]:
        """The ranks of each group of the axis, one group after the other."""
        stride, size = self.stride(axis), self.sizes[axis]
        span = stride * size
        for outer in range(0, self.cards, span):
            for inner in range(outer, outer + stride):
                yield range(inner, inner + span, stride)

    def groups(self, axis: str) -> tuple[tuple[int, ...], ...]:
        """The ranks of each group of the axis, groups in the order of their first rank."""
        return tuple(map(tuple, self.each_group(axis)))

    def inside_node(self, axis: str) -> bool:
        """Whether every group of the axis lies inside one node."""
        return all(self.one_node(group) for group in self.each_group(axis))

    def one_node(self, group: Sequence[int]) -> bool:
        """Whether ranks of the mesh that rise are all of one node."""
        return group[0] // self.cards_per_node == group[-1] // self.cards_per_node

    def coordinates(self, rank: int) -> dict[str, int]:
        """The index of a rank along each axis; raises DeriveError for a rank outside the mesh."""
        self._checked(rank)
        found = {}
        for name, size in self.axes:
            rank, found[name] = divmod(rank, size)
        return found

    def rank(self, coordinates: Mapping[str, int]) -> int:
        """The rank at these coordinates; an axis left out counts as 0.

        Raises UnknownName for an axis that is not there, DeriveError for an index outside it.
        """
        rank, stride = 0, 1
        indices = _indices(coordinates, self.sizes)
        for name, size in self.axes:
            rank += stride * indices[name]
            stride *= size
        return rank

    def _checked(self, rank: int) -> int:
        if type(rank) is not int or not 0 <= rank < self.cards:
            raise DeriveError(f"rank {rank} is outside the mesh of ranks 0 to {self.cards - 1}")
        return rank

    @property
    def names(self) -> tuple[str, ...]:
        """The axes from the outside in, as `init_device_mesh` takes them."""
        return tuple(name for name, _ in reversed(self.axes))


def _indices(coordinates: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, int]:
    """The index along every axis, 0 where it is left out; raises as `Mesh.rank` does."""
    if not isinstance(coordinates, Mapping):
        raise DeriveError(f"expected an index by axis, found {quoted(coordinates)}")
    for name, index in coordinates.items():
        if name not in sizes:
            raise unknown("mesh axis", str(name), sizes)
        if type(index) is not int or not 0 <= index < sizes[name]:
            told = f"expected 0 to {sizes[name] - 1}" if sizes[name] > 1 else "expected 0"
            raise DeriveError(f"{name}: {told}, found {index}")
    return {name: coordinates.get(name, 0) for name in sizes}


def mesh(sizes: Mapping[str, int], cards_per_node: int, order: str | None = None) -> Mesh:
    """The mesh with these sizes. `order` lists the axes from the inside out ("tp,cp,dp,pp" or
    Megatron's "tp-cp-dp-pp"), or names a system (see ORDERS); without it the order of `sizes`.

    An axis of the order without a size has size 1 and is left out. Raises DeriveError for an axis
    that the order lacks or repeats.
    """
    if not isinstance(sizes, Mapping) or not all(isinstance(name, str) for name in sizes):
        found = quoted(sizes)
        raise DeriveError(f'a mesh: expected sizes by axis such as {{"tp": 2}}, found {found}')
    if order is None:
        return Mesh(tuple(sizes.items()), cards_per_node)
    names = ordered(order)
    for name in sizes:
        if name not in names:
            raise DeriveError(f"the order {quoted(order)} lacks the axis {name}")
    return Mesh(tuple((n, sizes[n]) for n in names if n in sizes), cards_per_node)


def ordered(text: str) -> tuple[str, ...]:
    """The axes of an order, from the inside out; raises UnknownName and DeriveError."""
    if not isinstance(text, str):
        raise DeriveError(f"expected an order such as tp,cp,dp,pp, found {quoted(text)}")
    names = tuple(name.strip() for name in text.replace("-", ",").split(","))
    if len(names) == 1 and names[0] in ORDERS:
        return ORDERS[names[0]]
    for name in names:
        if not name:
            told = "expected axes such as tp,cp,dp,pp, or one of " + ", ".join(ORDERS)
            raise DeriveError(f"order: {told}; found {quoted(text)}")
        if name in ORDERS:
            raise DeriveError(
                f"the order {quoted(text)} mixes axes with {name}, which is an order by itself"
            )
        if name not in AXES:
            if len(names) == 1:
                raise unknown("mesh axis or order", name, (*AXES, *ORDERS))
            raise unknown("mesh axis", name, AXES)
        if names.count(name) > 1:
            raise DeriveError(f"the order {quoted(text)} has {name} twice")
    return names


def from_outside_in(names: tuple[str, ...], shape: tuple[int, ...], cards_per_node: int) -> Mesh:
    """The mesh of `init_device_mesh(device, shape, mesh_dim_names=names)`."""
    if len(names) != len(shape):
        raise DeriveError(f"{len(names)} names for {len(shape)} sizes")
    return Mesh(tuple(zip(reversed(names), reversed(shape), strict=True)), cards_per_node)


@dataclass(frozen=True, repr=False)
class Regrouped:
    """The same cards grouped for a mixture-of-experts layer: expert tensor, expert and expert data
    groups take the place of the tensor, context and data groups; stages stay as they are.

    `inner` is the mesh of the cards of one stage, in rank order.
    """

    mesh: Mesh
    inner: Mesh

    def __repr__(self) -> str:
        """Its shape and the first groups of each axis, as `derive mesh` prints them."""
        return "\n".join(lines(self))

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each axis: etp, ep, edp and pp."""
        return {**self.inner.sizes, "pp": self._stages}

    def groups(self, axis: str) -> tuple[tuple[int, ...], ...]:
        """The ranks of each group of etp, ep, edp or pp, groups in the order of their first rank;
        raises UnknownName."""
        return tuple(sorted(self.each_group(axis)))

    def each_group(self, axis: str) -> Iterator[tuple[int, ...]]:
        """The ranks of each group of the axis, stage after stage; raises UnknownName."""
        if axis not in self.sizes:
            raise unknown("mesh axis", str(axis), self.sizes)
        stages = map(self._members, range(self._stages))
        if axis == "pp":
            yield from zip(*stages, strict=True)
            return
        for ranks in stages:
            for places in self.inner.each_group(axis):
                yield tuple(ranks[places.start : places.stop : places.step])

    def inside_node(self, axis: str) -> bool:
        """Whether every group of the axis lies inside one node."""
        return all(self.mesh.one_node(group) for group in self.each_group(axis))

    def coordinates(self, rank: int) -> dict[str, int]:
        """The index of a rank along each axis; raises DeriveError for a rank outside the mesh."""
        stage = self.mesh.coordinates(rank).get("pp", 0)
        outer, inside = divmod(rank, self._stride * self._stages)
        at = outer * self._stride + inside % self._stride
        return {**self.inner.coordinates(at), "pp": stage}

    def rank(self, coordinates: Mapping[str, int]) -> int:
        """The rank at these coordinates; an axis left out counts as 0. Raises as `Mesh.rank`."""
        at = _indices(coordinates, self.sizes)
        return self._rank(at.pop("pp"), self.inner.rank(at))

    def _rank(self, stage: int, at: int) -> int:
        """The rank of a card of a stage, by its place among them in rank order."""
        outer, inside = divmod(at, self._stride)
        return (outer * self._stages + stage) * self._stride + inside

    def _members(self, stage: int) -> list[int]:
        """The ranks of a stage, rising."""
        first = range(stage * self._stride, self.mesh.cards, self._stages * self._stride)
        return [rank for start in first for rank in range(start, start + self._stride)]

    @property
    def _stages(self) -> int:
        return self.mesh.sizes.get("pp", 1)

    @property
    def _stride(self) -> int:
        """How far apart the ranks of the same card of two stages are."""
        return self.mesh.stride("pp") if "pp" in self.mesh.sizes else self.mesh.cards


def regrouped(of: Mesh, *, etp: int = 1, ep: int = 1) -> Regrouped:
    """The cards of each stage, in rank order, as etp x ep x edp, expert tensor innermost.

    etp * ep must divide the cards of a stage (tp * cp * dp), which gives edp. Raises DeriveError.
    """
    cards = of.cards // of.sizes.get("pp", 1)
    for name, size in (("etp", etp), ("ep", ep)):
        if type(size) is not int or size < 1:
            raise DeriveError(f"{name}: expected a whole number from 1, found {size}")
    if cards % (etp * ep):
        raise DeriveError(
            f"etp={etp} x ep={ep} does not divide the {cards} cards of a stage (tp x cp x dp)"
        )
    sizes = (("etp", etp), ("ep", ep), ("edp", cards // (etp * ep)))
    return Regrouped(of, Mesh(sizes, of.cards_per_node))


def lines(of: Mesh | Regrouped) -> list[str]:
    """The shape, and a line for each axis: its groups, the first few, and where they lie."""
    shape = " x ".join(f"{name}={size}" for name, size in of.sizes.items())
    if isinstance(of, Mesh):
        cards = f"{counted(of.cards, 'card')} on {counted(of.nodes, 'node')}"
        made = [f"{cards}, innermost first: {shape}"]
    else:
        made = [f"the same cards for a mixture-of-experts layer: {shape}"]
    width = max(len(name) for name in of.sizes)
    for axis in of.sizes:
        groups = of.groups(axis)
        shown = " ".join(_ranks(group) for group in groups[:GROUPS])
        more = " ..." if len(groups) > GROUPS else ""
        where = "inside a node" if of.inside_node(axis) else "across nodes"
        made.append(f"{axis:<{width}}  {counted(len(groups), 'group')} {where}: {shown}{more}")
    return made


def _ranks(group: Sequence[int]) -> str:
    """The ranks of a group; of a long one the first ones and the last."""
    if len(group) <= RANKS:
        return str(list(group))
    return f"[{', '.join(map(str, group[: RANKS - 1]))}, ..., {group[-1]}]"
