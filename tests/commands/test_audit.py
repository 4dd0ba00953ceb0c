"""`derive audit`: true figures match, wrong ones are told with their cause, others are not said."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from derive.book.claims import holds, restated
from derive.commands import audit, causes
from derive.commands.value import answer
from derive.notation.digits import fraction
from derive.notation.errors import DeriveError
from derive.notation.printed import printed, significant

MIXED = "ask fsdp_tensor B/N --chip tpu-v5p --model llama-3-70b --set M_X=2"
PLAN = "why plan.1.mfu --model llama-3-70b --chip h100 --cards 64 --seq 8192 --batch 512"
QUESTIONS = [
    MIXED, "ask fsdp B/X --chip tpu-v5p", "ask fsdp_tensor N --chip tpu-v5p --model llama-3-70b "
    "--set M_X=2 --set B=4194304", "value C/W --chip tpu-v5p", "value alpha**2/F --chip tpu-v5p "
    "--set F=28672", "value 6*P*R/(C*N*u) --chip tpu-v5p --set P=70e9 --set R=15e12 --set N=8960 "
    "--set u=0.4", PLAN,
    "ask context_ring T/cp --chip h100 --model llama-3-70b --set tp=8 --set cp=2",
]  # fmt: skip
CACHE = "value M_KV --model llama-3-70b --precision int8 --set T=8192 --set b_seq=1"
SPLIT = "value B/(X*Y) --set B=24 --set X=4 --set Y=8"
TENSOR = "ask tensor_parallel Y --chip tpu-v5e --model llama-3-70b --set M_Y=2"
WEIGHTS = "ask weight_reads B --chip tpu-v5e"
RUN = QUESTIONS[5].replace("6*P*R/(C*N*u)", "T_R")
GATHER = (
    'ask "A[B_X, D] -> Full[B, D]" T_comms --pass forward --network node --set B=2048 --set D=8192 '
    "--set W_node=450e9"
)
Audited = Callable[..., Any]


@pytest.fixture
def audited(tmp_path: Path, run: Any) -> Audited:
    """`audited("about 113", question)` gives the data of one figure after another, and the code."""

    def made(*figures: str, options: tuple[str, ...] = ()) -> tuple[list[dict[str, Any]], int]:
        pairs = zip(figures[::2], figures[1::2], strict=True)
        text = "".join(f"It is {words}<!-- derive: {question} -->.\n" for words, question in pairs)
        (tmp_path / "text.md").write_text(text)
        code, out, err = run("audit", str(tmp_path / "text.md"), "--json", *options)
        assert err == ""
        data = json.loads(out)
        assert data["clean"] == (code == 0)
        return data["figures"], code

    return made


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("digits", [2, 3, 5])
def test_what_is_right_matches(audited: Audited, question: str, digits: int) -> None:
    words = printed(answer(question).value, significant(digits))
    (row,), code = audited(f"about {words}", question)
    assert (row["state"], code) == ("match", 0)
    assert row["printed"] == f"about {words}" and row["cause"] is None


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_assumption_that_was_changed_is_the_cause(audited: Audited, question: str) -> None:
    """Words of four digits of the answer under each changed assumption, unless one that is tried
    before gives them as well."""
    quantity, said, earlier = answer(question), dict[str, str](), set[str]()
    for label, words in causes._changed(question, quantity):
        try:
            changed = answer(causes.shlex.join(words))
        except DeriveError:
            continue
        number = restated("times", "1.234", fraction(changed.value))
        if number not in earlier and number != restated("times", "1.234", fraction(quantity.value)):
            said[label] = number
        earlier.add(number)
    figures = [text for number in said.values() for text in (number, question)]
    rows, code = audited(*figures) if figures else ([], 1)
    assert code == 1
    for row, label in zip(rows, said, strict=True):
        assert row["state"] == "erratum"
        assert row["cause"] == f"holds {label}" or row["cause"].startswith("rounded")


@pytest.mark.parametrize(
    ("words", "question", "cause", "derived"),
    [
        ("about 76", MIXED, "holds with --gated", "about 113"),
        ("about 454 tokens", MIXED, "holds with --overlap serial", "about 113 tokens"),
        ("227", MIXED, "holds with --set M_X=1", "113"),
        ("114", MIXED, "rounded up: holds by the rule ceil", "113"),
        ("about 131", MIXED, "two digits swapped", "about 113"),
        ("11,340", MIXED, "100 times as much", "113.4"),
        ("5,100", "value C/W --chip tpu-v5p", "holds with --precision int8", "2,600"),
        ("89.4 GB", "value M_hbm --chip tpu-v5p", "1024^3 taken as 10^9", "96.0 GB"),
        ("768 GB", "value M_hbm --chip tpu-v5p", "8 times as much", "96.0 GB"),
        ("76", f"{MIXED} --gated --overlap serial", "holds with --overlap concurrent", "302"),
        ("113", f"{MIXED} --gated", "holds without --gated", "75.6"),
        ("5,000", MIXED, None, "110"),
        ("16.8 MB", CACHE, "L left out", "1,340 MB"),
        ("2.68 GB", CACHE, "holds with --precision bf16", "1.34 GB"),
        ("1.31 GB", CACHE, "holds with --set T=8000, 1,000 for 1,024", "1.34 GB"),
        ("24", SPLIT, "X*Y left out", "0.75"),
        ("18 days", RUN, "holds with --set u=1", "44 days"),
        ("37 µs", GATHER, "holds with --set W_node=900000000000, both ways for one", "75 µs"),
        ("243", WEIGHTS, "holds with --set W_hbm=810000000000, a reading of SB2", "240"),
        ("22", TENSOR, "holds with --chip tpu-v5p", "26"),
        ("5 s", 'ask "A[B, D] -> Same[B, D]" T_comms --pass forward', None, "0 s"),
    ],
)
def test_causes(audited: Audited, words: str, question: str, cause: str, derived: str) -> None:
    (row,), code = audited(words, question)
    assert (row["state"], row["cause"], code) == ("erratum", cause, 1), row
    assert row["derived"] == derived


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("ask fsdp_tensor B/N --chip tpu-v5p", "no value for F"),
        ("ask fsdp B/X --chip tpu-v55", "did you mean tpu-v5p"),
        ("ask fsdp Q --chip tpu-v5p", "unknown symbol 'Q'"),
        ("value M_hbm --chip tpu-v5p", "counts bytes, '5 tokens' counts tokens"),
        ("why 06.alpha-v5p", "add --chapters FOLDER"),
        ("why plan.1.mfu", "expected --model as well"),
        ("ask fsdp", "QUESTION"),
        ("value C --chip tpu-v5p --facts none.toml", "a text names no files"),
        ("value C --chip tpu-v5p --profile nobody", "unknown profile 'nobody'"),
        ("why 06.alpha-v5p --chapters / --json", "expected why CHAPTER.FIGURE"),
    ],
)
def test_what_cannot_be_said(audited: Audited, question: str, told: str) -> None:
    rows, code = audited("5 tokens", question, "2,550", "value C/W --chip tpu-v5p")
    assert [row["state"] for row in rows] == ["cannot say", "match"]
    assert told in rows[0]["reason"] and code == 2


HOSTILE = [
    "ask fsdp 'B/X", "$(touch pwned)", "`touch pwned`", "value __import__('os').system('touch x')",
    "; touch pwned", "ask --help", "value -h", "value C/W --help", "derive build", "audit x.md",
    "value " + "(" * 400 + "C" + ")" * 400, "value " + "C**" * 300 + "C", "x" * 5000,
    "value 9**9**9**9", "value C\x1b[31m", "ask fsdp B/X --json", "value \u202eC",
    "why x --chapters .", "''", "value C --facts /dev/zero", "value C --facts /etc/passwd",
    "ask fsdp B/X --feasible divisors", "ask fsdp B/X --chip tpu-v5p --smt",
    "value 1/0", "ask fsdp B/X --chip tpu-v5p --set B=-1e99",
    "why 06.a --chapters /proc/self/root",
]  # fmt: skip


def test_hostile_comments_are_told_in_a_line_each(tmp_path: Path, run: Any) -> None:
    text = tmp_path / "text.md"
    text.write_text("".join(f"It is 5<!-- derive: {one} -->.\n" for one in HOSTILE))
    code, out, err = run("audit", str(text))
    assert code == 2
    assert out == f"0 matched, 0 errata, {out.split(', ')[2]}, {out.split(', ')[3]}"
    assert err.count("\n") == len(HOSTILE)
    assert all(line.startswith(f"{text}:") and len(line) < 6000 for line in err.splitlines())
    assert all(c == "\n" or c.isprintable() for c in out + err)
    assert not Path("pwned").exists() and [*tmp_path.iterdir()] == [text]


def test_a_comment_alone_runs_no_book(tmp_path: Path, run: Any) -> None:
    for place in ("ours", "theirs"):
        folder = tmp_path / place / "chapters" / "06-a"
        folder.mkdir(parents=True)
        (folder / "chapter.md.j2").write_text('<< claim("a", "113") >> << derived >>\n')
        (folder / "figures.py").write_text(
            "from pathlib import Path\nfrom derive.book import *\n"
            "Path(__file__).with_name('ran').open('a').write('x')\n"
            "from derive.notation.quantity import number\n"
            "chapter = Chapter('06', 'A')\nchapter.claim('a', number(113))\n"
        )
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    text = tmp_path / "text.md"
    text.write_text(
        f"113<!-- derive: why 06.a --chapters {theirs} -->, 112<!-- derive: why 06.a -->"
    )
    assert run("audit", str(text))[0] == 2
    code, out, err = run("audit", str(text), "--chapters", str(ours))
    assert code == 2 and "printed 112  derived 113" in out and "--chapters" in err
    assert not (theirs / "chapters" / "06-a" / "ran").exists()
    assert (ours / "chapters" / "06-a" / "ran").read_text() == "x"
    code, out, err = run("audit", str(text), "--chapters", str(theirs))
    assert code == 1 and "1 matched, 1 errata" in out


def test_bytes_of_a_text(tmp_path: Path, run: Any) -> None:
    right, comment = tmp_path / "a.md", b"2,550<!-- derive: value C/W --chip tpu-v5p -->"
    for head, end in ((b"", b"\n"), (b"\xef\xbb\xbf", b"\r\n"), (b"a\0b\r\n", b"\r")):
        right.write_bytes(head + b"x" + end + b"It is about" + end + comment + end)
        assert run("audit", str(right))[0] == 0
    bad = tmp_path / "b.md"
    bad.write_bytes(b"one\n\xff" + comment)
    code, out, err = run("audit", str(bad), str(right), "/dev/zero", str(tmp_path), "")
    assert code == 2 and "1 matched" in out and "4 errors" in out
    assert "another byte on line 2" in err and "found a folder" in err and "Traceback" not in err


def test_formats(tmp_path: Path, run: Any) -> None:
    text = tmp_path / "a.md"
    figures = {"2,550": "C/W", "2,560": "C/W", "5": "Q", "none": "C/W"}
    text.write_text(
        "".join(f"{w}<!-- derive: value {q} --chip tpu-v5p -->.\n" for w, q in figures.items())
    )
    code, out, _ = run("audit", str(text), "--format", "github")
    assert code == 2
    assert all(f"line={n}," in line for n, line in enumerate(out.splitlines(), 2))
    assert out.count("::error ") == 3 and "printed 2,560  derived 2,550" in out
    code, out, _ = run("audit", str(text), "--format", "junit")
    suites = ElementTree.fromstring(out)
    assert code == 2
    assert [len(suites.findall(f".//{kind}")) for kind in ("failure", "error")] == [1, 2]
    assert len(suites.findall(".//testcase[@name]")) == 2 + 2 + 2
    code, out, err = run("audit", str(text), "--bare")
    assert (
        out.splitlines()[-1] == "1 matched, 1 errata, 1 cannot say, 1 errors, 0 without a comment"
    )
    assert len(err.splitlines()) == 2


def test_rules_profiles_and_facts(audited: Audited, tmp_path: Path, run: Any) -> None:
    text = tmp_path / "a.md"
    text.write_text(
        "114<!-- derive ceil: " + MIXED + " -->, 113<!-- derive exact: " + MIXED + " -->"
    )
    code, out, _ = run("audit", str(text))
    assert code == 1 and "1 matched, 1 errata" in out
    vendor = ("--profile", "vendor")
    assert audited("92", MIXED, options=vendor)[1] == 0
    assert audited("113", f"{MIXED} --profile scaling-book", options=vendor)[1] == 0
    assert run("audit", str(text), "--profile", "nobody")[0] == 2


def test_days_of_seconds(audited: Audited) -> None:
    question = QUESTIONS[5]
    seconds = fraction(answer(question).value)
    for words, size in (("hours", 3600), ("days", 86400), ("weeks", 604800), ("seconds", 1)):
        count = printed(seconds / size, significant(4))
        assert audited(f"{count} {words}", question)[1] == 0, words
        wrong = printed(seconds / size * Fraction(3, 2), significant(4))
        (row,), code = audited(f"{wrong} {words}", question)
        assert code == 1 and row["derived"] == f"{count} {words}"


def test_tries_are_few_and_no_question_is_worked_out_twice(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, asked, tried = tmp_path / "a.md", list[str](), list[str]()

    def answered(question: str, *more: Any) -> Any:
        asked.append(question)
        return answer(question, *more)

    def held(rule: str, words: str, number: Fraction) -> bool:
        tried.append(words)
        return holds(rule, words, number)

    monkeypatch.setattr(audit.value, "answer", answered)
    monkeypatch.setattr(audit, "holds", held)
    questions = len([*causes._changed(MIXED, answer(MIXED))]) + 1
    for figures in (20, 200):
        asked.clear(), tried.clear()
        text.write_text("".join(f"It is {n}<!-- derive: {MIXED} -->.\n" for n in range(figures)))
        code, out, _ = run("audit", str(text))
        assert code == 1 and ", 0 cannot say" in out
        assert len(asked) == len({*asked}) <= questions
        others = len(causes._ROUNDED) + len(causes._FACTORS) + 2  # digits of 200 swap in two ways
        assert figures <= len(tried) <= figures * (questions + others)
