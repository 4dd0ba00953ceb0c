"""Published training runs: configuration and measured values as printed, a row each.

The shipped rows stand in data/runs.csv; data/runs.toml says what its columns are, the fields of
`Run`. A file of a user's is such a CSV, or JSONL of the longer form that runs.toml describes. Every
row of a file is either taken or an error; why a study leaves one out, `reasons` says.
"""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from io import StringIO
from math import prod
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from derive.facts import checks
from derive.facts.catalogue import DATA, contents, shipped
from derive.facts.checks import Place
from derive.notation.errors import FactError, meant, quoted

LARGEST = 2**24  # bytes of a file
TOLERANCE = 0.02  # between the step time and the tokens per second of one row
Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One run, as the columns of data/runs.toml say; None where the source does not."""

    id: str
    source: str
    place: str
    tier: str
    core: bool
    model: str
    layers: int | None
    hidden: int | None
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    ffn: int | None
    gated: bool | None
    vocab: int | None
    attention: str | None
    experts: int | None
    topk: int | None
    expert_ffn: int | None
    shared_ffn: int | None
    dense_layers: int | None
    seq: int | None
    batch: int | None
    micro_batch: int | None
    chip: str
    cards: int | None
    node: int | None
    tp: int | None
    cp: int | None
    pp: int | None
    virtual: int | None
    dp: int | None
    ep: int | None
    etp: int | None
    fsdp: str | None
    zero: int | None
    sequence_parallel: bool | None
    recompute: str | None
    precision: str | None
    storage: str | None
    kernel: str | None
    framework: str | None
    step_seconds: float | None
    tokens_per_second: float | None
    tflops: float | None
    mfu: float | None
    peak_tflops: float | None
    counts_recompute: bool | None
    causal_halved: bool | None
    layer_seconds: float | None
    allocated_bytes: float | None
    reserved_bytes: float | None
    device_bytes: float | None
    oom: bool | None
    missing: tuple[str, ...]
    doubts: tuple[str, ...]

    @property
    def chip_tokens(self) -> float | None:
        """The tokens of a step over the chips."""
        return (
            self.seq * self.batch / self.cards if self.seq and self.batch and self.cards else None
        )

    @property
    def seconds(self) -> float | None:
        """The measured time of a step: as printed, else from tokens per second, else from TFLOP/s,
        else from MFU, each by the row's own definition; None where nothing gives it."""
        if self.step_seconds or not self.chip_tokens:
            return self.step_seconds
        if self.tokens_per_second:
            return self.chip_tokens / self.tokens_per_second
        rate = self.tflops or (self.mfu or 0) * (self.peak_tflops or 0)
        flops = token_flops(self)
        return self.chip_tokens * flops / (rate * 1e12) if rate and flops else None

    @property
    def memory_bytes(self) -> float | None:
        """The measured bytes of the fullest chip: allocated, else reserved, else of the device."""
        return self.allocated_bytes or self.reserved_bytes or self.device_bytes


