"""What is given to an answer, whichever answer it is: used, refused with what would take it, or
noted; and contradictions, degrees, torus axes and sweeps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy as sp

from derive.cost.limits import LIMITS, Limit
from derive.cost.strategies import STRATEGIES, Strategy, fsdp, fsdp_tensor, ulysses
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, UnitError
from derive.notation.quantity import number
from derive.notation.units import sequence
from derive.solve import answer
from derive.solve.evaluate import evaluate
from derive.solve.feasible import feasible
from derive.solve.numerical import numerical
from derive.solve.optimum import optimum
from derive.solve.threshold import threshold

V5P, H100, LLAMA = chip("tpu-v5p"), chip("h100"), model("llama-3-70b")
ON = (V5P, LLAMA)
CASE = {
    "B": 2**22, "N": 64, "X": 8, "Y": 8, "Z": 2, "S": 2, "E": 8, "J": 64, "T": 8192, "U": 8192,
    "F_E": 2048, "n_k": 8, "n_S": 1, "n_hit": 4, "epsilon": "0.1",
    "cp": 2, "tp": 2, "pp": 2, "dp": 2, "B_seq": 64,
}  # fmt: skip
Ask = Callable[[Mapping[str, object]], Any]
PER_CHIP = v.B / v.X
OTHER = 11  # more than the chips of a node, and no multiple of them


def asked_of(subject: Strategy | Limit, asked: sp.Expr, *givers: Any) -> tuple[Ask, dict[str, Any]]:
    """The numbers of a threshold, and the values that it needs besides those of chip and model."""
    general = threshold(subject, asked)
    needed = {s.name: CASE[s.name] for s in general.missing(*givers)}
    return lambda values: general.on(*givers, **values), needed


def split(splits: str, shape: tuple[int, ...] | None = None) -> Ask:
    return lambda values: feasible(fsdp_tensor, 64, *ON, splits=splits, shape=shape, values=values)


ENTRANCES: dict[str, tuple[Ask, dict[str, Any]]] = {
    **{
        name: asked_of(one, PER_CHIP if name == "hsdp" else v.C, *ON)
        for name, one in STRATEGIES.items()
    },
    **{name: asked_of(LIMITS[name], LIMITS[name].asked, H100, LLAMA) for name in ("tensor_share",)},
    "memory": asked_of(fsdp, v.M_hbm, *ON),
    "node": asked_of(fsdp, PER_CHIP, H100),
    "chips": asked_of(fsdp, v.N, H100),
    "optimum": (lambda values: optimum(fsdp_tensor, v.X).on(*ON, **values), {"B": 2**22, "N": 64}),
    "numerical": (lambda values: numerical(fsdp, v.B, *ON, form="exact", values=values), {"X": 64}),
    "divisors": (split("divisors"), {"B": 2**18}),
    "torus": (split("torus", (4, 4, 4)), {"B": 2**18}),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_each_symbol_is_used_or_refused_or_noted(entrance: str) -> None:
    """All symbols are given at once, without those that are refused, which the refusals name. What
    is not noted then is given alone: it is refused, noted or makes another answer."""
    ask, needed = ENTRANCES[entrance]
    plain = str(ask(needed))
    every = {name: OTHER for name, known in v.vocabulary().items() if known.role != "axis"}
    rest, notes = {name: value for name, value in every.items() if name not in needed}, None
    while notes is None:
        try:
            notes = ask({**needed, **rest}).notes
        except DeriveError as error:
            del rest[next(word for word in re.findall(r"\w+", str(error)) if word in rest)]
    idle = {name for name in rest if f"{name} plays no part in this answer" in notes}
    assert len(idle) > len(every) / 2
    for name in every.keys() - idle:
        try:
            answer = ask({**needed, name: OTHER})
        except DeriveError as error:
            assert "\n" not in str(error)
        else:
            noted = f"{name} plays no part in this answer" in answer.notes
            assert noted or str(answer) != plain, name


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: threshold(fsdp, v.M_hbm).on(LLAMA, N=64, s_P=18), 's_P: .*precision="any"'),
        (lambda: threshold(fsdp, PER_CHIP).on(V5P, e=1), 'e: .*precision="bf16"'),
        (lambda: numerical(fsdp, PER_CHIP, V5P, values={"e_g": 4}), 'e_g: .*gradients="same"'),
        (lambda: feasible(fsdp, 8, V5P, B=99, fma=3), "fma: .* is 2 and cannot be set"),
        (lambda: feasible(fsdp, 8, V5P, B=99, X=8), "chooses X; leave out X"),
        (lambda: optimum(fsdp_tensor, v.X).on(*ON, B=99, N=8, Y=2), "leave out Y"),
        (lambda: evaluate(v.alpha, {}, {v.alpha: 3, v.X: 2}), "X plays no part in 'alpha'"),
        (lambda: evaluate(v.X, {v.X: [1]}, {v.X: 2}), "X has a grid as well"),
        (lambda: threshold(fsdp, PER_CHIP).on(alpha=9, C=6, W=3), "alpha = C/W is 2.FLOP per byte"),
        (lambda: threshold(fsdp_tensor, v.B).on(*ON, N=64, X=3, Y=5), r"N = X\*Y is 15.chips"),
        (lambda: threshold(fsdp_tensor, v.B).on(*ON, N=64, X=128), "more than the chips"),
        (
            lambda: threshold(LIMITS["context_ring"], v.W_cp).on(H100, LLAMA, cp=2, T=64, T_r=8),
            "T_r = T/cp is 32.tokens",
        ),
    ],
)
def test_what_is_stated_chosen_or_contradicted(ask: Callable[[], object], told: str) -> None:
    with pytest.raises(DeriveError, match=told) as caught:
        ask()
    assert "\n" not in str(caught.value) and "--" not in str(caught.value)


def test_what_takes_a_value_that_is_refused() -> None:
    assert threshold(fsdp, v.M_hbm, precision="any").on(P=64, N=64, s_P=18).value == 18
    assert threshold(fsdp, PER_CHIP, precision="any").on(V5P, e=1).value == Fraction(2550, 2)
    agreed = threshold(fsdp, PER_CHIP).on(alpha=2, C=6, W=3)
    assert agreed.value == 2 and "C plays no part in this answer" in agreed.notes


def test_mesh_axes_that_are_given_are_held() -> None:
    """As `fixed` holds them; of memory the chips follow from them, and suffice alone."""
    free, given = threshold(fsdp_tensor, v.B), {"N": 64, "X": 16}
    held = threshold(fsdp_tensor, v.B, fixed=[v.X]).on(*ON, **given)
    assert free.on(*ON, **given).value == held.value == 16 * 2550 != free.on(*ON, N=64).value
    assert threshold(fsdp, v.M_hbm).on(P="70e9", X=9).value == sp.Rational(70 * 10**10, 9)
    both = threshold(fsdp_tensor, v.M_hbm).on(P=36, N=18, X=9)
    assert both.value == 20 and both.notes[-1] == "X plays no part in this answer"


def test_a_unit_or_label_that_does_not_match_is_refused_everywhere() -> None:
    tokens = number(64, sequence)
    for ask in (
        lambda: threshold(fsdp, v.N).on(V5P, B=tokens),
        lambda: numerical(fsdp, v.X, V5P, values={v.B: tokens}),
        lambda: feasible(fsdp, 8, V5P, B=tokens),
        lambda: feasible(fsdp, tokens, V5P, B=64),
        lambda: evaluate(v.B * v.X, {v.X: [1.0]}, {"B": tokens}),
        lambda: evaluate(v.B, {v.B: [tokens]}),
    ):
        with pytest.raises(UnitError, match="sequence"):
            ask()


def test_degrees_are_whole_from_one() -> None:
    for value in (0.001, 1.5, 1e-39, Fraction(1, 2)):
        for form in ("exact", "large-n"):
            with pytest.raises(DeriveError, match=r"^X \(.*whole number"):
                threshold(fsdp, v.B, form=form).on(V5P, X=value)
        with pytest.raises(DeriveError, match=r"^Y \(.*whole number"):
            threshold(fsdp_tensor, v.B).on(*ON, N=64, Y=value)
    with pytest.raises(DeriveError, match=r"^N \(.*at least 1, found 1×10⁻³⁹"):
        threshold(fsdp, v.B).on(V5P, N=1e-39)


def test_torus_axes_are_whole_or_the_shares_that_splits_have() -> None:
    """Every share of a split is taken by `on`; no other, none beyond the chip's, and at once."""
    shares = {
        share
        for shape in ((4, 4, 4), (16, 20, 28), (2, 6, 15), (8, 9, 1))
        for found in [split_of(shape)]
        for candidate in found.candidates
        for _, share in candidate.torus_axes
    }
    assert {sp.Rational(1, 2), sp.Rational(3, 2), sp.Integer(3), sp.Rational(9, 14)} <= shares
    asked = threshold(fsdp, PER_CHIP)
    assert all(asked.on(V5P, M_X=share).value == 2550 / share for share in shares)
    moved = threshold(ulysses, v.C, form="exact")
    for bad in (1000, 4, 1e-39, 1e-9, 2.5, 1.3, Fraction(99, 100), Fraction(1, 257)):
        with pytest.raises(DeriveError, match=r"M_X"):
            asked.on(V5P, M_X=bad)
        with pytest.raises(DeriveError, match=r"M_X"):
            moved.on(*ON, **{**CASE, "M_X": bad, "M_axes": 3})
    assert threshold(fsdp, PER_CHIP).on(alpha=9, M_X=6).value == sp.Rational(3, 2)
    with pytest.raises(DeriveError, match="expected 1 to 10"):
        threshold(fsdp, PER_CHIP).on(alpha=9, M_X=1000)


