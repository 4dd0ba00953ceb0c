"""A search in the notebook's own output lines, character for character; its labels are Chinese."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType

from derive.notation.printed import decimals, exact, printed, share
from derive.plan.plan import Plan
from derive.plan.report import shares
from derive.plan.search import Ranking
from derive.plan.task import Task

LABELS: Mapping[str, str] = MappingProxyType({
    "compute": "计算", "recompute": "重算", "imbalance": "不均衡", "tp": "TP", "cp": "CP",
    "pp": "PP", "bubble": "气泡", "dp": "DP",
})  # fmt: skip
GIB = 2**30


def lines(ranking: Ranking, plans: Sequence[Plan], also: Sequence[int] = ()) -> tuple[str, ...]:
    """The heading, some first plans, and those of other ranks; raises DeriveError for a rank that
    there is not."""
    return (
        f"== {_title(ranking.task)}：{ranking.fit} 种配置放得下",
        *map(line, plans),
        *(f"  第 {rank} 名：{line(ranking.plan(rank))}" for rank in also),
    )


def line(plan: Plan) -> str:
    """One plan: degrees, utilisation, memory, recomputed layers and shares of the step."""
    parts = " ".join(f"{LABELS.get(name, name)} {share(part)}" for name, part in shares(plan))
    redo = ""
    if plan.recomputed_layers:
        redo = f"，重算 {plan.recomputed_layers}/{plan.layers_per_stage} 层"
    memory = printed(plan.memory_bytes / GIB, decimals(0))
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
    """A count in its binary unit where three decimals hold it, else all its digits."""
    value = Fraction(count, unit)
    short = (1000 * value).denominator == 1
    return f"{printed(value, exact())}{prefix}".replace(",", "") if short else str(count)
