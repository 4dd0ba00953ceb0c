"""Where the least program of a product turns with a size: it moves the activations, say, instead of
the weights below so many tokens. What two programs send is linear in the length of a dimension, so
that the turn is a closed form."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import sympy as sp

from derive.cost.block import Block, ProductLine, Split, Tensor
from derive.cost.least import candidates, priced
from derive.cost.program import Move, Moved, elements
from derive.cost.rules import Pass
from derive.cost.sizes import Sizes
from derive.notation.symbols import find

SAMPLED = tuple(2**power for power in range(41))  # lengths at which the least program is searched


class Turn(NamedTuple):
    """Below a length of `dim` the least program of `result` makes the moves `below`, from there on
    those `above`: they send less, or others would multiply more often (see `least.division`)."""

    result: str
    dim: str
    length: sp.Expr
    below: tuple[Move, ...]
    above: tuple[Move, ...]

    def told(self, block: Block) -> str:
        """What is moved on either side, but for the length."""
        sides = []
        for moves in (self.below, self.above):
            names = {move.tensor in block.parameters for move in moves}
            kind = "both" if len(names) > 1 else "weights" if True in names else "activations"
            steps = (f"{m.collective.replace('_', '-')} {m.tensor} {m.axis}" for m in moves)
            sides.append(f"{kind} ({', '.join(steps)})" if moves else "nothing")
        return f"{self.result}: move {' instead of '.join(sides)} below {self.dim}"


def turns(block: Block, sizes: Sizes, dim: str | None = None) -> Iterator[Turn]:
    """The turns of each product of a forward pass, its operands as they are declared, with the
    length of `dim`, or else of the first dimension of the left operand, at sizes of all others."""
    for line in (line for line in block.lines if isinstance(line, ProductLine)):
        for right, branch in zip(line.rights, line.branches, strict=True):
            tensors = block[line.left], block[right], block[branch]
            along = dim or tensors[0].dims[0]
            if any(along in tensor.dims for tensor in tensors):
                yield from _turns(tensors, along, sizes)


def _turns(tensors: tuple[Tensor, Tensor, Tensor], along: str, sizes: Sizes) -> Iterator[Turn]:
    left, right, result = tensors
    sizes = replace(sizes, given=sizes.given - {along})  # so that no length bars a split
    ways = list(candidates(([left], [right]), result, sizes))
    whole = [elements(tensor, without=tensor.axes) for tensor in tensors]

    def at(length: int) -> dict[sp.Symbol, sp.Integer]:
        known = {**sizes.lengths, **sizes.degrees, along: length}
        return {find(name): sp.Integer(n) for name, n in known.items()}

    def best(length: int) -> Split:
        bytes_of = [int(one.xreplace(at(length))) for one in whole]
        return min(priced(ways, tensors, bytes_of, sizes), key=lambda way: way[0])[1].split

    def least(length: int) -> tuple[Move, ...]:
        known = replace(sizes, lengths={**sizes.lengths, along: length})
        one = Pass({left.name: [left], right.name: [right]}, (), sizes=known)
        one.multiply([(left, right, sp.S.One)], result, [best(length)])
        return tuple(op.move for op in one.program if isinstance(op, Moved))

    length = 1
    for longer in SAMPLED:
        while (here := best(length)) != best(longer):  # each program is least over one stretch
            lengths = range(length, longer)
            length += bisect_left(lengths, True, key=lambda n: best(n) != here)
            below, above = least(length - 1), least(length)
            sent = [sp.Add(*(move.sent_bytes for move in moves)) for moves in (below, above)]
            # Else it turns where another tensor is the largest, which decides how it is divided.
            for one, other in (sent, *combinations(whole, 2)):
                difference = one - other
                slope, rest = (difference.coeff(find(along), n) for n in (1, 0))
                turn = _plain(-rest / slope) if slope else slope
                if length - 1 <= turn.xreplace(at(0)) <= length:
                    yield Turn(result.name, along, turn, below, above)
                    break
        length = longer


def _plain(turn: sp.Expr) -> sp.Expr:
    """A length, which is positive, without minus signs where it is printed: D*F/(F - D)."""
    above, below = sp.fraction(sp.factor(turn))
    negative = above.could_extract_minus_sign()
    return -above / sp.expand(-below) if negative else above / below
