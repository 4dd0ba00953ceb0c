"""Answers as rows of JSON and lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from derive.notation.quantity import Quantity
from derive.solve.step import Claimed
from derive.solve.steps import prove


def derivation_lines(derivation: Sequence[Claimed]) -> list[str]:
    """The steps, numbered, each with its claim and how it was proved."""
    lines = []
    for place, step in enumerate(derivation, 1):
        lines += [f"{place:>3}. {step.words}", f"       {step.text}   [proved {prove(step)}]"]
    return lines


def plain(quantity: Quantity | None) -> float | int | None:
    """The number of a quantity, whole where it is."""
    if quantity is None:
        return None
    return int(quantity.value) if quantity.value.is_Integer else float(quantity.value)


def step_row(step: Claimed, proved: str) -> dict[str, str]:
    """A step of a derivation with how it was proved."""
    return {
        "kind": step.kind,
        "words": step.words,
        "claim": step.text,
        "latex": step.latex,
        "proved": proved,
    }


def input_rows(*quantities: Quantity) -> list[dict[str, Any]]:
    """The inputs of all the bounds, each once, each before its own inputs."""
    rows: dict[str, dict[str, Any]] = {}
    for quantity in quantities:
        for name, given in quantity.inputs:
            row = {
                "symbol": name,
                "value": plain(given),
                "unit": str(given.unit),
                "of": given.owner,
                "basis": given.basis,
                "source": given.source,
                "status": given.status,
            }
            rows.setdefault(name, row)
            for below in input_rows(given):
                rows.setdefault(below["symbol"], below)
    return list(rows.values())