def split_of(shape: tuple[int, ...]) -> Any:
    size = int(np.prod(shape))
    return feasible(fsdp_tensor, size, *ON, B=2**22, splits="torus", shape=shape)


def test_arrays_are_swept() -> None:
    asked, links = threshold(fsdp, PER_CHIP), np.linspace(1e11, 2e11, 6).reshape(2, 3)
    swept = asked.on(V5P, W=links)
    assert swept.dtype == np.float64 and swept.shape == (2, 3)
    np.testing.assert_allclose(swept, 459e12 / links, rtol=1e-15)
    both = asked.on(C=np.array([6, 8]), W=np.array(["1 GB/s", "2 GB/s"]), M_X=np.array(2))
    np.testing.assert_array_equal(both, [3e-9, 2e-9])
    best = optimum(fsdp_tensor, v.X)
    degrees = best.on(*ON, B=2**22, N=np.array([64, 256]), M_X=2)
    assert degrees.tolist() == [float(best.on(*ON, B=2**22, N=n, M_X=2)) for n in (64, 256)]
    summed = threshold(fsdp_tensor, PER_CHIP, overlap="serial")
    widths = summed.on(V5P, F=np.array([2550, 5100]), Y=1)
    np.testing.assert_array_equal(widths, [np.nan, 2 * 2550])
    assert asked.on(V5P, W=np.array([])).shape == (0,)


