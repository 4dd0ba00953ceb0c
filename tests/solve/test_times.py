"""Times of a layer against its thresholds, a chip's memory as a network, what a run takes."""

from __future__ import annotations

from fractions import Fraction

import pytest
import sympy as sp

from derive import facts
from derive.commands.value import answer
from derive.cost import stage
from derive.notation import symbols as v
from derive.notation.digits import fraction
from derive.notation.errors import DeriveError
from derive.notation.units import unit_of

MATMUL = '"In[B, D] . W[D, F] -> Out[B, F]"'
GATHER = '"A[B_X, D] -> Full[B, D]"'
V5P = "--chip tpu-v5p --model llama-3-70b"
BOUNDS = [
    (f"fsdp {{}} --pass forward {V5P}", "X=512"),
    (f"data_parallel {{}} --pass backward {V5P} --exact", "X=64"),
    (f"fsdp_tensor {{}} --pass forward {V5P} --set M_X=2", "X=256 Y=4"),
    (f"fsdp_tensor {{}} --pass backward {V5P} --overlap serial", "X=256 Y=4"),
    (f"fsdp_tensor {{}} --pass step {V5P} --overlap serial --gated", "X=256 Y=4"),
    ("fsdp {} --pass step --chip h100 --network node --model llama-3-8b", "X=8"),
    (f"weight_reads {{}} {V5P}", ""),
    (f"{MATMUL} {{}} --pass forward --network hbm --chip tpu-v5e --precision int8", "D=512 F=4096"),
    (f"mlp {{}} --pass backward --network hbm {V5P}", ""),
]


def of(question: str, asked: str, *values: str) -> Fraction:
    """The number of a question about `asked`, with values set."""
    sets = "".join(f" --set {value}" for value in values)
    return fraction(answer(f"ask {question.format(asked)}{sets}").value)


@pytest.mark.parametrize(("question", "values"), BOUNDS)
def test_at_its_threshold_computation_takes_as_long_as_communication(
    question: str, values: str
) -> None:
    given = values.split()
    bound = of(question, "B", *given)
    for times, side in ((Fraction(1), 0), (Fraction(2), 1), (Fraction(1, 2), -1)):
        at = f"B={bound * times}" if bound.denominator == 1 else f"B={float(bound * times)!r}"
        ratio = of(question, "T_math/T_comms", *given, at)
        assert (ratio > 1 + Fraction(1, 10**9)) - (ratio < 1 - Fraction(1, 10**9)) == side


def test_a_ratio_is_that_of_the_times() -> None:
    question, values = BOUNDS[3][0], [*BOUNDS[3][1].split(), "B=4194304"]
    parts = {asked: of(question, asked, *values) for asked in ("T_math", "T_comms", "T_X", "T_Y")}
    assert parts["T_comms"] == parts["T_X"] + parts["T_Y"]
    beside = question.replace("serial", "concurrent")
    assert of(beside, "T_comms", *values) == max(parts["T_X"], parts["T_Y"])
    assert of(question, "T_math/T_comms", *values) == parts["T_math"] / parts["T_comms"]
    assert of(question, "T_X/T_Y", *values) == parts["T_X"] / parts["T_Y"]


def test_an_all_gather_on_a_ring() -> None:
    """V/W with wraparound, twice that without, (n-1)/n of it exactly [SB-sharding]."""
    gather = '"A[B_X, D] -> Full[B, D]" {} --pass forward --chip tpu-v5e'
    values = ("B=2048", "D=8192", "X=4")
    time = Fraction(2 * 2048 * 8192, 90 * 10**9)
    assert of(gather, "T_comms", *values) == time
    assert of(f"{gather} --no-wrap", "T_comms", *values) == 2 * time
    assert of(f"{gather} --exact", "T_comms", *values) == time * Fraction(3, 4)


def test_a_time_of_the_one_pass_that_has_any() -> None:
    """A slice is free forward, and its gradient is gathered; a product alone sends nothing."""
    values = ("B=2048", "D=8192", "X=4")
    sliced = '"A[B, D] -> Part[B_X, D]" {} --chip tpu-v5e'
    assert of(sliced, "T_comms", *values) == Fraction(2 * 2048 * 8192, 90 * 10**9)
    question = f"{MATMUL} {{}} --pass forward --chip tpu-v5e"
    time = Fraction(2 * 2048 * 8192 * 4, 197 * 10**12)
    assert of(question, "T_math", *values[:2], "F=4") == time


def test_the_memory_is_read_and_written_once() -> None:
    """The roofline of a product: all that it reads and writes over W_hbm [SB1]."""
    B, D, F, rate, work = 64, 512, 4096, Fraction(82, 100) * 10**12, Fraction(197) * 10**12
    question = f"{MATMUL} {{}} --pass forward --network hbm --chip tpu-v5e"
    values = (f"B={B}", f"D={D}", f"F={F}")
    assert of(question, "T_hbm", *values) == 2 * (B * D + D * F + B * F) / rate
    assert of(question, "T_math", *values) == 2 * B * D * F / work
    sharded = f"fsdp {{}} --pass forward --network hbm {V5P}"
    assert of(sharded, "T_comms", "B=4096", "X=8") == of(sharded, "T_hbm", "B=4096", "X=8")


