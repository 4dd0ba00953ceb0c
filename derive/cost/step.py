"""One training step as named expressions: its time by parts, its memory and its utilisation.

Chapter text, TeX, evaluation and the search read these expressions and no others. Each intermediate
is a symbol with a definition in terms of those before it; `expanded` puts them in. FLOP, bytes and
saved tensors are read off the programs of the blocks (`stage`); each correction that is left out is
a deviation from them by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from derive.cost import memory, timing, traffic, work
from derive.cost.assumptions import OF_STEP, Assumptions, as_assumptions
from derive.cost.block import FUSED
from derive.cost.links import SPANS, links
from derive.cost.sharding import sharding
from derive.cost.terms import Term
from derive.notation import symbols as v
from derive.notation.errors import DeriveError, guarded, unknown


@guarded
@dataclass(frozen=True, repr=False, eq=False)
class StepModel:
    """The model under one set of assumptions.

    `definitions` stand in the order of use. `parts` add up to the seconds of a step; `memory` has
    the stages of which one is the fullest, each what adds up to the bytes of a chip of it.
    """

    assumptions: Assumptions
    definitions: tuple[Term, ...]
    parts: tuple[Term, ...]
    memory: Mapping[str, tuple[Term, ...]]
    lacking: sp.Expr
    model_flops: Term

    @property
    def seconds(self) -> sp.Expr:
        """The time of a step: the sum of the parts."""
        return sp.Add(*(term.expr for term in self.parts))

    @property
    def memory_bytes(self) -> sp.Expr:
        """The memory of the fullest chip."""
        return sp.Max(*self.stage_bytes.values(), evaluate=False)

    @property
    def stage_bytes(self) -> dict[str, sp.Expr]:
        """The memory of a chip of each of the stages that may be the fullest."""
        every = self.memory.items()
        return {name: sp.Add(*(term.expr for term in terms)) for name, terms in every}

    @property
    def utilisation(self) -> sp.Expr:
        """MFU: the model's FLOP over what all chips could do in the time of a step."""
        chips = SPANS[v.W_pp]  # the outermost groups span them all
        return self.model_flops.expr / (self.seconds * chips * v.C)

    def term(self, name: str) -> Term:
        """The definition or part of that name (a symbol's name for a definition); where a part
        has the name of a degree, such as tp, the part. Raises UnknownName."""
        every = (*self.parts, self.model_flops, *self.definitions)
        for term in every:
            if term.name == name:
                return term
        raise unknown("term", name, [term.name for term in every])

    def __repr__(self) -> str:
        groups = {
            "definitions": self.definitions,
            "seconds of a step, the sum of": self.parts,
            **{
                f"bytes of a chip of the {name} stage, the sum of": terms
                for name, terms in self.memory.items()
            },
            "for MFU": (self.model_flops,),
        }
        lines = [f"a training step, assumptions: {self.assumptions.name}"]
        for title, terms in groups.items():
            lines += [f"{title}:", *(f"  {term!r}" for term in terms)]
        return "\n".join(lines)

    def expanded(self, expr: sp.Expr) -> sp.Expr:
        """`expr` with every intermediate replaced by what defines it."""
        for term in reversed(self.definitions):
            expr = expr.xreplace({v.find(term.name): term.expr})
        return expr


FABRICS = ("switch", "torus")


def step_model(
    assumptions: Assumptions | str, *, exact: bool = True, fabric: str = "switch"
) -> StepModel:
    """The model of a step under the assumptions, a set or its name such as "notebook"; units are
    checked as its terms are made.

    Unless `exact`, the share (n-1)/n of a collective over n chips is taken as 1. `fabric` is what
    joins the chips: nodes with switches, or a torus. Raises UnknownName for a name that there is
    not.
    """
    if fabric not in FABRICS:
        raise unknown("fabric", fabric, FABRICS)
    base = as_assumptions(assumptions)
    if base.fusion != FUSED and "saved_tensors" not in base:
        raise DeriveError(f"a step counts what kernels save with saved_tensors alone; found {base}")
    if base.kernels == "recomputed" and "matmul_shape" not in base:
        told = "a step runs a core of attention again with matmul_shape alone"
        raise DeriveError(f"{told}; found {base}")
    if base.architecture != "dense" and not {"uneven_stages", "sharded_states"} <= base.corrections:
        told = f"a step with {base.architecture} takes uneven_stages and sharded_states"
        raise DeriveError(f"{told}; found {base}")
    if base.stages == "given" and "uneven_stages" not in base:
        raise DeriveError(f"a step with given stages takes uneven_stages; found {base}")
    if base.has_experts and not base.sequence_parallel:
        raise DeriveError(
            "sequence_parallel: experts take their rows split, so expected on, found off"
        )
    names = (*base.fusion._fields, *OF_STEP)
    plain = Assumptions(
        corrections=base.corrections, **{name: getattr(base, name) for name in names}
    )
    return _model(plain, exact, fabric)


@lru_cache(maxsize=64)
def _model(assumptions: Assumptions, exact: bool, fabric: str) -> StepModel:
    return StepModel(
        assumptions,
        (
            *timing.shape(assumptions),
            *links(assumptions, fabric),
            *memory.parameters(assumptions),
            *sharding(assumptions),
            *memory.definitions(assumptions),
            *work.work(assumptions),
            *traffic.gradients(assumptions, exact),
            *timing.micro_batch(assumptions, exact),
        ),
        timing.parts(assumptions),
        memory.memory(assumptions),
        memory.lacking_layers(assumptions),
        work.model_flops(),
    )
