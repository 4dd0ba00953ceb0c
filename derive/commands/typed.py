"""What `--set` options give; apart from `inputs`, which brings the strategies."""

from __future__ import annotations

from collections.abc import Iterable

import sympy as sp

from derive.notation.errors import DeriveError, quoted
from derive.notation.quantity import Quantity
from derive.notation.read import assignment


def set_values(assignments: Iterable[str] | None) -> dict[sp.Symbol, Quantity]:
    """What `--set NAME=VALUE` options give, by symbol; raises DeriveError naming the option."""
    values: dict[sp.Symbol, Quantity] = {}
    for text in assignments or ():
        if text.count("=") > 1:
            raise DeriveError(f"--set: expected one NAME=VALUE, found {quoted(text)}")
        try:
            symbol, quantity = assignment(text)
        except DeriveError as error:
            raise type(error)(f"--set: {error}") from None
        if symbol in values:
            raise DeriveError(f"--set {symbol} is given twice, the second time {quoted(text)}")
        values[symbol] = quantity
    return values
