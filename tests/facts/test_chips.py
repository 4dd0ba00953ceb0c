"""Chips under a profile: values, overrides, and errors."""

from copy import deepcopy
from dataclasses import FrozenInstanceError
from fractions import Fraction

import pytest
import sympy as sp

from derive import facts
from derive.notation.errors import DeriveError, FactError, UnitError, UnknownName
from derive.notation.quantity import check_label, evaluated, number
from derive.notation.symbols import (
    C,
    M_axes,
    M_hbm,
    N,
    N_pod,
    W,
    W_dcn,
    W_hbm,
    W_node,
    alpha,
    n_host,
    n_node,
)
from derive.notation.units import byte, chip, flop, second, token


@pytest.mark.parametrize(
    ("name", "profile", "alpha"),
    [
        ("tpu-v5p", "scaling-book", 2550),
        ("tpu-v5p", "vendor", 2295),
        ("tpu7x", "vendor", 11535),
        ("tpu7x", "scaling-book", Fraction(38450, 3)),
        ("tpu8t", "vendor", Fraction(9961, 4)),
        ("tpu8t", "scaling-book", Fraction(9961, 4)),
        ("tpu-v4", "scaling-book", Fraction(27500, 9)),
        ("tpu-v5e", "scaling-book", Fraction(19700, 9)),
        ("tpu-v6e", "scaling-book", Fraction(46000, 9)),
    ],
)
def test_ici_intensity(name, profile, alpha):
    found = evaluated(C / W, facts.chip(name, profile=profile).bindings())
    assert found.value == sp.Rational(alpha)
    assert found.unit == flop / byte


@pytest.mark.parametrize(
    ("name", "intensity", "expected"),
    [
        ("tpu-v5p", C / W_dcn, 73440),
        ("tpu7x", C / W_dcn, 184560),
        ("tpu-v5e", C / W_dcn, 63040),
        ("tpu-v5e", C / W_hbm, Fraction(19700, 82)),  # the critical batch of 240 tokens
        ("tpu-v5p", M_hbm / 10, Fraction(96 * 10**8)),  # parameters, at ten bytes each
    ],
)
def test_other_intensities_in_the_default_profile(name, intensity, expected):
    assert evaluated(intensity, facts.chip(name).bindings()).value == sp.Rational(expected)


