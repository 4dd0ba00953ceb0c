"""The lint: each mistake alone fails, with its line, and its correction passes."""

from __future__ import annotations

import pytest

FIGURES = """
chapter.shown("x", number(2550), integer())
chapter.claim("c", number("113.4"))
"""
USED = '\n<# the rest #>\n\n<< show("x") >> << claim("c", "113") >> << derived >>\n'


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("Prose\nwith 12 chips.\n", 2),
        ("- item\n- of 1,024 tokens\n", 2),
        ("> a quote of 3\n", 1),
        ("a v5px mesh\n", 1),
        ("a 4D mesh\n", 1),
        ("10²⁴ is a number\n", 1),
        ("½ of it\n", 1),
        ("**2** bold\n", 1),
        ("<details>\n<p>7 apples</p>\n</details>\n", 2),
        ("| a |\n|---|\n| 5 |\n", 3),
        ("![a 9](README.md)\n", 1),
        ('<< "12" >>\n', 1),
        ("one\ntwo\n\n1. first\n2. second of 8\n", 5),
    ],
)
def test_a_typed_number(book, typed, line):
    error = book.refused(typed + USED, FIGURES)
    assert f"chapter.md.j2:{line}: the number '" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "typed",
    [
        "# A 3D chapter\n",
        "`12 chips` and $`F = 28672`$\n",
        "```python\nx = 12\n```\n",
        "```math\nX = 12\n```\n",
        "[a paper](https://example.org/3) <https://example.org/4>\n",
        "1. first\n2. second\n",
        "LLaMA-3-70B on v5p, TPU\n8t; a 3D mesh (v5p's).\n",
        '<a id="x-3"></a>\n\n[here](#x-3)\n',
        "<!-- 12 -->\n",
        "two chips, half of them\n",
    ],
)
def test_digits_that_are_no_figures(book, typed):
    book.built(typed + USED, FIGURES)


def test_a_power_of_ten_that_a_figure_prints(book):
    figures = FIGURES + 'chapter.shown("p", number("6.3e24"), scientific(2))'
    assert "6.3×10²⁴ <sup>" in book.built(f'<< show("p") >> << derived >>\n{USED}', figures)


def test_typed_number_beside_the_same_figure(book):
    error = book.refused('<< show("x") >> <<derived>>\nand\n2,550 again' + USED, FIGURES)
    assert "chapter.md.j2:3: the number '2,550'" in error


def test_the_line_is_that_of_the_typed_one_of_two_alike(book):
    typed = '<< show("x") >> << derived >> and <% if "a" %>\n2,550\n<% endif %>\n'
    assert "chapter.md.j2:2: the number '2,550'" in book.refused(typed + USED, FIGURES)


def test_text_cells_of_a_table_are_prose(book):
    error = book.refused('<< table("t") >>\n', 'chapter.table("t", ["v5p"], [["has 12 links"]])')
    assert "chapter.md.j2:1: the number '12'" in error


@pytest.mark.parametrize("call", ['show("x")', 'claim("c", "about 113")'])
@pytest.mark.parametrize("lead", ["", "- ", "> "])
def test_a_figure_without_a_source(book, call, lead):
    error = book.refused(f"A line.\n\n{lead}It is << {call} >>.\n{USED}", FIGURES)
    assert f"chapter.md.j2:3: a paragraph prints {call[-3 if call[0] == 's' else 7]}" in error
    book.built(f"{lead}It is << {call} >> << derived >>.\n{USED}", FIGURES)


def test_one_list_item_does_not_vouch_for_another(book):
    assert "a paragraph prints x" in book.refused(
        f'- << show("x") >> << derived >>\n- << show("x") >>\n{USED}', FIGURES
    )


def test_a_citation_is_a_source(book):
    book.built(f'<< show("x") >> << cite("SB5") >>\n{USED}\n\n<< sources() >>\n', FIGURES)


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ('chapter.shown("gone", number(1), integer())', "figure"),
        ('chapter.condition("gone", v.B >= v.X)', "condition"),
        ('chapter.formula("gone", v.B)', "formula"),
        ('chapter.table("gone", ["a"], [["b"]])', "table"),
        ('chapter.plot("gone", Plot("t", "x", "y", [("a", [1], [1])]), alt="a")', "plot"),
    ],
)
def test_nothing_dead(book, declared, kind):
    error = book.refused("Prose.\n", declared)
    lines = (book.folder() / "figures.py").read_text().splitlines()
    line = lines.index(declared) + 1
    told = f"chapters/06-mesh/figures.py:{line}: {kind} gone is declared and never printed\n"
    assert error == told


