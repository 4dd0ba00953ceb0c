"""Writes anew what follows from the published runs and from the step model.

    python tests/plan/renew.py

The tables that are fitted, at the end of derive/facts/data/stacks.toml, and the predictions of a
grid of plans, tests/plan/data/predictions.json, which tests hold against what would be written.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from derive.facts.catalogue import DATA
from derive.facts.runs import runs
from derive.plan.calibration import calibration, fitted_shares, step_errors

STACKS = DATA / "stacks.toml"
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


if __name__ == "__main__":
    renew_stacks()
