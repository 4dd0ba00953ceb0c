"""How the runs are chosen: by rules that can be stated without a look at any error."""

from __future__ import annotations

from collections import Counter

from derive.book.tables import Cell
from derive.facts.runs import RULES, Run, calibrating, reasons, studied

from .common import RUNS, chapter, count, n

WAVED = ("vocab", "precision", "noisy", "partial")  # what the studied runs may lack
REASONS = {
    "experts": "layers with experts",
    "tpu": "on TPUs",
    "narrow": "products in 8 bits",
    "studied": "**studied: the errors of this chapter are of these**",
    "open": "what is recomputed not stated: fitted to, judged apart",
    "less": "less of the configuration stated by the source: judged apart",
}


def group(run: Run) -> str:
    """Where a run belongs, a key of REASONS or of RULES: the first that holds."""
    if run.experts:
        return "experts"
    if run.chip.startswith("tpu"):
        return "tpu"
    if run.precision in ("fp8", "int8"):
        return "narrow"
    if studied(run):
        return "studied"
    if calibrating(run):
        return "open"
    return next((reason for reason in reasons(run) if reason not in WAVED), "less")


groups = Counter(map(group, RUNS))
PHRASES: dict[str, Cell] = {key: phrase for key, (phrase, _) in RULES.items()}
TOLD: dict[str, Cell] = {
    **PHRASES,
    **REASONS,
    "head_dim": ("the width of a head is no multiple of ", n(8, "width")),
    "heads": "number of heads not stated",
    "hidden": "width of the model not stated",
    "tp": "tensor degree not stated",
    "ffn": "feed-forward width not stated",
}
chapter.table(
    "chosen",
    "Of all published runs | Runs",
    [["all of them", n(len(RUNS), "runs")]]
    + [[TOLD[key], n(groups[key], "runs")] for key in REASONS]
    + [[TOLD[key], n(of, "runs")] for key, of in groups.most_common() if key not in REASONS],
)
count("runs", len(RUNS))
count("studied", groups["studied"])
count("fitted-to", groups["studied"] + groups["open"])
count("sources", len({run.source for run in RUNS if studied(run)}))
count("layers-alone", sum(bool(run.layer_seconds) for run in RUNS if studied(run)))
count("second-steps", sum("noisy" in reasons(run) for run in RUNS if studied(run)))
chapter.require(
    "no-doubt", holds=not any(run.doubts or run.oom for run in RUNS if studied(run)),
    because="rules of the studied runs",
)  # fmt: skip
