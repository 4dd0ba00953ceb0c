"""What a refusal advises works: followed by machine, at most three times, it ends in an answer."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import derive
from derive.commands.repl import Console

ROOT = Path(__file__).parents[2]
MOST = 3
MLP = "In[B, D] . W_in[D, F] . W_out[F, D] -> Out[B, D]"
HSDP = "'In[B_XZ, D_Y] . W_in[D_XZ, F_Y] . W_out[F_Y, D_XZ] -> Out[B_XZ, D_Y]'"
JOB = {"model": "llama-3-8b", "chip": "h100", "cards": "8", "seq": "8192", "batch": "8"}
TYPED = " ".join(f"--{name} {value}" for name, value in JOB.items())
SLICE = "--chip tpu-v5p --model llama-3-70b --set B=4194304"
# A value of a symbol that is asked for without an example.
VALUES = {"B": "4194304", "C": "459e12", "W": "180e9", "W_node": "450e9", "W_dcn": "25e9"}

Words = list[str]
Follow = Callable[[re.Match[str], Words], Words]


def set_to(words: Words, name: str, value: str) -> Words:
    """The words with `--set NAME=VALUE`, in place of another where there is one."""
    words = unset(words, name) if any(word.startswith(f"{name}=") for word in words) else words
    return [*words, "--set", f"{name}={VALUES.get(name, '2') if value == '...' else value}"]


def unset(words: Words, name: str) -> Words:
    """The words without the last `--set NAME=...`."""
    place = max(i for i, word in enumerate(words) if word.startswith(f"{name}="))
    return [*words[: place - 1], *words[place + 1 :]]


def option(words: Words, name: str, value: str | None) -> Words:
    """The words with an option, or without it (None)."""
    if name in words:
        place = words.index(name)
        after = words[place + 1 :]
        words = [*words[:place], *(after[1:] if after and after[0][:2] != "--" else after)]
    return words if value is None else [*words, name, value]


def replaced(words: Words, old: str, new: str) -> Words:
    """The words with a text that stands in one of them, not within a word, replaced."""
    whole = re.compile(rf"(?<!\w){re.escape(old)}(?![\w-])")
    assert any(whole.search(word) for word in words), (old, words)
    return [whole.sub(lambda _: new, word) for word in words]


def asked(words: Words, question: str) -> Words:
    return [*words[:2], question, *words[3:]]


def every_set(found: re.Match[str], words: Words) -> Words:
    for name, value in re.findall(r"--set (\w+)=([^\s,;]+)", found[0]):
        words = set_to(words, name, value)
    return words


# What is advised and what is done then: the first that is found is followed.
ADVICE: list[tuple[str, Follow]] = [
    (r"'([^']+)'(?: in '.*')?; did you mean ([^ ?]+)", lambda m, w: replaced(w, m[1], m[2])),
    (r"(\w+) is used .*; did you mean ([^ ?]+)", lambda m, w: replaced(w, m[1], m[2])),
    (r"'([^']+)'; (?:known:|it has) ([^ ,]+)", lambda m, w: replaced(w, m[1], m[2])),
    (r"leave out --set (\w+)", lambda m, w: unset(w, m[1])),
    (r"leave out (--\w+)", lambda m, w: option(w, m[1], None)),
    (r"leave ([A-Z]\w*) out", lambda m, w: unset(w, m[1])),
    (r"--set (\w+) is given .*; leave one out", lambda m, w: unset(w, m[1])),
    (r"--set (\w+): .*; leave it out", lambda m, w: unset(w, m[1])),
    (r"(--\w+)\b.*; (?:leave it out|.*, leave one out)", lambda m, w: option(w, m[1], None)),
    (r"use (--\w+) any to set", lambda m, w: option(w, m[1], "any")),
    (r"--set (\w+): unknown .*; use (--\w+)", lambda m, w: option(
        unset(w, m[1]), m[2], next(x for x in w if x.startswith(f"{m[1]}="))[len(m[1]) + 1 :])),
    (r"pad it, to (\d+) at least", lambda m, w: option(w, "--seq", m[1])),
    (r"(--set \w+=[^\s,;]+ ?)+$", every_set),
    (r"^derive: (\w+) is .* set (\w+), ", lambda m, w: set_to(unset(w, m[1]), m[2], "...")),
    (r"(--network) (\S+)(?: or \S+)? (?:works|takes any)", lambda m, w: option(w, m[1], m[2])),
    (r"known: (--chip) (\S+)", lambda m, w: option(w, m[1], m[2])),
    (r"expected --(\w+) as well", lambda m, w: option(w, f"--{m[1]}", JOB[m[1]])),
    (r"required: --(\w+)", lambda m, w: option(w, f"--{m[1]}", JOB[m[1]])),
    (r"(\w+) = \S+(?:: .*| does not divide .*); (\d+) does$", lambda m, w: set_to(w, m[1], m[2])),
    (r"layout such as (\S+)", lambda m, w: option(w, "--layout", m[1])),
    (r"axis (\w+) .*; write (\w+)$", lambda m, w: replaced(w, f"B:{m[1]}", f"B:{m[2]}")),
    (r": (\w+) is a correction .*; write (\S+)", lambda m, w: replaced(w, m[1], m[2])),
    (r"(\w) is ambiguous in .*: write (\w)", lambda m, w: option(w, "--seq", f"8{m[2]}")),
    (r"write .* or (\S+) for a rate: '(\S+)'", lambda m, w: [x.replace(m[2], m[1]) for x in w]),
    (r"in bits: divide by 8 and write B", lambda m, w: replaced(w, "180Gbit/s", "22.5GB/s")),
    (r"expected (\S+), found \S+ in '([\d.]+)(\w+)'", lambda m, w: replaced(
        w, m[2] + m[3], f"{m[2]} {m[1]}")),
    (r"ask for (?:one of )?([A-Za-z_]\w*)", lambda m, w: asked(w, m[1])),
    (r"(?:axes only:|axis such as) (\w+)", lambda m, w: asked(w, m[1])),
    (r"such as (B/X)", lambda m, w: asked(w, m[1])),
    (r"the end: .* '-> Out|expected '-> Out\[\.\.\.\]'", lambda m, w: [
        w[0], f"{w[1]} -> Out[B_X, F]", *w[2:]]),
    (r"such as (\S+), found '(.*)'$", lambda m, w: replaced(w, m[2], m[1])),
    (r"(\w+)(?: \(.*\))?: expected a share between", lambda m, w: set_to(w, m[1], "0.1")),
    (r"(\w+)(?: \(.*\))?: expected at most (\d+)", lambda m, w: set_to(w, m[1], m[2])),
    (r"(--[a-z-]+): .*(?:expected a positive|whole number from [01])", lambda m, w: (
        option(w, m[1], "8") if m[1] != "--set" else set_to(w, m.string.split()[2], "2"))),
    (r"(\w+)(?: \(.*\))?: expected a whole number", lambda m, w: set_to(w, m[1], "8")),
    (r"expected a rank from (\d+) to .*, found (\d+)", lambda m, w: [
        re.sub(rf"\b{m[2]}\b", m[1], word) for word in w]),
    (r"rank (\d+) is outside .* 0 to (\d+)", lambda m, w: replaced(w, m[1], m[2])),
    (r"'(\w+)' lacks the axis (\w+)", lambda m, w: option(w, "--order", f"{m[1]},{m[2]}")),
    (r"(\w+): expected 0 to (\d+)", lambda m, w: option(w, "--at", f"{m[1]}={m[2]}")),
    (r"too many: '(.*)'", lambda m, w: [word for word in w if word != m[1]]),
    (r"derive (symbols) lists them", lambda m, w: [m[1]]),
]  # fmt: skip

REFUSED = [
    "ask fdsp B/X",
    "ask fsdp b/x",
    "ask fsdp alhpa",
    "ask fsdp B+X",
    "ask fsdp B/B",
    "ask fsdp Z",
    "ask fsdp_tensor B*X",
    "ask fsdp B/X --stepz",
    "akk fsdp B/X",
    "ask fsdp B/X --chip tpu-v5",
    "ask fsdp B/X --model llama-70b",
    "ask fsdp B/X --chip tpu-v5p --profile scaling",
    "ask fsdp B/X --precision bf17",
    "ask fsdp B/X --precision fp32 --chip h100",
    "ask fsdp B/X --gradients fp31",
    "ask fsdp B/X --set e=1",
    "ask fsdp B/X --set fma=1",
    "ask fsdp B/X --set e_g=1",
    "ask fsdp B/X --set alpha=1 --set C=3 --set W=5",
    "ask fsdp B/X --set B=4e6 --set B=5e6",
    "ask fsdp B/X --set B=0",
    "ask fsdp B/X --set Q=1",
    "ask fsdp B/X --set W=180GB",
    "ask fsdp B/X --set W=180Gbit/s",
    "ask fsdp B/X --set C=459TFLOPS",
    "ask fsdp B/X --set W=5 --chip h100",
    "ask fsdp B/X --set W_node=5 --chip tpu-v5p",
    "ask fsdp B/X --network node --chip tpu-v5p",
    "ask fsdp_tensor B/X --network two-level --chip h100 --set Y=3",
    "ask fsdp alpha --network two-level",
    "ask fsdp B/X --assume notebook",
    "ask fsdp B/X --layout B:X",
    "ask fsdp B/X --parameters W",
    "ask context_ring T_r --gated",
    "ask context_ring T_r --network node",
    "ask context_ring T_r --best",
    "ask context_ring F",
    "ask pipeline_bubble n_mb --set pp=8 --set epsilon=2",
    "ask pipeline_bubble n_mb --set pp=8.5 --set epsilon=0.1",
    "ask context_ring T_r --assume notbook",
    "ask context_ring T_r --assume ring_tensor",
    "ask context_ring T_r --set overlap=serial",
    "ask fsdp_tensor X --best --set Y=2",
    "ask fsdp_tensor B --best",
    "ask fsdp_tensor B/X --best",
    "ask fsdp X --best",
    f"ask {HSDP} X --best",
    f"ask {HSDP} X --best --set Z=2 --set Y=2",
    f"ask fsdp_tensor Y --feasible divisors {SLICE}",
    "ask fsdp_tensor Y --feasible divisors --set N=64",
    f"ask fsdp_tensor Y --feasible divisors --set N=64 --set Y=2 {SLICE}",
    "ask fsdp_tensor Y --feasible torus --set N=8960 --set B=4194304 --set F=28672",
    f"ask fsdp_tensor Y --feasible torus --set N=100 {SLICE}",
    f"ask fsdp_tensor Z --feasible divisors --set N=64 {SLICE}",
    f"ask fsdp_tensor Y --feasible divisors --steps --set N=64 {SLICE}",
    f"ask fsdp_tensor Y --feasible divisor --set N=64 {SLICE}",
    f"ask fsdp_tensor Y --feasible divisors --set N=64.5 {SLICE}",
    "ask fsdp_tensor B --set X=8 --set Y=4 --set N=64",
    "ask fsdp B --set X=2.5",
    "ask fsdp N --set X=64",
    "ask layer W",
    "layer fsdpp",
    "layer fsdp --layout B:X",
    "layer 'In[B_X, D] . W_in[D, F]'",
    "layer 'In[B_X, D] . W_in[D, f] -> Out[B_X, f]'",
    "layer 'In[B_X, D] . W_in[D, F] -> Tmp[B_X, F]; Tpm . W_out[F, D] -> Out[B_X, D]'",
    "layer mlp --layout 'B:X Q:Y'",
    "layer mlp --layout 'B:X D:Y(weight)'",
    "layer mlp --layout B:XY",
    "layer mlp --layout B:dp --set dp=3 --set B=8",
    "layer attention --gated",
    "layer fsdp --keep weight",
    "layer fsdp --chip h100 --network torus",
    "layer fsdp --chip h100 --set W=5",
    f"plan {TYPED} --style tables",
    f"plan {TYPED.replace('8192', '8191')}",
    f"plan {TYPED.replace('8192', '8K')}",
    f"plan {TYPED.replace('--cards 8', '--cards 0')}",
    f"plan {TYPED.replace(' --batch 8', '')}",
    f"plan {TYPED} --set T=4096",
    f"plan {TYPED} --set eta=2",
    f"plan {TYPED} --set alpha=34",
    f"plan {TYPED} --set tp=3",
    f"plan {TYPED} --set P=70e9",
    f"plan {TYPED} --set M_hmb=80e9",
    f"plan {TYPED} --also tpp=8",
    f"plan {TYPED} --why 2 9999",
    f"plan {TYPED} --assume notbook",
    f"plan {TYPED} --assume default-rings",
    f"plan {TYPED} --top -1",
    f"plan {TYPED.replace('h100', 'tpu-v4')}",
    f"why plan.1.mfuu {TYPED}",
    f"why plan.0.mfu {TYPED}",
    f"why plan.1.mfu {TYPED.replace(' --batch 8', '')}",
    "why 04.oen",
    "why 04.one --cards 8",
    "figures --chapter chapters",
    "facts tpu8",
    "facts h100 --profile vendors",
    "mesh --sizes tp=2,dp=2 --cards-per-node 0",
    "mesh --sizes tp=2,xx=2 --cards-per-node 8",
    "mesh --sizes tp=2,dp=2 --cards-per-node 8 --rank 4",
    "mesh --sizes tp=2,dp=2 --cards-per-node 8 --at tp=2",
    "mesh --sizes tp=2,dp=2 --cards-per-node 8 --at tpp=1",
    "mesh --sizes tp=2,dp=2 --cards-per-node 8 --order tp",
    "mesh --sizes tp=2,dp=2 --cards-per-node 8 --order megatorn",
    "mesh --sizes tp=2,dp=2 --cards-per-node 8 --experts epp=2",
    "mesh --sizes tp=2 tp --cards-per-node 8",
]


@pytest.fixture
def small_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a book of one chapter, in which commands are run."""
    folder = tmp_path / "chapters" / "04-small"
    folder.mkdir(parents=True)
    (folder / "figures.py").write_text(DECLARED)
    (folder / "chapter.md.j2").write_text(TEMPLATE)
    monkeypatch.chdir(tmp_path)
    return folder


