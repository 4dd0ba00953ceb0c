"""The tests can fail: each slip below, made on purpose, is noticed where it should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace

import pytest
import sympy as sp
from comparison import FUSIONS, compare
from expected_moves import ROWS, Row
from expected_moves import passes as both_passes
from simulator import SimulationError

from derive.cost import block as block_module
from derive.cost import passes, program, rules, stage
from derive.cost.block import FUNCTIONS, FunctionLine, Tensor
from derive.cost.layout import rules_of, spread
from derive.cost.program import TRAVERSALS, Move, Multiplied, Pair, Saved
from derive.cost.reader import block
from derive.cost.strategies import STRATEGIES
from derive.cost.transformer import BLOCKS
from derive.notation.symbols import e

LAYERS = (
    "In[B_X, D] . W_in[D, F] . W_out[F, D] -> Out[B_X, D]",
    "In[B_X, D_Y] . W_in[D_X, F_Y] . W_out[F_Y, D_X] -> Out[B_X, D_Y]",
    "In[E, B_X, D] . W_in[E_X, D, F] . W_out[E_X, F, D] -> Out[E, B_X, D]",
    "In[B, D_XZ] . W[D_ZX, F] -> Out[B, F_ZX]",
    "In[B_X, D] . W[D, F_X] -> Out[B, F_X]",
    "In[B_X, D] . W_a[D, F] * W_b[D, F] -> Tmp[B_X, F] . W_out[F, D] -> Out[B_X, D]",
    "In[B_X, D_Y] . W[D_Y, F] -> A[B_X, F]; A . W -> Out[B, D_X]; norm(Out) -> Y[B_X, D]",
    "Ids[T_X, V_Y] @ W_e[V_Y, D_X] -> In[T_XY, D]; In + W_p[T_X, D] -> Out",
    "Ids[T, V_X] @ W_e[V, D] -> In[T_Y, D_X]; norm(In) -> X[T, D_X]; softmax(X) -> Y[T_X, D_Y]",
)
MESH = {"X": 2, "Y": 3, "Z": 2}
PLAN = {"dp": 2, "cp": 2, "tp": 2}


def simulated() -> None:
    """Every layer above on simulated devices, and blocks under the layout of a plan."""
    for text in LAYERS:
        compare(text, MESH)
    for name in ("layer", "plain_layer", "embedding", "experts"):
        read = BLOCKS[name]
        line = [rule for rule in rules_of(stage.LAYOUT) if rule.dim in read.dims]
        for fusion in FUSIONS:
            compare(spread(read, line), PLAN, "none", fusion)
    compare(spread(BLOCKS["mlp"], "B:X D:X"), MESH, "weights")
    compare(strategy("context_parallel"), MESH, "all")
    compare(strategy("expert_parallel"), MESH)


def by_hand() -> None:
    """Every row of the table worked out by hand."""
    for row in ROWS:
        hand_worked(row)


def hand_worked(row: Row) -> None:
    """One of them."""
    both = both_passes(block(row.text), row.keep)
    for cost, expected in zip(both, (row.forward, row.backward), strict=True):
        moved = Counter((m.collective, m.tensor, m.axis, m.bytes) for m in cost.moves)
        assert moved == Counter(expected), row.text


def schedule() -> None:
    """What the pass waits for, and what hides under what, by the names of the strategies."""
    ring = passes.program(strategy("context_parallel"))
    for cost in (ring.forward, ring.backward):
        assert not any(move.critical for move in cost.moves)
    assert [m.under for m in ring.forward.moves] == [("Score",), ("O",)]
    assert [m.under for m in ring.backward.moves] == [("dShare",), ("dQ",), ("dVal",), ("dKey",)]
    first = passes.program(strategy("context_gathered"))
    assert all(m.critical and not m.under for m in (*first.forward.moves, *first.backward.moves))
    fsdp = passes.program(strategy("fsdp"))
    assert [m.under for m in fsdp.forward.moves] == [("Out",), ("Tmp",)]
    assert not any(m.critical for m in (*fsdp.forward.moves, *fsdp.backward.moves))
    tensor = passes.program(strategy("tensor_parallel"))
    assert all(m.critical and not m.under for m in (*tensor.forward.moves, *tensor.backward.moves))
    parts = block("Y[B_X, F] -> A[B, F_X]; Y -> C[B, F_X]; A * C -> Out[B, F_X]")
    assert all(m.critical for m in passes.program(parts).backward.moves)


def strategy(name: str) -> block_module.Block:
    read = STRATEGIES[name].block
    assert read is not None
    return read


def bare(tensor: Tensor) -> Tensor:
    """The tensor, split nowhere."""
    return tensor.laid_out({})


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Costs are remembered between calls; forget them before and after each slip."""
    passes.program.cache_clear()
    yield
    passes.program.cache_clear()


