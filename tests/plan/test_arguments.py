"""What is given from Python and is no plan, task, grid, mesh or rank: one line that says why."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from cases import asked, space

from derive.cost.assumptions import NOTEBOOK, step_assumptions
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.notation.quantity import number
from derive.plan.axes import NAMED, REASONS, Space, degrees
from derive.plan.mesh import ORDERS, mesh, regrouped
from derive.plan.report import NAMES
from derive.plan.search import search
from derive.plan.task import check_parameters, task

COUNTS = {"cards": 64, "seq": 8192, "batch": 512}
H100 = chip("h100", profile="notebook")
LLAMA = model("llama-3-70b")
SIXTEEN = mesh({"tp": 2, "cp": 2, "dp": 2, "pp": 2}, 8)


@pytest.mark.parametrize("top", [-1, True, 1.5, "3", None])
def test_a_number_of_plans_that_is_none(top):
    with pytest.raises(DeriveError, match=rf"^top: expected a whole number from 0, found {top!r}$"):
        search(asked(), top=top)


def test_the_first_plans_and_all_of_them():
    kept = [len(search(asked(), top=top).seconds) for top in (0, 1, 23, 24, 25)]
    assert kept == [24, 1, 23, 24, 24]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (((True,), (1,), (1,)), r"tp: expected whole numbers from 1, found '\(True,\)'"),
        (((1,), (1.0,), (1,)), "cp: expected whole numbers from 1"),
        (((1,), (1,), 4), "pp: expected whole numbers from 1, found '4'"),
        (((1,), (1,), "4"), "pp: expected whole numbers from 1, found '4'"),
        (((1,), (1,), ()), "pp: expected whole numbers from 1"),
        (((8, 1, 8), (1,), (1,)), "^tp: 8 is given more than once$"),
        (((1,), (1,), (1,), (2, 2)), "^micro_batch: 2 is given more than once$"),
        ((np.array([1]), (1,), (1,)), "tp: expected whole numbers from 1"),
    ],
)
def test_a_grid_that_is_none(values, told):
    with pytest.raises(DeriveError, match=told) as caught:
        space(*values)
    assert "\n" not in str(caught.value)


def test_an_axis_of_a_grid_that_is_none():
    for name, told in (("tensor", "unknown axis of a grid 'tensor'"), ("dp", "unknown axis")):
        with pytest.raises(DeriveError, match=told):
            Space(**{name: (1, 2)})


def test_a_grid_of_lists_and_ranges_is_that_of_tuples():
    grid = space([1, 8], range(1, 3), [1], [1])
    assert grid == Space(tp=(1, 8), cp=(1, 2)) and hash(grid) == hash(Space(cp=[1, 2], tp=[1, 8]))
    assert (grid.tp, grid.cp, grid.pp, grid.micro_batch) == ((1, 8), (1, 2), (1,), (1,))
    assert grid.size == 4 == len(list(grid.rows())) and search(asked(), grid).fit > 0
    for one in (grid, degrees(tp=8), search(asked()).plan(1)):
        with pytest.raises(AttributeError):
            one.unheard_of  # noqa: B018


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": "llama-3-70b"}, r'expected a model: write model\("llama-3-70b"\), found'),
        ({"chip": "h100"}, r'expected a chip: write chip\("h100"\), found'),
        ({"model": None}, r'expected a model: write model\("..."\), found \'None\''),
        ({"values": {8: v.tp}}, "expected symbols such as tp, found '8'"),
        ({"values": {v.tp: "eight"}}, "tp .*expected a positive number, found 'eight'"),
        ({"values": {v.tp: 8, "tp": 8}}, "tp is given twice"),
        ({"values": {v.M_hbm: number(8)}}, "M_hbm .*expected byte, found 1"),
        ({"assumptions": "notbook"}, "did you mean notebook"),
        ({"assumptions": None}, "assumptions such as"),
        ({"values": {v.M_hbm: 0}}, r"M_hbm: expected a positive number, found 0"),
        ({"values": {v.M_hbm: 10**400}}, r"M_hbm .*float64 holds, found '10"),
    ],
)
def test_a_task_that_is_none(change, told):
    with pytest.raises(DeriveError, match=told) as caught:
        task(**{"model": LLAMA, "chip": H100, **COUNTS, **change})
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_assumptions_by_name():
    assert task(LLAMA, H100, **COUNTS, assumptions="notebook") == asked(assumptions=NOTEBOOK)


def test_parameters_against_the_shapes():
    """Stated counts are rounded: by 4% they may be off, by 6% they are another model's."""
    for off, allowed in (("1.04", True), ("0.96", True), ("1.06", False), ("0.94", False)):
        of = asked(P=Fraction(off) * 70553706496)
        if allowed:
            check_parameters(LLAMA, of)
            continue
        with pytest.raises(DeriveError, match="contradicts the shapes"):
            check_parameters(LLAMA, of)


