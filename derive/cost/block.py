"""A block: a layer as tensors, and lines of the notation each of which makes one of them.

    In[B, D] . W_in[D, F] . W_out[F, D] -> Out[B, D]

A tensor is a name and its dimensions; a name used again is the same tensor. Without a mesh the
tensors of a block are whole; a layout (`derive.cost.layout`), or axes typed after its dimensions,
split them. Parameters are the tensors called W or W_..., or those that are said to be.

The kinds of line:

    X . W[D, F] -> Y[B, F]          a product: a dimension of both operands that the result has is
                                    a batch dimension, one that it lacks is summed over
    X . W_a[D, F] * W_b[D, F]       products whose results are multiplied element by element
    Q . Key -> S[T, U] (causal)     a product of which a causal mask leaves out half
    Ids[T, V] @ W[V, D] -> X[T, D]  a look-up: a product with one-hot rows, which costs no FLOP
    X[B, D] * Gain[D] -> Y          a tensor scaled by one that lacks some of its dimensions
    silu(X) * Y -> Z, norm(X) -> Y  element-wise functions, softmax(S) -> A (fused) among them;
                                    (fp32) has the result in fp32
    Key[T, H] -> Rows[U, H]         the same numbers under other names
    X[B, T, D] => Y[E, J, D]        rows are handed to the places of experts, J to each
    P[B, T, E] => S[E, J]           of each row the number that it has for the expert of a place
    Y[E, J, D] => Z[B, T, D]        and what experts make of rows is added up for each
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

import sympy as sp

from derive.notation.errors import DeriveError, ShardingError, quoted
from derive.notation.symbols import find

Layout = tuple[tuple[str, ...], ...]
Split = dict[str, tuple[str, ...]]
PLACES = ("E", "J")  # the dimensions with which what experts take begins


# --- a tensor


@dataclass(frozen=True)
class Tensor:
    """A tensor's name, its dimensions, and for each dimension the mesh axes that split it, the
    outermost first."""

    name: str
    dims: tuple[str, ...]
    layout: Layout

    def __str__(self) -> str:
        parts = (f"{d}_{joined(a)}" if a else d for d, a in self.split.items())
        return f"{self.name}[{', '.join(parts)}]"

    @property
    def latex(self) -> str:
        r"""The tensor as TeX: \text{In}[B_{X}, D]."""
        parts = []
        for dim, axes in self.split.items():
            letter, _, index = dim.partition("_")
            split = joined(axes)
            words = (_roman(index), split if split.isupper() else _roman(split))
            inner = ",".join(filter(None, words))
            parts.append(f"{letter}_{{{inner}}}" if inner else letter)
        return f"{latex_name(self.name)}[{', '.join(parts)}]"

    @property
    def split(self) -> Split:
        """The axes of each dimension, by dimension."""
        return dict(zip(self.dims, self.layout, strict=True))

    @property
    def axes(self) -> tuple[str, ...]:
        """Every axis that splits the tensor."""
        return tuple(axis for axes in self.layout for axis in axes)

    def axes_of(self, dim: str) -> tuple[str, ...]:
        """The mesh axes that split `dim`, outermost first; empty where it is whole or absent."""
        return self.layout[self.dims.index(dim)] if dim in self.dims else ()

    def dim_of(self, axis: str) -> str | None:
        """The dimension that `axis` splits, if any."""
        return next((dim for dim, axes in self.split.items() if axis in axes), None)

    def laid_out(self, split: Mapping[str, tuple[str, ...]]) -> Tensor:
        """The same tensor with the layout that `split` gives by dimension, else whole."""
        return replace(self, layout=tuple(split.get(dim, ()) for dim in self.dims))

    def named(self, name: str) -> Tensor:
        """A tensor of the same dimensions and layout under another name."""
        return replace(self, name=name)


def latex_name(name: str) -> str:
    r"""A tensor's name as TeX: \text{W}_{\text{in}}."""
    word, _, index = name.partition("_")
    return _roman(word) + (f"_{{{_roman(index)}}}" if index else "")


