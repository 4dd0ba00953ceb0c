"""Files of a user's own: what is accepted, and what each mistake is told."""

import pytest
import sympy as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from derive import facts
from derive.notation.errors import DeriveError, FactError, UnknownName
from derive.notation.symbols import C, P

SOURCE = """\
[sources.Lab]
title = "Measurements of our own"
publisher = "the laboratory"
kind = "own"
dated = "2026-01"
read = 2026-01-31
"""
CHIP = """\
[chips.my-chip]
title = "My chip"
aliases = ["mine"]

[chips.my-chip.facts.bf16]
value = 989.4e12
unit = "FLOP/second"
basis = "dense peak per chip"
source = "Lab"
where = "sheet 1"
status = "published"

[[chips.my-chip.facts.scaleup]]
value = 450_000_000_000
unit = "byte/second"
basis = "one-way per chip, through the switches of a node"
source = "Lab"
where = "sheet 2"
status = "derived"
formula = "18 * 25e9"
read = 2026-02-01
"""
MODEL = """\
[models.my-model]
title = "My model"

[models.my-model.shape]
layers = 2
hidden = 8
heads = 4
kv_heads = 2
head_dim = 3
ffn = 16
vocab = 10
norms_per_layer = 2
gated = false
tied_embeddings = true
final_norm = false
source = "Lab"
where = "sheet 3"
status = "assumed"
"""
GOOD = SOURCE + CHIP + "\n" + MODEL


def test_a_file_adds_chips_and_models(write):
    path = write(GOOD)
    chip = facts.chip("mine", files=(path,))
    assert chip.bindings()[C].value == sp.Rational(9894, 10) * 10**12
    assert chip.quantity("scaleup").value == 450 * 10**9
    assert str(chip.reading("bf16").read) == "2026-01-31"
    assert str(chip.reading("scaleup").read) == "2026-02-01"
    # 10*8 + 2*(2*8*4*3 + 2*8*2*3) + 2*2*8*16 + 2*2*8
    assert facts.model("my-model", files=[path]).bindings()[P].value == 80 + 576 + 512 + 32


def test_a_file_changes_nothing_but_its_own_catalogue(write):
    catalogue = facts.load_file(write(GOOD))
    assert facts.chips(catalogue) == (*facts.chips(), "my-chip")
    assert facts.chip("my-chip", catalogue=catalogue).profile == "scaling-book"
    assert facts.chip("v5p", catalogue=catalogue) == facts.chip("v5p")
    assert facts.source("Lab", catalogue).kind == "own"
    with pytest.raises(UnknownName, match="unknown chip 'my-chip'"):
        facts.chip("my-chip")


def test_files_add_up(write):
    second = CHIP.replace("my-chip", "other-chip").replace('"mine"', '"other"')
    paths = write(GOOD), write(second, "second.toml")
    assert facts.chip("other", files=paths).name == "other-chip"


def test_decimals_are_exact(write):
    path = write(GOOD.replace("989.4e12", "0.1"))
    assert facts.chip("mine", files=(path,)).bindings()[C].value == sp.Rational(1, 10)


def test_a_file_may_extend_a_profile_or_start_one_like_another(write):
    path = write(
        '[profiles.vendor.picks]\n"tpu-v5p.memory" = "D-v5p#usable"\n'
        '[profiles.ours]\nlike = "scaling-book"\norder = ["J-tpuinfo"]\n'
    )
    assert facts.chip("v5p", profile="vendor", files=(path,)).quantity("memory").value == 95 * 2**30
    assert facts.chip("v5p", profile="vendor").quantity("memory").value == 96 * 2**30
    ours = facts.chip("v5p", profile="ours", files=(path,))
    assert ours.quantity("memory").value == 103 * 10**9
    assert ours.quantity("ici_axis").value == 18 * 10**10


