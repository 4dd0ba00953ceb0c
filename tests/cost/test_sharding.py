"""Moves and bytes by hand, the published table, and every move's unit."""

from __future__ import annotations

from collections import Counter
from itertools import product as every

import pytest
import sympy as sp
from comparison import FUSIONS
from expected_moves import ROWS, Expected, Row, by_rule, passes
from hypothesis import given, settings
from hypothesis import strategies as st
from shardings import layouts, shardings

from derive.cost.block import FUSED, Block, Fusion, gated
from derive.cost.layout import spread
from derive.cost.passes import KEEP, program
from derive.cost.program import Move, Multiplied, PassCost
from derive.cost.reader import block
from derive.cost.stage import LAYOUT, laid_out
from derive.cost.strategies import STRATEGIES, layer
from derive.cost.transformer import LAYER, MLP
from derive.notation import units
from derive.notation.errors import DeriveError, ShardingError, UnknownName
from derive.notation.symbols import B, D, F, X, Y, e, e_g, fma, unit_of_symbol
from derive.notation.units import unit_of

DP = "In[B_X, D] . W_in[D, F] . W_out[F, D] -> Out[B_X, D]"
FSDP = "In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]"
TENSOR = "In[B, D_Y] . W_in[D, F_Y] . W_out[F_Y, D] -> Out[B, D_Y]"
MIXED = "In[B_X, D_Y] . W_in[D_X, F_Y] . W_out[F_Y, D_X] -> Out[B_X, D_Y]"


def moves_of(cost: PassCost) -> list[Expected]:
    return [(m.collective, m.tensor, m.axis, m.bytes) for m in cost.moves]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.text}, keep {row.keep}" for row in ROWS])
def test_moves_by_hand(row: Row) -> None:
    forward, backward = passes(block(row.text), row.keep)
    assert Counter(moves_of(forward)) == Counter(row.forward), row.why
    assert Counter(moves_of(backward)) == Counter(row.backward), row.why


def test_table_is_broad() -> None:
    assert len(ROWS) >= 12
    assert sum(row.rule5 for row in ROWS) >= 3


@pytest.mark.parametrize("on_in", ["", "B", "D"])
@pytest.mark.parametrize("on_w", ["", "D", "F"])
@pytest.mark.parametrize("on_out", ["", "B", "F"])
def test_one_axis(on_in: str, on_w: str, on_out: str) -> None:
    (cost, _) = passes(block(placed({"X": (on_in, on_w, on_out)})))
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
        cost, _ = passes(block(placed({"X": a, "Y": b})))
        moves = Counter((m.collective, m.tensor, m.axis) for m in cost.moves)
        alone = [(*move, "X") for move in by_rule(*a)] + [(*move, "Y") for move in by_rule(*b)]
        assert moves == Counter(alone), placed({"X": a, "Y": b})


def totals(text: str, keep: str = "activations") -> list[sp.Expr]:
    """Bytes moved forward and backward at two bytes per element."""
    numbers = {e: sp.Integer(2), e_g: sp.Integer(2)}
    return [sp.Add(*(m.bytes for m in cost.moves)).subs(numbers) for cost in both(text, keep)]


def both(text: str, keep: str = "activations") -> tuple[PassCost, PassCost]:
    return passes(block(text), keep)


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
    layer = block(text)
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


RUNS = settings(max_examples=80, deadline=None, derandomize=True, database=None)


@RUNS
@given(shardings(), st.sampled_from(KEEP))
def test_units_fold_and_numbers_are_exact(read: Block, keep: str) -> None:
    folds(read, keep)


@RUNS
@given(layouts(), st.sampled_from(KEEP), st.sampled_from(FUSIONS))
def test_units_fold_for_every_block(laid: tuple[Block, str], keep: str, fusion: Fusion) -> None:
    read, line = laid
    try:
        read = spread(read, line)
    except ShardingError:
        return
    folds(read, keep, fusion)


def folds(read: Block, keep: str, fusion: Fusion = FUSED) -> None:
    """FLOP are FLOP and bytes are bytes, without a float."""
    whole = program(read, keep, fusion)
    costs = (whole.forward, whole.backward, whole.update)
    flops = {cost.flops for cost in costs} - {sp.S.Zero}
    moves = {move for cost in costs for move in cost.moves}
    sizes = {size for move in moves for size in (move.array_bytes, move.bytes, move.sent_bytes)}
    sizes |= {saved.bytes for saved in whole.saved}
    for exprs, dimension in ((flops, units.flop), (sizes, units.byte)):
        for expr in exprs:
            assert unit_of(expr, unit_of_symbol) == dimension
            assert not expr.atoms(sp.Float)
    assert all(saved.name for saved in whole.saved)