@pytest.mark.parametrize(
    ("name", "profile", "key", "expected"),
    [
        ("tpu-v5p", "scaling-book", "memory", 96 * 10**9),
        ("tpu-v5p", "vendor", "memory", 96 * 2**30),
        ("tpu-v5p", "scaling-book", "memory_bandwidth", 28 * 10**11),
        ("tpu-v5p", "scaling-book", "dcn", 625 * 10**7),
        ("tpu-v5e", "scaling-book", "memory_bandwidth", 82 * 10**10),
        ("tpu-v5e", "vendor", "memory_bandwidth", 819 * 10**9),
        ("tpu-v6e", "vendor", "dcn", 100 * 10**9 // 8),  # 100 Gbit/s
        ("tpu7x", "scaling-book", "bf16", 2307 * 10**12),
        ("tpu7x", "vendor", "memory", 192 * 2**30),
        ("tpu7x", "vendor", "pod_chips", 9216),
        ("tpu-v5p", "scaling-book", "pod_chips", 8960),
        ("tpu-v5p", "scaling-book", "largest_job", 6144),
    ],
)
def test_what_a_profile_picks(name, profile, key, expected):
    assert facts.chip(name, profile=profile).quantity(key).value == expected


def test_one_ratio_of_two_chips_on_one_basis_in_every_profile():
    for profile in facts.profiles():
        old, new = (facts.chip(name, profile=profile) for name in ("tpu-v5p", "tpu7x"))
        assert old.reading("ici_axis").value == new.reading("ici_axis").value


def test_statuses():
    tpu8t = facts.chip("tpu8t")
    assert tpu8t.reading("bf16").status == "provisional"
    assert tpu8t.reading("ici_axis").status == "derived"
    assert facts.chip("tpu7x").quantity("ici_axis").status == "published"


def test_a_quantity_carries_its_origin():
    found = facts.chip("tpu-v5p", profile="vendor").quantity("ici_axis")
    assert (found.name, found.owner, found.source, found.unit) == (
        "W",
        "tpu-v5p",
        "D-v5p",
        byte / second,
    )
    assert list(found.leaves()) == [found]
    assert isinstance(found.value, sp.Integer)
    assert found.formula and found.where and "bidirectional per axis" in found.basis


@pytest.mark.parametrize("name", facts.chips())
def test_bindings_fit_their_symbols_and_leave_the_pod_free(name):
    chip = facts.chip(name)
    bindings = chip.bindings(chip.precisions[0])
    for symbol, value in bindings.items():
        check_label(symbol, value)
        assert value.name == symbol.name
    scale_up = {W, M_axes} if name.startswith("tpu") else {W_node, n_node}
    scale_up -= {W, M_axes} if name == "tpu8i" else set()  # no torus
    known = {C, M_hbm, W_hbm} | scale_up
    more = {W_dcn, n_host} | ({N_pod} if name.startswith("tpu") else set())
    assert known <= set(bindings) <= known | more
    assert N not in bindings
    assert (W_dcn in bindings) == (name not in ("tpu-v3", "tpu-v4", "tpu8i"))


def test_precision_binds_its_own_rate():
    v5p = facts.chip("tpu-v5p")
    assert v5p.bindings("int8")[C].value == 2 * v5p.bindings()[C].value
    assert v5p.bindings("fp8")[C].value == v5p.bindings()[C].value
    with pytest.raises(FactError, match=r"tpu7x has no figure for 'int8'; known: bf16, fp8$"):
        facts.chip("tpu7x").bindings("int8")


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("v5p", "tpu-v5p"),
        ("ironwood", "tpu7x"),
        ("trillium", "tpu-v6e"),
        ("tpu-8t", "tpu8t"),
        ("v4", "tpu-v4"),
        ("v5e", "tpu-v5e"),
    ],
)
def test_aliases(alias, name):
    assert facts.chip(alias) == facts.chip(name)
    assert hash(facts.chip(alias)) == hash(facts.chip(name))


@pytest.mark.parametrize(
    ("call", "near"),
    [
        (lambda: facts.chip("tpu-5vp"), "tpu-v5p"),
        (lambda: facts.chip("ironwod"), "ironwood"),
        (lambda: facts.chip("v5p", profile="vendors"), "vendor"),
        (lambda: facts.chip("v5p").fact("memmory"), "memory"),
        (lambda: facts.chip("v5p").has("pod_chip"), "pod_chips"),
        (lambda: facts.chip("v5p", override={"ici_axes": "D-v5p"}), "ici_axis"),
        (lambda: facts.chip("v5p", override={"memory": "D-v5p#usabel"}), "D-v5p#usable"),
        (lambda: facts.source("SB-5"), "SB5"),
    ],
)
def test_an_unknown_name_offers_the_nearest(call, near):
    with pytest.raises(UnknownName, match=f"did you mean .*{near}"):
        call()


def test_any_value_of_a_chip_is_had_by_a_name_or_a_symbol():
    v5p = facts.chip("tpu-v5p")
    for symbol, quantity in v5p.bindings().items():
        assert v5p[symbol] == v5p[symbol.name] == v5p.quantity(symbol) == quantity
    for key in ("bf16", "memory", "pod_chips"):
        assert v5p[key] == v5p.fact(key).quantity(v5p.reading(key))
    assert v5p["alpha"] == v5p[alpha] == evaluated(C / W, v5p.bindings(), "FLOP/byte", "alpha")
    assert v5p.quantity(alpha, "int8") == evaluated(C / W, v5p.bindings("int8"), name="alpha")
    assert v5p.quantity("C", "int8").value == v5p["int8"].value


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (
            lambda: facts.chip("v5p")["alhpa"],
            "unknown value of tpu-v5p 'alhpa'; did you mean alpha",
        ),
        (lambda: facts.chip("v5p")[N], "unknown value of tpu-v5p 'N'"),
        (lambda: facts.chip("h100")["alpha"], "unknown value of h100-sxm 'alpha'"),
        (lambda: facts.chip("v5p")[[1]], "unknown value of tpu-v5p"),
        (lambda: facts.chip("v5p").quantity("C", "bf61"), "no figure for 'bf61'; known: bf16"),
    ],
)
def test_a_value_that_a_chip_has_not_is_told(ask, told):
    with pytest.raises(DeriveError, match=told):
        ask()


