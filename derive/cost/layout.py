"""A layout: an ordered line of rules `dimension:axis` that says how a block is spread over a mesh.

    B:X D:X                     FSDP
    T:cp U:cp(ring) K:tp F:tp   context and tensor parallelism

Each tensor takes the first rules whose axis it does not have yet. A rule can be limited, in
brackets: to weights, to activations, to the optimizer's state of the weights (which their reduced
gradients follow), or to named tensors. `ring` says that what is gathered over the axis is passed
round while it is used, so that the pass does not wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from derive.cost.block import Block, Tensor, as_block
from derive.cost.reader import axis_names, dimensions
from derive.notation.errors import ShardingError, meant, quoted

LONGEST = 600
KINDS = ("weights", "activations", "optimizer", "ring")
_RULE = re.compile(r"([A-Za-z_]\w*):([A-Za-z_]\w*)(?:\(([\w ]+(?:,[\w ]+)*)\))?\Z", re.ASCII)


@dataclass(frozen=True)
class Rule:
    """The dimension `dim` is split by `axis` on the tensors that `only` names, all where empty."""

    dim: str
    axis: str
    only: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.dim}:{self.axis}" + (f"({','.join(self.only)})" if self.only else "")

    def holds_for(self, tensor: Tensor, parameter: bool, state: bool) -> bool:
        """Whether the rule speaks of a tensor: `state` is that of the optimizer for it."""
        kinds = [kind for kind in self.only if kind != "ring"]
        if not kinds:
            return True
        names = {tensor.name, "weights" if parameter else "activations"}
        return bool(names & {*kinds}) or (state and "optimizer" in kinds)


def rules_of(text: object) -> tuple[Rule, ...]:
    """The rules of a line, parted by spaces. Raises ShardingError for what is no rule."""
    if not isinstance(text, str):
        raise ShardingError(f"expected a layout such as B:X D:X, found {quoted(text)}")
    if len(text) > LONGEST:
        raise ShardingError(f"a layout has at most {LONGEST} characters, found {len(text)}")
    rules: list[Rule] = []
    for word in re.split(r"\s+(?![^(]*\))", text.strip()):
        match = _RULE.match(word)
        if match is None:
            told = "expected a rule such as B:X or D:dp(weights)"
            raise ShardingError(f"layout: {told}, found {quoted(word)}")
        dim, axis, only = match.groups()
        if len(axis) > 1 and axis.isupper():
            reads = f"reads as the axes {', '.join(axis)}; write {axis.lower()}"
            raise ShardingError(f"layout: mesh axis {axis} in capitals {reads}")
        axis_names(axis, "layout")
        kinds = tuple(kind.strip() for kind in only.split(",")) if only else ()
        rule = Rule(dim, axis, kinds)
        if rule in rules:
            raise ShardingError(f"layout: the rule {rule} is given twice")
        rules.append(rule)
    return tuple(rules)


def spread(block: Block, layout: str | Sequence[Rule]) -> Block:
    """The block with each tensor laid out by the rules.

    Axes that are typed in the block stay before those of the rules. Raises ShardingError for a rule
    that names no dimension, no tensor or no kind of tensor of the block, offering the nearest.
    """
    rules = tuple(layout) if isinstance(layout, (tuple, list)) else rules_of(layout)
    for rule in rules:
        _check(rule, as_block(block))
    tensors = tuple(_laid_out(t, rules, t.name in block.parameters) for t in block.tensors)
    states = [_laid_out(block.state_of(n), rules, True, state=True) for n in block.parameters]
    rings = tuple((rule.dim, rule.axis) for rule in rules if "ring" in rule.only)
    return replace(
        block,
        tensors=tensors,
        rings=(*block.rings, *rings),
        states=tuple(state for state in states if state not in tensors),
    )


def _laid_out(
    tensor: Tensor, rules: Sequence[Rule], parameter: bool, state: bool = False
) -> Tensor:
    split = tensor.split
    used = {*tensor.axes}
    for rule in rules:
        if rule.dim in split and rule.axis not in used and rule.holds_for(tensor, parameter, state):
            split[rule.dim] = (*split[rule.dim], rule.axis)
            used.add(rule.axis)
    return tensor.laid_out(split)


def _check(rule: Rule, block: Block) -> None:
    dims = block.dims
    if rule.dim not in dims:
        hint = meant(rule.dim, dims, f"it has {', '.join(dims)}")
        raise ShardingError(f"layout {rule}: the block has no dimension {quoted(rule.dim)}; {hint}")
    if f"{rule.dim}_{rule.axis}" in dimensions():
        told = f"{rule.dim}_{rule.axis} is a dimension; give the axis another name"
        raise ShardingError(f"layout {rule}: {told}")
    names = [tensor.name for tensor in block.tensors]
    for name in rule.only:
        if name not in (*KINDS, *names):
            hint = meant(name, (*KINDS, *names), f"it has {', '.join(names)}")
            raise ShardingError(f"layout {rule}: the block has no tensor {quoted(name)}; {hint}")
    having = [tensor for tensor in block.tensors if rule.dim in tensor.dims]
    parameters = block.parameters
    if not any(rule.holds_for(t, t.name in parameters, t.name in parameters) for t in having):
        told = f"no tensor that it speaks of has the dimension {rule.dim}, which"
        raise ShardingError(f"layout {rule}: {told} {', '.join(t.name for t in having)} have")
