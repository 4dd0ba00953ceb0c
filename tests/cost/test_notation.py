"""The notation: what it reads, what it writes back, and what it refuses with a reason."""

from __future__ import annotations

import pytest
from derive.cost.sharding import LONGEST, Sharding, Tensor, gated, sharding
from hypothesis import example, given, settings
from hypothesis import strategies as st

from derive.notation.errors import ShardingError

FSDP = "In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]"


def test_reads_every_part() -> None:
    layer = sharding("In[B_XZ,D].W_in[D, F_Y]->Tmp[ B_X,F ] . W_out[F,D]\n->Out[B, D_ZYX]  ")
    assert layer.operand == Tensor("In", ("B", "D"), (("X", "Z"), ()))
    assert [w.name for w in layer.weights] == ["W_in", "W_out"]
    assert layer.products[0].result == Tensor("Tmp", ("B", "F"), (("X",), ()))
    assert layer.result == Tensor("Out", ("B", "D"), ((), ("Z", "Y", "X")))
    assert layer.mesh == ("X", "Y", "Z")


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (FSDP, "Tmp[B_X, F]"),
        ("In[B, D_Y] . W[D, F_Y] . V[F_Y, D] -> Out[B, D_Y]", "Tmp[B, F_Y]"),
        ("In[B_X, D] . W[D, F_X] . V[F, D] -> Out[B, D]", "Tmp[B_X, F]"),  # batch first
        ("In[B_ZX, D] . W[D, F_XY] . V[F, D] -> Out[B, D]", "Tmp[B_ZX, F_Y]"),
        ("In[E, B_X, D] . W[E_X, D, F] . V[E, F, D] -> Out[E, B, D]", "Tmp[E_X, B, F]"),
        ("In[E_X, B, D] . W[E_XY, D, F] . V[E, F, D] -> Out[E, B, D]", "Tmp[E_XY, B, F]"),
    ],
)
def test_hidden_tensor_left_out(text: str, hidden: str) -> None:
    assert str(sharding(text).products[0].result) == hidden


def test_gated() -> None:
    assert str(gated(sharding(FSDP))) == (
        "In[B_X, D] . W_gate[D_X, F] * W_in[D_X, F] -> Tmp[B_X, F] . W_out[F, D_X] -> Out[B_X, D]"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (FSDP.replace("W_in[D_X, F]", "W_in[D_X, F] * W_up[D_X, F]"), "is gated already"),
        ("In[B, D] . W[D, F] -> Out[B, F]", "a gated layer needs two products, found one"),
        (FSDP.replace("W_out", "W_gate"), "tensor W_gate is written twice"),
        (FSDP.replace("Out[", "Tmp_in["), "Tmp_in would name two tensors"),
    ],
)
def test_gated_refuses(text: str, reason: str) -> None:
    with pytest.raises(ShardingError) as error:
        gated(sharding(text))
    assert reason in str(error.value)


LETTERS = "B" * 100_000

