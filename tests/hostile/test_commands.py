"""Whole command lines, all arguments of each command."""

from __future__ import annotations

import json

from hostile.guards import commanded
from hostile.strategies import (
    JUNK,
    assignments,
    formulas,
    layouts,
    numbers,
    orders,
    ratios,
    reshards,
    shardings,
    sizes,
    values,
    words,
)
from hypothesis import given
from hypothesis import strategies as st

from derive.cost.limits import LIMITS
from derive.cost.strategies import STRATEGIES

CHIPS = ["tpu-v5p", "h100", "tpu7x", "v5p", "h800", "b200"]
MODELS = ["llama-3-70b", "llama-3-8b", "deepseek-v3", "gpt-2"]
ASSUMED = ["default", "notebook", "notebook+ring_tensor", "default-ring_tensor", "+", "-"]
Options = st.SearchStrategy[list[str]]


def _known(names: list[str]) -> st.SearchStrategy[str]:
    return st.one_of(st.sampled_from(names), st.sampled_from(names), words(names, 2))


def _options(known: dict[str, st.SearchStrategy[str] | None], most: int) -> Options:
    """Some of the options of a command, each with its argument, and now and then junk."""
    pairs = [
        st.just([name]) if typed is None else typed.map(lambda text, name=name: [name, text])
        for name, typed in known.items()
    ]
    junk = st.sampled_from(JUNK).map(lambda text: [text])
    some = st.lists(st.one_of(*pairs, *pairs, *pairs, junk), max_size=most)
    return some.map(lambda chosen: [word for pair in chosen for word in pair])


_values = {
    "--chip": _known(CHIPS), "--model": _known(MODELS), "--set": assignments,
    "--profile": _known(["scaling-book", "notebook"]), "--layout": layouts, "--json": None,
    "--keep": _known(["none", "weights", "all"]), "--gated": None,
    "--parameters": words(["W_in", "W_out", "W", ","], 3),
    "--network": _known(["torus", "node", "two-level", "egress", "hbm"]),
    "--norm": _known(["fused", "unfused"]), "--glu": _known(["fused", "unfused"]),
    "--kernels": _known(["fused", "unfused", "recomputed"]),
    "--precision": _known(["bf16", "fp8", "any"]), "--gradients": _known(["fp32", "bf16"]),
    "--facts": _known(["facts.toml", ".", "/dev/null", "/dev/zero"]),
}  # fmt: skip
_asked = _options(
    {
        **_values, "--assume": words(ASSUMED, 3), "--overlap": _known(["serial"]),
        "--pass": _known(["forward", "step"]), "--exact": None, "--large-n": None,
        "--no-wrap": None, "--steps": None, "--best": None, "--smt": None,
        "--feasible": _known(["divisors", "powers_of_two", "torus"]),
    },
    5,
)  # fmt: skip
_subjects = st.one_of(st.sampled_from([*STRATEGIES, *LIMITS]), shardings)


@given(_subjects, ratios, _asked)
def test_ask(subject: str, question: str, options: list[str]) -> None:
    _told("ask", subject, question, *options)


_least = {"--least": None, "--turns": _known(["B", "T", "D", "F"])}


@given(_subjects, _options({**_values, **_least}, 5))
def test_layer(sharding: str, options: list[str]) -> None:
    _told("layer", sharding, *options)


@given(reshards, _options({**_values, **_least}, 4))
def test_reshard(layouts: str, options: list[str]) -> None:
    _told("reshard", layouts, *options)


@given(formulas, _options(_values, 3))
def test_value(formula: str, options: list[str]) -> None:
    _told("value", formula, *options)


_counts = st.one_of(st.sampled_from(["8", "16", "64", "512"]), numbers, values)
_task = {
    "--set": st.one_of(assignments, st.sampled_from(["tp=8", "eta=0.5", "cp=2", "M_hbm=96 GB"])),
    "--assume": words(ASSUMED, 3), "--profile": _known(["scaling-book"]),
}  # fmt: skip
_degrees = st.one_of(sizes, words(["tp=8", "cp=1", "pp=1", "dp=8", "b_seq=1", ",", " "], 6))
_planned = _options(
    {
        **_task, "--top": _counts, "--also": _degrees, "--style": _known(["table", "notebook"]),
        "--json": None,
    },
    4,
)  # fmt: skip
_pairs = st.one_of(
    st.just([]), st.tuples(_degrees, _degrees).map(lambda pair: ["--why", *pair]),
    st.tuples(numbers, numbers).map(lambda pair: ["--why", *pair]),
)  # fmt: skip
_required = st.tuples(
    _known(MODELS[:2]), _known(CHIPS[:2]), _counts, st.one_of(st.just("8192"), _counts), _counts
).map(
    lambda typed: [
        word
        for pair in zip(["--model", "--chip", "--cards", "--seq", "--batch"], typed, strict=True)
        for word in pair
    ]
)


@given(_required, _planned, _pairs)
def test_plan(task: list[str], options: list[str], why: list[str]) -> None:
    _told("plan", *task, *options, *why)


@given(
    words(["plan.1.mfu", "plan", ".", "1", "mfu", "dp", "06", "06.alpha-v5p", "memory"], 5),
    st.one_of(st.just([]), _required),
    _options(_task, 2),
)
def test_why(figure: str, task: list[str], options: list[str]) -> None:
    commanded("why", figure, *task, *options, "--chapters", "chapters")


@given(sizes, _counts, _options(
    {"--order": orders, "--rank": numbers, "--at": sizes, "--experts": sizes, "--json": None}, 4
))  # fmt: skip
def test_mesh(shape: str, per_node: str, options: list[str]) -> None:
    _told("mesh", "--sizes", shape, "--cards-per-node", per_node, *options)


@given(
    st.lists(
        st.one_of(
            _known([*CHIPS, *MODELS, "facts", "figures", "symbols", "ask", "--help"]),
            st.sampled_from(["--json", "--facts", "--profile", "--chapters"]),
        ),
        max_size=4,
    )
)
def test_the_others(arguments: list[str]) -> None:
    words = [word for word in arguments if word not in ("--help", "-h")]
    for command in ("facts", "about", "figures", *words[:1]):
        if command:
            commanded(command, *words)


def _told(*arguments: str) -> None:
    if "--help" in arguments or "-h" in arguments:
        return
    out = commanded(*arguments)
    if out is not None and "--json" in arguments:
        json.loads(out)