def test_all_pass_as_they_are() -> None:
    simulated()
    by_hand()
    schedule()


Patch = Callable[[pytest.MonkeyPatch], None]


# --- moves and FLOP


def share_of_one(patch: pytest.MonkeyPatch) -> None:
    """(n - 1)/n -> 1."""
    patch.setattr(Move, "sent_bytes", property(lambda move: move.bytes))


def all_to_all_like_a_gather(patch: pytest.MonkeyPatch) -> None:
    """(n - 1)/n**2 -> (n - 1)/n."""

    def sent(move: Move) -> sp.Expr:
        n = move.devices
        return TRAVERSALS[move.collective] * move.array_bytes * (n - 1) / n

    patch.setattr(Move, "sent_bytes", property(sent))


def all_reduce_once(patch: pytest.MonkeyPatch) -> None:
    """An all-reduce counted as one pass."""
    patch.setitem(TRAVERSALS, "all_reduce", 1)


def shard_for_array(patch: pytest.MonkeyPatch) -> None:
    """The bytes of a shard where those of the whole array are meant."""
    patch.setattr(program, "IN_PARTS", ())


def one_element_size(patch: pytest.MonkeyPatch) -> None:
    """Gradients of weights counted at the bytes of activations."""
    patch.setattr(rules.Pass, "element", lambda self, tensor: e)


def one_hot_rows_in_full(patch: pytest.MonkeyPatch) -> None:
    """Rows of look-ups moved as they are multiplied, not as the number of their column."""
    patch.setattr(passes._LineByLine, "element", rules.Pass.element)


def one_flop(patch: pytest.MonkeyPatch) -> None:
    """One FLOP per multiply-add."""
    patch.setattr(program, "fma", sp.Integer(1))


def one_pair(patch: pytest.MonkeyPatch) -> None:
    """FLOPs of one product where a gated layer adds up two."""
    flops = property(lambda op: sp.S.Zero if op.again else op.pairs[0].flops)
    patch.setattr(Multiplied, "flops", flops)


def flops_of_all_chips(patch: pytest.MonkeyPatch) -> None:
    """FLOPs of a product that forget which axes split it."""

    def whole(pair: Pair) -> sp.Expr:
        return PAIR_FLOPS(replace(pair, roles=tuple((dim, ()) for dim, _ in pair.roles)))

    patch.setattr(Pair, "flops", property(whole))


def no_mask(patch: pytest.MonkeyPatch) -> None:
    """The scores that a causal mask leaves out, counted."""
    flops = property(
        lambda pair: PAIR_FLOPS(replace(pair, share=sp.S.One if pair.share else pair.share))
    )
    patch.setattr(Pair, "flops", flops)


def look_ups_multiply(patch: pytest.MonkeyPatch) -> None:
    """A look-up counted as the product with one-hot rows that it is written as."""
    patch.setattr(
        Pair,
        "flops",
        property(lambda pair: PAIR_FLOPS(replace(pair, share=pair.share or sp.S.One))),
    )


