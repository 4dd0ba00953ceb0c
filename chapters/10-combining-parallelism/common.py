"""What all figures of the chapter share: its card and models, its searches, and small helpers."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import sympy as sp

from derive import Quantity, number
from derive.book import Chapter, cell, decimals, integer, percent
from derive.book.tables import NumberCell
from derive.cost.assumptions import NOTEBOOK, Assumptions
from derive.cost.step import step_model
from derive.facts import Model
from derive.notation import symbols as v
from derive.notation.units import Unit, one
from derive.plan.plan import Plan
from derive.plan.search import Ranking, search
from derive.plan.task import Task, task

NAMES = (
    "3D, 4D, 5D, 70B, 8B, 405B, 8K, 32K, 128K, 4M, 16M, H100, H800, 1F1B, bf16, fp32, fp8, ZeRO-1, "
    "ZeRO-2, ZeRO-3, Llama 3, Llama 3 405B, DeepSeek-V3, TP8, PP16, EP64"
)
chapter = Chapter(
    "10",
    "Combining and choosing 3D and 5D parallelism",
    profile="notebook",
    names=NAMES.split(", "),
)
h100 = chapter.chip("h100")
llama70, llama8, llama405 = (chapter.model(f"llama-3-{size}") for size in ("70b", "8b", "405b"))


# Numbers.
def q(value: object, unit: Unit = one, formula: str = "", **inputs: Quantity) -> Quantity:
    """A quantity computed in Python, with what it was computed from."""
    exact_value = value if isinstance(value, sp.Basic) else rational(value)
    return Quantity(exact_value, unit, formula=formula, inputs=tuple(inputs.items()))


def rational(value: object) -> sp.Rational:
    """A fraction or a whole number as SymPy has it."""
    fraction = Fraction(value)  # type: ignore[arg-type]
    return sp.Rational(fraction.numerator, fraction.denominator)


def n(quantity: object, places: int = 0) -> NumberCell:
    """A number for a table, to some decimals."""
    return cell(quantity, decimals(places) if places else integer())


def pc(quantity: Quantity, places: int = 0) -> NumberCell:
    """A share for a table, as a percentage."""
    return cell(quantity, percent(places))


def whole(value: int, name: str) -> NumberCell:
    """A rank or a count of that name for a table."""
    return n(number(value, name=name, status="derived"))


def degrees_of(plan: Plan) -> list[NumberCell]:
    """The degrees of a plan for a table: TP, CP, PP, DP."""
    return [n(plan.known[axis]) for axis in (v.tp, v.cp, v.pp, v.dp)]


# Searches: all that the chapter runs under the assumption set `notebook`.
def asked(
    model: Model,
    cards: int,
    seq: int,
    batch: int,
    assumptions: Assumptions = NOTEBOOK,
    **values: object,
) -> Task:
    """A task on H100s; values by symbol name."""
    given = {v.find(k): number(x, v.unit_of_symbol(v.find(k)), k) for k, x in values.items()}  # type: ignore[arg-type]
    return task(
        model, h100, cards=cards, seq=seq, batch=batch, assumptions=assumptions, values=given
    )


SHORT, LONG = 2**13, 2**17  # sequences of 8K and 128K tokens
CASES = {
    "70b-64-8k": (llama70, 64, SHORT, 512),
    "70b-64-128k": (llama70, 64, LONG, 32),
    "8b-8-8k": (llama8, 8, SHORT, 64),
    "70b-1024-8k-4m": (llama70, 1024, SHORT, 512),
    "70b-1024-8k-16m": (llama70, 1024, SHORT, 2048),
}
MORE_CARDS = (128, 256, 512, 1024)
PADDED = {"L": 128}  # 405B with a whole number of layers on 16 stages
FOUND = {key: search(asked(*case)) for key, case in CASES.items()}
LONGER = {
    cards: FOUND["70b-64-128k"] if cards == 64 else search(asked(llama70, cards, LONG, 32))
    for cards in (64, *MORE_CARDS)
}
PADDED_405 = search(asked(llama405, 16384, SHORT, 2048, **PADDED))


def share(plan: Plan, name: str) -> Quantity:
    """The share of a part in the step."""
    return plan[name] / plan["seconds"]


def rank_of(ranking: Ranking, tp: int, cp: int, pp: int) -> int:
    """The rank of the plan with these degrees, which must fit."""
    return ranking.rank(tp=tp, cp=cp, pp=pp)


@cache
def at(ranking: Ranking, tp: int, cp: int, pp: int) -> Plan:
    """The plan with these degrees, which must fit."""
    return ranking.plan(rank_of(ranking, tp, cp, pp))


@cache
def ranked(key: str, rank: int) -> Plan:
    """The plan of that rank in one of the five searches."""
    return FOUND[key].plan(rank)


STEP = step_model(NOTEBOOK)
