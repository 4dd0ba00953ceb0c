"""A search in the notebook's own output lines, character for character; its labels are Chinese."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

from derive.plan.found import Found
from derive.plan.plans import Plan
from derive.plan.report import plain, share, shares
from derive.plan.task import Task

LABELS: Mapping[str, str] = MappingProxyType(
    {
        "compute": "计算", "recompute": "重算", "imbalance": "不均衡", "tp": "TP", "cp": "CP",
        "pp": "PP", "bubble": "气泡", "dp": "DP",
    }
)  # fmt: skip
GIB = 2**30


def lines(
    found: Found, plans: Sequence[Plan], also: Sequence[tuple[int, ...]] = ()
) -> tuple[str, ...]:
    """The heading, ranked plans, and the plans of `also` (tp, cp, pp, and a micro-batch or none)
    with their ranks.

    Raises DeriveError for degrees in `also` that do not fit, or whose plan was not kept.
    """
    task = found.task
    made = [f"== {_title(task)}：{found.fit} 种配置放得下"]
    made += [line(plan) for plan in plans]
    for degrees in also:
        rank = found.rank(*degrees)
        made.append(f"  第 {rank} 名：{line(found.plan(rank))}")
    return tuple(made)


def line(plan: Plan) -> str:
    """One plan: degrees, utilisation, memory, recomputed layers and shares of the step."""
    parts = " ".join(f"{LABELS[name]} {share(part)}" for name, part in shares(plan))
    redo = ""
    if plan.recomputed_layers:
        redo = f"，重算 {plan.recomputed_layers}/{plan.layers_per_stage} 层"
    memory = plain(plan.memory_bytes / GIB)
    # The document's script has no micro-batch but 1.
    micro = "" if plan.micro_batch == 1 else f" b={plan.micro_batch}"
    return (
        f"TP={plan.tp} CP={plan.cp} PP={plan.pp} DP={plan.dp}{micro}：MFU {share(plan.mfu, 1)}，"
        f"{memory} GiB/卡{redo}｜{parts}"
    )


def _title(task: Task) -> str:
    size = task.model.rpartition("-")[2].upper()
    tokens = _short(task.batch * task.seq, 2**20, "M")
    length = _short(task.seq, 2**10, "K")
    return f"{size}，{task.cards} 卡，{length} 序列，每步 {tokens} token"


def _short(count: int, unit: int, prefix: str) -> str:
    """A count in its binary unit where a few digits hold it, else all its digits."""
    value = Fraction(count, unit)
    for digits in range(4):
        if (value * 10**digits).denominator == 1:
            return f"{plain(value, digits).replace(',', '')}{prefix}"
    return str(count)
