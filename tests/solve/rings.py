"""Collectives on a simulated torus: pieces of an array of one byte go from link to link.

Each function moves every piece to where the collective wants it, checks that it got there, and
returns how many bytes each directed link carried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product

Link = tuple[int, int]
Traffic = Counter[Link]
HALF = Fraction(1, 2)


def all_gather(n: int, wrap: bool) -> Traffic:
    """Each device's n-th of the array to all: round a ring in halves, one each way; along a line
    whole, both ways."""
    traffic: Traffic = Counter()
    held: dict[int, Counter[int]] = {device: Counter({device: Fraction(1)}) for device in range(n)}
    for source in range(n):
        for way in (1, -1):
            at = source
            for _ in range(n - 1):
                to = at + way
                if wrap:
                    to %= n
                elif not 0 <= to < n:
                    break
                part = HALF if wrap else Fraction(1)
                traffic[at, way] += part / n
                held[to][source] += part
                at = to
    assert all(held[device][source] == 1 for device in range(n) for source in range(n))
    return traffic


def reduce_scatter(n: int, wrap: bool) -> Traffic:
    """Partial sums of each device's n-th travel to it and pick up every contribution once."""
    traffic: Traffic = Counter()
    for target in range(n):
        summed = Counter({target: Fraction(1)})
        for way in (1, -1):
            part = HALF if wrap else Fraction(1)
            if wrap:
                path = [(target + way * (k - n)) % n for k in range(1, n)]
            else:
                path = list(range(target) if way == 1 else range(n - 1, target, -1))
            for at in path:
                summed[at] += part
                traffic[at, way] += part / n
        assert all(summed[device] == 1 for device in range(n))
    return traffic


def all_to_all(n: int, wrap: bool) -> Traffic:
    """A piece from each device to each, the shorter way; half-way round, one half each way."""
    traffic: Traffic = Counter()
    for source, target in product(range(n), repeat=2):
        for way, part in routes(source, target, n, wrap):
            at = source
            while at != target:
                traffic[at, way] += part / n**2
                at = (at + way) % n
    return traffic


def routes(source: int, target: int, n: int, wrap: bool) -> Iterator[tuple[int, Fraction]]:
    """The ways from one device to another, and the share of the data that takes each."""
    right, left = (target - source) % n, (source - target) % n
    if not wrap:
        yield (1 if target > source else -1), Fraction(1)
    elif right == left:
        yield 1, HALF
        yield -1, HALF
    else:
        yield (1 if right < left else -1), Fraction(1)


# The phases of each collective, one after the other.
ON_A_RING: dict[str, tuple[Callable[[int, bool], Traffic], ...]] = {
    "all_gather": (all_gather,),
    "reduce_scatter": (reduce_scatter,),
    "all_reduce": (reduce_scatter, all_gather),
    "all_to_all": (all_to_all,),
}


def busiest(traffic: Counter[Link]) -> Fraction:
    """The bytes of the link that carries most."""
    return Fraction(max(traffic.values(), default=0))


def shared_ring(size: int, block: int, whole: bool) -> Traffic:
    """An all-gather on a ring of that size that is cut in two: over blocks of neighbours, or with
    `whole` over every `block`-th chip, whose rings go all the way round. The array of each group
    is one byte."""
    traffic: Traffic = Counter()
    if not whole:
        for start in range(0, size, block):
            for (at, way), part in all_gather(block, False).items():
                traffic[start + at, way] += part
        return traffic
    for start in range(block):
        for (at, way), part in all_gather(size // block, True).items():
            for hop in range(block):  # a hop of the group passes that many links
                traffic[(start + at * block + way * hop) % size, way] += part
    return traffic


def torus_all_gather(sizes: tuple[int, ...]) -> Fraction:
    """The busiest link of an all-gather over wrapped axes: the array in as many parts as axes, and
    part p goes round the axes p, p + 1, ... in turn."""
    devices = list(product(*map(range, sizes)))
    parts = len(sizes)
    piece = Fraction(1, len(devices) * parts)
    traffic: Counter[tuple[tuple[int, ...], int, int]] = Counter()
    for part in range(parts):
        held = {device: {device} for device in devices}
        for turn in range(parts):
            axis = (part + turn) % parts
            after = {device: set(pieces) for device, pieces in held.items()}
            for device in devices:
                for way in (1, -1):
                    at = device
                    for _ in range(sizes[axis] - 1):
                        traffic[at, axis, way] += len(held[device]) * piece / 2
                        at = _next(at, axis, way, sizes)
                        after[at] |= held[device]
            held = after
        assert all(held[device] == set(devices) for device in devices)
    return Fraction(max(traffic.values()))


def torus_all_to_all(sizes: tuple[int, ...]) -> Fraction:
    """The busiest link of an all-to-all over wrapped axes, one axis after the other."""
    devices = list(product(*map(range, sizes)))
    parts = len(sizes)
    piece = Fraction(1, len(devices) ** 2 * parts)
    traffic: Counter[tuple[tuple[int, ...], int, int]] = Counter()
    for part, source, target in product(range(parts), devices, devices):
        at = source
        for turn in range(parts):
            axis = (part + turn) % parts
            for way, share in routes(at[axis], target[axis], sizes[axis], True):
                here = at
                while here[axis] != target[axis]:
                    traffic[here, axis, way] += piece * share
                    here = _next(here, axis, way, sizes)
            at = (*at[:axis], target[axis], *at[axis + 1 :])
        assert at == target
    return Fraction(max(traffic.values()))


def _next(at: tuple[int, ...], axis: int, way: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    return (*at[:axis], (at[axis] + way) % sizes[axis], *at[axis + 1 :])
