"""The figures of any text: numbers of an author's own, each with a comment behind it that asks.

    about 113 tokens per chip<!-- derive: ask fsdp_tensor B/N --chip tpu-v5p --set M_X=2 -->

`derive:` judges by the rule `round`; another rule of `derive.book.claims` is named before the
colon: `<!-- derive exact: value C/W --chip tpu-v5p -->`. The text is Markdown, or near enough: code
fences, code spans and all other comments hold no figures.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from derive.book.claims import CLAIM_RULES
from derive.book.literals import HEDGE, PLACES, WORDS, literal
from derive.notation.errors import DeriveError, unknown

MOST = 100_000  # comments of a text
BEHIND = 600  # characters before a comment that are looked at
LONGEST_SPAN = 1000  # characters of code in a line
_OPENING = re.compile(
    r"^[ \t>]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?(?P<fence>`{3,}(?=[^`\n]*$)|~{3,})(?P<info>.*)"
    r"|(?P<comment><!--)|(?<![\\`])(?P<ticks>`+)",
    re.MULTILINE,
)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_ASKS = re.compile(r"\s*derive\b(?:\s+(?P<rule>\w+))?\s*:(?P<question>.*)", re.DOTALL)


@dataclass(frozen=True)
class Place:
    """A comment that asks, by its line and column from 1: the author's words before it, as
    `literal` reads them, the rule that they are judged by and the question; or what is wrong."""

    line: int
    column: int
    printed: str
    rule: str
    question: str
    error: str = ""


def places(text: str) -> Iterator[Place]:
    """The figures of a text, in order."""
    line = begin = counted = 0
    for number, (start, body, behind) in enumerate(_comments(text)):
        line += text.count("\n", counted, start)
        begin = max(begin, text.rfind("\n", counted, start) + 1)
        counted = start
        if number == MOST:
            error = f"more than {MOST:,} comments; the rest is left out"
            yield Place(line + 1, start - begin + 1, "", "round", "", error)
            return
        yield _place(line + 1, start - begin + 1, body, behind)


def _place(line: int, column: int, body: str | None, behind: str) -> Place:
    asks = _ASKS.fullmatch(body or "")
    rule = (asks and asks["rule"]) or "round"
    question = " ".join(asks["question"].split()) if asks else ""
    printed = error = ""
    try:
        if body is None:
            raise DeriveError("a comment <!-- derive: ... that no --> ends")
        if rule not in CLAIM_RULES:
            raise unknown("claim rule", rule, CLAIM_RULES)
        if not question:
            raise DeriveError("expected a question after derive:, such as ask fsdp B/X")
        printed = _words(behind)
    except DeriveError as wrong:
        error = str(wrong)
    return Place(line, column, printed, rule, question, error)


def bare(text: str) -> int:
    """How many numbers in digits stand in a text without a comment that asks about them."""
    prose = "".join(piece or " " if kind == "prose" else " " for kind, _, piece in _pieces(text))
    words = plain_text(_FRONT_MATTER.sub("", prose))
    numbers = sum(not _is_name(words, digits) for digits in _DIGITS.finditer(words))
    return max(0, numbers - sum(any(map(str.isdigit, place.printed)) for place in places(text)))


# --- comments


def _pieces(text: str) -> Iterator[tuple[str, int, str | None]]:
    """What a text is made of, each with its start: prose, code, math (of a fence), fence, and
    comment (None where it never ends)."""
    cursor = 0
    while (opening := _OPENING.search(text, cursor)) is not None:
        start, end = opening.span()
        yield "prose", cursor, text[cursor:start]
        if opening["comment"]:
            cursor = text.find("-->", start + 2)
            yield "comment", start, text[start + 4 : cursor] if cursor >= 0 else None
            if cursor < 0:
                return
            cursor += 3
        elif fence := opening["fence"]:
            closing = re.compile(rf"^[ \t>]*{fence}{fence[0]}*[ \t]*$", re.MULTILINE)
            closed = closing.search(text, end)
            kind = "math" if opening["info"].strip(" \t{}") == "math" else "fence"
            yield kind, start, text[end : closed.start() if closed else len(text)]
            cursor = closed.end() if closed else len(text)
        else:
            ticks = opening["ticks"]
            closing = re.compile(rf"(?<!`){ticks}(?!`)|\n[ \t>]*\n")
            closed = closing.search(text, end, end + LONGEST_SPAN)
            cursor = closed.end() if closed and closed[0] == ticks else end
            yield "code", start, text[start:cursor]
    yield "prose", cursor, text[cursor:]


def _comments(text: str) -> Iterator[tuple[int, str | None, str]]:
    """Each comment that asks: where it starts, what it says (None: it never ends), and what stands
    before it, from the one before that."""
    behind = ""
    for kind, start, piece in _pieces(text):
        if kind != "comment":
            math = {"math": f"$${piece}$$", "fence": ""}
            behind = math.get(kind, f"{behind}{piece}")[-BEHIND:]
        elif _ASKS.match(text[start + 4 : start + 200] if piece is None else piece):
            yield start, piece, behind
            behind = ""


# --- the words before one

_ITEM = re.compile(r"[ \t>]*(?:(?:[-*+]|#+|[0-9]{1,9}[.)])[ \t]+|#+)")
_SENTENCE = re.compile(r"[.!?][\"')\]”’]*\s+(?![a-z])")
_MATH = re.compile(
    r"^[ \t>]*(?:\$\$((?:(?!\$\$).)*)\$\$|\\\[((?:(?!\\\[).)*)\\\])\s*\Z", re.DOTALL | re.MULTILINE
)
_PLAIN: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern, re.DOTALL), plain)
    for pattern, plain in (
        (r"<sup>\s*([+\-−]?[0-9]+)\s*</sup>", r"^\1"),
        (r"</?[A-Za-z][^<>]*>", ""),
        (r"!\[[^\[\]]*\]\([^()]*\)|\[[\^@][^\[\]]*\]", ""),
        (r"\[([^\[\]]*)\](?:\([^()]*\)|\[[^\[\]]*\])", r"\1"),
        (r"\{,\}", ","),
        (r"(?<=[0-9])(?:\\,|[\u2009\u202f])(?=[0-9]{3}(?![0-9]))", ","),
        (r"\\(?:begin|end)\{[^{}]*\}|\\(?:left|right|displaystyle)(?![A-Za-z])", " "),
        (r"\\(?:text|math|operatorname)[a-z]*\{([^{}]*)\}|\\boxed(?=\{)", r"\1"),
        (r"\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}", r"\1/\2"),
        (r"\\(?:approx|sim|simeq)(?![A-Za-z])", "≈ "),
        (r"\\(?:times|cdot|ast)(?![A-Za-z])", "×"),
        (r"\\(?:[%$#&_])", lambda m: m[0][1]),
        (r"\\[A-Za-z]+|\\.|&", " "),
        (r"(?<=\S)~(?=\S)", " "),
        (r"(?<=[0-9.]) ?[×x*·⋅∗] ?10(?:\^\{?|(?=[⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹]))", "×10^"),
        (r"×10\^(?=[⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹])", "×10"),
        (r"(?<![\w×.,])10\^\{?(?=[+\-−]?[0-9])", "1×10^"),
        (r"(?<![A-Za-z0-9)])\*+|\*+(?![A-Za-z0-9(])|(?<![^\W_])_+|_+(?![^\W_])", ""),
        (r"[`${}]", ""),
        (r"(?<=[0-9]) ?(?:us|μs)(?![A-Za-z])", " µs"),
        (r"(?<=[0-9])_(?=[0-9]{3})", ","),
        (r"\s+", " "),
        (r"(?<![0-9.,])[0-9]{1,3}(?: [0-9]{3}){1,6}(?![0-9,])", lambda m: m[0].replace(" ", ",")),
    )
)
# Not the 10 of 2×10^9, the 550 of 2,550 or the 8 of 1/8.
_DIGITS = re.compile(
    r"(?<![\w^.])(?<!\^[+\-−])(?<![0-9]/)(?!(?<=[0-9],)[0-9]{3}(?![0-9]))(?!(?<=×)10[\^⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹])"
    r"[+\-−]?\.?[0-9]+(?:,[0-9]{3}(?![0-9]))*"
)
_TOKEN = re.compile(r"\S*")
_NAME = re.compile(r"[^\W\d][\w.-]*-$")  # what stands before the 3 of LLaMA-3-70B
_LETTERS = re.compile(r"[A-Za-zµ/·'’-]+,?")
_IN_WORDS = "|".join(sorted({*WORDS, *PLACES}, key=len, reverse=True))
_SPELT = re.compile(
    rf"(?<![\w-])(?<![0-9] )(?:(?:an?|the) )?(?:{_IN_WORDS})(?:(?: and |[ -])(?:{_IN_WORDS}))*"
    r"(?![A-Za-z])",
    re.IGNORECASE,
)
_AS_UNIT = re.compile(r"(?:the |an? )?(?:one|first|second)", re.IGNORECASE)
_HEDGED = re.compile(rf"(?:(?<!\w)|(?=[~≈]))(?:{HEDGE.pattern})+(?:(?:an?|the) )?$", re.IGNORECASE)


def _words(behind: str) -> str:
    """The last number of the sentence, cell or formula that a text ends with, with the hedge before
    it and the unit after it. Raises DeriveError where there is none that can be read."""
    sentence = plain_text(_ending(behind))
    sentence = _SENTENCE.split(sentence.rstrip(" .,;:!?()[]\"'“”’|"))[-1]
    digits = (m for m in reversed([*_DIGITS.finditer(sentence)]) if not _is_name(sentence, m))
    spelt = [*reversed([*_SPELT.finditer(sentence)])]
    number = next(digits, None)
    # "113 tokens a second" has one number, "the second" has one as well.
    word = next((m for m in spelt if not _AS_UNIT.fullmatch(m[0])), None)
    if number is None and word is None and spelt:
        word = spelt[0]
    if number is None and word is None:
        raise DeriveError("no number before the comment, in its sentence, cell or formula")
    last = max(filter(None, (number, word)), key=lambda match: match.start())
    hedge = _HEDGED.search(sentence[: last.start()])
    start = hedge.start() if hedge else last.start()
    end = _TOKEN.match(sentence, last.end()).end()  # type: ignore[union-attr]
    whole, short = sentence[start:].strip(), sentence[start:end]
    try:
        return literal(whole).text
    except DeriveError:
        for after in sentence[end:].split():
            if not _LETTERS.fullmatch(after) or after.lower() in WORDS:
                break
            short += f" {after}"
        return literal(short.rstrip(" .,;:!?()[]\"'“”’")).text


def _is_name(sentence: str, digits: re.Match[str]) -> bool:
    """Whether digits end a name, as in LLaMA-3-70B."""
    return _NAME.search(sentence[max(0, digits.start() - 40) : digits.start()]) is not None


def _ending(behind: str) -> str:
    """The block of math that a text ends with, or what its last paragraph, item or cell has."""
    if (math := _MATH.search(behind)) is not None:
        return math[1] or math[2] or ""
    *before, last = behind.split("\n")
    lines = [re.split(r"(?<!\\)\|", last)[-1]]
    if lines == [last]:
        while not _ITEM.match(last) and before and (last := before.pop()).strip(" \t>"):
            lines.append(last)
            if last.lstrip(" \t>").startswith("#") or "|" in last:
                lines.pop()
                break
        if item := _ITEM.match(lines[-1]):
            lines[-1] = lines[-1][item.end() :]
    return "\n".join(line.lstrip(" \t>") for line in reversed(lines))


def plain_text(markdown: str) -> str:
    """A piece of Markdown or TeX as words on one line: `$2{,}550$`, `**2,550**` as 2,550."""
    text = html.unescape(markdown)
    for pattern, plain in _PLAIN:
        text = pattern.sub(plain, text)
    return text.strip()
