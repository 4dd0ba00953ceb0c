"""`derive about` and `help` at the prompt: each page has its gloss and lines that run."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import sympy as sp

import derive
from derive.commands import about
from derive.cost.assumptions import PHRASES, SETS, STEP
from derive.cost.limits import LIMITS
from derive.cost.strategies import STRATEGIES
from derive.cost.transformer import BLOCKS
from derive.facts import chips, models, shipped
from derive.notation import symbols as v

NAMES = {name: getattr(derive, name) for name in dir(derive)}
BOOK = [name for name, known in v.vocabulary().items() if known.role != "axis"]
FIRST = {
    **{name: f"{name}: {one.title}" for name, one in STRATEGIES.items()},
    **{name: f"{name}: {one.gloss}" for name, one in LIMITS.items()},
    **{name: f"{name}: {v.meaning(v.find(name)).gloss}" for name in BOOK},
    **{name: f"{name}: {shipped().chips[name].title}" for name in chips()},
    **{name: f"{name}: {shipped().models[name].title}" for name in models()},
    **{name: f"{name}: {text}" for name, text in STEP.items()},
    **{name: f"{name}: " for name in (*PHRASES, *SETS, *BLOCKS)},
}


@pytest.mark.parametrize("name", FIRST)
def test_every_name_has_a_page_with_its_gloss_and_lines_that_run(run: Any, name: str) -> None:
    code, page, err = run("about", name)
    assert (code, err) == (0, "") and page.startswith(FIRST[name])
    lines = [line.strip() for line in page.splitlines()]
    python = [line.removeprefix(">>> ") for line in lines if line.startswith(">>> ")]
    shell = [line.removeprefix("$ derive ") for line in lines if line.startswith("$ derive ")]
    assert python
    for line in python:
        assert eval(line, dict(NAMES)) is not None
    for line in shell:
        code, out, err = run(*shlex.split(line))
        assert (code, err) == (0, "") and "give a value to" not in out


@pytest.mark.parametrize("name", about.FUNCTIONS)
def test_a_function_has_its_call_its_words_and_a_line_that_runs(name: str) -> None:
    page = about.page(NAMES[name])
    assert page.startswith(f"{name}(") and page == about.about(name).split("\n\n")[-1]
    words = " ".join(page.split())
    assert all(" ".join(part.split()) in words for part in NAMES[name].__doc__.split("\n\n"))
    assert eval(page.rpartition(">>> ")[2], dict(NAMES)) is not None


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_a_page_says_can_be_asked_can_be(name: str) -> None:
    one = STRATEGIES[name]
    rows = dict(
        line.split(maxsplit=1) for line in about.page(one).splitlines()[1:] if line[2] > " "
    )
    for asked in rows["asked"].split(", "):
        assert derive.threshold(one, sp.Mul(*read(asked))).bounds
    for axis in rows.get("optimum", "").split(", "):
        assert not axis or derive.optimum(one, v.find(axis)).at
    assert {axis.name for axis in one.mesh} <= rows.keys()


def read(asked: str) -> tuple[sp.Expr, sp.Expr]:
    above, _, below = asked.partition("/")
    return v.find(above), 1 / v.find(below) if below else sp.S.One


def test_a_symbol_names_those_that_use_it() -> None:
    """Whatever has a closed form for a symbol is among those that use it."""
    for symbol in (v.B, v.F, v.T, v.C, v.G, v.epsilon, v.W_cp, v.n_mb):
        page = " ".join(about.page(symbol).split())
        used = page.partition("used by ")[2].partition(" >>>")[0].split(", ")
        for name, one in {**STRATEGIES, **LIMITS}.items():
            if about._attempt(derive.threshold, one, symbol):
                assert name in used, (symbol, name)


def test_a_kind_lists_its_names_and_the_index_all_of_them(run: Any) -> None:
    _, index, _ = run("about")
    for kind in ("strategies", "blocks", "limits", "symbols", "assumptions", "chips", "models"):
        _, table, _ = run("about", kind)
        names = [line.split()[0] for line in table.splitlines()]
        assert names and {kind, *names} <= set(index.split())
    assert {line.split()[0] for line in run("about", "symbols")[1].splitlines()} == set(BOOK)


def test_a_name_of_two_kinds_has_both_pages_and_an_alias_that_of_its_chip(run: Any) -> None:
    _, page, _ = run("about", "layer")
    assert "a block that makes Out" in page and "layer(notation" in page
    assert run("about", "h100")[1] == run("about", "h100-sxm")[1]


def test_what_is_ones_own_has_a_page_without_lines_that_name_another() -> None:
    own = derive.layer("mlp", "B:ours D:ours", title="our own")
    page = about.page(own)
    assert page.startswith("layer: our own") and "it splits B of In, Tmp, Out" in page
    alone = about.page(derive.layer("mlp"))
    chosen = about.page(derive.chip("h100", profile="vendor"))
    assert "(profile vendor;" in chosen
    assert "threshold(" not in page + alone
    assert about.page(v.B / v.X).splitlines()[1:] == [
        f"  {s.name:<11} {v.meaning(s).gloss} [{v.meaning(s).unit}]" for s in (v.B, v.X)
    ]
    assert about.page(3) == about.page(run_of_ours) == ""


def run_of_ours() -> None:
    """A function that is none of derive's."""


def test_an_unknown_name_is_refused_with_the_nearest(refused: Any) -> None:
    assert "did you mean fsdp" in refused("about", "fsdq")
    assert "did you mean tpu-v5p" in refused("about", "tpu-v5")
