"""The plan search against the notebook's script, hand-written NumPy and the import of SymPy.

`python tests/bench/plans.py` prints the ratios beside their aims. The script is run out of the
notebook's text, whose path is in DERIVE_NOTEBOOK or which lies in ../shared/seeds; without it the
lines that need it are skipped.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from processes import ROOT, paired, python  # noqa: E402

from derive.cost.assumptions import NOTEBOOK  # noqa: E402
from derive.facts import chip, model  # noqa: E402
from derive.notation.quantity import number  # noqa: E402
from derive.notation.symbols import find, unit_of_symbol  # noqa: E402
from derive.plan.axes import Space  # noqa: E402
from derive.plan.search import search  # noqa: E402
from derive.plan.task import Task, task  # noqa: E402

SEED = "002_37469eb86d3e1092.txt"
PARAMS, LAYERS, WIDTH, KV, VOCAB = 70.6e9, 80, 8192, 1024, 128256


@dataclass(frozen=True)
class Case:
    """A product grid of a million candidates or more."""

    name: str
    cards: int
    seq: int
    batch: int
    memory: float
    space: Space

    def task(self) -> Task:
        """The case as a task; its memory is what a plan may fill."""
        given = {"M_hbm": number(int(self.memory), unit_of_symbol(find("M_hbm"))), "mu": number(1)}
        return task(
            model("llama-3-70b"), chip("h100", profile="notebook"),
            cards=self.cards, seq=self.seq, batch=self.batch, assumptions=NOTEBOOK,
            values={find(name): value for name, value in given.items()},
        )  # fmt: skip


def divisors(n: int) -> tuple[int, ...]:
    """The divisors of n in order."""
    small = [k for k in range(1, int(n**0.5) + 1) if n % k == 0]
    return tuple(sorted({*small, *(n // k for k in small)}))


POWERS = tuple(2**k for k in range(7))
SPARSE = Case(
    "every degree, most rejected", 2**10 * 45, 2**15 * 45, 2**10 * 45, 72e9,
    Space(tp=(1, 2, 4, 8), cp=range(1, 33), pp=range(1, 81), micro_batch=range(1, 105)),
)  # fmt: skip
DENSE = Case(
    "divisors alone, all evaluated", 2**12, 2**18, 963761198400 * 2**6, 1e21,
    Space(
        tp=(1, 2, 4, 8), cp=POWERS, pp=(1, 2, 4, 8, 16, 80), micro_batch=divisors(963761198400)
    ),
)  # fmt: skip


def by_hand(case: Case) -> tuple[int, float]:
    """How many fit and the shortest step, as one would write it in NumPy: constants folded, pairs
    of degrees outside, arrays of stages and micro-batches in blocks that stay in cache."""
    peak, near, far, node = 989e12 * 0.6, 450e9, 50e9, 8
    stages = np.array(case.space.pp, dtype=float)
    micro = np.array(case.space.micro_batch, dtype=float)
    stages = stages[LAYERS % stages == 0][:, None]
    attention = 6.0 * case.seq * WIDTH
    layer = 6 * (PARAMS - 2 * VOCAB * WIDTH) / LAYERS + attention
    head = 6.0 * VOCAB * WIDTH
    fit, best = 0, np.inf
    for t, c in product(case.space.tp, case.space.cp):
        if t > node or case.cards % (t * c) or case.seq % c or (c > 1 and case.seq // c < 4096):
            continue
        s = case.seq / c
        ring_link = near if t * c <= node else far
        for start in range(0, len(micro), 2048):
            b = micro[None, start : start + 2048]
            p = stages[case.cards % (t * c * stages) == 0][:, None]
            d = case.cards / (t * c * p)
            m = case.batch / (d * b)
            layers = LAYERS / p
            psi = PARAMS / (t * p)
            states = 4 * psi + 12 * psi / (d * c)
            unit = s * WIDTH / t * b * np.minimum(p, m)
            again = np.maximum(
                0.0, np.ceil((states + 34 * layers * unit - case.memory) / (32 * unit))
            )
            pace = b * (s / t / peak)
            slow = (layers * layer + head + again * (layer / 3)) * pace
            tensor = layers * b * (16 * (t - 1) / t * s * WIDTH / near)
            ring = layers * b * (12 * (c - 1) * s * KV / ring_link)
            context = np.maximum(0.0, ring - layers * attention * pace)
            link = np.where(t * c * d * p <= node, near, far)
            hops = np.where(p > 1, 2 * s * WIDTH / t / link, 0.0) * b
            group = d * c
            data = 0.8 * (group - 1) / group * psi / np.where(t * group <= node, near, far)
            step = (m + p - 1) * (slow + tensor + context + hops) + data
            good = (m == np.floor(m)) & (again <= layers)
            fit += int(good.sum())
            best = min(best, float(np.min(step, where=good, initial=np.inf)))
    return fit, best


def script() -> types.ModuleType | None:
    """The notebook's script as a module, or None where its text is not there."""
    given = os.environ.get("DERIVE_NOTEBOOK")
    path = Path(given) if given else ROOT.parent / "shared" / "seeds" / SEED
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    ranking = re.search(r"\nparallel_plan\.py\n\n(.*?)\noutput\n", text, re.DOTALL)
    if ranking is None:
        return None
    module = types.ModuleType("parallel_plan")
    sys.modules["parallel_plan"] = module
    exec(compile(ranking[1], "parallel_plan.py", "exec"), module.__dict__)
    return module


