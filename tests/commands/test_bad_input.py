"""Bad input on the command line: one line on stderr, exit 2, nothing printed, nothing executed."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

LONG = "A" * 100_000
TOUCH = "__import__('os').system('touch pwned')"
DP = "In[B_X, D] . W_in[D, F] . W_out[F, D] -> Out[B_X, D]"


@pytest.fixture(autouse=True)
def untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each case runs in an empty folder, takes less than three seconds and leaves it empty."""
    monkeypatch.chdir(tmp_path)
    started = time.monotonic()
    yield
    assert time.monotonic() - started < 3
    assert not (tmp_path / "pwned").exists()


SHARDINGS = [
    ("fdsp", "did you mean fsdp"),
    ("fsd\u0440", "did you mean fsdp"),
    ("", "unknown strategy"),
    (LONG, "unknown strategy"),
    (TOUCH, "unknown strategy"),
    ("{0.__class__}", "unknown strategy"),
    ("%s%n", "unknown strategy"),
    ("fsdp\0", "unknown strategy"),
    ("\x1b[31m", "sharding cannot hold"),
    ("In[", "expected"),
    ("In[B_X, D]", "expected"),
    (DP.split(" ->")[0], "-> Out"),
    (DP.replace("B_X", "B_W", 1), "W is the ICI bandwidth"),
    (DP.replace("In[B_X, D]", "In[B_X, D_X]"), "splits B and D"),
    (DP.replace("B_X", "B_XX", 1), "twice"),
    (DP.replace("In[B", "In[\u0392"), "cannot hold"),
    (DP.replace(".", "\n", 1), "expected"),
    (DP + "Out[B_X, D]" * 10_000, "at most"),
    ("[" * 100_000, "at most"),
    (f"In[{LONG}]", "at most"),
]


@pytest.mark.parametrize(("text", "part"), SHARDINGS, ids=lambda x: repr(x)[:30])
def test_strategies_and_shardings(refused: Any, text: str, part: str) -> None:
    assert part in refused("ask", text, "B/X")
    assert part in refused("layer", text)


QUESTIONS = [
    ("bb/x", "did you mean B"),
    ("alhpa", "did you mean alpha"),
    ("", "expected"),
    ("Q", "unknown symbol"),
    ("B/", "expected"),
    ("B//X", "expected"),
    ("1", "ratio"),
    ("B+X", "ratio"),
    ("B/B", "ratio"),
    ("B**2/X", "ratio"),
    ("sqrt(B)", "ratio"),
    ("1/B", "above the line"),
    ("B/0", "division by zero"),
    ("B/X; print(1)", "expected"),
    ("9**9**9**9", "exponent"),
    ("(" * 60 + "B" + ")" * 60, "nested"),
    ("(" * 5000 + "B" + ")" * 5000, "limit"),
    (LONG, "limit"),
    (TOUCH, "expected"),
    ("\x1b[2J", "expected"),
    ("\u0412/X", "expected"),
    ("B\0", "expected"),
    ("Y*((X**2+3)**50-X-1)", "a sum of powers beyond 12"),
    ("Y*(" + "*".join(f"(X**2+{n})" for n in range(2, 22)) + "-X-1)", "a sum of powers"),
    ("sqrt(X**30-X-1)", "a sum of powers"),
    ("max((X**2+3)**40, X**3, B)", "a sum of powers"),
    ("max(sqrt(-2), B)", "no finite real expression"),
    ("max(log(8)-3*log(2), B)", "no finite real expression"),
    ("Y", "does not involve Y"),
    ("T_math", "add --pass forward, --pass backward or --pass step"),
]


@pytest.mark.parametrize(("text", "part"), QUESTIONS, ids=lambda x: repr(x)[:30])
def test_questions(refused: Any, text: str, part: str) -> None:
    assert part in refused("ask", "fsdp", text)


