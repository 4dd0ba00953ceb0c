"""Where the least program turns: each side is the least one there, by a search at that length."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

import pytest
import sympy as sp

from derive.cost.program import Move, Moved
from derive.cost.reader import block
from derive.cost.rules import Pass
from derive.cost.sizes import sizes_of
from derive.cost.turns import Turn, turns
from derive.notation.symbols import find

TYPED = {
    "FSDP": "In[B_X, D] . W[D_X, F] -> Out[B_X, F]",
    "tensor": "In[B, D_X] . W[D, F_X] -> Out[B, F_X]",
    "both": "In[B_X, D_Y] . W[D_X, F_Y] -> Out[B_X, F_Y]",
    "summed": "In[B, D_X] . W[D, F] -> Out[B, F_X]",
    "rows to columns": "In[B_X, D] . W[D, F] -> Out[B, F_X]",
    "axes against each other": "In[B, D] . W[D, F_X] -> Out[B, F_Y]",
}
GIVEN = {"B": 60, "D": 480, "F": 1440, "H": 60, "X": 3, "Y": 5, "e": 2}
NUMBERS = {find(name): sp.Integer(n) for name, n in GIVEN.items()}


def sent(moves: tuple[Move, ...], length: dict[sp.Symbol, sp.Expr]) -> Fraction:
    total = sp.Add(*(move.sent_bytes for move in moves)).xreplace({**NUMBERS, **length})
    return Fraction(int(total.p), int(total.q))


def searched(text: str, dim: str, length: int) -> tuple[Move, ...]:
    """The moves of the least program at a length."""
    read = block(text)
    sizes = sizes_of(read, GIVEN)
    sizes = replace(sizes, lengths={**sizes.lengths, dim: length}, given=sizes.given - {dim})
    names = ("In", "W", "Out")
    one = Pass({name: [read[name]] for name in names[:2]}, (), sizes=sizes)
    one.multiply([(read["In"], read["W"], sp.S.One)], read["Out"])
    return tuple(op.move for op in one.program if isinstance(op, Moved))


@pytest.mark.parametrize("dim", ["B", "D", "F"])
@pytest.mark.parametrize("name", TYPED)
def test_each_side_of_a_turn_is_least_there(name: str, dim: str) -> None:
    read = block(TYPED[name])
    each = list(turns(read, sizes_of(read, GIVEN), dim))
    lengths = [turn.length.xreplace(NUMBERS) for turn in each]
    assert lengths == sorted({*lengths})  # no turn is told twice
    for turn in each:
        at = turn.length.xreplace(NUMBERS)
        assert turn.dim == dim and at > 0
        for length, side, other in (
            (ceil(at) - 1, turn.below, turn.above),
            (floor(at) + 1, turn.above, turn.below),
        ):
            here = {find(dim): sp.Integer(length)}
            best = sent(searched(TYPED[name], dim, length), here)
            assert sent(side, here) == best <= sent(other, here), (turn, length)


def test_activations_are_moved_instead_of_weights_below_a_batch() -> None:
    """FSDP by hand: gathering W sends D F (X-1)/X; taking In apart by its columns and scattering
    the sums sends B D (X-1)/X**2 + B F (X-1)/X. Equal at B = D F X / (D + F X)."""
    read = block(TYPED["FSDP"])
    (turn,) = turns(read, sizes_of(read, {**GIVEN, "X": 2}))
    assert [move.collective for move in turn.below] == ["all_to_all", "reduce_scatter"]
    assert [move.collective for move in turn.above] == ["all_gather"]
    d, f, x = map(find, "DFX")
    assert sp.simplify(turn.length - d * f * x / (d + f * x)) == 0
    assert turn.told(read) == (
        "Out: move activations (all-to-all In X, reduce-scatter Out X) "
        "instead of weights (all-gather W X) below B"
    )


def test_what_is_moved_on_either_side_is_told() -> None:
    read = block(TYPED["FSDP"])
    gather, weights = (Move("all_gather", name, ("X",), sp.S.One, True) for name in ("In", "W"))
    told = {
        Turn("Out", "B", sp.S.One, below, above).told(read)
        for below, above in (((), (weights,)), ((gather, weights), (weights,)))
    }
    assert told == {
        "Out: move nothing instead of weights (all-gather W X) below B",
        "Out: move both (all-gather In X, all-gather W X) instead of weights (all-gather W X) "
        "below B",
    }


def test_there_is_a_turn_in_each_dimension() -> None:
    found = {
        (name, dim)
        for name, text in TYPED.items()
        for dim in "BDF"
        if list(turns(block(text), sizes_of(block(text), GIVEN), dim))
    }
    assert {dim for _, dim in found} == set("BDF") and len(found) > 8


def test_what_has_no_such_dimension_does_not_turn() -> None:
    read = block("In[B_X, D] . W_in[D_X, F] . W_out[F, H_X] -> Out[B_X, H]")
    assert {turn.result for turn in turns(read, sizes_of(read, GIVEN), "H")} == {"Out"}
    read = block("relu(In[B_X, D]) -> Act; Act . W[D_X, F] -> Out[B_X, F]")  # no product, nor it
    assert {turn.result for turn in turns(read, sizes_of(read, GIVEN))} == {"Out"}
