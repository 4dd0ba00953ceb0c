"""The bare prompt: piped input gives answers alone, mistakes are one line, notebooks show TeX."""

from __future__ import annotations

import io
import re
import rlcompleter
import sys
from pathlib import Path
from typing import Any

import pytest

import derive
from derive.cli import main
from derive.commands import repl
from derive.commands.completion import matches
from derive.facts import shipped
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


def test_exit(process: Any) -> None:
    done = process(stdin=b"1 + 1\nexit()\n'not reached'\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"2\n", b"")


def test_the_end_of_input(typed: Any) -> None:
    assert typed() == (0, "", "")


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


def test_the_prompt_keeps_its_history(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    readline = pytest.importorskip("readline")

    def session(state: Path, *lines: str) -> list[str]:
        """What a session that types the lines finds of those before it."""
        monkeypatch.setenv("XDG_STATE_HOME", str(state))
        readline.clear_history()
        with repl._line_editing({}):
            count = readline.get_current_history_length()
            for line in lines:
                readline.add_history(line)
        found = [readline.get_history_item(i + 1) for i in range(count)]
        readline.clear_history()
        return found

    assert session(tmp_path / "new", "B/X", "1 + 1") == []
    assert (tmp_path / "new" / "derive" / "history").is_file()
    assert session(tmp_path / "new") == ["B/X", "1 + 1"]
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert session(blocked, "B/X") == session(blocked) == []
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert session(Path("relative"), "X") == [] and session(Path("relative")) == ["X"]
    assert (tmp_path / "home" / ".local" / "state" / "derive" / "history").is_file()


def test_piped_lines_leave_no_history(
    typed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    typed("B/X")
    assert not list(tmp_path.iterdir())


def test_a_notebook_folds_what_an_answer_rests_on() -> None:
    h100, llama = derive.chip("h100"), derive.model("llama-3-70b")
    ring = derive.threshold(derive.context_ring, v.T_r)
    answer = ring.on(h100, llama, tp=4, cp=4)
    shown, folded = answer._repr_markdown_().split("<details>")
    assert "2{,}969" in shown and "2,969 tokens" in folded.replace("\u00a0", " ")
    assert all(line in folded for line in str(answer).splitlines())
    assert folded.rstrip().endswith("</details>")
    assert "$s$ is `T_r`: tokens of a sequence on one chip" in folded
    for thing in (answer, ring, *notebook_objects()[1:6]):
        legend = set(re.findall("^- .* is `(.*)`:", thing._repr_markdown_(), re.MULTILINE))
        bounds = thing.bounds if hasattr(thing, "bounds") else thing.threshold.bounds
        assert {s.name for b in bounds for s in b.expr.free_symbols} <= legend
    assert "| X | Y |" in (
        table := derive.feasible(
            derive.fsdp_tensor, 8, derive.chip("tpu-v5p"), llama, B=4194304
        )._repr_markdown_()
    )
    assert "overlap: concurrent" in table.partition("<details>")[2]


def test_help_gives_pages_and_leaves_the_rest_to_python(typed: Any) -> None:
    _, out, err = typed(
        "help(fsdp)", "help(context_ring)", "help(B/X)", 'help(chip("h100", profile="vendor"))',
        'help("fsdq")', "help(len)", "help()", "help", "help = 3", "help",
    )  # fmt: skip
    assert err == "unknown name 'fsdq'; did you mean fsdp or hsdp or find?\n"
    for part in (
        "fsdp: FSDP (ZeRO-3)\n", "so that     the ring hides", "B           global batch",
        "NVIDIA H100 SXM (profile vendor;", "built-in function len",
    ):  # fmt: skip
        assert part in out
    assert "Symbol" not in out and "dataclass" not in out and out.endswith("\n3\n")
    index = repr(repl.Help())
    assert out.replace("\u00a0", " ").count(index) == 2


def completed(line: str, **names: Any) -> list[str]:
    """What the prompt offers at the end of a line: each line as it then stands."""
    known = {name: getattr(derive, name) for name in dir(derive)} | names
    text = re.split(r"""[ \t\n`~!@#$%^&*()\-=+\[{\]}\\|;:'",<>/?]""", line)[-1]
    offered = matches(line, text, known, rlcompleter.Completer(known).complete)
    return [line[: len(line) - len(text)] + word for word in offered]


def test_names_of_the_catalogue_complete_in_quotes() -> None:
    spelt = [name for c in shipped().chips.values() for name in (c.name, *c.aliases)]
    for quote in "\"'":
        assert completed(f"chip({quote}") == [f"chip({quote}{name}" for name in spelt]
        assert completed(f"x = chip({quote}tpu-v5p") == [f"x = chip({quote}tpu-v5p{quote}"]
        found = completed(f"model({quote}llama-3-")
        llama = [name for name in derive.models() if name.startswith("llama-3-")]
        assert found == [f"model({quote}{name}{quote}" for name in llama]
    assert completed('chip("no') == completed('number("0') == completed('x = "ch') == []
    assert completed('chip("tpu-v5p")["al') == ['chip("tpu-v5p")["alpha']
    assert completed('chip(profile="v') == ['chip(profile="vendor']
    assert completed('threshold(fsdp, B/X, overlap="') == [
        'threshold(fsdp, B/X, overlap="concurrent',
        'threshold(fsdp, B/X, overlap="serial',
    ]


def test_what_a_call_takes_by_name_completes_where_an_argument_begins() -> None:
    on = 'threshold(fsdp, B/X).on(chip("tpu-v5p"), '
    offered = completed(on)
    assert f"{on}F=" in offered and f"{on}M_X=" in offered and f"{on}T_math=" not in offered
    assert f"{on}F=" not in completed(f"{on}F=8192, ")
    assert completed(f"{on}M_ax") == [f"{on}M_axes="]
    assert completed("threshold(fsdp, B/X, over") == ["threshold(fsdp, B/X, overlap="]
    assert "optimum(fsdp_tensor, X, fixed=" in completed("optimum(fsdp_tensor, X, f")
    assert completed("feasible(fsdp, 64, spl") == ["feasible(fsdp, 64, splits="]
    assert completed("feasible(fsdp, 64, M_ax") == ["feasible(fsdp, 64, M_axes="]
    for line in ("threshold(fsdp, B/over", "threshold(fsdp, overlap=over", "(over", "1 + (over"):
        assert completed(line) == []


def test_names_of_the_user_complete_as_ever() -> None:
    assert completed("my_wi", my_width=3) == ["my_width"]
    assert completed("threshold(my_s", my_strategy=derive.fsdp) == ["threshold(my_strategy"]
    assert completed("len(my_wi", my_width=3) == ["len(my_width"]
    assert "fsdp.title" in completed("fsdp.ti")
    assert completed("hidden(", hidden=3) == completed("print(") == []
