"""The shipped data: every reading has its source, and the readings agree where they must."""

import ast
import operator
import subprocess
import sys
from fractions import Fraction
from itertools import product
from math import prod

import pytest

from derive import facts
from derive.facts.derived import formula
from derive.facts.fact import CHIP_FACTS, choose

READINGS = [
    (fact, reading)
    for chip in facts.shipped().chips.values()
    for fact in chip.facts
    for reading in fact.readings
]
MODEL_READINGS = [
    (fact, reading)
    for model in facts.shipped().models.values()
    for fact in model.facts
    for reading in fact.readings
]
DERIVED = [(fact, reading) for fact, reading in READINGS if reading.status == "derived"]


def test_the_names_of_the_catalogue():
    tpus = ("tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu7x", "tpu8t")
    assert facts.chips()[:7] == (*tpus, "h100-sxm")
    others = {"a100-40g", "a100-80g", "h800-sxm", "h200-sxm", "b200-sxm", "gb200-nvl72", "mi300x"}
    assert others <= set(facts.chips())
    assert facts.models()[:3] == ("llama-3-8b", "llama-3-70b", "llama-3-405b")
    assert {"mixtral-8x7b", "deepseek-v3", "gpt-3-175b", "kimi-k2"} <= set(facts.models())
    assert facts.profiles() == ("scaling-book", "vendor", "notebook")
    keys = {source.key for source in facts.sources()}
    assert {"SB5", "SB6", "D-7x", "G-8dd", "P-Llama3", "P-GSPMD", "R-maxtext"} <= keys


@pytest.mark.parametrize(("fact", "reading"), READINGS + MODEL_READINGS)
def test_every_reading_says_where_and_when_it_was_read(fact, reading):
    source = facts.source(reading.source)
    assert source.key == reading.source
    assert reading.where and reading.basis and reading.read is not None
    assert bool(reading.formula) == (reading.status == "derived")
    assert fact.reading(reading.key) is reading


@pytest.mark.parametrize("profile", facts.profiles())
@pytest.mark.parametrize("name", facts.chips())
def test_a_profile_picks_one_reading_of_every_fact(name, profile):
    chip = facts.chip(name, profile=profile)
    assert len(chip.picked) == len(chip.facts) > 0
    for fact in chip.facts:
        assert chip.reading(fact.key.name) in fact.readings


def test_a_profile_may_not_depend_on_the_order_of_the_readings():
    catalogue = facts.shipped()
    for profile in catalogue.profiles.values():
        for chip in catalogue.chips.values():
            for fact in chip.facts:
                turned = type(fact)(fact.key, fact.owner, fact.readings[::-1])
                assert choose(turned, profile) == choose(fact, profile)


OPERATORS = {ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Add: operator.add}


def results(node, fact, source):
    """Every value of a formula as Python reads it, over the readings of the facts that it names.

    A reading of the same source goes before the readings of others. Nothing here calls the
    evaluator of `derive`.
    """
    if isinstance(node, ast.Constant):
        return {Fraction(str(node.value))}
    if isinstance(node, ast.BinOp):
        sides = results(node.left, fact, source), results(node.right, fact, source)
        return {OPERATORS[type(node.op)](a, b) for a, b in product(*sides)}
    chip, key = (
        (node.value.id, node.attr) if isinstance(node, ast.Attribute) else (fact.owner, node.id)
    )
    readings = facts.shipped().chips[chip].fact(key).readings
    own = [r for r in readings if r.source == source] or readings
    return {exact(r) for r in own}


def exact(reading):
    return Fraction(int(reading.value.p), int(reading.value.q))


@pytest.mark.parametrize(("fact", "reading"), DERIVED)
def test_a_derived_value_follows_from_its_formula(fact, reading):
    """Not from some of the readings only, as a file of a user's own may: from each."""
    tree = ast.parse(reading.formula, mode="eval").body
    assert results(tree, fact, reading.source) == {exact(reading)}
    read = formula(reading.formula)
    named = [
        facts.shipped().chips[name.owner or fact.owner].fact(name.fact).readings
        for name in read.names
    ]
    own = [[r for r in rs if r.source == reading.source] or rs for rs in named]
    found = {
        read.value(dict(zip(read.names, map(exact, used), strict=True))) for used in product(*own)
    }
    assert found == {exact(reading)}


def test_there_are_derived_values():
    assert len(DERIVED) >= 25


@pytest.mark.parametrize("profile", facts.profiles())
@pytest.mark.parametrize("name", facts.chips())
def test_the_geometry_of_a_pod_holds(name, profile):
    chip = facts.chip(name, profile=profile)
    if not chip.has("torus_axes"):
        if not chip.has("scaleup"):  # neither: what the links of a TPU 8i make is no torus
            return
        # Without a torus, chips meet in the switches of a scale-up domain.
        assert chip.reading("scaleup").value > chip.reading("dcn").value
        assert chip.reading("scaleup_chips").value % chip.reading("chips_per_host").value == 0
        if chip.has("scaleup_link") and name != "gaudi3":
            # Of a Gaudi 3 some links leave the node.
            links = chip.reading("scaleup_links").value * chip.reading("scaleup_link").value
            assert chip.reading("scaleup").value == links
        return
    axes = chip.reading("torus_axes").value
    assert chip.reading("links_per_chip").value == 2 * axes
    # An axis has two links, and each sends in its own direction.
    assert chip.reading("ici_axis").value == 2 * chip.reading("ici_link").value
    if chip.has("pod_shape"):
        assert len(chip.shape()) == axes
        assert prod(chip.shape()) == chip.reading("pod_chips").value