def test_a_sweep_tells_where_any_value_will_do_and_where_none_will() -> None:
    """In a group of one there is nothing to send: any share and any peak will do."""
    group = np.array([1, 8])
    above = threshold(LIMITS["tensor_share"], v.epsilon).on(H100, LLAMA, tp=group, T=8192)
    assert above[0] == 0 < above[1]
    below = threshold(LIMITS["context_ring"], v.C).on(H100, LLAMA, tp=1, cp=group, T=8192)
    assert below[0] == np.inf > below[1] > 0
    degrees = threshold(fsdp_tensor, v.B / v.X, form="exact").on(V5P, F=10**5, Y=2, X=group)
    assert degrees[0] == 0 < degrees[1]


def test_a_sweep_may_have_as_many_points_as_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "SWEEP", 2)
    assert threshold(fsdp, PER_CHIP).on(V5P, W=np.array([1e9, 2e9])).shape == (2,)


def test_a_sweep_of_two_bounds_at_a_point_is_refused() -> None:
    with pytest.raises(DeriveError, match="Y is bounded on both sides, and a sweep has one"):
        threshold(fsdp_tensor, v.Y).on(*ON, B=np.array([10**6, 2 * 10**6]), N=64)


def test_a_swept_name_plays_a_part() -> None:
    asked = threshold(fsdp, PER_CHIP)
    with pytest.raises(DeriveError, match=r"^L plays no part in this answer; leave it out"):
        asked.on(V5P, L=np.array([1, 2]))
    with pytest.raises(DeriveError, match="unknown symbol 'Wx'"):
        asked.on(V5P, Wx=np.array([]))


class Shaped:
    shape = (2,)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"W": np.ones(3), "C": np.ones(2)}, r"one shape, found W of \(3,\) and C of \(2,\)"),
        ({"W": np.ones(10**4 + 1)}, "at most 10,000 points, found 10,001"),
        ({"W": np.array([1.0, -1.0])}, "W: expected a positive number"),
        ({"W": np.array([True])}, "W: expected a number, found 'True'"),
        ({"W": [1.0, 2.0]}, r"W: expected a number or a NumPy array, such as W=np.array\("),
        ({"W": range(1, 4)}, r"W: expected a number or a NumPy array, such as W=np.array\("),
        ({"W": Shaped()}, r"W: expected a number or a NumPy array, such as W=np.array\("),
        ({"W": np.bytes_(b"2")}, "W: expected a number"),
    ],
)
def test_a_sweep_that_is_none(values: Mapping[str, object], told: str) -> None:
    with pytest.raises(DeriveError, match=told):
        threshold(fsdp, PER_CHIP).on(V5P, **values)
    with pytest.raises(DeriveError, match="W: expected a number"):
        numerical(fsdp, PER_CHIP, V5P, values={**values, "W": np.ones(3)})
