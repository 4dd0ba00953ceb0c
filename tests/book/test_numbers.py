"""Numbers of tables and of plots' labels are figures; each paragraph or table shows its support."""

from __future__ import annotations

import sys

import pytest

from derive.book import cell, integer, report
from derive.book.marks import Mark, marked, parsed
from derive.book.plots import Bars, Plot
from derive.book.problems import drifted
from derive.notation.errors import DeriveError, UnknownName
from derive.notation.quantity import number

FIGURES = """
v5p, v5e = chapter.chip("tpu-v5p"), chapter.chip("tpu-v5e")
alpha, other = (evaluated(v.C / v.W, of.bindings(), name="alpha") for of in (v5p, v5e))
whole = cell(number(4, status="derived"), integer())
chapter.table(
    "chips",
    ["Chip", "Intensity", ("Mesh of ", whole)],
    [
        ["v5p", cell(alpha, integer()), (whole, " x ", whole)],
        ["slow", cell(other, integer(), unit=True), ""],
        ["slow", "none", whole],
    ],
)
"""
TEMPLATE = 'Intensities << derived >>:\n\n<< table("chips") >>\n'
PLOT = """
ways = cell(number(8), integer())
plot = Plot("T", "x", ("of ", ways, " ways"), [((ways, "-way"), [1], [2])])
chapter.plot("p", plot, alt=("A line for ", ways, " ways"))
"""


def records(book, template=TEMPLATE, figures=FIGURES):
    book.write(template, figures)
    return {record["name"]: record for record in report.figures(book.shelf)[0]}


def test_each_number_of_a_table_is_a_figure_with_its_tree_and_place(book):
    found = records(book)
    readme = book.built(TEMPLATE, FIGURES).splitlines()
    assert list(found) == [
        "chips row 0 column 3", "chips row 1 column 2", "chips row 1 column 3 number 1",
        "chips row 1 column 3 number 2", "chips row 2 column 2", "chips row 3 column 3",
    ]  # fmt: skip
    one = found["chips row 1 column 2"]
    assert (one["value"], one["kind"], one["holds"], one["formula"]) == (2550, "shown", True, "C/W")
    assert [i["symbol"] for i in one["inputs"]] == ["C", "W"]
    assert (one["row"], one["column"]) == ("v5p", "Intensity")
    assert found["chips row 3 column 3"]["column"] == "Mesh of 4"
    assert found["chips row 3 column 3"]["inputs"][0]["status"] == "derived"
    for record in found.values():
        assert record["file"] == "chapters/06-mesh/README.md"
        assert record["printed"] in readme[record["line"] - 1]


@pytest.mark.parametrize(
    "name",
    [
        "chips row 1 column 2", "chips row 1 column 2 (v5p, Intensity)", "chips v5p, Intensity",
        "chips (v5p, Intensity)",
    ],
)  # fmt: skip
def test_why_knows_a_number_of_a_table(book, name):
    records(book)
    lines = report.why(book.shelf, f"06.{name}").splitlines()
    assert lines[0] == "06.chips row 1 column 2 (v5p, Intensity)  shown  '2,550'"
    assert lines[1] == (
        "to be printed at chapters/06-mesh/README.md:7 by chapters/06-mesh/chapter.md.j2:3"
    )
    assert lines[2].startswith("alpha = C/W = 2,550") and lines[-1].startswith("[SB2] ")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        (
            "chips row 4 column 2",
            UnknownName,
            "chips has rows 1 v5p | 2 slow | 3 slow; columns 1 C",
        ),
        ("chips row 1 column 1", UnknownName, "no number '06.chips row 1 column 1'; chips has"),
        ("chips v5p, Mass", UnknownName, r"columns 1 Chip \| 2 Intensity \| 3 Mesh of 4$"),
        ("chips v5p, Mesh of 4", DeriveError, "column 3 number 1, 06.chips row 1 column 3 number"),
    ],
)
def test_a_number_that_is_not_there(book, name, kind, message):
    records(book)
    with pytest.raises(kind, match=message.replace(" | ", r" \| ")):
        report.why(book.shelf, f"06.{name}")


