"""A search as people read it: the ranked table, what was rejected, and why one plan beats another.

Plans carry exact numbers; they are rounded here, half away from zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from fractions import Fraction
from types import MappingProxyType

import sympy as sp

from derive.notation import symbols as v
from derive.notation.printed import Rule, binary, decimals, percent, printed, significant
from derive.notation.units import byte, one, second
from derive.plan.found import Found
from derive.plan.nearest import Near, Row, broken
from derive.plan.nearest import nearest as nearest_to_pass
from derive.plan.plans import Plan, plan_of, shown_degrees
from derive.plan.rules import REASONS
from derive.plan.task import Task

TOP = 10  # plans of a table
SMALLEST_SHARE = Fraction(1, 200)  # what rounds to 1% and more, as in the notebook
NAMES: Mapping[str, str] = MappingProxyType(
    {
        "compute": "compute", "recompute": "recompute", "imbalance": "imbalance", "tp": "tensor",
        "cp": "context", "pp": "pipeline", "bubble": "bubble", "dp": "data",
    }
)  # fmt: skip
HEADS = (
    "rank", "tp", "cp", "pp", "dp", "micro-batch", "MFU", "step", "memory", "recomputed",
    "where it goes",
)  # fmt: skip


def number(value: Fraction, rule: Rule) -> str:
    """A fraction by a rule of rounding, without a unit."""
    return printed(sp.Rational(value.numerator, value.denominator), rule)


def share(value: Fraction, digits: int = 0) -> str:
    """A share as a percentage."""
    return number(value, percent(digits))


def size(value: Fraction) -> str:
    """Bytes in binary units, three digits."""
    return printed(sp.Rational(value.numerator, value.denominator), binary(3), byte)


def time(value: Fraction) -> str:
    """Seconds, four digits."""
    return printed(sp.Rational(value.numerator, value.denominator), significant(4), second)


def shares(plan: Plan) -> tuple[tuple[str, Fraction], ...]:
    """The parts of the step of at least half a percent, with their shares, in order."""
    every = ((name, plan.share(name)) for name in plan.parts)
    return tuple((name, part) for name, part in every if part >= SMALLEST_SHARE)


def heading(task: Task) -> str:
    """What is planned, in one line."""
    return (
        f"{task.model} on {task.cards:,} x {task.chip}, {amounts('seq', (task.seq,))} a sequence, "
        f"{amounts('batch', (task.batch,))} a step, assumptions: {task.assumptions.name}"
    )


def as_text(lines: Iterable[str]) -> str:
    """Lines as one text with plain spaces, as a prompt shows it."""
    return "\n".join(lines).replace("\u00a0", " ")


def outcome(found: Found, top: int = TOP) -> list[str]:
    """What is planned, the first plans or what is nearest, and the counts."""
    if found.fit:
        lines = table(found.plans(min(top, found.fit)))
    else:
        lines = nearest(found, nearest_to_pass(found.task, found.space))
    return framed(found, lines)


def framed(found: Found, lines: Sequence[str]) -> list[str]:
    """Lines on the outcome of a search, between what is planned and the counts."""
    return [heading(found.task), *lines, *summary(found)]


def one_line(plan: Plan) -> str:
    """A plan in one line: degrees, utilisation, time of a step, memory, recomputed layers."""
    shown = (
        f"{plan.degrees}: MFU {share(plan.mfu, 1)}, {time(plan.step_seconds)} a step, "
        f"{size(plan.memory_bytes)}, {plan.recomputed_layers} of {plan.layers_per_stage} layers "
        "recomputed"
    )
    lacks = f", {size(plan.lacks_bytes)} too much" if plan.lacks_bytes else ""
    return as_text([shown + lacks])


def table(plans: Sequence[Plan]) -> list[str]:
    """Ranked plans as aligned lines under a heading."""
    rows = [list(HEADS)]
    for rank, plan in enumerate(plans, 1):
        parts = ", ".join(f"{NAMES[name]} {share(part)}" for name, part in shares(plan))
        rows.append(
            [
                str(rank), str(plan.tp), str(plan.cp), str(plan.pp), str(plan.dp),
                str(plan.micro_batch), share(plan.mfu, 1), time(plan.step_seconds),
                size(plan.memory_bytes), f"{plan.recomputed_layers}/{plan.layers_per_stage}", parts,
            ]
        )  # fmt: skip
    return _aligned(rows)


def summary(found: Found) -> list[str]:
    """Counts of what fits and of what was rejected, by reason."""
    noun = "plan fits" if found.fit == 1 else "plans fit"
    of = "combination" if found.candidates == 1 else "combinations"
    lines = [f"{found.fit:,} {noun} of {found.candidates:,} {of}"]
    lines += [
        f"  {found.rejected[key]:,} rejected: {told}"
        for key, told in REASONS.items()
        if key in found.rejected
    ]
    return lines


def nearest(found: Found, near: Sequence[Near] = ()) -> list[str]:
    """What is nearest to fitting where nothing fits, with what it lacks: plans that lack memory
    alone, or `near`, where every combination breaks a rule on whole numbers."""
    budget = found.task.budget
    told = ""
    if found.too_large:
        told = "; nearest: the least memory too much"
    elif near:
        told = "; nearest: the smallest change of one number"
        if not near[0].plan.lacks_bytes:
            told += ", what then fits in memory first"
    lines = [f"nothing fits{told}"]
    lines += [f"  nearest: {plan.degrees} {_need(plan, budget)}" for plan in found.too_large]
    for lacking in near:
        tp, cp, pp, micro = lacking.row
        takes = ", or ".join(amounts(x.quantity, x.values) for x in lacking.changes)
        first = lacking.changes[0]
        lines += [
            f"  nearest: {shown_degrees(tp, cp, pp, None, micro)}: {REASONS[lacking.rule]}; "
            f"it takes {takes}",
            f"    with {amounts(first.quantity, (first.value,))}: {lacking.plan.degrees} "
            f"{_need(lacking.plan, budget)}",
        ]
    return lines


def amounts(quantity: str, values: Sequence[int]) -> str:
    """Values of a quantity of a task: "511 or 518 sequences"."""
    noun = {"batch": "sequence", "cards": "card", "seq": "token"}[quantity]
    return f"{' or '.join(f'{x:,}' for x in values)} {noun}{'s'[: values[-1] != 1]}"


def _need(plan: Plan, budget: Fraction) -> str:
    if not plan.lacks_bytes:
        return f"fits in {size(plan.memory_bytes)} of {size(budget)}"
    return (
        f"needs {size(plan.memory_bytes)} of {size(budget)} with every layer recomputed, "
        f"{size(plan.lacks_bytes)} too much"
    )


def why_not(found: Found, row: Row) -> str:
    """Why a search did not rank a combination: the rule that rejects it, the memory it lacks, or
    that its grid does not hold it."""
    task, grid = found.task, found.space
    shown = shown_degrees(row.tp, row.cp, row.pp, None, row.micro_batch)
    if rule := broken(task, row):
        return f"{shown} is rejected: {REASONS[rule]}"
    plan = plan_of(task, *row.plan(task.cards))
    if plan.lacks_bytes:
        return f"{plan.degrees} is rejected: it {_need(plan, task.budget)}"
    axes = zip((v.tp, v.cp, v.pp, v.b_seq), row, astuple(grid), strict=True)
    symbol, wanted, values = next(axis for axis in axes if axis[1] not in axis[2])
    hint = "" if symbol in task.fixed else f"; --set {symbol}={wanted} searches it"
    return f"{plan.degrees} was not searched, only {symbol}={', '.join(map(str, values))}{hint}"


def why(better: Plan, worse: Plan) -> list[str]:
    """Why the first plan takes less time than the second, term by term, largest difference first.

    The differences add up to that of the step times.
    """
    total = worse.step_seconds - better.step_seconds
    word = "faster" if total >= 0 else "slower"
    lines = [
        f"{better.degrees} is {time(abs(total))} {word} than {worse.degrees}: "
        f"{time(better.step_seconds)} against {time(worse.step_seconds)}, "
        f"MFU {share(better.mfu, 1)} against {share(worse.mfu, 1)}"
    ]
    rows = [["part", "first", "second", "saved", "of the second step"]]
    for name, saved in differences(better, worse):
        rows.append(
            [
                NAMES[name],
                time(better.parts[name]),
                time(worse.parts[name]),
                _signed(saved),
                share(saved / worse.step_seconds, 1),
            ]
        )
    lines += [f"  {line}" for line in _aligned(rows)]
    memory = f"memory: {size(better.memory_bytes)} against {size(worse.memory_bytes)}"
    redo = (
        f"recomputed layers: {better.recomputed_layers} of {better.layers_per_stage} against "
        f"{worse.recomputed_layers} of {worse.layers_per_stage}"
    )
    return [*lines, f"  {memory}; {redo}"]


def differences(better: Plan, worse: Plan) -> tuple[tuple[str, Fraction], ...]:
    """What each part saves in seconds, parts without a difference left out, the largest first."""
    saved = {name: worse.parts[name] - better.parts[name] for name in better.parts}
    ranked = sorted(saved.items(), key=lambda pair: -abs(pair[1]))
    return tuple((name, value) for name, value in ranked if value)


def _signed(value: Fraction) -> str:
    return time(value) if value >= 0 else f"−{time(-value)}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [cell.rjust(w) for cell, w in zip(row[:-1], widths[:-1], strict=True)]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return lines


def plain(value: Fraction, digits: int = 0) -> str:
    """A number with so many digits after the point, without grouping."""
    return printed(sp.Rational(value.numerator, value.denominator), decimals(digits), one)
