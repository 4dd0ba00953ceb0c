"""A book of one's own: its facts, other chapters, and questions asked where they are printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive import cli

FACTS = """
[sources.mine]
title = "Measured on our cluster"
publisher = "us"
kind = "own"
dated = "2026"
read = 2026-01-01

[chips.our-chip]
title = "Our chip"

[chips.our-chip.facts]
bf16 = [
  { value = 1e15, unit = "FLOP/second", source = "mine", status = "measured", where = "matmul sweep", basis = "dense peak per chip" },
]
"""  # noqa: E501
OWN = '\nchapter = Chapter("06", "A chapter", files="facts.toml", names=["our-chip"])\n'
PEAK = """
peak = chapter.chip("our-chip").quantity("bf16")
chapter.shown("peak", peak, significant(3), cite="mine")
"""


def own(book, template, figures=PEAK, facts=FACTS, **more):
    folder = book.write(template, figures, declared=OWN, **more)
    (folder / "facts.toml").write_text(facts)
    return folder


def test_facts_and_sources_of_a_chapter(book):
    template = '<< show("peak") >> << cite("mine", "p. two") >>\n\n<< sources() >>\n'
    folder = own(book, template)
    assert book.run() == (0, "06-mesh: wrote README.md\n", "")
    text = (folder / "README.md").read_text()
    assert "1.00×10¹⁵" in text and "**mine**: Measured on our cluster" in text
    assert cli.main(["why", "06.peak", "--chapters", str(book.root / "chapters")]) == 0
    assert "[mine] Measured on our cluster" in book.capsys.readouterr().out
    for command in (["facts", "our-chip"], ["sources", "mine"]):
        assert cli.main([*command, "--chapters", str(book.root)]) == 0
        assert "[mine] Measured on our cluster" in book.capsys.readouterr().out
        assert cli.main(command) == 2


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (FACTS.replace("our-chip", "tpu-v5p"), "a new name"),
        (FACTS.replace("sources.mine", "sources.SB5"), "a new name"),
        (FACTS.replace('source = "mine", ', ""), "source"),
        ("[chips", "expected TOML"),
    ],
)
def test_facts_that_contradict_are_named_and_other_chapters_checked(book, facts, told):
    own(book, '<< show("peak") >> << cite("mine") >>\n', facts=facts)
    book.write("Prose.\n", name="07-good", declared='\nchapter = Chapter("07", "Good")\n')
    code, out, err = book.run("--check")
    assert code == 2 and "07-good/README.md  is missing" in out
    assert "chapters/06-mesh/figures.py:9: " in err and "facts.toml: " in err and told in err
    assert str(book.root) not in err


def test_a_chip_of_a_question_is_the_chapters(book):
    template = (
        'It is << claim("value C --chip our-chip", "exactly 1,000 TFLOP/s") >> << cite("mine") >>, '
        'and << show("value C/2 --chip our-chip") >> << derived >>.\n\n<< sources() >>\n'
    )
    own(book, template, figures="")
    assert book.run()[0] == 0
    text = (book.folder() / "README.md").read_text()
    assert "500\u00a0TFLOP/s" in text
    chapters = ["--chapters", str(book.root / "chapters")]
    assert cli.main(["why", "06.question 2", *chapters]) == 0
    out = book.capsys.readouterr().out
    assert "C/2" in out and "our-chip" in out and "[mine] Measured" in out


ASK = "ask fsdp_tensor B/N --chip tpu-v5p --model llama-3-70b --set M_X=2"


def test_a_claim_where_it_is_printed(book):
    template = f'<< claim("{ASK}", "about {{}} tokens per chip") >> << derived >>\n'
    assert "about 113 tokens" in book.built(template.format(113))
    error = book.refused(template.format(131))
    assert "chapter.md.j2:1: question 1 is 113.4" in error or "113" in error
    assert "'about 131 tokens per chip'" in error
    book.write(template.format(131))
    code, out, _ = book.run("--check")
    assert code == 1 and "chapter.md.j2:1  question 1  printed about 131" in out


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("ask fsdp B/X --chp tpu-v5p", "unknown option '--chp'"),
        ("ask fsdp B/X", "no value"),
        ("ask fsdp B/X --chip tpu-v5", "unknown chip"),
        ("ask fsdp", "QUESTION"),
        ("value C/Q --chip tpu-v5p", "unknown symbol"),
        ("value 'C/W", "quotation"),
        ("figures --json", "expected ask"),
        ("mesh --sizes tp=2", "expected ask"),
        ("value C --chip tpu-v5p --set D=4", "plays no part"),
        ("value C --chip tpu-v5p --json", "--json"),
        ("why 06.alpha", "plan.RANK.NAME"),
        ("value C --help", "--help"),
        ("value C --facts /etc/passwd", "a text names no files"),
        ("value " + "C+" * 600 + "C", "limit"),
    ],
)
def test_questions_that_cannot_be_answered(book, question, told):
    error = book.refused(f'<< claim("{question}", "about 113") >> << derived >>\n')
    assert error.count("\n") == 1 and "chapter.md.j2:1: " in error and told in error


# --- other chapters

LATER = '\nchapter = Chapter("10", "Later")\n'
CONDITIONS = """
t = threshold(strategies.fsdp, v.B / v.X)
chapter.condition("first", t)
chapter.condition("second", t)
chapter.shown("alpha", evaluated(v.C / v.W, chapter.chip("tpu-v5p").bindings(), name="alpha"))
chapter.claim("more", number(113, token))
"""
FIRST = """# One

