"""A search of a million layouts under the default assumptions, all terms on, and the full search of
a large job: CPU time, memory, and how both grow.

`python tests/bench/layouts.py` prints figures beside their aims, each from a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from processes import ROOT, computed  # noqa: E402

SIZES = (1, 2, 4)  # quarters of a million
JOB = (
    *("--model", "llama-3-405b", "--chip", "h100", "--cards", "16384"),
    *("--seq", "8192", "--batch", "2048"),
)


def child(quarters: int) -> None:
    """Print the layouts, the seconds of CPU of their search and the megabytes of the process."""
    from derive.facts import chip, model
    from derive.plan.axes import Space
    from derive.plan.search import search
    from derive.plan.task import task

    asked = task(
        model("llama-3-405b"), chip("h100"), cards=2**14, seq=2**13, batch=2**24 * 27 * 25 * 49 * 11
    )
    micro = tuple(
        2**a * 3**b * 5**c * 7**d * 11**e
        for a in range(10) for b in range(4) for c in range(3) for d in range(3) for e in range(2)
    )[: 180 * quarters]  # fmt: skip
    space = Space(
        tp=(1, 2, 4, 8), cp=(1, 2, 4, 8, 16), pp=(1, 2, 4, 8, 16, 32, 64),
        virtual=(1, 2, 4), zero=(0, 1, 2, 3), micro_batch=micro,
    )  # fmt: skip
    search(asked, Space(tp=(8,), pp=(16,)), top=10)  # what is compiled once
    start = time.process_time()
    ranking = search(asked, space, top=10)
    took = time.process_time() - start
    reached = space.size - sum(n for rule, n in ranking.rejected.items() if rule != "memory")
    print(space.size, reached, took, getrusage(RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Print one line per benchmark."""
    for quarters in SIZES:
        command = [sys.executable, __file__, str(quarters)]
        runs = []
        for _ in range(3):
            done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
            runs.append([float(word) for word in done.stdout.split()])
        size, reached, took, held = (median(column) for column in zip(*runs, strict=True))
        print(
            f"{int(size):>9,} layouts, {int(reached):,} evaluated: {took:.2f} s of CPU, "
            f"{held:.0f} MB   aim, of a million: 2 s, 300 MB",
            flush=True,
        )
    command = [sys.executable, "-m", "derive", "plan", *JOB]
    took = median(computed(command) for _ in range(5))
    print(f"derive plan, 405B on 16,384 cards: {took:.2f} s of CPU   aim: 3 s")


if __name__ == "__main__":
    child(int(sys.argv[1])) if len(sys.argv) > 1 else main()