TWO = """\
[chips.my-chip]
title = "My chip"
[chips.my-chip.facts]
memory = [
  { value = 1e9, unit = "byte", basis = "per chip", source = "Lab", where = "a", status = "published" },
  { value = 2e9, unit = "byte", basis = "per chip", source = "Lab", part = "b", where = "b", status = "published" },
]
"""  # noqa: E501
AMBIGUOUS = SOURCE + TWO.replace('source = "Lab", where', 'source = "Lab", part = "a", where')


def test_ambiguity_is_an_error_until_it_is_resolved(write):
    with pytest.raises(FactError) as caught:
        facts.load_file(write(AMBIGUOUS))
    said = str(caught.value)
    assert "my.toml: [chips.my-chip.facts] memory: expected one reading, found Lab#a, Lab#b" in said
    assert "profile scaling-book prefers none" in said
    title = 'title = "My chip"\n'
    path = write(AMBIGUOUS.replace(title, title + 'prefer = ["Lab#b", "Lab#a"]\n'))
    assert facts.chip("my-chip", files=(path,)).quantity("memory").value == 2 * 10**9


VALUE = "value = 989.4e12"
UNIT = 'unit = "FLOP/second"'
BF16 = "[chips.my-chip.facts.bf16]"
SCALEUP = r"[chips.my-chip.facts.scaleup]"
SHAPE = "[models.my-model.shape]"