# The book's strategies and what they are in full: design, section 3.
LINES = {
    "B:X": DP,
    "B:X D:X": FSDP,
    "F:Y D:Y": TENSOR,
    "B:X F:Y D:Y D:X": MIXED,
    "B:X F:Y B:Y": "In[B_XY, D] . W_in[D, F_Y] -> Tmp[B_X, F_Y] . W_out[F_Y, D] -> Out[B_XY, D]",
}


@pytest.mark.parametrize("keep", KEEP)
@pytest.mark.parametrize("line", LINES)
def test_a_line_of_layout_is_the_sharding_typed_in_full(line: str, keep: str) -> None:
    laid, full = spread(MLP, line), block(LINES[line])
    assert laid.tensors == full.tensors
    assert program(laid, keep).forward == program(full, keep).forward
    assert program(laid, keep).backward == program(full, keep).backward
    assert program(laid, keep).saved == program(full, keep).saved


def test_the_named_strategies_are_these_lines() -> None:
    names = ("data_parallel", "fsdp", "tensor_parallel", "fsdp_tensor", "sequence_parallel")
    for name, text in zip(names, LINES.values(), strict=True):
        assert STRATEGIES[name].block == block(text)


def test_rules_in_brackets_speak_of_what_they_name() -> None:
    laid = spread(MLP, "D:a(weights) B:b(activations) F:c(W_in) F:d(Tmp,W_out) D:z(optimizer)")
    assert str(laid) == (
        "In[B_b, D] . W_in[D_a, F_c] -> Tmp[B_b, F_d] . W_out[F_d, D_a] -> Out[B_b, D]"
    )
    assert [str(state) for state in laid.states] == ["W_in[D_a+z, F_c]", "W_out[F_d, D_a+z]"]


def test_a_tensor_takes_the_first_rule_of_an_axis_it_does_not_have() -> None:
    assert str(spread(MLP, "F:X D:X").tensors[1]) == "W_in[D, F_X]"
    assert str(spread(MLP, "D:X F:X").tensors[1]) == "W_in[D_X, F]"
    assert str(spread(MLP, "D:X D:Y F:X").tensors[1]) == "W_in[D_XY, F]"
    typed = block("In[B_X, D] . W[D_Y, F] -> Out[B, F]")
    assert str(spread(typed, "D:X D:Y B:Z")) == "In[B_XZ, D_Y] . W[D_YX, F] -> Out[B_Z, F]"


def test_a_second_line_adds_to_the_first() -> None:
    """Rings and the layout of the optimizer's state are those of both lines."""
    read = LAYER[3]
    rules = LAYOUT.replace(" V:tp", "").split()
    for cut in range(1, len(rules)):
        first, second = " ".join(rules[:cut]), " ".join(rules[cut:])
        assert spread(spread(read, first), second) == spread(read, " ".join(rules))


# --- what the pass waits for, and what can hide under what


def by_tensor(cost: PassCost) -> dict[str, Move]:
    return {f"{move.collective} {move.tensor}": move for move in cost.moves}


def test_a_ring_hides_under_the_products_that_use_what_it_passes() -> None:
    """Keys and values go round while they are multiplied: a block of them at a time, so that the
    products with what is there already hide the rest; nothing else does, and no one waits."""
    whole = program(STRATEGIES["context_parallel"].block)
    forward, backward = by_tensor(whole.forward), by_tensor(whole.backward)
    assert {name: move.under for name, move in forward.items()} == {
        "all_gather Key": ("Score",), "all_gather Val": ("O",),
    }  # fmt: skip
    assert {name: move.under for name, move in backward.items()} == {
        "all_gather Val": ("dShare",),
        "all_gather Key": ("dQ",),
        "reduce_scatter dVal": ("dVal",),
        "reduce_scatter dKey": ("dKey",),
    }
    assert not any(move.critical for move in (*forward.values(), *backward.values()))


