"""What a layer saves is what autograd of PyTorch saves, tensor by tensor: `tests/outside` has the
record and the script that made it."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from dataclasses import replace
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import sympy as sp

from derive.cost import passes, stage
from derive.cost.assumptions import assume
from derive.cost.block import FUNCTIONS, Block, FunctionLine, Fusion
from derive.cost.passes import program
from derive.cost.program import Saved
from derive.cost.reader import block
from derive.cost.step import step_model
from derive.cost.transformer import LAYER
from derive.notation import symbols as v

RECORD = json.loads((Path(__file__).parents[1] / "outside" / "autograd.json").read_text())
MODELS: dict[str, Any] = RECORD["models"]
MODES = [(name, mode) for name, one in MODELS.items() for mode in one["modes"]]
WHOLE = "layer=recomputed"
BYTES = {"bfloat16": 2, "float32": 4}

Rows = Counter[tuple[str, tuple[int, ...], int]]  # name, sizes but for ones, bytes


def layer(shape: dict[str, Any]) -> Block:
    """The layer of a model: the shipped one, with the norms that it has besides."""
    text = str(LAYER[3 if shape["gated"] else 2])
    changes = []
    if not shape["gated"]:
        changes += [("norm(", "layer_norm(")]
    if shape["qk_norm"]:  # of queries and keys, by head
        changes += [(f"; {x} -> ", f"; norm({x}) -> {x}N; {x}N -> ") for x in ("Query", "Key")]
    if shape["norms_per_layer"] == 4:  # of what attention and feed-forward add, too; GeGLU
        sums = (("In", "Att"), ("Mid", "Ffn"))
        changes += [(f"{x} + {y} -> ", f"norm({y}) -> {y}N; {x} + {y}N -> ") for x, y in sums]
        changes += [("silu(", "gelu(")]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return block(text)


def sizes(shape: dict[str, Any]) -> dict[sp.Symbol, int]:
    heads = shape["kv_heads"]
    return {
        v.b_seq: 1, v.T: RECORD["tokens"], v.U: RECORD["tokens"], v.D: shape["hidden"],
        v.F: shape["ffn"], v.K: heads, v.G: shape["heads"] // heads, v.H: shape["head_dim"],
        v.e: BYTES["bfloat16"], v.e_32: BYTES["float32"],
    }  # fmt: skip


def fusion(mode: str) -> Fusion:
    """What a mode of the record is called here. A core that is recomputed keeps its operands,
    whatever its kernel; layer norms are fused in torch."""
    ways = dict(pair.split("=") for pair in mode.split())
    kernels = "recomputed" if ways["core"] == "recomputed" else ways["attention"]
    return Fusion(kernels, ways["norm"].removeprefix("layer_norm") or "fused", ways["glu"])


def torchs(name: str, mode: str) -> Rows:
    """What autograd saved; what a norm keeps besides has no name there, only its line."""
    rows: Rows = Counter()
    for row in MODELS[name]["modes"][mode].split("; "):
        tensor, _, described = row.partition(": ")
        lengths, kind, size = described.split()
        dims = [int(length) for length in lengths.split("x")]
        assert prod(dims) * BYTES[kind] == int(size)  # a storage, whole
        rows[tensor, _sorted(dims), int(size)] += 1
    return rows


def _sorted(dims: list[int]) -> tuple[int, ...]:
    """Sizes but for ones, in any order: the same tensor is laid out as its kernel wants it."""
    return tuple(sorted(length for length in dims if length > 1))


def derived(name: str, mode: str) -> Rows:
    shape = MODELS[name]["shape"]
    if "keys=repeated" in mode:  # which is as if each head of the queries had keys of its own
        shape = {**shape, "kv_heads": shape["heads"]}
    read, numbers = layer(shape), sizes(shape)
    if mode == WHOLE:
        saved: tuple[Saved, ...] = (Saved(read["In"], v.e * v.b_seq * v.T * v.D),)
    else:
        saved = program(read, fusion=fusion(mode)).saved
    lines = {}  # of norms, by each of the names that what they keep can have
    for line in read.lines:
        if isinstance(line, FunctionLine) and line.function in ("norm", "layer_norm"):
            (operand,) = line.operands
            names = (f"{operand}+fp32", f"norm({operand})+fp32")
            statistics = (f"{one} of {line.result}" for one in ("mean", "rstd"))
            lines |= dict.fromkeys((*names, *statistics), f"~{line.result}")
    rows: Rows = Counter()
    for one in saved:
        dims = [numbers[v.find(dim)] for dim in one.tensor.dims]
        tensor = lines.get(one.tensor.name, one.tensor.name)
        rows[tensor, _sorted(dims), int(one.bytes.xreplace(numbers))] += 1
    return rows


@pytest.mark.parametrize(("name", "mode"), MODES, ids=str)
def test_saved_tensors_are_those_of_autograd(name: str, mode: str) -> None:
    assert derived(name, mode) == torchs(name, mode)


def test_every_mode_of_ten_shapes_is_recorded() -> None:
    shapes = {tuple(one["shape"].values()) for one in MODELS.values()}
    assert len(shapes) >= 10
    groups = {one["shape"]["heads"] // one["shape"]["kv_heads"] for one in MODELS.values()}
    assert len(groups) > 3 and {one["shape"]["gated"] for one in MODELS.values()} == {True, False}
    for one in MODELS.values():
        count = 2 * 2 * (2 * 2 if one["shape"]["gated"] else 1)  # attention, core, norm, gate
        grouped = one["shape"]["heads"] > one["shape"]["kv_heads"]
        repeated = 2 if grouped and not one["shape"]["qk_norm"] else 0
        assert len(one["modes"]) == count + repeated + 1


@pytest.mark.parametrize(("norm", "told"), [("fused", "40.53"), ("unfused", "52.53")])
def test_bytes_per_token_and_unit_of_width(norm: str, told: str) -> None:
    """A Llama-3-70B layer as plain code has it, with flash attention."""
    mode = f"attention=fused core=kept norm={norm} glu=unfused"
    for rows in (derived, torchs):
        total = sum(count * size for (*_, size), count in rows("llama3-70b", mode).items())
        assert f"{total / RECORD['tokens'] / 8192:.2f}" == told


@pytest.mark.parametrize("name", ["llama2-7b", "llama3.1-405b", "mistral-7b", "qwen2.5-72b"])
def test_the_step_has_the_same_bytes(name: str) -> None:
    """What a layer saves on one chip, and a layer that is recomputed."""
    numbers = sizes(MODELS[name]["shape"]) | {v.tp: 1, v.cp: 1, v.T_r: RECORD["tokens"], v.n_F: 3}
    totals = {
        mode: sum(count * size for (*_, size), count in torchs(name, mode).items())
        for mode in MODELS[name]["modes"]
    }
    for mode, total in totals.items():
        if mode != WHOLE and "core=kept" in mode and "keys" not in mode:
            under = assume(**fusion(mode)._asdict())
            assert step_model(under).term("a_1").expr.xreplace(numbers) == total
    assert stage.input_bytes().xreplace(numbers) == totals[WHOLE]


def test_the_chapter_prints_the_record() -> None:
    """Its data file has the widths of these layers, and the bytes saved in three modes."""
    (path,) = (Path(__file__).parents[2] / "chapters").glob("12-*/autograd.toml")
    printed = tomllib.loads(path.read_text())
    assert (printed["torch"], printed["tokens"]) == (RECORD["torch"], RECORD["tokens"])
    ways = {
        "unfused": "attention=fused core=kept norm=unfused glu=unfused",
        "fused": "attention=fused core=kept norm=fused glu=unfused",
        "recomputed": "attention=fused core=recomputed norm=fused glu=unfused",
    }
    known = []
    for name, one in MODELS.items():
        widths = {s.name: size for s, size in sizes(one["shape"]).items()}
        saved = {
            way: sum(count * size for (*_, size), count in torchs(name, ways[way]).items())
            for way in ways
            if ways[way] in one["modes"]
        }
        known.append({n: widths[n] for n in "DFKGH"} | saved)
    assert printed["layers"] and all(one in known for one in printed["layers"].values())


# --- the tests can fail

SLIPS = (
    ("norm", {"statistics": ()}), ("norm", {"also": ()}), ("norm", {"wide": False}),
    ("layer_norm", {"statistics": ("rstd",)}), ("layer_norm", {"needs": ()}),
    ("silu*", {"also": ()}), ("silu*", {"needs": (0,)}), ("gelu*", {"also": (0, 1)}),
    ("gelu", {"needs": (), "needs_result": True}), ("softmax", {"statistics": ()}),
    ("softmax", {"needs": (0,)}),
)  # fmt: skip


@pytest.mark.parametrize(("function", "change"), SLIPS, ids=str)
def test_a_function_that_keeps_something_else_is_noticed(
    function: str, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {**FUNCTIONS, function: replace(FUNCTIONS[function], **change)}
    monkeypatch.setattr(passes, "FUNCTIONS", MappingProxyType(wrong))
    program.cache_clear()
    try:
        wanted = ("llama3-8b", "gemma3-12b-text", "gpt3-175b")
        unlike = [one for one in MODES if one[0] in wanted and derived(*one) != torchs(*one)]
    finally:
        program.cache_clear()
    assert unlike
