"""The book: figures, claims, tables and plots of its chapters, rendered and checked."""

from __future__ import annotations

from derive.book.chapter import Chapter
from derive.book.plots import Bars, Plot
from derive.book.tables import cell, math
from derive.notation.printed import (
    binary,
    ceiling,
    decimals,
    exact,
    floor,
    integer,
    percent,
    scientific,
    si,
    significant,
)

__all__ = [
    "Bars", "Chapter", "Plot", "binary", "ceiling", "cell", "decimals", "exact", "floor", "integer",
    "math", "percent", "scientific", "si", "significant",
]  # fmt: skip
