"""Sweeps, splits and plans as frames of pandas, and sweeps as plots."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest

from derive.commands import ask, plan
from derive.commands.parser import parser
from derive.cost.limits import tensor_share
from derive.cost.strategies import fsdp, fsdp_tensor
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.plan.search import search
from derive.plan.task import task
from derive.solve.feasible import feasible
from derive.solve.sweep import Sweep
from derive.solve.threshold import threshold

matplotlib.use("Agg")
V5P, H100, LLAMA = chip("tpu-v5p"), chip("h100"), model("llama-3-70b")
MIXED = threshold(fsdp_tensor, v.B / v.N)
WIDTHS = np.array([7168, 14336, 28672])


def test_a_row_of_a_sweep_is_what_the_point_alone_gives() -> None:
    links = np.array([["1e11", "90 GB/s"], ["2e11 byte/s", "1e12"]])
    widths = np.array([[7168, 14336], [28672, 57344]])
    frame = MIXED.on(V5P, LLAMA, F=widths, W=links, M_X=2).frame()
    assert list(frame) == ["F", "W", "B/N"] and len(frame) == 4
    for (_, row), link in zip(frame.iterrows(), links.ravel(), strict=True):
        alone = MIXED.on(V5P, LLAMA, F=int(row["F"]), W=str(link), M_X=2)
        assert row["B/N"] == float(alone)
    assert frame["W"].tolist() == [1e11, 9e10, 2e11, 1e12]
    units = {"F": "1", "W": "byte/second", "B/N": "token/chip"}
    assert frame.attrs["units"] == units


def test_a_frame_keeps_what_the_sweep_rests_on() -> None:
    frame = MIXED.on(V5P, M_X=2, F=np.array([100, *WIDTHS])).frame()
    assert frame["F"].dtype.kind == "i" and np.isnan(frame["B/N"][0])
    assert frame.attrs["strategy"] == "fsdp_tensor"
    assert frame.attrs["closed_form"] == str(MIXED)
    told = "\n".join(frame.attrs["rests_on"])
    assert "M_X = 2" in told and "tpu-v5p" in told and "overlap: concurrent" in told
    assert "F = " not in told and "B/N" not in told
    empty = MIXED.on(V5P, F=np.array([])).frame()
    assert (
        list(empty) == ["F", "B/N"]
        and len(empty) == 0
        and "overlap" in "".join(empty.attrs["rests_on"])
    )


def test_what_a_sweep_was_made_of_can_change_afterwards() -> None:
    widths = WIDTHS.copy()
    swept = MIXED.on(V5P, F=widths)
    widths[:] = 1
    assert swept.frame()["F"].tolist() == WIDTHS.tolist()


def test_what_is_made_of_a_sweep_is_a_plain_array() -> None:
    swept = MIXED.on(V5P, F=WIDTHS)
    assert isinstance(swept, Sweep) and swept.swept is not None
    for made in (swept[1:], swept * 2, 1 / swept, swept.copy(), np.sort(swept), np.log(swept)):
        assert type(made) is np.ndarray
    assert isinstance(swept.sum(), float) and isinstance(swept[0], float)
    np.testing.assert_array_equal(swept + swept, 2 * np.array(swept))
    for part in (swept.T, swept.reshape(3, 1)):
        with pytest.raises(DeriveError, match="ask the whole sweep"):
            part.frame()
        with pytest.raises(DeriveError, match="ask the whole sweep"):
            part.plot()


def test_a_plot_is_labelled_and_shows_the_points() -> None:
    shares = threshold(tensor_share, v.epsilon)
    lengths = np.array([8192, 1024, 2048])
    swept = shares.on(H100, LLAMA, tp=8, T=lengths)
    axes = swept.plot()
    (line,) = axes.lines
    assert line.get_xdata().tolist() == [1024, 2048, 8192]
    np.testing.assert_array_equal(line.get_ydata(), np.array(swept)[[1, 2, 0]])
    assert axes.get_xlabel() == "$T$ (tokens)\nsequence length, in tokens"
    assert axes.get_ylabel() == "$\\varepsilon$\ntolerated share"
    assert "tensor_share" in axes.get_title()
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")
    assert swept.plot(axes) is axes and len(axes.lines) == 2
    axes.figure.canvas.draw()  # the labels are TeX that matplotlib reads
    matplotlib.pyplot.close(axes.figure)


def test_an_axis_of_more_than_two_decades_is_logarithmic() -> None:
    asked = threshold(fsdp, v.B / v.X)
    for most, scale in ((10**13, "linear"), (2 * 10**13, "log")):
        axes = asked.on(V5P, W=np.array([10**11, most])).plot()
        assert axes.get_xscale() == axes.get_yscale() == scale
        matplotlib.pyplot.close(axes.figure)
    below = threshold(tensor_share, v.epsilon).on(H100, LLAMA, tp=np.array([1, 2]), T=8192)
    axes = below.plot()  # 0 in a group of one, which no logarithm shows
    assert axes.get_yscale() == "linear"
    matplotlib.pyplot.close(axes.figure)


def test_a_plot_is_of_one_symbol_along_one_dimension() -> None:
    square = MIXED.on(V5P, F=WIDTHS.reshape(3, 1))
    both = MIXED.on(V5P, F=WIDTHS, W=WIDTHS * 10**7)
    for swept, told in ((square, r"found F in an array of shape \(3, 1\)"), (both, "F and W")):
        with pytest.raises(DeriveError, match=told):
            swept.plot()


@pytest.mark.parametrize(
    ("missing", "ask_for"), [("pandas", "frame"), ("matplotlib.pyplot", "plot")]
)
def test_a_missing_library_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, missing: str, ask_for: str
) -> None:
    swept = MIXED.on(V5P, F=WIDTHS)
    monkeypatch.setitem(sys.modules, missing, None)
    whole = missing.partition(".")[0]
    with pytest.raises(DeriveError, match=f"^{whole} is not installed: pip install {whole}$"):
        getattr(swept, ask_for)()


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows as they were, names with a dot as mappings."""
    rows = []
    for _, row in frame.iterrows():
        made: dict[str, Any] = {}
        for name, value in row.items():
            first, _, inner = str(name).partition(".")
            if inner:
                made.setdefault(first, {})[inner] = value
            else:
                made[first] = value
        rows.append(made)
    return rows


