"""One plan by itself: its stages, its rates, what is printed of it, and why there is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from cases import asked, at

from derive.commands import mesh as mesh_command
from derive.commands import plan as plan_command
from derive.commands.parser import parser
from derive.cost.assumptions import CORRECTED, DEFAULT
from derive.facts import chip, model
from derive.notation import symbols as v
from derive.notation.errors import DeriveError
from derive.notation.quantity import number
from derive.plan import report
from derive.plan.axes import REASONS, degrees
from derive.plan.plan import Plan, plan_of
from derive.plan.search import search
from derive.plan.task import Task, task

LARGE = "--model llama-3-405b --chip h100 --cards 16384 --seq 8192 --batch 2048"
SMALL = "--model llama-3-8b --chip h100 --cards 8 --seq 8192 --batch 8"
RAN = f"{LARGE} --layout tp=8,cp=1,pp=16,dp=128,virtual=8,zero=1,micro_batch=1"


def run(text: str) -> tuple[dict[str, Any], str, int]:
    data, shown, code = plan_command.run(parser().parse_args(["plan", *text.split()]))
    return json.loads(json.dumps(data)), shown.replace("\u00a0", " "), code


def large(layout: str, **options: Any) -> Task:
    given = {"cards": 2**14, "seq": 2**13, "batch": 2**11, **options}
    return task(model("llama-3-405b"), chip("h100"), layout=layout, **given)


PLANS: list[Callable[[], Plan]] = [
    lambda: plan_of(large(""), degrees(tp=8, pp=16, virtual=8)),
    lambda: plan_of(large(""), degrees(tp=8, pp=16, cp=2, zero=3)),
    lambda: plan_of(large("recompute=full"), degrees(tp=8, pp=32, micro_batch=2)),
    lambda: plan_of(large("recompute=5", cards=14 * 2**10), degrees(tp=4, pp=14, zero=2, cp=2)),
    lambda: plan_of(large("schedule=zero-bubble"), degrees(tp=8, pp=8)),
    lambda: plan_of(large("", cards=8 * 35, batch=70), degrees(tp=8, pp=35)),
    lambda: plan_of(large(""), degrees(tp=8, pp=2, virtual=8)),
    lambda: plan_of(large(""), degrees(tp=8, cp=4)),
]


@pytest.mark.parametrize("made", PLANS)
def test_stages_are_all_of_the_model_and_the_fullest_is_the_plan_s(made):
    plan = made()
    stages = plan.each_stage
    assert len(stages) == plan.pp and sum(one.layers for one in stages) == 126
    assert plan.tp * sum(one.parameters for one in stages) == plan.numbers[v.P]
    assert max(one.memory_bytes for one in stages) == plan.memory_bytes
    assert max(one.layers for one in stages) - min(one.layers for one in stages) <= 1
    assert dict(stages[-1].memory) == dict(plan.stages["last"])
    if plan.pp > 1:
        assert dict(stages[0].memory) == dict(plan.stages["first"])
    if plan.pp > 2:
        assert dict(stages[1].memory) == dict(plan.stages["second"])


@pytest.mark.parametrize(("virtual", "micro_batches"), [(1, 16), (1, 4), (2, 16), (8, 16), (4, 32)])
def test_micro_batches_in_flight_are_the_warm_up_of_the_schedule_and_one(virtual, micro_batches):
    """Megatron-LM's warm-up: p - 1 - i micro-batches, twice that and (v - 1) p pieces with v."""
    plan = plan_of(large("", batch=128 * micro_batches), degrees(tp=8, pp=16, virtual=virtual))
    for place, one in enumerate(plan.each_stage):
        before = 15 - place
        pieces = before + 1 if virtual == 1 else 2 * before + 16 * (virtual - 1) + 1
        assert one.in_flight == Fraction(min(pieces, micro_batches * virtual), virtual)


def test_stages_that_are_alike_hold_less_towards_the_last():
    for under in (CORRECTED, DEFAULT):
        plan = at(asked(assumptions=under), 4, 1, 8)
        held = [one.memory["activations"] for one in plan.each_stage]
        assert len({one.layers for one in plan.each_stage}) == 1
        assert all(one > other for one, other in pairwise(held))


