"""The passes of a block under its layout: forward, backward, and what the update gathers again.

The backward pass is, for each product, the two transposed products under the same rules; a gradient
is sharded like its tensor, that of a parameter like its optimizer state. The gradient of a tensor
that several lines use is one sum. A function is applied where its result is, along whole dimensions
if it runs along one. Element-wise work is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import sympy as sp

from derive.cost.block import (
    FUNCTIONS,
    FUSED,
    Block,
    FunctionLine,
    Fusion,
    Line,
    ProductLine,
    Tensor,
    as_block,
)
from derive.cost.program import Moved, Multiplied, Operation, PassCost, Saved, elements
from derive.cost.rules import Operands, Pass, whole_name
from derive.cost.sizes import Sizes, sizes_of
from derive.notation.errors import unknown
from derive.notation.symbols import e, e_32, find

KEEP = ("activations", "none", "weights", "all")


@dataclass(frozen=True, repr=False)
class Program:
    """A block's passes, and what the forward pass saves for the backward one.

    `update` gathers parameters from the layout of their optimizer state; nothing where that is
    their own.
    """

    block: Block
    forward: PassCost
    backward: PassCost
    update: PassCost
    saved: tuple[Saved, ...]

    @cached_property
    def parameters(self) -> tuple[tuple[Tensor, sp.Expr], ...]:
        """Each parameter in its layout, and its elements on a device."""
        return tuple((self.block[n], elements(self.block[n])) for n in self.block.parameters)

    def __repr__(self) -> str:
        passes = [cost for cost in (self.forward, self.backward, self.update) if cost.program]
        saved = ", ".join(map(repr, self.saved))
        lines = [*repr(self.block).split("; "), *map(repr, passes), f"saved    {saved} bytes"]
        return "\n".join(lines)


def gradient(tensor: Tensor) -> Tensor:
    """The gradient of a tensor, sharded like it."""
    return tensor.named(f"d{tensor.name}")


@lru_cache(maxsize=256)
def program(
    block: Block,
    keep: str = "activations",
    fusion: Fusion = FUSED,
    least: tuple[tuple[str, int], ...] | None = None,
) -> Program:
    """The program of a block: by the canonical rules, or the least one at the sizes given.

    `keep` says which gathered tensors the forward pass leaves for the backward one: activations,
    weights, all or none; what is not kept is gathered again. Within a pass a gathered tensor is
    reused. `fusion` says which kernels are fused; without them every function keeps what it needs.
    """
    if keep not in KEEP:
        raise unknown("value of keep", keep, KEEP)
    sizes = None if least is None else sizes_of(block, dict(least))
    forward = _Forward(as_block(block), sizes)
    forward.run()
    backward = _Backward(block, forward, keep, fusion)
    backward.run()
    update = Pass({name: [block.state_of(name)] for name in block.parameters}, (), sizes=sizes)
    for name in block.parameters:
        update.fetch(block[name])
    return Program(
        block,
        _cost("forward", forward.program, block),
        _cost("backward", backward.program, block),
        _cost("update", update.program, block),
        tuple(replace(s, bytes=s.bytes.xreplace(block.same_length)) for s in backward.saved()),
    )


def _cost(name: str, steps: Sequence[Operation], block: Block) -> PassCost:
    """The cost of a program, in which some dimensions of the block are as long as others."""
    flops = sp.Add(*(step.flops for step in steps if isinstance(step, Multiplied)))
    scheduled = _scheduled(steps, block)
    moves = tuple(step.move for step in scheduled if isinstance(step, Moved))
    return PassCost(name, flops.xreplace(block.same_length), moves, scheduled)


def activations(block: Block) -> tuple[str, ...]:
    """Every tensor but the parameters, in the order in which they come to be."""
    listed = [*block.inputs]
    for line in block.lines:
        listed += [*(line.branches if isinstance(line, ProductLine) else ()), line.result]
    return tuple(dict.fromkeys(listed))


class _LineByLine(Pass):
    """A pass that can run the lines of a block."""

    block: Block

    def element(self, tensor: Tensor) -> sp.Expr:
        """The bytes of an element; one-hot rows are kept as the number of their column, in fp32."""
        if tensor.name in self.block.looked_up:
            return e_32 / find(tensor.dims[-1])
        if whole_name(tensor.name) in self.block.wide:
            return e_32
        return super().element(tensor)

    def line(self, line: Line) -> None:
        """Run a line forward."""
        if isinstance(line, FunctionLine):
            self.function(line)
            return
        for right, branch in zip(line.rights, line.branches, strict=True):
            operands = self.block[line.left], self.block[right], line.share
            self.multiply([operands], self.block[branch])
        if len(line.rights) > 1:
            branches = [self.block[name] for name in line.branches]
            self.apply("*", branches, self.block[line.result])

    def function(self, line: FunctionLine) -> None:
        operands = [self.block[name] for name in line.operands]
        result = self.block[line.result]
        where, local = _places(line, self.block)
        self.apply(line.function, [self.fetch(t.laid_out(where)) for t in operands], local)
        self.reshard(local, result)


class _Forward(_LineByLine):
    def __init__(self, block: Block, sizes: Sizes | None) -> None:
        self.block = block
        names = (*block.inputs, *block.parameters)
        held = {name: [block[name]] for name in names}
        super().__init__(held, activations(block), sizes=sizes)

    def run(self) -> None:
        for line in self.block.lines:
            self.line(line)


class _Backward(_LineByLine):
    def __init__(self, block: Block, forward: _Forward, keep: str, fusion: Fusion) -> None:
        self.block = block
        self.fusion = fusion
        self.order = activations(block)
        self.makers = {line.result: line for line in block.lines}
        again = set(self._made_again()) if fusion.kernels != "unfused" else set()
        again |= set(self._scaled_gates()) if fusion.glu == "fused" else set()
        held: dict[str, list[Tensor]] = {}
        for name in (*self.order, *block.parameters):
            if name not in again:
                kind = "weights" if name in block.parameters else "activations"
                kept = forward.held[name] if keep in (kind, "all") else [block[name]]
                held[name] = [tensor for tensor in kept if not self._passed_round(tensor)]
        held |= {f"d{name}": [gradient(block[name])] for name in block.outputs}
        critical = {f"d{name}" for name in self.order}
        reduced = {f"d{name}" for name in block.parameters}
        super().__init__(held, critical, reduced, forward.sizes)

    def _passed_round(self, tensor: Tensor) -> bool:
        """Whether it is what a ring brings together, which no device ever has whole."""
        own = self.block[tensor.name]
        return any(
            axis in own.axes_of(dim) and axis not in tensor.axes_of(dim)
            for dim, axis in self.block.rings
        )

    def _made_again(self) -> Iterator[str]:
        """What a fused function does not keep: its result, and its operand where a product made
        it."""
        for line in self.block.lines:
            if isinstance(line, FunctionLine) and line.fused:
                yield line.result
                yield from (n for n in line.operands if isinstance(self.makers.get(n), ProductLine))

    def _scaled_gates(self) -> Iterator[str]:
        """What the kernel of a gate makes only to scale it."""
        for line in self.block.lines:
            users = [other for other in self.block.lines if line.result in other.operands]
            scaled = bool(users) and all(self.block.scales(other) for other in users)
            if scaled and isinstance(line, FunctionLine) and line.kernel == "glu":
                yield line.result

    def _unfused(self, line: FunctionLine) -> bool:
        return getattr(self.fusion, line.kernel, "fused") == "unfused"

    def run(self) -> None:
        lines, left_over = self.block.lines, dict.fromkeys(self.block.parameters)
        first_use = {n: next(line for line in lines if n in line.operands) for n in left_over}
        for name in reversed(self.order):
            if name not in (*self.block.outputs, *self.block.looked_up):
                self._gradient(name, gradient(self.block[name]))
            for parameter in [n for n in left_over if name in first_use[n].operands]:
                del left_over[parameter]
                self._gradient(parameter, gradient(self.block.state_of(parameter)))
        for parameter in left_over:  # no line uses them with an activation first
            self._gradient(parameter, gradient(self.block.state_of(parameter)))

    def _gradient(self, name: str, result: Tensor) -> None:
        """The gradient of a tensor: what each line that uses it contributes, added up."""
        terms: list[Operands] = []
        applied: list[tuple[FunctionLine, int]] = []
        for line in self.block.lines:
            if isinstance(line, ProductLine):
                if len(line.rights) > 1 and name in line.branches:
                    self._factor(line, name)
                    return
                terms += self._terms(line, name)
            else:
                applied += [(line, i) for i, n in enumerate(line.operands) if n == name]
        count = bool(terms) + len(applied)
        parts = (
            [result.named(f"{result.name}+{i}") for i in range(count)] if count > 1 else [result]
        )
        for part, (line, place) in zip(parts, applied, strict=False):
            self._applied(line, place, part)
        if terms:
            self.multiply(terms, parts[-1])
        if count > 1:
            self.apply("+", parts, result)

    def _terms(self, line: ProductLine, name: str) -> list[Operands]:
        """The products that a line contributes to the gradient of one of its operands."""
        left = self.block[line.left]
        terms: list[Operands] = []
        for right, branch in zip(line.rights, line.branches, strict=True):
            result = gradient(self.block[branch])
            if line.left == name:
                terms.append((result, self._available(right), line.share))
            if right == name:
                terms.append((self._available(left.name), result, line.share))
        return terms

    def _factor(self, line: ProductLine, name: str) -> None:
        """The gradient of a factor of a gated result."""
        factors = [self._available(factor) for factor in line.branches]
        operands = [self.fetch(t) for t in (gradient(self.block[line.result]), *factors)]
        place = line.branches.index(name)
        self.apply("*", operands, gradient(self.block[name]), wrt=place)

    def _applied(self, line: FunctionLine, place: int, part: Tensor) -> None:
        """What a function contributes to the gradient of its operand at `place`."""
        function = FUNCTIONS[line.function]
        where, local = _places(line, self.block)
        needed = [self.block[line.operands[i]].laid_out(where) for i in function.needs]
        if function.wide and self._unfused(line):
            needed = [cast(tensor) for tensor in needed]
            self.held |= {tensor.name: [tensor] for tensor in needed}
        else:
            for tensor in needed:
                self._available(tensor.name)
        if function.needs_result:
            needed.append(self._available(line.result).laid_out(local.split))
        operands = [gradient(self.block[line.result]).laid_out(local.split), *needed]
        whole = part.laid_out(where)
        self.apply(line.function, [self.fetch(t) for t in operands], whole, wrt=place)
        self.reshard(whole, part)

    def _available(self, name: str) -> Tensor:
        """A tensor of the forward pass, made again where it was not kept."""
        if name not in self.held:
            line = self.makers[name]
            for operand in line.operands:
                self._available(operand)
            # What is recomputed is counted; by convention what a fused kernel makes again is not.
            self.again, before = self.fusion.kernels == "fused", self.again
            self.line(line)
            self.again = before
        return self.block[name]

    def saved(self) -> Iterator[Saved]:
        """What the pass took from the forward one, in the order in which it was made."""
        own = {self.block[name] for name in self.block.parameters}
        for name in (*self.order, *self.block.parameters):
            for tensor in self.fetched:
                if tensor.name == name and tensor not in own:
                    looked_up = name in self.block.looked_up
                    each = e_32 * _rows(tensor), self.element(tensor) * elements(tensor)
                    size = each[0] if looked_up else each[1]
                    yield Saved(tensor, size)
            line = self.makers.get(name)
            if isinstance(line, FunctionLine):
                yield from self._beside(line)

    def _beside(self, line: FunctionLine) -> Iterator[Saved]:
        """What the kernel of a function keeps besides tensors of the block."""
        function = FUNCTIONS[line.function]
        where, local = _places(line, self.block)
        again = line.fused and self.fusion.kernels != "unfused"
        # Statistics serve in place of a result that is needed.
        kept = self.fusion.kernels == "fused" if again else not function.needs_result
        for name in function.statistics if kept else ():
            rows = Tensor(f"{name} of {local.name}", local.dims[:-1], local.layout[:-1])
            yield Saved(rows, e_32 * elements(rows), function.name)
        if self._unfused(line):
            operands = [self.block[name].laid_out(where) for name in line.operands]
            word = function.name.removesuffix("*")
            images = [operands[i].named(f"{word}({operands[i].name})") for i in function.also]
            if function.wide:
                images = [cast(one) for one in (*(operands[i] for i in function.needs), *images)]
            for image in images:
                size = (e_32 if function.wide else e) * elements(image)
                yield Saved(image, size, function.name)


def cast(tensor: Tensor) -> Tensor:
    """The same tensor in fp32, beside the one in the precision of the block."""
    return tensor.named(f"{tensor.name}+fp32")


def _rows(tensor: Tensor) -> sp.Expr:
    """The rows of a tensor on a device, one for each of its last dimension."""
    last = tensor.dims[-1]
    return elements(tensor, without=tensor.axes_of(last)) / find(last)


def _places(line: FunctionLine, block: Block) -> tuple[dict[str, tuple[str, ...]], Tensor]:
    """How a function's operands are laid out when it is applied, by dimension; its result there."""
    operand, result = block[line.operands[0]], block[line.result]
    if line.function == "view":
        return dict(zip(operand.dims, result.layout, strict=True)), result
    if line.routes:
        rows, places = block.home
        narrow = operand if line.function == "route" else result
        used = {axis for axes in rows.values() for axis in axes}
        rest = {dim: tuple(a for a in axes if a not in used) for dim, axes in narrow.split.items()}
        beside = rest | rows | {"E": (), "J": places}
        return beside, result.laid_out(beside)
    where = result.split
    if FUNCTIONS[line.function].along:
        where[result.dims[-1]] = ()
    return where, result.laid_out(where)


