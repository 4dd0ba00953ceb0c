"""What the child of `build --watch` computes for a chapter, against imports that it is spared."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from statistics import median

from processes import ROOT, computed, python

from derive.book.build import build
from derive.book.draft import draft
from derive.book.folders import Shelf
from derive.commands.watch import forked, prepare

CHAPTER = "06-choosing-a-mesh"


def built(name: str) -> Iterator[str]:
    return iter(map(str, build(Shelf(ROOT / "chapters"), [name])))


def drafted(name: str) -> Iterable[str]:
    return draft(Shelf(ROOT / "chapters"), [name])[0].lines()


def main(rounds: int = 5) -> None:
    """Print a line for each of the two; the draft that was made is removed by the next build."""
    prepare()
    imports = python("import sympy, numpy, jinja2")
    for attempt in (drafted, built):
        ours, theirs = [], []
        for _ in range(rounds):
            with redirect_stdout(io.StringIO()):
                ours.append(forked(attempt, CHAPTER))
            theirs.append(computed(imports))
        a, b = median(ours), median(theirs)
        print(f"watcher: chapter 06 {attempt.__name__:<8} / import three (CPU)", end="  ")
        print(f"{1e3 * a:8.1f} ms / {1e3 * b:8.1f} ms = {a / b:6.3f}   aim: at most 2", flush=True)


if __name__ == "__main__":
    main()
