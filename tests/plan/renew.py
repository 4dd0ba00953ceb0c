"""Writes anew what follows from the published runs and from the step model.

    python tests/plan/renew.py

The tables that are fitted, at the end of derive/facts/data/stacks.toml, then with them the
predictions of a grid of plans, tests/plan/data/predictions.json. Tests hold both against what would
be written.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from derive.facts import chip, model, stacks
from derive.facts.catalogue import DATA
from derive.facts.runs import runs
from derive.plan.axes import AXES, broken, degrees
from derive.plan.calibration import calibration, fitted_shares, step_errors
from derive.plan.plan import plan_of
from derive.plan.task import task

COMMAND = "python tests/plan/renew.py"
PREDICTIONS = Path(__file__).parent / "data" / "predictions.json"
STACKS = DATA / "stacks.toml"
# Layouts across ZeRO, virtual stages, context groups and recomputation.
LAYOUTS = {
    "llama-3-8b": (
        "tp=1,zero=3,micro_batch=2", "tp=2,zero=1,recompute=full", "tp=4,cp=4,zero=2",
        "tp=2,pp=4,virtual=4", "zero=3,replicas=4,recompute=selective",
    ),
    "llama-3-70b": (
        "tp=8,cp=2,pp=4", "tp=4,pp=8,virtual=5", "tp=2,zero=3,recompute=full",
        "tp=8,zero=2,micro_batch=2,recompute=full", "tp=4,pp=16,recompute=2,sequence_parallel=off",
        "tp=8,pp=8,recompute=selective", "tp=8,pp=8,schedule=zero-bubble",
    ),
    "llama-3-405b": (
        "tp=8,pp=16,virtual=4", "tp=8,pp=16", "tp=8,cp=4,pp=14,recompute=full",
        "tp=8,cp=2,zero=3,recompute=full",
    ),
    "gpt-3-175b": (
        "tp=8,pp=8,recompute=selective", "tp=8,pp=8,virtual=3,recompute=full",
        "tp=8,pp=16,zero=0,sequence_parallel=off", "tp=4,pp=8,virtual=2,recompute=3",
    ),
}  # fmt: skip
# The cards, tokens and sequences of each, and the chips.
ASKED = {
    "llama-3-8b": (64, 8192, 128, ("a100-40g", "h100-sxm", "b200-sxm")),
    "llama-3-70b": (512, 8192, 512, ("a100-80g", "h100-sxm", "h200-sxm", "b200-sxm", "tpu-v5p")),
    "llama-3-405b": (7168, 8192, 1792, ("h100-sxm", "gb200-nvl72")),
    "gpt-3-175b": (512, 2048, 1536, ("a100-80g", "h100-500w")),
}
MARK = "# What `derive validate --fit` says"


def tables() -> str:
    """The tables of what is fitted, three digits of a share and two of an error."""
    fit = calibration(runs())
    lines = [f"{MARK}: shares of what a chip and a cluster could do, with the relative"]
    lines += ["# error (one standard deviation) and how many runs each rests on.", ""]
    for share in fitted_shares(fit):
        lines += [
            f"[fitted.{share.symbol}.{share.owner}]",
            f"value = {share.value:.3g}", f"error = {share.error:.2g}",
            f"runs = {len(share.runs)}", "",
        ]  # fmt: skip
    lines += [
        "# What nine of ten runs on a chip are off by at most where the fit has not seen their"
    ]
    lines += ["# source's model; other: on no chip of which it has seen runs.", "", "[errors]"]
    lines += [f"{kind} = {error:.2g}" for kind, error in sorted(step_errors(fit).items())]
    return "\n".join(lines) + "\n"


def renew_stacks() -> None:
    text = STACKS.read_text()
    STACKS.write_text(text[: text.index(MARK)] + tables())


def predictions() -> dict[str, dict[str, float]]:
    """The seconds of a step and the bytes of the fullest chip of each plan of the grid, whether it
    fits or not, by what is asked and its layout; under `corrected` and `notebook` of the first."""
    rows = {}
    for name, (cards, seq, batch, chips) in ASKED.items():
        for on in chips:
            for layout in LAYOUTS[name]:
                rows[f"{name} {on} {layout}"] = _predicted(name, on, cards, seq, batch, layout)
    for under in ("corrected", "notebook"):
        for on in ("h100-sxm", "tpu-v5p"):
            row = _predicted("llama-3-70b", on, 512, 8192, 512, "tp=8,cp=2,pp=4", under)
            rows[f"llama-3-70b {on} tp=8,cp=2,pp=4 {under}"] = row
    return rows


def _predicted(name, on, cards, seq, batch, layout, under="default") -> dict[str, float]:
    asked = task(
        model(name), chip(on), cards=cards, seq=seq, batch=batch, layout=layout, assumptions=under
    )
    row = degrees(**{a.name: asked.fixed[a.symbol] for a in AXES if a.symbol in asked.fixed})
    assert not (rule := broken(asked.counts, row)), f"{name} {on} {layout}: {rule}"
    plan = plan_of(asked, row)
    return {name: float(f"{float(getattr(plan, name)):.6g}") for name in NAMES}


NAMES = ("step_seconds", "memory_bytes")


if __name__ == "__main__":
    renew_stacks()
    for read in (stacks._tables, stacks.fitted):  # what was written is read again
        read.cache_clear()
    PREDICTIONS.write_text(json.dumps(predictions(), indent=1) + "\n")