def token_flops(run: Run) -> float | None:
    """The FLOPs of a token as the row's TFLOP/s and MFU count them; None without the shapes.

    Narayanan et al. 2021, equation 3, with grouped heads, gates and experts: 6 a parameter of a
    product and 12 s for the width of the heads, halved where causal scores are; the layers, when
    recomputed, once more (8 for 6). Where a source does not say how it counts, scores are whole and
    nothing is recomputed, as in most.
    """
    shapes = (run.layers, run.hidden, run.heads, run.ffn, run.vocab, run.seq)
    if None in shapes or (run.experts and not run.topk):
        return None
    layers, hidden, heads, ffn, vocab, seq = (x or 0 for x in shapes)
    width = heads * (run.head_dim or hidden // heads)
    sparse = layers - (run.dense_layers or 0) if run.experts else 0
    active = (run.topk or 0) * (run.expert_ffn or 0) + (run.shared_ffn or 0)
    weights = layers * 2 * hidden * width * (1 + (run.kv_heads or heads) / heads)
    weights += (3 if run.gated else 2) * hidden * (ffn * (layers - sparse) + active * sparse)
    scores = 12 * layers * width * seq / (2 if run.causal_halved else 1)
    again = 4 / 3 if run.counts_recompute else 1
    return (6 * weights + scores) * again + 6 * vocab * hidden


# --- what a study leaves out


def _lacks(name: str) -> Callable[[Run], bool]:
    return lambda run: getattr(run, name) is None


SHAPE = ("layers", "hidden", "heads", "ffn", "seq", "batch", "cards", "tp", "pp", "dp")
NEEDED = (*SHAPE, "micro_batch", "recompute", "vocab", "precision")
# Rules that can be stated beforehand, the first that holds being the reason; each with a phrase.
RULES: Mapping[str, tuple[str, Callable[[Run], object]]] = MappingProxyType({
    "contradiction": ("the source contradicts itself", lambda run: run.doubts),
    "out_of_memory": ("ran out of memory, so there is no time", lambda run: run.oom),
    "layer": ("a layer alone, not a step", lambda run: run.layer_seconds),
    **{name: (f"{name.replace('_', '-')} not stated", _lacks(name)) for name in NEEDED},
    "virtual": ("virtual stages not stated", lambda run: run.virtual is None and run.pp != 1),
    "time": ("nothing that gives the time of a step", lambda run: run.seconds is None),
    "head_dim": ("the width of a head is no multiple of 8", lambda run: (run.head_dim or 0) % 8),
    "noisy": ("the time of a second step alone: for ranking only",
              lambda run: run.source == "bloom" and not run.core),
    "partial": ("a part of the layer is recomputed that is not stated",
                lambda run: (run.recompute or "").startswith("partial")),
})  # fmt: skip


def reasons(run: Run) -> list[str]:
    """Why a run is not scored, keys of RULES; none for one that is."""
    return [reason for reason, (_, holds) in RULES.items() if holds(run)]


def studied(run: Run) -> bool:
    """Whether a run is of the set by which step times are judged: dense, in 16 bits, on GPUs, of
    tier A or core, its configuration stated. Layers alone, noisy rows and partial recomputation,
    which RULES leave out, are in it."""
    allowed = {"vocab", "precision", "noisy", "partial"}
    allowed |= {"layer", "time"} if run.layer_seconds else set()
    return _plain(run) and (run.tier == "A" or run.core) and allowed.issuperset(reasons(run))


def calibrating(run: Run) -> bool:
    """Whether step times are fitted to a run: one that is studied, or that states all but what is
    recomputed, which is then taken to be nothing."""
    return studied(run) or (_plain(run) and reasons(run) == ["recompute"])


def _plain(run: Run) -> bool:
    return not (run.experts or run.precision in ("fp8", "int8") or run.chip.startswith("tpu"))


# --- reading


@lru_cache(maxsize=1)
def runs() -> tuple[Run, ...]:
    """The shipped runs, in the order of their ids."""
    text = contents(DATA / "runs.csv", "runs.csv", "CSV", LARGEST)
    return tuple(_checked(_of_csv(text, "runs.csv"), {}))


def read_runs(path: str | PathLike[str]) -> tuple[Run, ...]:
    """The runs of a file of a user's, JSONL where its name ends in .jsonl, else CSV; chips are
    those of the catalogue and of the shipped runs.

    Raises FactError, naming file, line and field, for the first row that is broken or contradicts
    itself, and for a file that cannot be read or has no row.
    """
    shown = str(path) if str(path).isprintable() and len(str(path)) < 200 else quoted(path)
    kind, rows = ("JSONL", _of_jsonl) if Path(path).suffix == ".jsonl" else ("CSV", _of_csv)
    chips = {name for one in shipped().chips.values() for name in (one.name, *one.aliases)}
    chips |= {run.chip for run in runs()}
    text, keys = contents(Path(path), shown, kind, LARGEST), _form()["keys"]
    taken = tuple(_checked(rows(text, shown), keys if kind == "JSONL" else {}, chips))
    if not taken:
        raise FactError(f"{shown}: expected a run, found none")
    return taken


KINDS: Mapping[str, str] = MappingProxyType({one.name: str(one.type) for one in fields(Run)})
_MAY_BE_ZERO = ("zero", "shared_ffn", "dense_layers")
_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "recompute": ("none", "selective", "full"), "fsdp": ("full", "grad"),
    "precision": ("bf16", "fp16", "fp8", "int8", "mixed"), "tier": ("A", "B", "C"),
})  # fmt: skip
_CODES: Mapping[str, str] = MappingProxyType({
    "recompute": "partial:.+", "fsdp": "hybrid:[1-9][0-9]{0,8}",
})  # fmt: skip


