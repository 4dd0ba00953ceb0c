"""What all figures of the chapter share: the chapter itself and small helpers."""

from __future__ import annotations

from derive.book import Chapter, cell, integer
from derive.book.tables import NumberCell
from derive.notation.quantity import number

NAMES = (
    "A100, BERT-Large, FP16, FP32, GPT-2, GPT-3, H100, V100, v5e, Llama 2 7B, Llama 2 13B, "
    "Llama 2 70B, Llama 3.1 405B, Mistral 7B, Qwen2.5 7B, Qwen3, Gemma 3"
)
chapter = Chapter(
    "12",
    "Published figures recomputed",
    names=NAMES.split(", "),
    files=("facts.toml", "partitioners.toml"),
)


def whole(count: int, name: str) -> NumberCell:
    """A count of that name, for a table."""
    return cell(number(count, name=name, status="derived"), integer())
