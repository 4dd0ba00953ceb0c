"""The least program against Shardy's own passes: every product of two matrices over two axes, at
three sizes, and the record of them that the usual tests hold."""

from __future__ import annotations

from math import prod

import pytest
import shardy
from counted import ELEMENT
from products import CASES, DEGREES, LENGTHS, Case, least, recorded, tensors, used


def function(name: str, case: Case, lengths: tuple[int, int, int]) -> str:
    known = dict(zip("BDF", lengths, strict=True))
    kinds = [f"tensor<{'x'.join(str(known[d]) for d in t.dims)}xf32>" for t in tensors(case)]
    split = [f"{kind} {shardy.split(layout)}" for kind, layout in zip(kinds, case, strict=True)]
    return (
        f"func.func public @{name}(%0: {split[0]}, %1: {split[1]}) -> ({split[2]}) {{ "
        "%2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0] "
        f"{{sdy.sharding = #sdy.sharding_per_value<[{shardy.sharding(case[2])}]>}} : "
        f"({kinds[0]}, {kinds[1]}) -> {kinds[2]} return %2 : {kinds[2]} }}"
    )


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_no_product_sends_or_multiplies_more_than_shardy(lengths: tuple[int, int, int]) -> None:
    text = shardy.module(
        (function(f"f{n}", case, lengths) for n, case in enumerate(CASES)), DEGREES
    )
    theirs = shardy.counted(text, shardy.PARTITION, DEGREES)
    assert len(theirs) == 1331
    for n, case in enumerate(CASES):
        flops = theirs[f"f{n}"].flops
        assert flops is not None
        sent, division = theirs[f"f{n}"].bytes / ELEMENT, 2 * prod(lengths) / flops
        known = recorded()[lengths, case]
        assert (known.sent, known.division) == (sent, division), tensors(case)
        ours = least(case, lengths)
        assert ours.sent <= sent and division <= ours.division <= used(case), tensors(case)