# what is replaced, by what, and what the message must name beside the file: table, key, and so on
BAD = [
    # keys
    (VALUE, "vlaue = 1", [BF16, "'vlaue'", "expected value"]),
    (VALUE, "", [BF16, "value: expected a value, found none"]),
    (UNIT, "", [BF16, "unit: expected a value, found none"]),
    ('source = "Lab"\nwhere = "sheet 1"', "", [BF16, "source: expected a source key, found none"]),
    ('where = "sheet 1"', "", [BF16, "where: expected a value"]),
    ('basis = "dense peak per chip"', "", [BF16, "basis: expected a value"]),
    ("[sources.Lab]", "[source.Lab]", ["'source'", "expected sources"]),
    ("publisher =", "publsher =", ["[sources.Lab]", "'publsher'", "expected publisher"]),
    ("facts.bf16]", "facts.bf_16]", ["[chips.my-chip.facts]", "'bf_16'", "expected bf16"]),
    ("facts.bf16]", "facts.zzzzzz]", ["[chips.my-chip.facts]", "'zzzzzz'", "one of bf16"]),
    ("layers = 2", "layer = 2", [SHAPE, "'layer'", "expected layers"]),
    ("gated = false", "", [SHAPE, "gated: expected a value, found none"]),
    ("final_norm = false", "final_norm = 0", [SHAPE, "final_norm: expected true or false"]),
    ("[chips.my-chip]", "[chips.My_Chip]", ["[chips]", "'My_Chip'", "lower-case"]),
    ("[sources.Lab]", '[sources."L b"]', ["[sources]", "'L b'", "letters, digits and dashes"]),
    ('kind = "own"', 'kind = "vendr"', ["[sources.Lab]", "one of vendor, book", "mean vendor"]),
    ("read = 2026-01-31", 'read = "2026-01-31"', ["[sources.Lab]", "read: expected a date"]),
    ("read = 2026-01-31", "read = 2026-01-31T10:00:00", ["[sources.Lab]", "read: expected a date"]),
    ("read = 2026-01-31", "", [BF16, "read: expected the day it was read"]),
    ('title = "My chip"', 'title = ""', ["[chips.my-chip]", "title: expected text"]),
    ('title = "My chip"', "title = 7", ["[chips.my-chip]", "title: expected text, found 7"]),
    ('title = "My chip"', 'title = "a\\nb"', ["[chips.my-chip]", "title: expected one line"]),
    ('aliases = ["mine"]', 'aliases = "mine"', ["[chips.my-chip]", "aliases: expected an array"]),
    ('["mine"]', '["mine", "mine"]', ["[chips.my-chip]", "aliases: expected each text once"]),
    ('["mine"]', '["v5p"]', ["[chips]", "'v5p'", "taken"]),
    ('["mine"]', '["my-chip"]', ["[chips]", "'my-chip'", "taken"]),
    ("chips.my-chip", "chips.tpu-v5p", ["[chips]", "'tpu-v5p'", "taken"]),
    ("models.my-model", "models.llama3-70b", ["[models]", "'llama3-70b'", "taken"]),
    ("[sources.Lab]", "[sources.SB5]", ["[sources]", "'SB5'", "taken"]),
    # units, bases, sources, statuses
    (UNIT, 'unit = "byte/second"', [BF16, 'unit: expected "FLOP/second"', "'byte/second'"]),
    (UNIT, 'unit = "TFLOP/s"', [BF16, 'unit: expected "FLOP/second"', "'TFLOP/s'"]),
    (UNIT, "unit = 1", [BF16, 'unit: expected "FLOP/second"', "found 1"]),
    ("one-way per chip", "bidirectional per chip", [SCALEUP, "basis", "one-way per chip"]),
    ('source = "Lab"\nwhere = "sheet 1"', 'source = "Lap"\nwhere = "x"', [BF16, "source", "Lab"]),
    ('status = "published"', 'status = "publishd"', [BF16, "status: expected", "mean published"]),
    ('status = "published"', 'status = "given"', [BF16, "status: expected", "'given'"]),
    ('status = "published"', 'status = "derived"', [BF16, "formula: expected the formula"]),
    ('status = "derived"', 'status = "assumed"', [SCALEUP, 'status: expected "derived"']),
    ('status = "assumed"', 'status = "guessed"', [SHAPE, "status: expected"]),
    # numbers
    (VALUE, 'value = "989.4e12"', [BF16, "value: expected a number, found the text '989.4e12'"]),
    (VALUE, "value = true", [BF16, "value: expected a number, found true"]),
    (VALUE, "value = [1]", [BF16, "value: expected a number, found an array"]),
    (VALUE, "value = {a = 1}", [BF16, "value: expected a number, found a table"]),
    (VALUE, "value = -1", [BF16, "value: expected a number above zero, found -1"]),
    (VALUE, "value = 0.0", [BF16, "value: expected a number above zero, found 0.0"]),
    (VALUE, "value = nan", [BF16, "value: expected a finite number, found NaN"]),
    (VALUE, "value = inf", [BF16, "value: expected a finite number, found Infinity"]),
    (VALUE, "value = -inf", [BF16, "value: expected a finite number, found -Infinity"]),
    (VALUE, "value = 1e30", [BF16, "value: expected a number from 1e-30 to 1e30"]),
    (VALUE, "value = 1e999999999", [BF16, "value: expected a number from 1e-30 to 1e30"]),
    (VALUE, "value = 1e-999999999", [BF16, "value: expected a number from 1e-30 to 1e30"]),
    (VALUE, "value = 0x" + "f" * 9000, [BF16, "value: expected", "36000 bits"]),
    (VALUE, "value = 1." + "3" * 99, [BF16, "value: expected a number of at most 60 digits"]),
    ("layers = 2", "layers = 2.5", [SHAPE, "layers: expected a whole number, found 2.5"]),
    ("layers = 2", "layers = 0", [SHAPE, "layers: expected a number above zero"]),
    ("layers = 2", 'layers = "2"', [SHAPE, "layers: expected a number, found the text '2'"]),
    ("kv_heads = 2", "kv_heads = 3", [SHAPE, "heads: expected a multiple of kv_heads (3)"]),
    # not a reading
    ("[[chips.my-chip.facts.scaleup]]", "[chips.my-chip.facts.memory.x]", ["facts.memory]", "'x'"]),
    (CHIP, "[chips.my-chip]\ntitle='t'\nfacts.memory = 96e9", ["facts] memory", "its source"]),
    (CHIP, "[chips.my-chip]\ntitle='t'\nfacts.memory = [96e9]", ["facts] memory", "its source"]),
    (CHIP, "[chips.my-chip]\ntitle='t'\nfacts.memory = []", ["facts] memory", "at least one"]),
    (CHIP, "[chips.my-chip]\ntitle='t'\nfacts = {}", ["[chips.my-chip", "at least one fact"]),
    (CHIP, "[chips.my-chip]\ntitle='t'", ["[chips.my-chip] facts: expected a value"]),
    (CHIP, "[chips]\nmy-chip = 3", ["[chips] my-chip: expected a table, found 3"]),
    (CHIP, TWO.replace('part = "b", ', ""), ["facts] memory[2].source", "'Lab' again"]),
    (CHIP, "a." * 20_000 + "a = 1", ["expected a key of at most 100 parts"]),
    # profiles
    (CHIP, '[profiles.vendor]\norder = ["SB77"]', ["[profiles.vendor] order[1]", "'SB77'"]),
    (CHIP, '[profiles.vendor.picks]\n"v5.memory" = "SB2"', ["[profiles.vendor.picks]", "'v5'"]),
    (CHIP, '[profiles.vendor.picks]\n"tpu-v5p.memori" = "SB2"', ["vendor.picks]", "memory"]),
    (CHIP, '[profiles.vendor.picks]\n"tpu-v5p.memory" = "SB3"', ["vendor.picks]", "SB2"]),
    (CHIP, '[profiles.x]\nlike = "vendr"', ["like: expected one of", "mean vendor"]),
    (CHIP, "[profiles.x]\norder = []", ['[profiles.x] "tpu-v4.bf16"', "found D-v4, SB2"]),
]