def made_again_is_counted(patch: pytest.MonkeyPatch) -> None:
    """FLOPs of what a fused kernel makes a second time."""
    patch.setattr(Multiplied, "flops", property(lambda op: sp.Add(*(p.flops for p in op.pairs))))


def names_of_a_length_confused(patch: pytest.MonkeyPatch) -> None:
    """U left where a view says that it is T long: as right a count, in other letters."""
    patch.setattr(block_module.Block, "same_length", property(lambda self: {}))


# --- layouts and rules


def roles_swapped(patch: pytest.MonkeyPatch) -> None:
    """Each axis on the other dimension of the result: as right a program, and not by the rules."""

    def swapped(left: Tensor, right: Tensor, result: Tensor) -> dict[str, tuple[str, ...]]:
        split = ROLES(left, right, result)
        kept = [dim for dim in result.dims if dim in split]
        return split | dict(zip(kept, (split[dim] for dim in reversed(kept)), strict=True))

    patch.setattr(rules, "_roles", swapped)


def partial_sums_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Rule 3 without its reduction."""
    patch.setattr(
        rules.Pass, "finish", lambda self, local, partial, result: FINISH(self, local, (), result)
    )


def rings_inside_out(patch: pytest.MonkeyPatch) -> None:
    """Sums scattered with the axes of each dimension in reverse."""

    def reverse(kind: str, before: Tensor, after: Tensor, axes: tuple[str, ...], *rest: object):  # type: ignore[no-untyped-def]
        other = after.laid_out({dim: axes[::-1] for dim, axes in after.split.items()})
        return MOVED(kind, before, other, axes[::-1], *rest)  # type: ignore[arg-type]

    patch.setattr(rules, "moved", reverse)


def gathers_free(patch: pytest.MonkeyPatch) -> None:
    """Fetching a tensor in the layout that is wanted, without moving it there."""
    patch.setattr(rules.Pass, "fetch", lambda self, wanted: wanted)


def result_left_where_it_is(patch: pytest.MonkeyPatch) -> None:
    """Rule 5 left out."""
    patch.setattr(rules, "reshard", lambda tensor, *_: [])


def rule_4_on_the_other_operand(patch: pytest.MonkeyPatch) -> None:
    """Keeping the left operand's dimension, whatever the result declares."""
    patch.setattr(rules, "_role", lambda axis, a, b, out: ROLE(axis, a, b, bare(out)))


def slice_instead_of_gather(patch: pytest.MonkeyPatch) -> None:
    """Rule 2 by slicing the other operand, which is right, and not the rule."""

    def role(axis: str, left: Tensor, right: Tensor, out: Tensor) -> str | None:
        p, q = left.dim_of(axis), right.dim_of(axis)
        return (p or q) if None in (p, q) else ROLE(axis, left, right, out)

    patch.setattr(rules, "_role", role)


def summed_dimension_kept(patch: pytest.MonkeyPatch) -> None:
    """An axis on two summed dimensions left on that of the left operand: right, and not rule 2."""

    def kept(axis: str, left: Tensor, right: Tensor, out: Tensor) -> str | None:
        role = ROLE(axis, left, right, out)
        p, q = left.dim_of(axis), right.dim_of(axis)
        return p if role is None and p is not None and q is not None else role

    patch.setattr(rules, "_role", kept)


def gathered_once_more(patch: pytest.MonkeyPatch) -> None:
    """Not reusing what was gathered."""

    def fetch(self: rules.Pass, wanted: Tensor) -> Tensor:
        held = list(self.held[wanted.name])
        FETCH(self, wanted)
        self.held[wanted.name] = held
        return wanted

    patch.setattr(rules.Pass, "fetch", fetch)


def reduced_whole(patch: pytest.MonkeyPatch) -> None:
    """An all-reduce and a slice where a reduce-scatter is meant."""
    patch.setattr(rules, "_scattered", lambda wanted, partial, used: ((), ()))


