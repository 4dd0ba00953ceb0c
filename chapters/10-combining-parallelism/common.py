"""What all figures of the chapter share: its card and models, its searches, and small helpers."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import sympy as sp

from derive import Quantity, number
from derive.book import Chapter, cell, decimals, integer, percent
from derive.book.tables import NumberCell
from derive.cost.assumptions import NOTEBOOK, Assumptions
from derive.cost.step import step_model
from derive.facts import Model
from derive.notation import symbols as v
from derive.notation import units
from derive.notation.plain import text
from derive.notation.units import Unit, one
from derive.plan.exact import exact, solved_model
from derive.plan.found import Found
from derive.plan.plans import Plan, plan_of
from derive.plan.search import search_all
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


def whole(value: int) -> NumberCell:
    """A degree or a count for a table."""
    return n(number(value, status="derived"))


# Searches: all that the chapter runs under the assumption set `notebook`, in one go.
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
_every = [
    *(asked(*case) for case in CASES.values()),
    *(asked(llama70, cards, LONG, 32) for cards in MORE_CARDS),
    asked(llama405, 16384, SHORT, 2048, **PADDED),
]
_found = search_all(_every)
FOUND = dict(zip(CASES, _found, strict=False))
LONGER = dict(zip((64, *MORE_CARDS), (_found[1], *_found[5:9]), strict=True))
PADDED_405 = _found[9]


class Costed:
    """A plan of a task with the tree of each of its numbers: every term of the step model."""

    def __init__(self, of: Task, plan: Plan) -> None:
        self.task, self.plan, self.model = of, plan, of.step
        rows = (plan.tp, plan.cp, plan.pp, plan.dp, plan.micro_batch)
        degrees = dict(zip((v.tp, v.cp, v.pp, v.dp, v.b_seq), rows, strict=True))
        numbers = solved_model(
            of.step, {**of.numbers, **{s: Fraction(x) for s, x in degrees.items()}}
        )
        known: dict[sp.Symbol, Quantity] = dict(of.values)
        for symbol, degree in degrees.items():
            known[symbol] = number(degree, v.unit_of_symbol(symbol), symbol.name, status="derived")
        for term in of.step.definitions:
            symbol = v.find(term.name)
            known[symbol] = _tree(term.expr, numbers[symbol], term.unit, term.name, known)
        self.numbers, self.known = numbers, known

    def __getitem__(self, name: str) -> Quantity:
        """A term of the step model by name: a part, memory, or an intermediate."""
        term = self.model.term(name)
        return self.of(term.expr, term.unit, name)

    def of(self, expr: sp.Expr, unit: Unit = one, name: str = "") -> Quantity:
        """An expression in the symbols of the step model, for this plan."""
        return _tree(expr, exact(expr, self.numbers), unit, name, self.known)

    @property
    def seconds(self) -> Quantity:
        """The time of a step."""
        return self.of(self.model.seconds, units.second, "step")

    @property
    def mfu(self) -> Quantity:
        """The model's FLOP over what all cards could do in the time of a step."""
        flops = self["model_flops"]
        peak, step = self.known[v.C], self.seconds
        cards = number(self.task.cards, units.chip, "cards")
        value = flops.value / (step.value * cards.value * peak.value)
        inputs = {"model_flops": flops, "step": step, "N": cards, "C": peak}
        return q(value, one, "model_flops/(step*N*C)", **inputs)

    @property
    def memory(self) -> Quantity:
        """The bytes of the fullest card."""
        return self.of(self.model.memory_bytes, units.byte, "memory")

    @property
    def redo(self) -> Quantity:
        """The layers of a stage that are recomputed."""
        return self.known[v.L_r]

    def share(self, name: str) -> Quantity:
        """The share of a part in the step."""
        part, step = self[name], self.seconds
        return q(part.value / step.value, one, f"{name}/step", **{name: part, "step": step})


def _tree(
    expr: sp.Expr,
    value: Fraction,
    unit: Unit,
    name: str,
    known: Mapping[sp.Symbol, Quantity],
) -> Quantity:
    symbols = sorted(expr.free_symbols, key=v.rank)
    inputs = tuple((s.name, known[s]) for s in symbols)
    return Quantity(rational(value), unit, name, formula=text(expr), inputs=inputs)


def at(found: Found, tp: int, cp: int, pp: int) -> Costed:
    """The plan with these degrees, which must fit."""
    return Costed(found.task, found.plan(found.rank(tp, cp, pp)))


def priced(of: Task, tp: int, cp: int, pp: int, dp: int) -> Costed:
    """The plan with these degrees, whether the search would take it or not."""
    return Costed(of, plan_of(of, tp, cp, pp, dp))


def ranked(key: str, rank: int) -> Costed:
    """The plan of that rank in one of the five searches."""
    return Costed(FOUND[key].task, FOUND[key].plan(rank))


STEP = step_model(NOTEBOOK)
