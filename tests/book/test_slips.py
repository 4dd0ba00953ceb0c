"""Slips in templates: one line with the file, the line and the way out, and no harm."""

from __future__ import annotations

import time

import pytest

PLACE = "chapters/06-mesh/chapter.md.j2"
FIGURES = "chapter.shown('alpha', number(12), integer())\n"
PRINTED = '<< show("alpha") >><< derived >>\n'
AS_TEXT = "a << that is text is written << '<<' >>, or stands between <% raw %> and <% endraw %>"
FUNCTIONS = ("show", "cite", "claim", "sources", "ref")


def line(book, typed: str) -> str:
    """What is said of a slip in the third line of a template, without the place."""
    error = book.refused(f"{PRINTED}\n{typed}\n", FIGURES)
    said = error.removesuffix("\n").removeprefix(f"{PLACE}:3: ")
    assert said != error.removesuffix("\n"), error
    assert "\n" not in said, error
    assert "0x" not in said and "object at" not in said
    return said


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "typed",
    [
        "<< {0} >>", "<< {0} ~ 'x' >>", "<% set f = {0} %>",
        "<% if {0} %>x<% endif %>", "<% for f in [{0}] %><< f >><% endfor %>",
        "<< show({0}) >>",
    ],
)  # fmt: skip
def test_a_function_is_called_or_nothing(book, name, typed):
    assert line(book, typed.format(name)) == (f"{name} is a function: write {name}(...)")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("<< show(true) >>", "show: expected text as name, found True"),
        ("<< show(none) >>", "show: expected text as name, found None"),
        ("<< show(['alpha']) >>", "show: expected text as name, found ['alpha']"),
        ("<< show('alpha', 'no') >>", "show: expected true or false as unit, found 'no'"),
        ("<< show('alpha', unit=none) >>", "show: expected true or false as unit, found None"),
        ("<< show('alpha', units=true) >>", "show: got an unexpected keyword argument 'units'"),
        ("<< show('alpha', unit=true, unit=true) >>", "a template may not use an argument twice"),
        ("<< show(*['alpha']) >>", "a template may not use a star before an argument"),
        ("<< show(*'alpha') >>", "a template may not use a star before an argument"),
        ("<< 'a'('b') >>", "a template may not use a call of anything but the chapter's functions"),
        ("<< show('alpha')('b') >>", "a template may not use a call of anything but the chapter's"),
        ("<< derived() >>", "derived is no function: write it without (...)"),
        ("<% set a = 'b' %><< a() >>", "a is no function: write it without (...)"),
        ("<< true >>", "expected text, found True"),
        ("<< none >>", "expected text, found None"),
        ("<< 'a' == 'b' >>", "expected text, found False"),
        ("<< ['a'] >>", "expected text, found a list"),
        ("<< ('a', 'b') >>", "expected text, found a list"),
        ("<< 'a' ~ true >>", "expected text, found True"),
        ("<< 'a' ~ ['b'] >>", "expected text, found a list"),
        ("<% if false %><% set a = 'b' %><% endif %><< a >>", "'a' is undefined"),
        ("<% if false %><% set a = 'b' %><% endif %><< 'x' ~ a >>", "'a' is undefined"),
        ("<% for b in 'abc' %><< b >><% endfor %>", "expected a list, found text"),
        ("<% for b in true %>x<% endfor %>", "expected a list, found True"),
        ("<% for b in show('alpha') %><< b >><% endfor %>", "expected a list, found text"),
        ("<% if 'a' < true %>x<% endif %>", "'<' not supported between"),
        ("<% if 'a' < 1 %>x<% endif %>", "a template may not use a number"),
        ("<< 1e400 ~ 'x' >>", "a template may not use a number"),
        ("<% if 1e400 %>x<% endif %>", "a template may not use a number"),
        ("<< 12 >>", "a template may not use a number"),
        ("<< show(12) >>", "a template may not use a number"),
        ("<% autoescape true %>x<% endautoescape %>", "a template may not use autoescape"),
        ("<% with a = 'b' %>x<% endwith %>", "a template may not use with"),
        ("<% call show('alpha') %>x<% endcall %>", "a template may not use a call block"),
        ("<% set a %>x<% endset %>", "a template may not use set around text"),
        ("<% set show = 'x' %>", "show cannot be set"),
        ("<< sources() >>\n<< sources() >>", ""),
        ("<< 'a >>", "unexpected char"),
        ('<< show("alpha" >>', "<< show: expected ) before >>"),
        ('<< show("alpha") >\nLlama', "<< show: expected >> after it"),
        ('<< show("alpha") > is it\'s << show("alpha") >>', "<< show: expected >> after it"),
        ('<< show("alpha" >> and << show("alpha") >>', "<< show: expected ) before >>"),
        ('<< show("alpha"\n\nText.', "<< show: expected >> after it"),
        ('<< show("alpha) >>', '<< show: expected the quote that closes "'),
        ('<< show("alpha") >> then << show("alpha",, unit=false) >>', "unexpected ','"),
        ("<< alpha >>", "unknown name 'alpha'"),
        ("<< self >>", "unknown name 'self'"),
        ("<% for a in ['b'] %><< loop >><% endfor %>", "unknown name 'loop'"),
        ("<% if %>", "Expected an expression"),
    ],
)  # fmt: skip
def test_a_slip_is_one_line(book, typed, said):
    if typed.count("sources"):
        error = book.refused(f"{PRINTED}\n{typed}\n", FIGURES)
        assert error == f"{PLACE}:4: sources() is printed twice\n"
    else:
        assert line(book, typed).startswith(said)