def _roman(word: str) -> str:
    """A word in upright letters; nothing for none."""
    escaped = word.replace("_", r"\_")
    return rf"\text{{{escaped}}}" if word else ""


def joined(axes: tuple[str, ...]) -> str:
    """Mesh axes in one word, as they are written after a dimension: XZ, or cp+tp."""
    letters = all(len(axis) == 1 and axis.isupper() for axis in axes)
    return ("" if letters else "+").join(axes)


def check_layout(tensor: Tensor) -> None:
    """Raise ShardingError where a mesh axis splits two dimensions of `tensor`, or one twice."""
    for axis in tensor.axes:
        if tensor.axes.count(axis) > 1:
            split = [dim for dim, axes in tensor.split.items() if axis in axes]
            where = " and ".join(split) if len(split) > 1 else f"{split[0]} twice"
            raise ShardingError(f"{tensor}: mesh axis {axis} splits {where}; it can split one once")


# --- lines and blocks of them


@dataclass(frozen=True)
class Function:
    """An element-wise function: which of its operands the backward pass needs, by place, whether
    it needs the result, and whether it runs along the last dimension, which has to be whole then.

    `kernel` names the assumption that says whether its kernel is fused. `statistics` are the fp32
    numbers of each row that a kernel keeps instead of its result, if it needs that. `also` are
    operands whose image one that is not fused keeps besides; `wide` says that it works in fp32, so
    that it keeps its operands and these images in fp32. That is what PyTorch's autograd saves.
    """

    name: str
    operands: int
    needs: tuple[int, ...] = ()
    needs_result: bool = False
    along: bool = False
    also: tuple[int, ...] = ()
    statistics: tuple[str, ...] = ()
    kernel: str = ""
    wide: bool = False


FUNCTIONS: Mapping[str, Function] = {
    function.name: function
    for function in (
        Function("+", 2),
        Function("*", 2, needs=(0, 1)),
        Function("relu", 1, needs_result=True),
        Function("gelu", 1, needs=(0,)),
        Function("silu", 1, needs=(0,)),
        Function("silu*", 2, needs=(0, 1), also=(0,), kernel="glu"),
        Function("gelu*", 2, needs=(0, 1), also=(0,), kernel="glu"),
        Function("norm", 1, (0,), False, True, (0,), ("rstd",), "norm", wide=True),
        Function("layer_norm", 1, needs=(0,), along=True, statistics=("mean", "rstd")),
        Function("softmax", 1, needs_result=True, along=True, statistics=("log-sum-exp",)),
        Function("view", 1),
        Function("route", 1),
        Function("combine", 1),
    )
}


@dataclass(frozen=True)
class ProductLine:
    """`left . right -> result`; with several `rights` the results of each are multiplied element by
    element. `share` is the part of the multiply-adds that is done (see `program.Pair`)."""

    left: str
    rights: tuple[str, ...]
    result: str
    share: sp.Rational = sp.S.One

    @property
    def operands(self) -> tuple[str, ...]:
        return (self.left, *self.rights)

    @property
    def branches(self) -> tuple[str, ...]:
        """What the product with each of `rights` is called: the result, or a factor of it."""
        if len(self.rights) == 1:
            return (self.result,)
        return tuple(f"{self.result}_{name.removeprefix('W_')}" for name in self.rights)


@dataclass(frozen=True)
class FunctionLine:
    """A function of tensors. With `fused` its operand and its result are not kept for the backward
    pass but made again there, by the kernel that also makes the products on both sides of it;
    `wide` says that the result is in fp32."""

    function: str
    operands: tuple[str, ...]
    result: str
    fused: bool = False
    wide: bool = False

    @property
    def routes(self) -> bool:
        """Whether it hands rows to experts or brings them back."""
        return self.function in ("route", "combine")

    @property
    def kernel(self) -> str:
        """The field of `Fusion` that says what its kernel keeps; empty where none does."""
        return "kernels" if self.fused else FUNCTIONS[self.function].kernel


