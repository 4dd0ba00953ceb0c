"""Published runs: the shipped rows hold together, and a broken row is one line that says where."""

import json
import tomllib
from collections import Counter
from dataclasses import replace
from math import isclose, prod

import pytest

from derive import facts
from derive.facts.catalogue import DATA
from derive.facts.runs import KINDS, RULES, read_runs, reasons, runs, studied, token_flops
from derive.notation.errors import FactError

CELLS = {
    "id": "a-1", "source": "a", "place": "table 1", "tier": "A", "core": "true", "model": "m",
    "layers": "24", "hidden": "1024", "heads": "16", "kv_heads": "8", "head_dim": "64",
    "ffn": "4096", "gated": "false", "vocab": "51200", "seq": "2048", "batch": "64",
    "micro_batch": "2", "chip": "h100", "cards": "16", "tp": "2", "cp": "1", "pp": "2", "dp": "4",
    "virtual": "1", "recompute": "none", "precision": "bf16", "step_seconds": "2.048",
    "tokens_per_second": "4000", "mfu": "0.4", "peak_tflops": "989",
}  # fmt: skip
OBJECT = {
    "id": "a-1", "source_key": "a", "source_table": "table 1", "tier": "A", "core": True,
    "model": "m", "layers": 24, "hidden": 1024, "heads": 16, "kv_heads": 8, "head_dim": 64,
    "ffn": 4096, "ffn_gated": False, "vocab": 51200, "seq_len": 2048, "global_batch_seqs": 64,
    "micro_batch": 2, "card": "H100-80GB SXM (DGX H100)", "n_cards": 16, "tp": 2, "cp": 1, "pp": 2,
    "dp": 4, "vpp": 1, "recompute": "none (not named)", "precision": "BF16", "moe": None,
    "measured": {"step_time_s": 2.048, "tokens_per_s_per_card": 4000, "mfu": 0.4},
    "flops_definition": {"peak_tflops": 989}, "missing": [],
}  # fmt: skip


@pytest.fixture
def read(tmp_path):
    def reader(*rows, name="my.csv"):
        path = tmp_path / name
        if name.endswith("jsonl"):
            lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        else:
            lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
        path.write_text("\n".join(lines) + "\n")
        return read_runs(path)

    return reader


def test_the_shipped_rows_are_sorted_and_cite_their_sources():
    ids = [run.id for run in runs()]
    assert len(ids) == 772 and ids == sorted(set(ids))
    keys = {source.key for source in facts.sources()}
    assert {run.source for run in runs()} <= keys and all(run.place for run in runs())


def test_degrees_make_the_cards_and_batches_divide_but_where_it_is_said():
    for run in runs():
        degrees = (run.tp, run.cp, run.pp, run.dp)
        if "degrees" not in run.doubts and None not in (*degrees, run.cards):
            assert prod(degrees) == run.cards, run.id
            assert run.micro_batch is None or run.batch % (run.micro_batch * run.dp) == 0, run.id
    doubtful = Counter(run.source for run in runs() if run.doubts)
    assert doubtful == {"nemo_longseq": 8, "megascale_moe2025": 6, "bloom": 1}


def test_what_stands_twice_in_a_row_agrees():
    """TFLOP/s over the peak is the MFU that is printed, and times follow from either."""
    for run in runs():
        if run.tflops and run.mfu and run.peak_tflops and run.precision != "fp8":
            assert isclose(run.tflops / run.peak_tflops, run.mfu, rel_tol=0.02, abs_tol=0.006)
        if run.step_seconds and run.tokens_per_second and run.chip_tokens and not run.doubts:
            alone = replace(run, step_seconds=None)
            assert isclose(alone.seconds, run.step_seconds, rel_tol=0.02), run.id


