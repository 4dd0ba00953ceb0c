"""The tests can fail: each slip below, made on purpose, is noticed where it should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import sympy as sp
from comparison import compare
from derive.cost.sharding import Tensor, sharding
from expected_moves import ROWS, Row
from simulator import SimulationError

from derive.cost import moves, program, reshard, rules
from derive.cost.program import Move, Multiplied
from derive.notation.symbols import e

LAYERS = (
    "In[B_X, D] . W_in[D, F] . W_out[F, D] -> Out[B_X, D]",
    "In[B_X, D_Y] . W_in[D_X, F_Y] . W_out[F_Y, D_X] -> Out[B_X, D_Y]",
    "In[E, B_X, D] . W_in[E_X, D, F] . W_out[E_X, F, D] -> Out[E, B_X, D]",
    "In[B, D_XZ] . W[D_ZX, F] -> Out[B, F_ZX]",
    "In[B_X, D] . W[D, F_X] -> Out[B, F_X]",
    "In[B_X, D] . W_a[D, F] * W_b[D, F] -> Tmp[B_X, F] . W_out[F, D] -> Out[B_X, D]",
)
MESH = {"X": 2, "Y": 3, "Z": 2}


def simulated() -> None:
    """Every layer above on simulated devices."""
    for text in LAYERS:
        compare(text, MESH)


def by_hand() -> None:
    """Every row of the table worked out by hand."""
    for row in ROWS:
        hand_worked(row)


def hand_worked(row: Row) -> None:
    """One of them."""
    passes = rules.passes(sharding(row.text), row.keep)
    for cost, expected in zip(passes, (row.forward, row.backward), strict=True):
        found = Counter((m.collective, m.tensor, m.axis, m.bytes) for m in cost.moves)
        assert found == Counter(expected), row.text


def bare(tensor: Tensor) -> Tensor:
    """The tensor, split nowhere."""
    return replace(tensor, layout=tuple(() for _ in tensor.dims))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Costs are remembered between calls; forget them before and after each slip."""
    rules.passes.cache_clear()
    yield
    rules.passes.cache_clear()


def test_both_pass_as_they_are() -> None:
    simulated()
    by_hand()


Patch = Callable[[pytest.MonkeyPatch], None]


def share_of_one(patch: pytest.MonkeyPatch) -> None:
    """(n - 1)/n -> 1."""
    sent = property(lambda move: moves.PASSES[move.collective] * move.array_bytes)
    patch.setattr(Move, "sent_bytes", sent)


def all_to_all_like_a_gather(patch: pytest.MonkeyPatch) -> None:
    """(n - 1)/n**2 -> (n - 1)/n."""

    def sent(move: Move) -> sp.Expr:
        n = move.devices
        return moves.PASSES[move.collective] * move.array_bytes * (n - 1) / n

    patch.setattr(Move, "sent_bytes", property(sent))


def all_reduce_once(patch: pytest.MonkeyPatch) -> None:
    """An all-reduce counted as one pass."""
    patch.setitem(moves.PASSES, "all_reduce", 1)


def shard_for_array(patch: pytest.MonkeyPatch) -> None:
    """The bytes of a shard where those of the whole array are meant."""
    patch.setattr(
        reshard,
        "array_bytes",
        lambda tensor, element, without=(): ARRAY_BYTES(tensor, element),
    )


def one_element_size(patch: pytest.MonkeyPatch) -> None:
    """Gradients of weights counted at the bytes of activations."""
    patch.setattr(rules._Pass, "element", lambda self, tensor: e)


def one_flop(patch: pytest.MonkeyPatch) -> None:
    """One FLOP per multiply-add."""
    patch.setattr(program, "fma", sp.Integer(1))


def one_pair(patch: pytest.MonkeyPatch) -> None:
    """FLOPs of one product where a gated layer adds up two."""
    patch.setattr(Multiplied, "flops", property(lambda op: FLOPS(replace(op, pairs=op.pairs[:1]))))