def test_parameters_that_the_tables_take_up():
    tables = 2 * 128256 * 8192
    assert asked(P=tables + 1).numbers[v.P] == tables + 1
    with pytest.raises(DeriveError, match="more parameters than the embedding and the head"):
        asked(P=tables)


def test_searches_are_compared_by_identity():
    ranking = search(asked())
    assert ranking == ranking and ranking != search(asked()) and len({ranking}) == 1


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: SIXTEEN.rank({"tp": 0.5}), "tp: expected 0 to 1, found 0.5"),
        (lambda: SIXTEEN.rank({"tp": True}), "tp: expected 0 to 1, found True"),
        (lambda: SIXTEEN.rank({"ep": 0}), "unknown mesh axis 'ep'"),
        (lambda: SIXTEEN.node(16), "rank 16 is outside"),
        (lambda: SIXTEEN.node(True), "rank True is outside"),
        (lambda: regrouped(SIXTEEN, etp=1, ep=2).coordinates(16), "rank 16 is outside"),
        (lambda: regrouped(SIXTEEN, etp=1, ep=2).rank({"ep": 2}), "ep: expected 0 to 1, found 2"),
        (lambda: regrouped(SIXTEEN, etp=1, ep=2).rank({"etp": 1}), "etp: expected 0, found 1"),
        (lambda: regrouped(SIXTEEN, etp=1, ep=2).rank({"pp": -1}), "pp: expected 0 to 1, found -1"),
        (lambda: regrouped(SIXTEEN, etp=1, ep=2).rank({"tp": 0}), "unknown mesh axis 'tp'"),
        (lambda: regrouped(SIXTEEN, ep=True), "ep: expected a whole number from 1"),
        (lambda: regrouped(SIXTEEN, etp=2.0), "etp: expected a whole number from 1"),
        (lambda: mesh({"tp": 2}, 8, ""), "order: expected axes"),
    ],
)
def test_a_rank_or_coordinates_that_are_none(make, told):
    with pytest.raises(DeriveError, match=told) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_tables_cannot_be_changed():
    for table in (ORDERS, NAMES, REASONS, NAMED):
        with pytest.raises(TypeError):
            table["x"] = ()


@pytest.mark.parametrize(
    "call",
    [
        lambda: search(None),  # type: ignore[arg-type]
        lambda: search([asked()]),  # type: ignore[arg-type]
        lambda: search(asked()).plan(1.5),  # type: ignore[arg-type]
        lambda: search(asked()).plan("1"),  # type: ignore[arg-type]
        lambda: search(asked()).plan(True),
        lambda: search(asked()).plans(-1),
        lambda: search(asked()).plans(1.5),  # type: ignore[arg-type]
        lambda: mesh(None, 8),  # type: ignore[arg-type]
        lambda: mesh("tp=2", 8),  # type: ignore[arg-type]
        lambda: mesh({v.tp: 2}, 8),  # type: ignore[dict-item]
        lambda: mesh({"tp": 2}, 8, 3),  # type: ignore[arg-type]
        lambda: SIXTEEN.rank(None),  # type: ignore[arg-type]
        lambda: SIXTEEN.groups(3),  # type: ignore[arg-type]
        lambda: SIXTEEN.inside_node(None),  # type: ignore[arg-type]
        lambda: step_assumptions(3),  # type: ignore[arg-type]
        lambda: asked(batch="512"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_argument_is_refused_in_one_line(call: Callable[[], object]) -> None:
    with pytest.raises(DeriveError) as caught:
        call()
    told = str(caught.value)
    assert "\n" not in told and ("found" in told or told.startswith("unknown"))
