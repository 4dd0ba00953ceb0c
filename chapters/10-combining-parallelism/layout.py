"""The mesh: the example of 16 cards, the orders of three systems, and the layout principles."""

from __future__ import annotations

import sympy as sp

from derive import number
from derive.book import percent
from derive.book.cards import MeshDrawing
from derive.notation import symbols as v
from derive.plan.mesh import ORDERS, Mesh, from_outside_in, mesh, ordered

from .common import FOUND, STEP, at, chapter, h100, share, whole

node = chapter.given("node-cards", h100.quantity("scaleup_chips"), cite="NB")
NODE = int(node.value)
EXAMPLE = mesh({"tp": 2, "cp": 2, "dp": 2, "pp": 2}, NODE)
RANK = 13

chapter.claim("mesh-cards", number(EXAMPLE.cards, name="cards", status="derived"), "exact")
chapter.claim("mesh-nodes", number(EXAMPLE.cards // NODE, name="nodes", status="derived"), "exact")
chapter.require(
    "adjacent-ranks",
    holds=bool(
        all(
            len({rank // NODE for rank in range(k, k + NODE)}) == 1
            for k in range(0, EXAMPLE.cards, NODE)
        )
    ),
    because="rank // 8 is one node for ranks 8k to 8k+7",
)
chapter.claim(
    "mesh-groups", number(len(EXAMPLE.groups("tp")), name="groups", status="derived"), "exact"
)
FIRST_FOUR = {
    "tp": ((0, 1), (2, 3), (4, 5), (6, 7)),
    "cp": ((0, 2), (1, 3), (4, 6), (5, 7)),
    "dp": ((0, 4), (1, 5), (2, 6), (3, 7)),
    "pp": ((0, 8), (1, 9), (2, 10), (3, 11)),
}
INSIDE = {"tp": True, "cp": True, "dp": True, "pp": False}
chapter.holds(
    *(
        (f"mesh-groups-{axis}", EXAMPLE.groups(axis)[:4] == four, f"the first groups of {axis}")
        for axis, four in FIRST_FOUR.items()
    ),
    (
        "mesh-inside-node",
        {axis: EXAMPLE.inside_node(axis) for axis in INSIDE} == INSIDE
        and {len(EXAMPLE.groups(axis)) for axis in INSIDE} == {8},
        "which groups stay in a node",
    ),
    (
        "mesh-rank-13",
        EXAMPLE.coordinates(RANK) == {"tp": 1, "cp": 0, "dp": 1, "pp": 1}
        and EXAMPLE.rank({"tp": 1, "cp": 0, "dp": 1, "pp": 1}) == RANK,
        "13 = 8 + 4 + 1",
    ),
)


def listed(groups: tuple[tuple[int, ...], ...]) -> str:
    """Groups as they are printed in code."""
    return " ".join(str(list(group)) for group in groups)


chapter.table(
    "mesh-groups",
    "Axis | Stride, in ranks | Groups | The first four | Where",
    [
        [
            axis,
            whole(EXAMPLE.stride(axis), "stride"),
            whole(len(EXAMPLE.groups(axis)), "groups"),
            f"`{listed(EXAMPLE.groups(axis)[:4])}`",
            "inside a node" if EXAMPLE.inside_node(axis) else "across nodes",
        ]
        for axis in EXAMPLE.sizes
    ],
)


# In an alternative text a rank is a word: it is read aloud.
SPOKEN = {5: "five", 9: "nine", 12: "twelve", 13: "thirteen", 15: "fifteen"}
companions = {
    axis: SPOKEN[rank]
    for axis in EXAMPLE.sizes
    for group in EXAMPLE.groups(axis)
    for rank in group
    if RANK in group and rank != RANK
}
chapter.plot(
    "mesh",
    MeshDrawing(EXAMPLE, RANK),
    alt=(
        f"The cards of the example in nodes and tensor groups: rank {SPOKEN[RANK]} with "
        "{tp} in its tensor group, {cp} in its context group, {dp} in its data group and "
        "{pp} in its pipeline".format(**companions)
    ),
)

# Orders.
named = from_outside_in(("pp", "dp", "cp", "tp"), (2, 2, 2, 2), NODE)
chapter.holds(
    ("megatron-order", ordered("tp-cp-ep-dp-pp") == ORDERS["megatron"], "the order string"),
    ("torchtitan-order", named == EXAMPLE, "names from the outside in give the same mesh"),
    ("llama3-order", ORDERS["llama3"] == ("tp", "cp", "pp", "dp"), "[TP, CP, PP, DP]"),
)
llama_mesh = mesh({"tp": 2, "cp": 2, "dp": 2, "pp": 2}, NODE, "llama3")
chapter.require(
    "llama3-order-outside",
    holds=bool(llama_mesh.inside_node("pp") and not llama_mesh.inside_node("dp")),
    because="groups of pp and dp in that order",
)

# Principles.
passes = (
    STEP.term("t_tp").expr * v.W_tp * v.tp / (v.tp - 1) / (2 * v.e * v.T_r * v.b_seq * v.D * v.L_p)
)
chapter.claim(
    "tp-collectives", number(sp.Rational(passes), name="collectives", status="derived"), "exact"
)
most = max(int(ranking[v.tp].max()) for ranking in FOUND.values())
chapter.require("tp-at-most-node", most, "<=", NODE)
across, inside = at(FOUND["70b-64-8k"], 8, 2, 1), at(FOUND["70b-64-8k"], 4, 2, 2)
exposed = chapter.shown("cp-not-hidden-short", share(across, "cp"), percent(1))
chapter.require("cp-hidden-inside", inside["cp"].value, "==", 0)
dp_parts = STEP.term("dp").expr.free_symbols
chapter.require(
    "dp-once-per-step", holds=bool(v.n_mb not in dp_parts), because="no factor of micro-batches"
)

# The rule of the last exercise, against the mesh: a size for each axis, in two orders.
SIZES = {"tp": 4, "cp": 3, "dp": 5, "pp": 2}


def by_rule(of: Mesh) -> bool:
    """Whether coordinates, ranks and groups are what the strides say."""
    ranks = range(of.cards)
    for axis, size in of.sizes.items():
        stride = of.stride(axis)
        if any(of.coordinates(r)[axis] != r // stride % size for r in ranks):
            return False
        starts = [r for r in ranks if r // stride % size == 0]
        if of.groups(axis) != tuple(tuple(r + i * stride for i in range(size)) for r in starts):
            return False
    return all(of.rank(of.coordinates(r)) == r for r in ranks)


both = [mesh(SIZES, NODE, order) for order in ("megatron", "llama3")]
chapter.holds(("mesh-any", all(map(by_rule, both)), "strides, ranks and groups of two meshes"))
