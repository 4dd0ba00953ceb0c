"""A fact: what is declared of it, the readings of it in sources, and which of them a profile picks.

The tables at the end are the only place where a fact is declared; the data files, a user's file and
the error messages all follow them. A new kind of hardware adds rows there and nothing elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Any, Literal, get_args

import sympy as sp

from derive.notation import symbols as v
from derive.notation import units
from derive.notation.errors import FactError, lookup
from derive.notation.quantity import Quantity, Status
from derive.notation.units import Unit, byte, chip, flop, label, one, parameter, second

SourceKind = Literal["vendor", "book", "code", "paper", "secondary", "operator", "own"]
SOURCE_KINDS: tuple[SourceKind, ...] = get_args(SourceKind)
READING_STATUSES: tuple[Status, ...] = tuple(s for s in get_args(Status) if s != "given")
ORIGIN = ("basis", "source", "where", "status", "formula")  # of a reading, and of its quantity


@dataclass(frozen=True)
class FactKey:
    """What a fact is: its unit, the symbol it binds (or None), a gloss and the basis it must state.

    `kind` is number, count (a whole number) or shape (whole numbers, one per torus axis). `basis`
    is a phrase that the basis of every reading must contain, so that a one-way figure is never
    taken for a bidirectional one. `precision` marks FLOP rates: they share the symbol C.
    """

    name: str
    unit: Unit
    symbol: sp.Symbol | None
    gloss: str
    kind: Literal["number", "count", "shape"] = "number"
    basis: str = ""
    precision: bool = False


@dataclass(frozen=True)
class Source:
    """A document that can be cited: key, title, publisher, kind, address and dates.

    `dated` is the document's own date as its publisher states it ("undated" where it states none);
    `read` is the day on which it was read.
    """

    key: str
    title: str
    publisher: str
    kind: SourceKind
    dated: str
    address: str = ""
    read: date | None = None

    @property
    def issue(self) -> str:
        """Publisher and date, as lists of sources have them; without a date where it has none."""
        return self.publisher + (f", {self.dated}" if self.dated != "undated" else "")

    def __str__(self) -> str:
        place = f", {self.address}" if self.address else ""
        return f"[{self.key}] {self.title}, {self.issue}{place}"


@dataclass(frozen=True)
class Reading:
    """One value of a fact as one place of one source gives it.

    `value` is an exact number, or a tuple of whole numbers for a shape. `part` tells apart several
    readings of one fact in one source. `formula` is set where `status` is derived. `read` is None
    only for a value that a caller put in place of a reading.
    """

    value: sp.Rational | tuple[int, ...]
    basis: str
    source: str
    where: str
    status: Status
    read: date | None = None
    formula: str = ""
    part: str = ""

    @property
    def key(self) -> str:
        """What a profile or an override names: the source key, with `#part` where it has parts."""
        return f"{self.source}#{self.part}" if self.part else self.source


@dataclass(frozen=True)
class Fact:
    """A fact of one chip or model, its owner: the declaration and every reading, in file order."""

    key: FactKey
    owner: str
    readings: tuple[Reading, ...]

    def reading(self, key: str) -> Reading:
        """The reading named `key`; raises UnknownName, offering the nearest keys."""
        known = {reading.key: reading for reading in self.readings}
        return lookup(f"reading of {self.key.name} of {self.owner}", key, known)

    def quantity(self, reading: Reading) -> Quantity:
        """A reading of this fact as a leaf quantity named after the fact's symbol, or its key.

        Raises FactError for a shape, which is no number.
        """
        if isinstance(reading.value, tuple):
            shape = "x".join(map(str, reading.value))
            raise FactError(f"{self.key.name} of {self.owner} is the shape {shape}, not a number")
        name = self.key.name if self.key.symbol is None else self.key.symbol.name
        origin: dict[str, Any] = {field: getattr(reading, field) for field in ORIGIN}
        return Quantity(reading.value, self.key.unit, name, owner=self.owner, **origin)


@dataclass(frozen=True)
class Profile:
    """A way to choose one reading per fact: explicit picks first, then an order of sources.

    `picks` maps `chip.fact` to the key of a reading.
    """

    name: str
    order: tuple[str, ...]
    picks: tuple[tuple[str, str], ...]


def choose(fact: Fact, profile: Profile, prefer: tuple[str, ...] = ()) -> Reading:
    """The one reading of `fact` that `profile` picks.

    An explicit pick wins; else the first source of the profile's order, then of `prefer`, that has
    a reading; else the only reading. Raises FactError where several are left to choose from.
    """
    wanted = dict(profile.picks).get(f"{fact.owner}.{fact.key.name}")
    if wanted is not None:
        return fact.reading(wanted)
    by_key = {reading.key: reading for reading in fact.readings}
    for key in (*profile.order, *prefer):
        if key in by_key:
            return by_key[key]
    if len(fact.readings) == 1:
        return fact.readings[0]
    raise FactError(
        f"expected one reading, found {', '.join(by_key)}, "
        f"and profile {profile.name} prefers none; "
        f'name one under [profiles.{profile.name}.picks] "{fact.owner}.{fact.key.name}", '
        f"or in prefer of [chips.{fact.owner}]"
    )


# --- what is declared


def _rate(name: str, elements: str) -> FactKey:
    gloss = f"peak rate of a chip on {elements}, one multiply-add counted as two"
    return FactKey(name, flop / second, v.C, gloss, basis="per chip", precision=True)


def _bandwidth(name: str, basis: str, gloss: str, symbol: sp.Symbol | None = None) -> FactKey:
    return FactKey(name, byte / second, symbol, gloss, basis=basis)


def _count(name: str, unit: Unit, gloss: str, symbol: sp.Symbol | None = None) -> FactKey:
    return FactKey(name, unit, symbol, gloss, kind="count")


def _by_name(*keys: FactKey) -> Mapping[str, FactKey]:
    return MappingProxyType({key.name: key for key in keys})


CHIP_FACTS = _by_name(
    _rate("bf16", "bfloat16 matrices"),
    _rate("fp16", "16-bit floating-point matrices of IEEE 754"),
    _rate("fp8", "8-bit floating-point matrices"),
    _rate("int8", "8-bit integer matrices"),
    _rate("fp4", "4-bit floating-point matrices"),
    _rate("int4", "4-bit integer matrices"),
    FactKey("memory", byte, v.M_hbm, "memory of a chip", basis="per chip"),
    _bandwidth("memory_bandwidth", "per chip", "memory bandwidth of a chip", v.W_hbm),
    _bandwidth(
        "ici_axis",
        "bidirectional per axis",
        "bandwidth of one torus axis: what a chip sends over both of its links on that axis",
        v.W,
    ),
    _bandwidth("ici_link", "one-way per link", "bandwidth of one torus link in one direction"),
    _bandwidth(
        "ici_chip",
        "bidirectional per chip",
        "bandwidth of all torus links of a chip, both directions added",
    ),
    _bandwidth(
        "dcn", "one-way per chip", "bandwidth of a chip into the data-centre network", v.W_dcn
    ),
    _bandwidth(
        "scaleup",
        "one-way per chip",
        "bandwidth of a chip into the switches of its scale-up domain",
        v.W_node,
    ),
    _bandwidth(
        "scaleup_link", "one-way per link", "bandwidth of one of these links in one direction"
    ),
    _count("scaleup_links", one, "links of a chip into its scale-up domain"),
    _count("torus_axes", units.axis, "axes of the torus", v.M_axes),
    _count("links_per_chip", one, "torus links of a chip"),
    _count("pod_chips", chip, "chips of a pod", v.N_pod),
    FactKey("pod_shape", chip, None, "torus shape of a whole pod", kind="shape"),
    _count("cube_chips", chip, "chips of a cube, of which whole slices are made"),
    _count("largest_job", chip, "chips of the largest job that can be run"),
    _count("chips_per_host", chip, "chips of a host", v.n_host),
    _count("scaleup_chips", chip, "chips of a scale-up domain", v.n_node),
)

# What follows from facts of a chip.
FOLLOWS: Mapping[sp.Symbol, sp.Expr] = MappingProxyType({v.alpha: v.C / v.W})

MODEL_FACTS = _by_name(
    FactKey("published_parameters", parameter, None, "parameters as the publisher names them"),
    FactKey(
        "published_active", parameter, None, "parameters of a token, as the publisher has them"
    ),
    _count("context", units.token, "longest sequence the model was trained for"),
)

# The shape of a model: what `ffn` is to a file, F is to formulas.
MODEL_COUNTS = _by_name(
    _count("layers", units.layer, "layers", v.L),
    _count("hidden", one, "model width", v.D),
    _count("heads", label("head"), "query heads"),
    _count("kv_heads", label("head"), "key and value heads", v.K),
    _count("head_dim", one, "width of one head", v.H),
    _count("ffn", one, "feed-forward width: of one matrix, gated or not", v.F),
    _count("vocab", one, "vocabulary size", v.V),
    _count("norms_per_layer", one, "norms of one layer, each with one weight per channel"),
    _count("experts", label("expert"), "experts of a layer, to which tokens are routed", v.E),
    _count("top_k", label("expert"), "experts that a token goes to", v.n_k),
    _count("shared_experts", label("expert"), "experts that every token goes to", v.n_S),
    _count("expert_ffn", one, "feed-forward width of an expert", v.F_E),
    _count("expert_layers", units.layer, "layers with experts, the others being dense", v.L_E),
    _count("q_lora_rank", one, "width of the latent of the queries (MLA)", v.r_q),
    _count("kv_lora_rank", one, "width of the latent of keys and values (MLA)", v.r_kv),
    _count("qk_nope_head_dim", one, "width of a head without position (MLA)", v.H_N),
    _count("qk_rope_head_dim", one, "width of a head with rotary position (MLA)", v.H_R),
    _count("v_head_dim", one, "width of a head of values (MLA)", v.H_V),
    _count("learned_positions", units.token, "positions with a learned embedding each"),
)
EXPERTS = ("experts", "top_k", "expert_ffn", "expert_layers")  # all of them or none
LATENT = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")  # as well
MODEL_FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "gated": "three feed-forward matrices instead of two",
        "tied_embeddings": "the output head shares the embedding's weights",
        "final_norm": "one more norm before the output head",
        "qkv_bias": "queries, keys and values have biases",
        "output_bias": "the projection of the heads to the model width has a bias",
        "ffn_bias": "every feed-forward matrix has a bias, and the router",
        "norm_bias": "every norm has a bias beside each weight",
        "qk_norm": "norms of queries and keys, with the weights of one head",
        "qk_norm_full": "norms of queries and keys, with the weights of all heads",
        "attention_sinks": "one learned score for each query head",
        "embedding_norm": "a norm after the embedding",
        "shared_expert_gate": "a gate of model width for the shared experts",
    }
)
OF_HEADS = ("qkv_bias", "qk_norm", "qk_norm_full")  # which a latent takes the place of
OPTIONAL = ("shared_experts", "q_lora_rank", "learned_positions", *tuple(MODEL_FLAGS)[3:])
