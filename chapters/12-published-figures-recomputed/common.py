"""What all figures of the chapter share: the chapter itself and small helpers."""

from __future__ import annotations

from derive.book import Chapter

NAMES = "3D, 5D, fp32"
chapter = Chapter(
    "12", "Published figures recomputed", names=NAMES.split(", "), files="partitioners.toml"
)
