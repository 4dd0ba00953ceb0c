"""Templates and figures.py that are broken or hostile: one message with a line, and no harm."""

from __future__ import annotations

import pytest

HOSTILE = [
    "<< ''.__class__ >>",
    "<< ''.__class__.__mro__[1].__subclasses__() >>",
    "<< show.__globals__ >>",
    "<< derived.format(1) >>",
    "<< 'a'|upper >>",
    "<< undefined_name|default('x') >>",
    "<< 10 ** 10 ** 10 >>",
    "<< 'a' * 1000000000 >>",
    "<< -1 >>",
    "<< ['a'][0] >>",
    "<< {'a': 1} >>",
    "<% import 'os' as os %>",
    "<% from 'os' import path %>",
    "<% include '/etc/passwd' %>",
    "<% extends 'x' %>",
    "<% macro f() %>x<% endmacro %>",
    "<% block b %>x<% endblock %>",
    "<% filter upper %>x<% endfilter %>",
    "<% set ns.x = 1 %>",
    "<% if x is defined %><% endif %>",
]


@pytest.mark.parametrize("typed", HOSTILE)
def test_a_template_cannot_do_more_than_print(book, typed):
    error = book.refused(f"Prose.\n\n{typed}\n")
    assert error.startswith("chapters/06-mesh/chapter.md.j2:3: ")
    assert "passwd" not in error


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("<< shw('x') >>", "unknown name 'shw'; did you mean show?"),
        ("<< range(3) >>", "unknown name 'range'"),
        ("<< show( >>", "expected ) before >>"),
        ("<% for %>", "Expected"),
        ("<% nope %>", "unknown tag 'nope'"),
        ("<< 'a >>", "unexpected char"),
        ("<% if 'a' %>", "Unexpected end of template"),
        ("<% set show = 'x' %>", "show cannot be set"),
        ("<% for x in 5 %><% endfor %>", "a number"),
        ("\ue000", "the character '\\ue000' cannot be printed"),
        ("a\0b", "the character '\\x00' cannot be printed"),
    ],
)
def test_a_template_that_does_not_parse(book, typed, message):
    error = book.refused(f"Prose.\n\n{typed}\n")
    assert error.startswith("chapters/06-mesh/chapter.md.j2:3: "), error
    assert message.lower() in error.lower()


def test_a_filter_is_named(book):
    assert ":1: a template may not use an attribute\n" in book.refused("<< derived.x >>\n")
    assert "may not use a filter (default)" in book.refused("<< derived|default('x') >>\n")


def test_a_template_that_is_no_utf8(book):
    folder = book.write("")
    (folder / "chapter.md.j2").write_bytes(b"one\ntwo \xff\n")
    code, out, err = book.run()
    assert (code, out) == (2, "")
    assert err == "chapters/06-mesh/chapter.md.j2:2: not UTF-8: byte 8 of the file\n"


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ("\nx = 1 / 0\n", ":11: ZeroDivisionError: division by zero"),
        ("\nx = (\n", "SyntaxError: '(' was never closed"),
        ("raise SystemExit('bye')\n", "SystemExit: bye"),
        ("chapter.claim('a', number(1))\n" * 2, ":11: figure a is declared already"),
        ("chapter.claim('A b', number(1))", "a figure's name is words joined by dashes"),
        ("chapter.claim('a', 1.5)", "a: expected a quantity"),
        ("chapter.claim('a', number(1), 'rond')", "unknown claim rule 'rond'; did you mean round"),
        ("chapter.require('a', number(1), '=', 2)", "unknown relation '='"),
        ("chapter.require('a', number(1, token), '<', number(1, byte))", "a: expected token"),
        ("chapter.require('a')", "a: expected left, relation, right"),
        ("chapter.shown('a', number(1), 3)", "a: expected a rule"),
        ("chapter.shown('a', number(1), integer(), cite=['SB55'])", "did you mean SB5"),
        ("chapter.table('a', ['x'], [['y', 'z']])", "table a, row 1: expected 1 cells, found 2"),
        ("chapter.table('a', ['x'], [[3]])", "a cell is text, cell(quantity, rule)"),
        ("chapter.condition('a', 'B > X')", "expected an expression"),
        ("chapter.chip('v5')", "unknown chip 'v5'"),
        (
            "Chapter('6', 'x')",
            "a chapter's number is two digits in quotes, such as \"04\", found '6'",
        ),
        ("Chapter(6, 'x')", 'a chapter\'s number is two digits in quotes, such as "04", found 6'),
        ("Chapter('06', 'x', profile='book')", "unknown profile 'book'"),
        ("Chapter('06', 'x', names=('12',))", "has letters: '12'"),
        ("chapter.shown('a', number(1), unit=[])", "expected text, found []"),
        ("cell(1, integer(), unit=float('nan'))", "expected text, found nan"),
        ("chapter.shown('a', number(1), object())", "found '<object object>'"),
        ("chapter.require('a', holds=True, because=object())", "expected text, found <object obj"),
        ("chapter.require('a', holds=True, because='x\\ny')", "'\\n' cannot be printed"),
        ("chapter.shown('a', number(1), unit='\\ue000')", "'\\ue000' cannot be printed"),
        ("chapter.table('a', ['x'], [['\\x1b']])", "'\\x1b' cannot be printed"),
        ("chapter.table('a', ['x\\ny'], [['z']])", "'\\n' cannot be printed"),
        ("Plot('t', 'x', 'y', [('a\\nb', [1], [1])])", "'\\n' cannot be printed"),
        ("chapter.holds(())", "expected 3 in a list, found ()"),
        ("chapter.holds(('a', float('nan'), 'x'))", "a: holds= takes True or False"),
        ("chapter.table('a', ['x'], [['y']] * 20_001)", "has 20,001 rows, the limit is 20,000"),
        ("chapter = 3", "declares no `chapter`"),
        ("chapter = Chapter('07', 'x')", "declares chapter 07 in the folder of 06"),
        (
            "chapter.claim('a', number(3))\nchapter.erratum('a', 'about 3', 'x', 'y')",
            "erratum of a: 'about 3' agrees",
        ),
    ],
)
def test_figures_that_raise(book, figures, message):
    error = book.refused("Prose.\n", figures)
    assert error.startswith("chapters/06-mesh/figures.py")
    assert message in error
    assert error.count("\n") == 1


def test_missing_files(book):
    folder = book.write("Prose.\n")
    (folder / "chapter.md.j2").unlink()
    assert book.run() == (2, "", "chapters/06-mesh: no chapter.md.j2\n")
    (folder / "figures.py").unlink()
    assert book.run() == (2, "", "chapters/06-mesh: no figures.py\n")


def test_figures_run_without_leaving_traces(book):
    import sys

    before = list(sys.path)
    folder = book.folder()
    book.built("Prose.\n", "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n")
    assert sorted(p.name for p in folder.iterdir()) == ["README.md", "chapter.md.j2", "figures.py"]
    assert sys.path == before
    assert not [name for name in sys.modules if "chapter_06" in name]
