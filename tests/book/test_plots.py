"""Plots: the value, its digest, and when a file is drawn."""

from __future__ import annotations

import pytest

from derive.book import drawing
from derive.book.plots import Bars, Plot, is_current, signed
from derive.notation.errors import DeriveError
from derive.notation.quantity import number

DECLARED = 'chapter.plot("p", Plot("Title", "x", "y", [("a", [1, 2], {ys})]), alt="A line")'
TEMPLATE = '<< plot("p") >>\n'


def plot(**changes):
    values = {"title": "t", "x": "x", "y": "y", "series": [("a", [1, 2], [3, 4])], **changes}
    return Plot(**values)


@pytest.fixture
def drawn(monkeypatch):
    """Drawing without matplotlib; the list of what was drawn."""
    made = []

    def draw(value):
        made.append(value)
        return signed(value, b"<?xml?>\n<svg>" + value.title.encode() + b"</svg>\n")

    monkeypatch.setattr(drawing, "draw", draw)
    return made


def test_data_are_rounded_so_that_digests_agree_between_machines():
    third = plot(series=[("a", [1, 2], [1 / 3, 0.1 + 0.2])])
    assert third == plot(series=[("a", (1.0, 2.0), (0.333333333, 0.3))])
    assert third.digest == plot(series=[("a", [1, 2], [0.33333301, 0.3])]).digest
    assert third.digest == "292d6dc92e11b3c2e6e8f767c203d65e423efa8fc63f8cf43c624e5b110bc541"


@pytest.mark.parametrize(
    "change",
    [
        {"title": "u"}, {"x": "u"}, {"y": "u"}, {"log_x": True}, {"log_y": True},
        {"series": [("b", [1, 2], [3, 4])]}, {"series": [("a", [1, 2], [3, 5])]},
        {"vertical": [("v", 1)]}, {"horizontal": [("v", 1)]}, {"points": [("p", [1], [3])]},
    ],
)  # fmt: skip
def test_everything_that_is_shown_is_in_the_digest(change):
    assert plot(**change).digest != plot().digest


def test_quantities_can_be_plotted():
    assert plot(vertical=[("v", number("2.5"))]).vertical[0].at == 2.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"series": []}, "plot 't' has no series"),
        ({"series": [("a", [1], [1, 2])]}, "1 x values and 2 y values"),
        ({"series": [("a", [], [])]}, "0 x values"),
        ({"series": [("a", [1], [float("nan")])]}, "expected a finite number, found nan"),
        ({"series": [("a", [1], ["x"])]}, "expected a number, found 'x'"),
        ({"series": [("a", [1, 2], [10**400, 1])]}, "expected a number"),
        ({"series": None}, "series: expected a list, found None"),
        ({"log_x": True, "series": [("a", [0], [1])]}, "expected a positive finite number"),
        ({"log_y": True, "horizontal": [("h", -1)]}, "expected a positive finite number"),
    ],
)
def test_bad_data(change, message):
    with pytest.raises(DeriveError, match=message):
        plot(**change)


def test_a_plot_is_frozen():
    with pytest.raises(AttributeError):
        plot().title = "u"


def test_a_file_is_current_only_as_it_was_drawn():
    file = signed(plot(), b"<?xml?>\n<svg/>\n")
    assert is_current(plot(), file)
    assert not is_current(plot(title="u"), file)
    assert not is_current(plot(), file.replace(b"<svg/>", b"<svg />"))
    assert not is_current(plot(), file[:-3])
    assert not is_current(plot(), b"<?xml?>\n<svg/>\n")
    assert not is_current(plot(), None)