def test_a_time_from_a_rate_that_the_row_defines_is_the_time_that_is_printed():
    """Where a source prints both time and TFLOP/s, the definition given for its rate joins them."""
    gaps: dict[str, list[float]] = {}
    for run in runs():
        alone = replace(run, step_seconds=None, tokens_per_second=None)
        if run.step_seconds and run.tflops and alone.seconds and not run.doubts:
            gaps.setdefault(run.source, []).append(abs(alone.seconds / run.step_seconds - 1))
    medians = {source: sorted(each)[len(each) // 2] for source, each in gaps.items()}
    exact = {source for source, gap in medians.items() if gap < 0.003}
    assert exact >= {"bloom", "megatron2020", "narayanan2021", "tpu_recipes_v6e"}


def test_flops_of_a_token_by_hand(read):
    (run,) = read(CELLS)
    attention = 2 * 1024 * 1024 + 2 * 1024 * 512
    weights = 24 * (attention + 2 * 1024 * 4096) + 51200 * 1024
    scores = 24 * 2 * 2 * 2048 * 1024  # two products of s x s a head, forward
    assert token_flops(run) == 6 * weights + 3 * scores
    assert token_flops(replace(run, causal_halved=True)) == 6 * weights + 1.5 * scores
    again = token_flops(replace(run, counts_recompute=True)) - token_flops(run)
    assert isclose(again, 2 * (weights - 51200 * 1024) + scores)
    # Narayanan et al. 2021, equation 3, of a model without grouped heads.
    plain = replace(run, kv_heads=16, counts_recompute=True)
    h, s, layers, vocab = 1024, 2048, 24, 51200
    theirs = 96 * layers * h * h * (1 + s / (6 * h) + vocab / (16 * layers * h))
    assert isclose(token_flops(plain), theirs)
    routed = replace(run, experts=8, topk=2, expert_ffn=2048, dense_layers=4, shared_ffn=1024)
    active = 4 * 4096 + 20 * (2 * 2048 + 1024)
    fewer = 6 * 2 * 1024 * (24 * 4096 - active)
    assert token_flops(routed) == token_flops(run) - fewer
    assert token_flops(replace(routed, topk=None)) is None


def test_a_time_prefers_what_is_measured_most_directly(read):
    (run,) = read(CELLS)
    assert run.seconds == 2.048
    run = replace(run, step_seconds=None)
    assert isclose(run.seconds, 64 * 2048 / 16 / 4000)
    run = replace(run, tokens_per_second=None, tflops=400.0)
    assert isclose(run.seconds, 64 * 2048 / 16 * token_flops(run) / 400e12)
    run = replace(run, tflops=None)
    assert isclose(run.seconds, 64 * 2048 / 16 * token_flops(run) / (0.4 * 989e12))
    assert replace(run, peak_tflops=None).seconds is None


def test_the_study_set_by_source_and_chip():
    sizes = Counter((run.source, run.chip) for run in runs() if studied(run))
    assert sizes == {
        ("automodel", "h100"): 1, ("bloom", "a100-80gb"): 100, ("korthikanti2022", "a100-80gb"): 15,
        ("llm_foundry", "a100-40gb"): 45, ("llm_foundry", "a100-80gb"): 36,
        ("llm_foundry", "h100"): 61, ("maxtext_a3", "h100"): 5, ("narayanan2021", "a100-80gb"): 10,
        ("simumax_b200", "b200"): 31, ("torchtitan", "h100-96gb"): 8,
        ("torchtitan_a100", "a100-80gb"): 3,
    }  # fmt: skip
    assert all(run.seconds or run.layer_seconds for run in runs() if studied(run))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"doubts": ("tokens",)}, "contradiction"),
        ({"oom": True}, "out_of_memory"),
        ({"micro_batch": None}, "micro_batch"),
        ({"virtual": None}, "virtual"),
        ({"virtual": None, "pp": 1}, None),
        ({"head_dim": 108}, "head_dim"),
        ({"recompute": "partial:minimal"}, "partial"),
        ({"source": "bloom", "core": False}, "noisy"),
        ({"step_seconds": None, "tokens_per_second": None, "mfu": None}, "time"),
    ],
)
def test_why_a_run_is_left_out(read, change, reason):
    (run,) = read(CELLS)
    why = reasons(replace(run, **change))
    assert why[:1] == [reason] * bool(reason)
    assert all(RULES[each][0] for each in why)


