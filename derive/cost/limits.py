"""The limits of a training step, declared: how long, how many, how wide, from the step model.

Each is a load made of the model's own terms, which must not exceed 1, and what is then true.
Nothing is solved here: `threshold(context_ring, T_r)` does that, for any symbol of the load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import sympy as sp

from derive.cost.assumptions import Assumptions
from derive.cost.load import Load, Requirement
from derive.cost.step import step_model
from derive.cost.work import passes
from derive.notation import symbols as v

TAKEN = ("corrections", "form")
LINKS = (v.W_tp, v.W_cp, v.W_dp, v.W_pp)
# The corrections that choose the value of a constant.
CHOOSING: Mapping[sp.Symbol, str] = {v.e_g: "gradient_bytes", v.T_min: "any_chunk"}
FORMS: Mapping[str, str] = {
    "exact": "exact: (n-1)/n of a group of n is kept",
    "large-n": "large-n: (n-1)/n of a group of n is taken as 1",
}


@dataclass(frozen=True, repr=False)
class Limit:
    """A limit of the step model: `claim` holds where `load` is at most 1.

    `load` takes the assumptions, of which `form` says whether shares (n-1)/n of a group of n are
    taken as 1. `asked` is the symbol that it is a limit on. `terms` are those of the step model
    that the load is made of; `left_out` says what of them it leaves out, `idle` what a load of zero
    means. `inside_node` is the link that is taken to be the one inside a node where the group that
    it belongs to is itself asked for.
    """

    name: str
    gloss: str
    claim: str
    asked: sp.Symbol
    load: Callable[[Assumptions], sp.Expr]
    terms: tuple[str, ...]
    left_out: str
    idle: str = ""
    inside_node: sp.Symbol | None = None

    def __repr__(self) -> str:
        return f"{self.name}: {self.gloss}; threshold({self.name}, {self.asked})"

    def requirement(self, assumptions: Assumptions) -> Requirement:
        """That the load is at most 1, with what it rests on: what of a step is in closed form."""
        assumptions = assumptions.only(TAKEN, self.name).closed
        model = step_model(assumptions)
        return Requirement(
            self.name,
            self.claim,
            (Load((self.load(assumptions),)),),
            assumptions,
            definitions=tuple((v.find(term.name), term.expr) for term in model.definitions),
            held=LINKS,
            described={
                "name": assumptions.name,
                "form": FORMS[assumptions.form],
                "left out": self.left_out,
                **self.rests_on(assumptions),
            },
            idle=self.idle,
            inside_node=self.inside_node,
        )

    def rests_on(self, assumptions: Assumptions) -> dict[str, str]:
        """The corrections that are on and that the load, or a value in it, can rest on, each with
        a phrase. What a chip and a model give rests on `exact_parameters`."""
        assumptions = assumptions.closed
        model = step_model(assumptions)
        named = {"exact_parameters", *(n for name in self.terms for n in model.term(name).rests_on)}
        symbols = self.load(assumptions).free_symbols
        for term in reversed(model.definitions):  # each in terms of those before it
            if v.find(term.name) in symbols:
                named |= {*term.rests_on}
                symbols |= term.expr.free_symbols
        named |= {CHOOSING[symbol] for symbol in symbols & CHOOSING.keys()}
        return {name: text for name, text in assumptions.described().items() if name in named}


@lru_cache(maxsize=64)
def _ring(assumptions: Assumptions) -> sp.Expr:
    """The ring over the attention of a stage; the tokens of the sequence are those of its ranks."""
    model = step_model(assumptions, exact=assumptions.exact)
    work = {v.t_1: model.term("t_1").expr, v.f_A: model.term("f_A").expr}
    ring, attention = (
        _without_recomputation(model.term(symbol.name).expr).xreplace(work)
        for symbol in (v.t_ring, v.t_attn)
    )
    return (ring / attention).xreplace({v.T: v.cp * v.T_r})


def _bubble(assumptions: Assumptions) -> sp.Expr:
    """The bubble over its share epsilon of the step, with gradient traffic left out and even
    stages, which is without the head."""
    bubble = step_model(assumptions).term("bubble").expr.xreplace({v.f_V: sp.S.Zero})
    # bubble <= epsilon (bubble + m t), with the terms of the bubble on one side.
    return bubble * (1 - v.epsilon) / (v.epsilon * v.n_mb * v.t_mb)


def _tensor(assumptions: Assumptions) -> sp.Expr:
    """Tensor communication over the share epsilon of the computation of a stage's layers. What is
    left, (t-1)/t of a t-th, is exact and no share of a group any more."""
    model = step_model(assumptions)
    layers = v.L_p * v.f_L * model.term("t_1").expr
    return _without_recomputation(model.term("t_tp").expr) / layers / v.epsilon


@lru_cache(maxsize=64)
def _gradients(assumptions: Assumptions) -> sp.Expr:
    """The gradients' reduce-scatter over the backward pass of a micro-batch of one sequence; the
    work of attention and the vocabulary is left out.

    With an even share the parameters on a chip and their work cancel; with `largest_stage` psi is
    that of the fullest stage. With two levels a large group is one of many nodes.
    """
    model = step_model(assumptions, exact=assumptions.exact)
    even = "largest_stage" not in assumptions
    left_out = {v.f_A: sp.S.Zero} | ({v.V: sp.S.Zero} if even else {})
    work = model.term("f_L").expr.xreplace(left_out)
    _, backward = passes(work, model.term("t_1").expr)
    instead = {v.L_p: model.term("L_p").expr, v.b_seq: sp.S.One}
    if even:
        instead[v.psi] = model.term("psi").expr
    load = (model.term("t_scatter").expr / backward).xreplace(instead)
    return sp.factor(load) if even else load


def _feed(assumptions: Assumptions) -> sp.Expr:
    """The micro-batches that a pipeline needs, for the bubble and at least one, over those that a
    batch leaves it on N chips."""
    share = step_model(assumptions).term("n_mb").expr
    pipelines = v.N / (v.tp * v.cp * v.pp)
    needed = sp.Max(1, _bubble(assumptions) * v.n_mb, evaluate=False)
    return needed / share.xreplace({v.dp: pipelines})


WITHOUT_HEAD = "the head, so that stages are even, and the gradients' traffic"


def _without_recomputation(expr: sp.Expr) -> sp.Expr:
    return expr.xreplace({v.L_r: sp.S.Zero})


context_ring = Limit(
    "context_ring",
    "tokens of a context-parallel rank that hide the ring under attention",
    "the ring hides under the attention",
    v.T_r,
    _ring,
    ("t_ring", "t_attn", "f_A"),
    "recomputation",
    idle="nothing moves",
)
pipeline_bubble = Limit(
    "pipeline_bubble",
    "micro-batches for a share of bubble in the step",
    "the bubble takes at most epsilon of the step",
    v.n_mb,
    _bubble,
    ("bubble",),
    WITHOUT_HEAD,
)
tensor_share = Limit(
    "tensor_share",
    "tensor degree for a share of communication, as a share of the layer's computation",
    "tensor communication is at most epsilon of the layer's computation",
    v.tp,
    _tensor,
    ("t_tp",),
    "recomputation, and the head beside the layers",
    idle="nothing moves",
    inside_node=v.W_tp,
)
gradient_sync = Limit(
    "gradient_sync",
    "tokens on a chip that hide the gradients' reduce-scatter under the backward pass",
    "the gradients hide under the backward pass",
    v.T_r,
    _gradients,
    ("t_scatter",),
    "the work of attention and the head in the backward pass, and all micro-batches but one of one "
    "sequence",
    idle="nothing moves",
)
batch_feed = Limit(
    "batch_feed",
    "cards that a batch can feed, each pipeline with micro-batches for a share of bubble",
    "the batch feeds every pipeline",
    v.N,
    _feed,
    ("bubble",),
    WITHOUT_HEAD,
)

LIMITS: Mapping[str, Limit] = MappingProxyType(
    {one.name: one for one in list(vars().values()) if isinstance(one, Limit)}
)
"""Every limit of this file, by name, in the order in which they are declared."""
