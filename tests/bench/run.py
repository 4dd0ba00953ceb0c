"""Run every benchmark and print the ratios beside their aims."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from processes import ROOT, paired, python  # noqa: E402


def closed_forms(rounds: int = 7) -> tuple[float, float]:
    """Seconds of ours and of `solve`, each in a fresh process, beyond imports."""
    script = str(HERE / "closed_forms.py")
    subprocess.run([sys.executable, script, "ours", "compare"], check=True, capture_output=True)
    sides: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        for side, times in sides.items():
            done = subprocess.run(
                [sys.executable, script, side], check=True, capture_output=True, text=True
            )
            times.append(float(done.stdout))
    return median(sides["ours"]), median(sides["theirs"])


def main() -> None:
    """Print one line per benchmark."""
    line("14 closed forms, cold / solve", *closed_forms(), aim="at most 0.25")
    sympy = python("import sympy")
    line("import derive / import sympy", *paired(python("import derive"), sympy), aim="1.15")
    every = python("from derive import *")
    line("from derive import * / import sympy", *paired(every, sympy), aim="none set")
    help_ = [sys.executable, "-m", "derive", "--help"]
    line("derive --help / import sympy", *paired(help_, sympy), aim="without SymPy")
    three = python("import sympy, numpy, jinja2")
    build = [sys.executable, str(ROOT / "build.py")]
    chapters = len([*(ROOT / "chapters").glob("*/chapter.md.j2")])
    for name, command, most in (
        ("build chapter 06", [*build, "06"], 3),
        ("check chapter 06", [*build, "--check", "06"], 3),
        ("check chapters 06 and 10", [*build, "--check", "06", "10"], 4),
        (f"check the whole book, {chapters} chapters", [*build, "--check"], 2 + chapters),
    ):
        line(f"{name} / import three", *paired(command, three, 5), aim=f"at most {most}")
    subprocess.run([sys.executable, str(HERE / "feedback.py")], check=True)
    subprocess.run([sys.executable, str(HERE / "notebook.py")], check=True)
    from grid import ratio

    ours, theirs, apart = ratio()
    line("hand-written NumPy / evaluate, 1M points", theirs, ours, aim="at least 0.8")
    print(f"{'':<44} largest relative difference {apart:.1e}")
    subprocess.run([sys.executable, str(HERE / "plans.py")], check=True)
    subprocess.run([sys.executable, str(HERE / "layouts.py")], check=True)


def line(name: str, ours: float, theirs: float, *, aim: str) -> None:
    """One benchmark: both sides in milliseconds and the ratio of the first to the second."""
    print(
        f"{name:<44} {1e3 * ours:8.1f} ms / {1e3 * theirs:8.1f} ms = {ours / theirs:6.3f}"
        f"   aim: {aim}",
        flush=True,
    )


if __name__ == "__main__":
    main()