DECLARED = """
from derive import number
from derive.book import Chapter, integer
chapter = Chapter("04", "Small", profile="scaling-book")
chapter.shown("one", number(12), integer())
"""
TEMPLATE = 'It is << show("one") >> << derived >>.\n'


@pytest.mark.usefixtures("small_book")
@pytest.mark.parametrize("typed", REFUSED)
def test_the_advice_of_the_command_line_ends_in_an_answer(run: Any, typed: str) -> None:
    words = shlex.split(typed)
    code, out, err = run(*words)
    assert (code, out) == (2, ""), typed
    for _ in range(MOST):
        words = followed(err, words)
        code, _, err = run(*words)
        if code == 0:
            return
        assert code == 2, (words, err)
    pytest.fail(f"{typed}: still refused as {shlex.join(words)}: {err}")


def followed(message: str, words: Words) -> Words:
    assert message.count("\n") == 1 and message.startswith("derive"), message
    for pattern, follow in ADVICE:
        if found := re.search(pattern, message.strip()):
            return follow(found, words)
    raise AssertionError(f"no advice in: {message}")


FACTS = """
[sources.mine]
title = "Measured"
publisher = "me"
kind = "own"
dated = "undated"
read = 2026-01-31

[chips.ours]
title = "Our chip"

[chips.ours.facts]
bf16 = { value = 1e15, unit = "FLOP/second", basis = "per chip", source = "mine", where = "log", status = "measured" }

[models."ours-2.5-7b"]
title = "Our model"

[models."ours-2.5-7b".shape]
layers = 32
hidden = 4096
heads = 32
kv_heads = 8
head_dim = 128
ffn = 14336
vocab = 128256
norms_per_layer = 2
gated = true
tied_embeddings = false
final_norm = true
source = "mine"
where = "config"
status = "published"
"""  # noqa: E501