<< condition("first", "It is.") >>

<< condition("second", "It is.") >>

<< show("alpha") >> << claim("more", "about 110 tokens") >> << derived >>
"""


def later(book, template):
    book.write(FIRST, CONDITIONS)
    return book.write(template, name="10-later", declared=LATER)


def test_conditions_and_figures_of_another_chapter(book):
    folder = later(
        book,
        'By << ref("06.second") >> it is << show("06.alpha") >>, << claim("06.more", "113 tokens") '
        ">> << derived >>; see [One](../06-mesh/README.md#one).\n",
    )
    assert book.run()[0] == 0
    text = (folder / "README.md").read_text()
    assert "[6.2](../06-mesh/README.md#condition-6-2)" in text and "2,550" in text
    (book.folder() / "README.md").unlink()  # what it links to is built beside it
    assert book.run() == (0, "06-mesh: wrote README.md\n10-later: unchanged\n", "")
    assert book.run("10")[0] == 0  # alone, against what is written of the other


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ('<< ref("06.secnd") >>', "unknown condition '06.secnd'; did you mean 06.second"),
        ('<< ref("07.second") >>', "unknown chapter '07'"),
        ('<< claim("06.more", "114 tokens") >> << derived >>', "06.more is 113"),
        ('<< show("06.alpa") >> << derived >>', "did you mean 06.alpha"),
        ("[x](../06-mesh/README.md#condition-6-99)", "no anchor '#condition-6-99'"),
        ("[x](../06-mesh/#condition-6-99)", "no anchor '#condition-6-99'"),
        ("[x](../07-mesh/README.md)", "no file '../07-mesh/README.md'"),
        ("[see][nowhere]", "'[see][nowhere]' has no definition"),
        ("[see][]", "has no definition"),
        ("[x](/etc/passwd)", "no file '/etc/passwd'"),
        ("[x](../../../../../../../../etc/passwd)", "no file"),
        ("[x](" + "a" * 300 + ")", "no file"),
        ("<a href='javascript:alert()'>x</a>", "expected https, mailto or a file"),
        ('<img src="nice.png">', "no file 'nice.png'"),
    ],
)
def test_dead_references(book, template, told):
    later(book, f"# Ten\n\n{template}\n")
    code, out, err = book.run()
    assert (code, out) == (2, "") and told in err and "10-later/chapter.md.j2:3: " in err


def test_links_with_definitions_and_footnotes(book):
    later(
        book, "# Ten\n\n[see][one] and a note[^2].\n\n[one]: ../06-mesh/README.md\n\n[^2]: Text.\n"
    )
    assert book.run()[0] == 0


def test_conditions_are_numbered_as_they_are_printed(book):
    first, second = FIRST.split("\n\n")[1:3]
    error = book.refused(FIRST.replace(first, "@").replace(second, first).replace("@", second),
                         CONDITIONS)  # fmt: skip
    assert "condition first is printed as (6.1) after (6.2)" in error


def test_a_book_anywhere_with_the_installed_command(book, monkeypatch):
    """The folder of chapters has any name, and messages say the command that builds it."""
    (book.root / "build.py").unlink()
    (book.root / "chapters").rename(book.root / "notes")
    folder = book.root / "notes" / "01-first"
    folder.mkdir()
    (folder / "chapter.md.j2").write_text("Prose.\n")
    (folder / "figures.py").write_text(
        'from derive.book import Chapter\n\nchapter = Chapter("01", "A")\n'
    )
    monkeypatch.chdir(book.root)
    assert cli.main(["build", "--chapters", "notes"]) == 0
    assert "by: derive build 01" in (folder / "README.md").read_text()
    book.capsys.readouterr()
    (folder / "README.md").write_text("Other.\n")
    assert cli.main(["build", "--check", "--chapters", "notes"]) == 1
    out = book.capsys.readouterr().out
    assert "--- a/notes/01-first/README.md" in out
    assert out.endswith("run: derive build --chapters notes\n")


def test_chapters_that_link_to_each_other_are_built_one_at_a_time(book):
    later(book, "# Ten\n\n[One](../06-mesh/README.md#one) << ref('06.first') >>\n")
    assert book.run("10")[0] == 0 and book.run("06")[0] == 0
    assert book.run("--check")[0] == 0


def test_errors_of_another_chapter_are_told_there(book):
    later(book, '# Ten\n\n<< ref("06.second") >>\n')
    (book.folder() / "figures.py").write_text("1/0")
    _, _, err = book.run()
    assert err.count("ZeroDivisionError") == 1
    assert "10-later/chapter.md.j2:3: 06.second: chapters/06-mesh has errors of its own" in err


def test_the_command_that_repairs_is_typed_from_here(book, monkeypatch):
    later(book, "# Ten\n")
    monkeypatch.chdir(book.folder())
    _, out, _ = book.run("--check")
    assert out.endswith(f"run: python {Path('../../build.py')}\n")
    (book.root / "build.py").unlink()
    _, out, _ = book.run("--check")
    assert out.endswith("run: derive build --chapters ..\n")


# --- what a first author stumbles over

FSDP = """
fsdp = threshold(strategies.fsdp, v.B / v.X)
bound = fsdp.on(chapter.chip("tpu-v5p"), M_X=1)
"""


@pytest.mark.parametrize(
    ("words", "true"),
    [
        ("at least 2,550 tokens", True),
        ("at least 2,600 tokens", True),  # of a bound, rounded to the side on which it holds
        ("at least 2,500 tokens", False),
        ("over 2,500 tokens", True),  # of the number itself
        ("over 2,600 tokens", False),
        ("more than 3,000 tokens", False),
        ("under 2,600 tokens", True),
        ("under 2,500 tokens", False),
    ],
)
def test_words_of_a_bound(book, words, true):
    template = f'<< claim("least", "{words}") >> << derived >>\n'
    figures = FSDP + 'chapter.claim("least", bound)\n'
    assert words in book.built(template, figures) if true else book.refused(template, figures)


@pytest.mark.parametrize(
    ("template", "figures", "told"),
    [
        ("## Of 42 things\n", "", "j2:1: the number '42' is typed in prose"),
        ("[about 9 tokens](#x)\n<a id='x'></a>\n", "", "j2:1: the number '9' is typed"),
        ('<< require("r", "at least 9,999") >>\n', 'chapter.holds(("r", True, "so"))', "'9,999'"),
        ("| a | b |\n|:--|:--|\n| 8.0 | x |\n", "", "j2:3: the number '8.0' is typed in a table"),
        ("x\n", FSDP + "chapter.shown('a', fsdp.on(chapter.chip('h100'), F=5))", "F plays no part"),
        ("x\n", "chapter.chip('tpu-v5p').M_hbm", "ask chip['M_hbm']"),
        ("x\n", "threshhold", "unknown name 'threshhold'; did you mean threshold"),
        ("x\n", "context_ring", "context_ring is not imported: from derive import context_ring"),
        ("x\n", "chapter.show('a')", "unknown name of a Chapter 'show'; did you mean shown"),
        ("x\n", "chapter.claim('a', nummber(3))", "unknown name 'nummber'; did you mean number"),
        ("x\n", "chapter.shown('DRAFT.a', 1)", "name is words"),
        ("x\n", "chapter.table('t', b'ab', [['a', 'b']])", "figures.py:10: "),
        (
            '<< condition("c", "It is.") >>\n\n<< derivation("c") >>\n',
            FSDP + "from derive import P, steps\nchapter.condition('c', fsdp)\n"
            "chapter.derivation('c', steps(strategies.fsdp, P))",
            "derivation c ends in P <= N*M_hbm/10, and condition c is another",
        ),
    ],
)  # fmt: skip
def test_slips_of_a_first_author(book, template, figures, told):
    assert told in book.refused(template, figures)
