"""No slip of a Python user's ends in anything but one line: each public function and method is
called with one of its arguments replaced by what it does not take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pytest

import derive
from derive import *  # noqa: F403
from derive import (
    B,
    X,
    alpha,
    chip,
    context_ring,
    fsdp,
    fsdp_tensor,
    mesh,
    model,
    number,
    optimum,
    search,
    step_model,
    threshold,
)
from derive.book.chapter import Chapter
from derive.notation.errors import DeriveError
from derive.notation.printed import integer

TEXT = "In[B_X, D] . W_in[D, F] . W_out[F, D] -> Out[B_X, D]"
V5P, LLAMA, H100 = chip("tpu-v5p"), model("llama-3-8b"), chip("h100")
TWELVE = number(12, name="twelve")


class Odd:
    """What nothing takes."""

    def __repr__(self) -> str:
        return "an odd\nthing"


SLIPS: dict[str, Any] = {
    "None": None, "0": 0, "nan": float("nan"), "huge": 10**400, "True": True, "text": "alhpa",
    "list": [1], "dict": {"alpha": [1]}, "odd": Odd(), "function": threshold, "symbol": X,
    "sum": B + X, "array": np.array([1.0, 2.0]), "complex": 2j, "quantity": TWELVE,
    "threshold": threshold(fsdp, B / X), "chip": V5P,
}  # fmt: skip


def in_chapter(method: str, *arguments: Any, **named: Any) -> Any:
    """A method of a new chapter with one figure."""
    chapter = Chapter("04", "A chapter")
    chapter.shown("fine", TWELVE)
    return getattr(chapter, method)(*arguments, **named)


@lru_cache(maxsize=1)
def calls() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    """A call that works of each function and method."""
    of_step = derive.task(LLAMA, H100, cards=16, seq=8192, batch=16)
    ranking = search(of_step, top=2)
    bound, best, cards = (
        threshold(fsdp, B / X),
        optimum(fsdp_tensor, X),
        mesh({"tp": 2, "dp": 8}, 8),
    )
    block = derive.block(TEXT)
    listed: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
        name: (getattr(derive, name), arguments, named)
        for name, arguments, named in [
            ("Assumptions", (), {"overlap": "serial"}),
            ("assume", ("default",), {"overlap": "serial", "corrections": "notebook"}),
            ("block", (TEXT,), {"parameters": ["W_in"]}),
            ("chip", ("h100",), {"profile": "scaling-book", "override": {}, "catalogue": None,
                                 "files": ()}),
            ("chips", (None,), {}),
            ("dividing_below", (TWELVE, 8, 2), {}),
            ("evaluate", (alpha * X, {alpha: [1.0]}, {X: 2}), {}),
            ("evaluated", (alpha * X, {alpha: number(1), X: number(2)}, None, "name"), {}),
            ("feasible", (fsdp_tensor, 64, V5P, LLAMA), {"values": {"B": 4e6}, "splits": "divisors",
                                                         "shape": None, "assumptions": "default"}),
            ("find", ("alpha",), {}),
            ("gated", (block,), {}),
            ("layer", (TEXT,), {"layout": "", "parameters": None}),
            ("load_file", ("nowhere.toml",), {"onto": None}),
            ("meaning", (alpha,), {}),
            ("mesh", ({"tp": 2}, 8, "tp"), {}),
            ("model", ("llama-3-8b",), {"catalogue": None, "files": ()}),
            ("models", (None,), {}),
            ("multiple_below", (TWELVE, 4), {}),
            ("nearest_power_of_two", (TWELVE,), {}),
            ("number", (1, TWELVE.unit, "one"), {}),
            ("numerical", (fsdp, B, V5P), {"values": {"X": 64}, "fixed": (),
                                           "assumptions": "default"}),
            ("optimum", (fsdp_tensor, X, "default"), {}),
            ("power_of_two_below", (TWELVE,), {}),
            ("program", (block, "activations"), {}),
            ("prove", (derive.steps(fsdp, B / X)[0],), {}),
            ("recomputation", ("notebook",), {}),
            ("regrouped", (cards,), {"etp": 1, "ep": 2}),
            ("search", (of_step, None), {"top": 1}),
            ("seconds", (derive.program(block).backward.moves[0],), {"exact": False}),
            ("spread", (derive.BLOCKS["mlp"], "B:X"), {}),
            ("step_assumptions", ("notebook",), {}),
            ("step_model", ("notebook",), {}),
            ("steps", (fsdp, B / X, "default"), {"fixed": ()}),
            ("strategy", ("fsdp",), {}),
            ("task", (LLAMA, H100), {"cards": 16, "seq": 8192, "batch": 16, "values": None,
                                     "assumptions": "default"}),
            ("threshold", (fsdp, B / X, "default"), {"fixed": ()}),
        ]
    }  # fmt: skip
    for place, method, arguments, named in [
        (bound, "on", (V5P,), {"X": 64}),
        (bound, "missing", (V5P,), {}),
        (bound, "suited", (V5P,), {}),
        (threshold(context_ring, derive.T_r), "on", (H100, LLAMA), {"tp": 2}),
        (best, "on", (V5P, LLAMA), {"B": 4e6, "N": 64}),
        (TWELVE, "named", ("x", TWELVE.unit), {}),
        (TWELVE, "__mul__", (2,), {}),
        (TWELVE, "__truediv__", (2,), {}),
        (TWELVE, "__add__", (2,), {}),
        (TWELVE, "__sub__", (2,), {}),
        (V5P, "has", ("bf16",), {}),
        (V5P, "fact", ("bf16",), {}),
        (V5P, "quantity", ("bf16",), {}),
        (V5P, "reading", ("bf16",), {}),
        (V5P, "shape", ("pod_shape",), {}),
        (V5P, "bindings", ("bf16",), {}),
        (LLAMA, "fact", ("context",), {}),
        (cards, "groups", ("tp",), {}),
        (cards, "inside_node", ("tp",), {}),
        (cards, "stride", ("tp",), {}),
        (cards, "node", (3,), {}),
        (cards, "coordinates", (3,), {}),
        (cards, "rank", ({"tp": 1},), {}),
        (ranking, "plan", (1,), {}),
        (ranking, "plans", (1,), {}),
        (ranking, "rank", (), {"tp": 1}),
        (ranking.plan(1), "quantity", ("mfu",), {}),
        (ranking.plan(1), "share", ("compute",), {}),
        (step_model("notebook"), "term", ("n_mb",), {}),
        (fsdp, "passes", (derive.assume(),), {}),
    ]:
        listed[f"{type(place).__name__}.{method}"] = (getattr(place, method), arguments, named)
    for method, arguments, named in [
        ("chip", ("h100",), {"override": {}}),
        ("model", ("llama-3-8b",), {}),
        ("shown", ("a", TWELVE, integer()), {"unit": None, "cite": ()}),
        ("claim", ("a", TWELVE, "round"), {"cite": ()}),
        ("require", ("a", TWELVE, ">", 1), {"cite": ()}),
        ("given", ("a", TWELVE), {"cite": ()}),
        ("holds", (("a", True, "so"),), {}),
        ("condition", ("a", bound), {"label": None}),
        ("formula", ("a", alpha), {}),
        ("derivation", ("a", derive.steps(fsdp, B / X)), {}),
        ("table", ("a", "One | Two", [["1", "2"]]), {"align": None}),
        ("plot", ("a", None, "words"), {}),
        ("erratum", ("fine", "13", "words", "there"), {}),
    ]:
        listed[f"Chapter.{method}"] = (partial(in_chapter, method), arguments, named)
    listed["Chapter"] = (Chapter, ("04", "A chapter"), {"profile": "scaling-book", "names": ()})
    return listed


NAMES = tuple(calls())


def slipped(name: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    function, arguments, named = calls()[name]
    for slip, value in SLIPS.items():
        for place in range(len(arguments)):
            changed = (*arguments[:place], value, *arguments[place + 1 :])
            yield f"argument {place}: {slip}", lambda a=changed: function(*a, **named)  # type: ignore[misc]
        for key in named:
            changed_names = {**named, key: value}
            yield f"{key}: {slip}", lambda n=changed_names: function(*arguments, **n)  # type: ignore[misc]


@pytest.mark.parametrize("name", NAMES)
def test_a_slip_is_told_in_one_line(name: str) -> None:
    for told, call in slipped(name):
        try:
            call()
        except DeriveError as error:
            assert "\n" not in str(error), f"{name}, {told}: {error}"
            assert " --" not in str(error), f"{name}, {told}: {error}"
            assert len(str(error)) < 700
        except Exception as error:
            pytest.fail(f"{name}, {told}: {type(error).__name__}: {error}")