# What is wrong in a file, by what stands in its place.
SLIPS_OF_A_FILE = [
    ('title = "Our chip"', 'titel = "Our chip"'),
    ("basis", "bases"),
    ('"FLOP/second"', '"FLOP/s"'),
    ('"measured"', '"mesured"'),
    ('"measured"', '"guessed"'),
    ('"own"', '"owned"'),
    ('source = "mine", where', 'source = "mime", where'),
    ("bf16 =", "bf61 ="),
    ('[models."ours-2.5-7b"]', "[models.ours-2.5-7b]"),
    ("layers = 32", "layer = 32"),
    ("[chips.ours.facts]", "[chips.ours.fact]"),
    ("[chips.", "[chip."),
    ("gated = true", 'gated = "yes"'),
    ("2026-01-31", '"31 January"'),
    ("per chip", "bidirectional"),
]


@pytest.mark.parametrize(("right", "wrong"), SLIPS_OF_A_FILE)
def test_the_advice_on_a_facts_file_ends_in_an_answer(
    run: Any, tmp_path: Path, right: str, wrong: str
) -> None:
    assert right in FACTS
    text, path = FACTS.replace(right, wrong), tmp_path / "facts.toml"
    for place in range(MOST + 1):
        path.write_text(text)
        code, _, err = run("facts", "ours", "--facts", str(path))
        assert (code == 2) or place, wrong
        if code == 0:
            return
        text = mended(err, text)
    pytest.fail(f"{wrong}: still refused: {err}")