@pytest.mark.parametrize("character", [
    "\\ue000", "\\ue003", "\\ue012", "\\ue02f", "\\ud800", "\\udfff", "\\0", "\\x1b", "\\r",
    "\\x85", "\\u2028", "\\ufeff",
])  # fmt: skip
def test_no_literal_makes_what_a_mark_is_made_of(book, character):
    """Marks forged through escapes would hide a bare number from the lint."""
    shown = ascii(character.encode().decode("unicode-escape"))
    for typed in (f"<< 'a{character}b' >>", f'<< claim("alpha", "{character}x12") >>'):
        assert line(book, typed) == f"a template may not use the character {shown}"


def test_forged_marks_hide_nothing(book):
    forged = r"<< '\ue000\ue010\ue001' >>2,550<< '\ue002' >>"
    assert "may not use the character" in book.refused(f"{PRINTED}\n{forged}\n", FIGURES)
    halves = r"<< '\ue0' ~ '00' >>"
    assert "truncated" in book.refused(f"{PRINTED}\n{halves}\n", FIGURES)


@pytest.mark.parametrize("where", ["alt='\\ud800'", "caption"])
def test_halves_of_characters_in_figures(book, where):
    figures = (
        'chapter.plot("p", Plot("t", "x", "y", [("a", [1, 2], [1, 2])]), alt="\\ud800")'
        if where != "caption"
        else 'chapter.table("t", ["a"], [["\\ud800"]])'
    )
    name = "plot('p')" if where != "caption" else "table('t')"
    error = book.refused(f"<< {name} >>\n", figures)
    assert error.startswith("chapters/06-mesh/") and error.count("\n") == 1


@pytest.mark.parametrize("character", ["\0", "\x1b", "\x0b", "\x85", "\u2028", "a\ufeff"])
def test_characters_that_no_reader_sees(book, character):
    assert line(book, f"a {character}") == (f"the character {character[-1]!a} cannot be printed")


def test_what_editors_leave_is_no_slip(book):
    text = book.built("\ufeff# A\r\n\r\n<<\tshow('alpha')\t>><< derived >>\rend\r\n", FIGURES)
    assert text.endswith("# A\n\n12<sup>derived</sup>\nend\n")


@pytest.mark.parametrize(
    "typed",
    [
        "cat << EOF\ntext of it\nEOF", "cat <<EOF > file\ntext\nEOF", "x = 1 << 20", "x = 1 << n",
        "cat << EOF >> file", "x = 1 << 20 >> 3", "cout << x << 'y';", "cat << 'EOF'\ntext of it",
        "a << b", "<<EOF",
    ],
)  # fmt: skip
def test_code_with_two_angles(book, typed):
    error = book.refused(f"{PRINTED}```\n{typed}\n```\n", FIGURES)
    assert error.startswith(f"{PLACE}:3: ") and error.count("\n") == 1, error
    assert error.endswith(f"; {AS_TEXT}\n")
    fence = f"{PRINTED}\n<% raw %>\n```\n{typed}\n```\n<% endraw %>\n"
    assert f"```\n{typed}\n```\n" in book.built(fence, FIGURES)
    angles = typed.replace("<<", "<< '<<' >>")
    assert f"```\n{typed}\n```\n" in book.built(f"{PRINTED}\n```\n{angles}\n```\n", FIGURES)


