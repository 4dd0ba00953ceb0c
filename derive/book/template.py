"""Templates: Jinja with its own delimiters, cut down to printing, choosing and repeating.

A template can call the chapter's functions and nothing else. Every other construct (attributes,
items, filters, macros, imports, arithmetic) is refused when the template is read, so that no
template executes code; Jinja's sandbox stands behind that.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import lru_cache
from traceback import walk_stack, walk_tb
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, nodes
from jinja2.environment import Template
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.sandbox import SandboxedEnvironment

from derive.book.marks import PRIVATE, from_line
from derive.book.problems import BookError, Problem
from derive.notation.errors import unknown

_ALLOWED = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Call, nodes.Keyword, nodes.Name,
    nodes.Const, nodes.If, nodes.For, nodes.List, nodes.Tuple, nodes.Compare, nodes.Operand,
    nodes.And, nodes.Or, nodes.Not, nodes.Concat, nodes.CondExpr, nodes.Assign,
)  # fmt: skip
_SAID = {
    nodes.Getattr: "an attribute", nodes.Getitem: "an item", nodes.Filter: "a filter",
    nodes.Test: "a test", nodes.Include: "include", nodes.Import: "import",
    nodes.FromImport: "import", nodes.Extends: "extends", nodes.Macro: "a macro",
    nodes.BinExpr: "arithmetic", nodes.UnaryExpr: "arithmetic", nodes.Block: "a block",
}  # fmt: skip
_LARGEST = 2_000_000


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


def source_of(data: bytes, path: str) -> str:
    """The text of a template; raises BookError where it is no UTF-8 or has private characters."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BookError(Problem(path, line, f"not UTF-8: byte {error.start} of the file")) from None
    if len(text) > _LARGEST:
        raise BookError(Problem(path, 0, f"{len(text)} characters, the limit is {_LARGEST}"))
    if match := PRIVATE.search(text):
        line = text.count("\n", 0, match.start()) + 1
        raise BookError(Problem(path, line, f"private-use character {match[0]!r}"))
    if "\0" in text:
        raise BookError(Problem(path, text.count("\n", 0, text.index("\0")) + 1, "a zero byte"))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def compiled(source: str, path: str, names: Mapping[str, Any]) -> Template:
    """The template, allowed to use `names` only.

    Raises BookError with the line of a syntax error, an undefined name or a refused construct.
    """
    environment = SandboxedEnvironment(
        variable_start_string="<<", variable_end_string=">>",
        block_start_string="<%", block_end_string="%>",
        comment_start_string="<#", comment_end_string="#>",
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True,
        trim_blocks=True, lstrip_blocks=True, newline_sequence="\n", extensions=[_LineNumbers],
        optimized=False,
    )  # fmt: skip
    environment.globals.clear()
    environment.filters.clear()
    environment.tests.clear()
    try:
        tree = environment.parse(source, path, path)
        _check(tree, path, names)
        code = environment.compile(tree, path, path)
    except TemplateSyntaxError as error:
        text = re.sub(f"[{PRIVATE.pattern[1:-1]}]", "", error.message or "syntax error")
        raise BookError(Problem(path, error.lineno, text)) from None
    except RecursionError:
        raise BookError(Problem(path, 0, "the template is nested too deeply")) from None
    return Template.from_code(environment, code, dict(names))


def _check(tree: nodes.Template, path: str, names: Mapping[str, Any]) -> None:
    every = list(tree.find_all(nodes.Node))
    stored = {n.name for n in every if isinstance(n, nodes.Name) and n.ctx != "load"}
    problems = []
    for node in every:
        if not isinstance(node, _ALLOWED):
            said = next((text for kind, text in _SAID.items() if isinstance(node, kind)), "")
            said = said or type(node).__name__.lower()
            if isinstance(node, nodes.Filter):
                said += f" ({node.name})"
            problems.append(Problem(path, node.lineno, f"a template may not use {said}"))
        elif isinstance(node, nodes.Name) and node.ctx == "load":
            if node.name not in names and node.name not in stored:
                error = unknown("name", node.name, {*names, *stored})
                problems.append(Problem(path, node.lineno, str(error)))
        elif isinstance(node, nodes.Name) and node.name in names:
            problems.append(Problem(path, node.lineno, f"{node.name} cannot be set"))
    if problems:
        raise BookError(*dict.fromkeys(sorted(problems, key=lambda p: p.line)))


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
    try:
        return template.render()
    except (TemplateError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raised = walk_tb(error.__traceback__)
        lines = [line for frame, line in raised if frame.f_code.co_filename == path]
        text = str(error) or type(error).__name__
        raise BookError(Problem(path, lines[-1] if lines else 0, text)) from None
