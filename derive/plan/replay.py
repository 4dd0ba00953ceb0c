"""Published runs through the step model, each at its own layout, many at once.

A run, with what its stack does, gives the assumptions of a step and a value for each of its
symbols. Runs under the same assumptions are evaluated together, a column of numbers a symbol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import sympy as sp

from derive.cost.assumptions import ASSUMED, DEFAULT, Assumptions, assume
from derive.cost.step import step_model
from derive.facts import Catalogue, Chip, Model, chip
from derive.facts.catalogue import shipped
from derive.facts.fact import LATENT
from derive.facts.runs import Run
from derive.facts.stacks import OTHER, Stack, clusters, fitted, kind_of_chip, stacks
from derive.notation import symbols as v
from derive.notation.errors import UnknownName
from derive.solve.evaluate import Compiled, compiled, floats
from derive.solve.values import fabric_of

FITTED = (v.eta, v.eta_A, v.eta_node, v.eta_dcn)
"""What of a chip and a cluster is fitted to runs."""
AGAIN: Mapping[str, float] = {"full": 1, "partial:selective": 1 / 2}
"""The share of its layers that a stage runs again: of every other product, half of the work."""


class Replayed(NamedTuple):
    """What the step model makes of a run: seconds of a step (or of both passes of a layer, where
    the run is of one), bytes of the fullest chip, and seconds by part."""

    seconds: float
    memory_bytes: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Configured:
    """A run as the step model takes it: assumptions, a number for each symbol, and by symbol whose
    fitted value is wanted."""

    run: Run
    assumptions: Assumptions
    fabric: str
    values: Mapping[sp.Symbol, float]
    owners: Mapping[sp.Symbol, str]


def configured(run: Run, catalogue: Catalogue | None = None) -> Configured | str:
    """The run as the step model takes it, or the reason for which it does not."""
    shape = ("layers", "hidden", "heads", *(("topk", "expert_ffn") if run.experts else ("ffn",)))
    if unstated := [name for name in shape if not getattr(run, name)]:
        return f"{unstated[0]} not stated"
    if run.fsdp is None and run.dp is None:
        return "data degree not stated"
    try:
        on = _chip(run.chip, catalogue)
    except UnknownName:
        return f"{run.chip} is not in the catalogue"
    stack = stacks().get(run.source, OTHER)
    kind = kind_of_chip(on.name)
    if "bf16" not in on.precisions:
        return f"{on.name} has no figure for bf16"
    shapes = _model(run)
    if run.attention == "mla" and not shapes.kv_lora_rank:
        return "the widths of its latents are not known"
    if run.experts and run.tp != 1 and run.sequence_parallel is False:
        return "experts over a tensor group without sequence parallelism"
    kernels = "fused"
    if stack.kernel == "unfused":
        kernels = "recomputed" if run.recompute == "selective" else "unfused"
    assumptions = assume(
        DEFAULT,
        architecture=shapes.architecture,
        # Alike on one chip; experts ask for it.
        sequence_parallel=bool(run.sequence_parallel or run.experts) or run.tp == 1,
        recompute="given",  # so that one step model serves whatever is run again
        kernels=kernels,
    )
    cluster = stack.clusters.get(kind, "")
    values = _values(run, on, stack, assumptions)
    if cluster:
        values[v.W_dcn] = clusters()[cluster].network
    fabric = fabric_of(on)
    needed = {*_function(assumptions, fabric, False).arguments} - {*FITTED}
    if missing := sorted(s.name for s in needed if s not in values):
        return f"no value for {', '.join(missing)}"
    attention = kind if stack.kernel != "flash2" else f"{kind}-flash2"
    owners = {v.eta: kind, v.eta_A: attention, v.eta_node: cluster, v.eta_dcn: cluster}
    return Configured(run, assumptions, fabric, values, owners)


def _values(run: Run, on: Chip, stack: Stack, assumptions: Assumptions) -> dict[sp.Symbol, float]:
    degrees = {
        v.tp: run.tp, v.cp: run.cp, v.pp: run.pp, v.dp: run.dp, v.virtual: run.virtual,
        v.b_seq: run.micro_batch, v.replicas: _replicas(run), v.T: run.seq, v.B_seq: run.batch,
        v.ep: run.ep, v.etp: run.etp,
    }  # fmt: skip
    known = {
        **_constants(assumptions),
        **_of_chip(on, run.precision or "bf16"),
        **_of_model(_model(run)),
    }
    known |= {symbol: float(value or 1) for symbol, value in degrees.items()}
    known |= {
        v.zero: float(stack.zero if run.zero is None else run.zero),
        v.n_node: float(min(run.node or known.get(v.n_node, 8), run.cards or 1)),
        v.e_g: float(_gradients(run, stack)),
        v.x_win: float(stack.hidden), v.x_el: float(stack.passes),
        v.x_tp: float(stack.tensor), v.x_pp: float(stack.pipeline),
        v.s_L: float(stack.logits),
        v.e_k: float(_gradients(run, stack) + stack.copies.get(run.precision or "", 0)),
    }  # fmt: skip
    known[v.L_g] = known[v.L] * AGAIN.get(run.recompute or "", 0)
    if run.recompute != "full":  # which the longest stage is, whole
        known[v.L_g] /= known[v.pp]
    if run.layer_seconds:
        known[v.B_seq] = known[v.b_seq] * known[v.dp]
    return known


@lru_cache(maxsize=64)
def _constants(assumptions: Assumptions) -> Mapping[sp.Symbol, float]:
    return {symbol: float(value) for symbol, value in assumptions.constants.items()}


@lru_cache(maxsize=64)
def _of_chip(on: Chip, precision: str) -> Mapping[sp.Symbol, float]:
    narrow = precision if precision in on.precisions else "bf16"
    known = {symbol: float(one.value) for symbol, one in on.bindings(narrow).items()}
    known[v.C_A] = float(on.bindings("bf16")[v.C].value)
    if fabric_of(on) == "torus":  # a pod takes the place of a node, a torus axis of a link
        known[v.W_node] = float(on.quantity("ici_axis").value)
        known[v.n_node] = float(on.quantity("pod_chips").value)
    return known


def _replicas(run: Run) -> int:
    """Groups that hold the whole states: hybrid:N shards them over N chips."""
    kind, _, shards = (run.fsdp or "").partition(":")
    return (run.dp or 1) // min(int(shards), run.dp or 1) if kind == "hybrid" else 1


def _gradients(run: Run, stack: Stack) -> int:
    """The bytes of an element of a gradient on the wire, as the run says or as its stack does."""
    said = {"pure": 2, "grads-fp32": 4, "default": 4}
    return said.get(run.storage or "", stack.gradients.get(run.precision or "", 4))


@lru_cache(maxsize=64)
def _chip(name: str, catalogue: Catalogue | None) -> Chip:
    return chip(name, catalogue=catalogue)


def _model(run: Run) -> Model:
    """The shapes of a run; embedding and head are one table where the feed-forward has no gate, as
    in GPT and BLOOM, and two where it has, as in Llama. The latents of an attention that has some
    are as wide as those of the catalogue's model with as many heads and as wide."""
    heads = run.heads or 1
    head = run.head_dim or (run.hidden or 0) // heads
    experts = _experts(run) if run.experts else ()
    return _shapes(
        run.layers or 0, run.hidden or 0, heads, run.kv_heads or heads, head, run.ffn or 0,
        run.vocab or 1, bool(run.gated), experts, run.attention == "mla",
    )  # fmt: skip