def test_both_forms_of_a_file_say_the_same(read):
    assert read(CELLS) == read(OBJECT, name="my.jsonl")


@pytest.mark.parametrize(
    ("cells", "field", "expected", "instead"),
    [
        ({"dp": "8"}, "cards", "tp*cp*pp*dp = 32", "16"),
        ({"batch": "60"}, "batch", "8", "60"),
        ({"mfu": "1.2"}, "mfu", "at most 1", "1.2"),
        ({"tokens_per_second": "4100"}, "tokens_per_second", "4000", "4100"),
        ({"chip": "h10"}, "chip", "a chip", "'h10'; did you mean h100"),
        ({"layers": ""}, "layers", "missing", "none"),
        ({"layers": "2.5"}, "layers", "a whole number", "2.5"),
        ({"layers": "-4"}, "layers", "above zero", "-4"),
        ({"layers": "many"}, "layers", "a number", "'many'"),
        ({"step_seconds": "nan"}, "step_seconds", "a finite number", "NaN"),
        ({"step_seconds": "0"}, "step_seconds", "above zero", "0"),
        ({"kv_heads": "5"}, "kv_heads", "a divisor of 16", "5"),
        ({"core": "maybe"}, "core", "true or false", "'maybe'"),
        ({"recompute": "some"}, "recompute", "selective", "'some'"),
        ({"fsdp": "hybrid:0"}, "fsdp", "full", "'hybrid:0'"),
        ({"fsdp": "hybrid:x"}, "fsdp", "full", "'hybrid:x'"),
        ({"zero": "4"}, "zero", "from 0 to 3", "4"),
        ({"id": ""}, "id", "text", "empty"),
        ({"step_seconds": "", "tokens_per_second": "", "mfu": ""}, "step_seconds", "MFU", "none"),
    ],
)
def test_a_broken_row_is_one_line(read, cells, field, expected, instead):
    with pytest.raises(FactError) as caught:
        read(CELLS | dict.fromkeys(cells.keys() - CELLS.keys(), ""), CELLS | {"id": "a-2"} | cells)
    line = str(caught.value)
    assert "\n" not in line and f"my.csv:3: {field}: " in line
    before, after = line.split(", found ")
    assert expected in before and instead in after


def test_a_byte_order_mark_is_no_part_of_the_first_column(read, tmp_path):
    (plain,) = read(CELLS)
    path = tmp_path / "marked.csv"
    path.write_text((tmp_path / "my.csv").read_text(), encoding="utf-8-sig")
    assert read_runs(path) == (plain,)


def test_messages_name_the_keys_of_jsonl(read):
    with pytest.raises(FactError, match=r"my.jsonl:2: n_cards: expected tp\*cp\*pp\*dp = 32"):
        read(OBJECT, OBJECT | {"id": "a-2", "dp": 8}, name="my.jsonl")
    with pytest.raises(FactError, match=r"my.jsonl:1: 'micro_bach': expected micro_batch"):
        read(OBJECT | {"micro_bach": 2}, name="my.jsonl")
    with pytest.raises(FactError, match=r"my.jsonl:2: row: expected a JSON object"):
        read(OBJECT, "{", name="my.jsonl")
    unstated = OBJECT | {"id": "a-2", "global_batch_seqs": None}
    with pytest.raises(FactError, match=r"my.jsonl:1: global_batch_seqs: expected a value"):
        read(unstated, name="my.jsonl")
    (run,) = read(unstated | {"missing": ["global_batch_seqs"]}, name="my.jsonl")
    assert run.missing == ("batch",) and reasons(run) == ["batch"]


