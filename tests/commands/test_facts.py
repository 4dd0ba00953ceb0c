"""`derive facts`: the catalogue, one chip with its readings, one model with its parts."""

from __future__ import annotations

from typing import Any

import pytest

from derive.facts import chips, models, source
from derive.notation.symbols import vocabulary

CHIPS = ["tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu7x", "tpu8t"]


def test_the_catalogue(answer: Any, run: Any) -> None:
    found = answer("facts")
    assert list(found["chips"]) == list(chips()) and set(CHIPS) <= set(found["chips"])
    assert list(found["models"]) == list(models())
    assert "scaling-book" in found["profiles"]
    _, text, _ = run("facts")
    assert all(name in text for name in (*found["chips"], *found["models"], *found["profiles"]))


@pytest.mark.parametrize("name", CHIPS)
@pytest.mark.parametrize("profile", ["scaling-book", "vendor", "notebook"])
def test_a_profile_picks_one_reading_of_each_fact(answer: Any, name: str, profile: str) -> None:
    found = answer("facts", name, "--profile", profile)
    assert (found["name"], found["profile"]) == (name, profile)
    assert {"bf16", "ici_axis", "memory"} <= set(found["facts"])
    for rows in found["facts"].values():
        assert sum(row["picked"] for row in rows) == 1
        assert all(row["source"] in found["sources"] for row in rows if row["source"])
    for key, cited in found["sources"].items():
        assert cited["title"] == source(key).title


def test_the_readings_of_ironwood_differ_by_profile(answer: Any) -> None:
    def axis(profile: str) -> int:
        rows = answer("facts", "tpu7x", "--profile", profile)["facts"]["ici_axis"]
        (picked,) = [row["value"] for row in rows if row["picked"]]
        return int(picked)

    assert axis("scaling-book") == 180e9
    assert axis("vendor") == 200e9


def test_the_text_marks_the_reading_in_use_and_lists_sources(run: Any) -> None:
    _, text, _ = run("facts", "v5p")
    assert "> 459 TFLOP/s" in text
    assert f"[SB2] {source('SB2').title}" in text


def test_a_model_adds_up(answer: Any, run: Any) -> None:
    found = answer("facts", "llama-3-70b")
    d, f, layers, vocabulary = 8192, 28672, 80, 128256
    attention = 2 * d * d + 2 * d * 8 * 128
    by_hand = layers * (attention + 3 * d * f + 2 * d) + d + 2 * d * vocabulary
    assert found["parameters"] == by_hand == 70_553_706_496
    assert sum(found["parts"].values()) == by_hand
    assert (found["shapes"]["D"], found["shapes"]["F"]) == (d, f)
    assert found["gated"] is True
    _, text, _ = run("facts", "llama-3-70b")
    assert "70,553,706,496" in text
    assert "feed-forward width" in text


def test_own_facts_join_the_catalogue(answer: Any, tmp_path: Any) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        '[sources.mine]\ntitle = "Ours"\npublisher = "us"\nkind = "own"\ndated = "2026"\n'
        'read = 2026-01-01\n[chips.our-chip]\ntitle = "Our chip"\n[chips.our-chip.facts]\n'
        'bf16 = [{ value = 1e15, unit = "FLOP/second", source = "mine", status = "published", '
        'where = "matmul sweep", basis = "dense peak per chip" }]\n'
    )
    assert answer("facts", "--facts", str(file))["chips"]["our-chip"] == "Our chip"
    found = answer("facts", "our-chip", "--facts", str(file))
    assert found["facts"]["bf16"][0]["value"] == 10**15
    assert found["sources"]["mine"]["publisher"] == "us"


def test_the_symbols_are_those_of_the_vocabulary(answer: Any, run: Any) -> None:
    rows = answer("symbols")
    told = {row["symbol"]: (row["unit"], row["gloss"]) for row in rows}
    assert told == {name: (str(known.unit), known.gloss) for name, known in vocabulary().items()}
    _, text, _ = run("symbols")
    assert [line.split()[0] for line in text.splitlines()] == list(told)
    assert all(gloss in text for _, gloss in told.values())
