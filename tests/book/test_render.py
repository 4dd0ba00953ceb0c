"""What a chapter prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derive.book.figures import RELATIONS, Figure, compared
from derive.notation.errors import UnitError
from derive.notation.quantity import number
from derive.notation.units import byte, chip, sequence, token

ALPHA = """
alpha = evaluated(v.C / v.W, chapter.chip("tpu-v5p").bindings(), name="alpha")
chapter.shown("alpha", alpha, integer())
"""
HEAD = (
    "<!-- Made from chapter.md.j2 and figures.py by: python build.py 06 "
    "(edit those, not this file) -->\n\n"
)


def test_first_line_names_source_and_command(book):
    assert book.built("# A\n\nProse.\n") == HEAD + "# A\n\nProse.\n"


def test_shown_figure_with_and_without_unit(book):
    text = book.built(
        '<< show("alpha") >> or << show("alpha", unit=False) >>, << derived >>.\n', ALPHA
    )
    assert text == HEAD + "2,550\u00a0FLOP per byte or 2,550, <sup>derived</sup>.\n"


def test_unit_words_replace_the_unit(book):
    figures = 'chapter.shown("x", number(3000, token), si(1), unit="tokens a day")'
    assert "3k\u00a0tokens a day" in book.built('<< show("x") >> << derived >>\n', figures)


def test_output_has_one_final_newline_and_no_trailing_space(book):
    text = book.built('Prose  \n\n- << show("alpha") >>  << derived >> \n\n\n', ALPHA)
    assert text.endswith("<sup>derived</sup>\n")
    assert not any(line != line.rstrip() for line in text.split("\n"))


def test_crlf_template_and_bom(book):
    folder = book.write("")
    (folder / "chapter.md.j2").write_bytes(b"\xef\xbb\xbf# A\r\n\r\nProse\r\n")
    assert book.run()[0] == 0
    assert (folder / "README.md").read_bytes() == HEAD.encode() + b"# A\n\nProse\n"


def test_condition_is_numbered_and_referred_to(book):
    figures = """
chapter.condition("first", v.B >= v.X)
chapter.condition("second", threshold(strategies.fsdp, v.B / v.X), label="FSDP")
"""
    template = (
        '<< condition("first", "The batch is not smaller than X.") >>\n\n'
        '<< condition("second", "The batch per chip must exceed the intensity.") >>\n\n'
        'See << ref("second") >>.\n'
    )
    text = book.built(template, figures)
    assert '<a id="condition-6-1"></a>\n\n```math\nB \\geq X\n```\n\n**(6.1)** The batch' in text
    assert "**(6.2)** *FSDP.* The batch per chip" in text
    assert "See [6.2](#condition-6-2)." in text


def test_figure_inside_a_reading_is_checked(book):
    figures = ALPHA + 'chapter.condition("first", v.B >= v.X)\n'
    template = '<< condition("first", "At least " ~ show("alpha") ~ " " ~ derived ~ ".") >>\n'
    assert "At least 2,550\u00a0FLOP per byte <sup>derived</sup>." in book.built(template, figures)
    bare = '<< condition("first", "At least 2,550.") >>\n<# << show("alpha") >> #>\n'
    assert "'2,550' is typed in prose" in book.refused(
        bare, 'chapter.condition("first", v.B >= v.X)\n'
    )


def test_formula_and_math_cell(book):
    figures = """
chapter.formula("alpha", v.C / v.W)
chapter.table("t", ["Chip", math(v.alpha)], [["v5p", cell(number(2550), integer())]])
"""
    text = book.built('Let << formula("alpha") >>. << derived >>\n\n<< table("t") >>\n', figures)
    assert "Let $`\\frac{C}{W}`$." in text
    assert "| Chip | $`\\alpha`$ |\n|:-----|-----------:|\n| v5p  |      2,550 |" in text


def test_table_is_aligned_by_display_width(book):
    figures = 'chapter.table("t", ["a", "b"], [["日本", "x|y"], ["c", "d"]])'
    text = book.built('<< table("t") >>\n', figures)
    assert "| a    | b    |\n|:-----|:-----|\n| 日本 | x\\|y |\n| c    | d    |\n" in text


def test_table_cell_of_parts_and_units(book):
    figures = """
chapter.table("t", ["mesh"], [[(cell(number(8), integer()), " x ", cell(number(4), integer()))],
    [cell(number(3, token), integer(), unit=True)]])
"""
    text = book.built('<< derived >>\n\n<< table("t") >>\n', figures)
    assert "| 8 x 4" in text and "| 3\u00a0tokens" in text


def test_derivation_is_proved(book):
    figures = """
