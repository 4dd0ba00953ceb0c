"""The same conditions on six chips and for three models."""

from __future__ import annotations

from derive import power_of_two_below
from derive.book import ceiling, cell
from derive.book.tables import Cell
from derive.cost.assumptions import CHOICES
from derive.cost.strategies import cross_pod, fsdp, fsdp_tensor
from derive.facts import Chip, Model
from derive.notation.symbols import B, N, S, X

from .common import CHIPS, MODELS, chapter, intensity, llama, n, on, tensor_on


def threshold_row(of: Chip) -> list[Cell]:
    """The thresholds of a chip, all axes of its torus but one given to FSDP."""
    axes = int(of.quantity("torus_axes").value)
    alone = [on(fsdp, B / X, of, M_X=number) for number in (1, axes)]
    both = [
        on(fsdp_tensor, B / N, of, llama, overlap=overlap, M_X=axes - 1, M_Y=1)
        for overlap in CHOICES["overlap"]
    ]
    across = cell(on(cross_pod, B / S, of), ceiling()) if of.has("dcn") else "not published"
    return [of.title, n(intensity(of)), *map(n, alone), *map(n, both), across]


chapter.table(
    "thresholds",
    "Chip | ICI intensity | FSDP, one axis | FSDP, all axes | FSDP + tensor, overlapped"
    " | FSDP + tensor, added | Tokens per slice over DCN",
    [threshold_row(of) for of in CHIPS],
    align="lrrrrrr",
)


def name_of(model: Model) -> str:
    """A model's name as the chapter spells it: LLaMA-3-70B."""
    return model.title.replace("Llama", "LLaMA").replace(" ", "-")


def limits_row(of: Chip) -> list[Cell]:
    """The tensor limit of a chip for each model, and the power of two below it."""
    limits = [tensor_on(of, model) for model in MODELS]
    return [of.title, *(c for q in limits for c in (n(q, 1), n(power_of_two_below(q))))]


chapter.table(
    "tensor-limits",
    "Chip | " + " | ".join(f"{name_of(model)} | power of two" for model in MODELS),
    [limits_row(of) for of in CHIPS],
    align="lrrrrrr",
)