@pytest.mark.parametrize(("old", "new", "said"), BAD)
def test_a_mistake_names_file_table_and_key(write, old, new, said):
    assert old in GOOD
    path = write(GOOD.replace(old, new))
    with pytest.raises(FactError) as caught:
        facts.load_file(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:")
    for part in said:
        assert part in message
    assert "expected" in message and "found" in message
    assert len(message) < 600 and "\n" not in message


SHAPED = GOOD + (
    '[chips.my-chip.facts.pod_shape]\nvalue = %s\nunit = "chip"\nbasis = "per pod"\n'
    'source = "Lab"\nwhere = "sheet 4"\nstatus = "published"\n'
)


def test_a_shape_is_read(write):
    assert facts.chip("mine", files=(write(SHAPED % "[4, 8]"),)).shape() == (4, 8)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("64", "value: expected an array of one to six whole numbers, found 64"),
        ("[]", "value: expected an array of one to six"),
        ("[1, 1, 1, 1, 1, 1, 1]", "found an array of 7"),
        ("[4, -4]", "value[2]: expected a number above zero, found -4"),
        ('[4, "4"]', "value[2]: expected a number, found the text '4'"),
        ("[4, 4.5]", "value[2]: expected a whole number, found 4.5"),
    ],
)
def test_a_bad_shape(write, value, said):
    with pytest.raises(FactError) as caught:
        facts.load_file(write(SHAPED % value))
    assert "[chips.my-chip.facts.pod_shape]" in str(caught.value)
    assert said in str(caught.value)


HOSTILE = "__import__('pathlib').Path('{0}').touch()"


def test_text_is_never_executed(write, tmp_path, monkeypatch):
    monkeypatch.setattr("sympy.parsing.sympy_parser.parse_expr", lambda *_, **__: 1 / 0)
    mark = tmp_path / "mark"
    code = HOSTILE.format(mark)
    for old in ('"dense peak per chip"', '"sheet 1"', '"My model"'):
        facts.load_file(write(GOOD.replace(old, f'"{code} per chip"')))
    with pytest.raises(FactError, match="formula"):
        facts.load_file(write(GOOD.replace('"18 * 25e9"', f'"{code}"')))
    for old in (VALUE, "layers = 2"):
        name = old.partition(" ")[0]
        with pytest.raises(FactError, match=f"{name}: expected a number, found the text"):
            facts.load_file(write(GOOD.replace(old, f'{name} = "{code}"')))
    with pytest.raises(FactError):
        facts.load_file(write(GOOD.replace("my-chip", f'"{code}"')))
    with pytest.raises(UnknownName):
        facts.chip(code)
    assert not mark.exists()


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 40), st.text(max_size=8))
def test_any_slip_of_the_pen_loads_or_is_told(write, at, cut, put):
    content = GOOD[:at] + put + GOOD[at + cut :]
    path = write(content.encode("utf-8", "surrogatepass"))
    try:
        facts.load_file(path)
    except DeriveError as error:
        assert isinstance(error, FactError)
        assert str(error).startswith(f"{path}:")


