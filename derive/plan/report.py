"""Plans as people read them: the ranked table, what was rejected, why one plan beats another; and a
search in the notebook's own output lines, character for character, whose words are Chinese.

Plans carry exact numbers; they are rounded in words alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from textwrap import wrap
from types import MappingProxyType

from derive.cost.memory import GLOSSES
from derive.facts.stacks import fitted_to_chip
from derive.notation import symbols as v
from derive.notation.printed import decimals, exact, printed, share, si, significant, size, time
from derive.notation.quantity import number
from derive.notation.text import aligned
from derive.notation.units import flop, second, token
from derive.plan.axes import AXES, REASONS, Axis, Degrees, Space, broken, worded
from derive.plan.nearest import Near
from derive.plan.plan import Plan, plan_of
from derive.plan.task import Task, amounts

TOP = 10  # plans of a table
DAY = 86_400
WIDTH = 100
CONVENTION = (
    "the FLOP of the model alone, nothing that is run again, attention at the half that a causal "
    "mask leaves, over the peak"
)
SMALLEST_SHARE = Fraction(1, 200)  # what rounds to 1% and more, as in the notebook
NAMES: Mapping[str, str] = MappingProxyType({
    "compute": "compute", "recompute": "recompute", "imbalance": "imbalance", "tp": "tensor",
    "cp": "context", "pp": "pipeline", "bubble": "bubble", "dp": "data", "ep": "experts",
})  # fmt: skip
LABELS: Mapping[str, str] = MappingProxyType({
    "compute": "计算", "recompute": "重算", "imbalance": "不均衡", "tp": "TP", "cp": "CP",
    "pp": "PP", "bubble": "气泡", "dp": "DP",
})  # fmt: skip


def shares(plan: Plan) -> tuple[tuple[str, Fraction], ...]:
    """The parts of the step of at least half a percent, with their shares, in order."""
    every = ((name, plan.share(name)) for name in plan.parts)
    return tuple((name, part) for name, part in every if part >= SMALLEST_SHARE)


def conditions(task: Task) -> list[str]:
    """What the caller has set, in a line, and a note on each value that plays no part."""
    values = {symbol: value.printed() for symbol, value in task.values.items()}
    values |= {symbol: f"{degree:,}" for symbol, degree in task.fixed.items()}
    pairs = [f"{symbol} = {values[symbol]}" for symbol in task.given]
    return [*([f"set: {', '.join(pairs)}"] if pairs else []), *(f"note: {x}" for x in notes(task))]


def notes(task: Task) -> list[str]:
    """A note on each value that the caller has set and that plays no part, and on how rows go to
    experts, where that is as nobody has said."""
    idle = [f"{s} plays no part under {task.assumptions}" for s in task.idle]
    if not task.assumptions.has_experts or {v.x_ep, v.n_M} & {*task.given}:
        return idle
    told = "rows go to each expert by themselves, and nothing hides their way: n_M = 4 would be a "
    return [*idle, f"{told}copy for each of 4 nodes, x_ep = 0.5 half of the time hidden"]


def told(axis: Axis, plan: Plan) -> bool:
    """Whether a table has a column of an axis because of a plan: it is not 1, or it says how states
    are split where they can be."""
    place = AXES.index(axis)
    return plan.degrees[place] != 1 or (axis.name == "zero" and plan.task.counts.sharded)


def table(plans: Sequence[Plan]) -> list[str]:
    """Ranked plans as aligned lines under a heading."""
    columns = [
        place
        for place, axis in enumerate(AXES)
        if axis.column or any(told(axis, plan) for plan in plans)
    ]
    heads = [AXES[place].name.replace("_", "-") for place in columns]
    run = ["run"] if plans and plans[0].task.tokens else []
    rows = [["rank", *heads, "MFU", "step", *run, "memory", "recomputed", "where it goes"]]
    for rank, plan in enumerate(plans, 1):
        parts = ", ".join(f"{NAMES.get(name, name)} {share(part)}" for name, part in shares(plan))
        redo = f"{plan.recomputed_layers}/{plan.layers_per_stage}"
        days = [f"{printed(plan.run_seconds / DAY, significant(4))}\u00a0days" for _ in run]
        numbers = [share(plan.mfu, 1), time(plan.step_seconds), *days, size(plan.memory_bytes)]
        degrees = [str(plan.degrees[place]) for place in columns]
        rows.append([str(rank), *degrees, *numbers, redo, parts])
    return aligned(rows, "r" * (len(rows[0]) - 1) + "l")


def one_plan(plan: Plan) -> list[str]:
    """A plan by itself: what it does per second, where its time goes, what each stage holds."""
    task = plan.task
    rate, flops = plan.tokens_per_second, number(plan.chip_flops, flop / second, "rate")
    each = number(rate / task.cards, token / second).printed()
    said = {name: getattr(task.assumptions, name) for name in ("schedule", "kernels", "precision")}
    said |= {"sequence_parallel": "on" if task.assumptions.sequence_parallel else "off"}
    lines = [
        f"{plan!r}",
        ", ".join([f"zero={plan.zero}", *(f"{name}={way}" for name, way in said.items())]),
        f"{number(rate, token / second).printed()}, {each} on each chip",
        f"{flops.printed()} on each chip, MFU {share(plan.mfu, 1)}: {CONVENTION} "
        f"({task.constants[v.C].printed()} in {task.assumptions.precision})",
    ]
    if task.tokens:
        days = printed(plan.run_seconds / DAY, significant(4))
        lines.append(f"{days} days for {number(task.tokens, token).printed()}")
    rows = [["part", "seconds", "share", "what it is"]]
    for name, gloss in ((term.name, term.gloss) for term in task.step.parts):
        figures = [printed(plan.parts[name], significant(4)), share(plan.share(name), 1)]
        rows.append([NAMES.get(name, name), *figures, gloss])
    lines += [f"  {line}" for line in aligned(rows, "lrrl")]
    stages = plan.each_stage
    fullest = max(stages, key=lambda stage: stage.memory_bytes)
    shown = [kind for kind in GLOSSES if any(stage.memory.get(kind) for stage in stages)]
    heads = ["in flight", "parameters", *(kind.replace("_", " ") for kind in shown), "memory"]
    table = [["stage", "layers", *heads]]
    for place, stage in enumerate(stages):
        sizes = [stage.memory.get(kind, Fraction(0)) for kind in shown] + [stage.memory_bytes]
        flying = printed(stage.in_flight, significant(5, trim=True))
        numbers = [f"{stage.layers}", flying, printed(stage.parameters, si(4))]
        name = f"{place}, the fullest" if stage is fullest else str(place)
        table.append([name, *numbers, *(size(x) if x else "0" for x in sizes)])
    return [*lines, *(f"  {line}" for line in aligned(table, "l" + "r" * (len(heads) + 1)))]


def basis(task: Task) -> list[str]:
    """What an answer rests on: the constants that play a part, by whose they are, and how far off
    steps on the chip may be."""
    by_origin: dict[str, list[str]] = {}
    for symbol, value in task.rests_on.items():
        own = "set" if value.status == "given" else "assumed"
        origin = "set" if symbol in task.given else value.owner or own
        by_origin.setdefault(origin, []).append(f"{symbol}\u00a0=\u00a0{value.printed()}")
    lines = [f"rests on ({origin}): {', '.join(pairs)}" for origin, pairs in by_origin.items()]
    if task.step_error is not None:
        known = fitted_to_chip(task.chip)
        first, part = ("", "model") if known else ("no run on this chip is known; ", "source")
        told = f"nine of ten runs whose {part} the fit leaves out are within {task.step_error:.0%}"
        lines.append(f"steps: {first}{told}")
    elif task.measured:
        told = "derive validate tells how far off such runs are"
        lines.append(f"steps: no run {task.unfitted} is in the fit; {told}")
    return [part for line in lines for part in wrap(line, WIDTH, subsequent_indent="  ")]


def reason(task: Task, rule: str) -> str:
    """Why combinations are rejected, in words."""
    return f"{REASONS[rule]}{_again(task) if rule == 'memory' else ''}"


def _again(task: Task) -> str:
    """What of a plan that does not fit is run again."""
    again = {"none": "nothing", "given": f"{task.numbers.get(v.L_g)} layers of a stage"}
    return f" with {again.get(task.assumptions.recompute, 'every layer')} recomputed"


def nothing(task: Task, cause: str, too_large: Sequence[Plan], near: Sequence[Near]) -> list[str]:
    """Why nothing fits and what is nearest to fitting, with what it lacks: plans that lack memory
    alone, or `near`, where every combination breaks a rule on whole numbers."""
    told = ""
    if too_large:
        told = "; nearest: the least memory too much"
    elif near:
        told = "; nearest: the smallest change of one number"
        if not near[0].plan.lacks_bytes:
            told += ", what then fits in memory first"
    lines = [f"nothing fits: {reason(task, cause)}{told}"]
    lines += [f"  nearest: {plan.degrees} {_need(plan)}" for plan in too_large]
    for lacking in near:
        takes = ", or ".join(amounts(x.quantity, x.values) for x in lacking.changes)
        first = lacking.changes[0]
        lines += [
            f"  nearest: {lacking.row}: {worded(task.counts, lacking.row, lacking.rule)}; "
            f"it takes {takes}",
            f"    with {amounts(first.quantity, (first.value,))}: {lacking.plan.degrees} "
            f"{_need(lacking.plan)}",
        ]
    return lines


def _need(plan: Plan) -> str:
    budget = size(plan.task.budget)
    if not plan.lacks_bytes:
        return f"fits in {size(plan.memory_bytes)} of {budget}"
    return (
        f"needs {size(plan.memory_bytes)} of {budget}{_again(plan.task)}, "
        f"{size(plan.lacks_bytes)} too much"
    )


def why_not(task: Task, space: Space, row: Degrees) -> str:
    """Why a search did not rank a combination: the rule that rejects it, the memory it lacks, or
    that its grid does not hold it."""
    if rule := broken(task.counts, row):
        return f"{row} is rejected: {worded(task.counts, row, rule)}"
    plan = plan_of(task, row)
    if plan.lacks_bytes:
        return f"{plan.degrees} is rejected: it {_need(plan)}"
    for axis, wanted, values in zip(AXES, row, space.values, strict=True):
        if values and wanted not in values:
            only = f"{axis.symbol}={', '.join(map(str, values))}"
            told = f"; to search it, set {axis.symbol}={wanted}"
            hint = "" if axis.symbol in task.fixed else told
            return f"{plan.degrees} was not searched, only {only}{hint}"
    return f"{plan.degrees} was not kept"


def why(better: Plan, worse: Plan) -> list[str]:
    """Why the first plan takes less time than the second, term by term, largest difference first.

    The differences add up to that of the step times.
    """
    total = worse.step_seconds - better.step_seconds
    word = "faster" if total >= 0 else "slower"
    rows = [["part", "first", "second", "saved", "of the second step"]]
    for name, saved in differences(better, worse):
        times = [time(better.parts[name]), time(worse.parts[name]), time(saved)]
        rows.append([NAMES.get(name, name), *times, share(saved / worse.step_seconds, 1)])
    redo = [f"{plan.recomputed_layers} of {plan.layers_per_stage}" for plan in (better, worse)]
    return [
        f"{better.degrees} is {time(abs(total))} {word} than {worse.degrees}: "
        f"{time(better.step_seconds)} against {time(worse.step_seconds)}, "
        f"MFU {share(better.mfu, 1)} against {share(worse.mfu, 1)}",
        *(f"  {line}" for line in aligned(rows)),
        f"  memory: {size(better.memory_bytes)} against {size(worse.memory_bytes)}; "
        f"recomputed layers: {redo[0]} against {redo[1]}",
    ]


def differences(better: Plan, worse: Plan) -> tuple[tuple[str, Fraction], ...]:
    """What each part saves in seconds, parts without a difference left out, the largest first."""
    saved = {name: worse.parts[name] - better.parts[name] for name in better.parts}
    ranked = sorted(saved.items(), key=lambda pair: -abs(pair[1]))
    return tuple((name, value) for name, value in ranked if value)


# --- as the notebook prints it


def notebook_lines(
    task: Task, fit: int, plans: Sequence[Plan], also: Sequence[tuple[int, Plan]] = ()
) -> list[str]:
    """The heading, with how many plans fit, some first plans, and others by their ranks."""
    name = task.model.rpartition("-")[2].upper()
    tokens = _short(task.batch * task.seq, 2**20, "M")
    length = _short(task.seq, 2**10, "K")
    return [
        f"== {name}，{task.cards} 卡，{length} 序列，每步 {tokens} token：{fit} 种配置放得下",
        *map(notebook_line, plans),
        *(f"  第 {rank} 名：{notebook_line(plan)}" for rank, plan in also),
    ]


def notebook_line(plan: Plan) -> str:
    """One plan: degrees, utilisation, memory, recomputed layers and shares of the step."""
    parts = " ".join(f"{LABELS.get(name, name)} {share(part)}" for name, part in shares(plan))
    redo = ""
    if plan.recomputed_layers:
        redo = f"，重算 {plan.recomputed_layers}/{plan.layers_per_stage} 层"
    memory = printed(plan.memory_bytes / 2**30, decimals(0))
    # The document's script has no micro-batch but 1.
    micro = "" if plan.micro_batch == 1 else f" b={plan.micro_batch}"
    return (
        f"TP={plan.tp} CP={plan.cp} PP={plan.pp} DP={plan.dp}{micro}：MFU {share(plan.mfu, 1)}，"
        f"{memory} GiB/卡{redo}｜{parts}"
    )


def _short(count: int, unit: int, prefix: str) -> str:
    """A count in its binary unit where three decimals hold it, else all its digits."""
    value = Fraction(count, unit)
    short = (1000 * value).denominator == 1
    return f"{printed(value, exact())}{prefix}".replace(",", "") if short else str(count)
