"""`derive about` and `help` at the prompt: what a name stands for, what can be asked of it, and
lines to try, on a page that is made from its declaration."""

from __future__ import annotations

import inspect
import textwrap
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from types import FunctionType, MappingProxyType
from typing import Any

import sympy as sp

import derive
from derive.commands.facts import described
from derive.cost.assumptions import CORRECTIONS, DEFAULT, OF_STEP, PHRASES, SETS, STEP, assume
from derive.cost.block import Block, Fusion
from derive.cost.limits import LIMITS, Limit
from derive.cost.load import compute_bound
from derive.cost.strategies import STRATEGIES, Strategy
from derive.cost.transformer import BLOCKS
from derive.facts import Chip, Model, chip, shipped
from derive.facts.fact import FOLLOWS
from derive.notation import symbols as v
from derive.notation import tex
from derive.notation.errors import DeriveError, unknown
from derive.solve.optimum import optimum
from derive.solve.threshold import Threshold, threshold

WIDTH, COLUMN = 88, 14
MODEL = "llama-3-70b"
# What a chip and a model do not give, in the lines to try.
SAMPLES: Mapping[sp.Symbol, object] = MappingProxyType({
    v.B: 4194304, v.N: 64, v.T: 8192, v.X: 8, v.Y: 8, v.Z: 8, v.S: 2, v.tp: 8, v.cp: 2, v.pp: 4,
    v.dp: 8, v.B_seq: 512, v.epsilon: "0.1", v.F_E: 2048, v.n_k: 8, v.n_S: 1, v.E: 256, v.n_hit: 4,
})  # fmt: skip
TASK = 'task(model("llama-3-70b"), chip("h100"), cards=64, seq=8192, batch=512)'
FUNCTIONS: Mapping[str, str] = MappingProxyType({
    "threshold": 'threshold(fsdp, B/X, overlap="serial").on(chip("tpu-v5p"))',
    "optimum": "optimum(fsdp_tensor, X)",
    "feasible": 'feasible(fsdp_tensor, 64, chip("tpu-v5p"), model("llama-3-70b"), B=4194304)',
    "steps": "steps(fsdp, B/X)",
    "layer": 'layer("mlp", "B:dp D:dp")',
    "evaluate": "evaluate(alpha**2/F, {F: [8192, 28672]}, {alpha: 2550})",
    "task": TASK,
    "search": f"search({TASK}, top=5)",
    "mesh": "mesh(dict(tp=2, cp=2, dp=2, pp=2), cards_per_node=8)",
})  # fmt: skip


@dataclass(frozen=True)
class Assumed:
    """An assumption, a correction or a set of corrections, by its name."""

    name: str


def run(options: Namespace) -> tuple[None, str]:
    """The page of the name that was typed; an index without one."""
    return None, index() if options.name is None else about(options.name)


def index() -> str:
    """The kinds of things that have a page, with their names."""
    rows = [(kind, " ".join(named)) for kind, named in _kinds().items()]
    return _page("derive about NAME, at the prompt help(NAME); of a kind, a line for each", rows)


def about(name: str) -> str:
    """The page of what a name stands for, of each where it stands for several; of a kind a line
    for each of its things. Raises UnknownName, offering the nearest."""
    kinds = _kinds()
    if name in kinds:
        return "\n".join(f"{each:<21} {_gloss(one)}" for each, one in kinds[name].items())
    things = [named[name] for named in kinds.values() if name in named]
    owners = (*kinds["chips"].values(), *kinds["models"].values())
    things += [one for one in owners if name in one.aliases]
    if not things:
        every = (each for named in kinds.values() for each in named)
        raise unknown("name", name, [*kinds, *every])
    return "\n\n".join(map(page, things))


