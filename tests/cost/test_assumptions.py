"""Assumptions: sizes and shares with what says them, the names of sets, and what is refused."""

from __future__ import annotations

import random
import re
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import sympy as sp

from derive.cost.assumptions import (
    BYTES,
    CHOICES,
    CORRECTED,
    DEFAULT,
    NOTEBOOK,
    PHRASES,
    SETS,
    STEP,
    TERMS,
    Assumptions,
    as_assumptions,
    assume,
    step_assumptions,
)
from derive.cost.block import Fusion
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, UnknownName

ORDER = list(STEP)


def test_a_number_has_the_bits_that_its_name_says() -> None:
    for name, size in BYTES.items():
        (bits,) = re.findall("[0-9]+", name)
        assert size == Fraction(int(bits), 8)
        assert assume(precision=name).elements[v.e] == sp.Rational(int(bits), 8)
        (told,) = re.findall(f"^{name}: ([0-9/]+) bytes? per element$", stated(precision=name))
        assert Fraction(told) == size


def stated(**changes: object) -> str:
    return assume(**changes).stated()["precision"]


def test_adam_keeps_a_mean_and_a_mean_square_in_fp32() -> None:
    weights = np.ones(3, np.float32)
    state = {"mean": 0.1 * weights, "mean square": 0.001 * weights**2}
    kept = sum(moment.nbytes for moment in state.values()) // weights.size
    for name, size in BYTES.items():
        assert assume(precision=name).elements[v.s_P] == sp.Rational(size) + kept
        told = assume(precision=name).stated(memory=True)["state"]
        assert told.startswith(f"{size + kept} bytes per parameter: {name} weight, two ")
    assert "state" not in DEFAULT.stated()


def test_a_multiply_add_is_a_multiplication_and_an_addition() -> None:
    for under in SETS.values():
        assert under.elements[v.fma] == under.constants[v.fma] == 1 + 1


def test_gradients_have_the_bytes_of_the_weights_or_their_own() -> None:
    """Of a step, those of the same precision are widened to fp32 where that is corrected."""
    for precision, gradients in product(CHOICES["precision"], CHOICES["gradients"]):
        for corrections in ("notebook", "notebook+gradient_bytes"):
            under = assume(corrections, precision=precision, gradients=gradients)
            own = precision if gradients == "same" else gradients
            weight = v.e if precision == "any" else sp.Rational(BYTES[precision])
            wanted = v.e if own == "any" else sp.Rational(BYTES[own])
            assert under.elements.get(v.e, v.e) == under.constants[v.e] == weight
            assert under.elements[v.e_g] == wanted
            widened = gradients == "same" and corrections != "notebook"
            assert under.constants[v.e_g] == (4 if widened else wanted)
            assert (v.s_P in under.elements) == (precision != "any")
            assert under.stated()["gradients"] == assume(precision=own).stated()["precision"]


def test_what_the_notebook_states() -> None:
    """Its shares are given in percent; 34 bytes of activations are kept for an element, and a rank
    of the ring has 4096 tokens or more."""
    percent = {v.eta: 60, v.mu: 90, v.x_pp: 50, v.x_dp: 20}
    assert DEFAULT.constants[v.eta] != CORRECTED.constants[v.eta]
    for under in (NOTEBOOK, CORRECTED):
        assert {s: 100 * under.constants[s] for s in percent} == percent
        assert under.constants[v.A_kept] == 34
        assert under.constants[v.e_32] == 32 // 8
    assert NOTEBOOK.constants[v.T_min] == 2**12 and DEFAULT.constants[v.T_min] == 1
    assert NOTEBOOK.profile == "notebook" and DEFAULT.profile is None


def test_only_a_torus_has_axes_that_wrap() -> None:
    for network in CHOICES["network"]:
        told = assume(network=network).stated()
        assert ("wrap" in told) == (network in ("chip", "torus")) != ("network" in told)
        every = {*CHOICES} - {*Fusion._fields}  # kernels are the block's to state
        assert set(told) == every - ({"wrap", "network"} - set(told))


