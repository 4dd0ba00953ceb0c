"""What has facts: a chip and, under a profile, the reading in use of each; a model, with its shapes
and the parameter count that follows from them.

`Model.part_formulas` states the count, in the vocabulary's symbols: attention has K key and value
heads, and G query heads to each of them. Modules that predict further tokens (MTP), towers for
images, and what is no parameter, such as the biases that balance a router, are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import sympy as sp

from derive.facts.checks import other, typed
from derive.facts.fact import (
    CHIP_FACTS,
    FOLLOWS,
    MODEL_COUNTS,
    Fact,
    FactKey,
    Profile,
    Reading,
    choose,
)
from derive.notation import symbols as v
from derive.notation.errors import (
    DeriveError,
    FactError,
    UnitError,
    guarded,
    lookup,
    quoted,
    unknown,
)
from derive.notation.quantity import Quantity, Status, evaluated, number
from derive.notation.units import parameter

# --- what either is asked


class Owner:
    """A chip or a model, of which `chip["alpha"]` and `model[D]` are what `quantity` gives."""

    name: str

    def __getitem__(self, key: str | sp.Symbol) -> Quantity:
        return self.quantity(key)

    def quantity(self, key: str | sp.Symbol) -> Quantity:
        raise NotImplementedError

    if not TYPE_CHECKING:  # to which every attribute would be one

        def __getattr__(self, name: str) -> object:
            kind = type(self).__name__.lower()
            raise AttributeError(f"a {kind} has no attribute {name}; ask {kind}[{name!r}]")


def implied(
    owner: Owner, key: object, bound: Mapping[sp.Symbol, Quantity], facts: Iterable[str]
) -> Quantity:
    """The value of a symbol that is bound or follows, such as alpha = C/W; raises UnknownName,
    offering the nearest of these and of the names of `facts`."""
    every = {symbol.name: quantity for symbol, quantity in bound.items()}
    for symbol, expr in FOLLOWS.items():
        if expr.free_symbols <= bound.keys():
            every[symbol.name] = evaluated(expr, bound, v.unit_of_symbol(symbol), symbol.name)
    if (name := str(key)) not in every:
        raise unknown(f"value of {owner.name}", name, [*facts, *every])
    return every[name]


# --- a chip


@dataclass(frozen=True)
class Override:
    """A fact that a caller changed by name: what the profile picked (None: nothing) and what is
    used instead."""

    key: str
    before: Reading | None
    after: Reading


@guarded
@dataclass(frozen=True, repr=False)
class Chip(Owner):
    """A chip of the catalogue; `chip["alpha"]` is a value of it.

    `prefer` orders its sources where a profile has no opinion. The catalogue holds chips without a
    profile; `picked` under one holds the reading in use of each fact, overrides included.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    facts: tuple[Fact, ...]
    prefer: tuple[str, ...] = ()
    file: str = field(compare=False, default="")
    profile: str = ""
    picked: tuple[Reading, ...] = ()
    overrides: tuple[Override, ...] = ()

    def __repr__(self) -> str:
        changed = f", {len(self.overrides)} overridden" if self.overrides else ""
        return f"<{self.name}: {self.title}, profile {self.profile or 'none'}{changed}>"

    def under(self, profile: Profile, override: Mapping[str, str | Quantity] | None = None) -> Chip:
        """The chip with the readings that the profile picks; `override` maps a fact to the key of
        another reading, or to a quantity of the fact's unit.

        Raises UnknownName, UnitError or FactError for an override that does not fit.
        """
        facts = {fact.key.name: fact for fact in self.facts}
        picked = {key: choose(fact, profile, self.prefer) for key, fact in facts.items()}
        wanted = override or {}
        if not isinstance(wanted, Mapping):
            raise DeriveError(f"expected facts to override and readings, found {other(wanted)}")
        changes = []
        for key, instead in wanted.items():
            declared = _declared(key)
            after = self._instead(declared, facts.get(key), instead)
            facts.setdefault(key, Fact(declared, self.name, ()))
            changes.append(Override(key, picked.get(key), after))
            picked[key] = after
        order = [key for key in CHIP_FACTS if key in facts]
        return replace(
            self,
            profile=profile.name,
            facts=tuple(facts[key] for key in order),
            picked=tuple(picked[key] for key in order),
            overrides=tuple(changes),
        )

    def has(self, key: str) -> bool:
        """Whether there is a reading of the fact `key`; raises UnknownName for no fact at all."""
        return _declared(key) in (fact.key for fact in self.facts)

    def fact(self, key: str) -> Fact:
        """The fact with all its readings.

        Raises UnknownName for a key that is no fact, FactError where the chip has no reading.
        """
        return self.facts[self._index(key)]

    def reading(self, key: str) -> Reading:
        """The reading in use; raises as `fact` does, and FactError without a profile."""
        index = self._index(key)
        if not self.picked:
            raise FactError(f"no profile has picked the readings of {self.name}")
        return self.picked[index]

    def quantity(self, key: str | sp.Symbol, precision: str = "bf16") -> Quantity:
        """A value: of a fact, "memory", the reading in use as a leaf named after its symbol; of a
        symbol or its name, M_hbm or "alpha", what is bound at `precision` or follows.

        Raises as `reading` does, FactError for a shape, and UnknownName, offering the nearest.
        """
        if isinstance(key, str) and key in CHIP_FACTS:
            return self.fact(key).quantity(self.reading(key))
        return implied(self, key, self.bindings(precision), CHIP_FACTS)

    def shape(self, key: str = "pod_shape") -> tuple[int, ...]:
        """The whole numbers of a shape; raises as `reading` does, and FactError for a number."""
        value = self.reading(key).value
        if not isinstance(value, tuple):
            raise FactError(f"{key} of {self.name} is a number, not a shape")
        return value

    @property
    def precisions(self) -> tuple[str, ...]:
        """The precisions with a known FLOP rate."""
        return tuple(fact.key.name for fact in self.facts if fact.key.precision)

    def bindings(self, precision: str = "bf16") -> dict[sp.Symbol, Quantity]:
        """C at `precision`, and W, W_dcn, W_hbm and M_hbm where known, in the vocabulary's order.

        Raises FactError for a precision without a figure, listing those that have one.
        """
        if precision not in self.precisions:
            known = ", ".join(self.precisions) or "none"
            raise FactError(f"{self.name} has no figure for {quoted(precision)}; known: {known}")
        return {s: q for key, s, q in self._bound if not key.precision or key.name == precision}

    @cached_property
    def _bound(self) -> tuple[tuple[FactKey, sp.Symbol, Quantity], ...]:
        """What is read of each symbol, in the vocabulary's order."""
        readings = zip(self.facts, self.picked, strict=True)
        every = [(f.key, f.key.symbol, f.quantity(r)) for f, r in readings if f.key.symbol]
        return tuple(sorted(every, key=lambda bound: v.rank(bound[1])))

    def _index(self, key: str) -> int:
        declared, keys = _declared(key), [fact.key for fact in self.facts]
        if declared not in keys:
            known = ", ".join(each.name for each in keys)
            raise FactError(f"{self.name} has no reading of {key}; it has {known}")
        return keys.index(declared)

    def _instead(self, declared: FactKey, fact: Fact | None, wanted: str | Quantity) -> Reading:
        where = f"override of {declared.name} of {self.name}"
        if isinstance(wanted, str):
            if fact is None:
                told = "expected a quantity, since there is no reading to choose"
                raise FactError(f"{where}: {told}")
            return fact.reading(wanted)
        if not isinstance(wanted, Quantity):
            kind = type(wanted).__name__
            raise FactError(f"{where}: expected a source key or a quantity, found {kind}")
        if declared.kind == "shape":
            raise FactError(f"{where}: expected a source key, since a shape is no quantity")
        unit, value = wanted.unit, wanted.value
        labels = ((), declared.unit.labels)
        if unit.dimension != declared.unit.dimension or unit.labels not in labels:
            raise UnitError(f"{where}: expected {declared.unit}, found {unit}")
        if not isinstance(value, sp.Rational) or not 0 < value < 10**30:
            told = "expected an exact number above 0 and below 1e30"
            raise FactError(f"{where}: {told}, found {value}")
        if declared.kind == "count" and value.q != 1:
            raise FactError(f"{where}: expected a whole number, found {value}")
        origin = wanted.basis, wanted.source, wanted.where, wanted.status
        return Reading(value, *origin, formula=wanted.formula)