REFUSED = {
    # malformed
    "": "expected a tensor such as In[B_X, D] in a sharding, found the end",
    "  \n\t ": "found the end",
    "In": "expected '[' in a sharding, found the end",
    "In[": "expected a dimension such as B_X in a sharding, found the end",
    "In[]": "expected a dimension such as B_X in a sharding, found ']'",
    "In[B": "expected ']' in a sharding, found the end",
    "In[B D]": "expected ']' in a sharding, found 'D'",
    "In[B,, D]": "expected a dimension such as B_X in a sharding, found ','",
    "In[B, D]": "expected '.' and a weight after In[B, D], found the end",
    "In[B, D] W[D, F]": "expected '.' and a weight after In[B, D], found 'W'",
    "In[B, D] -> Out[B, D]": "expected '.' and a weight after In[B, D], found '->'",
    "In[B, D] . -> Out[B, D]": "expected a tensor such as In[B_X, D] in a sharding, found '->'",
    "In[B, D] . W[D, F]": "expected '-> Out[...]' at the end: the result must be declared",
    "In[B, D] . W[D, F] ->": "expected a tensor such as In[B_X, D] in a sharding, found the end",
    "In[B, D] . W[D, F] -> Out[B, F] Out": "expected '.', '->' or the end, found 'Out'",
    "In[B, D] . W[D, F] -> Out[B, F] -> O[B, F]": "expected '.', '->' or the end, found '->'",
    "In[B_, D] . W[D, F] -> Out[B, F]": "In: expected mesh axes after 'B_'",
    "In[[B], D] . W[D, F] -> Out[B, F]": "expected a dimension such as B_X in a sharding, found '",
    "In[B[D[F]]]": "expected ']' in a sharding, found '['",
    "[" * 500: "expected a tensor such as In[B_X, D] in a sharding, found '['",
    "In[B, D] - W[D, F] -> Out[B, F]": "a sharding cannot hold '-', at '- W[D, F] -> Out[B, F]'",
    "In[B, 2] . W[D, F] -> Out[B, F]": "a sharding cannot hold '2', at '2] . W[D, F]",
    # unknown
    "In[B, Dx] . W[D, F] -> Out[B, F]": "In: unknown dimension 'Dx'; did you mean D?",
    "In[b, D] . W[D, F] -> Out[B, F]": "In: unknown dimension 'b'; did you mean B?",
    "In[B, Q] . W[D, F] -> Out[B, F]": "In: unknown dimension 'Q'; known: B, D, F, E, T",
    "In[B, N] . W[D, F] -> Out[B, F]": "In: unknown dimension 'N'",
    "In[B_W, D] . W[D, F] -> Out[B, F]": "In: unknown mesh axis 'W' in 'B_W'; known: X, Y, Z",
    "In[B_x, D] . W[D, F] -> Out[B, F]": "In: unknown mesh axis 'x' in 'B_x'; known: X, Y, Z",
    "In[B_X_Y, D] . W[D, F] -> Out[B, F]": "In: unknown mesh axis '_' in 'B_X_Y'",
    # illegal
    "In[B_X, D_X] . W[D, F] -> Out[B, F]": "In[B_X, D_X]: mesh axis X splits B and D; it can",
    "In[B_XYX, D] . W[D, F] -> Out[B, F]": "In[B_XYX, D]: mesh axis X splits B twice; it can",
    "In[B, D] . W[D_Y, F_Y] -> Out[B, F]": "W[D_Y, F_Y]: mesh axis Y splits D and F",
    "In[B, D] . W[D, F] -> Out[B_Z, F_Z]": "Out[B_Z, F_Z]: mesh axis Z splits B and F",
    "In[B, D] . W[D, F] -> T[B_X, F_X] . V[F, D] -> Out[B, D]": "T[B_X, F_X]: mesh axis X splits",
    # contradictory
    "In[B, B] . W[D, F] -> Out[B, F]": "In: dimension B is written twice",
    "In[B, D] . W[F, H] -> Out[B, H]": "In[B, D] . W[F, H]: nothing to sum over; they share no dim",
    "In[E, B] . W[E, F] -> Out[B, F]": "nothing to sum over; they share only leading (batch) dim",
    "In[B, D] . W[D, F] -> Out[B, D]": "Out[B, D]: In[B, D] . W[D, F] gives dimensions B, F, found",
    "In[B, D] . W[D, F] -> Out[B]": "gives dimensions B, F, found B",
    "In[B, D] . W[D, F] -> Out[B, F, D]": "gives dimensions B, F, found B, F, D",
    "In[B, D] . W[D, F] . V[D, H] -> Out[B, H]": "Tmp[B, F] . V[D, H]: nothing to sum over",
    "In[B, D] . In[D, F] -> Out[B, F]": "tensor In is written twice; give each its own name",
    "In[B, D] . W[D, F] -> W[B, F]": "tensor W is written twice",
    "In[B, D] . W[D, F] . W[F, D] -> Out[B, D]": "tensor W is written twice",
    "In[B, D] . Tmp[D, F] . W[F, D] -> Out[B, D]": "tensor Tmp is written twice",
    "In[B, D] . dIn[D, F] -> Out[B, F]": "dIn would name two tensors: one is the gradient of In",
    "In[B, D] . W[D, F] * V[D_X, F] -> Out[B, F]": "W[D, F] * V[D_X, F]: the matrices of a gated",
    "In[B, D] . W[D, F] * V[D, H] -> Out[B, F]": "the matrices of a gated layer must be sharded al",
    "In[B, D] . W_a[D, F] * a[D, F] -> Out[B, F]": "Out_a would name two tensors: one is a factor",
    # hostile
    LETTERS: f"a sharding has at most {LONGEST} characters, found 100000",
    "B" * LONGEST + "[B]": f"at most {LONGEST} characters",
    "B" * 500: "a tensor's name has at most 24 letters, found 'BBBBBB",
    f"In[{'B' * 500}]": "In: unknown dimension 'BBBB",
    f"In[B_{'X' * 500}]": "mesh axis X splits B twice",
    "__import__('os').system('id')": "a sharding cannot hold '(', at",
    "In[B, D] . W[D, F] -> Out[B, F]; import os": "a sharding cannot hold ';', at '; import os'",
    "In[__class__, D]": "In: unknown dimension ''",
    "In[lambda, D]": "In: unknown dimension 'lambda'",
    "{{ 7 * 7 }}": "a sharding cannot hold '{'",
    "In\x00[B, D]": "a sharding cannot hold '\\x00'",
    # not ASCII
    "Ιn[B, D] . W[D, F] -> Out[B, F]": "a sharding cannot hold 'Ι'",
    "In[B, D] · W[D, F] -> Out[B, F]": "a sharding cannot hold '·', at '· W[D, F] -> Out[B, F]'",
    "In[B, D] . W[D, F] → Out[B, F]": "a sharding cannot hold '→'",
    "In[Β, D]": "a sharding cannot hold 'Β'",
    "In[B_Х, D]": "a sharding cannot hold 'Х'",
}


@pytest.mark.parametrize("text", REFUSED, ids=[repr(text[:50]) for text in REFUSED])
def test_refuses_with_a_reason(text: str) -> None:
    with pytest.raises(ShardingError) as error:
        sharding(text)
    message = str(error.value)
    assert REFUSED[text] in message
    assert len(message) < LONGEST and "\n" not in message


PIECES = [
    "In",
    "W_in",
    "Out",
    "[",
    "]",
    ",",
    ".",
    "*",
    "->",
    "B",
    "D_X",
    "F_YZ",
    "E",
    "_",
    " ",
    "é",
]


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(st.one_of(st.text(max_size=80), st.lists(st.sampled_from(PIECES)).map("".join)))
@example(FSDP)
def test_reads_or_refuses(text: str) -> None:
    try:
        layer = sharding(text)
    except ShardingError:
        return
    assert sharding(str(layer)) == layer


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.integers(0, len(FSDP) - 1), st.sampled_from(["", *PIECES]))
def test_one_slip_of_the_pen(place: int, typed: str) -> None:
    text = FSDP[:place] + typed + FSDP[place + 1 :]
    try:
        assert isinstance(sharding(text), Sharding)
    except ShardingError as error:
        assert str(error)


@pytest.mark.parametrize("value", [123, None, ["In[B, D]"]])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(ShardingError, match=r"expected a sharding such as In\[B_X, D\]"):
        sharding(value)  # type: ignore[arg-type]
