"""What DTensor sent when it was recorded (`record_dtensor.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from counted import Counted, Sent

FILE = Path(__file__).with_name("dtensor.json")
RECORD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))


ROWS = {(row["sharding"], row["sizes"]): row for row in RECORD["rows"]}


def recorded(sharding: str, sizes: str, which: str) -> Counted | None:
    """The collectives of a sharding; None where DTensor cannot say it. Raises KeyError for one that
    was not recorded."""
    row = ROWS[sharding, sizes]
    if "refused" in row:
        return None
    passes = ("forward", "backward") if which == "both" else ("forward",)
    moves = [one for name in passes for one in row[name]]
    return Counted(tuple(Sent(kind, tuple(axes), size) for kind, axes, size in moves))
