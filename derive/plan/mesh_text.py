"""A mesh in words: its shape, the first groups of each axis, and whether they stay in a node."""

from __future__ import annotations

from collections.abc import Sequence

from derive.plan.mesh import Mesh, Regrouped

GROUPS = 4  # of an axis that are shown
RANKS = 8  # of a group that are shown


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


def counted(count: int, noun: str) -> str:
    """A count with its noun: "1 node", "8 nodes"."""
    return f"{count} {noun}{'s'[: count != 1]}"


def _ranks(group: Sequence[int]) -> str:
    """The ranks of a group; of a long one the first ones and the last."""
    if len(group) <= RANKS:
        return str(list(group))
    return f"[{', '.join(map(str, group[: RANKS - 1]))}, ..., {group[-1]}]"