APART = {
    ("tpu-v6e", "dcn", "D-gce#8-chip-vm"),  # another kind of machine
    ("a100-40g", "dcn", "N-mle#p4d"),
    ("a100-80g", "dcn", "N-mle#p4d"),
    ("h800-sxm", "scaleup", "N-sb-gpu"),  # contradicts the paper
    ("h800-sxm", "scaleup", "N-sb-gpu#reached"),  # no peak
    ("b300-hgx", "int8", "N-mle-acc"),  # contradicts the data sheet
    ("gb300-nvl72", "int8", "N-mle-acc"),
    ("ascend-910b", "memory_bandwidth", "N-boardor"),  # not credible
}


def test_no_profile_picks_what_stands_apart():
    for profile in facts.profiles():
        for name, key, reading in APART:
            chip = facts.chip(name, profile=profile)
            assert chip.reading(key) != chip.fact(key).reading(reading)


@pytest.mark.parametrize("name", facts.chips())
def test_the_readings_of_a_fact_are_of_one_magnitude(name):
    """A slipped digit or a GB taken for a GiB twice over would stand out."""
    for fact in facts.shipped().chips[name].facts:
        if fact.key.kind == "shape" or fact.key.name == "chips_per_host":
            continue
        apart = {reading for chip, key, reading in APART if (chip, key) == (name, fact.key.name)}
        values = [r.value for r in fact.readings if r.key not in apart]
        assert max(values) < min(values) * 4 / 3, fact.key.name


CONFLICTING = [
    ("tpu-v4", "memory_bandwidth", [1200 * 10**9, 1230 * 10**9]),
    ("tpu-v4", "ici_link", [45 * 10**9, 50 * 10**9]),
    ("tpu-v5e", "memory_bandwidth", [819 * 10**9, 820 * 10**9, 858993459200, 810 * 10**9]),
    ("tpu-v5e", "int8", [393 * 10**12, 394 * 10**12]),
    ("tpu-v5e", "memory", [16 * 10**9, 17_200_000_000]),
    ("tpu-v5p", "memory", [96 * 2**30, 95 * 2**30, 95 * 10**9, 96 * 10**9, 103 * 10**9]),
    (
        "tpu-v5p",
        "memory_bandwidth",
        [2765 * 10**9, 2575 * 2**30, 28 * 10**11, 246 * 10**10, 25 * 10**11],
    ),
    ("tpu-v5p", "bf16", [459 * 10**12, 446 * 10**12]),
    ("tpu-v5p", "ici_axis", [2 * 10**11, 18 * 10**10]),
    ("tpu-v6e", "bf16", [918 * 10**12, 920 * 10**12]),
    ("tpu-v6e", "memory", [32 * 2**30, 32 * 10**9]),
    ("tpu-v6e", "dcn", [125 * 10**8, 3125 * 10**6]),
    ("tpu7x", "bf16", [2307 * 10**12, 2310 * 10**12]),
    ("tpu7x", "fp8", [4614 * 10**12, 4600 * 10**12]),
    ("tpu7x", "memory", [192 * 2**30, 206 * 10**9]),
    ("tpu7x", "ici_axis", [2 * 10**11, 18 * 10**10]),
    ("tpu8t", "memory", [216 * 10**9, 231 * 10**9]),
    ("tpu8t", "memory_bandwidth", [6528 * 10**9, 6400 * 10**9, 8500 * 10**9]),
]


@pytest.mark.parametrize(("name", "key", "expected"), CONFLICTING)
def test_readings_that_disagree_are_all_kept(name, key, expected):
    values = {reading.value for reading in facts.chip(name).fact(key).readings}
    assert set(expected) <= values


def test_every_declared_fact_has_a_unit_that_its_symbol_shares():
    from derive.notation.symbols import unit_of_symbol

    for key in CHIP_FACTS.values():
        assert key.symbol is None or unit_of_symbol(key.symbol) == key.unit


IMPORT = """
import sys
opened = []
sys.addaudithook(lambda event, args: event == "open" and opened.append(str(args[0])))
import derive.facts
assert not [path for path in opened if path.endswith(".toml")], opened
assert derive.facts.shipped.cache_info().currsize == 0
derive.facts.chip("v5p")
derive.facts.chip("tpu7x", profile="vendor")
assert len([path for path in opened if path.endswith(".toml")]) == 4, opened
"""


def test_the_import_reads_no_file_and_first_use_reads_each_once():
    subprocess.run([sys.executable, "-c", IMPORT], check=True)