def _experts(run: Run) -> tuple[tuple[str, int], ...]:
    """The fields of a model's experts; shared ones count in widths of the others."""
    width, layers = run.expert_ffn or 1, run.layers or 0
    return (
        ("experts", run.experts or 0), ("top_k", run.topk or 1), ("expert_ffn", width),
        ("shared_experts", round((run.shared_ffn or 0) / width)),
        ("expert_layers", layers - (run.dense_layers or 0)),
    )  # fmt: skip


@lru_cache(maxsize=256)
def _shapes(
    layers: int, hidden: int, heads: int, kv_heads: int, head_dim: int, ffn: int, vocab: int,
    gated: bool, experts: tuple[tuple[str, int], ...], latent: bool,
) -> Model:  # fmt: skip
    widths: dict[str, Any] = dict(experts)
    alike = (m for m in shipped().models.values() if (m.hidden, m.heads) == (hidden, heads))
    if latent and (known := next((m for m in alike if m.kv_lora_rank), None)):
        widths |= {name: getattr(known, name) for name in ("q_lora_rank", *LATENT)}
    return Model(
        "run", "a run", (), layers, hidden, heads, kv_heads, head_dim, ffn, vocab,
        norms_per_layer=2, gated=gated, tied_embeddings=not gated, final_norm=True,
        source="", where="", status="published", **widths,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _of_model(shapes: Model) -> Mapping[sp.Symbol, float]:
    known = {symbol: float(one.value) for symbol, one in shapes.bindings().items()}
    known |= {v.n_V: float(shapes.tables), v.n_F: float(shapes.feed_forward_matrices)}
    if shapes.experts:  # each row goes to each of its experts by itself
        known |= {v.n_M: known[v.n_k], v.F: known.get(v.F, known[v.F_E])}
    return known


# --- evaluated


LAYER = (v.t_slow - v.t_over + v.t_tp + v.t_cp) / v.L_p
"""Both passes of a layer for a micro-batch, with what is run again."""


@lru_cache(maxsize=32)
def _function(assumptions: Assumptions, fabric: str, timed: bool) -> Compiled:
    """The seconds of a layer and of a step under some assumptions; unless only `timed`, the bytes
    of the fullest chip and the seconds of each part as well."""
    step = step_model(assumptions, fabric=fabric)
    definitions = tuple((v.find(term.name), term.expr) for term in step.definitions)
    others = () if timed else (step.memory_bytes, *(term.expr for term in step.parts))
    return compiled((LAYER, step.seconds, *others), definitions)


Step = tuple[Assumptions, str]  # and what joins the chips


@dataclass(frozen=True)
class Replay:
    """Runs that are configured, in order, to be evaluated with fitted values."""

    runs: tuple[Configured, ...]

    @cached_property
    def groups(self) -> tuple[tuple[Step, Any, Mapping[sp.Symbol, Any]], ...]:
        """By assumptions and fabric, the places of the runs and a column of each symbol."""
        places: dict[Step, list[int]] = {}
        for place, one in enumerate(self.runs):
            places.setdefault((one.assumptions, one.fabric), []).append(place)
        made = []
        for step, chosen in places.items():
            needed = {*_function(*step, False).arguments} - {*FITTED}
            columns = {s: np.array([self.runs[k].values[s] for k in chosen]) for s in needed}
            made.append((step, np.array(chosen), columns))
        return tuple(made)

    @cached_property
    def alone(self) -> Any:
        """Which runs are of a layer alone."""
        return np.array([bool(one.run.layer_seconds) for one in self.runs])

    def seconds(self, values: Mapping[sp.Symbol, Any]) -> Any:
        """The seconds of every run, for a number of each fitted symbol and run, the last axis."""
        made = np.empty(values[v.eta].shape)
        for step, places, columns in self.groups:
            own = {s: values[s][..., places] for s in FITTED}
            with np.errstate(all="ignore"):
                layer, whole = _function(*step, True)(floats(), {**columns, **own})
            made[..., places] = np.where(self.alone[places], layer, whole)
        return made

    def replayed(self, values: Mapping[sp.Symbol, Any]) -> list[Replayed]:
        """What the step model makes of every run, for a number of each fitted symbol and run."""
        made: dict[int, Replayed] = {}
        for (assumptions, fabric), places, columns in self.groups:
            own = {s: values[s][places] for s in FITTED}
            with np.errstate(all="ignore"):
                every = _function(assumptions, fabric, False)(floats(), {**columns, **own})
            table = np.stack([np.broadcast_to(row, places.shape) for row in every])
            names = [term.name for term in step_model(assumptions, fabric=fabric).parts]
            for place, (layer, step, size, *parts) in zip(places, table.T.tolist(), strict=True):
                run = self.runs[place].run
                read = stacks().get(run.source, OTHER).reserve if run.device_bytes else 0
                seconds = layer if run.layer_seconds else step
                split = dict(zip(names, parts, strict=True))
                made[place] = Replayed(seconds, size + read, split)
        return [made[place] for place in range(len(self.runs))]


def known_values(runs: Sequence[Configured]) -> dict[sp.Symbol, Any]:
    """A number of each fitted symbol for each run: as fitted to published runs, or assumed."""
    table = fitted()

    def value(symbol: sp.Symbol, owner: str) -> float:
        row = table.get(symbol.name, {}).get(owner)
        return row.value if row else float(ASSUMED[symbol])

    return {s: np.array([value(s, one.owners[s]) for one in runs]) for s in FITTED}


def replayed(runs: Iterable[Run], catalogue: Catalogue | None = None) -> dict[str, Replayed | str]:
    """By the id of each run what the step model makes of it, or why it makes nothing."""
    every = {run.id: configured(run, catalogue) for run in runs}
    taken = tuple(one for one in every.values() if isinstance(one, Configured))
    made = iter(Replay(taken).replayed(known_values(taken)))
    return {name: one if isinstance(one, str) else next(made) for name, one in every.items()}