def mended(message: str, text: str) -> str:
    """The file with what the message names put right."""
    if found := re.search(r"expected (\[.*\]), found a name without", message):
        return text.replace(found[1].replace('"', ""), found[1]).replace(
            found[1].replace('"', "")[:-1] + ".", found[1][:-1] + "."
        )
    found = re.search(
        r" '?([\w.]+)'?: expected (.*), found (.*?)(?:; did you mean ([^ ?]+).*)?$", message.strip()
    )
    assert found, message
    key, expected, instead, near = found.groups()
    expected = near or expected
    wanted = re.split(" or |, ", expected.removeprefix("one of "))[0]
    wanted = (
        re.sub(r"^a known source key, such as |^text with | \(.*", "", expected)
        if " key, " in (expected) or expected.startswith(("text with", '"'))
        else wanted
    )
    if instead == "an unknown key":
        return re.sub(rf"\b{key}\b", wanted, text)
    if instead.startswith(("the text", "'")):
        old = instead.removeprefix("the text ").strip("'")
        if expected == "true or false":
            return text.replace(f'"{old}"', "true")
        if expected.startswith("a date such as "):
            return text.replace(f'"{old}"', expected.removeprefix("a date such as "))
        return text.replace(f'"{old}"', f'"{wanted.strip(chr(34))}"')
    raise AssertionError(message)


