"""What is shown by a library that is there or not: rows as a frame of pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from derive.notation.errors import DeriveError


def library(name: str) -> Any:
    """A module of a library that is imported when it is asked for; raises DeriveError, saying how
    to install it, where it is missing."""
    try:
        return import_module(name)
    except ImportError:
        whole = name.partition(".")[0]
        raise DeriveError(f"{whole} is not installed: pip install {whole}") from None


def frame(rows: Iterable[Mapping[str, Any]], attrs: Mapping[str, Any], start: int = 0) -> Any:
    """Rows of JSON as a pandas DataFrame with an index from `start`; of a mapping within a row each
    name is a column, such as degrees.X. Raises DeriveError where pandas is missing."""
    table = library("pandas").json_normalize(list(rows))
    table.index += start
    table.attrs |= attrs
    return table