def test_an_attribute_that_is_none_says_how_a_value_is_had():
    with pytest.raises(AttributeError, match=r"a chip has no attribute M_hbm; ask chip\['M_hbm'\]"):
        facts.chip("v5p").M_hbm  # noqa: B018
    assert deepcopy(facts.chip("v5p")) == facts.chip("v5p")


def test_a_fact_without_a_reading_names_those_that_have_one():
    with pytest.raises(FactError, match=r"tpu8t has no reading of chips_per_host; it has bf16"):
        facts.chip("tpu8t").quantity("chips_per_host")
    assert not facts.chip("tpu8t").has("chips_per_host")


def test_shapes_are_no_numbers():
    v5p = facts.chip("v5p")
    assert v5p.shape() == (16, 20, 28)
    with pytest.raises(FactError, match="16x20x28, not a number"):
        v5p.quantity("pod_shape")
    with pytest.raises(FactError, match="memory of tpu-v5p is a number"):
        v5p.shape("memory")


def test_override_by_source():
    book = facts.chip("tpu7x")
    mixed = facts.chip("tpu7x", override={"ici_axis": "D-gce", "memory": "SB2-later"})
    assert evaluated(C / W, mixed.bindings()).value == 11535
    assert [(o.key, o.before, o.after) for o in mixed.overrides] == [
        ("ici_axis", book.reading("ici_axis"), mixed.reading("ici_axis")),
        ("memory", book.reading("memory"), mixed.reading("memory")),
    ]
    assert mixed.quantity("memory").value == 192 * 10**9
    assert book.overrides == ()


def test_override_by_part():
    usable = facts.chip("v5p", override={"memory": "D-v5p#usable"})
    assert usable.quantity("memory").value == 95 * 2**30


def test_override_by_quantity():
    given = number(3 * 10**11, byte / second, basis="bidirectional per axis")
    changed = facts.chip("v5p", override={"ici_axis": given})
    assert changed.bindings()[W].value == 3 * 10**11
    assert changed.bindings()[W].status == "given"
    assert changed.overrides[0].before == facts.chip("v5p").reading("ici_axis")
    added = facts.chip("tpu8t", override={"chips_per_host": number(4, chip)})
    assert added.quantity("chips_per_host").value == 4
    assert added.overrides[0].before is None


@pytest.mark.parametrize(
    ("key", "wanted", "error", "message"),
    [
        ("ici_axis", number(1, byte), UnitError, "expected byte/second, found byte"),
        ("pod_chips", number(4096, token), UnitError, "expected chip, found token"),
        ("memory", number(-1, byte), FactError, "above 0"),
        ("memory", number(0, byte), FactError, "above 0"),
        ("memory", number(10**30, byte), FactError, "below 1e30"),
        ("pod_chips", number("0.5", chip), FactError, "whole number"),
        ("memory", 96, FactError, "expected a source key or a quantity, found int"),
        ("pod_shape", number(3, chip), FactError, "a shape is no quantity"),
        ("scaleup", "SB2", FactError, "no reading to choose"),
    ],
)
def test_an_override_that_does_not_fit(key, wanted, error, message):
    with pytest.raises(error, match=message) as caught:
        facts.chip("tpu-v5p", override={key: wanted})
    assert f"override of {key} of tpu-v5p" in str(caught.value)


def test_chips_are_frozen():
    with pytest.raises(FrozenInstanceError):
        facts.chip("v5p").name = "other"
    with pytest.raises(TypeError):
        facts.shipped().chips["mine"] = None