def test_errata_must_be_printed(book):
    figures = FIGURES + 'chapter.erratum("x", "2,551", "a slip", "page two")'
    assert "there are errata" in book.refused("Prose." + USED, figures)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('show("y")', "unknown figure 'y'; known: c, x"),
        ('show("c")', "c is declared as claim: write claim(...), not show(...)"),
        ('ref("dp")', "unknown condition 'dp'"),
        ('cite("SB55")', "unknown source 'SB55'; did you mean SB5"),
        ('table("t")', "unknown table 't'"),
        ('plot("t")', "unknown plot 't'"),
        ("show(1)", "a template may not use a number: figures.py declares those"),
        ("show()", "show: missing a required argument: 'name'"),
        ('show("x", line="3")', "show: got an unexpected keyword argument 'line'"),
        ('claim("c", "no number")', "no number in the literal"),
    ],
)
def test_a_call_that_does_not_resolve(book, call, message):
    error = book.refused(f"Prose.\n\nMore << {call} >>.\n{USED}", FIGURES)
    assert f"chapters/06-mesh/chapter.md.j2:3: {message}" in error


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("$`\\operatorname{x}`$\n", "GitHub does not allow \\operatorname"),
        ("```math\n\\tag{x} y\n```\n", "GitHub does not allow \\tag"),
        ("```math\n\\frac{a}{b\n```\n", "unbalanced braces"),
        ("$x$ is plain\n", "a bare dollar"),
        ("a price of $ more\n", "a bare dollar"),
        ("see$`x`$\n", "math needs a space before it, found 'e'"),
        ("$`x`$y\n", "math needs a space after it, found 'y'"),
        ("$`x`$$`y`$\n", "math needs a space"),
        ("[$`x`$](README.md)\n", "math inside a link"),
        ("- item\n\n  ```math\n  x\n  ```\n", "a block of math stands at the left margin"),
        ("```math\nx\n```\n```math\ny\n```\n", "two blocks of math need an empty line"),
        ("$`a|b`$\n", "no | inside math"),
    ],
)
def test_math_that_github_does_not_print(book, typed, message):
    assert message in book.refused(typed)


@pytest.mark.parametrize(
    "typed",
    [
        "($`x`$), $`y`$; **$`z`$**-like is avoided: $`w`$.\n",
        "a price of <span>$</span> each\n",
        "```math\nx\n```\n\n```math\ny\n```\n",
        "| a | b |\n|---|---|\n| $`x`$ | $`y`$ |\n",
    ],
)
def test_math_that_github_prints(book, typed):
    book.built(typed.replace("**$`z`$**-like is avoided: ", ""))


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("prose\n\n```python\nx\n", ":3: the fence ``` is never closed"),
        ("| a | b |\n|---|---|\n| c |\n", ":3: a table row of 1 cells under a header of 2"),
        ("| a | b |\n|---|---|---|\n| c | d |\n", ":2: no table: its header has another number"),
        ("[x](#nowhere)\n", "no anchor '#nowhere' in this chapter"),
        ("# The mesh\n\n[x](#the-mess)\n", "did you mean #the-mesh?"),
        ("[x](../07-other/README.md)\n", "no file '../07-other/README.md' beside"),
        ("![x](gone.svg)\n", "no file 'gone.svg' beside"),
    ],
)
def test_structure(book, typed, message):
    error = book.refused(typed)
    assert message in error
    assert error.count("\n") == 1


def test_links_that_resolve(book):
    book.built("# The `mesh`, again!\n\n## A\n\n## A\n\n[x](#the-mesh-again) [y](#a-1)\n")


def test_a_block_stands_alone(book):
    figures = 'chapter.table("t", ["a"], [["b"]])'
    assert "table t needs an empty line before" in book.refused('In << table("t") >>\n', figures)
    assert "table t needs an empty line" in book.refused('<< table("t") >>\nmore\n', figures)


def test_a_plot_nobody_declares(book):
    figures = 'chapter.plot("p", Plot("t", "x", "y", [("a", [1], [1])]), alt="a")'
    book.built('<< plot("p") >>\n', figures)
    folder = book.write("Prose.\n")
    code, _, err = book.run()
    assert code == 2
    assert err == (
        "chapters/06-mesh/p.svg: is a plot that figures.py does not declare; delete it\n"
    )
    assert (folder / "p.svg").exists()


def test_all_mistakes_are_told_at_once_in_order(book):
    error = book.refused('a 3\n\nb 4\n\n<< show("x") >>\n' + USED, FIGURES)
    lines = [line.split(":")[1] for line in error.splitlines()]
    assert lines == ["1", "3", "5"]


def test_what_the_catalogue_calls_its_own_is_a_name(book):
    good = "A TPU v5p, an H100 and Ironwood (TPU7x) run Llama 3.1 405B or LLaMA-3-70B in FP8.\n"
    assert good in book.built(good)
    for typed, number in (("TPU v5q", "v5q"), ("Llama 3.1 406B", "3.1"), ("an H1000", "H1000")):
        assert f"the number '{number}' is typed" in book.refused(f"It is {typed}.\n")


def test_the_catalogue_of_a_chapter_has_its_own_names(book):
    figures = 'chapter = Chapter("06", "A", files="facts.toml")\n'
    folder = book.write("On the X100 it runs.\n", declared=figures)
    (folder / "facts.toml").write_text(
        '[sources.s]\ntitle = "S"\npublisher = "us"\nkind = "own"\ndated = "2026"\n'
        'read = 2026-01-01\n[chips.x-100]\ntitle = "X100"\n[chips.x-100.facts]\nbf16 = [{ '
        'value = 1e15, unit = "FLOP/second", source = "s", status = "measured", where = "w", '
        'basis = "dense peak per chip" }]\n'
    )
    assert book.run() == (0, "06-mesh: wrote README.md\n", "")