@pytest.mark.parametrize("seed", range(20))
def test_a_set_is_called_by_the_shorter_of_its_names(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randrange(len(ORDER) + 1)
    under = Assumptions(corrections=frozenset(draw.sample(ORDER, count)))
    assert step_assumptions(under.name) == as_assumptions(under.name) == under
    out = [name for name in ORDER if name not in under]
    nearest = min(len(under.corrections ^ one.corrections) for one in SETS.values())
    assert under.name.count("+") + under.name.count("-") == nearest
    assert re.split("[+-]", under.name)[0] in SETS
    assert list(under.described()) == list(under.on(*ORDER)) == [n for n in ORDER if n in under]
    first = f"notebook{''.join(f'+{name}' for name in under.on(*ORDER))}"
    second = f"default{''.join(f'-{name}' for name in out)}"
    assert step_assumptions(first) == step_assumptions(second) == under
    assert assume(DEFAULT, corrections=under.name) == assume(corrections=under.corrections) == under


@pytest.mark.parametrize("seed", range(20))
def test_what_is_closed_has_no_terms_and_all_else(seed: int) -> None:
    draw = random.Random(seed)
    under = assume(
        overlap=draw.choice(CHOICES["overlap"]),
        corrections=draw.sample(ORDER, draw.randrange(len(ORDER) + 1)),
    )
    closed = under.closed
    assert closed.corrections == {name for name in under.corrections if name not in TERMS}
    assert assume(closed, corrections=under.corrections) == under
    assert closed.closed == closed and hash(closed) == hash(closed.closed)
    assert DEFAULT.closed == CORRECTED and step_assumptions("corrected") == CORRECTED


def test_corrections_are_added_and_left_out_in_one_name() -> None:
    both = step_assumptions("default - zigzag + logits")
    assert both == step_assumptions("default-zigzag")
    assert step_assumptions("notebook+zigzag-logits") == step_assumptions("notebook+zigzag")


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("zigzag", DeriveError, r"write notebook\+zigzag or default-zigzag"),
        ("notebok", UnknownName, "did you mean notebook"),
        ("notebook+zigzg", UnknownName, "unknown correction .*did you mean zigzag"),
        ("default-zigzg", UnknownName, "unknown correction .*did you mean zigzag"),
        ("default-zigzag+zigzag", DeriveError, "named twice"),
        (3, DeriveError, "expected the name of assumptions as text"),
    ],
)
def test_a_name_that_is_none_is_refused(text: str, error: type[DeriveError], told: str) -> None:
    with pytest.raises(error, match=told):
        step_assumptions(text)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"overlp": "serial"}, "unknown assumption .*did you mean overlap"),
        ({"qqq": 1}, f"known: {', '.join(sorted([*PHRASES, 'corrections']))}"),
        ({"overlap": "seril"}, "overlap: expected one of concurrent, serial, .*mean serial"),
        ({"wrap": 1}, "wrap: expected one of True, False, found 1$"),
        ({"corrections": [["a"]]}, "corrections: expected their names, found"),
        ({"corrections": 5}, "corrections: expected their names, found 5"),
        ({"form": "q"}, "form: expected one of large-n, exact, found 'q'$"),
        ({"corrections": {"zigzg"}}, "unknown correction .*did you mean zigzag"),
    ],
)
def test_what_is_no_assumption_is_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(DeriveError, match=told):
        assume(**changes)


def test_weights_in_fp32_need_no_copy_in_fp32() -> None:
    weight = gradient = moment = 4
    assert set(assume(precision="fp32").whole_state.values()) == {weight + gradient + 2 * moment}


def test_what_plays_no_part_is_refused_where_it_was_changed() -> None:
    under = assume("notebook", overlap="serial")
    assert under.changed == ("overlap", "corrections")
    assert DEFAULT.only((), "it") is DEFAULT and under.only(under.changed, "it") is under
    with pytest.raises(DeriveError, match="the set notebook plays no part in it; it takes overlap"):
        under.only(("overlap",), "it")
    with pytest.raises(DeriveError, match=r"^overlap plays no part in it; it takes corrections"):
        under.only(("corrections",), "it")
    with pytest.raises(UnknownName):
        _ = "zigzg" in DEFAULT
