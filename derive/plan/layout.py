"""How a job is laid out, as it is typed: the degrees of its axes and the choices of its step.

    tp=8,pp=16,virtual=8,zero=1,recompute=full
    tp=8,pp=16,layers=7-14x8-7

What is left out is searched, if it is a degree, and else as the assumptions have it. Layers are
those of each of pp whole stages in order, 14x8 being fourteen stages of 8; virtual is then 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import sympy as sp

from derive.cost.assumptions import OF_STEP, PHRASES
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, meant, quoted, unknown
from derive.plan.axes import NAMED

LONGEST = 600
CHOICES = (
    *(name for name in OF_STEP if name not in ("architecture", "stages")),
    "kernels",
    "norm",
    "glu",
    "gradients",
    "precision",
)
SWITCHES: Mapping[str, bool] = {"on": True, "off": False}
MOST = 10**15
UNMODELLED: Mapping[str, str] = {"offload": "states and activations stay in the chip's own memory"}


class Layout(NamedTuple):
    """Degrees by symbol, choices of a step by the name of the assumption, numbers of layers by
    symbol, and those of each stage, where they are given."""

    degrees: Mapping[sp.Symbol, int]
    choices: Mapping[str, object]
    values: Mapping[sp.Symbol, int]
    stages: tuple[int, ...] = ()


def layout(text: str) -> Layout:
    """The layout that a line says. Raises DeriveError for what is no degree and no choice."""
    if not isinstance(text, str) or len(text) > LONGEST:
        told = f"such as tp=8,pp=16,zero=1, in at most {LONGEST} characters"
        raise DeriveError(f"layout: expected text {told}, found {quoted(text)}")
    degrees: dict[sp.Symbol, int] = {}
    choices: dict[str, object] = {}
    values: dict[sp.Symbol, int] = {}
    stages: tuple[int, ...] = ()
    for part in re.split(r"[,\s]+(?=\w+\s*=)", text.strip()):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise DeriveError(f"layout: expected NAME=VALUE,..., found {quoted(text)}")
        axis = NAMED.get(name)
        if name in choices or (name == "layers" and stages) or (axis and axis.symbol in degrees):
            raise DeriveError(f"layout: {name} is given twice")
        if axis:
            degrees[axis.symbol] = _whole(name, value, axis.least)
        elif name == "recompute":
            ways = _recomputation(value)
            if twice := [way for way in ways if way in choices]:
                raise DeriveError(f"layout: {twice[0]} is given, and by recompute={value} as well")
            choices |= ways
            values |= {v.L_g: int(value)} if value.isdigit() else {}
        elif name == "layers":
            stages = _of_each_stage(value)
            choices["stages"] = "given"
            values |= {v.L_p: max(stages), v.L_i: max(stages[:-1] or stages)}
            values |= {v.L_f: stages[0], v.L_l: stages[-1]}
        elif name in CHOICES:
            choices[name] = _chosen(name, value)
        elif name in UNMODELLED:
            raise DeriveError(f"layout: {name} is not modelled: {UNMODELLED[name]}")
        else:
            raise unknown("part of a layout", name, [*NAMED, "layers", *CHOICES])
    return Layout({v.pp: len(stages)} | degrees if stages else degrees, choices, values, stages)


def _whole(name: str, text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or not least <= int(text[:17]) < MOST:
        told = f"expected a whole number from {least}, below {MOST:,}"
        raise DeriveError(f"{name}: {told}, found {quoted(text)}")
    return int(text)


def _of_each_stage(text: str) -> tuple[int, ...]:
    alike = r"(?:([1-9]\d{0,3})x)?([1-9]\d{0,3})"
    runs = [re.fullmatch(alike, run, re.ASCII) for run in text.split("-")]
    if None in runs:
        told = "expected those of each stage from 1, such as 7-14x8-7"
        raise DeriveError(f"layers: {told}, found {quoted(text)}")
    return tuple(int(run[2]) for run in runs if run for _ in range(int(run[1] or 1)))


def _recomputation(text: str) -> dict[str, object]:
    """What is run again: none, selective (the core of attention), full, as few layers as fit
    (least), or so many layers of a stage."""
    if text.isascii() and text.isdigit():
        return {"recompute": "given" if _whole("recompute", text, 0) else "none"}
    if text == "selective":
        return {"recompute": "none", "kernels": "recomputed"}
    words = [word for word in PHRASES["recompute"] if word != "given"]
    if text not in words:
        near = meant(text, [*map(str, words), "selective"])
        told = f"expected {', '.join(map(str, words))}, selective or a number of layers"
        raise DeriveError(f"recompute: {told}, found {quoted(text)}; {near}".rstrip("; "))
    return {"recompute": text}


def _chosen(name: str, text: str) -> object:
    ways = PHRASES[name]
    choice: object = SWITCHES.get(text, text) if True in ways else text
    if choice not in ways:
        words = [*SWITCHES] if True in ways else [str(way) for way in ways]
        near = meant(text, words)
        told = f"expected {' or '.join(words)}, found {quoted(text)}; {near}".rstrip("; ")
        raise DeriveError(f"{name}: {told}")
    return choice
