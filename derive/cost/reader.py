"""A cursor over the text of a sharding: its tokens and dimensions, and what was expected."""

from __future__ import annotations

import re

from derive.cost.tensor import AXES, Tensor, check_layout
from derive.notation.errors import ShardingError, nearest, quoted
from derive.notation.symbols import vocabulary

_TOKEN = re.compile(r"\s*(?:(->)|([A-Za-z_][A-Za-z_0-9]*)|([\[\].,*]))")


class Reader:
    """A cursor over the tokens of one sharding."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        place = 0
        stripped = text.rstrip()
        while place < len(stripped):
            match = _TOKEN.match(stripped, place)
            if match is None:
                rest = stripped[place:].lstrip()
                raise ShardingError(f"a sharding cannot hold {quoted(rest[:1])}, at {quoted(rest)}")
            self.tokens.append(match.group().strip())
            place = match.end()
        self.place = 0

    def peek(self) -> str | None:
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    def found(self) -> str:
        token = self.peek()
        return "the end" if token is None else quoted(token)

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            raise ShardingError(f"expected {expected!r} in a sharding, found {self.found()}")
        self.place += 1

    def word(self, expected: str) -> str:
        token = self.peek()
        if token is None or not (token[0].isalpha() or token[0] == "_"):
            raise ShardingError(f"expected {expected} in a sharding, found {self.found()}")
        self.place += 1
        return token

    def tensor(self) -> Tensor:
        name = self.word("a tensor such as In[B_X, D]")
        if len(name) > 24:
            raise ShardingError(f"a tensor's name has at most 24 letters, found {quoted(name)}")
        self.take("[")
        dims: list[str] = []
        layout: list[tuple[str, ...]] = []
        while True:
            dim, axes = _dimension(self.word("a dimension such as B_X"), name)
            if dim in dims:
                raise ShardingError(f"{name}: dimension {dim} is written twice")
            dims.append(dim)
            layout.append(axes)
            if self.peek() != ",":
                break
            self.take(",")
        self.take("]")
        made = Tensor(name, tuple(dims), tuple(layout))
        check_layout(made)
        return made


def _dimension(word: str, tensor: str) -> tuple[str, tuple[str, ...]]:
    dim, _, axes = word.partition("_")
    known = [n for n, m in vocabulary().items() if m.role == "dimension"]
    if dim not in known:
        close = nearest(dim, known)
        hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known)}"
        raise ShardingError(f"{tensor}: unknown dimension {quoted(dim)}; {hint}")
    if word.endswith("_"):
        raise ShardingError(f"{tensor}: expected mesh axes after {quoted(word)}")
    for axis in axes:
        if axis not in AXES:
            raise ShardingError(
                f"{tensor}: unknown mesh axis {quoted(axis)} in {quoted(word)}; "
                f"known: {', '.join(AXES)}"
            )
    return dim, tuple(axes)