# What is typed at the prompt, and in the same order what its refusals lead to.
PROMPT: list[tuple[str, Callable[[re.Match[str], str], str]]] = [
    (r"pad it, to (\d+)", lambda m, x: re.sub(r"seq=\d+", f"seq={m[1]}", x)),
    (r"the set (\w+) plays no part", lambda m, x: x.replace(f', "{m[1]}"', "")),
    (r"'(\w[\w-]*)'; did you mean ([^ ?]+)", lambda m, x: x.replace(m[1], m[2])),
    (r"found the text '(\w+)'; write (\w+)", lambda m, x: x.replace(f'"{m[1]}"', m[2])),
    (r"'([^']+)'; no quotes", lambda m, x: x.replace(f'"{m[1]}"', m[1])),
    (r"not in quotes, found '(\w+)'", lambda m, x: x.replace(f'"{m[1]}"', m[1])),
    (r"ask for (?:one of )?([A-Z]\w*)", lambda m, x: re.sub(r", \w+", f", {m[1]}", x, count=1)),
    (r"such as (B/X)", lambda m, x: x.replace("B*X", m[1])),
    (r"such as number\(2\), found (\d+)", lambda m, x: x.replace(m[1], f"number({m[1]})")),
    (r"write (\w+\(\".*\")\)", lambda m, x: x.replace(m[1].partition("(")[2], f"{m[1]})", 1)),
    (r"write (\w+: number\(\d+\))", lambda m, x: re.sub(r"\w+: \d+", m[1], x)),
    (r"write ([\d.]+) as text", lambda m, x: x.replace(m[1], f'"{m[1]}"')),
    (r"expected symbols such as tp, found '(\w+)'", lambda m, x: x.replace(f'"{m[1]}"', m[1])),
    (r"whole number from 1.*, found '?([\d.]+)'?", lambda m, x: re.sub(
        rf"[\"]?{re.escape(m[1])}[\"]?", str(int(float(m[1]))), x)),
    (r"it takes (\w+)", lambda m, x: x.replace(', overlap="serial"', "")),
    (r"(fixed) plays no part", lambda m, x: x.replace(", fixed=Y", "")),
    (r"True or False, found '(\w+)'", lambda m, x: x.replace(f'"{m[1]}"', "True")),
    (r"units, such as (\w+), found", lambda m, x: x.replace(f'"{m[1]}"', "meaning(T).unit")),
    (r"threshold\(\.\.\.\)(\.closed_form)", lambda m, x: x.replace("B/X)", f"B/X){m[1]}")),
    (r"ask for (\.\w+)", lambda m, x: x.replace(".closed_form", m[1])),
    (r"and two can be: (fixed=\[.*\])", lambda m, x: f"{x[:-1]}, {m[1]})"),
    (r"mesh axes of .* \((\w+).*, found (\w+)", lambda m, x: x.replace(f'"{m[2]}"', m[1])),
    (r"axes only: (\w+)", lambda m, x: re.sub(r", \w+\)$", f", {m[1]})", x)),
    (r"set (\w+=.*)$", lambda m, x: f"{x[:-1]}, " + re.sub(
        r"(\w+)=\.\.\.", lambda n: f"{n[1]}={VALUES.get(n[1], 2)}", m[1]) + ")"),
    (r"(\w+) is the bandwidth .*; set (\w+),", lambda m, x: re.sub(rf"\b{m[1]}=", f"{m[2]}=", x)),
    (r"(W_node) is .*: set (W),", lambda m, x: x.replace(m[1], m[2])),
    (r"the network (\w+) or .* works", lambda m, x: x.replace("torus", m[1])),
    (r"(\w+) is an assumption .*: threshold\(\.\.\., (\w+=)", lambda m, x: re.sub(
        r"\)\.on\((.*), (\w+=.*)\)", r", \2).on(\1)", x)),
    (r"expected a block, as (block)", lambda m, x: x.replace("fsdp", f"block({MLP!r})")),
    (r"the order '\w+' lacks the axis (\w+)", lambda m, x: re.sub(r'"\w+"\)$', f'"{m[1]}")', x)),
]  # fmt: skip