@pytest.mark.parametrize("made", PLANS)
def test_rates_are_of_the_step(made):
    plan = made()
    tokens = plan.task.seq * plan.task.batch
    assert plan.tokens_per_second * plan.step_seconds == tokens
    flop = plan.quantity("model_flops").value
    assert plan.chip_flops * plan.task.cards * plan.step_seconds == Fraction(
        int(flop.p), int(flop.q)
    )
    # By hand: six FLOP a parameter of the products, and half of 12 L D T for causal attention.
    products = 126 * (16384 * 16384 * 2 + 2 * 16384 * 1024 + 3 * 16384 * 53248) + 16384 * 128256
    assert flop == tokens * 6 * (products + 126 * 16384 * plan.task.seq)
    assert plan.run_seconds == 0


def test_a_run_takes_its_tokens_over_the_rate():
    data, text, _ = run(f"{RAN} --tokens 15.6T")
    (plan,) = data["plans"]
    assert plan["run_seconds"] * plan["tokens_per_second"] == pytest.approx(15.6e12)
    days = next(line for line in text.split("\n") if " days for " in line)
    assert float(days.split()[0]) == pytest.approx(plan["run_seconds"] / 86400, rel=1e-3)
    many = run(f"{SMALL} --tokens 1T --top 4")[1].split("\n")
    days = many[2][: many[1].index("run") + 3].split()[-2]  # the column is set to the right
    assert float(days.replace(",", "")) == pytest.approx(
        run(f"{SMALL} --tokens 1T")[0]["plans"][0]["run_seconds"] / 86400, rel=1e-3
    )
    with pytest.raises(DeriveError, match="--tokens: plays no part in --style notebook"):
        run(f"{RAN} --tokens 15T --style notebook")
    for bad in ("0", "-5", "1.5", "12 sequences", "x"):
        options = parser().parse_args(["plan", *RAN.split(), "--tokens=" + bad])
        with pytest.raises(DeriveError, match="--tokens"):
            plan_command.run(options)


def test_one_plan_in_text_and_as_data():
    data, text, code = run(RAN)
    assert code == 0 and data["fit"] == 1
    (plan,) = data["plans"]
    named = {
        "tp", "cp", "pp", "dp", "ep", "virtual", "micro_batch", "zero", "replicas", "mfu",
        "layers_per_stage", "recompute", "recomputed_layers", "step_seconds", "tokens_per_second",
        "memory_bytes", "memory", "stages", "parts", "schedule", "sequence_parallel",
    }  # fmt: skip
    assert named <= set(plan)
    assert plan["layers_per_stage"] == [7, *[8] * 14, 7] and plan["virtual"] == 8
    assert sum(plan["parts"].values()) == pytest.approx(plan["step_seconds"])
    assert {"overhead", "optimizer", "ep", "bubble"} <= set(plan["parts"])
    assert sum(plan["memory"].values()) == pytest.approx(plan["memory_bytes"])
    assert max(stage["memory_bytes"] for stage in plan["stages"]) == plan["memory_bytes"]
    lines = text.split("\n")
    assert sum(", the fullest" in line for line in lines) == 1
    parts = {line.split()[0] for line in lines if line.rstrip().endswith("not hidden")}
    assert parts == {"pipeline", "data"}
    assert any("MFU" in line and "causal" in line and "the model alone" in line for line in lines)
    assert data["mfu_convention"] in text


def test_what_one_plan_rests_on_is_printed_with_what_was_set():
    data, text, _ = run(f"{RAN} --set eta=0.75 --set x_dp=0.9")
    assert "set: eta = 0.75, x_dp = 0.9" in text and "note: x_dp plays no part" in text
    basis = text[text.index("rests on") :]
    assert "rests on (set): eta = 0.75" in basis and "x_dp" not in basis
    for one in ("mu = 0.9", "W_node = 450 GB/s", "W_dcn = 50 GB/s", "M_hbm = 80 GB"):
        assert one in " ".join(basis.split())
    assert {"eta", "mu", "W_node", "C", "L"} <= {one["symbol"] for one in data["inputs"]}


