"""Lines of layout: what is refused and why, and the rings of two lines one after the other."""

from __future__ import annotations

import pytest

from derive.cost.layout import LONGEST, rules_of, spread
from derive.cost.reader import block
from derive.notation.errors import ShardingError

PLAIN = block("In[B, T, D] . W[D, F] -> Out[B, T, F]")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("B:XY", "mesh axis XY in capitals reads as the axes X, Y; write xy"),
        ("B:XYZ", "mesh axis XYZ in capitals reads as the axes X, Y, Z; write xyz"),
        ("B:X B", "expected a rule such as B:X or .*, found 'B'"),
        ("Q:X", "has no dimension 'Q'; it has B, T, D, F"),
        ("FF:X", "has no dimension 'FF'; did you mean F"),
        ("B:X(Inn)", "has no tensor 'Inn'; did you mean In"),
        ("B:X(Qqq)", "has no tensor 'Qqq'; it has In, W, Out"),
        ("B:X(W)", "no tensor that it speaks of has the dimension B, which In, Out have"),
        ("B:X(weights)", "no tensor that it speaks of has the dimension B, which In, Out have"),
        ("B:X B:X", "B:X"),
    ],
)
def test_a_rule_that_says_nothing_is_refused(line: str, told: str) -> None:
    with pytest.raises(ShardingError, match=told):
        spread(PLAIN, line)


def test_the_longest_line() -> None:
    (rule,) = rules_of("B:X".ljust(LONGEST))
    assert (rule.dim, rule.axis, rule.only) == ("B", "X", ())
    with pytest.raises(ShardingError, match=f"at most {LONGEST} characters, found {LONGEST + 1}"):
        rules_of("B:X".ljust(LONGEST + 1))


def test_lines_add_up_and_an_axis_is_taken_once() -> None:
    whole, parts = spread(PLAIN, "B:X T:Y B:Z"), spread(spread(PLAIN, "B:X"), "T:Y B:Z")
    assert repr(whole) == repr(parts)
    assert whole["In"].split == {"B": ("X", "Z"), "T": ("Y",), "D": ()}
    assert spread(PLAIN, "B:X T:X")["In"].split == {"B": ("X",), "T": (), "D": ()}
    assert spread(PLAIN, "D:X(W) D:Y(In)")["W"].split == {"D": ("X",), "F": ()}


def test_rings_stand_in_the_order_of_their_lines() -> None:
    scores = block("Q[B, T, H] . Key[B, U, H] -> S[B, T, U]; S . Val[B, U, H] -> O[B, T, H]")
    first = spread(scores, "T:X U:X(ring)")
    assert first.rings == (("U", "X"),)
    assert spread(first, "T:Y U:Y(ring)").rings == (("U", "X"), ("U", "Y"))
