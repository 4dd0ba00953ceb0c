"""Each case is partitioned and derived as it was when `verdicts.json` was written."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from exhaustive import PRODUCTS, products, reshards
from verdicts import PRINTED, RECORD, Case, cases, on_lines, printed, row, versions

RECORDED: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
ROWS = {(one["case"], one["sizes"], one["pass"]): one for one in RECORDED["rows"]}
CASES = list(cases())


def test_record_is_of_these_versions() -> None:
    assert RECORDED["versions"] == versions(), f"write {RECORD.name} anew"


def test_record_has_the_cases() -> None:
    assert list(ROWS) == [(case.name, case.sizes_name, case.which) for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(case: Case) -> None:
    assert row(case) == ROWS[case.name, case.sizes_name, case.which]


def test_chapter_prints_the_record() -> None:
    assert PRINTED.read_text(encoding="utf-8") == on_lines(printed(RECORDED))
    cited = PRINTED.with_suffix(".toml").read_text(encoding="utf-8")
    for version in RECORDED["versions"].values():
        assert version.partition("+")[0] in cited


def test_every_reshard() -> None:
    assert asdict(reshards()) == RECORDED["every reshard"]


@pytest.mark.parametrize("sizes", PRODUCTS)
def test_every_product(sizes: str) -> None:
    assert asdict(products(PRODUCTS[sizes])) == RECORDED["every product"][sizes]


def test_no_reshard_and_no_product_sends_more_than_shardy() -> None:
    """The least program of each, which the tests above hold to the record."""
    for every in (RECORDED["every reshard"], *RECORDED["every product"].values()):
        assert every["least"]["more"] == 0 < every["least"]["less"]


def test_who_sends_less_than_the_least_program_multiplies_more() -> None:
    for one in ROWS.values():
        for partitioner in ("derive", "xla", "shardy"):
            if one[partitioner]["bytes"] < one["least"]["bytes"]:
                assert one[partitioner]["flops"] > one["least"]["flops"], one["case"]


def test_the_rules_send_the_least_for_the_blocks_of_the_book() -> None:
    blocks = [one for (_, sizes, _), one in ROWS.items() if sizes == "block"]
    assert blocks and all(one["least"]["verdict"] == "agrees" for one in blocks)


@pytest.mark.parametrize("partitioner", ["xla", "shardy"])
def test_blocks_are_spread_as_derived(partitioner: str) -> None:
    """Forward, every block of the book moves what is derived, and so do both passes of the MLP
    under its four strategies; FLOPs are the same everywhere."""
    for (name, sizes, which), told in ROWS.items():
        if sizes == "block":
            assert told[partitioner]["flops"] == told["derive"]["flops"], name
            if which == "forward" or name.startswith("mlp"):
                assert told[partitioner]["verdict"] == "agrees", name


@pytest.mark.parametrize("partitioner", ["xla", "shardy"])
def test_gradients_of_one_tensor_are_added_first(partitioner: str) -> None:
    """Where the gradients of a tensor come from several products, derive adds them and reduces the
    sum once; both partitioners reduce each, and choose the same otherwise."""
    told = ROWS["layer, tensor", "block", "both"]
    once = [
        one.replace("4 x reduce_scatter", "7 x reduce_scatter") for one in told["derive"]["sent"]
    ]
    assert told[partitioner]["sent"] == once
