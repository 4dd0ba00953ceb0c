"""`build --draft`: a half-written chapter as it is, with what is missing."""

from __future__ import annotations

import pytest

from derive import cli

DECLARED = """
chapter.shown("alpha", number(2550, "FLOP/byte"))
chapter.claim("least", number(113, token / chip))
chapter.require("more", 3, ">", 4)
chapter.shown("later", number(7))
chapter.condition("c", threshold(strategies.fsdp, v.B / v.X))
"""
PLOT = """
chapter.plot("p", Plot("t", "x", "y", [("a", [1, 2], [3, 4])]), alt="words")
"""
HALF = """# Half

It does << show("alpha") >> << derived >> and << show("alhpa") >>.

It needs << claim("least", "about 131 tokens per chip") >> << derived >>.

There is << require("more", "more of it") >>, and 16 of those.

<< derivation("steps") >>
"""


def drafted(book, template, figures=""):
    folder = book.write(template, figures)
    code, out, err = book.run("--draft")
    assert (code, err) == (0, ""), out + err
    return (folder / "DRAFT.md").read_text(), out


def test_holes_untrue_words_and_a_list(book):
    text, out = drafted(book, HALF, DECLARED)
    body, _, missing = text.partition("## Still missing")
    assert "2,550\u00a0FLOP per byte" in body
    assert "⟦missing: unknown figure 'alhpa'; did you mean alpha?⟧" in body
    assert "about 131 tokens per chip **⟦untrue, derived: about 113 tokens per chip⟧**" in body
    assert r"more of it **⟦untrue, derived: 3 \<= 4⟧**" in body
    assert "\n\n**⟦missing: unknown derivation 'steps'" in body
    for line, told in ((3, "alhpa"), (5, "131"), (7, "more does not hold"), (7, "'16' is typed"),
                       (9, "steps")):  # fmt: skip
        assert any(f"chapter.md.j2:{line}`" in row and told in row for row in missing.splitlines())
        assert any(f"chapter.md.j2:{line}: " in row and told in row for row in out.splitlines())
    for name in ("figure later", "condition c"):
        assert any("figures.py:" in row and name in row for row in missing.splitlines())
    assert missing.count("\n- ") == len(out.splitlines()) - 1 == 7


def test_the_readme_and_the_check_are_not_touched(book):
    book.built('<< show("alpha") >> << derived >>\n', DECLARED.split("\n")[1])
    before = book.files()
    assert book.run("--check")[0] == 0
    drafted(book, HALF, DECLARED + PLOT)
    book.write('<< show("alpha") >> << derived >>\n', DECLARED.split("\n")[1])
    assert {p: d[0] for p, d in book.files().items() if "DRAFT" not in p} == {
        p: d[0] for p, d in before.items()
    }
    assert book.run("--check")[0] == 0


def test_plots_that_are_not_drawn_yet_and_the_next_good_build(book):
    template = '# P\n\n<< plot("p") >>\n'
    text, _ = drafted(book, template, PLOT)
    assert "![words](DRAFT.p.svg)" in text and "nothing is missing" in text
    assert b"<svg" in (book.folder() / "DRAFT.p.svg").read_bytes()
    book.write(template + "16\n", PLOT)
    assert book.run()[0] == 2 and (book.folder() / "DRAFT.md").is_file()
    book.write(template, PLOT)
    assert book.run()[0] == 0
    assert sorted(p.name for p in book.folder().iterdir() if p.is_file()) == [
        "README.md", "chapter.md.j2", "figures.py", "p.svg"
    ]  # fmt: skip
    text, _ = drafted(book, template, PLOT)
    assert "![words](p.svg)" in text and not (book.folder() / "DRAFT.p.svg").exists()


@pytest.mark.parametrize(
    ("template", "figures", "told"),
    [("<< show(", "", "chapter.md.j2:1: "), ("Prose.\n", "chapter.shown(", "figures.py:"),
     ("<< nothing >>", "", "unknown name 'nothing'")],
)  # fmt: skip
def test_what_cannot_be_rendered_and_the_others(book, template, figures, told):
    book.write(template, figures)
    book.write("Prose.\n", name="07-good", declared='\nchapter = Chapter("07", "Good")\n')
    code, out, err = book.run("--draft")
    assert code == 2 and told in err and "06-mesh: cannot be rendered" in err
    assert "07-good: wrote DRAFT.md" in out and not (book.folder() / "DRAFT.md").exists()


def test_reasons_show_as_they_are(book):
    text, _ = drafted(book, '<< show("a*b_<i>`|") >>\n')
    assert r"unknown figure 'a\*b\_\<i\>\`\|'" in text


@pytest.mark.parametrize("more", [["--format", "github"], ["--format", "junit"], ["--check"]])
def test_formats_that_a_draft_does_not_have(book, more):
    book.write("Prose.\n")
    code, out, err = book.run("--draft", *more)
    assert (code, out) == (2, "") and err.count("\n") == 1


def test_as_data(book):
    import json

    book.write(HALF, DECLARED)
    assert cli.main(["build", "--chapters", str(book.root / "chapters"), "--draft", "--json"]) == 0
    (one,) = json.loads(book.capsys.readouterr().out).values()
    assert one["rendered"] and len(one["missing"]) == 7 and one["missing"][0]["line"] == 3