@lru_cache(maxsize=1)
def _kinds() -> dict[str, dict[str, Any]]:
    """Everything that has a page, by its kind and its name."""
    public = {name: getattr(derive, name) for name in dir(derive)}
    return {
        "strategies": dict(STRATEGIES),
        "blocks": dict(BLOCKS),
        "limits": dict(LIMITS),
        "symbols": {n: known.symbol for n, known in v.vocabulary().items() if known.role != "axis"},
        "assumptions": {n: Assumed(n) for n in (*PHRASES, *STEP, *SETS)},
        "chips": {name: chip(name) for name in shipped().chips},
        "models": dict(shipped().models),
        "functions": {n: one for n, one in public.items() if isinstance(one, FunctionType)},
    }


def _gloss(thing: Any) -> str:
    """A thing in a line."""
    if isinstance(thing, sp.Symbol):
        return repr(v.meaning(thing)).partition(": ")[2]
    if isinstance(thing, FunctionType):
        return textwrap.shorten(_paragraphs(thing)[0], WIDTH, placeholder=" ...")
    if isinstance(thing, (Block, Assumed)):
        return page(thing).splitlines()[0].partition(": ")[2]
    return str(getattr(thing, "title", "") or thing.gloss)


@singledispatch
def page(thing: object) -> str:
    """The page of a thing; "" where there is none."""
    return ""


def _page(title: str, rows: Iterable[tuple[str, str]], lines: Iterable[str] = ()) -> str:
    """A title, rows of a heading and text, and lines to try, of Python or (with a $) of a shell."""
    told = [title]
    lines = [line if line[0] == "$" else f">>> {line}" for line in lines]
    for heading, text in rows:
        for line in text.splitlines():
            first = f"  {heading:<{COLUMN - 3}} "
            wrapper = textwrap.TextWrapper(WIDTH, first, " " * COLUMN, break_on_hyphens=False)
            told += wrapper.wrap(line)
            heading = ""
    return "\n".join([*told, *(f"  {line}" for line in lines)])


@page.register
def _(one: Strategy) -> str:
    block = one.block
    rows = [("layout", repr(block).replace("; ", "\n") if block else "declares its moves")]
    for axis in one.mesh:
        split: dict[str, list[str]] = {}
        for tensor in block.tensors if block else ():
            for dim in (dim for dim, axes in tensor.split.items() if axis.name in axes):
                split.setdefault(dim, []).append(tensor.name)
        does = "; ".join(f"{dim} of {', '.join(names)}" for dim, names in split.items())
        rows.append((axis.name, v.meaning(axis).gloss + (f"; it splits {does}" if does else "")))
    passes = [(cost.name, cost.told(DEFAULT.elements)) for cost in one.passes()]
    rows += [(name, told.removeprefix(name).strip()) for name, told in passes]
    ratios = [dim / axis for axis in one.mesh for dim in (v.B, v.T)]
    ratios += [v.B / v.N, v.N] if len(one.mesh) > 1 else []
    asked = [*ratios, *one.mesh, v.B, v.T, v.F, v.C, v.P]
    forms = [form for expr in asked if (form := _attempt(threshold, one, expr))]
    rows.append(("asked", ", ".join(tex.text(form.question.expr) for form in forms)))
    best = [axis.name for axis in one.mesh if _attempt(optimum, one, axis)]
    rows += [("optimum", ", ".join(best))] if best else []
    rows += [("feasible", "the chips of a slice")] if 1 <= len(one.mesh) <= 2 else []
    title, givers = f"{one.name}: {one.title}", _givers("tpu-v5p")
    if STRATEGIES.get(one.name) != one:
        return _page(title, rows)
    # The question that takes the fewest values, and tells of links rather than of memory.
    shown = min(forms, key=lambda x: (x.symbol == v.P, len(x.missing(*givers))))
    return _tried(title, rows, one.name, shown, "tpu-v5p")