def unlike_sums_in_one(patch: pytest.MonkeyPatch) -> None:
    """Products that leave a sum in different layouts reduced as if in one."""

    def multiply(self: rules.Pass, terms: Sequence[rules.Operands], result: Tensor) -> None:
        MULTIPLY(self, terms, result)
        sums = [op for op in self.program if isinstance(op, Multiplied)]
        if (
            len(sums) > 1
            and sums[-1].result.name.partition("+")[0] == result.name != sums[-1].result.name
        ):
            place = self.program.index(sums[-1])
            self.program[place] = replace(sums[-1], partial=sums[-2].partial)

    patch.setattr(rules.Pass, "multiply", multiply)


# --- functions


def along_a_split_dimension(patch: pytest.MonkeyPatch) -> None:
    """A norm or softmax of rows of which a device has a part."""
    functions = {name: replace(one, along=False) for name, one in FUNCTIONS.items()}
    patch.setattr(passes, "FUNCTIONS", MappingProxyType(functions))


def needs_nothing(patch: pytest.MonkeyPatch) -> None:
    """The gradient of a gate without what it is of."""
    functions = {name: replace(one, needs=()) for name, one in FUNCTIONS.items()}
    patch.setattr(passes, "FUNCTIONS", MappingProxyType(functions))


def needs_the_operand(patch: pytest.MonkeyPatch) -> None:
    """A softmax's operand where its result is needed."""
    functions = dict(FUNCTIONS)
    functions["softmax"] = replace(FUNCTIONS["softmax"], needs=(0,), needs_result=False)
    patch.setattr(passes, "FUNCTIONS", MappingProxyType(functions))


def gate_without_its_partner(patch: pytest.MonkeyPatch) -> None:
    """The gradient of one factor of a gated result at the place of another."""

    def apply(self: rules.Pass, function: str, operands: Sequence[Tensor], result: Tensor,
              wrt: int | None = None) -> None:  # fmt: skip
        APPLY(self, function, operands, result, 0 if function == "*" and wrt else wrt)

    patch.setattr(rules.Pass, "apply", apply)


def one_of_two_uses(patch: pytest.MonkeyPatch) -> None:
    """The gradient of a tensor from the last line that uses it alone."""

    def terms(self: passes._Backward, line: object, name: str) -> list[rules.Operands]:
        uses = [one for one in self.block.lines if name in one.operands]
        return TERMS(self, line, name) if line is uses[-1] else []  # type: ignore[arg-type]

    patch.setattr(passes._Backward, "_terms", terms)


def experts_out_of_order(patch: pytest.MonkeyPatch) -> None:
    """Rows handed to the experts of a device, not to the places that follow its rows."""

    def places(line: FunctionLine, read: block_module.Block):  # type: ignore[no-untyped-def]
        where, local = PLACES(line, read)
        if line.function == "route":
            local = replace(local, layout=(local.layout[1], (), *local.layout[2:]))
        return where, local

    patch.setattr(passes, "_places", places)


# --- what is saved


def saved_at_fp32(patch: pytest.MonkeyPatch) -> None:
    """Saved activations at the bytes of gradients."""
    patch.setattr(passes, "e", passes.e_32)


def statistics_in_half(patch: pytest.MonkeyPatch) -> None:
    """Statistics and numbers of rows at the bytes of activations."""
    patch.setattr(passes, "e_32", e)


def changed_saved(change: Callable[[Sequence[Saved]], Sequence[Saved]]) -> Patch:
    def patch(monkey: pytest.MonkeyPatch) -> None:
        monkey.setattr(passes._Backward, "saved", lambda self: iter(change(list(SAVED(self)))))

    return patch


def one_tensor_not_saved(patch: pytest.MonkeyPatch) -> None:
    """The last of the tensors that are saved, forgotten."""
    changed_saved(lambda saved: saved[:-1])(patch)


def statistics_not_saved(patch: pytest.MonkeyPatch) -> None:
    """The log-sum-exp of a fused softmax, or the image of a gate, forgotten."""
    changed_saved(lambda saved: [one for one in saved if not one.function])(patch)