def test_the_first_of_a_ranking_by_itself_is_the_first_of_its_table():
    one = run(f"{SMALL} --top 1")[0]["plans"][0]
    assert one == run(f"{SMALL} --top 3")[0]["plans"][0]
    many = run(f"{SMALL} --top 0")[0]["plans"]
    assert len(many) > 10 and "stages" not in many[0]
    assert {name: x for name, x in one.items() if name != "stages"} == many[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{LARGE} --layout pp=16,virtual=3", r"126 layers on 16 .* x 3 virtual: .* 128; virtual="),
        (
            "--model llama-3-8b --chip h100 --cards 6 --seq 8192 --batch 3 "
            "--layout pp=6,tp=1,cp=1,virtual=1,micro_batch=2",
            "batch of 3 sequences does not split .* micro-batches of 2; a batch of 2 or 4 does",
        ),
        (
            "--model gemma-2-9b --chip h100 --cards 6 --seq 8192 --batch 3 "
            "--layout pp=6,tp=1,cp=1,virtual=7,micro_batch=1",
            "3 micro-batches on 6 interleaved stages; a batch of 6 sequences does",
        ),
        (f"{SMALL} --layout tp=8,pp=2", "makes 16, and does not divide 8 cards; pp=1 does"),
        (f"{SMALL} --layout tp=2,cp=1,pp=1,dp=3", "makes 6, not the 8 given; dp=4 does"),
        (f"{SMALL} --layout zero=4", "ZeRO has stages 0 to 3.*; 3 does"),
        (f"{SMALL} --layout zero=3,replicas=3,dp=8", "replicas=3 of dp=8 .*; replicas=2 does"),
        (f"{SMALL} --layout zero=1,replicas=2,dp=8", "at zero=1; replicas=1 does"),
        (f"{SMALL} --layout tp=8,cp=1,pp=1,zero=3", "zero=3 on cp x dp = 1; zero=1 does"),
        (f"{SMALL} --layout tp=8,pp=1,virtual=2", "virtual=2 on pp=1; virtual=1 does"),
        (f"{SMALL} --layout tpp=8", "unknown part of a layout 'tpp'; did you mean tp"),
        (f"{SMALL} --layout tp=8,tp=8", "tp is given twice"),
        (f"{SMALL} --layout micro_batch=1,b_seq=1", "b_seq is given twice"),
        (f"{SMALL} --layout tp=8 --set tp=8", "by the layout and as a value"),
        (f"{SMALL} --layout recompute=3 --set L_g=4", "by the layout and L_g as a value"),
        (f"{SMALL} --layout kernels=fused,recompute=selective", "kernels is given, and by recomp"),
        (f"{SMALL} --layout recompute=40", "at most the 32 layers .*, found 40"),
        (f"{SMALL} --layout recompute=9,pp=4", "at most the 8 layers of a stage .*, found 9"),
        (
            f"{SMALL} --layout layers=8-8-8-8,recompute=9",
            "at most the 8 layers of a stage .*found 9",
        ),
        (f"{SMALL} --layout layers=8-8-8-9", "expected the 32 of the model, found 33"),
        (f"{SMALL} --layout pp=2,layers=4x8", "pp = 2: layers are given for 4; pp=4 does"),
        (f"{SMALL} --layout layers=4x8 --set pp=4", "pp is given by the layout and as a value"),
        (f"{SMALL} --layout layers=4x8,virtual=2", "a list of layers is of whole stages"),
        (f"{SMALL} --layout layers=4x8 --set virtual=2", "a list of layers is of whole stages"),
        (f"{SMALL} --layout layers=16-16,layers=16-16", "layers is given twice"),
        (f"{SMALL} --layout layers=0-16-16", "of each stage from 1, such as .*, found '0-16-16'"),
        (f"{SMALL} --layout layers=4x", "such as 7-14x8-7, found '4x'"),
        (f"{SMALL} --layout layers=4x8 --assume corrected", "given stages takes uneven_stages"),
        (f"{SMALL} --layout stages=given", "unknown part of a layout 'stages'"),
        (f"{SMALL} --layout schedule=zero-bubble,virtual=2,pp=4", "no virtual stages .*1f1b has"),
        (f"{SMALL} --assume corrected --layout virtual=2", "uneven_stages"),
        (f"{LARGE} --assume corrected --layout pp=16", "126 layers; .* 7, 14 x 8, 7 do.*; 14 does"),
        (f"{SMALL.replace('8192', '8194')} --set cp=2", "zigzag .*8194 tokens .* 8192 or 8196"),
    ],
)
def test_a_layout_that_cannot_be_is_refused_in_one_line_with_the_nearest(text, told):
    with pytest.raises(DeriveError, match=told) as caught:
        run(text)
    assert "\n" not in str(caught.value)


