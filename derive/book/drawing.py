"""Drawing: a mesh draws itself, plots and bars take matplotlib, which only this module imports."""

from __future__ import annotations

from fractions import Fraction
from io import BytesIO
from itertools import cycle
from typing import Any

from derive.book.cards import MeshDrawing
from derive.book.plots import (
    COLOURS,
    COLOURS_OF_PARTS,
    DASHES,
    INK,
    MARKERS,
    SIZE,
    Bars,
    Drawable,
    Plot,
    signed,
)
from derive.notation.errors import DeriveError
from derive.notation.printed import printed, significant

INSTALL = "pip install -e '.[book]'"


def draw(plot: Drawable) -> bytes:
    """The SVG of a drawing, the same bytes for the same version of matplotlib, with its digest.

    Raises DeriveError with the command that installs matplotlib where it is missing.
    """
    if isinstance(plot, MeshDrawing):
        return signed(plot, plot.svg.encode())
    try:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise DeriveError(f"matplotlib draws the plots and is not installed; {INSTALL}") from None
    style: Any = {
        "svg.hashsalt": "derive", "svg.fonttype": "path", "font.family": "DejaVu Sans",
        "font.size": 10, "text.color": INK, "axes.edgecolor": INK,
        "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
        "grid.color": INK, "text.usetex": False, "text.parse_math": False,
        "axes.unicode_minus": True,
    }  # fmt: skip
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(style)
        size = (SIZE[0], 1.5 + 0.42 * len(plot.bars)) if isinstance(plot, Bars) else SIZE
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        if isinstance(plot, Bars):
            _stack(figure.add_subplot(), plot)
            figure.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=4)
        elif isinstance(plot, Plot):
            _fill(figure.add_subplot(), plot)
        out = BytesIO()
        nothing = {"Date": None, "Creator": None}
        figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    lines = [line.rstrip() for line in out.getvalue().decode().splitlines()]
    return signed(plot, ("\n".join(lines) + "\n").encode())


def tick(value: float) -> str:
    """The label of a tick: "0.01", "1,000", "−5"."""
    return printed(Fraction(f"{value:.6g}"), significant(6, trim=True))


def _fill(axes: Any, plot: Plot) -> None:
    colours = cycle(COLOURS)
    for series, colour, dash in zip(plot.series, colours, cycle(DASHES), strict=False):
        style = {"color": colour, "linestyle": dash, "linewidth": 1.8}
        axes.plot(series.xs, series.ys, label=series.label, **style)
    for series, colour, marker in zip(plot.points, colours, cycle(MARKERS), strict=False):
        style = {"edgecolors": colour, "facecolors": "none", "marker": marker, "zorder": 3}
        axes.scatter(series.xs, series.ys, s=18, linewidth=0.8, label=series.label, **style)
    for line in plot.vertical:
        axes.axvline(line.at, color=INK, linewidth=1, linestyle=":")
        axes.annotate(
            line.label, (line.at, 0.02), xycoords=("data", "axes fraction"), rotation=90,
            va="bottom", ha="right", fontsize=9,
        )  # fmt: skip
    for line in plot.horizontal:
        axes.axhline(line.at, color=INK, linewidth=1, linestyle=":")
        axes.annotate(
            line.label, (0.01, line.at), xycoords=("axes fraction", "data"), xytext=(0, 3),
            textcoords="offset points", va="baseline", fontsize=8,
        )  # fmt: skip
    axes.set(
        title=plot.title, xlabel=plot.x, ylabel=plot.y,
        xscale="log" if plot.log_x else "linear", yscale="log" if plot.log_y else "linear",
    )  # fmt: skip
    for axis, log in ((axes.xaxis, plot.log_x), (axes.yaxis, plot.log_y)):
        axis.set_major_formatter(lambda value, place: tick(value))
        if log:
            axis.set_minor_formatter(lambda value, place: "")
    axes.grid(True, alpha=0.25, linewidth=0.6)
    if len(plot.series + plot.points) > 1 or (plot.series + plot.points)[0].label:
        axes.legend(frameon=False, fontsize=9)


def _stack(axes: Any, bars: Bars) -> None:
    places = range(len(bars.bars))
    ends = [0.0] * len(bars.bars)
    for part, colour in zip(bars.parts, COLOURS_OF_PARTS, strict=False):
        if not any(part.values):
            continue  # the others keep their colours
        axes.barh(places, part.values, left=ends, height=0.62, label=part.label, color=colour)
        ends = [end + value for end, value in zip(ends, part.values, strict=True)]
    axes.set(title=bars.title, xlabel=bars.x, yticks=places, yticklabels=bars.bars)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(lambda value, place: tick(value))
    axes.grid(True, axis="x", alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
