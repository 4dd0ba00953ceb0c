"""The lint of a rendered chapter: numbers without a figure, figures without a source, broken links,
and math that GitHub would not print.

Markdown is read by markdown-it. Digits that a figure printed are hidden from it as letters, so
every digit that it finds in prose is one that somebody typed.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence, Set
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import unquote

from derive.book.marks import Rendered, Span, hidden, revealed
from derive.book.problems import Mistake
from derive.notation import tex
from derive.notation.errors import DeriveError, nearest, quoted

SUPPORTING = frozenset({"cite", "derived"})
SUPPORTED = frozenset({"show", "claim", "given", "cell"})
_PRINTED = SUPPORTED | {"label", "ref", "cite", "formula", "derivation", "block"}
_WHOLE = frozenset({"condition", "derivation", "table", "block"})
Anchors: TypeAlias = Callable[[str, str], Set[str] | None]
NOTHING = "\ufffc"  # stands for what is no prose: code, a link, an image
_TAG = re.compile(r"<!--.*?(?:-->|\Z)|<[^<>]*>", re.DOTALL)
_ANCHOR = re.compile(r"""<[A-Za-z][^<>]*?\b(?:id|name)\s*=\s*["']([^"']+)["']""")
_UNDEFINED = re.compile(r"\[[^\[\]]+\]\[[^\[\]]*\]")
_NOTE = re.compile(r"\[\^[^\s\]]+\]:?")  # of a footnote, which CommonMark takes for a link
_TARGET = re.compile(r"""<[A-Za-z][^<>]*?\b(?:src|href)\s*=\s*["']([^"']*)["']""")
_IN_PROSE = "prose: print it by show, claim or given"
_IN_TABLE = "a table: print it by cell(quantity, rule), which figures.py takes"
_DELIMITER = re.compile(r"^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)+\|?\s*$")


def lint(rendered: Rendered, names: Sequence[str], anchors_at: Anchors) -> list[tuple[int, str]]:
    """Template line and text of everything wrong with a rendered chapter, in the order of lines.

    `names` hold digits that are no figures; `anchors_at(path, anchor)` are those that a link to the
    path may name, the anchor itself where any will do, and None where the path leads nowhere.
    Raises DeriveError where markdown-it is not installed.
    """
    text = _NOTE.sub(NOTHING, _digits_hidden(rendered))
    tokens = _markdown().parse(text)
    lines = text.split("\n")
    mistakes = [
        *_prose(tokens, names, lines),
        *_supported(tokens, rendered),
        *_links(tokens, anchors_at),
        *_structure(tokens, lines),
        *_math(tokens),
        *_whole(rendered),
    ]
    located = [(_origin(rendered, f), revealed(f.text)) for f in mistakes]
    return sorted(dict.fromkeys(located), key=lambda problem: problem[0])


def _markdown() -> Any:
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise DeriveError(
            "markdown-it-py checks the chapters and is not installed; pip install -e '.[book]'"
        ) from None
    return MarkdownIt("commonmark").enable("table")


def _digits_hidden(rendered: Rendered) -> str:
    parts, cursor = [], 0
    for span in rendered.spans:
        if span.mark.kind in _PRINTED or span.mark.kind == "condition":
            start, end = max(span.start, cursor), max(span.end, cursor)
            parts += [rendered.text[cursor:start], hidden(rendered.text[start:end])]
            cursor = end
    return "".join(parts) + rendered.text[cursor:]


def _origin(rendered: Rendered, mistake: Mistake) -> int:
    """The template line of a mistake: of the very characters where they can be found."""
    starts = rendered.starts
    start = starts[min(mistake.line, len(starts) - 2)]
    end = starts[min(mistake.line + 1, len(starts) - 1)]
    if not mistake.typed:
        return rendered.line_at(start)
    for at in re.finditer(re.escape(mistake.typed), rendered.text[start:end]):
        inside = any(
            s.mark.kind in _PRINTED and s.start <= start + at.start() < s.end
            for s in rendered.spans
        )
        if not inside:
            return rendered.line_at(start + at.start())
    return rendered.line_at(start)


# --- digits


def _prose(tokens: Sequence[Any], names: Sequence[str], lines: Sequence[str]) -> Iterator[Mistake]:
    place = _IN_PROSE
    for token in tokens:
        if token.type in ("table_open", "table_close"):
            place = _IN_TABLE if token.type == "table_open" else _IN_PROSE
        if token.type == "html_block":
            bare = _TAG.sub(lambda tag: _lines_of(tag[0]), token.content)
            yield from _digits(bare, names, token.map[0], lines)
        if token.type != "inline":
            continue
        yield from _digits(_flat(token.children), names, token.map[0], lines, place)
        for child in token.children:
            if child.type == "image":
                yield from _digits(child.content, names, token.map[0], lines)


def _lines_of(text: str) -> str:
    """The line ends of a text, so that what follows it stays on its line."""
    return "\n" * text.count("\n")


@lru_cache(maxsize=8)
def _names(names: tuple[str, ...]) -> re.Pattern[str] | None:
    longest = sorted(names, key=lambda name: (-len(name), name))
    if not longest:
        return None
    joined = "|".join(r"\s+".join(map(re.escape, name.split())) for name in longest)
    return re.compile(rf"(?<![^\W_])(?:{joined})(?![^\W_])", re.IGNORECASE)


def _flat(children: Sequence[Any]) -> str:
    """The prose of a paragraph with its line ends; what is no prose is one character."""
    parts = []
    for child in children:
        if child.type in ("softbreak", "hardbreak"):
            parts.append("\n")
        elif child.type == "text":
            parts.append(child.content)
        elif child.type in ("code_inline", "html_inline", "image"):
            parts.append(NOTHING)
        if child.type == "link_close" and child.info == "auto":
            parts[-1] = NOTHING  # the address itself
    return "".join(parts)


def typed_numbers(text: str, names: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Each word of `text` with a digit that is in none of the names, and its line from 0."""
    if known := _names(tuple(names)):
        text = known.sub(lambda name: NOTHING + _lines_of(name[0]), text)
    digits = {c for c in set(text) if unicodedata.category(c) in ("Nd", "No", "Nl")}
    for word in re.finditer(r"\S+", text if digits else ""):
        typed = word[0].strip(f"{NOTHING}.,;:!?()[]\"'*_")
        if not digits.isdisjoint(typed):
            yield text.count("\n", 0, word.start()), typed