def test_numbers_in_labels_are_figures_and_change_no_picture(book):
    typed = Plot("T", "x", "of 8 ways", [("8-way", [1], [2])])
    ways = cell(number(8), integer())
    printed = Plot("T", "x", ("of ", ways, " ways"), [((ways, "-way"), [1], [2])])
    assert printed == typed and printed.digest == typed.digest
    bars = Bars("T", "x", [("TP", ways)], [("a", [1])])
    assert bars.digest == Bars("T", "x", ["TP8"], [("a", [1])]).digest
    found = records(book, 'Text.\n\n<< plot("p") >>\n', PLOT)
    assert list(found) == ["p label 1", "p label 2", "p label 3"]
    assert all((r["value"], r["printed"], r["line"]) == (8, "8", 5) for r in found.values())
    assert "p label 3 (8-way)  shown  '8'" in report.why(book.shelf, "06.p label 3")


@pytest.mark.parametrize(
    "plot",
    [
        'Plot("T 8", "x", "y", [("a", [1], [1])])', 'Plot("T", "x", "y", [("8-way", [1], [1])])',
        'Plot("T", "8", "y", [("a", [1], [1])])',
        'Plot("T", "x", "y", [("a", [1], [1])], vertical=[("α = 8", 1)])',
        'Plot("T", "x", "y", [("a", [1], [1])], horizontal=[(("v5p ", "8"), 1)])',
        'Bars("T", "x", ["TP8"], [("a", [1])])', 'Bars("T", "x", ["v5p"], [("8", [1])])',
    ],
)  # fmt: skip
def test_a_digit_typed_in_a_label_is_refused(book, plot):
    figures = f'\nplot = {plot}\nchapter.plot("p", plot, alt="v5p")'
    error = book.refused('<< plot("p") >>\n', figures)
    lines = (book.folder() / "figures.py").read_text().splitlines()
    assert error.startswith(f"chapters/06-mesh/figures.py:{len(lines)}: plot p: the number '")


def test_a_digit_typed_in_an_alternative_text_is_refused(book):
    plot = 'Plot("T", "x", "y", [("v5p", [1], [1])])'
    error = book.refused('<< plot("p") >>\n', f'chapter.plot("p", {plot}, alt="of 8")')
    assert "the number '8' is typed in 'of 8'" in error


TABLE = 'chapter.table("t", "A", [[cell(number(2), integer())]])\nchapter.given("g", number(3))'
GIVEN = '<< given("g", "3") >>'


@pytest.mark.parametrize(
    ("template", "supported"),
    [
        (f'<< table("t") >>\n\nAs {GIVEN} << derived >>.\n', True),
        (f'As {GIVEN} << cite("SB5") >>:\n\n<< table("t") >>\n\n<< sources() >>\n', True),
        (f'As {GIVEN} << derived >>.\n\nMore:\n\n<< table("t") >>\n', False),
        (f'As {GIVEN} << derived >>.\n\n# A\n\n<< table("t") >>\n', False),
        (f'- As {GIVEN} << derived >>.\n\n<!-- a list -->\n\n<< table("t") >>\n', False),
        (f'As {GIVEN}.\n\n<< table("t") >>\n\nSo << derived >>.\n', False),
    ],
)
def test_a_table_and_a_given_need_support(book, template, supported):
    if supported:
        book.built(template, TABLE)
    else:
        assert "without a citation or the mark derived" in book.refused(template, TABLE)


UNTRUE = """
chapter.claim("least", number(113), "round")
chapter.given("memory", number(96))
chapter.require("fits", number(3), "<", 4)
chapter.shown("x", number(2550))
"""
TOLD = """It takes << claim("least", "about {least}") >> << derived >>.

It has << given("memory", "{memory}") >> and << require("fits", "fits") >> << derived >>.

Then << show("x") >> << derived >>.
"""


@pytest.mark.parametrize(
    ("template", "figures", "told"),
    [
        (TOLD.format(least=131, memory=96), UNTRUE, "j2:1  least  printed about 131  derived"),
        (TOLD.format(least=113, memory=95), UNTRUE, "j2:3  memory  printed 95  derived 96"),
        (
            TOLD.format(least=113, memory=96), UNTRUE.replace('3), "<"', '5), "<"'),
            "j2:3  fits  printed fits  derived 5 >= 4",
        ),
    ],
)  # fmt: skip
def test_untrue_words_are_told_once_and_the_rest_is_compared(book, template, figures, told):
    book.built(TOLD.format(least=113, memory=96), UNTRUE)
    readme = book.folder() / "README.md"
    book.write(template, figures)
    code, out, err = book.run("--check")
    assert (code, err) == (1, "") and told in out.splitlines()[0]
    assert out.count("\n") == 2 and "README.md" not in out
    readme.write_text(readme.read_text().replace("2,550", "2,551"))
    out = book.run("--check")[1]
    assert told in out and "README.md:7  x  printed 2,551  derived 2,550\n" in out
    changed = [line for line in out.splitlines() if line[0] in "+-" and line[:3] not in "+++---"]
    assert [line[:6] for line in changed] == ["-Then ", "+Then "]