def test_what_is_gathered_first_is_waited_for() -> None:
    """The same layout without the ring: forward the pass waits, and nothing hides it."""
    ring, first = (STRATEGIES[n].block for n in ("context_parallel", "context_gathered"))
    assert ring is not None and first is not None
    one, other = program(ring), program(first)
    assert [m.array_bytes for m in one.forward.moves] == [
        m.array_bytes for m in other.forward.moves
    ]
    assert all(move.critical and not move.under for move in other.forward.moves)
    # Kept from the forward pass, they are not gathered again; a ring leaves no device the whole.
    assert {move.tensor for move in other.backward.moves} == {"dVal", "dKey"}
    assert all(move.critical and not move.under for move in other.backward.moves)
    kept = {one.tensor for one in other.saved} - {one.tensor for one in one.saved}
    assert {str(tensor) for tensor in kept} == {"Key[b_seq, U, K, H]", "Val[b_seq, U, K, H]"}


def test_weights_are_gathered_under_the_products_of_other_weights() -> None:
    """FSDP fetches the next weight while this one is used: over a stack of layers, under every
    product but those that use it; a gradient leaves under those that do not make it."""
    whole = program(STRATEGIES["fsdp"].block)
    for cost in (whole.forward, whole.backward):
        assert not any(move.critical for move in cost.moves)
        products = {op.result.name for op in cost.program if isinstance(op, Multiplied)}
        for move in cost.moves:
            touching = {
                op.result.name
                for op in cost.program
                if isinstance(op, Multiplied)
                and move.tensor
                in {op.result.name, *(t.name for pair in op.pairs for t in (pair.left, pair.right))}
            }
            assert touching and {*move.under} == products - touching
    assert by_tensor(whole.forward)["all_gather W_in"].under == ("Out",)
    assert by_tensor(whole.backward)["reduce_scatter dW_in"].under == ("dTmp", "dW_out", "dIn")


def test_activations_are_waited_for() -> None:
    """Tensor parallelism hides under nothing, but for what is gathered again for gradients of
    weights, which can come while the gradients of activations go on."""
    for keep, again in (("activations", set()), ("none", {"In"})):
        whole = program(STRATEGIES["tensor_parallel"].block, keep)
        moves = (*whole.forward.moves, *whole.backward.moves)
        assert {m.tensor for m in whole.backward.moves if not m.critical} == again
        assert all(bool(move.under) == (not move.critical) for move in moves)
    layer = laid_out(LAYER[3])
    assert all(m.critical == (m.axes == ("tp",)) for m in layer.forward.moves)
    assert {m.tensor for m in layer.backward.moves if not m.critical and m.axes == ("tp",)} == {
        "X", "Y",
    }  # fmt: skip


def test_nothing_hides_under_a_product_that_is_made_again() -> None:
    """It is not counted, so that its time cannot hide anything."""
    for whole in (program(STRATEGIES["context_parallel"].block), laid_out(LAYER[3])):
        again = {op.result.name for op in whole.backward.program if getattr(op, "again", False)}
        assert again
        assert not again & {name for move in whole.backward.moves for name in move.under}


def test_parts_of_a_gradient_are_waited_for_like_the_whole() -> None:
    """X is used by two functions, and what each contributes moves on its way to dX."""
    text = "X[B_X, D] . W[D, F] -> Y[B_X, F]; Y -> A[B, F_X]; Y -> C[B, F_X]; A * C -> Out[B, F_X]"
    parts = [m for m in program(block(text)).backward.moves if m.tensor.startswith("dY+")]
    assert [move.tensor for move in parts] == ["dY+0", "dY+1"]
    assert all(move.critical and not move.under for move in parts)


def test_a_block_has_a_name_where_a_layer_is_asked_for() -> None:
    assert layer("mlp", "B:X D:X").block == layer(MLP, "B:X D:X").block
    assert layer("mlp", "B:X").gate is not None
    with pytest.raises(UnknownName, match="unknown block 'mpl'; did you mean mlp"):
        layer("mpl", "B:X")


def test_a_program_is_shown_line_by_line() -> None:
    lines = repr(program(spread(MLP, "B:X D:X"))).splitlines()
    assert lines[0] == str(spread(MLP, "B:X D:X"))
    assert [line.split()[0] for line in lines[1:]] == ["forward", "backward", "saved"]


@pytest.mark.parametrize("what", [3, "mlp", None])
def test_what_is_no_block_is_refused(what: object) -> None:
    for ask in (program, gated, lambda x: spread(x, "B:X")):
        with pytest.raises(DeriveError, match="expected a block"):
            ask(what)  # type: ignore[operator]