def test_only_changed_plots_are_drawn(book, drawn):
    text = book.built(TEMPLATE, DECLARED.format(ys=[1, 2]))
    assert "![A line](p.svg)" in text
    assert len(drawn) == 1
    before = book.files()
    assert book.run() == (0, "06-mesh: unchanged\n", "")
    assert len(drawn) == 1 and book.files() == before
    book.write(TEMPLATE, DECLARED.format(ys=[1, 3]))
    assert book.run() == (0, "06-mesh: wrote p.svg\n", "")
    assert len(drawn) == 2


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(path.read_bytes() + b" "), "was edited after it was drawn"),
        (lambda path: path.write_bytes(b"<svg/>"), "shows other data than figures.py declares"),
    ],
)
def test_check_tells_what_is_wrong_with_a_plot(book, drawn, change, why):
    book.built(TEMPLATE, DECLARED.format(ys=[1, 2]))
    change(book.folder() / "p.svg")
    before = book.files()
    code, out, err = book.run("--check")
    assert (code, err) == (1, "")
    assert out == f"chapters/06-mesh/p.svg  {why}\nrun: python build.py\n"
    assert book.files() == before and len(drawn) == 1
    assert book.run()[0] == 0
    assert book.run("--check")[0] == 0


def test_drawing_fails_and_nothing_is_written(book, monkeypatch):
    def draw(value):
        raise DeriveError("no ink")

    monkeypatch.setattr(drawing, "draw", draw)
    assert book.refused(TEMPLATE, DECLARED.format(ys=[1, 2])) == "derive: no ink\n"


@pytest.mark.parametrize(
    ("value", "label"),
    [(0.01, "0.01"), (1.0, "1"), (1000000.0, "1,000,000"), (-5.0, "\u22125"), (0.1 + 0.2, "0.3"),
     (0.0, "0")],
)  # fmt: skip
def test_ticks_are_plain_numbers(value, label):
    assert drawing.tick(value) == label


def test_matplotlib_draws_the_same_bytes_twice_without_date_or_version():
    value = plot(
        title="α & <x>", vertical=[("v", 1.5)], horizontal=[("h", 3.5)], log_x=True, log_y=True,
        series=[("a", [1, 2, 4], [3, 4, 9]), ("b", [1, 2, 4], [1, 2, 3])],
    )  # fmt: skip
    first = drawing.draw(value)
    assert first == drawing.draw(value)
    assert is_current(value, first)
    text = first.decode()
    assert text.startswith("<?xml") and text.rstrip().endswith("</svg>")
    assert "<!-- 0.1 -->" not in text and "<!-- 1 -->" in text and "mathdefault" not in text
    assert "dc:date" not in text and "Matplotlib v" not in text
    assert not any(line != line.rstrip() for line in text.split("\n"))


def test_labels_of_lines_stand_on_a_horizontal_and_at_the_foot_of_a_vertical():
    figure = pytest.importorskip("matplotlib.figure")
    axes = figure.Figure().add_subplot()
    drawing._fill(axes, plot(vertical=[("v", 1.5)], horizontal=[("h", 3.5)]))
    placed = {text.get_text(): (text.xy, text.get_va()) for text in axes.texts}
    assert placed == {"v": ((1.5, 0.02), "bottom"), "h": ((0.01, 3.5), "baseline")}
    (label,) = (text for text in axes.texts if text.get_text() == "h")
    assert label.xyann[1] > 0  # points above the line


def test_points_are_marked_and_not_joined_in_colours_of_their_own():
    figure = pytest.importorskip("matplotlib.figure")
    axes = figure.Figure().add_subplot()
    drawing._fill(axes, plot(points=[("p", [1, 2], [3, 4]), ("q", [2], [5])]))
    assert [len(line.get_xdata()) for line in axes.lines] == [2]  # that of the series
    one, other = axes.collections
    assert one.get_offsets().tolist() == [[1, 3], [2, 4]] and len(other.get_offsets()) == 1
    drawn = [one.get_edgecolor().tolist(), other.get_edgecolor().tolist()]
    assert drawn[0] != drawn[1]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "p", "q"]


def test_a_plot_may_have_points_alone():
    alone = plot(series=[], points=[("p", [1, 2], [3, 4])])
    assert alone.points == plot(points=[("p", (1, 2), (3, 4))]).points and not alone.series
    with pytest.raises(DeriveError, match="series 'p': 2 x values and 1 y values"):
        plot(points=[("p", [1, 2], [3])])
    with pytest.raises(DeriveError, match="expected a positive finite number"):
        plot(points=[("p", [0], [3])], log_x=True)


