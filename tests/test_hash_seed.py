"""What is shown depends on no hash seed, nor on what the process has met before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import derive
from derive import layer
from derive.notation.errors import UnknownName
from derive.notation.symbols import find

ROOT = Path(__file__).parents[1]
SHOWN = """
from derive.cost.strategies import STRATEGIES, fsdp_tensor
from derive import *
from derive.notation import symbols as v
from derive.solve.feasible import feasible
from derive.solve.numerical import numerical
from derive.solve.optimum import optimum
from derive.solve.derivation import steps
from derive.solve.threshold import threshold

on = (chip("tpu-v5p"), model("llama-3-70b"))
for asked in (v.B / v.N, v.N, v.Y, v.W, v.B / v.X):
    for overlap in ("concurrent", "serial"):
        found = threshold(fsdp_tensor, asked, overlap=overlap, gradients="fp32", passes="step")
        print(found, found.latex, found.splits, found.on(*on, B=4194304, N=8960, Y=4, M_X=2))
        print(*steps(fsdp_tensor, asked, overlap=overlap, precision="any"), sep="\\n")
print(optimum(fsdp_tensor, v.X).on(*on, B=4194304, N=8960))
print(feasible(fsdp_tensor, 64, *on, B=4194304, splits="torus", shape=(4, 4, 4)))
print(numerical(fsdp_tensor, v.B / v.N, *on, values={"N": 8960}, form="exact"))
print(*STRATEGIES.values())
try:
    threshold(fsdp_tensor, v.D)
except Exception as error:
    print(error)

llama, h100 = model("llama-3-70b"), chip("h100")
some, few = (task(llama, h100, cards=cards, seq=8192, batch=512) for cards in (64, 7))
for shown in (search(some), search(few), some, search(some).plan(1), mesh({"tp": 2, "pp": 4}, 4)):
    print(shown)

from derive.cli import main

ask = ("ask", "fsdp_tensor", "B/N", "--chip", "tpu-v5p", "--model", "llama-3-70b", "--steps")
for command in (
    (*ask, "--json"),
    ("ask", "fsdp_tensor", "X", "--best"),
    ("layer", "fsdp_tensor"),
    ("facts", "tpu7x", "--json"),
):
    assert main(list(command)) == 0, command
"""


def test_what_is_shown_does_not_depend_on_the_hash_seed() -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SHOWN],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for seed in ("1", "4242")
    ]
    (first, errors), (second, _) = (process.communicate(timeout=60) for process in processes)
    assert [process.returncode for process in processes] == [0, 0], errors.decode()
    assert first == second
    assert len(first) > 20_000
    assert b"nothing fits" in first and b"compute-bound" in first


def test_axes_of_a_user_are_no_names_of_the_package() -> None:
    """What is offered and exported does not hang on what the process has met before."""
    layer("mlp", "B:my_own_axis")
    assert "my_own_axis" not in dir(derive)
    with pytest.raises(UnknownName) as told:
        find("my_own_axes")
    assert "my_own_axis" not in str(told.value)