def test_dots_that_are_no_key_are_read(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text(f"{SOURCE}\n# {'.' * 200} {'1.5, ' * 200}\n{CHIP}")
    assert facts.load_file(path).chips


EXPERTS = "experts = 8\ntop_k = 2\nexpert_ffn = 4\nexpert_layers = 1\n"
LATENT = (
    "kv_lora_rank = 5\nqk_nope_head_dim = 3\nqk_rope_head_dim = 2\nv_head_dim = 3\n"
)  # fmt: skip


def shaped(*changes):
    """A file of a model with experts and a latent, each change made to its text."""
    content = (MODEL + EXPERTS + LATENT).replace("head_dim = 3\n", "", 1)
    for old, new in changes:
        assert old in content
        content = content.replace(old, new, 1)
    return SOURCE + content


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([("top_k = 2\n", "")], "top_k: expected a value, found none"),
        ([("top_k = 2", "top_k = 9")], r"top_k: expected at most experts \(8\), found 9"),
        ([("expert_layers = 1", "expert_layers = 3")], r"expert_layers: .*at most layers \(2\)"),
        ([("expert_layers = 1", "expert_layers = 2")], "'ffn': .*found an unknown key"),
        ([("ffn = 16\n", "")], "ffn: expected a value, found none"),
        ([("kv_heads", "head_dim = 3\nkv_heads")], "'head_dim': .*found an unknown key"),
        ([("v_head_dim = 3\n", "")], "v_head_dim: expected a value, found none"),
        ([(EXPERTS, ""), (LATENT, "")], " head_dim: expected a value, found none"),
        ([(EXPERTS, "shared_experts = 1\n")], "experts: expected a value, found none"),
        ([(EXPERTS, ""), (LATENT, "q_lora_rank = 1\n")], "kv_lora_rank: expected a value"),
        ([("heads = 4", "qk_norm = true\nheads = 4")], "'qk_norm': .*found an unknown key"),
        ([("top_k", "topk")], "'topk': expected top_k"),
        (
            [("v_head_dim = 3", "output_bias = 1\nv_head_dim = 3")],
            "output_bias: expected true or false, found 1",
        ),
        (
            [("v_head_dim = 3", 'assumed = ["vocabs"]\nv_head_dim = 3')],
            "assumed: .*did you mean vocab",
        ),
        (
            [("v_head_dim = 3", "shared_experts = 0\nv_head_dim = 3")],
            "shared_experts: expected a number above zero",
        ),
    ],
)
def test_a_shape_that_does_not_hold_is_refused_by_name(write, changes, told):
    with pytest.raises(FactError, match=told) as error:
        facts.load_file(write(shaped(*changes)))
    assert "\n" not in str(error.value)


def test_a_shape_with_experts_and_a_latent_is_counted(write):
    path = write(
        shaped(
            ('"assumed"', '"published"'), ("v_head_dim = 3", 'assumed = ["vocab"]\nv_head_dim = 3')
        )
    )
    model = facts.model("my-model", files=[path])
    # heads of 3 + 2 and 3, one dense layer and one of 8 experts and their router
    attention = 8 * 4 * 5 + 8 * (5 + 2) + 5 * 4 * (3 + 3) + 4 * 3 * 8
    norms = 2 * (2 * 8 + 5)
    expected = 80 + 2 * attention + 2 * 8 * 16 + 8 * 2 * 8 * 4 + 8 * 8 + norms
    assert model.parameters.value == expected
    assert model.active_parameters.value == expected - 6 * 2 * 8 * 4
    assert (model["vocab"].status, model["layers"].status) == ("assumed", "published")
