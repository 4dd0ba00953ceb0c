"""What a guarded function says of an argument that is not what its annotation says."""

from collections.abc import Collection, Mapping

import numpy as np
import pytest

from derive.notation.errors import DeriveError, guarded


@guarded
def sized(
    shape: tuple[int, ...] | None = None,
    values: Mapping[str, object] | None = None,
    fixed: Collection[int] = (),
    count: int = 1,
) -> None:
    raise ValueError("within")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"shape": (4.0, 4)}, "shape: expected a whole number, found 4.0"),
        ({"shape": "44"}, "shape: expected a list, found '44'"),
        ({"shape": (True, 4)}, "shape: expected a whole number, found True"),
        ({"values": {"eta": 10**5000}}, "values: expected a shorter number, found .* bits"),
        ({"fixed": np.array(5)}, r"fixed: expected a list, found array\(5\)"),
        ({"fixed": [2, "a"]}, "fixed: expected a whole number, found 'a'"),
        ({"count": True}, "count: expected a whole number, found True"),
        ({"count": 2**10_000}, "count: expected a shorter number, found .* 10,000 bits"),
    ],
)
def test_the_part_that_is_wrong_is_named_and_the_cause_kept(given, told: str) -> None:
    with pytest.raises(DeriveError, match=f"^{told}$") as caught:
        sized(**given)
    assert str(caught.value.__cause__) == "within"


def test_what_fits_is_not_to_blame() -> None:
    with pytest.raises(ValueError, match="within"):
        sized((4, 4), {"eta": 1}, [1], 2**10_000 - 1)