def test_what_a_refusal_says_does_does():
    assert run(f"{LARGE} --layout pp=16,virtual=4 --top 2")[2] == 0
    assert run(f"{SMALL} --layout zero=3,replicas=2,dp=8 --top 2")[2] == 0


def test_a_stage_has_whole_layers():
    with pytest.raises(DeriveError, match="pp = 16: the layers do not split"):
        plan_of(asked("llama-3-405b", 1024, assumptions=CORRECTED), degrees(tp=8, pp=16))


NOTHING = "--model llama-3-405b --chip h100 --cards 8 --seq 8192 --batch 8"


@pytest.mark.parametrize(
    ("text", "cause", "change"),
    [
        (f"{LARGE} --assume corrected", "layers", "uneven_stages"),
        (f"{LARGE} --assume notebook", "layers", "uneven_stages"),
        (NOTHING, "memory", "128 cards"),
        (f"{NOTHING} --layout tp=1,cp=1,recompute=none,zero=0", "memory", None),
        (f"{SMALL} --layout tp=1,cp=1,pp=1,recompute=none,zero=1", "memory", "without zero=1"),
        (f"{SMALL} --layout zero=3,replicas=3", "replicas", "without replicas=3"),
        (f"{LARGE.replace('2048', '384')} --layout tp=8,pp=16,virtual=8,dp=128", "interleaved",
         "without dp=128"),
    ],
)  # fmt: skip
def test_the_true_reason_stands_first_and_what_would_fit(text, cause, change):
    data, shown, code = run(text)
    assert code == 1 and data["cause"] == cause and data["rejected"]
    assert shown.split("\n")[1].startswith(f"nothing fits: {REASONS[cause]}")
    if change is None:
        assert data["instead"] is None
        return
    assert data["instead"]["change"] == change and f"  fits: {change}: " in shown
    budget = 0.9 * 80e9
    assert 0 < data["instead"]["memory_bytes"] <= budget


def test_what_is_told_to_fit_fits_when_typed():
    told = run(f"{LARGE} --assume corrected")[0]["instead"]
    again = run(f"{LARGE} --assume corrected+uneven_stages --top 1")[0]["plans"][0]
    assert {name: again[name] for name in told if name != "change"} == {
        name: x for name, x in told.items() if name != "change"
    }
    told = run(NOTHING)[0]["instead"]
    again = run(f"{NOTHING.replace('--cards 8', '--cards 128')} --top 1")[0]["plans"][0]
    assert again["step_seconds"] == told["step_seconds"]
    assert run(f"{NOTHING.replace('--cards 8', '--cards 64')} --top 1")[2] == 1


@pytest.mark.parametrize(
    ("recompute", "told"),
    [
        ("none", "with nothing recomputed"),
        ("3", "with 3 layers of a stage recomputed"),
        ("full", "with every layer recomputed"),
        ("least", "with every layer recomputed"),
    ],
)
def test_what_is_run_again_is_said_as_it_was_asked(recompute, told):
    text = run(f"{NOTHING} --layout recompute={recompute}")[1]
    assert f"does not fit in memory {told}" in text
    assert ("every layer" in text) == ("every layer" in told)


def test_plans_that_are_asked_for_are_told_of_where_nothing_fits():
    data, text, code = run(f"{NOTHING} --also tp=8 --also tp=3 --why 1 tp=8,cp=2")
    assert code == 1
    lines = text.split("\n")[-4:]
    assert lines == [line.replace("\u00a0", " ") for line in data["unranked"]]
    assert lines[0].startswith("--also: tp=8 cp=1 pp=1 dp=1 is rejected: it needs ")
    assert lines[1].startswith("--also: tp=3 cp=1 pp=1 is rejected: the heads do not split")
    assert lines[2] == "--why: nothing fits, so that no plan has rank 1"
    assert "cp=2" in lines[3] and "the degrees do not divide the cards" in lines[3]


