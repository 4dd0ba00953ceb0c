"""Moves and bytes by hand, the published table, and every move's unit."""

from __future__ import annotations

from collections import Counter
from itertools import product as every

import pytest
import sympy as sp
from derive.cost.sharding import Sharding, gated, sharding
from expected_moves import ROWS, Expected, Row, by_rule
from hypothesis import given, settings
from hypothesis import strategies as st
from shardings import shardings

from derive.cost.program import Move, PassCost
from derive.cost.rules import KEEP, passes
from derive.notation import units
from derive.notation.symbols import B, D, F, X, Y, e, e_g, fma, unit_of_symbol
from derive.notation.units import unit_of

DP = "In[B_X, D] . W_in[D, F] . W_out[F, D] -> Out[B_X, D]"
FSDP = "In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]"
TENSOR = "In[B, D_Y] . W_in[D, F_Y] . W_out[F_Y, D] -> Out[B, D_Y]"
MIXED = "In[B_X, D_Y] . W_in[D_X, F_Y] . W_out[F_Y, D_X] -> Out[B_X, D_Y]"


def found(cost: PassCost) -> list[Expected]:
    return [(m.collective, m.tensor, m.axis, m.bytes) for m in cost.moves]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.text}, keep {row.keep}" for row in ROWS])
def test_moves_by_hand(row: Row) -> None:
    forward, backward = passes(sharding(row.text), row.keep)
    assert Counter(found(forward)) == Counter(row.forward), row.why
    assert Counter(found(backward)) == Counter(row.backward), row.why


def test_table_is_broad() -> None:
    assert len(ROWS) >= 12
    assert sum(row.rule5 for row in ROWS) >= 3


@pytest.mark.parametrize("on_in", ["", "B", "D"])
@pytest.mark.parametrize("on_w", ["", "D", "F"])
@pytest.mark.parametrize("on_out", ["", "B", "F"])
def test_one_axis(on_in: str, on_w: str, on_out: str) -> None:
    (cost, _) = passes(sharding(placed({"X": (on_in, on_w, on_out)})))
    assert tuple((m.collective, m.tensor) for m in cost.moves) == by_rule(on_in, on_w, on_out)


def placed(places: dict[str, tuple[str, str, str]]) -> str:
    """A single product with each axis on the given dimensions of In, W and Out."""

    def written(name: str, dims: str, index: int) -> str:
        split = ("".join(a for a, on in places.items() if on[index] == d) for d in dims)
        inside = (f"{d}_{s}" if s else d for d, s in zip(dims, split, strict=True))
        return f"{name}[{', '.join(inside)}]"

    return f"{written('In', 'BD', 0)} . {written('W', 'DF', 1)} -> {written('Out', 'BF', 2)}"


def test_axes_are_separate() -> None:
    """Two axes that never meet on a dimension are moved as each would be alone."""
    choices = list(every(("", "B", "D"), ("", "D", "F"), ("", "B", "F")))
    pairs = [(a, b) for a, b in every(choices, choices) if not ({*a} - {""}) & ({*b} - {""})]
    assert len(pairs) > 50
    for a, b in pairs:
        cost, _ = passes(sharding(placed({"X": a, "Y": b})))
        moves = Counter((m.collective, m.tensor, m.axis) for m in cost.moves)
        alone = [(*move, "X") for move in by_rule(*a)] + [(*move, "Y") for move in by_rule(*b)]
        assert moves == Counter(alone), placed({"X": a, "Y": b})


def totals(text: str, keep: str = "activations") -> list[sp.Expr]:
    """Bytes moved forward and backward at two bytes per element."""
    numbers = {e: sp.Integer(2), e_g: sp.Integer(2)}
    return [sp.Add(*(m.bytes for m in cost.moves)).subs(numbers) for cost in both(text, keep)]


def both(text: str, keep: str = "activations") -> tuple[PassCost, PassCost]:
    return passes(sharding(text), keep)


@pytest.mark.parametrize(
    ("text", "keep", "forward", "backward"),
    [
        (DP, "activations", sp.Integer(0), 8 * D * F),
        (FSDP, "activations", 4 * D * F, 8 * D * F),
        (TENSOR, "activations", 4 * B * D, 4 * B * D),
        (TENSOR, "none", 4 * B * D, 6 * B * D),
        (MIXED, "activations", 4 * B * D / X + 4 * D * F / Y, 4 * B * D / X + 8 * D * F / Y),
        (MIXED, "none", 4 * B * D / X + 4 * D * F / Y, 6 * B * D / X + 8 * D * F / Y),
    ],
)
def test_published_table(text: str, keep: str, forward: sp.Expr, backward: sp.Expr) -> None:
    assert totals(text, keep) == [forward, backward]


def test_published_cell_for_mixed_backward_activations_is_wrong() -> None:
    """The table prints 8BD/X; the rules give 4 where gathers are kept and 6 where repeated."""
    for keep, right in (("activations", 4), ("none", 6)):
        over_y = [m.bytes for m in both(MIXED, keep)[1].moves if m.axes == ("Y",)]
        total = sp.Add(*over_y).subs(e, 2)
        assert total == right * B * D / X
        assert total != 8 * B * D / X


@pytest.mark.parametrize("text", [DP, FSDP, TENSOR, MIXED])
def test_flops(text: str) -> None:
    layer = sharding(text)
    chips = sp.Mul(*({"X": X, "Y": Y}[axis] for axis in layer.mesh))
    for made, matrices in ((layer, 2), (gated(layer), 3)):
        forward, backward = passes(made)
        assert forward.flops == matrices * fma * B * D * F / chips
        assert backward.flops == 2 * forward.flops


def test_critical_moves_are_of_the_chain() -> None:
    forward, backward = both(MIXED, "none")
    assert [m.tensor for m in forward.moves if m.critical] == ["In", "Out"]
    assert [m.tensor for m in forward.moves if not m.critical] == ["W_in", "W_out"]
    assert {m.tensor for m in backward.moves if m.critical} == {"dOut", "dIn"}
    assert {m.tensor for m in backward.moves if not m.critical} == {
        "In", "W_in", "W_out", "dW_in", "dW_out",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("collective", "sent"),
    [
        ("all_gather", sp.Rational(3, 4)),
        ("reduce_scatter", sp.Rational(3, 4)),
        ("all_reduce", sp.Rational(3, 2)),
        ("all_to_all", sp.Rational(3, 16)),
        ("send", sp.Integer(1)),
        ("load", sp.Integer(1)),
    ],
)
def test_sent_among_four(collective: str, sent: sp.Expr) -> None:
    move = Move(collective, "In", ("X",), e * B * D, True)  # type: ignore[arg-type]
    assert move.sent_bytes.subs(X, 4) == sent * e * B * D


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(shardings(), st.sampled_from(KEEP))
def test_units_fold_and_numbers_are_exact(layer: Sharding, keep: str) -> None:
    for cost in passes(layer, keep):
        assert unit_of(cost.flops, unit_of_symbol) == units.flop
        for move in cost.moves:
            for size in (move.array_bytes, move.bytes, move.sent_bytes):
                assert unit_of(size, unit_of_symbol) == units.byte
                assert not size.atoms(sp.Float)
        assert not cost.flops.atoms(sp.Float)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(shardings())
def test_round_trip(layer: Sharding) -> None:
    assert sharding(str(layer)) == layer
