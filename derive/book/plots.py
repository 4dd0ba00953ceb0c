"""Plots and bars as values: what is shown, and the digest by which a drawn file is known.

The bytes of an SVG change with the plotting library, so a file is compared by the digest of its
data and style, written into it; the checksum of the rest tells a file that was edited or cut.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Protocol

from derive.book.tables import Cell, MathCell, pieces, text_of
from derive.notation.errors import DeriveError, guarded, quoted, written

SIGNIFICANT = 6  # so that the last bits of a machine's arithmetic do not change the digest
INK = "#767b83"  # about 4:1 on white and on GitHub's dark background alike
COLOURS = ("#1f77b4", "#d1611c", "#1a9e77", "#b05fb8", "#a8872b", "#d14b5a")
DASHES = ("-", "--", "-.", ":")
MARKERS = "o^sDvP"
SIZE = (7.2, 4.2)
COLOURS_OF_PARTS = (
    "#1f77b4", "#d1611c", "#a8872b", "#d14b5a", "#1a9e77", "#8a9099", "#b05fb8", "#5c6f2f",
)  # fmt: skip
UNSEEN = 0.005  # of a bar: thinner slices are drawn and not named
STYLE = (4, INK, COLOURS, DASHES, SIZE)  # the number goes up when drawing changes otherwise
_HEAD = re.compile(rb"<!-- derive plot ([0-9a-f]{64}) drawn ([0-9a-f]{64}) -->\n")


class Labelled:
    """What has labels: `labels` are those that are drawn, as they were given, with their numbers.

    A label is text, `cell(quantity, rule)` or a tuple of these; the fields hold what is drawn.
    """

    labels: tuple[Cell, ...] = ()


@dataclass(frozen=True)
class Series:
    """A line of a plot, or its points."""

    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]


@dataclass(frozen=True)
class MarkedLine:
    """A straight line across a plot, at a value of one axis."""

    label: str
    at: float


@guarded
@dataclass(frozen=True, init=False)
class Plot(Labelled):
    """A plot: title, axis labels, series (label, xs, ys), each a line, points of the same form, and
    lines (label, at) across it.

    Data are rounded to six significant digits when made. Raises DeriveError for series of unequal
    length, values that are not finite, and values that are not positive on a log axis.
    """

    title: str
    x: str
    y: str
    series: tuple[Series, ...]
    points: tuple[Series, ...] = ()
    vertical: tuple[MarkedLine, ...] = ()
    horizontal: tuple[MarkedLine, ...] = ()
    log_x: bool = False
    log_y: bool = False

    def __init__(
        self,
        title: Cell,
        x: Cell,
        y: Cell,
        series: Iterable[tuple[Cell, Iterable[object], Iterable[object]]] = (),
        *,
        points: Iterable[tuple[Cell, Iterable[object], Iterable[object]]] = (),
        vertical: Iterable[tuple[Cell, object]] = (),
        horizontal: Iterable[tuple[Cell, object]] = (),
        log_x: bool = False,
        log_y: bool = False,
    ) -> None:
        series, points = tuple(series), tuple(points)
        vertical, horizontal = tuple(vertical), tuple(horizontal)
        every = (*series, *points, *vertical, *horizontal)
        labels = (title, x, y, *(label for label, *_ in every))
        title, x, y = map(_drawn, (title, x, y))
        curves = tuple(_series(title, *one, log_x, log_y) for one in series)
        dots = tuple(_series(title, *one, log_x, log_y) for one in points)
        if not curves + dots:
            raise DeriveError(f"plot {quoted(title)} has no series")
        across = tuple(_line(title, *one, log_x) for one in vertical)
        along = tuple(_line(title, *one, log_y) for one in horizontal)
        vars(self).update(title=title, x=x, y=y, series=curves, points=dots)
        vars(self).update(vertical=across, horizontal=along)
        vars(self).update(log_x=bool(log_x), log_y=bool(log_y), labels=labels)

    @property
    def digest(self) -> str:
        """The digest of everything that is shown, the same on every machine."""
        shown = asdict(self)
        marks = [MARKERS] if shown["points"] else shown.pop("points")  # without, as of lines alone
        return _digest([shown, STYLE, *marks])


@dataclass(frozen=True)
class Stripe:
    """One colour of stacked bars: a label and its length in each bar.

    The label is empty where no slice is thick enough to be seen: a legend leaves it out.
    """

    label: str
    values: tuple[float, ...]


@guarded
@dataclass(frozen=True, init=False)
class Bars(Labelled):
    """Horizontal stacked bars: title, axis label, the bars' labels from the top down, and parts
    (label, a length for each bar) from the left to the right.

    Data are rounded as those of a plot. A part that is under half a percent of every bar loses its
    label. Raises DeriveError for parts that do not fit the bars, and for lengths that are negative
    or not finite.
    """

    title: str
    x: str
    bars: tuple[str, ...]
    parts: tuple[Stripe, ...]

    def __init__(
        self,
        title: Cell,
        x: Cell,
        bars: Iterable[Cell],
        parts: Iterable[tuple[Cell, Iterable[object]]],
    ) -> None:
        bars, parts = tuple(bars), tuple(parts)
        given = (title, x, *bars)
        labels, (title, x) = [*map(_drawn, bars)], map(_drawn, (title, x))
        stripes = [_stripe(title, *part, len(labels)) for part in parts]
        if not labels or not stripes or len(stripes) > len(COLOURS_OF_PARTS):
            raise DeriveError(
                f"bars {quoted(title)}: expected bars, and 1 to {len(COLOURS_OF_PARTS)} parts, "
                f"found {len(labels)} and {len(stripes)}"
            )
        wholes = [sum(lengths) for lengths in zip(*(s.values for s in stripes), strict=True)]
        seen = tuple(s if _seen(s.values, wholes) else Stripe("", s.values) for s in stripes)
        named = (label for (label, _), stripe in zip(parts, seen, strict=True) if stripe.label)
        vars(self).update(title=title, x=x, bars=tuple(labels), parts=seen)
        vars(self).update(labels=(*given, *named))

    @property
    def digest(self) -> str:
        """The digest of everything that is shown, the same on every machine."""
        return _digest(["bars", asdict(self), STYLE, COLOURS_OF_PARTS])


class Drawable(Protocol):
    """What is drawn to a file of its own: a plot, bars, or a mesh."""

    @property
    def title(self) -> str: ...

    @property
    def labels(self) -> tuple[Cell, ...]: ...

    @property
    def digest(self) -> str: ...


def _digest(shown: object) -> str:
    text = json.dumps(shown, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _drawn(label: Cell) -> str:
    """The text of a label, which has no math: a picture has no TeX."""
    if any(isinstance(part, MathCell) for part in pieces(label)):
        raise DeriveError("a label is text, cell(quantity, rule) or a tuple of these, found math")
    return text_of(label)


def _stripe(title: str, given: Cell, values: Iterable[object], bars: int) -> Stripe:
    label = _drawn(given)
    where = f"bars {quoted(title)}, part {quoted(label)}"
    lengths = _data(where, values, False)
    if len(lengths) != bars:
        raise DeriveError(f"{where}: {len(lengths)} lengths for {bars} bars")
    if min(lengths, default=0) < 0:
        raise DeriveError(f"{where}: expected lengths from 0, found {min(lengths)}")
    return Stripe(label, lengths)


def _seen(values: Iterable[float], wholes: Iterable[float]) -> bool:
    return any(x and x >= UNSEEN * whole for x, whole in zip(values, wholes, strict=True))


def _series(
    title: str, given: Cell, xs: Iterable[object], ys: Iterable[object], log_x: bool, log_y: bool
) -> Series:
    label = _drawn(given)
    where = f"plot {quoted(title)}, series {quoted(label)}"
    series = Series(label, _data(where, xs, log_x), _data(where, ys, log_y))
    if len(series.xs) != len(series.ys) or not series.xs:
        raise DeriveError(f"{where}: {len(series.xs)} x values and {len(series.ys)} y values")
    return series


def _line(title: str, given: Cell, at: object, log: bool) -> MarkedLine:
    label = _drawn(given)
    return MarkedLine(label, _data(f"plot {quoted(title)}, line {quoted(label)}", [at], log)[0])


def _data(where: str, values: Iterable[object], log: bool) -> tuple[float, ...]:
    if isinstance(values, (str, bytes)):
        raise DeriveError(f"{where}: expected a list of numbers, found {written(values)}")
    return tuple(_rounded(where, value, log) for value in values)


def _rounded(where: str, value: object, log: bool) -> float:
    try:
        number = float(f"{float(getattr(value, 'quantity', value)):.{SIGNIFICANT}g}")  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise DeriveError(f"{where}: expected a number, found {quoted(value)}") from None
    if not isfinite(number) or (log and number <= 0):
        wanted = "a positive finite" if log else "a finite"
        raise DeriveError(f"{where}: expected {wanted} number, found {number}")
    return number + 0.0  # no minus zero


def signed(plot: Drawable, drawn: bytes) -> bytes:
    """The bytes of a file: the drawing with the digest of the plot and its own checksum."""
    first, newline, rest = drawn.partition(b"\n")
    checksum = hashlib.sha256(drawn).hexdigest()
    comment = f"<!-- derive plot {plot.digest} drawn {checksum} -->\n".encode()
    return first + newline + comment + rest


def is_current(plot: Drawable, file: bytes | None) -> bool:
    """Whether a file shows the plot and is as it was drawn."""
    digest, checksum, body = signature(file) or ("", "", b"")
    return digest == plot.digest and checksum == hashlib.sha256(body).hexdigest()


def signature(file: bytes | None) -> tuple[str, str, bytes] | None:
    """Digest, checksum and drawing of a file made by `signed`, or None for another file."""
    head = _HEAD.search(file[:4096]) if file else None
    if file is None or head is None:
        return None
    return head[1].decode(), head[2].decode(), file[: head.start()] + file[head.end() :]
