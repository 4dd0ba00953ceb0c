"""Blocks, shardings and layouts as they are typed."""

from __future__ import annotations

from hostile.guards import answered, clean
from hostile.strategies import layouts, names, shardings
from hypothesis import given
from hypothesis import strategies as st

from derive.cost.block import Block
from derive.cost.layout import rules_of, spread
from derive.cost.reader import block
from derive.cost.strategies import layer, strategy
from derive.cost.transformer import BLOCKS


@given(shardings, st.one_of(st.none(), st.lists(names, max_size=2)))
def test_blocks(text: str, parameters: list[str] | None) -> None:
    got = answered(block, text, parameters)
    if isinstance(got, Block):
        assert clean(repr(got))
        assert all(
            tensor.name.isidentifier() and tensor.name in text
            for tensor in got.tensors
            if not tensor.name.startswith("Tmp")
        )


@given(layouts)
def test_rules(text: str) -> None:
    got = answered(rules_of, text)
    if got is not None:
        assert " ".join(map(str, got)).replace(" ", "") == "".join(text.split())


@given(st.sampled_from(sorted(BLOCKS)), layouts)
def test_layouts(name: str, text: str) -> None:
    got = answered(spread, BLOCKS[name], text)
    assert got is None or clean(repr(got))


@given(st.one_of(shardings, names), layouts)
def test_layers(text: str, layout: str) -> None:
    answered(strategy, text)
    got = answered(layer, text, layout)
    assert got is None or clean(repr(got))