def flops_of_all_chips(patch: pytest.MonkeyPatch) -> None:
    """FLOPs of a product that forget which axes split it."""

    def whole(op: Multiplied) -> sp.Expr:
        return FLOPS(replace(op, roles=tuple((dim, ()) for dim, _ in op.roles)))

    patch.setattr(Multiplied, "flops", property(whole))


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
        rules._Pass,
        "finish",
        lambda self, local, partial, result: FINISH(self, local, (), result),
    )


def rings_inside_out(patch: pytest.MonkeyPatch) -> None:
    """Tensors laid out with the axes of each dimension in reverse."""

    def reverse(tensor: Tensor, split: dict[str, tuple[str, ...]]) -> Tensor:
        return LAID_OUT(tensor, {dim: axes[::-1] for dim, axes in split.items()})

    patch.setattr(rules, "laid_out", reverse)


def gathers_free(patch: pytest.MonkeyPatch) -> None:
    """Fetching a tensor in the layout that is wanted, without moving it there."""
    patch.setattr(rules._Pass, "take", lambda self, route, name: None)


def result_left_where_it_is(patch: pytest.MonkeyPatch) -> None:
    """Rule 5 left out of `finish`."""
    patch.setattr(rules, "reshard", lambda tensor, *_: [])


def rule_4_on_the_other_operand(patch: pytest.MonkeyPatch) -> None:
    """Keeping the left operand's dimension, whatever the result declares."""
    patch.setattr(rules, "_role", lambda axis, p, q, a, b, out: ROLE(axis, p, q, a, b, bare(out)))


def slice_instead_of_gather(patch: pytest.MonkeyPatch) -> None:
    """Rule 2 by slicing the other operand, which is right, and not the rule."""
    patch.setattr(
        rules,
        "_role",
        lambda axis, p, q, *of: (p or q) if None in (p, q) else ROLE(axis, p, q, *of),
    )


def summed_dimension_kept(patch: pytest.MonkeyPatch) -> None:
    """An axis on two summed dimensions left on that of the left operand: right, and not rule 2."""

    def kept(
        axis: str, p: str | None, q: str | None, left: Tensor, right: Tensor, out: Tensor
    ) -> str | None:
        found = ROLE(axis, p, q, left, right, out)
        return p if found is None and p is not None and q is not None else found

    patch.setattr(rules, "_role", kept)


def gathered_once_more(patch: pytest.MonkeyPatch) -> None:
    """Not reusing what was gathered."""

    def take(self: rules._Pass, route: list[program.Operation], name: str) -> None:
        self.program.extend(route)

    patch.setattr(rules._Pass, "take", take)


def reduced_whole(patch: pytest.MonkeyPatch) -> None:
    """An all-reduce and a slice where a reduce-scatter is meant."""
    patch.setattr(rules, "_scattered", lambda wanted, partial, used: ((), ()))


TWO_SUMMED = (
    "In[B_X, T, D] . W[D, F] -> Out[B, T_X, F]",
    "In[B, K_X, H] . W[K, H_X, D] -> Out[B, D]",
)


@pytest.mark.parametrize("text", TWO_SUMMED)
def test_an_axis_on_two_summed_dimensions(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving it on one of them computes the same with other moves: only the table tells."""
    row = next(row for row in ROWS if row.text == text)
    compare(text, MESH)
    by_the_rules = rules.passes(sharding(text))
    summed_dimension_kept(monkeypatch)
    rules.passes.cache_clear()
    compare(text, MESH)
    assert rules.passes(sharding(text)) != by_the_rules
    with pytest.raises(AssertionError):
        hand_worked(row)


ARRAY_BYTES, FLOPS, ROLES = reshard.array_bytes, vars(Multiplied)["flops"].func, rules._roles
FINISH, LAID_OUT, ROLE = rules._Pass.finish, reshard.laid_out, rules._role


WRONG = (
    share_of_one, all_to_all_like_a_gather, all_reduce_once, shard_for_array, one_element_size,
    one_flop, one_pair, flops_of_all_chips, partial_sums_forgotten, rings_inside_out, gathers_free,
    result_left_where_it_is,
)  # fmt: skip
NOT_THE_RULE = (
    rule_4_on_the_other_operand, roles_swapped, slice_instead_of_gather,
    summed_dimension_kept, gathered_once_more,
    reduced_whole, all_reduce_once, shard_for_array, one_element_size,
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
