"""What a book rests on, changed one thing at a time: facts, coefficients, exponents, defaults.

A number becomes a tenth more, which no claim of two digits can miss, and a small whole number or an
exponent one more; a count of the catalogue is doubled, since some have to divide others; a sum
becomes a difference, a product a ratio, a power a product. Indices, what numbers are compared with
and the book's own operators are let be.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

from derive.cost.assumptions import DEFAULT, PHRASES, STEP
from derive.facts.fact import CHIP_FACTS, MODEL_COUNTS, MODEL_FACTS, MODEL_FLAGS

FORMULAS = ("facts/data/*.toml", "facts/fact.py", "facts/owners.py", "cost/*.py", "plan/*.py")
OWN = ("*.toml", "*.py")  # of a chapter
_FACTS = {**CHIP_FACTS, **MODEL_FACTS, **MODEL_COUNTS, **dict.fromkeys(MODEL_FLAGS)}
_VALUE = re.compile(r"(?:\bvalue|^\w+)\s*=\s*(\[[\d, ]*]|[\d._e+]+|true|false)(?=[ ,}\n])")
_FLAGS = {"true": "false", "false": "true"}
_OTHER: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(), ast.Sub: ast.Add(), ast.Mult: ast.Div(), ast.Div: ast.Mult(),
    ast.Pow: ast.Mult(),
}  # fmt: skip
_CONSTANTS = {"Zero": "One", "One": "Zero", "Half": "One"}  # of sp.S
_TAKING = ("Integer", "Rational", "Fraction", "number", "Min", "Max")  # numbers of formulas


@dataclass(frozen=True)
class Mutant:
    """A file with one change, at `line`: its whole `content`, the `kind` of what is changed, the
    `place` (a fact and its source, a function), what stands there before and after, and whether it
    runs only where a function is called, which is its place."""

    file: str
    line: int
    kind: str
    place: str
    before: str
    after: str
    content: str = ""
    called: bool = False

    @property
    def at(self) -> str:
        """Where it is, without the line, which moves."""
        return f"{self.file}: {self.place}"

    @property
    def name(self) -> str:
        return f"{self.at}: {self.before} -> {self.after}"


def mutants(package: Path, folders: Iterable[Path], only: str = "") -> Iterator[Mutant]:
    """Every change of what chapters rest on, in their `folders` and in derive's `package`, by file
    and line; files are called from the folders that hold all chapters, or the package. `only` those
    whose names have that text."""
    tops = [(folder, folder.parents[1], OWN) for folder in folders]
    for top, base, patterns in (*tops, (package, package.parent, FORMULAS)):
        for path in sorted(path for pattern in patterns for path in top.glob(pattern)):
            file, text = path.relative_to(base).as_posix(), path.read_text("utf-8")
            if path.suffix == ".toml":
                yield from (one for one in _facts(file, text) if only in one.name)
            else:
                found = _formulas(file, text, top != package, only)
                yield from sorted(found, key=lambda one: (one.line, one.name))


def _facts(file: str, text: str) -> Iterator[Mutant]:
    lines, owner, key = text.splitlines(keepends=True), "", ""
    for n, line in enumerate(lines):
        if header := re.match(r"\[((?:chips|models)\.)?(.+)\]", line):
            owner = re.sub(r"\.(facts|shape)$", "", header[2]) * bool(header[1])
        key = named[1] if (named := re.match(r"(\w+) = ", line)) else key
        if owner and key in _FACTS and (value := _VALUE.search(line)):
            before, after = value[1], _FLAGS.get(value[1], "")
            if (fact := _FACTS[key]) and fact.kind == "number":
                after = str((Decimal(before) * Decimal("1.1")).normalize()).lower()
            elif not after:
                after = re.sub(r"\d+", lambda size: str(2 * int(size[0])), before, count=1)
            sources = re.findall(r'\b(?:source|part) = "([^"]*)"', line)
            place = " ".join([f"{owner}.{key}", *[f"[{'#'.join(sources)}]"] * bool(sources)])
            changed = line[: value.start(1)] + after + line[value.end(1) :]
            content = "".join([*lines[:n], changed, *lines[n + 1 :]])
            yield Mutant(file, n + 1, "fact", place, before, after, content)


def _formulas(file: str, text: str, own: bool, only: str) -> Iterator[Mutant]:
    tree = ast.parse(text)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        holder = above.get(node, node)
        while isinstance(holder, (ast.UnaryOp, ast.IfExp)):
            holder = above[holder]
        around, changes = [node], list(_changes(node, holder, own))
        while changes and around[-1] in above:
            around.append(above[around[-1]])
        if not changes or any(isinstance(one, ast.Subscript) for one in around):
            continue
        places = (ast.FunctionDef, ast.ClassDef)
        names = [one.name for one in reversed(around) if isinstance(one, places)]
        if isinstance(statement := around[-2:][0], (ast.Assign, ast.AnnAssign)):
            names = [re.split("[:=]", ast.unparse(statement))[0].strip()]
        bodies = ((o, b.body) for o, b in pairwise(around) if isinstance(b, ast.FunctionDef))
        called = any(one in body for one, body in bodies)
        shown = holder if isinstance(holder, (ast.BinOp, ast.Call)) else node
        for kind, field, value in changes:
            before, old = ast.unparse(shown), getattr(node, field)
            setattr(node, field, value)
            place, line = ".".join(names) or "module", int(getattr(node, "lineno", 0))
            mutant = Mutant(file, line, kind, place, before, ast.unparse(shown), called=called)
            if only in mutant.name:
                yield replace(mutant, content=ast.unparse(tree))
            setattr(node, field, old)


def _changes(node: ast.AST, holder: ast.AST, own: bool) -> Iterator[tuple[str, str, object]]:
    """Each change of a node: its kind, the field that changes and its other value."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OTHER and not own:
        joins = (ast.Tuple, ast.List, ast.Set, ast.JoinedStr)  # no sums
        if not any(isinstance(s, joins) or _is_text(s) for s in (node.left, node.right)):
            yield "operator", "op", _OTHER[type(node.op)]
    elif isinstance(node, ast.Attribute):
        if node.attr in _CONSTANTS and ast.unparse(node.value) == "sp.S":
            yield "number", "attr", _CONSTANTS[node.attr]
    elif isinstance(node, ast.Constant):
        taken = isinstance(holder, ast.Call) and ast.unparse(holder.func).endswith(_TAKING)
        counts = isinstance(holder, ast.BinOp) or (isinstance(holder, ast.Dict) and not own)
        if type(node.value) is int and (counts or taken or isinstance(holder, ast.Assign)):
            yield "number", "value", node.value + max(1, node.value // 10)
        elif _is_text(node) and taken and re.fullmatch(r"[\d.]+(e\d+)?", str(node.value)):
            yield "number", "value", str(Decimal(str(node.value)) * Decimal("1.1"))
    elif isinstance(node, ast.AnnAssign) and getattr(holder, "name", "") == "Assumptions":
        name = ast.unparse(node.target)
        others = [repr(choice) for choice in PHRASES.get(name, ())]
        if name == "corrections":
            others = [f"frozenset(STEP) - {{{one!r}}}" for one in STEP]
        for other in (other for other in others if other != repr(getattr(DEFAULT, name))):
            yield "default", "value", ast.parse(other, mode="eval").body


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
