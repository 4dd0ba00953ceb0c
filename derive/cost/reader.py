"""The text of a block, read: its statements, tensors and dimensions, and what was expected."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

import sympy as sp

from derive.cost.block import (
    FUNCTIONS,
    PLACES,
    Block,
    FunctionLine,
    Line,
    ProductLine,
    Tensor,
    check_layout,
    check_names,
    inferred_result,
    summed_dims,
)
from derive.notation.errors import DeriveError, ShardingError, meant, quoted, unknown
from derive.notation.symbols import mesh_axis, vocabulary

LONGEST = 4000  # characters of a block
MOST_LINES = 64
LONGEST_NAME = 24
PARAMETER = re.compile(r"W(_\w*)?\Z", re.ASCII)
ARROWS = ("view", "route", "combine")  # written -> and =>, not by name
TYPED_FUNCTIONS = tuple(n for n in FUNCTIONS if n.isidentifier() and n not in ARROWS)
_WORD = r"[A-Za-z_][A-Za-z_0-9]*"
_TOKEN = re.compile(rf"\s*(?:->|=>|{_WORD}|[\[\](),.*+@])")
_DIMENSION = re.compile(rf"\s*(?:{_WORD}(?:\+{_WORD})*|[\[\](),.*+@])")
_JOINS = ("->", "=>", ".", "*", "+", "@")


def block(text: str, parameters: Collection[str] | None = None) -> Block:
    """Read a block: statements on lines of their own or parted by semicolons.

    `parameters` names the tensors that are parameters; left out, those called W or W_... are.
    Raises ShardingError naming what is wrong and what was expected.
    """
    if not isinstance(text, str):
        raise ShardingError(f"expected a block such as In[B_X, D] . ..., found {quoted(text)}")
    if len(text) > LONGEST:
        raise ShardingError(f"a block has at most {LONGEST} characters, found {len(text)}")
    reading = _Reader()
    for statement in _statements(text):
        reading.statement(statement)
    return reading.block(parameters)


def resharded(text: str) -> tuple[Tensor, Tensor]:
    """A tensor in two layouts, read from "T[B_X, D] -> T[B, D_X]". Raises ShardingError naming what
    is wrong and what was expected."""
    if len(text) > LONGEST:
        raise ShardingError(f"two layouts have at most {LONGEST} characters, found {len(text)}")
    cursor = _Cursor(text)
    before = cursor.tensor({})
    cursor.take("->")
    after = cursor.tensor({})
    cursor.end()
    if (after.name, after.dims) != (before.name, before.dims):
        told = f"expected {before.name}[{', '.join(before.dims)}] in another layout"
        raise ShardingError(f"{before} -> {after}: {told}")
    return before, after


def _statements(text: str) -> list[str]:
    """The statements of a text; a line that begins or ends in a sign goes on."""
    statements: list[str] = []
    goes_on = False
    for piece in re.split(r"[;\n]", text):
        stripped = piece.strip()
        if not stripped:
            continue
        if statements and (goes_on or stripped.startswith(_JOINS)):
            statements[-1] += f" {stripped}"
        else:
            statements.append(stripped)
        goes_on = stripped.endswith(_JOINS)
    return statements or [""]


class _Reader:
    """What has been read so far: tensors by name, and the lines that make them."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.lines: list[Line] = []
        self.results: set[str] = set()

    def statement(self, text: str) -> None:
        """Read one statement: a chain of products, a function, a view or a route."""
        cursor = _Cursor(text)
        if cursor.peek(1) == "(" and cursor.peek() != "(":
            self.function(cursor)
            return
        left = self.mention(cursor)
        if cursor.peek() in ("->", "=>"):
            self.renamed(cursor, left)
        elif cursor.peek() in ("+", "*"):
            sign, right = cursor.advance(), self.mention(cursor)
            if sign == "*" and {*right.dims} < {*left.dims}:
                self.scaled(cursor, left, right)
            else:
                self.make(cursor, sign, (left.name, right.name))
        else:
            self.chain(cursor, left)

    def chain(self, cursor: _Cursor, left: Tensor) -> None:
        if cursor.peek() not in (".", "@"):
            raise cursor.fault(f"'.' and a weight after {left}")
        hidden = sum(token in (".", "@") for token in cursor.tokens) - 1
        place = 0
        while cursor.peek() in (".", "@"):
            place += 1
            share = sp.S.Zero if cursor.advance() == "@" else sp.S.One
            rights = [self.mention(cursor)]
            while cursor.passed("*"):
                rights.append(self.mention(cursor))
            declared = None
            if cursor.passed("->"):
                declared = cursor.result(self.tensors)
                if cursor.flag("causal"):
                    share *= sp.S.Half
            elif cursor.peek() is None:
                told = "expected '-> Out[...]' at the end"
                raise ShardingError(f"{told}: the result must be declared")
            name = "Tmp" if hidden < 2 else f"Tmp{place}"
            result = declared or inferred_result(left, rights[0], name)
            self.product(left, rights, result, share)
            left = result
        if cursor.peek() is not None:
            raise cursor.fault("'.', '->' or the end")

    def product(
        self, left: Tensor, rights: Sequence[Tensor], result: Tensor, share: sp.Rational
    ) -> None:
        right = rights[0]
        for other in rights[1:]:
            if other.dims != right.dims:
                told = "the matrices of a gated layer must have the same dimensions"
                raise ShardingError(f"{right} * {other}: {told}")
        self.new(result)
        shared = [d for d in left.dims if d in right.dims]
        if not shared:
            raise ShardingError(f"{left} . {right}: nothing to sum over; they share no dimension")
        expected = [d for d in dict.fromkeys((*left.dims, *right.dims)) if d not in shared]
        if not {*expected} <= {*result.dims} <= {*expected, *shared}:
            kept = f" (and any of {', '.join(shared)})" if len(shared) > 1 else ""
            raise ShardingError(
                f"{result}: {left} . {right} gives dimensions {', '.join(expected)}{kept}, "
                f"found {', '.join(result.dims)}"
            )
        summed = summed_dims(left, right, result)
        if not summed:
            told = f"nothing to sum over; they share only dimensions that {result} keeps"
            raise ShardingError(f"{left} . {right}: {told}")
        if not share:
            self.looked_up(left, summed)
        self.add(ProductLine(left.name, tuple(t.name for t in rights), result.name, share), result)

    def looked_up(self, rows: Tensor, summed: tuple[str, ...]) -> None:
        """Raise ShardingError where these are no rows of a look-up: one-hot, from outside."""
        if rows.name in self.results:
            raise ShardingError(f"{rows.name} @ ...: what is looked up comes in, {rows} is made")
        if summed != rows.dims[-1:]:
            told = f"a look-up sums over the last dimension alone, found {', '.join(summed)}"
            raise ShardingError(f"{rows} @ ...: {told}")

    def function(self, cursor: _Cursor) -> None:
        name = cursor.word("a function such as norm")
        if name not in TYPED_FUNCTIONS:
            raise _unknown("function", name, TYPED_FUNCTIONS)
        cursor.take("(")
        operands = [self.mention(cursor).name]
        cursor.take(")")
        if cursor.passed("*"):
            operands.append(self.mention(cursor).name)
            if f"{name}*" not in FUNCTIONS:
                gates = ", ".join(n.removesuffix("*") for n in FUNCTIONS if n[-1] == "*" and n[1:])
                raise ShardingError(f"{name}(...) * ... is no gate; write one of {gates}")
            name += "*"
        self.make(cursor, name, tuple(operands))

    def scaled(self, cursor: _Cursor, left: Tensor, right: Tensor) -> None:
        """A tensor times one that lacks some of its dimensions: a product without a sum, of which
        no FLOP is counted."""
        cursor.take("->")
        result = cursor.result(self.tensors, left)
        if result.dims != left.dims:
            raise ShardingError(f"{result}: expected the dimensions of {left}")
        self.new(result)
        cursor.end()
        self.add(ProductLine(left.name, (right.name,), result.name, sp.S.Zero), result)

    def make(self, cursor: _Cursor, function: str, operands: tuple[str, ...]) -> None:
        """The result of a function: it has the dimensions of its operands."""
        cursor.take("->")
        like = self.tensors[operands[0]]
        result = cursor.result(self.tensors, like)
        for tensor in (*(self.tensors[name] for name in operands), result):
            if tensor.dims != like.dims:
                raise ShardingError(f"{tensor}: expected the dimensions of {like}")
        self.new(result)
        fused, wide = cursor.flag("fused", "fp32"), cursor.flag("fp32")
        cursor.end()
        self.add(FunctionLine(function, operands, result.name, fused, wide), result)

    def renamed(self, cursor: _Cursor, operand: Tensor) -> None:
        sign = cursor.advance()
        result = cursor.result(self.tensors)
        self.new(result)
        wide = sign == "=>" and cursor.flag("fp32")
        cursor.end()
        if sign == "->":
            if len(result.dims) != len(operand.dims):
                told = f"expected {len(operand.dims)} dimensions, as {operand}"
                raise ShardingError(f"{result}: {told}")
            self.add(FunctionLine("view", (operand.name,), result.name), result)
            return
        function = "route" if result.dims[:2] == PLACES else "combine"
        places, rows = (result, operand) if function == "route" else (operand, result)
        rest = places.dims[2:] or PLACES[:1]  # of a place alone, the column of its expert
        known = len(rows.dims) > len(rest) and rows.dims[-len(rest) :] == rest
        if places.dims[:2] != PLACES or not known or {*PLACES} & {*rows.dims[: -len(rest)]}:
            told = "expected rows [B, ...] and places [E, J, ...] of experts"
            raise ShardingError(f"{operand} => {result}: {told}")
        self.add(FunctionLine(function, (operand.name,), result.name, wide=wide), result)

    def mention(self, cursor: _Cursor) -> Tensor:
        """A tensor that is used: known by its name, or coming in from outside with dimensions."""
        tensor = cursor.tensor(self.tensors)
        self.tensors.setdefault(tensor.name, tensor)
        return tensor

    def new(self, result: Tensor) -> None:
        if result.name in self.results:
            raise ShardingError(f"{result.name} is made twice; give each result its own name")
        if result.name in self.tensors:
            raise ShardingError(f"{result.name} is used before it is made; make it on a line above")

    def add(self, line: Line, result: Tensor) -> None:
        if len(self.lines) == MOST_LINES:
            raise ShardingError(f"a block has at most {MOST_LINES} products and functions")
        self.tensors[result.name] = result
        self.results.add(result.name)
        self.lines.append(line)

    def block(self, parameters: Collection[str] | None) -> Block:
        if parameters is None:
            names = [name for name in self.tensors if PARAMETER.match(name)]
        else:
            names = [parameters] if isinstance(parameters, str) else _names(parameters)
        read = Block(tuple(self.lines), tuple(self.tensors.values()), tuple(names))
        for name in names:
            if name not in self.tensors:
                raise _unknown("parameter", name, self.tensors)
            if name in self.results:
                raise ShardingError(f"parameter {name} is made by a line; a parameter is given")
            if name in read.looked_up:
                raise ShardingError(f"parameter {name} is the rows of a look-up, which come in")
        check_names(read)
        return read