def _checked(
    rows: Iterable[tuple[Place, Row]], keys: Mapping[str, str], chips: Iterable[str] = ()
) -> Iterator[Run]:
    """The rows as runs; errors call fields by their `keys` in the file."""
    seen = set()
    called = {name: keys.get(name, name) for name in KINDS}
    for place, row in rows:
        run = Run(**{name: _typed(row[name], name, place, called[name]) for name in KINDS})
        if run.id in seen:
            raise place.fault(called["id"], "a new one", f"{quoted(run.id)} again")
        seen.add(run.id)
        if chips and run.chip not in chips:
            told = f"{quoted(run.chip)}; {meant(run.chip, chips, 'derive facts lists them')}"
            raise place.fault(called["chip"], "a chip of the catalogue", told)
        for field, expected, instead in _faults(run):
            raise place.fault(called[field], expected, str(instead))
        yield run


def _typed(value: Any, name: str, place: Place, called: str) -> Any:
    """A value of a file as the type that its field declares; raises FactError."""
    kind, _, optional = KINDS[name].partition(" | ")
    if kind.startswith("tuple"):
        return tuple((value or "").split())
    if value in (None, "") and optional:
        return None
    if kind == "str":
        return checks.text(value, place, called)
    if kind == "bool":
        return checks.flag({"true": True, "false": False}.get(str(value), value), place, called)
    with suppress(InvalidOperation):
        value = Decimal(value) if isinstance(value, str) else value
    if kind == "float":
        return float(checks.number(value, place, called))
    return 0 if value == 0 and name in _MAY_BE_ZERO else checks.count(value, place, called)


def _faults(run: Run) -> Iterator[tuple[str, str, object]]:
    """What a row lacks, and what in it cannot be true together: field, expected, found."""
    for name in (*NEEDED, *run.missing):
        if name in KINDS and getattr(run, name) is None and name not in run.missing:
            yield name, "a value, or the field named in missing", "none"
        if name not in KINDS:
            yield "missing", f"names of fields {meant(name, KINDS)}".strip(), quoted(name)
    for name, known in _NAMES.items():
        code = getattr(run, name)
        if code and code not in known and not re.fullmatch(_CODES.get(name, ""), code):
            yield name, checks.one_of(known), quoted(code)
    if (run.zero or 0) > 3:
        yield "zero", "a stage from 0 to 3", run.zero
    times = (run.step_seconds, run.tokens_per_second, run.tflops, run.layer_seconds, run.oom)
    if not any(times) and not (run.mfu and run.peak_tflops):
        yield "step_seconds", "a time, tokens per second, TFLOP/s, or MFU and its peak", "none"
    if run.mfu and run.mfu > 1:
        yield "mfu", "a share of the peak, at most 1", run.mfu
    degrees = [run.tp, run.cp, run.pp, run.dp]
    cards = prod(x or 1 for x in degrees)
    if "degrees" not in run.doubts and None not in degrees:
        if run.cards and cards != run.cards:
            yield "cards", f"tp*cp*pp*dp = {cards}", run.cards
        if cards % (run.ep or 1):
            yield "ep", f"a divisor of {cards} cards", run.ep
    rows = (run.micro_batch or 1) * (run.dp or 1)
    if run.batch and run.batch % rows and "degrees" not in run.doubts:
        yield "batch", f"a multiple of micro-batch times dp, {rows}", run.batch
    if run.heads and run.kv_heads and run.heads % run.kv_heads:
        yield "kv_heads", f"a divisor of {run.heads} heads", run.kv_heads
    if run.experts and run.topk and run.topk > run.experts:
        yield "topk", f"at most the {run.experts} experts", run.topk
    if run.step_seconds and run.tokens_per_second and run.chip_tokens:
        rate = run.chip_tokens / run.step_seconds
        if abs(run.tokens_per_second / rate - 1) > TOLERANCE and "tokens" not in run.doubts:
            told = f"about {rate:.6g}, as the step time gives"
            yield "tokens_per_second", told, f"{run.tokens_per_second:.6g}"