from derive.solve.derivation import steps
chapter.derivation("d", steps(strategies.fsdp, v.B / v.X))
"""
    text = book.built('<< derivation("d") >>\n', figures)
    assert "**1.** " in text and "```math" in text
    wrong = figures.replace(
        'chapter.derivation("d", steps(strategies.fsdp, v.B / v.X))',
        "made = steps(strategies.fsdp, v.B / v.X)\n"
        'chapter.derivation("d", [*made[:-1], made[-1].with_claim(v.B / v.X >= 2 * v.alpha)])',
    )
    assert "chapter.md.j2:1: d, step" in book.refused('<< derivation("d") >>\n', wrong)


def test_sources_are_those_cited_and_their_anchors_resolve(book):
    text = book.built(
        '<< cite("SB6") >> << cite("SB5", "§3.4") >>\n\n## Sources\n\n<< sources() >>\n'
    )
    assert "[[SB6](#sb6)] [[SB5](#sb5), §3.4]" in text
    listed = [line for line in text.split("\n") if line.startswith("- <a id=")]
    assert [line[:14] for line in listed] == ['- <a id="sb5">', '- <a id="sb6">']


def test_a_source_that_a_figure_cites_is_listed(book):
    figures = 'chapter.shown("x", number(1), integer(), cite=("SB6",))'
    text = book.built('<< show("x") >> << derived >>\n\n<< sources() >>\n', figures)
    assert '- <a id="sb6"></a>**SB6**: ' in text


def test_errata_and_overrides(book):
    figures = """