@pytest.mark.parametrize(
    ("question", "told"),
    [
        (
            f"ask fsdp T_comms {V5P} --set B=4096 --set X=8",
            'add passes="forward", passes="backward" or passes="step"',
        ),
        (f"ask fsdp T_comms --pass step {V5P} --set X=8 --best", "takes no --best"),
        (
            f"ask fsdp T_comms --pass step {V5P} --set X=8 --smt",
            "--smt plays no part in one number",
        ),
        ("ask context_ring T_comms --chip h100", "a strategy or a block, not of a limit"),
        ("ask fsdp T_comms --pass step --chip tpu-v5p", "no value for D (model width)"),
        ("ask fsdp T_Y --pass step --chip tpu-v5p", "unknown time of fsdp 'T_Y'"),
        ("ask fsdp T_Y/T_math --pass step --chip tpu-v5p", "did you mean T_X?"),
        (
            f"ask fsdp T_math/T_comms --pass step {V5P} --exact --set X=1 --set B=8",
            "T_comms is zero; ask for",
        ),
        (f"ask {GATHER} T_comms/T_math --pass forward {V5P} --set B=8", "T_math is zero; ask for"),
        (f"ask {GATHER} B --chip tpu-v5p", "multiplies nothing in a pass"),
        (f"ask {GATHER} X --overlap serial", "multiplies nothing in a pass"),
        ("value T_R --chip tpu-v5p --set N=8", "no value for P (parameters), R"),
    ],
)
def test_what_has_no_time(question: str, told: str) -> None:
    with pytest.raises(DeriveError) as error:
        answer(question)
    assert told in str(error.value)


# --- what a run takes


@pytest.mark.parametrize("symbol", stage.run_terms(), ids=str)
def test_a_term_of_a_run_has_the_unit_of_its_symbol(symbol: sp.Symbol) -> None:
    unit = unit_of(stage.run_terms()[symbol], v.unit_of_symbol)
    assert unit.dimension == v.unit_of_symbol(symbol).dimension


@pytest.mark.parametrize("name", [n for n in facts.models() if not facts.model(n).beyond_dense])
def test_the_parameters_of_the_parts_are_those_of_the_model(name: str) -> None:
    """Read off the programs of its blocks, against the count from its shape."""
    parts = dict(facts.model(name).parts)
    for symbol, of_model in {
        "P_A": parts["attention"].value,
        "P_F": parts["feed_forward"].value,
        "P_V": parts["embedding"].value + (parts["head"].value if "head" in parts else 0),
    }.items():
        assert answer(f"value {symbol} --model {name}").value == of_model


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3"])
def test_a_run_of_a_model_with_experts_takes_those_that_a_token_goes_to(name: str) -> None:
    one = facts.model(name)
    flops = answer(f"value f_R --model {name} --set R=1e12")
    assert flops.value == 6 * 10**12 * one.active_parameters.value
    assert answer(f"value P_V --model {name}").value == 2 * one.vocab * one.hidden
    with pytest.raises(DeriveError, match="no value for F"):  # there is no width of all layers
        answer(f"value P_F --model {name}")


def test_a_run() -> None:
    given = "--set P=70e9 --set R=15e12"
    flops = fraction(answer(f"value f_R {given}").value)
    assert flops == 6 * 70 * 10**9 * 15 * 10**12
    seconds = answer(f"value T_R {given} --set N=8960 --set u=0.4 --chip tpu-v5p").value
    assert fraction(seconds) == flops / (8960 * Fraction(4, 10) * 459 * 10**12)
    cache = answer(
        "value M_KV --model llama-3-70b --set T=8192 --set b_seq=2 --precision fp8"
    ).value
    assert cache == 2 * 8 * 128 * 80 * 8192 * 2


def test_a_layer_that_multiplies_nothing_takes_the_time_of_its_moves() -> None:
    sizes = "--chip tpu-v5e --set B=2048 --set D=8192"
    assert answer(f"ask {GATHER} T_math/T_comms --pass forward {sizes}").value == 0
    still = '"A[B, D] -> Same[B, D]"'
    assert answer(f"ask {still} T_comms --pass forward {sizes}").value == 0


def test_the_bytes_of_an_element_can_be_left_open() -> None:
    cache = "value M_KV --model llama-3-8b --precision any --set T=8 --set b_seq=1"
    with pytest.raises(DeriveError, match="no value for e "):
        answer(cache)
    assert answer(f"{cache} --set e=1").value == 2 * 8 * 8 * 128 * 32
