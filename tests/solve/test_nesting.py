"""Which mesh axes lie inside a node, and what a split optimizer state costs."""

from __future__ import annotations

import pytest

from derive.cost.strategies import fsdp_tensor, hsdp, layer
from derive.facts import chip
from derive.notation.errors import DeriveError
from derive.notation.symbols import B, X, dp, tp
from derive.solve.optimum import optimum
from derive.solve.threshold import threshold

H100 = chip("h100")
RENAMED = layer("mlp", "B:dp F:tp D:tp D:dp")


def test_axes_nest_in_the_order_of_the_block() -> None:
    assert fsdp_tensor.nested == ("X", "Y") and RENAMED.nested == ("dp", "tp")
    assert hsdp.nested == ("Z", "X")  # replicas over nodes, shards inside


@pytest.mark.parametrize(("outer", "inner"), [(8, 4), (16, 2), (8, 8)])
def test_other_names_of_the_axes_change_no_number(outer: int, inner: int) -> None:
    book = threshold(fsdp_tensor, B, fixed=fsdp_tensor.mesh).on(H100, X=outer, Y=inner, F=28672)
    own = threshold(RENAMED, B, fixed=(dp, tp)).on(H100, dp=outer, tp=inner, F=28672)
    assert own.assumptions.network == book.assumptions.network == "two-level"
    assert [s.quantity.value for s in own.sides] == [s.quantity.value for s in book.sides]
    assert all(side.quantity.value >= 0 for side in book.sides)


def test_a_group_that_no_node_holds_is_refused_on_two_levels() -> None:
    bound = threshold(fsdp_tensor, B, network="two-level", fixed=fsdp_tensor.mesh)
    with pytest.raises(DeriveError, match="Y = 12 does not divide its 8 chips"):
        bound.on(H100, X=4, Y=12, F=28672)
    assert bound.on(H100, X=4, Y=4, F=28672).sides


def test_the_best_split_is_over_the_network_of_the_chips_given() -> None:
    best = optimum(fsdp_tensor, X)
    assert best.on(H100, B=2**22, F=28672, N=64).assumptions.network == "two-level"
    assert best.on(H100, B=2**22, F=28672, N=8).assumptions.network == "node"
    assert any("no split has X = " in n for n in best.on(H100, B=2**22, F=28672, N=64).notes)


def test_a_split_optimizer_moves_in_a_step_what_an_all_reduce_does() -> None:
    plain, split = layer("mlp", "B:X"), layer("mlp", "B:X D:X(optimizer)")
    for passes in ("step", "each"):
        bounds = [threshold(s, B / X, passes=passes).bounds[0].expr for s in (plain, split)]
        assert bounds[0] == bounds[1]
    forward = [move.tensor for move in split.passes()[0].moves]
    assert sorted(forward) == ["W_in", "W_out"]
