"""The notation: what it reads, what it writes back, and what it refuses with a reason."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import sympy as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from shardings import ODD, layouts, shardings, typed

from derive.cost.block import FUNCTIONS, Block, FunctionLine, ProductLine, Tensor, gated
from derive.cost.layout import KINDS, rules_of, spread
from derive.cost.layout import LONGEST as LONGEST_LAYOUT
from derive.cost.passes import program
from derive.cost.reader import LONGEST, MOST_LINES, block
from derive.cost.strategies import STRATEGIES
from derive.cost.transformer import ATTENTION, BLOCKS, MLP
from derive.notation.errors import ShardingError
from derive.notation.symbols import T, U, find

FSDP = "In[B_X, D] . W_in[D_X, F] . W_out[F, D_X] -> Out[B_X, D]"


def test_reads_every_part() -> None:
    read = block("In[B_XZ,D].W_in[D, F_Y]->Tmp[ B_X,F ] . W_out[F,D]\n->Out[B, D_ZYX]  ")
    assert read.inputs == ("In",) and read.outputs == ("Out",)
    assert read["In"] == Tensor("In", ("B", "D"), (("X", "Z"), ()))
    assert read.parameters == ("W_in", "W_out")
    assert read["Tmp"] == Tensor("Tmp", ("B", "F"), (("X",), ()))
    assert read["Out"] == Tensor("Out", ("B", "D"), ((), ("Z", "Y", "X")))
    assert read.mesh == ("X", "Z", "Y")
    assert read.lines == (
        ProductLine("In", ("W_in",), "Tmp"), ProductLine("Tmp", ("W_out",), "Out"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("norm(X[B, D]) -> Y", FunctionLine("norm", ("X",), "Y")),
        ("softmax(X[B, D]) -> Y (fused)", FunctionLine("softmax", ("X",), "Y", fused=True)),
        ("silu(X[B, D]) * Z[B, D] -> Y", FunctionLine("silu*", ("X", "Z"), "Y")),
        ("gelu(X[B, D]) * Z[B, D] -> Y", FunctionLine("gelu*", ("X", "Z"), "Y")),
        ("X[B, D] + Z[B, D] -> Y", FunctionLine("+", ("X", "Z"), "Y")),
        ("X[B, D]+Z[B, D]->Y", FunctionLine("+", ("X", "Z"), "Y")),
        ("X[B, D] * Z[B, D] -> Y[B, D]", FunctionLine("*", ("X", "Z"), "Y")),
        ("X[T, D] -> Y[U, D]", FunctionLine("view", ("X",), "Y")),
        ("X[B, D] => Y[E, J, D]", FunctionLine("route", ("X",), "Y")),
        ("Y[E, J, D] => X[B, D]", FunctionLine("combine", ("Y",), "X")),
        ("I[B, V] @ W[V, D] -> Y[B, D]", ProductLine("I", ("W",), "Y", sp.S.Zero)),
        ("X[T, D] . Z[U, D] -> Y[T, U] (causal)", ProductLine("X", ("Z",), "Y", sp.S.Half)),
        ("X[B, D] . W_a[D, F] * W_b[D, F] -> Y[B, F]", ProductLine("X", ("W_a", "W_b"), "Y")),
    ],
)  # fmt: skip
def test_reads_every_kind_of_line(text: str, line: FunctionLine | ProductLine) -> None:
    read = block(text)
    assert read.lines == (line,)
    assert block(str(read)) == read


def test_every_function_has_a_line_that_is_read() -> None:
    lines = [line for text in (*BLOCKS.values(), *map(block, ODD)) for line in text.lines]
    assert {line.function for line in lines if isinstance(line, FunctionLine)} == {*FUNCTIONS}


def test_names_used_again_are_the_same_tensor() -> None:
    read = block("norm(X[B_X, D]) -> Y; Y . W[D, F] -> Z[B, F]; Z . W -> P[B, D]; P+X -> Out")
    assert [tensor.name for tensor in read.tensors] == ["X", "Y", "W", "Z", "P", "Out"]
    assert read["Y"].layout == read["X"].layout
    assert read.inputs == ("X",) and read.parameters == ("W",) and read.outputs == ("Out",)
    assert block(str(read)) == read


def test_a_line_that_begins_or_ends_in_a_sign_goes_on() -> None:
    lines = "In[B, D]\n  . W_in[D, F]\n -> Tmp[B, F] .\n W_out[F, D] -> Out[B, D];\n\n;"
    assert block(lines) == block(lines.replace("\n", " ").replace(";", ""))


def test_batch_dimensions_stand_anywhere() -> None:
    """Those that both operands and the result have, as attention is said."""
    read = block(
        "Q[b_seq, T, K, G, H] . Key[b_seq, U, K, H] -> S[b_seq, K, G, T, U]; softmax(S) -> A; "
        "A . Val[b_seq, U, K, H] -> O[b_seq, T, K, G, H]"
    )
    flops = program(read).forward.flops
    assert flops == 4 * sp.Mul(*map(find, ("b_seq", "T", "U", "K", "G", "H"))) * find("fma") / 2
    other = block("In[D, B, K] . W[F, K, D] -> Out[K, F, B]")
    assert program(other).forward.flops == sp.Mul(*map(find, "DBKF")) * find("fma")


def test_views_give_one_length_two_names() -> None:
    assert ATTENTION.same_length == {U: T}
    read = block("X[T, D] -> Y[U, D]; Y -> Z[J, D]; Z . X -> S[J, T]; S . X -> Out[J, D]")
    assert read.same_length == {U: T, find("J"): T}
    assert program(read).forward.flops.free_symbols == {T, find("D"), find("fma")}


def test_what_is_a_parameter_is_said() -> None:
    text = "Q[T, H] . Key[U, H] -> S[T, U]; S . W_v[U, F] -> Out[T, F]"
    assert block(text).parameters == ("W_v",)
    assert block(text, []).parameters == () and block(text, []).inputs == ("Q", "Key", "W_v")
    assert block(text, ["Key", "W_v", "Key"]).parameters == ("Key", "W_v")
    assert block(text, "Key").parameters == ("Key",)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        (["W_q"], "unknown parameter 'W_q'; did you mean W_"),
        (["Zzz"], "unknown parameter 'Zzz'; known: Out, Q, S, W_k, W_v"),
        (["S"], "parameter S is made by a line; a parameter is given"),
        (5, "expected the names of parameters, found '5'"),
        ([["W_k"]], "unknown parameter"),
        ([None], "unknown parameter 'None'"),
    ],
)
def test_parameters_that_are_not_there(parameters: object, reason: str) -> None:
    text = "Q[T, H] . W_k[U, H] -> S[T, U]; S . W_v[U, F] -> Out[T, F]"
    with pytest.raises(ShardingError, match=re.escape(reason)):
        block(text, parameters)  # type: ignore[arg-type]


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
    read = block(text)
    assert str(read[read.lines[0].result]) == hidden


def test_gated() -> None:
    assert str(gated(block(FSDP))) == (
        "In[B_X, D] . W_gate[D_X, F] * W_in[D_X, F] -> Tmp[B_X, F] . W_out[F, D_X] -> Out[B_X, D]"
    )
    assert gated(block(FSDP)) == block(str(gated(block(FSDP))))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (FSDP.replace("W_in[D_X, F]", "W_in[D_X, F] * W_up[D_X, F]"), "is gated already"),
        ("In[B, D] . W[D, F] -> Out[B, F]", "a gated layer needs two products, found one"),
        (FSDP.replace("W_out", "W_gate"), "tensor W_gate is there already"),
        (FSDP.replace("Out[", "Tmp_in["), "Tmp_in would name two tensors"),
        ("norm(X[B, D]) -> Y; Y . W[D, F] -> Z[B, F]", "a gated layer is a chain of products"),
    ],
)
def test_gated_refuses(text: str, reason: str) -> None:
    with pytest.raises(ShardingError) as error:
        gated(block(text))
    assert reason in str(error.value)


LETTERS = "B" * 100_000

REFUSED = {
    # malformed
    "": "expected a tensor such as In[B_X, D] in a sharding, found the end",
    "  \n\t ": "found the end",
    "In": "In is used before it is made: make it on a line above, or give its dimensions, such as "
    "In[B, D], where it comes in",
    "In[": "expected a dimension such as B_X in a sharding, found the end",
    "In[]": "expected a dimension such as B_X in a sharding, found ']'",
    "In[B": "expected ']' in a sharding, found the end",
    "In[B D]": "expected ']' in a sharding, found 'D'",
    "In[B,, D]": "expected a dimension such as B_X in a sharding, found ','",
    "In[B, D]": "expected '.' and a weight after In[B, D], found the end",
    "In[B, D] W[D, F]": "expected '.' and a weight after In[B, D], found 'W'",
    "In[B, D] -> Out[B]": "Out[B]: expected 2 dimensions, as In[B, D]",
    "In[B, D] -> Out": "expected the dimensions of the result, such as 'Out[B, D]', found the end",
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
    "In[B, O] . W[D, F] -> Out[B, F]": "In: unknown dimension 'O'; known: B, D, F, E, T",
    "In[B, N] . W[D, F] -> Out[B, F]": "In: unknown dimension 'N'",
    "In[B_W, D] . W[D, F] -> Out[B, F]": "In: unknown mesh axis 'W': mesh axis W: W is the ICI b",
    "In[B_Xin, D] . W[D_in, F] -> Out[B, F]": "W: unknown mesh axis 'in': a symbol's name must be",
    "In[B_B, D] . W[D, F] -> Out[B, F]": "mesh axis B: B is the global batch, in tokens; give the",
    "In[B_fma, D] . W[D, F] -> Out[B, F]": "fma is the FLOP of one multiply-add; give the axis ano",
    "In[B__x, D] . W[D, F] -> Out[B, F]": "unknown mesh axis '_x': a name begins with a letter",
    "In[B_X1, D] . W[D, F] -> Out[B, F]": "unknown mesh axis '1': a name begins with a letter",
    f"In[B_{'q' * 25}, D] . W[D, F] -> Out[B, F]": "a name begins with a letter and has at most 24",
    "foo(In[B, D]) -> Out": "unknown function 'foo'; known: gelu, layer_norm, norm, relu, silu",
    "norn(In[B, D]) -> Out": "unknown function 'norn'; did you mean norm?",
    "route(In[B, D]) -> Out": "unknown function 'route'",
    "relu(In[B, D]) * A[B, D] -> Out": "relu(...) * ... is no gate; write one of silu, gelu",
    "In[B, D] . W_in[D, F] -> A[B, F]; A . W_im[F, D] . W_on -> Out[B, D]": "W_on is used before "
    "it is made: make it on a line above, or give its dimensions, such as W_on[B, D], where it "
    "comes in; did you mean W_in",
    "In[B_X_Y, D] . W[D, F] -> Out[B, F]": "In: unknown mesh axis '_': a name begins with",
    # illegal
    "In[B_X, D_X] . W[D, F] -> Out[B, F]": "In[B_X, D_X]: mesh axis X splits B and D; it can",
    "In[B_XYX, D] . W[D, F] -> Out[B, F]": "In[B_XYX, D]: mesh axis X splits B twice; it can",
    "In[B, D] . W[D_Y, F_Y] -> Out[B, F]": "W[D_Y, F_Y]: mesh axis Y splits D and F",
    "In[B, D] . W[D, F] -> Out[B_Z, F_Z]": "Out[B_Z, F_Z]: mesh axis Z splits B and F",
    "In[B, D] . W[D, F] -> T[B_X, F_X] . V[F, D] -> Out[B, D]": "T[B_X, F_X]: mesh axis X splits",
    # contradictory
    "In[B, B] . W[D, F] -> Out[B, F]": "In: dimension B is written twice",
    "In[B, D] . W[F, H] -> Out[B, H]": "In[B, D] . W[F, H]: nothing to sum over; they share no dim",
    "In[E, B] . W[E, F] -> Out[E, B, F]": "nothing to sum over; they share only dimensions that O",
    "In[B, D] . W[D, F] -> Out[B, D]": "Out[B, D]: In[B, D] . W[D, F] gives dimensions B, F, found",
    "In[B, D] . W[D, F] -> Out[B]": "gives dimensions B, F, found B",
    "In[B, D] . W[D, F] -> Out[B, F, D]": "nothing to sum over; they share only dimensions that O",
    "In[B, D] . W[D, F] -> Out[B, F, H]": "gives dimensions B, F, found B, F, H",
    "In[B, D, T] . W[D, T, F] -> Out[B, D]": "gives dimensions B, F (and any of D, T), found B, D",
    "In[B, D] . W[D, F] . V[D, H] -> Out[B, H]": "Tmp[B, F] . V[D, H]: nothing to sum over",
    "In[B, D] . In[D, F] -> Out[B, F]": "In[D, F]: In is In[B, D] before; a name used again is",
    "In[B, D] . W[D, F] -> W[B, F]": "W[B, F]: W is W[D, F] before; a name used",
    "In[B, D] . W[D, F] . W[F, D] -> Out[B, D]": "W[F, D]: W is W[D, F] before",
    "In[B, D] . Tmp[D, F] . W[F, D] -> Out[B, D]": "Tmp is used before it is made; make it on",
    "In[B, D] . dIn[D, F] -> Out[B, F]": "dIn would name two tensors: one is the gradient of In",
    "In[B, D] . W[D, F] * V[F, D] -> Out[B, F]": "W[D, F] * V[F, D]: the matrices of a gated",
    "In[B, D] . W[D, F] * V[D, H] -> Out[B, F]": "the matrices of a gated layer must have the same",
    "In[B, D] . W_a[D, F] * a[D, F] -> Out[B, F]": "Out_a would name two tensors: one is a factor",
    "norm(In[B, D]) -> A; norm(In) -> A": "A is made twice; give each result its own name",
    "norm(In[B, D]) -> A; norm(A) -> In": "In is used before it is made; make it on a line above",
    "In[B, D] . W[D, F] -> A[B, F]; A . In[B_X, D] -> Out[F, D]": "In[B_X, D]: In is In[B, D] b",
    "In[B, D] + A[B, F] -> Out": "A[B, F]: expected the dimensions of In[B, D]",
    "norm(In[B, D]) -> Out[D, B]": "Out[D, B]: expected the dimensions of In[B, D]",
    "In[B, D] => Out[E, J, F]": "expected rows [B, ...] and places [E, J, ...] of experts",
    "norm(In[B, D]) -> A; A @ W[D, F] -> Out[B, F]": "A @ ...: what is looked up comes in, A[B, D]",
    "Ids[V, B] @ W[V, F] -> Out[B, F]": "Ids[V, B] @ ...: a look-up sums over the last dimension",
    "W_r[B, V] @ W[V, F] -> Out[B, F]": "parameter W_r is the rows of a look-up, which come in",
    "norm(In[B, D]) -> W": "parameter W is made by a line; a parameter is given",
    "In[B, D] . W[D, F] -> Out[B, F] (casual)": "expected (causal) or the end, found 'casual'",
    "norm(In[B, D]) -> Out (causal)": "expected (fused) or the end, found 'causal'",
    "norm(In[B, D]) -> Out Out": "expected the end of the line, found 'Out'",
    # hostile
    "; ".join(f"norm(In[B, D]) -> A{n}" for n in range(99)): f"at most {MOST_LINES} products and f",
    "In[B, D] . W[D, F] . V[F, D]"
    + " . W . V" * 99
    + " -> Out[B, D]": f"at most {MOST_LINES} prod",
    ";" * 999: "expected a tensor such as In[B_X, D] in a sharding, found the end",
    LETTERS: f"a block has at most {LONGEST} characters, found 100000",
    "B" * LONGEST + "[B]": f"at most {LONGEST} characters",
    "B" * 500: "a tensor's name has at most 24 letters, found 'BBBBBB",
    f"In[{'B' * 500}]": "In: unknown dimension 'BBBB",
    f"In[B_{'X' * 500}]": "mesh axis X splits B twice",
    "__import__('os').system('id')": "a sharding cannot hold",
    "In[B, D] . W[D, F] -> Out[B, F]; import os": "import is used before it is made",
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
        block(text)
    message = str(error.value)
    assert REFUSED[text] in message
    assert len(message) < LONGEST and "\n" not in message


LAYOUTS_REFUSED = {
    "": "layout: expected a rule such as B:X or D:dp(weights), found ''",
    "B": "layout: expected a rule such as B:X or D:dp(weights), found 'B'",
    "B:": "expected a rule",
    "B:X,D:X": "expected a rule such as B:X or D:dp(weights), found 'B:X,D:X'",
    "B:X+Y": "expected a rule",
    "B: X": "expected a rule",
    "B:X D:X B:X": "layout: the rule B:X is given twice",
    "B:X()": "expected a rule",
    "B:X(weights,)": "expected a rule",
    "B:X(weights": "expected a rule",
    "B:é": "expected a rule",
    "B:X; import os": "expected a rule",
    "B:XY": "mesh axis XY in capitals reads as the axes X, Y; write xy",
    "B:TP": "mesh axis TP in capitals reads as the axes T, P; write tp",
    "H:X": "layout H:X: the block has no dimension 'H'; it has B, D, F",
    "b:X": "layout b:X: the block has no dimension 'b'; did you mean B?",
    "B:X(weight)": "the block has no tensor 'weight'; did you mean weights?",
    "D:X(W_on)": "layout D:X(W_on): the block has no tensor 'W_on'; did you mean W_in or W_out?",
    "B:X(W_in)": "no tensor that it speaks of has the dimension B, which In, Tmp, Out have",
    "B:X(optimizer)": "no tensor that it speaks of has the dimension B",
    "B:if": "layout: unknown mesh axis 'if'",
    "B:B": "mesh axis B: B is the global batch, in tokens; give the axis another name",
    "B:seq": "layout B:seq: B_seq is a dimension; give the axis another name",
    "B:__class__": "unknown mesh axis '__class__': a name begins with a letter",
    f"B:{'x' * 99}": "unknown mesh axis 'xxx",
    "B:X " * 999: f"a layout has at most {LONGEST_LAYOUT} characters, found",
}


@pytest.mark.parametrize("line", LAYOUTS_REFUSED, ids=[repr(line[:30]) for line in LAYOUTS_REFUSED])
def test_layouts_are_refused_with_a_reason(line: str) -> None:
    with pytest.raises(ShardingError) as error:
        spread(MLP, line)
    message = str(error.value)
    assert LAYOUTS_REFUSED[line] in message
    assert len(message) < LONGEST_LAYOUT and "\n" not in message


def test_a_layout_of_the_most_characters_is_one() -> None:
    longest = "B:X".ljust(LONGEST_LAYOUT)
    assert spread(MLP, longest) == spread(MLP, "B:X")
    with pytest.raises(ShardingError, match=f"at most {LONGEST_LAYOUT} characters"):
        spread(MLP, longest + " ")


@pytest.mark.parametrize("value", [5, None, {"B": "X"}])
def test_what_is_no_layout_is_refused(value: object) -> None:
    with pytest.raises(ShardingError, match="expected a layout such as B:X D:X"):
        spread(MLP, value)  # type: ignore[arg-type]


def test_a_layout_is_read_and_written_back() -> None:
    line = "B:X D:dp(weights,ring) F:tp(W_in,Tmp)"
    rules = rules_of(f"  {line.replace(' ', chr(10))} ")
    assert " ".join(map(str, rules)) == line
    assert rules_of("D:dp(weights, ring)")[0] == rules[1]
    assert spread(MLP, rules) == spread(MLP, line)


PIECES = [
    "In", "W_in", "Out", "[", "]", ",", ".", "*", "->", "B", "D_X", "F_YZ", "E", "_", " ", "é",
    "=>", "@", "+", "(", ")", "norm", "silu", "fused", "causal", ";", "\n", "B_dp+cp", "T_a",
]  # fmt: skip


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(st.one_of(st.text(max_size=80), st.lists(st.sampled_from(PIECES)).map("".join)))
@example(FSDP)
def test_reads_or_refuses(text: str) -> None:
    try:
        read = block(text)
    except ShardingError:
        return
    assert block(str(read)) == read


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    st.sampled_from([FSDP, *ODD, str(ATTENTION)]), st.floats(0, 1), st.sampled_from(["", *PIECES])
)
def test_one_slip_of_the_pen(text: str, share: float, typed: str) -> None:
    """What is read can be run, and reads back."""
    place = int(share * (len(text) - 1))
    try:
        read = block(text[:place] + typed + text[place + 1 :])
    except ShardingError as error:
        assert str(error) and "\n" not in str(error)
        return
    assert block(str(read)) == read
    program(read)


RULE = st.builds(
    "{}:{}{}".format,
    st.sampled_from(["B", "D", "F", "T", "", "b"]),
    st.sampled_from(["X", "Y", "dp", "XY", "", "if", "B"]),
    st.sampled_from(["", "()", *(f"({kind})" for kind in (*KINDS, "W_in", "W_on", "Tmp, In"))]),
)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.one_of(st.text(max_size=40), st.lists(RULE, max_size=5).map(" ".join)))
def test_spreads_or_refuses(line: str) -> None:
    try:
        read = spread(MLP, line)
    except ShardingError as error:
        assert str(error) and "\n" not in str(error)
        return
    whole = replace(read, rings=(), states=())
    assert block(str(read)) == whole
    program(read)


ROUND = settings(max_examples=100, deadline=None, derandomize=True, database=None)


@ROUND
@given(st.one_of(shardings(), typed()))
def test_round_trip(read: Block) -> None:
    assert block(str(read)) == read
    assert block(str(read), read.parameters) == read


@ROUND
@given(layouts(), st.data())
def test_round_trip_of_layouts_and_parameters_by_name(
    laid: tuple[Block, str], data: st.DataObject
) -> None:
    """A text says neither what goes round in a ring nor where the optimizer's state is."""
    read, line = laid
    try:
        read = spread(read, line)
    except ShardingError:
        return
    outside = [name for name in (*read.inputs, *read.parameters) if name not in read.looked_up]
    names = data.draw(st.lists(st.sampled_from(outside), unique=True))
    plain = replace(read, rings=(), states=(), parameters=tuple(names))
    assert block(str(read), names) == plain