VALUES = [
    ("X=0", "positive"),
    ("X=-1", "positive"),
    ("X=nan", "positive"),
    ("X=inf", "positive"),
    ("X=", "positive"),
    ("X=True", "positive"),
    ("X=None", "positive"),
    ("X=\u0663", "positive"),
    ("X=9**9**9**9", "a number and a unit"),
    ("X=1_000", "a number and a unit"),
    ("X=1e999999", "exponent"),
    ("X=1e-50", "between"),
    ("B=1e41", "between"),
    ("X=" + "9" * 100_000, "limit"),
    ("X=5 GB", "expected way, found byte"),
    ("B=1024 sequences", "multiply by the sequence length"),
    ("B=4 chips", "expected token, found chip"),
    ("W=180 TFLOP/s", "expected byte/second"),
    ("x=5", "did you mean X"),
    ("=5", "unknown symbol"),
    ("X", "NAME=VALUE"),
    ("", "NAME=VALUE"),
    (LONG, "NAME=VALUE"),
    (f"{LONG}=1", "unknown symbol"),
    (f"{TOUCH}=1", "unknown symbol"),
    (f"X={TOUCH}", "positive"),
    ("X={0.__class__}", "positive"),
    ("X=\x1b[31m", "positive"),
    ("X=1\n2", "unknown unit"),
    ("X=1\0", "unknown unit"),
    ("e=1", "--precision"),
    ("e_g=4", "--gradients"),
    ("fma=3", "cannot be set"),
]


@pytest.mark.parametrize(("text", "part"), VALUES, ids=lambda x: repr(x)[:30])
def test_values(refused: Any, text: str, part: str) -> None:
    assert part in refused("ask", "fsdp", "B/X", "--chip", "tpu-v5p", "--set", text)
    assert part in refused("layer", "fsdp", "--set", text)


ASK = ("ask", "fsdp_tensor", "Y", "--chip", "v5p", "--model", "llama-3-70b")
POD = ("--set", "N=8960", "--set", "B=4194304")
OPTIONS = [
    (("akk",), "did you mean ask"),
    (("",), "unknown command"),
    ((LONG,), "unknown command"),
    ((TOUCH,), "unknown command"),
    (("--foo",), "unknown option"),
    (("ask",), "STRATEGY, QUESTION"),
    (("layer",), "SHARDING"),
    (("facts", "a", "b"), "one argument too many"),
    (("facts", "tpu-v9"), "did you mean tpu-v4"),
    (("facts", LONG), "unknown chip or model"),
    (("facts", "--profile", "vendr"), "did you mean vendor"),
    ((*ASK, "--stepz"), "did you mean --steps"),
    ((*ASK, "--" + LONG), "unknown option"),
    ((*ASK, "extra"), "one argument too many"),
    ((*ASK, "--overlap"), "expected one argument"),
    ((*ASK, "--overlap", "serail"), "did you mean serial"),
    ((*ASK, "--overlap", "serial", "--overlap", "serial"), "given twice"),
    ((*ASK, "--pass", "front"), "known: backward, each, forward, step"),
    ((*ASK, "--keep", "wieghts"), "did you mean weights"),
    ((*ASK, "--precision", "bf61"), "did you mean bf16"),
    ((*ASK, "--precision", LONG), "expected one of"),
    ((*ASK, "--gradients", "any"), "expected one of"),
    ((*ASK, "--profile", TOUCH), "unknown profile"),
    ((*ASK, "--chip", "v5e"), "given twice"),
    ((*ASK, "--model", "llama-3-8b"), "given twice"),
    ((*ASK, "--exact", "--large-n"), "not allowed with"),
    ((*ASK, "--best", "--feasible", "torus"), "not allowed with"),
    ((*ASK, "--feasible", "primes"), "known: divisors"),
    ((*ASK, "--json=1"), "--json"),
    ((*ASK, "--feasible", "divisors"), "--set N=8960"),
    ((*ASK, "--feasible", "divisors", "--set", "N=8960"), "no value for B"),
    ((*ASK, "--feasible", "divisors", *POD[2:], "--set", "N=5.5"), "N: expected a whole number"),
    ((*ASK, "--feasible", "divisors", *POD[2:], "--set", "N=1e9"), "from 1 to 10,000,000"),
    ((*ASK, "--feasible", "divisors", *POD, "--set", "X=4"), "leave out --set X"),
    ((*ASK, "--feasible", "divisors", *POD, "--steps"), "--steps"),
    ((*ASK, "--feasible", "torus", *POD, "--set", "M_X=2"), "leave out --set M_X"),
    ((*ASK, "--feasible", "torus", *POD[2:], "--set", "N=896"), "whole pods only"),
    ((*ASK, *POD, "--set", "N=8960"), "given twice"),
    ((*ASK, "--set", "N=21", "--set", "X=4", "--set", "Y=5"), "N = X*Y is 20 chips"),
    ((*ASK, "--set", "N=3", "--set", "X=4"), "more than the chips"),
    ((*ASK, "--set", "alpha=1", "--set", "C=1e12", "--set", "W=1e9"), "alpha = C/W is 1,000"),
    ((*ASK, "--best", *POD, "--set", "X=4"), "leave out --set X"),
    (("ask", "fsdp", "Y", "--feasible", "divisors", *POD), "no mesh axis Y"),
    (("ask", "cross_pod", "S", "--feasible", "divisors", *POD), "no mesh of one or two axes"),
    (("ask", "fsdp", "B/X", "--best"), "--best asks for a mesh axis"),
    (("ask", "fsdp", "X", "--best"), "nothing to choose"),
    (("ask", "fsdp", "B/X", "--chip", ""), "unknown chip"),
    (("ask", "fsdp", "B/X", "--chip", LONG), "unknown chip"),
    (("ask", "fsdp", "B/X", "--chip", TOUCH), "unknown chip"),
    (("ask", "fsdp", "B/X", "--chip", "llama-3-70b"), "unknown chip"),
    (("ask", "fsdp", "B/X", "--model", ""), "unknown model"),
    (("ask", "fsdp", "B/X", "--model", "llama-3-7b"), "did you mean llama-3-70b"),
    (("ask", "pipeline", "Z", "--gated"), "two matrices"),
    (("why",), "CHAPTER.FIGURE"),
    (("why", "06.x"), "no folder of chapters"),
    (("figures", "--chapters", ""), "expected a path"),
    (("figures", "--chapters", LONG), "expected a path"),
    (("figures", "--chapters", "a" * 4000), "no folder of chapters"),
    (("figures", "--chapters", "a\0b"), "expected a path"),
    (("figures", "--chapters", "a\x1bb"), "no folder of chapters"),
    (("figures", "--chapters", TOUCH), "no folder of chapters"),
]


