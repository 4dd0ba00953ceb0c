"""The bare prompt: piped input gives answers alone, mistakes are one line, notebooks show TeX."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

import derive
from derive.cli import main
from derive.notation import symbols as v


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`typed("B/X")` gives the exit code, standard output and standard error of a piped prompt."""

    def made(*lines: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
        capsys.readouterr()
        code = main([])
        out, err = capsys.readouterr()
        return code, out, err

    return made


def test_the_three_questions_of_the_trade(typed: Any) -> None:
    code, out, err = typed(
        "threshold(fsdp, B/X)", "optimum(fsdp_tensor, X)", "threshold(tensor_parallel, Y)"
    )
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "B/X >= alpha/M_X",
        "X = sqrt(B*N*M_X/(F*M_Y)) (forward pass)",
        "Y <= F*M_Y/alpha",
    ]


def test_a_number_with_its_assumptions(typed: Any) -> None:
    _, out, _ = typed('threshold(fsdp_tensor, B/N).on(chip("tpu-v5p"), F=28672, M_X=2, M_Y=1)')
    assert "113.4 tokens per chip" in out
    assert "assumptions:" in out


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ('chip("tpu-v9")', "did you mean"),
        ('threshold("fsdp", B/X)', "write fsdp"),
        ("threshold(fsdp, W_hbm)", "does not involve"),
        ('threshold(fsdp, B).on(chip("v5p"), X="8 sequences")', "expected way"),
        ('layer("In[B_X")', "expected"),
    ],
)
def test_a_mistake_is_one_line_and_the_prompt_goes_on(typed: Any, line: str, part: str) -> None:
    code, out, err = typed(line, "1 + 1")
    assert (code, out) == (0, "2\n")
    assert part in err
    assert err.count("\n") == 1


def test_other_mistakes_are_those_of_python(typed: Any) -> None:
    code, out, err = typed("1/0", "undefined_name", "f)", "'after'")
    assert all(name in err for name in ("ZeroDivisionError", "SyntaxError"))
    assert "Traceback" not in err
    assert "unknown name 'undefined_name'" in err
    assert (code, out) == (0, "'after'\n")


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_bytes_that_are_no_text_are_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], errors: str
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(b"X\n\xff\n"), encoding="utf-8", errors=errors)
    monkeypatch.setattr(sys, "stdin", stream)
    assert main([]) == 2
    told = "derive: expected utf-8 text to evaluate, found bytes that are none\n"
    assert capsys.readouterr().err == told


def test_a_mistyped_name_is_offered_the_nearest(typed: Any) -> None:
    _, _, err = typed("threshold(fsdq, B/X)")
    assert err.strip() == "unknown name 'fsdq'; did you mean fsdp or hsdp or find?"


def test_blocks_and_the_last_answer(typed: Any) -> None:
    _, out, err = typed("B/X", "_ * 2", "for i in (1, 2):", "    print(i)")
    assert (out, err) == ("B/X\n2*B/X\n1\n2\n", "")


def test_exit_and_the_end_of_input(process: Any) -> None:
    done = process(stdin=b"1 + 1\nexit()\n'not reached'\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"2\n", b"")
    done = process(stdin=b"")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_closed_input_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main([]) == 2
    assert "standard input" in capsys.readouterr().err


def test_the_display_hook_is_put_back(typed: Any) -> None:
    before = sys.displayhook
    typed("B/X")
    assert sys.displayhook is before


def balanced(tex: str) -> bool:
    depth = 0
    for place, sign in enumerate(tex):
        if sign in "{}" and (place == 0 or tex[place - 1] != "\\"):
            depth += 1 if sign == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def notebook_objects() -> list[Any]:
    chip, model = derive.chip("tpu-v5p"), derive.model("llama-3-70b")
    mixed = derive.threshold(derive.fsdp_tensor, v.B / v.N)
    best = derive.optimum(derive.fsdp_tensor, v.X)
    return [
        derive.fsdp,
        mixed,
        mixed.on(chip, model, M_X=2),
        derive.threshold(derive.fsdp_tensor, v.X),
        best,
        best.on(chip, model, B=4194304, N=8960),
        *derive.steps(derive.fsdp_tensor, v.B / v.N),
    ]


def test_a_notebook_shows_mathematics() -> None:
    for shown in notebook_objects():
        tex = shown._repr_latex_()
        assert tex.startswith("$\\displaystyle ") and tex.endswith("$"), tex
        inner = tex[1:-1]
        assert "$" not in inner.replace("\\$", "")
        assert balanced(inner), tex
        assert inner.count("\\left") - inner.count("\\leftarrow") == inner.count("\\right") - (
            inner.count("\\rightarrow")
        ), tex
        assert "**" not in inner and "alpha*" not in inner
        assert "\n\n" not in inner