def test_a_plan_besides_has_numbers():
    data, text, _ = run(f"{SMALL} --also tp=8")
    (other,) = data["also"]
    line = text.replace("\u00a0", " ").split("\n")[-1]
    assert line.startswith(f"rank {other['rank']}: tp=8 cp=1 pp=1 dp=1")
    assert f"MFU {100 * other['mfu']:.1f}%" in line and "GiB" in line and "a step" in line


def test_expert_tensor_groups_are_tensor_groups_unless_they_are_given():
    """As Megatron-LM has it: ranks 0 and 1 share a tensor group, 0 and 2 a group of experts."""
    typed = "mesh --sizes tp=2,cp=1,dp=4,pp=1 --order megatron --cards-per-node 8 --json --experts"

    def groups(experts: str) -> Any:
        options = parser().parse_args([*typed.split(), experts])
        return mesh_command.run(options)[0]["experts"]["groups"]

    assert groups("ep=2")["ep"] == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert groups("ep=2")["etp"] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert groups("etp=1,ep=2")["ep"] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    with pytest.raises(DeriveError, match="etp is tp unless it is given, as etp=1"):
        groups("ep=8")


def test_a_small_model_does_not_reach_its_share_of_the_peak_at_any_batch():
    """Tiles that a small result does not fill cost as much as full ones."""
    shape = {"D": 768, "F": 3072, "K": 12, "G": 1, "H": 64, "L": 12, "V": 50304}
    under = task(
        model("llama-3-8b"), chip("h100"), cards=8, seq=1024, batch=512, values=shape
    )  # fmt: skip
    batches = (1, 2, 4, 8, 16)
    reached = [plan_of(under, degrees(micro_batch=b)).mfu for b in batches]
    assert all(one < other for one, other in pairwise(reached))
    assert reached[0] < Fraction(1, 5) and reached[-1] < Fraction(1, 2)
    best = search(under, top=1).plan(1)
    assert best.micro_batch == 16 and best.mfu >= reached[-1]


def test_a_peak_that_is_set_is_that_of_attention_too():
    half, plain = run(f"{RAN} --set C=494.7e12")[0], run(RAN)[0]
    inputs = {one["symbol"]: one["value"] for one in half["inputs"]}
    assert inputs["C"] == inputs["C_A"] == 494.7e12
    assert half["plans"][0]["mfu"] > plain["plans"][0]["mfu"]
    apart = {
        one["symbol"]: one["value"]
        for one in run(f"{RAN} --set C=9e14 --set C_A=8e14")[0]["inputs"]
    }
    assert (apart["C"], apart["C_A"]) == (9e14, 8e14)


def test_what_a_kind_of_memory_and_a_part_of_the_step_are_both_called() -> None:
    """The optimizer takes time, and memory: each is asked for by its own name."""
    asked = task(model("llama-3-8b"), chip("h100"), cards=8, seq=8192, batch=64)
    plan = search(asked, top=1).plan(1)
    assert plan["optimizer"].value == plan.parts["optimizer"]
    assert plan["memory.optimizer"].value == plan.memory["optimizer"]
    assert plan["weights"].value == plan["memory.weights"].value == plan.memory["weights"]


def test_a_latent_of_keys_and_values_alone_is_refused() -> None:
    with pytest.raises(DeriveError, match=r"^deepseek-v2-lite: .* queries do not is not modelled$"):
        task(model("deepseek-v2-lite"), chip("h100"), cards=8, seq=4096, batch=64)


@pytest.mark.parametrize(("values", "noted"), [({}, True), ({"x_ep": "1/2"}, False)])
def test_how_rows_go_to_experts_is_told_where_nobody_says(values: dict, noted: bool) -> None:
    given = {v.find(name): number(Fraction(x)) for name, x in values.items()}
    asked = task(model("mixtral-8x7b"), chip("h100"), cards=64, seq=4096, batch=256, values=given)
    assert any("rows go to each expert" in note for note in report.notes(asked)) == noted


def test_a_table_says_how_states_are_split_where_they_can_be() -> None:
    asked = task(model("llama-3-8b"), chip("h100"), cards=8, seq=8192, batch=64)
    ranking = search(asked, top=3)
    head, *rows = (line.split() for line in report.table(ranking.plans(3)))
    place = head.index("zero")
    assert [int(row[place]) for row in rows] == [plan.zero for plan in ranking.plans(3)]