@page.register
def _(one: Limit) -> str:
    form = threshold(one, one.asked)
    of_chip, of_model = _givers("h100")
    every, own = form.missing(), form.missing(of_chip, of_model)
    facts = [s for s in every if s not in own]
    given = [s for s in facts if s in form.missing(of_model)]
    needs = [(given, " of the chip"), ([s for s in facts if s not in given], " of the model")]
    told = [f"{', '.join(map(str, ss))}{whose}" for ss, whose in (*needs, (own, "")) if ss]
    load = form.requirement.loads[0].total
    others = sorted(load.free_symbols, key=v.rank)
    rows = [
        ("so that", one.claim),
        ("demands", f"{tex.text(load)} <= 1"),
        ("formula", str(form)),
        ("needs", "; ".join(told)),
        ("asked", ", ".join(s.name for s in others if _attempt(threshold, one, s))),
        ("left out", one.left_out),
    ]
    return _tried(f"{one.name}: {one.gloss}", rows, one.name, form, "h100")


@page.register
def _(block: Block) -> str:
    name = next((name for name, one in BLOCKS.items() if one == block), "a block")
    sizes = dict.fromkeys(dim for tensor in block.tensors for dim in tensor.dims)
    rows = [("lines", repr(block).replace("; ", "\n")), *_glossed(map(v.find, sizes))]
    rows.append(("parameters", ", ".join(block.parameters) or "none"))
    lines = [f'layer("{name}", "{next(iter(sizes))}:X")'] if name in BLOCKS else []
    return _page(f"{name}: a block that makes {', '.join(block.outputs)}", rows, lines)


@page.register
def _(expr: sp.Expr) -> str:
    return _page(tex.text(expr), _glossed(sorted(expr.free_symbols, key=v.rank)))


@page.register
def _(symbol: sp.Symbol) -> str:
    known, used = v.meaning(symbol), [n for n, one in _subjects().items() if symbol in _uses(one)]
    rows = [("unit", str(known.unit)), ("role", known.role), ("TeX", known.tex)]
    if (follows := {**DEFAULT.constants, **FOLLOWS}.get(symbol)) is not None:
        rows.append(("value", f"{tex.text(follows)}, where nothing else is set"))
    rows.append(("used by", ", ".join(used) or "derivations and plans"))
    solved = (name for name in used if _attempt(threshold, _subjects()[name], symbol))
    name = next(solved, "")
    line = f"threshold({name}, {symbol})" if name else f"meaning({symbol})"
    return _page(f"{symbol}: {known.gloss}", rows, [line])


@page.register
def _(assumed: Assumed) -> str:
    name = assumed.name
    if name in STEP:
        limits = [n for n, one in LIMITS.items() if name in one.rests_on(DEFAULT)]
        kind = "correction" if name in CORRECTIONS else "term"
        rows = [("kind", f"a {kind} of the step model: default has it, notebook has not")]
        rows += [("used by", ", ".join(limits))] if limits else []
        return _page(f"{name}: {STEP[name]}", rows, [f'step_assumptions("default-{name}")'])
    if name in SETS:
        on = ", ".join(each for each in STEP if each in SETS[name]) or "none"
        title = f"{name}: a set of corrections and terms of the step model"
        return _page(title, [("with", on)], [f'threshold(context_ring, T_r, "{name}")'])
    first, second, *_ = PHRASES[name]
    precisions = {**PHRASES["precision"], "same": "that of the weights"}
    ways = [(way, told or precisions[way]) for way, told in PHRASES[name].items()]
    rows = [(str(way), told.removeprefix(f"{way}: ")) for way, told in ways]
    title = f"{name}: an assumption, {first} where nothing else is said"
    if name in Fusion._fields:
        return _page(title, rows, [f'layer("layer").saved(assume({name}={second!r}))'])
    if name in OF_STEP:
        return _page(title, rows, [f"step_model(assume({name}={second!r}))"])
    return _page(title, rows, [f"threshold(fsdp, B/X, {name}={second!r})"])