def test_a_contradiction_that_the_file_declares_is_taken_and_left_out(read):
    check = {"tp_cp_pp_dp_product_matches_cards": False}
    (run,) = read(OBJECT | {"dp": 8, "check": check}, name="my.jsonl")
    assert run.doubts == ("degrees",) and reasons(run) == ["contradiction"]


def test_the_same_run_twice_and_columns_that_are_none(read, tmp_path):
    with pytest.raises(FactError, match=r"my.csv:3: id: expected a new one, found 'a-1' again"):
        read(CELLS, CELLS)
    with pytest.raises(FactError, match=r"my.csv:1: 'hiden': expected hidden"):
        read({**CELLS, "hiden": "2"})
    (tmp_path / "short.csv").write_text("id,source\na\n")
    with pytest.raises(FactError, match=r"short.csv:2: row: expected 2 cells"):
        read_runs(tmp_path / "short.csv")
    (tmp_path / "none.csv").write_text("id\n")
    with pytest.raises(FactError, match=r"none.csv: expected a run, found none"):
        read_runs(tmp_path / "none.csv")
    with pytest.raises(FactError, match="expected a JSONL file, found no file"):
        read_runs(tmp_path / "no.jsonl")


@pytest.mark.parametrize("value", ["x", -1, [1], {"a": 1}, True, 1e400, "1" * 500, None, [], 0])
@pytest.mark.parametrize("key", sorted(OBJECT))
def test_any_value_of_any_key_is_taken_or_refused_in_one_line(read, key, value):
    try:
        read(OBJECT | {key: value}, name="my.jsonl")
    except FactError as error:
        assert "\n" not in str(error) and "my.jsonl:1: " in str(error)


@pytest.mark.parametrize("value", ["x", -1, [1], True, 1e400, 0])
@pytest.mark.parametrize("key", ["measured", "moe", "check"])
def test_any_value_inside_is_taken_or_refused_in_one_line(read, key, value):
    keys = ("step_time_s", "tokens_per_s", "memory_gib_per_card", "layer_total_ms", "topk",
            "shared_experts", "ratio_tokens_from_step_time_vs_printed")  # fmt: skip
    for name in keys:
        try:
            read(OBJECT | {key: {name: value, "mfu": 0.4}}, name="my.jsonl")
        except FactError as error:
            assert "\n" not in str(error) and "my.jsonl:1: " in str(error)


def test_every_field_is_a_column_and_is_explained():
    header = (DATA / "runs.csv").read_text().splitlines()[0].split(",")
    form = tomllib.loads((DATA / "runs.toml").read_text())
    assert header == list(form["columns"]) == list(KINDS)
    assert {*form["keys"], *form["factors"], *form["codes"]} <= {*KINDS}


def test_the_longer_form_is_brought_to_codes_and_units(read):
    row = OBJECT | {
        "card": "A100-40GB", "recompute": "selective (op-level SAC)", "attn_kernel": "flash (v2)",
        "fsdp": "FSDP 8 in node x DP 2 over DCN", "precision": "BF16 (fp32 grad accumulation)",
        "framework": "Megatron-Core 0.8", "attention_type": "GQA of 8",
        "moe": {"experts": 8, "topk": 2, "expert_ffn": 512, "shared_experts": 2},
        "measured": {"tokens_per_s": 64000, "memory_reserved_gib": 2, "layer_total_ms": 7.5},
    }  # fmt: skip
    (run,) = read(row, name="my.jsonl")
    assert (run.chip, run.recompute, run.kernel) == ("a100-40gb", "partial:selective", "flash")
    assert (run.fsdp, run.precision, run.storage) == ("hybrid:8", "bf16", "grads-fp32")
    assert (run.framework, run.attention, run.shared_ffn) == ("megatron-core", "gqa", 1024)
    assert run.tokens_per_second == 4000 and run.reserved_bytes == 2 * 2**30
    assert run.layer_seconds == 0.0075 and run.memory_bytes == run.reserved_bytes
