"""A device mesh: cards numbered along axes, innermost first, and the groups that communicate.

Rank numbers rise along the innermost axis first, and consecutive ranks share a node. A group is a
line of cards along one axis: all other coordinates are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from derive.notation.errors import DeriveError, quoted, unknown

AXES = ("tp", "cp", "ep", "dp", "pp", "dp_shard", "dp_replicate", "etp", "edp")
ORDERS: Mapping[str, tuple[str, ...]] = {
    # The default `order` of Megatron-LM, from the inside out [R-megatron]. It makes one mesh for
    # attention, in which ep is 1, and one for the expert layers, in which cp is.
    "megatron": ("tp", "cp", "ep", "dp", "pp"),
    # torchtitan names its axes from the outside in; data parallelism is one of them, or two.
    "torchtitan": ("tp", "cp", "dp", "dp_shard", "dp_replicate", "pp"),
    # [TP, CP, PP, DP], the paper of Llama 3 [P-Llama3].
    "llama3": ("tp", "cp", "pp", "dp"),
}
LARGEST = 1 << 20


@dataclass(frozen=True)
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

    @property
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
        raise unknown("mesh axis", axis, self.sizes)

    def groups(self, axis: str) -> tuple[tuple[int, ...], ...]:
        """The ranks of each group of the axis, groups in the order of their first rank."""
        stride, size = self.stride(axis), self.sizes[axis]
        span = stride * size
        return tuple(
            tuple(range(outer + inner, outer + inner + span, stride))
            for outer in range(0, self.cards, span)
            for inner in range(stride)
        )

    def inside_node(self, axis: str) -> bool:
        """Whether every group of the axis lies inside one node."""
        node = self.cards_per_node
        return all(group[0] // node == group[-1] // node for group in self.groups(axis))

    def coordinates(self, rank: int) -> dict[str, int]:
        """The index of a rank along each axis; raises DeriveError for a rank outside the mesh."""
        if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank < self.cards:
            raise DeriveError(f"rank {rank} is outside the mesh of ranks 0 to {self.cards - 1}")
        found = {}
        for name, size in self.axes:
            rank, found[name] = divmod(rank, size)
        return found

    def rank(self, coordinates: Mapping[str, int]) -> int:
        """The rank at these coordinates; an axis left out counts as 0.

        Raises UnknownName for an axis that is not there, DeriveError for an index outside it.
        """
        for name, index in coordinates.items():
            if name not in self.sizes:
                raise unknown("mesh axis", name, self.sizes)
            if not 0 <= index < self.sizes[name]:
                raise DeriveError(f"{name}: expected 0 to {self.sizes[name] - 1}, found {index}")
        return sum(self.stride(name) * index for name, index in coordinates.items())

    @property
    def names(self) -> tuple[str, ...]:
        """The axes from the outside in, as `init_device_mesh` takes them."""
        return tuple(name for name, _ in reversed(self.axes))


def mesh(sizes: Mapping[str, int], cards_per_node: int, order: str = "") -> Mesh:
    """The mesh with these sizes. `order` lists the axes from the inside out ("tp,cp,dp,pp" or
    Megatron's "tp-cp-dp-pp"), or names a system (see ORDERS); without it the order of `sizes`.

    An axis of the order without a size has size 1 and is left out. Raises DeriveError for an axis
    that the order lacks or repeats.
    """
    if not order:
        return Mesh(tuple(sizes.items()), cards_per_node)
    names = ordered(order)
    for name in sizes:
        if name not in names:
            raise DeriveError(f"the order {quoted(order)} lacks the axis {name}")
    return Mesh(tuple((n, sizes[n]) for n in names if n in sizes), cards_per_node)


def ordered(text: str) -> tuple[str, ...]:
    """The axes of an order, from the inside out; raises UnknownName and DeriveError."""
    if text in ORDERS:
        return ORDERS[text]
    names = tuple(name.strip() for name in text.replace("-", ",").split(","))
    for name in names:
        if name not in AXES:
            raise unknown("mesh axis or order", name, (*AXES, *ORDERS))
        if names.count(name) > 1:
            raise DeriveError(f"the order {quoted(text)} has {name} twice")
    return names


def from_outside_in(names: tuple[str, ...], shape: tuple[int, ...], cards_per_node: int) -> Mesh:
    """The mesh of `init_device_mesh(device, shape, mesh_dim_names=names)`."""
    if len(names) != len(shape):
        raise DeriveError(f"{len(names)} names for {len(shape)} sizes")
    return Mesh(tuple(zip(reversed(names), reversed(shape), strict=True)), cards_per_node)


@dataclass(frozen=True)
class Regrouped:
    """The same cards grouped for a mixture-of-experts layer: expert tensor, expert and expert data
    groups take the place of the tensor, context and data groups; stages stay as they are."""

    mesh: Mesh
    sizes: Mapping[str, int]
    axes: Mapping[str, tuple[tuple[int, ...], ...]]

    def groups(self, axis: str) -> tuple[tuple[int, ...], ...]:
        """The ranks of each group of etp, ep, edp or pp; raises UnknownName."""
        if axis not in self.axes:
            raise unknown("mesh axis", axis, self.axes)
        return self.axes[axis]

    def inside_node(self, axis: str) -> bool:
        """Whether every group of the axis lies inside one node."""
        node = self.mesh.cards_per_node
        return all(len({rank // node for rank in group}) == 1 for group in self.groups(axis))


def regrouped(of: Mesh, *, etp: int = 1, ep: int = 1) -> Regrouped:
    """The cards of each stage, in rank order, as etp x ep x edp, expert tensor innermost.

    etp * ep must divide the cards of a stage (tp * cp * dp), which gives edp. Raises DeriveError.
    """
    stages = of.sizes.get("pp", 1)
    cards = of.cards // stages
    if etp < 1 or ep < 1 or cards % (etp * ep):
        raise DeriveError(
            f"etp={etp} x ep={ep} does not divide the {cards} cards of a stage (tp x cp x dp)"
        )
    inner = Mesh((("etp", etp), ("ep", ep), ("edp", cards // (etp * ep))), of.cards_per_node)
    members = list(_stages(of))
    axes = {
        axis: tuple(
            sorted(
                tuple(ranks[i] for i in group) for ranks in members for group in inner.groups(axis)
            )
        )
        for axis in ("etp", "ep", "edp")
    }
    axes["pp"] = of.groups("pp") if "pp" in of.sizes else tuple((r,) for r in range(of.cards))
    return Regrouped(of, {**inner.sizes, "pp": stages}, axes)


def _stages(of: Mesh) -> Iterator[list[int]]:
    if "pp" not in of.sizes:
        yield list(range(of.cards))
        return
    stride, size = of.stride("pp"), of.sizes["pp"]
    for stage in range(size):
        yield [rank for rank in range(of.cards) if rank // stride % size == stage]