TASK = 'task(model("llama-3-8b"), chip("h100"), cards=8, seq=8192, batch=8)'
MISTYPED = [
    'threshold("fsdp", B/X)',
    'threshold(fsdp, "B/X")',
    "threshold(fdsp, B/X)",
    'threshold(fsdp, B/X).on(chip("tpu-v5"))',
    "threshold(fsdp, B/X).on(alfa=2)",
    'threshold("context_ring", T_r)',
    "threshold(fsdp, Z)",
    "threshold(fsdp, B*X)",
    'threshold(fsdp, B/X, overlap="seriel")',
    'threshold(fsdp, B/X, overlapp="serial")',
    'threshold(fsdp, B/X, exact="yes")',
    'threshold(fsdp, B/X, "notbook")',
    'threshold(fsdp_tensor, B/N, fixed="Z")',
    'threshold(context_ring, T_r, overlap="serial")',
    "threshold(context_ring, T_r, fixed=Y)",
    "threshold(fsdp_tensor, Y).closed_form",
    'threshold(fsdp, alpha, network="two-level")',
    'threshold(fsdp, B/X).on(chip("h100"), W=450e9)',
    'threshold(fsdp, B/X).on(chip("tpu-v5p"), W_node=450e9)',
    'threshold(fsdp, B/X, network="torus").on(chip("h100"))',
    'threshold(fsdp, B/X).on(chip("h100"), network="egress")',
    "threshold(fsdp, B/X).on(M_X=1)",
    'optimum(fsdp_tensor, "X")',
    "optimum(fsdp_tensor, B)",
    f"optimum(layer({HSDP}), X)",
    "feasible(fsdp_tensor, 64)",
    "evaluate(threshold(fsdp, B/X), {alpha: [1]}, {M_X: 1})",
    'evaluate(alpha, {"alpha": [1]})',
    "evaluated(P*R, {P: 8, R: 8})",
    'meaning("n_mb")',
    'strategy("fdsp")',
    "power_of_two_below(8960)",
    TASK.replace('chip("h100")', '"h100"'),
    TASK.replace('model("llama-3-8b")', '"llama-3-8b"'),
    TASK.replace("cards=8", 'cards="8"'),
    f"search({TASK.replace('8192', '8191')})",
    'step_model("notbook")',
    'chip("tpu-v5p").quantity("ici")',
    'chip("tpu-v5p", override={"ici_axis": "SB"})',
    "gated(fsdp)",
    'layer("mlpp")',
    'mesh({"tp": 2}, 8, "dp")',
]


@pytest.mark.parametrize("typed", MISTYPED)
def test_the_advice_of_the_prompt_ends_in_an_answer(
    capsys: pytest.CaptureFixture[str], typed: str
) -> None:
    console = Console({name: getattr(derive, name) for name in dir(derive)})
    line = typed
    for place in range(MOST + 1):
        console.push(line)
        told = capsys.readouterr().err.strip()
        if not told:
            assert place, f"{typed} is not refused"
            return
        assert "\n" not in told and " --" not in told, told
        follow = next(((p, f) for p, f in PROMPT if re.search(p, told)), None)
        assert follow is not None, f"no advice in: {told}"
        line = follow[1](re.search(follow[0], told), line)  # type: ignore[arg-type]
    pytest.fail(f"{typed}: still refused as {line}: {told}")


def test_what_is_to_be_installed_is_an_extra_of_the_project() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    sources = (path.read_text() for path in (ROOT / "derive").rglob("*.py"))
    told = {
        extra for text in sources for extra in re.findall(r"pip install -e '\.\[(\w+)\]'", text)
    }
    assert told and told <= extras.keys()