@pytest.mark.parametrize("marker", ["<<<<<<< HEAD", ">>>>>>> branch"])
def test_merge_markers(book, marker):
    assert line(book, marker) == f"a merge marker: '{marker}'"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ('{{ show("alpha") }}', "'{{ show' is text here: write << show ... >>"),
        ("{{- cite( 'key' ) }}", "'{{- cite' is text here"),
        ("{% if x %}", "'{% if' is text here: write <% if ... %>"),
        ("{%- for x in y %}", "'{%- for' is text here"),
    ],
)
def test_the_usual_delimiters_of_jinja(book, typed, said):
    assert line(book, typed).startswith(said)
    opened = typed.replace(typed[:2], f"<< '{typed[:2]}' >>")
    assert typed in book.built(f"{PRINTED}\n{opened}\n", FIGURES)


@pytest.mark.parametrize("typed", ["$`\\frac{{a}}{{b}}`$", "`${{ github.ref }}`", "$`x_{{show}}`$"])
def test_braces_of_formulas_are_no_slip(book, typed):
    assert typed.strip("$`") in book.built(f"{PRINTED}\n{typed}\n", FIGURES)


def loops(depth: int, items: int, body: str = "") -> str:
    listed = ", ".join(["'a'"] * items)
    opened = "".join(f"<% for x{n} in [{listed}] %>" for n in range(depth))
    return opened + body + "<% endfor %>" * depth


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (loops(21, 1), "loops and choices nested too deeply"),
        (loops(11, 2), "loops and choices nested too deeply"),
        ("<% if 'a' %>" * 40 + "<% endif %>" * 40, "loops and choices nested too deeply"),
        (loops(8, 10), "more than 10,000 passes of loops"),
        (loops(8, 10, "x"), "more than 10,000 passes of loops"),
        (loops(4, 10, "<< show('alpha') >>"), "more than 10,000 passes of loops"),
        (
            "<% set a = ['b', 'b', 'b', 'b', 'b', 'b', 'b'] %>"
            "<% set c = [a, a, a, a, a, a, a] %>" + loops(5, 7).replace("'a', 'a'", "c, c"),
            "more than 10,000 passes of loops",
        ),
        (loops(2, 90, "x" * 1000), "a chapter of more than 2,000,000 characters"),
        (
            "<% set a0 = 'abcdefgh' %>"
            + "".join(f"<% set a{n + 1} = a{n} ~ a{n} %>" for n in range(40))
            + "<< a40 >>",
            "a text of more than 2,000,000 characters",
        ),
        (loops(4, 9, "<< sources() >>"), "sources() is printed twice"),
    ],
)  # fmt: skip
def test_what_a_rendering_may_take(book, typed, said):
    error = None
    start = time.process_time()
    error = book.refused(f"{PRINTED}\n{typed}\n", FIGURES).splitlines()
    assert time.process_time() - start < 10, "a bound that is met while rendering"
    assert error[0] == f"{PLACE}:3: {said}"
    assert len(error) == 1 or said.startswith("sources")


def test_a_number_that_python_does_not_read(book):
    error = book.refused(f"{PRINTED}\n<< {'9' * 5000} >>\n", FIGURES)
    assert error.startswith(f"{PLACE}") and error.count("\n") == 1
    assert len(error) < 300


def test_ordinary_loops_and_choices_work(book):
    template = (
        "<% set items = ['a', 'b'] %>\n<% for x in items if x != 'b' %>\n<% for y in items %>\n"
        "- << x ~ y ~ 'z' >>\n<% endfor %>\n<% else %>\nnone\n<% endfor %>\n"
        "<< 'yes' if 'a' in items else 'no' >>\n"
    )
    text = book.built(f"{PRINTED}\n{template}", FIGURES)
    assert "- aaz\n- abz\nyes\n" in text


def test_a_wide_cell_takes_no_longer_than_its_text(book):
    """The header above it is padded to its width."""
    began = time.process_time()
    built = book.built("<< table('t') >>\n", "chapter.table('t', ['x'], [['y' * 200_000]])")
    assert "y" * 200_000 in built
    assert time.process_time() - began < 20
