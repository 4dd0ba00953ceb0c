"""What DTensor sent when it was recorded (`record_dtensor.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from counted import Counted, Sent

FILE = Path(__file__).with_name("dtensor.json")
RECORD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


def recorded(case: str, sizes: str, which: str) -> Counted | None:
    """The collectives of a case; None where DTensor cannot say it or was not asked."""
    found = next((r for r in RECORD["rows"] if (r["case"], r["sizes"]) == (case, sizes)), None)
    if found is None or "refused" in found:
        return None
    passes = ("forward", "backward") if which == "both" else ("forward",)
    moves = [one for name in passes for one in found[name]]
    return Counted(tuple(Sent(kind, tuple(axes), size) for kind, axes, size in moves))