def _digits(
    text: str, names: Sequence[str], first: int, lines: Sequence[str], place: str = _IN_PROSE
) -> Iterator[Mistake]:
    for below, typed in typed_numbers(text, names):
        line = first + below
        line = next((n for n in range(line, len(lines)) if typed in lines[n]), line)
        told = f"the number {quoted(revealed(typed))} is typed in {place}, or declare it as a name"
        yield Mistake(line, told, typed)


# --- citations


def _supported(tokens: Sequence[Any], rendered: Rendered) -> Iterator[Mistake]:
    """Each paragraph, list item or table that prints a number holds a citation or "derived"; a
    table may have it in the paragraph directly before or after it."""
    begins = [span.start for span in rendered.spans]
    nothing: tuple[str, Sequence[Span]] = ("", ())
    blocks = [nothing]
    for token in tokens:
        if token.type in ("paragraph_open", "table_open"):
            first, last = (bisect_left(begins, rendered.starts[line]) for line in token.map)
            blocks.append((token.type.removesuffix("_open"), rendered.spans[first:last]))
        elif not token.type.startswith(("paragraph", "inline", "t")):
            blocks.append(nothing)  # a heading, a list, a fence lies between
    for before, (kind, inside), after in zip(
        blocks, blocks[1:], [*blocks[2:], nothing], strict=False
    ):
        numbers = [span for span in inside if span.mark.kind in SUPPORTED]
        beside = [
            spans for other, spans in (before, after) if (kind, other) == ("table", "paragraph")
        ]
        if numbers and not any(
            s.mark.kind in SUPPORTING for spans in (inside, *beside) for s in spans
        ):
            printed = ", ".join(dict.fromkeys(span.mark.name.split()[0] for span in numbers))
            text = f"a {kind} prints {printed} without a citation or the mark derived"
            if kind == "table":
                text += ", in it or in the paragraph before or after it"
            typed = rendered.text[numbers[0].start : numbers[0].end]
            yield Mistake(rendered.row(numbers[0].start), text, typed)


# --- links


def anchors(text: str) -> frozenset[str]:
    """What a link can point at in a Markdown text: its headings, and the ids of its HTML."""
    return frozenset(_anchors(_markdown().parse(text)))


def _anchors(tokens: Sequence[Any]) -> Iterator[str]:
    yield from _slugs(tokens)
    for token in tokens:
        for one in (token, *(token.children or ())):
            if one.type in ("html_block", "html_inline"):
                yield from map(revealed, _ANCHOR.findall(one.content))


