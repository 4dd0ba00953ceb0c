"""`derive reshard`: the moves between two layouts, canonical and least, as text and as data."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp

from derive.notation.read import expression

SIXTEEN = [f"--set={dim}=16" for dim in "BDF"]


def kinds(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(move["collective"], move["axis"]) for move in answer["moves"]]


def test_an_exchange_in_symbols(answer: Any) -> None:
    exchanged = answer("reshard", "T[B_X, D] -> T[B, D_X]")
    assert kinds(exchanged) == [("all_to_all", "X")]
    assert sp.expand(expression(exchanged["sent_bytes"]) - expression("2*B*D*(X-1)/X**2")) == 0
    assert exchanged["moves"][0].keys() >= {"tensor", "array_bytes", "bytes", "sent_bytes"}
    assert exchanged["assumptions"]["program"].startswith("canonical")


def test_where_a_compiler_gathers_everything(answer: Any) -> None:
    """Sixteen cubed over 4 x 2 devices, one byte each: 3,584 where a compiler gathers the tensor
    from all eight devices; two exchanges send three quarters and half of a shard of 512."""
    line = "reshard", "T[B_Y, D, F_X] -> T[B, D_XY, F]", "--precision=int8", *SIXTEEN
    least = answer(*line, "--set=X=4", "--set=Y=2", "--least")
    assert kinds(least) == [("all_to_all", "X"), ("all_to_all", "Y")]
    assert least["sent_bytes"] == 384 + 256 == sum(move["sent_bytes"] for move in least["moves"])
    assert least["assumptions"]["program"].startswith("least")


def test_axes_in_another_order_are_permuted(answer: Any) -> None:
    least = answer("reshard", "W[D, F_XY] -> W[D, F_YX]", "--least")
    assert kinds(least) == [("permute", "XY")]
    assert sp.expand(expression(least["sent_bytes"]) - expression("2*D*F/(X*Y)")) == 0
    taken = answer("reshard", "W[D, F_XY] -> W[D, F_YX]", "--least", "--set=F=16")
    assert kinds(taken) == [("permute", "XY")]  # no degree that is taken has to divide a length
    canonical = answer("reshard", "W[D, F_XY] -> W[D, F_YX]")
    assert kinds(canonical) == [("all_gather", "XY")]


def test_no_permute_rests_on_degrees_that_are_not_given(answer: Any) -> None:
    line = "reshard", "T[B_X, D] -> T[B_Y, D]", "--least"
    assert kinds(answer(*line)) == [("permute", "XY"), ("all_gather", "X")]
    alike = answer(*line, "--set=X=4", "--set=Y=4")
    assert kinds(alike) == [("permute", "XY")]


def test_an_axis_that_splits_nothing_can_help(answer: Any) -> None:
    line = "reshard", "T[B, D_X] -> T[B_X, D_Y]", "--least", "--set=X=2", "--set=Y=3", "--set=B=12"
    alone, beside = answer(*line, "--set=D=12"), answer(*line, "--set=D=12", "--set=Z=2")
    assert beside["sent_bytes"] < alone["sent_bytes"]
    assert not alone["notes"] and not beside["notes"]
    assert answer(*line[:2], "--set=Z=2")["notes"] == ["Z plays no part in this answer"]


@pytest.mark.parametrize("chip", ["tpu-v5p", "h100"])
def test_on_a_chip_each_move_has_its_seconds(answer: Any, chip: str) -> None:
    line = "reshard", "T[B, D_XY] -> T[B, D_YX]", "--least", "--chip", chip, "--set=B=1024"
    (move,) = answer(*line, "--set=D=1024", "--set=X=2", "--set=Y=4")["moves"]
    assert move["seconds"] > 0 and move["collective"] == "permute"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("T[B_X, D] -> U[B, D_X]", "T[B_X, D] -> U[B, D_X]: expected T[B, D] in another layout"),
        ("T[B_X, D] -> T[D_X, B]", "expected T[B, D] in another layout"),
        ("T[B_X, D]", "expected '->' in a sharding, found the end"),
        ("T[B_X, D] -> T[B, D_X] -> T[B, D]", "expected the end of the line, found '->'"),
        ("T[B_X, D_X] -> T[B, D]", "mesh axis X splits B and D"),
    ],
)
def test_what_is_no_reshard(run: Any, typed: str, told: str) -> None:
    code, out, err = run("reshard", typed)
    assert (code, out) == (2, "") and told in err and err.count("\n") == 1


def test_too_many_layouts_to_search(run: Any) -> None:
    axes = "+".join(f"a{n}" for n in range(9))
    code, _, err = run("reshard", f"T[B_{axes}, D] -> T[B, D_{axes}]", "--least")
    assert code == 2 and "2 dimensions over 9 mesh axes have more than 3,000 layouts" in err


def test_a_strategy_that_declares_its_moves_has_no_program(run: Any) -> None:
    code, _, err = run("layer", "pipeline", "--least")
    assert code == 2 and "pipeline declares its moves; leave it out" in err