class Fusion(NamedTuple):
    """Which kernels are fused: those of the lines marked so, which may be recomputed instead, those
    of norms, and those of gates (GLU: gated linear units)."""

    kernels: str = "fused"
    norm: str = "fused"
    glu: str = "fused"


FUSED = Fusion()


Line = ProductLine | FunctionLine


class Marks(NamedTuple):
    """How a block is written: a tensor, its name alone, a remark, a function, and the signs."""

    tensor: Callable[[Tensor], str]
    name: Callable[[str], str]
    word: Callable[[str], str]
    call: Callable[[str, str], str]
    dot: str
    star: str
    arrow: str
    at: str
    route: str


PLAIN = Marks(
    str, str, " ({})".format, "{}({})".format, " . ", " * ", " -> ", " @ ", " => "
)  # fmt: skip
TEX = Marks(
    lambda tensor: tensor.latex, latex_name,
    r"\ \text{{({})}}".format, r"\operatorname{{{}}}({})".format,
    r" \cdot ", r" \ast ", r" \to ", r" \mathbin{@} ", r" \Rightarrow ",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Block:
    """Lines in order, and the tensors that they name in order of appearance.

    `parameters` are names. `rings` are pairs of a dimension and a mesh axis over which a gathered
    tensor is passed round while it is used. `states` are parameters whose optimizer state, and so
    whose reduced gradient, is laid out otherwise than they are. `fold` are mesh axes of rows and
    those of experts where these are the same devices in groups of their own.
    """

    lines: tuple[Line, ...]
    tensors: tuple[Tensor, ...]
    parameters: tuple[str, ...]
    rings: tuple[tuple[str, str], ...] = ()
    states: tuple[Tensor, ...] = ()
    fold: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Tensor]:
        """Every tensor by its name, the factors of gated results included."""
        named = {tensor.name: tensor for tensor in self.tensors}
        for line in self.lines:
            if isinstance(line, ProductLine) and len(line.rights) > 1:
                named |= {name: named[line.result].named(name) for name in line.branches}
        return named

    def __getitem__(self, name: str) -> Tensor:
        return self.by_name[name]

    @cached_property
    def results(self) -> tuple[str, ...]:
        """The names of the tensors that lines make."""
        return tuple(line.result for line in self.lines)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The names of the activations that come in from outside, look-ups' rows included."""
        inner = {*self.results, *self.parameters}
        return tuple(tensor.name for tensor in self.tensors if tensor.name not in inner)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of the results that no line uses."""
        used = {name for line in self.lines for name in line.operands}
        return tuple(name for name in self.results if name not in used)

    @cached_property
    def kernels(self) -> frozenset[str]:
        """The fields of `Fusion` that make a difference to the block."""
        lines = (line for line in self.lines if isinstance(line, FunctionLine))
        return frozenset(line.kernel for line in lines) - {""}

    @cached_property
    def looked_up(self) -> tuple[str, ...]:
        """The names of the one-hot rows of look-ups, which have no gradient."""
        lines = (line for line in self.lines if isinstance(line, ProductLine))
        return tuple(line.left for line in lines if line.share == 0 and not self.scales(line))

    def scales(self, line: Line | None) -> bool:
        """Whether a line scales a tensor by another one: a product that sums over nothing."""
        if not isinstance(line, ProductLine):
            return False
        return not summed_dims(self[line.left], self[line.rights[0]], self[line.result])

    @cached_property
    def wide(self) -> frozenset[str]:
        """The names of the tensors in fp32 and of their gradients."""
        names = {line.result for line in self.lines if isinstance(line, FunctionLine) and line.wide}
        return frozenset(names | {f"d{name}" for name in names})

    @cached_property
    def of_experts(self) -> frozenset[str]:
        """The names of what experts take, hold and make: from where rows are handed to them to
        where they come back."""
        names: set[str] = set()
        for line in self.lines:
            routed = isinstance(line, FunctionLine) and line.function == "route"
            if routed or (names & {*line.operands} and self[line.result].dims[:2] == PLACES):
                names |= {line.result, *(() if routed else line.operands)}
                names |= {*line.branches} if isinstance(line, ProductLine) else set()
        return frozenset(names)

    @cached_property
    def rows(self) -> tuple[str, ...]:
        """The dimensions of the rows that experts take; none where there are no experts."""
        return tuple(self.home[0])

    @cached_property
    def home(self) -> tuple[Split, tuple[str, ...]]:
        """Where rows wait for their experts: the axes of each of their dimensions, and those of the
        places J beside them. Which place a row has is the router's to say: those axes stand
        innermost that go on to split the experts, and with a fold they are those of experts.

        Raises ShardingError where the rows are not split over all axes of a fold.
        """
        line = next(
            (one for one in self.lines if isinstance(one, FunctionLine) and one.routes), None
        )
        if line is None:
            return {}, ()
        first = self[line.operands[0]], self[line.result]
        narrow, wide = first if line.function == "route" else first[::-1]
        rows = {dim: axes for dim, axes in narrow.split.items() if dim not in ("E", *wide.dims[2:])}
        axes = [axis for split in rows.values() for axis in split]
        if self.fold:
            own, experts = self.fold
            if {*axes} != {*own}:
                told = f"expected {narrow} to have its rows over {', '.join(own)}"
                raise ShardingError(f"{told}, which are those of its experts, {', '.join(experts)}")
            axes = [*experts]
        stay, go = ([a for a in wide.axes_of(dim) if a in axes] for dim in PLACES[::-1])
        return rows, (*stay, *(a for a in axes if a not in (*stay, *go)), *go)

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """The mesh axes whose degrees multiply to the devices."""
        again = self.fold[1] if self.fold else ()
        return tuple(axis for axis in self.mesh if axis not in again)

    @cached_property
    def same_length(self) -> dict[sp.Symbol, sp.Symbol]:
        """Dimensions that are another one under a new name, as views have it, and that other one:
        of all that are alike, the first to appear."""
        alike = {dim: dim for dim in self.dims}
        for line in self.lines:
            if isinstance(line, FunctionLine) and line.function == "view":
                for pair in zip(self[line.operands[0]].dims, self[line.result].dims, strict=True):
                    first, other = sorted((alike[dim] for dim in pair), key=self.dims.index)
                    alike = {dim: first if to == other else to for dim, to in alike.items()}
        return {find(dim): find(first) for dim, first in alike.items() if dim != first}

    @property
    def mesh(self) -> tuple[str, ...]:
        """The mesh axes that split any tensor, in order of appearance."""
        axes = [axis for tensor in (*self.tensors, *self.states) for axis in tensor.axes]
        return tuple(dict.fromkeys(axes))

    @property
    def dims(self) -> tuple[str, ...]:
        """Every dimension, in order of appearance."""
        return tuple(dict.fromkeys(dim for tensor in self.tensors for dim in tensor.dims))

    def state_of(self, name: str) -> Tensor:
        """A parameter in the layout of its optimizer state."""
        return next((state for state in self.states if state.name == name), self[name])

    def __repr__(self) -> str:
        return "; ".join(self._statements(PLAIN))

    @property
    def latex(self) -> str:
        """The block as TeX; a hidden tensor is shown where it is not what would be inferred."""
        return r" ;\; ".join(self._statements(TEX))

    def _statements(self, marks: Marks) -> list[str]:
        """The lines as text, a chain of products as one."""
        seen: set[str] = set()
        statements: list[str] = []
        goes_on = False

        def mention(name: str) -> str:
            if name in seen:
                return marks.name(name)
            seen.add(name)
            return marks.tensor(self[name])

        for line, after in zip(self.lines, (*self.lines[1:], None), strict=False):
            result = self[line.result]
            arrow = marks.arrow + marks.tensor(result)
            if isinstance(line, ProductLine):
                head = statements.pop() if goes_on else mention(line.left)
                scales = self.scales(line)
                head += marks.star if scales else marks.at if line.share == 0 else marks.dot
                head += marks.star.join(map(mention, line.rights))
                goes_on = isinstance(after, ProductLine) and after.left == line.result
                goes_on = goes_on and not (scales or self.scales(after))
                inferred = inferred_result(self[line.left], self[line.rights[0]], line.result)
                hidden = marks is TEX and goes_on and result == inferred
                said = marks.word("causal") if 0 < line.share < 1 else ""
                statements.append(head + ("" if hidden else arrow) + said)
            else:
                first, *more = map(mention, line.operands)
                if line.routes:
                    arrow = marks.route + marks.tensor(result)
                elif line.function == "+":
                    first = " + ".join([first, *more])
                elif line.function != "view":
                    word = line.function.removesuffix("*")
                    first = marks.star.join([marks.call(word, first) if word else first, *more])
                goes_on = False
                words = {"fused": line.fused, "fp32": line.wide}
                arrow += "".join(marks.word(word) for word, holds in words.items() if holds)
                statements.append(first + arrow)
            seen.add(line.result)
        return statements


def summed_dims(left: Tensor, right: Tensor, result: Tensor) -> tuple[str, ...]:
    """The dimensions that a product sums over: those of both operands that the result lacks."""
    return tuple(d for d in left.dims if d in right.dims and d not in result.dims)


def inferred_result(left: Tensor, right: Tensor, name: str) -> Tensor:
    """The result of a product that declares none: dimensions in the order in which they come,
    those with which both operands begin kept as batch dimensions, each sharded as it is and each
    axis once."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(left.dims, right.dims, strict=False))
    leading = [dim for dim, _ in alike]
    summed = {d for d in left.dims if d in right.dims and d not in leading}
    dims = [d for d in dict.fromkeys((*left.dims, *right.dims)) if d not in summed]
    used: set[str] = set()
    layout = []
    for dim in dims:
        both = dict.fromkeys((*left.axes_of(dim), *right.axes_of(dim)))
        axes = tuple(axis for axis in both if axis not in used)
        used.update(axes)
        layout.append(axes)
    return Tensor(name, tuple(dims), tuple(layout))