@page.register
def _(one: Chip | Model) -> str:
    if isinstance(one, Model):
        line = f'threshold(tensor_parallel, Y).on(chip("tpu-v5p"), model("{one.name}"))'
        line = f'model("{one.name}")["P_act"]' if one.experts else line
    elif one.has("bf16") and (one.has("ici_axis") or one.has("scaleup")):
        line = f'threshold(fsdp, B/X).on(chip("{one.name}"))'
    else:
        line = f'chip("{one.name}")["memory"]'
    known = {**shipped().chips, **shipped().models}
    title = "\n".join(described(one, shipped())[1])
    return _page(title, (), [line] if one.name in known else [])


@page.register
def _(function: FunctionType) -> str:
    name = function.__name__
    if _kinds()["functions"].get(name) is not function:
        return ""
    lines = [FUNCTIONS[name]] if name in FUNCTIONS else []
    return _page(called(function), [("", "\n".join(_paragraphs(function)))], lines)


def called(one: Callable[..., Any], first: int = 0) -> str:
    """A function or a class as it is called, without types and from its argument `first`."""
    declared = inspect.signature(one)
    bare = [each.replace(annotation=each.empty) for each in declared.parameters.values()]
    call = declared.replace(parameters=bare[first:], return_annotation=declared.empty)
    return f"{one.__name__}{call}"


def _paragraphs(function: FunctionType) -> list[str]:
    return [" ".join(part.split()) for part in (function.__doc__ or "").split("\n\n")]


def _glossed(symbols: Iterable[sp.Symbol]) -> list[tuple[str, str]]:
    return [(symbol.name, _gloss(symbol)) for symbol in symbols]


def _givers(name: str) -> tuple[Chip, Model]:
    return chip(name), shipped().models[MODEL]


def _tried(
    title: str, rows: list[tuple[str, str]], name: str, form: Threshold, chip_name: str
) -> str:
    """A page with a closed form and its number to try, in Python and in a shell."""
    asked = tex.text(form.question.expr)
    values = {s.name: SAMPLES[s] for s in form.missing(*_givers(chip_name))}
    given = [f'chip("{chip_name}"), model("{MODEL}")', *(f"{k}={x!r}" for k, x in values.items())]
    options = "".join(f" --set {k}={x}" for k, x in values.items())
    shell = f"$ derive ask {name} {asked} --chip {chip_name} --model {MODEL}{options}"
    line = f"threshold({name}, {asked})"
    return _page(title, rows, [line, f"{line}.on({', '.join(given)})", shell])


def _attempt(ask: Callable[..., Any], subject: Strategy | Limit, expr: sp.Expr) -> Any:
    """What is asked; None where there is no closed form."""
    try:
        return ask(subject, expr)
    except DeriveError:
        return None


def _subjects() -> dict[str, Strategy | Limit]:
    return {**STRATEGIES, **LIMITS}


@lru_cache(maxsize=64)
def _uses(one: Strategy | Limit) -> set[sp.Symbol]:
    """The symbols that a strategy or limit is declared in, with those of its links."""
    if isinstance(one, Limit):
        need = one.requirement(DEFAULT)
        symbols = {s for load in need.loads for s in load.total.free_symbols}
        for symbol, expr in reversed(need.definitions):
            symbols |= expr.free_symbols if symbol in symbols else set()
        return symbols
    costs = [(cost.flops, *(move.array_bytes for move in cost.moves)) for cost in one.passes()]
    exprs = [one.chips, one.state or sp.S.One, *(expr for cost in costs for expr in cost)]
    for network in ("torus", "two-level"):
        need = _attempt(
            lambda s, n: compute_bound(s, assume(precision="any", network=n)), one, network
        )
        exprs += [load.total for load in need.loads] if need else []
    symbols = {symbol for expr in exprs for symbol in expr.free_symbols}
    return symbols | ({v.alpha} if {v.C, v.W} <= symbols else set())