def _declared(key: str) -> FactKey:
    return lookup("fact", typed(key, "a fact", "ici_axis"), CHIP_FACTS)


# --- a model


@guarded
@dataclass(frozen=True, repr=False)
class Model(Owner):
    """A model of the catalogue, a transformer: its shapes, of which `model["P"]` is a value, and
    where they were read; 0 of what it does not have. What of them the source does not have is
    `assumed`."""

    name: str
    title: str
    aliases: tuple[str, ...]
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    norms_per_layer: int
    gated: bool
    tied_embeddings: bool
    final_norm: bool
    source: str
    where: str
    status: Status
    facts: tuple[Fact, ...] = ()
    assumed: tuple[str, ...] = ()
    experts: int = 0
    top_k: int = 0
    shared_experts: int = 0
    expert_ffn: int = 0
    expert_layers: int = 0
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    qk_nope_head_dim: int = 0
    qk_rope_head_dim: int = 0
    v_head_dim: int = 0
    learned_positions: int = 0
    qkv_bias: bool = False
    output_bias: bool = False
    ffn_bias: bool = False
    norm_bias: bool = False
    qk_norm: bool = False
    qk_norm_full: bool = False
    attention_sinks: bool = False
    embedding_norm: bool = False
    shared_expert_gate: bool = False

    def __repr__(self) -> str:
        return f"<{self.name}: {self.title}>"

    @property
    def beyond_dense(self) -> str:
        """What it has that a step of a dense transformer does not; empty for such a transformer."""
        latent = ["a latent of keys and values"] if self.kv_lora_rank else []
        has = ["experts", *latent] if self.experts else latent
        return " and ".join(has)

    @property
    def architecture(self) -> str:
        """The kinds of its layers, as a step's assumption of that name calls them."""
        experts = "shared-experts" if self.shared_experts else "experts"
        kinds = ["latent"] if self.kv_lora_rank else []
        return "-".join([*kinds, *([experts] if self.experts else [])]) or "dense"

    def fact(self, key: str) -> Fact:
        """A fact other than the shapes, with all its readings; raises UnknownName or FactError."""
        known = {fact.key.name: fact for fact in self.facts}
        if not known:
            raise FactError(f"{self.name} has no facts beside its shapes")
        return lookup(f"fact of {self.name}", key, known)

    @cached_property
    def counts(self) -> dict[str, Fact]:
        """The whole numbers of the shape by name, each a fact with one reading."""
        facts = {}
        for name, key in MODEL_COUNTS.items():
            if not (value := sp.Integer(getattr(self, name))):
                continue
            status: Status = "assumed" if name in self.assumed else self.status
            reading = Reading(value, "", self.source, f"{self.where}: {name}", status)
            facts[name] = Fact(key, self.name, (reading,))
        return facts

    def quantity(self, key: str | sp.Symbol) -> Quantity:
        """A value: of a count or a fact, "layers", or of a symbol or its name, D or "P".

        Raises UnknownName, offering the nearest, and FactError for a fact of several readings.
        """
        known = self.counts | {fact.key.name: fact for fact in self.facts}
        if not isinstance(key, str) or key not in known:
            return implied(self, key, self.bindings(), known)
        if len(known[key].readings) > 1:
            raise FactError(f"{key} of {self.name} has several readings: see fact({key!r})")
        return known[key].quantity(*known[key].readings)

    @property
    def feed_forward_matrices(self) -> int:
        """Three where gated, else two."""
        return 3 if self.gated else 2

    @property
    def part_formulas(self) -> dict[str, sp.Expr]:
        """The parameters of each part in the vocabulary's symbols: the one statement of the count.

        n_F is the number of feed-forward matrices, n_V that of tables of the vocabulary's size, so
        that a head which shares the embedding has none.
        """
        D, F, H, K, n_F, L_E = v.D, v.F, v.H, v.K, v.n_F, v.L_E
        heads, dense = K * v.G, v.L - L_E if self.experts else v.L
        if self.kv_lora_rank:
            wide = heads * (v.H_N + v.H_R)
            queries = v.r_q * (D + wide) if self.q_lora_rank else D * wide
            latent = D * (v.r_kv + v.H_R) + v.r_kv * heads * (v.H_N + v.H_V)
            attention = queries + latent + heads * v.H_V * D
        else:
            # Queries and the output projection, and keys and values.
            attention = 2 * D * heads * H + 2 * D * K * H
        norms = self.norms_per_layer * v.L + _if(self.final_norm) + _if(self.embedding_norm)
        inner = _if(self.q_lora_rank, v.r_q) + _if(self.kv_lora_rank, v.r_kv)
        inner += _if(self.qk_norm, 2 * H) + _if(self.qk_norm_full, (heads + K) * H)
        biases = _if(self.qkv_bias, (heads + 2 * K) * H) + _if(self.output_bias, D)
        biases += _if(self.attention_sinks, heads)

        def biased(width: sp.Expr) -> sp.Expr:  # of all matrices but the last one, and of that
            return _if(self.ffn_bias, (n_F - 1) * width + D)

        every = {
            "embedding": D * v.V,
            "positions": self.learned_positions * D,
            "attention": v.L * attention,
            "feed_forward": _if(self.ffn, dense * n_F * D * F),
            "experts": _if(self.experts, L_E * v.E * (n_F * D * v.F_E + biased(v.F_E))),
            "shared_experts": _if(self.shared_experts, L_E * n_F * D * v.F_E * v.n_S),
            "router": _if(self.experts, L_E * (D + _if(self.ffn_bias)) * v.E)
            + _if(self.shared_expert_gate, L_E * D),
            "norms": D * norms * (2 if self.norm_bias else 1) + v.L * inner,
            "biases": v.L * biases + _if(self.ffn, dense * biased(F)),
            "head": (v.n_V - 1) * D * v.V,
        }
        return {name: formula for name, formula in every.items() if formula != 0}

    @property
    def tables(self) -> int:
        """The tables with a row for each word: one where embedding and head are tied, else two."""
        return 1 if self.tied_embeddings else 2

    @cached_property
    def parts(self) -> tuple[tuple[str, Quantity], ...]:
        """The parameters of each part, computed from the shapes: (name, quantity) in order."""
        return self._counted({})

    @cached_property
    def parameters(self) -> Quantity:
        """The exact number of parameters: the sum of the parts."""
        return self._total("P", self.parts)

    @cached_property
    def active_parameters(self) -> Quantity:
        """The parameters that take part in a token, the embedding included: of the experts those
        of top_k."""
        return self._total("P_act", self._counted({v.E: v.n_k}))

    def _counted(self, experts: Mapping[sp.Symbol, sp.Symbol]) -> tuple[tuple[str, Quantity], ...]:
        """The parts, with other symbols in the formula of the experts."""
        given = self._shapes
        counts = {v.n_F: sp.Integer(self.feed_forward_matrices), v.n_V: sp.Integer(self.tables)}
        return tuple(
            (name, evaluated(formula.xreplace(counts).xreplace(put), given, parameter, name))
            for name, formula in self.part_formulas.items()
            for put in (experts if name == "experts" else {},)
        )

    def _total(self, name: str, parts: tuple[tuple[str, Quantity], ...]) -> Quantity:
        total = sum((part.value for _, part in parts), start=sp.Integer(0))
        formula = " + ".join(part for part, _ in parts)
        return Quantity(total, parameter, name, owner=self.name, formula=formula, inputs=parts)

    def bindings(self, precision: str = "bf16") -> dict[sp.Symbol, Quantity]:
        """D, F, L, V, K, H, G and P, in the vocabulary's order, F and H where there are such; with
        experts E, n_k, n_S (0 where none is shared), F_E, L_E and P_act, with a latent r_q, r_kv,
        H_N, H_R and H_V. The same for every precision."""
        bound = {**self._shapes, v.P: self.parameters}
        if self.experts:
            bound[v.P_act] = self.active_parameters
        return {symbol: bound[symbol] for symbol in sorted(bound, key=v.rank)}

    @cached_property
    def _shapes(self) -> dict[sp.Symbol, Quantity]:
        counts = {name: fact.quantity(*fact.readings) for name, fact in self.counts.items()}
        shapes = {s: counts[n] for n, k in MODEL_COUNTS.items() if n in counts and (s := k.symbol)}
        if self.experts and not self.shared_experts:
            shapes[v.n_S] = number(0, v.unit_of_symbol(v.n_S), "n_S", owner=self.name)
        inputs = ("heads", counts["heads"]), ("K", counts["kv_heads"])
        groups, unit = sp.Integer(self.heads) / self.kv_heads, v.unit_of_symbol(v.G)
        shapes[v.G] = Quantity(groups, unit, "G", self.name, formula="heads / K", inputs=inputs)
        return shapes


def _if(there: bool | int, formula: sp.Expr = sp.S.One) -> sp.Expr:
    """The formula of what a model has, and 0 of what it has not."""
    return formula if there else sp.S.Zero