def _scheduled(steps: Sequence[Operation], block: Block) -> tuple[Operation, ...]:
    """The steps with what each move can hide under: a ring under the products that use or make its
    tensor, anything else that the pass does not wait for under those that do neither."""
    products = [step for step in steps if isinstance(step, Multiplied) and not step.again]
    touched = {
        step.result.name: {
            whole_name(tensor.name)
            for pair in step.pairs
            for tensor in (pair.left, pair.right, step.result)
        }
        for step in products
    }
    scheduled: list[Operation] = []
    for step in steps:
        if not isinstance(step, Moved):
            scheduled.append(step)
            continue
        name = whole_name(step.move.tensor)
        ring = _is_ring(step, block.rings)
        under = tuple(product for product, names in touched.items() if (name in names) == ring)
        critical = step.move.critical and not ring
        move = replace(
            step.move,
            array_bytes=step.move.array_bytes.xreplace(block.same_length),
            critical=critical,
            under=() if critical else under,
        )
        scheduled.append(replace(step, move=move))
    return tuple(scheduled)


def _is_ring(step: Moved, rings: tuple[tuple[str, str], ...]) -> bool:
    """Whether a gather or a reduce-scatter is over the dimension and axes of a ring."""
    if step.move.collective not in ("all_gather", "reduce_scatter"):
        return False
    fuller = step.before if step.move.collective == "all_gather" else step.after
    return all((str(fuller.dim_of(axis)), axis) in rings for axis in step.move.axes)
