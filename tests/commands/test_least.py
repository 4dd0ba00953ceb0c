"""`derive layer --least`: what it moves, what it rests on, and where it turns."""

from __future__ import annotations

from typing import Any

import sympy as sp

from derive.notation.read import expression

SIZES = ("--set=B=256", "--set=D=64", "--set=F=128", "--set=X=2", "--set=Y=4")


def forward(answer: Any, sharding: str, *options: str) -> list[tuple[str, str, str]]:
    moves = answer("layer", sharding, "--least", *options)["forward"]["moves"]
    return [(move["collective"], move["tensor"], move["axis"]) for move in moves]


def test_replicated_operands_are_sliced(answer: Any) -> None:
    """No FLOP is done twice where the result is split: nothing moves for it."""
    least = answer("layer", "In[B, D] . W[D, F] -> Out[B_X, F]", "--least")["forward"]
    assert least["moves"] == []
    assert sp.expand(expression(least["flops"]) - expression("2*B*D*F/X")) == 0


def test_another_order_of_axes_is_permuted(answer: Any) -> None:
    """One shard of W of 1,024 elements, of two bytes each; of Out it would be 8,192 bytes."""
    line = "In[B, D] . W[D, F_XY] -> Out[B, F_YX]"
    least = answer("layer", line, "--least", *SIZES)["forward"]
    assert [move["collective"] for move in least["moves"]] == ["permute"]
    assert least["moves"][0]["tensor"] == "W" and least["sent_bytes"] == 2048
    assert answer("layer", line, *SIZES)["forward"]["bytes"] > 2048


def test_the_smaller_operand_is_moved(answer: Any) -> None:
    rows_to_columns = "In[B_X, D] . W_in[D, F] -> Out[B, F_X]"
    assert forward(answer, rows_to_columns, *SIZES) == [("all_gather", "In", "X")]
    wide = ("--set=B=256", "--set=D=1024", "--set=F=128", "--set=X=2")
    assert forward(answer, rows_to_columns, *wide) == [("all_to_all", "Out", "X")]


def test_the_program_is_an_assumption(answer: Any, run: Any) -> None:
    told = answer("layer", "fsdp", "--least", "--set=X=8")["assumptions"]["program"]
    assert "X = 8," in told and "B = 131,072 (taken)" in told
    assert answer("layer", "fsdp")["assumptions"]["program"].startswith("canonical")
    _, out, _ = run("layer", "fsdp", "--least")
    assert "  program: least: the fewest bytes that a device sends" in out


def test_where_it_turns_is_told(answer: Any, run: Any) -> None:
    line = "In[B_X, D] . W[D_X, F] -> Out[B_X, F]"
    (turn,) = answer("layer", line, "--least", "--set=X=2", "--turns=B")["turns"]
    assert turn["dimension"] == "B"
    assert sp.simplify(expression(turn["length"]) - expression("2*D*F/(D + 2*F)")) == 0
    numbers = ("--set=X=2", "--set=D=4096", "--set=F=12288")
    _, out, _ = run("layer", line, "--least", *numbers)
    assert "instead of weights (all-gather W X) below B = 3,511" in out
    code, _, err = run("layer", line, "--least", "--turns=G")
    assert code == 2 and "unknown dimension 'G'" in err
    code, _, err = run("layer", line, "--turns=B")
    assert code == 2 and "--turns is for --least" in err


def test_a_length_of_one_is_not_split(answer: Any) -> None:
    """One token: the batch cannot take an axis, so that the columns do."""
    line = "In[B, D] . W[D, F] -> Out[B, F_X]"
    one = ("--set=B=1", "--set=D=64", "--set=F=128", "--set=X=2")
    assert forward(answer, line, *one) == []
    gathered = forward(answer, "In[B, D_X] . W[D, F] -> Out[B, F]", *one)
    assert gathered == [("all_gather", "In", "X"), ("all_gather", "Out", "X")]


def test_lengths_are_whole(run: Any) -> None:
    """A length of which the search could take nothing is not taken to be another one."""
    code, out, err = run("layer", "fsdp", "--least", "--set=D=8.5")
    assert (code, out) == (2, "") and "D (model width): expected a whole number, found 17/2" in err


def test_elements_of_half_a_byte_are_weighed(answer: Any) -> None:
    """Gradients of four bytes beside activations of half a one: it is cheaper to gather those."""
    line = "In[B_X, D] . W[D_X, F] -> Out[B_X, F]"
    sizes = ("--set=X=4", "--set=B=256", "--set=D=64", "--set=F=64")
    narrow = ("--precision=fp4", "--gradients=fp32")
    sent = answer("layer", line, *sizes, *narrow)["backward"]["sent_bytes"]
    assert answer("layer", line, "--least", *sizes, *narrow)["backward"]["sent_bytes"] < sent


def test_bytes_of_an_element_that_are_set_are_those_of_gradients(answer: Any) -> None:
    given = ("--precision=any", "--set=e=4", "--set=X=2", "--set=D=8", "--set=F=8")
    assert answer("layer", "fsdp", *given)["backward"]["sent_bytes"] == 4 * 4 * 8 * 8 // 2


def test_many_products_over_many_axes_are_refused(run: Any) -> None:
    """What one product may search, twenty may not."""
    line = "In{0}[B_a+b, D, T, K] . W{0}[D_c+d, T, F, K] -> Out{0}[B, F_a+b+c+d, K, T]"
    code, _, err = run("layer", "; ".join(map(line.format, range(20))), "--least")
    assert code == 2 and "for each of 20 products" in err and err.count("\n") == 1