def script_per_candidate(module: Any, case: Case, every: int = 97) -> float:
    """Seconds of the script's `plan` per candidate, over each `every`-th one of the grid."""
    module.MEM = case.memory
    axes = case.space
    grid = product(axes.tp, axes.cp, axes.pp, axes.micro_batch)
    sample = list(islice(grid, 0, None, every))
    start = time.perf_counter()
    for t, c, p, b in sample:
        module.plan(module.llama70b, case.seq, case.batch, case.cards, t, c, p, b)
    return (time.perf_counter() - start) / len(sample)


def timed(function: Callable[[], object], rounds: int = 7) -> float:
    """The median time of a call over some rounds, after one that is not counted."""
    function()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return median(times)


def line(name: str, ratio: float, told: str, aim: str) -> None:
    """One benchmark with its ratio and its aim."""
    print(f"{name:<58} {ratio:8.2f}   {told}   aim: {aim}", flush=True)


def product_grids(module: Any) -> None:
    """Both grids of a million candidates against the script and hand-written NumPy."""
    for case, aim in ((SPARSE, 1), (DENSE, 0.4)):
        asked = case.task()
        ranking = search(asked, case.space, top=10)
        fit, best = by_hand(case)
        assert ranking.fit == fit and abs(ranking.seconds[0] / best - 1) < 1e-9, (ranking.fit, fit)
        ours_run = partial(search, asked, case.space, top=10)
        hand_run = partial(by_hand, case)
        sides = [(timed(ours_run, 3), timed(hand_run, 3)) for _ in range(3)]
        ours, theirs = median(s[0] for s in sides), median(s[1] for s in sides)
        size = case.space.size
        told = f"{size / ours / 1e6:.0f} M/s against {size / theirs / 1e6:.0f} M/s, {size:,}"
        line(f"hand-written NumPy / search: {case.name}", theirs / ours, told, f"at least {aim}")
        if module is not None:
            each = script_per_candidate(module, case)
            told = f"{ours / size * 1e9:.1f} ns against {each * 1e9:.0f} ns a candidate"
            line(f"script / search: {case.name}", each * size / ours, told, "at least 30")


def main() -> None:
    """Print one line per benchmark."""
    module = script()
    if module is None:
        print("the notebook's text is not there (DERIVE_NOTEBOOK): its script is not measured")
    product_grids(module)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    micro = range(1, 8 * len(DENSE.space.micro_batch) + 1)
    axes = {"tp": DENSE.space.tp, "cp": DENSE.space.cp, "pp": DENSE.space.pp}
    wide = Space(**axes, micro_batch=micro)
    search(DENSE.task(), wide, top=10)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) / 1024
    line("megabytes more for a grid eight times as large", grown, f"{wide.size:,}", "0")
    typed = ["--model", "llama-3-70b", "--chip", "h100", "--cards", "64"]
    typed += ["--seq", "8192", "--batch", "512"]
    command = [sys.executable, "-m", "derive", "plan", *typed]
    if subprocess.run(command, cwd=ROOT, capture_output=True).returncode:
        print("derive plan does not run: the whole process is not measured")
        return
    ours, imported = paired(command, python("import sympy"))
    told = f"{ours * 1e3:.0f} ms against {imported * 1e3:.0f} ms"
    line("derive plan / import sympy", ours / imported, told, "at most 3")


if __name__ == "__main__":
    main()
