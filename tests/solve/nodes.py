"""Collectives over chips in nodes: every piece goes from chip to chip, over the links into the
switches of a node or over the network card of the chip that sends it.

Each function moves every piece of an array of one byte to where the collective wants it, checks
that it got there, and returns the most bytes that any chip sent over each kind of link.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction

Chip = tuple[int, int]  # the node, and the place in it


class Wires:
    """What each chip sent, by kind of link."""

    def __init__(self) -> None:
        self.sent: dict[str, Counter[Chip]] = {"node": Counter(), "dcn": Counter()}

    def send(self, source: Chip, target: Chip, size: Fraction) -> None:
        assert source != target
        kind = "node" if source[0] == target[0] else "dcn"
        self.sent[kind][source] += size

    def most(self) -> dict[str, Fraction]:
        return {kind: max(sent.values()) for kind, sent in self.sent.items() if sent}


def node_traffic(collective: str, nodes: int, chips: int) -> dict[str, Fraction]:
    """The most that a chip sends over each kind of link, the array being one byte."""
    if collective == "all_reduce":
        phases = [_reduce_scatter(nodes, chips), _all_gather(nodes, chips)]
    else:
        phases = [{"all_gather": _all_gather, "reduce_scatter": _reduce_scatter,
                   "all_to_all": _all_to_all}[collective](nodes, chips)]  # fmt: skip
    total: Counter[str] = Counter()
    for phase in phases:
        total.update(phase)
    return dict(total)


def _every(nodes: int, chips: int) -> list[Chip]:
    return [(node, place) for node in range(nodes) for place in range(chips)]


def _all_gather(nodes: int, chips: int) -> dict[str, Fraction]:
    """First between chips of one place, then inside the nodes."""
    every, wires = _every(nodes, chips), Wires()
    piece = Fraction(1, len(every))
    held = {chip: {chip} for chip in every}
    for source in every:
        for node in range(nodes):
            if node != source[0]:
                wires.send(source, (node, source[1]), piece)
                held[node, source[1]].add(source)
    for source, pieces in [(chip, set(pieces)) for chip, pieces in held.items()]:
        for place in range(chips):
            if place != source[1]:
                wires.send(source, (source[0], place), piece * len(pieces))
                held[source[0], place] |= pieces
    assert all(pieces == set(every) for pieces in held.values())
    return wires.most()


def _reduce_scatter(nodes: int, chips: int) -> dict[str, Fraction]:
    """First inside the nodes, then between chips of one place; each sum counts who is in it."""
    every, wires = _every(nodes, chips), Wires()
    piece = Fraction(1, len(every))
    summed: dict[tuple[Chip, Chip], set[Chip]] = defaultdict(set)  # who holds, and of which piece
    for node in range(nodes):
        for place in range(chips):
            for target in [chip for chip in every if chip[1] == place]:
                for other in range(chips):
                    if other != place:
                        wires.send((node, other), (node, place), piece)
                    summed[(node, place), target].add((node, other))
    for (holder, target), who in [(key, set(who)) for key, who in summed.items()]:
        if holder != target:
            wires.send(holder, target, piece)
            summed[target, target] |= who
    assert all(summed[chip, chip] == set(every) for chip in every)
    return wires.most()


def _all_to_all(nodes: int, chips: int) -> dict[str, Fraction]:
    """Straight from each chip to each, of the n-th that it holds an n-th."""
    every, wires = _every(nodes, chips), Wires()
    piece = Fraction(1, len(every) ** 2)
    for source in every:
        for target in every:
            if source != target:
                wires.send(source, target, piece)
    return wires.most()