def bars(**changes):
    values = {"title": "t", "x": "s", "bars": ["a", "b"], "parts": [("p", [1, 2]), ("q", [0, 3])]}
    return Bars(**{**values, **changes})


@pytest.mark.parametrize(
    "change",
    [{"title": "u"}, {"x": "u"}, {"bars": ["a", "c"]}, {"parts": [("p", [1, 2]), ("q", [0, 4])]},
     {"parts": [("p", [1, 2])]}, {"parts": [("r", [1, 2]), ("q", [0, 3])]}],
)  # fmt: skip
def test_everything_that_bars_show_is_in_their_digest(change):
    assert bars(**change).digest != bars().digest
    assert bars() == bars(parts=[("p", (1.0, number(2))), ("q", [0, 3 + 1e-12])])


def test_the_digest_of_bars_is_the_same_on_every_machine():
    digest = "f91144a271f4338a69fb391c795467c5a468d0307b4f55049a703110c48bf321"
    assert bars(parts=[("p", [1 / 3, 2])]).digest == digest
    assert bars(parts=[("p", [0.33333301, 2])]).digest == digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parts": []}, "1 to 8 parts, found 2 and 0"),
        ({"bars": [], "parts": []}, "found 0 and 0"),
        ({"parts": [(str(n), [1, 1]) for n in range(9)]}, "found 2 and 9"),
        ({"parts": [("p", [1])]}, "part 'p': 1 lengths for 2 bars"),
        ({"parts": [("p", [1, -2])]}, "expected lengths from 0, found -2.0"),
        ({"parts": [("p", [1, float("inf")])]}, "a finite number"),
        ({"parts": [("p", b"ab")]}, "expected a list of numbers, found b'ab'"),
        ({"parts": None}, "parts: expected a list, found None"),
        ({"parts": [("p", [1, "x"])]}, "expected a number"),
    ],
)
def test_bad_bars(change, message):
    with pytest.raises(DeriveError, match=message):
        bars(**change)


def test_bars_are_frozen():
    with pytest.raises(AttributeError):
        bars().title = "u"


def test_a_chapter_takes_bars(book, drawn):
    declared = 'chapter.plot("p", Bars("Title", "s", ["a"], [("p", [1])]), alt="Bars")'
    assert "![Bars](p.svg)" in book.built(TEMPLATE, declared)
    assert len(drawn) == 1 and drawn[0] == Bars("Title", "s", ["a"], [("p", [1])])


def test_matplotlib_stacks_bars_from_the_top_and_leaves_out_empty_parts():
    figure = pytest.importorskip("matplotlib.figure")
    axes = figure.Figure().add_subplot()
    drawing._stack(axes, bars(parts=[("p", [1, 2]), ("none", [0, 0]), ("q", [0, 3])]))
    ends = [[(b.get_x(), b.get_width()) for b in row] for row in axes.containers]
    assert ends == [[(0, 1), (0, 2)], [(1, 0), (2, 3)]]
    assert [row.get_label() for row in axes.containers] == ["p", "q"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    value = bars()
    first = drawing.draw(value)
    assert first == drawing.draw(value) and is_current(value, first)


def test_a_part_too_thin_to_be_seen_in_any_bar_is_drawn_without_a_label():
    parts = [("p", [995, 100]), ("thin", [4.9, 0]), ("q", [0, 0.5]), ("none", [0, 0])]
    made = bars(parts=parts)
    assert [part.label for part in made.parts] == ["p", "", "", ""]
    assert [part.values for part in made.parts] == [tuple(values) for _, values in parts]
    seen = bars(parts=[("p", [995, 100]), ("q", [0, 0.51])])
    assert [part.label for part in seen.parts] == ["p", "q"]


def test_a_legend_names_the_parts_that_can_be_seen():
    figure = pytest.importorskip("matplotlib.figure")
    axes = figure.Figure().add_subplot()
    drawing._stack(axes, bars(parts=[("p", [995, 100]), ("thin", [1, 0.1]), ("q", [4, 40])]))
    assert axes.get_legend_handles_labels()[1] == ["p", "q"]
    assert len(axes.containers) == 3