def as_block(value: object) -> Block:
    """`value` where it is a block; raises DeriveError where it is not."""
    if isinstance(value, Block):
        return value
    raise DeriveError(f"expected a block, as block(...) makes one of text, found {quoted(value)}")


def gated(plain: Block) -> Block:
    """The same layer with a gate: a second matrix in the first product, sharded like the first.

    Raises ShardingError for a block that is not a chain of two products or more of single matrices.
    """
    first, *rest = as_block(plain).lines
    chain = all(isinstance(line, ProductLine) for line in plain.lines)
    if not chain or not isinstance(first, ProductLine):
        raise ShardingError(f"a gated layer is a chain of products, found {plain}")
    if len(first.rights) > 1:
        raise ShardingError(f"{plain} is gated already")
    if not rest:
        raise ShardingError(f"a gated layer needs two products, found one in {plain}")
    gate = plain[first.rights[0]].named("W_gate")
    if gate.name in plain.by_name:
        raise ShardingError(f"tensor {gate.name} is there already; give each its own name")
    line = replace(first, rights=(gate.name, *first.rights))
    place = plain.tensors.index(plain[first.rights[0]])
    tensors = (*plain.tensors[:place], gate, *plain.tensors[place:])
    parameters = (gate.name, *plain.parameters)
    block = replace(plain, lines=(line, *rest), tensors=tensors, parameters=parameters)
    check_names(block)
    return block


def check_names(block: Block) -> None:
    """Raise ShardingError where a tensor is called like the gradient or the factor of another."""
    lines = (line for line in block.lines if isinstance(line, ProductLine))
    factors = [name for line in lines if len(line.rights) > 1 for name in line.branches]
    names = [*factors, *(tensor.name for tensor in block.tensors)]
    for name in names:
        if names.count(name) > 1:
            raise ShardingError(f"{name} would name two tensors: one is a factor of a gated result")
        if f"d{name}" in names:
            raise ShardingError(f"d{name} would name two tensors: one is the gradient of {name}")
