"""A layout: an ordered line of rules `dimension:axis` that says how a block is spread over a mesh.

    B:X D:X                     FSDP
    T:cp U:cp(ring) K:tp F:tp   context and tensor parallelism
    T:cp E:ep(experts) J:edp cp=edp*ep      experts over groups of the same devices

Each tensor takes the first rules whose axis it does not have yet. A rule can be limited, in
brackets: to weights, to activations, to the optimizer's state of the weights (which their reduced
gradients follow), to what the experts of the block hold, or to named tensors. `ring` says that what
is gathered over the axis is passed round while it is used, so that the pass does not wait for it.

A fold, dp*cp*tp=edp*etp*ep, says that the axes of experts are the devices of those of the rows, in
other groups: a tensor has axes of one side alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from derive.cost.block import Block, FunctionLine, Tensor, as_block
from derive.cost.reader import axis_names, dimensions
from derive.notation.errors import ShardingError, meant, quoted
from derive.notation.symbols import vocabulary

LONGEST = 600
KINDS = ("weights", "activations", "optimizer", "ring", "experts")
Sides = tuple[tuple[str, ...], ...]
_FOLD = re.compile(r"(\w+(?:\*\w+)*)=(\w+(?:\*\w+)*)(?!\S)", re.ASCII)
_RULE = re.compile(r"([A-Za-z_]\w*):([A-Za-z_]\w*)(?:\(([\w ]+(?:,[\w ]+)*)\))?\Z", re.ASCII)


@dataclass(frozen=True)
class Rule:
    """The dimension `dim` is split by `axis` on the tensors that `only` names, all where empty."""

    dim: str
    axis: str
    only: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.dim}:{self.axis}" + (f"({','.join(self.only)})" if self.only else "")

    def holds_for(self, tensor: Tensor, block: Block, state: bool) -> bool:
        """Whether the rule speaks of a tensor: `state` is that of the optimizer for it."""
        kinds = {*self.only} - {"ring"}
        if "experts" in kinds:
            kinds -= {"experts"}
            if tensor.name not in block.of_experts:
                return False
        if not kinds:
            return True
        names = {tensor.name, "weights" if tensor.name in block.parameters else "activations"}
        return bool(names & kinds) or (state and "optimizer" in kinds)


def rules_of(text: object) -> tuple[Rule, ...]:
    """The rules of a line, parted by spaces, but for a fold. Raises ShardingError for what is no
    rule."""
    if not isinstance(text, str):
        raise ShardingError(f"expected a layout such as B:X D:X, found {quoted(text)}")
    if len(text) > LONGEST:
        raise ShardingError(f"a layout has at most {LONGEST} characters, found {len(text)}")
    rules: list[Rule] = []
    for word in re.split(r"\s+(?![^(]*\))", text.strip()):
        if _FOLD.fullmatch(word):
            continue
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


def fold_of(text: str) -> Sides:
    """The axes of rows and those of experts that a line says are the same devices, if it does.
    Raises ShardingError for an axis given twice, and for two folds."""
    sides = [side.split("*") for match in _FOLD.finditer(text) for side in match.groups()]
    axes = {name for name, known in vocabulary().items() if known.role in ("mesh", "axis")}
    for axis in (every := [axis for side in sides for axis in side]):
        if axis in vocabulary().keys() - axes:
            told = "expected a rule such as B:X or D:dp(weights), or a fold of mesh axes"
            raise ShardingError(f"layout: {told}, found {quoted(text.strip())}")
        if axis_names(axis, "layout") != (axis,) or every.count(axis) > 1 or len(sides) > 2:
            told = f"expected one fold, of axes by name, each once, found {quoted(axis)}"
            raise ShardingError(f"layout {text.strip()}: {told}")
    return tuple(map(tuple, sides))


def spread(block: Block, layout: str | Sequence[Rule], fold: Sides = ()) -> Block:
    """The block with each tensor laid out by the rules; `fold` is that of a text where it has one.

    Axes that are typed in the block stay before those of the rules. Raises ShardingError for a rule
    that names no dimension, no tensor or no kind of tensor of the block, offering the nearest, and
    for a fold that the rows or a line of the block do not keep to.
    """
    rules = tuple(layout) if isinstance(layout, (tuple, list)) else rules_of(layout)
    for rule in rules:
        _check(rule, as_block(block))
    sides = fold or (fold_of(layout) if isinstance(layout, str) else as_block(block).fold)
    folded = replace(block, fold=sides)
    tensors = tuple(_laid_out(t, rules, folded) for t in block.tensors)
    states = [_laid_out(block.state_of(n), rules, folded, state=True) for n in block.parameters]
    rings = tuple((rule.dim, rule.axis) for rule in rules if "ring" in rule.only)
    laid_out = replace(
        folded,
        tensors=tensors,
        rings=(*block.rings, *rings),
        states=tuple(state for state in states if state not in tensors),
    )
    if sides:
        _check_fold(laid_out)
    return laid_out


def _laid_out(tensor: Tensor, rules: Sequence[Rule], block: Block, state: bool = False) -> Tensor:
    split = tensor.split
    used = {*tensor.axes}
    for rule in rules:
        other = next((b for a, b in permutations(block.fold, 2) if rule.axis in a), ())
        free = rule.axis not in used and not used & {*other}
        if rule.dim in split and free and rule.holds_for(tensor, block, state):
            split[rule.dim] = (*split[rule.dim], rule.axis)
            used.add(rule.axis)
    return tensor.laid_out(split)


def _check_fold(block: Block) -> None:
    """Raise ShardingError where rows do not have all axes of a fold, or where a line has axes of
    both sides: it would split its devices twice."""
    if not block.rows:
        told = "=".join("*".join(side) for side in block.fold)
        raise ShardingError(f"layout {told}: the block hands no rows to experts")
    for line in block.lines:
        if isinstance(line, FunctionLine) and line.routes:
            continue
        tensors = [block[name] for name in (*line.operands, line.result)]
        both = [
            next(((t, axis) for t in tensors for axis in t.axes if axis in side), None)
            for side in block.fold
        ]
        if both[0] and both[1]:
            told = f"{both[0][0]} has {both[0][1]} and {both[1][0]} has {both[1][1]} of the fold"
            raise ShardingError(f"{told}, which are the same devices; limit one to (experts)")


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
    if not any(rule.holds_for(t, block, t.name in block.parameters) for t in having):
        told = f"no tensor that it speaks of has the dimension {rule.dim}, which"
        raise ShardingError(f"layout {rule}: {told} {', '.join(t.name for t in having)} have")