class _Cursor:
    """A cursor over the tokens of one statement."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        self.at = 0
        place, stripped = 0, text.rstrip()
        while place < len(stripped):
            inside = self.tokens.count("[") > self.tokens.count("]")
            match = (_DIMENSION if inside else _TOKEN).match(stripped, place)
            if match is None:
                rest = stripped[place:].lstrip()
                raise ShardingError(f"a sharding cannot hold {quoted(rest[:1])}, at {quoted(rest)}")
            self.tokens.append(match.group().strip())
            place = match.end()

    def peek(self, ahead: int = 0) -> str | None:
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else None

    def advance(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def passed(self, token: str) -> bool:
        """Whether `token` comes next; it is read where it does."""
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def fault(self, expected: str) -> ShardingError:
        """The error where something else was expected next."""
        token = self.peek()
        instead = "the end" if token is None else quoted(token)
        return ShardingError(f"expected {expected}, found {instead}")

    def take(self, expected: str) -> None:
        if not self.passed(expected):
            raise self.fault(f"{expected!r} in a sharding")

    def end(self) -> None:
        if self.peek() is not None:
            raise self.fault("the end of the line")

    def flag(self, name: str, later: str = "") -> bool:
        """Whether `(name)` comes next; it is read where it does. `later` is one that may come in
        its place."""
        if self.peek() != "(" or (later and self.peek(1) == later):
            return False
        if self.peek(1) != name or self.peek(2) != ")":
            raise ShardingError(
                f"expected ({name}) or the end, found {quoted(self.peek(1) or '(')}"
            )
        self.at += 3
        return True

    def word(self, expected: str) -> str:
        token = self.peek()
        if token is None or not (token[0].isalpha() or token[0] == "_"):
            raise self.fault(f"{expected} in a sharding")
        self.at += 1
        return token

    def result(self, known: dict[str, Tensor], like: Tensor | None = None) -> Tensor:
        """A tensor that a line makes: with its dimensions, or by its name alone where they are
        those of `like`."""
        name = self.peek()
        if self.peek(1) != "[" and name and name.isidentifier() and name not in known:
            if like is None:
                self.advance()
                example = quoted(f"{name}[B, D]")
                raise self.fault(f"the dimensions of the result, such as {example}")
            return like.named(self.name())
        return self.tensor(known)

    def name(self) -> str:
        """A tensor's name."""
        name = self.word("a tensor such as In[B_X, D]")
        if len(name) > LONGEST_NAME:
            raise ShardingError(
                f"a tensor's name has at most {LONGEST_NAME} letters, found {quoted(name)}"
            )
        return name

    def tensor(self, known: dict[str, Tensor]) -> Tensor:
        """A tensor with its dimensions, or by its name where it is known."""
        name = self.name()
        if self.peek() != "[":
            if name in known:
                return known[name]
            told = (
                f"{name} is used before it is made: make it on a line above, or give its "
                f"dimensions, such as {name}[B, D], where it comes in; {meant(name, known)}"
            )
            raise ShardingError(told.rstrip("; "))
        self.take("[")
        dims: list[str] = []
        layout: list[tuple[str, ...]] = []
        while True:
            dim, axes = _dimension(self.word("a dimension such as B_X"), name)
            if dim in dims:
                raise ShardingError(f"{name}: dimension {dim} is written twice")
            dims.append(dim)
            layout.append(axes)
            if not self.passed(","):
                break
        self.take("]")
        tensor = Tensor(name, tuple(dims), tuple(layout))
        check_layout(tensor)
        if known.get(name, tensor) != tensor:
            told = f"{name} is {known[name]} before; a name used again is the same tensor"
            raise ShardingError(f"{tensor}: {told}")
        return tensor