OTHER = """
chapter.condition("c", threshold(strategies.fsdp_tensor, v.B / v.N))
chapter.formula("f", v.C / v.W)
"""
BLOCKS = f"""{TEMPLATE}
<< condition("c", "A reading.") >>

It is << formula("f") >> here.

<< notation() >>
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("A reading.", "Another reading.", "condition 6.1  changed"),
        (r"\geq", r"\leq", "condition 6.1  changed"),
        (r"$`\frac{C}{W}`$ here", r"$`\frac{W}{C}`$ here", "formula f  changed"),
        ("here.", "there.", "prose  changed"),
        ("Intensities", "Numbers", "prose  changed"),
        ("| slow | none", "| slew | none", "table chips row 3  changed"),
    ],
)
def test_what_is_no_figure_has_a_line_too(book, old, new, told):
    good = book.built(BLOCKS, FIGURES + OTHER)
    (book.folder() / "README.md").write_text(good.replace(old, new))
    _, out, _ = book.run("--check")
    lines = [line for line in out.splitlines() if line.startswith("chapters/")]
    number = good[: good.index(old)].count("\n") + 1
    assert lines == [f"chapters/06-mesh/README.md:{number}  {told}"]


def test_rows_that_are_missing_or_left_over_have_a_line(book):
    good = book.built(BLOCKS, FIGURES + OTHER)
    row = next(line for line in good.splitlines(keepends=True) if "| none" in line)
    readme = book.folder() / "README.md"
    for text, told in ((good.replace(row, ""), "row 3  missing"), (good.replace(row, row * 2), "")):
        readme.write_text(text)
        lines = [x for x in book.run("--check")[1].splitlines() if x.startswith("chapters/")]
        assert (
            len(lines) == 1
            and f"  table chips{' ' * bool(told)}{told or '  left over'}" in lines[0]
        )


def test_one_change_on_a_dense_line_is_one_line(book):
    figures = "".join(f'chapter.require("r{n}", holds=True, because="so")\n' for n in range(6))
    words = [
        "clears the condition",
        "clears",
        "just clears",
        "the condition",
        "more",
        "most of all",
    ]
    marks = " ".join(f'<< require("r{n}", "{word}") >>' for n, word in enumerate(words))
    good = book.built(f"So {marks}.\n", figures)
    for n, word in enumerate(words):
        start = good.index(" ".join(words)) + len(" ".join([*words[:n], ""]))
        (book.folder() / "README.md").write_text(f"{good[:start]}is{good[start + len(word) :]}")
        _, out, _ = book.run("--check")
        lines = [line for line in out.splitlines() if "  printed " in line]
        assert lines == [f"chapters/06-mesh/README.md:3  r{n}  printed is  derived {word}"]


def test_comparing_a_longer_table_takes_steps_in_proportion():
    def table(rows):
        cells = (marked(n, f"{n * n:>14,}") for n in range(rows))
        return parsed("".join(f"| {text} | x |\n" for text in cells), MARKS[:rows])

    def steps(new):
        lines, count = new.text.split("\n"), 0
        lines[len(lines) // 2] = "| 12,345,678,901,234 | x |"

        def counted(frame, event, argument):
            nonlocal count
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            count += event == "opcode"
            return counted

        before = sys.gettrace()
        sys.settrace(counted)
        try:
            one, none = drifted("\n".join(lines), new, ""), drifted(new.text, new, "")
        finally:
            sys.settrace(before)
        assert len(one[0]) == 1 and none[0] == ()
        return count

    assert 10_000 < steps(table(800)) < 2.1 * steps(table(400))


MARKS = [Mark("cell", f"t row {n} column 1") for n in range(800)]
