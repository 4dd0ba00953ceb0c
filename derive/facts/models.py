"""A dense transformer: its shapes, and the parameter count computed from them.

`Model.part_formulas` states the count, in the vocabulary's symbols: attention has K key and value
heads, and G query heads to each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import sympy as sp

from derive.facts.fact import MODEL_COUNTS, Fact, Reading
from derive.notation import symbols
from derive.notation.errors import FactError, guarded, unknown
from derive.notation.quantity import Quantity, Status, evaluated
from derive.notation.symbols import D, F, G, H, K, L, V, n_F, n_V, rank, unit_of_symbol
from derive.notation.units import parameter


@guarded
@dataclass(frozen=True, repr=False)
class Model:
    """A model of the catalogue: the shapes of a dense transformer, and where they were read."""

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

    def __repr__(self) -> str:
        return f"<{self.name}: {self.title}>"

    def fact(self, key: str) -> Fact:
        """A fact other than the shapes, with all its readings; raises UnknownName or FactError."""
        known = {fact.key.name: fact for fact in self.facts}
        if not known:
            raise FactError(f"{self.name} has no facts beside its shapes")
        if key not in known:
            raise unknown(f"fact of {self.name}", key, known)
        return known[key]

    @cached_property
    def counts(self) -> dict[str, Fact]:
        """The whole numbers of the shape by name, each a fact with one reading."""
        facts = {}
        for name, key in MODEL_COUNTS.items():
            value, where = sp.Integer(getattr(self, name)), f"{self.where}: {name}"
            reading = Reading(value, "", self.source, where, self.status)
            facts[name] = Fact(key, self.name, (reading,))
        return facts

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
        norms = self.norms_per_layer * L + (1 if self.final_norm else 0)
        return {
            "embedding": D * V,
            # Queries and the output projection, and keys and values.
            "attention": L * (2 * D * K * G * H + 2 * D * K * H),
            "feed_forward": L * n_F * D * F,
            "norms": D * norms,
            "head": (n_V - 1) * D * V,
        }

    @property
    def tables(self) -> int:
        """The tables with a row for each word: one where embedding and head are tied, else two."""
        return 1 if self.tied_embeddings else 2

    @cached_property
    def parts(self) -> tuple[tuple[str, Quantity], ...]:
        """The parameters of each part, computed from the shapes: (name, quantity) in order."""
        given = self._shapes
        counts = {n_F: sp.Integer(self.feed_forward_matrices), n_V: sp.Integer(self.tables)}
        return tuple(
            (name, evaluated(formula.xreplace(counts), given, parameter, name))
            for name, formula in self.part_formulas.items()
        )

    @cached_property
    def parameters(self) -> Quantity:
        """The exact number of parameters: the sum of the parts."""
        parts = self.parts
        total = sum((part.value for _, part in parts), start=sp.Integer(0))
        formula = " + ".join(name for name, _ in parts)
        return Quantity(total, parameter, "P", owner=self.name, formula=formula, inputs=parts)

    def bindings(self, precision: str = "bf16") -> dict[sp.Symbol, Quantity]:
        """D, F, L, V, K, H, G and P, in the vocabulary's order; the same for every precision."""
        bound = {**self._shapes, symbols.P: self.parameters}
        return {symbol: bound[symbol] for symbol in sorted(bound, key=rank)}

    @cached_property
    def _shapes(self) -> dict[sp.Symbol, Quantity]:
        counts = {name: fact.quantity(*fact.readings) for name, fact in self.counts.items()}
        shapes = {key.symbol: counts[name] for name, key in MODEL_COUNTS.items() if key.symbol}
        inputs = ("heads", counts["heads"]), ("K", counts["kv_heads"])
        groups, unit = sp.Integer(self.heads) / self.kv_heads, unit_of_symbol(G)
        shapes[G] = Quantity(groups, unit, "G", self.name, formula="heads / K", inputs=inputs)
        return shapes
