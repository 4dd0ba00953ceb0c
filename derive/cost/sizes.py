"""The sizes at which programs are compared: those that are given, and others that are taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

import sympy as sp

from derive.cost.block import Block, ProductLine
from derive.notation.symbols import vocabulary

NO_AXES = ("N", "S", "virtual")  # numbers of devices that are no axis inside a slice
# Bits, if not given: those of fp4 are no whole bytes.
ELEMENTS: Mapping[str, int] = MappingProxyType({"e": 16, "e_g": 16, "e_32": 32})
# Lengths of dimensions where none are given, as of a large model.
USUAL: Mapping[str, int] = MappingProxyType({
    "B": 2**17, "T": 2**13, "U": 2**13, "D": 2**13, "F": 2**15, "V": 2**17, "K": 8, "G": 8,
    "H": 128, "E": 64, "J": 2**11, "b_seq": 1, "B_seq": 2**10, "F_E": 2**11, "n_S": 1, "r_q": 1536,
    "r_kv": 512, "H_N": 128, "H_R": 64, "H_V": 128,
})  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """The sizes at which programs are compared: devices along each mesh axis, and the lengths of
    dimensions; `given` names those that are not taken where nothing is said. `elements` are the
    bits of one, `products` how many are searched; `apart` says whether an axis of 2 x 2 devices may
    be taken as two, named as Shardy does, Y:(1)2 and Y:(2)2."""

    degrees: Mapping[str, int]
    lengths: Mapping[str, int]
    given: frozenset[str]
    elements: Mapping[str, int]
    products: int = 0
    apart: bool = False

    @property
    def parts(self) -> dict[str, int]:
        """The devices along each axis, those taken apart as far as their primes go."""
        known: dict[str, int] = {}
        for axis, n in self.degrees.items():
            primes = sp.factorint(n, multiple=True) if self.apart and n < 2**12 else ()
            for place, prime in enumerate(primes if len(primes) > 1 else ()):
                known[f"{axis}:({prod(primes[:place])}){prime}"] = int(prime)
            known |= {axis: n} if len(primes) < 2 else {}
        return known

    def __str__(self) -> str:
        sizes = [*self.degrees.items(), *self.lengths.items()]
        told = (f"{n} = {x:,}" + " (taken)" * (n not in self.given) for n, x in sizes)
        return ", ".join(told)


def sizes_of(block: Block, given: Mapping[str, int]) -> Sizes:
    """The sizes of a block that are given, and others: lengths as of a large model where it has
    products, and for mesh axes primes, so that no permute rests on two of them being alike. Mesh
    axes that are given and split nothing are there, too; axes are taken apart, as others do."""
    every = {n for n, known in vocabulary().items() if known.role in ("mesh", "axis")}
    others = (name for name in given if name in every.difference(NO_AXES))
    degrees = {axis: given.get(axis, 0) for axis in (*block.mesh, *others)}
    prime = 3
    for axis in degrees:
        while degrees[axis] == 0:
            prime = int(sp.nextprime(prime))
            degrees[axis] = prime if all(n % prime for n in degrees.values() if n) else 0
    products = sum(len(line.rights) for line in block.lines if isinstance(line, ProductLine))
    lengths = {**(USUAL if products else {}), **given}
    named = {dim: lengths[dim] for dim in block.dims if dim in lengths}
    elements = {name: given.get(name, n) for name, n in ELEMENTS.items()}
    return Sizes(degrees, named, frozenset(given), elements, products, apart=True)