def _links(tokens: Sequence[Any], anchors_at: Anchors) -> Iterator[Mistake]:
    here = frozenset(_anchors(tokens))
    for token in tokens:
        for child in (token, *(token.children or ())):
            targets = [child.attrs.get({"link_open": "href", "image": "src"}.get(child.type))]
            if child.type in ("html_block", "html_inline"):
                targets = _TARGET.findall(child.content)
            for target in targets:
                if target is not None and (
                    problem := _unresolved(revealed(unquote(str(target))), here, anchors_at)
                ):
                    yield Mistake(token.map[0], problem)
            for undefined in _UNDEFINED.findall(child.content if child.type == "text" else ""):
                told = f"the link {quoted(revealed(undefined))} has no definition, [...]: address"
                yield Mistake(token.map[0], told, revealed(undefined))


def _unresolved(target: str, here: Set[str], anchors_at: Anchors) -> str:
    """What is wrong with a link; empty where nothing is."""
    if not target:
        return "a link without a target"
    if scheme := re.match(r"([A-Za-z][A-Za-z0-9+.-]*):|//", target):
        if scheme[1] is None or scheme[1].lower() in ("http", "https", "mailto"):
            return ""
        return (
            f"a link to {quoted(scheme[0])}: expected https, mailto or a file beside this chapter"
        )
    path, _, anchor = target.partition("#")
    there = anchors_at(path, anchor) if path else here
    if there is None:
        return f"no file {quoted(path)} beside this chapter"
    if anchor in there:
        return ""
    close = nearest(anchor, there)
    hint = f"; did you mean #{close[0]}?" if close else ""
    return f"no anchor {quoted('#' + anchor)} in {path or 'this chapter'}{hint}"


def _slugs(tokens: Sequence[Any]) -> Iterator[str]:
    """The anchors that GitHub gives to headings."""
    seen: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if token.type != "inline" or tokens[index - 1].type != "heading_open":
            continue
        words = "".join(c.content for c in token.children if c.type in ("text", "code_inline"))
        slug = re.sub(r"[^\w\- ]", "", revealed(words).strip().lower()).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        yield f"{slug}-{count}" if count else slug


# --- structure


def _structure(tokens: Sequence[Any], lines: Sequence[str]) -> Iterator[Mistake]:
    covered: set[int] = set()
    for token in tokens:
        if token.type in ("table_open", "fence", "code_block", "html_block"):
            covered |= set(range(*token.map))
        if token.type == "fence" and not _closed(token, lines):
            yield Mistake(token.map[0], f"the fence {token.markup} is never closed")
        if token.type == "table_open":
            yield from _cells(lines, *token.map)
    for number, line in enumerate(lines):
        if number not in covered and _DELIMITER.match(line):
            yield Mistake(number, "no table: its header has another number of cells")


def _closed(token: Any, lines: Sequence[str]) -> bool:
    first, end = token.map
    last = lines[end - 1].lstrip(" >").rstrip()
    return end - first >= 2 and last.startswith(token.markup) and not last.strip(token.markup[0])


def _cells(lines: Sequence[str], first: int, end: int) -> Iterator[Mistake]:
    wanted = _count(lines[first])
    for number in range(first + 1, end):
        if (count := _count(lines[number])) != wanted:
            yield Mistake(number, f"a table row of {count} cells under a header of {wanted}")


def _count(line: str) -> int:
    core = line.strip().lstrip(">").strip()
    core = core.removeprefix("|")
    core = core[:-1] if core.endswith("|") and not core.endswith("\\|") else core
    return len(re.findall(r"(?<!\\)\|", core)) + 1


def _whole(rendered: Rendered) -> Iterator[Mistake]:
    """A block stands alone between empty lines."""
    text = rendered.text
    for span in rendered.spans:
        if span.mark.kind not in _WHOLE:
            continue
        before, after = text[: span.start], text[span.end :]
        alone = (not before or before.endswith("\n\n")) and (
            span.mark.kind == "condition" or after in ("", "\n") or after.startswith("\n\n")
        )
        if not alone:
            line = rendered.row(span.start)
            text_of = f"{span.mark.kind} {span.mark.name} needs an empty line before and after it"
            yield Mistake(line, text_of)


# --- math


def _math(tokens: Sequence[Any]) -> Iterator[Mistake]:
    """Each formula that GitHub would reject or not recognise: only what it is known to print."""
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
