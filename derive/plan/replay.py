"""What the step model makes of a published run at its own layout."""

from __future__ import annotations

from functools import lru_cache

from derive.facts import Catalogue, Chip, Model, chip
from derive.facts.runs import Run
from derive.notation.errors import DeriveError, UnknownName
from derive.plan.axes import REASONS, broken, degrees
from derive.plan.plan import plan_of
from derive.plan.task import task


def predicted(run: Run, catalogue: Catalogue | None = None) -> tuple[float, float | None] | str:
    """The seconds of a step and the bytes of the fullest chip by the step model `default`, or the
    reason for which it has neither."""
    outside = {
        "experts": run.experts,
        "matmuls in 8 bits": run.precision in ("fp8", "int8"),
        "weights split over the data group": run.fsdp,
    }
    for what, holds in outside.items():
        if holds:
            return f"the step model has no {what}"
    try:
        on = _chip(run.chip, catalogue)
        asked = task(_model(run), on, cards=run.cards, seq=run.seq, batch=run.batch)
        named = {name: getattr(run, name) or 1 for name in ("tp", "cp", "pp", "dp", "micro_batch")}
        if rule := broken(asked.counts, degrees(**named)):
            return REASONS[rule]
        plan = plan_of(asked, degrees(**named))
    except UnknownName:
        return f"{run.chip} is not in the catalogue"
    except DeriveError as error:
        return str(error)
    if plan.lacks_bytes:
        return REASONS["memory"]
    return float(plan.step_seconds), float(plan.memory_bytes)


@lru_cache(maxsize=32)
def _chip(name: str, catalogue: Catalogue | None) -> Chip:
    return chip(name, catalogue=catalogue)


def _model(run: Run) -> Model:
    """The shapes of a run; embedding and head are one table where the feed-forward has no gate, as
    in GPT and BLOOM, and two where it has, as in Llama."""
    counts = (run.layers, run.hidden, run.heads, run.kv_heads or run.heads, run.head_dim, run.ffn)
    layers, hidden, heads, kv_heads, head_dim, ffn = (x or 0 for x in counts)
    return Model(
        run.model, run.model, (), layers, hidden, heads, kv_heads, head_dim or hidden // heads, ffn,
        run.vocab or 0, norms_per_layer=2, gated=bool(run.gated), tied_embeddings=not run.gated,
        final_norm=True, source=run.source, where=run.place, status="published",
    )  # fmt: skip
