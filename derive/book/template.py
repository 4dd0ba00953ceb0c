"""Templates: Jinja with its own delimiters, cut down to printing, choosing and repeating.

A template can call the chapter's functions and nothing else. Every other construct (attributes,
items, filters, macros, imports, arithmetic, numbers) is refused when the template is read, so that
no template executes code; Jinja's sandbox stands behind that. What a rendering may take is bounded
while it goes on: by the passes of its loops and by the length of its text.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Generator, Iterator, Mapping
from functools import lru_cache
from traceback import walk_stack, walk_tb
from typing import Any, cast

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, nodes
from jinja2.environment import Template
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer

from derive.book.marks import PRIVATE, UNSEEN, from_line
from derive.book.problems import BookError, Problem
from derive.notation.errors import unknown

_ALLOWED = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Call, nodes.Keyword, nodes.Name,
    nodes.Const, nodes.If, nodes.For, nodes.List, nodes.Tuple, nodes.Compare, nodes.Operand,
    nodes.And, nodes.Or, nodes.Not, nodes.Concat, nodes.CondExpr, nodes.Assign, nodes.Scope,
)  # fmt: skip
_SAID = {
    nodes.Getattr: "an attribute", nodes.Getitem: "an item", nodes.Filter: "a filter",
    nodes.Test: "a test", nodes.Include: "include", nodes.Import: "import",
    nodes.FromImport: "import", nodes.Extends: "extends", nodes.Macro: "a macro",
    nodes.BinExpr: "arithmetic", nodes.UnaryExpr: "arithmetic", nodes.Block: "a block",
    nodes.ScopedEvalContextModifier: "autoescape", nodes.CallBlock: "a call block",
    nodes.AssignBlock: "set around text",
}  # fmt: skip
_LARGEST, _PASSES, _DEEPEST = 2_000_000, 10_000, 10
_MERGE = re.compile("^(?:<{7}|>{7}) .*", re.MULTILINE)
_CALL = re.compile(r"""<<-?\s*(\w+)(?:"[^"\n]*"|'[^'\n]*'|(?!<<|>>)[^"'])*(?:>>)?""")
_QUOTED = re.compile(r"""("|').*?\1""")
AS_TEXT = "<< that is text is written << '<<' >>, or stands between <% raw %> and <% endraw %>"


