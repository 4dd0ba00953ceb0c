"""A device mesh: cards numbered along axes, innermost first, and the groups that communicate.

Rank numbers rise along the innermost axis first, and consecutive ranks share a node. A group is a
line of cards along one axis: all other coordinates are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from math import prod
from operator import mul
from types import MappingProxyType

from derive.notation.errors import DeriveError, guarded, quoted, unknown, whole_number, written
from derive.notation.printed import counted

AXIS_NAMES = ("tp", "cp", "ep", "dp", "pp", "dp_shard", "dp_replicate", "etp", "edp")
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


@guarded
@dataclass(frozen=True, repr=False)
class Mesh:
    """Sizes by axis, innermost first, on nodes of so many cards.

    A card's place counts along the axes, innermost first; here it is its rank.
    """

    axes: tuple[tuple[str, int], ...]
    cards_per_node: int

    def __post_init__(self) -> None:
        names = [name for name, _ in self.axes]
        if not names:
            raise DeriveError("a mesh needs at least one axis")
        sizes = tuple((name, whole_number(name, size)) for name, size in self.axes)
        object.__setattr__(self, "axes", sizes)  # a number of NumPy or SymPy as Python's own
        cards = whole_number("cards per node", self.cards_per_node)
        object.__setattr__(self, "cards_per_node", cards)
        for name in names:
            if name not in AXIS_NAMES:
                raise unknown("mesh axis", name, AXIS_NAMES)
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

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The size of each axis, innermost first."""
        return MappingProxyType(dict(self.axes))

    @property
    def title(self) -> str:
        """What the shape is of, in words."""
        cards = f"{counted(self.cards, 'card')} on {counted(self.nodes, 'node')}"
        return f"{cards}, innermost first"

    def stride(self, axis: str) -> int:
        """How far apart the places of neighbours along the axis are; raises UnknownName."""
        if axis not in self._strides:
            raise unknown("mesh axis", str(axis), self.sizes)
        return self._strides[axis]

    @cached_property
    def _strides(self) -> Mapping[str, int]:
        names, sizes = zip(*self.axes, strict=True)
        return dict(zip(names, accumulate((1, *sizes), mul), strict=False))

    @property
    def nodes(self) -> int:
        """How many nodes the cards take, the last of which may have cards to spare."""
        return self.node(self.cards - 1) + 1

    def node(self, rank: int) -> int:
        """The node of a rank; raises DeriveError for a rank outside the mesh."""
        return self._checked(rank) // self.cards_per_node

    def each_group(self, axis: str) -> Iterator[Sequence[int]]:
        """The ranks of each group of the axis, rising, groups in the order of their first rank;
        raises UnknownName."""
        stride, size = self.stride(axis), self.sizes[axis]
        for place in map(self._place, range(self.cards)):
            if place // stride % size == 0:
                yield self._ranks(range(place, place + stride * size, stride))

    def groups(self, axis: str) -> tuple[tuple[int, ...], ...]:
        """The ranks of each group of the axis, groups in the order of their first rank."""
        return tuple(map(tuple, self.each_group(axis)))

    def inside_node(self, axis: str) -> bool:
        """Whether every group of the axis lies inside one node."""
        stride, size = self.stride(axis), self.sizes[axis]
        return (
            size == 1
            or self.cards <= self.cards_per_node
            or self.cards_per_node % (stride * size) == 0
        )

    def one_node(self, group: Sequence[int]) -> bool:
        """Whether ranks of the mesh that rise are all of one node."""
        return group[0] // self.cards_per_node == group[-1] // self.cards_per_node

    def coordinates(self, rank: int) -> dict[str, int]:
        """The index of a rank along each axis; raises DeriveError for a rank outside the mesh."""
        place = self._place(self._checked(rank))
        return {name: place // self.stride(name) % size for name, size in self.axes}

    def rank(self, coordinates: Mapping[str, int]) -> int:
        """The rank at these coordinates; an axis left out counts as 0.

        Raises UnknownName for an axis that is not there, DeriveError for an index outside it.
        """
        for name, index in coordinates.items():
            if name not in self.sizes:
                raise unknown("mesh axis", str(name), self.sizes)
            if type(index) is not int or not 0 <= index < self.sizes[name]:
                last = self.sizes[name] - 1
                told = f"expected 0 to {last}" if last else "expected 0"
                raise DeriveError(f"{name}: {told}, found {written(index)}")
        place = sum(index * self.stride(name) for name, index in coordinates.items())
        return self._ranks(range(place, place + 1))[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The axes from the outside in, as `init_device_mesh` takes them."""
        return tuple(name for name, _ in reversed(self.axes))

    def _checked(self, rank: int) -> int:
        if type(rank) is not int or not 0 <= rank < self.cards:
            ranks = f"0 to {self.cards - 1}"
            raise DeriveError(f"rank {written(rank)} is outside the mesh of ranks {ranks}")
        return rank

    def _place(self, rank: int) -> int:
        return rank

    def _ranks(self, places: range) -> Sequence[int]:
        return places


@guarded
def mesh(sizes: Mapping[str, int], cards_per_node: int, order: str | None = None) -> Mesh:
    """The mesh with these sizes. `order` lists the axes from the inside out ("tp,cp,dp,pp" or
    Megatron's "tp-cp-dp-pp"), or names a system (see ORDERS); without it the order of `sizes`.

    An axis of the order without a size has size 1 and is left out. Raises DeriveError for an axis
    that the order lacks or repeats.
    """
    if order is None:
        return Mesh(tuple(sizes.items()), cards_per_node)
    names = ordered(order)
    for name in sizes:
        if name not in names:
            raise DeriveError(f"the order {quoted(order)} lacks the axis {name}")
    return Mesh(tuple((n, sizes[n]) for n in names if n in sizes), cards_per_node)


@guarded
def ordered(order: str) -> tuple[str, ...]:
    """The axes of an order, from the inside out; raises UnknownName and DeriveError."""
    names = tuple(name.strip() for name in order.replace("-", ",").split(","))
    if len(names) == 1 and names[0] in ORDERS:
        return ORDERS[names[0]]
    for name in names:
        if not name:
            told = "expected axes such as tp,cp,dp,pp, or one of " + ", ".join(ORDERS)
            raise DeriveError(f"order: {told}; found {quoted(order)}")
        if name in ORDERS:
            told = f"mixes axes with {name}, which is an order by itself"
            raise DeriveError(f"the order {quoted(order)} {told}")
        if name not in AXIS_NAMES:
            if len(names) == 1:
                raise unknown("mesh axis or order", name, (*AXIS_NAMES, *ORDERS))
            raise unknown("mesh axis", name, AXIS_NAMES)
        if names.count(name) > 1:
            raise DeriveError(f"the order {quoted(order)} has {name} twice")
    return names


def from_outside_in(names: tuple[str, ...], shape: tuple[int, ...], cards_per_node: int) -> Mesh:
    """The mesh of `init_device_mesh(device, shape, mesh_dim_names=names)`."""
    if len(names) != len(shape):
        raise DeriveError(f"{len(names)} names for {len(shape)} sizes")
    return Mesh(tuple(zip(reversed(names), reversed(shape), strict=True)), cards_per_node)


@dataclass(frozen=True, repr=False)
class Regrouped(Mesh):
    """The cards of a mesh grouped for a mixture-of-experts layer: expert tensor, expert and expert
    data groups take the place of the tensor, context and data groups; stages stay as they are.

    Places count the cards of the first stage in rank order, then those of the next; `apart` is how
    far apart the ranks of the same card of two stages are.
    """

    apart: int = 1

    @property
    def title(self) -> str:
        """What the shape is of, in words."""
        return "the same cards for a mixture-of-experts layer"

    def inside_node(self, axis: str) -> bool:
        """Whether every group of the axis lies inside one node."""
        stride, size = self.stride(axis), self.sizes[axis]
        if size == 1 or self.apart % (stride * size) == 0:
            return super().inside_node(axis)
        first = (place for place in range(self.cards) if place // stride % size == 0)
        reach = stride * (size - 1)
        return all(self.one_node(self._ranks(range(p, p + reach + 1, reach))) for p in first)

    def _place(self, rank: int) -> int:
        rest, inner = divmod(rank, self.apart)
        outer, stage = divmod(rest, self.sizes["pp"])
        return stage * self.stride("pp") + outer * self.apart + inner

    def _ranks(self, places: range) -> Sequence[int]:
        return [self._rank(place) for place in places]

    def _rank(self, place: int) -> int:
        stage, rest = divmod(place, self.stride("pp"))
        outer, inner = divmod(rest, self.apart)
        return (outer * self.sizes["pp"] + stage) * self.apart + inner


def regrouped(cards: Mesh, *, etp: int | None = None, ep: int = 1) -> Regrouped:
    """The cards of each stage, in rank order, as etp x ep x edp, expert tensor innermost.

    Without etp it is tp, as Megatron-LM has it [R-megatron]. etp * ep must divide the cards of a
    stage (tp * cp * dp), which gives edp. Raises DeriveError.
    """
    stages = cards.sizes.get("pp", 1)
    stage = cards.cards // stages
    etp = cards.sizes.get("tp", 1) if etp is None else etp
    for name, size in (("etp", etp), ("ep", ep)):
        whole_number(name, size)
    if stage % (etp * ep):
        cards_of = f"the {stage} cards of a stage (tp x cp x dp)"
        told = "" if etp == 1 else "; etp is tp unless it is given, as etp=1"
        raise DeriveError(f"etp={etp} x ep={ep} does not divide {cards_of}{told}")
    sizes = (("etp", etp), ("ep", ep), ("edp", stage // (etp * ep)), ("pp", stages))
    apart = cards.stride("pp") if "pp" in cards.sizes else cards.cards
    return Regrouped(sizes, cards.cards_per_node, apart)


def lines(cards: Mesh) -> list[str]:
    """The shape, and a line for each axis: its groups, the first few, and where they lie."""
    shape = " x ".join(f"{name}={size}" for name, size in cards.axes)
    width = max(len(name) for name in cards.sizes)
    told = [f"{cards.title}: {shape}"]
    for axis in cards.sizes:
        count = cards.cards // cards.sizes[axis]
        first = islice(cards.each_group(axis), min(count, GROUPS))
        shown = " ".join([*map(_shown, first), *(["..."] if count > GROUPS else [])])
        where = "inside a node" if cards.inside_node(axis) else "across nodes"
        told.append(f"{axis:<{width}}  {counted(count, 'group')} {where}: {shown}")
    return told


def _shown(group: Sequence[int]) -> str:
    """The ranks of a group; of a long one the first ones and the last."""
    if len(group) <= RANKS:
        return str(list(group))
    return f"[{', '.join(map(str, group[: RANKS - 1]))}, ..., {group[-1]}]"