def of_command(command: Any, text: str) -> dict[str, Any]:
    data = command.run(parser().parse_args(shlex.split(text)))[0]
    return dict(json.loads(json.dumps(data)))


@pytest.mark.parametrize("splits", ["divisors", "torus"])
def test_a_frame_of_splits_is_what_the_command_prints_as_json(splits: str) -> None:
    shape = (16, 20, 28) if splits == "torus" else None
    found = feasible(fsdp_tensor, 8960, V5P, LLAMA, B=2**22, splits=splits, shape=shape)
    frame = found.frame()
    options = "--chip tpu-v5p --model llama-3-70b --set B=4194304 --set N=8960 --json"
    data = of_command(ask, f"ask fsdp_tensor Y --feasible {splits} {options}")
    assert [{"torus_axes": {}, **row} for row in rows_of(frame)] == data["splits"]
    assert frame.attrs["rests_on"] == found.rests_on


def test_a_frame_of_plans_is_what_the_command_prints_as_json() -> None:
    ranking = search(task(LLAMA, H100, cards=64, seq=8192, batch=512))
    frame = ranking.frame(5)
    options = "--model llama-3-70b --chip h100 --cards 64 --seq 8192 --batch 512 --top 5 --json"
    printed = of_command(plan, f"plan {options}")["plans"]
    assert all(row.pop("stages") for row in printed)  # a table of its own for each plan
    assert rows_of(frame) == printed
    assert frame.index.tolist() == [1, 2, 3, 4, 5] and frame.index.name == "rank"
    assert frame.attrs["task"] == str(ranking.task)
    assert len(ranking.frame()) == ranking.fit
    nothing = search(task(LLAMA, H100, cards=1, seq=8192, batch=1))
    assert len(nothing.frame()) == 0
