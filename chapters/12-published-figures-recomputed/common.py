"""What all figures of the chapter share: the chapter itself and small helpers."""

from __future__ import annotations

from derive.book import Chapter

NAMES = (
    "3D, 5D, Llama 2 7B, Llama 2 13B, Llama 2 70B, Llama 3.1 405B, Mistral 7B, Qwen2.5 7B, Qwen3, "
    "Gemma 3, GPT-3"
)
chapter = Chapter(
    "12", "Published figures recomputed", names=NAMES.split(", "), files="autograd-sources.toml"
)
