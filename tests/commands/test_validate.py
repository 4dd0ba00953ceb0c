"""`derive validate`: every run is predicted or counted with its reason; a broken file is a line."""

import csv

import pytest

from derive.facts.catalogue import DATA
from derive.facts.runs import KINDS

ROW = {
    "id": "own-1", "source": "own", "place": "log", "tier": "A", "core": "true", "model": "8B",
    "layers": "32", "hidden": "4096", "heads": "32", "kv_heads": "8", "head_dim": "128",
    "ffn": "14336", "gated": "true", "vocab": "128256", "seq": "8192", "batch": "64",
    "micro_batch": "1", "chip": "h100", "cards": "16", "tp": "4", "cp": "1", "pp": "2", "dp": "2",
    "virtual": "1", "zero": "1", "recompute": "none", "precision": "bf16", "step_seconds": "10",
    "allocated_bytes": "60e9", "fsdp": "", "missing": "", "experts": "", "topk": "",
    "expert_ffn": "",
}  # fmt: skip


@pytest.fixture
def written(tmp_path):
    def writer(*rows):
        path = tmp_path / "own.csv"
        with path.open("w") as opened:
            table = csv.DictWriter(opened, list(ROW))
            table.writeheader()
            table.writerows({**ROW, **row} for row in rows)
        return str(path)

    return writer


def test_every_shipped_run_is_predicted_or_counted(answer):
    data = answer("validate")
    told = sum(len(ids) for ids in data["refused"].values())
    assert data["runs"] == data["predicted"] + told == 772
    assert sum(row["rows"] for row in data["errors"] if row["source"] != "all") == data["predicted"]
    assert len(data["worst"]) == min(10, data["predicted"])


def test_the_runs_of_one_source(answer, refused):
    data = answer("validate", "--source", "korthikanti2022")
    assert data["runs"] == data["predicted"] == 15
    assert {one for row in data["errors"] for one in row["ids"]} >= {"korthikanti2022-015"}
    assert "did you mean bloom?" in refused("validate", "--source", "blom")


def test_a_file_of_ones_own(answer, written):
    first = answer("validate", written({}))
    (row,) = first["worst"]
    assert first["predicted"] == 1 and row["error"] == row["predicted_seconds"] / 10 - 1
    again = answer("validate", written({"step_seconds": repr(row["predicted_seconds"])}))
    assert again["errors"][0]["worst"] < 1e-12
    memory = first["memory"][0]["worst"]
    assert memory == first["memory"][-1]["mean"] > 0


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, "studied"),
        ({"tier": "B", "core": "false"}, "16 bits"),
        ({"precision": "fp8"}, "8 bits"),
        ({"chip": "tpu-v5p"}, "TPU"),
        ({"experts": "8", "topk": "2", "expert_ffn": "14336"}, "experts"),
    ],
)
def test_what_is_not_alike_is_told_apart(answer, written, change, kind):
    data = answer("validate", written(change))
    assert [row["kind"] for row in data["errors"]] == [kind, kind]
    assert all(row["ids"] == ["own-1"] for row in data["errors"])


def test_a_source_of_which_no_run_is_studied(answer):
    data = answer("validate", "--source", "dgxc_24.11.1")
    assert [row["kind"] for row in data["left_out"]] == ["16 bits", "16 bits"]
    assert all(draw["rows"] == data["left_out"][0]["rows"] for draw in data["draws"])
    assert "eight" not in data


def test_slower_runs_are_predicted_slower(answer, written):
    layouts = [(4, 2, 2), (2, 2, 4), (1, 2, 8), (8, 2, 1)]
    rows = [
        {"id": f"own-{tp}", "tp": str(tp), "pp": str(pp), "dp": str(dp)} for tp, pp, dp in layouts
    ]
    first = answer("validate", written(*rows))
    seconds = {row["id"]: row["predicted_seconds"] for row in first["worst"]}
    assert len(seconds) == 4
    same = answer(
        "validate", written(*(row | {"step_seconds": repr(seconds[row["id"]])} for row in rows))
    )
    assert same["order"]["right"] == same["order"]["pairs"] > 0
    assert same["order"]["tau"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"virtual": ""}, "virtual stages not stated"),
        ({"micro_batch": "", "missing": "micro_batch"}, "micro-batch not stated"),
        ({"chip": "v100-32gb"}, "has no figure for bf16"),
    ],
)
def test_what_is_not_predicted_has_a_reason(answer, written, change, reason):
    data = answer("validate", written(change))
    ((told, ids),) = data["refused"].items()
    assert reason in told and ids == ["own-1"] and data["predicted"] == 0


def test_the_text_says_what_the_data_says(run, written):
    code, out, err = run("validate", written({}, {"id": "own-2", "head_dim": "100"}))
    assert (code, err) == (0, "")
    assert "1 of 2 runs are predicted" in out and "own-1" in out
    assert "1  the width of a head is no multiple of 8" in out


def test_a_broken_file_is_one_line(refused, written, tmp_path):
    assert "own.csv:2: cards: expected tp*cp*pp*dp = 32, found 16" in refused(
        "validate", written({"dp": "4"})
    )
    assert "own.csv:2: chip: " in refused("validate", written({"chip": "h10"}))
    assert "found no file" in refused("validate", str(tmp_path / "no.csv"))
    assert "found a directory" in refused("validate", str(tmp_path))


def test_the_shipped_file_is_a_file_like_any_other(answer):
    own, shipped = answer("validate", str(DATA / "runs.csv")), answer("validate")
    assert own == {name: shipped[name] for name in own}
    assert {*shipped} - {*own} == {"draws", "cross_validated", "left_out", "eight"}
    assert set(ROW) <= set(KINDS)


def test_published_runs_are_predicted_as_well_as_is_said(answer):
    """The aims of the study: the worst of five draws, cross-validated by source and model."""
    data = answer("validate")
    assert len(data["draws"]) == 5
    for draw in data["draws"]:
        assert draw["rows"] == 315 and draw["mean"] <= 0.05 and draw["within"] >= 0.9
        assert draw["right"] / draw["pairs"] >= 0.91
    memory = {row["source"]: row["mean"] for row in data["memory"] if row["kind"] == "studied"}
    assert memory["simumax_b200"] <= 0.05 and max(memory.values()) <= 0.1
    worst = max(data["draws"], key=lambda draw: draw["mean"])
    (told,) = (
        row for row in data["cross_validated"] if (row["kind"], row["source"]) == ("studied", "all")
    )
    assert (told["mean"], told["p90"]) == (worst["mean"], worst["p90"])
    assert len(told["ids"]) == 315
    assert [row["way"] for row in data["eight"]][::6] == ["fitted", "its source left out"]
    assert all(len(row["errors"]) == 8 for row in data["eight"])


def test_what_is_fitted_names_its_runs(answer, refused, written):
    shares = answer("validate", "--fit")["shares"]
    assert all(len(share["runs"]) == share["rows"] > 0 for share in shares)
    assert "leave out RUNS and --source" in refused("validate", "--fit", "--source", "bloom")
    assert "leave out RUNS and --source" in refused("validate", "--fit", written({}))
