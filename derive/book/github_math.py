"""The lint of math in a rendered chapter: only what GitHub is known to print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from derive.book.marks import revealed
from derive.book.problems import Mistake
from derive.notation import tex
from derive.notation.errors import DeriveError


def math(tokens: Sequence[Any]) -> Iterator[Mistake]:
    """Each formula that GitHub would reject or not recognise, as a mistake."""
    after = -1
    for token in tokens:
        if token.type == "fence" and token.info.strip() == "math":
            yield from _block(token, after)
            after = token.map[1]
        elif token.type == "inline":
            yield from _inline(token)


def _block(token: Any, after: int) -> Iterator[Mistake]:
    line = token.map[0]
    if token.level:
        yield Mistake(line, "a block of math stands at the left margin, outside lists and quotes")
    if after == line:
        yield Mistake(line, "two blocks of math need an empty line between them")
    try:
        tex.block(revealed(token.content))
    except DeriveError as error:
        yield Mistake(line, str(error))


def _inline(token: Any) -> Iterator[Mistake]:
    children = token.children
    beside = ("text", "html_inline")
    texts = ["", *(child.content if child.type in beside else "" for child in children), ""]
    around = list(zip(texts, texts[2:], strict=False))  # what stands before and after each
    formulas = {  # code between dollars
        index
        for index, (before, after) in enumerate(around)
        if children[index].type == "code_inline" and before.endswith("$") and after.startswith("$")
    }
    line, depth = token.map[0], 0
    for index, (child, (before, after)) in enumerate(zip(children, around, strict=True)):
        line += child.type in ("softbreak", "hardbreak")
        depth += (child.type == "link_open") - (child.type == "link_close")
        if index in formulas:
            yield from _formula(child.content, before[:-1], after[1:], depth, line)
        elif child.type == "text":
            text = child.content
            if index - 1 in formulas:
                text = text.removeprefix("$")
            if index + 1 in formulas:
                text = text.removesuffix("$")
            money = text == "$" and before.startswith("<span") and after == "</span>"
            if "$" in text and not money:
                told = "a bare dollar: write math as $`...`$, and money as USD or <span>$</span>"
                yield Mistake(line, told, "$")


def _formula(source: str, before: str, after: str, depth: int, line: int) -> Iterator[Mistake]:
    typed = revealed(source)
    if depth:
        yield Mistake(line, f"math inside a link: {typed}", typed)
    if before and not (before[-1].isspace() or before[-1] in "([|—"):
        yield Mistake(line, f"math needs a space before it, found {before[-1]!r}: {typed}", typed)
    if after and (after[0].isalnum() or after[0] in "$_"):
        yield Mistake(line, f"math needs a space after it, found {after[0]!r}: {typed}", typed)
    try:
        tex.inline(typed)
    except DeriveError as error:
        yield Mistake(line, str(error), typed)