@pytest.mark.parametrize("name", [*BLOCKS, *(n for n, s in STRATEGIES.items() if s.block)])
def test_blocks_read_back_and_have_tex(name: str) -> None:
    read = BLOCKS.get(name) or STRATEGIES[name].block
    assert read is not None
    assert block(str(read)) == replace(read, rings=(), states=())
    tex(read)


@ROUND
@given(typed())
def test_tex_of_every_block(read: Block) -> None:
    tex(read)


def tex(read: Block) -> None:
    """Braces are paired, nothing has two subscripts, and words are upright."""
    latex = read.latex
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", latex):
        depth += 1 if brace == "{" else -1
        assert depth >= 0
    assert depth == 0
    bare = re.sub(r"\\(text|operatorname)\{(\\_|[^{}])*\}", "t", latex)
    assert not re.search(r"_\{[^{}]*\}_|_[^{]|\^", bare), latex
    # Axes in capitals are letters side by side; any other word is upright.
    assert not re.search(r"(?<![\\A-Za-z])(?=[A-Za-z]*[a-z])[A-Za-z]{2,}", bare), latex


def test_tex_by_hand() -> None:
    read = block(
        "norm(In[b_seq_dp, T_cp+my_axis]) -> X; X . W_in[T, F_XY] -> Out[b_seq, F] (causal)"
    )
    assert read.latex == (
        r"\operatorname{norm}(\text{In}[b_{\text{seq},\text{dp}}, T_{\text{cp+my\_axis}}]) \to "
        r"\text{X}[b_{\text{seq},\text{dp}}, T_{\text{cp+my\_axis}}] ;\; \text{X} \cdot "
        r"\text{W}_{\text{in}}[T, F_{XY}] \to \text{Out}[b_{\text{seq}}, F]\ \text{(causal)}"
    )


@pytest.mark.parametrize("value", [123, None, ["In[B, D]"]])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(ShardingError, match=r"expected a block such as In\[B_X, D\]"):
        block(value)  # type: ignore[arg-type]