def saved_twice(patch: pytest.MonkeyPatch) -> None:
    """A tensor that the backward pass does not use, kept in a layout that the forward pass had."""

    def more(self: passes._Backward) -> Iterator[Saved]:
        saved = list(SAVED(self))
        yield from saved
        for name in self.block.inputs:
            if name not in {one.tensor.name for one in saved}:
                yield Saved(self.block[name], e * ELEMENTS(self.block[name]))

    patch.setattr(passes._Backward, "saved", more)


def scores_are_kept(patch: pytest.MonkeyPatch) -> None:
    """A fused kernel that keeps what it makes, and says that it does not."""
    patch.setattr(passes._Backward, "_made_again", lambda self: iter(()))


def kept_weights_not_counted(patch: pytest.MonkeyPatch) -> None:
    """Weights gathered forward and kept whole, for nothing."""

    def saved(self: passes._Backward) -> Iterator[Saved]:
        yield from (one for one in SAVED(self) if one.tensor.name not in self.block.parameters)

    patch.setattr(passes._Backward, "saved", saved)


def a_ring_is_kept(patch: pytest.MonkeyPatch) -> None:
    """What a ring passes round, kept whole by each device."""
    patch.setattr(passes._Backward, "_passed_round", lambda self, tensor: False)


def optimizer_like_the_weights(patch: pytest.MonkeyPatch) -> None:
    """Gradients that do not end where the optimizer's state is."""

    def gradient(self: passes._Backward, name: str, result: Tensor) -> None:
        own = self.block[name].named(result.name) if name in self.block.parameters else result
        GRADIENT(self, name, own)

    patch.setattr(passes._Backward, "_gradient", gradient)


def no_update(patch: pytest.MonkeyPatch) -> None:
    """Parameters that are not gathered from the optimizer's state."""
    patch.setattr(passes, "Pass", lambda *args, **named: SimpleNamespace(program=[], fetch=str))


# --- what waits for what


def rings_are_waited_for(patch: pytest.MonkeyPatch) -> None:
    """A ring like any other move of activations."""
    patch.setattr(passes, "_is_ring", lambda step, rings: False)


def everything_is_a_ring(patch: pytest.MonkeyPatch) -> None:
    """Any gather hidden under the products that use its tensor."""
    patch.setattr(passes, "_is_ring", lambda step, rings: True)


def nothing_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    """Moves of activations beside the computation that needs them."""
    patch.setattr(rules.Pass, "waits_for", lambda self, tensor: False)


def everything_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    """Weights fetched when they are needed."""
    patch.setattr(rules.Pass, "waits_for", lambda self, tensor: True)


def parts_are_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """A part of a sum of gradients taken for a tensor that nobody needs."""
    patch.setattr(rules.Pass, "waits_for", lambda self, tensor: tensor.name in self.critical)


def hidden_under_itself(patch: pytest.MonkeyPatch) -> None:
    """A weight gathered under the product that waits for it."""

    def scheduled(steps, read):  # type: ignore[no-untyped-def]
        products = tuple(one.result.name for one in steps if isinstance(one, Multiplied))
        return tuple(
            replace(one, move=replace(one.move, under=products)) if hasattr(one, "move") else one
            for one in SCHEDULED(steps, read)
        )

    patch.setattr(passes, "_scheduled", scheduled)


TWO_SUMMED = (
    "In[B_X, T, D] . W[D, F] -> Out[B, T_X, F]",
    "In[B, K_X, H] . W[K, H_X, D] -> Out[B, D]",
)