@pytest.mark.parametrize(("arguments", "part"), OPTIONS, ids=lambda x: repr(x)[-50:])
def test_options(refused: Any, arguments: tuple[str, ...], part: str) -> None:
    assert part in refused(*arguments)


FILES = [
    (None, "no file"),
    (b"\xff\xfe\x00", "UTF-8"),
    (b"[chips\nx=", "expected TOML"),
    (b"a = " + b"[" * 50_000, "expected TOML"),
    (b"#" * 2_000_000, "at most"),
    (b"", "expected at least one of"),
    (b"[chipz.x]\n", "chipz"),
    (b'[chips.x]\ntitle="x"\n[chips.x.facts]\nbf16=[{value=1e15, unit="FLOP/second", '
     b'status="published", where="x", basis="dense peak per chip"}]\n', "source"),
    (f'[chips.x]\ntitle = "{TOUCH}"\nfacts = "{TOUCH}"\n'.encode(), "facts"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "part"), FILES, ids=lambda x: repr(x)[:30])
def test_facts_files_are_read_whether_used_or_not(
    refused: Any, tmp_path: Path, content: bytes | None, part: str
) -> None:
    file = tmp_path / "own.toml"
    if content is not None:
        file.write_bytes(content)
    for command in (("ask", "fsdp", "B/X"), ("layer", "fsdp"), ("facts",)):
        assert part in refused(*command, "--facts", str(file))


@pytest.mark.parametrize("path", ["", ".", LONG, "a\0b", "a\x1bb", TOUCH, "/dev/zero"])
def test_paths_that_are_no_facts_file(refused: Any, path: str) -> None:
    assert "expected" in refused("facts", "--facts", path)


def test_a_fifo_does_not_hang(refused: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "expected a TOML file" in refused("facts", "--facts", str(tmp_path / "pipe"))


def test_a_folder_that_is_gone(refused: Any, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    try:
        assert "gone" in refused("figures")
        assert "no folder of chapters" in refused("figures", "--chapters", "chapters")
    finally:
        os.chdir(tmp_path)


def test_what_was_typed_is_quoted_as_it_was(refused: Any) -> None:
    """Words of a message become options; those that somebody typed do not."""
    assert "'foo set a=1'" in refused("ask", "fsdp", "foo set a=1")
    told = refused("facts", "h100", "--facts", "cards.toml")
    assert told.startswith("derive: cards.toml: expected a TOML file")
