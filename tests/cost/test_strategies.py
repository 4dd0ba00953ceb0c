"""What a strategy says of itself: its name, assumptions and units, and its moves in their order."""

from __future__ import annotations

import pytest

from derive.cost.assumptions import DEFAULT, assume
from derive.cost.program import Move, Moved, PassCost
from derive.cost.step import step_model
from derive.cost.strategies import STRATEGIES, Strategy, as_strategy, layer
from derive.cost.strategies import strategy as named
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, UnitError, UnknownName

EVERY = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=lambda one: one.name)
UPDATED = layer("In[B_X, D] . W_in[D, F] . W_out[F, D] -> Out[B_X, D]", "D:X(optimizer)")


@EVERY
def test_it_states_what_it_has_and_no_more(strategy: Strategy) -> None:
    text = "" if strategy.block is None else repr(strategy.block)
    told = strategy.stated(DEFAULT)
    assert ("causal" in told) == ("(causal)" in text)
    assert ("kernels" in told) == ("(fused)" in text)
    assert ("gated" in told) == (strategy.gate is not None)
    assert (strategy._repr_latex_() is None) == (strategy.block is None)
    if strategy.gate is None:
        with pytest.raises(DeriveError, match="gated adds a matrix"):
            strategy.passes(assume(gated=True))
    nested = strategy.stated(assume(network="two-level"))["network"]
    assert ("inside a node" in nested) == (len(strategy.nested) > 1)


@EVERY
def test_it_is_found_by_its_name_in_any_spelling(strategy: Strategy) -> None:
    for spelt in (strategy.name, strategy.name.upper(), strategy.name.replace("_", "-")):
        assert named(spelt) is strategy
    for other in ("x" + strategy.name, strategy.name + "s"):
        with pytest.raises(UnknownName, match=f"did you mean .*{strategy.name}"):
            named(other)
    with pytest.raises(DeriveError, match=f"found the text '{strategy.name}'; write "):
        as_strategy(strategy.name)
    assert as_strategy(strategy) is strategy


def test_a_mask_or_a_fused_kernel_of_one_line_among_others_is_stated() -> None:
    for line, key in (
        ("A[B, D] . W[D, F] -> S[B, F] (causal); S . V[F, D] -> Out[B, D]", "causal"),
        ("A[B, D] . W[D, F] -> S[B, F]; softmax(S) -> P (fused); P . V[F, D] -> Out[B, D]",
         "kernels"),
    ):  # fmt: skip
        told = layer(line).stated(DEFAULT)
        assert [name for name in ("causal", "kernels") if name in told] == [key]


@pytest.mark.parametrize("strategy", [*STRATEGIES.values(), UPDATED], ids=lambda one: one.name)
def test_moves_are_those_of_the_program_in_its_order(strategy: Strategy) -> None:
    """What an optimizer left in pieces is gathered before the products that need it."""
    for cost in strategy.passes():
        if cost.program:
            assert cost.moves == tuple(s.move for s in cost.program if isinstance(s, Moved))


def test_updated_weights_are_gathered_first() -> None:
    forward, _ = UPDATED.passes()
    assert [(m.collective, m.tensor) for m in forward.moves] == [
        ("all_gather", "W_in"), ("all_gather", "W_out"),
    ]  # fmt: skip
    kinds = [type(step).__name__ for step in forward.program]
    assert kinds == ["Moved", "Moved", "Multiplied", "Multiplied"]


def test_units_are_checked_where_there_is_something_to_check() -> None:
    def declared(flops: object, size: object, state: object = None) -> Strategy:
        move = Move("send", "Out", ("Z",), size, critical=True)  # type: ignore[arg-type]
        cost = PassCost("forward", flops, (move,))  # type: ignore[arg-type]
        return Strategy("s", "t", None, (cost,), v.Z, state)  # type: ignore[arg-type]

    work, size = v.fma * v.B * v.D * v.F, v.e * v.B * v.D
    assert declared(work, size) and declared(work - work, size)
    for wrong in ((size, size, None), (work, work, None), (work, size, work)):
        with pytest.raises(UnitError):
            declared(*wrong)


def test_kernels_are_told_and_taken_where_the_block_has_them() -> None:
    whole, core = layer("layer"), layer("attention_core")
    for name, way in (("kernels", "recomputed"), ("norm", "unfused"), ("glu", "unfused")):
        changed = assume(**{name: way})
        assert whole.stated(DEFAULT)[name].startswith("fused: ")
        assert whole.stated(changed)[name].startswith(f"{way}: ")
        assert whole.saved(changed) != whole.saved()
        assert (name in core.stated(DEFAULT)) == (name in core.taken) == (name == "kernels")
        for one in (STRATEGIES["fsdp"], STRATEGIES["pipeline"]):
            with pytest.raises(DeriveError, match=f"{name} plays no part in {one.name}; it takes"):
                one.passes(changed)


def test_a_step_counts_kernels_with_the_saved_tensors() -> None:
    more = step_model(assume(norm="unfused")).term("a_1").expr
    assert more != step_model("default").term("a_1").expr
    for wrong, told in (
        (assume("notebook", norm="unfused"), "what kernels save with saved_tensors alone"),
        (assume("corrected", kernels="recomputed"), "a core of attention again with matmul_shape"),
    ):
        with pytest.raises(DeriveError, match=f"a step .*{told}.*; found {wrong}"):
            step_model(wrong)