chip = chapter.chip("tpu-v5p", override={"memory": number(96 * 10**9, byte)})
chapter.claim("limit", number("9.6"), "floor")
chapter.erratum("limit", "about 8", "rounded twice", "§5, last line")
"""
    text = book.built(
        '<< claim("limit", "at most 9") >> << derived >>\n\n<< errata() >>\n\n<< overrides() >>\n\n'
        "<< sources() >>\n",
        figures,
    )
    assert "| §5, last line | about 8 | at most 9 | rounded twice |" in text
    assert "| memory | 96" in " ".join(text.split())


def test_notation_lists_the_symbols_of_the_formulas(book):
    figures = 'chapter.formula("f", v.C / v.W_dcn)'
    text = book.built('<< formula("f") >> and $`X`$\n\n<< notation() >>\n', figures)
    symbols = [line.split("|")[1].strip() for line in text.split("\n") if line.startswith("| $")]
    assert symbols == ["$`X`$", "$`C`$", "$`W_{\\text{dcn}}`$"]


def test_loop_over_names(book):
    figures = 'for n in (1, 2):\n    chapter.shown(f"n-{n}", number(n), integer())\n'
    template = '<% for name in ["n-1", "n-2"] %>\n- << show(name) >> << derived >>\n<% endfor %>\n'
    assert "- 1 <sup>derived</sup>\n- 2 <sup>derived</sup>\n" in book.built(template, figures)


@pytest.mark.parametrize(
    ("words", "rule", "value", "holds"),
    [
        ("about 113 tokens", "round", "113.4", True),
        ("about 114 tokens", "round", "113.4", False),
        ("at most about 9B", "floor", "9.6e9", True),
        ("about 10B", "floor", "9.6e9", False),
        ("roughly an eighth", "unit_fraction", "0.133", True),
        ("about 2x", "times", "2.2", True),
        ("comes 5th", "rank", "4", False),
    ],
)
def test_claims_are_checked_by_their_rule(book, words, rule, value, holds):
    words = words.removeprefix("comes ")
    unit = "token" if "tokens" in words else "one"
    figures = f'chapter.claim("c", number("{value}", {unit}), "{rule}")'
    template = f'One.\n\n<< claim("c", "{words}") >> << derived >>\n'
    if holds:
        assert f"{words} <sup>" in book.built(template, figures)
    else:
        error = book.refused(template, figures)
        assert error.startswith("chapters/06-mesh/chapter.md.j2:3: c is ")
        assert f"'{words}' does not hold by rule {rule}" in error


def test_sequences_are_not_tokens(book):
    figures = 'chapter.claim("c", number(113, token / chip))'
    error = book.refused('<< claim("c", "about 113 sequences per chip") >>\n', figures)
    assert ":1: c counts tokens per chip; 'about 113 sequences per chip' counts sequences" in error
    assert "113 tokens on" in book.built(
        '<< claim("c", "113 tokens") >> on a chip << derived >>\n', figures
    )


@pytest.mark.parametrize(
    ("relation", "holds"), [("<", True), (">", False), ("==", False), ("!=", True), (">=", False)]
)
def test_requires(book, relation, holds):
    figures = f'chapter.require("r", number(3, token), "{relation}", number(4, token))'
    template = '<< require("r", "just clears") >>\n'
    if holds:
        assert "just clears" in book.built(template, figures)
    else:
        error = book.refused(template, figures)
        other = {">": "<=", "==": "!=", ">=": "<"}[relation]
        assert f"r does not hold, it is 3 tokens {other} 4 tokens" in error


@pytest.mark.parametrize(
    ("relation", "holds"), [(">=", True), ("<=", True), ("==", True), ("<", False), (">", False)]
)
def test_requires_of_equals(book, relation, holds):
    figures = f'chapter.require("r", number(3), "{relation}", 3)'
    book.write('<< require("r", "so") >>\n', figures)
    assert book.run()[0] == (0 if holds else 2)


@given(st.sampled_from(sorted(RELATIONS)), st.integers(0, 3), st.integers(0, 3))
def test_either_a_relation_holds_or_the_one_that_is_told_instead(sign, left, right):
    sides = compared("r", left, sign, right)
    told = Figure("r", "require", sides.left, relation=sides).restated("so").split()
    assert (told[0], told[2]) == (str(left), str(right))
    assert compared("r", left, told[1], right).holds is not sides.holds


@pytest.mark.parametrize("other", [sequence, chip, token / chip, byte])
def test_what_is_compared_counts_the_same(other):
    with pytest.raises(UnitError, match=f"r: expected token, found {other}"):
        compared("r", number(4, token), ">", number(5, other))
    assert compared("r", number(4, token), "<", number(5, token)).holds
    assert compared("r", 5, ">", number(4, token)).left.unit == token


def test_require_compares_exactly_what_prints_alike(book):
    figures = 'chapter.require("r", number("1.00000001"), "<", number(1))'
    assert "1.00000001 >= 1" in book.refused('<< require("r", "less") >>\n', figures)


def test_stated_requirement(book):
    figures = 'chapter.require("r", holds={}, because="the two orders differ")'
    template = '<< require("r", "in the same order") >>\n'
    assert "in the same order" in book.built(template, figures.format("True"))
    assert "r does not hold: the two orders differ" in book.refused(
        template, figures.format("False")
    )


@pytest.mark.parametrize(
    ("value", "words", "holds"),
    [
        ("4194304", "4,194,304 tokens", True),
        ("4194304", "4M tokens", False),
        ("4000000", "4M tokens", True),
        ("1/3", "0.33", True),
        ("1/3", "0.34", False),
    ],
)
def test_givens_equal_their_words(book, value, words, holds):
    from fractions import Fraction

    unit = "token" if "tokens" in words else "one"
    given = f'chapter.given("g", number({Fraction(value)!r}, {unit}))'
    figures = f"from fractions import Fraction\n{given}"
    template = f'<< given("g", "{words}") >> << derived >>\n'
    if holds:
        assert words in book.built(template, figures)
    else:
        assert "does not hold" in book.refused(template, figures)


BOUND = """
from derive.book import cell
from derive.cost.strategies import fsdp
from derive.solve.threshold import threshold
v5p = chapter.chip("tpu-v5p")
most = threshold(fsdp, v.N).on(v5p, B=4194304)  # at most 1,644.8 chips
least = threshold(fsdp, v.B).on(v5p, X=3, M_X=2)  # at least 3,825 tokens
odd = threshold(fsdp, v.B / v.X).on(chapter.chip("tpu-v5e"), M_X=2)  # at least 1,094.4
for name, limit in (("most", most), ("least", least), ("odd", odd)):
    chapter.shown(name, limit)
    chapter.shown(f"{name}-1", limit, decimals(1))
chapter.claim("words", most)
chapter.table("t", "A | B", [[cell(most, integer()), cell(odd.quantity, significant(3))]])
"""


def test_a_bound_is_printed_on_its_side_wherever_a_chapter_prints_it(book):
    shown = " ".join(f'<< show("{n}", unit=False) >> << show("{n}-1") >>;' for n in NAMES)
    words = '<< claim("words", WORDS) >> << derived >>\n\n<< table("t") >>\n'
    template = f"{shown} << derived >> {words}"
    text = book.built(template.replace("WORDS", '"1,644"'), BOUND).replace("\u00a0", " ")
    assert "1,644 1,644.8 chips; 3,825 3,825.0 tokens; 1,095 1,094.5 tokens per chip;" in text
    assert "| 1,644 | 1,100 |" in " ".join(text.split())
    book.built(template.replace("WORDS", '"about 1,645"'), BOUND)
    book.built(template.replace("WORDS", '"at most 1,644"'), BOUND)
    for wrong, right in (("1,645", "1,644"), ("at most 1,645", "at most 1,644")):
        told = book.refused(template.replace("WORDS", f'"{wrong}"'), BOUND)
        assert f"it would be '{right}'" in told


NAMES = ("most", "least", "odd")