@pytest.mark.parametrize("text", TWO_SUMMED)
def test_an_axis_on_two_summed_dimensions(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving it on one of them computes the same with other moves: only the table tells."""
    row = next(row for row in ROWS if row.text == text)
    compare(text, MESH)
    by_the_rules = both_passes(block(text))
    summed_dimension_kept(monkeypatch)
    passes.program.cache_clear()
    compare(text, MESH)
    assert both_passes(block(text)) != by_the_rules
    with pytest.raises(AssertionError):
        hand_worked(row)


ELEMENTS, PAIR_FLOPS, ROLES = program.elements, vars(Pair)["flops"].fget, rules._roles
FINISH, FETCH, MULTIPLY = rules.Pass.finish, rules.Pass.fetch, rules.Pass.multiply
APPLY, MOVED, ROLE = rules.Pass.apply, rules.moved, rules._role
TERMS, SAVED, GRADIENT = (
    passes._Backward._terms, passes._Backward.saved, passes._Backward._gradient,
)  # fmt: skip
PLACES, SCHEDULED = passes._places, passes._scheduled

WRONG = (
    share_of_one, all_to_all_like_a_gather, all_reduce_once, shard_for_array, one_element_size,
    one_hot_rows_in_full, one_flop, one_pair, flops_of_all_chips, no_mask, look_ups_multiply,
    made_again_is_counted, partial_sums_forgotten, rings_inside_out, gathers_free,
    result_left_where_it_is, unlike_sums_in_one,
    along_a_split_dimension, needs_nothing, needs_the_operand, gate_without_its_partner,
    one_of_two_uses, experts_out_of_order,
    saved_at_fp32, statistics_in_half, one_tensor_not_saved, statistics_not_saved, saved_twice,
    kept_weights_not_counted, optimizer_like_the_weights, no_update,
)  # fmt: skip
NOT_THE_RULE = (
    rule_4_on_the_other_operand, roles_swapped, slice_instead_of_gather,
    summed_dimension_kept, gathered_once_more,
    reduced_whole, all_reduce_once, shard_for_array, one_element_size,
)  # fmt: skip
NOT_IN_TIME = (
    rings_are_waited_for, everything_is_a_ring, nothing_is_waited_for, everything_is_waited_for,
    parts_are_not_waited_for, hidden_under_itself,
)  # fmt: skip


@pytest.mark.parametrize("slip", WRONG, ids=lambda slip: slip.__name__)
def test_the_devices_notice(slip: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    slip(monkeypatch)
    with pytest.raises(SimulationError):
        simulated()


@pytest.mark.parametrize("slip", NOT_THE_RULE, ids=lambda slip: slip.__name__)
def test_the_table_notices(slip: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    slip(monkeypatch)
    with pytest.raises(AssertionError):
        by_hand()


@pytest.mark.parametrize("slip", NOT_IN_TIME, ids=lambda slip: slip.__name__)
def test_the_schedule_notices(slip: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    slip(monkeypatch)
    with pytest.raises(AssertionError):
        schedule()


def saved_names(name: str, keep: str = "none") -> set[str]:
    return {str(one.tensor) for one in passes.program(strategy(name), keep).saved}


def test_what_is_as_right_but_dearer_is_told_by_what_is_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Scores that are kept, and keys that a ring leaves whole, compute the same: the saved tensors
    tell, which are named here."""
    own = {"Q[b_seq, T_X, K, G, H]", "Key[b_seq, U_X, K, H]", "Val[b_seq, U_X, K, H]"}
    statistics = "log-sum-exp of Share[b_seq, K, G, T_X]"
    assert saved_names("context_parallel", "all") == own | {statistics}
    with monkeypatch.context() as patch:
        a_ring_is_kept(patch)
        passes.program.cache_clear()
        assert saved_names("context_parallel", "all") != own | {statistics}
    with monkeypatch.context() as patch:
        scores_are_kept(patch)
        passes.program.cache_clear()
        kept = [one.name for one in passes.program(strategy("context_parallel")).saved]
        assert "Share" in kept
    with monkeypatch.context() as patch:
        names_of_a_length_confused(patch)
        passes.program.cache_clear()
        free = passes.program(strategy("ulysses")).forward.flops.free_symbols
        assert "U" in {symbol.name for symbol in free}
    passes.program.cache_clear()
    free = passes.program(strategy("ulysses")).forward.flops.free_symbols
    assert "U" not in {symbol.name for symbol in free}