@lru_cache(maxsize=1)
def dimensions() -> tuple[str, ...]:
    """The names of the dimensions that tensors can have."""
    return tuple(name for name, known in vocabulary().items() if known.role == "dimension")


def axis_names(word: str, where: str) -> tuple[str, ...]:
    """The mesh axes in a word: capital letters one by one, or names joined by +."""
    parts = word.split("+")
    names = tuple(name for part in parts for name in (part if part.isupper() else (part,)))
    for name in names:
        if not (name[:1].isalpha() and len(name) <= LONGEST_NAME):
            told = f"a name begins with a letter and has at most {LONGEST_NAME}"
            raise ShardingError(f"{where}: unknown mesh axis {quoted(name)}: {told}")
        try:
            mesh_axis(name)
        except DeriveError as error:
            raise ShardingError(f"{where}: unknown mesh axis {quoted(name)}: {error}") from None
    return names


def _dimension(word: str, tensor: str) -> tuple[str, tuple[str, ...]]:
    known = dimensions()
    longest = max((d for d in known if word == d or word.startswith(f"{d}_")), key=len, default="")
    if not longest:
        dim = word.partition("_")[0]
        hint = meant(dim, known, f"known: {', '.join(known)}")
        raise ShardingError(f"{tensor}: unknown dimension {quoted(dim)}; {hint}")
    if word == longest:
        return longest, ()
    axes = word[len(longest) + 1 :]
    if not axes:
        raise ShardingError(f"{tensor}: expected mesh axes after {quoted(word)}")
    return longest, axis_names(axes, tensor)


def _names(parameters: Collection[str]) -> list[str]:
    """The names of parameters, each once."""
    try:
        return list(dict.fromkeys(str(name) for name in parameters))
    except TypeError:
        raise ShardingError(
            f"expected the names of parameters, found {quoted(parameters)}"
        ) from None


def _unknown(kind: str, name: str, names: Collection[str]) -> ShardingError:
    return ShardingError(str(unknown(kind, name, names)))