class _LineNumbers(Extension):
    """Puts the number of each line of the template before the text that comes from it."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        for token in stream:
            if token.type == "data":
                lines = token.value.split("\n")
                text = "\n".join(from_line(token.lineno + n) + t for n, t in enumerate(lines))
                yield Token(token.lineno, "data", text)
            else:
                yield token


class _Environment(SandboxedEnvironment):
    """Prints and joins nothing but text, and counts the passes of loops."""

    passes = 0

    def counted(self, items: object) -> Iterator[object]:
        """The items of a list, each of them a pass."""
        if not isinstance(items, (list, tuple)):
            raise TypeError(f"expected a list, found {_said(items)}")
        for item in items:
            self.passes += 1
            if self.passes > _PASSES:
                raise ValueError(f"more than {_PASSES:,} passes of loops")
            yield item

    def joined(self, *texts: object) -> str:
        """What `~` makes of texts."""
        parts = [_text(text) for text in texts]
        if sum(map(len, parts)) > _LARGEST:
            raise ValueError(f"a text of more than {_LARGEST:,} characters")
        return "".join(parts)


class _Bounded(NodeTransformer):
    """Has the environment count passes and join texts."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        node = cast(nodes.For, self.generic_visit(node))
        node.iter = _asked("counted", [cast(nodes.Expr, node.iter)], node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Call:
        node = cast(nodes.Concat, self.generic_visit(node))
        return _asked("joined", node.nodes, node.lineno)


def _asked(name: str, arguments: list[nodes.Expr], line: int) -> nodes.Call:
    function = nodes.EnvironmentAttribute(name)
    return nodes.Call(function, arguments, [], None, None).set_lineno(line)  # type: ignore


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, found {_said(value)}")
    return value


def _said(value: object) -> str:
    """What a value is; raises UndefinedError for a name that is not set."""
    if isinstance(value, (list, tuple)):
        return "a list"
    return "text" if isinstance(value, str) else f"{value}"


def source_of(data: bytes, path: str) -> str:
    """The text of a template; raises BookError where it is no UTF-8, or has merge markers or
    characters that cannot be printed."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BookError(Problem(path, line, f"not UTF-8: byte {error.start} of the file")) from None
    if len(text) > _LARGEST:
        raise BookError(Problem(path, 0, f"{len(text)} characters, the limit is {_LARGEST}"))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    for pattern, said in (
        (UNSEEN, "the character {!r} cannot be printed"),
        (_MERGE, "a merge marker: {!r}"),
    ):
        if match := pattern.search(text):
            raise BookError(Problem(path, _line(text, match.start()), said.format(match[0])))
    return text


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def compiled(source: str, path: str, names: Mapping[str, Any]) -> Template:
    """The template, allowed to use `names` only.

    Raises BookError with the line of a syntax error, an undefined name or a refused construct.
    """
    environment = _Environment(
        variable_start_string="<<", variable_end_string=">>",
        block_start_string="<%", block_end_string="%>",
        comment_start_string="<#", comment_end_string="#>",
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True,
        trim_blocks=True, lstrip_blocks=True, newline_sequence="\n", extensions=[_LineNumbers],
        optimized=False, finalize=_text,
    )  # fmt: skip
    environment.globals.clear()
    environment.filters.clear()
    environment.tests.clear()
    _foreign(source, path, names)
    try:
        tree = environment.parse(source, path, path)
        _check(tree, path, names)
        code = environment.compile(_Bounded().visit(tree), path, path)
    except TemplateSyntaxError as error:
        text = PRIVATE.sub("", error.message or "syntax error")
        line = error.lineno
        lines = source.split("\n")
        until = "\n".join(lines[:line])
        opening, begun = until.rpartition("<<"), len(until) - len(lines[line - 1])
        if opening[1] and ">>" not in opening[2] and not _called(opening[2], names):
            line, text = _line(opening[0], len(opening[0])), f"{text}; a {AS_TEXT}"
        for call in _CALL.finditer(source):
            if call[1] in names and call.start() < len(until) and begun <= call.end():
                if missing := _missing(call):
                    line, text = _line(source, call.start()), missing
                break
        raise BookError(Problem(path, line, text)) from None
    except RecursionError:
        raise BookError(Problem(path, 0, "the template is nested too deeply")) from None
    except (SyntaxError, ValueError) as error:  # of Python, which Jinja writes
        raise BookError(Problem(path, 0, f"{error}")) from None
    return Template.from_code(environment, code, dict(names))


def _missing(call: re.Match[str]) -> str:
    """What closes a call that is not closed; "" where one is."""
    if call[0].endswith(">>"):
        bare = _QUOTED.sub("", call[0])
        return f"<< {call[1]}: expected ) before >>" if bare.count("(") > bare.count(")") else ""
    if call.string[call.end() : call.end() + 1] in ("'", '"') and ")" not in call[0]:
        return f"<< {call[1]}: expected the quote that closes {call.string[call.end()]}"
    return f"<< {call[1]}: expected >> after it"


def _called(text: str, names: Mapping[str, Any]) -> bool:
    match = re.match(r"-?\s*(\w+)", text)
    return match is not None and match[1] in names


def _foreign(source: str, path: str, names: Mapping[str, Any]) -> None:
    """Raise BookError for what Jinja would run with its usual delimiters, which are text here."""
    call = rf"\{{\{{-?\s*(?:{'|'.join(names)})\b(?=\s*\()"
    tag = r"\{%-?\s*(?:if|elif|else|endif|for|endfor|set|raw|endraw)\b"
    if match := re.search(f"{call}|{tag}", source):
        first, last = ("<<", ">>") if match[0].startswith("{{") else ("<%", "%>")
        text = (
            f"{match[0]!r} is text here: write {first}{match[0][2:]} ... {last}; "
            f"braces that are meant are << '{match[0][:2]}' >>"
        )
        raise BookError(Problem(path, _line(source, match.start()), text))


def _check(tree: nodes.Template, path: str, names: Mapping[str, Any]) -> None:
    every = list(tree.find_all(nodes.Node))
    stored = {n.name for n in every if isinstance(n, nodes.Name) and n.ctx != "load"}
    called = {id(n.node) for n in every if isinstance(n, nodes.Call)}
    printed = {id(child) for n in every if isinstance(n, nodes.Output) for child in n.nodes}
    problems = [Problem(path, line, "loops and choices nested too deeply") for line in _deep(tree)]
    for node in every:
        text, hint = "", f"; a {AS_TEXT}" if id(node) in printed else ""
        if said := _refused(node):
            text = f"a template may not use {said}"
            text += hint if isinstance(node, nodes.Const) and type(node.value) is not str else ""
        elif isinstance(node, nodes.Name) and node.ctx != "load":
            text = f"{node.name} cannot be set" if node.name in names else ""
        elif isinstance(node, nodes.Name):
            if node.name not in names and node.name not in stored:
                text = f"{unknown('name', node.name, {*names, *stored})}{hint}"
            elif callable(names.get(node.name)) and id(node) not in called:
                text = f"{node.name} is a function: write {node.name}(...)"
            elif not callable(names.get(node.name)) and id(node) in called:
                text = f"{node.name} is no function: write it without (...)"
        if text:
            problems.append(Problem(path, node.lineno, text))
    if problems:
        raise BookError(*dict.fromkeys(sorted(problems, key=lambda p: p.line)))


def _refused(node: nodes.Node) -> str:
    """What a template may not use; empty for what it may."""
    if isinstance(node, nodes.Filter):
        return f"a filter ({node.name})"
    if not isinstance(node, _ALLOWED):
        said = next((text for kind, text in _SAID.items() if isinstance(node, kind)), "")
        return said or type(node).__name__.lower()
    if isinstance(node, nodes.Const) and type(node.value) in (int, float):
        return "a number: figures.py declares those"
    if isinstance(node, nodes.Const) and (match := UNSEEN.search(str(node.value))):
        return f"the character {match[0]!r}"
    if isinstance(node, nodes.Call):
        if not isinstance(node.node, nodes.Name):
            return "a call of anything but the chapter's functions"
        if node.dyn_args or node.dyn_kwargs:
            return "a star before an argument"
        if len({keyword.key for keyword in node.kwargs}) < len(node.kwargs):
            return "an argument twice"
    return ""


def _deep(node: nodes.Node, depth: int = 0) -> Iterator[int]:
    """The lines of loops and choices that stand in too many others."""
    depth += isinstance(node, (nodes.For, nodes.If))
    if depth > _DEEPEST:
        yield node.lineno
        return
    for child in node.iter_child_nodes():
        yield from _deep(child, depth)


def current_line() -> int:
    """The line of the template that is being rendered right now; 0 outside of one."""
    for frame, line in walk_stack(sys._getframe(1)):
        template = frame.f_globals.get("__jinja_template__")
        if isinstance(template, Template):
            lines = _lines(template)
            return lines[bisect_right(lines, (line, sys.maxsize)) - 1][1]
    return 0


@lru_cache(maxsize=1)
def _lines(template: Template) -> list[tuple[int, int]]:
    """The lines of the template's code, each with the line of its text."""
    return [(0, 1), *((code, text) for text, code in template.debug_info)]


def rendered(template: Template, path: str) -> str:
    """The template's text with its marks; raises BookError with the line of what went wrong."""
    stream = cast(Generator[str, None, None], template.generate())
    pieces, length = [], 0
    try:
        for piece in stream:
            pieces.append(piece)
            length += len(piece)
            if length > _LARGEST:
                stream.throw(ValueError(f"a chapter of more than {_LARGEST:,} characters"))
        return "".join(pieces)
    except (TemplateError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raised = walk_tb(error.__traceback__)
        lines = [line for frame, line in raised if frame.f_code.co_filename == path]
        text = str(error) or type(error).__name__
        raise BookError(Problem(path, lines[-1] if lines else 0, text)) from None