def _of_csv(text: str, file: str) -> Iterator[tuple[Place, Row]]:
    """The rows of a CSV text whose header names fields of `Run`; those left out are None."""
    text = text.removeprefix("\ufeff")  # which spreadsheets write first
    reader = csv.reader(StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        checks.keys(header, Place(f"{file}:1"), (), KINDS)
        for cells in reader:
            place = Place(f"{file}:{reader.line_num}")
            if len(cells) != len(header):
                raise place.fault("row", f"{len(header)} cells, as the header", str(len(cells)))
            yield place, dict.fromkeys(KINDS) | dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise FactError(f"{file}:{reader.line_num}: expected CSV, found: {error}") from None


@lru_cache(maxsize=1)
def _form() -> dict[str, Any]:
    """How a row of JSONL is read: the tables of runs.toml."""
    return tomllib.loads(contents(DATA / "runs.toml", "runs.toml"), parse_float=Decimal)


def _of_jsonl(text: str, file: str) -> Iterator[tuple[Place, Row]]:
    """The rows of a JSONL text, texts brought to codes and values to the units of `Run`."""
    form = _form()
    keys = {name: form["keys"].get(name, name) for name in KINDS}
    ours, objects = {key: name for name, key in keys.items()}, form["others"]["objects"]
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        place = Place(f"{file}:{number}")
        try:
            given = checks.table(json.loads(line, parse_float=Decimal), place, "row")
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise place.fault("row", "a JSON object", str(error)[:100]) from None
        checks.keys(given, place, ("id",), (*ours, *objects, *form["others"]["unused"]))
        flat = dict(given)
        for name in objects:
            inside = checks.table(given.get(name) or {}, place, name)
            flat |= {f"{name}.{key}": value for key, value in inside.items()}
        row: Row = {name: flat.get(key) for name, key in keys.items()}
        row["storage"] = f"{row['precision']} {row['fsdp']}"
        for name, patterns in form["codes"].items():
            if row[name] is not None:
                said = checks.text(row[name], place, keys[name]).lower()
                matches = ((re.match(pattern, said), code) for pattern, code in patterns)
                row[name] = next((m.expand(code) for m, code in matches if m), None)
        shared = _times(flat.get("moe.shared_experts"), row["expert_ffn"])
        a_chip = _times(flat.get("measured.tokens_per_s"), 1, row["cards"])
        others = {
            "shared_ffn": shared,
            "tokens_per_second": a_chip,
            "reserved_bytes": flat.get("measured.memory_gib_per_card"),
        }
        row |= {name: value for name, value in others.items() if row[name] is None}
        row |= {name: _times(row[name], factor) for name, factor in form["factors"].items()}
        missing = checks.texts(row["missing"] or [], place, "missing")
        row["missing"] = " ".join(ours.get(key, key) for key in missing)
        printed = "check.ratio_tokens_from_step_time_vs_printed"
        ratio = float(checks.number(flat.get(printed, 1), place, printed))
        doubts = ["tokens"] * (abs(1 / ratio - 1) > TOLERANCE)
        doubts += ["degrees"] * (flat.get("check.tp_cp_pp_dp_product_matches_cards") is False)
        row["doubts"] = " ".join(doubts)
        yield place, row


def _times(value: Any, factor: Any, over: Any = 1) -> Any:
    """A number times another over a third; what is none, as it is."""
    numbers = all(isinstance(x, (int, Decimal)) for x in (value, factor, over)) and over
    return value * factor / Decimal(over) if numbers else value
